"""Gated activations at the widths of Llama-2 7B and Llama-3 70B."""

import torch
import torch.nn.functional as F

from fused import Case
from nereid.ops import fused


def cases(device):
    for rows, width in ((16, 11008), (4096, 11008), (4096, 28672)):
        gate, up, grad = (torch.randn(rows, width, dtype=torch.bfloat16, device=device) for _ in range(3))
        packed = torch.randn(rows, 2 * width, dtype=torch.bfloat16, device=device)
        size = gate.numel() * gate.element_size()
        yield Case(f"swiglu {rows}x{width} bf16", lambda gate=gate, up=up: fused.swiglu(gate, up), {"torch": lambda gate=gate, up=up: F.silu(gate) * up}, bytes=3 * size,
                   definition=lambda gate=gate, up=up: F.silu(gate.double()) * up.double())
        yield Case(f"silu_and_mul {rows}x{width} bf16", lambda x=packed: fused.silu_and_mul(x), {"torch": lambda x=packed, n=width: F.silu(x[:, :n]) * x[:, n:]},
                   bytes=3 * size)
        yield Case(f"swiglu backward {rows}x{width} bf16", lambda g=grad, gate=gate, up=up: torch.ops.nereid.swiglu_backward(g, gate, up),
                   {"torch": lambda g=grad, gate=gate, up=up: (torch.ops.aten.silu_backward(g * up, gate), g * F.silu(gate))}, bytes=5 * size)
