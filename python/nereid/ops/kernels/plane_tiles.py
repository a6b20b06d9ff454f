"""Kernels of interpolation and pixel shuffles for GPUs: what is computed once for a place of the result serves many planes, channels or lines.

A tensor (n, c, d, h, w) is planes of positions: a position is a number of (d, h, w), a plane one of c, or of n and c together where both tensors allow it. MODE, FILTER: as in
interpolation.py. `upsample_planes` computes a result, `nearest_gradient` the backward step of "nearest", both from all dimensions at once. `resample_along` computes filters and
all other backward steps, one dimension after the other, so that taps of dimensions are added, not multiplied.
"""

import nereid
import nereid.language as tl

from ._shared import write
from .interpolation import filtered_window, first_filtered, first_given, nearest, share_of, tap, taps, weight_at
from .planes import known


@nereid.constexpr_function
def moves(mode):
    """Whether a mode only moves elements."""
    return mode in ("nearest", "factor", "exact")


@nereid.jit
def position(s, sizes):
    """(d, h, w) of a position."""
    line = s // sizes[2]
    return line // sizes[1], line % sizes[1], s % sizes[2]


@nereid.jit
def tile_of(positions, groups, BS: tl.constexpr):
    """(first position, group of planes, batch) of a program: neighbours in the grid compute neighbouring positions."""
    tiles = tl.cdiv(positions, BS)
    program = tl.program_id(0)
    return (program % tiles).to(positions.dtype) * BS, program // tiles % groups, program // tiles // groups


@nereid.jit
def taps_along(o, size, outputs, scale, stride, MODE: tl.constexpr, ALIGNED: tl.constexpr, COMPUTE: tl.constexpr):
    """(offsets, weights) of all taps along a dimension, as tuples."""
    offsets, weights = (), ()
    for t in tl.static_range(taps(MODE, scale is None)):
        place, weight = tap(o, size, outputs, scale, t, MODE, ALIGNED, COMPUTE)
        offsets, weights = offsets + ((place * stride)[None, :], ), weights + (weight, )
    return offsets, weights


@nereid.jit
def weighed(value, weight):
    """value * weight. weight: a row of a tile, or 1.0."""
    if isinstance(weight, tl.tensor):
        return value * weight[None, :]
    else:
        return value


@nereid.jit
def upsample_planes(out, x, positions, planes, groups, share, x_batch, out_batch, x_plane, out_plane, in_sizes, out_sizes, x_strides, out_strides, scale, MODE: tl.constexpr, ALIGNED: tl.constexpr,
                    COMPUTE: tl.constexpr, LAST: tl.constexpr, DENSE: tl.constexpr, BP: tl.constexpr, BS: tl.constexpr):
    """Interpolation by the product of the weights of all dimensions. Grid: positions / BS * groups of planes * batches.

    positions, planes    how many the result has
    groups, share        of planes, and how many planes a group has, a multiple of BP
    x_batch, x_plane, .. strides; in_sizes, out_sizes, x_strides, out_strides: of (d, h, w), None for a dimension that is not there; scale: as for `tap`
    LAST                 planes are neighbours in memory; DENSE: positions are, in the result
    """
    in_sizes, out_sizes, x_strides = known(in_sizes, 1), known(out_sizes, 1), known(x_strides, 0)
    start, group, batch = tile_of(positions, groups, BS)
    s = start + tl.arange(0, BS)
    od, oh, ow = position(s, out_sizes)
    d, d_weights = taps_along(od, in_sizes[0], out_sizes[0], scale[0], x_strides[0], MODE, ALIGNED, COMPUTE)
    h, h_weights = taps_along(oh, in_sizes[1], out_sizes[1], scale[1], x_strides[1], MODE, ALIGNED, COMPUTE)
    w, w_weights = taps_along(ow, in_sizes[2], out_sizes[2], scale[2], x_strides[2], MODE, ALIGNED, COMPUTE)
    first = group * share
    count = tl.minimum(share, planes - first)
    x += batch.to(tl.int64) * x_batch + first.to(tl.int64) * x_plane
    out += batch.to(tl.int64) * out_batch + first.to(tl.int64) * out_plane
    p = tl.arange(0, BP)[:, None]
    if LAST:
        x_places, out_places = p, p
    else:
        x_places, out_places = p * x_plane, p * out_plane
    if DENSE:
        out_places = out_places + s[None, :]
    else:
        strides = known(out_strides, 0)
        out_places = out_places + (od * strides[0] + oh * strides[1] + ow * strides[2])[None, :]
    inside = (s < positions)[None, :]
    for begin in range(0, count, BP):
        mask = inside & (p < count - begin)
        if moves(MODE):
            tl.store(out + out_places, tl.load(x + (x_places + (d[0] + h[0] + w[0])), mask=mask, other=0), mask=mask)
        else:
            total = tl.zeros((BP, BS), COMPUTE)
            for i in tl.static_range(len(d)):
                plane = tl.zeros((BP, BS), COMPUTE)
                for j in tl.static_range(len(h)):
                    row = tl.zeros((BP, BS), COMPUTE)
                    for k in tl.static_range(len(w)):
                        row += weighed(tl.load(x + (x_places + (d[i] + h[j] + w[k])), mask=mask, other=0).to(COMPUTE), w_weights[k])
                    plane += weighed(row, h_weights[j])
                total += weighed(plane, d_weights[i])
            write(out + out_places, total, mask)
        x += BP * (1 if LAST else x_plane)
        out += BP * (1 if LAST else out_plane)


