"""Kernels that pad tensors (n, c, d, h, w), of any strides (planes.py), by reflection or replication, that cut out patches, and their backward steps.

Backward steps add up, for each element of the input, what copies of it give: no atomics.
"""

import nereid
import nereid.language as tl

from ._shared import write
from .planes import known, located, numbers, offset


@nereid.jit
def source(o, size, before, REFLECT: tl.constexpr):
    """The input's place for the output's place `o` along a dimension; `before`: the padding, None for a dimension that is not padded."""
    if before is None:
        return o
    else:
        at = o - before
        if REFLECT:
            at = tl.where(at < 0, -at, at)
            return tl.where(at >= size, 2 * (size - 1) - at, at)
        else:
            return tl.minimum(tl.maximum(at, 0), size - 1)


@nereid.jit
def pad(out, x, in_sizes, out_sizes, x_strides, out_strides, before, numel, REFLECT: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr):
    """before: the padding in front, of d, h and w."""
    in_sizes, out_sizes = known(in_sizes, 1), known(out_sizes, 1)
    n, c, od, oh, ow, mask = located(out_sizes, numel, LANES, BLOCK)
    d = source(od, in_sizes[2], before[0], REFLECT)
    h = source(oh, in_sizes[3], before[1], REFLECT)
    w = source(ow, in_sizes[4], before[2], REFLECT)
    value = tl.load(x + offset(n, c, d, h, w, known(x_strides, 0)), mask=mask, other=0)
    tl.store(out + offset(n, c, od, oh, ow, known(out_strides, 0)), value, mask=mask)


