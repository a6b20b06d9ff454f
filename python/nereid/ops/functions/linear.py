"""What leads from the gradient of an activation's result to that of its input, where `functions.activation` has it in other terms."""

import nereid
import nereid.language as tl


@nereid.jit
def relu_gradient(grad, x):
    return tl.where(x <= 0, tl.zeros_like(grad), grad)
