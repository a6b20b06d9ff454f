"""Linear maps of tensors (n, c, d, h, w) that are a product of one map for each dimension: interpolation, means of windows, padding's gradients, as CPUs compute them.

A map is a table: for each place of the result (a row) the places of the source that it takes, with their weights. `tables` computes those of all dimensions. `resample_lines`
combines lines of the source into one, over d and h, and then its elements, over w: taps are added, not multiplied, by dimension, and all loads but the last are
contiguous. `resample_channels` is for tensors whose channels are neighbours.

KIND says which map it is, MODE and FLAG are its options:

    "upsample", "upsample_gradient"            MODE of interpolation.py; FLAG: ends are aligned
    "filter", "filter_gradient"                FILTER of interpolation.py
    "average", "average_gradient"              WINDOWS of pooling.py; FLAG: the padding counts
    "sum", "sum_gradient"                      WINDOWS of pooling.py
    "reflect_gradient", "replicate_gradient"   padding.py
"""

import nereid
import nereid.language as tl

from ._shared import write
from .interpolation import filtered_window, first_filtered, first_given, share_of, tap, taps, weight_at
from .padding import copy_of
from .planes import known, next_line, place_in
from .pooling import first_window, span


@nereid.constexpr_function
def fixed_taps(kind, mode):
    """The number of taps of each row, where it is the same for all; else 0."""
    return taps(mode, False) if kind == "upsample" else 3 if kind == "reflect_gradient" else 0


@nereid.jit
def filter_tap(place, o, size, scale, FILTER: tl.constexpr, COMPUTE: tl.constexpr):
    """(weight of the source's place for the output's place `o`, whether the window contains it)."""
    first, end, centre, inverse = filtered_window(o, size, scale, FILTER, COMPUTE)
    total = tl.zeros(o.shape, COMPUTE)
    for i in range(tl.max(end - first, 0)):
        total += weight_at(first + i, first, end, centre, inverse, FILTER, COMPUTE)
    weight = weight_at(place, first, end, centre, inverse, FILTER, COMPUTE) / total
    return weight, (place >= first) & (place < end)


@nereid.jit
def row_tap(row, t, rows, size, scale, kernel, stride, padding, KIND: tl.constexpr, MODE: tl.constexpr, FLAG: tl.constexpr, COMPUTE: tl.constexpr):
    """(place of the source, its weight, whether it counts) of tap `t` of a row. rows, size: of the result and of the source along the dimension."""
    if KIND == "upsample":
        place, weight = tap(row, size, rows, scale, t, MODE, FLAG, COMPUTE)
        return place, tl.zeros(row.shape, COMPUTE) + weight, row >= 0
    elif KIND == "upsample_gradient":
        place = first_given(row, scale, MODE, FLAG, COMPUTE) + t
        weight = share_of(row, place, rows, size, scale, MODE, FLAG, COMPUTE)
        return place, weight, (place < size) & (weight != 0)
    elif KIND == "filter":
        first, _, _, _ = filtered_window(row, size, scale, MODE, COMPUTE)
        weight, inside = filter_tap(first + t, row, size, scale, MODE, COMPUTE)
        return first + t, weight, inside
    elif KIND == "filter_gradient":
        place = first_filtered(row, scale, MODE, COMPUTE) + t
        weight, inside = filter_tap(row, place, rows, scale, MODE, COMPUTE)
        return place, weight, inside & (place < size) & (weight != 0)
    elif KIND == "average" or KIND == "sum":
        first, end, length = span(row, size, rows, kernel, stride, padding, MODE)
        weight = average_weight(first, end, length, KIND, FLAG, COMPUTE)
        return first + t, weight, first + t < end
    elif KIND == "average_gradient" or KIND == "sum_gradient":
        place = first_window(row, rows, size, kernel, stride, padding, 1, MODE) + t
        first, end, length = span(place, rows, size, kernel, stride, padding, MODE)
        weight = average_weight(first, end, length, KIND, FLAG, COMPUTE)
        return place, weight, (place < size) & (row >= first) & (row < end)
    else:
        place, there = copy_of(row, rows, size, padding, t, KIND == "reflect_gradient")
        return place, tl.full(row.shape, 1, COMPUTE), there


@nereid.jit
def average_weight(first, end, length, KIND: tl.constexpr, PADDED: tl.constexpr, COMPUTE: tl.constexpr):
    """The weight of the elements of a window in its mean."""
    if KIND == "sum" or KIND == "sum_gradient":
        return tl.full(first.shape, 1, COMPUTE)
    elif PADDED:
        return 1 / tl.maximum(length, 1).to(COMPUTE)
    else:
        return 1 / tl.maximum(end - first, 1).to(COMPUTE)


