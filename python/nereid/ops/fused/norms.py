"""RMSNorm (Zhang and Sennrich 2019, "Root mean square layer normalization") and LayerNorm (Ba, Kiros and Hinton 2016, "Layer normalization"), also with the addition of a
residual before them."""

import math

import torch

from .._launch import OPMATH, DTYPES, launch
from .._strided import cdiv
from ..kernels import norms as kernels
from . import _arguments
from ._declare import operator

_SIZES = ("columns", "x_stride", "residual_stride", "out_stride")
_GRADIENT_SIZES = ("columns", "x_stride", "grad_stride", "total_stride")
#: The longest rows that a block holds, by type of device.
LONGEST = {"cuda": 16384, "cpu": 2048}
#: Programs that sum gradients of weights.
PROGRAMS = 264


def power_of_2(n):
    """The least power of 2 that is at least n."""
    return 1 << max(0, n - 1).bit_length()


def as_rows(x):
    """(tensor, stride of its rows): x as rows of neighbouring elements with one stride; a copy where its strides do not allow that."""
    rows, columns = math.prod(x.shape[:-1]), x.shape[-1]
    if x.stride(-1) == 1 or columns == 1:
        sizes = [(size, stride) for size, stride in zip(x.shape[:-1], x.stride()) if size != 1]
        if all(outer == inner * size for (_, outer), (size, inner) in zip(sizes, sizes[1:])):
            return x, sizes[-1][1] if sizes else columns
    return x.contiguous() if rows * columns else x, columns


