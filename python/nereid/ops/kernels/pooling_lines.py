"""Kernels of max pooling on CPUs: a program computes lines along w, or blocks of neighbouring channels, of tensors (n, c, d, h, w) of any strides (planes.py).

Forward, the greatest elements of the columns of a window come first (loads of neighbours), then the greatest among these. Of equal elements the first counts, of NaNs the last, as
in ATen. Backward, a program owns a plane, or a block of channels of a batch, and adds to it what its windows give, in their order.
"""

import nereid
import nereid.language as tl

from ._shared import lowest, write
from .planes import known, place_in
from .pooling import window

#: The row of a place in the padding: after all others.
NO_ROW = tl.constexpr(2**31 - 1)


@nereid.jit
def clipped_window(o, size, outputs, kernel, stride, padding, dilation, WINDOWS: tl.constexpr):
    """(first place, end) of the places of window `o` that do not lie in the padding, `dilation` apart."""
    first, end = window(o, size, outputs, stride, padding, WINDOWS)
    if WINDOWS == "strided":
        end = tl.minimum(end, first + dilation * (kernel - 1) + 1)
        first = tl.where(first < 0, first + (-first + dilation - 1) // dilation * dilation, first)
    return first, end


@nereid.jit
def max_pool_lines(out, places, x, values, rows, in_sizes, out_sizes, x_strides, out_strides, place_strides, kernel, stride, padding, dilation, length, items, share,
                   UNIT: tl.constexpr, WINDOWS: tl.constexpr, COMPUTE: tl.constexpr, IN_BLOCK: tl.constexpr, BLOCK: tl.constexpr):
    """Lines of the result: `max_pool` of pooling.py.

    values, rows  (programs, length): the greatest element of each column, after `padding[2]` places of padding, and its row d * H + h. Places that are read, but not in a line,
                  count as padding: length is at least that of a line and of all windows of the blocks of a line
    items         lines of the result; share: lines of a program
    UNIT          the strides of w of all three tensors are 1
    """
    in_sizes, out_sizes = known(in_sizes, 1), known(out_sizes, 1)
    x_strides, out_strides, place_strides = known(x_strides, 0), known(out_strides, 0), known(place_strides, 0)
    kernel, stride, padding, dilation = known(kernel, 1), known(stride, 1), known(padding, 0), known(dilation, 1)
    x_step = 1 if UNIT else x_strides[4]
    out_step = 1 if UNIT else out_strides[4]
    place_step = 1 if UNIT else place_strides[4]
    program = tl.program_id(0).to(tl.int64)
    values += program * length
    rows += program * length
    for first in range(0, length, IN_BLOCK):
        at = first + tl.arange(0, IN_BLOCK)
        tl.store(values + at, tl.full([IN_BLOCK], lowest(COMPUTE), COMPUTE), mask=at < length)
        tl.store(rows + at, tl.full([IN_BLOCK], NO_ROW, tl.int32), mask=at < length)
    for item in range(program * share, tl.minimum(items, program * share + share)):
        n, c, od, oh, _ = place_in(item, (out_sizes[0], out_sizes[1], out_sizes[2], out_sizes[3], 1))
        source = x + n * x_strides[0] + c * x_strides[1]
        d0, d1 = clipped_window(od, in_sizes[2], out_sizes[2], kernel[0], stride[0], padding[0], dilation[0], WINDOWS)
        h0, h1 = clipped_window(oh, in_sizes[3], out_sizes[3], kernel[1], stride[1], padding[1], dilation[1], WINDOWS)
        for first in range(0, in_sizes[4], IN_BLOCK):
            w = first + tl.arange(0, IN_BLOCK)
            inside = w < in_sizes[4]
            best = tl.full([IN_BLOCK], lowest(COMPUTE), COMPUTE)
            its_row = tl.full([IN_BLOCK], NO_ROW, tl.int32)
            for d in range(d0, d1, dilation[0]):
                for h in range(h0, h1, dilation[1]):
                    value = tl.load(source + d * x_strides[2] + h * x_strides[3] + w * x_step, mask=inside, other=0).to(COMPUTE)
                    take = (value > best) | (value != value) | (its_row == NO_ROW)
                    best = tl.where(take, value, best)
                    its_row = tl.where(take, (d * in_sizes[3] + h).to(tl.int32), its_row)
            tl.store(values + padding[2] + w, best, mask=inside)
            tl.store(rows + padding[2] + w, its_row, mask=inside)
        to = out + n * out_strides[0] + c * out_strides[1] + od * out_strides[2] + oh * out_strides[3]
        places_to = places + n * place_strides[0] + c * place_strides[1] + od * place_strides[2] + oh * place_strides[3]
        for first in range(0, out_sizes[4], BLOCK):
            ow = first + tl.arange(0, BLOCK)
            best = tl.full([BLOCK], lowest(COMPUTE), COMPUTE)
            its_row = tl.full([BLOCK], NO_ROW, tl.int32)
            column = tl.zeros([BLOCK], tl.int32)
            for k in range(kernel[2]):
                if WINDOWS == "strided":
                    w = ow * stride[2] + k * dilation[2]
                else:
                    start, end = window(ow, in_sizes[4], out_sizes[4], stride[2], padding[2], WINDOWS)
                    w = tl.minimum(start + k, tl.minimum(end, in_sizes[4]) - 1)
                value = tl.load(values + w)
                row = tl.load(rows + w)
                take = (value > best) | (value == best) & (row < its_row) | (value != value) & ((best == best) | (row >= its_row))
                best = tl.where(take, value, best)
                its_row = tl.where(take, row, its_row)
                column = tl.where(take, w.to(tl.int32), column)
            inside = ow < out_sizes[4]
            write(to + ow * out_step, best, inside)
            tl.store(places_to + ow * place_step, its_row.to(tl.int64) * in_sizes[4] + column - padding[2], mask=inside)


@nereid.jit
def max_pool_channels(out, places, x, in_sizes, out_sizes, x_strides, out_strides, place_strides, kernel, stride, padding, dilation, items, share, WINDOWS: tl.constexpr,
                      COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """Places of the result, a block of channels of stride 1. items: lines (n, d, h) of the result; share: those of a program. Grid: (items / share, channels / BLOCK)."""
    in_sizes, out_sizes = known(in_sizes, 1), known(out_sizes, 1)
    x_strides, out_strides, place_strides = known(x_strides, 0), known(out_strides, 0), known(place_strides, 0)
    kernel, stride, padding, dilation = known(kernel, 1), known(stride, 1), known(padding, 0), known(dilation, 1)
    program = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = c < in_sizes[1]
    for item in range(program * share, tl.minimum(items, program * share + share)):
        n, _, od, oh, _ = place_in(item, (out_sizes[0], 1, out_sizes[2], out_sizes[3], 1))
        source = x + n * x_strides[0]
        to = out + n * out_strides[0] + od * out_strides[2] + oh * out_strides[3]
        places_to = places + n * place_strides[0] + od * place_strides[2] + oh * place_strides[3]
        d0, d1 = clipped_window(od, in_sizes[2], out_sizes[2], kernel[0], stride[0], padding[0], dilation[0], WINDOWS)
        h0, h1 = clipped_window(oh, in_sizes[3], out_sizes[3], kernel[1], stride[1], padding[1], dilation[1], WINDOWS)
        for ow in range(0, out_sizes[4]):
            w0, w1 = clipped_window(ow, in_sizes[4], out_sizes[4], kernel[2], stride[2], padding[2], dilation[2], WINDOWS)
            best = tl.full([BLOCK], lowest(COMPUTE), COMPUTE)
            at = tl.full([BLOCK], 0, tl.int32) + ((d0 * in_sizes[3] + h0) * in_sizes[4] + w0).to(tl.int32)
            for d in range(d0, d1, dilation[0]):
                for h in range(h0, h1, dilation[1]):
                    line = source + d * x_strides[2] + h * x_strides[3]
                    for w in range(w0, w1, dilation[2]):
                        value = tl.load(line + w * x_strides[4] + c, mask=inside, other=0).to(COMPUTE)
                        take = (value > best) | (value != value)
                        best = tl.where(take, value, best)
                        at = tl.where(take, ((d * in_sizes[3] + h) * in_sizes[4] + w).to(tl.int32), at)
            write(to + ow * out_strides[4] + c, best, inside)
            tl.store(places_to + ow * place_strides[4] + c, at.to(tl.int64), mask=inside)


@nereid.jit
def max_pool_gradient_planes(result, sums, gradient, places, plane, sizes, out_sizes, result_strides, gradient_strides, place_strides, share, COMPUTE: tl.constexpr,
                             UNIT: tl.constexpr, BLOCK: tl.constexpr):
    """The gradient of max pooling, plane by plane.

    result  planes (n, c) of `plane` neighbouring elements; sums: (programs, plane) in COMPUTE, or None where `result` has that dtype
    sizes   (N, C); share: planes of a program. UNIT: the last strides of `gradient` and `places` are 1. Grid: N * C / share
    """
    out_sizes, gradient_strides, place_strides = known(out_sizes, 1), known(gradient_strides, 0), known(place_strides, 0)
    program = tl.program_id(0).to(tl.int64)
    for item in range(program * share, tl.minimum(sizes[0] * sizes[1], program * share + share)):
        n = item // sizes[1]
        c = item % sizes[1]
        to = result + n * result_strides[0] + c * result_strides[1]
        total = to if sums is None else sums + program * plane
        for first in range(0, plane, BLOCK):
            at = first + tl.arange(0, BLOCK)
            tl.store(total + at, tl.zeros([BLOCK], COMPUTE), mask=at < plane)
        for od in range(0, out_sizes[2]):
            for oh in range(0, out_sizes[3]):
                its_places = places + n * place_strides[0] + c * place_strides[1] + od * place_strides[2] + oh * place_strides[3]
                given = gradient + n * gradient_strides[0] + c * gradient_strides[1] + od * gradient_strides[2] + oh * gradient_strides[3]
                for ow in range(0, out_sizes[4]):
                    at = tl.load(its_places + (ow if UNIT else ow * place_strides[4]))
                    value = tl.load(given + (ow if UNIT else ow * gradient_strides[4])).to(COMPUTE)
                    tl.atomic_add(total + at, value, mask=at.to(tl.uint64) < plane, sem="relaxed", scope="cta")
        if sums is not None:
            for first in range(0, plane, BLOCK):
                at = first + tl.arange(0, BLOCK)
                write(to + at, tl.load(total + at, mask=at < plane, other=0), at < plane)


@nereid.jit
def max_pool_gradient_channels(result, sums, gradient, places, plane, sizes, out_sizes, result_strides, step, gradient_strides, place_strides, COMPUTE: tl.constexpr,
                               BLOCK: tl.constexpr):
    """The gradient of max pooling, a block of channels, neighbours in `result`, at once. step: distance of neighbouring places in `result`. sums: (programs, plane, BLOCK) in COMPUTE, or
    None where `result` has that dtype. sizes: (N, C). Grid: (C / BLOCK, N)."""
    out_sizes, gradient_strides, place_strides = known(out_sizes, 1), known(gradient_strides, 0), known(place_strides, 0)
    n = tl.program_id(1).to(tl.int64)
    start = tl.program_id(0).to(tl.int64) * BLOCK
    lane = tl.arange(0, BLOCK)
    count = tl.minimum(sizes[1] - start, BLOCK)
    inside = lane < count
    to = result + n * result_strides[0] + start
    total = to if sums is None else sums + (n * tl.num_programs(0) + tl.program_id(0)) * plane * BLOCK
    its_step = step if sums is None else BLOCK
    for at in range(0, plane):
        tl.store(total + at * its_step + lane, tl.zeros([BLOCK], COMPUTE), mask=inside)
    for od in range(0, out_sizes[2]):
        for oh in range(0, out_sizes[3]):
            for ow in range(0, out_sizes[4]):
                its_places = places + n * place_strides[0] + start * place_strides[1] + od * place_strides[2] + oh * place_strides[3] + ow * place_strides[4]
                given = gradient + n * gradient_strides[0] + start * gradient_strides[1] + od * gradient_strides[2] + oh * gradient_strides[3] + ow * gradient_strides[4]
                for c in range(0, count):
                    at = tl.load(its_places + c * place_strides[1])
                    value = tl.load(given + c * gradient_strides[1]).to(COMPUTE)
                    tl.atomic_add(total + at * its_step + c, value, mask=at.to(tl.uint64) < plane, sem="relaxed", scope="cta")
    if sums is not None:
        for at in range(0, plane):
            write(to + at * step + lane, tl.load(total + at * its_step + lane, mask=inside, other=0), inside)
