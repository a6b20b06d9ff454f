"""Kernels that order the elements of rows: blocks are ordered by a bitonic sort, those of 64-bit elements by counting, sorted runs are merged by binary
searches, on CPUs element by element, where programs begin at places of the merged run ("merge path", Green, McColl and Bader 2012). Stable, without atomics.

Elements are compared by keys, integers in the same order: -0.0 equals 0.0, NaN is above all. A run may keep its first elements only, which makes the greatest k
of a row cheap.
"""

import nereid
import nereid.language as tl

from ._shared import write
from .indexing import decoded


@nereid.jit
def key_of(x, DESCENDING: tl.constexpr):
    """Integers (int32, int64 for 64-bit elements) whose order is that of `x`, or its reverse."""
    if x.dtype.is_floating():
        if x.dtype == tl.float64:
            INT: tl.constexpr = tl.int64
            MOST: tl.constexpr = 0x7fffffffffffffff
        else:
            x = x.to(tl.float32)
            INT: tl.constexpr = tl.int32
            MOST: tl.constexpr = 0x7fffffff
        pattern = tl.where(x == 0, 0, x.to(INT, bitcast=True)).to(INT)
        key = tl.where(pattern < 0, pattern ^ MOST, pattern)
        key = tl.where(x != x, MOST, key).to(INT)
    elif x.dtype == tl.int64:
        key = x
    else:
        key = x.to(tl.int32)
    if DESCENDING:
        key = -1 - key
    return key


@nereid.jit
def finish(values, indices, x, row, place, element, value_base, index_base, x_base, value_stride, index_stride, x_stride, first, count, mask):
    """Writes the element `element` of the input as number `place` of the results, if that is one of the `count` from `first`."""
    mask = mask & (place >= first) & (place < first + count)
    if values is not None:
        tl.store(values + value_base + (place - first) * value_stride, tl.load(x + x_base + element * x_stride, mask=mask, other=0), mask=mask)
    if indices is not None:
        write(indices + index_base + (place - first) * index_stride, element, mask)


@nereid.jit
def sort_by_rank(values, indices, x, sizes, x_strides, value_strides, index_strides, length, x_stride, value_stride, index_stride, first, count, DESCENDING: tl.constexpr, BLOCK: tl.constexpr,
                 CHUNK: tl.constexpr):
    """Puts each of BLOCK elements of a row at the place that is the number of elements before it in the sorted row. Grid: blocks of all rows.

    sizes, x_strides, value_strides, index_strides: of the dimensions of the rows; x_stride, ...: along a row. first, count: which elements of a sorted row are wanted. CHUNK: with how many
    each is compared at once.
    """
    blocks = tl.cdiv(length, BLOCK)
    row = tl.program_id(0).to(tl.int64) // blocks
    offsets = decoded(row, sizes, (x_strides, value_strides, index_strides))
    i = tl.program_id(0).to(tl.int64) % blocks * BLOCK + tl.arange(0, BLOCK)
    inside = i < length
    own = key_of(tl.load(x + offsets[0] + i * x_stride, mask=inside, other=0), DESCENDING)[:, None]
    found = tl.zeros((BLOCK, CHUNK), tl.int32)
    for start in range(0, length, CHUNK):
        j = start + tl.arange(0, CHUNK)
        other = key_of(tl.load(x + offsets[0] + j * x_stride, mask=j < length, other=0), DESCENDING)[None, :]
        before = (other < own) | ((other == own) & (j[None, :] < i[:, None]))
        found += (before & (j < length)[None, :]).to(tl.int32)
    place = tl.sum(found, 1).to(tl.int64)
    finish(values, indices, x, row, place, i, offsets[1], offsets[2], offsets[0], value_stride, index_stride, x_stride, first, count, inside)


@nereid.jit
def short_key(x, DESCENDING: tl.constexpr):
    """As `key_of`, for elements of up to 16 bits: int32 from -2^15 to 2^15 - 1."""
    if x.dtype.is_floating():
        pattern = tl.where(x == 0, 0, x.to(tl.int16, bitcast=True)).to(tl.int32)
        key = tl.where(pattern < 0, pattern ^ 0x7fff, pattern)
        key = tl.where(x != x, 0x7fff, key)
    else:
        key = x.to(tl.int32)
    if DESCENDING:
        key = -1 - key
    return key