@nereid.jit
def chosen(items, k):
    """Item `k` of a tuple of numbers."""
    found = items[0]
    for i in tl.static_range(1, len(items)):
        found = tl.where(k == i, items[i], found)
    return found


@nereid.jit
def table_offsets(rows, bounds, k):
    """(offset of its places, of its weights) of the table of dimension `k`."""
    places = k.to(tl.int64) * 0
    weights = places
    for i in tl.static_range(len(rows) - 1):
        before = (k > i).to(tl.int64)
        places += before * ((bounds[i] + 1) * rows[i] + 1)
        weights += before * bounds[i] * rows[i]
    return places, weights


@nereid.jit
def put_tap(places, weights, row, rows, inside, count, place, weight, exists):
    """Appends a tap to the rows that have it; returns their numbers of taps."""
    take = inside & exists
    tl.store(places + count * rows + row, place.to(tl.int32), mask=take)
    tl.store(weights + count * rows + row, weight, mask=take)
    return tl.where(take, count + 1, count)


@nereid.jit
def tables(places, weights, rows, sizes, bounds, scales, kernel, stride, padding, KIND: tl.constexpr, MODE: tl.constexpr, FLAG: tl.constexpr, COMPUTE: tl.constexpr,
           BLOCK: tl.constexpr):
    """The tables of the dimensions, one after the other. Grid: the dimensions.

    places   int32: for each dimension (bound, rows) places of the source, (rows) numbers of taps, and the greatest of these
    weights  in COMPUTE: for each dimension (bound, rows)
    rows, sizes, bounds, scales, kernel, stride, padding  tuples with an item for each dimension. rows: places of the result; sizes: of the source; bounds: the most taps
             that a row may have
    """
    k = tl.program_id(0)
    first_place, first_weight = table_offsets(rows, bounds, k)
    places += first_place
    weights += first_weight
    count = chosen(rows, k)
    size = chosen(sizes, k)
    bound = chosen(bounds, k)
    scale = chosen(scales, k)
    its_kernel = chosen(kernel, k)
    its_stride = chosen(stride, k)
    its_padding = chosen(padding, k)
    most = tl.full((), 0, tl.int64)
    for first in range(0, count, BLOCK):
        row = first + tl.arange(0, BLOCK)
        inside = row < count
        found = tl.zeros([BLOCK], tl.int64)
        if fixed_taps(KIND, MODE):
            for t in tl.static_range(fixed_taps(KIND, MODE)):
                place, weight, exists = row_tap(row, t, count, size, scale, its_kernel, its_stride, its_padding, KIND, MODE, FLAG, COMPUTE)
                found = put_tap(places, weights, row, count, inside, found, place, weight, exists)
        else:
            for t in range(bound):
                place, weight, exists = row_tap(row, t, count, size, scale, its_kernel, its_stride, its_padding, KIND, MODE, FLAG, COMPUTE)
                found = put_tap(places, weights, row, count, inside, found, place, weight, exists)
        for t in range(bound):
            rest = inside & (t >= found)
            tl.store(places + t * count + row, 0, mask=rest)
            tl.store(weights + t * count + row, 0.0, mask=rest)
        tl.store(places + bound * count + row, found.to(tl.int32), mask=inside)
        most = tl.maximum(most, tl.max(tl.where(inside, found, 0), 0))
    tl.store(places + (bound + 1) * count, most.to(tl.int32))


@nereid.jit
def table(places, weights, rows, bounds, K: tl.constexpr):
    """(places, weights, numbers of taps) of dimension K: pointers. A dimension that is not there has K = -1."""
    if K < 0:
        return places, weights, places
    else:
        first_place, first_weight = table_offsets(rows, bounds, tl.full((), K, tl.int64))
        return places + first_place, weights + first_weight, places + first_place + bounds[K] * rows[K]


@nereid.jit
def taps_of(counts, row, K: tl.constexpr):
    """The number of taps of a row of the table of dimension K."""
    if K < 0:
        return 1
    else:
        return tl.load(counts + row)


@nereid.jit
def tap_at(places, weights, row, t, count, K: tl.constexpr, COMPUTE: tl.constexpr):
    """(place, weight) of tap `t` of a row of the table of dimension K."""
    if K < 0:
        return row, tl.full((), 1, COMPUTE)
    else:
        return tl.load(places + t * count + row).to(tl.int64), tl.load(weights + t * count + row)


