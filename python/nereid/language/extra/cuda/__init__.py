"""Functions of the target `cuda` beside the language: `libdevice`."""

from . import libdevice

__all__ = ["libdevice"]
