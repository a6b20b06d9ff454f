"""Linear layers with low-rank changes at the widths of Llama-3 8B and 70B, and what their gradient needs beside that of the frozen layer."""

import torch
import torch.nn.functional as F

from fused import Case
from nereid.ops import fused

LAYERS = {"8B qkv": (6144, 4096), "8B down": (4096, 14336), "70B up": (28672, 8192)}


def cases(device):
    for name, (n, k) in LAYERS.items():
        weight = torch.randn(n, k, dtype=torch.bfloat16, device=device) * k**-0.5
        for rank in (16, 64, 256):
            a, b = torch.randn(rank, k, dtype=torch.bfloat16, device=device) * k**-0.5, torch.randn(n, rank, dtype=torch.bfloat16, device=device)
            for m in (1, 16, 512, 8192):
                x = torch.randn(m, k, dtype=torch.bfloat16, device=device)
                work = {"bytes": 2 * (m * k + n * k + m * n + rank * (n + k)), "flops": 2 * m * n * k + 2 * m * rank * (n + k)}
                others = {
                    "torch": lambda x=x, a=a, b=b: F.linear(x, weight) + 0.5 * F.linear(F.linear(x, a), b), "base alone": lambda x=x: F.linear(x, weight),
                    "ours base alone": lambda x=x: fused.linear(x, weight)
                }
                definition = (lambda x=x, a=a, b=b: x.double() @ weight.double().t() + 0.5 * (x.double() @ a.double().t()) @ b.double().t()) if m <= 512 else None
                yield Case(f"lora_linear {name} rank={rank} m={m}", lambda x=x, a=a, b=b: fused.lora_linear(x, weight, a, b, 0.5), others, **work, definition=definition)
