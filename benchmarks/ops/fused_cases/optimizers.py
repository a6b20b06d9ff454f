"""AdamW, norm and clipping over the parameters of a Llama with a billion parameters (bf16) and of BERT-base (fp32)."""

import torch

from fused import Case
from nereid.ops import fused


def llama(layers=16, width=2048, inner=8192, keys=512, vocabulary=128256):
    layer = [(width, width), (keys, width), (keys, width), (width, width), (inner, width), (inner, width), (width, inner), (width, ), (width, )]
    return [(vocabulary, width), *layer * layers, (width, )]


def bert(layers=12, width=768, inner=3072, vocabulary=30522):
    layer = [shape for _ in range(4) for shape in ((width, width), (width, ))] + [(inner, width), (inner, ), (width, inner), (width, )] + [(width, )] * 4
    return [(vocabulary, width), (512, width), (2, width), (width, ), (width, ), *layer * layers, (width, width), (width, )]


def cases(device):
    for name, shapes, dtype in (("Llama 1B", llama(), torch.bfloat16), ("BERT-base", bert(), torch.float32)):
        params = [torch.randn(shape, dtype=dtype, device=device).requires_grad_() for shape in shapes]
        for param in params:
            param.grad = torch.randn_like(param) * 1e-3
        grads = [param.grad for param in params]
        count = sum(param.numel() for param in params)
        size = params[0].element_size()
        mine = fused.AdamW(params, lr=torch.tensor(1e-5, device=device), state_dtype=None)
        theirs = torch.optim.AdamW(params, lr=torch.tensor(1e-5, device=device), fused=True)
        each = torch.optim.AdamW(params, lr=torch.tensor(1e-5, device=device), foreach=True, capturable=True)
        yield Case(f"AdamW {name}", mine.step, {"torch fused": theirs.step, "torch foreach": each.step}, bytes=7 * size * count)
        yield Case(f"gradient_norm {name}", lambda g=grads: fused.gradient_norm(g), {"torch": lambda g=grads: torch.nn.utils.get_total_norm(g)}, bytes=size * count)
        norm = torch.ones((), device=device)
        yield Case(f"clip_gradients_ {name}", lambda g=grads, n=norm: fused.clip_gradients_(g, 0.999, n),
                   {"torch": lambda p=params, n=norm: torch.nn.utils.clip_grads_with_norm_(p, 0.999, n)}, bytes=2 * size * count)
