"""Attention over paged caches (Kwon et al. 2023, "PagedAttention") that `cache_write` and `qk_norm_rope_cache` fill, and over caches of latent vectors (DeepSeek-V2, arXiv 2405.04434)."""

import math

import torch

import nereid.language as tl

from .._launch import launch
from .._strided import cdiv, programs_wanted, step_up
from ..attention import Rules, computation, head_width
from ..kernels import paged_attention as kernels
from . import _arguments
from ._declare import operator
from .attention import LARGEST_HEAD, accumulated, check_rules, check_slopes, check_starts, dense, integers, results, rules_of, scale_of
from .norms import power_of_2
from .rotary import EIGHTS, check_scale, scale_strides

_SIZES = {name: "i32" for name in ("rules", "queries", "tokens", "heads", "splits", "d_size", "dv_size", "size", "rope_size")}
#: The most elements of a latent vector, and of its part with rotary positions.
LARGEST_LATENT, LARGEST_ROPE = 512, 128


def row_tiles(device, dtype, rows, width):
    """(rows, keys, warps, stages) of a tile. rows: queries of a sequence times heads that share one of keys."""
    if device.type == "cpu":
        return step_up(rows, (4, 16, 64)), 64, 4, 1
    if dtype in (torch.float16, torch.bfloat16):
        # Decoding waits for memory: two blocks on a multiprocessor, each with two tiles of 64 keys under way.
        height = step_up(rows, (16, 32, 64, 128))
        return height, 64 if width <= 128 or height > 32 else 32, 4 if height <= 64 else 8, 3 if width <= 192 else 2
    return (16 if rows <= 16 else 32), 32, 4 if width <= 64 else 8, 2


def latent_tiles(device, dtype, rows, width):
    """As `row_tiles`, for latent vectors of `width` elements."""
    if device.type == "cpu":
        return step_up(rows, (4, 16)), 32, 4, 1
    if dtype in (torch.float16, torch.bfloat16):
        # The sums, rows x 512 in fp32, take half of the registers of eight warps at 64 rows.
        return (16, 64, 8, 2) if rows <= 16 else (64, 32, 8, 3)
    return 16, 16, 8, 2


def way_of(device, dtype, cache_dtype, rows, paired):
    """Constants of `paged_forward` that say how tiles of so many rows are multiplied. dtype: of the queries; paired: whether elements may be read in pairs.

    fp16 holds all 8-bit floats, and one instruction converts two of them, where bf16 takes a way by fp32: decoding with an fp8 cache on an H200 takes 172.5 us for 198.6 (64 sequences of 4096 keys),
    94.3 us for 99.2 (one of 131072). Tiles of 128 keys whose elements are read in pairs take 148.0 us for 163.7 and 85.4 us for 93.2 of 64 keys read one by one (docs/ops-attention.md). Rows of several heads of keys in one program (161.0 and 99.9 us) would multiply values of one head with weights of 0 of others, which a NaN makes NaN.
    """
    if device.type != "cpu" and cache_dtype in EIGHTS and dtype.itemsize == 2 and rows == 16:
        return {"OPERAND": tl.float16, "SHIFT": 14, "SPREAD": True, "PAIRED": paired}
    return {"SHIFT": 0, "SPREAD": False, "PAIRED": False}


