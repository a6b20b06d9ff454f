"""Kernels of margin losses: of rows of scores against a class, or a list of classes, and their gradients. A program works on a row; targets are contiguous."""

import nereid
import nereid.language as tl


@nereid.jit
def hinge(z, P: tl.constexpr):
    """max(0, z) to the power P."""
    z = tl.where(z > 0, z, tl.where(z != z, z, 0.0))
    return z * z if P == 2 else z


@nereid.jit
def multi_margin(losses, x, target, weight, columns, row_stride, column_stride, weight_stride, margin, P: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """losses[row] = the mean over columns, that of the target left out, of max(0, margin - x[target] + x[column]) ** P, by the weight of the target. Grid: rows."""
    row = tl.program_id(0).to(tl.int64)
    wanted = tl.load(target + row)
    exists = (wanted >= 0) & (wanted < columns)
    start = x + row * row_stride
    base = margin.to(COMPUTE) - tl.load(start + wanted * column_stride, mask=exists, other=0).to(COMPUTE)
    total = tl.zeros((BLOCK,), COMPUTE)
    for first in range(0, columns, BLOCK):
        c = first + tl.arange(0, BLOCK)
        counts = (c < columns) & (c != wanted)
        z = base + tl.load(start + c * column_stride, mask=counts, other=0).to(COMPUTE)
        total += tl.where(counts, hinge(z, P), 0)
    loss = tl.sum(total, 0)
    if weight is not None:
        loss = loss * tl.load(weight + wanted * weight_stride, mask=exists, other=0).to(COMPUTE)
    tl.store(losses + row, loss / columns.to(COMPUTE))


@nereid.jit
def multi_margin_gradient(result, gradient, x, target, weight, columns, row_stride, column_stride, weight_stride, gradient_stride, share, margin, P: tl.constexpr,
                          COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """result: (rows, columns), contiguous; gradient: of losses, gradient_stride apart; share: a factor. Other arguments: see `multi_margin`."""
    row = tl.program_id(0).to(tl.int64)
    wanted = tl.load(target + row)
    exists = (wanted >= 0) & (wanted < columns)
    start = x + row * row_stride
    to = result + row * columns
    base = margin.to(COMPUTE) - tl.load(start + wanted * column_stride, mask=exists, other=0).to(COMPUTE)
    factor = tl.load(gradient + row * gradient_stride).to(COMPUTE) * share.to(COMPUTE)
    if weight is not None:
        factor = factor * tl.load(weight + wanted * weight_stride, mask=exists, other=0).to(COMPUTE)
    total = tl.zeros((BLOCK,), COMPUTE)
    for first in range(0, columns, BLOCK):
        c = first + tl.arange(0, BLOCK)
        counts = (c < columns) & (c != wanted)
        z = base + tl.load(start + c * column_stride, mask=counts, other=0).to(COMPUTE)
        slope = tl.where(counts & (z > 0), 2 * z if P == 2 else tl.full(z.shape, 1, COMPUTE), 0) * factor
        total += slope
        tl.store(to + c, slope.to(result.dtype.element_ty), mask=counts)
    tl.store(to + wanted, (-tl.sum(total, 0)).to(result.dtype.element_ty), mask=exists)


@nereid.jit
def target_at(target, k, columns):
    """The class at place `k` of a list that ends with a negative number, or with its `columns` places."""
    return tl.load(target + k, mask=k < columns, other=-1)


@nereid.jit
def multilabel_margin(losses, is_target, x, target, columns, row_stride, column_stride, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """losses[row] = the sum over classes of the list and columns not in it of max(0, 1 - x[class] + x[column]), by the number of columns. Grid: rows.

    is_target: (rows, columns), contiguous: 1 for columns in the list, else 0.
    """
    row = tl.program_id(0).to(tl.int64)
    start = x + row * row_stride
    its = target + row * columns
    total = tl.zeros((BLOCK,), COMPUTE)
    for first in range(0, columns, BLOCK):
        c = first + tl.arange(0, BLOCK)
        mask = c < columns
        listed = tl.zeros((BLOCK,), tl.int32)
        k = row * 0
        wanted = target_at(its, k, columns)
        while wanted >= 0:
            listed = tl.where(c == wanted, 1, listed)
            k += 1
            wanted = target_at(its, k, columns)
        tl.store(is_target + row * columns + c, listed.to(is_target.dtype.element_ty), mask=mask)
        value = tl.load(start + c * column_stride, mask=mask, other=0).to(COMPUTE)
        k = row * 0
        wanted = target_at(its, k, columns)
        while wanted >= 0:
            z = 1 - tl.load(start + wanted * column_stride, mask=wanted < columns, other=0).to(COMPUTE) + value
            total += tl.where(mask & (listed == 0), hinge(z, 1), 0)
            k += 1
            wanted = target_at(its, k, columns)
    tl.store(losses + row, tl.sum(total, 0) / columns.to(COMPUTE))


@nereid.jit
def multilabel_margin_gradient(result, gradient, is_target, x, target, columns, row_stride, column_stride, gradient_stride, share, COMPUTE: tl.constexpr,
                               BLOCK: tl.constexpr):
    """result, is_target: (rows, columns), contiguous; gradient: of losses, gradient_stride apart; share: a factor. Other arguments: see `multilabel_margin`."""
    row = tl.program_id(0).to(tl.int64)
    start = x + row * row_stride
    its = target + row * columns
    flags = is_target + row * columns
    factor = tl.load(gradient + row * gradient_stride).to(COMPUTE) * share.to(COMPUTE)
    for first in range(0, columns, BLOCK):
        c = first + tl.arange(0, BLOCK)
        mask = c < columns
        other = mask & (tl.load(flags + c, mask=mask, other=1) == 0)
        value = tl.load(start + c * column_stride, mask=mask, other=0).to(COMPUTE)
        total = tl.zeros((BLOCK,), COMPUTE)
        k = row * 0
        wanted = target_at(its, k, columns)
        while wanted >= 0:
            base = 1 - tl.load(start + wanted * column_stride, mask=wanted < columns, other=0).to(COMPUTE)
            total += tl.where(other & (base + value > 0), 1, 0).to(COMPUTE)
            if (wanted >= first) & (wanted < first + BLOCK):
                count = tl.zeros((BLOCK,), tl.int32)
                for begin in range(0, columns, BLOCK):
                    i = begin + tl.arange(0, BLOCK)
                    there = i < columns
                    its_value = tl.load(start + i * column_stride, mask=there, other=0).to(COMPUTE)
                    counts = there & (tl.load(flags + i, mask=there, other=1) == 0) & (base + its_value > 0)
                    count += tl.where(counts, 1, 0)
                total -= tl.where(c == wanted, tl.sum(count, 0), 0).to(COMPUTE)
            k += 1
            wanted = target_at(its, k, columns)
        tl.store(result + row * columns + c, (total * factor).to(result.dtype.element_ty), mask=mask)
