"""Functions of reductions: how elements become states, how states combine, what they finish as (nereid.ops.kernels.reduction says what each is given)."""

import nereid
import nereid.language as tl
from nereid.language.extra import libdevice

from ..kernels._shared import add, highest, lowest
from .arithmetic import divide

# Identities


@nereid.jit
def zero(COMPUTE: tl.constexpr, INDEX: tl.constexpr):
    return (tl.full((), 0, COMPUTE),)


@nereid.jit
def one(COMPUTE: tl.constexpr, INDEX: tl.constexpr):
    return (tl.full((), 1, COMPUTE),)


@nereid.jit
def least(COMPUTE: tl.constexpr, INDEX: tl.constexpr):
    return (tl.full((), lowest(COMPUTE), COMPUTE),)


@nereid.jit
def greatest(COMPUTE: tl.constexpr, INDEX: tl.constexpr):
    return (tl.full((), highest(COMPUTE), COMPUTE),)


@nereid.jit
def greatest_and_least(COMPUTE: tl.constexpr, INDEX: tl.constexpr):
    return (tl.full((), highest(COMPUTE), COMPUTE), tl.full((), lowest(COMPUTE), COMPUTE))


@nereid.jit
def least_nowhere(COMPUTE: tl.constexpr, INDEX: tl.constexpr):
    return (tl.full((), lowest(COMPUTE), COMPUTE), tl.full((), highest(INDEX), INDEX))


@nereid.jit
def greatest_nowhere(COMPUTE: tl.constexpr, INDEX: tl.constexpr):
    return (tl.full((), highest(COMPUTE), COMPUTE), tl.full((), highest(INDEX), INDEX))


@nereid.jit
def false(COMPUTE: tl.constexpr, INDEX: tl.constexpr):
    return (tl.full((), 0, tl.int8),)


@nereid.jit
def true(COMPUTE: tl.constexpr, INDEX: tl.constexpr):
    return (tl.full((), 1, tl.int8),)


@nereid.jit
def no_count(COMPUTE: tl.constexpr, INDEX: tl.constexpr):
    return (tl.full((), 0, tl.int64),)


@nereid.jit
def no_moments(COMPUTE: tl.constexpr, INDEX: tl.constexpr):
    return (tl.full((), 0, COMPUTE), tl.full((), 0, COMPUTE), tl.full((), 0, COMPUTE))


@nereid.jit
def no_exponentials(COMPUTE: tl.constexpr, INDEX: tl.constexpr):
    return (tl.full((), float("-inf"), COMPUTE), tl.full((), 0, COMPUTE))


@nereid.jit
def least_before(COMPUTE: tl.constexpr, INDEX: tl.constexpr):
    return (tl.full((), lowest(COMPUTE), COMPUTE), tl.full((), -1, INDEX))


@nereid.jit
def greatest_before(COMPUTE: tl.constexpr, INDEX: tl.constexpr):
    return (tl.full((), highest(COMPUTE), COMPUTE), tl.full((), -1, INDEX))


# Combining


@nereid.jit
def multiply(a, b):
    return a * b


@nereid.jit
def maximum(a, b):
    """NaN if one is."""
    if a.dtype.is_floating():
        return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    else:
        return tl.maximum(a, b)


@nereid.jit
def minimum(a, b):
    if a.dtype.is_floating():
        return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
    else:
        return tl.minimum(a, b)


@nereid.jit
def minimum_and_maximum(a, x, b, y):
    return minimum(a, b), maximum(x, y)


@nereid.jit
def either(a, b):
    return a | b


@nereid.jit
def both(a, b):
    return a & b


@nereid.jit
def first_maximum(a, i, b, j):
    """The greater value and its place; NaN is greater than all, and of equal values the first counts."""
    if a.dtype.is_floating():
        take = (a > b) | ((a != a) & (b == b)) | (((a == b) | ((a != a) & (b != b))) & (i < j))
    else:
        take = (a > b) | ((a == b) & (i < j))
    return tl.where(take, a, b), tl.where(take, i, j)


