"""Kernels that sample tensors (n, c, d, h, w) at the places of a grid, and their gradients (planes.py).

A grid holds (x, y) or (x, y, z), of which -1 and 1 are the ends of a dimension: the centres of its outer elements with ALIGNED, else their outer edges.
MODE is "linear", "nearest" or "cubic" (a = -0.75); PADDING says what is outside: "zeros", "border" (the nearest element) or "reflection".
"""

import nereid
import nereid.language as tl
from nereid.language.extra import libdevice

from .interpolation import cubic
from .planes import known, located, numbers, place_in


@nereid.constexpr_function
def taps_of(mode):
    return {"nearest": 1, "linear": 2, "cubic": 4}[mode]


@nereid.jit
def unnormalized(at, size, ALIGNED: tl.constexpr, COMPUTE: tl.constexpr):
    """(place in elements, its derivative)."""
    if ALIGNED:
        factor = (size - 1).to(COMPUTE) / 2
        return (at + 1) / 2 * (size - 1).to(COMPUTE), factor
    else:
        return ((at + 1) * size.to(COMPUTE) - 1) / 2, size.to(COMPUTE) / 2


@nereid.jit
def clipped(at, size, COMPUTE: tl.constexpr):
    """(place within a dimension, its derivative); not-a-number becomes 0."""
    last = (size - 1).to(COMPUTE)
    inside = (at > 0) & (at < last)
    return tl.where(at > 0, tl.where(at < last, at, last), 0.0), tl.where(inside, 1.0, 0.0).to(COMPUTE)


@nereid.jit
def inside_place(at, size, PADDING: tl.constexpr, ALIGNED: tl.constexpr, COMPUTE: tl.constexpr):
    """(place by the rule of PADDING, its derivative)."""
    if PADDING == "zeros":
        return at, tl.full(at.shape, 1, COMPUTE)
    elif PADDING == "border":
        return clipped(at, size, COMPUTE)
    else:
        if ALIGNED:
            low = tl.full(at.shape, 0, COMPUTE)
            span = (size - 1).to(COMPUTE)
        else:
            low = tl.full(at.shape, -0.5, COMPUTE)
            span = size.to(COMPUTE)
        there = span > 0
        span = tl.where(there, span, 1.0)
        away = at - low
        sign = tl.where(away < 0, -1.0, 1.0)
        away = tl.abs(away)
        flips = tl.floor(away / span)
        extra = libdevice.fmod(away, tl.zeros(at.shape, COMPUTE) + span)
        odd = flips - 2 * tl.floor(flips / 2) != 0
        place = tl.where(odd, span - extra, extra) + low
        place, slope = clipped(tl.where(there, place, 0.0), size, COMPUTE)
        return place, slope * tl.where(odd, -sign, sign).to(COMPUTE)


@nereid.jit
def axis_place(grid, mask, size, MODE: tl.constexpr, PADDING: tl.constexpr, ALIGNED: tl.constexpr, COMPUTE: tl.constexpr):
    """(place along a dimension, its derivative) for the number at `grid`. Places of cubic sampling are padded tap by tap."""
    at, factor = unnormalized(tl.load(grid, mask=mask, other=0).to(COMPUTE), size, ALIGNED, COMPUTE)
    if MODE == "cubic":
        return at, tl.zeros(at.shape, COMPUTE) + factor
    else:
        at, slope = inside_place(at, size, PADDING, ALIGNED, COMPUTE)
        return at, slope * factor


@nereid.jit
def cubic_slope(t, T: tl.constexpr):
    """The derivative of `cubic`."""
    if T == 0:
        x = t + 1
        return (-2.25 * x + 7.5) * x - 6
    elif T == 1:
        return (3.75 * t - 4.5) * t
    elif T == 2:
        x = 1 - t
        return (-3.75 * x + 4.5) * x
    else:
        x = 2 - t
        return (2.25 * x - 7.5) * x + 6


