"""Kernels of distances between rows, their gradients, cross products and rows kept below a norm.

P says which norm: "zero" (how many elements differ), "one", "two", "inf", or "other", of which the number is given.
"""

import nereid
import nereid.language as tl
from nereid.language.extra import libdevice

from ._shared import offset_of, write


@nereid.jit
def power(x, p, COMPUTE: tl.constexpr):
    return libdevice.pow(x, tl.zeros(x.shape, COMPUTE) + p.to(COMPUTE))


@nereid.jit
def condensed(i, j, count):
    """The place of the pair i < j of `count` rows among all pairs."""
    return i * count - i * (i + 1) // 2 + j - i - 1


@nereid.jit
def distances(out, a, b, p, rows, columns, width, a_strides, b_strides, P: tl.constexpr, CONDENSED: tl.constexpr, UNIT: tl.constexpr, COMPUTE: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    """out[n, i, j] = the norm of a[n, i, :] - b[n, j, :]; with CONDENSED the pairs i < j alone, one behind the other. Grid: (tiles of columns, tiles of rows, n).

    out: contiguous. a: (n, rows, width), b: (n, columns, width), of any strides. UNIT: neighbouring rows of b are 1 apart.
    """
    n = tl.program_id(2).to(tl.int64)
    i = (tl.program_id(1).to(tl.int64) * BR + tl.arange(0, BR))[:, None]
    j = (tl.program_id(0).to(tl.int64) * BC + tl.arange(0, BC))[None, :]
    from_a = a + n * a_strides[0] + i * a_strides[1]
    from_b = b + n * b_strides[0] + j * (1 if UNIT else b_strides[1])
    total = tl.zeros((BR, BC), COMPUTE)
    if CONDENSED:  # a tile with no pair i < j
        width = tl.where((tl.program_id(0) + 1) * BC - 1 > tl.program_id(1) * BR, width, 0)
    for k in range(0, width):
        x = tl.load(from_a + k * a_strides[2], mask=i < rows, other=0).to(COMPUTE)
        y = tl.load(from_b + k * b_strides[2], mask=j < columns, other=0).to(COMPUTE)
        d = tl.abs(x - y)
        if P == "zero":
            total += tl.where(d == 0, 0.0, 1.0).to(COMPUTE)
        elif P == "one":
            total += d
        elif P == "two":
            total += d * d
        elif P == "inf":
            total = tl.where((d > total) | (d != d), d, total)
        else:
            total += power(d, p, COMPUTE)
    if P == "two":
        total = tl.sqrt(total)
    elif P == "other":
        total = power(total, 1 / p, COMPUTE)
    mask = (i < rows) & (j < columns)
    if CONDENSED:
        tl.store(out + condensed(i, j, rows), total.to(out.dtype.element_ty), mask=mask & (i < j))
    else:
        tl.store(out + (n * rows + i) * columns + j, total.to(out.dtype.element_ty), mask=mask)


@nereid.jit
def slope(d, distance, p, P: tl.constexpr, COMPUTE: tl.constexpr):
    """The derivative of the norm by an element `d` of the difference."""
    sign = tl.where(d > 0, 1.0, tl.where(d < 0, -1.0, 0.0)).to(COMPUTE)
    if P == "one":
        return sign
    elif P == "two":
        return tl.where(distance == 0, 0.0, d / tl.where(distance == 0, 1.0, distance))
    elif P == "inf":
        # 1 for elements whose magnitude is the distance, as PyTorch tells them.
        away = tl.ceil(tl.abs(tl.abs(d) - distance))
        return sign * (1 - tl.where(away > 1, 1.0, away))
    else:
        safe = tl.where(distance == 0, 1.0, distance)
        flat = (distance == 0) | (d == 0)
        magnitude = tl.where(d == 0, 1.0, tl.abs(d))
        return tl.where(flat, 0.0, sign * power(magnitude, p - 1, COMPUTE) / power(safe, p - 1, COMPUTE))


@nereid.jit
def distance_gradient(result, gradient, distance, a, b, p, rows, columns, width, a_strides, b_strides, gradient_strides, distance_strides, P: tl.constexpr,
                      CONDENSED: tl.constexpr, COMPUTE: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    """result[n, i, k] = the sum over j of gradient[n, i, j] times the derivative of distance[n, i, j] by a[n, i, k]. Grid: (tiles of width, tiles of rows, n).

    result: contiguous. With CONDENSED gradients and distances are those of pairs, strides[0] apart.
    """
    n = tl.program_id(2).to(tl.int64)
    i = (tl.program_id(1).to(tl.int64) * BR + tl.arange(0, BR))[:, None]
    k = (tl.program_id(0).to(tl.int64) * BC + tl.arange(0, BC))[None, :]
    mask = (i < rows) & (k < width)
    x = tl.load(a + n * a_strides[0] + i * a_strides[1] + k * a_strides[2], mask=mask, other=0).to(COMPUTE)
    total = tl.zeros((BR, BC), COMPUTE)
    for j in range(0, columns):
        y = tl.load(b + n * b_strides[0] + j * b_strides[1] + k * b_strides[2], mask=k < width, other=0).to(COMPUTE)
        if CONDENSED:
            there = (i < rows) & (i != j)
            pair = condensed(tl.minimum(i, j), tl.maximum(i, j), rows)
            g = tl.load(gradient + pair * gradient_strides[0], mask=there, other=0).to(COMPUTE)
            its = tl.load(distance + pair * distance_strides[0], mask=there, other=0).to(COMPUTE)
        else:
            g = tl.load(gradient + n * gradient_strides[0] + i * gradient_strides[1] + j * gradient_strides[2], mask=i < rows, other=0).to(COMPUTE)
            its = tl.load(distance + n * distance_strides[0] + i * distance_strides[1] + j * distance_strides[2], mask=i < rows, other=0).to(COMPUTE)
        total += g * slope(x - y, its, p, P, COMPUTE)
    tl.store(result + (n * rows + i) * width + k, total.to(result.dtype.element_ty), mask=mask)


@nereid.jit
def cross(out, a, b, sizes, out_strides, a_strides, b_strides, steps, numel, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """Cross products of vectors of three elements. sizes, *_strides: of the other dimensions; steps: strides along the vectors, of `out`, `a` and `b`."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < numel
    from_a = a + offset_of(e, sizes, a_strides)
    from_b = b + offset_of(e, sizes, b_strides)
    to = out + offset_of(e, sizes, out_strides)
    x0 = tl.load(from_a, mask=mask, other=0).to(COMPUTE)
    x1 = tl.load(from_a + steps[1], mask=mask, other=0).to(COMPUTE)
    x2 = tl.load(from_a + 2 * steps[1], mask=mask, other=0).to(COMPUTE)
    y0 = tl.load(from_b, mask=mask, other=0).to(COMPUTE)
    y1 = tl.load(from_b + steps[2], mask=mask, other=0).to(COMPUTE)
    y2 = tl.load(from_b + 2 * steps[2], mask=mask, other=0).to(COMPUTE)
    write(to, x1 * y2 - x2 * y1, mask)
    write(to + steps[0], x2 * y0 - x0 * y2, mask)
    write(to + 2 * steps[0], x0 * y1 - x1 * y0, mask)


@nereid.jit
def keep_rows(table, indices, count, rows, width, row_stride, column_stride, p, most, P: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """Rows of a table that are named by sorted indices are scaled to a norm of `most` where theirs is greater. Grid: places. The first place of an index works."""
    place = tl.program_id(0).to(tl.int64)
    row = tl.load(indices + place).to(tl.int64)
    before = tl.load(indices + tl.maximum(place - 1, 0)).to(tl.int64)
    if ((place == 0) | (before != row)) & (row >= 0) & (row < rows):
        start = table + row * row_stride
        total = tl.zeros((BLOCK,), COMPUTE)
        for first in range(0, width, BLOCK):
            c = first + tl.arange(0, BLOCK)
            x = tl.abs(tl.load(start + c * column_stride, mask=c < width, other=0).to(COMPUTE))
            if P == "zero":
                total += tl.where(x == 0, 0.0, 1.0).to(COMPUTE)
            elif P == "one":
                total += x
            elif P == "two":
                total += x * x
            elif P == "inf":
                total = tl.where((x > total) | (x != x), x, total)
            else:
                total += tl.where(c < width, power(x, p, COMPUTE), 0)
        if P == "inf":
            norm = tl.max(total, 0)
        else:
            norm = tl.sum(total, 0)
            if P == "two":
                norm = tl.sqrt(norm)
            elif P == "other":
                norm = tl.exp2(tl.log2(norm) / p.to(COMPUTE))
        if norm > most.to(COMPUTE):
            factor = most.to(COMPUTE) / (norm + 1e-7)
            for first in range(0, width, BLOCK):
                c = first + tl.arange(0, BLOCK)
                x = tl.load(start + c * column_stride, mask=c < width, other=0).to(COMPUTE)
                tl.store(start + c * column_stride, (x * factor).to(table.dtype.element_ty), mask=c < width)
