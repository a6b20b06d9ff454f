"""Compiling kernels."""

from .. import _names_later
from .compiler import AsmDict, CompiledKernel, LazyDict, compile, make_backend, max_shared_mem

__all__ = [
    "ASTSource", "AsmDict", "CompilationError", "CompiledKernel", "IRSource", "LazyDict", "compile", "errors", "get_cache_key",
    "make_backend", "max_shared_mem"
]

__getattr__, __dir__ = _names_later(globals(), {
    "ASTSource": "nereid.compiler.source", "IRSource": "nereid.compiler.source", "CompilationError": "nereid.errors",
    "get_cache_key": "nereid.runtime.cache"
}, ("errors", "source"), fresh=("get_cache_key", ))
