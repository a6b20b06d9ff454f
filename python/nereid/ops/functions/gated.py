"""Gated activations: activation(gate) * up, and what leads from the gradient of the result to those of gate and up."""

import nereid
import nereid.language as tl

from . import activation


@nereid.jit
def swiglu(gate, up, NARROW: tl.constexpr = False):
    return activation.silu(gate, NARROW) * up


@nereid.jit
def swiglu_gradient(grad, gate, up, NARROW: tl.constexpr = False):
    return activation.silu_backward(grad * up, gate, NARROW), grad * activation.silu(gate, NARROW)


@nereid.jit
def swiglu_gradient_and_value(grad, gate, up, NARROW: tl.constexpr = False):
    silu = activation.silu(gate, NARROW)
    return activation.silu_backward(grad * up, gate, NARROW), grad * silu, silu * up


@nereid.jit
def geglu(gate, up):
    return activation.gelu(gate) * up


@nereid.jit
def geglu_gradient(grad, gate, up):
    return activation.gelu_backward(grad * up, gate), grad * activation.gelu(gate)


@nereid.jit
def geglu_tanh(gate, up, NARROW: tl.constexpr = False):
    return activation.gelu_tanh(gate, NARROW) * up


@nereid.jit
def geglu_tanh_gradient(grad, gate, up, NARROW: tl.constexpr = False):
    return activation.gelu_tanh_backward(grad * up, gate, NARROW), grad * activation.gelu_tanh(gate, NARROW)
