"""Gated activations of feed-forward layers (Shazeer 2020, "GLU variants improve transformer"): SwiGLU and GeGLU."""

import torch

from ..functions import gated as functions
from ..pointwise import FLOATS, Rule, run
from . import _arguments, _sharding
from ._declare import operator

SWIGLU, SWIGLU_GRADIENT = Rule(function=functions.swiglu, dtypes=FLOATS), Rule(function=functions.swiglu_gradient, dtypes=FLOATS, results=2)
SWIGLU_AGAIN = Rule(function=functions.swiglu_gradient_and_value, dtypes=FLOATS, results=3)
GEGLU = {"none": Rule(function=functions.geglu, dtypes=FLOATS), "tanh": Rule(function=functions.geglu_tanh, dtypes=FLOATS)}
GEGLU_GRADIENT = {"none": Rule(function=functions.geglu_gradient, dtypes=FLOATS, results=2),
                  "tanh": Rule(function=functions.geglu_tanh_gradient, dtypes=FLOATS, results=2)}


def _check(gate, up, approximate="none"):
    _arguments.floats(gate=gate, up=up)
    _arguments.one_dtype(gate=gate, up=up)
    _arguments.one_device(gate=gate, up=up)
    _arguments.shape(up, gate.shape, "up")
    if approximate not in GEGLU:
        raise ValueError(f"`approximate` is {approximate!r}: expected \"none\" or \"tanh\"")


def _fake(gate, up, approximate="none"):
    _check(gate, up, approximate)
    return gate.new_empty(gate.shape)


def _fake_gradient(grad, gate, up, approximate="none"):
    _check(gate, up, approximate)
    return gate.new_empty(gate.shape), gate.new_empty(gate.shape)


def _save(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:2])
    ctx.approximate = inputs[2] if len(inputs) > 2 else None


def _mapped(rule, *tensors):
    outs = [torch.empty(tensors[0].shape, dtype=tensors[0].dtype, device=tensors[0].device) for _ in range(rule.results)]
    run(rule, list(tensors), [], outs)
    return tuple(outs) if len(outs) > 1 else outs[0]


@operator("swiglu_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)", fake=_fake_gradient, sharding=_sharding.elementwise(True, True, True, results=2))
def swiglu_backward(grad, gate, up):
    """The gradients of `gate` and `up`."""
    _check(gate, up)
    return _mapped(SWIGLU_GRADIENT, grad, gate, up)


def _fake_again(grad, gate, up):
    _check(gate, up)
    return tuple(gate.new_empty(gate.shape) for _ in range(3))


@operator("swiglu_again_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor, Tensor)", fake=_fake_again, sharding=_sharding.elementwise(True, True, True, results=3))
def swiglu_again_backward(grad, gate, up):
    """The gradients of `gate` and `up`, and swiglu(gate, up), which costs no further reading."""
    _check(gate, up)
    return _mapped(SWIGLU_AGAIN, grad, gate, up)


@operator("swiglu(Tensor gate, Tensor up) -> Tensor", fake=_fake, backward=lambda ctx, grad: swiglu_backward(grad, *ctx.saved_tensors), save=_save,
          sharding=_sharding.elementwise(True, True))
def swiglu(gate, up):
    """silu(gate) * up. gate, up: of one shape, float dtype and device, any strides. The result is contiguous; 16-bit floats are computed in fp32.

    Raises TypeError for other dtypes, ValueError for shapes or devices that differ.
    """
    _check(gate, up)
    return _mapped(SWIGLU, gate, up)


@operator("geglu_backward(Tensor grad, Tensor gate, Tensor up, str approximate=\"none\") -> (Tensor, Tensor)", fake=_fake_gradient,
          sharding=_sharding.elementwise(True, True, True, False, results=2))
def geglu_backward(grad, gate, up, approximate):
    """The gradients of `gate` and `up`."""
    _check(gate, up, approximate)
    return _mapped(GEGLU_GRADIENT[approximate], grad, gate, up)


@operator("geglu(Tensor gate, Tensor up, str approximate=\"none\") -> Tensor", fake=_fake,
          backward=lambda ctx, grad: (*geglu_backward(grad, *ctx.saved_tensors, ctx.approximate), None), save=_save, sharding=_sharding.elementwise(True, True, False))
def geglu(gate, up, approximate):
    """gelu(gate) * up, as `swiglu`. approximate: "none" (erf) or "tanh"."""
    _check(gate, up, approximate)
    return _mapped(GEGLU[approximate], gate, up)


def silu_and_mul(x):
    """`swiglu` of the two halves of the last dimension: x (..., 2n) → (..., n). The first half is the gate."""
    return swiglu(*x.chunk(2, -1))
