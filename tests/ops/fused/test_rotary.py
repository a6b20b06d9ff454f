"""Rotary embeddings and writes into paged caches."""

import pytest
import torch
from fused_checks import check, compare, layouts, random
from test_norms_fused import rms

from nereid.ops import fused

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def rotated(x, cos, sin, positions, interleaved, token_dim):
    r = cos.shape[1]
    c, s = (table[:x.shape[token_dim]] if positions is None else table[positions.long()] for table in (cos, sin))
    if token_dim == -3:
        c, s = c.unsqueeze(-2), s.unsqueeze(-2)
    elif c.dim() == 3:
        c, s = c.unsqueeze(1), s.unsqueeze(1)
    if interleaved:
        a, b = x[..., 0:2 * r:2], x[..., 1:2 * r:2]
        turned = torch.stack([a * c - b * s, b * c + a * s], -1).flatten(-2)
    else:
        a, b = x[..., :r], x[..., r:2 * r]
        turned = torch.cat([a * c - b * s, b * c + a * s], -1)
    return torch.cat([turned, x[..., 2 * r:]], -1)


def rope(q, k, cos, sin, positions=None, interleaved=False, token_dim=-3):
    return tuple(rotated(x, cos, sin, positions, interleaved, token_dim) for x in (q, k))


def tables(positions, r, dtype, target):
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * 100.0**(-torch.arange(r, dtype=torch.float64) / max(r, 1))
    return angles.cos().to(dtype).to(target), angles.sin().to(dtype).to(target)


def check_rope(q, k, cos, sin, *others, units=4):
    """Tables have no gradient."""
    wide = cos.double(), sin.double()
    check(lambda q, k: fused.rope(q, k, cos, sin, *others), lambda q, k: rope(q, k, *wide, *others), [q, k], units=units)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rope(dtype, interleaved, target):
    cos, sin = tables(40, 8, dtype, target)
    q, k = random(7, 6, 16, dtype=dtype, device=target), random(7, 2, 16, dtype=dtype, device=target)
    check_rope(q, k, cos, sin, None, interleaved)
    check_rope(q, k, cos, sin, torch.tensor([3, 39, 0, 5, 5, 12, 7], device=target), interleaved)


@pytest.mark.parametrize("interleaved", [False, True])
def test_layouts_of_heads_and_tokens(interleaved, target):
    cos, sin = tables(20, 8, torch.float32, target)
    of_batch = torch.tensor([[3, 4, 5], [11, 0, 19]], device=target)
    for token_dim in (-3, -2):
        shapes = ((2, 3, 20, 24), (2, 3, 1, 24)) if token_dim == -3 else ((2, 20, 3, 24), (2, 1, 3, 24))
        q, k = (random(*shape, device=target) for shape in shapes)
        for positions in (None, of_batch[1], of_batch, of_batch.int()):
            check_rope(q, k, cos, sin, positions, interleaved, token_dim)
        check_rope(q[0], k[0], cos, sin, None, interleaved, token_dim)


@pytest.mark.parametrize("dim,r", [(20, 10), (10, 3), (130, 65), (16, 0), (3, 1)])
def test_sizes_of_heads(dim, r, target):
    cos, sin = tables(5, r, torch.float32, target)
    q, k = random(5, 3, dim, device=target), random(5, 17, dim, device=target)
    for interleaved in (False, True):
        check_rope(q, k, cos, sin, None, interleaved)


def test_strides(target):
    cos, sin = tables(5, 4, torch.float32, target)
    q, k = random(5, 3, 8, device=target), random(5, 2, 8, device=target)
    for _, first in layouts(q):
        for _, second in layouts(k):
            check_rope(first, second, cos, sin)
    check_rope(q, k, cos.t().contiguous().t(), sin, torch.tensor([0, 9, 1, 9, 2, 9, 3, 9, 4], device=target)[::2])


def test_empty(target):
    cos, sin = tables(5, 4, torch.float32, target)
    for q, k in (((0, 3, 8), (0, 2, 8)), ((5, 0, 8), (5, 2, 8)), ((5, 0, 8), (5, 0, 8))):
        check_rope(random(*q, device=target), random(*k, device=target), cos, sin)


def caches(heads, dim, value_dim, dtype, target):
    return random(4, 5, heads, dim, dtype=dtype, device=target, seed=8), random(4, 5, heads, value_dim, dtype=dtype, device=target, seed=9)


