"""Margin losses of ATen, with their gradients."""

import torch

from .._declare import Native, declare
from .._indexed import within
from .._launch import launch
from .._moves import foreign
from .._strided import COMPUTE, FLOATS, STORAGE
from ..kernels import margins as kernels
from ._computed import Computed
from ._outputs import made
from ._planes import OF_ONE

KIND = "loss"
NONE, MEAN, SUM = range(3)  # at::Reduction


def _block(columns):
    return min(1024, max(16, 1 << (columns - 1).bit_length()))


def _matrix(x):
    """One row as a matrix."""
    return x if x.dim() == 2 else x.unsqueeze(0)


def _unusable(x, target, others, outs, lists):
    """`Native` where ATen has to complain, or has no kernel. lists: targets are lists of classes, one for each row."""
    if (found := foreign(x, target, *others, *(outs or ()))) is not None:
        return found
    if x.dtype not in (FLOATS[2:] if x.device.type == "cpu" else FLOATS) or target.dtype != torch.int64 or any(y is not None and y.dtype != x.dtype for y in others):
        return Native("dtype")
    if x.dim() not in (1, 2) or not x.numel() or target.shape != (x.shape if lists else x.shape[:-1]) and not (not lists and x.dim() == 1 and target.numel() == 1):
        return Native("shapes")
    if target.device.type == "cpu" and not within(target, -1 if lists else 0, x.shape[-1] - 1):
        return Native("target")
    return None


def _reduced(losses, reduction, result):
    """Writes the losses of rows into a result, or their sum or mean."""
    if reduction == NONE:
        result.copy_(losses.view(result.shape))
    else:
        result.copy_(losses.sum() if reduction == SUM else losses.mean())


def _gradient_of_losses(gradient, x, reduction):
    """(the gradient of the losses as a tensor, its stride, the factor of each row), or None for other shapes."""
    rows, columns = _matrix(x).shape
    if reduction == NONE and x.dim() == 2:
        return (gradient, gradient.stride(0), 1 / columns) if gradient.shape == x.shape[:1] else None
    return (gradient, 0, 1 / (columns * (rows if reduction == MEAN else 1))) if gradient.numel() == 1 else None


def _multi_margin_options(values, x):
    p, margin, weight = values["p"], values["margin"], values["weight"]
    if isinstance(p, complex) or isinstance(margin, complex) or p not in (1, 2) or values["reduction"] not in (NONE, MEAN, SUM):
        return Native("parameter")
    if weight is not None and tuple(weight.shape) != (x.shape[-1] if x.dim() else 1, ):
        return Native("weights")
    return {"weight": weight, "weight_stride": 0 if weight is None else weight.stride(0), "margin": float(margin)}, {"P": int(p)}


def _multi_margin(values, outs):
    x, target, reduction = values["self"], values["target"], values["reduction"]
    found = _unusable(x, target, (values["weight"], ), outs, False) or _multi_margin_options(values, x)
    if type(found) is Native:
        return found
    arguments, constants = found
    results = made(outs, [(target.shape if reduction == NONE else (), x.dtype)], (x, target, values["weight"]), x.device)
    if type(results) is Native:
        return results
    matrix = _matrix(x)
    rows, columns = matrix.shape
    losses = torch.empty((rows, ), dtype=STORAGE[COMPUTE[x.dtype]], device=x.device)
    launch(kernels.multi_margin, rows, x.device, arguments | {
        "losses": losses, "x": matrix, "target": target.contiguous(), "columns": columns, "row_stride": matrix.stride(0), "column_stride": matrix.stride(1)
    }, constants | {"COMPUTE": COMPUTE[x.dtype], "BLOCK": _block(columns)})
    _reduced(losses, reduction, results[0])
    return results[0]


