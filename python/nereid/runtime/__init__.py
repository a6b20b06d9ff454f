"""Kernels at run time: `jit`, launching, autotuning."""

from ..errors import OutOfResources
from . import errors
from .autotuner import Autotuner, Config, Heuristics, autotune, heuristics
from .driver import driver
from .jit import (ConstexprFunction, JITFunction, KernelInterface, MockTensor, TensorWrapper, constexpr_function, jit,
                  reinterpret)

__all__ = [
    "Autotuner", "Config", "ConstexprFunction", "Heuristics", "JITFunction", "KernelInterface", "MockTensor", "OutOfResources",
    "TensorWrapper", "autotune", "constexpr_function", "driver", "errors", "heuristics", "jit", "reinterpret"
]
