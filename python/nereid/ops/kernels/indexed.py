"""Kernels that read or write where a tensor of indices says: the negative log likelihood, embeddings."""

import nereid
import nereid.language as tl


@nereid.jit
def nll(losses, weights, wrong, input, target, weight, outer, classes, inner, input_outer, input_class, input_inner, target_outer, target_inner, weight_stride,
        ignored, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """The loss of each target, -weight[t] * input[n, t, i], its weight, and whether t is no class.

    input: (outer, classes, inner) of any strides; target: (outer, inner), int64 or uint8; weight: (classes) or None. losses, weights, wrong: one after the other;
    the last two may be None. ignored: the target whose loss and weight are 0. Grid: outer * inner / BLOCK.
    """
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < outer * inner
    n = e // inner
    i = e - n * inner
    t = tl.load(target + n * target_outer + i * target_inner, mask=mask, other=0).to(tl.int64)
    counts = mask & (t != ignored)
    right = (t >= 0) & (t < classes)
    value = tl.load(input + n * input_outer + t * input_class + i * input_inner, mask=counts & right, other=0).to(COMPUTE)
    if weight is None:
        w = tl.full((BLOCK,), 1, COMPUTE)
    else:
        w = tl.load(weight + t * weight_stride, mask=counts & right, other=0).to(COMPUTE)
    loss = tl.where(counts, tl.where(right, -value * w, float("nan")), 0)
    tl.store(losses + e, loss.to(losses.dtype.element_ty), mask=mask)
    if weights is not None:
        tl.store(weights + e, tl.where(counts, w, 0).to(weights.dtype.element_ty), mask=mask)
    if wrong is not None:
        tl.store(wrong + e, tl.where(counts & (t < 0), 1, tl.where(counts & (t >= classes), 1, 0)).to(wrong.dtype.element_ty), mask=mask)


@nereid.jit
def nll_gradient(result, gradient, target, weight, total, outer, classes, inner, gradient_outer, gradient_inner, target_outer, target_inner, weight_stride,
                 ignored, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """Writes -weight[t] * gradient at the target's class of `result`, (outer, classes, inner), contiguous and full of zeros. total: a tensor of one number by which it
    is divided, or None. Grid: outer * inner / BLOCK."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = e < outer * inner
    n = e // inner
    i = e - n * inner
    t = tl.load(target + n * target_outer + i * target_inner, mask=mask, other=0).to(tl.int64)
    mask = mask & (t != ignored) & (t >= 0) & (t < classes)
    g = tl.load(gradient + n * gradient_outer + i * gradient_inner, mask=mask, other=0).to(COMPUTE)
    if total is not None:
        g = g / tl.load(total).to(COMPUTE)
    if weight is not None:
        g = g * tl.load(weight + t * weight_stride, mask=mask, other=0).to(COMPUTE)
    tl.store(result + n * classes * inner + t * inner + i, (-g).to(result.dtype.element_ty), mask=mask)


@nereid.jit
def embedding(result, table, indices, count, width, row_stride, column_stride, rows, UNIT: tl.constexpr, BN: tl.constexpr, BW: tl.constexpr):
    """result[p, :] = table[indices[p], :]; indices and result are contiguous. table: (rows, width); UNIT: its column stride is 1. Rows that do not exist are read as 0.

    Grid: (count / BN, width / BW).
    """
    p = tl.program_id(0).to(tl.int64) * BN + tl.arange(0, BN)
    first = tl.program_id(1).to(tl.int64) * BW
    c = tl.arange(0, BW)
    at = tl.load(indices + p, mask=p < count, other=0).to(tl.int64)
    exists = (p < count) & (at >= 0) & (at < rows)
    step = 1 if UNIT else column_stride
    inside = c < width - first
    values = tl.load(table + (at * row_stride)[:, None] + first * step + c[None, :] * step, mask=exists[:, None] & inside[None, :], other=0)
    tl.store(result + (p * width)[:, None] + first + c[None, :], values, mask=(p < count)[:, None] & inside[None, :])


@nereid.jit
def embedding_lines(result, table, indices, count, width, row_stride, column_stride, share, UNIT: tl.constexpr, BW: tl.constexpr):
    """`embedding` row by row, for CPUs, which copy rows faster than blocks of several; all indices exist. Grid: (count / share, width / BW)."""
    begin = tl.program_id(0).to(tl.int64) * share
    c = tl.program_id(1).to(tl.int64) * BW + tl.arange(0, BW)
    inside = c < width
    step = 1 if UNIT else column_stride
    for p in range(begin, tl.minimum(begin + share, count)):
        row = table + tl.load(indices + p).to(tl.int64) * row_stride
        tl.store(result + p * width + c, tl.load(row + c * step, mask=inside, other=0), mask=inside)


@nereid.jit
def embedding_gradient(result, gradient, indices, order, count, width, padding, BY_COUNT: tl.constexpr, COMPUTE: tl.constexpr, BR: tl.constexpr, BW: tl.constexpr):
    """Adds the rows of `gradient` that belong to one row of `result`, without atomics: BR rows, in the order of their places, and their sum to that of the rows before.

    indices: sorted, (count); order: where each was before, (count); gradient: (count, width), contiguous; result: contiguous and full of zeros. A program
    whose index is the first of its kind adds up all of that kind. padding: the row that stays 0. BY_COUNT: divide by how many there are.
    Grid: (count, width / BW).
    """
    p = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1).to(tl.int64) * BW + tl.arange(0, BW)
    mask = c < width
    row = tl.load(indices + p).to(tl.int64)
    before = tl.load(indices + tl.maximum(p - 1, 0)).to(tl.int64)
    if ((p == 0) | (before != row)) & (row != padding):
        total = tl.zeros((BW,), COMPUTE)
        place = p
        if BR == 1:
            current = row
            while current == row:
                total += tl.load(gradient + tl.load(order + place) * width + c, mask=mask, other=0).to(COMPUTE)
                place += 1
                current = tl.load(indices + tl.minimum(place, count - 1)).to(tl.int64)
                if place >= count:
                    current = row - 1
        else:
            found = tl.full((), BR, tl.int32)
            while found == BR:
                places = place + tl.arange(0, BR)
                same = tl.load(indices + places, mask=places < count, other=-1).to(tl.int64) == row
                sources = tl.load(order + places, mask=same, other=0) * width
                total += tl.sum(tl.load(gradient + sources[:, None] + c[None, :], mask=same[:, None] & mask[None, :], other=0).to(COMPUTE), 0)
                found = tl.sum(same.to(tl.int32), 0)
                place += found
        if BY_COUNT:
            total = total / (place - p).to(COMPUTE)
        tl.store(result + row * width + c, total.to(result.dtype.element_ty), mask=mask)
