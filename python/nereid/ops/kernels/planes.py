"""Places in tensors (n, c, d, h, w) of any strides: what kernels of pooling, interpolation, padding and patches share.

Sizes, strides and numbers of windows come as tuples. An item is None where a tensor has fewer dimensions: planes have no depth, lines have neither depth nor height.
`known` puts constants there, which the compiler folds away.
"""

import nereid
import nereid.language as tl


@nereid.jit
def known(items, absent: tl.constexpr):
    """A tuple with `absent` in place of None."""
    found = ()
    for i in tl.static_range(len(items)):
        found = found + (absent if items[i] is None else items[i],)
    return found


@nereid.jit
def numbers(numel, BLOCK: tl.constexpr):
    """The numbers of the elements of a program's block, as wide as `numel`: GPUs divide 32 bits much faster than 64."""
    if numel.dtype == tl.int32:
        return tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    else:
        return tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)


@nereid.jit
def place_in(e, sizes):
    """(n, c, d, h, w) of the element number `e` of (N, C, D, H, W)."""
    w = e % sizes[4]
    e = e // sizes[4]
    h = e % sizes[3]
    e = e // sizes[3]
    d = e % sizes[2]
    e = e // sizes[2]
    return e // sizes[1], e % sizes[1], d, h, w


@nereid.jit
def next_line(n, c, d, h, sizes):
    """(n, c, d, h) of the line after the one at (n, c, d, h) of (N, C, D, H, W), without a division."""
    h += 1
    over = h == sizes[3]
    h = tl.where(over, 0, h)
    d += over.to(d.dtype)
    over = d == sizes[2]
    d = tl.where(over, 0, d)
    c += over.to(c.dtype)
    over = c == sizes[1]
    return n + over.to(n.dtype), tl.where(over, 0, c), d, h


@nereid.jit
def located(sizes, numel, LANES: tl.constexpr, BLOCK: tl.constexpr):
    """(n, c, d, h, w, which of them exist) of the elements of (N, C, D, H, W) that a program computes.

    LANES: None for BLOCK neighbours in the order of numbers; "last" for the same of (N, D, H, W, C). 4 or 1 for BLOCK neighbours along w or c: only that place is a block, the others are scalars, so that there are
    divisions for each program instead of each element. CPUs have no vectors of divisions. Grid: all elements / BLOCK, or all lines of the lanes' dimension, each
    cut into blocks.
    """
    if LANES is None:
        e = numbers(numel, BLOCK)
        n, c, d, h, w = place_in(e, sizes)
        return n, c, d, h, w, e < numel
    elif LANES == "last":
        e = numbers(numel, BLOCK)
        n, d, h, w, c = place_in(e, (sizes[0], sizes[2], sizes[3], sizes[4], sizes[1]))
        return n, c, d, h, w, e < numel
    else:
        program = tl.program_id(0).to(numel.dtype)
        tiles = (sizes[LANES] + BLOCK - 1) // BLOCK
        lane = program % tiles * BLOCK + tl.arange(0, BLOCK)
        if LANES == 4:
            n, c, d, h, _ = place_in(program // tiles, (sizes[0], sizes[1], sizes[2], sizes[3], 1))
            return n, c, d, h, lane, lane < sizes[4]
        else:
            n, _, d, h, w = place_in(program // tiles, (sizes[0], 1, sizes[2], sizes[3], sizes[4]))
            return n, lane, d, h, w, lane < sizes[1]


@nereid.jit
def offset(n, c, d, h, w, strides):
    return n * strides[0] + c * strides[1] + d * strides[2] + h * strides[3] + w * strides[4]
