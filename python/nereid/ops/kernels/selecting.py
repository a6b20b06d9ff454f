"""Kernels that find the elements of rows by rank without sorting the rows: a block of keys stays in registers, and a search over the bits of a key counts
how many are below it (the radix selection of Alabi et al. 2012, one bit a turn).

Elements are compared by keys as in kernels/sorting.py. Of equal elements the first ones are taken.
"""

import nereid
import nereid.language as tl

from .indexing import decoded
from .sorting import by_lower_half, key_of, short_key


@nereid.jit
def keys_of(x, inside, DESCENDING: tl.constexpr):
    """int32 keys, those of 16 bits for elements of up to 16 bits, int64 for 64-bit elements; the greatest where the mask is false."""
    if x.dtype.primitive_bitwidth <= 16:
        return tl.where(inside, short_key(x, DESCENDING), 0x7fff)
    elif x.dtype.primitive_bitwidth == 32:
        return tl.where(inside, key_of(x, DESCENDING), 0x7fffffff)
    else:
        return tl.where(inside, key_of(x, DESCENDING), 0x7fffffffffffffff)


@nereid.jit
def rank_of(key, wanted, BITS: tl.constexpr):
    """(the key number `wanted` of a block, from 1 on, in ascending order; how many keys are less). BITS: of a key. The greatest key never counts as less.
    """
    # All bits are walked through, whatever is found: a loop of a number of turns that memory decides would cost more around its shuffles.
    bound = tl.full((), -(1 << (BITS - 1)), key.dtype)
    below = tl.full((), 0, tl.int32)
    pivot = tl.full((), 0, key.dtype)
    step = tl.full((), 1 << (BITS - 2), key.dtype)
    for _ in range(BITS):
        count = tl.sum((key < pivot).to(tl.int32), 0)
        reached = count < wanted
        bound = tl.where(reached, pivot, bound)
        below = tl.where(reached, count, below)
        pivot = bound + step
        step = step >> 1
    return bound, below


@nereid.jit
def rank_in(key, wanted, BITS: tl.constexpr, HALVES: tl.constexpr):
    """`rank_of`; with HALVES of int64 keys by their upper 32 bits first, then by the lower ones: CPUs compare twice as many in a register."""
    if HALVES:
        upper = (key >> 32).to(tl.int32)
        bound, below = rank_of(upper, wanted, 32)
        lower = tl.where(upper == bound, ((key & 0xffffffff) - 0x80000000).to(tl.int32), 0x7fffffff)
        last, further = rank_of(lower, wanted - below, 32)
        return (bound.to(tl.int64) << 32) + (last.to(tl.int64) + 0x80000000), below + further
    else:
        return rank_of(key, wanted, BITS)


@nereid.jit
def choose(new_keys, new_order, keys, order, x, sizes, x_strides, length, x_stride, wanted, new_length, FIRST: tl.constexpr, DESCENDING: tl.constexpr, UNIT: tl.constexpr,
           BITS: tl.constexpr, HALVES: tl.constexpr, BLOCK: tl.constexpr):
    """Of each block of a row the `wanted` elements that come first in the order of their keys, in the order of their places. Grid: rows * length / BLOCK.

    FIRST: rows are those of `x`: sizes, x_strides: of their dimensions, x_stride: along a row, UNIT: it is 1. Else rows are (rows, length) of `keys`, and `order` has their
    places in `x`. new_keys, new_order: (rows, new_length), each block has `wanted` of them. BITS: of a key, 16, 32 or 64; HALVES: see `rank_in`; BLOCK: at most 16,384.
    """
    blocks = tl.cdiv(length, BLOCK)
    row = tl.program_id(0).to(tl.int64) // blocks
    block = tl.program_id(0).to(tl.int64) % blocks
    lane = tl.arange(0, BLOCK)
    begin = block * BLOCK
    inside = lane < tl.minimum(length - begin, BLOCK).to(tl.int32)
    if FIRST:
        base = decoded(row, sizes, (x_strides, ))[0] + begin * (1 if UNIT else x_stride)
        key = keys_of(tl.load(x + base + (lane if UNIT else lane * x_stride), mask=inside, other=0), inside, DESCENDING)
    else:
        key = tl.load(keys + row * length + begin + lane, mask=inside, other=0)
        key = tl.where(inside, key, 0x7fff if BITS == 16 else 0x7fffffff if BITS == 32 else 0x7fffffffffffffff)
    bound, below = rank_in(key, wanted.to(tl.int32), BITS, HALVES)
    less = key < bound
    tie = (key == bound) & inside
    # Both are counted in one scan, 16 bits each.
    counts = less.to(tl.int32) + (tie.to(tl.int32) << 16)
    before = tl.cumsum(counts, 0) - counts
    missing = (wanted - below).to(tl.int32)
    ties = before >> 16
    place = (before & 0xffff) + tl.minimum(ties, missing)
    to = row * new_length + block * wanted
    taken = less | (tie & (ties < missing))
    tl.store(new_keys + to + place, key, mask=taken)
    if FIRST:
        element = begin.to(tl.int32) + lane
    else:
        element = tl.load(order + row * length + begin + lane, mask=taken, other=0)
    tl.store(new_order + to + place, element, mask=taken)


