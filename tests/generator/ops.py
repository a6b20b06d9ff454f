"""What each operation of the language means, in NumPy, and how it is written.

`OPS[name]` has `emit(texts, attrs)` and `evaluate(machine, operands, attrs)`. Operands are `Value`s or Python numbers, results are
`Value`s or tuples of them. An evaluation raises `Reject` where the language leaves the result open.
"""

import dataclasses
import math

import numpy as np

from .dtypes import (BF16, BOOL, BY_NAME, F16, F32, F64, FP8, I8, I32, SOFTWARE, U32, U64, Reject, Value, as_value, bitcast, cast,
                     exact, is_number, lowest_bit, meet, meet_as_tensors, require_exact_sum, round_float)


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
        if not (args[0].dtype.is_float and dtype.is_float and dtype.bits < args[0].dtype.bits) or dtype in FP8:
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


@op("hint", lambda t, a: f"tl.{a['name']}({t[0]}, {a['values']})")
def _hint(machine, args, attrs):
    """A promise that holds: a scalar is a multiple, or elements of a block of rank 1 are consecutive in groups."""
    (x, ) = args
    count = attrs["values"]
    if x.dtype.is_float or x.dtype is BOOL:
        raise Reject("a hint about integers")
    if attrs["name"] == "multiple_of":
        if x.shape != () or np.any(x.array % count != 0):
            raise Reject("a false hint")
        return x
    if len(x.shape) != 1 or x.shape[0] % count:
        raise Reject("a hint about a block")
    groups = x.array.reshape(-1, count)
    if np.any(groups != groups[:, :1] + np.arange(count, dtype=x.dtype.array)):
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


def _ordered(x, attrs):
    exact(x)
    if x.dtype in FP8 or x.dtype.is_float and np.any(np.isnan(x.array)):
        raise Reject("no order")
    array = np.asarray(x.array)
    _no_mixed_zeros(array)
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


# Reductions and scans.

def _any_sum(machine, x, axis):
    exact(x)
    if x.dtype is BOOL:
        raise Reject("a sum of bools")
    if x.dtype.is_float:
        require_exact_sum(x.array, axis, x.dtype.digits)
        return computed(x.dtype, np.sum(x.array.astype(np.float64), axis=axis))
    return Value(x.dtype, np.asarray(np.sum(x.array, axis=axis, dtype=x.dtype.array)))


def _narrow_as_int(x):
    if x.dtype.is_int and x.dtype.bits < 32:
        return cast(x, I32 if x.dtype.signed else U32)
    return x


def _axis_text(attrs):
    axis = attrs["axis"]
    if attrs.get("keep"):
        return f"{axis}, keep_dims=True"
    return str(axis)


def _reduced(x, array, attrs):
    axis = attrs["axis"]
    if attrs.get("keep"):
        array = np.asarray(array).reshape((1, ) * len(x.shape)) if axis is None else np.expand_dims(array, axis)
    return np.asarray(array)


def _check_axis(x, attrs):
    axis = attrs["axis"]
    if not x.shape or axis is not None and not -len(x.shape) <= axis < len(x.shape):
        raise Reject("no such axis")
    return tuple(range(len(x.shape))) if axis is None else axis


@op("sum", lambda t, a: f"tl.sum({t[0]}, {_axis_text(a)}{', dtype=tl.' + a['dtype'] if a.get('dtype') else ''})")
def _sum(machine, args, attrs):
    (x, ) = args
    axis = _check_axis(x, attrs)
    x = cast(x, BY_NAME[attrs["dtype"]]) if attrs.get("dtype") else _narrow_as_int(x)
    total = _any_sum(machine, x, axis)
    return Value(total.dtype, _reduced(x, total.array, attrs))


def _bitwise_reduce(name, function):
    def evaluate(machine, args, attrs):
        (x, ) = args
        axis = _check_axis(x, attrs)
        if x.dtype.is_float:
            raise Reject("integers only")
        array = x.array
        if isinstance(axis, tuple):
            array, axis = array.reshape(-1), 0
        return Value(x.dtype, _reduced(x, function.reduce(array, axis=axis), attrs))
    OPS[name] = Op(lambda t, a: f"tl.{name}({t[0]}, {_axis_text(a)})", evaluate)


