"""Products with weights in 4 or 8 bits, and their expansion. The layout of 4-bit weights: `fused/weights.py`.

Weights are the first operand: they become floats in registers, where matrix units take a first operand from, and few tokens fill a unit's columns but not its rows.
Integers minus their zeros are exact in 16-bit floats; scales multiply sums in fp32, those of groups the sum of each group.
"""

import nereid
import nereid.language as tl

from .products import grouped, hinted, loaded, store_tile


@nereid.jit
def widened(q, zero, BITS: tl.constexpr, OPERAND: tl.constexpr):
    """q - zero in OPERAND. q: numbers from 0 to 15 as uint8 with BITS of 4, else int8. zero: a block that broadcasts, int32, or None for 0."""
    if BITS == 4 and OPERAND.primitive_bitwidth == 16:
        # As the last bits of a float whose unit in the last place is 1.
        BASE: tl.constexpr = 128 if OPERAND == tl.bfloat16 else 1024
        PATTERN: tl.constexpr = 0x4300 if OPERAND == tl.bfloat16 else 0x6400
        return (q.to(tl.int16) | PATTERN).to(OPERAND, bitcast=True) - (zero + BASE).to(OPERAND)
    elif zero is None:
        return q.to(OPERAND)
    else:
        return q.to(OPERAND) - zero.to(OPERAND)


@nereid.jit
def group_value(place, group, groups, mask):
    """The scale or zero point of each row in a group, as a column; 0 beyond the last group."""
    return tl.load(place + group, mask=mask & (group < groups), other=0)[:, None]


@nereid.constexpr_function
def start_of(entry, bits, piece):
    """Where an entry of `of_groups` begins in its block of 128: pieces follow one another; those of 4 bits take turns with what is 64 further on."""
    return entry * piece if bits == 8 else entry // 2 * piece + entry % 2 * 64


@nereid.jit
def neighbours(place, group, groups, mask, ENTRIES: tl.constexpr):
    """The numbers of each row in ENTRIES groups from `group` on, each as a column, read at once: a row's are neighbours in memory. `groups` is a multiple of ENTRIES."""
    tile = tl.load(place[:, None] + (group + tl.arange(0, ENTRIES)[None, :]), mask=(mask & (group < groups))[:, None], other=0)
    if ENTRIES == 2:
        return tl.split(tile)
    else:
        even, odd = tl.split(tl.reshape(tile, (tile.shape[0], 2, 2)))
        first, third = tl.split(even)
        second, fourth = tl.split(odd)
        return first, second, third, fourth


