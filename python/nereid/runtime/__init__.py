"""Kernels at run time: `jit`, launching, autotuning.

What tunes and what keeps files is imported when it is first used: a program that only launches starts without.
"""

from .. import _later
from . import jit  # the module, as in Triton
from .driver import driver
from .jit import (ConstexprFunction, JITFunction, KernelInterface, MockTensor, TensorWrapper, constexpr_function,
                  reinterpret)

__all__ = [
    "Autotuner", "Config", "ConstexprFunction", "Heuristics", "InterpreterError", "JITFunction", "KernelInterface", "MockTensor",
    "OutOfResources", "RedisRemoteCacheBackend", "RemoteCacheBackend", "TensorWrapper", "autotune", "constexpr_function", "driver", "errors", "heuristics", "jit", "reinterpret"
]

_HOMES = {
    "autotuner": ("Autotuner", "Config", "Heuristics", "autotune", "heuristics"), "cache": ("RedisRemoteCacheBackend", "RemoteCacheBackend"),
    "errors": ("InterpreterError", "OutOfResources")
}
__getattr__, __dir__ = _later.names(globals(), {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names},
                                   ("_async_compile", "autotuner", "build", "cache", "dependencies", "errors", "interpreter"))
