"""Losses of an input and a target: of one element, its share of a sum, and the gradient of the input."""

import nereid
import nereid.language as tl
from nereid.language.extra import libdevice

from .activation import huber, mse, smooth_l1
from .reductions import maximum


@nereid.jit
def binary_cross_entropy(x, target, weight):
    """Of a probability and a target between 0 and 1; logarithms are at least -100."""
    least = tl.full(x.shape, -100, x.dtype)
    result = (target - 1) * maximum(libdevice.log1p(-x), least) - target * maximum(tl.log(x), least)
    if weight is not None:
        result = result * weight
    return result


# The same as states of reductions: values are the inputs, scalars[0] the number of elements, scalars[1] a parameter of the loss


@nereid.jit
def mse_state(values, index, scalars):
    return (mse(values[0], values[1]),)


@nereid.jit
def smooth_l1_state(values, index, scalars):
    return (smooth_l1(values[0], values[1], scalars[1].to(values[0].dtype)),)


@nereid.jit
def huber_state(values, index, scalars):
    return (huber(values[0], values[1], scalars[1].to(values[0].dtype)),)


@nereid.jit
def binary_cross_entropy_state(values, index, scalars):
    if len(values) == 3:
        return (binary_cross_entropy(values[0], values[1], values[2]),)
    else:
        return (binary_cross_entropy(values[0], values[1], None),)


@nereid.jit
def binary_cross_entropy_gradient(gradient, x, target, weight, norm):
    """norm: 1, or the inverse of the number of elements."""
    result = gradient * (x - target) / maximum((1 - x) * x, tl.full(x.shape, 1e-12, x.dtype)) * norm.to(x.dtype)
    if weight is not None:
        result = result * weight
    return result


# Negative log likelihood: the losses and weights of elements are summed; a target that does not exist is counted


@nereid.jit
def nll_sums(values, index, scalars):
    return values


@nereid.jit
def three_zeros(COMPUTE: tl.constexpr, INDEX: tl.constexpr):
    return tl.full((), 0, COMPUTE), tl.full((), 0, COMPUTE), tl.full((), 0, COMPUTE)


@nereid.jit
def sums_of_three(a, b, c, x, y, z):
    return a + x, b + y, c + z


@nereid.jit
def nll_mean(states, scalars, COMPUTE: tl.constexpr):
    return states[0] / states[1], states[1], states[2]
