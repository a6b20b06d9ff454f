"""Activation functions, and what leads from the gradients of their results to those of their inputs."""

import nereid
import nereid.language as tl
from nereid.language import target_info
from nereid.language.extra import libdevice

from . import narrow
from .narrow import divide

SQRT_HALF = tl.constexpr(0.7071067811865476)
INV_SQRT_2PI = tl.constexpr(0.3989422804014327)
SQRT_2_OVER_PI = tl.constexpr(0.7978845608028654)
CUBIC = tl.constexpr(0.044715)


@nereid.jit
def sigmoid(x, NARROW: tl.constexpr = False):
    return divide(tl.full(x.shape, 1, x.dtype), 1 + narrow.exp(-x, NARROW), NARROW)


@nereid.jit
def sigmoid_backward(grad, y):
    return grad * ((1 - y) * y)


@nereid.jit
def tanh_backward(grad, y):
    return grad * (1 - y * y)


@nereid.jit
def relu(x):
    return tl.where(x < 0, tl.zeros_like(x), x)


@nereid.jit
def threshold(x, threshold, value):
    return tl.where(x <= threshold, value, x)


@nereid.jit
def threshold_backward(x, grad, threshold):
    return tl.where(x <= threshold, tl.zeros_like(grad), grad)


@nereid.jit
def silu(x, NARROW: tl.constexpr = False):
    return divide(x, 1 + narrow.exp(-x, NARROW), NARROW)


@nereid.jit
def silu_backward(grad, x, NARROW: tl.constexpr = False):
    s = sigmoid(x, NARROW)
    return grad * s * (1 + x * (1 - s))


@nereid.jit
def gelu(x, NARROW: tl.constexpr = False):
    if NARROW == 8 and target_info.is_cpu():
        return x * narrow.normal_below_bf16(x)
    elif NARROW:
        return x * narrow.normal_below(x, narrow.density(x))
    else:
        return x * normal_below(x)


@nereid.jit
def normal_below(x):
    """How probable a normal number below x is, with the absolute accuracy of x's type."""
    if target_info.is_cpu() and x.dtype == tl.float32:
        return narrow.normal_below_single(x)
    else:
        return 0.5 * (1 + tl.erf(x * SQRT_HALF))


@nereid.jit
def gelu_backward(grad, x, NARROW: tl.constexpr = False):
    if NARROW:
        density = narrow.density(x)
        below = narrow.normal_below(x, density)
    else:
        density = tl.exp(-0.5 * x * x)
        below = normal_below(x)
    return grad * (below + x * density * INV_SQRT_2PI)


@nereid.jit
def gelu_tanh(x, NARROW: tl.constexpr = False):
    return 0.5 * x * (1 + narrow.tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x), NARROW))


@nereid.jit
def gelu_tanh_backward(grad, x, NARROW: tl.constexpr = False):
    t = narrow.tanh(SQRT_2_OVER_PI * (x + CUBIC * x * x * x), NARROW)
    inner = SQRT_2_OVER_PI * (1 + 3 * CUBIC * x * x)
    return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner)


@nereid.jit
def elu(x, alpha, scale, input_scale, NARROW: tl.constexpr = False):
    return tl.where(x < 0, narrow.expm1(x * input_scale, NARROW) * (alpha * scale), x * scale)


@nereid.jit
def elu_backward(grad, x, alpha, scale, input_scale, NARROW: tl.constexpr = False):
    return tl.where(x <= 0, grad * input_scale * (alpha * scale) * narrow.exp_of_any(x * input_scale, NARROW), grad * scale)


@nereid.jit
def elu_backward_of_result(grad, y, alpha, scale, input_scale):
    return tl.where(y <= 0, grad * input_scale * (y + alpha * scale), grad * scale)


@nereid.jit
def celu(x, alpha, NARROW: tl.constexpr = False):
    return tl.where(x < 0, narrow.expm1(divide(x, alpha, NARROW), NARROW) * alpha, x)


@nereid.jit
def softplus(x, beta, threshold, NARROW: tl.constexpr = False):
    scaled = x * beta
    # log(1 + exp(s)) is max(s, 0) + log(1 + exp(-|s|)).
    if NARROW:
        found = tl.maximum(scaled, 0.0) + narrow.log1p(narrow.exp_of_any(-tl.abs(scaled), True), True)
    else:
        found = libdevice.log1p(tl.exp(scaled))
    return tl.where(scaled > threshold, x, divide(found, beta, NARROW))


@nereid.jit
def softplus_backward(grad, x, beta, threshold, NARROW: tl.constexpr = False):
    scaled = x * beta
    z = narrow.exp_of_any(scaled, NARROW)
    return tl.where(scaled > threshold, grad, divide(grad * z, z + 1, NARROW))


@nereid.jit
def tanh_of_softplus(x, NARROW: tl.constexpr):
    """With e = exp(x) it is (e^2 + 2e) / (e^2 + 2e + 2); beyond 20 it is 1 in fp32 and fp64."""
    e = narrow.exp_of_any(tl.where(x > 20, 20.0, x), NARROW)
    n = e * (e + 2)
    return divide(n, n + 2, NARROW)


@nereid.jit
def mish(x, NARROW: tl.constexpr = False):
    return x * tanh_of_softplus(x, NARROW)


