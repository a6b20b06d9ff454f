"""Kernels of pooling over windows of tensors (n, c, d, h, w), of any strides (planes.py), and of their backward steps.

Backward steps add up, for each element of the input, what the windows that contain it give, in the order of the windows: no atomics.

WINDOWS says where windows are: "strided", "adaptive" (as many as the result has elements, they cover the input) or "random" (fractional pooling: intervals of
random length, Graham 2014, "Fractional max-pooling").
"""

import nereid
import nereid.language as tl

from ._shared import lowest, write
from .planes import known, located, numbers, offset, place_in


@nereid.jit
def window(o, size, outputs, stride, padding, WINDOWS: tl.constexpr):
    """The first place of window `o` along a dimension of `size`, which may lie in the padding, and for adaptive windows the end."""
    if WINDOWS == "adaptive":
        return o * size // outputs, ((o + 1) * size + outputs - 1) // outputs
    else:
        return o * stride - padding, o * 0 + size


@nereid.jit
def max_pool(out, places, x, in_sizes, out_sizes, x_strides, out_strides, place_strides, numel, kernel, stride, padding, dilation, WINDOWS: tl.constexpr,
             COMPUTE: tl.constexpr, LAST: tl.constexpr, BLOCK: tl.constexpr):
    """The greatest element of each window and its place (d * H + h) * W + w; NaN is above all. *_sizes: (N, C, D, H, W); kernel, ...: (of d, of h, of w)."""
    in_sizes, out_sizes = known(in_sizes, 1), known(out_sizes, 1)
    x_strides = known(x_strides, 0)
    kernel, stride, padding, dilation = known(kernel, 1), known(stride, 1), known(padding, 0), known(dilation, 1)
    n, c, od, oh, ow, mask = located(out_sizes, numel, "last" if LAST else None, BLOCK)
    d0, d1 = window(od, in_sizes[2], out_sizes[2], stride[0], padding[0], WINDOWS)
    h0, h1 = window(oh, in_sizes[3], out_sizes[3], stride[1], padding[1], WINDOWS)
    w0, w1 = window(ow, in_sizes[4], out_sizes[4], stride[2], padding[2], WINDOWS)
    base = n * x_strides[0] + c * x_strides[1]
    best = tl.full([BLOCK], lowest(COMPUTE), COMPUTE)
    # Where nothing is above the least value, the first place of the window counts.
    at = (first_inside(d0, dilation[0]) * in_sizes[3] + first_inside(h0, dilation[1])) * in_sizes[4] + first_inside(w0, dilation[2])
    for i in range(kernel[0]):
        d = d0 + i * dilation[0]
        for j in range(kernel[1]):
            h = h0 + j * dilation[1]
            line = mask & (d >= 0) & (d < d1) & (h >= 0) & (h < h1)
            for k in range(kernel[2]):
                w = w0 + k * dilation[2]
                inside = line & (w >= 0) & (w < w1)
                value = tl.load(x + base + d * x_strides[2] + h * x_strides[3] + w * x_strides[4], mask=inside, other=0).to(COMPUTE)
                take = inside & ((value > best) | (value != value))
                best = tl.where(take, value, best)
                at = tl.where(take, (d * in_sizes[3] + h) * in_sizes[4] + w, at)
    write(out + offset(n, c, od, oh, ow, known(out_strides, 0)), best, mask)
    tl.store(places + offset(n, c, od, oh, ow, known(place_strides, 0)), at, mask=mask)


