"""NVIDIA GPUs."""

from ... import _names_later

__all__ = ["compiler", "driver"]

__getattr__, __dir__ = _names_later(globals(), modules=__all__)
