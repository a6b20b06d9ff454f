"""Normalisation and quantisation of rows, and the gradients of the normalisations.

A row is a position in all dimensions but the last one. Rows have one stride; the elements of a row are neighbours in memory.

    KIND   "rms": x / sqrt(mean(x²) + eps). "layer": (x - mean(x)) / sqrt(variance(x) + eps). "none": x. "swiglu": silu(x) * residual
    SCALES "none", "row": one scale for a row, "group": one for each GROUP elements of a row, "given": one for the tensor
"""

import nereid
import nereid.language as tl
from nereid.language.extra import libdevice

from ..functions import gated

#: The least normal number of fp32: no scale is smaller, so that none is 0 and the inverse is finite.
LEAST = tl.constexpr(1.1754943508222875e-38)


@nereid.jit
def read_row(pointer, place, mask, COMPUTE: tl.constexpr):
    return tl.load(pointer + place, mask=mask, other=0).to(COMPUTE)


@nereid.jit
def read_columns(pointer, c, c_mask, added, COMPUTE: tl.constexpr):
    """A block of a weight or bias as one row, with `added` added."""
    return tl.expand_dims(tl.load(pointer + c, mask=c_mask, other=0).to(COMPUTE) + added, 0)


@nereid.jit
def summed(x, residual, total, x_place, residual_place, total_place, mask, KIND: tl.constexpr, COMPUTE: tl.constexpr):
    """A block of what is normalised: x, x + residual as it is rounded in `total`, or silu(x) * residual."""
    value = read_row(x, x_place, mask, COMPUTE)
    if KIND == "swiglu":
        value = gated.swiglu(value, read_row(residual, residual_place, mask, COMPUTE), x.dtype.element_ty.primitive_bitwidth == 16)
    elif residual is not None:
        value = value + read_row(residual, residual_place, mask, COMPUTE)
        rounded = value.to(x.dtype.element_ty)
        if total is not None:
            tl.store(total + total_place, rounded, mask=mask)
        value = rounded.to(COMPUTE)
    return value


@nereid.jit
def affine(value, weight, bias, c, c_mask, offset, COMPUTE: tl.constexpr):
    """value * (weight + offset) + bias, as far as they are given."""
    if weight is not None:
        value = value * read_columns(weight, c, c_mask, offset, COMPUTE)
    if bias is not None:
        value = value + read_columns(bias, c, c_mask, 0, COMPUTE)
    return value


@nereid.jit
def limited(value, LARGEST: tl.constexpr, INTEGER: tl.constexpr):
    """The value within the range of the 8-bit dtype, rounded to an integer where the dtype is one."""
    if INTEGER:
        value = libdevice.rint(value)
    return tl.minimum(tl.maximum(value, -LARGEST), LARGEST)


@nereid.jit
def scale_of(largest, LARGEST: tl.constexpr):
    return tl.maximum(largest * (1.0 / LARGEST), LEAST)


