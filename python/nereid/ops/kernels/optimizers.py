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
def unscaled(grad, left, grad_scale, KEPT: tl.constexpr, MAXIMIZE: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """A block of a gradient by the scale, with KEPT written back, and with the other sign where the function is maximized. grad_scale: a pointer to a number, or None."""
    g = elements(grad, left, COMPUTE, BLOCK)
    if grad_scale is not None:
        g = g / tl.load(grad_scale).to(COMPUTE)
        if KEPT:
            put(grad, g, left, BLOCK)
    if MAXIMIZE:
        g = -g
    return g


@nereid.jit
def rate_of(lr, lr_tensor):
    """The learning rate in fp64: of memory where there is a pointer."""
    if lr_tensor is not None:
        return tl.load(lr_tensor).to(tl.float64)
    else:
        return lr


@nereid.jit
def size_of(sizes, firsts, program, found_inf):
    """The size of the tensor that a program works on; 0 where found_inf, a pointer to a number or None, is not 0."""
    size = chosen(sizes, firsts, program)
    if found_inf is not None:
        size = tl.where(tl.load(found_inf) == 0, size, 0)
    return size


@nereid.jit
def adam_block(param, grad, average, square, greatest, master, left, decay, rate, correction, beta1, beta2, eps, grad_scale, DECOUPLED: tl.constexpr,
               MAXIMIZE: tl.constexpr, KEPT: tl.constexpr, COMPUTE: tl.constexpr, BLOCK: tl.constexpr):
    """A step for one block; the pointers are scalars, those of `greatest` and `master` may be None.

    decay: the weight decay, with DECOUPLED times the learning rate. rate: the learning rate by the correction of averages; correction: the root of that of squares.
    """
    g = unscaled(grad, left, grad_scale, KEPT, MAXIMIZE, COMPUTE, BLOCK)
    value = elements(param if master is None else master, left, COMPUTE, BLOCK)
    if DECOUPLED:
        value = value - decay * value
    else:
        g = g + decay * value
    m = elements(average, left, COMPUTE, BLOCK)
    v = elements(square, left, COMPUTE, BLOCK)
    m = m + (1 - beta1).to(COMPUTE) * (g - m)
    v = v + (1 - beta2).to(COMPUTE) * (g * g - v)
    put(average, m, left, BLOCK)
    put(square, v, left, BLOCK)
    if greatest is not None:
        top = elements(greatest, left, COMPUTE, BLOCK)
        v = tl.where(top < v, v, top)
        put(greatest, v, left, BLOCK)
    value = value - rate * m / (tl.sqrt(v) / correction + eps.to(COMPUTE))
    if master is not None:
        put(master, value, left, BLOCK)
    put(param, value, left, BLOCK)


@nereid.jit
def adam(params, grads, averages, squares, greatest, masters, steps, firsts, sizes, lr, lr_tensor, beta1, beta2, log_beta1, log_beta2, eps, decay, grad_scale, found_inf,
         DECOUPLED: tl.constexpr, MAXIMIZE: tl.constexpr, COUNTED: tl.constexpr, COMPUTE: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    """One step of Adam (Kingma and Ba 2015), with DECOUPLED of AdamW (Loshchilov and Hutter 2019). Grid: blocks of all tensors.

    greatest: the largest averages of squares so far (AMSGrad), or None. masters: the parameters in COMPUTE, or None. steps: pointers to the numbers of steps.
    log_beta1, log_beta2: logarithms of beta1 and beta2. lr_tensor, grad_scale, found_inf: pointers to a number, or None; with lr_tensor, `lr` is not used. Nothing is done
    where found_inf is not 0.
    COUNTED: as ATen's optimizers have it: steps count this one, and gradients are written back without their scale. ALIGNED: all tensors begin at multiples of 16 bytes.
    """
    program = tl.program_id(0)
    size = size_of(sizes, firsts, program, found_inf)
    first = (program - chosen(firsts, firsts, program)).to(tl.int64) * BLOCK
    rate = rate_of(lr, lr_tensor)
    step = tl.load(chosen(steps, firsts, program)).to(tl.float64)
    if not COUNTED:
        step += 1
    scaled = (rate / (1 - tl.exp(step * log_beta1))).to(COMPUTE)
    correction = tl.sqrt(1 - tl.exp(step * log_beta2)).to(COMPUTE)
    less = (rate * decay if DECOUPLED else decay).to(COMPUTE)
    param = aligned(chosen(params, firsts, program), ALIGNED) + first
    grad = aligned(chosen(grads, firsts, program), ALIGNED) + first
    average = aligned(chosen(averages, firsts, program), ALIGNED) + first
    square = aligned(chosen(squares, firsts, program), ALIGNED) + first
    top = None
    if greatest is not None:
        top = aligned(chosen(greatest, firsts, program), ALIGNED) + first
    master = None
    if masters is not None:
        master = aligned(chosen(masters, firsts, program), ALIGNED) + first
    if first + BLOCK <= size:
        adam_block(param, grad, average, square, top, master, None, less, scaled, correction, beta1, beta2, eps, grad_scale, DECOUPLED, MAXIMIZE, COUNTED, COMPUTE, BLOCK)
    else:
        adam_block(param, grad, average, square, top, master, size - first, less, scaled, correction, beta1, beta2, eps, grad_scale, DECOUPLED, MAXIMIZE, COUNTED, COMPUTE,
                   BLOCK)


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
    """out[offset + program]: of BLOCKS blocks of a tensor the sum of squares (ORD 2) or of magnitudes (1), the greatest magnitude (0) or the greatest element (-1).
    Grid: parts of all tensors."""
    program = tl.program_id(0)
    first = (program - chosen(firsts, firsts, program)).to(tl.int64) * (BLOCK * BLOCKS)
    left = tl.minimum(chosen(sizes, firsts, program) - first, BLOCK * BLOCKS).to(tl.int32)
    whole = left // BLOCK * BLOCK
    tensor = aligned(chosen(tensors, firsts, program), ALIGNED) + first
    total = tl.full((BLOCK,), nothing(ORD), COMPUTE)
    for start in range(0, whole, BLOCK):
        x = tl.load(tensor + (start + tl.arange(0, BLOCK))).to(COMPUTE)
        total = joined(total, term(x, ORD), ORD)
    for start in range(whole, left, BLOCK):
        place = start + tl.arange(0, BLOCK)
        x = tl.load(tensor + place, mask=place < left, other=nothing(ORD)).to(COMPUTE)
        total = joined(total, term(x, ORD), ORD)
    tl.store(out + offset + program, reduced(total, ORD))


@nereid.constexpr_function
def nothing(order):
    """What changes no norm, or no maximum."""
    return float("-inf") if order == -1 else 0.0


@nereid.jit
def term(x, ORD: tl.constexpr):
    if ORD == 2:
        return x * x
    elif ORD == -1:
        return x
    else:
        return tl.abs(x)


@nereid.jit
def joined(a, b, ORD: tl.constexpr):
    if ORD <= 0:
        return tl.where((a != a) | (a > b), a, b)  # not-a-number stays
    else:
        return a + b


@nereid.jit
def reduced(x, ORD: tl.constexpr):
    if ORD <= 0:
        broken = tl.max(tl.where(x != x, 1, 0), 0)
        return tl.where(broken > 0, float("nan"), tl.max(tl.where(x != x, nothing(ORD), x), 0))
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
