"""The kernels of optimizers: they update many tensors in one launch.

Tensors come as tuples of pointers. `firsts` says for each tensor the first program that works on it; a program finds its tensor by comparing its number with all of
them. Tuples are filled up with repetitions that get no program.
"""

import nereid
import nereid.language as tl


@nereid.jit
def chosen(items, firsts, program):
    """The item of the tensor that a program works on."""
    found = items[0]
    for i in tl.static_range(1, len(items)):
        found = tl.where(program >= firsts[i], items[i], found)
    return found


@nereid.jit
def aligned(pointer, ALIGNED: tl.constexpr):
    """A pointer; with ALIGNED the compiler is told that it is a multiple of 16 bytes."""
    if ALIGNED:
        return tl.multiple_of(pointer, 16)
    else:
        return pointer


@nereid.jit
def elements(pointer, left, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """A block of a tensor from `pointer`, a scalar, on. left: how many elements there are, or None: at least BLOCK."""
    # Places are made here, in each branch: blocks of pointers shared with a masked access are read element by element.
    place = tl.arange(0, BLOCK)
    if left is None:
        return tl.load(pointer + place).to(COMPUTE)
    else:
        return tl.load(pointer + place, mask=place < left, other=0).to(COMPUTE)


@nereid.jit
def put(pointer, value, left, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    if left is None:
        tl.store(pointer + place, value.to(pointer.dtype.element_ty))
    else:
        tl.store(pointer + place, value.to(pointer.dtype.element_ty), mask=place < left)


@nereid.jit
def adamw_block(param, grad, average_place, square_place, master, left, rate, correction, kept, beta1, beta2, eps, grad_scale, MAXIMIZE: tl.constexpr, COMPUTE: tl.constexpr,
                BLOCK: tl.constexpr):
    """A step for one block; the pointers are scalars. rate: lr by the correction of averages; correction: 1 by the root of that of squares; kept: 1 - lr * weight_decay."""
    g = elements(grad, left, COMPUTE, BLOCK)
    average = elements(average_place, left, COMPUTE, BLOCK)
    square = elements(square_place, left, COMPUTE, BLOCK)
    value = elements(param if master is None else master, left, COMPUTE, BLOCK)
    if grad_scale is not None:
        g = g / tl.load(grad_scale).to(COMPUTE)
    if MAXIMIZE:
        g = -g
    value = value * kept
    average = average + (1 - beta1).to(COMPUTE) * (g - average)
    square = beta2.to(COMPUTE) * square + (1 - beta2).to(COMPUTE) * g * g
    value = value - rate * average / (tl.sqrt(square) * correction + eps.to(COMPUTE))
    put(average_place, average, left, BLOCK)
    put(square_place, square, left, BLOCK)
    if master is not None:
        put(master, value, left, BLOCK)
    put(param, value, left, BLOCK)


@nereid.jit
def adamw(params, grads, averages, squares, masters, steps, firsts, sizes, lr, lr_tensor, beta1, beta2, log_beta1, log_beta2, eps, weight_decay, grad_scale, found_inf,
          MAXIMIZE: tl.constexpr, COMPUTE: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    """One step of AdamW (Loshchilov and Hutter 2019, "Decoupled weight decay regularization"). Grid: blocks of all tensors.

    masters: the parameters in COMPUTE, or None; steps: the numbers of steps taken before; log_beta1, log_beta2: logarithms of beta1 and beta2.
    lr_tensor, grad_scale, found_inf: pointers to a number, or None; with lr_tensor, `lr` is not used. Nothing is done where found_inf is not 0.
    ALIGNED: whether all tensors begin at multiples of 16 bytes.
    """
    program = tl.program_id(0)
    size = chosen(sizes, firsts, program)
    first = (program - chosen(firsts, firsts, program)).to(tl.int64) * BLOCK
    if found_inf is not None:
        size = tl.where(tl.load(found_inf) == 0, size, 0)
    if lr_tensor is not None:
        lr = tl.load(lr_tensor).to(tl.float64)
    step = tl.load(chosen(steps, firsts, program)).to(tl.float64) + 1
    rate = (lr / (1 - tl.exp(step * log_beta1))).to(COMPUTE)
    correction = (1 / tl.sqrt(1 - tl.exp(step * log_beta2))).to(COMPUTE)
    kept = (1 - lr * weight_decay).to(COMPUTE)
    param = aligned(chosen(params, firsts, program), ALIGNED) + first
    grad = aligned(chosen(grads, firsts, program), ALIGNED) + first
    average = aligned(chosen(averages, firsts, program), ALIGNED) + first
    square = aligned(chosen(squares, firsts, program), ALIGNED) + first
    master = None
    if masters is not None:
        master = aligned(chosen(masters, firsts, program), ALIGNED) + first
    if first + BLOCK <= size:
        adamw_block(param, grad, average, square, master, None, rate, correction, kept, beta1, beta2, eps, grad_scale, MAXIMIZE, COMPUTE, BLOCK)
    else:
        adamw_block(param, grad, average, square, master, size - first, rate, correction, kept, beta1, beta2, eps, grad_scale, MAXIMIZE, COMPUTE, BLOCK)


@nereid.jit
def count_steps(steps, found_inf):
    """Adds 1 to all numbers unless found_inf, a pointer to a number or None, is not 0. One program. Repeated pointers count once."""
    one = 1.0
    if found_inf is not None:
        one = tl.where(tl.load(found_inf) == 0, 1.0, 0.0)
    values = ()
    for i in tl.static_range(len(steps)):
        values = values + (tl.load(steps[i]),)
    for i in tl.static_range(len(steps)):
        tl.store(steps[i], (values[i] + one).to(steps[i].dtype.element_ty))


@nereid.jit
def power_sums(out, tensors, firsts, sizes, offset, ORD: tl.constexpr, COMPUTE: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr, BLOCKS: tl.constexpr):
    """out[offset + program]: of BLOCKS blocks of a tensor the sum of squares (ORD 2) or of magnitudes (1), or the greatest magnitude (0). Grid: parts of all tensors."""
    program = tl.program_id(0)
    first = (program - chosen(firsts, firsts, program)).to(tl.int64) * (BLOCK * BLOCKS)
    left = tl.minimum(chosen(sizes, firsts, program) - first, BLOCK * BLOCKS).to(tl.int32)
    whole = left // BLOCK * BLOCK
    tensor = aligned(chosen(tensors, firsts, program), ALIGNED) + first
    total = tl.zeros((BLOCK,), COMPUTE)
    for start in range(0, whole, BLOCK):
        x = tl.load(tensor + (start + tl.arange(0, BLOCK))).to(COMPUTE)
        total = joined(total, x * x if ORD == 2 else tl.abs(x), ORD)
    for start in range(whole, left, BLOCK):
        place = start + tl.arange(0, BLOCK)
        x = tl.load(tensor + place, mask=place < left, other=0).to(COMPUTE)
        total = joined(total, x * x if ORD == 2 else tl.abs(x), ORD)
    tl.store(out + offset + program, reduced(total, ORD))


@nereid.jit
def joined(a, b, ORD: tl.constexpr):
    if ORD == 0:
        return tl.where((a != a) | (a > b), a, b)  # not-a-number stays
    else:
        return a + b


@nereid.jit
def reduced(x, ORD: tl.constexpr):
    if ORD == 0:
        broken = tl.max(tl.where(x != x, 1, 0), 0)
        return tl.where(broken > 0, float("nan"), tl.max(tl.where(x != x, 0.0, x), 0))
    else:
        return tl.sum(x, 0)


@nereid.jit
def norm_of_parts(out, parts, count, ORD: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """The norm from the results of `power_sums`. One program."""
    total = tl.zeros((BLOCK,), COMPUTE)
    for first in range(0, count, BLOCK):
        place = first + tl.arange(0, BLOCK)
        total = joined(total, tl.load(parts + place, mask=place < count, other=0), ORD)
    norm = reduced(total, ORD)
    if ORD == 2:
        norm = tl.sqrt(norm)
    tl.store(out, norm)


@nereid.jit
def scale_down(tensors, firsts, sizes, norm, most, COMPUTE: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    """Multiplies all tensors by most / (norm + 1e-6) where that is below 1. norm: a pointer. Grid: blocks of all tensors."""
    program = tl.program_id(0)
    factor = most.to(COMPUTE) / (tl.load(norm).to(COMPUTE) + 1e-6)
    factor = tl.where(factor > 1, 1.0, factor).to(COMPUTE)
    size = tl.where(factor == 1, 0, chosen(sizes, firsts, program))
    first = (program - chosen(firsts, firsts, program)).to(tl.int64) * BLOCK
    pointer = aligned(chosen(tensors, firsts, program), ALIGNED) + first
    if first + BLOCK <= size:
        put(pointer, elements(pointer, None, COMPUTE, BLOCK) * factor, None, BLOCK)
    else:
        put(pointer, elements(pointer, size - first, COMPUTE, BLOCK) * factor, size - first, BLOCK)
