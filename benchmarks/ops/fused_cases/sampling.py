"""Sampling at the vocabularies of Llama-2, Llama-3 and Qwen, and dropout with the addition of a residual."""

import torch
import torch.nn.functional as F

from fused import Case
from nereid.ops import fused


def _by_sorting(logits, top_k, top_p):
    """A token by what PyTorch has: rows are sorted."""
    ordered, order = logits.float().sort(-1, descending=True)
    if top_k:
        ordered[:, top_k:] = -torch.inf
    p = ordered.softmax(-1)
    if top_p < 1:
        p = torch.where(p.cumsum(-1) - p > top_p, 0.0, p)
    # `multinomial` waits for the host: the race of exponential numbers does not
    return order.gather(-1, (p / torch.empty_like(p).exponential_()).argmax(-1, keepdim=True))


def cases(device):
    for rows, vocabulary in ((1, 128256), (64, 32000), (64, 128256), (256, 151936)):
        logits = torch.randn(rows, vocabulary, device=device, dtype=torch.bfloat16) * 4
        size = logits.numel() * logits.element_size()
        for name, settings in (("", {}), (" top-k 50", {"top_k": 50}), (" top-p 0.9", {"top_p": 0.9}), (" top-k 50 top-p 0.9", {"top_k": 50, "top_p": 0.9})):
            yield Case(f"sample {rows}x{vocabulary} bf16{name}", lambda x=logits, settings=settings: fused.sample(x, **settings),
                       {"torch": lambda x=logits, settings=settings: _by_sorting(x, settings.get("top_k", 0), settings.get("top_p", 1.0))}, bytes=size)
    for rows, width in ((2048, 1024), (16384, 4096)):
        x, residual = (torch.randn(rows, width, device=device, dtype=torch.bfloat16) for _ in range(2))
        yield Case(f"dropout_add {rows}x{width} bf16", lambda x=x, residual=residual: fused.dropout_add(x, residual, 0.1),
                   {"torch": lambda x=x, residual=residual: F.dropout(x, 0.1) + residual}, bytes=3 * x.numel() * x.element_size())
