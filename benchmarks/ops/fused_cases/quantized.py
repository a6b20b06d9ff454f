"""Products of 8-bit floats with scales at the widths of Llama-3 8B and 70B: one scale, a scale for each row, and the blocks of DeepSeek-V3."""

import torch

from fused import Case
from nereid.ops import fused

LAYERS = {"8B up": (14336, 4096), "70B down": (8192, 28672)}
E4M3 = torch.float8_e4m3fn


def cases(device):
    for name, (n, k) in LAYERS.items():
        weight = torch.randn(n, k, device=device).to(E4M3)
        for m in (1, 16, 512, 8192):
            x = torch.randn(m, k, device=device).to(E4M3)
            one = torch.full((1, ), 0.01, device=device)
            rows, columns = torch.rand(m, 1, device=device) + 0.1, torch.rand(n, 1, device=device) * 0.01
            of_x, of_weight = torch.rand(m, k // 128, device=device) + 0.1, torch.rand(n // 128, k // 128, device=device) * 0.01
            amount = {"bytes": m * k + n * k + 2 * m * n, "flops": 2 * m * n * k}
            # PyTorch's product needs multiples of 16 rows.
            others = {"torch": lambda x=x, w=weight, o=one: torch._scaled_mm(x, w.t(), o, o, out_dtype=torch.bfloat16)} if m >= 16 else {}
            by_row = {"torch": lambda x=x, w=weight, r=rows, c=columns: torch._scaled_mm(x, w.t(), r, c.t(), out_dtype=torch.bfloat16)} if m >= 16 else {}
            yield Case(f"scaled_mm one {name} m={m}", lambda x=x, w=weight, o=one: fused.scaled_mm(x, w, o, o), others, **amount,
                       definition=(lambda x=x, w=weight, o=one: (x.double() @ w.double().t()) * o.double()**2) if m <= 512 else None)
            yield Case(f"scaled_mm rows {name} m={m}", lambda x=x, w=weight, r=rows, c=columns: fused.scaled_mm(x, w, r, c), by_row, **amount)
            yield Case(f"scaled_mm blocks {name} m={m}", lambda x=x, w=weight, r=of_x, c=of_weight: fused.scaled_mm(x, w, r, c), {}, **amount)
