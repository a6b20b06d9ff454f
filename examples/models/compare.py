"""One step of a model computed three ways: ATen in float64, ATen in the dtype at hand, and `nereid.ops`. How far the last two are from the first.

The rule (`Comparison.holds`): the error of logits, loss and each gradient on `nereid.ops` is at most twice ATen's plus one unit of rounding of the dtype. An error is the root of the
sum of squares of the difference, relative to that of the float64 result; where a gradient is small because terms cancel (that of a bias of keys is 0 in exact arithmetic), relative to
`FLOOR` times the largest gradient. The loss, a single number, may also have twice the error of ATen's logits. Errors are root mean squares over several models with other random weights, because in a single one a few roundings may cancel by chance.
"""

import contextlib
import copy
import dataclasses
import math

import calls
import torch
from torch.overrides import TorchFunctionMode

import nereid.ops

#: Gradients below this part of the largest one are compared with this part.
FLOOR = 1e-3
#: The error on `nereid.ops` is at most FACTOR times ATen's, plus a unit of rounding.
FACTOR = 2.0


class InDouble(TorchFunctionMode):
    """A `with` block in which what asks for float32 gets float64: models convert to float32 by themselves, which would make the reference no better than what it judges."""

    _NARROW = (torch.float32, torch.float16, torch.bfloat16)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        return function(*map(self._widened, args), **{key: self._widened(value) for key, value in (kwargs or {}).items()})

    def _widened(self, argument):
        return torch.float64 if type(argument) is torch.dtype and argument in self._NARROW else argument


@dataclasses.dataclass
class Step:
    """What a step yields: the loss, the logits (or what stands for them), and gradients by parameter."""
    loss: torch.Tensor
    logits: torch.Tensor
    gradients: dict


def _logits(output):
    for name in ("logits", "logits_per_image", "last_hidden_state"):
        if getattr(output, name, None) is not None:
            return getattr(output, name)
    raise TypeError(f"{type(output).__name__} has no logits")


def step(model, inputs, optimizer=None):
    """Forward, backward and, with an optimizer (a function of parameters), an update of the parameters after clipping. Returns a `Step`."""
    output = model(**inputs)
    output.loss.backward()
    result = Step(output.loss.detach(), _logits(output).detach(), {name: parameter.grad.detach().clone() for name, parameter in model.named_parameters() if parameter.grad is not None})
    if optimizer is not None:
        parameters = [parameter for parameter in model.parameters() if parameter.grad is not None]
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer(parameters).step()
    return result


def reference(model, inputs):
    """The `Step` of a copy of the model in float64 on ATen, with the same weights."""
    inputs = {key: value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value for key, value in inputs.items()}
    model = copy.deepcopy(model).double()
    if model._can_set_experts_implementation():
        model.set_experts_implementation("batched_mm")  # ATen's grouped products have no float64
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with InDouble():
            return step(model, inputs)
    finally:
        torch.set_default_dtype(before)


def errors(found, exact):
    """{"logits", "loss" or the name of a parameter: error} of a step against that in float64."""

    def norm(x):
        return torch.linalg.vector_norm(x.double()).item()

    largest = max(map(norm, exact.gradients.values()))
    result = {}
    for name, mine, its, least in [("logits", found.logits, exact.logits, 0.0), ("loss", found.loss, exact.loss, 0.0),
                                   *((name, found.gradients[name], its, FLOOR * largest) for name, its in exact.gradients.items())]:
        result[name] = norm(mine.double() - its.double()) / max(norm(its), least, 1e-30)
    return result


@dataclasses.dataclass
class Comparison:
    """mine, atens: errors by name (see `errors`). served, total: calls of ATen's operators with floating-point tensors in a training step that kernels of `nereid.ops` computed, at least, and all.
    left: {"overload: reason": calls that ATen computed}, also of integers."""
    dtype: torch.dtype
    mine: dict
    atens: dict
    served: int
    total: int
    left: dict

    @property
    def unit(self):
        return torch.finfo(self.dtype).eps / 2

    def excess(self, name):
        """The error over what the rule allows: above 1 it is broken."""
        atens = max(self.atens["loss"], self.atens["logits"]) if name == "loss" else self.atens[name]
        return self.mine[name] / (FACTOR * atens + self.unit)

    @property
    def worst(self):
        """The name where the error is greatest for what is allowed."""
        return max(self.mine, key=self.excess)

    @property
    def holds(self):
        return self.excess(self.worst) <= 1

    @property
    def gradients(self):
        """(the greatest error of a gradient on `nereid.ops`, on ATen)"""
        return tuple(max(error for name, error in errors.items() if name not in ("logits", "loss")) for errors in (self.mine, self.atens))


def _adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01)


def _mean(found):
    """The root mean square, by name, of several results of `errors`."""
    return {name: math.sqrt(sum(errors[name]**2 for errors in found) / len(found)) for name in found[0]}


def compared(make, dtype, key="CPU", patch=None, routing=False, seeds=3, operators=True):
    """A `Comparison` for a function of a seed that makes (model, inputs). key: "CPU" or "CUDA". patch: a function of a model that returns a context manager, in which the second run is.
    routing: whether calls for which ATen was measured to be faster are left to it. seeds: how many models are compared; calls are counted in the first one, without those of fused operators.
    operators: False: without `nereid.ops`, so that `patch` alone is judged; then no calls are served."""
    mine, theirs = [], []
    for seed in range(seeds):
        exact = reference(*make(seed))
        model, inputs = make(seed)
        theirs.append(errors(step(model, inputs, _adamw), exact))
        if seed == 0:
            model, inputs = make(seed)
            recorder = calls.Recorder(key)
            with patch(model) if patch else contextlib.nullcontext(), recorder:
                step(model, inputs, _adamw)
        model, inputs = make(seed)
        nereid.ops.report(clear=True)
        with nereid.ops.use(routing=routing) if operators else contextlib.nullcontext(), patch(model) if patch else contextlib.nullcontext():
            found = step(model, inputs, _adamw)
        if seed == 0:
            counts = _served(recorder.found(), nereid.ops.report(), key) if operators else (0, calls.share(recorder.found(), key)[1], {})
        mine.append(errors(found, exact))
    nereid.ops.report(clear=True)
    return Comparison(dtype, _mean(mine), _mean(theirs), *counts)


def _served(found, rows, key):
    """(served, total, left) of a `Comparison` from the calls of a step on ATen and the report of the same step."""
    served, total = calls.share(found, key)
    served -= sum(floats for overload, (_, floats) in found.items() if calls.state(overload, key) == "random")
    left = {}
    for row in rows:
        if row.route != "nereid":
            served -= min(row.calls, found.get(row.overload, (0, 0))[1])  # at most so many of them had floating-point tensors
            left[f"{row.overload}: {row.reason}"] = left.get(f"{row.overload}: {row.reason}", 0) + row.calls
    return served, total, left
