"""Operators that have a limit: each name begins with what is asked of the case.

"copy" moves as many bytes as the operator has to move, so copy/ours is ours as a share of a copy's rate.
"""

import torch
import torch.nn.functional as F

import nereid.ops
from fused import Case
from fused_cases.experts import MODELS, uneven
from nereid.ops import fused

bf16, E4M3 = torch.bfloat16, torch.float8_e4m3fn


def _copy(size, device):
    """A call that moves `size` bytes: half of them are read."""
    x = torch.randint(0, 255, (size // 2, ), dtype=torch.uint8, device=device)
    y = torch.empty_like(x)
    return lambda: y.copy_(x)


def _softmax(x):
    with nereid.ops.use(only=["_softmax"], routing=False):
        return torch.softmax(x, -1)


def _rows(device):
    for rows, width in ((16384, 4096), (8192, 8192)):
        x, weight = torch.randn(rows, width, dtype=bf16, device=device), torch.randn(width, dtype=bf16, device=device)
        size = 2 * x.numel()
        copy = _copy(2 * size, device)
        yield Case(f"copy/ours >= 0.9: rms_norm {rows}x{width}", lambda x=x, w=weight: fused.rms_norm(x, w), {"copy": copy, "torch": lambda x=x, w=weight: F.rms_norm(x, x.shape[-1:], w, 1e-6)},
                   bytes=2 * size)
        yield Case(f"copy/ours >= 0.9: softmax {rows}x{width}", lambda x=x: _softmax(x), {"copy": copy, "torch": lambda x=x: torch.softmax(x, -1)}, bytes=2 * size)
    x, weight = torch.randn(16384, 4096, dtype=bf16, device=device), torch.randn(4096, dtype=bf16, device=device)
    yield Case("<= 80 us: rms_norm_quantized 16384x4096", lambda: fused.rms_norm_quantized(x, weight, 1e-6), {"copy": _copy(3 * x.numel(), device)}, bytes=3 * x.numel())
    for rows, classes in ((8192, 32000), (8192, 128256)):
        logits, target = torch.randn(rows, classes, dtype=bf16, device=device), torch.randint(0, classes, (rows, ), device=device)
        size = 2 * logits.numel()
        yield Case(f"copy/ours >= 0.9: cross_entropy {rows}x{classes}", lambda x=logits, t=target: fused.cross_entropy(x, t), {"copy": _copy(size, device)}, bytes=size)
        _, lse, count = torch.ops.nereid.cross_entropy(logits, target)
        grad = torch.ones((), device=device)
        yield Case(f"copy/ours >= 0.9: cross_entropy backward {rows}x{classes}", lambda x=logits, t=target, lse=lse, count=count: torch.ops.nereid.cross_entropy_backward(
            grad, None, x, t, lse, count, -100, 0.0, 0.0, 0.0, "mean"), {"copy": _copy(2 * size, device)}, bytes=2 * size)


def _products(device):
    x, weight = torch.randn(4096, 4096, dtype=bf16, device=device), torch.randn(131072, 4096, dtype=bf16, device=device) / 64
    target = torch.randint(0, 131072, (4096, ), device=device)
    yield Case("TFLOP/s >= 500: linear_cross_entropy 4096x4096x131072", lambda: fused.linear_cross_entropy(x, weight, target), {}, flops=2 * 4096**2 * 131072)
    n = 8192
    a, b = (torch.randn(n, n, device=device).to(E4M3) for _ in range(2))
    of_a, of_b, one = torch.rand(n, n // 128, device=device) + 0.1, torch.rand(n // 128, n // 128, device=device) * 0.01, torch.ones(1, device=device)
    yield Case("TFLOP/s >= 1100: scaled_mm blocks 8192x8192x8192", lambda: fused.scaled_mm(a, b, of_a, of_b), {
        "one scale": lambda: fused.scaled_mm(a, b, one, one), "torch, one scale": lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=bf16)
    }, flops=2 * n**3)
    for name, (groups, count, k, n) in MODELS.items():
        m = 4096 * count
        weights, rows, ends = torch.randn(groups, 2 * n, k, dtype=bf16, device=device), torch.randn(m, k, dtype=bf16, device=device), uneven(m, groups, device)
        yield Case(f"dense/ours >= 0.9: grouped_mm {name} m={m}", lambda a=rows, w=weights, e=ends: fused.grouped_mm(a, w.mT, e), {
            "dense": lambda a=rows, w=weights: a @ w[0].t(), "torch": lambda a=rows, w=weights, e=ends: torch._grouped_mm(a, w.mT, offs=e)
        }, flops=4 * m * n * k)


def _decoding(device):
    heads, key_heads, dim, page = 32, 8, 128, 16
    for batches, length in ((64, 4096), (256, 1024), (1, 131072)):
        count = batches * length // page
        table, lengths = torch.randperm(count, device=device).int().view(batches, -1), torch.full((batches, ), length, dtype=torch.int32, device=device)
        caches = [torch.randn(count, page, key_heads, dim, dtype=bf16, device=device) for _ in range(2)]
        q = torch.randn(batches, heads, dim, dtype=bf16, device=device)
        size = 4 * caches[0].numel()
        for kind, scale in (("bf16", None), ("fp8", torch.ones(1, device=device))):
            held = caches if scale is None else [x.to(E4M3) for x in caches]
            moved = size if scale is None else size // 2
            yield Case(f"GB/s >= 0.85 of the peak: paged_attention {batches}x{length} {kind}", lambda q=q, c=held, t=table, n=lengths, m=length, s=scale: fused.paged_attention(
                q, *c, t, n, max_length=m, k_scale=s, v_scale=s), {"copy": _copy(moved, device)}, bytes=moved)


def _weights(device):
    n, k = 14336, 4096
    weight = torch.randn(n, k, dtype=bf16, device=device) / 64
    for m in (1, 16, 64, 256):
        x = torch.randn(m, k, dtype=bf16, device=device)
        dense = {"bf16": lambda x=x: F.linear(x, weight)}
        for group in (32, 128):
            q, scale, zero = fused.quantize_int4(weight, group)
            yield Case(f"bf16/ours >= 1: linear_int4 groups of {group} m={m}", lambda x=x, w=(q, scale, zero), g=group: fused.linear_int4(x, *w, None, g), dense,
                       definition=lambda x=x, w=(q, scale, zero), g=group: x.double() @ fused.dequantize_int4(*w, k, g, torch.float32).double().t())
            eight = fused.quantize(weight, None, group, torch.int8)
            yield Case(f"bf16/ours >= 1: linear_int8 groups of {group} m={m}", lambda x=x, w=eight, g=group: fused.linear_int8(x, *w, None, g), dense)


def cases(device):
    for part in (_rows, _products, _decoding, _weights):
        yield from part(device)