def _multi_margin_gradient(values, outs):
    gradient, x, target = values["grad_output"], values["self"], values["target"]
    found = _unusable(x, target, (values["weight"], gradient), outs, False) or _multi_margin_options(values, x)
    if type(found) is Native:
        return found
    arguments, constants = found
    shares = _gradient_of_losses(gradient, x, values["reduction"])
    results = Native("shapes") if shares is None else made(outs, [(x.shape, x.dtype)], (gradient, x, target, values["weight"]), x.device)
    if type(results) is Native:
        return results
    if not results[0].is_contiguous():
        return Native("strides of the output")
    matrix = _matrix(x)
    rows, columns = matrix.shape
    launch(kernels.multi_margin_gradient, rows, x.device, arguments | {
        "result": results[0], "gradient": shares[0], "gradient_stride": shares[1], "share": shares[2], "x": matrix, "target": target.contiguous(), "columns": columns,
        "row_stride": matrix.stride(0), "column_stride": matrix.stride(1)
    }, constants | {"COMPUTE": COMPUTE[x.dtype], "BLOCK": _block(columns)})
    return results[0]


def _multilabel_margin(values, outs):
    x, target, reduction = values["self"], values["target"], values["reduction"]
    if (found := _unusable(x, target, (), outs, True)) is not None:
        return found
    if reduction not in (NONE, MEAN, SUM):
        return Native("parameter")
    results = made(outs, [(x.shape[:1] if reduction == NONE and x.dim() == 2 else (), x.dtype), (x.shape, x.dtype)], (x, target), x.device)
    if type(results) is Native:
        return results
    if not results[1].is_contiguous():
        return Native("strides of the output")
    matrix = _matrix(x)
    rows, columns = matrix.shape
    losses = torch.empty((rows, ), dtype=STORAGE[COMPUTE[x.dtype]], device=x.device)
    launch(kernels.multilabel_margin, rows, x.device, {
        "losses": losses, "is_target": results[1], "x": matrix, "target": target.contiguous(), "columns": columns, "row_stride": matrix.stride(0),
        "column_stride": matrix.stride(1)
    }, {"COMPUTE": COMPUTE[x.dtype], "BLOCK": _block(columns)})
    _reduced(losses, reduction, results[0])
    return tuple(results)


def _multilabel_margin_gradient(values, outs):
    gradient, x, target, flags, reduction = (values[name] for name in ("grad_output", "self", "target", "is_target", "reduction"))
    if (found := _unusable(x, target, (gradient, flags), outs, True)) is not None:
        return found
    shares = _gradient_of_losses(gradient, x, reduction) if reduction in (NONE, MEAN, SUM) else None
    if shares is None or flags.shape != x.shape:
        return Native("shapes")
    results = made(outs, [(x.shape, x.dtype)], (gradient, x, target, flags), x.device)
    if type(results) is Native:
        return results
    if not results[0].is_contiguous():
        return Native("strides of the output")
    matrix = _matrix(x)
    rows, columns = matrix.shape
    launch(kernels.multilabel_margin_gradient, rows, x.device, {
        "result": results[0], "gradient": shares[0], "gradient_stride": shares[1], "share": shares[2], "is_target": flags.contiguous(), "x": matrix,
        "target": target.contiguous(), "columns": columns, "row_stride": matrix.stride(0), "column_stride": matrix.stride(1)
    }, {"COMPUTE": COMPUTE[x.dtype], "BLOCK": _block(columns)})
    return results[0]


declare(Computed(name="multi_margin_loss", compute=_multi_margin, kinds=OF_ONE, kind=KIND))
declare(Computed(name="multi_margin_loss_backward", compute=_multi_margin_gradient, kinds=OF_ONE, kind=KIND))
declare(Computed(name="multilabel_margin_loss_forward", compute=_multilabel_margin, kinds=OF_ONE, results=2, kind=KIND))
declare(Computed(name="multilabel_margin_loss_backward", compute=_multilabel_margin_gradient, kinds=OF_ONE, kind=KIND))
