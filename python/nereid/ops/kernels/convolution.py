"""The kernels of convolutions over one, two or three dimensions.

    out[n, g, k, p] = sum over c and j of x[n, g, c, q] * w[g, k, c, j] + bias[g, k],   q = p * move + j * tap + start  in each dimension

`n` is the batch, `g` the group, `k` and `c` the channels of the result and of `x` within a group, `p` a place of the result, `j` one of the window's taps, `q` a place of
`x`, where everything outside is 0. A convolution moves by its stride, its taps are the dilation apart and start at minus the padding.

The gradient of the input, which is also what a transposed convolution computes, has q = (p + padding - j * dilation) / stride where that is an integer. The places p of
one phase, those with the same remainder by the stride, meet every `step`-th tap only, and for them the formula is the one above with move = 1: a program has one phase,
so no product with a hole of the strided grid is computed (`phase_of`).

`correlate` is an implicit product of matrices (pixels by channels of the result, summed over taps and channels; pixels are all (n, p)), `correlate_weights` the same for
the gradient of the weights (channels by channels and taps, summed over pixels). `direct` and `direct_weights` serve groups with few channels, where tiles of a product
would be empty: depthwise convolutions. Sums that are cut into parts are written to a workspace that is laid out as the result; `products.add_up` adds the parts in
their order.
"""

import math

import nereid
import nereid.language as tl

from ._shared import write
from .products import loaded


@nereid.jit
def divided(number, divisor, magic):
    """(quotient, remainder) of numbers from 0 to 2^31 - 1. magic: (multiplier, shift) of the divisor, two factors in place of a division (Granlund and Montgomery 1994), or None."""
    if magic is None:
        quotient = number // divisor
    else:
        wide = number.to(tl.uint32)
        quotient = ((tl.umulhi(wide, wide * 0 + magic[0]) + wide) >> magic[1]).to(tl.int32)
    return quotient, number - quotient * divisor


@nereid.jit
def magic_of(magics, D: tl.constexpr):
    """That of dimension D."""
    if magics is None:
        return None
    else:
        return magics[D]


@nereid.jit
def place_of(tile, batch, counts, magics, ROWS: tl.constexpr, SIZE: tl.constexpr):
    """(n, the place in each dimension, mask) of the pixels of a tile. counts: how many places each dimension has; magics: of `divided` for each, or None.

    ROWS: the tile lies in one row of the last dimension, and n and the other places are scalars; otherwise all are blocks.
    """
    RANK: tl.constexpr = len(counts)
    if ROWS:
        tiles = tl.cdiv(counts[RANK - 1], SIZE)
        inner = tile % tiles * SIZE + tl.arange(0, SIZE)
        rest = tile // tiles
    else:
        rest, inner = divided(tile * SIZE + tl.arange(0, SIZE), counts[RANK - 1], magic_of(magics, RANK - 1))
    places = (inner,)
    for i in tl.static_range(1, RANK):
        d: tl.constexpr = RANK - 1 - i
        rest, place = divided(rest, counts[d], magic_of(magics, d))
        places = (place,) + places
    mask = rest < batch
    if ROWS:
        mask = mask & (inner < counts[RANK - 1])
    return rest, places, mask


@nereid.jit
def nearest_place_of(tile, batch, counts, magics, SIZE: tl.constexpr):
    """`place_of` without ROWS, where pixels behind the last one have its place: it may be read, too."""
    pixels = batch * product_of(counts)
    number = tile * SIZE + tl.arange(0, SIZE)
    rest, places = split(tl.minimum(number, pixels - 1), counts, magics)
    return rest, places, number < pixels


@nereid.jit
def tiles_of(batch, counts, ROWS: tl.constexpr, SIZE: tl.constexpr):
    """How many tiles the pixels have."""
    RANK: tl.constexpr = len(counts)
    outer = batch
    for d in tl.static_range(RANK - 1):
        outer = outer * counts[d]
    if ROWS:
        return outer * tl.cdiv(counts[RANK - 1], SIZE)
    else:
        return tl.cdiv(outer * counts[RANK - 1], SIZE)


@nereid.constexpr_function
def taps_in(window):
    """How many taps a window has."""
    return math.prod(window)


