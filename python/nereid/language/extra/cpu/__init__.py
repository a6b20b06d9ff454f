"""Functions of the target `cpu` beside the language: `libdevice`."""

from . import libdevice

__all__ = ["libdevice"]
