"""Derivatives where exponentials overflow and underflow, and at the ends of the types, against PyTorch's of the whole function."""

import math

import mpmath
import nereid
import nereid.language as tl
import pytest
import torch
import torch.nn.functional as F
from test_jvp_elementwise import _function, binary, unary

def _over_cosh(x):
    return 2 * (-x.abs()).exp() / (1 + (-2 * x.abs()).exp())


LOGISTIC = {
    "tl.sigmoid(x)": torch.sigmoid, "1 / (1 + tl.exp(-x))": torch.sigmoid, "1 / (tl.exp(-x) + 1)": torch.sigmoid,
    "1 / (1 + tl.exp2(-1.4426950408889634 * x))": torch.sigmoid, "1 / (1 + libdevice.exp(-x))": torch.sigmoid,
    "tl.fdiv(1.0, 1 + tl.exp(-x))": torch.sigmoid, "libdevice.rcp_rn(1 + tl.exp(-x))": torch.sigmoid, "x * tl.sigmoid(x)": F.silu,
    "x / (1 + tl.exp(-x))": F.silu, "2 * tl.sigmoid(2 * x) - 1": torch.tanh, "1 - 2 / (tl.exp(2 * x) + 1)": torch.tanh,
    "x * tl.sigmoid(1.702 * x)": lambda x: x * torch.sigmoid(1.702 * x), "1 / (3 - (1 - tl.exp(-x)) - 1)": torch.sigmoid,
    "x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))": lambda x: F.gelu(x, approximate="tanh"),
}
LOGARITHMS = {
    "tl.log(1 + tl.exp(x))": F.softplus, "libdevice.log1p(tl.exp(x))": F.softplus, "-tl.log(1 + tl.exp(-x))": F.logsigmoid,
    "0.6931471805599453 * tl.log2(1 + tl.exp(x))": F.softplus, "x * libdevice.tanh(libdevice.log1p(tl.exp(x)))": F.mish,
    "tl.where(x > 20, x, tl.log(1 + tl.exp(x)))": F.softplus, "tl.log(tl.sigmoid(x))": F.logsigmoid, "0.6931471805599453 * tl.log2(tl.sigmoid(x))": F.logsigmoid,
    "tl.log(3 / (3 + 3 * tl.exp(-x)))": F.logsigmoid, "-tl.log(libdevice.rcp_rn(1 + tl.exp(x)))": F.softplus,
    "tl.log(libdevice.cosh(x))": lambda x: x + F.softplus(-2 * x),
    "tl.log(1 + (x * x) * tl.exp(x))": lambda x: -F.logsigmoid(-x - 2 * x.abs().log()),
}
QUOTIENTS = {
    "1 / libdevice.cosh(x)": _over_cosh, "2 / (tl.exp(x) + tl.exp(-x))": _over_cosh, "libdevice.rcp_rn(libdevice.cosh(x))": _over_cosh,
    "1 / libdevice.sinh(x)": lambda x: -2 * x.sign() * (-x.abs()).exp() / torch.expm1(-2 * x.abs()),
    "1 / (1 + 5.0 * tl.exp(x))": lambda x: torch.sigmoid(-x - math.log(5)), "1 / (1 + x * x * tl.exp(x))": lambda x: torch.sigmoid(-x - (x * x).log()),
    "1 / (1 + tl.exp(x).to(tl.float64)).to(x.dtype)": lambda x: torch.sigmoid(-x), "1 / (1 + tl.where(x > 0, tl.exp(x), tl.exp(x)))": lambda x: torch.sigmoid(-x),
    "1 / (2 - (1 - tl.exp(x)))": lambda x: torch.sigmoid(-x), "1 / tl.sqrt(1 + tl.exp(x))": lambda x: torch.sigmoid(-x).sqrt(),
    "tl.rsqrt(1 + tl.exp(x))": lambda x: (-0.5 * F.softplus(x)).exp(), "libdevice.pow(1 + tl.exp(x), -2.0)": lambda x: torch.sigmoid(-x) ** 2,
}
#: Functions that become constant faster than the exponential in them grows.
SETTLED = {
    "libdevice.tanh(tl.exp(x))": lambda x: x.exp().tanh(), "tl.erf(tl.exp(x))": lambda x: x.exp().erf(), "libdevice.erfc(tl.exp(x))": lambda x: x.exp().erfc(),
    "libdevice.atan(tl.exp(x))": lambda x: x.exp().atan(), "tl.exp(-tl.exp(x))": lambda x: (-x.exp()).exp(), "1 - tl.exp(-0.5 * tl.exp(x))": lambda x: 1 - (-0.5 * x.exp()).exp(),
    "libdevice.expm1(-tl.exp(x))": lambda x: torch.expm1(-x.exp()), "libdevice.normcdf(tl.exp(-x))": lambda x: torch.special.ndtr((-x).exp()),
    "tl.sigmoid(tl.exp(x))": lambda x: x.exp().sigmoid(), "tl.sigmoid(-tl.exp(x))": lambda x: (-x.exp()).sigmoid(), "tl.exp2(-tl.exp2(x))": lambda x: (-x.exp2()).exp2(),
}
OTHERS = {
    "libdevice.asinh(x)": torch.asinh, "libdevice.asinh(x) * x": lambda x: torch.asinh(x) * x,
    "tl.log(x)": torch.log, "tl.log2(x)": torch.log2, "libdevice.log10(x)": torch.log10, "libdevice.log1p(x)": torch.log1p,
    "tl.exp(x)": torch.exp, "libdevice.expm1(x)": torch.expm1, "libdevice.tanh(x)": torch.tanh, "tl.erf(x)": torch.erf,
    "tl.sqrt(x)": torch.sqrt, "libdevice.hypot(x, 0 * x)": lambda x: torch.hypot(x, torch.zeros_like(x)),
    "0.5 * x * (1 + tl.erf(x * 0.7071067811865476))": F.gelu,
    "x / (1 + tl.abs(x))": F.softsign, "x / (1 + x * x)": lambda x: x / (1 + x * x), "1 / (2 + x * x)": lambda x: 1 / (2 + x * x),
    "x / tl.sqrt(x * x + 0.01)": lambda x: x / (x * x + 0.01).sqrt(),
}


