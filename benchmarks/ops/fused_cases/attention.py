"""Attention: dense and ragged with gradients, decoding and prompts over a paged cache (the heads of Llama-3 8B), decoding with latent vectors (DeepSeek-V3)."""

import torch
import torch.nn.functional as F

from fused import Case
from nereid.ops import fused

TOKENS = 16384
bf16 = torch.bfloat16


def _attended(q, k, v, causal=False, mask=None, scale=None):
    """In fp64, of (batch, heads, tokens, dim). A causal mask ends at the lower right corner."""
    groups = q.shape[1] // k.shape[1]
    q, k, v = (x.double() for x in (q, k, v))
    scores = q @ k.repeat_interleave(groups, 1).mT * (q.shape[-1]**-0.5 if scale is None else scale)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril(scores.shape[-1] - scores.shape[-2])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ v.repeat_interleave(groups, 1)


def _backward_of_flash(q, k, v, grad, causal):
    """A function that computes PyTorch's gradients, of (batch, heads, tokens, dim)."""
    out, lse, q_starts, k_starts, max_q, max_k, seed, offset, _ = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)
    return lambda: torch.ops.aten._scaled_dot_product_flash_attention_backward(grad, q, k, v, out, lse, q_starts, k_starts, max_q, max_k, 0.0, causal, seed, offset)


