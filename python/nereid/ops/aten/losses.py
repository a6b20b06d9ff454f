"""Losses of ATen, with their gradients."""

import dataclasses

import torch

from .._declare import Native, declare
from .._indexed import exist, within
from .._launch import DTYPES, launch
from .._strided import COMPUTE, FLOATS, cdiv
from ..functions import activation, losses as functions, reductions
from ..kernels import indexed as kernels
from ..pointwise import Rule, run
from ..reduction import Reduction
from . import bags
from ._outputs import made
from ._planes import programs_of
from .rows import OnRows

NONE, MEAN, SUM = range(3)  # at::Reduction


@dataclasses.dataclass(frozen=True)
class Loss:
    """A loss of an input and a target. element: of one element; state: the same for a reduction; parameter: the argument that is a number, or None."""
    element: object
    state: object
    parameter: str = None
    weighted: bool = False

    def __call__(self, values, outs):
        x, target = values["self"], values["target"]
        weight = values["weight"] if self.weighted else None
        if x.dtype not in FLOATS or any(other is not None and other.dtype != x.dtype for other in (target, weight)):
            return Native("dtype")
        parameters = [] if self.parameter is None else [float(values[self.parameter])]
        if any(parameter <= 0 for parameter in parameters):
            return Native("parameter")
        if self.weighted:
            if target.shape != x.shape or weight is not None and weight.shape != x.shape or not x.numel():
                return Native("shapes")
            if x.device.type == "cpu" and not within(x, 0.0, 1.0):
                return Native("range")
        if values["reduction"] == NONE:
            if outs is None and self.weighted:
                outs = [torch.empty_like(x)]
            found = run(Rule(function=self.element), [x, target, *([weight] if self.weighted else [])], parameters, outs)
            return found if type(found) is Native else found[0]
        if values["reduction"] not in (MEAN, SUM):
            return Native("reduction")
        try:
            tensors = torch.broadcast_tensors(*(tensor for tensor in (x, target, weight) if tensor is not None))
        except RuntimeError:
            return Native("shapes")
        results = made(outs, [((), x.dtype)], tensors, x.device)
        if type(results) is Native:
            return results
        finish = reductions.divided_by_count if values["reduction"] == MEAN else reductions.as_found
        Reduction(map=self.state, finish=finish, inputs=len(tensors)).launch(tensors, list(range(tensors[0].dim())), results, COMPUTE[x.dtype],
                                                                           (tensors[0].numel(), *parameters))
        return results[0]


def _cross_entropy_gradient(values, outs):
    gradient, x, target, weight = values["grad_output"], values["self"], values["target"], values["weight"]
    if x.dtype not in FLOATS or any(other is not None and other.dtype != x.dtype for other in (gradient, target, weight)):
        return Native("dtype")
    if not x.numel() or target.shape != x.shape or gradient.dim() and gradient.shape != x.shape or weight is not None and weight.shape != x.shape:
        return Native("shapes")
    norm = 1 / x.numel() if values["reduction"] == MEAN else 1.0
    found = run(Rule(function=functions.binary_cross_entropy_gradient), [gradient.expand(x.shape), x, target, weight], [norm],
                [torch.empty_like(x)] if outs is None else outs)
    return found if type(found) is Native else found[0]


declare(OnRows(name="mse_loss", tensors=("self", "target"), compute=Loss(activation.mse, functions.mse_state)))
declare(OnRows(name="smooth_l1_loss", tensors=("self", "target"), compute=Loss(activation.smooth_l1, functions.smooth_l1_state, "beta")))
declare(OnRows(name="huber_loss", tensors=("self", "target"), compute=Loss(activation.huber, functions.huber_state, "delta")))
declare(OnRows(name="binary_cross_entropy", tensors=("self", "target", "weight"),
               compute=Loss(functions.binary_cross_entropy, functions.binary_cross_entropy_state, weighted=True)))
declare(OnRows(name="binary_cross_entropy_backward", tensors=("grad_output", "self", "target", "weight"),
               compute=_cross_entropy_gradient))

SUMS = Reduction(map=functions.nll_sums, combine=functions.sums_of_three, identity=functions.three_zeros, states=("compute", ) * 3, inputs=3)
MEANS = dataclasses.replace(SUMS, finish=functions.nll_mean)


