"""NVIDIA GPUs."""

from ... import _later

__all__ = ["compiler", "driver"]

__getattr__, __dir__ = _later.names(globals(), modules=__all__)