@nereid.jit
def packed_key(x, lane, DESCENDING: tl.constexpr):
    """An integer for each element whose order is that of `x`, or its reverse, and of `lane` (below 2^16) among equal elements: int32 for elements of up to 16 bits, with the
    key above 16 bits of `lane`, else int64."""
    if x.dtype.primitive_bitwidth <= 16:
        return (short_key(x, DESCENDING) << 16) | lane
    else:
        return (key_of(x, DESCENDING).to(tl.int64) << 32) | lane.to(tl.int64)


@nereid.jit
def by_lower_half(key, lane, there):
    """Integers whose order is that of the lower 32 bits of int64 keys, without a sign, and of `lane` (below 2^16) among equal ones; the greatest where the mask is false."""
    packed = ((key << 32) ^ -0x8000000000000000) | lane.to(tl.int64)
    return tl.where(there, packed, 0x7fffffffffffffff)


@nereid.jit
def sort_tiles(keys, order, values, indices, x, sizes, x_strides, value_strides, index_strides, rows, length, x_stride, value_stride, index_stride, first, count, run,
               new_length, LAST: tl.constexpr, DESCENDING: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Sorts blocks of rows of `x`, several in a program, each in registers. 64-bit elements are sorted by their lower 32 bits, then by the upper ones: blocks of at most 2^16.

    LAST: a row is one block, and results are written; else keys and places of the first `run` elements of each block, to keys, order: (rows, new_length). Sizes, strides, first, count: as for `sort_by_rank`.
    UNIT: bits of `x`, `values` and `indices` whose stride along a row is 1. Grid: blocks / ROWS.
    """
    tile = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    if LAST:
        row = tile
        start = tile * 0
    else:
        blocks = tl.cdiv(length, BLOCK)
        row = tile // blocks
        start = tile % blocks * BLOCK
    offsets = decoded(row, sizes, (x_strides, value_strides, index_strides))
    lane = tl.arange(0, BLOCK)[None, :]
    there = (row < rows)[:, None] & (lane < (length - start)[:, None])
    step = lane if UNIT & 1 else lane * x_stride
    loaded = tl.load(x + (offsets[0] + start * x_stride)[:, None] + step, mask=there, other=0)
    WIDE: tl.constexpr = x.dtype.element_ty.primitive_bitwidth == 64
    base = offsets[0] + start * x_stride
    if WIDE:
        packed = tl.sort(by_lower_half(key_of(loaded, DESCENDING), lane, there))
        own = (packed & 0xffff).to(tl.int32)
        key = key_of(tl.load(x + base[:, None] + own * x_stride, mask=there, other=0), DESCENDING)
        packed = (key & -0x100000000) | (lane << 16).to(tl.int64) | own.to(tl.int64)
    else:
        packed = packed_key(loaded, lane, DESCENDING)
    SHIFT: tl.constexpr = 16 if packed.dtype == tl.int32 or WIDE else 32
    packed = tl.where(there, packed, 0x7fffffff if packed.dtype == tl.int32 else 0x7fffffffffffffff)
    packed = tl.sort(packed)
    element = start[:, None] + (packed & ((1 << SHIFT) - 1))
    if LAST:
        there = there & (lane >= first) & (lane < first + count)
        place = lane - first
        if values is not None:
            to = place if UNIT & 2 else place * value_stride
            value = tl.load(x + offsets[0][:, None] + element * x_stride, mask=there, other=0)
            tl.store(values + offsets[1][:, None] + to, value, mask=there)
        if indices is not None:
            to = place if UNIT & 4 else place * index_stride
            tl.store(indices + offsets[2][:, None] + to, element.to(tl.int64), mask=there)
    else:
        kept = there & (lane < run)
        to = (row * new_length + start // BLOCK * run)[:, None] + lane
        if WIDE:
            key = key_of(tl.load(x + offsets[0][:, None] + element * x_stride, mask=kept, other=0), DESCENDING)
        else:
            key = packed >> SHIFT
        tl.store(keys + to, key.to(keys.dtype.element_ty), mask=kept)
        tl.store(order + to, element.to(tl.int32), mask=kept)


@nereid.jit
def merge(new_keys, new_order, keys, order, values, indices, x, sizes, x_strides, value_strides, index_strides, rows, length, x_stride, value_stride, index_stride,
          first, count, run, new_run, new_length, steps, LAST: tl.constexpr, BLOCK: tl.constexpr):
    """Merges neighbouring runs of `run` elements of rows (rows, length) into runs that keep `new_run`; with LAST there are two, and results are written.

    steps: at least log2(run) + 1. Others: as for `sort_by_rank`. Grid: rows * length / BLOCK.
    """
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < rows * length
    row = e // length
    p = e - row * length
    own_run = p // run
    i = p - own_run * run
    right = own_run % 2 == 1
    start = tl.where(right, own_run - 1, own_run + 1) * run
    key = tl.load(keys + e, mask=mask, other=0)
    element = tl.load(order + e, mask=mask, other=0)
    low = tl.minimum(start, length)
    high = tl.minimum(start + run, length)
    start = low
    for _ in range(steps):
        middle = (low + high) // 2
        open = mask & (low < high)
        found = tl.load(keys + row * length + middle, mask=open, other=0)
        after = (found < key) | (right & (found == key))
        low = tl.where(open & after, middle + 1, low)
        high = tl.where(open & (after == 0), middle, high)
    place = i + low - start
    if LAST:
        offsets = decoded(row, sizes, (x_strides, value_strides, index_strides))
        finish(values, indices, x, row, place, element.to(tl.int64), offsets[1], offsets[2], offsets[0], value_stride, index_stride, x_stride, first, count, mask)
    else:
        kept = mask & (place < new_run)
        to = row * new_length + own_run // 2 * new_run + place
        tl.store(new_keys + to, key, mask=kept)
        tl.store(new_order + to, element, mask=kept)


@nereid.jit
def from_left(keys, left, left_length, right, right_length, place):
    """How many of the first `place` elements of two merged runs are of the left one, which begins at keys[left]."""
    low = tl.maximum(place - right_length, 0)
    high = tl.minimum(place, left_length)
    while low < high:
        middle = (low + high) // 2
        if tl.load(keys + left + middle) <= tl.load(keys + right + place - 1 - middle):
            low = middle + 1
        else:
            high = middle
    return low


@nereid.jit
def merge_step(new_keys, new_order, keys, order, values, indices, x, i, j, left_end, right_end, last, to, value_stride, index_stride, x_stride, LAST: tl.constexpr):
    """Moves the lesser one of keys[i] and keys[j], the left one of equal ones, to place `to`; returns what i and j are next. last: where keys end."""
    a = tl.load(keys + tl.minimum(i, last))
    b = tl.load(keys + tl.minimum(j, last))
    right = (j < right_end) & ((i >= left_end) | (b < a))
    element = tl.load(order + tl.where(right, j, i))
    if LAST:
        if values is not None:
            tl.store(values + to * value_stride, tl.load(x + element.to(tl.int64) * x_stride))
        if indices is not None:
            tl.store(indices + to * index_stride, element.to(tl.int64))
    else:
        tl.store(new_keys + to, tl.where(right, b, a))
        tl.store(new_order + to, element)
    return i + (right == 0).to(tl.int64), j + right.to(tl.int64)


@nereid.jit
def merge_parts(new_keys, new_order, keys, order, values, indices, x, sizes, x_strides, value_strides, index_strides, length, x_stride, value_stride, index_stride,
                first, count, run, new_run, new_length, LAST: tl.constexpr, PART: tl.constexpr):
    """As `merge`, of which it writes the elements number `first` to `first + count - 1` of each merged run (not LAST: `first` is 0): PART of them in a program, in four streams, since each element waits
    for the one before. Grid: (programs of a run, runs of a row, rows)."""
    row = tl.program_id(2).to(tl.int64)
    pair = tl.program_id(1).to(tl.int64)
    keys += row * length
    order += row * length
    left = pair * 2 * run
    right = tl.minimum(left + run, length)
    left_length = right - left
    right_length = tl.minimum(run, length - right)
    begin = first + tl.program_id(0).to(tl.int64) * PART
    end = tl.minimum(tl.minimum(begin + PART, first + count), left_length + right_length)
    turns = (tl.maximum(end - begin, 0) + 3) // 4
    if LAST:
        offsets = decoded(row, sizes, (x_strides, value_strides, index_strides))
        x += offsets[0]
        if values is not None:
            values += offsets[1] - first * value_stride
        if indices is not None:
            indices += offsets[2] - first * index_stride
    else:
        new_keys += row * new_length + pair * new_run
        new_order += row * new_length + pair * new_run
    # Where four do not divide the elements, streams write some of the next one's, too.
    p0 = begin
    p1 = tl.minimum(begin + turns, end - turns)
    p2 = tl.minimum(begin + 2 * turns, end - turns)
    p3 = tl.maximum(end - turns, begin)
    i0 = left + from_left(keys, left, left_length, right, right_length, p0)
    i1 = left + from_left(keys, left, left_length, right, right_length, p1)
    i2 = left + from_left(keys, left, left_length, right, right_length, p2)
    i3 = left + from_left(keys, left, left_length, right, right_length, p3)
    j0 = right + p0 - (i0 - left)
    j1 = right + p1 - (i1 - left)
    j2 = right + p2 - (i2 - left)
    j3 = right + p3 - (i3 - left)
    until = right + right_length
    for t in range(turns):
        i0, j0 = merge_step(new_keys, new_order, keys, order, values, indices, x, i0, j0, right, until, length - 1, p0 + t, value_stride, index_stride, x_stride, LAST)
        i1, j1 = merge_step(new_keys, new_order, keys, order, values, indices, x, i1, j1, right, until, length - 1, p1 + t, value_stride, index_stride, x_stride, LAST)
        i2, j2 = merge_step(new_keys, new_order, keys, order, values, indices, x, i2, j2, right, until, length - 1, p2 + t, value_stride, index_stride, x_stride, LAST)
        i3, j3 = merge_step(new_keys, new_order, keys, order, values, indices, x, i3, j3, right, until, length - 1, p3 + t, value_stride, index_stride, x_stride, LAST)


@nereid.jit
def changes(out, x, numel, BLOCK: tl.constexpr):
    """Whether each element of a contiguous tensor differs from the one before: 1 or 0 as bytes; the first one does."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < numel
    now = tl.load(x + e, mask=mask, other=0)
    before = tl.load(x + e - 1, mask=mask & (e > 0), other=0)
    tl.store(out + e, tl.where((e == 0) | (now != before), 1, 0).to(tl.uint8), mask=mask)


@nereid.jit
def groups(inverse, numbers, order, numel, BLOCK: tl.constexpr):
    """inverse[order[e]] = numbers[e] - 1; without `order` in place."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < numel
    number = tl.load(numbers + e, mask=mask, other=1) - 1
    if order is None:
        tl.store(inverse + e, number, mask=mask)
    else:
        tl.store(inverse + tl.load(order + e, mask=mask, other=0), number, mask=mask)


@nereid.jit
def lengths(out, starts, count, numel, BLOCK: tl.constexpr):
    """How many elements are from each start to the next one, or to `numel`."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < count
    end = tl.load(starts + e + 1, mask=e + 1 < count, other=0)
    tl.store(out + e, tl.where(e + 1 < count, end, numel) - tl.load(starts + e, mask=mask, other=0), mask=mask)


@nereid.jit
def searched(out, values, sorted, order, numel, length, row_length, rows, steps, RIGHT: tl.constexpr, BLOCK: tl.constexpr):
    """For each value the first place in its row of `sorted` whose element is not below it (RIGHT: is above it); a NaN on either side sends the search to the right.

    values: None for the numbers 0, 1, ...; all tensors are contiguous. length: of rows of `sorted`; row_length: how many values belong to a row; rows: how many rows
    there are, 1 for all values. order: what sorts the rows, or None. steps: at least log2(length) + 1.
    """
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < numel
    if values is None:
        value = e
    else:
        value = tl.load(values + e, mask=mask, other=0)
    row = e * 0
    if rows > 1:
        row = e // row_length * length
    low = e * 0
    high = low + length
    for _ in range(steps):
        middle = (low + high) // 2
        open = mask & (low < high)
        if order is None:
            found = tl.load(sorted + row + middle, mask=open, other=0)
        else:
            found = tl.load(sorted + row + tl.load(order + row + middle, mask=open, other=0), mask=open, other=0)
        if RIGHT:
            before = found > value
        else:
            before = found >= value
        low = tl.where(open & (before == 0), middle + 1, low)
        high = tl.where(open & before, middle, high)
    write(out + e, low, mask)


@nereid.jit
def member(out, values, sorted, numel, length, steps, INVERT: tl.constexpr, BLOCK: tl.constexpr):
    """Whether each value is in `sorted` (with INVERT: is not)."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < numel
    value = tl.load(values + e, mask=mask, other=0)
    low = e * 0
    high = low + length
    for _ in range(steps):
        middle = (low + high) // 2
        open = mask & (low < high)
        before = tl.load(sorted + middle, mask=open, other=0) >= value
        low = tl.where(open & (before == 0), middle + 1, low)
        high = tl.where(open & before, middle, high)
    there = mask & (low < length)
    found = there & (tl.load(sorted + low, mask=there, other=0) == value)
    if INVERT:
        found = found == 0
    tl.store(out + e, found, mask=mask)


@nereid.jit
def bins(out, x, weights, numel, x_stride, weight_stride, low, high, count, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """Adds 1, or the weight, to the bin of each number: `count` equal bins from `low` to `high`, or with COMPUTE None the bin x."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < numel
    value = tl.load(x + e * x_stride, mask=mask, other=0)
    if COMPUTE is None:
        place = value.to(tl.int64)
        mask = mask & (place >= 0) & (place < count)
    else:
        value = value.to(COMPUTE)
        mask = mask & (value >= low.to(COMPUTE)) & (value <= high.to(COMPUTE))
        value = tl.where(mask, value, low.to(COMPUTE))
        place = ((value - low.to(COMPUTE)) * count.to(COMPUTE) / (high.to(COMPUTE) - low.to(COMPUTE))).to(tl.int64)
        place = tl.minimum(place, count - 1)
    if weights is None:
        tl.atomic_add(out + place, tl.full([BLOCK], 1, tl.int64), mask=mask, sem="relaxed")
    else:
        tl.atomic_add(out + place, tl.load(weights + e * weight_stride, mask=mask, other=0).to(out.dtype.element_ty), mask=mask, sem="relaxed")


@nereid.jit
def medians(values, places, ordered, order, length, rows, steps, IGNORE: tl.constexpr, BLOCK: tl.constexpr):
    """Of each sorted row the element in the middle, the lower one of two, and its place. Not-a-numbers come last: the last one is the result, or with IGNORE they do not count.

    ordered, order: (rows, length), contiguous, `order` may be None. Grid: rows / BLOCK.
    """
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = row < rows
    base = row * length
    count = length + row * 0
    if ordered.dtype.element_ty.is_floating():
        if IGNORE:
            low = row * 0
            for _ in range(steps):
                middle = (low + count) // 2
                open = mask & (low < count)
                x = tl.load(ordered + base + middle, mask=open, other=0)
                low = tl.where(open & (x == x), middle + 1, low)
                count = tl.where(open & (x != x), middle, count)
        else:
            last = tl.load(ordered + base + length - 1, mask=mask, other=0)
            count = tl.where(last != last, 2 * length - 1, length)
    chosen = tl.maximum(count - 1, 0) // 2
    tl.store(values + row, tl.load(ordered + base + chosen, mask=mask, other=0), mask=mask)
    if places is not None:
        tl.store(places + row, tl.load(order + base + chosen, mask=mask, other=0), mask=mask)


@nereid.jit
def later(a, b):
    return tl.maximum(a, b)


@nereid.jit
def modes(values, places, ordered, order, length, BLOCK: tl.constexpr):
    """Of each sorted row the element that occurs most often, the least one of several, and a place of it. Grid: rows; everything else as for `medians`."""
    base = tl.program_id(0).to(tl.int64) * length
    start = tl.full((), 0, tl.int32)
    longest = tl.full((), 0, tl.int32)
    at = tl.full((), 0, tl.int32)
    for first in range(0, length.to(tl.int32), BLOCK):
        e = first + tl.arange(0, BLOCK)
        mask = e < length
        x = tl.load(ordered + base + e, mask=mask, other=0)
        before = tl.load(ordered + base + e - 1, mask=mask & (e > 0), other=0)
        starts = tl.maximum(tl.associative_scan(tl.where((e == 0) | (x != before), e, 0), 0, later), start)
        run = tl.where(mask, e - starts + 1, 0)
        most = tl.max(run, 0)
        its = tl.min(tl.where(run == most, e, 2147483647), 0)
        at = tl.where(most > longest, its, at)
        longest = tl.maximum(longest, most)
        start = tl.max(starts, 0)
    tl.store(values + tl.program_id(0), tl.load(ordered + base + at))
    tl.store(places + tl.program_id(0), tl.load(order + base + at))
