"""Where Triton keeps its extension; here stands what PyTorch asks of it."""

from . import libtriton

__all__ = ["libtriton"]