@nereid.jit
def axis_tap(at, size, T: tl.constexpr, MODE: tl.constexpr, PADDING: tl.constexpr, ALIGNED: tl.constexpr, COMPUTE: tl.constexpr):
    """(index, weight, derivative of the weight, whether the index exists) of tap T for the place `at`."""
    if MODE == "nearest":
        place = libdevice.rint(at)
        weight = tl.full(at.shape, 1, COMPUTE)
        slope = tl.zeros(at.shape, COMPUTE)
    elif MODE == "linear":
        low = tl.floor(at)
        place = low + T
        weight = at - low if T == 1 else low + 1 - at
        slope = tl.full(at.shape, 1 if T == 1 else -1, COMPUTE)
    else:
        low = tl.floor(at)
        place, _ = inside_place(low - 1 + T, size, PADDING, ALIGNED, COMPUTE)
        weight = cubic(at - low, T)
        slope = cubic_slope(at - low, T)
    exists = (place >= 0) & (place <= (size - 1).to(COMPUTE))
    return tl.where(exists, place, 0.0).to(tl.int64), weight, slope, exists


@nereid.jit
def taps(grid, mask, sizes, x_strides, component, MODE: tl.constexpr, PADDING: tl.constexpr, ALIGNED: tl.constexpr, COMPUTE: tl.constexpr, DEEP: tl.constexpr):
    """(offsets, weights, derivatives of weights by x, by y, by z, masks) of all taps: tuples. grid: where the numbers of the places begin; component: their stride."""
    x, x_factor = axis_place(grid, mask, sizes[4], MODE, PADDING, ALIGNED, COMPUTE)
    y, y_factor = axis_place(grid + component, mask, sizes[3], MODE, PADDING, ALIGNED, COMPUTE)
    z, z_factor = x, x_factor
    if DEEP:
        z, z_factor = axis_place(grid + 2 * component, mask, sizes[2], MODE, PADDING, ALIGNED, COMPUTE)
    offsets, weights, by_x, by_y, by_z, masks = (), (), (), (), (), ()
    for i in tl.static_range(taps_of(MODE) if DEEP else 1):
        d, d_weight, d_slope, d_exists = x.to(tl.int64) * 0, tl.full(x.shape, 1, COMPUTE), tl.zeros(x.shape, COMPUTE), mask
        if DEEP:
            d, d_weight, d_slope, d_exists = axis_tap(z, sizes[2], i, MODE, PADDING, ALIGNED, COMPUTE)
        for j in tl.static_range(taps_of(MODE)):
            h, h_weight, h_slope, h_exists = axis_tap(y, sizes[3], j, MODE, PADDING, ALIGNED, COMPUTE)
            for k in tl.static_range(taps_of(MODE)):
                w, w_weight, w_slope, w_exists = axis_tap(x, sizes[4], k, MODE, PADDING, ALIGNED, COMPUTE)
                offsets = offsets + (d * x_strides[2] + h * x_strides[3] + w * x_strides[4],)
                weights = weights + (w_weight * h_weight * d_weight,)
                by_x = by_x + (w_slope * h_weight * d_weight * x_factor,)
                by_y = by_y + (w_weight * h_slope * d_weight * y_factor,)
                by_z = by_z + (w_weight * h_weight * d_slope * z_factor,)
                masks = masks + (mask & w_exists & h_exists & d_exists,)
    return offsets, weights, by_x, by_y, by_z, masks


@nereid.jit
def tapped(pointers, mask, LANES: tl.constexpr):
    """The elements of a tap, 0 where it does not exist. Its offset is always one of the tensor's, and CPUs gather faster without a mask."""
    if LANES is None:
        return tl.load(pointers, mask=mask, other=0)
    else:
        return tl.where(mask, tl.load(pointers), 0)


