"""Random numbers of the language: Philox, in NumPy."""

import numpy as np

from .dtypes import F32, I32, U32, Reject, Value, is_number
from .ops import op


def _philox(c, k, rounds):
    low, shift = np.uint64(0xffffffff), np.uint64(32)
    c0, c1, c2, c3 = (x.astype(np.uint64) for x in c)
    k0, k1 = (np.uint64(x) for x in k)
    for _ in range(rounds):
        a, b = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (b >> shift) ^ c1 ^ k0, b & low, (a >> shift) ^ c3 ^ k1, a & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return [np.asarray(x).astype(np.uint32) for x in (c0, c1, c2, c3)]


def _random_bits(args, attrs):
    seed, offset = args
    if not is_number(seed) or offset.dtype not in (I32, U32):
        raise Reject("another kind of counter")
    counter = offset.array.astype(np.uint32)
    zero = np.zeros_like(counter)
    key = seed & ((1 << 64) - 1)
    return _philox((counter, zero, zero, zero), (key & 0xffffffff, key >> 32), attrs.get("rounds", 10))


def _rounds(attrs):
    return f", n_rounds={attrs['rounds']}" if attrs.get("rounds") else ""


@op("randint", lambda t, a: f"tl.randint({t[0]}, {t[1]}{_rounds(a)})")
def _randint(machine, args, attrs):
    return Value(U32, _random_bits(args, attrs)[0].reshape(args[1].shape))


@op("randint4x", lambda t, a: f"tl.randint4x({t[0]}, {t[1]}{_rounds(a)})")
def _randint4x(machine, args, attrs):
    return tuple(Value(U32, x.reshape(args[1].shape)) for x in _random_bits(args, attrs))


@op("rand", lambda t, a: f"tl.rand({t[0]}, {t[1]}{_rounds(a)})")
def _rand(machine, args, attrs):
    bits = _random_bits(args, attrs)[0].view(np.int32).reshape(args[1].shape)
    positive = np.where(bits < 0, -bits - 1, bits).astype(np.float32)
    return Value(F32, np.asarray(positive * np.float32(4.6566127342e-10)))
