"""Kernels of pooling and of nearest and linear interpolation in planes (n, c, h, w), of any strides, and of their backward steps.

Backward steps add up, for each element of the input, what the windows that contain it give, in the order of the windows: no atomics.
"""

import nereid
import nereid.language as tl

from ._shared import write


@nereid.jit
def place_in(e, sizes):
    """(n, c, h, w) of the element number `e` of (N, C, H, W)."""
    w = e % sizes[3]
    e = e // sizes[3]
    h = e % sizes[2]
    e = e // sizes[2]
    return e // sizes[1], e % sizes[1], h, w


@nereid.jit
def offset(n, c, h, w, strides):
    return n * strides[0] + c * strides[1] + h * strides[2] + w * strides[3]


@nereid.jit
def window(o, size, outputs, stride, padding, ADAPTIVE: tl.constexpr):
    """The first place of window `o` along a dimension of `size`, which may lie in the padding, and for adaptive windows the end."""
    if ADAPTIVE:
        return o * size // outputs, ((o + 1) * size + outputs - 1) // outputs
    else:
        return o * stride - padding, o * 0 + size


@nereid.jit
def max_pool(out, places, x, in_sizes, out_sizes, x_strides, out_strides, place_strides, numel, kernel, stride, padding, dilation, ADAPTIVE: tl.constexpr,
             COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """The greatest element of each window and its place h * W + w; NaN is above all. *_sizes: (N, C, H, W); kernel, ...: (of h, of w)."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < numel
    n, c, oh, ow = place_in(e, out_sizes)
    h0, h1 = window(oh, in_sizes[2], out_sizes[2], stride[0], padding[0], ADAPTIVE)
    w0, w1 = window(ow, in_sizes[3], out_sizes[3], stride[1], padding[1], ADAPTIVE)
    base = n * x_strides[0] + c * x_strides[1]
    best = tl.full([BLOCK], float("-inf"), COMPUTE)
    # Where nothing is above -inf, the first place of the window counts.
    first_h = tl.where(h0 < 0, h0 + (-h0 + dilation[0] - 1) // dilation[0] * dilation[0], h0)
    first_w = tl.where(w0 < 0, w0 + (-w0 + dilation[1] - 1) // dilation[1] * dilation[1], w0)
    at = first_h * in_sizes[3] + first_w
    for i in range(kernel[0]):
        h = h0 + i * dilation[0]
        for j in range(kernel[1]):
            w = w0 + j * dilation[1]
            inside = mask & (h >= 0) & (h < h1) & (w >= 0) & (w < w1)
            value = tl.load(x + base + h * x_strides[2] + w * x_strides[3], mask=inside, other=0).to(COMPUTE)
            take = inside & ((value > best) | (value != value))
            best = tl.where(take, value, best)
            at = tl.where(take, h * in_sizes[3] + w, at)
    write(out + offset(n, c, oh, ow, out_strides), best, mask)
    tl.store(places + offset(n, c, oh, ow, place_strides), at, mask=mask)


@nereid.jit
def first_window(h, size, outputs, kernel, stride, padding, dilation, ADAPTIVE: tl.constexpr):
    """The first window along a dimension that may contain the place `h`."""
    if ADAPTIVE:
        return tl.maximum(h * outputs // size - 1, 0)
    else:
        return tl.maximum(h + padding - dilation * (kernel - 1) + stride - 1, 0) // stride


@nereid.jit
def max_pool_gradient(result, gradient, places, in_sizes, out_sizes, result_strides, gradient_strides, place_strides, numel, kernel, stride, padding, dilation, windows,
                      ADAPTIVE: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """windows: how many can contain an element, along h and along w."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < numel
    n, c, h, w = place_in(e, in_sizes)
    at = h * in_sizes[3] + w
    first_h = first_window(h, in_sizes[2], out_sizes[2], kernel[0], stride[0], padding[0], dilation[0], ADAPTIVE)
    first_w = first_window(w, in_sizes[3], out_sizes[3], kernel[1], stride[1], padding[1], dilation[1], ADAPTIVE)
    total = tl.zeros([BLOCK], COMPUTE)
    for i in range(windows[0]):
        oh = first_h + i
        for j in range(windows[1]):
            ow = first_w + j
            inside = mask & (oh < out_sizes[2]) & (ow < out_sizes[3])
            its_place = tl.load(places + offset(n, c, oh, ow, place_strides), mask=inside, other=-1)
            inside = inside & (its_place == at)
            total += tl.load(gradient + offset(n, c, oh, ow, gradient_strides), mask=inside, other=0).to(COMPUTE)
    write(result + offset(n, c, h, w, result_strides), total, mask)


@nereid.jit
def share(oh, ow, in_sizes, out_sizes, kernel, stride, padding, divisor, PADDED: tl.constexpr, ADAPTIVE: tl.constexpr):
    """(h0, h1, w0, w1, number by which the sum of the window is divided). divisor: that number, or 0. PADDED: the padding counts."""
    h0, h1 = window(oh, in_sizes[2], out_sizes[2], stride[0], padding[0], ADAPTIVE)
    w0, w1 = window(ow, in_sizes[3], out_sizes[3], stride[1], padding[1], ADAPTIVE)
    if ADAPTIVE:
        count = (h1 - h0) * (w1 - w0)
    else:
        h1 = tl.minimum(h0 + kernel[0], in_sizes[2] + padding[0])
        w1 = tl.minimum(w0 + kernel[1], in_sizes[3] + padding[1])
        count = (h1 - h0) * (w1 - w0)
        h0 = tl.maximum(h0, 0)
        w0 = tl.maximum(w0, 0)
        h1 = tl.minimum(h1, in_sizes[2])
        w1 = tl.minimum(w1, in_sizes[3])
        if not PADDED:
            count = (h1 - h0) * (w1 - w0)
        count = tl.where(divisor != 0, divisor, count)
    return h0, h1, w0, w1, count


@nereid.jit
def average_pool(out, x, in_sizes, out_sizes, x_strides, out_strides, numel, kernel, stride, padding, divisor, PADDED: tl.constexpr, ADAPTIVE: tl.constexpr,
                 COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """The mean of each window."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < numel
    n, c, oh, ow = place_in(e, out_sizes)
    h0, h1, w0, w1, count = share(oh, ow, in_sizes, out_sizes, kernel, stride, padding, divisor, PADDED, ADAPTIVE)
    base = n * x_strides[0] + c * x_strides[1]
    total = tl.zeros([BLOCK], COMPUTE)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            inside = mask & (h0 + i < h1) & (w0 + j < w1)
            total += tl.load(x + base + (h0 + i) * x_strides[2] + (w0 + j) * x_strides[3], mask=inside, other=0).to(COMPUTE)
    empty = (h0 >= h1) | (w0 >= w1)
    write(out + offset(n, c, oh, ow, out_strides), tl.where(empty, 0, total / tl.where(count == 0, 1, count).to(COMPUTE)), mask)


@nereid.jit
def average_pool_gradient(result, gradient, in_sizes, out_sizes, result_strides, gradient_strides, numel, kernel, stride, padding, divisor, windows,
                          PADDED: tl.constexpr, ADAPTIVE: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < numel
    n, c, h, w = place_in(e, in_sizes)
    first_h = first_window(h, in_sizes[2], out_sizes[2], kernel[0], stride[0], padding[0], 1, ADAPTIVE)
    first_w = first_window(w, in_sizes[3], out_sizes[3], kernel[1], stride[1], padding[1], 1, ADAPTIVE)
    total = tl.zeros([BLOCK], COMPUTE)
    for i in range(windows[0]):
        oh = first_h + i
        for j in range(windows[1]):
            ow = first_w + j
            h0, h1, w0, w1, count = share(oh, ow, in_sizes, out_sizes, kernel, stride, padding, divisor, PADDED, ADAPTIVE)
            inside = mask & (oh < out_sizes[2]) & (ow < out_sizes[3]) & (h >= h0) & (h < h1) & (w >= w0) & (w < w1)
            value = tl.load(gradient + offset(n, c, oh, ow, gradient_strides), mask=inside, other=0).to(COMPUTE)
            total += tl.where(inside, value / tl.where(count == 0, 1, count).to(COMPUTE), 0)
    write(result + offset(n, c, h, w, result_strides), total, mask)


# Interpolation


@nereid.jit
def nearest(o, size, outputs, scale, EXACT: tl.constexpr):
    """The input's place for the output's place `o`, in fp32 as PyTorch computes it."""
    if EXACT:
        at = tl.floor((o.to(tl.float32) + 0.5) * scale.to(tl.float32)).to(tl.int64)
    else:
        at = tl.floor(o.to(tl.float32) * scale.to(tl.float32)).to(tl.int64)
        at = tl.where(outputs == size, o, tl.where(outputs == 2 * size, o // 2, at))
    return tl.minimum(at, size - 1)


@nereid.jit
def upsample_nearest(out, x, in_sizes, out_sizes, x_strides, out_strides, numel, scale, EXACT: tl.constexpr, BLOCK: tl.constexpr):
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < numel
    n, c, oh, ow = place_in(e, out_sizes)
    h = nearest(oh, in_sizes[2], out_sizes[2], scale[0], EXACT)
    w = nearest(ow, in_sizes[3], out_sizes[3], scale[1], EXACT)
    tl.store(out + offset(n, c, oh, ow, out_strides), tl.load(x + offset(n, c, h, w, x_strides), mask=mask, other=0), mask=mask)


@nereid.jit
def upsample_nearest_gradient(result, gradient, in_sizes, out_sizes, result_strides, gradient_strides, numel, scale, windows, EXACT: tl.constexpr,
                              COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """windows: how many places of the output can have one of the input as nearest, with one to spare on each side."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < numel
    n, c, h, w = place_in(e, in_sizes)
    first_h = tl.maximum(tl.floor(h.to(tl.float32) / scale[0].to(tl.float32)).to(tl.int64) - 2, 0)
    first_w = tl.maximum(tl.floor(w.to(tl.float32) / scale[1].to(tl.float32)).to(tl.int64) - 2, 0)
    total = tl.zeros([BLOCK], COMPUTE)
    for i in range(windows[0]):
        oh = first_h + i
        its_h = nearest(oh, in_sizes[2], out_sizes[2], scale[0], EXACT)
        for j in range(windows[1]):
            ow = first_w + j
            inside = mask & (oh < out_sizes[2]) & (ow < out_sizes[3]) & (its_h == h) & (nearest(ow, in_sizes[3], out_sizes[3], scale[1], EXACT) == w)
            total += tl.load(gradient + offset(n, c, oh, ow, gradient_strides), mask=inside, other=0).to(COMPUTE)
    write(result + offset(n, c, h, w, result_strides), total, mask)


@nereid.jit
def linear(o, size, scale, ALIGNED: tl.constexpr, COMPUTE: tl.constexpr):
    """(lower place, upper place, share of the upper one) for the output's place `o`."""
    if ALIGNED:
        at = o.to(COMPUTE) * scale.to(COMPUTE)
    else:
        at = tl.maximum((o.to(COMPUTE) + 0.5) * scale.to(COMPUTE) - 0.5, 0.0)
    low = tl.minimum(at.to(tl.int64), size - 1)
    return low, tl.minimum(low + 1, size - 1), tl.minimum(tl.maximum(at - low.to(COMPUTE), 0.0), 1.0)


@nereid.jit
def upsample_bilinear(out, x, in_sizes, out_sizes, x_strides, out_strides, numel, scale, ALIGNED: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < numel
    n, c, oh, ow = place_in(e, out_sizes)
    h0, h1, h_share = linear(oh, in_sizes[2], scale[0], ALIGNED, COMPUTE)
    w0, w1, w_share = linear(ow, in_sizes[3], scale[1], ALIGNED, COMPUTE)
    a = tl.load(x + offset(n, c, h0, w0, x_strides), mask=mask, other=0).to(COMPUTE)
    b = tl.load(x + offset(n, c, h0, w1, x_strides), mask=mask, other=0).to(COMPUTE)
    above = a * (1 - w_share) + b * w_share
    a = tl.load(x + offset(n, c, h1, w0, x_strides), mask=mask, other=0).to(COMPUTE)
    b = tl.load(x + offset(n, c, h1, w1, x_strides), mask=mask, other=0).to(COMPUTE)
    below = a * (1 - w_share) + b * w_share
    write(out + offset(n, c, oh, ow, out_strides), above * (1 - h_share) + below * h_share, mask)


@nereid.jit
def share_of(place, low, high, part, COMPUTE: tl.constexpr):
    """How much `place` gives to a linear interpolation between `low` and `high`."""
    return tl.where(low == place, 1 - part, 0).to(COMPUTE) + tl.where(high == place, part, 0).to(COMPUTE)


@nereid.jit
def first_linear(place, scale, ALIGNED: tl.constexpr, COMPUTE: tl.constexpr):
    """The first place of the output to which `place` may give."""
    if ALIGNED:
        at = (place - 1).to(COMPUTE) / scale.to(COMPUTE)
    else:
        at = (place.to(COMPUTE) - 0.5) / scale.to(COMPUTE) - 0.5
    return tl.maximum(tl.floor(at).to(tl.int64) - 1, 0)


@nereid.jit
def upsample_bilinear_gradient(result, gradient, in_sizes, out_sizes, result_strides, gradient_strides, numel, scale, windows, ALIGNED: tl.constexpr,
                               COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """windows: how many places of the output an element of the input can give to, for h and w."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < numel
    n, c, h, w = place_in(e, in_sizes)
    first_h = first_linear(h, scale[0], ALIGNED, COMPUTE)
    first_w = first_linear(w, scale[1], ALIGNED, COMPUTE)
    total = tl.zeros([BLOCK], COMPUTE)
    for i in range(windows[0]):
        oh = first_h + i
        low, high, part = linear(oh, in_sizes[2], scale[0], ALIGNED, COMPUTE)
        h_share = share_of(h, low, high, part, COMPUTE)
        for j in range(windows[1]):
            ow = first_w + j
            low, high, part = linear(ow, in_sizes[3], scale[1], ALIGNED, COMPUTE)
            inside = mask & (oh < out_sizes[2]) & (ow < out_sizes[3])
            value = tl.load(gradient + offset(n, c, oh, ow, gradient_strides), mask=inside, other=0).to(COMPUTE)
            total += value * h_share * share_of(w, low, high, part, COMPUTE)
    write(result + offset(n, c, h, w, result_strides), total, mask)


@nereid.jit
def filter_weight(x, CUBIC: tl.constexpr):
    """The weight of a place at the distance `x`: of Keys' cubic with a = -0.5, or linear."""
    x = tl.abs(x)
    if CUBIC:
        near = (1.5 * x - 2.5) * x * x + 1
        far = ((-0.5 * x + 2.5) * x - 4) * x + 2
        return tl.where(x < 1, near, tl.where(x < 2, far, 0.0))
    else:
        return tl.where(x < 1, 1 - x, 0.0)


@nereid.jit
def filtered_window(o, size, scale, CUBIC: tl.constexpr, COMPUTE: tl.constexpr):
    """(first place, end, centre, inverse of the filter's stretching) for the output's place `o`."""
    scale = scale.to(COMPUTE)
    stretch = tl.maximum(scale, 1.0)
    support = stretch * (2.0 if CUBIC else 1.0)
    centre = scale * (o.to(COMPUTE) + 0.5)
    first = tl.maximum((centre - support + 0.5).to(tl.int64), 0)
    end = tl.minimum((centre + support + 0.5).to(tl.int64), size)
    return first, end, centre, 1 / stretch


@nereid.jit
def upsample_filtered(out, x, in_sizes, out_sizes, x_strides, out_strides, numel, scale, windows, CUBIC: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """Interpolation that averages over all places which the output's one covers. windows: at most how many, for h and w."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < numel
    n, c, oh, ow = place_in(e, out_sizes)
    h0, h1, h_centre, h_inverse = filtered_window(oh, in_sizes[2], scale[0], CUBIC, COMPUTE)
    w0, w1, w_centre, w_inverse = filtered_window(ow, in_sizes[3], scale[1], CUBIC, COMPUTE)
    base = n * x_strides[0] + c * x_strides[1]
    total = tl.zeros([BLOCK], COMPUTE)
    h_sum = tl.zeros([BLOCK], COMPUTE)
    w_sum = tl.zeros([BLOCK], COMPUTE)
    for j in range(windows[1]):
        weight = filter_weight(((w0 + j).to(COMPUTE) - w_centre + 0.5) * w_inverse, CUBIC)
        w_sum += tl.where(w0 + j < w1, weight, 0)
    for i in range(windows[0]):
        h = h0 + i
        h_weight = tl.where(h < h1, filter_weight((h.to(COMPUTE) - h_centre + 0.5) * h_inverse, CUBIC), 0)
        h_sum += h_weight
        row = tl.zeros([BLOCK], COMPUTE)
        for j in range(windows[1]):
            w = w0 + j
            inside = mask & (h < h1) & (w < w1)
            weight = filter_weight((w.to(COMPUTE) - w_centre + 0.5) * w_inverse, CUBIC)
            row += tl.where(inside, tl.load(x + base + h * x_strides[2] + w * x_strides[3], mask=inside, other=0).to(COMPUTE) * (weight / w_sum), 0)
        total += row * h_weight
    write(out + offset(n, c, oh, ow, out_strides), total / h_sum, mask)
