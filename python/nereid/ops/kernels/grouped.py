"""Products of groups of rows, each with a matrix of its own, and of pairs of matrices with a gate.

    out[r, n] = sum over k of a[rows[r], k] * b[group of r, n, k]

Where groups end is read from memory: the grid has a bound on the number of tiles, and programs beyond the last tile do nothing. Every program finds its group from
the ends of all groups; tiles do not cross groups.
"""

import nereid
import nereid.language as tl

from ..functions import activation
from ._shared import step
from .products import grouped, hinted, loaded, multiplied


@nereid.jit
def group_bounds(ends, groups, m_size, GROUPS: tl.constexpr):
    """(first row, end) of all groups, and of one more: the rows behind the last group. Ends are taken to ascend; those beyond `m_size` are m_size."""
    e = tl.arange(0, GROUPS)
    end = tl.minimum(tl.load(ends + e, mask=e < groups, other=0).to(tl.int32), m_size)
    start = tl.minimum(tl.load(ends + e - 1, mask=(e > 0) & (e <= groups), other=0).to(tl.int32), m_size)
    end = tl.where(e == groups, m_size, end)
    return start, tl.maximum(end, start)


@nereid.jit
def tile_of_groups(tile, ends, groups, m_size, tiles_n, GROUPS: tl.constexpr, GROUP: tl.constexpr, BM: tl.constexpr):
    """(group, first row, end of the group's rows, tile along n). A tile behind the last one has no rows. A group of number `groups` has the rows behind the last."""
    e = tl.arange(0, GROUPS)
    start, end = group_bounds(ends, groups, m_size, GROUPS)
    counts = (end - start + (BM - 1)) // BM
    through = tl.cumsum(counts, 0)
    tiles_m = tl.sum(counts, 0)
    inside = tile < tiles_m * tiles_n
    tile_m, tile_n = grouped(tl.where(inside, tile, 0), tl.maximum(tiles_m, 1), tiles_n, GROUP)
    group = tl.sum((through <= tile_m).to(tl.int32), 0)
    chosen = e == group
    row = tl.sum(tl.where(chosen, start + (tile_m - (through - counts)) * BM, 0), 0)
    last = tl.sum(tl.where(chosen, end, 0), 0)
    return group, row, tl.where(inside, last, row), tile_n


