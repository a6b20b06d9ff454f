"""Compiling kernels."""

from .compiler import AsmDict, CompiledKernel, LazyDict, compile, make_backend, max_shared_mem

_LATER = {"ASTSource": ".source", "IRSource": ".source", "CompilationError": "..errors", "get_cache_key": "..runtime.cache"}
_MODULES = {"errors", "source"}

__all__ = [
    "ASTSource", "AsmDict", "CompilationError", "CompiledKernel", "IRSource", "LazyDict", "compile", "errors", "get_cache_key",
    "make_backend", "max_shared_mem"
]


def __getattr__(name):
    if name not in _LATER and name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    value = getattr(importlib.import_module(_LATER[name], __name__), name)
    if name != "get_cache_key":  # which a program may replace in its own module
        globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__, *_MODULES})
