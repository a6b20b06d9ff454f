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
def offset(n, c, d, h, w, strides):
    return n * strides[0] + c * strides[1] + d * strides[2] + h * strides[3] + w * strides[4]
