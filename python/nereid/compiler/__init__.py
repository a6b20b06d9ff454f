"""Compiling kernels."""

from .. import _later
from .compiler import AsmDict, CompiledKernel, LazyDict, compile, make_backend, max_shared_mem

__all__ = [
    "ASTSource", "AsmDict", "CompilationError", "CompiledKernel", "IRSource", "LazyDict", "compile", "errors", "get_cache_key",
    "make_backend", "max_shared_mem"
]

__getattr__, __dir__ = _later.names(globals(), {
    "ASTSource": "nereid.compiler.source", "IRSource": "nereid.compiler.source", "CompilationError": "nereid.errors",
    "get_cache_key": "nereid.runtime.cache"
}, ("errors", "source"), fresh=("get_cache_key", ))
