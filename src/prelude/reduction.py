# Reductions and scans with a name, on top of `reduce` and `associative_scan`.
#
# The function of two scalars in front of each is its combiner. Indices travel beside the values as a second operand, so that
# the first (or, with tie breaking off, any) of equal values is found in every order of combination: `reduce_any_order`.


# Sums and products that do not fit their type are the author's: `add` and `mul` are checked with `debug`, operators here are not.
def _add(a, b):
    return add(a, b)


def _multiply(a, b):
    return mul(a, b)


def _xor(a, b):
    return a ^ b


def _or(a, b):
    return a | b


def _larger(a, b):
    return maximum(a, b)


def _smaller(a, b):
    return minimum(a, b)


def _larger_with_index(a, i, b, j):
    keep = (a > b) | ((a == b) & (i < j))
    if a.dtype.is_floating():
        keep = keep | (b != b)  # NaN loses against numbers
    return where(keep, a, b), where(keep, i, j)


def _smaller_with_index(a, i, b, j):
    keep = (a < b) | ((a == b) & (i < j))
    if a.dtype.is_floating():
        keep = keep | (b != b)
    return where(keep, a, b), where(keep, i, j)


def _larger_with_any_index(a, i, b, j):
    keep = a >= b
    if a.dtype.is_floating():
        keep = keep | (b != b)
    return where(keep, a, b), where(keep, i, j)


def _smaller_with_any_index(a, i, b, j):
    keep = a <= b
    if a.dtype.is_floating():
        keep = keep | (b != b)
    return where(keep, a, b), where(keep, i, j)


def _indices_along(input, axis: constexpr):
    # int32, of the input's shape: every element's position along the axis.
    rank: constexpr = len(input.shape)
    last: constexpr = axis if axis >= 0 else axis + rank
    static_assert(last >= 0 and last < rank, "invalid axis")
    index = arange(0, input.shape[last])
    for before in static_range(last):
        index = expand_dims(index, 0)
    for after in static_range(rank - 1 - last):
        index = expand_dims(index, len(index.shape))
    return broadcast_to(index, input.shape)


def _with_indices(input, axis: constexpr, keep_dims: constexpr, combine: constexpr):
    if axis is None:
        _check_flat_indices()
        flat = reshape(input, [input.numel])
        value, index = reduce_any_order((flat, arange(0, input.numel)), 0, combine)
        if keep_dims:
            value = reshape(value, [1] * len(input.shape))
            index = reshape(index, [1] * len(input.shape))
        return value, index
    else:
        return reduce_any_order((input, _indices_along(input, axis)), axis, combine, keep_dims=keep_dims)


def _widened(input):
    # The type in which an extremum is computed: bf16 and narrower as fp32, narrow integers as int32.
    if input.dtype.is_floating():
        if input.dtype.primitive_bitwidth < 32:
            return input.to(float32)
        else:
            return input
    elif input.dtype.primitive_bitwidth < 32:
        return input.to(int32)
    else:
        return input


def _comparable(input):
    # The type in which extrema with indices are computed: bf16 as fp32 before 3.9.
    if input.dtype == bfloat16 and triton_version() < 309:
        return input.to(float32)
    else:
        return input


def max(input, axis: constexpr = None, return_indices: constexpr = False,
        return_indices_tie_break_left: constexpr = True, keep_dims: constexpr = False):
    """The largest element along an axis. NaN is ignored unless there is nothing else.

    :param input: a block of any type. fp16, bf16 and integers narrower than 32 bits give fp32 or int32 (without indices).
    :param axis: the axis, negative ones count from the end; None for all elements.
    :param return_indices: return a pair of the values and their int32 positions along the axis.
    :param return_indices_tie_break_left: of equal values take the first; otherwise any of them.
    :param keep_dims: keep the axis with size 1.
    """
    if return_indices:
        values = _comparable(input)
        if return_indices_tie_break_left:
            return _with_indices(values, axis, keep_dims, _larger_with_index)
        else:
            return _with_indices(values, axis, keep_dims, _larger_with_any_index)
    else:
        return reduce(_widened(input), axis, _larger, keep_dims=keep_dims)


def min(input, axis: constexpr = None, return_indices: constexpr = False,
        return_indices_tie_break_left: constexpr = True, keep_dims: constexpr = False):
    """The smallest element along an axis. NaN is ignored unless there is nothing else.

    :param input: a block of any type. fp16, bf16 and integers narrower than 32 bits give fp32 or int32 (without indices).
    :param axis: the axis, negative ones count from the end; None for all elements.
    :param return_indices: return a pair of the values and their int32 positions along the axis.
    :param return_indices_tie_break_left: of equal values take the first; otherwise any of them.
    :param keep_dims: keep the axis with size 1.
    """
    if return_indices:
        values = _comparable(input)
        if return_indices_tie_break_left:
            return _with_indices(values, axis, keep_dims, _smaller_with_index)
        else:
            return _with_indices(values, axis, keep_dims, _smaller_with_any_index)
    else:
        return reduce(_widened(input), axis, _smaller, keep_dims=keep_dims)


