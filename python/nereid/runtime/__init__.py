"""Kernels at run time: `jit`, launching, autotuning.

Tuning and the cache of files are imported at their first use, so that a program that only launches starts faster.
"""

import sys

from .. import _names_later


class _Runtime(type(sys)):
    """The class of this module: its `driver` is the object, also after somebody has imported the module of that name."""

    @property
    def driver(self):
        if "_driver" not in globals():
            from .driver import driver
            self.driver = driver
        return _driver  # noqa: F821

    @driver.setter
    def driver(self, value):
        if not isinstance(value, type(sys)):
            globals()["_driver"] = value


sys.modules[__name__].__class__ = _Runtime

from . import jit  # noqa: E402  (the module, as in Triton)
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
__getattr__, __dir__ = _names_later(globals(), {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names},
                                   ("_async_compile", "autotuner", "build", "cache", "dependencies", "driver", "errors", "interpreter"))