@nereid.jit
def grouped_product(out, a, b, up, saved, rows, ends, m_size, n_size, k_size, groups, row_divisor, out_strides, a_strides, b_strides, saved_stride, PRECISION: tl.constexpr,
                    ACC: tl.constexpr, OUT_UNIT: tl.constexpr, A_UNIT: tl.constexpr, B_UNIT: tl.constexpr, ALIGNED: tl.constexpr, MULTIPLE: tl.constexpr, EVEN: tl.constexpr, IN_ORDER: tl.constexpr, GROUPS: tl.constexpr,
                    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WIDE: tl.constexpr):
    """Grid: a bound on the number of tiles.

    out               (m, n); without `up` the sums
    up                None, or a pointer to matrices with the strides of `b`: the result is silu(a b^T) * (a up^T). The columns of both products alternate in a tile
    saved             None, or pointers to what silu is applied to and to what it is multiplied by; saved_stride: between their rows
    rows              None, or the row of `a` for every row of the result, times row_divisor
    ends              None for one group, or where the groups end; rows behind the last end are zero
    out_strides       (m, n); a_strides: (m, k); b_strides: (group, n, k)
    OUT_UNIT          whether the stride of `out` along n is 1; A_UNIT: that of `a` along k; B_UNIT: which stride of `b` is 1: "k", "n" or None
    ALIGNED           bits: the other strides of `a` (1), of `b` and `up` (2), n_size and saved_stride (4), the stride of `out` along m (8), k_size (16) are multiples of MULTIPLE
    EVEN              bits: n_size (2), k_size (4) are multiples of the tile's sizes
    GROUPS            a power of 2 above the number of groups
    Other constants: as for `product`.
    """
    GATED: tl.constexpr = up is not None
    WIDTH: tl.constexpr = BN // 2 if GATED else BN
    tiles_n = tl.cdiv(n_size, WIDTH)
    k_tiles = tl.cdiv(k_size, BK)
    if ends is not None:
        group, row, end, tile_n = tile_of_groups(tl.program_id(0), ends, groups, m_size, tiles_n, GROUPS, GROUP, BM)
        k_tiles = tl.where((row < end) & (group < groups), k_tiles, 0)
        group = tl.minimum(group, groups - 1)
    else:
        tile_m, tile_n = grouped(tl.program_id(0), tl.cdiv(m_size, BM), tiles_n, GROUP)
        group = 0
        row = tile_m * BM
        end = m_size
    column = tile_n * WIDTH
    B_TRANSPOSED: tl.constexpr = IN_ORDER and B_UNIT == "k"
    i = tl.arange(0, BM)
    row_mask = (i < end - row)[:, None]
    if rows is not None:
        # In 32 bits: a division of 64 bits is a call, between which products could not overlap.
        source = tl.load(rows + row + i, mask=i < end - row, other=0) // row_divisor
    else:
        source = row + i
    j = tl.expand_dims(tl.arange(0, BN), 1 if B_TRANSPOSED else 0)
    k_of_a = tl.arange(0, BK)[None, :]
    k_of_b = tl.expand_dims(tl.arange(0, BK), 0 if B_TRANSPOSED else 1)
    along = j // 2 if GATED else j
    column_mask = along < hinted(n_size, ALIGNED & 4 != 0 and not GATED, MULTIPLE) - column
    if WIDE:
        along = along.to(tl.int64)
        k_of_a = k_of_a.to(tl.int64)
        k_of_b = k_of_b.to(tl.int64)
    a_k = step(a_strides[1], A_UNIT, WIDE)
    b_n = step(hinted(b_strides[1], (ALIGNED & 2 != 0) and B_UNIT == "k", MULTIPLE), B_UNIT == "n", WIDE)
    b_k = step(hinted(b_strides[2], (ALIGNED & 2 != 0) and B_UNIT == "n", MULTIPLE), B_UNIT == "k", WIDE)
    a_place = a + source.to(tl.int64)[:, None] * hinted(a_strides[0], ALIGNED & 1 != 0, MULTIPLE) + k_of_a * a_k
    b_first = group.to(tl.int64) * hinted(b_strides[0], ALIGNED & 2 != 0, MULTIPLE) + column.to(tl.int64) * b_n
    b_place = b + b_first + k_of_b * b_k + along * b_n
    if GATED:
        distance = (up.to(tl.int64) - b.to(tl.int64)) // (b.dtype.element_ty.primitive_bitwidth // 8)
        b_place += (j % 2).to(tl.int64) * hinted(distance, ALIGNED & 2 != 0, MULTIPLE)
    k_known = hinted(k_size, ALIGNED & 16 != 0, MULTIPLE)
    total = tl.zeros((BM, BN), ACC)
    for position in range(0, k_tiles):
        left = k_known - position * BK
        x = loaded(a_place, row_mask, k_of_a < left, True, EVEN & 4 == 0)
        y = loaded(b_place, k_of_b < left, column_mask, EVEN & 4 == 0, EVEN & 2 == 0)
        total = multiplied(x, y, total, False, B_TRANSPOSED, None, PRECISION)
        a_place += BK * a_k
        b_place += BK * b_k
    columns = tl.arange(0, WIDTH)[None, :]
    n_known = hinted(n_size, ALIGNED & 4 != 0, MULTIPLE)
    mask = row_mask & (columns < n_known - column)
    place = (row + i).to(tl.int64)[:, None]
    if GATED:
        gate, other = tl.split(tl.reshape(total, (BM, WIDTH, 2)))
        if saved is not None:
            offset = place * hinted(saved_stride, ALIGNED & 4 != 0, MULTIPLE) + column + columns
            tl.store(saved[0] + offset, gate.to(saved[0].dtype.element_ty), mask=mask)
            tl.store(saved[1] + offset, other.to(saved[1].dtype.element_ty), mask=mask)
        total = activation.silu(gate, out.dtype.element_ty.primitive_bitwidth == 16) * other
    out_n = step(out_strides[1], OUT_UNIT, WIDE)
    out_place = out + place * hinted(out_strides[0], ALIGNED & 8 != 0, MULTIPLE) + column.to(tl.int64) * out_n + columns * out_n
    tl.store(out_place, total.to(out.dtype.element_ty), mask=mask)