@nereid.jit
def first_minimum(a, i, b, j):
    """The smaller value and its place; NaN is smaller than all, and of equal values the first counts."""
    if a.dtype.is_floating():
        take = (a < b) | ((a != a) & (b == b)) | (((a == b) | ((a != a) & (b != b))) & (i < j))
    else:
        take = (a < b) | ((a == b) & (i < j))
    return tl.where(take, a, b), tl.where(take, i, j)


@nereid.jit
def last_maximum(a, i, b, j):
    """The greater value and its place; NaN is greater than all, and of equal values the last counts."""
    if a.dtype.is_floating():
        take = (a > b) | ((a != a) & (b == b)) | (((a == b) | ((a != a) & (b != b))) & (i > j))
    else:
        take = (a > b) | ((a == b) & (i > j))
    return tl.where(take, a, b), tl.where(take, i, j)


@nereid.jit
def last_minimum(a, i, b, j):
    """The smaller value and its place; NaN is smaller than all, and of equal values the last counts."""
    if a.dtype.is_floating():
        take = (a < b) | ((a != a) & (b == b)) | (((a == b) | ((a != a) & (b != b))) & (i > j))
    else:
        take = (a < b) | ((a == b) & (i > j))
    return tl.where(take, a, b), tl.where(take, i, j)


@nereid.jit
def log_add_exp(a, b):
    """log(exp(a) + exp(b))."""
    top = maximum(a, b)
    bottom = minimum(a, b)
    return tl.where((a == b) & (tl.abs(a) == float("inf")), a, top + libdevice.log1p(tl.exp(bottom - top)))


@nereid.jit
def joined_moments(mean_a, square_a, count_a, mean_b, square_b, count_b):
    """Mean, sum of squared differences from it, and count of two disjoint sets together."""
    count = count_a + count_b
    share = tl.where(count == 0, 0.0, count_b / tl.where(count == 0, 1.0, count))
    difference = mean_b - mean_a
    mean = tl.where(count_a == 0, mean_b, mean_a + difference * share)
    square = tl.where(count_a == 0, square_b, square_a + square_b + difference * difference * count_a * share)
    return mean, square, count


@nereid.jit
def joined_exponentials(top_a, sum_a, top_b, sum_b):
    """The greatest x and the sum of exp(x - greatest) of two disjoint sets together."""
    top = maximum(top_a, top_b)
    factor_a = tl.where(top_a == top, 1.0, tl.exp(top_a - top))
    factor_b = tl.where(top_b == top, 1.0, tl.exp(top_b - top))
    return top, sum_a * factor_a + sum_b * factor_b


# Elements to states


@nereid.jit
def itself(values, index, scalars):
    return (values[0],)


@nereid.jit
def without_nan(values, index, scalars):
    x = values[0]
    if x.dtype.is_floating():
        x = tl.where(x == x, x, 0)
    return (x,)


@nereid.jit
def twice(values, index, scalars):
    return (values[0], values[0])


@nereid.jit
def with_index(values, index, scalars):
    return (values[0], index)


@nereid.jit
def not_zero(values, index, scalars):
    return ((values[0] != 0).to(tl.int8),)


@nereid.jit
def outside(values, index, scalars):
    """1 for what is not from scalars[0] to scalars[1], NaN too."""
    inside = (values[0] >= scalars[0]) & (values[0] <= scalars[1])
    return (tl.where(inside, 0, 1).to(values[0].dtype),)


@nereid.jit
def counted(values, index, scalars):
    return ((values[0] != 0).to(tl.int64),)


@nereid.jit
def product(values, index, scalars):
    return (values[0] * values[1],)


@nereid.jit
def one_if_not_zero(values, index, scalars):
    return (tl.where(values[0] != 0, 1, 0).to(values[0].dtype),)


@nereid.jit
def absolute(values, index, scalars):
    return (tl.abs(values[0]),)


@nereid.jit
def squared(values, index, scalars):
    return (values[0] * values[0],)


@nereid.jit
def power(values, index, scalars):
    x = tl.abs(values[0])
    return (libdevice.pow(x, tl.full(x.shape, scalars[0].to(x.dtype), x.dtype)),)


# Whole tiles to states


