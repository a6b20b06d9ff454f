"""Rotary embeddings and writes into a paged cache, with the heads of Llama-3 8B."""

import torch
import torch.nn.functional as F

from fused import Case
from nereid.ops import fused


def _turned(x, cos, sin):
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def _turned_pairs(x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)


def _rope(turned, q, k, cos, sin, positions):
    cos, sin = cos[positions].unsqueeze(-2), sin[positions].unsqueeze(-2)
    return turned(q, cos, sin), turned(k, cos, sin)


def _write(k, v, keys, values, slots):
    keys.view(-1, *k.shape[1:])[slots] = k
    values.view(-1, *v.shape[1:])[slots] = v


def _step(q, k, v, weight, cos, sin, positions, keys, values, slots):
    n = q.shape[-1]
    q, k = _rope(_turned, F.rms_norm(q, (n, ), weight, 1e-6), F.rms_norm(k, (n, ), weight, 1e-6), cos, sin, positions)
    _write(k, v, keys, values, slots)
    return q, k


def cases(device):
    dim, bf16 = 128, torch.bfloat16
    angles = torch.arange(16384, dtype=torch.float64, device=device)[:, None] * 10000.0**(-torch.arange(dim // 2, device=device) / (dim // 2))
    cos, sin = angles.cos().to(bf16), angles.sin().to(bf16)
    weight = torch.randn(dim, dtype=bf16, device=device)
    for tokens in (16, 2048, 16384):
        q, k, v = (torch.randn(tokens, heads, dim, dtype=bf16, device=device) for heads in (32, 8, 8))
        positions, slots = torch.arange(tokens, device=device), torch.randperm(tokens, device=device)
        keys, values = (torch.zeros(tokens // 16, 16, 8, dim, dtype=bf16, device=device) for _ in range(2))
        name, size = f"{tokens}x(32, 8, 8)x{dim} bf16", (q.numel() + k.numel()) * 2
        yield Case(f"rope {name}", lambda q=q, k=k, p=positions: fused.rope(q, k, cos, sin, p), {"torch": lambda q=q, k=k, p=positions: _rope(_turned, q, k, cos, sin, p)},
                   bytes=2 * size, definition=lambda q=q, k=k, p=positions: _rope(_turned, q.double(), k.double(), cos.double(), sin.double(), p))
        yield Case(f"rope interleaved {name}", lambda q=q, k=k, p=positions: fused.rope(q, k, cos, sin, p, True),
                   {"torch": lambda q=q, k=k, p=positions: _rope(_turned_pairs, q, k, cos, sin, p)}, bytes=2 * size,
                   definition=lambda q=q, k=k, p=positions: _rope(_turned_pairs, q.double(), k.double(), cos.double(), sin.double(), p))
        yield Case(f"qk_norm_rope_cache {name}", lambda given=(q, k, v, weight, weight, cos, sin, positions, keys, values, slots): fused.qk_norm_rope_cache(*given),
                   {"torch": lambda given=(q, k, v, weight, cos, sin, positions, keys, values, slots): _step(*given)}, bytes=2 * size + 3 * k.numel() * 2)
        yield Case(f"cache_write {name}", lambda given=(k, v, keys, values, slots): fused.cache_write(*given),
                   {"torch": lambda given=(k, v, keys, values, slots): _write(*given)}, bytes=4 * k.numel() * 2)