def filled(cache, x, slots):
    cache = cache.clone()
    for value, slot in zip(x, slots.tolist()):
        if slot >= 0:
            cache[slot // 5, slot % 5] = value.to(cache.dtype)
    return cache


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cache_write(dtype, target):
    k, v = random(6, 3, 24, dtype=dtype, device=target), random(6, 3, 8, dtype=dtype, device=target, seed=1)
    slots = torch.tensor([3, -1, 19, 0, -7, 11], device=target)
    for index in (slots, slots.int(), slots.repeat_interleave(2)[::2]):
        keys, values = caches(3, 24, 8, dtype, target)
        wanted = filled(keys, k, slots), filled(values, v, slots)
        assert fused.cache_write(k, v, keys, values, index) is None
        assert torch.equal(keys, wanted[0]) and torch.equal(values, wanted[1])


@pytest.mark.parametrize("eight", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_cache_write_of_8_bits(dtype, eight, target):
    """Elements beyond the largest number are cut off."""
    k, v = random(6, 3, 24, dtype=dtype, device=target, scale=300), random(6, 3, 8, dtype=dtype, device=target, seed=1, scale=0.01)
    k[0, 0, 0], k[1, 1, 1] = 1e30, -1e30
    slots = torch.tensor([3, -1, 19, 0, -7, 11], device=target)
    largest = torch.finfo(eight).max
    for k_scale, v_scale in ((None, None), (torch.tensor([0.5, 2.0, 3.0], device=target), torch.tensor(0.25, device=target)), (torch.tensor([[1.5]], device=target), None)):
        keys, values = (cache.to(eight) for cache in caches(3, 24, 8, torch.float32, target))
        wanted = []
        for cache, x, scale in ((keys, k, k_scale), (values, v, v_scale)):
            scaled = x.float() / (1 if scale is None else scale.view(-1, 1))
            wanted.append(filled(cache.view(torch.uint8), scaled.clamp(-largest, largest).to(eight).view(torch.uint8), slots))
        fused.cache_write(k, v, keys, values, slots, k_scale, v_scale)
        assert torch.equal(keys.view(torch.uint8), wanted[0]) and torch.equal(values.view(torch.uint8), wanted[1])


def test_cache_write_strides(target):
    slots = torch.tensor([3, -1, 19], device=target)
    for _, k in layouts(random(3, 2, 8, device=target)):
        both = torch.zeros(4, 2, 5, 2, 8, device=target)
        fused.cache_write(k, k, both[:, 0], both[:, 1], slots)
        wanted = filled(both[:, 0] * 0, k, slots)
        assert torch.equal(both[:, 0], wanted) and torch.equal(both[:, 1], wanted)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_qk_norm_rope_cache(dtype, interleaved, target):
    slots, positions = torch.tensor([3, -1, 19, 0], device=target), torch.tensor([7, 1, 2, 0], device=target)
    for r, norm, weights in ((12, True, True), (8, True, False), (12, False, False)):
        q, k, v = (random(4, heads, dim, dtype=dtype, device=target, scale=2) for heads, dim in ((6, 24), (2, 24), (2, 16)))
        q_weight, k_weight = ((random(24, dtype=dtype, device=target, seed=i) for i in (4, 5)) if weights else (None, None))
        cos, sin = tables(9, r, torch.float32, target)
        keys, values = caches(2, 24, 16, dtype, target)
        before = keys.clone(), values.clone()
        got = fused.qk_norm_rope_cache(q, k, v, q_weight, k_weight, cos, sin, positions, keys, values, slots, 1e-5, 1.0, interleaved, norm)
        normal = [rms(x.double(), None if weight is None else weight.double(), 1e-5, 1.0) if norm else x.double() for x, weight in ((q, q_weight), (k, k_weight))]
        compare(got, rope(*normal, cos.double(), sin.double(), positions, interleaved), units=4)
        assert torch.equal(keys, filled(before[0], got[1], slots)) and torch.equal(values, filled(before[1], v, slots))


def test_errors(target):
    cos, sin = tables(5, 4, torch.float32, target)
    q, k = random(5, 3, 8, device=target), random(5, 2, 8, device=target)
    with pytest.raises(ValueError, match=r"`k` has shape \(4, 2, 8\): expected \(5, 2, 8\)"):
        fused.rope(q, k[:4], cos, sin)
    with pytest.raises(ValueError, match="`cos` has 4 rows: expected at least 5"):
        fused.rope(q, k, cos[:4], sin[:4])
    with pytest.raises(ValueError, match=r"`cos` has shape \(5, 4\): expected \(positions, half"):
        fused.rope(q[..., :6], k[..., :6], cos, sin)
    with pytest.raises(TypeError, match="`positions` has dtype torch.float32: expected int32 or int64"):
        fused.rope(q, k, cos, sin, cos[:, 0])
    with pytest.raises(ValueError, match=r"`positions` has shape \(4,\): expected \(5,\) or \(1, 5\)"):
        fused.rope(q, k, cos, sin, torch.arange(4, device=target))
    with pytest.raises(ValueError, match="`token_dim` is 0: expected -3"):
        fused.rope(q, k, cos, sin, None, False, 0)
    keys, values = caches(2, 8, 8, torch.float32, target)
    with pytest.raises(ValueError, match=r"`value_cache` has shape \(4, 5, 2, 7\): expected \(blocks, block size, 2, 8\)"):
        fused.cache_write(k, k, keys, values[..., :7], torch.arange(5, device=target))
    with pytest.raises(ValueError, match=r"`slots` has shape \(4,\): expected \(5,\)"):
        fused.cache_write(k, k, keys, values, torch.arange(4, device=target))
    with pytest.raises(ValueError, match="`v_scale` is given, and `key_cache` has dtype torch.float32: expected float8"):
        fused.cache_write(k, k, keys, values, torch.arange(5, device=target), None, torch.ones(1, device=target))
    narrow = keys.to(torch.float8_e4m3fn), values.to(torch.float8_e4m3fn)
    with pytest.raises(ValueError, match=r"`k_scale` has shape \(3,\): expected one element or \(2,\)"):
        fused.cache_write(k, k, *narrow, torch.arange(5, device=target), torch.ones(3, device=target))
    with pytest.raises(TypeError, match="`value_cache` has dtype torch.float32, `key_cache` torch.float8_e4m3fn"):
        fused.cache_write(k, k, narrow[0], values, torch.arange(5, device=target))
    with pytest.raises(ValueError, match="`key_cache` has strides"):
        fused.cache_write(k, k, keys.transpose(2, 3).contiguous().transpose(2, 3), values, torch.arange(5, device=target))
