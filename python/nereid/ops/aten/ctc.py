"""Connectionist temporal classification of ATen, with its gradient."""

import torch

from .._declare import Native, declare
from .._indexed import INDICES
from .._launch import launch
from .._moves import foreign
from .._strided import FLOATS, cdiv
from ..kernels import ctc as kernels
from ._computed import Computed

KIND = "loss"
#: The longest sequence of states that fits into the block of a program.
MOST = 4096
_TENSORS = "its lengths are tensors, which ATen reads on the host"


class _Sequences:
    """The arguments that both directions have; `wrong`: why ATen has to decide, or None."""

    def __init__(self, values):
        x, targets = values["log_probs"], values["targets"]
        inputs, lengths, self.blank = values["input_lengths"], values["target_lengths"], values["blank"]
        self.wrong = foreign(x, targets)
        if self.wrong is None and (x.dtype not in FLOATS[2:] or targets.dtype not in INDICES):
            self.wrong = Native("dtype")
        if self.wrong is not None:
            return
        if x.dim() != 3 or not x.numel() or targets.dim() not in (1, 2) or not 0 <= self.blank < x.shape[2]:
            self.wrong = Native("shapes")
            return
        time, count, self.classes = x.shape
        self.longest = max(lengths, default=0)
        self.block = max(16, 1 << (2 * self.longest).bit_length())
        fit = targets.numel() == sum(lengths) if targets.dim() == 1 else targets.shape[0] == count and self.longest <= targets.shape[1]
        if len(inputs) != count or len(lengths) != count or not fit or any(not 0 <= steps <= time for steps in inputs) or min(lengths, default=0) < 0:
            self.wrong = Native("lengths")
        elif self.block > MOST or not targets.numel():
            self.wrong = Native("length")
        if self.wrong is not None:
            return
        starts = [sum(lengths[:b]) * targets.stride(0) if targets.dim() == 1 else b * targets.stride(0) for b in range(count)]
        numbers = torch.tensor([inputs, lengths, starts], dtype=torch.int64).to(x.device)
        self.arguments = {"probabilities": x, "targets": targets, "input_lengths": numbers[0], "target_lengths": numbers[1], "starts": numbers[2], "strides": x.stride(),
                          "target_stride": targets.stride(-1), "classes": self.classes, "blank": self.blank}


def _forward(values, outs):
    sequences = _Sequences(values)
    if sequences.wrong is not None:
        return sequences.wrong
    x, width = values["log_probs"], 2 * sequences.longest + 1
    time, count, _ = x.shape
    losses = torch.empty((count, ), dtype=x.dtype, device=x.device)
    alphas = torch.empty((count, time, width), dtype=x.dtype, device=x.device)
    launch(kernels.forward, count, x.device, sequences.arguments | {"losses": losses, "alphas": alphas, "time": time, "width": width}, {"BLOCK": sequences.block})
    return losses, alphas


def _gradient(values, outs):
    sequences = _Sequences(values)
    if sequences.wrong is not None:
        return sequences.wrong
    gradient, x, losses, alphas = values["grad"], values["log_probs"], values["neg_log_likelihood"], values["log_alpha"]
    time, count, classes = x.shape
    if foreign(gradient, losses, alphas, x) is not None or any(y.dtype != x.dtype for y in (gradient, losses, alphas)):
        return Native("dtype")
    if gradient.shape != losses.shape or tuple(losses.shape) != (count, ) or alphas.dim() != 3 or alphas.shape[:2] != (count, time) or alphas.shape[2] < 2 * sequences.longest + 1:
        return Native("shapes")
    if x.device.type != "cpu" and torch.are_deterministic_algorithms_enabled():
        return Native("deterministic")  # ATen raises an error
    result = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    losses, zero = losses.contiguous(), bool(values["zero_infinity"])
    common = {"result": result, "gradient": gradient, "losses": losses, "gradient_stride": gradient.stride(0), "result_strides": result.stride()}
    block = min(1024, max(16, 1 << (classes - 1).bit_length()))
    launch(kernels.gradient_start, (cdiv(classes, block), count, time), x.device, common | {
        "probabilities": x, "input_lengths": sequences.arguments["input_lengths"], "strides": x.stride(), "time": time, "count": count, "classes": classes
    }, {"ZERO": zero, "BLOCK": block})
    launch(kernels.backward, count, x.device, sequences.arguments | common | {"alphas": alphas, "alpha_strides": alphas.stride()}, {"ZERO": zero, "BLOCK": sequences.block})
    return result


declare(Computed(name="_ctc_loss", compute=_forward, kinds=("functional", ), results=2, kind=KIND, without={"_ctc_loss.Tensor": _TENSORS}))
declare(Computed(name="_ctc_loss_backward", compute=_gradient, kinds=("functional", ), kind=KIND, without={"_ctc_loss_backward.Tensor": _TENSORS}))
