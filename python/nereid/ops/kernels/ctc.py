"""Kernels of connectionist temporal classification (Graves et al. 2006): forward and backward variables in logarithms, a program for each sequence.

A sequence of `length` labels has 2 * length + 1 states: a blank before, between and behind the labels. States of a step are one block; the block of the step before is read
two places further by `tl.gather`.
"""

import nereid
import nereid.language as tl


@nereid.jit
def labels_of(targets, state, stride, states, blank, classes):
    """(class of each state, whether that exists, whether the state is a label unlike the label before, and unlike the label behind)."""
    label = (state & 1) == 1
    inside = state < states
    its = tl.load(targets + (state >> 1).to(tl.int64) * stride, mask=label & inside, other=blank).to(tl.int64)
    before = tl.load(targets + ((state >> 1) - 1).to(tl.int64) * stride, mask=label & inside & (state > 1), other=blank).to(tl.int64)
    behind = tl.load(targets + ((state >> 1) + 1).to(tl.int64) * stride, mask=label & (state + 2 < states), other=blank).to(tl.int64)
    exists = inside & (its >= 0) & (its < classes)
    return its, exists, label & inside & (state > 1) & (before != its), label & (state + 2 < states) & (behind != its)


@nereid.jit
def joined(a, b, c):
    """log(exp(a) + exp(b) + exp(c))."""
    most = tl.maximum(tl.maximum(a, b), c)
    most = tl.where(most == float("-inf"), 0.0, most).to(a.dtype)
    return tl.log(tl.exp(a - most) + tl.exp(b - most) + tl.exp(c - most)) + most


@nereid.jit
def moved(x, state, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """The element STEPS places further, -inf beyond the ends."""
    at = state + STEPS
    inside = (at >= 0) & (at < BLOCK)
    return tl.where(inside, tl.gather(x, tl.where(inside, at, 0), 0), float("-inf"))


@nereid.jit
def forward(losses, alphas, probabilities, targets, starts, input_lengths, target_lengths, strides, target_stride, time, width, classes, blank, BLOCK: tl.constexpr):
    """Losses, and the logarithms of forward variables, (sequences, time, width). Grid: sequences.

    probabilities: logarithms, (time, sequences, classes) of these strides; starts: where the labels of each sequence begin in `targets`; width: states of the longest.
    """
    b = tl.program_id(0).to(tl.int64)
    steps = tl.load(input_lengths + b)
    length = tl.load(target_lengths + b)
    states = 2 * length + 1
    state = tl.arange(0, BLOCK)
    its, exists, skips, _ = labels_of(targets + tl.load(starts + b), state, target_stride, states, blank, classes)
    place = probabilities + b * strides[1] + its * strides[2]
    to = alphas + b * time * width + state
    nothing = float("-inf")
    alpha = tl.where(exists & (state < 2), tl.load(place, mask=exists & (state < 2) & (steps > 0), other=nothing), nothing)
    tl.store(to, alpha, mask=(state < width) & (steps > 0))
    for t in range(1, steps):
        own = tl.load(place + t * strides[0], mask=exists, other=nothing)
        skipped = tl.where(skips, moved(alpha, state, -2, BLOCK), nothing)
        alpha = tl.where(exists, joined(alpha, moved(alpha, state, -1, BLOCK), skipped) + own, nothing)
        tl.store(to + t * width, alpha, mask=state < width)
    last = tl.where((state == states - 1) | (state == states - 2), alpha, nothing)
    most = tl.max(last, 0)
    safe = tl.where(most == nothing, 0.0, most)
    loss = -(tl.log(tl.sum(tl.exp(last - safe), 0)) + safe)
    empty = tl.where(length == 0, 0.0, float("inf"))
    tl.store(losses + b, tl.where(steps > 0, loss, empty).to(losses.dtype.element_ty))


@nereid.jit
def weight_of(loss, gradient, b, gradient_stride, ZERO: tl.constexpr):
    """The gradient of a loss; with ZERO none where the loss is infinite."""
    g = tl.load(gradient + b * gradient_stride)
    if ZERO:
        g = tl.where(loss == float("inf"), 0.0, g)
    return g


@nereid.jit
def gradient_start(result, gradient, losses, probabilities, input_lengths, strides, result_strides, gradient_stride, time, count, classes, ZERO: tl.constexpr,
                   BLOCK: tl.constexpr):
    """result = exp(probabilities) by the gradient of the loss, 0 behind the ends of sequences; without ZERO not-a-number where the loss is infinite. Grid: (blocks of classes,
    sequences, time)."""
    c = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    b = tl.program_id(1).to(tl.int64)
    t = tl.program_id(2).to(tl.int64)
    loss = tl.load(losses + b)
    g = weight_of(loss, gradient, b, gradient_stride, ZERO)
    mask = c < classes
    x = tl.load(probabilities + t * strides[0] + b * strides[1] + c * strides[2], mask=mask, other=0)
    counts = t < tl.load(input_lengths + b)
    value = tl.exp(x) * g
    if ZERO:
        counts = counts & (loss != float("inf"))
    else:
        value = tl.where(loss == float("inf"), float("nan"), value)
    tl.store(result + t * result_strides[0] + b * result_strides[1] + c * result_strides[2], tl.where(counts, value, 0.0).to(x.dtype), mask=mask)


@nereid.jit
def backward(result, gradient, losses, alphas, probabilities, targets, starts, input_lengths, target_lengths, strides, result_strides, alpha_strides, gradient_stride,
             target_stride, classes, blank, ZERO: tl.constexpr, BLOCK: tl.constexpr):
    """Subtracts from what `gradient_start` wrote the probabilities of states, by the gradient of the loss. Blanks are summed up, labels are added atomically. Grid: sequences."""
    b = tl.program_id(0).to(tl.int64)
    steps = tl.load(input_lengths + b)
    states = 2 * tl.load(target_lengths + b) + 1
    loss = tl.load(losses + b)
    g = weight_of(loss, gradient, b, gradient_stride, ZERO)
    if ZERO:
        steps = tl.where(loss == float("inf"), 0, steps)
    state = tl.arange(0, BLOCK)
    its, exists, _, skips = labels_of(targets + tl.load(starts + b), state, target_stride, states, blank, classes)
    place = probabilities + b * strides[1] + its * strides[2]
    from_alpha = alphas + b * alpha_strides[0] + state * alpha_strides[2]
    to = result + b * result_strides[1]
    nothing = float("-inf")
    label = (state & 1) == 1
    beta = tl.full((BLOCK,), nothing, probabilities.dtype.element_ty)
    for back in range(0, steps):
        t = steps - 1 - back
        own = tl.load(place + t * strides[0], mask=exists, other=nothing)
        skipped = tl.where(skips, moved(beta, state, 2, BLOCK), nothing)
        further = joined(beta, moved(beta, state, 1, BLOCK), skipped)
        start = tl.where((state == states - 1) | (state == states - 2), 0.0, nothing)
        beta = tl.where(exists, tl.where(back == 0, start, further) + own, nothing)
        alpha = tl.load(from_alpha + t * alpha_strides[1], mask=exists, other=nothing)
        share = tl.where(exists & (alpha + beta > nothing), tl.exp(alpha + beta + loss - own), 0.0) * -g
        row = to + t * result_strides[0]
        tl.atomic_add(row + its * result_strides[2], share.to(beta.dtype), mask=exists & label, sem="relaxed")
        tl.atomic_add(row + blank * result_strides[2], tl.sum(tl.where(label, 0.0, share), 0).to(beta.dtype), sem="relaxed")
