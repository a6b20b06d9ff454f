"""Quantisation, alone and after normalisations and SwiGLU."""

import pytest
import torch
import torch.nn.functional as F
from fused_checks import compare, layouts, random
from test_norms_fused import layer, operands, rms

from nereid.ops import fused

#: dtype: (largest magnitude, bits of mantissa, least exponent of normal numbers)
FORMATS = {torch.float8_e4m3fn: (448.0, 3, -6), torch.float8_e5m2: (57344.0, 2, -14), torch.int8: (127.0, 0, 0)}


def check_quantised(got, y, scale=None, group=0, dtype=torch.float8_e4m3fn):
    """(quantised, scales) against what is quantised, in fp64: the scales are as documented, and every element is the nearest number of the dtype."""
    quantised, scales = got
    largest, mantissa, least = FORMATS[dtype]
    assert quantised.dtype == dtype and scales.dtype == torch.float32 and quantised.shape == y.shape and quantised.is_contiguous()
    n, y = y.shape[-1], y.cpu()
    if scale is not None:
        assert torch.equal(scales, scale.view(1))
        spread = scales.double().cpu()
    else:
        width = group or max(n, 1)
        parts = F.pad(y.abs(), (0, -n % width)).unflatten(-1, (-1, width)).amax(-1) if n else y.new_zeros(*y.shape[:-1], 0 if group else 1)
        compare(scales, (parts / largest).clamp(min=2.0**-126), units=16)
        spread = scales.double().cpu().repeat_interleave(width, -1)[..., :n]
    v = (y / spread).clamp(-largest, largest)
    unit = torch.ones_like(v) if dtype == torch.int8 else 2.0**(torch.frexp(v)[1] - 1).clamp(min=least).double() * 2.0**-mantissa
    off = (quantised.double().cpu() - v).abs()
    assert (off <= unit * 0.5 + v.abs() * 1e-5 + 1e-6).all(), (off / unit).max()


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("source", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_quantize(dtype, source, target):
    for shape in ((7, 33), (2, 3, 256), (0, 4), (3, 0), (5, )):
        x = random(*shape, dtype=source, device=target, scale=3)
        for given in ({}, {"group": 128}, {"scale": torch.tensor([0.01], device=target)}):
            check_quantised(fused.quantize(x, **given, dtype=dtype), x.double(), **given, dtype=dtype)


@pytest.mark.parametrize("given", [{}, {"group": 128}, {"group": 16}, {"scale": 0.02}], ids=str)
@pytest.mark.parametrize("columns", [200, 2500])
def test_norms(given, columns, target):
    given = {key: torch.tensor(value, device=target) if key == "scale" else value for key, value in given.items()}
    x, residual, weight, bias = operands((5, columns), torch.float32, target)
    wide = [item.double() for item in (x, weight, bias)]
    total = (x + residual)
    check_quantised(fused.rms_norm_quantized(x, weight, **given), rms(*wide[:2]), **given)
    check_quantised(fused.layer_norm_quantized(x, weight, bias, **given), layer(*wide), **given)
    *got, returned = fused.add_rms_norm_quantized(x, residual, weight, weight_offset=1.0, **given)
    assert torch.equal(returned, total)
    check_quantised(got, rms(total.double(), wide[1], weight_offset=1.0), **given)
    *got, returned = fused.add_layer_norm_quantized(x, residual, weight, bias, **given)
    assert torch.equal(returned, total)
    check_quantised(got, layer(total.double(), *wide[1:]), **given)


def test_swiglu(target):
    for columns in (200, 2500):
        gate, up = random(5, columns, device=target), random(5, columns, device=target, seed=1)
        want = F.silu(gate.double()) * up.double()
        for given in ({}, {"group": 128}):
            check_quantised(fused.swiglu_quantized(gate, up, **given), want, **given)
            check_quantised(fused.swiglu_quantized(torch.cat([gate, up], -1), **given), want, **given)


def test_strides(target):
    x = random(9, 64, device=target)
    for _, laid in layouts(x):
        check_quantised(fused.quantize(laid, group=32), x.double(), group=32)


def test_rows_of_zeros_and_tiny_numbers(target):
    x = torch.zeros(4, 128, device=target)
    x[1, 3], x[2, 5], x[3, 7] = 1e-44, 1e38, -3e-36
    for dtype in FORMATS:
        for given in ({}, {"group": 64}):
            quantised, scales = fused.quantize(x, **given, dtype=dtype)
            assert scales.isfinite().all() and (scales > 0).all() and quantised.float().isfinite().all() and not quantised[0].float().any()
            assert quantised[2, 5].float() == FORMATS[dtype][0]


def test_repeated_calls(target):
    """The second call of a signature, which runs without Python, gives the same; another dtype is another signature."""
    x = random(6, 48, device=target)
    for dtype in (*FORMATS, *FORMATS):
        check_quantised(fused.quantize(x, dtype=dtype), x.double(), dtype=dtype)


def test_errors(target):
    x = torch.ones(4, 6, device=target)
    with pytest.raises(TypeError, match="`dtype` is torch.float16: expected float8_e4m3fn"):
        fused.quantize(x, dtype=torch.float16)
    with pytest.raises(ValueError, match="`group` is 100: expected 0 or a power of 2"):
        fused.quantize(x, group=100)
    with pytest.raises(ValueError, match="`scale` and `group` are given"):
        fused.quantize(x, group=16, scale=x[:1, 0])
    with pytest.raises(ValueError, match=r"`scale` has shape \(4,\): expected one element"):
        fused.quantize(x, scale=x[:, 0])
    with pytest.raises(TypeError, match="`x` has dtype torch.float64: expected float16, bfloat16 or float32"):
        fused.rms_norm_quantized(x.double())
    with pytest.raises(ValueError, match="`gate` has 5 columns"):
        fused.swiglu_quantized(x[:, :5])
    with pytest.raises(RuntimeError, match="has no gradient"):
        quantised, scales = fused.quantize(x.requires_grad_())
        scales.sum().backward()