@nereid.jit
def sample(out, x, grid, in_sizes, out_sizes, x_strides, out_strides, grid_strides, numel, MODE: tl.constexpr, PADDING: tl.constexpr, ALIGNED: tl.constexpr,
           COMPUTE: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr):
    """out[n, c, ...] = x[n, c] at the places grid[n, ...]. in_sizes, out_sizes: (n, c, d, h, w); grid_strides: of n, d, h, w and the numbers of a place; numel: how many
    places there are. LANES: as `located` takes it. Grid: (blocks of places, groups of channels)."""
    DEEP: tl.constexpr = in_sizes[2] is not None
    in_sizes, out_sizes, x_strides, out_strides, grid_strides = known(in_sizes, 1), known(out_sizes, 1), known(x_strides, 0), known(out_strides, 0), known(grid_strides, 0)
    n, _, od, oh, ow, mask = located((out_sizes[0], 1, out_sizes[2], out_sizes[3], out_sizes[4]), numel, LANES, BLOCK)
    place = grid + n * grid_strides[0] + od * grid_strides[1] + oh * grid_strides[2] + ow * grid_strides[3]
    offsets, weights, _, _, _, masks = taps(place, mask, in_sizes, x_strides, grid_strides[4], MODE, PADDING, ALIGNED, COMPUTE, DEEP)
    to = out + n * out_strides[0] + od * out_strides[2] + oh * out_strides[3] + ow * out_strides[4]
    for c in range(tl.program_id(1).to(tl.int64), in_sizes[1], tl.num_programs(1)):
        total = tl.zeros([BLOCK], COMPUTE)
        for t in tl.static_range(len(offsets)):
            part = tapped(x + n * x_strides[0] + c * x_strides[1] + offsets[t], masks[t], LANES).to(COMPUTE) * weights[t]
            # In volumes what does not exist adds nothing, even at places that are no numbers; ATen's weights of planes count there.
            total += tl.where(masks[t], part, 0) if DEEP else part
        tl.store(to + c * out_strides[1], total.to(out.dtype.element_ty), mask=mask)


@nereid.jit
def spread(result, gradient, grid, n, od, oh, ow, mask, sizes, result_strides, gradient_strides, grid_strides, MODE: tl.constexpr, PADDING: tl.constexpr,
           ALIGNED: tl.constexpr, COMPUTE: tl.constexpr, DEEP: tl.constexpr, SCOPE: tl.constexpr):
    """Adds the gradients of a block of places, of the channels of this program. Arguments: see `sample_gradient`."""
    place = grid + n * grid_strides[0] + od * grid_strides[1] + oh * grid_strides[2] + ow * grid_strides[3]
    offsets, weights, _, _, _, masks = taps(place, mask, sizes, result_strides, grid_strides[4], MODE, PADDING, ALIGNED, COMPUTE, DEEP)
    start = gradient + n * gradient_strides[0] + od * gradient_strides[2] + oh * gradient_strides[3] + ow * gradient_strides[4]
    for c in range(tl.program_id(1).to(tl.int64), sizes[1], tl.num_programs(1)):
        g = tl.load(start + c * gradient_strides[1], mask=mask, other=0).to(COMPUTE)
        for t in tl.static_range(len(offsets)):
            tl.atomic_add(result + n * result_strides[0] + c * result_strides[1] + offsets[t], g * weights[t], mask=masks[t], sem="relaxed", scope=SCOPE)


