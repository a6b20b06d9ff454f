"""NVIDIA GPUs."""

from . import compiler, driver

__all__ = ["compiler", "driver"]
