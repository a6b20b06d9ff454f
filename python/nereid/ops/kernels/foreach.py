"""Kernels of operators on lists of tensors: a scalar function applied to all of them, norms, and the steps of optimizers, each in few launches.

Tensors come as tuples of pointers, filled up to one of few lengths, with `firsts` and `sizes`: see optimizers.py.
"""

import nereid
import nereid.language as tl

from .optimizers import aligned, chosen, elements, joined, nothing, put, rate_of, reduced, size_of, unscaled
from .pointwise import called, result


@nereid.jit
def item_of(items, firsts, program, EACH: tl.constexpr, ALIGNED: tl.constexpr):
    """The input for one tensor: with EACH its item of a tuple of pointers or numbers, else the input of all tensors."""
    if not EACH:
        return items
    else:
        item = chosen(items, firsts, program)
        if item.dtype.is_ptr():
            return aligned(item, ALIGNED)
        else:
            return item


@nereid.jit
def mapped_block(fn: tl.constexpr, out, ins, scalars, first, left, COMMON: tl.constexpr, COMPUTE: tl.constexpr, NARROW: tl.constexpr, ONE: tl.constexpr, BLOCK: tl.constexpr):
    """One block of a tensor. left: how many elements there are, or None: at least BLOCK."""
    place = tl.arange(0, BLOCK)
    mask = None
    if left is not None:
        mask = place < left
    loaded = ()
    for i in tl.static_range(len(ins)):
        if not ins[i].dtype.is_ptr():
            loaded = loaded + (ins[i],)
        elif (ONE >> i) & 1:
            loaded = loaded + (tl.load(ins[i]),)
        else:
            loaded = loaded + (tl.load(ins[i] + first + place, mask=mask),)
    found = called(fn, ins, loaded, scalars, COMMON, COMPUTE, 0, NARROW)
    tl.store(out + first + place, result(found, out, COMMON), mask=mask)