@nereid.jit
def tiles_of_groups(table, ends, groups, m_size, GROUPS: tl.constexpr, BM: tl.constexpr, BT: tl.constexpr):
    """Grid: a bound on the number of tiles of BM rows, divided by BT. table: int32; element 0: how many tiles there are; from 4 * (i + 1) on (group, first row, end of the group's rows) of tile i.

    Other arguments: as for `grouped_product`.
    """
    e = tl.arange(0, GROUPS)
    start, end = group_bounds(ends, groups, m_size, GROUPS)
    counts = (end - start + (BM - 1)) // BM
    through = tl.cumsum(counts, 0)
    count = tl.sum(counts, 0)
    tile = tl.program_id(0) * BT + tl.arange(0, BT)
    inside = tile < count
    group = tl.sum((through[None, :] <= tile[:, None]).to(tl.int32), 1)
    chosen = e[None, :] == group[:, None]
    row = tl.sum(tl.where(chosen, (start - (through - counts) * BM)[None, :], 0), 1) + tile * BM
    last = tl.sum(tl.where(chosen, end[None, :], 0), 1)
    place = table + 4 * (tile + 1)
    tl.store(place, group, mask=inside)
    tl.store(place + 1, row, mask=inside)
    tl.store(place + 2, last, mask=inside)
    if tl.program_id(0) == 0:
        tl.store(table, count)


@nereid.jit
def grouped_product_copied(out, a, b, table, m_size, n_size, k_size, groups, out_strides, a_strides, b_strides, B_UNIT: tl.constexpr, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                           BK: tl.constexpr):
    """`grouped_product` of 16-bit floats with `ends`, without `up`, `saved` and `rows`, through tensor descriptors: programs walk over tiles, and copy those of the next result while they write one.

    Grid: any number of programs. table: what `tiles_of_groups` has written. Strides of `a` along k and of `out` along n are 1, the others, those of `b` but B_UNIT ("k" or "n"), and n_size multiples of 8.
    """
    tiles_n = tl.cdiv(n_size, BN)
    tiles_m = tl.load(table)
    a_rows = tl.make_tensor_descriptor(a, [m_size, k_size], [a_strides[0], 1], [BM, BK])
    if B_UNIT == "k":
        matrices = tl.make_tensor_descriptor(b, [groups, n_size, k_size], [b_strides[0], b_strides[1], 1], [1, BN, BK])
    else:
        matrices = tl.make_tensor_descriptor(b, [groups, k_size, n_size], [b_strides[0], b_strides[2], 1], [1, BK, BN])
    i = tl.arange(0, BM)
    columns = tl.arange(0, BN)[None, :]
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), warp_specialize=True):
        tile_m, tile_n = grouped(tile, tiles_m, tiles_n, GROUP)
        place = table + 4 * (tile_m + 1)
        group, row, end = tl.load(place), tl.load(place + 1), tl.load(place + 2)
        column = tile_n * BN
        known = tl.where(group < groups, k_size, 0)
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, known, BK):
            x = a_rows.load([row, k])
            if B_UNIT == "k":
                y = matrices.load([group, column, k]).reshape(BN, BK).T
            else:
                y = matrices.load([group, k, column]).reshape(BK, BN)
            total = tl.dot(x, y, total)
        out_place = out + (row + i).to(tl.int64)[:, None] * hinted(out_strides[0], True, 8) + column + columns
        tl.store(out_place, total.to(out.dtype.element_ty), mask=(i < end - row)[:, None] & (columns < hinted(n_size, True, 8) - column))


@nereid.jit
def halves_before(tile_m, through, is_half):
    """How many of the tiles of rows in front of `tile_m` are halves, for each number of `tile_m`. through: how many tiles of rows the groups up to each one have; is_half: whether its last one is a half."""
    return tl.sum(tl.where(through[None, :] <= tile_m[:, None], is_half[None, :], 0), 1)


@nereid.jit
def half_tiles_before(tile, through, is_half, tiles_m, tiles_n, GROUP: tl.constexpr):
    """How many of the tiles in front of `tile` are halves, in the order of `grouped`."""
    first = tile // (GROUP * tiles_n) * GROUP
    size = tl.maximum(tl.minimum(tiles_m - first, GROUP), 1)
    rest = tile - first * tiles_n
    before = halves_before(first, through, is_half)
    here = halves_before(first + size, through, is_half) - before
    return before * tiles_n + rest // size * here + halves_before(first + rest % size, through, is_half) - before


