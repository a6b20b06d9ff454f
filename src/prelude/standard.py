# Functions that need nothing but the others.


@aggregate
class constexpr_type:
    """What `.type` of a known value is: types of equal values are equal."""
    value: constexpr


def cdiv(x, div):
    """`x / div` rounded up, of integers: `(x + (div - 1)) // div`. Known numbers give a known number."""
    return add(x, sub(div, 1)) // div


def zeros_like(input):
    """Zeros of the input's shape and element type."""
    return zeros(input.shape, input.dtype)


def ravel(x, can_reorder: constexpr = False):
    """The elements in row-major order as a block of rank 1.

    :param can_reorder: the compiler may choose another order of the elements.
    """
    return reshape(x, [x.numel], can_reorder=can_reorder)


def squeeze(x, dim: constexpr):
    """Removes a dimension, which must have size 1."""
    static_assert(x.shape[dim] == 1, "squeeze needs a dimension of size 1")
    last: constexpr = dim if dim >= 0 else dim + len(x.shape)
    return reshape(x, x.shape[:last] + x.shape[last + 1:])


def unsqueeze(x, dim: constexpr):
    """Inserts a dimension of size 1; the same as `expand_dims`."""
    return expand_dims(x, dim)


def interleave(a, b):
    """Elements of `a` and `b` in turn along the last axis, which becomes twice as long. Scalars give shape `[2]`."""
    both = join(a, b)
    if len(both.shape) == 1:
        return both
    else:
        return reshape(both, both.shape[:-2] + (2 * both.shape[-2],))


def sigmoid(x):
    """`1 / (1 + exp(-x))`, element by element. fp32 or fp64."""
    return 1 / (1 + exp(-x))


def softmax(x, dim: constexpr = None, keep_dims: constexpr = None, ieee_rounding: constexpr = False):
    """`exp(x)` divided by its sum along an axis, computed without overflow. fp32 or fp64.

    :param dim: the axis; None means 0.
    :param keep_dims: accepted; the shape is always kept.
    :param ieee_rounding: divide with correct rounding.
    """
    axis: constexpr = 0 if dim is None else dim
    numerator = exp(x - max(x, axis, keep_dims=True))
    denominator = sum(numerator, axis, keep_dims=True)
    return fdiv(numerator, denominator, ieee_rounding)


def expect_zero(x, mask):
    """`x` itself. Its elements under the mask are expected to be zero, which debug mode asserts."""
    device_assert((x == 0) | (mask == 0), "expect_zero: an element under the mask is not zero")
    return x


def swizzle2d(i, j, size_i, size_j, size_g):
    """Reorders the positions of a row-major `size_i` x `size_j` grid so that groups of `size_g` rows are walked column by
    column. Returns the new pair (i, j)."""
    position = add(mul(i, size_j), j)
    group = position // (size_g * size_j)
    first = group * size_g
    rows = minimum(size_i - first, size_g)
    inside = position % (size_g * size_j)
    return first + inside % rows, inside // rows
