"""What each operation of the language means, in NumPy, and how it is written.

`OPS[name]` has `emit(texts, attrs)` and `evaluate(machine, operands, attrs)`. Operands are `Value`s or Python numbers, results are
`Value`s or tuples of them. An evaluation raises `Reject` where the language leaves the result open.
"""

import dataclasses
import math

import numpy as np

from .dtypes import (BF16, BOOL, BY_NAME, F16, F32, F64, FP8, I32, SOFTWARE, Reject, Value, as_value, bitcast, cast, exact, is_number,
                     lowest_bit, meet, meet_as_tensors, round_float)


@dataclasses.dataclass(frozen=True)
class Op:
    emit: object
    evaluate: object


OPS = {}


def op(name, emit):
    def register(function):
        OPS[name] = Op(emit, function)
        return function
    return register


def _call(name):
    return lambda texts, attrs: f"{name}({', '.join(texts)})"


def _ints(shape):
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def computed(dtype, array):
    """A float result rounded to its type."""
    return Value(dtype, np.asarray(round_float(array, dtype) if dtype.array != np.float64 else array))


# Leaves.

@op("pid", lambda t, a: f"tl.program_id({a['axis']})")
def _pid(machine, args, attrs):
    return Value(I32, np.asarray(machine.pid[attrs["axis"]], np.int32))


@op("num_programs", lambda t, a: f"tl.num_programs({a['axis']})")
def _num_programs(machine, args, attrs):
    return Value(I32, np.asarray(machine.grid[attrs["axis"]], np.int32))


@op("arange", lambda t, a: f"tl.arange({a['start']}, {a['end']})")
def _arange(machine, args, attrs):
    return Value(I32, np.arange(attrs["start"], attrs["end"], dtype=np.int32))


@op("full", lambda t, a: f"tl.full({_ints(a['shape'])}, {t[0]}, tl.{a['dtype']})")
def _full(machine, args, attrs):
    value = cast(as_value(args[0]), BY_NAME[attrs["dtype"]])
    if value.shape not in ((), (1, )):
        raise Reject("full takes a scalar")
    return Value(value.dtype, np.broadcast_to(value.array.reshape(()), attrs["shape"]).copy())


@op("zeros", lambda t, a: f"tl.zeros({_ints(a['shape'])}, tl.{a['dtype']})")
def _zeros(machine, args, attrs):
    dtype = BY_NAME[attrs["dtype"]]
    return Value(dtype, np.zeros(attrs["shape"], dtype.array))


@op("zeros_like", _call("tl.zeros_like"))
def _zeros_like(machine, args, attrs):
    return Value(args[0].dtype, np.zeros_like(args[0].array))


# Arithmetic.

def _may_join_product(product, other):
    """A product and what is added to it are one sum, whose order is open."""
    if is_number(product) or product.product is None:
        return
    low, bound = product.product
    array = np.asarray(other.array, np.float64)
    if not np.all(np.isfinite(array)) or np.any((array == 0) & np.signbit(array)):
        raise Reject("infinities added to a product")
    low, bound = min(low, lowest_bit(array) if np.any(array) else low), bound + np.max(np.abs(array), initial=0.0)
    if bound and np.log2(bound) - low > product.dtype.digits - 0.01:
        raise Reject("a sum that may begin with what is added last")


def _wrapped(function):
    def evaluate(machine, args, attrs):
        exact(*args)
        x, y = meet(*args)
        machine.overflow.binary(function, x, y)
        with np.errstate(all="ignore"):
            if x.dtype is BOOL:
                bits = function(x.array.astype(np.uint8), y.array.astype(np.uint8)) & 1
                return Value(BOOL, np.asarray(bits != 0))
            if x.dtype.is_float:
                if function is np.add:
                    for one, other in ((args[0], y), (args[1], x)):
                        _may_join_product(one, other)
                wide = np.float64 if x.dtype in (F64, F32) else np.float32
                if x.dtype is F32:
                    return Value(F32, np.asarray(function(x.array, y.array)))
                result = function(x.array.astype(wide), y.array.astype(wide))
                return computed(x.dtype, result)
            return Value(x.dtype, np.asarray(function(x.array, y.array)))
    return evaluate


for _name, _sign, _function in (("add", "+", np.add), ("sub", "-", np.subtract), ("mul", "*", np.multiply)):
    OPS[_name] = Op(lambda t, a, s=_sign, n=_name: f"tl.{n}({t[0]}, {t[1]})" if a.get("call") else f"({t[0]} {s} {t[1]})",
                    _wrapped(_function))


