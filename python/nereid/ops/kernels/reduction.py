"""The kernel of all reductions.

A reduction reads one or more tensors of one shape (strides 0 where they are broadcast), combines the elements along the *reduced* dimensions, and
writes one or more tensors along the *kept* ones. The host collapses both kinds of dimensions. The innermost dimension of each kind is cut
into tiles of BK and BR elements; the others are walked by scalars, so that no element's place takes a division.

The function is four functions of the language on blocks:

    MAP(values, index, scalars)       a tuple of input blocks → a tuple of states; `index`: the place in the reduced dimensions, None without INDEX
    COMBINE(*states, *states)         associative and commutative: a block, a tuple of them if there are several states
    IDENTITY(COMPUTE, INDEX)          a tuple of typed scalars, one per state: combining with them changes nothing
    FINISH(states, scalars, COMPUTE)  the states of a kept element → a tuple of results

and may have a fifth, TILE(values, mask, count, scalars, AXIS), in place of MAP: the states of a whole tile, whose first `count` places of AXIS hold elements; with
INDEX it gets the block of indices in place of `count`.
"""

import nereid
import nereid.language as tl

from ._shared import combine, filled, load_tile, masked, offset_of, reduce_states, split_index, step, write


@nereid.jit
def reduce(outs, ins, scalars, kept_outer, kept_size, reduced_outer, reduced_size, in_kept_strides, in_reduced_strides, out_strides,
           index_strides, part_stride, tiles_of_part,
           MAP: tl.constexpr, COMBINE: tl.constexpr, IDENTITY: tl.constexpr, FINISH: tl.constexpr, TILE: tl.constexpr,
           READ: tl.constexpr, COMPUTE: tl.constexpr, INDEX: tl.constexpr, COLUMNS: tl.constexpr, LANES: tl.constexpr, UNIT: tl.constexpr,
           K_FIXED: tl.constexpr, R_FIXED: tl.constexpr, BK: tl.constexpr, BR: tl.constexpr, WIDE: tl.constexpr):
    """Grid: (tiles of the kept dimensions, parts of the reduced ones).

    outs, ins           tuples of pointers
    scalars             a tuple of numbers for MAP and FINISH: int64, fp64
    kept_outer          sizes of the kept dimensions but the innermost, outermost first; kept_size: the innermost one. reduced_*: likewise
    in_kept_strides     for each input its strides in the kept dimensions, the innermost last; in_reduced_strides, out_strides: likewise
    index_strides       strides of `index` in the reduced dimensions
    part_stride         distance, in every output, of the results of neighbouring parts (0 with one part)
    tiles_of_part       how many tiles of the reduced dimensions a part has
    READ                dtype of the blocks that MAP gets, None: that of the memory
    COMPUTE             dtype of the states, for IDENTITY and FINISH
    INDEX               dtype of the index, None: none is needed
    COLUMNS             tiles are (BR, BK) rather than (BK, BR): the kept dimension has the smaller strides
    LANES               states of a whole tile are kept, and combined along the tile at the end; else each tile is combined at once
    UNIT                a bit for each of outs and ins, from the lowest: whether its stride along the inner dimension of the tile is 1 (for outs
                        along the kept one)
    K_FIXED, R_FIXED    a bit for each of ins: whether its innermost stride in the kept, in the reduced dimensions is 0
    WIDE                places within a tile take 64 bits
    """
    AXIS: tl.constexpr = 0 if COLUMNS else 1
    K_AXIS: tl.constexpr = 1 - AXIS
    KEPT_OUTER: tl.constexpr = len(kept_outer) > 0
    REDUCED_OUTER: tl.constexpr = len(reduced_outer) > 0
    SHAPE: tl.constexpr = (BR, BK) if COLUMNS else (BK, BR)
    part = tl.program_id(1)
    kept_place, kept_tile = split_index(tl.program_id(0), tl.cdiv(kept_size, BK), KEPT_OUTER)
    kept_first = kept_tile.to(tl.int64) * BK
    k = tl.arange(0, BK)
    kept_mask = k < kept_size - kept_first
    r = tl.expand_dims(tl.arange(0, BR), K_AXIS)
    k_tile = tl.expand_dims(k, AXIS)
    if WIDE:
        k_tile = k_tile.to(tl.int64)
        r = r.to(tl.int64)
    bases = ()
    for i in tl.static_range(len(ins)):
        strides: tl.constexpr = len(kept_outer)
        base = offset_of(kept_place, kept_outer, in_kept_strides[i]) + kept_first * in_kept_strides[i][strides]
        bases = bases + (ins[i] + base,)

    identity = IDENTITY(COMPUTE, INDEX)
    LAST: tl.constexpr = len(reduced_outer)
    reduced_tiles = tl.cdiv(reduced_size, BR)
    tiles = tl.full((), 1, tl.int64) * reduced_tiles
    for d in tl.static_range(len(reduced_outer)):
        tiles = tiles * reduced_outer[d]
    first = part.to(tl.int64) * tiles_of_part
    end = tl.minimum(first + tiles_of_part, tiles)
    states = filled(identity, SHAPE if LANES else (BK,))
    for tile in range(first, end):
        place, inner = split_index(tile, reduced_tiles, REDUCED_OUTER)
        inner_first = inner * BR
        count = tl.minimum(reduced_size - inner_first, BR).to(tl.int32)
        mask = tl.expand_dims(kept_mask, AXIS) & (r < count)
        values = ()
        for i in tl.static_range(len(ins)):
            base = offset_of(place, reduced_outer, in_reduced_strides[i]) + inner_first * in_reduced_strides[i][LAST]
            unit: tl.constexpr = (UNIT >> (len(outs) + i)) & 1 == 1
            k_step = step(in_kept_strides[i][len(kept_outer)], COLUMNS and unit, WIDE)
            r_step = step(in_reduced_strides[i][LAST], unit and not COLUMNS, WIDE)
            value = load_tile(bases[i] + base, k_tile, r, k_step, r_step, tl.expand_dims(kept_mask, AXIS), r < count, (K_FIXED >> i) & 1 == 1, (R_FIXED >> i) & 1 == 1, SHAPE)
            if READ is None:
                values = values + (value,)
            else:
                values = values + (value.to(READ),)
        if TILE is not None and INDEX is None:
            states = combine(COMBINE, states, TILE(values, mask, count, scalars, AXIS))
        else:
            index = None
            if INDEX is not None:
                index_first = offset_of(place, reduced_outer, index_strides) + inner_first * index_strides[LAST]
                index = tl.broadcast_to(index_first.to(INDEX) + r.to(INDEX) * index_strides[LAST].to(INDEX), SHAPE)
            if TILE is not None:
                found = TILE(values, mask, index, scalars, AXIS)
            else:
                found = masked(MAP(values, index, scalars), mask, identity)
                if not LANES:
                    found = reduce_states(found, AXIS, COMBINE)
            states = combine(COMBINE, states, found)
    if LANES:
        states = reduce_states(states, AXIS, COMBINE)
    results = FINISH(states, scalars, COMPUTE)
    for i in tl.static_range(len(outs)):
        base = part.to(tl.int64) * part_stride + offset_of(kept_place, kept_outer, out_strides[i]) + kept_first * out_strides[i][len(kept_outer)]
        places = k.to(tl.int64) if WIDE else k
        write(outs[i] + base + places * step(out_strides[i][len(kept_outer)], (UNIT >> i) & 1 == 1, WIDE), results[i], kept_mask)


@nereid.jit
def keep_states(states, scalars, COMPUTE: tl.constexpr):
    """FINISH of the first of two passes."""
    return states


@nereid.jit
def stored_states(values, index, scalars):
    """MAP of the second of two passes."""
    return values