@nereid.jit
def store_quantised(out, scales, scale, value, largest, place, scale_place, row_mask, mask, group_mask, SCALES: tl.constexpr, GROUP: tl.constexpr, LARGEST: tl.constexpr,
                    INTEGER: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Writes a block in 8 bits, and its scales unless they are given.

    largest: with scales of rows, the largest magnitude of each. scale: a pointer to the given scale. scale_place: where the scales of the block are, (BM,) or, with groups,
    (BM, BN / GROUP).
    """
    if SCALES == "row":
        found = scale_of(largest, LARGEST)
        tl.store(scales + scale_place, found, mask=row_mask)
        value = value * tl.expand_dims(1 / found, 1)
    elif SCALES == "group":
        parts = tl.reshape(value, (BM, BN // GROUP, GROUP))
        found = scale_of(tl.max(tl.abs(parts), 2), LARGEST)
        tl.store(scales + scale_place, found, mask=group_mask)
        value = tl.reshape(parts * tl.expand_dims(1 / found, 2), (BM, BN))
    else:
        given = tl.load(scale)
        if tl.program_id(0) == 0:
            tl.store(scales, given)
        value = value * (1 / given)
    tl.store(out + place, limited(value, LARGEST, INTEGER).to(out.dtype.element_ty), mask=mask)


@nereid.jit
def whole_rows(out, total, scales, x, residual, weight, bias, scale, rows, columns, out_stride, x_stride, residual_stride, eps, offset, KIND: tl.constexpr,
               SCALES: tl.constexpr, GROUP: tl.constexpr, LARGEST: tl.constexpr, INTEGER: tl.constexpr, COMPUTE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Rows that a block holds: each is read once. Grid: rows / BM.

    out, total  contiguous, rows of `out_stride` elements; total: None or what is normalised, x + residual
    scales      contiguous; scale: a given scale, one element
    offset      is added to the weight
    """
    row = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    c = tl.arange(0, BN)
    c_mask = c < columns
    row_mask = row < rows
    mask = tl.expand_dims(c_mask, 0)
    if BM > 1:
        mask = mask & tl.expand_dims(row_mask, 1)
    place = tl.expand_dims(row, 1) * out_stride + tl.expand_dims(c, 0)
    x_place = tl.expand_dims(row, 1) * x_stride + tl.expand_dims(c, 0)
    residual_place = tl.expand_dims(row, 1) * residual_stride + tl.expand_dims(c, 0)
    value = summed(x, residual, total, x_place, residual_place, place, mask, KIND, COMPUTE)
    share = 1 / columns.to(COMPUTE)
    if KIND == "layer":
        mean = tl.sum(value, 1) * share
        value = tl.where(mask, value - tl.expand_dims(mean, 1), 0)
    if KIND == "layer" or KIND == "rms":
        factor = 1 / tl.sqrt(tl.sum(value * value, 1) * share + eps.to(COMPUTE))
        value = affine(value * tl.expand_dims(factor, 1), weight, bias, c, c_mask, offset.to(COMPUTE), COMPUTE)
    if SCALES == "none":
        tl.store(out + place, value.to(out.dtype.element_ty), mask=mask)
    else:
        if bias is not None:
            value = tl.where(mask, value, 0)
        largest = tl.max(tl.abs(value), 1) if SCALES == "row" else row
        if SCALES == "group":
            g = tl.arange(0, BN // GROUP)
            scale_place = tl.expand_dims(row, 1) * tl.cdiv(columns, GROUP) + tl.expand_dims(g, 0)
            group_mask = tl.expand_dims(row_mask, 1) & tl.expand_dims(g * GROUP < columns, 0)
        else:
            scale_place = row
            group_mask = row_mask
        store_quantised(out, scales, scale, value, largest, place, scale_place, row_mask, mask, group_mask, SCALES, GROUP, LARGEST, INTEGER, BM, BN)


@nereid.jit
def long_rows(out, total, scales, x, residual, weight, bias, scale, rows, columns, out_stride, x_stride, residual_stride, eps, offset, KIND: tl.constexpr,
              SCALES: tl.constexpr, GROUP: tl.constexpr, LARGEST: tl.constexpr, INTEGER: tl.constexpr, COMPUTE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """The same for longer rows, which are read once for each sum and once more for the result. Grid: rows. BM is 1."""
    row = tl.program_id(0).to(tl.int64)
    rs = tl.expand_dims(tl.arange(0, BM), 1) + row
    share = 1 / columns.to(COMPUTE)
    blocks = tl.cdiv(columns, BN)
    mean = tl.zeros((BM,), COMPUTE)
    factor = tl.full((BM,), 1, COMPUTE)
    if KIND == "layer":
        totals = tl.zeros((BM, BN), COMPUTE)
        for block in range(0, blocks):
            c = block * BN + tl.arange(0, BN)
            mask = tl.expand_dims(c < columns, 0)
            cs = tl.expand_dims(c, 0)
            totals += summed(x, residual, None, rs * x_stride + cs, rs * residual_stride + cs, 0, mask, KIND, COMPUTE)
        mean = tl.sum(totals, 1) * share
    if KIND == "layer" or KIND == "rms":
        squares = tl.zeros((BM, BN), COMPUTE)
        for block in range(0, blocks):
            c = block * BN + tl.arange(0, BN)
            mask = tl.expand_dims(c < columns, 0)
            cs = tl.expand_dims(c, 0)
            value = summed(x, residual, None, rs * x_stride + cs, rs * residual_stride + cs, 0, mask, KIND, COMPUTE)
            value = tl.where(mask, value - tl.expand_dims(mean, 1), 0)
            squares += value * value
        factor = 1 / tl.sqrt(tl.sum(squares, 1) * share + eps.to(COMPUTE))
    largest = tl.zeros((BM,), COMPUTE)
    if SCALES == "row":
        found = tl.zeros((BM, BN), COMPUTE)
        for block in range(0, blocks):
            c = block * BN + tl.arange(0, BN)
            mask = tl.expand_dims(c < columns, 0)
            cs = tl.expand_dims(c, 0)
            value = summed(x, residual, None, rs * x_stride + cs, rs * residual_stride + cs, 0, mask, KIND, COMPUTE)
            if KIND == "layer" or KIND == "rms":
                value = affine((value - tl.expand_dims(mean, 1)) * tl.expand_dims(factor, 1), weight, bias, c, c < columns, offset.to(COMPUTE), COMPUTE)
            found = tl.maximum(found, tl.where(mask, tl.abs(value), 0))
        largest = tl.max(found, 1)
    for block in range(0, blocks):
        c = block * BN + tl.arange(0, BN)
        mask = tl.expand_dims(c < columns, 0)
        cs = tl.expand_dims(c, 0)
        value = summed(x, residual, total, rs * x_stride + cs, rs * residual_stride + cs, rs * out_stride + cs, mask, KIND, COMPUTE)
        if KIND == "layer" or KIND == "rms":
            value = affine((value - tl.expand_dims(mean, 1)) * tl.expand_dims(factor, 1), weight, bias, c, c < columns, offset.to(COMPUTE), COMPUTE)
        if SCALES == "none":
            tl.store(out + rs * out_stride + cs, value.to(out.dtype.element_ty), mask=mask)
        else:
            row_mask = tl.arange(0, BM) >= 0
            if SCALES == "group":
                value = tl.where(mask, value, 0)
                g = block * (BN // GROUP) + tl.arange(0, BN // GROUP)
                scale_place = rs * tl.cdiv(columns, GROUP) + tl.expand_dims(g, 0)
                group_mask = tl.expand_dims(g * GROUP < columns, 0)
            else:
                scale_place = tl.arange(0, BM) + row
                group_mask = row_mask
            store_quantised(out, scales, scale, value, largest, rs * out_stride + cs, scale_place, row_mask, mask, group_mask, SCALES, GROUP, LARGEST, INTEGER, BM, BN)


@nereid.jit
def add_two(a, b, c, d):
    return a + c, b + d


@nereid.jit
def add_three(a, b, c, d, e, f):
    return a + d, b + e, c + f


@nereid.jit
def whole_rows_gradient(out, weight_parts, bias_parts, grad, total_grad, x, weight, rows, columns, grad_stride, total_stride, x_stride, eps, offset, KIND: tl.constexpr,
                        COMPUTE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Gradients of rows that a block holds. Each program takes every BM * programs-th tile of rows and writes its sums for weight and bias: row `program` of the parts.

    out          gradient of x (and of the residual), contiguous
    total_grad   None, or the gradient of the sum that the forward step returned
    """
    c = tl.arange(0, BN)
    c_mask = c < columns
    cs = tl.expand_dims(c, 0)
    share = 1 / columns.to(COMPUTE)
    if weight is not None:
        w = read_columns(weight, c, c_mask, offset.to(COMPUTE), COMPUTE)
    weight_sum = tl.zeros((BM, BN), COMPUTE)
    bias_sum = tl.zeros((BM, BN), COMPUTE)
    for first in range(tl.program_id(0) * BM, rows, tl.num_programs(0) * BM):
        row = first.to(tl.int64) + tl.arange(0, BM)
        mask = tl.expand_dims(c_mask, 0)
        if BM > 1:
            mask = mask & tl.expand_dims(row < rows, 1)
        rs = tl.expand_dims(row, 1)
        value = read_row(x, rs * x_stride + cs, mask, COMPUTE)
        given = read_row(grad, rs * grad_stride + cs, mask, COMPUTE)
        if KIND == "layer":
            value = tl.where(mask, value - tl.expand_dims(tl.sum(value, 1) * share, 1), 0)
        scaled = given
        if weight is not None:
            scaled = given * w
        # The sums of a row in one exchange between its warps.
        if KIND == "layer":
            squares, products, shift = tl.reduce((value * value, scaled * value, scaled), 1, add_three)
        else:
            squares, products = tl.reduce((value * value, scaled * value), 1, add_two)
        factor = 1 / tl.sqrt(squares * share + eps.to(COMPUTE))
        slope = tl.expand_dims(products * share * factor, 1)
        factor = tl.expand_dims(factor, 1)
        value = value * factor
        if bias_parts is not None:
            bias_sum += given
        if weight_parts is not None:
            weight_sum += given * value
        result = scaled - value * slope
        if KIND == "layer":
            result = result - tl.expand_dims(shift * share, 1)
        result = result * factor
        if total_grad is not None:
            result = result + read_row(total_grad, rs * total_stride + cs, mask, COMPUTE)
        tl.store(out + rs * columns + cs, result.to(out.dtype.element_ty), mask=mask)
    place = tl.program_id(0).to(tl.int64) * columns + c
    if weight_parts is not None:
        tl.store(weight_parts + place, tl.sum(weight_sum, 0), mask=c_mask)
    if bias_parts is not None:
        tl.store(bias_parts + place, tl.sum(bias_sum, 0), mask=c_mask)


@nereid.jit
def long_rows_gradient(out, weight_parts, bias_parts, grad, total_grad, x, weight, rows, columns, grad_stride, total_stride, x_stride, eps, offset, KIND: tl.constexpr,
                       COMPUTE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """The same for longer rows. The sums of a program stay in its row of the parts, and are read and written again at each of its rows. BM is 1."""
    share = 1 / columns.to(COMPUTE)
    added = offset.to(COMPUTE)
    blocks = tl.cdiv(columns, BN)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        x_row = x + row.to(tl.int64) * x_stride
        grad_row = grad + row.to(tl.int64) * grad_stride
        mean = tl.full((), 0, COMPUTE)
        if KIND == "layer":
            totals = tl.zeros((BN,), COMPUTE)
            for block in range(0, blocks):
                c = block * BN + tl.arange(0, BN)
                totals += read_row(x_row, c, c < columns, COMPUTE)
            mean = tl.sum(totals, 0) * share
        squares = tl.zeros((BN,), COMPUTE)
        products = tl.zeros((BN,), COMPUTE)
        given_sum = tl.zeros((BN,), COMPUTE)
        for block in range(0, blocks):
            c = block * BN + tl.arange(0, BN)
            mask = c < columns
            value = tl.where(mask, read_row(x_row, c, mask, COMPUTE) - mean, 0)
            given = read_row(grad_row, c, mask, COMPUTE)
            if weight is not None:
                given = given * (read_row(weight, c, mask, COMPUTE) + added)
            squares += value * value
            products += given * value
            given_sum += given
        factor = 1 / tl.sqrt(tl.sum(squares, 0) * share + eps.to(COMPUTE))
        slope = tl.sum(products, 0) * factor * share
        shift = tl.full((), 0, COMPUTE)
        if KIND == "layer":
            shift = tl.sum(given_sum, 0) * share
        for block in range(0, blocks):
            c = block * BN + tl.arange(0, BN)
            mask = c < columns
            value = (read_row(x_row, c, mask, COMPUTE) - mean) * factor
            given = read_row(grad_row, c, mask, COMPUTE)
            place = tl.program_id(0).to(tl.int64) * columns + c
            again = mask & (row >= tl.num_programs(0))
            if weight_parts is not None:
                tl.store(weight_parts + place, read_row(weight_parts, place, again, COMPUTE) + given * value, mask=mask)
            if bias_parts is not None:
                tl.store(bias_parts + place, read_row(bias_parts, place, again, COMPUTE) + given, mask=mask)
            if weight is not None:
                given = given * (read_row(weight, c, mask, COMPUTE) + added)
            result = (given - value * slope - shift) * factor
            if total_grad is not None:
                result = result + read_row(total_grad, row.to(tl.int64) * total_stride + c, mask, COMPUTE)
            tl.store(out + row.to(tl.int64) * columns + c, result.to(out.dtype.element_ty), mask=mask)
        tl.debug_barrier()


@nereid.jit
def add_rows(weight_out, bias_out, weight_parts, bias_parts, parts, columns, COMPUTE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """The sums of `parts` rows of partial sums. Grid: columns / BN, and 2 where there are both weight and bias: the programs of the second row of the grid sum the bias."""
    c = tl.program_id(0) * BN + tl.arange(0, BN)
    if weight_parts is not None and bias_parts is not None:
        if tl.program_id(1) == 0:
            add_column(weight_out, weight_parts, c, parts, columns, COMPUTE, BM, BN)
        else:
            add_column(bias_out, bias_parts, c, parts, columns, COMPUTE, BM, BN)
    elif weight_parts is not None:
        add_column(weight_out, weight_parts, c, parts, columns, COMPUTE, BM, BN)
    else:
        add_column(bias_out, bias_parts, c, parts, columns, COMPUTE, BM, BN)


@nereid.jit
def add_column(out, partial, c, parts, columns, COMPUTE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    total = tl.zeros((BM, BN), COMPUTE)
    for first in range(0, parts, BM):
        row = first + tl.arange(0, BM)
        mask = tl.expand_dims(row < parts, 1) & tl.expand_dims(c < columns, 0)
        total += tl.load(partial + (tl.expand_dims(row.to(tl.int64), 1) * columns + tl.expand_dims(c, 0)), mask=mask, other=0)
    tl.store(out + c, tl.sum(total, 0).to(out.dtype.element_ty), mask=c < columns)
