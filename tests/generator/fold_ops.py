"""Reductions and scans, those of the language and those with combiners written in it."""

import numpy as np

from .dtypes import (BF16, BOOL, BY_NAME, F32, FP8, I32, U32, Reject, Value, cast, exact, require_exact_sum)
from .ops import OPS, Op, no_mixed_zeros, computed, op


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
    machine.overflow.sum(x, axis)
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
        no_mixed_zeros(x.array)
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
            no_mixed_zeros(array)
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


def _in_order(x, attrs):
    """The elements in the order of a scan."""
    return Value(x.dtype, np.flip(x.array, attrs["axis"])) if attrs.get("reverse") else x


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
    machine.overflow.sum(_in_order(x, attrs), attrs["axis"], running=True)
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
    machine.overflow.product(_in_order(x, attrs), attrs["axis"], running=True)
    with np.errstate(all="ignore"):
        result = _along(x.array, attrs["axis"], attrs.get("reverse"), lambda a, i: np.cumprod(a, axis=i, dtype=x.dtype.array))
    return Value(x.dtype, np.ascontiguousarray(result))


# Combiners written in the language: name -> (text, number of operands, function of two tuples of arrays, dtypes).

def _affine(a, b):
    return (a[0] * b[0], a[1] * b[0] + b[1])


def _with_flag(a, b):
    return (np.where(b[1], b[0], a[0] + b[0]), a[1] | b[1])


def _best(a, b):
    take = (b[0] > a[0]) | ((b[0] == a[0]) & (b[1] < a[1]))
    return (np.where(take, b[0], a[0]), np.where(take, b[1], a[1]))


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
    "c_best": ("def c_best(a, i, b, j):\n    take = (b > a) | ((b == a) & (j < i))\n    return tl.where(take, b, a), tl.where(take, j, i)\n", 2,
               _best, "best"),
    "c_triple": ("def c_triple(a, x, p, b, y, q):\n    return a + b, tl.maximum(x, y), p ^ q\n", 3,
                 lambda a, b: (a[0] + b[0], np.maximum(a[1], b[1]), a[2] ^ b[2]), "int3"),
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
            no_mixed_zeros(v.array)
            if np.any(np.isnan(v.array)):
                raise Reject("NaN")
    return _check_axis(args[0], attrs)


def _note_overflow(machine, name, values, axis, running=False):
    """The arithmetic of a combiner, which is the author's. Where it discards a sum, or carries several numbers, the order tells."""
    if name == "c_add":
        machine.overflow.sum(values[0], axis, running)
    elif name == "c_mul":
        machine.overflow.product(values[0], axis, running)
    elif name == "c_affine":
        machine.overflow.affine(*values, axis)
    elif name in ("c_segment", "c_triple"):
        with machine.overflow.doubt():
            machine.overflow.sum(values[0], axis)


def _tuple_text(texts):
    return texts[0] if len(texts) == 1 else "(" + ", ".join(texts) + ")"


@op("reduce", lambda t, a: f"tl.reduce({_tuple_text(t)}, {a['axis']}, {a['combine']}{', keep_dims=True' if a.get('keep') else ''})")
def _reduce(machine, args, attrs):
    axis = _custom(args, attrs)
    arrays = [v.array for v in args]
    if isinstance(axis, tuple):
        arrays, axis = [a.reshape(-1) for a in arrays], 0
    _note_overflow(machine, attrs["combine"], [Value(v.dtype, a) for v, a in zip(args, arrays)], axis)
    last = _fold(attrs["combine"], arrays, axis)[-1]
    values = tuple(Value(v.dtype, _reduced(v, np.asarray(a), attrs)) for v, a in zip(args, last))
    return values if len(values) > 1 else values[0]


@op("scan", lambda t, a: f"tl.associative_scan({_tuple_text(t)}, {a['axis']}, {a['combine']}{', reverse=True' if a.get('reverse') else ''})")
def _scan(machine, args, attrs):
    axis = _custom(args, attrs)
    arrays = [np.flip(v.array, axis) if attrs.get("reverse") else v.array for v in args]
    _note_overflow(machine, attrs["combine"], [Value(v.dtype, a) for v, a in zip(args, arrays)], axis, running=True)
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
