"""Kernels of embedding bags: sums, means and maxima of rows of a table, by bags of neighbouring indices.

offsets: where each bag begins among the indices; the last one ends with them.
"""

import nereid
import nereid.language as tl


@nereid.jit
def bag_bounds(offsets, bag, bags, count):
    """(first place, end) of a bag."""
    first = tl.load(offsets + bag).to(tl.int64)
    end = tl.load(offsets + tl.minimum(bag + 1, bags - 1)).to(tl.int64)
    return first, tl.where(bag + 1 < bags, end, count)


@nereid.jit
def bags_of(result, offsets, bags, count):
    """result[p]: the bag of the index at place p. Grid: bags."""
    bag = tl.program_id(0).to(tl.int64)
    first, end = bag_bounds(offsets, bag, bags, count)
    for p in range(first, end):
        tl.store(result + p, bag.to(result.dtype.element_ty))


@nereid.jit
def item(pointer, p, end, step, other, AHEAD: tl.constexpr):
    """The number at place `p`, `other` from `end` on, where places of several rows at once may lie."""
    if AHEAD == 1:
        return tl.load(pointer + p * step)
    else:
        return tl.load(pointer + p * step, mask=p < end, other=other)


@nereid.jit
def note_owners(owners, bag, first, end, TOGETHER: tl.constexpr):
    """owners[p] = bag for the places of a bag, TOGETHER at once."""
    for p in range(first, end, TOGETHER):
        place = p + tl.arange(0, TOGETHER)
        tl.store(owners + place, tl.zeros((TOGETHER, ), owners.dtype.element_ty) + bag.to(owners.dtype.element_ty), mask=place < end)


@nereid.jit
def bag_sums(result, sizes, owners, table, indices, offsets, weights, bags, count, rows, width, row_stride, column_stride, weight_stride, padding, EXIST: tl.constexpr, WHOLE: tl.constexpr, UNIT: tl.constexpr,
             MEAN: tl.constexpr, COMPUTE: tl.constexpr, BW: tl.constexpr, AHEAD: tl.constexpr):
    """The sum or, with MEAN, the mean of the rows of each bag. Grid: (bags, width / BW).

    result   (bags, width), contiguous
    sizes    the numbers of rows that count, or None
    owners   the bag of each index, or None
    table    (rows, width); UNIT: its column stride is 1. Rows that do not exist are read as 0
    weights  a factor for each index, or None
    padding  the row that does not count, or None
    EXIST    whether all rows are known to exist; WHOLE: whether `width` is a multiple of BW
    AHEAD    how many rows are on their way at once; they are added in the order of the indices
    """
    bag = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1).to(tl.int64) * BW + tl.arange(0, BW)
    mask = c < width
    first, end = bag_bounds(offsets, bag, bags, count)
    step = 1 if UNIT else column_stride
    total = tl.zeros((BW,), COMPUTE)
    counted = first * 0
    for p in range(first, end, AHEAD):
        numbers, values = (), ()
        for i in tl.static_range(AHEAD):
            numbers = numbers + (item(indices, p + i, end, 1, -1, AHEAD).to(tl.int64), )
        for i in tl.static_range(AHEAD):
            row = numbers[i]
            source = table + row * row_stride + c * step
            if EXIST and WHOLE and padding is None and AHEAD == 1:
                x = tl.load(source)
            elif EXIST and padding is None and AHEAD == 1:
                x = tl.load(source, mask=mask, other=0)
            else:
                counts = True if padding is None else row != padding
                x = tl.load(source, mask=(counts & (row >= 0) & (row < rows)) if WHOLE else (mask & counts & (row >= 0) & (row < rows)), other=0)
            values = values + (x, )
        for i in tl.static_range(AHEAD):
            x = values[i].to(COMPUTE)
            if weights is not None:
                x = x * item(weights, p + i, end, weight_stride, 0, AHEAD).to(COMPUTE)
            if padding is None:
                total += x
            else:
                counts = (numbers[i] != padding) & (p + i < end)
                total += tl.where(counts, x, 0)
                counted += tl.where(counts, 1, 0)
    if padding is None:
        counted = end - first
    if owners is not None:
        note_owners(owners, bag, first, end, 32 if AHEAD > 1 else 4)
    if MEAN:
        total = total / tl.maximum(counted, 1).to(COMPUTE)
    tl.store(result + bag * width + c, total.to(result.dtype.element_ty), mask=mask)
    if sizes is not None:
        tl.store(sizes + bag, counted.to(sizes.dtype.element_ty))


