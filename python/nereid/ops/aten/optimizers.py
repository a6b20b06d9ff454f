"""Fused optimizers of ATen: `_fused_adam_`, `_fused_adamw_`, `_fused_sgd_`, `_fused_adagrad_`."""

import dataclasses
import math

import torch

from .. import _lists
from .._declare import Native, Operator, declare
from .._launch import DTYPES, launch
from .._strided import COMPUTE, FLOATS, STORAGE
from ..kernels import foreach as kernels, optimizers
from .foreach import FIRSTS, unlike


def _logarithm(beta):
    return math.log(beta) if beta else float("-inf")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Update(Operator):
    """A step of an optimizer, in place, for lists of tensors.

    kernel: of kernels/foreach.py or kernels/optimizers.py. lists_of: {parameter of the kernel: argument} of the lists that are updated; one that is empty is passed as None. numbers: {parameter: argument} of
    floats. constants: {constant of the kernel: argument, or what it is}. betas: `beta1` and `beta2` are passed with their logarithms. absent: parameters of the
    kernel that ATen has no lists for.
    """
    kernel: object
    lists_of: dict
    numbers: dict
    constants: dict
    betas: bool = False
    absent: tuple = ()

    family = "optimizer"
    lists = True

    def accepts(self, form):
        return form.kind == "inplace"

    def call(self, form, values, outs):
        unused = "max_exp_avg_sqs" if not values.get("amsgrad", True) else "momentum_buffer_list" if not values.get("momentum", True) else None
        taken = {parameter: values[name] for parameter, name in self.lists_of.items() if values[name] and name != unused}
        why = unlike(list(taken.values())) if taken else Native("lists")
        if why is not None:
            return why
        device, steps = taken["params"][0].device, values.get("state_steps")
        numbers = {name: values[name] for name in ("grad_scale", "found_inf")} | {"lr_tensor": values["lr"] if isinstance(values["lr"], torch.Tensor) else None}
        for tensor in (*numbers.values(), *(steps or ())):
            if tensor is not None and (tensor.numel() != 1 or tensor.dtype not in FLOATS or tensor.device != device):
                return Native("numbers")
        if steps is not None and len(steps) != len(taken["params"]) or values.get("amsgrad") and "greatest" not in taken:
            return Native("lists")
        if self.betas and not (0 <= values["beta1"] < 1 and 0 <= values["beta2"] < 1):
            return Native("betas")
        if _lists.overlap(list(taken.values()), [steps] if steps else []):
            return Native("overlap")
        numbers["lr"] = 0.0 if numbers["lr_tensor"] is not None else float(values["lr"])
        numbers |= {parameter: float(values[name]) for parameter, name in self.numbers.items()}
        if self.betas:
            numbers |= {f"log_{name}": _logarithm(values[name]) for name in ("beta1", "beta2")}
        self._launch(taken, steps, numbers, {name: values[its] if isinstance(its, str) else its for name, its in self.constants.items()}, device)
        return None

    def _launch(self, taken, steps, numbers, constants, device):
        block = 1024 if device.type == "cpu" else 2048
        for places in _lists.groups(list(taken.values()), _lists.SOME):
            batch = [[tensors[place] for place in places] for tensors in taken.values()]
            kinds, aligned, firsts, sizes, programs = _lists.laid_out(batch, _lists.SOME, block)
            arguments = dict.fromkeys((*self.lists_of, *self.absent)) | dict(zip(taken, kinds)) | numbers | {"firsts": firsts, "sizes": sizes}
            if steps is not None:
                arguments["steps"] = _lists.filled([steps[place] for place in places], _lists.SOME)
            compute = COMPUTE[batch[0][0].dtype]
            launch(self.kernel, programs, device, arguments, constants | {"COMPUTE": DTYPES[STORAGE[compute]], "ALIGNED": aligned, "BLOCK": block}, FIRSTS, num_warps=4)


_COMMON = {"params": "self", "grads": "grads"}
_ADAM = {**_COMMON, "averages": "exp_avgs", "squares": "exp_avg_sqs", "greatest": "max_exp_avg_sqs"}
for _name, _decoupled in (("_fused_adam", False), ("_fused_adamw", True)):
    declare(Update(name=_name, kernel=optimizers.adam, lists_of=_ADAM, absent=("masters", ), betas=True, numbers={"beta1": "beta1", "beta2": "beta2", "eps": "eps", "decay": "weight_decay"},
                   constants={"DECOUPLED": _decoupled, "MAXIMIZE": "maximize", "COUNTED": True}))
declare(Update(name="_fused_sgd", kernel=kernels.sgd, lists_of={**_COMMON, "buffers": "momentum_buffer_list"},
               numbers={"decay": "weight_decay", "momentum": "momentum", "dampening": "dampening"},
               constants={"NESTEROV": "nesterov", "MAXIMIZE": "maximize", "FIRST": "is_first_step"}))
declare(Update(name="_fused_adagrad", kernel=kernels.adagrad, lists_of={**_COMMON, "totals": "state_sums"},
               numbers={"lr_decay": "lr_decay", "decay": "weight_decay", "eps": "eps"}, constants={"MAXIMIZE": "maximize"}))