ALL = LOGISTIC | LOGARITHMS | QUOTIENTS | SETTLED | OTHERS
ENDS = [0.0, -0.0, 0.3, -0.3, 1.0, -1.0, 5.0, -5.0, 10.0, -10.0, 16.0, -16.0, 40.0, -40.0, 88.0, -88.0, 89.0, -89.0, 100.0, -100.0, 709.0, -709.0, 710.0, -710.0,
        1e4, -1e4]


def _points(dtype):
    limits = torch.finfo(dtype)
    values = [*ENDS, limits.tiny, limits.tiny / 4, limits.eps, limits.max ** 0.3, -limits.max ** 0.3, math.nan]
    return torch.tensor(values, dtype=torch.float64).to(dtype)


def _both(text, x):
    """The slopes by forward and by reverse mode."""
    f, y = _function(text, "x"), torch.empty_like(x)
    forward, reverse = torch.empty_like(x), torch.full_like(x, 9.0)
    nereid.jvp(unary, "x", "y")[(1,)](x, y, dx=torch.ones_like(x), dy=forward, f=f, N=len(x))
    nereid.grad(unary, ("x",), ("y",)).backward[(1,)](x, y, dy=torch.ones_like(x), dx=reverse, f=f, N=len(x))
    return forward, reverse


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("text", ALL)
def test_slopes_are_finite_where_those_of_pytorch_are(text, dtype):
    x = _points(dtype)
    assert len(x) == 32
    reference = ALL[text]
    leaf = x.clone().requires_grad_()
    expected, = torch.autograd.grad(reference(leaf).sum(), leaf)
    if text in SETTLED:  # PyTorch's is 0 times infinity where the limit is 0
        expected = torch.where(x.isnan(), expected, expected.nan_to_num(nan=0.0))
    compared = expected.isfinite()
    assert compared.sum() >= (31 if text in SETTLED else 8)
    for found in _both(text, x):
        rtol, atol = (1e-4, 1e-6) if dtype == torch.float32 else (1e-10, 1e-14)
        torch.testing.assert_close(found[compared], expected[compared], rtol=rtol, atol=atol)
        assert found[-1].isnan(), "the slope at NaN"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("text, reference", [("tl.sigmoid(x.to(tl.float32)).to(x.dtype)", torch.sigmoid),
                                             ("(x * tl.sigmoid(x.to(tl.float32))).to(x.dtype)", F.silu),
                                             ("tl.log(1 + tl.exp(x.to(tl.float32))).to(x.dtype)", F.softplus)])
