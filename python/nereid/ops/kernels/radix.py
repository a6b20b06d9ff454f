"""Kernels that sort long rows by their digits of 8 bits, the least significant first: counts of digits by program, their running sums, and a stable move of every element
to its place (Merrill and Grimshaw 2011). No program waits for another one.

Elements are moved, digits are those of their keys (kernels/sorting.py), so that -0.0 equals 0.0, and NaN is above all.
"""

import nereid
import nereid.language as tl

from .indexing import decoded
from .sorting import key_of, short_key


@nereid.jit
def digit_of(x, shift, flip, DESCENDING: tl.constexpr):
    """The 8 bits of keys above `shift`, int32. flip: 128 for the digit with the sign, else 0."""
    if x.dtype.primitive_bitwidth <= 16:
        key = short_key(x, DESCENDING)
    else:
        key = key_of(x, DESCENDING)
    return ((key >> shift) & 255).to(tl.int32) ^ flip


@nereid.jit
def digit_counts(counts, x, sizes, x_strides, length, x_stride, programs, chunk, shift, flip, DESCENDING: tl.constexpr, UNIT: tl.constexpr, BLOCK: tl.constexpr):
    """counts[row, program, digit]: how often the digit occurs in the program's part of the row, `chunk` elements; (rows, programs, 256), contiguous, int32.

    sizes, x_strides: of the dimensions of the rows; x_stride: along a row, UNIT: it is 1. chunk: a multiple of BLOCK. Grid: rows * programs.
    """
    row = tl.program_id(0).to(tl.int64) // programs
    first = tl.program_id(0).to(tl.int64) % programs * chunk
    x += decoded(row, sizes, (x_strides, ))[0]
    found = tl.zeros((256, ), tl.int32)
    for start in range(first, tl.minimum(first + chunk, length), BLOCK):
        i = start + tl.arange(0, BLOCK)
        inside = i < length
        value = tl.load(x + (i if UNIT else i * x_stride), mask=inside, other=0)
        found += tl.histogram(digit_of(value, shift, flip, DESCENDING), 256, mask=inside)
    tl.store(counts + tl.program_id(0).to(tl.int64) * 256 + tl.arange(0, 256), found)


@nereid.jit
def digit_starts(counts, totals, programs, BLOCK: tl.constexpr):
    """Replaces counts (rows, programs, 256) by the sums over earlier programs; totals (rows, 256): over all. Grid: rows * 16, 16 digits each."""
    row = tl.program_id(0).to(tl.int64) // 16
    digit = tl.program_id(0) % 16 * 16 + tl.arange(0, 16)
    before = tl.zeros((16, ), tl.int32)
    for first in range(0, programs, BLOCK):
        program = first + tl.arange(0, BLOCK)
        there = (program < programs)[:, None] & (digit < 256)[None, :]
        place = counts + (row * programs + program)[:, None] * 256 + digit[None, :]
        count = tl.load(place, mask=there, other=0)
        tl.store(place, tl.cumsum(count, 0) - count + before[None, :], mask=there)
        before += tl.sum(count, 0)
    tl.store(totals + row * 256 + digit, before)


@nereid.jit
def move_by_digit(to, new_order, x, order, starts, totals, sizes, x_strides, to_strides, new_strides, length, x_stride, to_stride, new_stride, first, count, programs, chunk,
                  shift, flip, DESCENDING: tl.constexpr, UNIT: tl.constexpr, LOG: tl.constexpr, BLOCK: tl.constexpr):
    """Writes the elements of rows of `x` in the order of a digit, those with the same digit in their order; of a row the elements number `first` to `first + count - 1`.

    to: their copies, or None; new_order: the places they had in the beginning, or None; order: these places before this move, (rows, length), or None for the first move.
    sizes: of the dimensions of the rows; *_strides: of x, to and new_order in them, *_stride: along a row, UNIT: bits of those that are 1. starts, totals: of `digit_starts`.
    BLOCK = 2^LOG: elements that are put in order at once. Others: as for `digit_counts`.
    """
    row = tl.program_id(0).to(tl.int64) // programs
    begin = tl.program_id(0).to(tl.int64) % programs * chunk
    offsets = decoded(row, sizes, (x_strides, to_strides, new_strides))
    digits = tl.arange(0, 256)
    total = tl.load(totals + row * 256 + digits)
    next = tl.cumsum(total, 0) - total + tl.load(starts + tl.program_id(0).to(tl.int64) * 256 + digits)
    lane = tl.arange(0, BLOCK)
    for start in range(begin, tl.minimum(begin + chunk, length), BLOCK):
        i = start + lane
        inside = i < length
        value = tl.load(x + offsets[0] + (i if UNIT & 1 else i * x_stride), mask=inside, other=0)
        digit = tl.where(inside, digit_of(value, shift, flip, DESCENDING), 256)
        # In the order of digits and of lanes: neighbours go to neighbouring places.
        packed = tl.sort((digit << LOG) | lane)
        found = tl.histogram(digit, 256)
        its = packed & (BLOCK - 1)
        own = packed >> LOG
        place = (tl.gather(next - (tl.cumsum(found, 0) - found), tl.minimum(own, 255), 0) + lane).to(tl.int64)
        kept = (own < 256) & (place >= first) & (place < first + count)
        if to is not None:
            at = place - first
            tl.store(to + offsets[1] + (at if UNIT & 2 else at * to_stride), tl.gather(value, its, 0), mask=kept)
        if new_order is not None:
            if order is None:
                element = start + its
            else:
                element = tl.gather(tl.load(order + row * length + i, mask=inside, other=0), its, 0)
            at = place - first
            tl.store(new_order + offsets[2] + (at if UNIT & 4 else at * new_stride), element.to(new_order.dtype.element_ty), mask=kept)
        next += found
