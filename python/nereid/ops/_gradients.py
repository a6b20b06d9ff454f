"""Derivatives of operators that `pointwise` makes, of any order: the compiler differentiates the scalar function."""

import dataclasses
import functools

import torch

import nereid

from . import _promotion
from ._launch import launch
from .kernels import pointwise as kernels


@dataclasses.dataclass(frozen=True)
class _Order:
    """A derivative of `kernels.dense`. Order 0 is this kernel itself, order k + 1 the gradient of order k: it reads what order k reads, and the gradients of what order k writes.

    kernel: the jit function. inputs, outputs: names of parameters, each a tuple of operands. unused: {parameter of the outputs of a lower order: that of their gradients}.
    without: arguments with which the kernel has one step, without memory for saved values.
    """
    kernel: object
    inputs: tuple
    outputs: tuple
    unused: dict
    without: dict


@functools.cache
def _order(order):
    if order == 0:
        return _Order(kernels.dense, ("ins", ), ("outs", ), {}, {})
    of = _order(order - 1)
    names = {name: f"d{order}_{name}" for name in (*of.inputs, *of.outputs)}
    given = {name: names[name] for name in of.outputs}
    kernel = nereid.grad(of.kernel, wrt={name: names[name] for name in of.inputs}, out=given).backward.kernel
    return _Order(kernel, (*of.inputs, *given.values()), tuple(names[name] for name in of.inputs), of.unused | given, of.without | {kernel.saved: None, kernel.step: 0})


@dataclasses.dataclass(frozen=True)
class _Call:
    """What all derivatives of a call share. rule, scalars: as for the call. common: the promoted dtype. dtypes: of the outputs. inputs: how many."""
    rule: object
    scalars: tuple
    common: torch.dtype
    dtypes: tuple
    inputs: int

    def counts(self, order):
        """How many operands each input of a derivative of this order has, and each output."""
        inputs, outputs = (self.inputs, ), (len(self.dtypes), )
        for _ in range(order):
            inputs, outputs = (*inputs, *outputs), inputs
        return inputs, outputs


def is_wanted(inputs):
    """Whether a call with these inputs takes part in autograd."""
    return torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs)


class Pointwise(torch.autograd.Function):
    """A call of an operator. `function`: computes the list of its outputs."""

    @staticmethod
    def forward(ctx, function, rule, scalars, *inputs):
        outs = function()
        ctx.rule, ctx.scalars = rule, scalars
        ctx.dtypes = tuple(out.dtype for out in outs)
        _save(ctx, inputs)
        ctx.mark_non_differentiable(*(out for out in outs if not out.is_floating_point()))
        return tuple(outs)

    @staticmethod
    def backward(ctx, *gradients):
        inputs = _saved(ctx)
        given = next((gradient for gradient in gradients if gradient is not None), None)
        if given is None:
            return (None, ) * (3 + len(inputs))
        rule = ctx.rule
        operands = [x for i, x in enumerate(inputs) if i not in rule.raw]
        common, _ = _promotion.promoted(operands or inputs, rule.promotion)
        call = _Call(rule, ctx.scalars, common, ctx.dtypes, len(inputs))
        # All of the same shape and dense: gradients of what is broadcast are summed afterwards, the same in every run. PyTorch differentiates these steps.
        ins = [x.to(given.device).expand(given.shape).contiguous() if isinstance(x, torch.Tensor) else _number(x, common) for x in inputs]
        found = _Derivative.apply(call, 1, ctx.needs_input_grad[3:], *ins, *map(_dense, gradients))
        return (None, None, None, *(None if gradient is None else gradient.sum_to_size(x.shape).to(x.device) for x, gradient in zip(inputs, found)))


class _Derivative(torch.autograd.Function):
    """A derivative, of order 1 or more. inputs: tensors of one shape and dense, numbers and None, those of each parameter behind those of the one before; needed: which outputs are, in the same way.
    Returns the outputs, None for those that are not needed."""

    @staticmethod
    def forward(ctx, call, order, needed, *inputs):
        ctx.call, ctx.order = call, order
        _save(ctx, inputs)
        return tuple(_compute(call, order, needed, inputs))

    @staticmethod
    def backward(ctx, *gradients):
        inputs = _saved(ctx)
        if all(gradient is None for gradient in gradients):
            return (None, ) * (3 + len(inputs))
        return (None, None, None, *_Derivative.apply(ctx.call, ctx.order + 1, ctx.needs_input_grad[3:], *inputs, *map(_dense, gradients)))


def _compute(call, order, needed, inputs):
    derivative = _order(order)
    input_counts, output_counts = call.counts(order)
    like = next(x for x in inputs[call.inputs:] if x is not None)  # a gradient that was given: the shape and device of all
    found = [torch.zeros(like.shape, dtype=x.dtype, device=like.device) if need else None for x, need in zip(inputs, needed)]
    numel = like.numel()
    if numel:
        arguments = dict(zip(derivative.inputs, _grouped(inputs, input_counts))) | dict(zip(derivative.outputs, _grouped(found, output_counts)))
        # Outputs of lower orders are neither read nor written. Their types count.
        unused = {name: arguments[gradient] for name, gradient in derivative.unused.items()}
        unused["outs"] = tuple([torch.empty(0, dtype=dtype, device=like.device) if x is None else x for dtype, x in zip(call.dtypes, unused["outs"])])
        block = 4096 if like.device.type == "cpu" else 1024
        launch(derivative.kernel, -(-numel // block), like.device, {"scalars": call.scalars, "numel": numel} | arguments | unused | derivative.without,
               call.rule.constants(call.common) | {"BLOCK": block})
    return found


def _save(ctx, inputs):
    ctx.others = [None if isinstance(x, torch.Tensor) else (x, ) for x in inputs]
    ctx.save_for_backward(*(x for x in inputs if isinstance(x, torch.Tensor)))
    ctx.set_materialize_grads(False)


def _saved(ctx):
    tensors = iter(ctx.saved_tensors)
    return [next(tensors) if other is None else other[0] for other in ctx.others]


def _grouped(items, counts):
    items = iter(items)
    return [tuple([next(items) for _ in range(count)]) for count in counts]


def _dense(gradient):
    return None if gradient is None else gradient.contiguous()


def _number(value, common):
    return float(value) if common.is_floating_point else int(value)
