"""Weights and places of interpolation of tensors (n, c, d, h, w), and of its backward steps, for the kernels of GPUs (plane_tiles.py) and CPUs (resampling.py).

Backward steps add up, for each element of the input, what it gives to elements of the output: no atomics.

MODE is "nearest" (sizes that stay or double ignore the factor), "factor" (nearest, by the factor alone), "exact" (nearest to the centre), "linear" or "cubic" (Keys 1981, "Cubic convolution interpolation", with a = -0.75). Filters are "linear", "cubic" (a = -0.5)
or "lanczos" (of three lobes): they are stretched where the output is smaller, so that every element of the input counts.
"""

import nereid
import nereid.language as tl

from .planes import known, located, offset


@nereid.constexpr_function
def taps(mode, absent):
    """How many places along a dimension give to one of the output."""
    return 1 if absent else {"nearest": 1, "factor": 1, "exact": 1, "linear": 2, "cubic": 4}[mode]


@nereid.jit
def nearest(o, size, outputs, scale, MODE: tl.constexpr):
    """The input's place for the output's place `o`, in fp32 as PyTorch computes it. MODE: "exact"; "factor"; "nearest", which ignores `scale` where a size stays or doubles, as PyTorch does on CPUs."""
    if MODE == "exact":
        at = tl.floor((o.to(tl.float32) + 0.5) * scale.to(tl.float32)).to(o.dtype)
    else:
        at = tl.floor(o.to(tl.float32) * scale.to(tl.float32)).to(o.dtype)
        if MODE == "nearest":
            at = tl.where(outputs == size, o, tl.where(outputs == 2 * size, o // 2, at))
    return tl.minimum(at, size - 1)


@nereid.jit
def nearest_in(o, size, outputs, scale, MODE: tl.constexpr):
    """`nearest` along a dimension that is there, else `o`."""
    if scale is None:
        return o
    else:
        return nearest(o, size, outputs, scale, MODE)


@nereid.jit
def upsample_nearest(out, x, in_sizes, out_sizes, x_strides, out_strides, numel, scale, MODE: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr):
    in_sizes, out_sizes = known(in_sizes, 1), known(out_sizes, 1)
    n, c, od, oh, ow, mask = located(out_sizes, numel, LANES, BLOCK)
    d = nearest_in(od, in_sizes[2], out_sizes[2], scale[0], MODE)
    h = nearest_in(oh, in_sizes[3], out_sizes[3], scale[1], MODE)
    w = nearest_in(ow, in_sizes[4], out_sizes[4], scale[2], MODE)
    value = tl.load(x + offset(n, c, d, h, w, known(x_strides, 0)), mask=mask, other=0)
    tl.store(out + offset(n, c, od, oh, ow, known(out_strides, 0)), value, mask=mask)


@nereid.jit
def linear(o, size, scale, ALIGNED: tl.constexpr, COMPUTE: tl.constexpr):
    """(lower place, upper place, share of the upper one) for the output's place `o`."""
    if ALIGNED:
        at = o.to(COMPUTE) * scale.to(COMPUTE)
    else:
        at = tl.maximum((o.to(COMPUTE) + 0.5) * scale.to(COMPUTE) - 0.5, 0.0)
    low = tl.minimum(at.to(o.dtype), size - 1)
    return low, tl.minimum(low + 1, size - 1), tl.minimum(tl.maximum(at - low.to(COMPUTE), 0.0), 1.0)


@nereid.jit
def cubic(t, T: tl.constexpr):
    """The weight of tap T of four for a place that lies `t` behind the second. a = -0.75."""
    if T == 0:
        x = t + 1
        return ((-0.75 * x + 3.75) * x - 6) * x + 3
    elif T == 1:
        return (1.25 * t - 2.25) * t * t + 1
    elif T == 2:
        x = 1 - t
        return (1.25 * x - 2.25) * x * x + 1
    else:
        x = 2 - t
        return ((-0.75 * x + 3.75) * x - 6) * x + 3


@nereid.jit
def cubic_place(o, size, scale, ALIGNED: tl.constexpr, COMPUTE: tl.constexpr):
    """(second of the four places, how far behind it the place of `o` lies)."""
    if ALIGNED:
        at = o.to(COMPUTE) * scale.to(COMPUTE)
    else:
        at = (o.to(COMPUTE) + 0.5) * scale.to(COMPUTE) - 0.5
    low = tl.minimum(tl.floor(at).to(o.dtype), size - 1)
    return low, tl.minimum(tl.maximum(at - low.to(COMPUTE), 0.0), 1.0)


@nereid.jit
def tap(o, size, outputs, scale, T: tl.constexpr, MODE: tl.constexpr, ALIGNED: tl.constexpr, COMPUTE: tl.constexpr):
    """(place, weight) of tap T for the output's place `o`; along a dimension that is not there (o, 1)."""
    if scale is None:
        return o, 1.0
    elif MODE == "linear":
        low, high, part = linear(o, size, scale, ALIGNED, COMPUTE)
        if T == 0:
            return low, 1 - part
        else:
            return high, part
    elif MODE == "cubic":
        low, part = cubic_place(o, size, scale, ALIGNED, COMPUTE)
        return tl.minimum(tl.maximum(low - 1 + T, 0), size - 1), cubic(part, T)
    else:
        return nearest(o, size, outputs, scale, MODE), 1.0


@nereid.jit
def first_given(place, scale, MODE: tl.constexpr, ALIGNED: tl.constexpr, COMPUTE: tl.constexpr):
    """The first place of the output to which `place` may give."""
    if scale is None:
        return place
    elif MODE == "linear" or MODE == "cubic":
        REACH: tl.constexpr = 1 if MODE == "linear" else 2
        if ALIGNED:
            at = (place - REACH).to(COMPUTE) / scale.to(COMPUTE)
        else:
            at = (place.to(COMPUTE) - (REACH - 0.5)) / scale.to(COMPUTE) - 0.5
        return tl.maximum(tl.floor(at).to(place.dtype) - 1, 0)
    else:
        return tl.maximum(tl.floor(place.to(tl.float32) / scale.to(tl.float32)).to(place.dtype) - 2, 0)


@nereid.jit
def share_of(place, o, size, outputs, scale, MODE: tl.constexpr, ALIGNED: tl.constexpr, COMPUTE: tl.constexpr):
    """How much `place` gives to the output's place `o`."""
    total = tl.zeros(place.shape, COMPUTE)
    for t in tl.static_range(taps(MODE, scale is None)):
        its, weight = tap(o, size, outputs, scale, t, MODE, ALIGNED, COMPUTE)
        total += tl.where(its == place, weight, 0.0).to(COMPUTE)
    return total


# Filters


@nereid.constexpr_function
def reach(filter):
    """How far a filter that is not stretched reaches to each side."""
    return {"linear": 1.0, "cubic": 2.0, "lanczos": 3.0}[filter]


@nereid.jit
def sinc(x):
    """sin(pi x) / (pi x)."""
    at = x * 3.141592653589793
    return tl.where(x == 0, 1.0, tl.sin(at) / tl.where(x == 0, 1.0, at))


@nereid.jit
def filter_weight(x, FILTER: tl.constexpr):
    """The weight of a place at the distance `x`."""
    x = tl.abs(x)
    if FILTER == "cubic":
        near = (1.5 * x - 2.5) * x * x + 1
        far = ((-0.5 * x + 2.5) * x - 4) * x + 2
        return tl.where(x < 1, near, tl.where(x < 2, far, 0.0))
    elif FILTER == "lanczos":
        return tl.where(x < 3, sinc(x) * sinc(x * 0.3333333333333333), 0.0)
    else:
        return tl.where(x < 1, 1 - x, 0.0)


@nereid.jit
def filtered_window(o, size, scale, FILTER: tl.constexpr, COMPUTE: tl.constexpr):
    """(first place, end, centre, inverse of the filter's stretching) for the output's place `o`."""
    scale = scale.to(COMPUTE)
    stretch = tl.maximum(scale, 1.0)
    support = stretch * reach(FILTER)
    centre = scale * (o.to(COMPUTE) + 0.5)
    first = tl.maximum((centre - support + 0.5).to(o.dtype), 0)
    end = tl.minimum((centre + support + 0.5).to(o.dtype), size)
    return first, end, centre, 1 / stretch


@nereid.jit
def weight_at(place, first, end, centre, inverse, FILTER: tl.constexpr, COMPUTE: tl.constexpr):
    """The weight of a place, 0 outside of the window."""
    return tl.where((place >= first) & (place < end), filter_weight((place.to(COMPUTE) - centre + 0.5) * inverse, FILTER), 0.0)


@nereid.jit
def filter_sums(sums, size, outputs, scale, windows, FILTER: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """sums[o]: the sum of the weights for the output's place `o` along a dimension. windows: at most how many there are."""
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    first, end, centre, inverse = filtered_window(o, size, scale, FILTER, COMPUTE)
    total = tl.zeros([BLOCK], COMPUTE)
    for i in range(windows):
        total += weight_at(first + i, first, end, centre, inverse, FILTER, COMPUTE)
    tl.store(sums + o, total, mask=o < outputs)


@nereid.jit
def first_filtered(place, scale, FILTER: tl.constexpr, COMPUTE: tl.constexpr):
    """The first place of the output whose window may contain `place`."""
    scale = scale.to(COMPUTE)
    at = (place.to(COMPUTE) + 0.5 - tl.maximum(scale, 1.0) * reach(FILTER)) / scale - 0.5
    return tl.maximum(tl.floor(at).to(place.dtype) - 1, 0)
