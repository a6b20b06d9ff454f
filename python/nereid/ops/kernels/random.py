"""Random numbers by Philox, in the order in which PyTorch draws them on GPUs.

PyTorch gives each of `threads` threads a sequence of its own; a call of the generator yields four 32-bit words, of which a thread makes four numbers, or two
fp64 or 64-bit ones. Number i of a tensor is made by thread i % threads, as its (i // threads)-th. A tensor does not depend on the blocks chosen here.
"""

import nereid
import nereid.language as tl
from nereid.language.extra import libdevice

from .pointwise import convert

TWO_PI = tl.constexpr(6.283185307179586)


@nereid.jit
def words(seed, offset, thread, call):
    """Four blocks of 32 random bits: number `call` (from 0) of each thread's generator, which starts at `offset`."""
    counter = (offset // 4 + call) + thread * 0
    return tl.philox(seed, (counter & 0xffffffff).to(tl.uint32), (counter >> 32).to(tl.uint32), (thread & 0xffffffff).to(tl.uint32), (thread >> 32).to(tl.uint32))


@nereid.jit
def fraction(x):
    """32 random bits as an fp32 number in (0, 1]."""
    return x.to(tl.float32) * 2.3283064365386963e-10 + 1.1641532182693481e-10


@nereid.jit
def wide_fraction(x, y):
    """53 of 64 random bits as an fp64 number in (0, 1]."""
    z = (x.to(tl.uint64) ^ (y.to(tl.uint64) << 21)).to(tl.int64)
    return z.to(tl.float64) * 1.1102230246251565e-16 + 5.551115123125783e-17


@nereid.jit
def gaussian(x, y):
    """Two normal numbers of 64 random bits."""
    length = tl.sqrt(-2.0 * tl.log(fraction(x)))
    angle = fraction(y) * TWO_PI
    return length * tl.sin(angle), length * tl.cos(angle)


@nereid.jit
def wide_gaussian(x, y, z, w):
    """Two normal fp64 numbers of 128 random bits."""
    length = tl.sqrt(-2.0 * tl.log(wide_fraction(x, y)))
    angle = wide_fraction(z, w) * TWO_PI
    return length * tl.sin(angle), length * tl.cos(angle)


@nereid.jit
def word(x, y):
    """Two words as one of 64 bits."""
    return (x.to(tl.uint64) << 32) | y.to(tl.uint64)


@nereid.jit
def draw(out, seed, offset, numel, threads, scalars, FROM: tl.constexpr, MAKE: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    """out[i] = MAKE(a number, scalars). out: contiguous. FROM: "uniform", "normal" (fp32, with WIDE fp64 numbers) or "bits" (uint32, uint64).

    Grid: (threads / BLOCK, calls of the generator).
    """
    thread = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    call = tl.program_id(1).to(tl.int64)
    a, b, c, d = words(seed, offset, thread, call)
    if FROM == "normal":
        if WIDE:
            found = wide_gaussian(a, b, c, d)
        else:
            first, second = gaussian(a, b)
            third, fourth = gaussian(c, d)
            found = (first, second, third, fourth)
    elif FROM == "uniform":
        if WIDE:
            found = (wide_fraction(a, b), wide_fraction(c, d))
        else:
            found = (fraction(a), fraction(b), fraction(c), fraction(d))
    else:
        if WIDE:
            found = (word(a, b), word(c, d))
        else:
            found = (a, b, c, d)
    for i in tl.static_range(len(found)):
        place = thread + threads * (call * len(found) + i)
        result = MAKE(found[i], scalars)
        if out.dtype.element_ty.is_int1():
            result = result != 0
        else:
            result = convert(result, out.dtype.element_ty)
        tl.store(out + place, result, mask=(thread < threads) & (place < numel))


# From random integers to distributions


@nereid.jit
def between(x, scalars):
    """Uniform from scalars[0] to scalars[1], the latter excluded, in the dtype scalars[2] says by its type."""
    low = scalars[0].to(x.dtype)
    high = scalars[1].to(x.dtype)
    value = x * (high - low) + low
    return tl.where(value == high, low, value)


@nereid.jit
def half_between(x, scalars):
    """The same for fp16: the bounds are compared after rounding."""
    low = scalars[0].to(x.dtype)
    high = scalars[1].to(x.dtype)
    value = (x * (high - low) + low).to(tl.float16)
    return tl.where(value == high.to(tl.float16), low.to(tl.float16), value)


@nereid.jit
def bfloat_between(x, scalars):
    """The same for bf16."""
    low = scalars[0].to(x.dtype)
    high = scalars[1].to(x.dtype)
    value = (x * (high - low) + low).to(tl.bfloat16)
    return tl.where(value == high.to(tl.bfloat16), low.to(tl.bfloat16), value)


@nereid.jit
def shifted(x, scalars):
    """Mean scalars[0], standard deviation scalars[1]."""
    return x * scalars[1].to(x.dtype) + scalars[0].to(x.dtype)


@nereid.jit
def log_of(x):
    """The logarithm of a number in (0, 1], below 0 also for 1."""
    if x.dtype == tl.float64:
        half = 1.1102230246251565e-16
    else:
        half = 5.960464477539063e-08
    return tl.where(x >= 1 - half, -half, tl.log(x))


@nereid.jit
def waiting(x, scalars):
    """Exponential with the rate scalars[0]."""
    return (-1.0 / scalars[0].to(x.dtype)) * log_of(x)


@nereid.jit
def chance(x, scalars):
    """1 with the probability scalars[0], else 0."""
    return tl.where(x < scalars[0].to(x.dtype), 1, 0)


@nereid.jit
def trials(x, scalars):
    """Geometric: the number of trials, each with the probability scalars[0], up to a success."""
    return tl.ceil(tl.log(x) / libdevice.log1p(-scalars[0].to(x.dtype) + tl.zeros_like(x)))


@nereid.jit
def exponential_of_normal(x, scalars):
    return tl.exp(shifted(x, scalars))


@nereid.jit
def whole(x, scalars):
    """An integer from scalars[0], one of scalars[1]."""
    return (x % scalars[1].to(x.dtype)).to(tl.int64) + scalars[0]


@nereid.jit
def dropped(out, kept, x, seed, offset, numel, threads, share, scale, BLOCK: tl.constexpr):
    """out = x * scale where a uniform number is below `share`, else 0; kept: whether that was so. Contiguous. Grid: (threads / BLOCK, calls)."""
    thread = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    call = tl.program_id(1).to(tl.int64)
    found = words(seed, offset, thread, call)
    for i in tl.static_range(4):
        place = thread + threads * (call * 4 + i)
        mask = (thread < threads) & (place < numel)
        keep = fraction(found[i]) < share.to(tl.float32)
        value = tl.load(x + place, mask=mask, other=0)
        if value.dtype == tl.float64:
            value = value * scale
        else:
            value = value.to(tl.float32) * scale.to(tl.float32)
        tl.store(out + place, tl.where(keep, value, 0).to(out.dtype.element_ty), mask=mask)
        tl.store(kept + place, keep, mask=mask)