@nereid.jit
def sample_gradient(result, gradient, grid, in_sizes, out_sizes, result_strides, gradient_strides, grid_strides, numel, MODE: tl.constexpr, PADDING: tl.constexpr,
                    ALIGNED: tl.constexpr, COMPUTE: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr):
    """Adds the gradient of what was sampled to `result` in COMPUTE, which is full of zeros, atomically. Grid: (groups of places, groups of channels): one group of places
    adds up in their order. LANES: None, or 4 for lines of places along w, with one group: then no other program adds to the same channels. Other arguments: see `sample`."""
    DEEP: tl.constexpr = in_sizes[2] is not None
    in_sizes, out_sizes, grid_strides = known(in_sizes, 1), known(out_sizes, 1), known(grid_strides, 0)
    result_strides, gradient_strides = known(result_strides, 0), known(gradient_strides, 0)
    if LANES is None:
        for first in range(tl.program_id(0).to(tl.int64) * BLOCK, numel, tl.num_programs(0) * BLOCK):
            e = first + tl.arange(0, BLOCK)
            n, _, od, oh, ow = place_in(e, (out_sizes[0], 1, out_sizes[2], out_sizes[3], out_sizes[4]))
            spread(result, gradient, grid, n, od, oh, ow, e < numel, in_sizes, result_strides, gradient_strides, grid_strides, MODE, PADDING, ALIGNED, COMPUTE, DEEP, "gpu")
    else:
        for line in range(0, numel // out_sizes[4]):
            n, _, od, oh, _ = place_in(line, (out_sizes[0], 1, out_sizes[2], out_sizes[3], 1))
            for first in range(0, out_sizes[4], BLOCK):
                ow = first + tl.arange(0, BLOCK)
                spread(result, gradient, grid, n, od, oh, ow, ow < out_sizes[4], in_sizes, result_strides, gradient_strides, grid_strides, MODE, PADDING, ALIGNED, COMPUTE, DEEP,
                       "cta")


@nereid.jit
def grid_gradient(result, gradient, x, grid, in_sizes, out_sizes, x_strides, gradient_strides, grid_strides, numel, MODE: tl.constexpr, PADDING: tl.constexpr,
                  ALIGNED: tl.constexpr, COMPUTE: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr):
    """The gradient of the places. result: contiguous, as the grid. Grid: blocks of places. Other arguments: see `sample`."""
    DEEP: tl.constexpr = in_sizes[2] is not None
    in_sizes, out_sizes, x_strides, gradient_strides = known(in_sizes, 1), known(out_sizes, 1), known(x_strides, 0), known(gradient_strides, 0)
    grid_strides = known(grid_strides, 0)
    n, _, od, oh, ow, mask = located((out_sizes[0], 1, out_sizes[2], out_sizes[3], out_sizes[4]), numel, LANES, BLOCK)
    place = grid + n * grid_strides[0] + od * grid_strides[1] + oh * grid_strides[2] + ow * grid_strides[3]
    offsets, _, by_x, by_y, by_z, masks = taps(place, mask, in_sizes, x_strides, grid_strides[4], MODE, PADDING, ALIGNED, COMPUTE, DEEP)
    start = gradient + n * gradient_strides[0] + od * gradient_strides[2] + oh * gradient_strides[3] + ow * gradient_strides[4]
    along_x = tl.zeros([BLOCK], COMPUTE)
    along_y = tl.zeros([BLOCK], COMPUTE)
    along_z = tl.zeros([BLOCK], COMPUTE)
    for c in range(0, in_sizes[1]):
        g = tl.load(start + c * gradient_strides[1], mask=mask, other=0).to(COMPUTE)
        for t in tl.static_range(len(offsets)):
            value = g * tapped(x + n * x_strides[0] + c * x_strides[1] + offsets[t], masks[t], LANES).to(COMPUTE)
            along_x += tl.where(masks[t], value * by_x[t], 0)
            along_y += tl.where(masks[t], value * by_y[t], 0)
            if DEEP:
                along_z += tl.where(masks[t], value * by_z[t], 0)
    WIDTH: tl.constexpr = 3 if DEEP else 2
    if LANES is None:
        e = numbers(numel, BLOCK)
    else:
        e = ((n * out_sizes[2] + od) * out_sizes[3] + oh) * out_sizes[4] + ow
    tl.store(result + e * WIDTH, along_x.to(result.dtype.element_ty), mask=mask)
    tl.store(result + e * WIDTH + 1, along_y.to(result.dtype.element_ty), mask=mask)
    if DEEP:
        tl.store(result + e * WIDTH + 2, along_z.to(result.dtype.element_ty), mask=mask)
