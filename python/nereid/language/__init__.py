"""The language: what kernels call `tl`.

Functions come from the compiler's builtin table (`_builtins`, generated), types and constants from `core`. Outside of a
compilation the functions raise ValueError; types and constants can be used anywhere.
"""

from .. import _later
from . import core
from ._builtins import *  # noqa: F401, F403
from .core import (TRITON_MAX_TENSOR_NUMEL, PropagateNan, aggregate_replace, bfloat16, block_type, const, constexpr, constexpr_type, dtype,
                   float8e4b8, float8e4b15, float8e4nv, float8e5, float8e5b16, float16, float32, float64, int1, int8, int16, int32,
                   int64, pi32_t, pointer_type, slice, str_to_ty, tensor, tensor_descriptor, tensor_descriptor_base,
                   tensor_descriptor_type, tuple, tuple_type, uint8, uint16, uint32, uint64, void)

__all__ = [
    "PropagateNan", "TRITON_MAX_TENSOR_NUMEL", "aggregate_replace", "bfloat16", "block_type", "const", "constexpr", "constexpr_type", "core", "dtype",
    "extra", "float16", "float32", "float64", "float8e4b15", "float8e4b8", "float8e4nv", "float8e5", "float8e5b16", "int1", "int16",
    "int32", "int64", "int8", "math", "pi32_t", "pointer_type", "slice", "standard", "str_to_ty", "target_info", "tensor",
    "tensor_descriptor", "tensor_descriptor_base", "tensor_descriptor_type", "tuple", "tuple_type", "uint16", "uint32", "uint64", "uint8", "void"
]
__all__ += core._builtins.__all__

# Modules are imported when they are first used; `extra` has hundreds of functions.
__getattr__, __dir__ = _later.names(globals(), modules=("extra", "math", "standard", "target_info"))
