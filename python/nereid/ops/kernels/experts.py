"""The steps of a mixture of experts around its products (Shazeer et al. 2017, "Outrageously large neural networks"): which experts a token goes to, tokens in the order of
their experts, and the way back.

A *pair* is a token and one of its `count` experts; pair p belongs to token p // count. There are no atomics: every result is the same each time.
"""

import nereid
import nereid.language as tl

from ..functions import activation
from ._shared import lowest, step
from .sorting import key_of

#: Added to sums that scores are divided by: sigmoids may all be 0.
TINY = tl.constexpr(1e-30)


@nereid.jit
def scores_of(x, SIGMOID: tl.constexpr):
    """Of logits: with SIGMOID of each alone, else the softmax along the last dimension."""
    if SIGMOID:
        return 1 / (1 + tl.exp(-x))
    else:
        e = tl.exp(x - tl.max(x, 1)[:, None])
        return e / tl.sum(e, 1)[:, None]


@nereid.jit
def chosen_scores(picked, there, SIGMOID: tl.constexpr):
    """The scores of the chosen logits, up to a factor that normalising them to a sum of 1 takes out. there: a mask, broadcast."""
    if SIGMOID:
        return tl.where(there, 1 / (1 + tl.exp(-picked)), 0)
    else:
        highest = tl.max(tl.where(there, picked, float("-inf")), 1)
        return tl.where(there, tl.exp(picked - highest[:, None]), 0)


@nereid.jit
def choose_experts(weights, experts, logits, bias, tokens, size, count, scale, strides, bias_stride, SIGMOID: tl.constexpr, NORMALISE: tl.constexpr, UNIT: tl.constexpr,
                   COMPUTE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, COUNT: tl.constexpr):
    """The `count` experts with the highest logits of each token, the first ones among equals, highest first; with `bias` those with the highest scores + bias.

    weights           (tokens, count), contiguous: scale * scores, divided by their sum with NORMALISE; experts likewise, their numbers
    logits            (tokens, size); strides: its strides; UNIT: whether that along a row is 1; bias: (size,) or None
    ROWS              tokens of a program; BLOCK, COUNT: powers of 2, at least `size` and `count`. Grid: tokens / ROWS
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, BLOCK)[None, :]
    place = logits + row.to(tl.int64)[:, None] * strides[0]
    row_mask = (row < tokens)[:, None]
    there = row_mask & (lane < size)
    x = tl.load(place + lane * step(strides[1], UNIT, True), mask=there, other=float("-inf")).to(COMPUTE)
    order = x
    if bias is not None or not NORMALISE:
        scores = scores_of(x, SIGMOID)
        if bias is not None:
            order = scores + tl.load(bias + lane.to(tl.int64) * bias_stride, mask=lane < size, other=0).to(COMPUTE)
    key = key_of(order, False)
    LOWEST: tl.constexpr = lowest(key.dtype)
    key = tl.where(there, key, LOWEST)
    j = tl.arange(0, COUNT)[None, :]
    found = tl.zeros((ROWS, COUNT), tl.int32)
    value = tl.zeros((ROWS, COUNT), COMPUTE)
    for n in range(0, count):
        best, index = tl.max(key, 1, return_indices=True, return_indices_tie_break_left=True)
        key = tl.where(lane == index[:, None], LOWEST, key)
        found = tl.where(j == n, index[:, None], found)
        if NORMALISE:
            value = tl.where(j == n, tl.load(place + index.to(tl.int64)[:, None] * strides[1], mask=row_mask, other=0).to(COMPUTE), value)
        else:
            value = tl.where(j == n, tl.sum(tl.where(lane == index[:, None], scores, 0), 1)[:, None], value)
    inside = j < count
    if NORMALISE:
        value = chosen_scores(value, inside, SIGMOID)
        value = value / (tl.sum(value, 1)[:, None] + TINY)
    value = value * scale.to(COMPUTE)
    to = row.to(tl.int64)[:, None] * count + j
    tl.store(weights + to, value.to(weights.dtype.element_ty), mask=row_mask & inside)
    tl.store(experts + to, found.to(experts.dtype.element_ty), mask=row_mask & inside)


@nereid.jit
def choose_experts_gradient(out, grad, logits, experts, tokens, size, count, scale, grad_strides, strides, SIGMOID: tl.constexpr, NORMALISE: tl.constexpr,
                            UNIT: tl.constexpr, COMPUTE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, COUNT: tl.constexpr):
    """The gradient of `logits` (tokens, size), contiguous, from that of the weights, `grad` (tokens, count); experts: contiguous. Others as for `choose_experts`."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    wide = row.to(tl.int64)[:, None]
    lane = tl.arange(0, BLOCK)[None, :]
    j = tl.arange(0, COUNT)[None, :]
    row_mask = (row < tokens)[:, None]
    there = row_mask & (lane < size)
    inside = row_mask & (j < count)
    place = logits + wide * strides[0]
    expert = tl.load(experts + wide * count + j, mask=inside, other=-1)
    g = tl.load(grad + wide * grad_strides[0] + j.to(tl.int64) * grad_strides[1], mask=inside, other=0).to(COMPUTE) * scale.to(COMPUTE)
    picked = tl.load(place + expert.to(tl.int64) * strides[1], mask=inside, other=0).to(COMPUTE)
    if NORMALISE:
        score = chosen_scores(picked, inside, SIGMOID)
        share = score / (tl.sum(score, 1)[:, None] + TINY)
        change = g - tl.sum(g * share, 1)[:, None]
        of_choice = change * share
        if SIGMOID:
            of_choice = of_choice * (1 - score)
        total = tl.zeros((ROWS, BLOCK), COMPUTE)
    elif SIGMOID:
        score = 1 / (1 + tl.exp(-picked))
        of_choice = g * score * (1 - score)
        total = tl.zeros((ROWS, BLOCK), COMPUTE)
    else:
        x = tl.load(place + lane * step(strides[1], UNIT, True), mask=there, other=float("-inf")).to(COMPUTE)
        high = tl.max(x, 1)[:, None]
        e = tl.exp(x - high)
        whole = tl.sum(e, 1)[:, None]
        of_choice = g * tl.where(inside, tl.exp(picked - high) / whole, 0)
        total = -tl.sum(of_choice, 1)[:, None] * (e / whole)
    for n in range(0, count):
        here = j == n
        index = tl.sum(tl.where(here, expert, 0), 1)[:, None]
        total += tl.where(lane == index, tl.sum(tl.where(here, of_choice, 0), 1)[:, None], 0)
    tl.store(out + wide * size + lane, total.to(out.dtype.element_ty), mask=there)