_bitwise_reduce("xor_sum", np.bitwise_xor)
_bitwise_reduce("reduce_or", np.bitwise_or)


def _no_mixed_zeros(array):
    if array.dtype.kind == "f" and np.any((array == 0) & np.signbit(array)) and np.any((array == 0) & ~np.signbit(array)):
        raise Reject("0.0 and -0.0")


def _extreme(name, larger):
    function = np.fmax if larger else np.fmin

    def evaluate(machine, args, attrs):
        (x, ) = args
        exact(x)
        axis = _check_axis(x, attrs)
        if x.dtype in FP8 or x.dtype is BOOL:
            raise Reject("not compared")
        if x.dtype.is_float and x.dtype.bits < 32:
            x = cast(x, F32)
        elif x.dtype.is_int and x.dtype.bits < 32:
            x = cast(x, I32)
        _no_mixed_zeros(x.array)
        return Value(x.dtype, _reduced(x, function.reduce(x.array, axis=axis), attrs))

    OPS[name] = Op(lambda t, a: f"tl.{name}({t[0]}, {_axis_text(a)})", evaluate)

    def position(machine, args, attrs):
        (x, ) = args
        exact(x)
        axis = _check_axis(x, attrs)
        if x.dtype in FP8 or x.dtype is BOOL:
            raise Reject("not compared")
        if x.dtype is BF16:
            x = cast(x, F32)
        array = x.array
        if isinstance(axis, tuple):
            array, axis = array.reshape(-1), 0
        if array.dtype.kind == "f":
            _no_mixed_zeros(array)
            numbers = ~np.isnan(array)
            if not np.all(np.any(numbers, axis=axis)):
                raise Reject("nothing but NaN")
            value = function.reduce(array, axis=axis)
            index = np.argmax(array == np.expand_dims(value, axis), axis=axis)
        else:
            index = (np.argmax if larger else np.argmin)(array, axis=axis)
            value = np.take_along_axis(array, np.expand_dims(index, axis), axis).squeeze(axis)
        if attrs.get("any"):  # any of equal values: only unique ones can be compared
            if np.any(np.sum(array == np.expand_dims(value, axis), axis=axis) > 1):
                raise Reject("ties")
        return (Value(x.dtype, _reduced(x, value.astype(x.dtype.array), attrs)), Value(I32, _reduced(x, index.astype(np.int32), attrs)))

    def tie(attrs, word):
        return f", {word}=False" if attrs.get("any") else ""

    OPS[f"{name}_with_index"] = Op(
        lambda t, a: f"tl.{name}({t[0]}, {_axis_text(a)}, return_indices=True{tie(a, 'return_indices_tie_break_left')})", position)
    OPS[f"arg{name}"] = Op(lambda t, a: f"tl.arg{name}({t[0]}, {_axis_text(a)}{tie(a, 'tie_break_left')})",
                           lambda machine, args, attrs: position(machine, args, attrs)[1])


_extreme("max", True)
_extreme("min", False)


def _scan_text(name):
    def emit(texts, attrs):
        dtype = f", dtype=tl.{attrs['dtype']}" if attrs.get("dtype") else ""
        return f"tl.{name}({texts[0]}, {attrs['axis']}{', reverse=True' if attrs.get('reverse') else ''}{dtype})"
    return emit


def _along(array, axis, reverse, function):
    if reverse:
        return np.flip(function(np.flip(array, axis), axis), axis)
    return function(array, axis)


@op("cumsum", _scan_text("cumsum"))
def _cumsum(machine, args, attrs):
    (x, ) = args
    exact(x)
    _check_axis(x, attrs)
    x = cast(x, BY_NAME[attrs["dtype"]]) if attrs.get("dtype") else _narrow_as_int(x)
    if x.dtype is BF16:
        x = cast(x, F32)
    if x.dtype is BOOL:
        raise Reject("a sum of bools")
    if x.dtype.is_float:
        require_exact_sum(x.array, attrs["axis"], x.dtype.digits)
        wide = _along(x.array.astype(np.float64), attrs["axis"], attrs.get("reverse"), lambda a, i: np.cumsum(a, axis=i))
        return computed(x.dtype, wide)
    return Value(x.dtype, _along(x.array, attrs["axis"], attrs.get("reverse"), lambda a, i: np.cumsum(a, axis=i, dtype=x.dtype.array)))