@nereid.jit
def shuffle_pixels(out, x, positions, planes, groups, share, x_plane, out_plane, height, width, FACTOR: tl.constexpr, BP: tl.constexpr, BS: tl.constexpr):
    """out[p, h * FACTOR + i, w * FACTOR + j] = x[p, i, j, h, w], both contiguous. height, width: of a plane of `x`. Others: as for `upsample_planes`, with one batch."""
    start, group, _ = tile_of(positions, groups, BS)
    s = start + tl.arange(0, BS)
    row, column = s // (width * FACTOR), s % (width * FACTOR)
    source = ((row % FACTOR * FACTOR + column % FACTOR) * height + row // FACTOR) * width + column // FACTOR
    first = group * share
    count = tl.minimum(share, planes - first)
    x += first.to(tl.int64) * x_plane
    out += first.to(tl.int64) * out_plane
    p = tl.arange(0, BP)[:, None]
    inside = (s < positions)[None, :]
    for begin in range(0, count, BP):
        mask = inside & (p < count - begin)
        tl.store(out + (p * out_plane + s[None, :]), tl.load(x + (p * x_plane + source[None, :]), mask=mask, other=0), mask=mask)
        x += BP * x_plane
        out += BP * out_plane


@nereid.jit
def first_nearest(place, size, outputs, scale, MODE: tl.constexpr):
    """The first place of the output whose nearest one is not before `place`; `outputs` where there is none."""
    if scale is None:
        return place
    else:
        guess = tl.maximum(tl.floor(place.to(tl.float32) / scale.to(tl.float32)).to(place.dtype) - 2, 0)
        found = guess
        for i in tl.static_range(5):
            found += (nearest(guess + i, size, outputs, scale, MODE) < place).to(place.dtype)
        return tl.where(place < size, tl.minimum(found, outputs), outputs)


@nereid.jit
def nearest_gradient(result, gradient, positions, planes, groups, share, result_batch, gradient_batch, result_plane, gradient_plane, in_sizes, out_sizes, result_strides, gradient_strides, scale, windows,
                     MODE: tl.constexpr, COMPUTE: tl.constexpr, LAST: tl.constexpr, DENSE: tl.constexpr, BP: tl.constexpr, BS: tl.constexpr):
    """Sums of the elements of `gradient` whose nearest place is an element of the result. windows: at most how many along d, h and w. Others: as for `upsample_planes`."""
    in_sizes, out_sizes, gradient_strides, windows = known(in_sizes, 1), known(out_sizes, 1), known(gradient_strides, 0), known(windows, 1)
    start, group, batch = tile_of(positions, groups, BS)
    s = start + tl.arange(0, BS)
    d, h, w = position(s, in_sizes)
    d0, d1 = first_nearest(d, in_sizes[0], out_sizes[0], scale[0], MODE), first_nearest(d + 1, in_sizes[0], out_sizes[0], scale[0], MODE)
    h0, h1 = first_nearest(h, in_sizes[1], out_sizes[1], scale[1], MODE), first_nearest(h + 1, in_sizes[1], out_sizes[1], scale[1], MODE)
    w0, w1 = first_nearest(w, in_sizes[2], out_sizes[2], scale[2], MODE), first_nearest(w + 1, in_sizes[2], out_sizes[2], scale[2], MODE)
    first = group * share
    count = tl.minimum(share, planes - first)
    gradient += batch.to(tl.int64) * gradient_batch + first.to(tl.int64) * gradient_plane
    result += batch.to(tl.int64) * result_batch + first.to(tl.int64) * result_plane
    p = tl.arange(0, BP)[:, None]
    if LAST:
        gradient_places, result_places = p, p
    else:
        gradient_places, result_places = p * gradient_plane, p * result_plane
    gradient_places = gradient_places + (d0 * gradient_strides[0] + h0 * gradient_strides[1] + w0 * gradient_strides[2])[None, :]
    if DENSE:
        result_places = result_places + s[None, :]
    else:
        strides = known(result_strides, 0)
        result_places = result_places + (d * strides[0] + h * strides[1] + w * strides[2])[None, :]
    inside = s < positions
    for begin in range(0, count, BP):
        exists = p < count - begin
        total = tl.zeros((BP, BS), COMPUTE)
        for i in range(windows[0]):
            in_plane = inside & (d0 + i < d1)
            for j in range(windows[1]):
                in_line = in_plane & (h0 + j < h1)
                line = i * gradient_strides[0] + j * gradient_strides[1]
                for k in range(windows[2]):
                    mask = (in_line & (w0 + k < w1))[None, :] & exists
                    total += tl.load(gradient + (gradient_places + (line + k * gradient_strides[2])), mask=mask, other=0).to(COMPUTE)
        write(result + result_places, total, inside[None, :] & exists)
        gradient += BP * (1 if LAST else gradient_plane)
        result += BP * (1 if LAST else result_plane)


@nereid.jit
def resample_along(out, x, sums, rows, size, others, x_outer, out_outer, x_along, out_along, x_other, out_other, scale, window, KIND: tl.constexpr, MODE: tl.constexpr, ALIGNED: tl.constexpr,
                   COMPUTE: tl.constexpr, LINES: tl.constexpr, BR: tl.constexpr, BO: tl.constexpr):
    """A linear map along one dimension of tensors (outer, along, other) or, with LINES, (other, along). Grid: rows / BO * others / BR * outer.

    rows, size    places along the dimension in the result and in `x`
    others        places of the other dimension that takes part in a tile; those of its neighbours follow one another in memory without LINES, those along the dimension with LINES
    sums          of weights for each place of the output of a filter (filter_sums), for "filter_gradient", else None
    window        at most how many places of `x` a row takes
    KIND          "filter", "filter_gradient" or, of the modes "linear" and "cubic", "gradient"; MODE: FILTER or MODE
    """
    across, along = tl.cdiv(others, BR), tl.cdiv(rows, BO)
    program = tl.program_id(0)
    o = (program % along).to(rows.dtype) * BO + tl.arange(0, BO)
    r = (program // along % across).to(rows.dtype) * BR + tl.arange(0, BR)[:, None]
    outer = (program // along // across).to(tl.int64)
    if LINES:
        x += r.to(tl.int64) * x_other
        out += r.to(tl.int64) * out_other + o[None, :]
    else:
        x += outer * x_outer + r
        out += outer * out_outer + (o.to(tl.int64) * out_along)[None, :] + r
    exists = r < others
    total = tl.zeros((BR, BO), COMPUTE)
    divisor = tl.zeros((BO, ), COMPUTE)
    if KIND == "filter":
        first, end, centre, inverse = filtered_window(o, size, scale, MODE, COMPUTE)
    elif KIND == "filter_gradient":
        first = first_filtered(o, scale, MODE, COMPUTE)
    else:
        first = first_given(o, scale, MODE, ALIGNED, COMPUTE)
    for t in range(window):
        place = first + t
        if KIND == "filter":
            inside = (o < rows) & (place < end)
            weight = weight_at(place, first, end, centre, inverse, MODE, COMPUTE)
            divisor += weight
        else:
            inside = (o < rows) & (place < size)
            if KIND == "filter_gradient":
                begin, end, centre, inverse = filtered_window(place, rows, scale, MODE, COMPUTE)
                weight = weight_at(o, begin, end, centre, inverse, MODE, COMPUTE) / tl.load(sums + place, mask=inside, other=1)
            else:
                weight = share_of(o, place, rows, size, scale, MODE, ALIGNED, COMPUTE)
            inside = inside & (weight != 0)
        places = x + (place if LINES else place * x_along)[None, :]
        total += tl.load(places, mask=inside[None, :] & exists, other=0).to(COMPUTE) * weight[None, :]
    if KIND == "filter":
        total = total / divisor[None, :]
    write(out, total, (o < rows)[None, :] & exists)
