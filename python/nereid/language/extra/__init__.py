"""Functions outside of the core language: `libdevice`."""

from . import cpu, cuda, libdevice

__all__ = ["cpu", "cuda", "libdevice"]