@nereid.jit
def product_of(numbers):
    found = 1
    for d in tl.static_range(len(numbers)):
        found = found * numbers[d]
    return found


@nereid.jit
def split(index, sizes, magics):
    """(what is left, the place in each dimension) of a linear index. magics: of `divided` for each size, or None."""
    places = ()
    rest = index
    for i in tl.static_range(len(sizes)):
        d: tl.constexpr = len(sizes) - 1 - i
        rest, place = divided(rest, sizes[d], magic_of(magics, d))
        places = (place,) + places
    return rest, places


@nereid.jit
def phase_of(number, batch, counts, taps, phases):
    """The parameters of a phase of a strided gradient: (batch, or 0 where the phase has no place, and for all dimensions counts, taps, tap, start, the first tap of the window, the first
    place of the result).

    number: of the phase. counts: the sizes of the result; taps: of the window. phases: (stride, padding, dilation, the greatest common divisor of stride and dilation,
    step, inverse) for all dimensions: step is the stride over the divisor, inverse that of (dilation over the divisor) modulo the step.
    """
    its_counts, its_taps, its_tap, its_start, its_first, its_place = (), (), (), (), (), ()
    its_batch, rest = batch, number
    for i in tl.static_range(len(counts)):
        d: tl.constexpr = len(counts) - 1 - i
        place = rest % phases[0][d]
        rest = rest // phases[0][d]
        padded = place + phases[1][d]
        first = padded // phases[3][d] * phases[5][d] % phases[4][d]
        none = (padded % phases[3][d] != 0) | (first >= taps[d])
        count = (counts[d] - place + phases[0][d] - 1) // phases[0][d]
        its_batch = tl.where(count > 0, its_batch, 0)
        its_counts = (tl.maximum(count, 1),) + its_counts
        its_taps = (tl.where(none, 0, (taps[d] - first + phases[4][d] - 1) // phases[4][d]),) + its_taps
        its_tap = (-(phases[2][d] // phases[3][d]),) + its_tap
        its_start = ((padded - first * phases[2][d]) // phases[0][d],) + its_start
        its_first = (first,) + its_first
        its_place = (place,) + its_place
    return its_batch, its_counts, its_taps, its_tap, its_start, its_first, its_place


@nereid.jit
def unit(stride, IS_UNIT: tl.constexpr):
    """A stride, 1 as a constant where it is known, so that accesses are seen to be contiguous."""
    if IS_UNIT:
        return 1
    else:
        return stride


@nereid.jit
def moved(place, move, start, NEXT: tl.constexpr):
    """place * move + start; NEXT: move is 1."""
    if NEXT:
        return place + start
    else:
        return place * move + start


@nereid.jit
def starts(places, move, start, NEXT: tl.constexpr):
    """The places in `x` of the first tap, for all dimensions."""
    found = ()
    for d in tl.static_range(len(places)):
        found = found + (moved(places[d], move[d], start[d], NEXT and d == len(places) - 1),)
    return found


@nereid.jit
def offset_of(n, places, strides, UNIT: tl.constexpr):
    """Where pixels are, in elements. strides: (n, channel, ...); UNIT: that of the last dimension is 1."""
    offset = n * strides[0]
    for d in tl.static_range(len(places)):
        offset = offset + places[d] * unit(strides[2 + d], UNIT and d == len(places) - 1)
    return offset


@nereid.jit
def unstrided(places, start):
    """The places in `x` of a phase's first tap."""
    found = ()
    for d in tl.static_range(len(places)):
        found = found + (places[d] + start[d],)
    return found


@nereid.jit
def strided_places(places, first, stride):
    """The places of the result that a phase's places are."""
    found = ()
    for d in tl.static_range(len(places)):
        found = found + (places[d] * stride[d] + first[d],)
    return found


@nereid.jit
def correlate(out, x, w, bias, batch, channels, inner, counts, sizes, taps, magics, motion, phases, bias_stride, out_strides, x_strides, w_strides, part_stride, steps_of_part,
              ACC: tl.constexpr, PRECISION: tl.constexpr, FLAT: tl.constexpr, WINDOW: tl.constexpr, X_UNIT: tl.constexpr, W_UNIT: tl.constexpr,
              OUT_UNIT: tl.constexpr, LAST: tl.constexpr, ROWS: tl.constexpr, NEXT: tl.constexpr, RUNS: tl.constexpr, INSIDE: tl.constexpr, IN_ORDER: tl.constexpr, BP: tl.constexpr,
              BC: tl.constexpr, BK: tl.constexpr):
    """Grid: (tiles of channels and pixels, groups, parts of the sum or phases).

    out, x, w         pointers; bias: a pointer or None
    batch, channels, inner: the batch, the channels of the result and of `x` in a group
    counts, sizes, taps: of the result, of `x`, of the window, for each dimension
    magics            of `divided`: (for each of `counts`, for each of `taps`, for the blocks of BK channels), or None
    motion            (move, tap, start) for all dimensions; phases: as for `phase_of`, or None. With phases, `motion` is None
    out_strides, x_strides: (n, channel, ...); w_strides: (g, k, c, ...)
    part_stride       how far the sums of the parts are apart in `out`, a workspace, which then has the dtype ACC; steps_of_part: steps of the loop in a part
    FLAT              tiles are cut from all (c, taps), for few channels; otherwise each tile has one tap. WINDOW: `taps` as constants, or None
    X_UNIT            which stride of `x` is 1: "c", that of the last dimension "p", or None; W_UNIT: "c", "k", "flat" (contiguous along (c, taps)) or None; OUT_UNIT: as X_UNIT
    LAST              tiles of the result are (channels, pixels), else (pixels, channels)
    ROWS              see `place_of`. NEXT: move is 1 in the last dimension
    RUNS              all taps of all pixels lie in `x`, and those of the last dimension are neighbours there
    INSIDE            None, or without FLAT, ROWS and phases: all taps of all pixels lie in `x`, so that places need no comparison. Bits: `channels` (1) and `inner` (2) are multiples of BC and BK
    IN_ORDER          tiles of `w` are read in the order of memory and transposed afterwards: for CPUs
    """
    RANK: tl.constexpr = len(sizes)
    P: tl.constexpr = 0 if LAST else 1  # the axis that blocks over pixels do not have
    K: tl.constexpr = 1 - P
    TURNED: tl.constexpr = IN_ORDER and not LAST and (W_UNIT == "c" or W_UNIT == "flat")
    tiles_c = tl.cdiv(channels, BC)
    tile_c, tile_p = tl.program_id(0) % tiles_c, tl.program_id(0) // tiles_c
    group, part = tl.program_id(1), tl.program_id(2)
    x_c, w_c = unit(x_strides[1], X_UNIT == "c"), unit(w_strides[2], W_UNIT == "c")
    w_start = w + group * w_strides[0]
    out_start = out + group * channels * out_strides[1]
    if phases is not None:
        its_batch, its_counts, its_taps, tap, start, first_tap, first_place = phase_of(part, batch, counts, taps, phases)
    else:
        its_batch, its_counts, tap, start = batch, counts, motion[1], motion[2]
        its_taps = taps if WINDOW is None else WINDOW
    if INSIDE is not None:
        n, places, p_mask = nearest_place_of(tile_p, its_batch, its_counts, magic_of(magics, 0), BP)
    else:
        n, places, p_mask = place_of(tile_p, its_batch, its_counts, magic_of(magics, 0), ROWS, BP)
    at = unstrided(places, start) if phases is not None else starts(places, motion[0], start, NEXT)
    x_start = x + group * inner * x_strides[1]
    x_offset = tl.expand_dims(offset_of(n, at, x_strides, X_UNIT == "p"), P)
    p_wide = tl.expand_dims(p_mask, P)
    k = tl.arange(0, BK)
    c = tile_c * BC + tl.arange(0, BC)
    c_mask = c < channels
    c_offset = c * unit(w_strides[1], W_UNIT == "k")
    all_taps = product_of(its_taps)
    blocks = tl.cdiv(inner, BK)
    steps = tl.cdiv(inner * all_taps, BK) if FLAT else blocks * all_taps
    first, last = 0, steps
    if phases is None:
        first = part * steps_of_part
        last = tl.minimum(first + steps_of_part, steps)
    total = tl.zeros((BC, BP) if LAST else (BP, BC), ACC)
    for position in range(first, last):
        if FLAT:
            index = position * BK + k
            channel, js = split(index, its_taps, None if WINDOW is not None else magic_of(magics, 1))
            k_mask = index < inner * all_taps
            mask = p_wide & tl.expand_dims(k_mask, K)
            x_along = channel * x_c
            w_along = channel * w_strides[2]
        else:
            tap_number, block = divided(position, blocks, magic_of(magics, 2))
            js = split(tap_number, its_taps, magic_of(magics, 1))[1]
            channel = block * BK + k
            k_mask = channel < inner
            inside = p_mask
            first_channel = channel if INSIDE is None else block * BK
            x_along = first_channel * x_c
            w_along = first_channel * w_c
        for d in tl.static_range(RANK):
            along = js[d] * unit(tap[d], RUNS and d == RANK - 1)
            if not FLAT and INSIDE is None:
                q = at[d] + along
                inside = inside & (q >= 0) & (q < sizes[d])
            elif FLAT and not RUNS:
                if ROWS and d < RANK - 1:
                    q = tl.expand_dims(along + at[d], K)
                else:
                    q = tl.expand_dims(at[d], P) + tl.expand_dims(along, K)
                mask = mask & (q >= 0) & (q < sizes[d])
            x_along = x_along + along * unit(x_strides[2 + d], X_UNIT == "p" and d == RANK - 1)
            if phases is not None:
                w_along = w_along + (first_tap[d] + js[d] * phases[4][d]) * w_strides[3 + d]
            else:
                w_along = w_along + js[d] * w_strides[3 + d]
        if not FLAT:
            mask = tl.expand_dims(inside, P) & tl.expand_dims(k_mask, K)
        if FLAT and W_UNIT == "flat":
            w_along = index
        C: tl.constexpr = 1 if TURNED or LAST else 0
        if INSIDE is not None:
            # Rows begin at pointers of their own, from which neighbours follow: CPUs copy whole registers.
            values = loaded((x_start + x_along + x_offset) + tl.expand_dims(k * x_c, K), mask, tl.expand_dims(k_mask, K), False, INSIDE & 2 == 0)
            rows = tl.expand_dims(c_offset if C == 1 else k * w_c, 1)
            columns = tl.expand_dims(k * w_c if C == 1 else c_offset, 0)
            factors = loaded((w_start + w_along + rows) + columns, tl.expand_dims(c_mask, C), tl.expand_dims(k_mask, 1 - C), INSIDE & 1 == 0, INSIDE & 2 == 0)
        else:
            values = tl.load(x_start + (x_offset + tl.expand_dims(x_along, K)), mask=mask, other=0)
            factors = tl.load(w_start + (tl.expand_dims(c_offset, C) + tl.expand_dims(w_along, 1 - C)), mask=tl.expand_dims(c_mask, C) & tl.expand_dims(k_mask, 1 - C), other=0)
        if LAST:
            total = tl.dot(factors, values, total, input_precision=PRECISION, out_dtype=ACC)
        else:
            total = tl.dot(values, tl.trans(factors) if TURNED else factors, total, input_precision=PRECISION, out_dtype=ACC)
    if bias is not None:
        total += tl.expand_dims(tl.load(bias + (group * channels + c) * bias_stride, mask=c_mask, other=0).to(ACC), K)
    if phases is not None:
        out_places = strided_places(places, first_place, phases[0])
    else:
        out_places = places
        out_start += part * part_stride
    to = tl.expand_dims(offset_of(n, out_places, out_strides, OUT_UNIT == "p"), P) + tl.expand_dims(c * unit(out_strides[1], OUT_UNIT == "c"), K)
    write(out_start + to, total, p_wide & tl.expand_dims(c_mask, K))


@nereid.jit
def correlate_weights(out, y, x, batch, channels, inner, counts, sizes, taps, magics, motion, out_strides, y_strides, x_strides, part_stride, steps_of_part,
                      ACC: tl.constexpr, PRECISION: tl.constexpr, FLAT: tl.constexpr, WINDOW: tl.constexpr, Y_UNIT: tl.constexpr, X_UNIT: tl.constexpr,
                      ROWS: tl.constexpr, NEXT: tl.constexpr, RUNS: tl.constexpr, IN_ORDER: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """out[g, k, c, j] = sum over n and p of y[n, g, k, p] * x[n, g, c, q]. Grid: (tiles of k and of c (and taps), groups, parts of the pixels).

    counts: the sizes of `y`; magics: of `divided` for each. out_strides: (g, k, c, ...); y_strides, x_strides: (n, channel, ...). FLAT: columns of tiles are (c, taps), else c for one tap.
    Y_UNIT, X_UNIT: "c", "p" or None. Pixels are summed in blocks of BK. Other arguments: as for `correlate`.
    """
    RANK: tl.constexpr = len(sizes)
    Y_TURNED: tl.constexpr = IN_ORDER and Y_UNIT == "c"
    X_TURNED: tl.constexpr = IN_ORDER and X_UNIT == "p" and NEXT and not RUNS
    P: tl.constexpr = 0 if X_TURNED else 1  # the axis that blocks over pixels do not have in tiles of `x`
    N: tl.constexpr = 1 - P
    tap, start = motion[1], motion[2]
    all_taps = product_of(taps if WINDOW is None else WINDOW)
    columns = inner * all_taps if FLAT else inner
    tiles_n = tl.cdiv(columns, BN)
    group, part = tl.program_id(1), tl.program_id(2)
    pid = tl.program_id(0)
    column = pid % tiles_n * BN + tl.arange(0, BN)
    pid = pid // tiles_n
    if FLAT:
        channel, js = split(column, taps if WINDOW is None else WINDOW, None)
        row = pid * BM + tl.arange(0, BM)
    else:
        channel, js = column, split(pid % all_taps, taps, None)[1]
        row = pid // all_taps * BM + tl.arange(0, BM)
    row_mask, column_mask = row < channels, column < columns
    x_along, to = channel * unit(x_strides[1], X_UNIT == "c"), channel * out_strides[2]
    for d in tl.static_range(RANK):
        x_along = x_along + js[d] * unit(tap[d], RUNS and d == RANK - 1) * unit(x_strides[2 + d], X_UNIT == "p" and d == RANK - 1)
        to = to + js[d] * out_strides[3 + d]
    x_start = x + group * inner * x_strides[1]
    y_start = y + group * channels * y_strides[1]
    y_along = row * unit(y_strides[1], Y_UNIT == "c")
    first = part * steps_of_part
    last = tl.minimum(first + steps_of_part, tiles_of(batch, counts, ROWS, BK))
    total = tl.zeros((BM, BN), ACC)
    for position in range(first, last):
        n, places, p_mask = place_of(position, batch, counts, magics, ROWS, BK)
        at = starts(places, motion[0], start, NEXT)
        y_offset = offset_of(n, places, y_strides, Y_UNIT == "p")
        mask = tl.expand_dims(p_mask, P) & tl.expand_dims(column_mask, N)
        for d in tl.static_range(0 if RUNS else RANK):
            if FLAT:
                if ROWS and d < RANK - 1:
                    q = tl.expand_dims(js[d] * tap[d] + at[d], N)
                else:
                    q = tl.expand_dims(at[d], P) + tl.expand_dims(js[d] * tap[d], N)
                mask = mask & (q >= 0) & (q < sizes[d])
            else:
                q = at[d] + js[d] * tap[d]
                if ROWS and d < RANK - 1:
                    mask = mask & ((q >= 0) & (q < sizes[d]))
                else:
                    mask = mask & tl.expand_dims((q >= 0) & (q < sizes[d]), P)
        values = tl.load(x_start + (tl.expand_dims(offset_of(n, at, x_strides, X_UNIT == "p"), P) + tl.expand_dims(x_along, N)), mask=mask, other=0)
        if Y_TURNED:
            factors = tl.trans(tl.load(y_start + (tl.expand_dims(y_offset, 1) + tl.expand_dims(y_along, 0)), mask=tl.expand_dims(p_mask, 1) & tl.expand_dims(row_mask, 0), other=0))
        else:
            factors = tl.load(y_start + (tl.expand_dims(y_offset, 0) + tl.expand_dims(y_along, 1)), mask=tl.expand_dims(p_mask, 0) & tl.expand_dims(row_mask, 1), other=0)
        total = tl.dot(factors, tl.trans(values) if X_TURNED else values, total, input_precision=PRECISION, out_dtype=ACC)
    to = tl.expand_dims(to, 0) + tl.expand_dims(row * out_strides[1], 1)
    write(out + (group * out_strides[0] + part * part_stride) + to, total, tl.expand_dims(row_mask, 1) & tl.expand_dims(column_mask, 0))


@nereid.jit
def direct(out, x, w, bias, batch, channels, in_group, inner, counts, sizes, taps, motion, phases, bias_stride, out_strides, x_strides, w_strides,
           ACC: tl.constexpr, WINDOW: tl.constexpr, X_UNIT: tl.constexpr, OUT_UNIT: tl.constexpr, LAST: tl.constexpr, ROWS: tl.constexpr, NEXT: tl.constexpr,
           ALONE: tl.constexpr, W_UNIT: tl.constexpr, BP: tl.constexpr, BC: tl.constexpr):
    """The sum without products of tiles. Grid: (tiles of channels and pixels, phases).

    channels: of the result in all groups, in_group: in one. w_strides: (g, k, c, ...). WINDOW: `taps` as constants, over which the loop is
    unrolled, or None. ALONE: groups have one channel of the result and one of `x`.
    W_UNIT: then the stride of `w` along them is 1. Other arguments: as for `correlate`.
    """
    RANK: tl.constexpr = len(sizes)
    P: tl.constexpr = 0 if LAST else 1
    C: tl.constexpr = 1 - P
    tiles_c = tl.cdiv(channels, BC)
    tile_c, tile_p = tl.program_id(0) % tiles_c, tl.program_id(0) // tiles_c
    if phases is not None:
        its_batch, its_counts, its_taps, tap, start, first_tap, first_place = phase_of(tl.program_id(1), batch, counts, taps, phases)
    else:
        its_batch, its_counts, tap, start = batch, counts, motion[1], motion[2]
        its_taps = taps
    n, places, p_mask = place_of(tile_p, its_batch, its_counts, None, ROWS, BP)
    at = unstrided(places, start) if phases is not None else starts(places, motion[0], start, NEXT)
    c = tile_c * BC + tl.arange(0, BC)
    c_mask = c < channels
    x_offset = tl.expand_dims(offset_of(n, at, x_strides, X_UNIT == "p"), P)
    c_wide, p_wide = tl.expand_dims(c_mask, C), tl.expand_dims(p_mask, P)
    total = tl.zeros((BC, BP) if LAST else (BP, BC), ACC)
    for channel in range(inner):
        x_c = x + (x_offset + tl.expand_dims((c if ALONE else c // in_group * inner + channel) * unit(x_strides[1], X_UNIT == "c"), C))
        w_c = w + (c * unit(w_strides[0], W_UNIT) if ALONE else c // in_group * w_strides[0] + c % in_group * w_strides[1] + channel * w_strides[2])
        if WINDOW is None:
            for j in range(product_of(its_taps)):
                js = split(j, its_taps, None)[1]
                if phases is not None:
                    its = strided_places(js, first_tap, phases[4])
                else:
                    its = js
                total += tapped(x_c, w_c, at, js, its, tap, sizes, p_mask, c_mask, c_wide, x_strides, w_strides, ACC, X_UNIT, P, C)
        else:
            for j in tl.static_range(taps_in(WINDOW)):
                js = split(j, WINDOW, None)[1]
                total += tapped(x_c, w_c, at, js, js, tap, sizes, p_mask, c_mask, c_wide, x_strides, w_strides, ACC, X_UNIT, P, C)
    if bias is not None:
        total += tl.expand_dims(tl.load(bias + c * bias_stride, mask=c_mask, other=0).to(ACC), C)
    if phases is not None:
        out_places = strided_places(places, first_place, phases[0])
    else:
        out_places = places
    to = tl.expand_dims(offset_of(n, out_places, out_strides, OUT_UNIT == "p"), P) + tl.expand_dims(c * unit(out_strides[1], OUT_UNIT == "c"), C)
    write(out + to, total, p_wide & c_wide)


@nereid.jit
def tapped(x, w, at, js, its, tap, sizes, p_mask, c_mask, c_wide, x_strides, w_strides, ACC: tl.constexpr, X_UNIT: tl.constexpr, P: tl.constexpr, C: tl.constexpr):
    """The products of one tap. x, w: pointers to that of the first one; js: the tap's place in the loop, its: in the window."""
    inside, x_shift, w_shift = p_mask, 0, 0
    for d in tl.static_range(len(sizes)):
        q = at[d] + js[d] * tap[d]
        inside = inside & (q >= 0) & (q < sizes[d])
        x_shift = x_shift + js[d] * tap[d] * unit(x_strides[2 + d], X_UNIT == "p" and d == len(sizes) - 1)
        w_shift = w_shift + its[d] * w_strides[3 + d]
    values = tl.load(x + x_shift, mask=tl.expand_dims(inside, P) & c_wide, other=0).to(ACC)
    return values * tl.expand_dims(tl.load(w + w_shift, mask=c_mask, other=0).to(ACC), C)


@nereid.jit
def direct_weights(out, y, x, batch, numel, in_group, inner, counts, sizes, taps, magics, motion, out_strides, y_strides, x_strides, part_stride, steps_of_part,
                   ACC: tl.constexpr, Y_UNIT: tl.constexpr, X_UNIT: tl.constexpr, LAST: tl.constexpr, ROWS: tl.constexpr, NEXT: tl.constexpr, ALONE: tl.constexpr, BP: tl.constexpr,
                   BC: tl.constexpr):
    """The gradient of the weights without products of tiles. Grid: (tiles of weights, taps, parts of the pixels).

    numel: how many weights a tap has in all groups, in the order (channel of `y`, c). out_strides: (channel of `y`, c, ...). Other arguments: as for `direct` and
    `correlate_weights`.
    """
    RANK: tl.constexpr = len(sizes)
    P: tl.constexpr = 0 if LAST else 1
    C: tl.constexpr = 1 - P
    tap, start = motion[1], motion[2]
    part = tl.program_id(2)
    e = tl.program_id(0) * BC + tl.arange(0, BC)
    js = split(tl.program_id(1), taps, None)[1]
    e_mask = e < numel
    k, c = (e, 0) if ALONE else (e // inner, e % inner)
    y_along, x_along = k * unit(y_strides[1], Y_UNIT == "c"), (e if ALONE else k // in_group * inner + c) * unit(x_strides[1], X_UNIT == "c")
    to = k * out_strides[0] + c * out_strides[1]
    for d in tl.static_range(RANK):
        x_along = x_along + js[d] * tap[d] * unit(x_strides[2 + d], X_UNIT == "p" and d == RANK - 1)
        to = to + js[d] * out_strides[2 + d]
    first = part * steps_of_part
    last = tl.minimum(first + steps_of_part, tiles_of(batch, counts, ROWS, BP))
    total = tl.zeros((BC, BP) if LAST else (BP, BC), ACC)
    for position in range(first, last):
        n, places, p_mask = place_of(position, batch, counts, magics, ROWS, BP)
        at = starts(places, motion[0], start, NEXT)
        inside = p_mask
        for d in tl.static_range(RANK):
            q = at[d] + js[d] * tap[d]
            inside = inside & (q >= 0) & (q < sizes[d])
        mask = tl.expand_dims(inside, P) & tl.expand_dims(e_mask, C)
        values = tl.load(x + (tl.expand_dims(offset_of(n, at, x_strides, X_UNIT == "p"), P) + tl.expand_dims(x_along, C)), mask=mask, other=0).to(ACC)
        factors = tl.load(y + (tl.expand_dims(offset_of(n, places, y_strides, Y_UNIT == "p"), P) + tl.expand_dims(y_along, C)), mask=mask, other=0).to(ACC)
        total += values * factors
    write(out + part * part_stride + to, tl.sum(total, C), e_mask)
