"""Rotary position embeddings, with RMSNorm of heads before them and with writes into a paged cache."""

import nereid
import nereid.language as tl

from ..functions.narrow import divide


@nereid.jit
def read_heads(pointer, place, mask, COMPUTE: tl.constexpr):
    return tl.load(pointer + place, mask=mask, other=0).to(COMPUTE)


@nereid.jit
def weighted(value, factor, weight, c, c_mask, offset, COMPUTE: tl.constexpr):
    value = value * factor
    if weight is not None:
        value = value * (tl.load(weight + c, mask=c_mask, other=0).to(COMPUTE) + offset)
    return value


@nereid.jit
def store_heads(out, cache, place, cache_place, value, mask, cached):
    """Writes a block to `out` and, unless `cache` is None, to the cache where `cached` is true."""
    rounded = value.to(out.dtype.element_ty)
    tl.store(out + place, rounded, mask=mask)
    if cache is not None:
        tl.store(cache + cache_place, rounded, mask=mask & cached)


@nereid.jit
def rotate_heads(out, x, cache, cached, weight, cosine, sine, h, h_mask, out_stride, x_stride, cache_stride, dim, half, eps, offset, NORM: tl.constexpr,
                 INTERLEAVED: tl.constexpr, COMPUTE: tl.constexpr, BH: tl.constexpr, BR: tl.constexpr, REST: tl.constexpr):
    """The heads `h` of one token. out, x, cache: pointers to the token; out_stride, x_stride, cache_stride: between heads. REST: elements that are not rotated, a block of
    at least that size, or 0. Other arguments: as for `rotate`."""
    x_place, place, cache_place = h * x_stride, h * out_stride, h * cache_stride
    r = tl.expand_dims(tl.arange(0, BR), 0)
    mask = h_mask & (r < half)
    pair = tl.expand_dims(tl.arange(0, 2 * BR), 0)
    pair_mask = h_mask & (pair < 2 * half)
    if INTERLEAVED:
        first, second = tl.split(tl.reshape(read_heads(x, x_place + pair, pair_mask, COMPUTE), (BH, BR, 2)))
    else:
        first = read_heads(x, x_place + r, mask, COMPUTE)
        second = read_heads(x, x_place + half + r, mask, COMPUTE)
    if REST > 0:
        c = 2 * half + tl.expand_dims(tl.arange(0, REST), 0)
        rest_mask = h_mask & (c < dim)
        rest = read_heads(x, x_place + c, rest_mask, COMPUTE)
    if NORM:
        squares = tl.sum(first * first + second * second, 1)
        if REST > 0:
            squares += tl.sum(rest * rest, 1)
        factor = tl.expand_dims(1 / tl.sqrt(squares / dim.to(COMPUTE) + eps.to(COMPUTE)), 1)
        added = offset.to(COMPUTE)
        first = weighted(first, factor, weight, 2 * r if INTERLEAVED else r, r < half, added, COMPUTE)
        second = weighted(second, factor, weight, 2 * r + 1 if INTERLEAVED else half + r, r < half, added, COMPUTE)
        if REST > 0:
            rest = weighted(rest, factor, weight, c, c < dim, added, COMPUTE)
    left = first * cosine - second * sine
    right = second * cosine + first * sine
    if INTERLEAVED:
        store_heads(out, cache, place + pair, cache_place + pair, tl.reshape(tl.join(left, right), (BH, 2 * BR)), pair_mask, cached)
    else:
        store_heads(out, cache, place + r, cache_place + r, left, mask, cached)
        store_heads(out, cache, place + half + r, cache_place + half + r, right, mask, cached)
    if REST > 0:
        store_heads(out, cache, place + c, cache_place + c, rest, rest_mask, cached)


@nereid.jit
def cache_place(slot, strides, block_size):
    """Where a slot of a paged cache is. strides: of the cache in (blocks, tokens of a block, heads)."""
    return slot // block_size * strides[0] + slot % block_size * strides[1]