@nereid.jit
def bag_maxima(result, sizes, owners, places, table, indices, offsets, bags, count, rows, width, row_stride, column_stride, padding, NOWHERE: tl.constexpr, UNIT: tl.constexpr,
               COMPUTE: tl.constexpr, BW: tl.constexpr, AHEAD: tl.constexpr):
    """The greatest elements of the rows of each bag, 0 where a bag is empty, and in which rows they are: places, (bags, width), NOWHERE where a bag is empty. Otherwise as
    `bag_sums`."""
    bag = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1).to(tl.int64) * BW + tl.arange(0, BW)
    mask = c < width
    first, end = bag_bounds(offsets, bag, bags, count)
    step = 1 if UNIT else column_stride
    best = tl.zeros((BW,), COMPUTE)
    at = tl.full((BW,), NOWHERE, tl.int64)
    counted = first * 0
    for p in range(first, end, AHEAD):
        numbers, values = (), ()
        for i in tl.static_range(AHEAD):
            numbers = numbers + (item(indices, p + i, end, 1, -1, AHEAD).to(tl.int64), )
        for i in tl.static_range(AHEAD):
            row = numbers[i]
            values = values + (tl.load(table + row * row_stride + c * step, mask=mask & (row != padding) & (row >= 0) & (row < rows), other=0), )
        for i in tl.static_range(AHEAD):
            x = values[i].to(COMPUTE)
            counts = (numbers[i] != padding) & (p + i < end)
            take = counts & ((counted == 0) | (x > best))
            best = tl.where(take, x, best)
            at = tl.where(take, numbers[i], at)
            counted += tl.where(counts, 1, 0)
    note_owners(owners, bag, first, end, 32 if AHEAD > 1 else 4)
    tl.store(result + bag * width + c, best.to(result.dtype.element_ty), mask=mask)
    tl.store(places + bag * width + c, at.to(places.dtype.element_ty), mask=mask)
    tl.store(sizes + bag, counted.to(sizes.dtype.element_ty))


@nereid.jit
def bag_gradient(result, gradient, indices, order, owners, sizes, weights, count, width, gradient_stride, gradient_step, weight_stride, padding, BY_COUNT: tl.constexpr,
                 COMPUTE: tl.constexpr, BW: tl.constexpr):
    """The gradient of a table from that of sums or means, in the order of places, without atomics. Grid: (count, width / BW).

    result   (rows, width), contiguous and full of zeros
    gradient (bags, width), its strides are gradient_stride, gradient_step
    indices  sorted; order: where each was before; owners: the bag of each, by where it was before
    sizes    of bags, by which means were divided, or None
    weights  a factor for each index, or None
    BY_COUNT: divide by how often an index occurs. A program whose index is the first of its kind adds up all of that kind.
    """
    p = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1).to(tl.int64) * BW + tl.arange(0, BW)
    mask = c < width
    row = tl.load(indices + p).to(tl.int64)
    before = tl.load(indices + tl.maximum(p - 1, 0)).to(tl.int64)
    if ((p == 0) | (before != row)) & (row != padding):
        total = tl.zeros((BW,), COMPUTE)
        place = p
        current = row
        while current == row:
            was = tl.load(order + place)
            bag = tl.load(owners + was).to(tl.int64)
            g = tl.load(gradient + bag * gradient_stride + c * gradient_step, mask=mask, other=0).to(COMPUTE)
            if weights is not None:
                g = g * tl.load(weights + was * weight_stride).to(COMPUTE)
            if sizes is not None:
                g = g / tl.maximum(tl.load(sizes + bag), 1).to(COMPUTE)
            total += g
            place += 1
            current = tl.load(indices + tl.minimum(place, count - 1)).to(tl.int64)
            if place >= count:
                current = row - 1
        if BY_COUNT:
            total = total / (place - p).to(COMPUTE)
        tl.store(result + row * width + c, total.to(result.dtype.element_ty), mask=mask)


