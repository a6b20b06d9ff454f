"""Gradients of operators that `pointwise` makes: the compiler differentiates the scalar function."""

import functools

import torch

import nereid

from . import _promotion
from ._launch import launch
from .kernels import pointwise as kernels


@functools.cache
def _kernel():
    """The gradient of `kernels.dense`: a kernel that reads the gradients of `outs` and adds to those of `ins`."""
    return nereid.grad(kernels.dense, wrt="ins", out="outs").backward.kernel


def is_wanted(inputs):
    """Whether a call with these inputs takes part in autograd."""
    return torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs)


class Pointwise(torch.autograd.Function):
    """A call of an operator. `function`: computes the list of its outputs."""

    @staticmethod
    def forward(ctx, function, rule, scalars, *inputs):
        outs = function()
        ctx.rule, ctx.scalars = rule, scalars
        ctx.numbers = [None if isinstance(x, torch.Tensor) else x for x in inputs]
        ctx.outs = [out.dtype for out in outs]
        ctx.save_for_backward(*(x for x in inputs if isinstance(x, torch.Tensor)))
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(out for out in outs if not out.is_floating_point()))
        return tuple(outs)

    @staticmethod
    def backward(ctx, *gradients):
        tensors = iter(ctx.saved_tensors)
        inputs = [next(tensors) if number is None else number for number in ctx.numbers]
        return (None, None, None, *_Backward.apply(ctx.rule, ctx.scalars, ctx.outs, ctx.needs_input_grad[3:], len(inputs), *inputs, *gradients))


class _Backward(torch.autograd.Function):
    """The gradients of the inputs, which have no gradients themselves."""

    @staticmethod
    def forward(ctx, rule, scalars, dtypes, needed, count, *tensors):
        ctx.rule = rule
        return tuple(_gradients(rule, tensors[:count], scalars, dtypes, tensors[count:], needed))

    @staticmethod
    def backward(ctx, *gradients):
        raise NotImplementedError(f"{ctx.rule.function.__name__}: second derivatives of operators made by `pointwise` are not supported: compute the gradient "
                                  f"without `create_graph=True`")


def _gradients(rule, inputs, scalars, dtypes, gradients, needed):
    """The gradient of each input, None for those that need none. dtypes: of the outputs. gradients: of the outputs, None where there is none."""
    given = next((gradient for gradient in gradients if gradient is not None), None)
    if given is None:
        return [None] * len(inputs)
    shape, device = given.shape, given.device
    operands = [x for i, x in enumerate(inputs) if i not in rule.raw]
    common, _ = _promotion.promoted(operands or inputs, rule.promotion)
    # All of the same shape and dense: gradients of what is broadcast are summed afterwards, the same in every run.
    ins = [x.to(device).expand(shape).contiguous() if isinstance(x, torch.Tensor) else _number(x, common) for x in inputs]
    found = [torch.zeros(shape, dtype=x.dtype, device=device) if need else None for x, need in zip(inputs, needed)]
    numel = given.numel()
    if numel:
        dense = [None if gradient is None else gradient.contiguous() for gradient in gradients]
        outs = [torch.empty(0, dtype=dtype, device=device) if gradient is None else gradient for dtype, gradient in zip(dtypes, dense)]
        block = 4096 if device.type == "cpu" else 1024
        kernel = _kernel()
        # Without memory for saved values the kernel has one step.
        launch(kernel, -(-numel // block), device, {"outs": tuple(outs), "ins": tuple(ins), "scalars": scalars, "numel": numel,
                                                    "dins": tuple(found), "douts": tuple(dense), kernel.saved: None, kernel.step: 0},
               rule.constants(common) | {"BLOCK": block})
    return [None if gradient is None else gradient.sum_to_size(x.shape).to(x.device) for x, gradient in zip(inputs, found)]


def _number(value, common):
    return float(value) if common.is_floating_point else int(value)
