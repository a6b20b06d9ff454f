"""Nested tuples by paths of indices, names of types, shapes of blocks: for host code of clients."""

from __future__ import annotations

import functools

from .language import core

#: Largest number of elements of a block.
TRITON_MAX_TENSOR_NUMEL = 1048576


def get_iterable_path(iterable, path):
    """The item at a path of indices: `get_iterable_path((1, (2, 3)), (1, 0))` is 2."""
    return functools.reduce(lambda item, index: item[index], path, iterable)


def set_iterable_path(iterable, path, val):
    """Replaces the item at a path that is not empty."""
    if not path:
        raise ValueError("the path of an item must not be empty")
    get_iterable_path(iterable, path[:-1])[path[-1]] = val


def is_iterable(x):
    """Whether a value is a list or a tuple, of Python or of the language."""
    return isinstance(x, (list, tuple, core.tuple))


def apply_with_path(value, fn, _path=None):
    """Calls `fn(path, item)` for every item that is no list or tuple, in order."""
    if is_iterable(value):
        for index, item in enumerate(value):
            apply_with_path(item, fn, (*(_path or ()), index))
    else:
        fn(_path or (), value)


def find_paths_if(iterable, pred):
    """Paths of all items that are not tuples or lists and of which `pred(path, item)` is true, in order."""
    found = []
    apply_with_path(iterable, lambda path, item: found.append(path) if pred(path, item) else None)
    return found


def is_power_of_two(x):
    """Whether a number is a power of two; 0 counts as one, as in Triton."""
    return (x & (x - 1)) == 0


def validate_block_shape(shape):
    """The number of elements of a block; raises TypeError or ValueError when it is none."""
    elements = 1
    for index, size in enumerate(shape):
        if not isinstance(size, int):
            raise TypeError(f"Shape element {index} must have type `constexpr[int]`, got `constexpr[{type(size)}]")
        if not is_power_of_two(size):
            raise ValueError(f"Shape element {index} must be a power of 2")
        elements *= size
    if elements > TRITON_MAX_TENSOR_NUMEL:
        raise ValueError(f"numel ({elements}) exceeds triton maximum tensor numel ({TRITON_MAX_TENSOR_NUMEL})")
    return elements


_SPELLINGS = {
    "u1": ("bool", "int1", "uint1", "i1"), "void": (),
    "fp8e4nv": ("float8e4nv", "float8_e4m3fn"), "fp8e5": ("float8e5", "float8_e5m2"), "fp8e4b15": ("float8e4b15", ),
    "fp8e4b8": ("float8e4b8", "float8_e4m3fnuz"), "fp8e5b16": ("float8e5b16", "float8_e5m2fnuz"),
    "fp16": ("half", "float16"), "bf16": ("bfloat16", ), "fp32": ("float", "float32"), "fp64": ("double", "float64"),
    "i8": ("int8", ), "i16": ("int16", ), "i32": ("int", "int32"), "i64": ("int64", ),
    "u8": ("uint8", ), "u16": ("uint16", ), "u32": ("uint32", ), "u64": ("uint64", ),
}  # yapf: disable

#: Names of types in array libraries and in signatures to those of signatures.
type_canonicalisation_dict = {spelling: name for name, others in _SPELLINGS.items() for spelling in (name, *others)}


def _bits(name):
    return {"u1": 1, "void": 0}.get(name) if name in ("u1", "void") else 8 if name.startswith("fp8") else int(name.lstrip("iufpb"))


BITWIDTH_DICT = {spelling: _bits(name) for spelling, name in type_canonicalisation_dict.items()}


def canonicalize_dtype(dtype):
    """The name of an element type in signatures: `torch.float32` is "fp32"."""
    return type_canonicalisation_dict[str(dtype).split(".")[-1]]


def canonicalize_ptr_dtype(dtype, is_const):
    """The name of a pointer to elements of a type: "*fp32", or "*kfp32" when nothing may be stored."""
    return f"{'*k' if is_const else '*'}{canonicalize_dtype(dtype)}"


def get_primitive_bitwidth(dtype: str) -> int:
    """Bits of an element type that is named as in signatures."""
    return BITWIDTH_DICT[dtype]


def is_namedtuple(val):
    """Whether a class is one of named tuples."""
    return isinstance(val, type) and issubclass(val, tuple) and hasattr(val, "_fields")


def tuple_of(cls, items):
    """A tuple of the items; of the class when it is one of named tuples."""
    return cls(*items) if is_namedtuple(cls) else tuple(items)
