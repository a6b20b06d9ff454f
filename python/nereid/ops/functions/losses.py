"""Losses of an input and a target: of one element, its share of a sum, and the gradient of the input."""

import nereid
import nereid.language as tl
from nereid.language.extra import libdevice

from .reductions import maximum


@nereid.jit
def mse(x, target):
    d = x - target
    return d * d


@nereid.jit
def smooth_l1(x, target, beta):
    d = tl.abs(x - target)
    b = beta.to(d.dtype)
    return tl.where(d < b, 0.5 * d * d / b, d - 0.5 * b)


@nereid.jit
def huber(x, target, delta):
    d = tl.abs(x - target)
    b = delta.to(d.dtype)
    return tl.where(d <= b, 0.5 * d * d, b * (d - 0.5 * b))


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
    return (smooth_l1(values[0], values[1], scalars[1]),)


@nereid.jit
def huber_state(values, index, scalars):
    return (huber(values[0], values[1], scalars[1]),)


@nereid.jit
def binary_cross_entropy_state(values, index, scalars):
    if len(values) == 3:
        return (binary_cross_entropy(values[0], values[1], values[2]),)
    else:
        return (binary_cross_entropy(values[0], values[1], None),)


# Gradients; norm: what each element's gradient is multiplied by, 1 or the inverse of their number


@nereid.jit
def mse_gradient(gradient, x, target, norm):
    return norm.to(x.dtype) * 2 * (x - target) * gradient


@nereid.jit
def smooth_l1_gradient(gradient, x, target, norm, beta):
    d = x - target
    b = beta.to(x.dtype)
    n = norm.to(x.dtype) * gradient
    return tl.where(d <= -b, -n, tl.where(d >= b, n, n * d / b))


@nereid.jit
def huber_gradient(gradient, x, target, norm, delta):
    d = x - target
    b = delta.to(x.dtype)
    n = norm.to(x.dtype) * gradient
    return tl.where(d <= -b, -n * b, tl.where(d >= b, n * b, n * d))


@nereid.jit
def binary_cross_entropy_gradient(gradient, x, target, weight, norm):
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