@op("cumprod", _scan_text("cumprod"))
def _cumprod(machine, args, attrs):
    (x, ) = args
    exact(x)
    _check_axis(x, attrs)
    if x.dtype is BF16:
        x = cast(x, F32)
    if x.dtype is BOOL:
        raise Reject("a product of bools")
    if x.dtype.is_float:
        mantissa, exponent = np.frexp(np.asarray(x.array, np.float64))
        if not np.all(np.isin(np.abs(mantissa), (0.5, ))) or np.max(np.sum(np.abs(exponent), axis=attrs["axis"])) > 12:
            raise Reject("a product that may round")
    with np.errstate(all="ignore"):
        result = _along(x.array, attrs["axis"], attrs.get("reverse"), lambda a, i: np.cumprod(a, axis=i, dtype=x.dtype.array))
    return Value(x.dtype, np.ascontiguousarray(result))


# Combiners written in the language: name -> (text, number of operands, function of two tuples of arrays, dtypes).

def _affine(a, b):
    return (a[0] * b[0], a[1] * b[0] + b[1])


def _with_flag(a, b):
    return (np.where(b[1], b[0], a[0] + b[0]), a[1] | b[1])


COMBINERS = {
    "c_add": ("def c_add(a, b):\n    return a + b\n", 1, lambda a, b: (a[0] + b[0], ), "int"),
    "c_mul": ("def c_mul(a, b):\n    return a * b\n", 1, lambda a, b: (a[0] * b[0], ), "int"),
    "c_and": ("def c_and(a, b):\n    return a & b\n", 1, lambda a, b: (a[0] & b[0], ), "int"),
    "c_or": ("def c_or(a, b):\n    return a | b\n", 1, lambda a, b: (a[0] | b[0], ), "int"),
    "c_xor": ("def c_xor(a, b):\n    return a ^ b\n", 1, lambda a, b: (a[0] ^ b[0], ), "int"),
    "c_max": ("def c_max(a, b):\n    return tl.maximum(a, b)\n", 1, lambda a, b: (np.fmax(a[0], b[0]), ), "number"),
    "c_min": ("def c_min(a, b):\n    return tl.where(b < a, b, a)\n", 1, lambda a, b: (np.where(b[0] < a[0], b[0], a[0]), ), "number"),
    "c_first": ("def c_first(a, b):\n    return a\n", 1, lambda a, b: (a[0], ), "any"),
    "c_last": ("def c_last(a, b):\n    return b\n", 1, lambda a, b: (b[0], ), "any"),
    "c_branch": ("def c_branch(a, b):\n    if a > b:\n        r = a\n    else:\n        r = b\n    return r\n", 1,
                 lambda a, b: (np.where(a[0] > b[0], a[0], b[0]), ), "number"),
    "c_affine": ("def c_affine(a, b, c, d):\n    return a * c, b * c + d\n", 2, _affine, "int2"),
    "c_segment": ("def c_segment(a, f, b, g):\n    return tl.where(g, b, a + b), f | g\n", 2, _with_flag, "flag"),
    "c_pair": ("def c_pair(a, i, b, j):\n    return tl.minimum(a, b), tl.maximum(i, j)\n", 2,
               lambda a, b: (np.fmin(a[0], b[0]), np.fmax(a[1], b[1])), "number2"),
}


def _fold(name, arrays, axis):
    """The running results along an axis, from its beginning."""
    function = COMBINERS[name][2]
    arrays = [np.moveaxis(a, axis, 0) for a in arrays]
    kinds = [a.dtype for a in arrays]
    state = tuple(a[0] for a in arrays)
    results = [state]
    with np.errstate(all="ignore"):
        for i in range(1, arrays[0].shape[0]):
            state = tuple(np.asarray(s).astype(k) for s, k in zip(function(state, tuple(a[i] for a in arrays)), kinds))
            results.append(state)
    return results