@nereid.jit
def finished(total, divisor):
    if divisor is None:
        return total
    else:
        return total / divisor.to(total.dtype)


@nereid.jit
def resample_lines(out, x, lines, places, weights, in_sizes, out_sizes, x_strides, out_strides, rows, bounds, divisor, items, share, UNIT: tl.constexpr, COMPUTE: tl.constexpr,
                   IN_BLOCK: tl.constexpr, BLOCK: tl.constexpr):
    """Lines of the result. places, weights: of `tables`. lines: (programs, in_sizes[4]) in COMPUTE, for the sums of lines of the source; None
    for lines (n, c, w). divisor: by which the result is
    divided, or None. items: lines of the result; share: lines of a program. UNIT: the strides of w are 1. Grid: items / share."""
    D: tl.constexpr = len(rows) - 3 if len(rows) > 2 else -1
    H: tl.constexpr = len(rows) - 2 if len(rows) > 1 else -1
    W: tl.constexpr = len(rows) - 1
    in_sizes, out_sizes, x_strides, out_strides = known(in_sizes, 1), known(out_sizes, 1), known(x_strides, 0), known(out_strides, 0)
    x_step = 1 if UNIT else x_strides[4]
    out_step = 1 if UNIT else out_strides[4]
    program = tl.program_id(0).to(tl.int64)
    line = lines + program * in_sizes[4] if H >= 0 else x
    d_places, d_weights, d_counts = table(places, weights, rows, bounds, D)
    h_places, h_weights, h_counts = table(places, weights, rows, bounds, H)
    w_places, w_weights, w_counts = table(places, weights, rows, bounds, W)
    most = tl.load(w_counts + out_sizes[4])
    n, c, od, oh, _ = place_in(program * share, (out_sizes[0], out_sizes[1], out_sizes[2], out_sizes[3], 1))
    for _ in range(program * share, tl.minimum(items, program * share + share)):
        source = x + n * x_strides[0] + c * x_strides[1]
        to = out + n * out_strides[0] + c * out_strides[1] + od * out_strides[2] + oh * out_strides[3]
        if H >= 0:
            for first in range(0, in_sizes[4], IN_BLOCK):
                w = first + tl.arange(0, IN_BLOCK)
                inside = w < in_sizes[4]
                total = tl.zeros([IN_BLOCK], COMPUTE)
                for i in range(taps_of(d_counts, od, D)):
                    d, d_weight = tap_at(d_places, d_weights, od, i, out_sizes[2], D, COMPUTE)
                    for j in range(taps_of(h_counts, oh, H)):
                        h, h_weight = tap_at(h_places, h_weights, oh, j, out_sizes[3], H, COMPUTE)
                        value = tl.load(source + d * x_strides[2] + h * x_strides[3] + w * x_step, mask=inside, other=0).to(COMPUTE)
                        total += value * (d_weight * h_weight)
                tl.store(line + w, total, mask=inside)
        for first in range(0, out_sizes[4], BLOCK):
            ow = first + tl.arange(0, BLOCK)
            inside = ow < out_sizes[4]
            count = tl.load(w_counts + ow, mask=inside, other=0)
            total = tl.zeros([BLOCK], COMPUTE)
            for k in range(most):
                at = tl.load(w_places + k * out_sizes[4] + ow, mask=inside, other=0)
                weight = tl.load(w_weights + k * out_sizes[4] + ow, mask=inside, other=0)
                value = tl.load(line + at, mask=inside, other=0) if H >= 0 else tl.load(source + at * x_step, mask=inside, other=0).to(COMPUTE)
                total += tl.where(k < count, value * weight, 0)
            write(to + ow * out_step, finished(total, divisor), inside)
        n, c, od, oh = next_line(n, c, od, oh, out_sizes)