@nereid.jit
def gradient_of_few(result, gradient, indices, owners, sizes, weights, count, width, gradient_stride, gradient_step, weight_stride, padding, BY_COUNT: tl.constexpr, COMPUTE: tl.constexpr,
                    BR: tl.constexpr, BN: tl.constexpr, BW: tl.constexpr):
    """`bag_gradient` for at most BN indices, which need not be sorted: each program looks for its index among all of them. The first one that has an index adds up all of that index, BR at once, in
    the order of places.

    owners: or None where every place is a bag of its own, as in an embedding. Other arguments: as for `bag_gradient`.
    """
    p = tl.program_id(0)
    c = tl.program_id(1).to(tl.int64) * BW + tl.arange(0, BW)
    mask = c < width
    n = tl.arange(0, BN)
    row = tl.load(indices + p)
    same = (tl.load(indices + n, mask=n < count, other=-1) == row) & (n < count)
    place = tl.min(tl.where(same, n, BN), 0)
    if (place == p) & (row.to(tl.int64) != padding):
        total = tl.zeros((BW,), COMPUTE)
        while place < BN:
            places, values = (), ()
            for i in tl.static_range(BR):
                places = places + (place, )
                place = tl.min(tl.where(same & (n > place), n, BN), 0)
            for i in tl.static_range(BR):
                there = places[i] < BN
                at = tl.where(there, places[i], 0).to(tl.int64)
                bag = at if owners is None else tl.load(owners + at).to(tl.int64)
                g = tl.load(gradient + bag * gradient_stride + c * gradient_step, mask=mask & there, other=0).to(COMPUTE)
                if weights is not None:
                    g = g * tl.load(weights + at * weight_stride).to(COMPUTE)
                if sizes is not None:
                    g = g / tl.maximum(tl.load(sizes + bag), 1).to(COMPUTE)
                values = values + (tl.where(there, g, 0.0), )
            part = values[0]
            for i in tl.static_range(1, BR):
                part += values[i]
            total += part
        if BY_COUNT:
            total = total / tl.sum(same.to(tl.int32), 0).to(COMPUTE)
        tl.store(result + row.to(tl.int64) * width + c, total.to(result.dtype.element_ty), mask=mask)


@nereid.jit
def bag_maxima_gradient(result, gradient, places, sizes, bags, rows, width, gradient_stride, gradient_step, SCOPE: tl.constexpr, BW: tl.constexpr):
    """result[places[bag, c], c] += gradient[bag, c] for bags that are not empty, atomically. Grid: (groups of bags, width / BW).

    result: (rows, width), contiguous and full of zeros. One group adds up in the order of bags. SCOPE: of the atomics, "cta" where there is one group.
    """
    c = tl.program_id(1).to(tl.int64) * BW + tl.arange(0, BW)
    mask = c < width
    for bag in range(tl.program_id(0).to(tl.int64), bags, tl.num_programs(0)):
        filled = tl.load(sizes + bag) != 0
        row = tl.load(places + bag * width + c, mask=mask, other=-1).to(tl.int64)
        g = tl.load(gradient + bag * gradient_stride + c * gradient_step, mask=mask, other=0).to(result.dtype.element_ty)
        tl.atomic_add(result + row * width + c, g, mask=mask & filled & (row >= 0) & (row < rows), sem="relaxed", scope=SCOPE)


@nereid.jit
def bag_weight_gradient(result, gradient, table, indices, owners, count, width, rows, gradient_stride, gradient_step, row_stride, column_stride, padding, UNIT: tl.constexpr, COMPUTE: tl.constexpr,
                        BP: tl.constexpr, BW: tl.constexpr):
    """result[p] = gradient[bag of p] . table[indices[p]], 0 for the row that does not count. Grid: places / BP. UNIT: gradient_step and column_stride are 1."""
    p = tl.program_id(0).to(tl.int64) * BP + tl.arange(0, BP)
    there = p < count
    row = tl.load(indices + p, mask=there, other=-1).to(tl.int64)
    bag = tl.load(owners + p, mask=there, other=0).to(tl.int64)
    exists = ((row != padding) & (row >= 0) & (row < rows))[:, None]
    total = tl.zeros((BP, BW), COMPUTE)
    for start in range(0, width, BW):
        c = start + tl.arange(0, BW)[None, :]
        mask = (c < width) & exists
        g = tl.load(gradient + (bag * gradient_stride)[:, None] + c * (1 if UNIT else gradient_step), mask=mask, other=0).to(COMPUTE)
        total += g * tl.load(table + (row * row_stride)[:, None] + c * (1 if UNIT else column_stride), mask=mask, other=0).to(COMPUTE)
    tl.store(result + p, tl.sum(total, 1).to(result.dtype.element_ty), mask=there)