def _same_signs(args):
    values = [as_value(x) if not is_number(x) else None for x in args]
    if None not in values and all(v.dtype.is_int for v in values) and values[0].dtype.signed != values[1].dtype.signed:
        raise Reject("operands of different signedness")


def _no_trap(x, y):
    if np.any(y.array == 0):
        raise Reject("division by zero")
    if x.dtype.signed and np.any((y.array == -1) & (x.array == x.dtype.minimum)):
        raise Reject("the quotient overflows")


@op("floordiv", lambda t, a: f"({t[0]} // {t[1]})")
def _floordiv(machine, args, attrs):
    exact(*args)
    _same_signs(args)
    x, y = meet(*args, divides=True)
    if x.dtype.is_float or x.dtype is BOOL:
        raise Reject("integers only")
    _no_trap(x, y)
    a, b = np.broadcast_arrays(x.array, y.array)
    rest = np.fmod(a, b)
    return Value(x.dtype, np.asarray((a - rest) // b).astype(x.dtype.array))


@op("mod", lambda t, a: f"({t[0]} % {t[1]})")
def _mod(machine, args, attrs):
    exact(*args)
    _same_signs(args)
    x, y = meet(*args, divides=True)
    if x.dtype is BOOL:
        raise Reject("integers only")
    if x.dtype.is_float:
        with np.errstate(all="ignore"):
            big = np.abs(np.asarray(x.array, np.float64)) > 2.0 ** 20 * np.abs(np.asarray(y.array, np.float64))
            if np.any(big) or not np.all(np.isfinite(x.array)) or not np.all(np.isfinite(y.array)):
                raise Reject("a remainder of far numbers")
            result = np.fmod(x.array, y.array)
        return Value(x.dtype, np.asarray(result))
    _no_trap(x, y)
    return Value(x.dtype, np.asarray(np.fmod(x.array, y.array)).astype(x.dtype.array))


def _quotient(x, y, ulp):
    with np.errstate(all="ignore"):
        result = np.asarray(x.array / y.array)
    if ulp and not np.all(np.isfinite(result)):
        raise Reject("a division by zero that may be approximate")
    return Value(x.dtype, result.astype(x.dtype.array), ulp)


@op("div", lambda t, a: f"({t[0]} / {t[1]})")
def _div(machine, args, attrs):
    exact(*args)
    _same_signs(args)
    x, y = meet(*args, divides=True)
    if x.dtype.is_int:
        x, y = cast(x, F32), cast(y, F32)
    if np.any(np.abs(y.array) > 2.0 ** 100) or np.any(np.abs(y.array) < 2.0 ** -100):
        raise Reject("an approximate division of extremes")
    return _quotient(x, y, 2.0 if x.dtype is F32 else 0.0)


@op("fdiv", lambda t, a: f"tl.fdiv({t[0]}, {t[1]}, ieee_rounding=True)")
def _fdiv(machine, args, attrs):
    exact(*args)
    if any(not is_number(x) and x.dtype not in (F32, F64) for x in args):
        raise Reject("floats only")
    x, y = meet(*args, divides=True)
    return _quotient(x, y, 0.0)


@op("div_rn", _call("tl.div_rn"))
def _div_rn(machine, args, attrs):
    exact(*args)
    x, y = meet(*args)
    if x.dtype is not F32:
        raise Reject("fp32 only")
    return _quotient(x, y, 0.0)


def _bits(function):
    def evaluate(machine, args, attrs):
        exact(*args)
        x, y = meet(*args)
        if x.dtype.is_float:
            raise Reject("integers only")
        return Value(x.dtype, np.asarray(function(x.array, y.array)))
    return evaluate


for _name, _sign, _function in (("and", "&", np.bitwise_and), ("or", "|", np.bitwise_or), ("xor", "^", np.bitwise_xor)):
    OPS[_name] = Op(lambda t, a, s=_sign: f"({t[0]} {s} {t[1]})", _bits(_function))


def _shift(machine, args, attrs, left):
    exact(*args)
    signed = is_number(args[0]) or args[0].dtype.signed
    x, y = meet(*args)
    if x.dtype.is_float or x.dtype is BOOL:
        raise Reject("integers only")
    if np.any(y.array.astype(object) < 0) or np.any(y.array.astype(object) >= x.dtype.bits):
        raise Reject("a shift count out of range")
    if left:
        return Value(x.dtype, np.asarray(np.left_shift(x.array, y.array)))
    signed_type, unsigned_type = np.dtype(f"int{x.dtype.bits}"), np.dtype(f"uint{x.dtype.bits}")
    kind = signed_type if signed else unsigned_type
    shifted = np.right_shift(np.asarray(x.array).astype(kind), np.asarray(y.array).astype(kind))
    return Value(x.dtype, np.asarray(shifted).astype(x.dtype.array))


OPS["shl"] = Op(lambda t, a: f"({t[0]} << {t[1]})", lambda m, x, a: _shift(m, x, a, True))
OPS["shr"] = Op(lambda t, a: f"({t[0]} >> {t[1]})", lambda m, x, a: _shift(m, x, a, False))


@op("neg", lambda t, a: f"(-{t[0]})")
def _neg(machine, args, attrs):
    (x, ) = args
    if x.dtype is BOOL:
        raise Reject("negation of a bool")
    machine.overflow.binary(np.subtract, Value(x.dtype, np.zeros((), x.dtype.array)), x)
    with np.errstate(all="ignore"):
        return Value(x.dtype, np.asarray(-x.array), x.ulp)


@op("invert", lambda t, a: f"(~{t[0]})")
def _invert(machine, args, attrs):
    (x, ) = args
    if x.dtype.is_float:
        raise Reject("integers only")
    return Value(x.dtype, np.asarray(~x.array))


@op("not", lambda t, a: f"(not {t[0]})")
def _not(machine, args, attrs):
    (x, ) = args
    if x.shape != () or x.dtype is not BOOL:
        raise Reject("a condition")
    return Value(BOOL, np.asarray(~x.array))


def _compare(function):
    def evaluate(machine, args, attrs):
        exact(*args)
        x, y = meet_as_tensors(*args)
        return Value(BOOL, np.asarray(function(x.array, y.array)))
    return evaluate


for _name, _sign, _function in (("lt", "<", np.less), ("le", "<=", np.less_equal), ("gt", ">", np.greater),
                                ("ge", ">=", np.greater_equal), ("eq", "==", np.equal), ("ne", "!=", np.not_equal)):
    OPS[_name] = Op(lambda t, a, s=_sign: f"({t[0]} {s} {t[1]})", _compare(_function))


def _no_signed_zeros(x, y):
    a, b = np.broadcast_arrays(x.array, y.array)
    if x.dtype.is_float and np.any((a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))):
        raise Reject("the larger of 0.0 and -0.0")


def _extremum(function, propagating):
    def evaluate(machine, args, attrs):
        exact(*args)
        values = [as_value(x) for x in args]
        values = [cast(v, F32) if v.dtype is BF16 else v for v in values]
        x, y = meet_as_tensors(*values)
        if x.dtype in FP8:
            raise Reject("8-bit floats")
        _no_signed_zeros(x, y)
        return Value(x.dtype, np.asarray((propagating if attrs.get("nan") else function)(x.array, y.array)))
    return evaluate


for _name, _functions in (("maximum", (np.fmax, np.maximum)), ("minimum", (np.fmin, np.minimum))):
    OPS[_name] = Op(lambda t, a, n=_name: f"tl.{n}({t[0]}, {t[1]}{', propagate_nan=tl.PropagateNan.ALL' if a.get('nan') else ''})",
                    _extremum(*_functions))


@op("clamp", lambda t, a: f"tl.clamp({t[0]}, {t[1]}, {t[2]}{', propagate_nan=tl.PropagateNan.ALL' if a.get('nan') else ''})")
def _clamp(machine, args, attrs):
    exact(*args)
    values = [as_value(x) for x in args]
    values = [cast(v, F32) if v.dtype is BF16 else v for v in values]
    x, low, high = meet_as_tensors(*values)
    if not x.dtype.is_float or x.dtype in FP8:
        raise Reject("floats only")
    if np.any(~(low.array <= high.array)) or np.any(np.isnan(x.array)) and not attrs.get("nan"):
        raise Reject("clamp of NaN or to nothing")
    _no_signed_zeros(x, low)
    _no_signed_zeros(x, high)
    return Value(x.dtype, np.asarray(np.minimum(np.maximum(x.array, low.array), high.array)))


@op("where", _call("tl.where"))
def _where(machine, args, attrs):
    condition, x, y = args
    exact(condition)
    if condition.dtype is not BOOL:
        raise Reject("a condition is a bool")
    if not is_number(x) and not is_number(y) and x.buffer is not None and x.buffer == y.buffer:
        return Value(x.dtype, np.where(condition.array, x.array, y.array), 0.0, x.buffer)
    if is_number(x) and is_number(y):
        x, y = as_value(x), as_value(y)
    ulp = max(v.ulp for v in (x, y) if not is_number(v))
    if ulp and not is_number(x) and not is_number(y) and x.dtype is not y.dtype:
        raise Reject("approximate operands of two types")
    bare = [v if is_number(v) else Value(v.dtype, v.array) for v in (x, y)]
    x, y = meet(*bare)
    return Value(x.dtype, np.asarray(np.where(condition.array, x.array, y.array)), ulp)


@op("fma", _call("tl.fma"))
def _fma(machine, args, attrs):
    exact(*args)
    x, y, z = meet_as_tensors(*args)
    if x.dtype not in (F32, F64, F16):
        raise Reject("floats only")
    with np.errstate(all="ignore"):
        if x.dtype is F64:
            product = x.array.astype(np.longdouble) * y.array.astype(np.longdouble)
            result = product + z.array.astype(np.longdouble)
            if np.any(np.isfinite(result) & (result.astype(np.float64) != result)):
                raise Reject("an inexact fma of doubles")
            return Value(F64, np.asarray(result.astype(np.float64)))
        product = x.array.astype(np.float64) * y.array.astype(np.float64)
        total = product + z.array.astype(np.float64)
        # float64 is exact enough only if the sum is: else it is rounded twice.
        if np.any(np.isfinite(total) & (total - product != z.array.astype(np.float64))):
            raise Reject("an fma that float64 rounds")
    return computed(x.dtype, total)


@op("umulhi", _call("tl.umulhi"))
def _umulhi(machine, args, attrs):
    exact(*args)
    x, y = meet(*args)
    if x.dtype.is_float or x.dtype.bits < 32:
        raise Reject("32 or 64 bits")
    mask = (1 << x.dtype.bits) - 1
    a, b = np.broadcast_arrays(x.array, y.array)
    product = (a.astype(object) & mask) * (b.astype(object) & mask) >> x.dtype.bits
    unsigned = np.asarray(product, dtype=object).astype(np.uint64)
    return Value(x.dtype, np.asarray(unsigned.astype(x.dtype.array)).reshape(a.shape))


@op("cdiv", _call("tl.cdiv"))
def _cdiv(machine, args, attrs):
    x, y = args
    less = OPS["sub"].evaluate(machine, [y, 1], {}) if not is_number(y) else y - 1
    return _floordiv(machine, [_wrapped(np.add)(machine, [x, less], {}), y], {})


@op("abs", _call("tl.abs"))
def _abs(machine, args, attrs):
    (x, ) = args
    with np.errstate(all="ignore"):
        return Value(x.dtype, np.asarray(np.abs(x.array)) if x.dtype.signed or x.dtype.is_float else x.array, x.ulp)


def _whole(name, function):
    def evaluate(machine, args, attrs):
        (x, ) = args
        exact(x)
        if x.dtype not in (F32, F64):
            raise Reject("fp32 and fp64 only")
        return Value(x.dtype, np.asarray(function(x.array)))
    OPS[name] = Op(_call(f"tl.{name}"), evaluate)


_whole("floor", np.floor)
_whole("ceil", np.ceil)


def _within(low, high):
    return lambda x: (x >= low) & (x <= high)


def _approximate(name, function, domain, dtypes=(F32, F64)):
    """An elementary function, to about 1e-5 (fp32) or 1e-12 (fp64) of its value or of 1, on a range where it is tame."""
    def evaluate(machine, args, attrs):
        (x, ) = args
        exact(x)
        if x.dtype not in dtypes or not np.all(domain(x.array)):
            raise Reject("outside of the range that is compared")
        return Value(x.dtype, np.asarray(function(x.array.astype(np.float64))).astype(x.dtype.array), 128.0 if x.dtype is F32 else 2.0 ** 13)
    OPS[name] = Op(_call(f"tl.{name}"), evaluate)


_approximate("exp", np.exp, _within(-20, 20))
_approximate("exp2", np.exp2, _within(-20, 20))
_approximate("log", np.log, _within(1e-3, 1e6))
_approximate("log2", np.log2, _within(1e-3, 1e6))
_approximate("sin", np.sin, _within(-20, 20))
_approximate("cos", np.cos, _within(-20, 20))
_approximate("sqrt", np.sqrt, _within(0, 1e9))
_approximate("rsqrt", lambda x: 1 / np.sqrt(x), _within(1e-3, 1e9))
_approximate("erf", np.vectorize(math.erf, otypes=[np.float64]), _within(-10, 10))
_approximate("sigmoid", lambda x: 1 / (1 + np.exp(-x)), _within(-20, 20))


@op("sqrt_rn", _call("tl.sqrt_rn"))
def _sqrt_rn(machine, args, attrs):
    (x, ) = args
    exact(x)
    if x.dtype is not F32 or np.any(x.array < 0):
        raise Reject("fp32 only")
    return Value(F32, np.asarray(np.sqrt(x.array)))


# Casts.

def _emit_cast(texts, attrs):
    extra = ", bitcast=True" if attrs.get("bitcast") else ', fp_downcast_rounding="rtz"' if attrs.get("rtz") else ""
    if attrs.get("call"):
        return f"tl.cast({texts[0]}, tl.{attrs['dtype']}{extra})"
    return f"{texts[0]}.to(tl.{attrs['dtype']}{extra})"


@op("cast", _emit_cast)
def _cast(machine, args, attrs):
    dtype = BY_NAME[attrs["dtype"]]
    if attrs.get("bitcast"):
        return bitcast(args[0], dtype)
    if attrs.get("rtz"):
        if not (args[0].dtype.is_float and dtype.is_float and dtype.bits < args[0].dtype.bits):
            raise Reject("rounding of a cast that does not round")
        if np.any(np.abs(args[0].array) > dtype.largest):
            raise Reject("an overflow rounded towards zero")
    return cast(args[0], dtype, bool(attrs.get("rtz")))


# Shapes.

def _moved(value, array):
    return Value(value.dtype, np.ascontiguousarray(array).reshape(np.shape(array)), value.ulp, value.buffer)


@op("broadcast_to", lambda t, a: f"tl.broadcast_to({t[0]}, {_ints(a['shape'])})")
def _broadcast_to(machine, args, attrs):
    (x, ) = args
    if len(x.shape) not in (0, len(attrs["shape"])) or any(s not in (1, d) for s, d in zip(x.shape, attrs["shape"])):
        raise Reject("ranks differ")
    return _moved(x, np.broadcast_to(x.array, attrs["shape"]))


@op("expand_dims", lambda t, a: f"tl.expand_dims({t[0]}, {a['axis']})")
def _expand_dims(machine, args, attrs):
    return _moved(args[0], np.expand_dims(args[0].array, attrs["axis"]))


@op("unsqueeze", lambda t, a: f"tl.unsqueeze({t[0]}, {a['axis']})")
def _unsqueeze(machine, args, attrs):
    return _moved(args[0], np.expand_dims(args[0].array, attrs["axis"]))


@op("squeeze", lambda t, a: f"tl.squeeze({t[0]}, {a['axis']})")
def _squeeze(machine, args, attrs):
    if len(args[0].shape) < 2:
        raise Reject("a squeeze to a scalar")
    return _moved(args[0], np.squeeze(args[0].array, attrs["axis"]))


@op("index", lambda t, a: f"{t[0]}[{', '.join('None' if i is None else ':' for i in a['items'])}]")
def _index(machine, args, attrs):
    return _moved(args[0], args[0].array[tuple(slice(None) if i else None for i in attrs["items"])])


@op("reshape", lambda t, a: f"tl.{a.get('name', 'reshape')}({t[0]}, {_ints(a['shape'])})")
def _reshape(machine, args, attrs):
    if args[0].array.size != int(np.prod(attrs["shape"])):
        raise Reject("sizes differ")
    return _moved(args[0], args[0].array.reshape(attrs["shape"]))


@op("ravel", _call("tl.ravel"))
def _ravel(machine, args, attrs):
    return _moved(args[0], args[0].array.reshape(-1))


@op("permute", lambda t, a: f"tl.{a['name']}({t[0]}, {', '.join(map(str, a['dims']))})")
def _permute(machine, args, attrs):
    if sorted(attrs["dims"]) != list(range(len(args[0].shape))):
        raise Reject("no permutation")
    return _moved(args[0], np.transpose(args[0].array, attrs["dims"]))


@op("transpose", lambda t, a: f"{t[0]}.T" if a.get("member") else f"tl.trans({t[0]})")
def _transpose(machine, args, attrs):
    if len(args[0].shape) != 2:
        raise Reject("rank 2")
    return _moved(args[0], args[0].array.T)


def _same_type(x, y):
    if x.dtype is not y.dtype or x.buffer != y.buffer:
        raise Reject("types differ")


@op("join", _call("tl.join"))
def _join(machine, args, attrs):
    x, y = args
    _same_type(x, y)
    a, b = np.broadcast_arrays(x.array, y.array)
    return Value(x.dtype, np.stack([a, b], axis=-1), max(x.ulp, y.ulp), x.buffer)


@op("interleave", _call("tl.interleave"))
def _interleave(machine, args, attrs):
    joined = _join(machine, args, attrs)
    shape = joined.shape
    if len(shape) < 2:
        raise Reject("interleave of scalars")
    return _moved(joined, joined.array.reshape(shape[:-2] + (2 * shape[-2], )))


@op("split", _call("tl.split"))
def _split(machine, args, attrs):
    (x, ) = args
    if not x.shape or x.shape[-1] != 2:
        raise Reject("the last dimension is 2")
    return tuple(_moved(x, x.array[..., i]) for i in range(2))


@op("cat", lambda t, a: f"tl.cat({t[0]}, {t[1]}, dim={a['dim']})")
def _cat(machine, args, attrs):
    x, y = args
    _same_type(x, y)
    axis = attrs["dim"]
    if not x.shape or x.shape[:axis] + x.shape[axis + 1:] != y.shape[:axis] + y.shape[axis + 1:]:
        raise Reject("shapes differ")
    return Value(x.dtype, np.concatenate([x.array, y.array], axis=attrs["dim"]), max(x.ulp, y.ulp))


@op("assume", _call("tl.assume"))
def _assume(machine, args, attrs):
    (condition, ) = args
    if condition.dtype is not BOOL or not np.all(condition.array):
        raise Reject("a false promise")
    return condition


@op("broadcast", _call("tl.broadcast"))
def _broadcast(machine, args, attrs):
    arrays = np.broadcast_arrays(*(x.array for x in args))
    return tuple(_moved(x, a) for x, a in zip(args, arrays))


def _logical(name, function):
    def evaluate(machine, args, attrs):
        exact(*args)
        x, y = (cast(v, BOOL) for v in args)
        return Value(BOOL, np.asarray(function(x.array, y.array)))
    OPS[name] = Op(_call(f"tl.{name}"), evaluate)


_logical("logical_and", np.logical_and)
_logical("logical_or", np.logical_or)


@op("swizzle2d", _call("tl.swizzle2d"))
def _swizzle2d(machine, args, attrs):
    """Places of a grid of size_i x size_j in groups of size_g rows, down the rows of a group first."""
    i, j = (x.array.astype(np.int64) for x in args[:2])
    size_i, size_j, size_g = args[2:]
    if np.any((i < 0) | (i >= size_i) | (j < 0) | (j >= size_j)):
        raise Reject("outside of the grid")
    number = i * size_j + j
    first = number // (size_g * size_j) * size_g
    rows = np.minimum(size_i - first, size_g)
    number = number % (size_g * size_j)
    return (Value(I32, np.asarray(first + number % rows, np.int32)), Value(I32, np.asarray(number // rows, np.int32)))


@op("item", lambda t, a: f"{t[0]}[{a['index']}]")
def _item(machine, args, attrs):
    return args[0][attrs["index"]]


@op("tuple", lambda t, a: f"({', '.join(t)})")
def _tuple(machine, args, attrs):
    return tuple(as_value(x) for x in args)


@op("chosen", lambda t, a: f"({t[1]} if {t[0]} else {t[2]})")
def _chosen(machine, args, attrs):
    condition, x, y = args
    exact(condition)
    if condition.dtype is not BOOL or condition.shape != () or x.type != y.type or x.buffer is not None:
        raise Reject("two values of one type")
    return x if bool(condition.array) else y


_KNOWN = {"lt": ("<", lambda a, b: a < b), "ge": (">=", lambda a, b: a >= b), "eq": ("==", lambda a, b: a == b)}


@op("compare_known", lambda t, a: f"{t[0]} {_KNOWN[a['name']][0]} {a['with']}")
def _compare_known(machine, args, attrs):
    """Of a number known during compilation."""
    return Value(BOOL, np.asarray(_KNOWN[attrs["name"]][1](args[0], attrs["with"])))


def _scalar_logic(name, word, function):
    def evaluate(machine, args, attrs):
        exact(*args)
        if any(x.dtype is not BOOL or x.shape != () for x in args):
            raise Reject("conditions")
        return Value(BOOL, np.asarray(function(bool(args[0].array), bool(args[1].array))))
    OPS[name] = Op(lambda t, a: f"({t[0]} {word} {t[1]})", evaluate)


_scalar_logic("both", "and", lambda x, y: x and y)
_scalar_logic("either", "or", lambda x, y: x or y)


#: Functions of scalars for every element: name -> (text, number of operands, function of arrays that gives a tuple of them).
MAPPED = {
    "m_compare": ("def m_compare(a, b):\n    if a < b:\n        return -1\n    if a > b:\n        return 1\n    return 0\n", 2,
                  lambda a, b: (np.sign((a > b).astype(np.int32) - (a < b)).astype(np.int32), )),
    "m_steps": ("def m_steps(a, b):\n    n = 0\n    while (a > 1) & (n < 8):\n        a = a // 2 if a % 2 == 0 else a - 1\n        n += 1\n"
                "    return n, a\n", 2, None),
    "m_order": ("def m_order(a, b):\n    if a > b:\n        return b, a\n    else:\n        return a, b\n", 2,
                lambda a, b: (np.where(a > b, b, a), np.where(a > b, a, b))),
}


def _m_steps(a, b):
    a, n = a.copy(), np.zeros(a.shape, np.int32)
    for _ in range(8):
        on = a > 1
        a = np.where(on, np.where(a % 2 == 0, a // 2, a - 1), a).astype(a.dtype)
        n += on
    return n, a


MAPPED["m_steps"] = (*MAPPED["m_steps"][:2], _m_steps)


@op("mapped", lambda t, a: f"tl.map_elementwise({a['function_name']}, {', '.join(t)})")
def _mapped(machine, args, attrs):
    exact(*args)
    if len({x.type for x in args}) > 1 or args[0].dtype is BF16 or args[0].dtype in FP8 or args[0].dtype is BOOL or args[0].dtype.bits < 32:
        raise Reject("operands of one type that is not promoted")
    if args[0].dtype.is_float and (attrs["function_name"] == "m_steps" or any(np.any(np.isnan(x.array)) for x in args)):
        raise Reject("NaN")
    results = MAPPED[attrs["function_name"]][2](*(x.array for x in args))
    kinds = {"m_compare": (I32, ), "m_steps": (I32, args[0].dtype), "m_order": (args[0].dtype, ) * 2}[attrs["function_name"]]
    values = tuple(Value(d, np.asarray(r).astype(d.array)) for d, r in zip(kinds, results))
    return values if len(values) > 1 else values[0]


#: Assembly of two int32 operands: name -> (PTX, its constraints, x86, its constraints, function).
ASSEMBLY = {
    "add": ("add.s32 $0, $1, $2;", "=r,r,r", "movl $1, $0; addl $2, $0", "=&r,r,r", lambda a, b: (a + b, )),
    "swapped": ("{ sub.s32 $0, $2, $3; xor.b32 $1, $2, $3; }", "=&r,=&r,r,r", "movl $2, $0; subl $3, $0; movl $2, $1; xorl $3, $1",
                "=&r,=&r,r,r", lambda a, b: (a - b, a ^ b)),
}


def _asm_text(texts, attrs):
    ptx, with_ptx, x86, with_x86, function = ASSEMBLY[attrs["name"]]
    count = with_ptx.count("=")
    dtype = "tl.int32" if count == 1 else "(" + ", ".join(["tl.int32"] * count) + ")"
    return (f'tl.inline_asm_elementwise("{ptx}" if tl.target_info.is_cuda() else "{x86}", "{with_ptx}" if tl.target_info.is_cuda() else '
            f'"{with_x86}", [{", ".join(texts)}], dtype={dtype}, is_pure=True, pack=1)')


@op("asm", _asm_text)
def _asm(machine, args, attrs):
    exact(*args)
    if any(x.dtype is not I32 for x in args):
        raise Reject("int32")
    x, y = np.broadcast_arrays(*(x.array for x in args))
    with np.errstate(all="ignore"):
        values = tuple(Value(I32, np.asarray(r)) for r in ASSEMBLY[attrs["name"]][4](x, y))
    return values if len(values) > 1 else values[0]


def _hint_text(texts, attrs):
    count, first, *rest = attrs["values"], *reversed(attrs["name"].split("+"))
    text = f"tl.{first}({texts[0]}, {count})"
    return f"tl.{rest[0]}({text}, {count})" if rest else text


@op("hint", _hint_text)
def _hint(machine, args, attrs):
    """A promise that holds: a scalar is a multiple; elements of a block of rank 1 are equal or consecutive in groups, or consecutive from
    a multiple on, as kernels say with two hints, one in the other."""
    (x, ) = args
    count = attrs["values"]
    if x.dtype.is_float or x.dtype is BOOL:
        raise Reject("a hint about integers")
    if attrs["name"] == "multiple_of":
        if np.any(x.array % count != 0):
            raise Reject("a false hint")
        return x
    if len(x.shape) != 1 or x.shape[0] % count:
        raise Reject("a hint about a block")
    groups = x.array.reshape(-1, count)
    step = 0 if attrs["name"] == "max_constancy" else 1
    if np.any(groups != groups[:, :1] + step * np.arange(count, dtype=x.dtype.array)):
        raise Reject("a false hint")
    if "+" in attrs["name"] and np.any(groups[:, 0] % count != 0):
        raise Reject("a false hint")
    return x


@op("through8", lambda t, a: f"{t[0]}.to(tl.{a['dtype']}{', fp_downcast_rounding=' + repr('rtz') if a['rtz'] else ''}).to(tl.float32)")
def _through8(machine, args, attrs):
    x = args[0]
    if not isinstance(x, Value) or x.buffer is not None or not x.dtype.is_float or x.ulp:
        raise Reject("an exact float")
    return Value(F32, np.asarray(round_float(x.array, SOFTWARE[attrs["dtype"]], attrs["rtz"]) + np.float32(0)))   # no negative zero


# Blocks rearranged.

@op("gather", lambda t, a: f"tl.gather({t[0]}, {t[1]}, {a['axis']})")
def _gather(machine, args, attrs):
    x, index = args
    axis = attrs["axis"]
    if len(x.shape) != len(index.shape) or any(a != b for i, (a, b) in enumerate(zip(x.shape, index.shape)) if i != axis % len(x.shape)):
        raise Reject("shapes differ")
    if index.dtype.is_float or np.any((index.array < 0) | (index.array.astype(np.int64) >= x.shape[axis])):
        raise Reject("an index out of bounds")
    return _moved(x, np.take_along_axis(x.array, index.array.astype(np.int64), axis))


@op("histogram", lambda t, a: f"tl.histogram({t[0]}, {a['bins']}{', mask=' + t[1] if len(t) > 1 else ''})")
def _histogram(machine, args, attrs):
    x = args[0]
    if len(x.shape) != 1 or x.dtype.is_float or x.dtype is BOOL:
        raise Reject("integers of rank 1")
    values = x.array.astype(object)
    if len(args) > 1:
        if args[1].shape != x.shape:
            raise Reject("shapes differ")
        values = values[args[1].array]
    if any(not 0 <= v < attrs["bins"] for v in values):
        raise Reject("a value without a bin")
    return Value(I32, np.bincount(values.astype(np.int64), minlength=attrs["bins"]).astype(np.int32))


@op("flip", lambda t, a: f"tl.flip({t[0]}, {a['axis']})")
def _flip(machine, args, attrs):
    return _moved(args[0], np.flip(args[0].array, attrs["axis"]))


def no_mixed_zeros(array):
    if array.dtype.kind == "f" and np.any((array == 0) & np.signbit(array)) and np.any((array == 0) & ~np.signbit(array)):
        raise Reject("0.0 and -0.0")


def _ordered(x, attrs):
    exact(x)
    if x.dtype in FP8 or x.dtype.is_float and np.any(np.isnan(x.array)):
        raise Reject("no order")
    array = np.asarray(x.array)
    no_mixed_zeros(array)
    return array


@op("sort", lambda t, a: f"tl.sort({t[0]}, {a['axis']}{', descending=True' if a.get('descending') else ''})")
def _sort(machine, args, attrs):
    result = np.sort(_ordered(args[0], attrs), axis=attrs["axis"])
    return _moved(args[0], np.flip(result, attrs["axis"]) if attrs.get("descending") else result)


@op("topk", lambda t, a: f"tl.topk({t[0]}, {a['k']}, {a['axis']}{', descending=False' if a.get('least') else ''})")
def _topk(machine, args, attrs):
    result = np.sort(_ordered(args[0], attrs), axis=attrs["axis"])
    if not attrs.get("least"):
        result = np.flip(result, attrs["axis"])
    return _moved(args[0], np.take(result, range(attrs["k"]), attrs["axis"]))


def _slice_text(item):
    if isinstance(item, int):
        return str(item)
    start, stop, step = item
    return f"{'' if start is None else start}:{'' if stop is None else stop}" + (f":{step}" if step is not None else "")


@op("slice", lambda t, a: f"{t[0]}[{', '.join(map(_slice_text, a['items']))}]")
def _slice(machine, args, attrs):
    items = tuple(i if isinstance(i, int) else slice(*i) for i in attrs["items"])
    array = np.asarray(args[0].array[items])
    if array.size == 0:
        raise Reject("an empty slice")
    return _moved(args[0], array)
