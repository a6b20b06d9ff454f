"""Compiling kernels."""

from .. import _names_later
from .compiler import ASTSource, AsmDict, CompiledKernel, LazyDict, compile, max_shared_mem

__all__ = [
    "ASTSource", "AsmDict", "CompilationError", "CompiledKernel", "IRSource", "LazyDict", "compile", "errors", "get_cache_key",
    "make_backend", "max_shared_mem"
]

__getattr__, __dir__ = _names_later(globals(), {
    "IRSource": "nereid.compiler.source", "make_backend": "nereid.backends._table", "CompilationError": "nereid.errors",
    "get_cache_key": "nereid.runtime.cache"
}, ("errors", "source"), fresh=("get_cache_key", ))
