"""The language: what kernels call `tl`.

Functions come from the compiler's builtin table (`_builtins`, generated), types and constants from `core`. Outside of a
compilation the functions raise ValueError; types and constants can be used anywhere.
"""

from .. import _names_later
from . import core
from .core import (TRITON_MAX_TENSOR_NUMEL, bfloat16, const, constexpr, constexpr_type, dtype, float8e4b8, float8e4b15, float8e4nv, float8e5,
                   float8e5b16, float16, float32, float64, int1, int8, int16, int32, int64, uint8, uint16, uint32, uint64, void)

# Other types and values; `core` says where they are.
_OTHERS = [
    "PropagateNan", "aggregate_replace", "block_type", "pi32_t", "pointer_type", "slice", "str_to_ty", "tensor", "tensor_descriptor",
    "tensor_descriptor_base", "tensor_descriptor_type", "tuple", "tuple_type"
]
# Modules are imported when they are first used; `extra` has hundreds of functions.
_MODULES = ("extra", "math", "standard", "target_info")
_OWN = [
    *_OTHERS, *_MODULES, "TRITON_MAX_TENSOR_NUMEL", "bfloat16", "const", "constexpr", "constexpr_type", "core", "dtype", "float16", "float32",
    "float64", "float8e4b15", "float8e4b8", "float8e4nv", "float8e5", "float8e5b16", "int1", "int16", "int32", "int64", "int8", "uint16",
    "uint32", "uint64", "uint8", "void"
]
_find, _dir = _names_later(globals(), {name: "nereid.language.core" for name in _OTHERS}, _MODULES, rest="nereid.language._builtins")


def __getattr__(name):
    """A module, another type or value, or a function of the language (which are made when Python first asks for one)."""
    if name == "__all__":
        from . import _builtins
        return [*_OWN, *_builtins.__all__]
    return _find(name)


def __dir__():
    return sorted({*_dir(), "__all__"})