def _splits(device, programs, keys, each):
    """Into how many parts the keys of a sequence are cut: so many that `each` programs run on each multiprocessor, with 256 keys or more in each part of the longest sequence."""
    wanted = programs_wanted(device) if device.type == "cpu" else programs_wanted(device) * each // 4
    return max(1, min(wanted // programs, cdiv(keys, 256), 64))


def _multiple(dtype, tensors, numbers):
    """A number of which the strides of rows and some other numbers are multiples: the elements of 16 bytes, or 1."""
    unit = 16 // min(x.element_size() for x in tensors)
    aligned = all(stride % unit == 0 for x in tensors for stride in x.stride()[:-1]) and all(number % unit == 0 for number in numbers)
    return unit if aligned else 1


def _check_pages(q, block_table, lengths, max_length):
    integers(block_table=block_table, lengths=lengths)
    if block_table.dim() != 2:
        raise ValueError(f"`block_table` has shape {tuple(block_table.shape)}: expected (sequences, pages)")
    _arguments.shape(lengths, block_table.shape[:1], "lengths")
    if max_length < 0:
        raise ValueError(f"`max_length` is {max_length}: expected the keys of the longest sequence, or 0 if they are not known")


def _check_cache(name, cache, q, shape, of, others=()):
    if cache.dtype not in (q.dtype, *others):
        raise TypeError(f"`{name}` has dtype {cache.dtype}: expected {' or '.join(str(dtype) for dtype in (q.dtype, *others))}")
    if cache.dim() != len(shape) or any(wanted is not None and size != wanted for size, wanted in zip(cache.shape, shape)):
        raise ValueError(f"`{name}` has shape {tuple(cache.shape)}: expected {of}")
    if cache.stride(-1) != 1:
        raise ValueError(f"`{name}` has strides {cache.stride()}: expected 1 in the last dimension")
    if not cache.shape[1]:
        raise ValueError(f"`{name}` has pages of 0 tokens: expected 1 or more")


def _check(q, key_cache, value_cache, block_table, lengths, q_starts, max_q, max_length, causal, window_left, window_right, soft_cap, scale, slopes, k_scale, v_scale):
    _arguments.floats(q=q)
    _arguments.one_device(q=q, key_cache=key_cache, value_cache=value_cache, block_table=block_table, lengths=lengths, q_starts=q_starts, slopes=slopes, k_scale=k_scale, v_scale=v_scale)
    if q.dim() != 3 or not 1 <= q.shape[-1] <= LARGEST_HEAD:
        raise ValueError(f"`q` has shape {tuple(q.shape)}: expected (tokens, heads, dim) with a dim of 1 to {LARGEST_HEAD}")
    dim = q.shape[-1]
    _check_cache("key_cache", key_cache, q, (None, None, None, dim), f"(pages, tokens of a page, heads, {dim})", EIGHTS)
    pages, page, heads, _ = key_cache.shape
    _check_cache("value_cache", value_cache, q, (pages, page, heads, None), f"({pages}, {page}, {heads}, dim), as `key_cache`", EIGHTS)
    _arguments.one_dtype(key_cache=key_cache, value_cache=value_cache)
    if not 1 <= value_cache.shape[-1] <= LARGEST_HEAD:
        raise ValueError(f"`value_cache` has heads of {value_cache.shape[-1]} elements: expected 1 to {LARGEST_HEAD}")
    if not heads or q.shape[1] % heads:
        raise ValueError(f"`key_cache` has {heads} heads, `q` {q.shape[1]}: expected a divisor of the heads of `q`")
    _check_pages(q, block_table, lengths, max_length)
    integers(q_starts=q_starts)
    sequences = block_table.shape[0]
    if q_starts is not None:
        check_starts("q_starts", q_starts)
        _arguments.shape(q_starts, (sequences + 1, ), "q_starts")
    elif max_q:
        raise ValueError("`max_q` is given without `q_starts`: expected `q_starts`, where the queries of sequences begin")
    elif q.shape[0] % max(sequences, 1) or q.shape[0] and not sequences:
        raise ValueError(f"`q` has {q.shape[0]} tokens for {sequences} sequences: expected a multiple, or `q_starts`")
    check_rules(window_left, window_right, "end", soft_cap)
    check_slopes(slopes, sequences, q.shape[1])
    check_scale("k_scale", k_scale, heads)
    check_scale("v_scale", v_scale, heads)


def _fake(q, key_cache, value_cache, block_table, lengths, q_starts=None, max_q=0, max_length=0, causal=True, window_left=-1, window_right=-1, soft_cap=0.0, scale=None, slopes=None, k_scale=None,
          v_scale=None):
    _check(q, key_cache, value_cache, block_table, lengths, q_starts, max_q, max_length, causal, window_left, window_right, soft_cap, scale, slopes, k_scale, v_scale)
    return q.new_empty((*q.shape[:2], value_cache.shape[-1])), q.new_empty((q.shape[1], q.shape[0]), dtype=accumulated(q.dtype))


def _workspace(out, splits, tokens, heads, size, ragged):
    """Tensors for the results and log-sum-exps of parts, or None twice. Tokens of no sequence have none in every part."""
    if splits == 1:
        return None, None
    dtype = accumulated(out.dtype)
    sums = (splits, tokens, heads)
    filled = torch.full(sums, -math.inf, dtype=dtype, device=out.device) if ragged else torch.empty(sums, dtype=dtype, device=out.device)
    return torch.empty((splits, tokens, heads, size), dtype=dtype, device=out.device), filled


def _combine(out, lse, parts, part_sums, acc):
    splits, tokens, heads, size = parts.shape
    block = power_of_2(size)
    launch(kernels.combine, tokens * heads, out.device, {
        "out": out, "logsumexp": lse, "parts": parts, "part_sums": part_sums, "tokens": tokens, "heads": heads, "splits": splits, "dv_size": size, "out_strides": out.stride()[:2],
        "lse_strides": lse.stride()
    }, {"ACC": acc, "BS": min(power_of_2(splits), max(1, 2048 // block)), "BV": block}, _SIZES, divisible=("dv_size", "out_strides"), num_warps=2 if block <= 128 else 4)


_SCHEMA = ("Tensor q, Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor lengths, Tensor? q_starts=None, int max_q=0, int max_length=0, bool causal=True, int window_left=-1, "
           "int window_right=-1, float soft_cap=0.0, float? scale=None, Tensor? slopes=None, Tensor? k_scale=None, Tensor? v_scale=None")


def _rule(q, key_cache, value_cache, block_table, lengths, q_starts=None, max_q=0, max_length=0, causal=True, window_left=-1, window_right=-1, soft_cap=0.0, scale=None, slopes=None, k_scale=None,
          v_scale=None):
    """Heads are sharded, those of the caches as well. Sequences are not: their pages are in one cache."""
    from torch.distributed.tensor import Replicate, Shard
    found = []
    for sharded in (False, True):
        of = (lambda dim, sharded=sharded: Shard(dim) if sharded else Replicate())
        scales = [None if scale is None else Replicate() if scale.ndim == 0 or scale.shape[0] == 1 else of(0) for scale in (k_scale, v_scale)]
        inputs = [of(1), of(2), of(2), Replicate(), Replicate(), None if q_starts is None else Replicate(), *[None] * 7, None if slopes is None else of(slopes.ndim - 1), *scales]
        found.append(([of(1), of(0)], inputs))
    return found


@operator(f"paged_attention({_SCHEMA}) -> (Tensor, Tensor)", fake=_fake, sharding=_rule)
def paged_attention_with_lse(q, key_cache, value_cache, block_table, lengths, q_starts, max_q, max_length, causal, window_left, window_right, soft_cap, scale, slopes, k_scale, v_scale):
    """`paged_attention`, with the log-sum-exp."""
    _check(q, key_cache, value_cache, block_table, lengths, q_starts, max_q, max_length, causal, window_left, window_right, soft_cap, scale, slopes, k_scale, v_scale)
    (tokens, heads, dim), (_, page, key_heads, value_dim) = q.shape, value_cache.shape
    sequences = block_table.shape[0]
    out, lse = results(q, (tokens, heads, value_dim), (heads, tokens), q_starts is not None)
    if not out.numel():
        return out, lse
    q = dense(q)
    queries = tokens // sequences if q_starts is None else min(max_q or tokens, tokens)
    capacity = block_table.shape[1] * page
    longest = min(max_length or capacity, capacity)
    rules = rules_of(causal and not (q_starts is None and queries == 1), window_left, window_right, "end", soft_cap, slopes, sequences, heads, tokens + capacity)
    width, value_width = head_width(q.device, dim), head_width(q.device, value_dim)
    rows, keys, warps, stages = row_tiles(q.device, q.dtype, queries * heads // key_heads, max(width, value_width))
    even, hint = dim == width and value_dim == value_width, _multiple(q.dtype, (q, key_cache, value_cache, out), (dim, value_dim))
    compute = computation(q, q.device) | way_of(q.device, q.dtype, key_cache.dtype, rows, even and hint > 1 and width == value_width == 128 and not soft_cap)
    # Smaller tiles of 8 bits leave room for a third program.
    each = 3 if key_cache.element_size() == 1 else 2
    if compute["PAIRED"]:
        keys, each = 128, 2
    programs = cdiv(queries * heads // key_heads, rows) * key_heads * sequences
    splits = _splits(q.device, programs, longest, each)
    parts, part_sums = _workspace(out, splits, tokens, heads, value_dim, q_starts is not None)
    launch(kernels.paged_forward, (programs, splits), q.device, {
        "out": None if splits > 1 else out, "logsumexp": None if splits > 1 else lse, "parts": parts, "part_sums": part_sums, "query": q, "key_cache": key_cache, "value_cache": value_cache,
        "table": block_table.contiguous(), "lengths": lengths.contiguous(), "q_starts": None if q_starts is None else q_starts.contiguous(), "k_scales": k_scale, "v_scales": v_scale,
        "scale": float(scale_of(scale, dim)), **rules.arguments(), "queries": queries, "tokens": tokens, "heads": heads, "splits": splits, "d_size": dim, "dv_size": value_dim,
        "out_strides": out.stride()[:2], "lse_strides": lse.stride(), "q_strides": q.stride()[:2], "key_strides": key_cache.stride()[:3], "value_strides": value_cache.stride()[:3],
        "table_stride": block_table.shape[1], "scale_strides": scale_strides(k_scale, v_scale)
    }, {
        "G": heads // key_heads, **compute, "D_EVEN": even, "HINT": hint, "PAGE": page, "SPLIT": splits > 1, "BM": rows, "BN": keys, "BD": width, "BV": value_width
    }, _SIZES, num_warps=warps, num_stages=stages)
    if splits > 1:
        _combine(out, lse, parts, part_sums, compute["ACC"])
    return out, lse


def paged_attention(q, key_cache, value_cache, block_table, lengths, *, q_starts=None, max_q=0, max_length=0, causal=True, window=(-1, -1), soft_cap=0.0, slopes=None, scale=None, k_scale=None,
                    v_scale=None, return_lse=False):
    """Attention of the last tokens of sequences over their keys and values in a paged cache; with `return_lse` (result, log-sum-exp). It decodes, and fills up prompts (also in parts).

    q: (tokens, heads, dim), of a float dtype: the queries of all sequences, one sequence after the other; as many for each, or, with `q_starts`, int32 or int64, (sequences + 1,), from
    q_starts[i] to q_starts[i + 1] for sequence i. The queries of a sequence are its last tokens: their own keys and values have to be in the cache.
    key_cache, value_cache: (pages, tokens of a page, heads of keys, dim), as `cache_write` writes them: of q's dtype, or of an 8-bit float dtype; the last dimension contiguous, other strides any.
    k_scale, v_scale: None, or fp32, of one element or (heads of keys,): what the elements of the caches are multiplied by.
    block_table: int32 or int64, (sequences, pages): the pages of a sequence in their order; lengths: int32 or int64, (sequences,): how many tokens a sequence has, its queries included. Neither is
    checked; places of the table behind the length are not read. max_length: the greatest length or more, 0: unknown; how many parts the keys are cut into follows from it. max_q: with `q_starts`, the most
    queries of a sequence or more (what is beyond is not computed); 0: unknown.

    causal (query i of n sees the keys up to length - n + i), window, soft_cap, slopes, scale, queries without keys, and tokens of no sequence: as for `attention` with align="end".
    The result (tokens, heads, dim of values) has q's dtype, the log-sum-exp (heads, tokens) is fp32 (fp64 for fp64). No gradient.

    Keys are cut into parts, whose results a second kernel combines, where there are too few sequences and heads to fill the device. Results do not depend on the order of programs.

    Raises TypeError for other dtypes, ValueError for shapes, strides or devices that do not fit.
    """
    out, lse = paged_attention_with_lse(q, key_cache, value_cache, block_table, lengths, q_starts, max_q, max_length, causal, *window, soft_cap, scale, slopes, k_scale, v_scale)
    return (out, lse) if return_lse else out


def _check_latent(q, cache, block_table, lengths, scale, rope_dim, max_length):
    _arguments.floats(q=q)
    _arguments.one_device(q=q, cache=cache, block_table=block_table, lengths=lengths)
    if not 0 <= rope_dim <= LARGEST_ROPE:
        raise ValueError(f"`rope_dim` is {rope_dim}: expected 0 to {LARGEST_ROPE}")
    if q.dim() != 3 or not 1 <= q.shape[-1] - rope_dim <= LARGEST_LATENT or not q.shape[1]:
        raise ValueError(f"`q` has shape {tuple(q.shape)}: expected (tokens, heads, dim) with a dim of {rope_dim + 1} to {rope_dim + LARGEST_LATENT}")
    _check_cache("cache", cache, q, (None, None, q.shape[-1]), f"(pages, tokens of a page, {q.shape[-1]})")
    _check_pages(q, block_table, lengths, max_length)
    sequences = block_table.shape[0]
    if q.shape[0] % max(sequences, 1) or q.shape[0] and not sequences:
        raise ValueError(f"`q` has {q.shape[0]} tokens for {sequences} sequences: expected a multiple")


def _fake_latent(q, cache, block_table, lengths, scale, rope_dim=64, max_length=0, causal=True):
    _check_latent(q, cache, block_table, lengths, scale, rope_dim, max_length)
    return q.new_empty((*q.shape[:2], q.shape[-1] - rope_dim)), q.new_empty((q.shape[1], q.shape[0]), dtype=accumulated(q.dtype))


def _latent_rule(q, cache, block_table, lengths, *others):
    """The heads of q are sharded; all of them read one cache."""
    from torch.distributed.tensor import Replicate, Shard
    return [([of_q, of_lse], [of_q, Replicate(), Replicate(), Replicate(), *[None] * 4]) for of_q, of_lse in ((Replicate(), Replicate()), (Shard(1), Shard(0)))]


@operator("latent_attention_decode(Tensor q, Tensor cache, Tensor block_table, Tensor lengths, float scale, int rope_dim=64, int max_length=0, bool causal=True) -> (Tensor, Tensor)",
          fake=_fake_latent, sharding=_latent_rule)
def latent_attention_with_lse(q, cache, block_table, lengths, scale, rope_dim, max_length, causal):
    """`latent_attention_decode`, with the log-sum-exp."""
    _check_latent(q, cache, block_table, lengths, scale, rope_dim, max_length)
    (tokens, heads, dim), page, sequences = q.shape, cache.shape[1], block_table.shape[0]
    size = dim - rope_dim
    out, lse = results(q, (tokens, heads, size), (heads, tokens), False)
    if not out.numel():
        return out, lse
    q = dense(q)
    queries = tokens // sequences
    capacity = block_table.shape[1] * page
    width, rope_width = head_width(q.device, size), head_width(q.device, rope_dim) if rope_dim else 0
    rows, keys, warps, stages = latent_tiles(q.device, q.dtype, queries * heads, width)
    programs = cdiv(queries * heads, rows) * sequences
    splits = _splits(q.device, programs, min(max_length or capacity, capacity), 3 if cache.element_size() == 1 else 2)
    parts, part_sums = _workspace(out, splits, tokens, heads, size, False)
    compute = computation(q, q.device)
    rules = Rules(right=0 if causal and queries > 1 else None).arguments()["rules"]
    launch(kernels.latent_forward, (programs, splits), q.device, {
        "out": None if splits > 1 else out, "logsumexp": None if splits > 1 else lse, "parts": parts, "part_sums": part_sums, "query": q, "cache": cache, "table": block_table.contiguous(),
        "lengths": lengths.contiguous(), "scale": float(scale), "rules": rules, "queries": queries, "tokens": tokens, "heads": heads, "splits": splits, "size": size, "rope_size": rope_dim,
        "out_strides": out.stride()[:2], "lse_strides": lse.stride(), "q_strides": q.stride()[:2], "strides": cache.stride()[:2], "table_stride": block_table.shape[1]
    }, {
        **compute, "EVEN": size == width, "ROPE_EVEN": rope_dim == rope_width, "HINT": _multiple(q.dtype, (q, cache, out), (size, rope_dim)), "PAGE": page, "SPLIT": splits > 1, "G": heads,
        "BM": rows, "BN": keys, "BD": width, "BR": rope_width
    }, _SIZES, num_warps=warps, num_stages=stages)
    if splits > 1:
        _combine(out, lse, parts, part_sums, compute["ACC"])
    return out, lse


def latent_attention_decode(q, cache, block_table, lengths, scale, *, rope_dim=64, max_length=0, causal=True, return_lse=False):
    """Decoding with multi-head latent attention (DeepSeek-V2, arXiv 2405.04434), the matrices of keys and values absorbed into those of queries and results: all heads share one cached vector of
    a token. softmax(scale * q @ c.T) @ c[:, :latent] for each head, with c the vectors of the sequence; with `return_lse` (result, log-sum-exp).

    q: (tokens, heads, latent + rope_dim), of a float dtype: one token of each sequence, or as many of each (the last ones of the sequence). cache: (pages, tokens of a page, latent + rope_dim), of q's
    dtype, the last dimension contiguous. The first elements of a vector are the latent (up to 512), the last `rope_dim` (up to 128) the part of the key with rotary positions. `cache_write` fills it as
    two caches with one head: cache[..., None, :latent] and cache[..., None, latent:]. scale: 1 / sqrt(dim of the heads before absorption), which q does not tell.
    block_table, lengths, max_length, causal: as for `paged_attention`. The result (tokens, heads, latent) has q's dtype, the log-sum-exp (heads, tokens) is fp32 (fp64 for fp64). No gradient.

    Raises TypeError for other dtypes, ValueError for shapes, strides or devices that do not fit.
    """
    out, lse = latent_attention_with_lse(q, cache, block_table, lengths, scale, rope_dim, max_length, causal)
    return (out, lse) if return_lse else out
