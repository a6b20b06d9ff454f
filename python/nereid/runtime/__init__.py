"""Kernels at run time: `jit`, launching, autotuning.

What tunes and what keeps files is imported when it is first used: a program that only launches starts without.
"""

from . import jit  # the module, as in Triton
from .driver import driver
from .jit import (ConstexprFunction, JITFunction, KernelInterface, MockTensor, TensorWrapper, constexpr_function,
                  reinterpret)

_LATER = {"Autotuner": "autotuner", "Config": "autotuner", "Heuristics": "autotuner", "autotune": "autotuner", "heuristics": "autotuner",
          "RedisRemoteCacheBackend": "cache", "RemoteCacheBackend": "cache", "InterpreterError": "errors", "OutOfResources": "errors"}
_MODULES = {"_async_compile", "autotuner", "build", "cache", "dependencies", "errors", "interpreter"}

__all__ = [
    "Autotuner", "Config", "ConstexprFunction", "Heuristics", "InterpreterError", "JITFunction", "KernelInterface", "MockTensor",
    "OutOfResources", "RedisRemoteCacheBackend", "RemoteCacheBackend", "TensorWrapper", "autotune", "constexpr_function", "driver", "errors", "heuristics", "jit", "reinterpret"
]


def __getattr__(name):
    if name not in _LATER and name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    return value


def __dir__():
    return sorted({*globals(), *__all__, *_MODULES})
