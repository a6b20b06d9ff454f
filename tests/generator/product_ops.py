"""Products of matrices. A result whose bits depend on the order of its sum is none."""

import numpy as np

from .dtypes import BF16, BY_NAME, E4M3, E5M2, F16, F32, F64, FP8, I8, I32, U8, Reject, Value, exact, lowest_bit, round_float
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
    if a.dtype is F32:
        for operand in (x, y):  # representable in the shortest form that is multiplied
            if not np.array_equal(round_float(operand, BF16), operand):
                raise Reject("an operand that tf32 rounds")
    return _exact_product(x, y, args[2] if len(args) > 2 else None, out, min(out.digits, 12 if a.dtype in FP8 else 53))


def _exact_product(x, y, acc, out, digits):
    """x @ y + acc where no order of the sum rounds."""
    acc = np.zeros(()) if acc is None else acc.array.astype(np.float64)
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y)) and np.all(np.isfinite(acc))):
        raise Reject("infinities in a product")
    low = min(lowest_bit(x) + lowest_bit(y), lowest_bit(acc) if np.any(acc) else 10 ** 6)
    bound = np.max(np.matmul(np.abs(x), np.abs(y)) + np.abs(acc), initial=0.0)
    if bound and np.log2(bound) - low > digits - 0.01:
        raise Reject("an inexact product")
    if np.any((acc == 0) & np.signbit(acc)):
        raise Reject("a sum of -0.0")
    result = computed(out, np.matmul(x, y) + acc + 0.0)
    result.product = (low, bound)
    return result


#: Formats of scaled products and the types that hold their numbers.
SCALED = {"e2m1": U8, "e4m3": E4M3, "e5m2": E5M2, "bf16": BF16, "fp16": F16}
_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def _emit_scaled(texts, attrs):
    texts = list(texts)
    a, b = texts.pop(0), texts.pop(0)
    left, right = (texts.pop(0) if attrs[key] else "None" for key in ("left_scale", "right_scale"))
    parts = [a, left, f'"{attrs["left"]}"', b, right, f'"{attrs["right"]}"']
    if texts:
        parts.append(f"acc={texts[0]}" if not attrs.get("positional") else texts[0])
    parts += [f"{key}=False" for key in ("lhs_k_pack", "rhs_k_pack") if not attrs.get(key, True)]
    return f"tl.dot_scaled({', '.join(parts)})"


def _scaled_operand(value, kind, scale, along, packed_along):
    """The numbers of an operand in float64 with the dimension of the sum at `along`."""
    exact(value)
    if value.dtype is not SCALED[kind] or len(value.shape) != 2:
        raise Reject("another format")
    array = np.asarray(value.array)
    if kind == "e2m1":
        array = np.moveaxis(np.stack([_E2M1[array & 15], _E2M1[array >> 4]], -1), -1, packed_along + 1)
        shape = list(value.shape)
        shape[packed_along] *= 2
        array = array.reshape(shape)
    array = array.astype(np.float64)
    if scale is not None:
        exact(scale)
        if scale.dtype is not U8 or scale.shape != (array.shape[1 - along], array.shape[along] // 32):
            raise Reject("another scale")
        if np.any((scale.array < 100) | (scale.array > 150)):
            raise Reject("a scale that a narrow type does not hold")
        factors = np.repeat(2.0 ** (scale.array.astype(np.float64) - 127), 32, axis=1)
        array = array * (factors if along == 1 else factors.T)
    kept = F16 if kind == "fp16" else BF16
    if not np.array_equal(round_float(array, kept), array):
        raise Reject("a scaled number that is rounded")
    return array


@op("dot_scaled", _emit_scaled)
def _dot_scaled(machine, args, attrs):
    """Operands: both matrices, the scales that there are, perhaps an accumulator."""
    args = list(args)
    a, b = args.pop(0), args.pop(0)
    left, right = (args.pop(0) if attrs[key] else None for key in ("left_scale", "right_scale"))
    x = _scaled_operand(a, attrs["left"], left, 1, 1 if attrs.get("lhs_k_pack", True) else 0)
    y = _scaled_operand(b, attrs["right"], right, 0, 0 if attrs.get("rhs_k_pack", True) else 1)
    if x.shape[1] != y.shape[0] or x.shape[1] % 32:
        raise Reject("shapes differ")
    if "fp16" in (attrs["left"], attrs["right"]) and not (np.array_equal(round_float(x, F16), x) and np.array_equal(round_float(y, F16), y)):
        raise Reject("a number that fp16 does not hold")
    if args and (args[0].dtype is not F32 or args[0].shape != (x.shape[0], y.shape[1])):
        raise Reject("another accumulator")
    return _exact_product(x, y, args[0] if args else None, F32, 12 if "e4m3" in attrs.values() or "e5m2" in attrs.values() else 24)