@nereid.jit
def first_inside(first, dilation):
    """The first place of a window that does not lie in the padding."""
    return tl.where(first < 0, first + (-first + dilation - 1) // dilation * dilation, first)


@nereid.jit
def random_start(o, outputs, size, kernel, sample, COMPUTE: tl.constexpr):
    """The first place of the random interval `o`. sample: a number from 0 to 1 in COMPUTE."""
    alpha = (size - kernel).to(COMPUTE) / tl.maximum(outputs - 1, 1).to(COMPUTE)
    at = ((o.to(COMPUTE) + sample) * alpha).to(tl.int64) - (sample * alpha).to(tl.int64)
    return tl.where(o == outputs - 1, size - kernel, at)


@nereid.jit
def random_max_pool(out, places, x, samples, in_sizes, out_sizes, x_strides, out_strides, place_strides, sample_strides, numel, kernel, COMPUTE: tl.constexpr,
                    BLOCK: tl.constexpr):
    """`max_pool` of random intervals. samples: (N, C, dimensions), of planes for (w, h), of volumes for (d, h, w)."""
    FLAT: tl.constexpr = in_sizes[2] is None
    in_sizes, out_sizes, x_strides, kernel = known(in_sizes, 1), known(out_sizes, 1), known(x_strides, 0), known(kernel, 1)
    e = numbers(numel, BLOCK)
    mask = e < numel
    n, c, od, oh, ow = place_in(e, out_sizes)
    sample = samples + n * sample_strides[0] + c * sample_strides[1]
    first = tl.load(sample, mask=mask, other=0).to(COMPUTE)
    second = tl.load(sample + sample_strides[2], mask=mask, other=0).to(COMPUTE)
    h0 = random_start(oh, out_sizes[3], in_sizes[3], kernel[1], second, COMPUTE)
    if FLAT:
        d0 = od
        w0 = random_start(ow, out_sizes[4], in_sizes[4], kernel[2], first, COMPUTE)
    else:
        d0 = random_start(od, out_sizes[2], in_sizes[2], kernel[0], first, COMPUTE)
        w0 = random_start(ow, out_sizes[4], in_sizes[4], kernel[2], tl.load(sample + 2 * sample_strides[2], mask=mask, other=0).to(COMPUTE), COMPUTE)
    base = n * x_strides[0] + c * x_strides[1]
    best = tl.full([BLOCK], lowest(COMPUTE), COMPUTE)
    at = (d0 * in_sizes[3] + h0) * in_sizes[4] + w0
    for i in range(kernel[0]):
        d = d0 + i
        for j in range(kernel[1]):
            h = h0 + j
            for k in range(kernel[2]):
                w = w0 + k
                value = tl.load(x + base + d * x_strides[2] + h * x_strides[3] + w * x_strides[4], mask=mask, other=0).to(COMPUTE)
                take = (value > best) | (value != value)
                best = tl.where(take, value, best)
                at = tl.where(take, (d * in_sizes[3] + h) * in_sizes[4] + w, at)
    write(out + offset(n, c, od, oh, ow, known(out_strides, 0)), best, mask)
    tl.store(places + offset(n, c, od, oh, ow, known(place_strides, 0)), at, mask=mask)


@nereid.jit
def first_window(h, size, outputs, kernel, stride, padding, dilation, WINDOWS: tl.constexpr):
    """The first window along a dimension that may contain the place `h`."""
    if WINDOWS == "adaptive":
        return tl.maximum(h * outputs // size - 1, 0)
    elif WINDOWS == "random":
        # Windows begin within one place of o * (size - kernel) / (outputs - 1).
        return tl.maximum((h - kernel) * tl.maximum(outputs - 1, 1) // tl.maximum(size - kernel, 1) - 1, 0)
    else:
        return tl.maximum(h + padding - dilation * (kernel - 1) + stride - 1, 0) // stride


@nereid.jit
def max_pool_gradient(result, gradient, places, in_sizes, out_sizes, result_strides, gradient_strides, place_strides, numel, kernel, stride, padding, dilation, windows,
                      WINDOWS: tl.constexpr, COMPUTE: tl.constexpr, LAST: tl.constexpr, BLOCK: tl.constexpr):
    """windows: how many can contain an element, along d, h and w."""
    in_sizes, out_sizes = known(in_sizes, 1), known(out_sizes, 1)
    gradient_strides, place_strides = known(gradient_strides, 0), known(place_strides, 0)
    kernel, stride, padding, dilation, windows = known(kernel, 1), known(stride, 1), known(padding, 0), known(dilation, 1), known(windows, 1)
    n, c, d, h, w, mask = located(in_sizes, numel, "last" if LAST else None, BLOCK)
    at = (d * in_sizes[3] + h) * in_sizes[4] + w
    first_d = first_window(d, in_sizes[2], out_sizes[2], kernel[0], stride[0], padding[0], dilation[0], WINDOWS)
    first_h = first_window(h, in_sizes[3], out_sizes[3], kernel[1], stride[1], padding[1], dilation[1], WINDOWS)
    first_w = first_window(w, in_sizes[4], out_sizes[4], kernel[2], stride[2], padding[2], dilation[2], WINDOWS)
    total = tl.zeros([BLOCK], COMPUTE)
    for i in range(windows[0]):
        od = first_d + i
        for j in range(windows[1]):
            oh = first_h + j
            line = mask & (od < out_sizes[2]) & (oh < out_sizes[3])
            for k in range(windows[2]):
                ow = first_w + k
                inside = line & (ow < out_sizes[4])
                its_place = tl.load(places + offset(n, c, od, oh, ow, place_strides), mask=inside, other=-1)
                inside = inside & (its_place == at)
                total += tl.load(gradient + offset(n, c, od, oh, ow, gradient_strides), mask=inside, other=0).to(COMPUTE)
    write(result + offset(n, c, d, h, w, known(result_strides, 0)), total, mask)


@nereid.jit
def span(o, size, outputs, kernel, stride, padding, WINDOWS: tl.constexpr):
    """(first place, end, length with the padding) of window `o` along a dimension."""
    first, end = window(o, size, outputs, stride, padding, WINDOWS)
    if WINDOWS == "adaptive":
        return first, end, end - first
    else:
        end = tl.minimum(first + kernel, size + padding)
        return tl.maximum(first, 0), tl.minimum(end, size), end - first


@nereid.jit
def share(od, oh, ow, in_sizes, out_sizes, kernel, stride, padding, divisor, PADDED: tl.constexpr, WINDOWS: tl.constexpr):
    """(d0, d1, h0, h1, w0, w1, number by which the sum of the window is divided). divisor: that number, or 0. PADDED: the padding counts."""
    d0, d1, depth = span(od, in_sizes[2], out_sizes[2], kernel[0], stride[0], padding[0], WINDOWS)
    h0, h1, height = span(oh, in_sizes[3], out_sizes[3], kernel[1], stride[1], padding[1], WINDOWS)
    w0, w1, width = span(ow, in_sizes[4], out_sizes[4], kernel[2], stride[2], padding[2], WINDOWS)
    if PADDED:
        count = depth * height * width
    else:
        count = (d1 - d0) * (h1 - h0) * (w1 - w0)
    if WINDOWS != "adaptive":
        count = tl.where(divisor != 0, divisor, count)
    return d0, d1, h0, h1, w0, w1, count


@nereid.jit
def mean_of(total, count, COMPUTE: tl.constexpr):
    """A sum divided by a count; integers are divided as in C."""
    count = tl.where(count == 0, 1, count).to(COMPUTE)
    if COMPUTE.is_floating():
        return total / count
    else:
        return total // count


@nereid.jit
def average_pool(out, x, in_sizes, out_sizes, x_strides, out_strides, numel, kernel, stride, padding, divisor, PADDED: tl.constexpr, WINDOWS: tl.constexpr,
                 COMPUTE: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr):
    """The mean of each window."""
    in_sizes, out_sizes, x_strides = known(in_sizes, 1), known(out_sizes, 1), known(x_strides, 0)
    kernel, stride, padding = known(kernel, 1), known(stride, 1), known(padding, 0)
    n, c, od, oh, ow, mask = located(out_sizes, numel, LANES, BLOCK)
    d0, d1, h0, h1, w0, w1, count = share(od, oh, ow, in_sizes, out_sizes, kernel, stride, padding, divisor, PADDED, WINDOWS)
    base = n * x_strides[0] + c * x_strides[1]
    total = tl.zeros([BLOCK], COMPUTE)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            line = mask & (d0 + i < d1) & (h0 + j < h1)
            for k in range(kernel[2]):
                inside = line & (w0 + k < w1)
                total += tl.load(x + base + (d0 + i) * x_strides[2] + (h0 + j) * x_strides[3] + (w0 + k) * x_strides[4], mask=inside, other=0).to(COMPUTE)
    empty = (d0 >= d1) | (h0 >= h1) | (w0 >= w1)
    write(out + offset(n, c, od, oh, ow, known(out_strides, 0)), tl.where(empty, 0, mean_of(total, count, COMPUTE)), mask)


@nereid.jit
def average_pool_gradient(result, gradient, in_sizes, out_sizes, result_strides, gradient_strides, numel, kernel, stride, padding, divisor, windows,
                          PADDED: tl.constexpr, WINDOWS: tl.constexpr, COMPUTE: tl.constexpr, LAST: tl.constexpr, BLOCK: tl.constexpr):
    in_sizes, out_sizes, gradient_strides = known(in_sizes, 1), known(out_sizes, 1), known(gradient_strides, 0)
    kernel, stride, padding, windows = known(kernel, 1), known(stride, 1), known(padding, 0), known(windows, 1)
    n, c, d, h, w, mask = located(in_sizes, numel, "last" if LAST else None, BLOCK)
    first_d = first_window(d, in_sizes[2], out_sizes[2], kernel[0], stride[0], padding[0], 1, WINDOWS)
    first_h = first_window(h, in_sizes[3], out_sizes[3], kernel[1], stride[1], padding[1], 1, WINDOWS)
    first_w = first_window(w, in_sizes[4], out_sizes[4], kernel[2], stride[2], padding[2], 1, WINDOWS)
    total = tl.zeros([BLOCK], COMPUTE)
    for i in range(windows[0]):
        od = first_d + i
        for j in range(windows[1]):
            oh = first_h + j
            for k in range(windows[2]):
                ow = first_w + k
                d0, d1, h0, h1, w0, w1, count = share(od, oh, ow, in_sizes, out_sizes, kernel, stride, padding, divisor, PADDED, WINDOWS)
                inside = mask & (od < out_sizes[2]) & (oh < out_sizes[3]) & (ow < out_sizes[4])
                inside = inside & (d >= d0) & (d < d1) & (h >= h0) & (h < h1) & (w >= w0) & (w < w1)
                value = tl.load(gradient + offset(n, c, od, oh, ow, gradient_strides), mask=inside, other=0).to(COMPUTE)
                total += tl.where(inside, value / tl.where(count == 0, 1, count).to(COMPUTE), 0)
    write(result + offset(n, c, d, h, w, known(result_strides, 0)), total, mask)


@nereid.jit
def max_unpool(out, x, places, in_sizes, out_sizes, x_strides, out_strides, place_strides, plane, numel, LANES: tl.constexpr, BLOCK: tl.constexpr):
    """out[n, c, place] = x[n, c, ...] with place = places[n, c, ...] = (d * H + h) * W + w. plane: D * H * W. Places that do not exist are passed over."""
    in_sizes, out_sizes = known(in_sizes, 1), known(out_sizes, 1)
    n, c, d, h, w, mask = located(in_sizes, numel, LANES, BLOCK)
    at = tl.load(places + offset(n, c, d, h, w, known(place_strides, 0)), mask=mask, other=-1)
    value = tl.load(x + offset(n, c, d, h, w, known(x_strides, 0)), mask=mask, other=0)
    row = at // out_sizes[4]
    place = offset(n, c, row // out_sizes[3], row % out_sizes[3], at % out_sizes[4], known(out_strides, 0))
    tl.store(out + place, value, mask=mask & (at >= 0) & (at < plane))
