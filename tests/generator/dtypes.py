"""Element types and the language's rules about numbers, written down a second time and in NumPy.

Nothing here asks the compiler: promotion, casts, rounding and wrapping are stated from the language's description, so that a mistake of
the compiler's own tables shows. Integers are arrays of their NumPy type, fp16, fp32 and fp64 as well; bf16 and the 8-bit floats are
float32 arrays that hold only values of their type.
"""

import dataclasses

import numpy as np


class Reject(Exception):
    """The program has no defined result that can be compared (undefined, inexact, ill-typed): it is not a test."""


@dataclasses.dataclass(frozen=True)
class DType:
    name: str
    kind: str            #: "bool", "int", "uint", "float"
    bits: int
    array: type          #: NumPy type of evaluated values
    memory: type         #: NumPy type of the bytes in memory
    digits: int = 0      #: significant bits of a float
    low: int = 0         #: exponent of a float's smallest subnormal
    largest: float = 0.0

    @property
    def is_float(self):
        return self.kind == "float"

    @property
    def is_int(self):
        return self.kind != "float"

    @property
    def signed(self):
        return self.kind == "int"

    @property
    def minimum(self):
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def maximum(self):
        return (1 << (self.bits - self.signed)) - 1

    def __str__(self):
        return self.name

    def __reduce__(self):
        return (_by_name, (self.name, ))


def _by_name(name):
    return BY_NAME[name]


BOOL = DType("int1", "bool", 1, np.bool_, np.uint8)
I8, I16, I32, I64 = (DType(f"int{b}", "int", b, getattr(np, f"int{b}"), getattr(np, f"int{b}")) for b in (8, 16, 32, 64))
U8, U16, U32, U64 = (DType(f"uint{b}", "uint", b, getattr(np, f"uint{b}"), getattr(np, f"uint{b}")) for b in (8, 16, 32, 64))
F16 = DType("float16", "float", 16, np.float16, np.float16, 11, -24, 65504.0)
BF16 = DType("bfloat16", "float", 16, np.float32, np.uint16, 8, -133, float(2 ** 127) * (2 - 2 ** -7))
F32 = DType("float32", "float", 32, np.float32, np.float32, 24, -149, float(np.finfo(np.float32).max))
F64 = DType("float64", "float", 64, np.float64, np.float64, 53, -1074, float(np.finfo(np.float64).max))
E4M3 = DType("float8e4nv", "float", 8, np.float32, np.uint8, 4, -9, 448.0)
E5M2 = DType("float8e5", "float", 8, np.float32, np.uint8, 3, -16, 57344.0)
#: Computed by the prelude; results of one operation alone.
SOFTWARE = {"float8e4b8": DType("float8e4b8", "float", 8, np.float32, np.uint8, 4, -10, 240.0),
            "float8e5b16": DType("float8e5b16", "float", 8, np.float32, np.uint8, 3, -17, 57344.0)}

SIGNED, UNSIGNED = (I8, I16, I32, I64), (U8, U16, U32, U64)
INTS = SIGNED + UNSIGNED
FLOATS = (F16, BF16, F32, F64)
FP8 = (E4M3, E5M2)
ALL = (BOOL, ) + INTS + FLOATS + FP8
BY_NAME = {d.name: d for d in ALL}


# Rounding and the bits of floats.


def round_float(values, dtype, toward_zero=False):
    """float64 values rounded once to a dtype (nearest, ties to even); the 8-bit floats saturate."""
    x = np.asarray(values, dtype=np.float64)
    if dtype is F64:
        return x
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(x)
        quantum = np.maximum(exponent - dtype.digits, dtype.low)
        scaled = np.ldexp(x, -quantum)
        whole = np.trunc(scaled) if toward_zero else np.rint(scaled)
        rounded = np.where(np.isfinite(x) & (x != 0), np.ldexp(whole, quantum), x)
        over = np.abs(rounded) > dtype.largest
        limit = dtype.largest if toward_zero or dtype.bits == 8 else np.inf
        rounded = np.where(over & (np.isfinite(x) | (dtype.bits == 8)), np.copysign(limit, x), rounded)
        return rounded.astype(dtype.array)


