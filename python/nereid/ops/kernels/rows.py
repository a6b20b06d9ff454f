"""The kernel of operators that reduce rows and then map every element of them: softmax, normalisations, their gradients.

A *row* is what the reduced dimensions span at one place of the kept ones; sizes, strides and tiles are as for reductions (reduction.py), and so are MAP,
TILE, COMBINE and IDENTITY. Besides:

    FINISH(states, scalars, COMPUTE)           a tuple of values of each row; the first of them are written to `row_outs`
    APPLY(values, row_values, scalars)         blocks of all inputs and the row's values, which broadcast → a tuple of blocks for `outs`
    KEEP(values, mask, count, scalars, AXIS)   None, or for tiles that hold whole rows, in place of TILE: the states, and a tuple of blocks that
    OF_KEPT(kept, row_values, scalars)         makes the blocks for `outs` of, in place of APPLY
"""

import nereid
import nereid.language as tl

from ._shared import combine, expanded, filled, load_tile, masked, offset_of, reduce_states, split_index, step, write


@nereid.jit
def read_all(rows, kept_strides, reduced_strides, outer, inner_first, sizes, k, r, k_mask, r_mask, COUNT: tl.constexpr, COMPUTE: tl.constexpr,
             UNIT: tl.constexpr, SHIFT: tl.constexpr, K_FIXED: tl.constexpr, R_FIXED: tl.constexpr, COLUMNS: tl.constexpr, WIDE: tl.constexpr, SHAPE: tl.constexpr):
    """Blocks of the first COUNT inputs in the dtype COMPUTE, None for inputs that are None. rows: pointers to the first row of the tile; outer: number of the
    place in the outer reduced dimensions; sizes: their sizes."""
    values = ()
    for i in tl.static_range(COUNT):
        if rows[i] is None:
            values = values + (None,)
        else:
            unit: tl.constexpr = (UNIT >> (SHIFT + i)) & 1 == 1
            base = offset_of(outer, sizes, reduced_strides[i]) + inner_first * reduced_strides[i][len(sizes)]
            k_step = step(kept_strides[i][len(kept_strides[i]) - 1], COLUMNS and unit, WIDE)
            r_step = step(reduced_strides[i][len(sizes)], unit and not COLUMNS, WIDE)
            value = load_tile(rows[i] + base, k, r, k_step, r_step, k_mask, r_mask, (K_FIXED >> i) & 1 == 1, (R_FIXED >> i) & 1 == 1, SHAPE)
            values = values + (value.to(COMPUTE),)
    return values


@nereid.jit
def places(pointers, kept_strides, reduced_strides, outer, inner_first, sizes, k, r, UNIT: tl.constexpr, SHIFT: tl.constexpr, COLUMNS: tl.constexpr,
           WIDE: tl.constexpr):
    """Blocks of pointers to the elements of one tile. outer: number of the place in the outer reduced dimensions; sizes: their sizes."""
    found = ()
    for i in tl.static_range(len(pointers)):
        if pointers[i] is None:
            found = found + (None,)
        else:
            unit: tl.constexpr = (UNIT >> (SHIFT + i)) & 1 == 1
            base = offset_of(outer, sizes, reduced_strides[i]) + inner_first * reduced_strides[i][len(sizes)]
            k_step = step(kept_strides[i][len(kept_strides[i]) - 1], COLUMNS and unit, WIDE)
            r_step = step(reduced_strides[i][len(sizes)], unit and not COLUMNS, WIDE)
            found = found + (pointers[i] + base + k * k_step + r * r_step,)
    return found


@nereid.jit
def rows_at(pointers, kept_place, kept_outer, kept_first, kept_strides):
    """The pointers moved to the first row of a tile; None stays."""
    found = ()
    for i in tl.static_range(len(pointers)):
        if pointers[i] is None:
            found = found + (None,)
        else:
            found = found + (pointers[i] + offset_of(kept_place, kept_outer, kept_strides[i]) + kept_first * kept_strides[i][len(kept_outer)],)
    return found


