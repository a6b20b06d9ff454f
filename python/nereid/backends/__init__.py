"""What kernels can be compiled for."""

from .compiler import GPUTarget

__all__ = ["GPUTarget"]
