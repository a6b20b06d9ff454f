"""Linear layers with what follows them in one launch: bias, activation and residual; and the first half of a feed-forward layer with SwiGLU (Shazeer 2020)."""

import torch

from ..functions import activation as activations
from ..functions import linear as functions
from ..grouped import grouped_rows
from ..pointwise import FLOATS, Rule, run
from ..products import multiply
from . import _arguments, _sharding
from ._declare import operator
from .gated import swiglu_backward

#: {activation: the rule of its gradient, from the gradient of the result and the input}.
GRADIENTS = {
    "relu": Rule(function=functions.relu_gradient, dtypes=FLOATS), "gelu": Rule(function=activations.gelu_backward, dtypes=FLOATS),
    "gelu_tanh": Rule(function=activations.gelu_tanh_backward, dtypes=FLOATS), "silu": Rule(function=activations.silu_backward, dtypes=FLOATS)
}
ACTIVATIONS = ("none", *GRADIENTS)


def check_layer(x, weight, bias=None, name="weight"):
    """Raises what `linear` says about its tensors; the shape of the result."""
    _arguments.floats(x=x, **{name: weight}, bias=bias)
    _arguments.one_dtype(x=x, **{name: weight}, bias=bias)
    _arguments.one_device(x=x, **{name: weight}, bias=bias)
    if x.dim() < 1:
        raise ValueError("`x` has no dimensions: expected (..., k)")
    if weight.dim() != 2 or weight.shape[1] != x.shape[-1]:
        raise ValueError(f"`{name}` has shape {tuple(weight.shape)}: expected (n, {x.shape[-1]})")
    _arguments.shape(bias, weight.shape[:1], "bias")
    return (*x.shape[:-1], weight.shape[0])


def _check(x, weight, bias=None, activation="none", residual=None):
    shape = check_layer(x, weight, bias)
    if activation not in ACTIVATIONS:
        raise ValueError(f"`activation` is {activation!r}: expected one of {', '.join(map(repr, ACTIVATIONS))}")
    _arguments.one_dtype(x=x, residual=residual)
    _arguments.one_device(x=x, residual=residual)
    _arguments.shape(residual, shape, "residual")
    return shape


def rows_of(x):
    """x (..., k) as a matrix; a copy only where dimensions cannot be merged."""
    return x if x.dim() == 2 else x.reshape(-1, x.shape[-1]) if x.numel() else x.new_empty((0, x.shape[-1]))


def product_into(out, a, b, bias=None, **others):
    """out (m, n) = a (m, k) @ b (k, n), matrices of any strides; bias: (n,). others: of `multiply`."""
    m, k = a.shape
    n = b.shape[1]
    if m and n:
        bias_strides = (0, 0, 0) if bias is None else (0, 0, bias.stride(0)) if bias.dim() == 1 else (0, *bias.stride())
        multiply(out, a, b, bias, (1, m, n, k), ((0, *out.stride()), (0, 0, *a.stride()), (0, 0, *b.stride()), bias_strides), **others)
    return out


def _apply(x, weight, bias, activation, residual, save):
    shape = _check(x, weight, bias, activation, residual)
    out = torch.empty(shape, dtype=x.dtype, device=x.device)
    saved = torch.empty(shape, dtype=x.dtype, device=x.device) if save else None
    n = weight.shape[0]
    if out.numel():
        product_into(out.view(-1, n), rows_of(x), weight.t(), bias, activation=None if activation == "none" else activation,
                     residual=None if residual is None else rows_of(residual), saved=saved.view(-1, n) if save else None)
    return out, saved


def _fake(x, weight, bias=None, activation="none", residual=None):
    return x.new_empty(_check(x, weight, bias, activation, residual))


def _fake_x_gradient(grad, weight):
    if weight.dim() != 2 or grad.dim() < 1 or grad.shape[-1] != weight.shape[0]:
        raise ValueError(f"`grad` has shape {tuple(grad.shape)}: expected (..., {weight.shape[0]})")
    return grad.new_empty((*grad.shape[:-1], weight.shape[1]))


def _fake_weight_gradient(grad, x):
    if grad.shape[:-1] != x.shape[:-1]:
        raise ValueError(f"`grad` has shape {tuple(grad.shape)}: expected {(*x.shape[:-1], 'n')}")
    return grad.new_empty((grad.shape[-1], x.shape[-1]))


@operator("linear_x_backward(Tensor grad, Tensor weight) -> Tensor", fake=_fake_x_gradient, sharding=_sharding.layer_x_gradient)
def linear_x_backward(grad, weight):
    """grad (..., n) @ weight (n, k): the gradient of `x`."""
    _arguments.one_dtype(grad=grad, weight=weight)
    out = torch.empty((*grad.shape[:-1], weight.shape[1]), dtype=grad.dtype, device=grad.device)
    if out.numel():
        product_into(out.view(-1, weight.shape[1]), rows_of(grad), weight)
    return out


