# Sorting networks.
#
# A stage turns sorted pieces of 2**(s-1) elements into sorted pieces of 2**s. Its first step compares every element with its
# mirror image in the piece, so that both halves are then bitonic and all comparisons of all stages go the same way: the
# element with the lower index gets the smaller value. An exchange with a partner at the distance of one XOR is the only
# communication. Elements are compared as integers, in which floats have a total order.


def _integers(width: constexpr):
    return int8 if width == 8 else int16 if width == 16 else int32 if width == 32 else int64


def _sort_keys(x):
    # Integers in the order of the elements; of 32 bits where narrower ones are compared no quicker.
    keys = _narrow_keys(x)
    if keys.dtype.primitive_bitwidth < 32 and not narrow_lanes():
        return keys.to(int32)
    else:
        return keys


def _narrow_keys(x):
    # NaN is greater than all numbers, whatever its sign; -0.0 is smaller than 0.0.
    dtype: constexpr = x.dtype
    width: constexpr = dtype.primitive_bitwidth
    if dtype.is_floating():
        number = x if width >= 32 else x.to(float32)
        greatest: constexpr = 2**(width - 1) - 1
        bits = x.to(_integers(width), bitcast=True)
        bits = where(number != number, bits & greatest, bits)
        return bits ^ ((bits >> (width - 1)) & greatest)
    elif dtype.is_int1():
        return x.to(int8)
    else:
        return x


def _sorted_elements(keys, dtype: constexpr):
    width: constexpr = dtype.primitive_bitwidth
    if dtype.is_floating():
        bits = keys.to(_integers(width))
        return (bits ^ ((bits >> (width - 1)) & (2**(width - 1) - 1))).to(dtype, bitcast=True)
    else:
        return keys.to(dtype)


def _compare_exchange(x, is_upper, mask: constexpr, axis: constexpr, descending: constexpr):
    partner = exchange(x, mask, axis)
    keep = (x > partner) if descending else (x < partner)
    return where(keep ^ is_upper, x, partner)


def _merge_steps(x, index, log: constexpr, axis: constexpr, descending: constexpr, turned):
    # Sorts bitonic pieces of 2**log elements; the other way round where `turned` (None: nowhere).
    for step in static_range(log):
        half: constexpr = 2**(log - 1 - step)
        is_upper = (index & half) != 0
        x = _compare_exchange(x, is_upper if turned is None else is_upper ^ turned, half, axis, descending)
    return x


def _sort_pieces(x, index, log: constexpr, axis: constexpr, descending: constexpr, turned):
    # Sorts pieces of 2**log elements; the other way round where `turned`.
    for stage in static_range(log):
        half: constexpr = 2**stage
        other = None if stage < log - 1 else turned
        is_upper = (index & half) != 0
        x = _compare_exchange(x, is_upper if other is None else is_upper ^ other, 2 * half - 1, axis, descending)
        x = _merge_steps(x, index, stage, axis, descending, other)
    return x


def _sort_axis(x, dim: constexpr, what: constexpr):
    rank: constexpr = len(x.shape)
    static_assert(rank > 0, what + " needs a block")
    axis: constexpr = rank - 1 if dim is None else dim if dim >= 0 else dim + rank
    static_assert(axis >= 0 and axis < rank, "invalid axis")
    static_assert(axis == rank - 1 or not strict(), "only minor dimension is currently supported")
    static_assert(x.shape[axis] & (x.shape[axis] - 1) == 0, what + " needs a dimension whose size is a power of 2")
    return axis


def _log_of(n: constexpr):
    return 0 if n <= 1 else 1 + _log_of(n // 2)


def sort(x, dim: constexpr = None, descending: constexpr = False):
    """The elements in order along a dimension. Equal elements may change places.

    NaN counts as greater than every number (its sign may be lost), -0.0 as smaller than 0.0.

    :param x: a block of numbers or bools.
    :param dim: the dimension, whose size is a power of 2; negative ones count from the end; None for the last.
    :param descending: the greatest element first.
    """
    axis: constexpr = _sort_axis(x, dim, "sort")
    index = _indices_along(x, axis)
    keys = _sort_pieces(_sort_keys(x), index, _log_of(x.shape[axis]), axis, descending, None)
    return _sorted_elements(keys, x.dtype)


def bitonic_merge(x, dim: constexpr = None, descending: constexpr = False):
    """Sorts along a dimension what first rises and then falls (or the reverse), as two sorted halves in opposite orders do.

    :param x: a block of numbers or bools; the order of NaN and -0.0 is that of `sort`.
    :param dim: the dimension, whose size is a power of 2; negative ones count from the end; None for the last.
    :param descending: the greatest element first.
    """
    axis: constexpr = _sort_axis(x, dim, "bitonic_merge")
    index = _indices_along(x, axis)
    keys = _merge_steps(_sort_keys(x), index, _log_of(x.shape[axis]), axis, descending, None)
    return _sorted_elements(keys, x.dtype)


def topk(x, k: constexpr, dim: constexpr = None, descending: constexpr = True):
    """The k greatest elements along a dimension, in descending order; with `descending=False` the k smallest, in ascending order.

    :param x: a block of numbers or bools; the order of NaN and -0.0 is that of `sort`.
    :param k: a power of 2, at most the size of the dimension.
    :param dim: the dimension, whose size is a power of 2; negative ones count from the end; None for the last.
    """
    axis: constexpr = _sort_axis(x, dim, "topk")
    size: constexpr = x.shape[axis]
    static_assert(k > 0 and k & (k - 1) == 0, "k must be a power of 2")
    static_assert(k <= size, "k must not be greater than the size of the dimension")
    log: constexpr = _log_of(k)
    index = _indices_along(x, axis)
    # Pieces of k in turning orders: of two neighbours, the greater (smaller) of equal places are the k greatest (smallest)
    # of both, and bitonic.
    keys = _sort_pieces(_sort_keys(x), index, log, axis, descending, None if size == k else (index & k) != 0)
    return _sorted_elements(_best_piece(keys, k, log, axis, descending), x.dtype)


def _best_piece(keys, k: constexpr, log: constexpr, axis: constexpr, descending: constexpr):
    size: constexpr = keys.shape[axis]
    if size == k:
        return keys
    else:
        before: constexpr = keys.shape[:axis]
        after: constexpr = keys.shape[axis + 1:]
        pairs = reshape(keys, before + (size // (2 * k), 2, k) + after)
        best = reduce(pairs, axis + 1, _larger if descending else _smaller)
        best = reshape(best, before + (size // 2,) + after)
        index = _indices_along(best, axis)
        turned = None if size == 2 * k else (index & k) != 0
        return _best_piece(_merge_steps(best, index, log, axis, descending, turned), k, log, axis, descending)