def _decode_table(dtype):
    exponent_bits = 4 if dtype is E4M3 else 5
    mantissa_bits = 7 - exponent_bits
    bias = (1 << (exponent_bits - 1)) - 1
    table = np.empty(256, np.float32)
    for code in range(256):
        exponent, mantissa = (code & 0x7f) >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
        if dtype is E5M2 and exponent == 31:
            value = np.nan if mantissa else np.inf
        elif dtype is E4M3 and code & 0x7f == 0x7f:
            value = np.nan
        elif exponent == 0:
            value = mantissa * 2.0 ** (1 - bias - mantissa_bits)
        else:
            value = (1 + mantissa * 2.0 ** -mantissa_bits) * 2.0 ** (exponent - bias)
        table[code] = -value if code & 0x80 else value
    return table


_TABLES = {d: _decode_table(d) for d in FP8}
_CODES = {}
for _d, _table in _TABLES.items():
    _half = _table[:128]
    _order = np.argsort(np.where(np.isnan(_half), np.inf, _half), kind="stable")
    _CODES[_d] = (_half[_order], _order)


def to_memory(array, dtype):
    """The bits of values as they lie in memory."""
    if dtype is BOOL:
        return array.astype(np.uint8)
    if dtype is BF16:
        bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
        return np.where(np.isnan(array), np.uint16(0x7fc0), (bits >> 16).astype(np.uint16)).reshape(np.shape(array))
    if dtype in FP8:
        values, order = _CODES[dtype]
        magnitude = np.abs(array)
        code = order[np.minimum(np.searchsorted(values, magnitude), 127)]
        code = np.where(np.isnan(array), 0x7f, code)
        return (code | np.where(np.signbit(array), 0x80, 0)).astype(np.uint8)
    return np.asarray(array).astype(dtype.memory)


def from_memory(bits, dtype):
    """The values of bits in memory. A bool is any byte that is not zero."""
    bits = np.asarray(bits)
    if dtype is BOOL:
        return bits != 0
    if dtype is BF16:
        return (bits.astype(np.uint32) << 16).view(np.float32).reshape(bits.shape)
    if dtype in FP8:
        return _TABLES[dtype][bits]
    return bits.astype(dtype.array)


# Values.


@dataclasses.dataclass
class Value:
    """A run-time scalar or block. `ulp` is 0 where every bit is known, else the relative error allowed in units of 2^-digits.
    Pointers have `buffer`, the name of the memory they point into; `array` then counts elements from its beginning."""
    dtype: DType
    array: np.ndarray
    ulp: float = 0.0
    buffer: str = None
    product: tuple = None    #: of a matrix product: its lowest bit and a bound, since what is added to it may be added first

    @property
    def shape(self):
        return self.array.shape

    @property
    def type(self):
        return (self.dtype, self.shape, self.buffer)


def is_number(x):
    return isinstance(x, (bool, int, float))


def literal_type(x):
    if isinstance(x, bool):
        return BOOL
    if isinstance(x, int):
        for low, high, dtype in ((-2 ** 31, 2 ** 31, I32), (2 ** 31, 2 ** 32, U32), (-2 ** 63, 2 ** 63, I64), (0, 2 ** 64, U64)):
            if low <= x < high:
                return dtype
        raise Reject("an integer of more than 64 bits")
    magnitude = abs(x)
    if magnitude == 0 or magnitude != magnitude or magnitude == float("inf") or 2.0 ** -126 <= magnitude <= F32.largest:
        return F32
    return F64


def number_as(x, dtype):
    """A Python number as a scalar of a dtype."""
    if dtype.is_float:
        return Value(dtype, np.asarray(round_float(float(x), dtype)))
    return Value(dtype, np.asarray(x, dtype=dtype.array))


def as_value(x):
    """A number becomes a tensor by itself."""
    return number_as(x, literal_type(x)) if is_number(x) else x


def exact(*values):
    for value in values:
        if isinstance(value, Value) and value.ulp:
            raise Reject("the operand is approximate")


# Promotion.

_RANK = {"bool": 0, "int": 1, "uint": 1, "float": 2}


def common_type(a, b, divides=False):
    """The type in which two tensors meet; `divides` for `/` and `%`."""
    if a.is_float or b.is_float:
        if F64 in (a, b):
            return F64
        if F32 in (a, b):
            return F32
        if F16 in (a, b):
            return F32 if divides else F16
        if a is BF16 and b is BF16:
            return F32 if divides else BF16
        if BF16 in (a, b):
            return F32
        if a in FP8 and b in FP8:
            return a if a is b else F16
        raise Reject("an 8-bit float and an integer")
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return a if not a.signed else b


