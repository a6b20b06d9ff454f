"""Constants and scalar types of the language as Python sees them, and all other names of it on first use.

Inside kernels these names are the compiler's own. The classes here serve host code, and Python code that runs during a compilation:
user builtins, constexpr functions. This module is what a program needs that names a language and launches; `_values` has the other
types and values, `_classes` the aggregates, `_builtins` the functions, all of them found here by their names.
"""

import builtins

import _operator as operator  # `operator` without the part that is in Python

from .. import _names_later, _native

TRITON_MAX_TENSOR_NUMEL = 1048576

#: Where a name lives that is not here.
_HOMES = {
    "nereid._host": ("must_use_result", ),
    "nereid.language._propagate_nan": ("PropagateNan", ),
    "nereid.language._classes": ("_aggregate", "_aggregate_type", "aggregate_replace"),
    "nereid.language._values":
        ("TRITON_BUILTIN", "_TensorClass", "_call", "_make_type", "_promote_bfloat16_to_float32", "_semantic_method", "base_type",
         "base_value", "block_type", "builtin", "extern", "get_int_dtype", "is_builtin", "pi32_t", "pointer_type", "slice", "str_to_ty", "tensor",
         "tensor_descriptor", "tensor_descriptor_base", "tensor_descriptor_type", "tuple", "tuple_type")
}
# Types and values, and the functions of the language: these are made when Python first asks for one.
__getattr__, __dir__ = _names_later(globals(), {name: home for home, names in _HOMES.items() for name in names},
                                   rest="nereid.language._builtins")

# ---- constants --------------------------------------------------------------------------------------


class const:
    """Annotation of a pointer that must not be stored through."""


def _constexpr_operator(function, reflected):

    def forward(self, other):
        if getattr(other, "_is_of_compilation", False):  # a tensor answers
            return NotImplemented
        return constexpr(function(self.value, _unwrap_if_constexpr(other)))

    def backward(self, other):
        return constexpr(function(_unwrap_if_constexpr(other), self.value))

    return backward if reflected else forward


