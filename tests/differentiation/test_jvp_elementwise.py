"""Derivatives of elementwise operations: every rule against central differences in fp64, and in fp32."""

import math

import nereid
import nereid.language as tl
import jvp_check
import pytest
import torch
from nereid.language.extra import libdevice

N = 64


@nereid.jit
def unary(x, y, f: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, f(tl.load(x + i)))


@nereid.jit
def binary(x, w, y, f: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, f(tl.load(x + i), tl.load(w + i)))


@nereid.jit
def ternary(x, w, v, y, f: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, f(tl.load(x + i), tl.load(w + i), tl.load(v + i)))


def _function(text, names):
    """A jit function of this expression; its text has to stand in a file."""
    import harness
    return harness.make(f"from nereid.language.extra import libdevice\n\n\n@triton.jit\ndef kernel({names}):\n    return {text}\n")


ANY = (-2.0, 2.0)
POSITIVE = (0.3, 3.0)
INSIDE = (-0.9, 0.9)

UNARY = {
    "x + 1.5": ANY, "x * x * x": ANY, "-x": ANY, "1.0 / x": POSITIVE, "x - x * 0.5": ANY, "tl.exp(x)": ANY, "tl.exp2(x)": ANY, "tl.log(x)": POSITIVE,
    "tl.log2(x)": POSITIVE, "tl.sqrt(x)": POSITIVE, "tl.rsqrt(x)": POSITIVE, "tl.sin(x)": ANY, "tl.cos(x)": ANY, "tl.erf(x)": ANY,
    "tl.sigmoid(x)": ANY, "tl.abs(x)": ANY, "tl.floor(x) * x": ANY, "tl.ceil(x) + x": ANY, "tl.clamp(x, -1.0, 1.0)": ANY,
    "tl.where(x > 0.2, x * x, tl.sin(x))": ANY, "x.to(tl.int32).to(x.dtype) * x": ANY, "tl.fma(x, x, x)": ANY, "x % 0.7": POSITIVE,
    "tl.maximum(x, 0.25) * x": ANY, "tl.minimum(x, 0.25) + x": ANY, "libdevice.tanh(x)": ANY, "libdevice.acos(x)": INSIDE, "libdevice.acosh(x)": (1.2, 4.0),
    "libdevice.asin(x)": INSIDE, "libdevice.asinh(x)": ANY, "libdevice.atan(x)": ANY, "libdevice.atanh(x)": INSIDE,
    "libdevice.cbrt(x)": POSITIVE, "libdevice.cosh(x)": ANY, "libdevice.cospi(x)": ANY, "libdevice.erfc(x)": ANY, "libdevice.erfcinv(x)": (0.3, 1.7),
    "libdevice.erfcx(x)": ANY, "libdevice.erfinv(x)": INSIDE, "libdevice.exp10(x)": ANY, "libdevice.expm1(x)": ANY, "libdevice.log10(x)": POSITIVE,
    "libdevice.log1p(x)": POSITIVE, "libdevice.normcdf(x)": ANY, "libdevice.normcdfinv(x)": (0.1, 0.9), "libdevice.rcbrt(x)": POSITIVE,
    "libdevice.sinh(x)": ANY, "libdevice.sinpi(x)": ANY, "libdevice.tan(x)": (-1.2, 1.2), "libdevice.rcp_rn(x)": POSITIVE,
    "libdevice.sqrt_rn(x)": POSITIVE, "libdevice.trunc(x) * x": ANY, "libdevice.rint(x) + x": ANY, "libdevice.pow(x, 3)": ANY,
    "libdevice.pow(x, 0)": ANY, "libdevice.ldexp(x, 3)": ANY, "libdevice.scalbn(x, -2)": ANY, "libdevice.nearbyint(x) + x": ANY,
    "libdevice.pow(x, 2.5)": POSITIVE, "libdevice.copysign(x, -x)": ANY,
}
BINARY = {
    "x + w": ANY, "x - w": ANY, "x * w": ANY, "x / w": POSITIVE, "tl.maximum(x, w)": ANY, "tl.minimum(x, w)": ANY, "tl.where(x > w, x, w * w)": ANY,
    "tl.fdiv(x, w)": POSITIVE, "tl.fma(x, w, w)": ANY, "x % w": POSITIVE, "libdevice.pow(x, w)": POSITIVE, "libdevice.atan2(x, w)": POSITIVE,
    "libdevice.hypot(x, w)": ANY, "libdevice.rhypot(x, w)": POSITIVE, "libdevice.fmod(x, w)": POSITIVE, "libdevice.remainder(x, w)": POSITIVE,
    "libdevice.copysign(x, w)": ANY, "libdevice.fdim(x, w)": ANY, "libdevice.add_rn(x, w)": ANY, "libdevice.mul_rz(x, w)": ANY,
    "libdevice.div_rn(x, w)": POSITIVE, "libdevice.sub_rd(x, w)": ANY, "libdevice.div_ru(x, w)": POSITIVE, "libdevice.nextafter(x, w)": ANY,
    "tl.sigmoid(x) * w + tl.exp(-x * x)": ANY, "tl.where(w > 0, tl.log(x * x + 1.0), libdevice.tanh(w))": ANY,
}
TERNARY = {"tl.fma(x, w, v)": ANY, "libdevice.norm3d(x, w, v)": POSITIVE, "libdevice.rnorm3d(x, w, v)": POSITIVE, "libdevice.fma_rd(x, w, v)": ANY,
           "tl.where(x > w, v, x * w)": ANY}