def _custom(args, attrs):
    exact(*args)
    if any(v.shape != args[0].shape or v.buffer for v in args):
        raise Reject("shapes differ")
    for v in args:
        if v.dtype is BF16 or v.dtype in FP8:
            raise Reject("types that combiners promote")
        if v.dtype.is_float:
            _no_mixed_zeros(v.array)
            if np.any(np.isnan(v.array)):
                raise Reject("NaN")
    return _check_axis(args[0], attrs)


def _tuple_text(texts):
    return texts[0] if len(texts) == 1 else "(" + ", ".join(texts) + ")"


@op("reduce", lambda t, a: f"tl.reduce({_tuple_text(t)}, {a['axis']}, {a['combine']}{', keep_dims=True' if a.get('keep') else ''})")
def _reduce(machine, args, attrs):
    axis = _custom(args, attrs)
    arrays = [v.array for v in args]
    if isinstance(axis, tuple):
        arrays, axis = [a.reshape(-1) for a in arrays], 0
    last = _fold(attrs["combine"], arrays, axis)[-1]
    values = tuple(Value(v.dtype, _reduced(v, np.asarray(a), attrs)) for v, a in zip(args, last))
    return values if len(values) > 1 else values[0]


@op("scan", lambda t, a: f"tl.associative_scan({_tuple_text(t)}, {a['axis']}, {a['combine']}{', reverse=True' if a.get('reverse') else ''})")
def _scan(machine, args, attrs):
    axis = _custom(args, attrs)
    arrays = [np.flip(v.array, axis) if attrs.get("reverse") else v.array for v in args]
    results = _fold(attrs["combine"], arrays, axis)
    values = []
    for k, v in enumerate(args):
        array = np.stack([np.asarray(r[k]) for r in results], axis=axis)
        values.append(Value(v.dtype, np.ascontiguousarray(np.flip(array, axis) if attrs.get("reverse") else array)))
    return tuple(values) if len(values) > 1 else values[0]


@op("softmax", lambda t, a: f"tl.softmax({t[0]}, {a['axis']})")
def _softmax(machine, args, attrs):
    (x, ) = args
    exact(x)
    _check_axis(x, attrs)
    if x.dtype is not F32 or not np.all(np.abs(x.array) <= 30):
        raise Reject("fp32 only")
    wide = x.array.astype(np.float64)
    e = np.exp(wide - wide.max(axis=attrs["axis"], keepdims=True))
    return Value(F32, (e / e.sum(axis=attrs["axis"], keepdims=True)).astype(np.float32), 256.0)


# Products.

def _emit_dot(texts, attrs):
    parts = [texts[0], texts[1]]
    if len(texts) > 2:
        parts.append(texts[2] if attrs.get("positional") else f"acc={texts[2]}")
    if attrs.get("precision"):
        parts.append(f'input_precision="{attrs["precision"]}"')
    if attrs.get("out"):
        parts.append(f"out_dtype=tl.{attrs['out']}")
    return f"tl.dot({', '.join(parts)})"


@op("dot", _emit_dot)
def _dot(machine, args, attrs):
    exact(*args)
    a, b = args[:2]
    if a.dtype is not b.dtype and not (a.dtype in FP8 and b.dtype in FP8):
        raise Reject("types differ")
    if len(a.shape) != len(b.shape) or len(a.shape) not in (2, 3) or a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
        raise Reject("shapes differ")
    if a.dtype.is_int:
        if a.dtype is not I8:
            raise Reject("int8 only")
        out = I32
    elif a.dtype is F64:
        out = F64
    else:
        out = BY_NAME[attrs["out"]] if attrs.get("out") else F32
        if out is not F32 and not (out is F16 and a.dtype is F16 or out is F16 and a.dtype in FP8):
            raise Reject("no such result")
    if len(args) > 2 and (args[2].dtype is not out or args[2].shape != a.shape[:-1] + b.shape[-1:]):
        raise Reject("another accumulator")
    if out is I32:
        with np.errstate(all="ignore"):
            total = np.matmul(a.array.astype(np.int32), b.array.astype(np.int32))
            if len(args) > 2:
                total = total + args[2].array
        return Value(I32, total)
    x, y = a.array.astype(np.float64), b.array.astype(np.float64)
    acc = args[2].array.astype(np.float64) if len(args) > 2 else np.zeros(())
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y)) and np.all(np.isfinite(acc))):
        raise Reject("infinities in a product")
    digits = min(out.digits, 12 if a.dtype in FP8 else 53)
    if a.dtype is F32:
        for operand in (x, y):  # representable in the shortest form that is multiplied
            if not np.array_equal(round_float(operand, BF16), operand):
                raise Reject("an operand that tf32 rounds")
    low = min(lowest_bit(x) + lowest_bit(y), lowest_bit(acc) if np.any(acc) else 10 ** 6)
    bound = np.max(np.matmul(np.abs(x), np.abs(y)) + np.abs(acc), initial=0.0)
    if bound and np.log2(bound) - low > digits - 0.01:
        raise Reject("an inexact product")
    total = np.matmul(x, y) + acc + 0.0
    if np.any((acc == 0) & np.signbit(acc)):
        raise Reject("a sum of -0.0")
    result = computed(out, total)
    result.product = (low, bound)
    return result


