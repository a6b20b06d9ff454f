"""The place of Triton's extension; contains the names that PyTorch uses of it."""

from . import libtriton

__all__ = ["libtriton"]
