"""Kernels at run time: `jit`, launching, autotuning."""

from ..errors import InterpreterError, OutOfResources
from . import errors
from . import jit  # the module, as in Triton
from .autotuner import Autotuner, Config, Heuristics, autotune, heuristics
from .cache import RedisRemoteCacheBackend, RemoteCacheBackend
from .driver import driver
from .jit import (ConstexprFunction, JITFunction, KernelInterface, MockTensor, TensorWrapper, constexpr_function,
                  reinterpret)

__all__ = [
    "Autotuner", "Config", "ConstexprFunction", "Heuristics", "InterpreterError", "JITFunction", "KernelInterface", "MockTensor",
    "OutOfResources", "RedisRemoteCacheBackend", "RemoteCacheBackend", "TensorWrapper", "autotune", "constexpr_function", "driver", "errors", "heuristics", "jit", "reinterpret"
]
