"""Kernels that read, write and accumulate where tensors of indices say. All offsets are 64 bits wide; indices below 0 count from the end.

`x` is the tensor that is indexed, `other` the one that is walked through: element `e` of `other` belongs to the element of `x` at
base(e) + sum over k of indices[k][e] * steps[k], where base(e) uses the strides of `x` in the walked dimensions.
"""

import nereid
import nereid.language as tl

from ._shared import write
from .pointwise import convert


@nereid.jit
def decoded(e, sizes, strides):
    """Offsets of the elements with the numbers `e` (a block or a scalar of int64) of dimensions `sizes`: a tuple, one for each tuple of `strides`."""
    offsets = ()
    for k in tl.static_range(len(strides)):
        offsets += (e * 0, )
    rest = e
    for i in tl.static_range(len(sizes)):
        d: tl.constexpr = len(sizes) - 1 - i
        if d > 0:
            place = rest % sizes[d]
            rest = rest // sizes[d]
        else:
            place = rest
        moved = ()
        for k in tl.static_range(len(strides)):
            moved += (offsets[k] + place * strides[k][d], )
        offsets = moved
    return offsets


@nereid.jit
def wrapped(at, limit):
    """Indices below 0 count from the end."""
    at = at.to(tl.int64)
    return tl.where(at < 0, at + limit, at)


@nereid.jit
def existing(at, limit, outside, WRAPS: tl.constexpr):
    """One index as a position from 0 to `limit` - 1. outside, WRAPS: as for `indexed_singly`."""
    at = wrapped(at, limit) if WRAPS else at.to(tl.int64)
    if outside is not None:
        if at.to(tl.uint64) >= limit.to(tl.uint64):
            tl.store(outside, 1)
            at = at * 0
    return at


@nereid.jit
def larger(a, b):
    """NaN counts as the largest."""
    if a.dtype.is_floating():
        return tl.where((a > b) | (a != a), a, b)
    else:
        return tl.where(a > b, a, b)


@nereid.jit
def smaller(a, b):
    """NaN counts as the smallest."""
    if a.dtype.is_floating():
        return tl.where((a < b) | (a != a), a, b)
    else:
        return tl.where(a < b, a, b)


@nereid.jit
def combined(old, new, MODE: tl.constexpr):
    """The new value of an element, from the stored value and the source. Sums of bools are disjunctions, products conjunctions."""
    if MODE == "set":
        return new
    elif MODE == "add":
        return old + new
    elif MODE == "multiply":
        return old * new
    elif MODE == "amax":
        return larger(old, new)
    else:
        return smaller(old, new)