@operator("linear_weight_backward(Tensor grad, Tensor x) -> Tensor", fake=_fake_weight_gradient, sharding=_sharding.layer_weight_gradient)
def linear_weight_backward(grad, x):
    """grad (..., n).T @ x (..., k): the gradient of `weight`."""
    _arguments.one_dtype(grad=grad, x=x)
    out = torch.empty((grad.shape[-1], x.shape[-1]), dtype=grad.dtype, device=grad.device)
    return product_into(out, rows_of(grad).t(), rows_of(x))


@operator("linear_activation_backward(Tensor grad, Tensor before, str activation) -> Tensor", fake=lambda grad, before, activation: before.new_empty(before.shape),
          sharding=_sharding.elementwise(True, True, False))
def linear_activation_backward(grad, before, activation):
    """The gradient of what the activation is applied to, `before`, from that of its result."""
    out = torch.empty(before.shape, dtype=before.dtype, device=before.device)
    run(GRADIENTS[activation], [grad, before], [], [out])
    return out


def wanted(ctx, count):
    """For each of `count` arguments whether its gradient is needed; the dispatcher leaves out trailing arguments that have their defaults."""
    return (*ctx.needs_input_grad, *[False] * count)[:count]


def _gradients(ctx, grad, before):
    """before: what the activation was applied to, or a function that computes it; with "relu" the result does as well."""
    x, weight = ctx.saved_tensors[:2]
    needs = wanted(ctx, 5)
    inner = grad
    if ctx.activation != "none" and any(needs[:3]):
        inner = linear_activation_backward(grad, before() if callable(before) else before, ctx.activation)
    return (linear_x_backward(inner, weight) if needs[0] else None, linear_weight_backward(inner, x) if needs[1] else None,
            inner.sum(tuple(range(inner.dim() - 1))) if needs[2] and inner.dim() > 1 else inner if needs[2] else None, None, grad if needs[4] else None)


def _save(ctx, inputs, output):
    x, weight, bias, ctx.activation, residual = inputs
    # The sign of the result is that of relu's input.
    ctx.result = ctx.activation == "relu" and residual is None
    ctx.save_for_backward(x, weight, bias, *([output] if ctx.result else []))


def _backward(ctx, grad):
    x, weight, bias = ctx.saved_tensors[:3]
    return _gradients(ctx, grad, ctx.saved_tensors[3] if ctx.result else lambda: torch.ops.nereid.linear(x, weight, bias, "none", None))


@operator("linear(Tensor x, Tensor weight, Tensor? bias=None, str activation=\"none\", Tensor? residual=None) -> Tensor", fake=_fake, backward=_backward, save=_save,
          sharding=_sharding.layer)
def linear_alone(x, weight, bias, activation, residual):
    """`linear`; a gradient that needs what the activation was applied to computes it again."""
    return _apply(x, weight, bias, activation, residual, False)[0]


def _save_both(ctx, inputs, output):
    x, weight, _, ctx.activation, _ = inputs
    ctx.save_for_backward(x, weight, output[1])
    ctx.mark_non_differentiable(output[1])


@operator("linear_saving(Tensor x, Tensor weight, Tensor? bias=None, str activation=\"none\", Tensor? residual=None) -> (Tensor, Tensor)",
          fake=lambda *arguments: (_fake(*arguments), _fake(*arguments)), backward=lambda ctx, grad, _: _gradients(ctx, grad, ctx.saved_tensors[2]), save=_save_both,
          sharding=_sharding.saving_layer)
def linear_saving(x, weight, bias, activation, residual):
    """The results of `linear`, and what the activation is applied to. The second result has no gradient."""
    return _apply(x, weight, bias, activation, residual, True)


def linear(x, weight, bias=None, activation="none", residual=None):
    """activation(x @ weight.T + bias) + residual, in one launch (two where the summed dimension is cut into parts).

    x: (..., k); weight: (n, k); bias: (n,) or None; residual: (..., n) or None; of one float dtype and device, any strides. activation: "none", "relu", "gelu" (with erf),
    "gelu_tanh" or "silu". The result (..., n) is contiguous; sums, bias, activation and residual are computed in fp32 (fp64 for fp64) and rounded once.
    What the activation is applied to is written to memory only if a gradient needs it.

    Raises TypeError for other dtypes, ValueError for shapes or devices that do not fit and unknown activations.
    """
    if activation in ("gelu", "gelu_tanh", "silu") or activation == "relu" and residual is not None:
        if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in (x, weight, bias)):
            return linear_saving(x, weight, bias, activation, residual)[0]
    return linear_alone(x, weight, bias, activation, residual)