@nereid.jit
def schedule_of_groups(table, ends, groups, m_size, tiles_n, programs, GROUPS: tl.constexpr, GROUP: tl.constexpr, BM: tl.constexpr, BT: tl.constexpr):
    """What each of `programs` programs computes one after the other: an equal number of tiles, of those with at most half of the rows an equal number, too, and tiles of one matrix at the same time.

    Grid: a bound on the number of tiles and one of `programs` more, divided by BT. table: int32; element 0: how many entries there are, a multiple of `programs`; from 4 * (i + 1) on (group, first row,
    end of the group's rows, tile along n) of the turn i // programs of program i % programs. Those without a tile have the group `groups`, and no rows.
    """
    e = tl.arange(0, GROUPS)
    start, end = group_bounds(ends, groups, m_size, GROUPS)
    counts = (end - start + (BM - 1)) // BM
    through = tl.cumsum(counts, 0)
    rest = (end - start) % BM
    is_half = ((rest > 0) & (rest <= BM // 2)).to(tl.int32)
    tiles_m = tl.sum(counts, 0)
    tiles = tiles_m * tiles_n
    i = tl.program_id(0) * BT + tl.arange(0, BT)
    turn = i // programs * programs
    following = tl.minimum(turn + programs, tiles)
    tile = tl.minimum(i, tl.maximum(tiles - 1, 0))
    tile_m, tile_n = grouped(tile, tl.maximum(tiles_m, 1), tiles_n, GROUP)
    before = half_tiles_before(tile, through, is_half, tiles_m, tiles_n, GROUP)
    at_turn = half_tiles_before(tl.minimum(turn, tiles), through, is_half, tiles_m, tiles_n, GROUP)
    at_next = half_tiles_before(following, through, is_half, tiles_m, tiles_n, GROUP)
    group = tl.sum((through[None, :] <= tile_m[:, None]).to(tl.int32), 1)
    chosen = e[None, :] == group[:, None]
    row = tl.sum(tl.where(chosen, (start - (through - counts) * BM)[None, :], 0), 1) + tile_m * BM
    last = tl.sum(tl.where(chosen, end[None, :], 0), 1)
    # Halves go to all programs in turn, whole tiles to the others: in the last turn, which has fewer tiles, to those that had halves last.
    whole = i - turn - (before - at_turn)
    program = tl.where(turn + programs <= tiles, at_next + whole, at_turn - 1 - whole + programs)
    program = tl.where(last - row <= BM // 2, before, program)
    inside = i < tiles
    program = tl.where(inside, program, at_next + i - tiles)
    place = table + 4 * (turn + program % programs + 1)
    written = i < tl.cdiv(tiles, programs) * programs
    tl.store(place, tl.where(inside, group, groups), mask=written)
    tl.store(place + 1, tl.where(inside, row, 0), mask=written)
    tl.store(place + 2, tl.where(inside, last, 0), mask=written)
    tl.store(place + 3, tile_n, mask=written)
    if tl.program_id(0) == 0:
        tl.store(table, tl.cdiv(tiles, programs) * programs)


@nereid.jit
def grouped_product_scheduled(out, a, b, table, m_size, n_size, k_size, groups, out_strides, a_strides, b_strides, B_UNIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """`grouped_product_copied` whose results the copy engine writes under the next tile's products, and whose tiles with half of the rows or fewer take half of the products.

    Grid: as many programs as `schedule_of_groups` has written `table` for. Arguments: as for `grouped_product_copied`.
    """
    # Each row and the BM - 1 rows behind it, counted from BM rows in front of the first one on: a tile of `count` rows begins at (its end, BM - count), so that the others are beyond BM, and nothing of
    # them is read or written. Of a tile with half of the rows or fewer, one of the two groups of warps multiplies nothing (src/gpu/copies/SkipProducts.h). Coordinates are not negative: the
    # copy engine refuses stores to such.
    rows = tl.make_tensor_descriptor(a - BM * a_strides[0], [m_size + 1, BM, k_size], [a_strides[0], a_strides[0], 1], [1, BM, BK])
    results = tl.make_tensor_descriptor(out - BM * out_strides[0], [m_size + 1, BM, n_size], [out_strides[0], out_strides[0], 1], [1, BM, BN])
    if B_UNIT == "k":
        matrices = tl.make_tensor_descriptor(b, [groups, n_size, k_size], [b_strides[0], b_strides[1], 1], [1, BN, BK])
    else:
        matrices = tl.make_tensor_descriptor(b, [groups, k_size, n_size], [b_strides[0], b_strides[2], 1], [1, BK, BN])
    for entry in tl.range(tl.program_id(0), tl.load(table), tl.num_programs(0), warp_specialize=True):
        place = table + 4 * (entry + 1)
        group, row, end, tile_n = tl.load(place), tl.load(place + 1), tl.load(place + 2), tl.load(place + 3)
        column = tile_n * BN
        count = tl.minimum(end - row, BM)
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, tl.where(group < groups, k_size, 0), BK):
            x = rows.load([row + count, BM - count, k]).reshape(BM, BK)
            if B_UNIT == "k":
                y = matrices.load([group, column, k]).reshape(BN, BK).T
            else:
                y = matrices.load([group, k, column]).reshape(BK, BN)
            total = tl.dot(x, y, total)
        results.store([row + count, BM - count, column], total.to(out.dtype.element_ty).reshape(1, BM, BN))


@nereid.jit
def grouped_outer_product(out, a, b, a_rows, b_rows, ends, m_size, n_size, k_size, groups, a_divisor, b_divisor, a_strides, b_strides, PRECISION: tl.constexpr, ACC: tl.constexpr,
                          A_UNIT: tl.constexpr, B_UNIT: tl.constexpr, ALIGNED: tl.constexpr, MULTIPLE: tl.constexpr, EVEN: tl.constexpr, GROUPS: tl.constexpr, GROUP: tl.constexpr,
                          BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """out[group, n, k] = sum over the rows r of a group of a[a_rows[r], n] * b[b_rows[r], k]. Grid: (tiles of a result, groups).

    out               (groups, n, k), contiguous
    a_rows, b_rows    None, or the rows of `a` and of `b` for every row, times a_divisor and b_divisor
    a_strides         (row, n); b_strides: (row, k); A_UNIT, B_UNIT: which one is 1: "row", "column" or None
    ALIGNED           bits: the stride of the rows of `a` (1), of `b` (2), n_size (4), k_size (8) are multiples of MULTIPLE; EVEN: bits: n_size (1), k_size (2) are
                      multiples of the tile's sizes (BM, BN)
    BK                rows that are taken at once
    """
    group = tl.program_id(1)
    tile_n, tile_k = grouped(tl.program_id(0), tl.cdiv(n_size, BM), tl.cdiv(k_size, BN), GROUP)
    last = tl.minimum(tl.load(ends + group).to(tl.int32), m_size)
    first = tl.minimum(tl.load(ends + group - 1, mask=group > 0, other=0).to(tl.int32), last)
    i = tl.arange(0, BM)[None, :]
    j = tl.arange(0, BN)[None, :]
    r = tl.arange(0, BK)
    i_mask = i < hinted(n_size, ALIGNED & 4 != 0, MULTIPLE) - tile_n * BM
    j_mask = j < hinted(k_size, ALIGNED & 8 != 0, MULTIPLE) - tile_k * BN
    a_place = a + (tile_n * BM).to(tl.int64) * step(a_strides[1], A_UNIT == "column", True) + i * step(a_strides[1], A_UNIT == "column", True)
    b_place = b + (tile_k * BN).to(tl.int64) * step(b_strides[1], B_UNIT == "column", True) + j * step(b_strides[1], B_UNIT == "column", True)
    a_step = step(hinted(a_strides[0], ALIGNED & 1 != 0, MULTIPLE), A_UNIT == "row", True)
    b_step = step(hinted(b_strides[0], ALIGNED & 2 != 0, MULTIPLE), B_UNIT == "row", True)
    # Rows are looked up one step ahead, so that the latency is behind a product.
    a_next, b_next = first + r, first + r
    if a_rows is not None:
        a_next = tl.load(a_rows + first + r, mask=r < last - first, other=0) // a_divisor
    if b_rows is not None:
        b_next = tl.load(b_rows + first + r, mask=r < last - first, other=0) // b_divisor
    total = tl.zeros((BM, BN), ACC)
    for row in range(first, last, BK):
        inside = r < last - row
        a_row, b_row = a_next, b_next
        following = row + BK + r
        a_next, b_next = following, following
        if a_rows is not None:
            a_next = tl.load(a_rows + following, mask=following < last, other=0) // a_divisor
        if b_rows is not None:
            b_next = tl.load(b_rows + following, mask=following < last, other=0) // b_divisor
        x = loaded(a_place + a_row.to(tl.int64)[:, None] * a_step, inside[:, None], i_mask, True, EVEN & 1 == 0)
        y = loaded(b_place + b_row.to(tl.int64)[:, None] * b_step, inside[:, None], j_mask, True, EVEN & 2 == 0)
        total = multiplied(x, y, total, True, False, None, PRECISION)
    rows = tile_n * BM + tl.arange(0, BM)[:, None]
    k_known = hinted(k_size, ALIGNED & 8 != 0, MULTIPLE)
    place = out + (group.to(tl.int64) * n_size + rows) * k_known + tile_k * BN + j
    tl.store(place, total.to(out.dtype.element_ty), mask=(rows < n_size) & j_mask)
