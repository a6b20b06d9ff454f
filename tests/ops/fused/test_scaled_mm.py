"""Products of 8-bit operands with scales."""

import sys

import pytest
import torch
from fused_checks import check, compare, random

from nereid.ops import fused

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def eights(m, k, dtype, target, seed=0):
    x = random(m, k, seed=seed)
    return ((x * 40).round().clamp(-127, 127) if dtype == torch.int8 else x).to(dtype).to(target)


def scales(*shape, target, seed=0):
    return random(*(shape or (1, )), seed=seed).reshape(shape).abs().add(0.1).to(target)


def expanded(scale, shape, blocks):
    """A scale for every element of a matrix of this shape. blocks: (rows, columns) that share one."""
    scale = scale.double()
    if scale.numel() == 1:
        return scale.reshape(1, 1)
    if scale.dim() == 1:
        return scale.reshape(-1, 1)
    return scale.repeat_interleave(blocks[0], 0)[:shape[0]].repeat_interleave(blocks[1], 1)[:, :shape[1]]


def definition(a, b, a_scale, b_scale, bias=None, out_dtype=None):
    y = (a.double() * expanded(a_scale, a.shape, (1, 128))) @ (b.double() * expanded(b_scale, b.shape, (128, 128))).t()
    return y if bias is None else y + bias.double()


def check_scaled(a, b, a_scale, b_scale, bias=None, out_dtype=None, units=8):
    # Units of GPUs sum products of 8-bit floats with few bits.
    check(fused.scaled_mm, definition, [a, b, a_scale, b_scale, bias], out_dtype, units=units if a.device.type == "cpu" or out_dtype != torch.float32 else 2e4, gradients=False)


