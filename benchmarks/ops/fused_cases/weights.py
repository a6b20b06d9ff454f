"""Linear layers with int8 and int4 weights at the widths of Llama-3 8B and 70B, against the product of bf16 weights and against expanding the weights first; int8 activations and
weights against `torch._int_mm`."""

import torch
import torch.nn.functional as F

from fused import Case
from nereid.ops import fused

LAYERS = {"8B qkv": (6144, 4096), "8B up": (14336, 4096), "8B down": (4096, 14336), "70B down": (8192, 28672)}


def cases(device):
    for name, (n, k) in LAYERS.items():
        weight = torch.randn(n, k, dtype=torch.bfloat16, device=device) * k**-0.5
        q8, scale8 = fused.quantize(weight, None, 0, torch.int8)
        for m in (1, 16, 64, 512, 8192):
            x = torch.randn(m, k, dtype=torch.bfloat16, device=device)
            flops = {"flops": 2 * m * n * k}
            dense = {"bf16": lambda x=x: F.linear(x, weight)}
            for group in (128, 32):
                q, scale, zero = fused.quantize_int4(weight, group)

                def expanded(x=x, q=q, scale=scale, zero=zero, group=group):
                    return F.linear(x, fused.dequantize_int4(q, scale, zero, k, group))

                def definition(x=x, q=q, scale=scale, zero=zero, group=group):
                    return x.double() @ fused.dequantize_int4(q, scale, zero, k, group, torch.float32).double().t()

                yield Case(f"linear_int4 group={group} {name} m={m}", lambda x=x, q=q, s=scale, z=zero, g=group: fused.linear_int4(x, q, s, z, None, g), {**dense, "expanded": expanded},
                           bytes=n * k // 2 + 3 * n * k // group + 2 * m * (n + k), **flops, definition=definition if m <= 512 else None)
            yield Case(f"linear_int8 {name} m={m}", lambda x=x: fused.linear_int8(x, q8, scale8), {**dense, "expanded": lambda x=x: F.linear(x, (q8 * scale8).to(torch.bfloat16))},
                       bytes=n * k + 2 * m * (n + k), **flops, definition=(lambda x=x: x.double() @ (q8.double() * scale8.double()).t()) if m <= 512 else None)
            x8, x_scale = fused.quantize(x, None, 0, torch.int8)
            # PyTorch's product needs more than 16 rows.
            others = {"torch": lambda x=x8, s=x_scale: (torch._int_mm(x, q8.t()) * s * scale8.t()).to(torch.bfloat16)} if m > 16 else {}
            yield Case(f"scaled_mm int8 {name} m={m}", lambda x=x8, s=x_scale: fused.scaled_mm(x, q8, s, scale8), {**others, **dense}, bytes=n * k + m * k + 2 * m * n, **flops,
                       definition=(lambda x=x8, s=x_scale: (x.double() @ q8.double().t()) * s.double() * scale8.double().t()) if m <= 512 else None)