@nereid.jit
def mish_backward(grad, x, NARROW: tl.constexpr = False):
    t = tanh_of_softplus(x, NARROW)
    return grad * (t + x * sigmoid(x, NARROW) * (1 - t * t))


@nereid.jit
def limit(x, low, high):
    """x between low and high, NaN as it is."""
    return tl.where(x < low, low, tl.where(x > high, high, x))


@nereid.jit
def hardswish(x):
    return x * limit(x + 3, 0.0, 6.0) * (1 / 6)


@nereid.jit
def hardswish_backward(grad, x):
    return tl.where(x <= -3, tl.zeros_like(grad), tl.where(x < 3, grad * (x * (1 / 3) + 0.5), grad))


@nereid.jit
def hardsigmoid(x):
    return limit(x + 3, 0.0, 6.0) * (1 / 6)


@nereid.jit
def hardsigmoid_backward(grad, x):
    return tl.where((x > -3) & (x < 3), grad * (1 / 6), tl.zeros_like(grad))


@nereid.jit
def hardtanh(x, low, high):
    x = tl.where(x < low, low, x)
    return tl.where(x > high, high, x)


@nereid.jit
def hardtanh_backward(grad, x, low, high):
    return tl.where((x <= low) | (x >= high), tl.zeros_like(grad), grad)


@nereid.jit
def leaky_relu(x, slope):
    return tl.where(x > 0, x, x * slope)


@nereid.jit
def leaky_relu_backward(x, grad, slope):
    return tl.where(x > 0, grad, grad * slope)


@nereid.jit
def softshrink(x, bound):
    return tl.where(x > bound, x - bound, tl.where(x < -bound, x + bound, tl.where(x != x, x, 0.0)))


@nereid.jit
def hardshrink(x, bound):
    return tl.where((x >= -bound) & (x <= bound), tl.zeros_like(x), x)


@nereid.jit
def shrink_backward(grad, x, bound):
    return tl.where((x >= -bound) & (x <= bound), tl.zeros_like(grad), grad)


@nereid.jit
def logit_backward(grad, x, eps):
    inner = divide(grad, x * (1 - x))
    if eps is None:
        return tl.where((x < 0) | (x > 1), float("nan"), tl.where((x == 0) | (x == 1), grad * float("inf"), inner))
    negative = eps < 0
    outside = tl.where(negative, (x < 0) | (x > 1), (x < eps) | (x > 1 - eps))
    result = tl.where(outside, tl.where(negative, float("nan"), 0.0), inner)
    return tl.where(negative & ((x == 0) | (x == 1)), grad * float("inf"), result)


@nereid.jit
def prelu(x, weight):
    return tl.where(x > 0, x, weight * x)


@nereid.jit
def prelu_backward(x, weight, grad):
    positive = x > 0
    return tl.where(positive, grad, weight * grad), tl.where(positive, tl.zeros_like(grad), x * grad)


@nereid.jit
def dropout_backward(grad, mask, scale):
    return grad * mask.to(grad.dtype) * scale


@nereid.jit
def glu(x, gate, NARROW: tl.constexpr = False):
    return x * sigmoid(gate, NARROW)


@nereid.jit
def glu_backward(grad, x, gate, NARROW: tl.constexpr = False):
    s = sigmoid(gate, NARROW)
    return grad * s, (1 - s) * s * grad * x


@nereid.jit
def log_sigmoid(x, NARROW: tl.constexpr = False):
    """The result, and exp(-|x|), which the backward step reads on CPUs."""
    z = narrow.exp_of_any(-tl.abs(x), NARROW)
    return tl.where(x < 0, x, tl.zeros_like(x)) - narrow.log1p(z, NARROW), z


@nereid.jit
def log_sigmoid_alone(x, NARROW: tl.constexpr = False):
    return log_sigmoid(x, NARROW)[0]


@nereid.jit
def log_sigmoid_backward(grad, x, z, NARROW: tl.constexpr = False):
    """z: exp(-|x|)."""
    negative = x < 0
    most = tl.where(negative, 1.0, 0.0).to(x.dtype)
    sign = tl.where(negative, 1.0, -1.0).to(x.dtype)
    return grad * (most - sign * divide(z, 1 + z, NARROW))


@nereid.jit
def mse(x, target):
    return (x - target) * (x - target)


@nereid.jit
def mse_backward(grad, x, target, norm):
    return grad * (2 * norm * (x - target))


@nereid.jit
def smooth_l1_backward(x, target, grad, beta, norm):
    difference = x - target
    return tl.where(difference <= -beta, -norm * grad, tl.where(difference >= beta, norm * grad, divide(norm * difference * grad, beta)))


@nereid.jit
def huber_backward(x, target, grad, delta, norm):
    difference = x - target
    return tl.where(difference <= -delta, -norm * grad * delta, tl.where(difference >= delta, norm * grad * delta, norm * difference * grad))


@nereid.jit
def smooth_l1(x, target, beta):
    z = tl.abs(x - target)
    return tl.where(z < beta, divide(0.5 * z * z, beta), z - 0.5 * beta)


@nereid.jit
def huber(x, target, delta):
    z = tl.abs(x - target)
    return tl.where(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta))
