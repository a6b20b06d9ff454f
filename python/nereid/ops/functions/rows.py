"""Functions of operators on rows (nereid.ops.kernels.rows says what each is given): softmax, normalisations, their gradients."""

import nereid
import nereid.language as tl

from . import reductions

# Softmax. Row values: the greatest element, and the sum of exponentials or its logarithm.


@nereid.jit
def shifted(states, scalars, COMPUTE: tl.constexpr):
    return states


@nereid.jit
def softmax(values, row, scalars):
    return (tl.exp(values[0] - row[0]) / row[1],)


@nereid.jit
def kept_exponentials(values, mask, count, scalars, AXIS: tl.constexpr):
    """Of whole rows: their states as of `reductions.exponentials`, and the exponentials, which are not computed again."""
    x = tl.where(mask, values[0], float("-inf"))
    top = tl.reduce(x, AXIS, reductions.maximum)
    exponentials = tl.exp(x - tl.expand_dims(top, AXIS))
    return (top, tl.sum(tl.where(mask, exponentials, 0), AXIS)), (exponentials,)


@nereid.jit
def softmax_of_kept(kept, row, scalars):
    return (kept[0] * (1 / row[1]),)


@nereid.jit
def shifted_log(states, scalars, COMPUTE: tl.constexpr):
    return states[0], tl.log(states[1])


@nereid.jit
def log_softmax(values, row, scalars):
    return (values[0] - row[0] - row[1],)


@nereid.jit
def softmax_gradient(values, row, scalars):
    """Of the gradient and the output; the row's value is the sum of their products."""
    return ((values[0] - row[0]) * values[1],)


@nereid.jit
def log_softmax_gradient(values, row, scalars):
    """Of the gradient and the output; the row's value is the sum of the gradient."""
    return (values[0] - tl.exp(values[1]) * row[0],)


# Normalisation: (x - mean) * rstd * weight + bias. scalars: the number of elements in a row and eps, as floats.


@nereid.jit
def mean_and_rstd(states, scalars, COMPUTE: tl.constexpr):
    return states[0], 1 / tl.sqrt(states[1] / scalars[0].to(COMPUTE) + scalars[1].to(COMPUTE))


@nereid.jit
def mean_rstd_and_variances(states, scalars, COMPUTE: tl.constexpr):
    """Also the variance and, with Bessel's correction, the unbiased one."""
    n = scalars[0].to(COMPUTE)
    variance = states[1] / n
    return states[0], 1 / tl.sqrt(variance + scalars[1].to(COMPUTE)), variance, states[1] / (n - 1)


@nereid.jit
def normalised(values, row, scalars):
    """values: x, weight, bias; the last two may be None."""
    result = (values[0] - row[0]) * row[1]
    if values[1] is not None:
        result = result * values[1]
    if values[2] is not None:
        result = result + values[2]
    return (result,)


@nereid.jit
def normalised_by_given(values, row, scalars):
    """values: x, mean, rstd, weight, bias."""
    result = (values[0] - values[1]) * values[2]
    if values[3] is not None:
        result = result * values[3]
    if values[4] is not None:
        result = result + values[4]
    return (result,)


@nereid.jit
def weighted(gradient, weight):
    if weight is None:
        return gradient
    else:
        return gradient * weight


@nereid.jit
def gradient_sums(values, index, scalars):
    """values: gradient, x, mean, rstd, weight. States: the weighted gradient, and its product with the normalised x."""
    gradient = weighted(values[0], values[4])
    return gradient, gradient * ((values[1] - values[2]) * values[3])


@nereid.jit
def normalised_gradient(values, row, scalars):
    """The gradient of x; scalars[0]: the number of elements in a row."""
    n = scalars[0].to(values[0].dtype)
    normal = (values[1] - values[2]) * values[3]
    return (values[3] * (weighted(values[0], values[4]) - (row[0] + normal * row[1]) / n),)


@nereid.jit
def sums_of_two(a, x, b, y):
    return a + b, x + y


@nereid.jit
def two_zeros(COMPUTE: tl.constexpr, INDEX: tl.constexpr):
    return tl.full((), 0, COMPUTE), tl.full((), 0, COMPUTE)


@nereid.jit
def parameter_gradients(values, index, scalars):
    """values: gradient, x, mean, rstd. States: the gradient of the weight, that of the bias."""
    return values[0] * ((values[1] - values[2]) * values[3]), values[0]


# Batch normalisation: rows are channels; gradients of weight and bias are values of the rows


@nereid.jit
def channel_gradient_sums(values, index, scalars):
    """values: gradient, x, mean, rstd. States: sum of gradient * normalised x, sum of gradient."""
    return values[0] * ((values[1] - values[2]) * values[3]), values[0]


@nereid.jit
def batch_gradient(values, row, scalars):
    """values: gradient, x, mean, rstd, weight (of the channel)."""
    n = scalars[0].to(values[0].dtype)
    normal = (values[1] - values[2]) * values[3]
    return (weighted(values[0] - (row[1] + normal * row[0]) / n, values[4]) * values[3],)


@nereid.jit
def fixed_batch_gradient(values, row, scalars):
    """With running statistics, which are constants."""
    return (weighted(values[0], values[4]) * values[3],)


@nereid.jit
def batch_inference(x, mean, variance, weight, bias, eps):
    """With running statistics: elementwise."""
    result = (x - mean) / tl.sqrt(variance + eps.to(x.dtype))
    if weight is not None:
        result = result * weight
    if bias is not None:
        result = result + bias
    return result


# RMS normalisation: x * rstd * weight


@nereid.jit
def rstd_of_squares(states, scalars, COMPUTE: tl.constexpr):
    return (1 / tl.sqrt(states[0] / scalars[0].to(COMPUTE) + scalars[1].to(COMPUTE)),)


@nereid.jit
def scaled(values, row, scalars):
    return (weighted(values[0] * row[0], values[1]),)


@nereid.jit
def rms_gradient_sum(values, index, scalars):
    """values: gradient, x, rstd, weight."""
    return (weighted(values[0], values[3]) * values[1] * values[2],)


@nereid.jit
def rms_gradient(values, row, scalars):
    n = scalars[0].to(values[0].dtype)
    return (values[2] * (weighted(values[0], values[3]) - values[1] * values[2] * row[0] / n),)


@nereid.jit
def rms_weight_gradient(values, index, scalars):
    return (values[0] * values[1] * values[2],)


# Weight normalisation: v * g / norm(v)


@nereid.jit
def weight_scaled(v, g, norm):
    return v * (g / norm)


@nereid.jit
def weight_gradient(gradient, v, g, norm, product):
    """product: the sum of gradient * v along the rows."""
    return (g / norm) * (gradient - v * (product / (norm * norm)))


@nereid.jit
def length_gradient(product, norm):
    return product / norm
