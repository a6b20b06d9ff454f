"""Operators that ATen's schemas do not show as pointwise: gated linear units, whose inputs are halves of a tensor, and log_sigmoid_forward."""

import dataclasses

import torch

from .._declare import Native, declare
from ..functions import activation
from ..pointwise import FLOATS, Pointwise, Rule, run


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gated(Pointwise):
    """Reads, and backwards writes, the two halves of `self` along the argument `dim`."""

    def accepts(self, form):
        return form.returns == 1

    def call(self, form, values, outs):
        x, dim = values["self"], values["dim"]
        if not x.dim() or not -x.dim() <= dim < x.dim() or x.shape[dim] % 2:
            return Native("shapes")
        (rule, ), half = self.rules.values(), x.shape[dim] // 2
        if x.dtype not in rule.dtypes:
            return Native("dtype")

        def halves(tensor):
            return [tensor.narrow(dim, 0, half), tensor.narrow(dim, half, half)]

        if "grad_output" not in values:
            results = run(rule, halves(x), (), outs)
            return results if type(results) is Native else results[0]
        gradient = values["grad_output"]
        if gradient.shape != halves(x)[0].shape or gradient.dtype != x.dtype:
            return Native("shapes")
        if outs is not None and (outs[0].shape != x.shape or outs[0].dtype != x.dtype):
            return Native("shape of the output")
        result = torch.empty(x.shape, dtype=x.dtype, device=x.device) if outs is None else outs[0]
        found = run(rule, [gradient, *halves(x)], (), halves(result))
        return found if type(found) is Native else result


@dataclasses.dataclass(frozen=True, kw_only=True)
class LogSigmoid(Pointwise):
    """`log_sigmoid_forward`: a second result that the backward step reads on CPUs, and that is empty on GPUs. Rules: by the number of results."""

    def accepts(self, form):
        return form.kind == "functional"

    def call(self, form, values, outs):
        x = values["self"]
        if x.device.type == "cpu":
            # ATen resizes empty tensors: the layouts are contiguous, that of the first one may be channels last.
            if x.dtype not in FLOATS or x.layout is not torch.strided:
                return Native("dtype")
            results = run(self.rules[2, ], [x], (), [torch.empty(x.shape, dtype=x.dtype, memory_format=torch._prims_common.suggest_memory_format(x)), torch.empty(x.shape, dtype=x.dtype)])
            return results if type(results) is Native else tuple(results)
        results = run(self.rules[1, ], [x], ())
        return results if type(results) is Native else (results[0], torch.empty(0, dtype=x.dtype, device=x.device))


declare(Gated(name="glu", inputs=("self", ), choices=("dim", ), rules={(): Rule(function=activation.glu, dtypes=FLOATS)}))
declare(Gated(name="glu_backward", inputs=("grad_output", "self"), choices=("dim", ), rules={(): Rule(function=activation.glu_backward, dtypes=FLOATS, results=2)}))
declare(LogSigmoid(name="log_sigmoid_forward", inputs=("self", ), rules={
    (2, ): Rule(function=activation.log_sigmoid, dtypes=FLOATS, results=2),
    (1, ): Rule(function=activation.log_sigmoid_alone, dtypes=FLOATS),
}))
