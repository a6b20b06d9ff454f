"""Attention over paged caches, which `cache_write` fills, and over caches of latent vectors."""

import math

import pytest
import torch
from fused_checks import compare, random
from test_attention_fused import definition, starts_of

from nereid.ops import fused

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


class Pages:
    """Sequences in caches whose other places are NaN. lengths: of the sequences; their pages are in an order of no kind, and the table names a page that does not exist behind them."""

    def __init__(self, lengths, page, device, seed=0):
        needed = [-(-length // page) for length in lengths]
        self.page, self.count, self.device = page, sum(needed) + 2, device
        order = torch.randperm(self.count, generator=torch.Generator().manual_seed(seed)).tolist()
        self.table = torch.full((len(lengths), max(max(needed), 1)), 10**8, dtype=torch.int32)
        for i, pages in enumerate(needed):
            self.table[i, :pages] = torch.tensor([order.pop() for _ in range(pages)], dtype=torch.int32)
        self.slots = torch.tensor([self.table[i, j // page].item() * page + j % page for i, length in enumerate(lengths) for j in range(length)], dtype=torch.int64, device=device)
        self.table, self.lengths = self.table.to(device), torch.tensor(lengths, dtype=torch.int32, device=device)

    def cache(self, heads, dim, dtype):
        return torch.full((self.count, self.page, heads, dim), math.nan, device=self.device).to(dtype)


def check_paged(lengths, queries, target, heads=4, key_heads=2, dim=32, value_dim=32, page=16, dtype=torch.float32, ragged=False, units=None, **rules):
    pages = Pages(lengths, page, target)
    keys, values = pages.cache(key_heads, dim, dtype), pages.cache(key_heads, value_dim, dtype)
    k, v = random(sum(lengths), key_heads, dim, dtype=dtype, device=target, seed=1), random(sum(lengths), key_heads, value_dim, dtype=dtype, device=target, seed=2)
    fused.cache_write(k, v, keys, values, pages.slots)
    q = random(sum(queries) + (3 if ragged else 0), heads, dim, dtype=dtype, device=target)
    more = {"q_starts": starts_of(queries, target), "max_q": max(queries)} if ragged else {}
    slopes = rules.get("slopes")
    wanted, first, first_key = [], 0, 0
    for i, (length, count) in enumerate(zip(lengths, queries)):
        own = {**rules, "slopes": slopes if slopes is None or slopes.dim() == 1 else slopes[i], "causal": rules.get("causal", True)}
        wanted.append(definition(*(x.double() for x in (q[first:first + count], k[first_key:first_key + length], v[first_key:first_key + length])), **own))
        first, first_key = first + count, first_key + length
    out, lse = torch.cat([x for x, _ in wanted]), torch.cat([x for _, x in wanted], 1)
    for longest in (0, max(lengths)):
        got = fused.paged_attention(q, keys, values, pages.table, pages.lengths, max_length=longest, return_lse=True, **more, **rules)
        assert got[0][first:].eq(0).all() and got[1][:, first:].eq(-math.inf).all()
        # On GPUs products of fp32 are three products of tf32.
        compare((got[0][:first], got[1][:, :first]), (out, lse), units=units or (8 if target == "cpu" else 16))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("page", [7, 16, 64, 128])
def test_decoding(page, dtype, target):
    """Sequences of one key, of none, and with keys in several parts."""
    check_paged([5, 0, 700, 1], [1] * 4, target, page=page, dtype=dtype)


@pytest.mark.parametrize("heads,key_heads,dim,value_dim", [(8, 1, 32, 64), (3, 3, 24, 40), (40, 2, 64, 64), (2, 1, 192, 128), (4, 2, 256, 256), (2, 2, 1, 3)])
def test_sizes(heads, key_heads, dim, value_dim, target):
    for dtype in (torch.float32, torch.bfloat16):
        check_paged([70, 300], [1, 1], target, heads, key_heads, dim, value_dim, dtype=dtype)


def test_several_queries(target):
    check_paged([70, 900], [3, 3], target)
    check_paged([2, 40], [5, 5], target)  # more queries than keys: the first ones see none


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_prompts(dtype, target):
    """Prompts, parts of prompts and decoding in one call."""
    check_paged([50, 130, 9, 4, 33], [50, 3, 1, 0, 20], target, ragged=True, dtype=dtype)
    check_paged([900], [130], target, 2, 1, ragged=True, dtype=dtype, page=64)


@pytest.mark.parametrize("ragged", [False, True])
def test_rules(ragged, target):
    slopes = torch.tensor([0.1, 0.5, 0.0, 0.3], device=target)
    for rules in ({"window": (30, -1)}, {"window": (600, 0)}, {"soft_cap": 2.0}, {"causal": False}, {"causal": False, "window": (20, 20)}, {"slopes": slopes}, {"scale": 0.7},
                  {"slopes": random(2, 4, device=target).abs()}):
        check_paged([70, 900], [2, 2], target, ragged=ragged, units=16, **rules)


@pytest.mark.parametrize("eight", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_caches_of_8_bits(dtype, eight, target):
    pages = Pages([40, 700], 16, target)
    k, v = random(740, 2, 32, device=target, seed=1).to(eight), random(740, 2, 32, device=target, seed=2).to(eight)
    keys, values = pages.cache(2, 32, eight), pages.cache(2, 32, eight)
    fused.cache_write(k.to(dtype), v.to(dtype), keys, values, pages.slots)
    q = random(2, 4, 32, dtype=dtype, device=target)
    for k_scale, v_scale in ((None, None), (torch.tensor(0.5, device=target), torch.tensor([2.0], device=target)), (torch.tensor([0.5, 1.5], device=target), torch.tensor([3.0, 0.1], device=target))):
        scaled = [x.double() * (1 if scale is None else scale.double().view(-1, 1)) for x, scale in ((k, k_scale), (v, v_scale))]
        want = [definition(q[i:i + 1].double(), *(x[part] for x in scaled))[0] for i, part in enumerate((slice(0, 40), slice(40, 740)))]
        compare(fused.paged_attention(q, keys, values, pages.table, pages.lengths, k_scale=k_scale, v_scale=v_scale), torch.cat(want), units=8)


def test_strides(target):
    """Keys and values in one tensor, heads before the tokens of a page, parts of tables and of queries."""
    pages = Pages([40, 300], 16, target)
    k, v = (random(340, 2, 32, device=target, seed=i) for i in (1, 2))
    both = torch.full((pages.count, 2, 2, 16, 32), math.nan, device=target)
    keys, values = both[:, 0].transpose(1, 2), both[:, 1].transpose(1, 2)
    fused.cache_write(k, v, keys, values, pages.slots)
    wide = random(2, 6, 40, device=target)
    q = wide[:, 1:5, 3:35]
    table, lengths = torch.cat([pages.table, pages.table], 1)[:, :pages.table.shape[1]], pages.lengths.repeat_interleave(2)[::2].long()
    want = torch.cat([definition(q[i:i + 1].double(), k[part].double(), v[part].double())[0] for i, part in enumerate((slice(0, 40), slice(40, 340)))])
    for queries in (q, q.contiguous(), q.transpose(1, 2).contiguous().transpose(1, 2)):
        compare(fused.paged_attention(queries, keys, values, table, lengths), want, units=8)


def test_after_a_step(target):
    """What `qk_norm_rope_cache` writes is read: one token after the other gives what all at once do."""
    from test_rotary import tables
    tokens, heads, key_heads, dim = 20, 4, 2, 16
    cos, sin = tables(tokens, dim // 2, torch.float32, target)
    q, k, v = (random(tokens, n, dim, device=target, seed=i) for i, n in enumerate((heads, key_heads, key_heads)))
    pages = Pages([tokens], 8, target)
    keys, values = pages.cache(key_heads, dim, torch.float32), pages.cache(key_heads, dim, torch.float32)
    found = []
    for i in range(tokens):
        position = torch.tensor([i], device=target)
        turned, _ = fused.qk_norm_rope_cache(q[i:i + 1], k[i:i + 1], v[i:i + 1], None, None, cos, sin, position, keys, values, pages.slots[i:i + 1])
        found.append(fused.paged_attention(turned, keys, values, pages.table, torch.tensor([i + 1], device=target)))
    norm = [x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k)]
    compare(torch.cat(found), fused.attention(*fused.rope(*norm, cos, sin), v, causal=True), units=32)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("lengths,queries,heads,latent,rope,page", [([5, 700], 1, 16, 64, 16, 16), ([70, 9, 0], 2, 5, 40, 0, 64), ([600], 1, 8, 512, 64, 64), ([2, 40], 3, 20, 24, 8, 7)])
def test_latent_decoding(lengths, queries, heads, latent, rope, page, dtype, target):
    pages = Pages(lengths, page, target)
    cache = pages.cache(1, latent + rope, dtype)
    vectors = random(sum(lengths), 1, latent + rope, dtype=dtype, device=target, seed=1)
    fused.cache_write(vectors[..., :latent], vectors[..., latent:], cache[..., :latent], cache[..., latent:], pages.slots)
    q = random(len(lengths) * queries, heads, latent + rope, dtype=dtype, device=target)
    wanted, first = [], 0
    for i, length in enumerate(lengths):
        own = vectors[first:first + length].double()
        wanted.append(definition(q[i * queries:(i + 1) * queries].double(), own, own[..., :latent], causal=True, scale=0.1))
        first += length
    got = fused.latent_attention_decode(q, cache[:, :, 0], pages.table, pages.lengths, 0.1, rope_dim=rope, return_lse=True)
    compare(got, (torch.cat([x for x, _ in wanted]), torch.cat([x for _, x in wanted], 1)), units=64 if latent == 512 and dtype == torch.float32 else 16)


def test_empty(target):
    pages = Pages([5, 7], 4, target)
    keys, values = pages.cache(2, 8, torch.float32), pages.cache(2, 8, torch.float32)
    assert fused.paged_attention(random(0, 4, 8, device=target), keys, values, pages.table, pages.lengths).shape == (0, 4, 8)
    assert fused.paged_attention(random(0, 4, 8, device=target), keys, values, pages.table[:0], pages.lengths[:0]).shape == (0, 4, 8)
    nothing = fused.paged_attention(random(2, 4, 8, device=target), keys, values, pages.table[:, :0], pages.lengths * 0)
    assert nothing.shape == (2, 4, 8) and nothing.eq(0).all()


def test_errors(target):
    pages = Pages([5, 7], 4, target)
    keys, values, q = pages.cache(2, 8, torch.float32), pages.cache(2, 8, torch.float32), random(2, 4, 8, device=target)

    def call(q=q, keys=keys, values=values, table=pages.table, lengths=pages.lengths, **more):
        return fused.paged_attention(q, keys, values, table, lengths, **more)

    def latent(q=q, cache=keys[:, :, 0], lengths=pages.lengths, rope_dim=2, **more):
        return fused.latent_attention_decode(q, cache, pages.table, lengths, 0.1, rope_dim=rope_dim, **more)

    for error, text, wrong in (
        (TypeError, "`key_cache` has dtype torch.float16: expected torch.float32 or torch.float8_e4m3fn", lambda: call(keys=keys.half())),
        (TypeError, "`value_cache` has dtype torch.float8_e5m2, `key_cache` torch.float32", lambda: call(values=values.to(torch.float8_e5m2))),
        (ValueError, r"`q` has shape \(1, 2, 4, 8\): expected \(tokens, heads, dim\)", lambda: call(q[None])),
        (ValueError, r"`key_cache` has shape \(\d+, 4, 2, 7\): expected \(pages, tokens of a page, heads, 8\)", lambda: call(keys=keys[..., 1:])),
        (ValueError, r"`value_cache` has shape \(\d+, 4, 1, 8\): expected \(\d+, 4, 2, dim\), as `key_cache`", lambda: call(values=values[:, :, :1])),
        (ValueError, "`key_cache` has strides", lambda: call(keys=keys.transpose(2, 3).contiguous().transpose(2, 3))),
        (ValueError, "`key_cache` has 2 heads, `q` 3: expected a divisor", lambda: call(q[:, :3])),
        (TypeError, "`lengths` has dtype torch.float32: expected int32 or int64", lambda: call(lengths=pages.lengths.float())),
        (ValueError, r"`lengths` has shape \(1,\): expected \(2,\)", lambda: call(lengths=pages.lengths[:1])),
        (ValueError, r"`block_table` has shape \(2,\): expected \(sequences, pages\)", lambda: call(table=pages.table[:, 0])),
        (ValueError, "`q` has 3 tokens for 2 sequences: expected a multiple, or `q_starts`", lambda: call(random(3, 4, 8, device=target))),
        (ValueError, r"`q_starts` has shape \(2,\): expected \(3,\)", lambda: call(q_starts=pages.lengths)),
        (ValueError, "`max_q` is given without `q_starts`", lambda: call(max_q=1)),
        (ValueError, "`max_length` is -1: expected the keys", lambda: call(max_length=-1)),
        (ValueError, "`window_right` is -3", lambda: call(window=(0, -3))),
        (TypeError, "`k_scale` has dtype torch.float64: expected float32", lambda: call(k_scale=torch.ones(1, dtype=torch.float64, device=target))),
        (ValueError, r"`v_scale` has shape \(3,\): expected one element or \(2,\)", lambda: call(v_scale=torch.ones(3, device=target))),
        (ValueError, r"`cache` has shape \(\d+, 4, 7\): expected \(pages, tokens of a page, 8\)", lambda: latent(cache=keys[:, :, 0, 1:])),
        (TypeError, "`cache` has dtype torch.float8_e5m2: expected torch.float32", lambda: latent(cache=keys[:, :, 0].to(torch.float8_e5m2))),
        (ValueError, "`rope_dim` is -1: expected 0 to 128", lambda: latent(rope_dim=-1)),
        (ValueError, r"`q` has shape \(2, 4, 8\): expected \(tokens, heads, dim\) with a dim of 9 to 520", lambda: latent(rope_dim=8)),
        (ValueError, "`q` has 3 tokens for 2 sequences: expected a multiple", lambda: latent(random(3, 4, 8, device=target))),
    ):
        with pytest.raises(error, match=text):
            wrong()
