"""The CPU."""

from . import compiler, driver

__all__ = ["compiler", "driver"]
