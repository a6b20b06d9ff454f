"""The kernel of all scans: running combinations along one dimension.

The functions are those of reductions (reduction.py): MAP, COMBINE and IDENTITY as there, but COMBINE need not be commutative, and FINISH is given blocks of states.
A long dimension with few other elements is cut into parts: a reduction finds the states of each part (nereid.ops.kernels.reduction), and each program of the scan combines
those of the parts before its own.
"""

import nereid
import nereid.language as tl

from ._shared import add, combine, expanded, filled, masked, offset_of, read, reduce_states, scan_states, split_index, step, write


@nereid.jit
def last_of(states, is_last, AXIS: tl.constexpr):
    """The states at the one place along AXIS where `is_last` is true. (A reduction with COMBINE would ask for more than associativity.)"""
    blocks = ()
    for i in tl.static_range(len(states)):
        blocks = blocks + (tl.reduce(tl.where(is_last, states[i], 0).to(states[i].dtype), AXIS, add),)
    return blocks


@nereid.jit
def put(outs, bases, running, scalars, position, k, n, mask, strides, steps, FINISH: tl.constexpr, COMPUTE: tl.constexpr, AXIS: tl.constexpr, UNIT: tl.constexpr,
        COLUMNS: tl.constexpr, WIDE: tl.constexpr):
    """Writes the results of a tile of running states that begins at `position`. Arguments: see `scan`."""
    results = FINISH(running, scalars, COMPUTE)
    for i in tl.static_range(len(outs)):
        LAST: tl.constexpr = len(strides[i]) - 1
        out_unit: tl.constexpr = (UNIT >> i) & 1 == 1
        k_step = step(strides[i][LAST], COLUMNS and out_unit, WIDE)
        n_step = step(steps[i], out_unit and not COLUMNS, WIDE)
        pointer = bases[i] + position * steps[i] + tl.expand_dims(k, AXIS) * k_step + n * n_step
        write(pointer, results[i], mask)


@nereid.jit
def absorbs(state, states, AXIS: tl.constexpr, COMBINE: tl.constexpr):
    """Whether COMBINE, which selects one of two states, takes `state` before each of a block. The last of a state's numbers says which one it is."""
    LAST: tl.constexpr = len(states) - 1
    before = expanded(state, AXIS)
    taken = combine(COMBINE, before, states)
    return tl.min(tl.ravel((taken[LAST] == before[LAST]).to(tl.int32)), 0) == 1


@nereid.jit
def before_part(ends, part, first, k, mask_k, part_stride, part_size, identity, COMBINE: tl.constexpr, STARTS: tl.constexpr, BP: tl.constexpr, BK: tl.constexpr):
    """The combination of the states of all parts before `part`. ends: pointers to the first row's element number 0; STARTS: a bit mask of the states that are a place in their part."""
    state = filled(identity, (BK,))
    for row in range(0, part, BP):
        r = row + tl.arange(0, BP)[:, None]
        mask = (r < part) & mask_k[None, :]
        found = ()
        for i in tl.static_range(len(ends)):
            value = tl.load(ends[i] + r.to(tl.int64) * part_stride + (first + k)[None, :], mask=mask, other=0)
            if (STARTS >> i) & 1:
                value += (r * part_size).to(value.dtype)
            found = found + (value, )
        state = combine(COMBINE, state, reduce_states(masked(found, mask, identity), 0, COMBINE))
    return state


