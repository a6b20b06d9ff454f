"""Depthwise convolutions whose channels are neighbours in memory, with steps of one place in the last dimension: a program computes several neighbouring places of a row at once
and reads each place of `x` once for all taps of that row, which `direct` reads once for each. Notation as in kernels/convolution.py; each group has one channel.
"""

import math

import nereid
import nereid.language as tl

from ._shared import write
from .convolution import place_of, split


@nereid.constexpr_function
def outer_taps(window):
    """The window without its last dimension."""
    return tuple(window)[:-1]


@nereid.constexpr_function
def count_of(window):
    return math.prod(window)


@nereid.jit
def outer_part(places, js, motion, sizes, strides, mask):
    """(offset in `x`, mask) of all dimensions but the last, for the taps `js` of these."""
    offset = 0
    for d in tl.static_range(len(sizes) - 1):
        q = places[d] * motion[0][d] + js[d] * motion[1][d] + motion[2][d]
        mask = mask & (q >= 0) & (q < sizes[d])
        offset = offset + q * strides[2 + d]
    return offset, mask


@nereid.jit
def first_column(places, motion, BACK: tl.constexpr, SPAN: tl.constexpr, TAPS: tl.constexpr):
    """The first place of `x` in the last dimension that groups of SPAN places meet. BACK: taps go to lower places."""
    R: tl.constexpr = len(places) - 1
    return places[R] * SPAN + motion[2][R] - (TAPS - 1 if BACK else 0)


@nereid.jit
def outer_offset(n, places, strides):
    """Where the rows of places are."""
    offset = n * strides[0]
    for d in tl.static_range(len(places) - 1):
        offset = offset + places[d] * strides[2 + d]
    return offset


@nereid.jit
def with_product(total, value, factors, J: tl.constexpr):
    """total + value * factors[J], if there is such a factor."""
    if J >= 0 and J < len(factors):
        return total + value * factors[J]
    else:
        return total


@nereid.jit
def slide(out, x, w, bias, batch, channels, counts, length, sizes, motion, bias_stride, out_strides, x_strides, w_strides, ACC: tl.constexpr, WINDOW: tl.constexpr,
          BACK: tl.constexpr, SPAN: tl.constexpr, BG: tl.constexpr, BC: tl.constexpr):
    """The convolution, or with BACK the gradient of its input. Grid: tiles of channels and of groups of SPAN places of a row, BC and BG.

    counts: places of the result in each dimension, groups in the last, which has `length` places. WINDOW: its taps. motion: (move, tap, start), in the last dimension move is 1 and
    tap 1, with BACK -1. w_strides: (channel, ...), the first is 1. bias: a pointer or None. Other arguments: as for `convolution.direct`.
    """
    R: tl.constexpr = len(sizes) - 1
    TAPS: tl.constexpr = WINDOW[R]
    OUTER: tl.constexpr = outer_taps(WINDOW)
    tiles_c = tl.cdiv(channels, BC)
    tile_c, tile_g = tl.program_id(0) % tiles_c, tl.program_id(0) // tiles_c
    n, places, mask = place_of(tile_g, batch, counts, None, False, BG)
    c = tile_c * BC + tl.arange(0, BC)
    c_mask = c < channels
    column = first_column(places, motion, BACK, SPAN, TAPS)
    totals = ()
    for t in tl.static_range(SPAN):
        totals = totals + (tl.zeros((BG, BC), ACC), )
    for outer in range(count_of(OUTER)):
        js = split(outer, OUTER, None)[1]
        offset, inside = outer_part(places, js, motion, sizes, x_strides, mask)
        x_start = x + ((offset + n * x_strides[0])[:, None] + c[None, :])
        w_start = w + c
        for d in tl.static_range(R):
            w_start += js[d] * w_strides[1 + d]
        factors = ()
        for j in tl.static_range(TAPS):
            factors = factors + (tl.load(w_start + j * w_strides[1 + R], mask=c_mask, other=0).to(ACC)[None, :], )
        for i in tl.static_range(SPAN + TAPS - 1):
            q = column + i
            value = tl.load(x_start + (q * x_strides[2 + R])[:, None], mask=(inside & (q >= 0) & (q < sizes[R]))[:, None] & c_mask[None, :], other=0).to(ACC)
            sums = ()
            for t in tl.static_range(SPAN):
                sums = sums + (with_product(totals[t], value, factors, t + TAPS - 1 - i if BACK else i - t), )
            totals = sums
    added = tl.zeros((BC, ), ACC)
    if bias is not None:
        added = tl.load(bias + c * bias_stride, mask=c_mask, other=0).to(ACC)
    to = out + (outer_offset(n, places, out_strides)[:, None] + c[None, :])
    for t in tl.static_range(SPAN):
        p = places[R] * SPAN + t
        write(to + (p * out_strides[2 + R])[:, None], totals[t] + added[None, :], (mask & (p < length))[:, None] & c_mask[None, :])


@nereid.jit
def slide_weights(out, y, x, batch, channels, counts, magics, length, sizes, motion, out_strides, y_strides, x_strides, part_stride, steps_of_part, ACC: tl.constexpr,
                  WINDOW: tl.constexpr, SPAN: tl.constexpr, BG: tl.constexpr, BC: tl.constexpr):
    """The gradient of the weights. Grid: (tiles of channels, taps of all dimensions but the last, parts of the groups).

    counts: as for `slide`, of `y`; magics: of `convolution.divided` for each. out_strides: (channel, ...). part_stride, steps_of_part: as for `convolution.correlate`.
    """
    R: tl.constexpr = len(sizes) - 1
    TAPS: tl.constexpr = WINDOW[R]
    part = tl.program_id(2)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    c_mask = c < channels
    js = split(tl.program_id(1), outer_taps(WINDOW), None)[1]
    groups = batch
    for d in tl.static_range(R + 1):
        groups = groups * counts[d]
    first = part * steps_of_part
    last = tl.minimum(first + steps_of_part, tl.cdiv(groups, BG))
    totals = ()
    for j in tl.static_range(TAPS):
        totals = totals + (tl.zeros((BG, BC), ACC), )
    for position in range(first, last):
        n, places, mask = place_of(position, batch, counts, magics, False, BG)
        column = first_column(places, motion, False, SPAN, TAPS)
        y_start = y + (outer_offset(n, places, y_strides)[:, None] + c[None, :])
        gradients = ()
        for t in tl.static_range(SPAN):
            p = places[R] * SPAN + t
            gradients = gradients + (tl.load(y_start + (p * y_strides[2 + R])[:, None], mask=(mask & (p < length))[:, None] & c_mask[None, :], other=0).to(ACC), )
        offset, inside = outer_part(places, js, motion, sizes, x_strides, mask)
        x_start = x + ((offset + n * x_strides[0])[:, None] + c[None, :])
        for i in tl.static_range(SPAN + TAPS - 1):
            q = column + i
            value = tl.load(x_start + (q * x_strides[2 + R])[:, None], mask=(inside & (q >= 0) & (q < sizes[R]))[:, None] & c_mask[None, :], other=0).to(ACC)
            sums = ()
            for j in tl.static_range(TAPS):
                sums = sums + (with_product(totals[j], value, gradients, i - j), )
            totals = sums
    to = out + part * part_stride + c * out_strides[0]
    for d in tl.static_range(R):
        to += js[d] * out_strides[1 + d]
    for j in tl.static_range(TAPS):
        write(to + j * out_strides[1 + R], tl.sum(totals[j], 0), c_mask)