def argmax(input, axis: constexpr, tie_break_left: constexpr = True, keep_dims: constexpr = False):
    """The int32 position of the largest element along an axis. NaN is ignored unless there is nothing else.

    :param axis: the axis, negative ones count from the end; None for all elements in row-major order.
    :param tie_break_left: of equal values take the first; otherwise any of them.
    :param keep_dims: keep the axis with size 1.
    """
    values, indices = max(input, axis, return_indices=True, return_indices_tie_break_left=tie_break_left,
                          keep_dims=keep_dims)
    return indices


def argmin(input, axis: constexpr, tie_break_left: constexpr = True, keep_dims: constexpr = False):
    """The int32 position of the smallest element along an axis. NaN is ignored unless there is nothing else.

    :param axis: the axis, negative ones count from the end; None for all elements in row-major order.
    :param tie_break_left: of equal values take the first; otherwise any of them.
    :param keep_dims: keep the axis with size 1.
    """
    values, indices = min(input, axis, return_indices=True, return_indices_tie_break_left=tie_break_left,
                          keep_dims=keep_dims)
    return indices


def _sum_input(input, dtype: constexpr):
    if dtype is not None:
        return input.to(dtype)
    elif input.dtype.is_int() and input.dtype.primitive_bitwidth < 32:
        return input.to(int32 if input.dtype.is_int_signed() else uint32)
    else:
        return input


def sum(input, axis: constexpr = None, keep_dims: constexpr = False, dtype: constexpr = None):
    """The sum of the elements along an axis.

    :param input: a block of numbers. Integers narrower than 32 bits are added as int32 or uint32; floats keep their type.
    :param axis: the axis, negative ones count from the end; None for all elements.
    :param keep_dims: keep the axis with size 1.
    :param dtype: convert the elements to this type first.
    """
    return reduce(_sum_input(input, dtype), axis, _add, keep_dims=keep_dims)


def xor_sum(input, axis: constexpr = None, keep_dims: constexpr = False):
    """The exclusive or of the elements along an axis. Integers only; their type is kept.

    :param axis: the axis, negative ones count from the end; None for all elements.
    :param keep_dims: keep the axis with size 1.
    """
    static_assert(input.dtype.is_int(), "xor_sum only supported for integers")
    return reduce(input, axis, _xor, keep_dims=keep_dims)


def reduce_or(input, axis: constexpr, keep_dims: constexpr = False):
    """The bitwise or of the elements along an axis. Integers only; their type is kept.

    :param axis: the axis, negative ones count from the end; None for all elements.
    :param keep_dims: keep the axis with size 1.
    """
    static_assert(input.dtype.is_int(), "reduce_or only supported for integers")
    return reduce(input, axis, _or, keep_dims=keep_dims)


def _scan_input(input):
    # bf16 is scanned as fp32 before 3.9.
    if input.dtype == bfloat16 and triton_version() < 309:
        return input.to(float32)
    else:
        return input


def cumsum(input, axis: constexpr = 0, reverse: constexpr = False, dtype: constexpr = None):
    """The running sums along an axis.

    :param input: a block of numbers. Integers narrower than 32 bits are added as int32 or uint32; bf16 as fp32, since Triton 3.9 as bf16.
    :param axis: the axis, negative ones count from the end.
    :param reverse: add from the end.
    :param dtype: convert the elements to this type first.
    """
    return associative_scan(_scan_input(_sum_input(input, dtype)), axis, _add, reverse)


def cumprod(input, axis: constexpr = 0, reverse: constexpr = False, dtype: constexpr = None):
    """The running products along an axis.

    :param input: a block of numbers. bf16 is multiplied as fp32 and other types are kept; since Triton 3.9 integers narrower than 32 bits are
     multiplied as int32 or uint32, and floats keep their type.
    :param axis: the axis, negative ones count from the end.
    :param reverse: multiply from the end.
    :param dtype: convert the elements to this type first. Since Triton 3.9.
    """
    if dtype is None and triton_version() < 309:
        return associative_scan(_scan_input(input), axis, _multiply, reverse)
    else:
        return associative_scan(_sum_input(input, dtype), axis, _multiply, reverse)
