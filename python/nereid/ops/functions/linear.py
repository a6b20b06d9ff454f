"""Gradients of activations: from the gradient of the result to that of the input, where `functions.activation` has other parameters."""

import nereid
import nereid.language as tl


@nereid.jit
def relu_gradient(grad, x):
    return tl.where(x <= 0, tl.zeros_like(grad), grad)