@nereid.jit
def mapped(fn: tl.constexpr, outs, ins, scalars, firsts, sizes, COMMON: tl.constexpr, COMPUTE: tl.constexpr, NARROW: tl.constexpr, EACH: tl.constexpr, ONE: tl.constexpr,
           ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    """outs[t] = fn(its inputs, scalars) for every tensor t. Grid: blocks of all tensors.

    ins      for each input a tuple with a pointer or a number for each tensor (its bit of EACH is set), or a number, or a pointer to one element (ONE) for all of them
    ALIGNED  whether all tensors begin at multiples of 16 bytes
    fn, scalars, COMMON, COMPUTE, NARROW: as in pointwise.py
    """
    program = tl.program_id(0)
    size = chosen(sizes, firsts, program)
    first = (program - chosen(firsts, firsts, program)).to(tl.int64) * BLOCK
    out = aligned(chosen(outs, firsts, program), ALIGNED)
    its = ()
    for i in tl.static_range(len(ins)):
        its = its + (item_of(ins[i], firsts, program, (EACH >> i) & 1 == 1, ALIGNED),)
    if first + BLOCK <= size:
        mapped_block(fn, out, its, scalars, first, None, COMMON, COMPUTE, NARROW, ONE, BLOCK)
    else:
        mapped_block(fn, out, its, scalars, first, (size - first).to(tl.int32), COMMON, COMPUTE, NARROW, ONE, BLOCK)


@nereid.jit
def norms_of_parts(out, parts, begins, offset, ORD: tl.constexpr, ROOT: tl.constexpr, BLOCK: tl.constexpr):
    """out[offset + t]: the norm (without ROOT the sum of powers, with ORD -1 the greatest element) of tensor t, whose parts of `power_sums` are parts[begins[t]:begins[t + 1]]. Grid: tensors."""
    tensor = tl.program_id(0)
    first = begins[0]
    end = begins[1]
    for i in tl.static_range(1, len(begins) - 1):
        first = tl.where(tensor >= i, begins[i], first)
        end = tl.where(tensor >= i, begins[i + 1], end)
    total = tl.full((BLOCK,), nothing(ORD), parts.dtype.element_ty)
    for start in range(first, end, BLOCK):
        place = start + tl.arange(0, BLOCK)
        total = joined(total, tl.load(parts + place, mask=place < end, other=nothing(ORD)), ORD)
    norm = reduced(total, ORD)
    if ORD == 2 and ROOT:
        norm = tl.sqrt(norm)
    tl.store(out + offset + tensor, norm.to(out.dtype.element_ty))


@nereid.jit
def sgd_block(param, grad, buffer, left, rate, decay, momentum, dampening, grad_scale, NESTEROV: tl.constexpr, MAXIMIZE: tl.constexpr, FIRST: tl.constexpr,
              COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    g = unscaled(grad, left, grad_scale, True, MAXIMIZE, COMPUTE, BLOCK)
    value = elements(param, left, COMPUTE, BLOCK)
    g = g + decay.to(COMPUTE) * value
    if buffer is not None:
        moved = g
        if not FIRST:
            moved = momentum.to(COMPUTE) * elements(buffer, left, COMPUTE, BLOCK) + (1 - dampening).to(COMPUTE) * g
        put(buffer, moved, left, BLOCK)
        if NESTEROV:
            g = g + momentum.to(COMPUTE) * moved
        else:
            g = moved
    put(param, value - rate * g, left, BLOCK)


@nereid.jit
def sgd(params, grads, buffers, firsts, sizes, lr, lr_tensor, decay, momentum, dampening, grad_scale, found_inf, NESTEROV: tl.constexpr, MAXIMIZE: tl.constexpr,
        FIRST: tl.constexpr, COMPUTE: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    """One step of gradient descent with momentum. buffers: of momentum, or None; FIRST: they hold nothing yet. Everything else: as for `adam`."""
    program = tl.program_id(0)
    size = size_of(sizes, firsts, program, found_inf)
    first = (program - chosen(firsts, firsts, program)).to(tl.int64) * BLOCK
    rate = rate_of(lr, lr_tensor).to(COMPUTE)
    param = aligned(chosen(params, firsts, program), ALIGNED) + first
    grad = aligned(chosen(grads, firsts, program), ALIGNED) + first
    buffer = None
    if buffers is not None:
        buffer = aligned(chosen(buffers, firsts, program), ALIGNED) + first
    if first + BLOCK <= size:
        sgd_block(param, grad, buffer, None, rate, decay, momentum, dampening, grad_scale, NESTEROV, MAXIMIZE, FIRST, COMPUTE, BLOCK)
    else:
        sgd_block(param, grad, buffer, size - first, rate, decay, momentum, dampening, grad_scale, NESTEROV, MAXIMIZE, FIRST, COMPUTE, BLOCK)


@nereid.jit
def adagrad_block(param, grad, total, left, rate, decay, eps, grad_scale, MAXIMIZE: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    g = unscaled(grad, left, grad_scale, True, MAXIMIZE, COMPUTE, BLOCK)
    value = elements(param, left, COMPUTE, BLOCK)
    g = g + decay.to(COMPUTE) * value
    squares = elements(total, left, COMPUTE, BLOCK) + g * g
    put(total, squares, left, BLOCK)
    put(param, value - rate * g / (tl.sqrt(squares) + eps.to(COMPUTE)), left, BLOCK)


@nereid.jit
def adagrad(params, grads, totals, steps, firsts, sizes, lr, lr_tensor, lr_decay, decay, eps, grad_scale, found_inf, MAXIMIZE: tl.constexpr, COMPUTE: tl.constexpr,
            ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    """One step of Adagrad (Duchi, Hazan and Singer 2011). totals: sums of squares. Everything else: as for `adam`."""
    program = tl.program_id(0)
    size = size_of(sizes, firsts, program, found_inf)
    first = (program - chosen(firsts, firsts, program)).to(tl.int64) * BLOCK
    step = tl.load(chosen(steps, firsts, program)).to(tl.float64)
    rate = (rate_of(lr, lr_tensor) / (1 + (step - 1) * lr_decay)).to(COMPUTE)
    param = aligned(chosen(params, firsts, program), ALIGNED) + first
    grad = aligned(chosen(grads, firsts, program), ALIGNED) + first
    total = aligned(chosen(totals, firsts, program), ALIGNED) + first
    if first + BLOCK <= size:
        adagrad_block(param, grad, total, None, rate, decay, eps, grad_scale, MAXIMIZE, COMPUTE, BLOCK)
    else:
        adagrad_block(param, grad, total, size - first, rate, decay, eps, grad_scale, MAXIMIZE, COMPUTE, BLOCK)


@nereid.jit
def unscale_block(tensor, left, scale, found_inf, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    x = elements(tensor, left, COMPUTE, BLOCK)
    broken = tl.max(tl.where(tl.abs(x) <= 3.4028234663852886e38 if COMPUTE == tl.float32 else tl.abs(x) <= 1.7976931348623157e308, 0, 1), 0)
    tl.store(found_inf, 1.0, mask=broken > 0)  # all programs that write, write 1
    put(tensor, x * scale, left, BLOCK)


@nereid.jit
def unscale(tensors, firsts, sizes, inverse, found_inf, COMPUTE: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    """Multiplies all tensors by the number at `inverse`; found_inf becomes 1 where an element is infinite or not-a-number. Grid: blocks of all tensors."""
    program = tl.program_id(0)
    size = chosen(sizes, firsts, program)
    first = (program - chosen(firsts, firsts, program)).to(tl.int64) * BLOCK
    scale = tl.load(inverse).to(COMPUTE)
    tensor = aligned(chosen(tensors, firsts, program), ALIGNED) + first
    if first + BLOCK <= size:
        unscale_block(tensor, None, scale, found_inf, COMPUTE, BLOCK)
    else:
        unscale_block(tensor, size - first, scale, found_inf, COMPUTE, BLOCK)


@nereid.jit
def update_scale(scale, tracker, found_inf, growth, backoff, interval):
    """The scale of gradients after a step: times `backoff` where found_inf is not 0; times `growth` after `interval` steps without, unless that is infinite. One program.

    scale, tracker, found_inf: pointers to a number; the tracker counts steps.
    """
    broken = tl.load(found_inf) != 0
    current = tl.load(scale)
    steps = tl.load(tracker) + 1
    grown = (current.to(tl.float64) * growth).to(tl.float32)
    less = (current.to(tl.float64) * backoff).to(tl.float32)
    grows = steps == interval
    finite = tl.abs(grown) <= 3.4028234663852886e38
    tl.store(scale, tl.where(broken, less, tl.where(grows & finite, grown, current)))
    tl.store(tracker, tl.where(broken | grows, 0, steps).to(tracker.dtype.element_ty))