_BINARY_OPERATORS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "lshift": operator.lshift,
    "rshift": operator.rshift, "and": operator.and_, "or": operator.or_, "xor": operator.xor
}
_COMPARISONS = {name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")}


def _constexpr_operators():
    """The operators of `constexpr` by their names in Python."""
    found = {f"__{name}__": _constexpr_operator(function, False) for name, function in (*_BINARY_OPERATORS.items(), *_COMPARISONS.items())}
    found.update({f"__r{name}__": _constexpr_operator(function, True) for name, function in _BINARY_OPERATORS.items()})
    return found


class constexpr:
    """A value known at compile time. As an annotation: a parameter or a name that must be one."""

    __nereid_builtin__ = "constexpr"  # what the class means inside a kernel

    def __init__(self, value):
        while isinstance(value, constexpr):
            value = value.value
        self.value = value
        self.type = constexpr_type(value)

    def __repr__(self):
        return f"constexpr[{self.value}]"

    def __hash__(self):
        return hash((type(self), self.value))

    def __bool__(self):
        return bool(self.value)

    def __index__(self):
        return operator.index(self.value)

    def __int__(self):
        return int(self.value)

    def __float__(self):
        return float(self.value)

    def __len__(self):
        return len(self.value)

    def __iter__(self):
        return iter(self.value)

    def __getitem__(self, index):
        return self.value[_unwrap_if_constexpr(index)]

    def __call__(self, *args, **kwargs):
        return self.value(*args, **kwargs)

    def __getattr__(self, name):
        if name.startswith("__") or name in ("value", "type"):
            raise AttributeError(name)
        return getattr(self.value, name)

    def __getstate__(self):
        return self.value

    def __setstate__(self, value):
        self.__init__(value)

    def __neg__(self):
        return constexpr(-self.value)

    def __pos__(self):
        return constexpr(+self.value)

    def __invert__(self):
        return constexpr(~self.value)

    def logical_and(self, other):
        return constexpr(self.value and _unwrap_if_constexpr(other))

    def logical_or(self, other):
        return constexpr(self.value or _unwrap_if_constexpr(other))

    def not_(self):
        return constexpr(not self.value)

    locals().update(_constexpr_operators())  # here, since a class that gets an operator later is looked through anew each time


class constexpr_type:
    """The type of a constant: the constant itself."""

    __nereid_builtin__ = "constexpr_type"  # what the class means inside a kernel

    def __init__(self, value):
        self.value = value
        self.__nereid_builtin__ = None  # an instance is not the class

    def __eq__(self, other):
        return isinstance(other, constexpr_type) and self.value == other.value

    def __hash__(self):
        return hash((type(self), repr(self.value)))

    def __repr__(self):
        return f"constexpr_type[{self.value}]"

    def mangle(self):
        return repr(self)


def _unwrap_if_constexpr(value):
    if isinstance(value, constexpr):
        return value.value
    if isinstance(value, builtins.tuple) and type(value) is builtins.tuple:
        return builtins.tuple(_unwrap_if_constexpr(item) for item in value)
    if isinstance(value, list):
        return [_unwrap_if_constexpr(item) for item in value]
    return value


def _unwrap_shape(shape):
    return [_unwrap_if_constexpr(size) for size in _unwrap_if_constexpr(shape)]


CONSTEXPR_0 = constexpr(0)


# ---- types ------------------------------------------------------------------------------------------


class _LaterEnum:
    """An enumeration of `dtype`, made when it is asked for: few programs do, and classes of `enum` take long to make."""

    def __init__(self, name, members):
        self.name, self.members = name, members

    def __get__(self, instance, owner):
        import enum
        made = enum.Enum(self.name, self.members, module=__name__, qualname=f"dtype.{self.name}", start=0)
        setattr(dtype, self.name, made)
        return made


class dtype:
    """A scalar type of the language, by its short name: "fp32", "int8"."""

    __nereid_builtin__ = "dtype"  # what the class means inside a kernel

    SINT_TYPES = ["int8", "int16", "int32", "int64"]
    UINT_TYPES = ["int1", "uint8", "uint16", "uint32", "uint64"]
    FP_TYPES = ["fp8e4b15", "fp8e4nv", "fp8e4b8", "fp8e5", "fp8e5b16", "fp16", "bf16", "fp32", "fp64"]
    STANDARD_FP_TYPES = ["fp16", "bf16", "fp32", "fp64"]
    OTHER_TYPES = ["void"]

    # bits of the mantissa and bias of the exponent
    _FLOATS = {"fp8e4b15": (3, 15), "fp8e4nv": (3, 7), "fp8e4b8": (3, 8), "fp8e5": (2, 15), "fp8e5b16": (2, 16),
               "fp16": (10, 15), "bf16": (7, 127), "fp32": (23, 127), "fp64": (52, 1023)}

    SIGNEDNESS = _LaterEnum("SIGNEDNESS", "SIGNED UNSIGNED")
    KIND = _LaterEnum("KIND", "BOOLEAN INTEGRAL FLOATING")

    _shape = ()

    def __init__(self, name):
        name = _unwrap_if_constexpr(name)
        self.name = name
        if name not in dtype.SINT_TYPES + dtype.UINT_TYPES + dtype.FP_TYPES + dtype.OTHER_TYPES:
            raise ValueError(f"unknown type of the language: {name!r}")
        self.primitive_bitwidth = 0
        if name in dtype.FP_TYPES:
            self.fp_mantissa_width, self.exponent_bias = dtype._FLOATS[name]
            self.primitive_bitwidth = 8 if name.startswith("fp8") else int(name[2:])
        elif name != "void":
            self.int_bitwidth = self.primitive_bitwidth = int(name.split("int")[1])
        self.itemsize = self.primitive_bitwidth // 8

    @property
    def int_signedness(self):
        """Of an integer: whether it is signed."""
        if not self.is_int():
            raise AttributeError(f"{self.name} is not an integer type")
        return dtype.SIGNEDNESS.SIGNED if self.is_int_signed() else dtype.SIGNEDNESS.UNSIGNED

    @property
    def _signature(self):
        """The text of the type in a signature: "fp32", "i64", "u8"."""
        return self.name.replace("uint", "u").replace("int", "i")

    def is_fp8(self):
        return self.name.startswith("fp8")

    def is_floating(self):
        return self.name in dtype.FP_TYPES

    def is_standard_floating(self):
        return self.name in dtype.STANDARD_FP_TYPES

    def is_int_signed(self):
        return self.name in dtype.SINT_TYPES

    def is_int_unsigned(self):
        return self.name in dtype.UINT_TYPES

    def is_int(self):
        return self.name in dtype.SINT_TYPES + dtype.UINT_TYPES

    def is_bool(self):
        return self.is_int1()

    def is_void(self):
        return self.name == "void"

    def kind(self):
        if self.is_bool():
            return dtype.KIND.BOOLEAN
        if self.is_int():
            return dtype.KIND.INTEGRAL
        if self.is_floating():
            return dtype.KIND.FLOATING
        raise TypeError(f"{self.name} has no kind")

    def get_int_max_value(self):
        if self.is_int_signed():
            return 2**(self.int_bitwidth - 1) - 1
        if self.is_int_unsigned():
            return 2**self.int_bitwidth - 1
        raise TypeError(f"{self.name} is not an integer type")

    def get_int_min_value(self):
        if self.is_int_signed():
            return -2**(self.int_bitwidth - 1)
        if self.is_int_unsigned():
            return 0
        raise TypeError(f"{self.name} is not an integer type")

    @staticmethod
    def is_dtype(type_str):
        return type_str in dtype.SINT_TYPES + dtype.UINT_TYPES + dtype.FP_TYPES + dtype.OTHER_TYPES

    @staticmethod
    def is_block():
        return False

    @staticmethod
    def is_ptr():
        return False

    @staticmethod
    def is_const():
        return False

    def __eq__(self, other):
        other = _unwrap_if_constexpr(other)
        return type(other) is dtype and self.name == other.name

    def __hash__(self):
        return hash((type(self), self.name))

    @property
    def scalar(self):
        return self

    def with_element_ty(self, element_ty):
        return element_ty

    @property
    def cache_key_part(self):
        return self.name

    def __str__(self):
        return self.name

    def codegen_name(self):
        if self.name.startswith(("fp", "bf")):
            return ("bfloat" if self.name[0] == "b" else "float") + self.name[2:]
        return self.name

    def __repr__(self):
        return f"triton.language.{self.codegen_name()}"

    def mangle(self):
        return self._signature

    def to(self, *_):
        raise TypeError("a type has no value to convert")

    def __reduce__(self):
        return type(self), (self.name, )


for _name in ("fp8e4nv", "fp8e4b8", "fp8e4b15", "fp8e5", "fp8e5b16", "fp16", "bf16", "fp32", "fp64", "int1", "int8", "int16",
              "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
    setattr(dtype, f"is_{_name}", lambda self, name=_name: self.name == name)


void = dtype("void")
int1 = dtype("int1")
int8 = dtype("int8")
int16 = dtype("int16")
int32 = dtype("int32")
int64 = dtype("int64")
uint8 = dtype("uint8")
uint16 = dtype("uint16")
uint32 = dtype("uint32")
uint64 = dtype("uint64")
float8e5 = dtype("fp8e5")
float8e5b16 = dtype("fp8e5b16")
float8e4nv = dtype("fp8e4nv")
float8e4b8 = dtype("fp8e4b8")
float8e4b15 = dtype("fp8e4b15")
float16 = dtype("fp16")
bfloat16 = dtype("bf16")
float32 = dtype("fp32")
float64 = dtype("fp64")

_SIGNATURES = {t._signature: t
               for t in (void, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float8e5, float8e5b16, float8e4nv,
                         float8e4b8, float8e4b15, float16, bfloat16, float32, float64, int1)}
_SIGNATURES.update({"u1": int1, "B": int1})
_SIGNATURES.update({t.name: t for t in list(_SIGNATURES.values())})


def _signature_of(annotation):
    """The signature text that an annotation of a parameter forces, or None."""
    if isinstance(annotation, dtype):
        return annotation._signature
    if isinstance(annotation, type):
        return {bool: "u1", int: "i32", float: "fp32"}.get(annotation)
    if isinstance(annotation, str) and annotation:
        plain = {"bool": "u1", "int": "i32", "float": "fp32"}.get(annotation, annotation)
        base = plain.removeprefix("*k").removeprefix("*")
        return plain if base in _SIGNATURES else None
    return None


_native.register(constexpr=constexpr, dtype=dtype)

del _name
