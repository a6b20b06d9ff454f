"""Rotary position embeddings (Su et al. 2021, "RoFormer"), also with RMSNorm of the heads (Dehghani et al. 2023) and writes into a paged cache (Kwon et al. 2023)."""

import torch

from .._launch import launch
from .._strided import cdiv
from ..kernels import rotary as kernels
from . import _arguments
from ._declare import operator
from .norms import compute_dtype, like, power_of_2

#: 8-bit floats that caches may have.
EIGHTS = (torch.float8_e4m3fn, torch.float8_e5m2)
_SIZES = {"q_heads": "i32", "k_heads": "i32", "heads": "i32", "dim": "i32", "half": "i32", "value_dim": "i32"}
_STRIDES = ("dim", "value_dim", "half", "q_out_strides", "k_out_strides", "q_strides", "k_strides", "v_strides", "key_strides", "value_strides", "cos_stride", "sin_stride")


def _dense(x):
    return None if x is None else x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _head_dim(token_dim):
    return -2 if token_dim == -3 else -3


def _strides(x, token_dim):
    """(batch, token, head)."""
    return x.stride(0) if x.dim() == 4 else 0, x.stride(token_dim), x.stride(_head_dim(token_dim))


def _check_tables(q, cos, sin, positions, tokens, batches):
    _arguments.floats(cos=cos, sin=sin)
    _arguments.one_dtype(cos=cos, sin=sin)
    if cos.dim() != 2 or 2 * cos.shape[1] > q.shape[-1]:
        raise ValueError(f"`cos` has shape {tuple(cos.shape)}: expected (positions, half of the rotated elements), at most {q.shape[-1] // 2} columns")
    _arguments.shape(sin, cos.shape, "sin")
    if positions is None:
        if cos.shape[0] < tokens:
            raise ValueError(f"`cos` has {cos.shape[0]} rows: expected at least {tokens}, one for each token, without `positions`")
    else:
        _integers(positions, "positions")
        if tuple(positions.shape) not in ((tokens, ), (batches, tokens)):
            raise ValueError(f"`positions` has shape {tuple(positions.shape)}: expected ({tokens},) or ({batches}, {tokens})")


def _integers(x, name):
    if x.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"`{name}` has dtype {x.dtype}: expected int32 or int64")


def _check(q, k, cos, sin, positions, token_dim):
    _arguments.floats(q=q, k=k)
    _arguments.one_dtype(q=q, k=k)
    _arguments.one_device(q=q, k=k, cos=cos, sin=sin, positions=positions)
    if token_dim not in (-2, -3):
        raise ValueError(f"`token_dim` is {token_dim}: expected -3 (heads beside the elements of a head) or -2 (tokens beside them)")
    if q.dim() not in (3, 4):
        raise ValueError(f"`q` has {q.dim()} dimensions: expected 3 or 4")
    wanted = list(q.shape)
    wanted[_head_dim(token_dim)] = k.shape[_head_dim(token_dim)] if k.dim() == q.dim() else 1
    _arguments.shape(k, wanted, "k")
    _check_tables(q, cos, sin, positions, q.shape[token_dim], q.shape[0] if q.dim() == 4 else 1)