def meet(x, y, divides=False):
    """Both operands of an operator (a number takes the tensor's type where its kind is not higher) in their common type."""
    if is_number(x) and is_number(y):
        raise Reject("two numbers")
    for number, tensor, swap in ((x, y, True), (y, x, False)):
        if not is_number(number):
            continue
        kind = 0 if isinstance(number, bool) else 1 if isinstance(number, int) else 2
        if kind <= _RANK[tensor.dtype.kind]:
            dtype = tensor.dtype
            if dtype.is_int and not dtype.minimum <= number <= dtype.maximum:
                raise Reject("the number is out of range")
            number = number_as(number, F32 if divides and dtype.bits == 16 and dtype.is_float else dtype)
            tensor = cast(tensor, number.dtype)
        else:
            number = as_value(number)
            dtype = common_type(number.dtype, tensor.dtype, divides)
            number, tensor = cast(number, dtype), cast(tensor, dtype)
        return (number, tensor) if swap else (tensor, number)
    dtype = common_type(x.dtype, y.dtype, divides)
    return cast(x, dtype), cast(y, dtype)


def meet_as_tensors(*operands):
    """Operands of comparisons, minimum, maximum, fma: numbers become tensors first."""
    values = [as_value(x) for x in operands]
    dtype = values[0].dtype
    for value in values[1:]:
        dtype = common_type(dtype, value.dtype)
    return [cast(value, dtype) for value in values]


# Casts.


def cast(value, dtype, toward_zero=False):
    """`value.to(dtype)`; what is undefined or differs between machines is rejected."""
    source, array = value.dtype, value.array
    if value.buffer is not None:
        raise Reject("a pointer")
    if source is dtype:
        return value
    exact(value)
    if dtype is BOOL:
        return Value(dtype, np.asarray(array != 0))
    with np.errstate(all="ignore"):
        if not dtype.is_float:
            if source.is_float:
                whole = np.trunc(np.asarray(array, np.float64))
                if not np.all((whole >= float(dtype.minimum)) & (whole < float(dtype.maximum) + 1)):
                    raise Reject("float to integer out of range")
                return Value(dtype, np.asarray(whole.astype(dtype.array)))
            return Value(dtype, np.asarray(array.astype(dtype.array)))
        if source is BOOL:
            return Value(dtype, np.asarray(round_float(array.astype(np.float64), dtype)))
        if source.is_int:
            if dtype in (F32, F64):
                return Value(dtype, np.asarray(array.astype(dtype.array)))
            magnitude = np.abs(np.asarray(array, np.float64))
            if np.any(magnitude >= 2.0 ** 24) or np.any(magnitude > dtype.largest):
                raise Reject("an integer that a narrow float may get by two roundings")
            return Value(dtype, np.asarray(round_float(array.astype(np.float64), dtype)))
        wide = np.asarray(array, np.float64)
        once = round_float(wide, dtype, toward_zero)
        if dtype in FP8 and np.any(np.isnan(wide)):
            raise Reject("the sign of NaN")
        return Value(dtype, np.asarray(once))


def bitcast(value, dtype):
    exact(value)
    if value.dtype.bits != dtype.bits or BOOL in (value.dtype, dtype):
        raise Reject("bitcast of other widths")
    if value.dtype.is_float and np.any(np.isnan(value.array)):
        raise Reject("the bits of NaN")
    bits = np.ascontiguousarray(to_memory(value.array, value.dtype)).view(dtype.memory).reshape(value.shape)
    result = from_memory(bits, dtype)
    return Value(dtype, np.asarray(result))


# Exactness of sums: then every order of addition gives the same bits.


def lowest_bit(array):
    """The exponent of the lowest bit set in any element (0 for only zeros)."""
    x = np.asarray(array, np.float64)
    x = x[x != 0]
    if x.size == 0:
        return 0
    mantissa, exponent = np.frexp(x)
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    _, trailing = np.frexp((whole & -whole).astype(np.float64))
    return int(np.min(exponent - 53 + trailing - 1))


def require_exact_sum(array, axis, digits, extra=0.0):
    """Rejects sums along an axis whose value could depend on their order. Infinities and NaN, and zeros of different signs, do."""
    x = np.asarray(array, np.float64)
    if not np.all(np.isfinite(x)):
        raise Reject("a sum of infinities")
    if np.any(np.signbit(x) & (x == 0)):
        raise Reject("a sum of -0.0")
    bound = np.max(np.sum(np.abs(x), axis=axis), initial=0.0) + extra
    if bound and np.log2(bound) - lowest_bit(x) > digits - 0.01:
        raise Reject("an inexact sum")