def _check_gated(x, gate_weight, up_weight):
    shape = check_layer(x, gate_weight, name="gate_weight")
    check_layer(x, up_weight, name="up_weight")
    _arguments.shape(up_weight, gate_weight.shape, "up_weight")
    return shape


def _apply_gated(x, gate_weight, up_weight, save):
    shape = _check_gated(x, gate_weight, up_weight)
    n = gate_weight.shape[0]
    out = torch.empty(shape, dtype=x.dtype, device=x.device)
    saved = tuple(torch.empty(shape, dtype=x.dtype, device=x.device) for _ in range(2)) if save else None
    if out.numel():
        if gate_weight.stride() != up_weight.stride():
            gate_weight, up_weight = gate_weight.contiguous(), up_weight.contiguous()
        grouped_rows(out.view(-1, n), rows_of(x), gate_weight.unsqueeze(0), up=up_weight.unsqueeze(0), saved=tuple(item.view(-1, n) for item in saved) if save else None)
    return (out, *saved) if save else out


def _gated_gradients(ctx, grad, gate, up):
    x, gate_weight, up_weight = ctx.saved_tensors[:3]
    needs = wanted(ctx, 3)
    gate_grad, up_grad = swiglu_backward(grad, gate, up)
    return (linear_swiglu_x_backward(gate_grad, up_grad, gate_weight, up_weight) if needs[0] else None, linear_weight_backward(gate_grad, x) if needs[1] else None,
            linear_weight_backward(up_grad, x) if needs[2] else None)


def _backward_gated(ctx, grad):
    x, gate_weight, up_weight = ctx.saved_tensors
    return _gated_gradients(ctx, grad, torch.ops.nereid.linear(x, gate_weight), torch.ops.nereid.linear(x, up_weight))


def _save_gated(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _save_gated_both(ctx, inputs, output):
    ctx.save_for_backward(*inputs, *output[1:])
    ctx.mark_non_differentiable(*output[1:])


@operator("linear_swiglu_x_backward(Tensor gate_grad, Tensor up_grad, Tensor gate_weight, Tensor up_weight) -> Tensor",
          fake=lambda gate_grad, up_grad, gate_weight, up_weight: _fake_x_gradient(gate_grad, gate_weight), sharding=_sharding.layer_x_gradient)
def linear_swiglu_x_backward(gate_grad, up_grad, gate_weight, up_weight):
    """gate_grad (..., n) @ gate_weight (n, k) + up_grad @ up_weight; the first product is kept in fp32."""
    k = gate_weight.shape[1]
    out = torch.empty((*gate_grad.shape[:-1], k), dtype=gate_grad.dtype, device=gate_grad.device)
    if out.numel():
        first = torch.empty((out.numel() // k, k), dtype=torch.promote_types(out.dtype, torch.float32), device=out.device)
        product_into(first, rows_of(gate_grad), gate_weight)
        product_into(out.view(-1, k), rows_of(up_grad), up_weight, first)
    return out


@operator("linear_swiglu(Tensor x, Tensor gate_weight, Tensor up_weight) -> Tensor", fake=lambda x, gate_weight, up_weight: x.new_empty(_check_gated(x, gate_weight, up_weight)),
          backward=_backward_gated, save=_save_gated, sharding=_sharding.gated_layer)
def linear_swiglu_alone(x, gate_weight, up_weight):
    """`linear_swiglu`; its gradient computes both products again."""
    return _apply_gated(x, gate_weight, up_weight, False)


@operator("linear_swiglu_saving(Tensor x, Tensor gate_weight, Tensor up_weight) -> (Tensor, Tensor, Tensor)",
          fake=lambda x, gate_weight, up_weight: tuple(x.new_empty(_check_gated(x, gate_weight, up_weight)) for _ in range(3)),
          backward=lambda ctx, grad, *_: _gated_gradients(ctx, grad, *ctx.saved_tensors[3:]), save=_save_gated_both,
          sharding=_sharding.saving_gated_layer)
def linear_swiglu_saving(x, gate_weight, up_weight):
    """The result of `linear_swiglu` and both products, which have no gradient."""
    return _apply_gated(x, gate_weight, up_weight, True)


def linear_swiglu(x, gate_weight, up_weight):
    """silu(x @ gate_weight.T) * (x @ up_weight.T): both products in one launch that reads x once.

    x: (..., k); gate_weight, up_weight: (n, k); of one float dtype and device, any strides (weights whose strides differ are copied). The result (..., n) is contiguous;
    it is computed in fp32 (fp64 for fp64) and rounded once. The products are written to memory only if a gradient needs them.

    Raises TypeError for other dtypes, ValueError for shapes or devices that do not fit.
    """
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (x, gate_weight, up_weight)):
        return linear_swiglu_saving(x, gate_weight, up_weight)[0]
    return linear_swiglu_alone(x, gate_weight, up_weight)