@nereid.jit
def sort_chosen(values, indices, x, keys, order, sizes, x_strides, value_strides, index_strides, rows, length, x_stride, value_stride, index_stride, count,
                UNIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Writes the first `count` elements of the sorted rows of `keys` (rows, length), of at most BLOCK elements, and their places in rows of `x`.

    order: the places, ascending among equal keys. UNIT: bits of `values` and `indices` whose stride along a row is 1. Others: as for `sort_tiles`. Grid: rows / ROWS.
    """
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    offsets = decoded(row, sizes, (x_strides, value_strides, index_strides))
    lane = tl.arange(0, BLOCK)[None, :]
    there = (row < rows)[:, None] & (lane < length)
    key = tl.load(keys + (row * length)[:, None] + lane, mask=there, other=0)
    if key.dtype == tl.int64:
        own = tl.sort(by_lower_half(key, lane, there)) & 0xffff
        key = tl.load(keys + (row * length)[:, None] + own, mask=there, other=0)
        packed = tl.sort(tl.where(there, (key & -0x100000000) | (lane << 16).to(tl.int64) | own, 0x7fffffffffffffff)) & 0xffff
    else:
        packed = tl.sort(tl.where(there, (key.to(tl.int64) << 32) | lane.to(tl.int64), 0x7fffffffffffffff)) & 0xffffffff
    there = there & (lane < count)
    element = tl.load(order + (row * length)[:, None] + packed, mask=there, other=0).to(tl.int64)
    if values is not None:
        to = lane if UNIT & 1 else lane * value_stride
        tl.store(values + offsets[1][:, None] + to, tl.load(x + offsets[0][:, None] + element * x_stride, mask=there, other=0), mask=there)
    if indices is not None:
        to = lane if UNIT & 2 else lane * index_stride
        tl.store(indices + offsets[2][:, None] + to, element, mask=there)


@nereid.jit
def nth(values, indices, x, sizes, x_strides, value_strides, index_strides, length, x_stride, number, MODE: tl.constexpr, UNIT: tl.constexpr, BITS: tl.constexpr,
        HALVES: tl.constexpr, BLOCK: tl.constexpr):
    """Writes one element of each row of `x`, of at most BLOCK elements, and its place: the one number `number` (from 0 on) of the sorted row (MODE "rank"), the middle one, the lower one
    of two, where not-a-numbers make the last one the result ("median") or do not count ("nanmedian"). Grid: rows.

    sizes, *_strides: of the dimensions of the rows; x_stride: along a row, UNIT: it is 1. indices: may be None.
    """
    row = tl.program_id(0).to(tl.int64)
    offsets = decoded(row, sizes, (x_strides, value_strides, index_strides))
    i = tl.arange(0, BLOCK)
    inside = i < length.to(tl.int32)
    its = tl.load(x + offsets[0] + (i if UNIT else i * x_stride), mask=inside, other=0)
    key = keys_of(its, inside, False)
    if MODE == "rank":
        wanted = (number + 1).to(tl.int32)
    else:
        count = length.to(tl.int32)
        wanted = (count - 1) // 2 + 1
        if x.dtype.element_ty.is_floating():
            strange = tl.sum((inside & (its != its)).to(tl.int32), 0)
            if MODE == "median":
                wanted = tl.where(strange > 0, count, wanted)
            else:
                wanted = tl.maximum(count - strange - 1, 0) // 2 + 1
    found, below = rank_in(key, wanted, BITS, HALVES)
    tie = (key == found) & inside
    at = tl.sum(tl.where(tie & (tl.cumsum(tie.to(tl.int32), 0) == wanted - below), i, 0), 0).to(tl.int64)
    tl.store(values + offsets[1], tl.load(x + offsets[0] + at * x_stride))
    if indices is not None:
        tl.store(indices + offsets[2], at)
