"""Products of matrices."""

import numpy as np

from .dtypes import BF16, BY_NAME, F16, F32, F64, FP8, I8, I32, Reject, exact, lowest_bit, round_float, Value
from .ops import computed, op


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