@nereid.jit
def copy_rows(to, line, out_step, x_step, low, high, width, count, before, REFLECT: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    """BR rows with their padding. to, line: the first ones; out_step, x_step: from row to row; low, high: the part of `width` that is no padding."""
    several, lane = tl.arange(0, BR), tl.arange(0, BC)
    for first in range(low, high, BC):
        mask = (lane < high - first)[None, :]
        moved = tl.load(line + (first - before) + several[:, None] * x_step + lane[None, :], mask=mask, other=0)
        tl.store(to + first + several[:, None] * out_step + lane[None, :], moved, mask=mask)
    for place in range(0, low):
        tl.store(to + place + several * out_step, tl.load(line + source(place, count, before, REFLECT) + several * x_step))
    for place in range(high, width):
        tl.store(to + place + several * out_step, tl.load(line + source(place, count, before, REFLECT) + several * x_step))


@nereid.jit
def pad_planes(out, x, outer, in_outer, out_strides, x_strides, outer_before, rows, in_rows, out_step, x_step, row_before, width, count, before, items, part, share,
               REFLECT: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    """`pad`, for CPUs: planes (rows, width) from planes (in_rows, count), both with neighbours in their rows. Rows that are no padding are copied BR at a time.

    outer, in_outer, out_strides, x_strides, outer_before: of the three dimensions before; items of `outer_before` are None where a dimension is not padded. out_step, x_step: from row to
    row; row_before, before: the padding in front. width, count, before: of 32 bits. part: rows of an item; items: all of them, share: those of a program. Grid: items / share.
    """
    program = tl.program_id(0).to(tl.int64)
    low = tl.minimum(tl.maximum(before, 0), width)
    high = tl.maximum(tl.minimum(before + count, width), low)
    parts = tl.cdiv(rows, part)
    for item in range(program * share, tl.minimum(items, program * share + share)):
        row = item % parts * part
        end = tl.minimum(rows, row + part)
        rest = item // parts
        to, line = out, x
        for k in tl.static_range(3):
            d: tl.constexpr = 2 - k
            place = rest % outer[d] if d > 0 else rest
            rest = rest // outer[d] if d > 0 else rest
            to += place * out_strides[d]
            line += source(place, in_outer[d], outer_before[d], REFLECT) * x_strides[d]
        first = tl.minimum(tl.maximum(row_before, row), end)
        whole = first + tl.maximum(tl.minimum(row_before + in_rows, end) - first, 0) // BR * BR
        for r in range(row, first):
            copy_rows(to + r * out_step, line + source(r, in_rows, row_before, REFLECT) * x_step, out_step, x_step, low, high, width, count, before, REFLECT, 1, BC)
        for r in range(first, whole, BR):
            copy_rows(to + r * out_step, line + (r - row_before) * x_step, out_step, x_step, low, high, width, count, before, REFLECT, BR, BC)
        for r in range(whole, end):
            copy_rows(to + r * out_step, line + source(r, in_rows, row_before, REFLECT) * x_step, out_step, x_step, low, high, width, count, before, REFLECT, 1, BC)


@nereid.jit
def copy_of(place, size, outputs, before, T: tl.constexpr, REFLECT: tl.constexpr):
    """(where copy T of a place is in the output, whether it is there). Of reflected places there are three at most; of replicated ones T counts from the first on."""
    if before is None:
        return place, place >= 0
    elif not REFLECT:
        first = tl.where(place == 0, 0, place + before)
        last = tl.where(place == size - 1, outputs - 1, place + before)
        at = tl.maximum(first, 0) + T
        return at, (at <= last) & (at < outputs)
    elif T == 0:
        at = place + before
        return at, (at >= 0) & (at < outputs)
    elif T == 1:
        at = before - place
        return at, (place > 0) & (at >= 0) & (at < outputs)
    else:
        at = 2 * (size - 1) - place + before
        return at, (place < size - 1) & (at >= 0) & (at < outputs)


@nereid.jit
def reflect_gradient(result, gradient, in_sizes, out_sizes, result_strides, gradient_strides, before, numel, COMPUTE: tl.constexpr, LAST: tl.constexpr, BLOCK: tl.constexpr):
    D_COPIES: tl.constexpr = 1 if before[0] is None else 3
    H_COPIES: tl.constexpr = 1 if before[1] is None else 3
    in_sizes, out_sizes, gradient_strides = known(in_sizes, 1), known(out_sizes, 1), known(gradient_strides, 0)
    n, c, d, h, w, mask = located(in_sizes, numel, "last" if LAST else None, BLOCK)
    total = tl.zeros([BLOCK], COMPUTE)
    for i in tl.static_range(D_COPIES):
        od, d_there = copy_of(d, in_sizes[2], out_sizes[2], before[0], i, True)
        for j in tl.static_range(H_COPIES):
            oh, h_there = copy_of(h, in_sizes[3], out_sizes[3], before[1], j, True)
            for k in tl.static_range(3):
                ow, w_there = copy_of(w, in_sizes[4], out_sizes[4], before[2], k, True)
                inside = mask & d_there & h_there & w_there
                total += tl.load(gradient + offset(n, c, od, oh, ow, gradient_strides), mask=inside, other=0).to(COMPUTE)
    write(result + offset(n, c, d, h, w, known(result_strides, 0)), total, mask)


@nereid.jit
def replicate_gradient(result, gradient, in_sizes, out_sizes, result_strides, gradient_strides, before, copies, numel, COMPUTE: tl.constexpr, LAST: tl.constexpr, BLOCK: tl.constexpr):
    """copies: at most how many there are of a place, along d, h and w. The copies of each line of w are summed first: the error of one long sum grows with
    its length, and a corner can have thousands of copies."""
    in_sizes, out_sizes, gradient_strides, copies = known(in_sizes, 1), known(out_sizes, 1), known(gradient_strides, 0), known(copies, 1)
    n, c, d, h, w, mask = located(in_sizes, numel, "last" if LAST else None, BLOCK)
    total = tl.zeros([BLOCK], COMPUTE)
    for i in range(copies[0]):
        od, d_there = copy_of(d, in_sizes[2], out_sizes[2], before[0], i, False)
        for j in range(copies[1]):
            oh, h_there = copy_of(h, in_sizes[3], out_sizes[3], before[1], j, False)
            line = tl.zeros([BLOCK], COMPUTE)
            for k in range(copies[2]):
                ow, w_there = copy_of(w, in_sizes[4], out_sizes[4], before[2], k, False)
                inside = mask & d_there & h_there & w_there
                line += tl.load(gradient + offset(n, c, od, oh, ow, gradient_strides), mask=inside, other=0).to(COMPUTE)
            total += line
    write(result + offset(n, c, d, h, w, known(result_strides, 0)), total, mask)


# Patches


@nereid.jit
def patches(out, x, sizes, counts, channels, x_strides, out_strides, kernel, stride, padding, dilation, numel, BLOCK: tl.constexpr):
    """out[n, (c * kh + i) * kw + j, oh * counts[1] + ow] = x[n, c, oh * stride + i * dilation - padding, ...], 0 in the padding.

    x: (N, C, H, W); sizes: (H, W); counts: of patches along h and w; channels: C * kh * kw. kernel, ...: (of h, of w).
    """
    e = numbers(numel, BLOCK)
    mask = e < numel
    place = e % (counts[0] * counts[1])
    row = e // (counts[0] * counts[1])
    channel = row % channels
    n = row // channels
    j = channel % kernel[1]
    i = channel // kernel[1] % kernel[0]
    c = channel // kernel[1] // kernel[0]
    h = place // counts[1] * stride[0] + i * dilation[0] - padding[0]
    w = place % counts[1] * stride[1] + j * dilation[1] - padding[1]
    inside = mask & (h >= 0) & (h < sizes[0]) & (w >= 0) & (w < sizes[1])
    value = tl.load(x + n * x_strides[0] + c * x_strides[1] + h * x_strides[2] + w * x_strides[3], mask=inside, other=0)
    tl.store(out + n * out_strides[0] + channel * out_strides[1] + place * out_strides[2], value, mask=mask)


@nereid.jit
def patch_lines(out, x, sizes, counts, channels, x_strides, out_strides, kernel, stride, padding, dilation, items, share, UNIT: tl.constexpr, BLOCK: tl.constexpr):
    """`patches`, line by line. items: lines (n, channel, oh) of the result; share: those of a program. UNIT: the steps of `x` along a line and of the result are 1.
    Grid: items / share."""
    program = tl.program_id(0).to(tl.int64)
    step = 1 if UNIT else stride[1] * x_strides[3]
    out_step = 1 if UNIT else out_strides[2]
    for item in range(program * share, tl.minimum(items, program * share + share)):
        oh = item % counts[0]
        row = item // counts[0]
        channel = row % channels
        n = row // channels
        j = channel % kernel[1]
        i = channel // kernel[1] % kernel[0]
        c = channel // kernel[1] // kernel[0]
        h = oh * stride[0] + i * dilation[0] - padding[0]
        w = j * dilation[1] - padding[1]
        there = (h >= 0) & (h < sizes[0])
        line = x + n * x_strides[0] + c * x_strides[1] + h * x_strides[2] + w * x_strides[3]
        to = out + n * out_strides[0] + channel * out_strides[1] + oh * counts[1] * out_strides[2]
        for first in range(0, counts[1], BLOCK):
            ow = first + tl.arange(0, BLOCK)
            inside = (w + ow * stride[1] >= 0) & (w + ow * stride[1] < sizes[1]) & there
            tl.store(to + ow * out_step, tl.load(line + ow * step, mask=(ow < counts[1]) & inside, other=0), mask=ow < counts[1])


@nereid.jit
def patch_sums(out, x, sizes, counts, depth, x_strides, out_strides, kernel, stride, padding, dilation, numel, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """The sums of what `patches` has copied: its transpose. x: (N, C * kh * kw, patches), out: (N, C, H, W); depth: C. Other arguments: see `patches`."""
    e = numbers(numel, BLOCK)
    mask = e < numel
    w = e % sizes[1] + padding[1]
    row = e // sizes[1]
    h = row % sizes[0] + padding[0]
    row = row // sizes[0]
    c = row % depth
    n = row // depth
    total = tl.zeros([BLOCK], COMPUTE)
    for i in range(kernel[0]):
        y = h - i * dilation[0]
        oh = y // stride[0]
        line = mask & (y >= 0) & (oh * stride[0] == y) & (oh < counts[0])
        for j in range(kernel[1]):
            z = w - j * dilation[1]
            ow = z // stride[1]
            inside = line & (z >= 0) & (ow * stride[1] == z) & (ow < counts[1])
            at = x + n * x_strides[0] + ((c * kernel[0] + i) * kernel[1] + j) * x_strides[1] + (oh * counts[1] + ow) * x_strides[2]
            total += tl.load(at, mask=inside, other=0).to(COMPUTE)
    place = out + n * out_strides[0] + c * out_strides[1] + (h - padding[0]) * out_strides[2] + (w - padding[1]) * out_strides[3]
    write(place, total, mask)


@nereid.jit
def patch_sum_lines(out, x, sizes, counts, depth, x_strides, out_strides, kernel, stride, padding, dilation, items, share, UNIT: tl.constexpr, COMPUTE: tl.constexpr,
                    BLOCK: tl.constexpr):
    """`patch_sums` for patches that are one place apart along w, line by line. items: lines (n, c, h) of the result; share: those of a program. UNIT: neighbours along w are
    neighbours in memory. Grid: items / share."""
    program = tl.program_id(0).to(tl.int64)
    step = 1 if UNIT else x_strides[2]
    out_step = 1 if UNIT else out_strides[3]
    for item in range(program * share, tl.minimum(items, program * share + share)):
        h = item % sizes[0]
        row = item // sizes[0]
        c = row % depth
        n = row // depth
        to = out + n * out_strides[0] + c * out_strides[1] + h * out_strides[2]
        for first in range(0, sizes[1], BLOCK):
            w = first + tl.arange(0, BLOCK)
            total = tl.zeros([BLOCK], COMPUTE)
            for i in range(kernel[0]):
                y = h + padding[0] - i * dilation[0]
                oh = y // stride[0]
                if (y >= 0) & (oh * stride[0] == y) & (oh < counts[0]):
                    for j in range(kernel[1]):
                        shift = padding[1] - j * dilation[1]
                        line = x + n * x_strides[0] + ((c * kernel[0] + i) * kernel[1] + j) * x_strides[1] + (oh * counts[1] + shift) * x_strides[2]
                        inside = (w < sizes[1]) & (w + shift >= 0) & (w + shift < counts[1])
                        total += tl.load(line + w * step, mask=inside, other=0).to(COMPUTE)
            write(to + w * out_step, total, w < sizes[1])


@nereid.jit
def window_sums(out, gradient, sizes, out_strides, gradient_strides, dim_size, dim_stride, windows, window_stride, place_stride, step, size, covering, numel,
                COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """The gradient of a tensor from that of its windows along a dimension (`Tensor.unfold`).

    sizes, out_strides, gradient_strides: of the other dimensions; dim_size, dim_stride: of the dimension in `out`; windows: how many; window_stride, place_stride: strides
    of `gradient` from window to window and within one; step, size: of windows; covering: how many can contain a place.
    """
    e = numbers(numel, BLOCK)
    mask = e < numel
    at = e % dim_size
    rest = e // dim_size
    place = at * dim_stride
    base = at * 0
    for i in tl.static_range(len(sizes)):
        d: tl.constexpr = len(sizes) - 1 - i
        place += rest % sizes[d] * out_strides[d]
        base += rest % sizes[d] * gradient_strides[d]
        rest = rest // sizes[d]
    first = tl.maximum(at - size + step, 0) // step
    total = tl.zeros([BLOCK], COMPUTE)
    for i in range(covering):
        window = first + i
        within = at - window * step
        inside = mask & (window < windows) & (within >= 0) & (within < size)
        total += tl.load(gradient + base + window * window_stride + within * place_stride, mask=inside, other=0).to(COMPUTE)
    write(out + place, total, mask)