@nereid.jit
def tile_states(values, mask, count, scalars, identity, MAP: tl.constexpr, TILE: tl.constexpr, COMBINE: tl.constexpr, AXIS: tl.constexpr):
    if TILE is not None:
        return TILE(values, mask, count, scalars, AXIS)
    else:
        return reduce_states(masked(MAP(values, None, scalars), mask, identity), AXIS, COMBINE)


@nereid.jit
def rows(outs, row_outs, ins, given, scalars, kept_outer, kept_size, reduced_outer, reduced_size, in_kept_strides, in_reduced_strides,
         out_kept_strides, out_reduced_strides, row_strides, given_strides, tiles_of_part,
         MAP: tl.constexpr, TILE: tl.constexpr, COMBINE: tl.constexpr, IDENTITY: tl.constexpr, FINISH: tl.constexpr, APPLY: tl.constexpr,
         KEEP: tl.constexpr, OF_KEPT: tl.constexpr, REDUCED_INPUTS: tl.constexpr, COMPUTE: tl.constexpr, COLUMNS: tl.constexpr, WHOLE: tl.constexpr, UNIT: tl.constexpr,
         K_FIXED: tl.constexpr, R_FIXED: tl.constexpr, BK: tl.constexpr, BR: tl.constexpr, WIDE: tl.constexpr):
    """Grid: (tiles of rows, parts of the reduced dimensions; 1 unless the row's values are given).

    outs            a tuple of pointers, written element by element; row_outs: a tuple of pointers, an element per row
    ins             a tuple of pointers or None; the reduction sees the first REDUCED_INPUTS of them
    given           None, or a tuple of pointers to the rows' values, which an earlier launch has found: nothing is reduced; given_strides: the
                    strides of all of them in the kept dimensions
    row_strides     for each of row_outs its strides in the kept dimensions
    tiles_of_part   how many tiles of the reduced dimensions a part has
    WHOLE           a tile holds whole rows: they are read once
    Everything else: as for reductions. UNIT has a bit for each of outs, then of ins.
    """
    AXIS: tl.constexpr = 0 if COLUMNS else 1
    SHAPE: tl.constexpr = (BR, BK) if COLUMNS else (BK, BR)
    LAST: tl.constexpr = len(kept_outer)
    REDUCED_OUTER: tl.constexpr = len(reduced_outer) > 0
    kept_place, kept_tile = split_index(tl.program_id(0), tl.cdiv(kept_size, BK), LAST > 0)
    kept_first = kept_tile.to(tl.int64) * BK
    k_row = tl.arange(0, BK)
    kept_mask = k_row < kept_size - kept_first
    r = tl.expand_dims(tl.arange(0, BR), 1 - AXIS)
    k = tl.expand_dims(k_row, AXIS)
    k_mask = tl.expand_dims(kept_mask, AXIS)
    if WIDE:
        k = k.to(tl.int64)
        r = r.to(tl.int64)
    in_rows = rows_at(ins, kept_place, kept_outer, kept_first, in_kept_strides)
    out_rows = rows_at(outs, kept_place, kept_outer, kept_first, out_kept_strides)
    reduced_tiles = tl.cdiv(reduced_size, BR)
    tiles = tl.full((), 1, tl.int64) * reduced_tiles
    for d in tl.static_range(len(reduced_outer)):
        tiles = tiles * reduced_outer[d]

    if WHOLE:
        count = reduced_size.to(tl.int32)
        mask = k_mask & (r < count)
        values = read_all(in_rows, in_kept_strides, in_reduced_strides, 0, 0, reduced_outer, k, r, k_mask, r < count, len(ins), COMPUTE,
                          UNIT, len(outs), K_FIXED, R_FIXED, COLUMNS, WIDE, SHAPE)
        identity = IDENTITY(COMPUTE, None)
        if KEEP is not None:
            states, kept = KEEP(values, mask, count, scalars, AXIS)
            row_values = FINISH(states, scalars, COMPUTE)
            results = OF_KEPT(kept, expanded(row_values, AXIS), scalars)
        else:
            states = tile_states(values, mask, count, scalars, identity, MAP, TILE, COMBINE, AXIS)
            row_values = FINISH(states, scalars, COMPUTE)
            results = APPLY(values, expanded(row_values, AXIS), scalars)
        targets = places(out_rows, out_kept_strides, out_reduced_strides, 0, 0, reduced_outer, k, r, UNIT, 0, COLUMNS, WIDE)
        for i in tl.static_range(len(outs)):
            write(targets[i], results[i], mask)
    else:
        if given is None:
            identity = IDENTITY(COMPUTE, None)
            states = filled(identity, (BK,))
            for tile in range(0, tiles):
                outer, inner = split_index(tile, reduced_tiles, REDUCED_OUTER)
                inner_first = inner * BR
                count = tl.minimum(reduced_size - inner_first, BR).to(tl.int32)
                mask = k_mask & (r < count)
                values = read_all(in_rows, in_kept_strides, in_reduced_strides, outer, inner_first, reduced_outer, k, r, k_mask, r < count,
                                  REDUCED_INPUTS, COMPUTE, UNIT, len(outs), K_FIXED, R_FIXED, COLUMNS, WIDE, SHAPE)
                states = combine(COMBINE, states, tile_states(values, mask, count, scalars, identity, MAP, TILE, COMBINE, AXIS))
            row_values = FINISH(states, scalars, COMPUTE)
        else:
            row_values = ()
            given_row = offset_of(kept_place, kept_outer, given_strides) + (kept_first + k_row) * given_strides[LAST]
            for i in tl.static_range(len(given)):
                row_values = row_values + (tl.load(given[i] + given_row, mask=kept_mask, other=0),)
        row_blocks = expanded(row_values, AXIS)
        first = tl.program_id(1).to(tl.int64) * tiles_of_part
        for tile in range(first, tl.minimum(first + tiles_of_part, tiles)):
            outer, inner = split_index(tile, reduced_tiles, REDUCED_OUTER)
            inner_first = inner * BR
            count = tl.minimum(reduced_size - inner_first, BR).to(tl.int32)
            mask = k_mask & (r < count)
            values = read_all(in_rows, in_kept_strides, in_reduced_strides, outer, inner_first, reduced_outer, k, r, k_mask, r < count, len(ins), COMPUTE,
                              UNIT, len(outs), K_FIXED, R_FIXED, COLUMNS, WIDE, SHAPE)
            results = APPLY(values, row_blocks, scalars)
            targets = places(out_rows, out_kept_strides, out_reduced_strides, outer, inner_first, reduced_outer, k, r, UNIT, 0, COLUMNS, WIDE)
            for i in tl.static_range(len(outs)):
                write(targets[i], results[i], mask)
    if given is None:
        row_bases = rows_at(row_outs, kept_place, kept_outer, kept_first, row_strides)
        for i in tl.static_range(len(row_outs)):
            if row_outs[i] is not None:
                write(row_bases[i] + k_row.to(tl.int64) * row_strides[i][LAST], row_values[i], kept_mask)


@nereid.jit
def update_running(means, variances, mean, variance, momentum, size, mean_stride, variance_stride, BLOCK: tl.constexpr):
    """Moves running statistics of `size` channels towards those of a batch. momentum: the share of the batch. Grid: size / BLOCK."""
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = c < size
    for pointers, stride, batch in ((means, mean_stride, mean), (variances, variance_stride, variance)):
        new = tl.load(batch + c, mask=mask, other=0)
        COMPUTE: tl.constexpr = tl.float64 if new.dtype == tl.float64 else tl.float32
        share = momentum.to(COMPUTE)
        old = tl.load(pointers + c * stride, mask=mask, other=0).to(COMPUTE)
        tl.store(pointers + c * stride, (share * new.to(COMPUTE) + (1 - share) * old).to(pointers.dtype.element_ty), mask=mask)