def _nll_shape(x, target, weight, spatial):
    """(outer, classes, inner) of the input, or None where ATen has to complain."""
    if spatial:
        if x.dim() != 4 or target.dim() != 3 or target.shape != (x.shape[0], *x.shape[2:]):
            return None
        shape = (x.shape[0], x.shape[1], x.shape[2] * x.shape[3])
    else:
        if x.dim() not in (1, 2) or target.dim() != x.dim() - 1 and not (x.dim() == 1 and target.shape == (1, )) or x.dim() == 2 and target.shape != x.shape[:1]:
            return None
        shape = (x.shape[0], x.shape[1], 1) if x.dim() == 2 else (1, x.shape[0], 1)
    if weight is not None and tuple(weight.shape) != (shape[1], ):
        return None
    return shape if x.numel() else None


def _nll_dtypes(x, target, *floats):
    return x.dtype in FLOATS and target.dtype in (torch.int64, torch.uint8) and all(other is None or other.dtype == x.dtype for other in floats)


def _nll(spatial):

    def compute(values, outs):
        x, target, weight, reduction = values["self"], values["target"], values["weight"], values["reduction"]
        if not _nll_dtypes(x, target, weight):
            return Native("dtype")
        shape = _nll_shape(x, target, weight, spatial)
        if shape is None or reduction not in (NONE, MEAN, SUM):
            return Native("shapes")
        outer, classes, inner = shape
        scalar = reduction != NONE or x.dim() == 1
        count, device, compute_dtype = outer * inner, x.device, torch.float64 if x.dtype == torch.float64 else torch.float32
        cube = x.reshape(shape)
        targets = target.reshape(outer, inner)
        losses, weights, wrong = (torch.empty(count, dtype=compute_dtype, device=device) for _ in range(3))
        launch(kernels.nll, cdiv(count, 256), device, {
            "losses": losses, "weights": weights, "wrong": wrong, "input": cube, "target": targets, "weight": weight, "outer": outer, "classes": classes,
            "inner": inner, "input_outer": cube.stride(0), "input_class": cube.stride(1), "input_inner": cube.stride(2), "target_outer": targets.stride(0),
            "target_inner": targets.stride(1), "weight_stride": 0 if weight is None else weight.stride(0), "ignored": values["ignore_index"]
        }, {"COMPUTE": DTYPES[compute_dtype], "BLOCK": 256})
        sums = [torch.empty((), dtype=dtype, device=device) for dtype in (x.dtype, x.dtype, compute_dtype)]
        (MEANS if reduction == MEAN else SUMS).launch([losses, weights, wrong], [0], sums, COMPUTE[x.dtype])
        if device.type == "cpu" and not within(sums[2], 0.0, 0.0):
            return Native("target")  # ATen says which
        results = made(outs, [(() if scalar else target.shape, x.dtype), ((), x.dtype)], (x, target, weight), device)
        if type(results) is Native:
            return results
        results[0].copy_(sums[0] if scalar and reduction != NONE else losses.view(results[0].shape))
        if reduction == NONE:
            results[1].zero_()
        else:
            results[1].copy_(sums[1])
        return tuple(results)

    return compute


def _nll_gradient(spatial):

    def compute(values, outs):
        gradient, x, target, weight, total = (values[name] for name in ("grad_output", "self", "target", "weight", "total_weight"))
        reduction = values["reduction"]
        if not _nll_dtypes(x, target, gradient, weight, total):
            return Native("dtype")
        shape = _nll_shape(x, target, weight, spatial)
        if shape is None or reduction not in (NONE, MEAN, SUM) or total.numel() != 1 or not x.is_contiguous():
            return Native("shapes")
        outer, classes, inner = shape
        if reduction == NONE and x.dim() > 1:
            if gradient.shape != target.shape:
                return Native("shapes")
            gradients = gradient.reshape(outer, inner)
            strides = gradients.stride()
        elif gradient.numel() != 1:
            return Native("shapes")
        else:
            gradients, strides = gradient, (0, 0)
        results = made(outs, [(x.shape, x.dtype)], (gradient, target, weight, total), x.device)
        if type(results) is Native:
            return results
        if not results[0].is_contiguous():
            return Native("strides of the output")
        results[0].zero_()
        targets = target.reshape(outer, inner)
        launch(kernels.nll_gradient, cdiv(outer * inner, 256), x.device, {
            "result": results[0], "gradient": gradients, "target": targets, "weight": weight, "total": total if reduction == MEAN else None, "outer": outer,
            "classes": classes, "inner": inner, "gradient_outer": strides[0], "gradient_inner": strides[1], "target_outer": targets.stride(0),
            "target_inner": targets.stride(1), "weight_stride": 0 if weight is None else weight.stride(0), "ignored": values["ignore_index"]
        }, {"COMPUTE": COMPUTE[x.dtype], "BLOCK": 256})
        return results[0]

    return compute