@nereid.jit
def experts_of(experts, pair, end, size):
    """(the experts of a block of pairs, a mask). Pairs from `end` on, and numbers outside of the experts, are masked off."""
    expert = tl.load(experts + pair, mask=pair < end, other=-1)
    return expert.to(tl.int32), (pair < end) & (expert >= 0) & (expert < size)


@nereid.jit
def count_experts(counts, experts, pairs, size, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    """counts[chunk, expert]: how many of the chunk's pairs go to the expert; (chunks, size), contiguous. Grid: chunks of CHUNK pairs."""
    chunk = tl.program_id(0)
    expert, real = experts_of(experts, chunk * CHUNK + tl.arange(0, CHUNK), pairs, size)
    lane = tl.arange(0, BLOCK)
    tl.store(counts + chunk.to(tl.int64) * size + lane, tl.histogram(expert, BLOCK, mask=real), mask=lane < size)


@nereid.jit
def place_pairs(rows, ends, places, block_experts, experts, counts, pairs, size, chunks, bound, blocks, unit, CHUNK: tl.constexpr, SUB: tl.constexpr, COUNTED: tl.constexpr,
                BLOCK: tl.constexpr):
    """Puts pairs in the order of their experts, the groups of experts padded to multiples of `unit`. Grid: chunks of CHUNK pairs, a multiple of SUB.

    rows              (bound,): the pair at each place, `pairs` where there is none
    ends              (size,): where the rows of each expert end, with padding
    places            (pairs,): the place of each pair, -1 for a pair without an expert
    block_experts     (blocks,), blocks of `unit` places: their experts, -1 behind the last one
    counts            of `count_experts`, or None: then every program counts all pairs, COUNTED at once
    """
    chunk = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    begin = chunk * CHUNK
    end = tl.minimum(begin + CHUNK, pairs)
    before = tl.zeros((BLOCK, ), tl.int32)
    total = tl.zeros((BLOCK, ), tl.int32)
    if counts is None:
        for first in range(0, pairs, COUNTED):
            pair = first + tl.arange(0, COUNTED)
            expert, real = experts_of(experts, pair, pairs, size)
            total += tl.histogram(expert, BLOCK, mask=real)
            before += tl.histogram(expert, BLOCK, mask=real & (pair < begin))
    else:
        i = tl.arange(0, SUB)
        for first in range(0, chunks, SUB):
            found = tl.load(counts + (first + i).to(tl.int64)[:, None] * size + lane[None, :], mask=(first + i < chunks)[:, None] & (lane < size)[None, :], other=0)
            total += tl.sum(found, 0)
            before += tl.sum(tl.where((first + i < chunk)[:, None], found, 0), 0)
    padded = (total + (unit - 1)) // unit * unit
    group_end = tl.cumsum(padded, 0)
    start = group_end - padded
    if chunk == 0:
        tl.store(ends + lane, group_end, mask=lane < size)
    following = start + before
    for first in range(begin, end, SUB):
        pair = first + tl.arange(0, SUB)
        expert, real = experts_of(experts, pair, end, size)
        own = ((expert[:, None] == lane[None, :]) & real[:, None]).to(tl.int32)
        place = tl.sum(tl.where(own != 0, following[None, :] + tl.cumsum(own, 0), 0), 1) - 1
        tl.store(places + pair, place, mask=pair < end)
        tl.store(rows + place, pair, mask=(pair < end) & (place >= 0))
        following += tl.sum(own, 0)
    # The remaining work is divided among all chunks: the padding of groups, places behind all groups, the experts of blocks.
    for first in range(chunk * SUB, unit - 1, chunks * SUB):
        place = (start + total)[:, None] + (first + tl.arange(0, SUB))[None, :]
        tl.store(rows + place, tl.zeros((BLOCK, SUB), tl.int32) + pairs, mask=place < group_end[:, None])
    for first in range(tl.sum(padded, 0) + chunk * COUNTED, bound, chunks * COUNTED):
        place = first + tl.arange(0, COUNTED)
        tl.store(rows + place, tl.zeros((COUNTED, ), tl.int32) + pairs, mask=place < bound)
    for first in range(chunk * SUB, blocks, chunks * SUB):
        block = first + tl.arange(0, SUB)
        expert = tl.sum(((group_end[None, :] <= (block * unit)[:, None]) & (lane < size)[None, :]).to(tl.int32), 1)
        tl.store(block_experts + block, tl.where(expert < size, expert, -1), mask=block < blocks)


@nereid.jit
def combine_pairs(out, x, places, weights, n_size, count, x_strides, weight_strides, UNIT: tl.constexpr, ALIGNED: tl.constexpr, MULTIPLE: tl.constexpr, COMPUTE: tl.constexpr,
                  BLOCK: tl.constexpr):
    """out[t, n] = sum over the pairs p of token t of weights[p] * x[places[p], n], in the order of pairs. Grid: (tokens, blocks of n).

    out: (tokens, n_size), places: (tokens, count), contiguous; a place of -1 counts 0. weights: (tokens, count) or None for 1. UNIT: whether x's stride along n is 1;
    ALIGNED: whether its other stride and n_size are multiples of MULTIPLE.
    """
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    known = tl.multiple_of(n_size, MULTIPLE) if ALIGNED else n_size
    row_stride = tl.multiple_of(x_strides[0], MULTIPLE) if ALIGNED else x_strides[0]
    mask = column < known
    total = tl.zeros((BLOCK, ), COMPUTE)
    for j in range(0, count):
        place = tl.load(places + token * count + j)
        value = tl.load(x + place.to(tl.int64) * row_stride + column * step(x_strides[1], UNIT, True), mask=mask & (place >= 0), other=0).to(COMPUTE)
        if weights is not None:
            # A pair without an expert counts 0, whatever its weight is.
            value = value * tl.load(weights + token * weight_strides[0] + j * weight_strides[1], mask=place >= 0, other=0).to(COMPUTE)
        total += value
    tl.store(out + token * known + column, total.to(out.dtype.element_ty), mask=mask)


@nereid.jit
def combine_pairs_gradient(out, weight_grad, grad, x, rows, places, weights, pairs, n_size, count, grad_strides, x_strides, weight_strides, COMPUTE: tl.constexpr,
                           BLOCK: tl.constexpr):
    """Gradients of `combine_pairs`. Grid: a program for each row of `x`, and for each pair.

    out               None, or (rows of x, n_size), contiguous: the gradient of `x`
    weight_grad       None, or (pairs,): the gradient of the weights
    rows, places      of `place_pairs`; not fewer rows than pairs
    """
    row = tl.program_id(0).to(tl.int64)
    pair = tl.load(rows + row)
    real = pair < pairs
    token = (pair // count).to(tl.int64)
    weight = tl.load(weights + token * weight_strides[0] + (pair % count) * weight_strides[1], mask=real, other=0).to(COMPUTE) if weights is not None else 1.0
    total = tl.zeros((BLOCK, ), COMPUTE)
    for first in range(0, n_size, BLOCK):
        column = first + tl.arange(0, BLOCK)
        mask = column < n_size
        g = tl.load(grad + token * grad_strides[0] + column.to(tl.int64) * grad_strides[1], mask=mask & real, other=0).to(COMPUTE)
        if out is not None:
            tl.store(out + row * n_size + column, (g * weight).to(out.dtype.element_ty), mask=mask)
        if weight_grad is not None:
            total += g * tl.load(x + row * x_strides[0] + column.to(tl.int64) * x_strides[1], mask=mask & real, other=0).to(COMPUTE)
    if weight_grad is not None:
        tl.store(weight_grad + pair, tl.sum(total, 0).to(weight_grad.dtype.element_ty), mask=real)
        # Pairs without an expert have no row.
        if row < pairs:
            lost = tl.load(places + row) < 0
            tl.store(weight_grad + row, tl.zeros((), COMPUTE).to(weight_grad.dtype.element_ty), mask=lost)


@nereid.jit
def routed_swiglu_gradient(hidden, halves, weight_grad, grad, gate, up, rows, places, weights, pairs, n_size, count, weight_strides, ALIGNED: tl.constexpr, MULTIPLE: tl.constexpr,
                           COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """Backward pass between the two products of routed experts. Grid: a program for each pair.

    hidden            (pairs, n): weight * silu(gate) * up; halves: (pairs, 2 n): the gradients of gate and of up, side by side; weight_grad: (pairs,)
    grad              (pairs, n): the gradient of silu(gate) * up before the weight; gate, up: (pairs, n). All are in the order of experts but `weight_grad` and `weights`
    rows, places      of `place_pairs`. Everything is contiguous but `weights` (tokens, count)
    """
    row = tl.program_id(0).to(tl.int64)
    known = tl.multiple_of(n_size, MULTIPLE) if ALIGNED else n_size
    pair = tl.load(rows + row)
    real = pair < pairs
    weight = tl.load(weights + (pair // count).to(tl.int64) * weight_strides[0] + (pair % count) * weight_strides[1], mask=real, other=0).to(COMPUTE)
    NARROW: tl.constexpr = grad.dtype.element_ty.primitive_bitwidth == 16
    total = tl.zeros((BLOCK, ), COMPUTE)
    for first in range(0, known, BLOCK):
        column = first + tl.arange(0, BLOCK)
        mask = (column < known) & real
        place = row * known + column
        g = tl.load(grad + place, mask=mask, other=0).to(COMPUTE)
        a = tl.load(gate + place, mask=mask, other=0).to(COMPUTE)
        b = tl.load(up + place, mask=mask, other=0).to(COMPUTE)
        opened = activation.silu(a, NARROW)
        total += g * opened * b
        tl.store(hidden + place, (weight * opened * b).to(hidden.dtype.element_ty), mask=mask)
        to = row * (2 * known) + column
        tl.store(halves + to, activation.silu_backward(weight * g * b, a, NARROW).to(halves.dtype.element_ty), mask=mask)
        tl.store(halves + to + known, (weight * g * opened).to(halves.dtype.element_ty), mask=mask)
    tl.store(weight_grad + pair, tl.sum(total, 0).to(weight_grad.dtype.element_ty), mask=real)
    lost = tl.load(places + row) < 0
    tl.store(weight_grad + row, tl.zeros((), COMPUTE).to(weight_grad.dtype.element_ty), mask=lost)
