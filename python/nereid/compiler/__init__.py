"""Compiling kernels."""

from ..errors import CompilationError
from . import errors
from .compiler import AsmDict, CompiledKernel, LazyDict, compile, make_backend, max_shared_mem
from .source import ASTSource, IRSource

__all__ = [
    "ASTSource", "AsmDict", "CompilationError", "CompiledKernel", "IRSource", "LazyDict", "compile", "errors", "get_cache_key",
    "make_backend", "max_shared_mem"
]


def __getattr__(name):
    if name == "get_cache_key":
        from ..runtime.cache import get_cache_key
        return get_cache_key
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