declare(OnRows(name="nll_loss_forward", tensors=("self", "target", "weight"), results=2, compute=_nll(False)))
declare(OnRows(name="nll_loss2d_forward", tensors=("self", "target", "weight"), results=2, compute=_nll(True)))
declare(OnRows(name="nll_loss_backward", tensors=("grad_output", "self", "target", "weight", "total_weight"), compute=_nll_gradient(False)))
declare(OnRows(name="nll_loss2d_backward", tensors=("grad_output", "self", "target", "weight", "total_weight"), compute=_nll_gradient(True)))


# Embeddings


def _embedding(values, outs):
    table, indices = values["weight"], values["indices"]
    if table.dtype not in COMPUTE or indices.dtype not in (torch.int32, torch.int64) or table.dim() != 2:
        return Native("dtype")
    if outs is not None:
        return Native("out")
    rows, width = table.shape
    if not exist(indices, rows):
        return Native("index")
    result = torch.empty((*indices.shape, width), dtype=table.dtype, device=table.device)
    if result.numel():
        block, count = min(1024, 1 << (width - 1).bit_length()), indices.numel()
        arguments = {
            "result": result, "table": table, "indices": indices.contiguous(), "count": count, "width": width, "row_stride": table.stride(0), "column_stride": table.stride(1)
        }
        if table.device.type == "cpu":
            programs, share = programs_of(count, table.device)
            launch(kernels.embedding_lines, (programs, cdiv(width, block)), table.device, arguments | {"share": share}, {"UNIT": table.stride(1) == 1, "BW": block})
        else:
            rows_of_block = max(1, 1024 // block)
            launch(kernels.embedding, (cdiv(count, rows_of_block), cdiv(width, block)), table.device, arguments | {"rows": rows}, {
                "UNIT": table.stride(1) == 1, "BN": rows_of_block, "BW": block})
    return result


def _rows_at_once(device):
    """How many rows of the gradient of an embedding are added up at once: on CPUs one, as ATen does."""
    return 1 if device.type == "cpu" else 8


def _embedding_gradient(values, outs):
    gradient, indices, rows, padding = values["grad_output"], values["indices"], values["num_weights"], values["padding_idx"]
    if gradient.dtype not in FLOATS or indices.dtype not in (torch.int32, torch.int64):
        return Native("dtype")
    if gradient.shape[:-1] != indices.shape or outs is not None:
        return Native("shapes")
    if not exist(indices, rows):
        return Native("index")
    width, count = gradient.shape[-1], indices.numel()
    result = torch.zeros((rows, width), dtype=gradient.dtype, device=gradient.device)
    if count and width and count <= bags.most_of_few(gradient.device):
        bags.launch_few(result, gradient.reshape(count, width), indices.reshape(-1), padding, bool(values["scale_grad_by_freq"]))
    elif count and width:
        ordered, order = torch.sort(indices.reshape(-1), stable=True)
        at_once = _rows_at_once(gradient.device)
        block = min(1024 if at_once == 1 else 256, 1 << (width - 1).bit_length())
        launch(kernels.embedding_gradient, (count, cdiv(width, block)), gradient.device, {
            "result": result, "gradient": gradient.contiguous(), "indices": ordered, "order": order, "count": count, "width": width, "padding": padding
        }, {"BY_COUNT": bool(values["scale_grad_by_freq"]), "COMPUTE": COMPUTE[gradient.dtype], "BR": at_once, "BW": block})
    return result


declare(OnRows(name="embedding", tensors=("weight", "indices"), compute=_embedding))
declare(OnRows(name="embedding_dense_backward", tensors=("grad_output", "indices"), compute=_embedding_gradient))