@nereid.jit
def scan(outs, ins, ends, scalars, outer, inner_size, size, in_strides, in_steps, out_strides, out_steps, part_stride, part_size,
         MAP: tl.constexpr, COMBINE: tl.constexpr, IDENTITY: tl.constexpr, FINISH: tl.constexpr, READ: tl.constexpr, COMPUTE: tl.constexpr,
         INDEX: tl.constexpr, COLUMNS: tl.constexpr, UNIT: tl.constexpr, BK: tl.constexpr, BN: tl.constexpr, BP: tl.constexpr, WIDE: tl.constexpr, SELECTS: tl.constexpr, STARTS: tl.constexpr):
    """Grid: (tiles of the other dimensions, parts of the scanned one).

    outs, ins      tuples of pointers
    ends           a tuple of pointers, one per state: row p has the states of part p alone; None: one part. BP: how many rows are combined at once, STARTS: see `before_part`
    scalars        a tuple of numbers for MAP and FINISH
    outer          sizes of the other dimensions but the innermost; inner_size: the innermost one; size: that of the scanned dimension
    in_strides     for each input its strides in the other dimensions, the innermost last; in_steps: its stride in the scanned one. out_*: likewise
    part_stride    distance of rows of `ends`; part_size: elements of the scanned dimension in a part, a multiple of BN
    READ, COMPUTE, INDEX, COLUMNS, UNIT, WIDE: as for reductions; tiles are (BK, BN), or (BN, BK) with COLUMNS
    SELECTS         COMBINE takes one of its two states as it is, so that nothing is scanned in tiles from which it takes none; for CPUs
    """
    AXIS: tl.constexpr = 0 if COLUMNS else 1
    OUTER: tl.constexpr = len(outer)
    SHAPE: tl.constexpr = (BN, BK) if COLUMNS else (BK, BN)
    part = tl.program_id(1)
    place, tile = split_index(tl.program_id(0), tl.cdiv(inner_size, BK), OUTER > 0)
    first = tile.to(tl.int64) * BK
    k = tl.arange(0, BK)
    mask_k = k < inner_size - first
    n = tl.expand_dims(tl.arange(0, BN), 1 - AXIS)
    if WIDE:
        n = n.to(tl.int64)
        k = k.to(tl.int64)
    in_bases = ()
    for i in tl.static_range(len(ins)):
        in_bases = in_bases + (ins[i] + offset_of(place, outer, in_strides[i]) + first * in_strides[i][OUTER],)
    out_bases = ()
    for i in tl.static_range(len(outs)):
        out_bases = out_bases + (outs[i] + offset_of(place, outer, out_strides[i]) + first * out_strides[i][OUTER],)

    identity = IDENTITY(COMPUTE, INDEX)
    state = filled(identity, (BK,))
    if ends is not None:
        state = before_part(ends, part, place.to(tl.int64) * inner_size + first, k, mask_k, part_stride, part_size, identity, COMBINE, STARTS, BP, BK)
    start = part.to(tl.int64) * part_size
    end = tl.minimum(start + part_size, size)
    for position in range(start, end, BN):
        count = tl.minimum(size - position, BN).to(tl.int32)
        mask = tl.expand_dims(mask_k, AXIS) & (n < count)
        values = ()
        for i in tl.static_range(len(ins)):
            unit: tl.constexpr = (UNIT >> (len(outs) + i)) & 1 == 1
            k_step = step(in_strides[i][OUTER], COLUMNS and unit, WIDE)
            n_step = step(in_steps[i], unit and not COLUMNS, WIDE)
            pointer = in_bases[i] + position * in_steps[i] + tl.expand_dims(k, AXIS) * k_step + n * n_step
            values = values + (read(pointer, mask, READ),)
        index = None
        if INDEX is not None:
            index = tl.broadcast_to(position.to(INDEX) + n.to(INDEX), SHAPE)
        states = masked(MAP(values, index, scalars), mask, identity)
        if SELECTS:
            if absorbs(state, states, AXIS, COMBINE):
                before = ()
                for i in tl.static_range(len(state)):
                    before = before + (tl.broadcast_to(tl.expand_dims(state[i], AXIS), SHAPE),)
                put(outs, out_bases, before, scalars, position, k, n, mask, out_strides, out_steps, FINISH, COMPUTE, AXIS, UNIT, COLUMNS, WIDE)
            else:
                running = combine(COMBINE, expanded(state, AXIS), scan_states(states, AXIS, COMBINE))
                state = last_of(running, n == BN - 1, AXIS)
                put(outs, out_bases, running, scalars, position, k, n, mask, out_strides, out_steps, FINISH, COMPUTE, AXIS, UNIT, COLUMNS, WIDE)
        else:
            if BN == 1:
                state = combine(COMBINE, state, reduce_states(states, AXIS, COMBINE))
                running = expanded(state, AXIS)
            else:
                running = combine(COMBINE, expanded(state, AXIS), scan_states(states, AXIS, COMBINE))
                state = last_of(running, n == BN - 1, AXIS)
            put(outs, out_bases, running, scalars, position, k, n, mask, out_strides, out_steps, FINISH, COMPUTE, AXIS, UNIT, COLUMNS, WIDE)
