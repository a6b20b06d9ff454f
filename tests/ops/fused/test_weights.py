"""Linear layers with weights in 4 and 8 bits."""

import sys

import nereid
import nereid.language as tl
import pytest
import torch
from fused_checks import check, compare, layouts, random

from nereid.ops import fused
from nereid.ops.kernels import weights as kernels

DTYPES = [torch.float16, torch.bfloat16, torch.float32]


def weights4(n, k, group, target, symmetric=False, dtype=torch.float32):
    """(packed, scale, zero), and the weights they stand for, in fp64, unpacked by the documented layout."""
    packed, scale, zero = (x.to(target) if x is not None else None for x in fused.quantize_int4(random(n, k, dtype=dtype), group, symmetric))
    wide = packed.long().view(n, -1, 64)
    numbers = torch.cat([wide & 15, wide >> 4], 2).reshape(n, -1)[:, :k].double()
    spread = lambda x: x.double().repeat_interleave(group or k, 1)[:, :k]
    return packed, scale, zero, (numbers - (8 if zero is None else spread(zero))) * spread(scale)


def definition(x, w, bias=None):
    y = x.double() @ w.t()
    return y if bias is None else y + bias


@pytest.mark.parametrize("symmetric", [False, True], ids=["", "symmetric"])
@pytest.mark.parametrize("group", [0, 32, 64, 128, 192, 256])
def test_quantize_int4(group, symmetric, target):
    """Weights are off by at most half of their scale, and are expanded as documented."""
    for n, k in ((5, 256), (3, 100), (1, 300), (2, 1)):
        w = random(n, k)
        packed, scale, zero, wanted = weights4(n, k, group, target, symmetric)
        assert packed.shape == (n, 64 * -(-k // 128)) and packed.dtype == torch.uint8 and (zero is None) == symmetric
        off = (wanted.cpu() - w).abs() / scale.double().cpu().repeat_interleave(group or k, 1)[:, :k]
        # The end of the range may be half a step beyond the last number, since the zero is rounded.
        assert off.max() <= 0.51 if symmetric else off.max() <= 1.01 and off.mean() < 0.3
        for dtype in (None, *DTYPES):
            got = fused.dequantize_int4(packed, scale, zero, k, group, dtype)
            assert got.dtype == (dtype or scale.dtype)
            compare(got, wanted, units=1)


def test_quantize_int4_of_zeros_and_constants():
    for value in (0.0, 3.0, -2.0):
        for symmetric in (False, True):
            w = torch.full((2, 64), value)
            torch.testing.assert_close(fused.dequantize_int4(*fused.quantize_int4(w, 32, symmetric), 64, 32), w)


@nereid.jit
def widen_all(out, BITS: tl.constexpr):
    """Numbers in rows, zeros in columns."""
    q = tl.arange(0, 16)[:, None].to(tl.uint8)
    zero = tl.arange(0, 16)[None, :]
    found = kernels.widened(tl.broadcast_to(q, (16, 16)), zero, BITS, out.dtype.element_ty)
    tl.store(out + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :], found)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_minus_zeros_are_exact(dtype, target):
    """In the dtypes in which GPUs multiply; on CPUs operands are fp32."""
    out = torch.empty(16, 16, dtype=dtype, device=target)
    widen_all[(1, )](out, 4, target=target)
    numbers = torch.arange(16, device=target)
    assert torch.equal(out, (numbers[:, None] - numbers[None, :]).to(dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("group", [0, 32, 64, 128, 192])
def test_linear_int4(group, dtype, target):
    for symmetric, (m, n, k) in ((False, (5, 40, 300)), (True, (70, 24, 128))):
        packed, scale, zero, w = weights4(n, k, group, target, symmetric)
        check(lambda x, bias: fused.linear_int4(x, packed, scale, zero, bias, group), lambda x, bias: definition(x, w, bias),
              [random(m, k, dtype=dtype, device=target), random(n, dtype=dtype, device=target)], units=8)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("group", [0, 32, 64, 128, 192])
def test_linear_int8(group, dtype, target):
    for m, n, k in ((5, 40, 300), (70, 24, 128)):
        w = random(n, k)
        spread = lambda scale: scale.double().repeat_interleave(group or k, 1)[:, :k]
        groups = torch.nn.functional.pad(w, (0, -k % (group or k))).view(n, -1, group or k)
        scale = (groups.abs().amax(2) / 127)
        q = (w / spread(scale)).round().to(torch.int8)
        wide, q, scale = (q.double() * spread(scale)).to(target), q.to(target), scale.to(target)
        check(lambda x, bias: fused.linear_int8(x, q, scale, bias, group), lambda x, bias: definition(x, wide, bias),
              [random(m, k, dtype=dtype, device=target), random(n, dtype=dtype, device=target)], units=8)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_expanded_first(dtype, target, monkeypatch):
    """Many tokens: weights are expanded in parts of rows, as on GPUs."""
    module = sys.modules["nereid.ops.fused.weights"]
    monkeypatch.setattr(module, "_expands", lambda x: True)
    monkeypatch.setattr(module, "EXPANDED", 256 * 200 * 2)
    x, bias = random(70, 200, dtype=dtype, device=target), random(600, dtype=dtype, device=target)
    for group in (0, 32, 128):
        packed, scale, zero, _ = weights4(600, 200, group, target)
        wanted = fused.dequantize_int4(packed, scale, zero, 200, group, dtype).double()
        compare(fused.linear_int4(x, packed, scale, zero, bias, group), definition(x, wanted, bias.double()), units=4)
    q, scale = fused.quantize(random(600, 200, device=target), None, 0, torch.int8)
    compare(fused.linear_int8(x, q, scale), definition(x, (q * scale.float()).to(dtype).double()), units=4)


def test_quantize_makes_weights_of_linear_int8(target):
    w, x = random(24, 256, device=target), random(3, 256, device=target, seed=1)
    for group in (0, 64):
        q, scale = fused.quantize(w, None, group, torch.int8)
        torch.testing.assert_close(fused.linear_int8(x, q, scale, None, group), x @ w.t(), atol=0.7, rtol=0)
    torch.testing.assert_close(fused.linear_int8(x, q, scale[:, 0]), fused.linear_int8(x, q, scale[:, :1]), atol=0, rtol=0)


def test_deep_sums_and_vectors(target):
    """Sums in parts; one token; one weight."""
    for m, n, k in ((1, 16, 4096), (1, 1, 200), (0, 16, 128), (3, 0, 128)):
        w = fused.quantize_int4(random(max(n, 1), k))
        packed, scale, zero = (x.to(target)[:n] for x in w)
        wide = fused.dequantize_int4(packed, scale, zero, k, dtype=torch.float32).double()
        check(lambda x, bias: fused.linear_int4(x, packed, scale, zero, bias), lambda x, bias: definition(x, wide, bias), [random(m, k, device=target), random(n, device=target)], units=16)


def test_strides_and_dimensions(target):
    packed, scale, zero, w = weights4(40, 256, 64, target)
    apart = lambda tensor: torch.cat([tensor, tensor], 1)[:, :tensor.shape[1]]
    for _, x in layouts(random(6, 256, device=target))[1:]:
        check(lambda x: fused.linear_int4(x, apart(packed), apart(scale), zero.t().contiguous().t(), None, 64), lambda x: definition(x, w), [x], units=8)
    x = random(2, 3, 256, device=target)
    check(lambda x: fused.linear_int4(x.transpose(0, 1), packed.t().contiguous().t(), scale, zero, None, 64), lambda x: definition(x.transpose(0, 1), w), [x], units=8)
    check(lambda x: fused.linear_int4(x[0, 0], packed, scale, zero, None, 64), lambda x: definition(x[0, 0], w), [x], units=8)


def test_special_values(target):
    packed, scale, zero, w = weights4(4, 128, 128, target)
    x = torch.zeros(3, 128, device=target)
    x[0, 0], x[1, 5], x[2, 100] = float("nan"), float("inf"), 1e30
    got = fused.linear_int4(x, packed, scale, zero)
    assert got[0].isnan().all() and not got[1].isfinite().any() and got[2].isfinite().all()


def test_errors(target):
    x, (packed, scale, zero, _) = torch.ones(2, 256, device=target), weights4(4, 256, 128, target)
    with pytest.raises(TypeError, match="`weight` has dtype torch.int8: expected uint8"):
        fused.linear_int4(x, packed.to(torch.int8), scale, zero)
    with pytest.raises(ValueError, match=r"`weight` has shape \(4, 100\): expected \(n, 128\), as k is 256"):
        fused.linear_int4(x, packed[:, :100], scale, zero)
    with pytest.raises(ValueError, match=r"`scale` has shape \(4, 2\): expected \(4, 4\)"):
        fused.linear_int4(x, packed, scale, zero, None, 64)
    with pytest.raises(TypeError, match="`zero` has dtype torch.float32: expected uint8"):
        fused.linear_int4(x, packed, scale, zero.float())
    with pytest.raises(ValueError, match="`group` is 48: expected 0 .one group., 32 or a multiple of 64"):
        fused.linear_int4(x, packed, scale, zero, None, 48)
    with pytest.raises(ValueError, match=r"`bias` has shape \(3,\): expected \(4,\)"):
        fused.linear_int4(x, packed, scale, zero, x[0, :3])
    with pytest.raises(TypeError, match="`x` has dtype torch.float64"):
        fused.linear_int4(x.double(), packed, scale, zero)
    with pytest.raises(TypeError, match="`weight` has dtype torch.uint8: expected int8"):
        fused.linear_int8(x[:, :128], packed, scale[:, 0])
    with pytest.raises(TypeError, match="`dtype` is torch.int8"):
        fused.dequantize_int4(packed, scale, zero, 256, 128, torch.int8)
    with pytest.raises(ValueError, match=r"`weight` has shape \(256,\): expected \(n, k\)"):
        fused.quantize_int4(x[0])
    with pytest.raises(TypeError, match="`weight` has dtype torch.float64"):
        fused.quantize_int4(x.double())
    with pytest.raises(ValueError, match="`group` is 16"):
        fused.quantize_int4(x, 16)