@pytest.mark.parametrize("dtypes", [(E4M3, E4M3), (E5M2, E5M2), (E4M3, E5M2), (torch.int8, torch.int8)], ids=str)
@pytest.mark.parametrize("kind", ["tensor", "rows", "mixed", "blocks"])
def test_scaled_mm(dtypes, kind, target):
    for m, n, k in ((19, 40, 64), (17, 150, 300)) if kind == "blocks" else ((19, 40, 64), ):
        a, b = eights(m, k, dtypes[0], target), eights(n, k, dtypes[1], target, seed=1)
        shapes = {"tensor": ((1, ), ()), "rows": ((m, 1), (n, )), "mixed": ((m, ), (1, 1)), "blocks": ((m, -(-k // 128)), (-(-n // 128), -(-k // 128)))}[kind]
        a_scale, b_scale = (scales(*shape, target=target, seed=i) for i, shape in enumerate(shapes))
        check_scaled(a, b, a_scale, b_scale, random(n, device=target) if kind != "mixed" else None, torch.float32)


def test_scaled_mm_results_and_strides(target):
    a, b = eights(5, 32, E4M3, target), eights(16, 32, E4M3, target, seed=1)
    a_scale, b_scale = scales(5, target=target), scales(16, target=target)
    for dtype in (None, torch.bfloat16, torch.float16):
        assert fused.scaled_mm(a, b, a_scale, b_scale, None, dtype).dtype == (dtype or torch.bfloat16)
        check_scaled(a, b, a_scale, b_scale, None, dtype)
    for first, second in ((a.t().contiguous().t(), b), (a, b.t().contiguous().t()), (torch.cat([a, a], 1)[:, ::2], b)):
        check_scaled(first, second, scales(10, target=target)[::2], b_scale, None, torch.float32)


def test_scaled_mm_blocks_with_strides(target):
    a, b = eights(6, 256, E4M3, target), eights(130, 256, E4M3, target, seed=1)
    check_scaled(a, b, scales(2, 6, target=target).t(), scales(2, 2, target=target).t(), None, torch.float32)


def test_scaled_mm_empty(target):
    for m, n, k in ((0, 4, 16), (4, 0, 16), (4, 4, 0)):
        check_scaled(eights(m, k, E4M3, target), eights(n, k, E4M3, target), scales(1, target=target), scales(1, target=target), None, torch.float32)


def test_scaled_mm_errors(target):
    a, b, one = eights(4, 16, E4M3, target), eights(8, 16, E4M3, target), torch.ones(1, device=target)
    with pytest.raises(TypeError, match="`b` has dtype torch.int8, `a` torch.float8_e4m3fn"):
        fused.scaled_mm(a, b.to(torch.int8), one, one)
    with pytest.raises(TypeError, match="`a` has dtype torch.float32"):
        fused.scaled_mm(a.float(), b, one, one)
    with pytest.raises(ValueError, match=r"`a_scale` has shape \(3,\): expected one element, \(4,\), or blocks"):
        fused.scaled_mm(a, b, one.expand(3), one)
    with pytest.raises(TypeError, match="`b_scale` has dtype torch.bfloat16"):
        fused.scaled_mm(a, b, one, one.bfloat16())
    with pytest.raises(ValueError, match=r"`b` has shape \(8, 8\): expected \(8, 16\)"):
        fused.scaled_mm(a, b[:, :8], one, one)
    with pytest.raises(TypeError, match="`out_dtype` is torch.int32"):
        fused.scaled_mm(a, b, one, one, None, torch.int32)
    with pytest.raises(RuntimeError):
        fused.scaled_mm(a, b, one, one.clone().requires_grad_(), None, torch.float32).sum().backward()


def grouped(a, b, a_scale, b_scale, ends, out_dtype=None):
    """a (m, k), b (groups, n, k)."""
    out, first = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64, device=a.device), 0
    for g, end in enumerate(ends.tolist()):
        own = a_scale if a_scale.numel() == 1 else a_scale[first:end]
        out[first:end] = definition(a[first:end], b[g], own if own.numel() else a_scale[:0], b_scale[g]) if end > first else 0
        first = end
    return out


@pytest.mark.parametrize("dtype", [E4M3, torch.int8], ids=str)
@pytest.mark.parametrize("kind", ["tensor", "rows", "blocks"])
def test_grouped_scaled_mm(kind, dtype, target):
    """An empty group, a group of several tiles, rows behind the last end."""
    for m, n, k, ends in ((19, 40, 64, (3, 10, 10, 17)), (150, 136, 200, (1, 140, 140, 150))):
        a, b = eights(m, k, dtype, target), torch.stack([eights(n, k, dtype, target, seed=i) for i in range(4)])
        shapes = {"tensor": ((1, ), (4, )), "rows": ((m, ), (4, n)), "blocks": ((m, -(-k // 128)), (4, -(-n // 128), -(-k // 128)))}[kind]
        a_scale, b_scale = (scales(*shape, target=target, seed=i) for i, shape in enumerate(shapes))
        got = fused.grouped_scaled_mm(a, b, a_scale, b_scale, torch.tensor(ends, device=target), torch.float32)
        compare(got, grouped(a, b, a_scale, b_scale, torch.tensor(ends)), units=8 if target == "cpu" or dtype == torch.int8 else 2e4)


def test_grouped_scaled_mm_of_strides_and_nothing(target):
    a, b = eights(5, 32, E4M3, target), torch.stack([eights(16, 32, E4M3, target, seed=i) for i in range(2)])
    a_scale, b_scale, ends = scales(10, target=target)[::2], scales(16, 2, target=target).t(), torch.tensor([2, 4], device=target)
    a_scale[4] = float("nan")
    got = fused.grouped_scaled_mm(a, b.mT.contiguous().mT, a_scale.unsqueeze(1), b_scale.unsqueeze(2), ends, torch.float32)
    compare(got, grouped(a, b, a_scale, b_scale, ends), units=8 if target == "cpu" else 2e4)
    assert fused.grouped_scaled_mm(a, b[:0], a_scale, b_scale[:0], ends[:0]).tolist() == [[0.0] * 16] * 5
    assert fused.grouped_scaled_mm(a[:0], b, a_scale[:0], b_scale, ends).shape == (0, 16)


def test_grouped_scaled_mm_errors(target):
    a, b = eights(5, 32, E4M3, target), torch.stack([eights(16, 32, E4M3, target, seed=i) for i in range(2)])
    a_scale, b_scale, ends = scales(5, target=target), scales(2, 16, target=target), torch.tensor([2, 4], device=target)
    with pytest.raises(ValueError, match=r"`b_scale` has shape \(2, 15\): expected \(2,\), \(2, 16\), or blocks"):
        fused.grouped_scaled_mm(a, b, a_scale, b_scale[:, :15], ends)
    with pytest.raises(ValueError, match=r"`a_scale` has shape \(4,\): expected one element, \(5,\), or blocks"):
        fused.grouped_scaled_mm(a, b, a_scale[:4], b_scale, ends)
    with pytest.raises(ValueError, match=r"expected \(m, k\) and \(groups, n, k\)"):
        fused.grouped_scaled_mm(a, b.mT, a_scale, b_scale, ends)
    with pytest.raises(ValueError, match=r"`ends` has shape \(1,\): expected \(2,\)"):
        fused.grouped_scaled_mm(a, b, a_scale, b_scale, ends[:1])
    with pytest.raises(TypeError, match="`b` has dtype torch.int8, `a` torch.float8_e4m3fn"):
        fused.grouped_scaled_mm(a, b.to(torch.int8), a_scale, b_scale, ends)


def test_sums_of_runs(target, monkeypatch):
    """Deep products of 8-bit floats: sums of some steps are added in fp32; steps that no run divides."""
    monkeypatch.setattr(sys.modules["nereid.ops.scaled"], "_run", lambda device, k, block: 3)
    for k in (64, 1000, 2500):
        a, b = eights(19, k, E4M3, target), eights(40, k, E4M3, target, seed=1)
        check_scaled(a, b, scales(19, target=target), scales(40, target=target), random(40, device=target), torch.float32)


@pytest.mark.parametrize("m,n,k", [(2048, 1200, 512), (2000, 1168, 336)])
@pytest.mark.parametrize("dtypes", [(E4M3, E4M3), (E4M3, E5M2)], ids=str)
def test_blocks_of_descriptors(dtypes, m, n, k, target, monkeypatch):
    """With scales for blocks, large products read tiles through tensor descriptors on GPUs of sm_90; elsewhere the same code reads pointers."""
    scaled = sys.modules["nereid.ops.scaled"]
    monkeypatch.setattr(scaled, "COPIES", True)
    if target == "cpu":
        m, n = m // 8, n // 8
        monkeypatch.setattr(scaled, "can_copy", lambda *args: True)
    a, b = eights(m, k, dtypes[0], target), eights(n, k, dtypes[1], target, seed=1)
    if target == "cuda":
        cut = scaled._scaled_tiles(a.device, 1, m, n, k, True)
        assert scaled.can_copy(a, b.unsqueeze(0), cut.m) == (torch.cuda.get_device_capability()[0] == 9)
    a_scale, b_scale = scales(m, -(-k // 128), target=target), scales(-(-n // 128), -(-k // 128), target=target, seed=1)
    check_scaled(a, b, a_scale, b_scale, random(n, device=target), torch.float32)