# Memory. A pointer counts the elements from the beginning of its buffer.

@op("addptr", lambda t, a: f"({t[0]} - {t[1]})" if a.get("minus") else f"({t[0]} + {t[1]})")
def _addptr(machine, args, attrs):
    pointer, offset = args
    if is_number(offset):
        delta = np.asarray(offset, np.int64)
    else:
        if offset.dtype.is_float or offset.dtype is BOOL:
            raise Reject("an integer offset")
        delta = offset.array.astype(np.int64)
        if attrs.get("minus") and not offset.dtype.signed:
            raise Reject("the negative of an unsigned offset")
        if attrs.get("minus") and np.any(offset.array == offset.dtype.minimum):
            raise Reject("no such negative")
    return Value(pointer.dtype, np.asarray(pointer.array + (-delta if attrs.get("minus") else delta)), 0.0, pointer.buffer)


def _memory_text(name):
    def emit(texts, attrs):
        count = {"load": 1, "store": 2}[name]
        parts = texts[:count]
        rest = texts[count:]
        if attrs.get("masked"):
            parts.append(f"mask={rest.pop(0)}")
        if attrs.get("other"):
            parts.append(f"other={rest.pop(0)}")
        parts += [f'{key}="{attrs[key]}"' for key in ("cache_modifier", "eviction_policy") if attrs.get(key)]
        if attrs.get("volatile"):
            parts.append("volatile=True")
        return f"tl.{name}({', '.join(parts)})"
    return emit


def _mask_of(args, index, attrs, shape):
    if not attrs.get("masked"):
        return np.ones(shape, bool)
    mask = args[index]
    if isinstance(mask, bool):
        return np.full(shape, mask)
    if mask.dtype is not BOOL:
        raise Reject("a mask is a bool")
    return np.broadcast_to(mask.array, shape)


@op("load", _memory_text("load"))
def _load(machine, args, attrs):
    pointer = args[0]
    if attrs.get("masked") and not isinstance(args[1], bool) and len(args[1].shape) > len(pointer.shape):
        raise Reject("the mask is larger than the pointers")
    try:
        mask = _mask_of(args, 1, attrs, pointer.shape)
    except ValueError as error:
        raise Reject("shapes differ") from error
    if attrs.get("other"):
        other = cast(as_value(args[2]), pointer.dtype)
        other = np.broadcast_to(other.array, pointer.shape)
    elif not np.all(mask):
        raise Reject("elements without a value")
    else:
        other = np.zeros(pointer.shape, pointer.dtype.array)
    return Value(pointer.dtype, machine.read(pointer, mask, other))


def _described_text(texts, attrs):
    shape, strides, block = (list(attrs[key]) for key in ("sizes", "strides", "shape"))
    return f"tl.make_tensor_descriptor({texts[0]}, {shape}, {strides}, {block}).load([{', '.join(texts[1:])}])"


