"""The language: what kernels call `tl`.

Functions come from the compiler's builtin table (`_builtins`, generated), types and constants from `core`. Outside of a
compilation the functions raise ValueError; types and constants can be used anywhere.
"""

from .. import _later
from . import core
from .core import (TRITON_MAX_TENSOR_NUMEL, PropagateNan, aggregate_replace, bfloat16, block_type, const, constexpr, constexpr_type, dtype,
                   float8e4b8, float8e4b15, float8e4nv, float8e5, float8e5b16, float16, float32, float64, int1, int8, int16, int32,
                   int64, pi32_t, pointer_type, slice, str_to_ty, tensor, tensor_descriptor, tensor_descriptor_base,
                   tensor_descriptor_type, tuple, tuple_type, uint8, uint16, uint32, uint64, void)

_OWN = [
    "PropagateNan", "TRITON_MAX_TENSOR_NUMEL", "aggregate_replace", "bfloat16", "block_type", "const", "constexpr", "constexpr_type", "core", "dtype",
    "extra", "float16", "float32", "float64", "float8e4b15", "float8e4b8", "float8e4nv", "float8e5", "float8e5b16", "int1", "int16",
    "int32", "int64", "int8", "math", "pi32_t", "pointer_type", "slice", "standard", "str_to_ty", "target_info", "tensor",
    "tensor_descriptor", "tensor_descriptor_base", "tensor_descriptor_type", "tuple", "tuple_type", "uint16", "uint32", "uint64", "uint8", "void"
]

# Modules are imported when they are first used; `extra` has hundreds of functions.
_module_named, _ = _later.names(globals(), modules=("extra", "math", "standard", "target_info"))


def __getattr__(name):
    """A module, or a function of the language (`core` says when these are made)."""
    if name == "__all__":
        return [*_OWN, *core._builtins.__all__]
    if name.startswith("_") or name not in core._builtins.__all__:
        return _module_named(name)
    function = globals()[name] = getattr(core._builtins, name)
    return function


def __dir__():
    return sorted({*globals(), "__all__", *__getattr__("__all__")})