def _run(q, k, cos, sin, positions, interleaved, token_dim, inverse=False, norm=False, q_weight=None, k_weight=None, v=None, key_cache=None, value_cache=None, slots=None, eps=0.0,
         offset=0.0):
    q_out, k_out = like(q), like(k)
    batches, tokens, dim, half = q.shape[0] if q.dim() == 4 else 1, q.shape[token_dim], q.shape[-1], cos.shape[1]
    q_heads, k_heads = q.shape[_head_dim(token_dim)], k.shape[_head_dim(token_dim)]
    value_dim = 0 if v is None else v.shape[-1]
    if not batches * tokens * (q_heads + k_heads) * (dim + value_dim):
        return q_out, k_out
    q, k, v, cos, sin = map(_dense, (q, k, v, cos, sin))
    block = max(1, power_of_2(half))
    rest = power_of_2(dim - 2 * half) if dim > 2 * half else 0
    heads = max(1, min(16 if dim <= 128 else 8, power_of_2(max(q_heads, k_heads))))
    # Elements of a thread: 16, a read of 16 bytes from each half of a head
    warps = max(1, min(8, heads * (2 * block + rest) // 512))
    launch(kernels.rotate, (batches * tokens, cdiv(q_heads, heads) + cdiv(k_heads, heads)), q.device, {
        "q_out": q_out, "k_out": k_out, "q": q, "k": k, "v": v, "q_weight": None if q_weight is None else q_weight.contiguous(),
        "k_weight": None if k_weight is None else k_weight.contiguous(), "cos": cos, "sin": sin, "positions": positions, "key_cache": key_cache, "value_cache": value_cache,
        "slots": None if slots is None else slots.contiguous(), "tokens": tokens, "q_heads": q_heads, "k_heads": k_heads, "dim": dim, "half": half, "value_dim": value_dim,
        "block_size": 1 if key_cache is None else key_cache.shape[1], "q_out_strides": _strides(q_out, token_dim), "k_out_strides": _strides(k_out, token_dim),
        "q_strides": _strides(q, token_dim), "k_strides": _strides(k, token_dim), "v_strides": (0, 0, 0) if v is None else _strides(v, token_dim),
        "cos_stride": cos.stride(0), "sin_stride": sin.stride(0), "position_strides": (0, 0) if positions is None else (0, *positions.stride())[-2:],
        "key_strides": (0, 0, 0) if key_cache is None else key_cache.stride()[:3], "value_strides": (0, 0, 0) if value_cache is None else value_cache.stride()[:3],
        "eps": float(eps), "offset": float(offset)
    }, {
        "NORM": norm, "INVERSE": inverse, "INTERLEAVED": interleaved, "COMPUTE": compute_dtype(q.dtype), "BH": heads, "BR": block, "REST": rest, "BV": power_of_2(value_dim)
    }, _SIZES, divisible=_STRIDES, num_warps=warps)
    return q_out, k_out


def _fake(q, k, cos, sin, positions=None, interleaved=False, token_dim=-3):
    _check(q, k, cos, sin, positions, token_dim)
    return q.new_empty(q.shape), k.new_empty(k.shape)


def _save(ctx, inputs, output):
    _, _, cos, sin, positions, ctx.interleaved, ctx.token_dim = inputs
    ctx.save_for_backward(cos, sin, positions)


def _backward(ctx, q_grad, k_grad):
    return (*rope_backward(q_grad, k_grad, *ctx.saved_tensors, ctx.interleaved, ctx.token_dim), None, None, None, None, None)


def _rule(q, k, cos, sin, positions=None, interleaved=False, token_dim=-3):
    """Heads are sharded; so are the batches, and the tokens where their positions are given."""
    from torch.distributed.tensor import Replicate, Shard

    def along(d, of_positions=None):
        placement = Replicate() if d is None else Shard(d)
        return [placement, placement], [placement, placement, Replicate(), Replicate(), None if positions is None else of_positions or Replicate(), None, None]

    found = [along(None), along(q.ndim + _head_dim(token_dim))]
    if q.ndim == 4:
        found.append(along(0, Shard(0) if positions is not None and positions.ndim == 2 else None))
    if positions is not None:
        found.append(along(q.ndim + token_dim, Shard(positions.ndim - 1)))
    return found


_ROPE = "Tensor cos, Tensor sin, Tensor? positions=None, bool interleaved=False, int token_dim=-3) -> (Tensor, Tensor)"


@operator(f"rope_backward(Tensor q_grad, Tensor k_grad, {_ROPE}", fake=_fake, sharding=_rule)
def rope_backward(q_grad, k_grad, cos, sin, positions, interleaved, token_dim):
    """The gradients of q and k: rotations by the negative angles."""
    _check(q_grad, k_grad, cos, sin, positions, token_dim)
    return _run(q_grad, k_grad, cos, sin, positions, interleaved, token_dim, inverse=True)


@operator(f"rope(Tensor q, Tensor k, {_ROPE}", fake=_fake, backward=_backward, save=_save, sharding=_rule)
def rope(q, k, cos, sin, positions, interleaved, token_dim):
    """q and k, of each head the first elements rotated by angles that grow with the position: (q, k), contiguous.

    q: (tokens, heads, dim), (batch, tokens, heads, dim), or, with token_dim=-2, (batch, heads, tokens, dim) or (heads, tokens, dim); of a float dtype, any strides. k: as q,
    with any number of heads. cos, sin: (positions, r) with 2 * r <= dim: the cosines and sines of the r angles; elements from 2 * r on stay. positions: int32 or int64,
    (tokens,) or (batch, tokens), within the rows of `cos`, which is not checked; None: tokens are numbered from 0. interleaved: the elements 2 * i and 2 * i + 1 are a pair (GPT-J),
    otherwise i and i + r (GPT-NeoX, Llama). Gradients: of q and k.

    Raises TypeError for other dtypes, ValueError for shapes, devices or dimensions that do not fit.
    """
    _check(q, k, cos, sin, positions, token_dim)
    return _run(q, k, cos, sin, positions, interleaved, token_dim)


def _check_cache(k, v, key_cache, value_cache, slots, eights=()):
    """eights: other dtypes that the caches may have."""
    _arguments.floats(k=k, v=v)
    if key_cache.dtype in eights:
        _arguments.one_dtype(k=k, v=v)
        _arguments.one_dtype(key_cache=key_cache, value_cache=value_cache)
    else:
        _arguments.one_dtype(k=k, v=v, key_cache=key_cache, value_cache=value_cache)
    _arguments.one_device(k=k, v=v, key_cache=key_cache, value_cache=value_cache, slots=slots)
    if k.dim() != 3:
        raise ValueError(f"`k` has {k.dim()} dimensions: expected (tokens, heads, dim)")
    if v.dim() != 3 or v.shape[:2] != k.shape[:2]:
        raise ValueError(f"`v` has shape {tuple(v.shape)}: expected ({k.shape[0]}, {k.shape[1]}, dim)")
    for name, cache, x in (("key_cache", key_cache, k), ("value_cache", value_cache, v)):
        if cache.dim() != 4 or cache.shape[2:] != x.shape[1:] or cache.shape[:2] != key_cache.shape[:2]:
            raise ValueError(f"`{name}` has shape {tuple(cache.shape)}: expected (blocks, block size, {x.shape[1]}, {x.shape[2]}), the first two as of `key_cache`")
        if cache.stride(-1) != 1:
            raise ValueError(f"`{name}` has strides {cache.stride()}: expected 1 in the last dimension")
    _integers(slots, "slots")
    _arguments.shape(slots, k.shape[:1], "slots")


def check_scale(name, scale, heads):
    """Raises unless this is None, or a scale of the elements of a cache."""
    if scale is None:
        return
    if scale.dtype != torch.float32:
        raise TypeError(f"`{name}` has dtype {scale.dtype}: expected float32")
    if scale.numel() != 1 and tuple(scale.shape) != (heads, ):
        raise ValueError(f"`{name}` has shape {tuple(scale.shape)}: expected one element or ({heads},)")


def scale_strides(k_scale, v_scale):
    return tuple(0 if scale is None or scale.numel() == 1 else scale.stride(0) for scale in (k_scale, v_scale))


def _check_write(k, v, key_cache, value_cache, slots, k_scale, v_scale):
    _check_cache(k, v, key_cache, value_cache, slots, EIGHTS)
    _arguments.one_device(k=k, k_scale=k_scale, v_scale=v_scale)
    check_scale("k_scale", k_scale, k.shape[1])
    check_scale("v_scale", v_scale, k.shape[1])
    if key_cache.dtype not in EIGHTS and (k_scale is not None or v_scale is not None):
        raise ValueError(f"`k_scale` or `v_scale` is given, and `key_cache` has dtype {key_cache.dtype}: expected float8_e4m3fn, float8_e5m2, or no scales")


def _fake_write(k, v, key_cache, value_cache, slots, k_scale=None, v_scale=None):
    _check_write(k, v, key_cache, value_cache, slots, k_scale, v_scale)


@operator("cache_write(Tensor k, Tensor v, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor slots, Tensor? k_scale=None, Tensor? v_scale=None) -> ()", fake=_fake_write)
def cache_write(k, v, key_cache, value_cache, slots, k_scale, v_scale):
    """Writes the keys and values of each token to its slot of a paged cache.

    k: (tokens, heads, dim), v: (tokens, heads, value dim), any strides. key_cache, value_cache: (blocks, block size, heads, dim) of the same dtype, or both of one 8-bit float dtype; the last dimension
    contiguous. slots: int32 or int64, (tokens,): block * block size + place in the block; different ones, within the cache, which is not checked; negative: the token is not written.
    k_scale, v_scale: with 8-bit caches fp32, of one element or (heads,): elements are divided by them, cut off at the dtype's largest number and rounded; None: 1.

    Raises TypeError for other dtypes, ValueError for shapes, strides or devices that do not fit, and scales without 8-bit caches.
    """
    _check_write(k, v, key_cache, value_cache, slots, k_scale, v_scale)
    (tokens, heads, dim), value_dim = k.shape, v.shape[-1]
    if not tokens * heads * (dim + value_dim):
        return
    k, v = _dense(k), _dense(v)
    block = max(1, min(16, power_of_2(heads)))
    narrow = key_cache.dtype in EIGHTS
    launch(kernels.write_cache, (tokens, cdiv(heads, block)), k.device, {
        "key_cache": key_cache, "value_cache": value_cache, "k": k, "v": v, "slots": slots.contiguous(), "k_scales": k_scale, "v_scales": v_scale, "heads": heads, "dim": dim, "value_dim": value_dim,
        "block_size": key_cache.shape[1], "key_strides": key_cache.stride()[:3], "value_strides": value_cache.stride()[:3], "k_strides": k.stride()[:2], "v_strides": v.stride()[:2],
        "scale_strides": scale_strides(k_scale, v_scale)
    }, {
        "COMPUTE": compute_dtype(k.dtype), "LIMIT": torch.finfo(key_cache.dtype).max if narrow else None, "BH": block, "BD": power_of_2(dim), "BV": power_of_2(value_dim)
    }, _SIZES, divisible=("dim", "value_dim", "key_strides", "value_strides", "k_strides", "v_strides"), num_warps=max(1, min(8, block * power_of_2(dim) // 256)))


def _check_step(q, k, v, q_weight, k_weight, cos, sin, positions, key_cache, value_cache, slots):
    _check_cache(k, v, key_cache, value_cache, slots)
    _check(q, k, cos, sin, positions, -3)
    _arguments.floats(q_weight=q_weight, k_weight=k_weight)
    _arguments.one_device(q=q, q_weight=q_weight, k_weight=k_weight)
    _arguments.shape(q_weight, q.shape[-1:], "q_weight")
    _arguments.shape(k_weight, k.shape[-1:], "k_weight")


def _fake_step(q, k, v, q_weight, k_weight, cos, sin, positions, key_cache, value_cache, slots, eps=1e-6, weight_offset=0.0, interleaved=False, norm=True):
    _check_step(q, k, v, q_weight, k_weight, cos, sin, positions, key_cache, value_cache, slots)
    return q.new_empty(q.shape), k.new_empty(k.shape)


@operator("qk_norm_rope_cache(Tensor q, Tensor k, Tensor v, Tensor? q_weight, Tensor? k_weight, Tensor cos, Tensor sin, Tensor? positions, Tensor(a!) key_cache, "
          "Tensor(b!) value_cache, Tensor slots, float eps=1e-6, float weight_offset=0.0, bool interleaved=False, bool norm=True) -> (Tensor, Tensor)", fake=_fake_step)
def qk_norm_rope_cache(q, k, v, q_weight, k_weight, cos, sin, positions, key_cache, value_cache, slots, eps, weight_offset, interleaved, norm):
    """(q, k) of a step of attention: `rms_norm` of each head, then `rope`; k and v are also written to a paged cache, as by `cache_write`.

    q: (tokens, heads, dim). q_weight, k_weight: (dim,) or None, the weights of the normalisation; norm: False: without it. k, v, key_cache, value_cache, slots: as for
    `cache_write`; cos, sin, positions, interleaved: as for `rope`; eps, weight_offset: as for `rms_norm`. Values are rounded once. No gradient.
    """
    _check_step(q, k, v, q_weight, k_weight, cos, sin, positions, key_cache, value_cache, slots)
    return _run(q, k, cos, sin, positions, interleaved, -3, False, norm, q_weight, k_weight, v, key_cache, value_cache, slots, eps, weight_offset)
