"""Names of Triton's extension that PyTorch uses to find out which arguments a kernel writes."""

from . import ir

__all__ = ["ir"]