@nereid.jit
def indexed(x, other, value, indices, sizes, inner, x_strides, other_strides, index_strides, limits, steps, rows, FIXED: tl.constexpr, UNIT: tl.constexpr,
            MODE: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    """MODE "read": other = x[indices]; "set", "add", "amin", "amax": x[indices] = other, or takes it up atomically.

    other: None for `value`. sizes: outer walked dimensions; inner: the last one; *_strides: of the outer dimensions, then of the inner one. rows: product of
    `sizes`. FIXED: bit k: indices[k] are the same along the inner dimension. UNIT: bits of `x`, `other` and the indices whose last stride is 1. Places that do not exist are
    read as 0 and not written. Grid: rows / BR * inner / BC.
    """
    LAST: tl.constexpr = len(sizes)
    tiles = tl.cdiv(inner, BC)
    program = tl.program_id(0).to(tl.int64)
    r = program // tiles * BR + tl.arange(0, BR)
    c = program % tiles * BC + tl.arange(0, BC)
    inside = (r < rows)[:, None] & (c < inner)[None, :]
    offsets = decoded(r, sizes, (x_strides, other_strides) + index_strides)
    step = c if UNIT & 1 else c * x_strides[LAST]
    place = offsets[0][:, None] + step[None, :]
    for k in tl.static_range(len(indices)):
        if (FIXED >> k) & 1:
            at = wrapped(tl.load(indices[k] + offsets[2 + k], mask=r < rows, other=0), limits[k])[:, None]
        else:
            index_step = c if (UNIT >> (2 + k)) & 1 else c * index_strides[k][LAST]
            at = wrapped(tl.load(indices[k] + offsets[2 + k][:, None] + index_step[None, :], mask=(r < rows)[:, None] & (c < inner)[None, :], other=0), limits[k])
        inside = inside & (at >= 0) & (at < limits[k])
        place += at * steps[k]
    there = (r < rows)[:, None] & (c < inner)[None, :]
    step = c if UNIT & 2 else c * other_strides[LAST]
    its_place = offsets[1][:, None] + step[None, :]
    if MODE == "read":
        tl.store(other + its_place, tl.load(x + place, mask=inside, other=0), mask=there)
    else:
        if other is None:
            new = tl.full([BR, BC], convert(value, x.dtype.element_ty), x.dtype.element_ty)
        else:
            new = tl.load(other + its_place, mask=inside, other=0)
        if MODE == "set":
            tl.store(x + place, new, mask=inside)
        else:
            if other is not None:
                new = (new * convert(value, x.dtype.element_ty)).to(x.dtype.element_ty)
            if MODE == "add":
                tl.atomic_add(x + place, new, mask=inside, sem="relaxed")
            elif MODE == "amax":
                tl.atomic_max(x + place, new, mask=inside, sem="relaxed")
            else:
                tl.atomic_min(x + place, new, mask=inside, sem="relaxed")


@nereid.jit
def indexed_singly(x, other, outside, indices, sizes, inner, x_strides, other_strides, index_strides, limits, steps, share, UNIT: tl.constexpr, ONCE: tl.constexpr,
                   STILL: tl.constexpr, MODE: tl.constexpr, WRAPS: tl.constexpr, COUNT: tl.constexpr):
    """As `indexed`, for CPUs and the modes "read" and "set", one element after the other: addresses that come from memory have to be taken out of registers anyway.

    outside: one byte, set to 1 where an index does not exist (0 is taken in its place); None: all exist. ONCE: bits of the indices whose step is 1; STILL: the last stride of `x` is
    0. WRAPS: some indices may be below 0. COUNT: elements of an iteration; share: elements of a row that a program moves. Grid: (rows, inner / share).
    """
    LAST: tl.constexpr = len(sizes)
    offsets = decoded(tl.program_id(0).to(tl.int64), sizes, (x_strides, other_strides) + index_strides)
    start = tl.program_id(1).to(tl.int64) * share
    end = tl.minimum(inner, start + share)
    whole = start + (end - start) // COUNT * COUNT
    for first in range(start, whole, COUNT):
        for i in tl.static_range(COUNT):
            move_singly(x, other, outside, indices, first + i, offsets, x_strides[LAST], other_strides[LAST], index_strides, limits, steps, UNIT, ONCE, STILL, MODE, WRAPS)
    for c in range(whole, end):
        move_singly(x, other, outside, indices, c, offsets, x_strides[LAST], other_strides[LAST], index_strides, limits, steps, UNIT, ONCE, STILL, MODE, WRAPS)


@nereid.jit
def move_singly(x, other, outside, indices, c, offsets, x_step, other_step, index_strides, limits, steps, UNIT: tl.constexpr, ONCE: tl.constexpr, STILL: tl.constexpr,
                MODE: tl.constexpr, WRAPS: tl.constexpr):
    """Moves one element of `indexed_singly`: number `c` of its row. offsets: of the row."""
    place = offsets[0]
    if not STILL:
        place += c * x_step
    for k in tl.static_range(len(indices)):
        at = tl.load(indices[k] + offsets[2 + k] + (c if (UNIT >> (2 + k)) & 1 else c * index_strides[k][len(index_strides[k]) - 1]))
        at = existing(at, limits[k], outside, WRAPS)
        place += at if (ONCE >> k) & 1 else at * steps[k]
    its_place = offsets[1] + (c if UNIT & 2 else c * other_step)
    if MODE == "read":
        tl.store(other + its_place, tl.load(x + place))
    else:
        tl.store(x + place, tl.load(other + its_place))


@nereid.jit
def accumulated(x, other, value, indices, sizes, x_strides, other_strides, index_strides, numel, turns, turn_sizes, other_turns, index_turns, limits, steps,
                MODE: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """x[indices] = MODE of what is there and of `other` * `value`, one after the other: duplicates are taken in order, so results do not depend on chance.

    Elements of the dimensions `sizes` never meet in one place of `x`; those of `turn_sizes` may. other: None for `value` alone. numel, turns: the products of
    both. *_turns: strides in the latter dimensions. COMPUTE: dtype of one step, rounded to that of `x` each time. Grid: numel / BLOCK.
    """
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < numel
    offsets = decoded(e, sizes, (x_strides, other_strides) + index_strides)
    for turn in range(turns):
        moves = decoded(turn.to(tl.int64), turn_sizes, (other_turns, ) + index_turns)
        inside = mask
        place = offsets[0]
        for k in tl.static_range(len(indices)):
            at = wrapped(tl.load(indices[k] + offsets[2 + k] + moves[1 + k], mask=mask, other=0), limits[k])
            inside = inside & (at >= 0) & (at < limits[k])
            place += at * steps[k]
        if other is None:
            new = tl.full([BLOCK], value, COMPUTE)
        else:
            new = tl.load(other + offsets[1] + moves[0], mask=inside, other=0).to(COMPUTE)
            if MODE == "add":
                new = new * value.to(COMPUTE)
        if MODE == "set":
            write(x + place, new, inside)
        else:
            write(x + place, combined(tl.load(x + place, mask=inside, other=0).to(COMPUTE), new, MODE), inside)
        tl.debug_barrier()


@nereid.jit
def accumulated_singly(x, other, outside, value, indices, sizes, inner, x_strides, other_strides, index_strides, turns, turn_sizes, other_turns, index_turns, limits, steps,
                       MODE: tl.constexpr, COMPUTE: tl.constexpr, SCALED: tl.constexpr, WRAPS: tl.constexpr, ONCE: tl.constexpr, FLAT: tl.constexpr, LAST_UNIT: tl.constexpr):
    """As `accumulated`, for CPUs and elements that do not lie side by side: a program takes those of one place in the dimensions in which elements never meet.

    sizes, inner: of these dimensions; *_strides: of `sizes`, then of `inner`. outside, WRAPS, ONCE: as for `indexed_singly`. SCALED: `value` is not 1. FLAT: there is one dimension of
    turns; LAST_UNIT: bits of `other` and the indices whose stride is 1 there. Grid: (product of `sizes`, inner).
    """
    LAST: tl.constexpr = len(sizes)
    offsets = decoded(tl.program_id(0).to(tl.int64), sizes, (x_strides, other_strides) + index_strides)
    c = tl.program_id(1).to(tl.int64)
    for turn in range(turns):
        if FLAT:
            moves = (turn if LAST_UNIT & 1 else turn * other_turns[0], )
            for k in tl.static_range(len(indices)):
                moves += (turn if (LAST_UNIT >> (1 + k)) & 1 else turn * index_turns[k][0], )
        else:
            moves = decoded(turn.to(tl.int64), turn_sizes, (other_turns, ) + index_turns)
        place = offsets[0] + c * x_strides[LAST]
        for k in tl.static_range(len(indices)):
            at = tl.load(indices[k] + (offsets[2 + k] + c * index_strides[k][LAST]) + moves[1 + k])
            at = existing(at, limits[k], outside, WRAPS)
            place += at if (ONCE >> k) & 1 else at * steps[k]
        if other is None:
            new = value.to(COMPUTE)
        else:
            new = tl.load(other + (offsets[1] + c * other_strides[LAST]) + moves[0]).to(COMPUTE)
            if SCALED:
                new = new * value.to(COMPUTE)
        if MODE != "set":
            new = combined(tl.load(x + place).to(COMPUTE), new, MODE)
        write(x + place, new, None)


@nereid.jit
def change(pointer, other, offset, value, mask, MODE: tl.constexpr, COMPUTE: tl.constexpr):
    """The elements at `pointer` take up those of `other` at `offset`, or `value` where there is no other. mask: None for one element that exists."""
    if other is None:
        new = tl.full(offset.shape, value, COMPUTE)
    else:
        new = (tl.load(other + offset) if mask is None else tl.load(other + offset, mask=mask, other=0)).to(COMPUTE)
        if MODE == "add":
            new = new * value.to(COMPUTE)
    if MODE != "set":
        new = combined((tl.load(pointer) if mask is None else tl.load(pointer, mask=mask, other=0)).to(COMPUTE), new, MODE)
    write(pointer, new, mask)


@nereid.jit
def accumulated_lines(x, other, value, indices, sizes, inner, x_strides, other_strides, index_strides, turns, turn_sizes, other_turns, index_turns, limits, steps,
                      MODE: tl.constexpr, COMPUTE: tl.constexpr, FIXED: tl.constexpr, UNIT: tl.constexpr, BLOCK: tl.constexpr):
    """As `accumulated`, for CPUs: a program has BLOCK neighbours along the last of the dimensions in which elements never meet, so that places take one division for all
    of them, and rows of memory are read and written as vectors.

    sizes: the other ones of these dimensions; inner: the last one. *_strides: of `sizes`, then of `inner`. FIXED, UNIT: as for `indexed`. With BLOCK == 1 elements
    are scalars. Grid: (product of `sizes`, inner / BLOCK).
    """
    LAST: tl.constexpr = len(sizes)
    offsets = decoded(tl.program_id(0).to(tl.int64), sizes, (x_strides, other_strides) + index_strides)
    if BLOCK == 1:
        c = tl.program_id(1).to(tl.int64)
        mask = None
    else:
        c = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        mask = c < inner
    base = offsets[0] + (c if UNIT & 1 else c * x_strides[LAST])
    its_base = offsets[1] + (c if UNIT & 2 else c * other_strides[LAST])
    for turn in range(turns):
        moves = decoded(turn.to(tl.int64), turn_sizes, (other_turns, ) + index_turns)
        inside = (turn >= 0) if BLOCK == 1 else mask
        place = base
        for k in tl.static_range(len(indices)):
            if BLOCK == 1:
                at = wrapped(tl.load(indices[k] + offsets[2 + k] + moves[1 + k] + c * index_strides[k][LAST]), limits[k])
            elif (FIXED >> k) & 1:
                at = wrapped(tl.load(indices[k] + offsets[2 + k] + moves[1 + k]), limits[k])
            else:
                step = c if (UNIT >> (2 + k)) & 1 else c * index_strides[k][LAST]
                at = wrapped(tl.load(indices[k] + offsets[2 + k] + moves[1 + k] + step, mask=mask, other=0), limits[k])
            inside = inside & (at.to(tl.uint64) < limits[k])
            place += at * steps[k]
        if BLOCK > 1:
            change(x + place, other, its_base + moves[0], value, inside, MODE, COMPUTE)
        elif inside:
            change(x + place, other, its_base + moves[0], value, None, MODE, COMPUTE)


@nereid.jit
def spots(out, indices, sizes, index_strides, limits, steps, numel, BLOCK: tl.constexpr):
    """The sum over k of indices[k][e] * steps[k] for each element, or -1 where one of the indices does not exist."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < numel
    offsets = decoded(e, sizes, index_strides)
    there = mask
    place = e * 0
    for k in tl.static_range(len(indices)):
        at = wrapped(tl.load(indices[k] + offsets[k], mask=mask, other=0), limits[k])
        there = there & (at >= 0) & (at < limits[k])
        place += at * steps[k]
    tl.store(out + e, tl.where(there, place, -1), mask=mask)


@nereid.jit
def grouped(x, other, spots, order, count, sizes, x_strides, other_strides, numel, turn_sizes, other_turns, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """Adds to each spot of `x` the elements of `other` that belong to it, in order, by one program: the one of the spot's first entry among the sorted `spots`.

    order: where each was before; count: how many there are. sizes, *_strides, numel: of the dimensions in which elements never meet. turn_sizes, other_turns: of
    the walked ones. Grid: (count, numel / BLOCK).
    """
    first = tl.program_id(0).to(tl.int64)
    spot = tl.load(spots + first)
    before = tl.load(spots + tl.maximum(first - 1, 0))
    if (spot >= 0) & ((first == 0) | (before != spot)):
        e = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        mask = e < numel
        offsets = decoded(e, sizes, (x_strides, other_strides))
        total = tl.load(x + spot + offsets[0], mask=mask, other=0).to(COMPUTE)
        place = first
        now = spot
        while now == spot:
            move = decoded(tl.load(order + place), turn_sizes, (other_turns, ))[0]
            total += tl.load(other + offsets[1] + move, mask=mask, other=0).to(COMPUTE)
            place += 1
            now = tl.load(spots + tl.minimum(place, count - 1))
            if place >= count:
                now = spot - 1
        write(x + spot + offsets[0], total, mask)


# Selected elements of a tensor: counted in blocks, then written one after the other


@nereid.jit
def counts(result, x, sizes, strides, numel, BLOCK: tl.constexpr):
    """How many elements of each block of a tensor are not 0."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + decoded(e, sizes, (strides, ))[0], mask=e < numel, other=0)
    tl.store(result + tl.program_id(0), tl.sum(tl.where(value != 0, 1, 0).to(tl.int64), 0))


@nereid.jit
def rank(x, ends, e, sizes, strides, numel):
    """(whether elements are not 0, how many such are before each). ends: the running sums of `counts`."""
    kept = (tl.load(x + decoded(e, sizes, (strides, ))[0], mask=e < numel, other=0) != 0) & (e < numel)
    before = tl.load(ends + tl.program_id(0) - 1, mask=tl.program_id(0) > 0, other=0)
    ones = tl.where(kept, 1, 0)
    return kept, before + (tl.cumsum(ones, 0) - ones).to(tl.int64)


@nereid.jit
def selected(out, x, mask, ends, sizes, x_strides, mask_strides, numel, out_stride, BLOCK: tl.constexpr):
    """out = the elements of `x` where `mask` is not 0, in row-major order."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    kept, place = rank(mask, ends, e, sizes, mask_strides, numel)
    tl.store(out + place * out_stride, tl.load(x + decoded(e, sizes, (x_strides, ))[0], mask=kept, other=0), mask=kept)


@nereid.jit
def refilled(x, mask, source, ends, sizes, x_strides, mask_strides, numel, available, BLOCK: tl.constexpr):
    """Elements of `x` where `mask` is not 0 become those of `source`, contiguous, one after the other."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    kept, place = rank(mask, ends, e, sizes, mask_strides, numel)
    kept = kept & (place < available)
    tl.store(x + decoded(e, sizes, (x_strides, ))[0], tl.load(source + place, mask=kept, other=0), mask=kept)


@nereid.jit
def coordinates(out, x, ends, shape, sizes, strides, numel, row_stride, column_stride, room, BLOCK: tl.constexpr):
    """A row of `out` for each element that is not 0: its place in each dimension of `shape`. room: the number of rows."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    kept, place = rank(x, ends, e, sizes, strides, numel)
    kept = kept & (place < room)
    rest = e
    for i in tl.static_range(len(shape)):
        d: tl.constexpr = len(shape) - 1 - i
        tl.store(out + place * row_stride + d * column_stride, rest % shape[d], mask=kept)
        rest = rest // shape[d]
