"""Normalisations of rows, their gradients, and normalisation with quantisation, at the widths of models."""

import torch
import torch.nn.functional as F

from fused import Case
from nereid.ops import fused

ROWS, WIDTHS = (16, 2048, 16384), (1024, 4096, 5120, 8192)


def _add_norm(x, residual, norm):
    total = x + residual
    return norm(total), total


def _norms(x, residual, weight, bias, name, size):
    """Cases of both normalisations of one shape."""
    n = x.shape[-1]
    for kind, ours, added, torch_norm, others in (
        ("rms_norm", fused.rms_norm, fused.add_rms_norm, lambda x: F.rms_norm(x, (n, ), weight.to(x.dtype), 1e-6), ()),
        ("layer_norm", fused.layer_norm, fused.add_layer_norm, lambda x: F.layer_norm(x, (n, ), weight.to(x.dtype), bias.to(x.dtype), 1e-6), (bias, )),
    ):
        yield Case(f"{kind} {name}", lambda ours=ours, others=others: ours(x, weight, *others, 1e-6), {"torch": lambda norm=torch_norm: norm(x)}, bytes=2 * size,
                   definition=lambda norm=torch_norm: norm(x.double()))
        yield Case(f"add_{kind} {name}", lambda added=added, others=others: added(x, residual, weight, *others, 1e-6),
                   {"torch": lambda norm=torch_norm: _add_norm(x, residual, norm)}, bytes=4 * size,
                   definition=lambda norm=torch_norm: _add_norm(x.double(), residual.double(), norm))


def _gradients(x, grad, weight, bias, name, size):
    n = x.shape[-1]
    _, rstd = torch.ops.aten._fused_rms_norm(x, (n, ), weight, 1e-6)
    yield Case(f"rms_norm backward {name}", lambda: torch.ops.nereid.rms_norm_backward(grad, None, x, weight, 1e-6, 0.0),
               {"torch": lambda: torch.ops.aten._fused_rms_norm_backward(grad, x, (n, ), rstd, weight, (True, True))}, bytes=3 * size)
    _, mean, rstd_of_layer = torch.ops.aten.native_layer_norm(x, (n, ), weight, bias, 1e-6)
    yield Case(f"layer_norm backward {name}", lambda: torch.ops.nereid.layer_norm_backward(grad, None, x, weight, bias, 1e-6),
               {"torch": lambda: torch.ops.aten.native_layer_norm_backward(grad, x, (n, ), mean, rstd_of_layer, weight, bias, (True, True, True))}, bytes=3 * size)


def _quantised(y):
    scales = (y.abs().amax(-1, keepdim=True).float() / 448).clamp(min=2.0**-126)
    return (y / scales).clamp(-448, 448).to(torch.float8_e4m3fn), scales


def _quantised_norms(x, residual, weight, name, size):
    n = x.shape[-1]
    yield Case(f"rms_norm_quantized {name}", lambda: fused.rms_norm_quantized(x, weight, 1e-6), {"torch": lambda: _quantised(F.rms_norm(x, (n, ), weight, 1e-6))},
               bytes=3 * size // 2)
    yield Case(f"rms_norm_quantized groups {name}", lambda: fused.rms_norm_quantized(x, weight, 1e-6, 0.0, None, 128), {
        "torch": lambda: _quantised(F.rms_norm(x, (n, ), weight, 1e-6).unflatten(-1, (-1, 128)))
    }, bytes=3 * size // 2)
    yield Case(f"add_rms_norm_quantized {name}", lambda: fused.add_rms_norm_quantized(x, residual, weight, 1e-6),
               {"torch": lambda: _quantised(_add_norm(x, residual, lambda y: F.rms_norm(y, (n, ), weight, 1e-6))[0])}, bytes=7 * size // 2)
    yield Case(f"quantize {name}", lambda: fused.quantize(x), {"torch": lambda: _quantised(x)}, bytes=3 * size // 2)
    yield Case(f"swiglu_quantized {name}", lambda: fused.swiglu_quantized(x, residual), {"torch": lambda: _quantised(F.silu(x) * residual)}, bytes=5 * size // 2)


def cases(device):
    for rows in ROWS:
        for width in WIDTHS:
            x, residual, grad = (torch.randn(rows, width, dtype=torch.bfloat16, device=device) for _ in range(3))
            weight, bias = (torch.randn(width, dtype=torch.bfloat16, device=device) for _ in range(2))
            name, size = f"{rows}x{width} bf16", x.numel() * x.element_size()
            yield from _norms(x, residual, weight, bias, name, size)
            yield from _quantised_norms(x, residual, weight, name, size)
            if rows > 16:
                yield from _gradients(x, grad, weight, bias, name, size)
