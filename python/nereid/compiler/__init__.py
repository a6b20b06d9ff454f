"""Compiled kernels."""

from ..errors import CompilationError
from .compiler import AsmDict, CompiledKernel

__all__ = ["AsmDict", "CompilationError", "CompiledKernel"]