@nereid.jit
def place_of(hit, mask, index, AXIS: tl.constexpr):
    """The least index where `hit` and `mask` are true."""
    return tl.min(tl.where(hit & mask, index, highest(index.dtype)), AXIS)


@nereid.jit
def maximum_and_place(values, mask, index, scalars, AXIS: tl.constexpr):
    """States of `first_maximum`: NaN is found if there is one, as the maximum is NaN only then."""
    x = tl.where(mask, values[0], lowest(values[0].dtype))
    most = tl.reduce(x, AXIS, maximum)
    return most, place_of((x == tl.expand_dims(most, AXIS)) | (x != x), mask, index, AXIS)


@nereid.jit
def minimum_and_place(values, mask, index, scalars, AXIS: tl.constexpr):
    """States of `first_minimum`."""
    x = tl.where(mask, values[0], highest(values[0].dtype))
    least = tl.reduce(x, AXIS, minimum)
    return least, place_of((x == tl.expand_dims(least, AXIS)) | (x != x), mask, index, AXIS)


@nereid.jit
def bounds(values, mask, count, scalars, AXIS: tl.constexpr):
    """States of `minimum_and_maximum`."""
    x = values[0]
    least = tl.reduce(tl.where(mask, x, highest(x.dtype)), AXIS, minimum)
    return least, tl.reduce(tl.where(mask, x, lowest(x.dtype)), AXIS, maximum)


@nereid.jit
def moments(values, mask, count, scalars, AXIS: tl.constexpr):
    x = tl.where(mask, values[0], 0)
    n = count.to(x.dtype)
    mean = tl.sum(x, AXIS) / n
    difference = tl.where(mask, x - tl.expand_dims(mean, AXIS), 0)
    square = tl.sum(difference * difference, AXIS)
    return mean, square, tl.zeros_like(mean) + n


@nereid.jit
def exponentials(values, mask, count, scalars, AXIS: tl.constexpr):
    x = tl.where(mask, values[0], float("-inf"))
    top = tl.reduce(x, AXIS, maximum)
    shift = tl.where(tl.abs(top) == float("inf"), 0.0, top)
    return top, tl.sum(tl.where(mask, tl.exp(x - tl.expand_dims(shift, AXIS)), 0), AXIS)


# States to results


@nereid.jit
def as_found(states, scalars, COMPUTE: tl.constexpr):
    return states


@nereid.jit
def second(states, scalars, COMPUTE: tl.constexpr):
    return (states[1],)


@nereid.jit
def divided_by_count(states, scalars, COMPUTE: tl.constexpr):
    return (divide(states[0], scalars[0].to(COMPUTE)),)


@nereid.jit
def square_root(states, scalars, COMPUTE: tl.constexpr):
    return (tl.sqrt(states[0]),)


@nereid.jit
def root(states, scalars, COMPUTE: tl.constexpr):
    x = states[0]
    return (libdevice.pow(x, tl.full(x.shape, scalars[1].to(COMPUTE), COMPUTE)),)


@nereid.jit
def variance(states, scalars, COMPUTE: tl.constexpr):
    """scalars: the number of elements, and their number less the correction, at least 0, as a float."""
    return (divide(states[1], scalars[0].to(COMPUTE)),)


@nereid.jit
def deviation(states, scalars, COMPUTE: tl.constexpr):
    return (tl.sqrt(divide(states[1], scalars[0].to(COMPUTE))),)


@nereid.jit
def variance_and_mean(states, scalars, COMPUTE: tl.constexpr):
    return divide(states[1], scalars[0].to(COMPUTE)), tl.where(states[2] == 0, float("nan"), states[0])


@nereid.jit
def deviation_and_mean(states, scalars, COMPUTE: tl.constexpr):
    return tl.sqrt(divide(states[1], scalars[0].to(COMPUTE))), tl.where(states[2] == 0, float("nan"), states[0])


@nereid.jit
def log_of_sum(states, scalars, COMPUTE: tl.constexpr):
    top = states[0]
    return (tl.log(states[1]) + tl.where(tl.abs(top) == float("inf"), 0.0, top),)
