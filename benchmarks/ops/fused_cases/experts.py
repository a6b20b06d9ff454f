"""Grouped products and mixtures of experts at the widths of Mixtral 8x7B (8 experts, 2 for each token) and of Qwen3 30B-A3B (128 experts, 8 for each token).

"dense" is one product of equal work without groups, "torch" is `torch._grouped_mm` with PyTorch's operators around it; none waits for the device.
"""

import torch
import torch.nn.functional as F

from fused import Case
from nereid.ops import fused

#: (experts, experts of a token, k, n of an expert)
MODELS = {"Mixtral": (8, 2, 4096, 14336), "Qwen3": (128, 8, 2048, 768)}
E4M3 = torch.float8_e4m3fn


def cases(device):
    for name, sizes in MODELS.items():
        yield from products(name, *sizes, device)
        yield from steps(name, *sizes, device)
        yield from layers(name, *sizes, device)


def uneven(rows, groups, device):
    """Ends of groups of random sizes, as routing makes them."""
    shares = torch.rand(groups, generator=torch.Generator().manual_seed(0)) + 0.5
    ends = (shares.cumsum(0) / shares.sum() * rows).to(torch.int32)
    ends[-1] = rows
    return ends.to(device)


def products(name, groups, count, k, n, device):
    weight = torch.randn(groups, 2 * n, k, dtype=torch.bfloat16, device=device) * k**-0.5
    for tokens in (4096, 16384):
        m = tokens * count
        a, ends = torch.randn(m, k, dtype=torch.bfloat16, device=device), uneven(m, groups, device)
        grad = torch.randn(m, 2 * n, dtype=torch.bfloat16, device=device)
        work = {"flops": 4 * m * n * k, "bytes": 2 * (m * k + groups * 2 * n * k + 2 * m * n)}
        yield Case(f"grouped_mm {name} m={m}", lambda a=a, e=ends: fused.grouped_mm(a, weight.mT, e),
                   {"dense": lambda a=a: a @ weight[0].t(), "torch": lambda a=a, e=ends: torch._grouped_mm(a, weight.mT, offs=e)}, **work)
        yield Case(f"grouped_mm backward a {name} m={m}", lambda g=grad, e=ends: fused.grouped_mm(g, weight, e),
                   {"dense": lambda g=grad: g @ weight[0], "torch": lambda g=grad, e=ends: torch._grouped_mm(g, weight, offs=e)}, **work)
        yield Case(f"grouped_mm backward b {name} m={m}", lambda g=grad, a=a, e=ends: fused.grouped_mm(g.t(), a, e),
                   {"dense": lambda g=grad, a=a: g.t() @ a, "torch": lambda g=grad, a=a, e=ends: torch._grouped_mm(g.t(), a, offs=e)}, **work)
        a8, w8 = a.to(E4M3), weight.to(E4M3)
        of_rows, of_weights = torch.rand(m, device=device) + 0.1, torch.rand(groups, 2 * n, device=device) * 0.01
        one = torch.ones(1, device=device)
        work["bytes"] = m * k + groups * 2 * n * k + 4 * m * n
        yield Case(f"grouped_scaled_mm rows {name} m={m}", lambda a=a8, e=ends, r=of_rows: fused.grouped_scaled_mm(a, w8, r, of_weights, e), {
            "dense": lambda a=a8: torch._scaled_mm(a, w8[0].t(), one, one, out_dtype=torch.bfloat16),
            "torch": lambda a=a8, e=ends, r=of_rows: torch._scaled_grouped_mm(a, w8.mT, r, of_weights, offs=e, out_dtype=torch.bfloat16)
        }, **work)
        blocks, of_blocks = torch.rand(m, k // 128, device=device) + 0.1, torch.rand(groups, 2 * n // 128, k // 128, device=device) * 0.01
        yield Case(f"grouped_scaled_mm blocks {name} m={m}", lambda a=a8, e=ends, r=blocks: fused.grouped_scaled_mm(a, w8, r, of_blocks, e),
                   {"dense": lambda a=a8: torch._scaled_mm(a, w8[0].t(), one, one, out_dtype=torch.bfloat16)}, **work)


def choice(logits, count):
    weights, experts = logits.float().softmax(-1).topk(count, -1)
    return weights / weights.sum(-1, keepdim=True), experts


def sorted_pairs(experts, groups):
    """(pairs in the order of their experts, ends of groups)."""
    found, order = experts.flatten().sort(stable=True)
    return order, torch.searchsorted(found, torch.arange(groups, device=experts.device), right=True).to(torch.int32)


def steps(name, groups, count, k, n, device):
    for tokens in (1, 128, 16384):
        logits = torch.randn(tokens, groups, dtype=torch.bfloat16, device=device)
        weights, experts = fused.topk_softmax(logits, count, "softmax", True)
        pairs = tokens * count
        yield Case(f"topk_softmax {name} tokens={tokens}", lambda x=logits: fused.topk_softmax(x, count, "softmax", True), {"torch": lambda x=logits: choice(x, count)},
                   bytes=2 * logits.numel() + 12 * pairs)
        yield Case(f"moe_align {name} tokens={tokens}", lambda e=experts: fused.moe_align(e, groups, 128),
                   {"torch": lambda e=experts: sorted_pairs(e, groups)}, bytes=16 * pairs)
        rows, _, places, _ = fused.moe_align(experts, groups)
        x = torch.randn(pairs, k, dtype=torch.bfloat16, device=device)
        yield Case(f"moe_combine {name} tokens={tokens}", lambda x=x, r=rows, p=places, w=weights: fused.moe_combine(x, r, p, w),
                   {"torch": lambda x=x, p=places, w=weights: (x[p.flatten()].view(tokens, count, k) * w.unsqueeze(-1)).sum(1)}, bytes=2 * (pairs + tokens) * k,
                   definition=lambda x=x, p=places, w=weights: (x[p.flatten()].view(tokens, count, k).double() * w.double().unsqueeze(-1)).sum(1))


def by_aten(x, gate_up, down, weights, experts):
    """The same with `torch._grouped_mm`."""
    order, ends = sorted_pairs(experts, gate_up.shape[0])
    tokens = order // experts.shape[1]
    gate, up = torch._grouped_mm(x[tokens], gate_up.mT, offs=ends).chunk(2, -1)
    found = torch._grouped_mm(F.silu(gate) * up, down.mT, offs=ends) * weights.flatten()[order].unsqueeze(-1).to(x.dtype)
    return torch.zeros_like(x).index_add_(0, tokens, found)


def in_double(x, gate_up, down, weights, experts):
    out = torch.zeros(x.shape, dtype=torch.float64, device=x.device)
    for expert in range(gate_up.shape[0]):
        share = torch.where(experts == expert, weights, 0).sum(1)
        tokens = share.nonzero().flatten()
        gate, up = (x[tokens].double() @ gate_up[expert].double().t()).chunk(2, -1)
        out.index_add_(0, tokens, (F.silu(gate) * up) @ down[expert].double().t() * share[tokens, None])
    return out


def layers(name, groups, count, k, n, device):
    gate_up = torch.randn(groups, 2 * n, k, dtype=torch.bfloat16, device=device) * k**-0.5
    down = torch.randn(groups, k, n, dtype=torch.bfloat16, device=device) * n**-0.5
    for tokens in (1, 16, 128, 4096, 16384):
        x = torch.randn(tokens, k, dtype=torch.bfloat16, device=device)
        weights, experts = fused.topk_softmax(torch.randn(tokens, groups, device=device), count, "softmax", True)
        pairs = tokens * count
        given = (x, gate_up, down, weights, experts)
        work = {"flops": 6 * pairs * n * k, "bytes": 2 * (2 * tokens * k + min(groups, pairs) * 3 * n * k)}
        yield Case(f"moe_swiglu {name} tokens={tokens}", lambda given=given: fused.moe_swiglu(*given), {"torch": lambda given=given: by_aten(*given)}, **work,
                   definition=(lambda given=given: in_double(*given)) if tokens <= 4096 else None)
        if tokens < 4096:
            continue
        grad, saved = torch.randn_like(x), torch.ops.nereid.moe_swiglu_saving(*given)[1:]

        def backward(grad=grad, given=given, saved=saved):
            gate, up, rows, ends, places = saved
            hidden, halves, of_weights = torch.ops.nereid.moe_hidden_backward(grad, down, given[3], gate, up, rows, ends, places)
            return (torch.ops.nereid.moe_x_backward(halves, gate_up, ends, places), torch.ops.nereid.moe_weight_backward(halves, given[0], rows, ends, False),
                    torch.ops.nereid.moe_weight_backward(grad, hidden, rows, ends, True), of_weights)

        yield Case(f"moe_swiglu backward {name} tokens={tokens}", backward, {}, flops=12 * pairs * n * k)