@pytest.mark.parametrize("text", UNARY)
def test_functions_of_one_operand(text):
    low, high = UNARY[text]
    rounded = any(part in text for part in ("_r", "rcp"))
    jvp_check.check(unary, (1,), dict(x=jvp_check.random(N, low=low, high=high), y=torch.zeros(N, dtype=torch.float64)), ("x",), ("y",),
                 f=_function(text, "x"), N=N, rtol=1e-5, single=1e-3 if rounded else 3e-4)


@pytest.mark.parametrize("wrt", [("x", "w"), ("x",), ("w",)])
@pytest.mark.parametrize("text", BINARY)
def test_functions_of_two_operands(text, wrt):
    low, high = BINARY[text]
    arguments = dict(x=jvp_check.random(N, low=low, high=high), w=jvp_check.random(N, low=low, high=high), y=torch.zeros(N, dtype=torch.float64))
    jvp_check.check(binary, (1,), arguments, wrt, ("y",), f=_function(text, "x, w"), N=N, rtol=1e-5, single=None if "%" in text or "mod" in text else 3e-4)


@pytest.mark.parametrize("text", TERNARY)
def test_functions_of_three_operands(text):
    low, high = TERNARY[text]
    arguments = {name: jvp_check.random(N, low=low, high=high) for name in "xwv"} | {"y": torch.zeros(N, dtype=torch.float64)}
    jvp_check.check(ternary, (1,), arguments, ("x", "w", "v"), ("y",), f=_function(text, "x, w, v"), N=N, rtol=1e-5)


SINGLE = {"libdevice.fast_expf(x)": (torch.exp, ANY), "libdevice.fast_logf(x)": (torch.log, POSITIVE), "libdevice.fast_sinf(x)": (torch.sin, ANY),
          "libdevice.fast_cosf(x)": (torch.cos, ANY), "libdevice.fast_tanhf(x)": (torch.tanh, ANY), "libdevice.saturatef(x)": (lambda x: x.clamp(0, 1), ANY),
          "tl.sqrt_rn(x)": (torch.sqrt, POSITIVE), "tl.div_rn(x * x, x)": (lambda x: x, POSITIVE), "libdevice.rsqrt_rn(x)": (torch.rsqrt, POSITIVE)}


@pytest.mark.parametrize("text", SINGLE)
def test_functions_of_fp32_alone(text):
    function, (low, high) = SINGLE[text]
    x, dx = jvp_check.random(N, low=low, high=high).float(), jvp_check.random(N).float()
    y, dy = torch.empty(N), torch.empty(N)
    nereid.jvp(unary, "x", "y")[(1,)](x, y, dx=dx, dy=dy, f=_function(text, "x"), N=N)
    expected = torch.func.jvp(function, (x.double(), ), (dx.double(), ))[1]
    torch.testing.assert_close(dy.double(), expected, rtol=1e-4, atol=1e-4)


def _at(text, values, tangent=1.0):
    x = torch.tensor(values, dtype=torch.float64)
    y, dy = torch.empty_like(x), torch.empty_like(x)
    nereid.jvp(unary, "x", "y")[(1,)](x, y, dx=torch.full_like(x, tangent), dy=dy, f=_function(text, "x"), N=len(values))
    return dy.tolist()


def test_slopes_where_there_is_none():
    """What docs/differentiation.md says is taken there."""
    assert _at("tl.abs(x)", [0.0, -0.0, 1.0, -1.0]) == [0.0, 0.0, 1.0, -1.0]
    assert _at("tl.maximum(x, 1.0)", [1.0, 2.0]) == [1.0, 1.0]  # of equal operands the first
    assert _at("tl.maximum(1.0, x)", [1.0, 2.0]) == [0.0, 1.0]
    assert _at("tl.minimum(x, 1.0)", [1.0, 2.0]) == [1.0, 0.0]
    assert _at("tl.sqrt(x)", [0.0, 4.0]) == [math.inf, 0.25]
    assert _at("libdevice.pow(x, 0.0)", [0.0, 2.0]) == [0.0, 0.0]
    assert _at("tl.clamp(x, 0.0, 1.0)", [0.0, 1.0, 2.0, -1.0]) == [1.0, 1.0, 0.0, 0.0]


def test_nan_loses_as_in_the_operation():
    assert _at("tl.maximum(x, 1.0)", [math.nan, 2.0]) == [0.0, 1.0]
    assert _at("tl.minimum(1.0, x)", [math.nan, -2.0]) == [0.0, 1.0]


def test_powers_of_zero():
    x, w = torch.zeros(4, dtype=torch.float64), torch.tensor([2.0, 1.0, 0.0, 3.0], dtype=torch.float64)
    y, dy = torch.empty_like(x), torch.empty_like(x)
    nereid.jvp(binary, ("x", "w"), "y")[(1,)](x, w, y, dx=torch.ones_like(x), dw=torch.ones_like(x), dy=dy,
                                              f=_function("libdevice.pow(x, w)", "x, w"), N=4)
    assert dy.tolist() == [0.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_floats(dtype):
    """Tangents have the types of their values; conversions convert them."""
    x, dx = jvp_check.random(N).to(dtype), jvp_check.random(N).to(dtype)
    y, dy = torch.empty(N, dtype=dtype), torch.empty(N, dtype=dtype)
    nereid.jvp(unary, "x", "y")[(1,)](x, y, dx=dx, dy=dy, f=_function("tl.exp(x.to(tl.float32))", "x"), N=N)
    expected = torch.exp(x.double()) * dx.double()
    torch.testing.assert_close(dy.double(), expected, rtol=2e-2, atol=2e-2)