@nereid.jit
def of_groups(scale, zero, place, k, groups, mask, BITS: tl.constexpr, GROUP: tl.constexpr, PIECE: tl.constexpr, ENTRIES: tl.constexpr, TOGETHER: tl.constexpr):
    """The scales of the ENTRIES pieces from `k` on, then their zeros, in the order in which `weight_product` takes them. TOGETHER: each piece is a group, and `neighbours` reads them."""
    found = ()
    if TOGETHER:
        scales = neighbours(scale + place, k // GROUP, groups, mask, ENTRIES)
        for entry in tl.static_range(ENTRIES):
            found = found + (scales[start_of(entry, BITS, PIECE) // PIECE][:, None], )
        if zero is not None:
            zeros = neighbours(zero + place, k // GROUP, groups, mask, ENTRIES)
            for entry in tl.static_range(ENTRIES):
                found = found + (zeros[start_of(entry, BITS, PIECE) // PIECE][:, None], )
        return found
    for entry in tl.static_range(ENTRIES):
        found = found + (group_value(scale + place, (k + start_of(entry, BITS, PIECE)) // GROUP, groups, mask), )
    if zero is not None:
        for entry in tl.static_range(ENTRIES):
            found = found + (group_value(zero + place, (k + start_of(entry, BITS, PIECE)) // GROUP, groups, mask), )
    return found


@nereid.jit
def zero_of(found, entry: tl.constexpr, ENTRIES: tl.constexpr, BITS: tl.constexpr):
    """The zero of an entry of `of_groups`."""
    if len(found) > ENTRIES:
        return found[ENTRIES + entry].to(tl.int32)
    elif BITS == 4:
        return tl.full(found[0].shape, 8, tl.int32)
    else:
        return None


@nereid.jit
def weighted(w, x, total, PRECISION: tl.constexpr):
    """total + w @ x^T; `total` None for 0."""
    x = tl.trans(x)
    if total is None:
        return tl.dot(w, x.to(w.dtype), input_precision=PRECISION, out_dtype=tl.float32)
    else:
        return tl.dot(w, x.to(w.dtype), total, input_precision=PRECISION, out_dtype=tl.float32)


@nereid.jit
def weight_product(out, x, weight, scale, zero, bias, parts, m_size, n_size, k_size, groups, blocks_of_part, out_strides, x_stride, weight_stride, bias_strides,
                   BITS: tl.constexpr, GROUP: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr, ALIGNED: tl.constexpr, MULTIPLE: tl.constexpr, EVEN: tl.constexpr,
                   TOGETHER: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, WIDE: tl.constexpr):
    """out[m, n] = sum over k of x[m, k] * (weight[n, k] - zero) * scale + bias[n]. Grid: (tiles of the result, parts of k).

    x                 (m, k), stride 1 along k; weight: of 8 bits (n, k) or of 4 (n, blocks of 64 bytes), stride 1 along the last; scale, zero: (n, groups), contiguous,
                      `zero` as uint8 or None
    GROUP             how many of k share a scale: 32, or a multiple of 64; 0 for all
    blocks_of_part    how many blocks of 128 of k a part has
    OPERAND           the dtype that is multiplied
    ALIGNED           bits: x_stride (1), weight_stride (2), n_size (4), k_size (8) are multiples of MULTIPLE, the elements of 16 bytes of `x`, and weight_stride of 16;
                      groups (16) is a multiple of 4
    EVEN              bits: m_size (1), n_size (2), k_size (4) are multiples of the tile's sizes, of 128 for k
    TOGETHER          rows of tiles that are walked together. Others: as for `product`
    """
    tile_m, tile_n = grouped(tl.program_id(0), tl.cdiv(m_size, BM), tl.cdiv(n_size, BN), TOGETHER)
    part = tl.program_id(1)
    row, column = tile_m * BM, tile_n * BN
    # Of one group, and of one half of a block of packed numbers.
    PIECE: tl.constexpr = 32 if GROUP == 32 else 64 if BITS == 4 or GROUP % 128 != 0 else 128
    PIECES: tl.constexpr = (64 if BITS == 4 else 128) // PIECE
    n = tl.arange(0, BN)
    m = tl.arange(0, BM)[:, None]
    lane = tl.arange(0, PIECE)[None, :]
    n_mask = n < n_size - column
    m_mask = m < m_size - row
    first = part * blocks_of_part
    last = tl.minimum(first + blocks_of_part, tl.cdiv(k_size, 128))
    k_known = hinted(k_size, ALIGNED & 8 != 0, MULTIPLE)
    x_place = x + (row + m).to(tl.int64) * hinted(x_stride, ALIGNED & 1 != 0, MULTIPLE) + first.to(tl.int64) * 128 + lane
    weight_place = weight + (column + n).to(tl.int64)[:, None] * hinted(weight_stride, ALIGNED & 2 != 0, 16) + first.to(tl.int64) * (64 if BITS == 4 else 128) + lane
    # Groups whose number is a multiple of those in a block of 128 are read together.
    TOGETHER_READ: tl.constexpr = GROUP == PIECE and GROUP < 128 and ALIGNED & 16 != 0
    group_place = (column + n).to(tl.int64) * hinted(groups, ALIGNED & 16 != 0, 4)
    total = tl.zeros((BN, BM), tl.float32)
    ENTRIES: tl.constexpr = 1 if GROUP == 0 or GROUP % 128 == 0 else 128 // PIECE
    if GROUP == 0:
        found = of_groups(scale, zero, group_place, 0, groups, n_mask, BITS, 128, PIECE, 1, False)
        of_row = found[0].to(tl.float32)
        zero_of_row = zero_of(found, 0, 1, BITS)
    else:
        # Scales and zeros are read one step ahead, so that their latency is behind the product.
        following = of_groups(scale, zero, group_place, first * 128, groups, n_mask, BITS, GROUP, PIECE, ENTRIES, TOGETHER_READ)
    for block in range(first, last):
        if GROUP != 0:
            own = following
            following = of_groups(scale, zero, group_place, block * 128 + 128, groups, n_mask, BITS, GROUP, PIECE, ENTRIES, TOGETHER_READ)
        for piece in tl.static_range(PIECES):
            START: tl.constexpr = piece * PIECE
            k = block * 128 + START
            if BITS == 4:
                q = loaded(weight_place + START, n_mask[:, None], n_mask[:, None], EVEN & 2 == 0, False)
                low = loaded(x_place + START, m_mask, lane < k_known - k, EVEN & 1 == 0, EVEN & 4 == 0)
                high = loaded(x_place + (START + 64), m_mask, lane < k_known - (k + 64), EVEN & 1 == 0, EVEN & 4 == 0)
                if GROUP == 0:
                    total = weighted(widened(q & 15, zero_of_row, BITS, OPERAND), low, total, PRECISION)
                    total = weighted(widened(q >> 4, zero_of_row, BITS, OPERAND), high, total, PRECISION)
                elif GROUP % 128 == 0:
                    zeros = zero_of(own, 0, ENTRIES, BITS)
                    found = weighted(widened(q & 15, zeros, BITS, OPERAND), low, None, PRECISION)
                    total += weighted(widened(q >> 4, zeros, BITS, OPERAND), high, found, PRECISION) * own[0].to(tl.float32)
                else:
                    total += weighted(widened(q & 15, zero_of(own, 2 * piece, ENTRIES, BITS), BITS, OPERAND), low, None, PRECISION) * own[2 * piece].to(tl.float32)
                    total += weighted(widened(q >> 4, zero_of(own, 2 * piece + 1, ENTRIES, BITS), BITS, OPERAND), high, None, PRECISION) * own[2 * piece + 1].to(tl.float32)
            else:
                inside = lane < k_known - k
                q = loaded(weight_place + START, n_mask[:, None], inside, EVEN & 2 == 0, EVEN & 4 == 0)
                value = loaded(x_place + START, m_mask, inside, EVEN & 1 == 0, EVEN & 4 == 0)
                if GROUP == 0:
                    total = weighted(widened(q, zero_of_row, BITS, OPERAND), value, total, PRECISION)
                else:
                    total += weighted(widened(q, zero_of(own, piece, ENTRIES, BITS), BITS, OPERAND), value, None, PRECISION) * own[piece].to(tl.float32)
        x_place += 128
        weight_place += 64 if BITS == 4 else 128
    if GROUP == 0:
        total = total * of_row
    store_tile(out, bias, None, parts, part, tl.trans(total), 1, 1, tile_m * 0, row, column, m_size, n_size, 1, out_strides, bias_strides, tl.float32, False, False, None, True,
               EVEN & 3 != 3, ALIGNED & 4 != 0, MULTIPLE, BM, BN, WIDE)


@nereid.jit
def expand_weights(out, weight, scale, zero, n_size, k_size, groups, group_size, weight_stride, BITS: tl.constexpr, PIECE: tl.constexpr, ALIGNED: tl.constexpr, MULTIPLE: tl.constexpr,
                   ROWS: tl.constexpr):
    """out[n, k] = (weight[n, k] - zero) * scale, contiguous. Grid: (rows / ROWS, blocks of 128 of k).

    group_size: how many of k share a scale, a multiple of PIECE or all; PIECE: 32 or 64. ALIGNED: bits: k_size is a multiple of MULTIPLE (1), weight_stride of 16 (2). Other arguments: as for `weight_product`.
    """
    n = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    block = tl.program_id(1)
    n_mask = n < n_size
    lane = tl.arange(0, PIECE)[None, :]
    k_known = hinted(k_size, ALIGNED & 1 != 0, MULTIPLE)
    place = weight + n.to(tl.int64)[:, None] * hinted(weight_stride, ALIGNED & 2 != 0, 16) + block * (64 if BITS == 4 else 128) + lane
    to = out + n.to(tl.int64)[:, None] * k_known + block * 128 + lane
    group_place = n.to(tl.int64) * groups
    for piece in tl.static_range((64 if BITS == 4 else 128) // PIECE):
        START: tl.constexpr = piece * PIECE
        if BITS == 4:
            packed = tl.load(place + START, mask=n_mask[:, None], other=0)
        else:
            packed = tl.load(place + START, mask=n_mask[:, None] & (block * 128 + START + lane < k_known), other=0)
        for half in tl.static_range(2 if BITS == 4 else 1):
            k = block * 128 + half * 64 + START
            there = n_mask & (k < k_known)
            group = group_place + k // group_size
            if BITS == 8:
                q = packed.to(tl.float32)
            else:
                q = (packed >> 4 if half else packed & 15).to(tl.float32)
            if zero is not None:
                q -= tl.load(zero + group, mask=there, other=0).to(tl.float32)[:, None]
            elif BITS == 4:
                q -= 8
            value = q * tl.load(scale + group, mask=there, other=0).to(tl.float32)[:, None]
            tl.store(to + (half * 64 + START), value.to(out.dtype.element_ty), mask=n_mask[:, None] & (lane < k_known - k))