def _dense(device):
    for heads, key_heads, dim in ((32, 32, 64), (32, 32, 128), (32, 8, 128), (16, 16, 96), (16, 16, 256)):
        for tokens in (1024, 4096, 16384):
            batches = TOKENS // tokens
            q, k, v, grad = (torch.randn(batches, n, tokens, dim, dtype=bf16, device=device) for n in (heads, key_heads, key_heads, heads))
            for causal in (False, True):
                flops = 4 * batches * heads * tokens**2 * dim // (2 if causal else 1)
                name = f"{batches}x({heads}, {key_heads})x{tokens}x{dim}{' causal' if causal else ''} bf16"
                yield Case(f"attention {name}", lambda q=q, k=k, v=v, c=causal: fused.attention(q, k, v, causal=c, token_dim=-2),
                           {"SDPA": lambda q=q, k=k, v=v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c, enable_gqa=True)}, flops=flops,
                           definition=(lambda q=q, k=k, v=v, c=causal: _attended(q, k, v, c)) if tokens == 1024 else None)
                with torch.no_grad():
                    out, lse = fused.attention(q, k, v, causal=causal, token_dim=-2, return_lse=True)
                others = {"flash": _backward_of_flash(q, k, v, grad, causal)} if heads == key_heads else {}
                rules = (None, None, None, None, 0, 0, causal, -1, -1, "end", 0.0, None, -2, False)
                yield Case(f"attention backward {name}", lambda g=grad, o=out, s=lse, x=(q, k, v), r=rules: torch.ops.nereid.attention_backward(g, None, o, s, *x, *r), others, flops=flops * 5 // 2)


def _variants(device):
    """A window, a cap and slopes; SDPA with a mask where it can do the same."""
    batches, heads, tokens, dim, window = 4, 32, 4096, 128, 1024
    q, k, v = (torch.randn(batches, heads, tokens, dim, dtype=bf16, device=device) for _ in range(3))
    distance = torch.arange(tokens, device=device)[:, None] - torch.arange(tokens, device=device)
    mask = (distance >= 0) & (distance <= window)
    flops = 4 * batches * heads * dim * (tokens * (window + 1) - window * (window + 1) // 2)
    name = f"{batches}x{heads}x{tokens}x{dim} causal bf16"
    yield Case(f"attention window={window} {name}", lambda: fused.attention(q, k, v, causal=True, window=(window, -1), token_dim=-2),
               {"SDPA with mask": lambda: F.scaled_dot_product_attention(q, k, v, mask)}, flops=flops)
    slopes = torch.logspace(-1, -8, heads, base=2, device=device)
    bias = (-slopes[:, None, None] * distance).masked_fill(distance < 0, -torch.inf).to(bf16)[None]
    flops = 2 * batches * heads * tokens**2 * dim
    yield Case(f"attention slopes {name}", lambda: fused.attention(q, k, v, causal=True, slopes=slopes, token_dim=-2),
               {"SDPA with bias": lambda: F.scaled_dot_product_attention(q, k, v, bias)}, flops=flops)
    yield Case(f"attention soft_cap {name}", lambda: fused.attention(q, k, v, causal=True, soft_cap=50.0, token_dim=-2), {}, flops=flops)


def _ragged(device):
    heads, dim = 32, 128
    lengths = [300, 4096, 1, 2500, 77, 1024, 3000, 512, 2048, 900, 1926]
    starts = torch.tensor([0, *lengths], device=device).cumsum(0).int()
    q, k, v = (torch.randn(sum(lengths), heads, dim, dtype=bf16, device=device) for _ in range(3))
    for causal in (False, True):
        flops = 4 * heads * dim * sum(n * n for n in lengths) // (2 if causal else 1)
        yield Case(f"attention ragged {sum(lengths)}x{heads}x{dim}{' causal' if causal else ''} bf16",
                   lambda c=causal: fused.attention(q, k, v, causal=c, q_starts=starts, max_q=max(lengths), max_k=max(lengths)),
                   {"flash": lambda c=causal: torch.ops.aten._flash_attention_forward(q, k, v, starts, starts, max(lengths), max(lengths), 0.0, c, False)[0]}, flops=flops)


def _pages(batches, length, page, device):
    """(number of pages, table, lengths) of sequences whose pages lie anywhere."""
    count = batches * length // page
    table = torch.randperm(count, device=device).int().view(batches, length // page)
    return count, table, torch.full((batches, ), length, dtype=torch.int32, device=device)


def _gathered(cache, table):
    """(sequence, heads, tokens, dim)."""
    return cache[table.long()].flatten(1, 2).transpose(1, 2)


def _paged(device):
    heads, key_heads, dim = 32, 8, 128
    for batches, length in ((1, 8192), (1, 131072), (8, 8192), (64, 4096), (256, 1024)):
        for page in (16, 64):
            count, table, lengths = _pages(batches, length, page, device)
            keys, values = (torch.randn(count, page, key_heads, dim, dtype=bf16, device=device) for _ in range(2))
            q = torch.randn(batches, heads, dim, dtype=bf16, device=device)
            name, moved = f"{batches}x({heads}, {key_heads})x{length}x{dim} pages of {page}", 2 * keys.numel() * 2
            dense = [_gathered(cache, table).contiguous() for cache in (keys, values)]
            yield Case(f"paged_attention decode {name} bf16", lambda q=q, c=(keys, values), t=table, n=lengths, m=length: fused.paged_attention(q, *c, t, n, max_length=m), {
                "SDPA, dense cache": lambda q=q, d=dense: F.scaled_dot_product_attention(q[:, :, None], *d, enable_gqa=True)[:, :, 0],
                "gather, SDPA": lambda q=q, c=(keys, values), t=table: F.scaled_dot_product_attention(q[:, :, None], *(_gathered(x, t) for x in c), enable_gqa=True)[:, :, 0]
            }, bytes=moved, definition=(lambda q=q, d=dense: _attended(q[:, :, None], *d)[:, :, 0]) if batches <= 8 and length == 8192 else None)
            small, one = [x.to(torch.float8_e4m3fn) for x in (keys, values)], torch.ones(1, device=device)
            yield Case(f"paged_attention decode {name} fp8 cache",
                       lambda q=q, c=small, t=table, n=lengths, m=length, one=one: fused.paged_attention(q, *c, t, n, max_length=m, k_scale=one, v_scale=one), {}, bytes=moved // 2)
    for batches, length, queries in ((1, 8192, 8192), (4, 4096, 4096), (2, 16384, 2048)):
        count, table, lengths = _pages(batches, length, 64, device)
        keys, values = (torch.randn(count, 64, key_heads, dim, dtype=bf16, device=device) for _ in range(2))
        q = torch.randn(batches * queries, heads, dim, dtype=bf16, device=device)
        dense = [_gathered(cache, table).repeat_interleave(heads // key_heads, 1).contiguous() for cache in (keys, values)]
        wide = q.view(batches, queries, heads, dim).transpose(1, 2)
        flops = 4 * batches * heads * dim * (queries * length - queries * (queries - 1) // 2)
        others = {"flash, dense cache": lambda q=wide, d=dense: torch.ops.aten._scaled_dot_product_flash_attention(q, *d, 0.0, True)[0]}
        yield Case(f"paged_attention prompt {batches}x({heads}, {key_heads})x{queries} of {length}x{dim} bf16",
                   lambda q=q, c=(keys, values), t=table, n=lengths, m=length: fused.paged_attention(q, *c, t, n, max_length=m), others, flops=flops)


def _latent_steps(q, cache, table, latent, scale):
    vectors = cache[table.long()].flatten(1, 2)
    return torch.softmax((q @ vectors.mT) * scale, -1, dtype=torch.float32).to(q.dtype) @ vectors[..., :latent]


def _latent(device):
    latent, rope, scale = 512, 64, 192**-0.5
    for batches, heads, length in ((1, 16, 8192), (32, 16, 8192), (1, 128, 8192), (32, 128, 4096), (128, 128, 4096)):
        count, table, lengths = _pages(batches, length, 64, device)
        cache, q = torch.randn(count, 64, latent + rope, dtype=bf16, device=device), torch.randn(batches, heads, latent + rope, dtype=bf16, device=device)
        given = (q, cache, table, lengths)
        yield Case(f"latent_attention_decode {batches}x{heads}x{length} bf16", lambda g=given, m=length: fused.latent_attention_decode(*g, scale, max_length=m),
                   {"torch": lambda g=given: _latent_steps(*g[:3], latent, scale)}, bytes=cache.numel() * 2, flops=2 * batches * heads * length * (2 * latent + rope),
                   definition=lambda g=given: _latent_wide(*g[:3], latent, scale))


def _latent_wide(q, cache, table, latent, scale):
    """In fp64, sequence by sequence."""
    found = []
    for own, pages in zip(q.double(), table):
        vectors = cache[pages.long()].flatten(0, 1).double()
        found.append(torch.softmax(own @ vectors.mT * scale, -1) @ vectors[:, :latent])
    return torch.stack(found)


def cases(device):
    for family in (_dense, _variants, _ragged, _paged, _latent):
        yield from family(device)