def test_narrow_floats(text, reference, dtype):
    x = _points(dtype)
    wide = x.double().requires_grad_()
    expected, = torch.autograd.grad(reference(wide).sum(), wide)
    compared = x.isfinite()
    for found in _both(text, x):
        torch.testing.assert_close(found[compared].double(), expected[compared], rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_quotients_and_angles_at_the_ends_of_the_types(dtype):
    """Slopes that are numbers, of large and subnormal operands: no factor of the chain rule is infinite and the next one 0."""
    limits = torch.finfo(dtype)
    large, small, subnormal = limits.max / 8, limits.tiny * 8, limits.tiny / 16
    x = torch.tensor([0.0, 0.0, 0.0, small, large, subnormal, 3.0, -large, large], dtype=dtype)
    w = torch.tensor([subnormal, -subnormal, small, large, large, 2.0, large, small, math.inf], dtype=dtype)
    functions = {"x / w": lambda x, w: (1 / w, -(x / w) / w), "x / tl.abs(w)": lambda x, w: (1 / abs(w), -(x / abs(w)) / w),
                 "x / (0.25 + tl.abs(w))": lambda x, w: (1 / (0.25 + abs(w)), -(1 if w > 0 else -1) * x / (0.25 + abs(w))**2),
                 "libdevice.atan2(x, w)": lambda x, w: (w / (x * x + w * w), -x / (x * x + w * w)),
                 "libdevice.rhypot(x, w)": lambda x, w: (-x / (x * x + w * w)**1.5, -w / (x * x + w * w)**1.5)}
    for text, slopes in functions.items():
        f, y, ones = _function(text, "x, w"), torch.empty_like(x), torch.ones_like(x)
        found = [torch.full_like(x, 9.0) for _ in "xw"]
        binary[(1,)](x, w, y, f=f, N=len(x))
        nereid.grad(binary, ("x", "w"), ("y",)).backward[(1,)](x, w, y, dy=ones, dx=found[0], dw=found[1], f=f, N=len(x))
        for k, slope in enumerate(found):
            for i in range(len(x)):
                if w[i].isinf() and text == "libdevice.atan2(x, w)":
                    assert slope[i] == 0
                if w[i].isinf() or not y[i].isfinite():
                    continue
                expected = slopes(*(mpmath.mpf(float(v[i])) for v in (x, w)))[k]
                if abs(expected) < limits.max / 2:
                    assert abs(float(slope[i]) - expected) <= 1e-5 * abs(expected) + limits.tiny, (text, k, i, float(slope[i]), expected)


def test_slopes_of_sigmoids_keep_their_relative_accuracy():
    """y * (1 - y) has lost it where y is almost 1."""
    x = torch.linspace(-80, 80, 64)
    y = torch.sigmoid(x.double())
    expected = y * torch.sigmoid(-x.double())
    for found in _both("tl.sigmoid(x)", x):
        assert ((found.double() - expected).abs() <= 2e-5 * expected).all()


@nereid.jit
def silu(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, v * tl.sigmoid(v), mask=i < n)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_second_derivatives(dtype):
    operator = nereid.autograd(silu, wrt=("x",), out=("y",), grid=(1,), arguments={"n": lambda a: a["x"].numel(), "BLOCK": 32})
    x = torch.tensor(ENDS, dtype=dtype)
    ours, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
    for_ours, = torch.autograd.grad(operator(ours).sum(), ours, create_graph=True)
    for_theirs, = torch.autograd.grad(F.silu(theirs).sum(), theirs, create_graph=True)
    second, = torch.autograd.grad(for_ours.sum(), ours)
    expected, = torch.autograd.grad(for_theirs.sum(), theirs)
    torch.testing.assert_close(second.double(), expected.double(), rtol=1e-4 if dtype == torch.float32 else 1e-10, atol=1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("text, divisions", [("x / (1 + tl.abs(x))", 1), ("x / (0.5 * x * x + 1e-3)", 3), ("x / (x * x + 1e-3)", 1), ("x / tl.abs(x)", 3), ("x / (x * 3 + 1)", 3)])
def test_denominators_of_one_reciprocal(text, divisions):
    """Where a denominator is known to have a normal reciprocal, the slopes are products with it."""
    x = torch.ones(8)
    gradient = nereid.grad(unary, ("x", ), ("y", )).backward.kernel
    given = dict(x=x, y=x.clone(), dy=x.clone(), dx=x.clone(), f=_function(text, "x"), N=8)
    tile = gradient.warmup(**given, grid=(1, ), **{name: value for name, value in ((gradient.saved, torch.empty(16, dtype=torch.uint8)), (gradient.step, -1)) if name}).asm["tile"]
    assert tile.count("arith.divf") == divisions, tile
