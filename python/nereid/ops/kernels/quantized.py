"""Products of 8-bit operands with scales.

Sums are finished by `products.store_tile`; with parts along k each part writes scaled sums, and `products.add_parts` adds them.
"""

import nereid
import nereid.language as tl

from ._shared import step
from .grouped import tile_of_groups
from .products import grouped, hinted, loaded, store_tile


@nereid.jit
def scaled_product(out, a, b, a_scale, b_scale, bias, parts, ends, m_size, n_size, k_size, groups, tiles_of_part, out_strides, a_strides, b_strides, a_scale_strides, b_scale_strides, bias_strides,
                   ACC: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr, RUN: tl.constexpr, BLOCKS: tl.constexpr, A_ROWS: tl.constexpr, B_ROWS: tl.constexpr, A_UNIT: tl.constexpr,
                   B_UNIT: tl.constexpr, ALIGNED: tl.constexpr, MULTIPLE: tl.constexpr, EVEN: tl.constexpr, IN_ORDER: tl.constexpr, GROUPS: tl.constexpr, GROUP: tl.constexpr, COPIES: tl.constexpr,
                   BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WIDE: tl.constexpr):
    """out[m, n] = sum over k of a[m, k] * a_scale * b[n, k] * b_scale + bias[n]. Grid: (tiles of the result, parts of k).

    RUN               after so many steps of k their sum, which the matrix unit makes with fewer bits than fp32 has, is added to one of fp32; None: never
    BLOCKS            scales have strides along k: one for each row of `a` and 128 of k, one for each 128 rows of `b` and 128 of k. The product of a tile with BK of
                      128 is scaled and added to a second accumulator (DeepSeek-V3, arXiv 2412.19437, section 3.3.2)
    COPIES            with BLOCKS and without `ends`: tiles are blocks of tensor descriptors, and warps are divided, so that one half of them scales while the other half multiplies; strides along
                      k are 1, those of rows multiples of 16
    A_ROWS, B_ROWS    else: whether there is a scale for each row of `a` and of `b`, or one for all
    ends              None, or where groups of rows of `a` end, each with matrices `b` and scales of its own; rows behind the last end are 0. Then there is one part of k and no bias,
                      and the grid has a bound on the number of tiles. GROUPS: a power of 2 above the number of groups
    b_strides         (group, row, k); a_scale_strides: (row, block of k); b_scale_strides: (group, row or with BLOCKS block of rows, block of k)
    OPERAND           the dtype that operands are converted to first, or None
    A_UNIT, B_UNIT    whether the stride along k is 1; ALIGNED: bits: the stride of the rows of `a` (1), of `b` (2), n_size (4), k_size (8) are multiples of MULTIPLE
    Other arguments: as for `product`.
    """
    tiles_n = tl.cdiv(n_size, BN)
    tile = tl.program_id(0)
    part = tl.program_id(1)
    k_tiles = tl.cdiv(k_size, BK)
    if ends is not None:
        group, row, end, tile_n = tile_of_groups(tile, ends, groups, m_size, tiles_n, GROUPS, GROUP, BM)
        k_tiles = tl.where((row < end) & (group < groups), k_tiles, 0)
        group = tl.minimum(group, groups - 1).to(tl.int64)
        b += group * hinted(b_strides[0], ALIGNED & 2 != 0, MULTIPLE)
        b_scale += group * b_scale_strides[0]
    else:
        tile_m, tile_n = grouped(tile, tl.cdiv(m_size, BM), tiles_n, GROUP)
        row = tile_m * BM
        end = m_size
    column = tile_n * BN
    B_TRANSPOSED: tl.constexpr = IN_ORDER and B_UNIT
    i = tl.arange(0, BM)
    j = tl.arange(0, BN)
    row_mask = i < end - row
    column_mask = j < n_size - column
    j_of_b = tl.expand_dims(j, 1 if B_TRANSPOSED else 0)
    b_mask = tl.expand_dims(column_mask, 1 if B_TRANSPOSED else 0)
    k_of_a = tl.arange(0, BK)[None, :]
    k_of_b = tl.expand_dims(tl.arange(0, BK), 0 if B_TRANSPOSED else 1)
    first = part * tiles_of_part
    last = tl.minimum(first + tiles_of_part, k_tiles)
    a_k, b_k = step(a_strides[1], A_UNIT, WIDE), step(b_strides[2], B_UNIT, WIDE)
    a_m, b_n = hinted(a_strides[0], ALIGNED & 1 != 0, MULTIPLE), hinted(b_strides[1], ALIGNED & 2 != 0, MULTIPLE)
    a_place = a + (row.to(tl.int64) * a_m + first.to(tl.int64) * BK * a_k) + i[:, None] * step(a_m, False, WIDE) + k_of_a * a_k
    b_place = b + (column.to(tl.int64) * b_n + first.to(tl.int64) * BK * b_k) + j_of_b * step(b_n, False, WIDE) + k_of_b * b_k
    k_known = hinted(k_size, ALIGNED & 8 != 0, MULTIPLE)
    total = tl.zeros((BM, BN), tl.float32 if BLOCKS else ACC)
    a_scales = a_scale + (row + i).to(tl.int64) * a_scale_strides[0]
    if BLOCKS:
        tl.static_assert(128 % BN == 0, "a tile has columns of one block")
        b_scales = b_scale + (column // 128).to(tl.int64) * b_scale_strides[1]
        b_ok = column < n_size
        a_scales += first.to(tl.int64) * a_scale_strides[1]
        b_scales += first.to(tl.int64) * b_scale_strides[2]
        if COPIES:
            a_rows = tl.make_tensor_descriptor(a, [m_size, k_size], [a_strides[0], 1], [BM, BK])
            b_rows = tl.make_tensor_descriptor(b, [n_size, k_size], [b_strides[1], 1], [BN, BK])
            for position in tl.range(first, last, warp_specialize=True):
                x, y = a_rows.load([row, position * BK]), b_rows.load([column, position * BK])
                factor = tl.load(a_scales, mask=row_mask, other=0) * tl.load(b_scales, mask=b_ok, other=0)
                total += times(x, y, None, True, OPERAND, ACC, PRECISION).to(tl.float32) * factor[:, None]
                a_scales += a_scale_strides[1]
                b_scales += b_scale_strides[2]
            value = total
        else:
            # Scales are read one step ahead, so that their latency is behind the product.
            a_next = tl.load(a_scales, mask=row_mask & (first < last), other=0)
            b_next = tl.load(b_scales, mask=b_ok & (first < last), other=0)
            # A product is scaled and added while the next one runs.
            before = tl.zeros((BM, BN), ACC)
            before_factor = tl.zeros((BM, ), tl.float32)
            for position in range(first, last):
                left = k_known - position * BK
                x = loaded(a_place, row_mask[:, None], k_of_a < left, EVEN & 1 == 0, EVEN & 4 == 0)
                y = loaded(b_place, k_of_b < left, b_mask, EVEN & 4 == 0, EVEN & 2 == 0)
                a_factor, b_factor = a_next, b_next
                a_scales += a_scale_strides[1]
                b_scales += b_scale_strides[2]
                a_next = tl.load(a_scales, mask=row_mask & (position + 1 < last), other=0)
                b_next = tl.load(b_scales, mask=b_ok & (position + 1 < last), other=0)
                found = times(x, y, None, B_TRANSPOSED, OPERAND, ACC, PRECISION)
                total += before.to(tl.float32) * before_factor[:, None]
                before = found
                before_factor = a_factor * b_factor
                a_place += BK * a_k
                b_place += BK * b_k
            value = total + before.to(tl.float32) * before_factor[:, None]
    else:
        if RUN is None:
            for position in range(first, last):
                left = k_known - position * BK
                x = loaded(a_place, row_mask[:, None], k_of_a < left, EVEN & 1 == 0, EVEN & 4 == 0)
                y = loaded(b_place, k_of_b < left, b_mask, EVEN & 4 == 0, EVEN & 2 == 0)
                total = times(x, y, total, B_TRANSPOSED, OPERAND, ACC, PRECISION)
                a_place += BK * a_k
                b_place += BK * b_k
        else:
            for start in range(first, last, RUN):
                found = tl.zeros((BM, BN), ACC)
                for position in range(start, tl.minimum(start + RUN, last)):
                    left = k_known - position * BK
                    x = loaded(a_place, row_mask[:, None], k_of_a < left, EVEN & 1 == 0, EVEN & 4 == 0)
                    y = loaded(b_place, k_of_b < left, b_mask, EVEN & 4 == 0, EVEN & 2 == 0)
                    found = times(x, y, found, B_TRANSPOSED, OPERAND, ACC, PRECISION)
                    a_place += BK * a_k
                    b_place += BK * b_k
                total += found
        value = total.to(tl.float32)
        if A_ROWS:
            value = value * tl.load(a_scales, mask=row_mask, other=0)[:, None]
        else:
            value = value * tl.load(a_scale)
        if B_ROWS:
            value = value * tl.load(b_scale + (column + j).to(tl.int64) * b_scale_strides[1], mask=column_mask, other=0)[None, :]
        else:
            value = value * tl.load(b_scale)
    if ends is not None:
        # Scales of rows behind the last end may be anything.
        value = tl.where(k_tiles > 0, value, 0)
    store_tile(out, bias, None, parts, part, value, 1, 1, tile * 0, row, column, end, n_size, 1, out_strides, bias_strides, tl.float32, False, False, None, True,
               EVEN & 3 != 3, ALIGNED & 4 != 0, MULTIPLE, BM, BN, WIDE)


@nereid.jit
def times(x, y, total, B_TRANSPOSED: tl.constexpr, OPERAND: tl.constexpr, ACC: tl.constexpr, PRECISION: tl.constexpr):
    if B_TRANSPOSED:
        y = tl.trans(y)
    if OPERAND is not None:
        x = x.to(OPERAND)
        y = y.to(OPERAND)
    if total is None:
        return tl.dot(x, y, input_precision=PRECISION, out_dtype=ACC)
    else:
        return tl.dot(x, y, total, input_precision=PRECISION, out_dtype=ACC)