@op("described", _described_text)
def _described(machine, args, attrs):
    """A block read through a descriptor: zero outside of the tensor."""
    pointer, offsets = args[0], args[1:]
    shape = attrs["shape"]
    places, inside = np.asarray(pointer.array), np.ones(shape, bool)
    for axis, (offset, size, stride) in enumerate(zip(offsets, attrs["sizes"], attrs["strides"])):
        start = offset if is_number(offset) else int(offset.array)
        if not is_number(offset) and (offset.shape != () or offset.dtype is not I32):
            raise Reject("an int32 offset")
        index = (start + np.arange(shape[axis])).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        inside = inside & (index >= 0) & (index < size)
        places = places + index * stride
    places = np.broadcast_to(places, shape)
    block = Value(pointer.dtype, places, 0.0, pointer.buffer)
    return Value(pointer.dtype, machine.read(block, inside, np.zeros(shape, pointer.dtype.array)))


#: Loads without `other` whose missing elements are replaced at once.
@op("load_or", lambda t, a: f"tl.where({t[1]}, {_memory_text('load')(t[:2], a)}, {t[2]})")
def _load_or(machine, args, attrs):
    return _load(machine, [args[0], args[1], cast(args[2], args[0].dtype)], {**attrs, "masked": True, "other": True})


def _atomic_emit(texts, attrs):
    name = attrs["name"]
    count = 3 if name == "cas" else 2
    parts = texts[:count] + ([f"mask={texts[count]}"] if attrs.get("masked") else [])
    parts += [f'{key}="{attrs[key]}"' for key in ("sem", "scope") if attrs.get(key)]
    return f"tl.atomic_{name}({', '.join(parts)})"


_ATOMIC = {
    "add": lambda old, new: old + new, "max": lambda old, new: np.fmax(old, new), "min": lambda old, new: np.fmin(old, new),
    "and": lambda old, new: old & new, "or": lambda old, new: old | new, "xor": lambda old, new: old ^ new,
    "xchg": lambda old, new: new,
}


def atomic_dtypes(name):
    """The element types of an atomic operation."""
    more = {"add": ("float16", "bfloat16", "float32", "float64"), "and": (), "or": (), "xor": ()}
    return ("int32", "uint32", "int64", "uint64") + more.get(name, ("float32", "float64"))


@op("atomic", _atomic_emit)
def _atomic(machine, args, attrs):
    """Elements are taken one after the other; the old values are given only where no address occurs twice (`unique`)."""
    pointer, name = args[0], attrs["name"]
    dtype = pointer.dtype
    if dtype.name not in atomic_dtypes(name if name != "cas" else "xchg"):
        raise Reject("no such atomic")
    values = [cast(as_value(x), dtype) for x in args[1:(3 if name == "cas" else 2)]]
    exact(*values)
    mask = _mask_of(args, len(args) - 1, attrs, pointer.shape)
    where = np.broadcast_to(pointer.array, pointer.shape).reshape(-1)
    flat = [np.broadcast_to(v.array, pointer.shape).reshape(-1) for v in values]
    use = mask.reshape(-1)
    if attrs.get("unique"):
        if len(np.unique(where[use])) != np.count_nonzero(use) or not np.all(use):
            raise Reject("an address occurs twice")
    elif name in ("xchg", "cas"):
        raise Reject("an order matters")
    memory = machine.values(pointer.buffer)
    old = np.zeros(where.shape, dtype.array)
    if np.any((where[use] < 0) | (where[use] >= memory.size)):
        raise Reject("out of bounds")
    if dtype.is_float and any(np.any(np.isnan(v)) or np.any((v == 0) & np.signbit(v)) for v in flat):
        raise Reject("NaN or -0.0 in an atomic")
    with np.errstate(all="ignore"):
        for lane in np.nonzero(use)[0]:
            before = memory[where[lane]]
            old[lane] = before
            if name == "cas":
                after = flat[1][lane] if before == flat[0][lane] else before
            else:
                after = _ATOMIC[name](before, flat[0][lane])
            if name == "add" and dtype.is_float:
                total = float(before) + float(flat[0][lane])
                after = round_float(total, dtype)
                # Exact with any order: multiples of 1/8 below 2^(digits - 4).
                if float(after) != total or abs(total) * 8 > 2.0 ** (dtype.digits - 1) or total * 8 != int(total * 8):
                    raise Reject("an inexact sum")
            memory[where[lane]] = after
    machine.write_values(pointer.buffer, memory)
    return Value(dtype, old.reshape(pointer.shape))
