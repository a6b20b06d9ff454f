"""Functions of the target `cpu` outside of the core language: `libdevice`."""

from . import libdevice

__all__ = ["libdevice"]