def tiles(device, rows, columns, elements=16, unit=1):
    """(whole rows in a block, rows of a block, columns of a block, warps). elements: of a thread. unit: the least number of columns."""
    block = max(power_of_2(columns), unit, 16)
    whole = block <= LONGEST[device.type]
    if not whole:
        block = 4096 if device.type == "cuda" else 1024
    height = 1
    while whole and height * block < 2048 and height * 1056 <= rows:
        height *= 2
    if rows <= 264:
        elements = min(elements, 8)
    warps = min(32, max(1, height * block // (32 * elements)))
    return whole, height, block, warps


def compute_dtype(dtype):
    return DTYPES[OPMATH.get(dtype, dtype)]


def check(x, residual=None, weight=None, bias=None):
    """Raises for arguments that do not fit; see `rms_norm`."""
    _arguments.floats(x=x, residual=residual, weight=weight, bias=bias)
    _arguments.one_dtype(x=x, residual=residual)
    _arguments.one_device(x=x, residual=residual, weight=weight, bias=bias)
    if not x.dim():
        raise ValueError("`x` has no dimensions: expected at least one")
    _arguments.shape(residual, x.shape, "residual")
    _arguments.shape(weight, x.shape[-1:], "weight")
    _arguments.shape(bias, x.shape[-1:], "bias")


def run(kind, out, total, x, residual, weight, bias, eps, offset=0.0, scales=None, scale=None, scaling="none", group=1, largest=0.0):
    """Launches the forward step. out, total: contiguous results. scales, scale, scaling, group, largest: as for the kernel's arguments in capitals."""
    rows, columns = math.prod(x.shape[:-1]), x.shape[-1]
    if not rows * columns:
        if not (scaling == "given" or scaling == "row" and rows):
            return
        columns = 0  # only scales are written
    x, x_stride = as_rows(x)
    residual, residual_stride = (None, 0) if residual is None else as_rows(residual)
    whole, height, block, warps = tiles(x.device, rows, columns, unit=group)
    launch(kernels.whole_rows if whole else kernels.long_rows, max(1, cdiv(rows, height)), x.device, {
        "out": out, "total": total, "scales": scales, "x": x, "residual": residual, "weight": _contiguous(weight), "bias": _contiguous(bias), "scale": scale, "rows": rows,
        "columns": columns, "out_stride": columns, "x_stride": x_stride, "residual_stride": residual_stride, "eps": float(eps), "offset": float(offset)
    }, {
        "KIND": kind, "SCALES": scaling, "GROUP": group, "LARGEST": largest, "INTEGER": out.dtype == torch.int8, "COMPUTE": compute_dtype(x.dtype), "BM": height, "BN": block
    }, {"columns": "i32"}, divisible=_SIZES, num_warps=warps)


def _contiguous(weight):
    return None if weight is None else weight.contiguous()


def gradient(kind, grad, total_grad, x, weight, bias, eps, offset=0.0):
    """(gradient of x, of the weight or None, of the bias or None). x: what was normalised; bias: whether there is one, its gradient has the weight's dtype or x's."""
    rows, columns = math.prod(x.shape[:-1]), x.shape[-1]
    device, wide = x.device, OPMATH.get(x.dtype, x.dtype)
    out = torch.empty(x.shape, dtype=x.dtype, device=device)
    weight_out = None if weight is None else torch.empty(columns, dtype=weight.dtype, device=device)
    bias_out = None if bias is None else torch.empty(columns, dtype=bias.dtype, device=device)
    if not columns:
        return out, weight_out, bias_out
    whole, height, block, warps = tiles(device, rows, columns, 8)
    programs = min(PROGRAMS * max(1, 4096 // (height * block)), cdiv(rows, height))
    weight_parts, bias_parts = (None if result is None else torch.empty(programs, columns, dtype=wide, device=device) for result in (weight_out, bias_out))
    compute = compute_dtype(x.dtype)
    if rows:
        x, x_stride = as_rows(x)
        grad, grad_stride = as_rows(grad)
        total_grad, total_stride = (None, 0) if total_grad is None else as_rows(total_grad)
        launch(kernels.whole_rows_gradient if whole else kernels.long_rows_gradient, programs, device, {
            "out": out, "weight_parts": weight_parts, "bias_parts": bias_parts, "grad": grad, "total_grad": total_grad, "x": x, "weight": _contiguous(weight), "rows": rows,
            "columns": columns, "grad_stride": grad_stride, "total_stride": total_stride, "x_stride": x_stride, "eps": float(eps), "offset": float(offset)
        }, {"KIND": kind, "COMPUTE": compute, "BM": height, "BN": block}, {"columns": "i32"}, divisible=_GRADIENT_SIZES, num_warps=warps)
    if weight_out is not None or bias_out is not None:
        grid = cdiv(columns, 16), 1 if weight_out is None or bias_out is None else 2
        launch(kernels.add_rows, grid, device, {
            "weight_out": weight_out, "bias_out": bias_out, "weight_parts": weight_parts, "bias_parts": bias_parts, "parts": programs, "columns": columns
        }, {"COMPUTE": compute, "BM": min(256, power_of_2(programs)), "BN": 16}, {"columns": "i32"}, divisible=("columns", ), num_warps=8)
    return out, weight_out, bias_out


def like(x):
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def _columns_rule(tensors, others, results, sums=0):
    """The sharding rule: rows are sharded, the last dimension is replicated.

    tensors: how many of the first arguments have x's shape; others: how many after them are None or replicated; results: how many results have x's shape; sums: how
    many results after them are None or sums over rows.
    """

    def rule(*arguments):
        from torch.distributed.tensor import Partial, Replicate, Shard
        x = next(argument for argument in arguments if argument is not None)

        def along(placement, added):
            inputs = [None if argument is None or i >= tensors + others else placement if i < tensors else Replicate() for i, argument in enumerate(arguments)]
            given = [argument is not None for argument in arguments[tensors:tensors + sums]]
            return [placement] * results + [added if there else None for there in given], inputs

        return [along(Replicate(), Replicate()), *(along(Shard(d), Partial()) for d in range(x.ndim - 1))]

    return rule


# RMSNorm


def _rms_save(ctx, inputs, output):
    x, weight, ctx.eps, ctx.offset = inputs
    ctx.save_for_backward(x, weight)


def _rms_backward(ctx, grad):
    x, weight = ctx.saved_tensors
    return (*rms_norm_backward(grad, None, x, weight, ctx.eps, ctx.offset), None, None)


def _add_rms_save(ctx, inputs, output):
    _, _, weight, ctx.eps, ctx.offset = inputs
    ctx.save_for_backward(output[1], weight)
    ctx.set_materialize_grads(False)


def _add_rms_backward(ctx, grad, total_grad):
    total, weight = ctx.saved_tensors
    if grad is None:
        return total_grad, total_grad, None, None, None
    of_x, of_weight = rms_norm_backward(grad, total_grad, total, weight, ctx.eps, ctx.offset)
    return of_x, of_x, of_weight, None, None


def _fake_rms_gradient(grad, total_grad, x, weight, eps, weight_offset):
    return x.new_empty(x.shape), None if weight is None else weight.new_empty(weight.shape)


def _fake_rms(x, weight=None, eps=1e-6, weight_offset=0.0):
    check(x, None, weight)
    return x.new_empty(x.shape)


def _fake_add_rms(x, residual, weight=None, eps=1e-6, weight_offset=0.0):
    check(x, residual, weight)
    return x.new_empty(x.shape), x.new_empty(x.shape)


@operator("rms_norm_backward(Tensor grad, Tensor? total_grad, Tensor x, Tensor? weight, float eps, float weight_offset) -> (Tensor, Tensor?)", fake=_fake_rms_gradient,
          sharding=_columns_rule(3, 1, 1, 1))
def rms_norm_backward(grad, total_grad, x, weight, eps, weight_offset):
    """The gradients of x (and of the residual) and of the weight. x: what was normalised; total_grad: None or the gradient of the sum."""
    return gradient("rms", grad, total_grad, x, weight, None, eps, weight_offset)[:2]


@operator("rms_norm(Tensor x, Tensor? weight=None, float eps=1e-6, float weight_offset=0.0) -> Tensor", fake=_fake_rms, backward=_rms_backward, save=_rms_save,
          sharding=_columns_rule(1, 1, 1))
def rms_norm(x, weight, eps, weight_offset):
    """x / sqrt(mean(x²) + eps) * (weight + weight_offset), over the last dimension.

    x: (..., n), of a float dtype, any strides; rows without one stride are copied first. weight: (n,), of any float dtype, or None. weight_offset: 1.0 for Gemma's
    weights. The result is contiguous, of x's dtype; 16-bit floats are computed in fp32 and rounded once. Gradients are the same in every run.

    Raises TypeError for other dtypes, ValueError for shapes or devices that do not fit.
    """
    check(x, None, weight)
    out = like(x)
    run("rms", out, None, x, None, weight, None, eps, weight_offset)
    return out


@operator("add_rms_norm(Tensor x, Tensor residual, Tensor? weight=None, float eps=1e-6, float weight_offset=0.0) -> (Tensor, Tensor)", fake=_fake_add_rms,
          backward=_add_rms_backward, save=_add_rms_save, sharding=_columns_rule(2, 1, 2))
def add_rms_norm(x, residual, weight, eps, weight_offset):
    """(rms_norm(sum), sum) of sum = x + residual, rounded to x's dtype. residual: of x's shape and dtype. Everything else as for `rms_norm`."""
    check(x, residual, weight)
    out, total = like(x), like(x)
    run("rms", out, total, x, residual, weight, None, eps, weight_offset)
    return out, total


# LayerNorm


def _layer_save(ctx, inputs, output):
    *saved, ctx.eps = inputs
    ctx.save_for_backward(*saved)


def _add_layer_save(ctx, inputs, output):
    _, _, weight, bias, ctx.eps = inputs
    ctx.save_for_backward(output[1], weight, bias)
    ctx.set_materialize_grads(False)


def _add_layer_backward(ctx, grad, total_grad):
    total, weight, bias = ctx.saved_tensors
    if grad is None:
        return total_grad, total_grad, None, None, None
    of_x, of_weight, of_bias = layer_norm_backward(grad, total_grad, total, weight, bias, ctx.eps)
    return of_x, of_x, of_weight, of_bias, None


def _fake_layer_gradient(grad, total_grad, x, weight, bias, eps):
    return x.new_empty(x.shape), None if weight is None else weight.new_empty(weight.shape), None if bias is None else bias.new_empty(bias.shape)


def _fake_layer(x, weight=None, bias=None, eps=1e-5):
    check(x, None, weight, bias)
    return x.new_empty(x.shape)


def _fake_add_layer(x, residual, weight=None, bias=None, eps=1e-5):
    check(x, residual, weight, bias)
    return x.new_empty(x.shape), x.new_empty(x.shape)


@operator("layer_norm_backward(Tensor grad, Tensor? total_grad, Tensor x, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor?, Tensor?)",
          fake=_fake_layer_gradient, sharding=_columns_rule(3, 2, 1, 2))
def layer_norm_backward(grad, total_grad, x, weight, bias, eps):
    """The gradients of x (and of the residual), of the weight and of the bias. x: what was normalised; total_grad: None or the gradient of the sum."""
    return gradient("layer", grad, total_grad, x, weight, bias, eps)


@operator("layer_norm(Tensor x, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> Tensor", fake=_fake_layer,
          backward=lambda ctx, grad: (*layer_norm_backward(grad, None, *ctx.saved_tensors, ctx.eps), None), save=_layer_save, sharding=_columns_rule(1, 2, 1))
def layer_norm(x, weight, bias, eps):
    """(x - mean(x)) / sqrt(variance(x) + eps) * weight + bias, over the last dimension. weight, bias: (n,), of any float dtype, or None. Everything else as for `rms_norm`."""
    check(x, None, weight, bias)
    out = like(x)
    run("layer", out, None, x, None, weight, bias, eps)
    return out


@operator("add_layer_norm(Tensor x, Tensor residual, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> (Tensor, Tensor)", fake=_fake_add_layer,
          backward=_add_layer_backward, save=_add_layer_save, sharding=_columns_rule(2, 2, 2))
def add_layer_norm(x, residual, weight, bias, eps):
    """(layer_norm(sum), sum) of sum = x + residual, rounded to x's dtype. residual: of x's shape and dtype. Everything else as for `layer_norm`."""
    check(x, residual, weight, bias)
    out, total = like(x), like(x)
    run("layer", out, total, x, residual, weight, bias, eps)
    return out, total
