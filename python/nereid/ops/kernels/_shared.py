"""What the kernels of this folder share: places in strided tensors, combining of states, numbers that the host passes."""

import nereid
import nereid.language as tl


@nereid.constexpr_function
def lowest(dtype):
    """The least value of a dtype: -inf for floats."""
    if dtype.is_floating():
        return float("-inf")
    return 0 if dtype.is_int_unsigned() else -(1 << (dtype.primitive_bitwidth - 1))


@nereid.constexpr_function
def highest(dtype):
    """The greatest value of a dtype: inf for floats."""
    if dtype.is_floating():
        return float("inf")
    return (1 << (dtype.primitive_bitwidth - (0 if dtype.is_int_unsigned() else 1))) - 1


@nereid.jit
def step(stride, UNIT: tl.constexpr, WIDE: tl.constexpr):
    """A stride within a tile: 1 as a constant with UNIT, so that accesses are seen to be contiguous; 64 bits with WIDE, else 32."""
    if UNIT:
        return 1
    elif WIDE:
        return stride.to(tl.int64)
    else:
        return stride.to(tl.int32)


@nereid.jit
def offset_of(index, sizes, strides):
    """Where the element with the linear number `index` of dimensions `sizes` (outermost first) is, in elements, int64."""
    offset = tl.full((), 0, tl.int64)
    rest = tl.full((), 0, tl.int64) + index
    for i in tl.static_range(len(sizes)):
        d: tl.constexpr = len(sizes) - 1 - i
        offset += rest % sizes[d] * strides[d]
        rest = rest // sizes[d]
    return offset


@nereid.jit
def split_index(index, inner, HAS_OUTER: tl.constexpr):
    """(index // inner, index % inner); without a division where there are no outer dimensions."""
    if HAS_OUTER:
        return index // inner, index % inner
    else:
        return index * 0, index


@nereid.jit
def add(a, b):
    return a + b


@nereid.jit
def combine(COMBINE: tl.constexpr, a, b):
    """Two tuples of states into one. COMBINE takes the items of both, and returns a block, or a tuple for several states."""
    if len(a) == 1:
        return (COMBINE(a[0], b[0]),)
    else:
        return COMBINE(*a, *b)


@nereid.jit
def reduce_states(states, AXIS: tl.constexpr, COMBINE: tl.constexpr):
    if len(states) == 1:
        return (tl.reduce(states[0], AXIS, COMBINE),)
    else:
        return tl.reduce(states, AXIS, COMBINE)


@nereid.jit
def scan_states(states, AXIS: tl.constexpr, COMBINE: tl.constexpr):
    if len(states) == 1:
        return (tl.associative_scan(states[0], AXIS, COMBINE),)
    else:
        return tl.associative_scan(states, AXIS, COMBINE)


@nereid.jit
def filled(values, SHAPE: tl.constexpr):
    """A block of each value of a tuple of typed scalars."""
    blocks = ()
    for i in tl.static_range(len(values)):
        blocks = blocks + (tl.full(SHAPE, values[i], values[i].dtype),)
    return blocks


@nereid.jit
def masked(states, mask, identity):
    """The states, and those of the identity where the mask is false."""
    blocks = ()
    for i in tl.static_range(len(states)):
        blocks = blocks + (tl.where(mask, states[i].to(identity[i].dtype), identity[i]),)
    return blocks


@nereid.jit
def expanded(states, AXIS: tl.constexpr):
    blocks = ()
    for i in tl.static_range(len(states)):
        blocks = blocks + (tl.expand_dims(states[i], AXIS),)
    return blocks


@nereid.jit
def read(pointer, mask, READ: tl.constexpr):
    """Loads a block and converts it to the dtype READ unless that is None; 0 where the mask is false."""
    value = tl.load(pointer, mask=mask, other=0)
    if READ is None:
        return value
    else:
        return value.to(READ)


@nereid.jit
def load_tile(pointer, k, r, k_step, r_step, k_mask, r_mask, K_FIXED: tl.constexpr, R_FIXED: tl.constexpr, SHAPE: tl.constexpr):
    """A tile of elements in their own dtype, 0 where a mask is false.

    pointer: to the first one. k, r: places along the kept and the reduced dimension, blocks that broadcast to SHAPE, with their steps and masks. K_FIXED, R_FIXED:
    the step is 0: the elements are loaded once.
    """
    if K_FIXED and R_FIXED:
        value = tl.load(pointer)
    elif K_FIXED:
        value = tl.load(pointer + r * r_step, mask=r_mask, other=0)
    elif R_FIXED:
        value = tl.load(pointer + k * k_step, mask=k_mask, other=0)
    else:
        value = tl.load(pointer + k * k_step + r * r_step, mask=k_mask & r_mask, other=0)
    return tl.broadcast_to(value, SHAPE)


@nereid.jit
def write(pointer, value, mask):
    """Stores a value in the dtype of the memory; anything but 0 is True."""
    if pointer.dtype.element_ty.is_int1():
        tl.store(pointer, value != 0, mask=mask)
    else:
        tl.store(pointer, value.to(pointer.dtype.element_ty), mask=mask)