@nereid.jit
def pick_lines(out, x, places, weights, in_sizes, out_sizes, x_strides, out_strides, rows, bounds, items, share, UNIT: tl.constexpr, REPEATS: tl.constexpr,
               BLOCK: tl.constexpr):
    """Lines of a result whose elements are elements of the source: the first taps of the tables. A line like the one before is copied from there. REPEATS: how often each element of
    a line of the source comes, one after the other, if that is 2 or 4; None else. Other arguments: see `resample_lines`."""
    D: tl.constexpr = len(rows) - 3 if len(rows) > 2 else -1
    H: tl.constexpr = len(rows) - 2 if len(rows) > 1 else -1
    W: tl.constexpr = len(rows) - 1
    in_sizes, out_sizes, x_strides, out_strides = known(in_sizes, 1), known(out_sizes, 1), known(x_strides, 0), known(out_strides, 0)
    x_step = 1 if UNIT else x_strides[4]
    out_step = 1 if UNIT else out_strides[4]
    program = tl.program_id(0).to(tl.int64)
    d_places, d_weights, d_counts = table(places, weights, rows, bounds, D)
    h_places, h_weights, h_counts = table(places, weights, rows, bounds, H)
    w_places, w_weights, w_counts = table(places, weights, rows, bounds, W)
    before = out
    its_source = tl.full((), -1, tl.int64)
    n, c, od, oh, _ = place_in(program * share, (out_sizes[0], out_sizes[1], out_sizes[2], out_sizes[3], 1))
    for _ in range(program * share, tl.minimum(items, program * share + share)):
        d, d_weight = tap_at(d_places, d_weights, od, 0, out_sizes[2], D, tl.float32)
        h, h_weight = tap_at(h_places, h_weights, oh, 0, out_sizes[3], H, tl.float32)
        source = n * x_strides[0] + c * x_strides[1] + d * x_strides[2] + h * x_strides[3]
        to = out + n * out_strides[0] + c * out_strides[1] + od * out_strides[2] + oh * out_strides[3]
        if REPEATS is not None and source != its_source:
            for first in range(0, in_sizes[4], BLOCK):
                w = first + tl.arange(0, BLOCK)
                value = tl.load(x + source + w * x_step, mask=w < in_sizes[4], other=0)
                for i in tl.static_range(REPEATS):
                    tl.store(to + (w * REPEATS + i) * out_step, value, mask=w < in_sizes[4])
        for first in range(0, out_sizes[4], BLOCK):
            ow = first + tl.arange(0, BLOCK)
            inside = ow < out_sizes[4]
            if source == its_source:
                tl.store(to + ow * out_step, tl.load(before + ow * out_step, mask=inside, other=0), mask=inside)
            elif REPEATS is None:
                at = tl.load(w_places + ow, mask=inside, other=0)  # a masked load of what is anywhere takes longer than one of the first element
                tl.store(to + ow * out_step, tl.load(x + source + at * x_step), mask=inside)
        before = to
        its_source = source
        n, c, od, oh = next_line(n, c, od, oh, out_sizes)


@nereid.jit
def resample_channels(out, x, places, weights, in_sizes, out_sizes, x_strides, out_strides, rows, bounds, divisor, items, share, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """Places of the result, all channels of a block at once; the stride of channels is 1. items: lines (n, d, h) of the result; share: those of a program. Grid: (items /
    share, channels / BLOCK). Other arguments: see `resample_lines`."""
    D: tl.constexpr = len(rows) - 3 if len(rows) > 2 else -1
    H: tl.constexpr = len(rows) - 2 if len(rows) > 1 else -1
    W: tl.constexpr = len(rows) - 1
    in_sizes, out_sizes, x_strides, out_strides = known(in_sizes, 1), known(out_sizes, 1), known(x_strides, 0), known(out_strides, 0)
    program = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = c < in_sizes[1]
    d_places, d_weights, d_counts = table(places, weights, rows, bounds, D)
    h_places, h_weights, h_counts = table(places, weights, rows, bounds, H)
    w_places, w_weights, w_counts = table(places, weights, rows, bounds, W)
    for item in range(program * share, tl.minimum(items, program * share + share)):
        n, _, od, oh, _ = place_in(item, (out_sizes[0], 1, out_sizes[2], out_sizes[3], 1))
        source = x + n * x_strides[0]
        to = out + n * out_strides[0] + od * out_strides[2] + oh * out_strides[3]
        d_count = taps_of(d_counts, od, D)
        h_count = taps_of(h_counts, oh, H)
        for ow in range(0, out_sizes[4]):
            w_count = taps_of(w_counts, ow, W)
            total = tl.zeros([BLOCK], COMPUTE)
            for i in range(d_count):
                d, d_weight = tap_at(d_places, d_weights, od, i, out_sizes[2], D, COMPUTE)
                for j in range(h_count):
                    h, h_weight = tap_at(h_places, h_weights, oh, j, out_sizes[3], H, COMPUTE)
                    line = source + d * x_strides[2] + h * x_strides[3]
                    for k in range(w_count):
                        w, w_weight = tap_at(w_places, w_weights, ow, k, out_sizes[4], W, COMPUTE)
                        total += tl.load(line + w * x_strides[4] + c, mask=inside, other=0).to(COMPUTE) * (d_weight * h_weight * w_weight)
            write(to + ow * out_strides[4] + c, finished(total, divisor), inside)
