"""Cross-entropy at the vocabularies of Llama-2 (32000) and Llama-3 (128256), and fused with the last product of a model."""

import torch
import torch.nn.functional as F

from fused import Case
from nereid.ops import fused


def cases(device):
    for rows, classes in ((8192, 32000), (8192, 128256), (64, 128256)):
        logits = torch.randn(rows, classes, dtype=torch.bfloat16, device=device) * 3
        target = torch.randint(0, classes, (rows, ), device=device)
        size = logits.numel() * logits.element_size()
        small = rows * classes < 1 << 28

        def ours(x=logits, t=target):
            return fused.cross_entropy(x, t)

        yield Case(f"cross_entropy {rows}x{classes} bf16", ours, {"torch": lambda x=logits, t=target: F.cross_entropy(x, t),
                                                                   "torch fp32": lambda x=logits, t=target: F.cross_entropy(x.float(), t)}, bytes=size,
                   definition=(lambda x=logits, t=target: F.cross_entropy(x.double(), t)) if small else None, tolerance=1e-5)
        loss, lse, count = torch.ops.nereid.cross_entropy(logits, target)
        grad = torch.ones((), device=device)
        logsoftmax = torch.log_softmax(logits, 1)
        spread = torch.zeros(rows, 1, dtype=logits.dtype, device=device) - 1 / rows

        def backward(g=grad, x=logits, t=target, lse=lse, count=count):
            return torch.ops.nereid.cross_entropy_backward(g, None, x, t, lse, count, -100, 0.0, 0.0, 0.0, "mean")

        def theirs(p=logsoftmax, t=target, s=spread):
            return torch.ops.aten._log_softmax_backward_data(torch.zeros_like(p).scatter_(1, t[:, None], s), p, 1, p.dtype)

        yield Case(f"cross_entropy backward {rows}x{classes} bf16", backward, {"torch": theirs, "copy": lambda x=logits, y=torch.empty_like(logits): y.copy_(x)},
                   bytes=2 * size)
        del logits, logsoftmax
    width, classes = 4096, 131072
    for rows in (4096, 16384):
        x = torch.randn(rows, width, dtype=torch.bfloat16, device=device)
        weight = torch.randn(classes, width, dtype=torch.bfloat16, device=device) / 64
        target = torch.randint(0, classes, (rows, ), device=device)

        def linear(x=x, weight=weight, t=target):
            return fused.linear_cross_entropy(x, weight, t)

        def by_torch(x=x, weight=weight, t=target):
            return F.cross_entropy(x @ weight.T, t)

        flops = 2 * rows * width * classes
        yield Case(f"linear_cross_entropy {rows}x{width}x{classes} bf16", linear, {"torch": by_torch, "product alone": lambda x=x, weight=weight: x @ weight.T}, flops=flops)
        loss, lse, count = torch.ops.nereid.linear_cross_entropy(x, weight, target)
        grad = torch.ones((), device=device)

        def backward(x=x, weight=weight, t=target, lse=lse, count=count, g=grad):
            return torch.ops.nereid.linear_cross_entropy_backward(g, None, x, weight, t, None, lse, count, [True, True, False], -100, 0.0, 0.0, 0.0, "mean")

        def both(of, x=x, weight=weight):
            a, b = x.detach().requires_grad_(), weight.detach().requires_grad_()
            return torch.autograd.grad(of(a, b), (a, b))

        yield Case(f"linear_cross_entropy backward {rows}x{width}x{classes} bf16", backward, {}, flops=3 * flops)
        yield Case(f"linear_cross_entropy both {rows}x{width}x{classes} bf16", lambda both=both, of=linear: both(of), {"torch": lambda both=both, of=by_torch: both(of)},
                   flops=3 * flops)
