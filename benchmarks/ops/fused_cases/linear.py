"""Linear layers at the widths of Llama-3 8B and 70B: attention's output with a residual, the feed-forward layers, GELU with bias."""

import torch
import torch.nn.functional as F

from fused import Case
from nereid.ops import fused

LAYERS = {"8B qkv": (6144, 4096), "8B up": (14336, 4096), "8B down": (4096, 14336), "70B up": (28672, 8192), "70B down": (8192, 28672)}


def cases(device):
    for name, (n, k) in LAYERS.items():
        weight = torch.randn(n, k, dtype=torch.bfloat16, device=device) * k**-0.5
        bias = torch.randn(n, dtype=torch.bfloat16, device=device)
        for m in (1, 16, 512, 4096, 8192):
            x, residual = torch.randn(m, k, dtype=torch.bfloat16, device=device), torch.randn(m, n, dtype=torch.bfloat16, device=device)
            grad = torch.randn(m, n, dtype=torch.bfloat16, device=device)
            moved, flops = 2 * (m * k + n * k + m * n), 2 * m * n * k
            definition = (lambda x=x, w=weight: F.linear(x.double(), w.double())) if m <= 512 else None
            yield Case(f"linear {name} m={m}", lambda x=x, w=weight: fused.linear(x, w), {"torch": lambda x=x, w=weight: F.linear(x, w)}, bytes=moved, flops=flops,
                       definition=definition)
            if name.endswith("up"):
                yield Case(f"linear gelu {name} m={m}", lambda x=x, w=weight, b=bias: fused.linear(x, w, b, "gelu"),
                           {"torch": lambda x=x, w=weight, b=bias: F.gelu(F.linear(x, w, b))}, bytes=moved, flops=flops)
            if name.endswith("down"):
                yield Case(f"linear residual {name} m={m}", lambda x=x, w=weight, r=residual: fused.linear(x, w, residual=r),
                           {"torch": lambda x=x, w=weight, r=residual: F.linear(x, w) + r}, bytes=moved + 2 * m * n, flops=flops)
            if name == "8B up" and m >= 4096:
                yield Case(f"linear backward {name} m={m}",
                           lambda g=grad, x=x, w=weight: (torch.ops.nereid.linear_x_backward(g, w), torch.ops.nereid.linear_weight_backward(g, x)),
                           {"torch": lambda g=grad, x=x, w=weight: (g @ w, g.t() @ x)}, flops=2 * flops)
    for name, (n, k) in LAYERS.items():
        if not name.endswith("up"):
            continue
        gate, up = (torch.randn(n, k, dtype=torch.bfloat16, device=device) * k**-0.5 for _ in range(2))
        for m in (1, 16, 512, 4096, 8192):
            x = torch.randn(m, k, dtype=torch.bfloat16, device=device)
            yield Case(f"linear_swiglu {name} m={m}", lambda x=x, g=gate, u=up: fused.linear_swiglu(x, g, u), {"torch": lambda x=x, g=gate, u=up: F.silu(F.linear(x, g)) * F.linear(x, u)},
                       bytes=2 * (m * k + 2 * n * k + m * n), flops=4 * m * n * k,
                       definition=(lambda x=x, g=gate, u=up: F.silu(F.linear(x.double(), g.double())) * F.linear(x.double(), u.double())) if m <= 512 else None)