@nereid.jit
def rotate(q_out, k_out, q, k, v, q_weight, k_weight, cos, sin, positions, key_cache, value_cache, slots, tokens, q_heads, k_heads, dim, half, value_dim, block_size, q_out_strides,
           k_out_strides, q_strides, k_strides, v_strides, cos_stride, sin_stride, position_strides, key_strides, value_strides, eps, offset, NORM: tl.constexpr, INVERSE: tl.constexpr,
           INTERLEAVED: tl.constexpr, COMPUTE: tl.constexpr, BH: tl.constexpr, BR: tl.constexpr, REST: tl.constexpr, BV: tl.constexpr):
    """Grid: (batches * tokens, blocks of q's heads + blocks of k's heads).

    strides      (batch, token, head); the elements of a head are neighbours
    cos, sin     rows of `half` elements, one for each position
    positions    None: a token's number in its sequence
    NORM         heads are normalised first, by the root of the mean square of their `dim` elements
    INVERSE      by the negative angle
    slots        with key_cache: the slot of each token, negative: not written. The caches get k, rotated, and v
    """
    number = tl.program_id(0).to(tl.int64)
    batch = number // tokens
    token = number % tokens
    if positions is None:
        position = token
    else:
        position = tl.load(positions + batch * position_strides[0] + token * position_strides[1]).to(tl.int64)
    r = tl.expand_dims(tl.arange(0, BR), 0)
    cosine = tl.load(cos + position * cos_stride + r, mask=r < half, other=0).to(COMPUTE)
    sine = tl.load(sin + position * sin_stride + r, mask=r < half, other=0).to(COMPUTE)
    if INVERSE:
        sine = -sine
    q_blocks = tl.cdiv(q_heads, BH)
    part = tl.program_id(1)
    if part < q_blocks:
        h = tl.expand_dims(part * BH + tl.arange(0, BH), 1)
        rotate_heads(q_out + batch * q_out_strides[0] + token * q_out_strides[1], q + batch * q_strides[0] + token * q_strides[1], None, False, q_weight, cosine, sine,
                     h.to(tl.int64), h < q_heads, q_out_strides[2], q_strides[2], 0, dim, half, eps, offset, NORM, INTERLEAVED, COMPUTE, BH, BR, REST)
    else:
        h = tl.expand_dims((part - q_blocks) * BH + tl.arange(0, BH), 1)
        h_mask = h < k_heads
        h = h.to(tl.int64)
        k_token = k + batch * k_strides[0] + token * k_strides[1]
        out_token = k_out + batch * k_out_strides[0] + token * k_out_strides[1]
        if key_cache is None:
            rotate_heads(out_token, k_token, None, False, k_weight, cosine, sine, h, h_mask, k_out_strides[2], k_strides[2], 0, dim, half, eps, offset, NORM, INTERLEAVED,
                         COMPUTE, BH, BR, REST)
        else:
            slot = tl.load(slots + number).to(tl.int64)
            rotate_heads(out_token, k_token, key_cache + cache_place(slot, key_strides, block_size), slot >= 0, k_weight, cosine, sine, h, h_mask, k_out_strides[2], k_strides[2],
                         key_strides[2], dim, half, eps, offset, NORM, INTERLEAVED, COMPUTE, BH, BR, REST)
            copy_heads(value_cache + cache_place(slot, value_strides, block_size), v + batch * v_strides[0] + token * v_strides[1], h, h_mask & (slot >= 0), value_strides[2],
                       v_strides[2], value_dim, BV)


@nereid.jit
def copy_heads(out, x, h, mask, out_stride, x_stride, dim, BD: tl.constexpr):
    c = tl.expand_dims(tl.arange(0, BD), 0)
    mask = mask & (c < dim)
    tl.store(out + h * out_stride + c, tl.load(x + h * x_stride + c, mask=mask), mask=mask)


@nereid.jit
def copy_narrow(out, x, scales, scale_stride, h, mask, out_stride, x_stride, dim, COMPUTE: tl.constexpr, LIMIT: tl.constexpr, BD: tl.constexpr):
    """`copy_heads` into 8-bit floats: elements divided by the scale of their head (1 where there are no scales), and cut off at LIMIT."""
    c = tl.expand_dims(tl.arange(0, BD), 0)
    inside = mask & (c < dim)
    value = tl.load(x + h * x_stride + c, mask=inside, other=0).to(COMPUTE)
    if scales is not None:
        value = divide(value, tl.load(scales + h * scale_stride, mask=mask, other=1).to(COMPUTE))
    value = tl.where(value > LIMIT, LIMIT, tl.where(value < -LIMIT, -LIMIT, value)).to(COMPUTE)
    tl.store(out + h * out_stride + c, value.to(out.dtype.element_ty), mask=inside)


@nereid.jit
def write_cache(key_cache, value_cache, k, v, slots, k_scales, v_scales, heads, dim, value_dim, block_size, key_strides, value_strides, k_strides, v_strides, scale_strides, COMPUTE: tl.constexpr,
                LIMIT: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr, BV: tl.constexpr):
    """Copies the heads of each token to its slot; negative slots are not written. k_strides, v_strides: (token, head). Grid: (tokens, blocks of heads).

    LIMIT: None, or the largest number of the 8-bit floats that the caches have; k_scales, v_scales: (heads,) or None, see `copy_narrow`; scale_strides: of both.
    """
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token).to(tl.int64)
    if slot >= 0:
        h = tl.expand_dims(tl.program_id(1) * BH + tl.arange(0, BH), 1)
        mask = h < heads
        h = h.to(tl.int64)
        key_place = key_cache + cache_place(slot, key_strides, block_size)
        value_place = value_cache + cache_place(slot, value_strides, block_size)
        if LIMIT is None:
            copy_heads(key_place, k + token * k_strides[0], h, mask, key_strides[2], k_strides[1], dim, BD)
            copy_heads(value_place, v + token * v_strides[0], h, mask, value_strides[2], v_strides[1], value_dim, BV)
        else:
            copy_narrow(key_place, k + token * k_strides[0], k_scales, scale_strides[0], h, mask, key_strides[2], k_strides[1], dim, COMPUTE, LIMIT, BD)
            copy_narrow(value_place, v + token * v_strides[0], v_scales, scale_strides[1], h, mask, value_strides[2], v_strides[1], value_dim, COMPUTE, LIMIT, BV)
