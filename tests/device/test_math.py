"""Elementary functions over the whole range of fp32 against fp64, and conversions between all float types, on a GPU.

What docs/gpu-emitter.md promises; needs a GPU and its torch.
"""

import itertools
import math

import pytest
from targets import launches_on
import torch

import nereid
import nereid.language as tl

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
BLOCK = 1024
SUBNORMAL = 2.0**-149


@pytest.fixture(autouse=True)
def on_the_gpu():
    with launches_on("cuda"):
        yield


@nereid.jit
def unary(x, out, n, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, FUNCTION(tl.load(x + i, mask=i < n)), mask=i < n)


@nereid.jit
def quotient(x, y, out, n, EXACT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n)
    b = tl.load(y + i, mask=i < n)
    if EXACT:
        tl.store(out + i, tl.div_rn(a, b), mask=i < n)
    else:
        tl.store(out + i, a / b, mask=i < n)


@nereid.jit
def by_one(x, y, out, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = row * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) / tl.load(y + row))


@nereid.jit
def convert(x, out, n, TO: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n).to(TO), mask=i < n)


def grid(n):
    return (math.ceil(n / BLOCK), )


def everywhere():
    """2^22 floats of every sign, exponent and kind."""
    return (torch.arange(1 << 22, device="cuda", dtype=torch.int64) * 1024 + 77).to(torch.int32).view(torch.float32)


def check(got, want, ulp):
    """`got` in fp32 against `want` in fp64: `ulp` units in the last place, two units of subnormals; NaN and infinities agree."""
    got, rounded = got.double(), want.float().double()
    assert torch.equal(torch.isnan(got), torch.isnan(want))
    infinite = torch.isinf(rounded)
    assert torch.equal(got[infinite], rounded[infinite])
    finite = torch.isfinite(rounded)
    error = (got - want).abs()[finite]
    bound = want.abs()[finite] * (ulp * 2.0**-23) + 2 * SUBNORMAL
    assert (error <= bound).all(), (error / want.abs()[finite].clamp_min(2.0**-126)).max().item() * 2**23


@pytest.mark.parametrize("name", ["exp", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf", "floor", "ceil", "sqrt_rn"])
def test_functions(name):
    x = everywhere()
    out = torch.full_like(x, 7.0)
    unary[grid(x.numel())](x, out, x.numel(), FUNCTION=getattr(tl, name), BLOCK=BLOCK)
    exact = getattr(torch, name.removesuffix("_rn"))(x.double())
    check(out, exact, 0.5001 if name in ("floor", "ceil", "sqrt_rn") else 2)


@pytest.mark.parametrize("keep", [False, True])
def test_exp2_keeps_subnormals_where_asked(keep):
    x = everywhere()
    out = torch.full_like(x, 7.0)
    unary[grid(x.numel())](x, out, x.numel(), FUNCTION=tl.exp2, BLOCK=BLOCK, enable_reflect_ftz=not keep)
    want = torch.exp2(x.double())
    tiny = want < 2.0**-126
    check(out[~tiny], want[~tiny], 2)
    if keep:
        check(out[tiny], want[tiny], 2)
    else:
        assert (out[tiny] == 0).all()


@pytest.mark.parametrize("exact", [False, True])
def test_quotients(exact):
    x = everywhere()
    y = x[torch.randperm(x.numel(), device="cuda", generator=torch.Generator("cuda").manual_seed(1))]
    if not exact:  # div.full's divisors
        y = torch.where(y.abs() < 2.0**126, y, 3.0)
    out = torch.full_like(x, 7.0)
    quotient[grid(x.numel())](x, y, out, x.numel(), EXACT=exact, BLOCK=BLOCK)
    check(out, x.double() / y.double(), 0.5001 if exact else 2)


def test_quotients_by_one_number():
    """The reciprocal of a common divisor must not over- or underflow where the quotients do not."""
    y = everywhere()[::1024].contiguous()
    x = everywhere()[: y.numel() * BLOCK]
    x = x[torch.randperm(x.numel(), device="cuda", generator=torch.Generator("cuda").manual_seed(2))]
    out = torch.full_like(x, 7.0)
    by_one[(y.numel(), )](x, y, out, BLOCK=BLOCK)
    check(out, x.double() / y.double().repeat_interleave(BLOCK), 2)


TYPES = {
    "float16": (torch.float16, 10, -14), "bfloat16": (torch.bfloat16, 7, -126), "float32": (torch.float32, 23, -126),
    "float64": (torch.float64, 52, -1022), "float8e4nv": (torch.float8_e4m3fn, 3, -6), "float8e5": (torch.float8_e5m2, 2, -14),
}


def values_of(dtype):
    if dtype.itemsize == 1:
        return torch.arange(256, device="cuda", dtype=torch.int32).to(torch.uint8).view(dtype)
    if dtype.itemsize == 2:
        return torch.arange(65536, device="cuda", dtype=torch.int32).to(torch.int16).view(dtype)
    if dtype == torch.float32:
        return everywhere()
    return torch.cat([everywhere().double() * (1 + 2.0**-40), everywhere().double() * (1 - 2.0**-33)])


@pytest.mark.parametrize("source,to", itertools.permutations(TYPES, 2))
def test_conversions_round_once(source, to):
    x = values_of(TYPES[source][0])
    dtype, mantissa, lowest = TYPES[to]
    out = torch.zeros(x.numel(), device="cuda", dtype=dtype)
    convert[grid(x.numel())](x, out, x.numel(), TO=getattr(tl, to), BLOCK=BLOCK)
    wide = x.double()
    want = wide
    if mantissa < 52:
        finite = torch.where(torch.isfinite(wide), wide, 0.0)
        exponent = torch.floor(torch.log2(finite.abs().clamp_min(1e-300))).clamp_min(lowest)
        unit = torch.exp2(exponent - mantissa)
        want = torch.where(torch.isfinite(wide), torch.round(finite / unit) * unit, wide)
    limit = torch.finfo(dtype).max
    if dtype.itemsize == 1:
        want = want.clamp(-limit, limit)
    else:
        want = torch.where(want.abs() > limit, torch.copysign(torch.full_like(want, math.inf), want), want)
    got = out.double() if dtype.itemsize > 1 else out.float().double()
    same = (got == want) | (torch.isnan(got) & torch.isnan(wide))
    assert same.all(), (wide[~same][:5], got[~same][:5], want[~same][:5])
