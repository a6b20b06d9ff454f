"""Cross-entropy of logits, and of logits that a matrix product would give."""

import torch

from .._launch import DTYPES, OPMATH, launch
from .._strided import NARROW, cdiv, programs_wanted, step_up
from ..kernels import losses as kernels
from ..pointwise import run
from ..products import fp32_precision, multiply
from ..rows import COPY
from . import _arguments, _sharding
from ._declare import operator

_REDUCTIONS = ("mean", "sum", "none")
_SIZES = {name: "i32" for name in ("columns", "tiles_of_part", "rows", "part_count", "m_size", "n_size", "k_size", "first_class", "classes")}
#: The most bytes of gradients of logits that the backward step of `linear_cross_entropy` holds: of parts of rows, and of parts of classes, whose sum is in a smaller tensor.
_CHUNK, _CHUNK_OF_CLASSES = 1 << 30, 1 << 28


def _check(logits, target, label_smoothing, softcap, reduction):
    _arguments.floats(logits=logits)
    if logits.dim() != 2:
        raise ValueError(f"`logits` has {logits.dim()} dimensions: expected 2 (rows, classes)")
    _check_rest(target, logits.shape[0], label_smoothing, softcap, reduction)
    _arguments.one_device(logits=logits, target=target)


def _check_rest(target, rows, label_smoothing, softcap, reduction):
    if target.dtype != torch.int64:
        raise TypeError(f"`target` has dtype {target.dtype}: expected int64")
    _arguments.shape(target, (rows, ), "target")
    if reduction not in _REDUCTIONS:
        raise ValueError(f"`reduction` is {reduction!r}: expected \"mean\", \"sum\" or \"none\"")
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"`label_smoothing` is {label_smoothing}: expected a number from 0 to 1")
    if softcap < 0:
        raise ValueError(f"`softcap` is {softcap}: expected 0 (none) or a positive number")


def _compute(dtype):
    """The torch dtype of losses: fp32 for 16-bit logits."""
    return OPMATH.get(dtype, dtype)


def _results(x, rows, reduction):
    """(loss, log-sum-exp, how many rows are not ignored), without values. x: a tensor that says dtype and device."""
    dtype = _compute(x.dtype)
    return (torch.empty((rows, ) if reduction == "none" else (), dtype=dtype, device=x.device), torch.empty((rows, ), dtype=dtype, device=x.device),
            torch.empty((0, ) if reduction == "none" else (), dtype=torch.int64, device=x.device))


def _numbers(classes, ignore_index, label_smoothing, z_loss, softcap=None):
    found = {"ignore_index": ignore_index, "smoothing": float(label_smoothing), "share": label_smoothing / max(1, classes), "z_loss": float(z_loss)}
    return found if softcap is None else found | {"softcap": float(softcap)}


def _kinds(dtype, label_smoothing, z_loss):
    return {"SMOOTH": label_smoothing != 0, "Z": z_loss != 0, "COMPUTE": DTYPES[_compute(dtype)]}


def _reduce(loss, count, losses, target, ignore_index, reduction):
    rows = target.shape[0]
    block, warps = (1024, 4) if losses.device.type == "cpu" else (step_up(rows, (128, 1024, 8192)), 4 if rows <= 1024 else 16)
    arguments = {"loss": loss, "count": count, "losses": losses, "target": target, "target_stride": target.stride(0), "rows": rows, "ignore_index": ignore_index}
    launch(kernels.add_losses, 1, losses.device, arguments, {"REDUCTION": reduction, "COMPUTE": DTYPES[losses.dtype], "BLOCK": block}, _SIZES, num_warps=warps)


def _combine(results, parts, chosen, target, columns, numbers, kinds, reduction):
    """Finishes the states of parts of rows: (2 or 3, part, row)."""
    loss, lse, count = results
    rows, device = target.shape[0], target.device
    at_once = reduction == "none" or rows <= 512
    losses = loss if at_once else torch.empty((rows, ), dtype=loss.dtype, device=device)
    block_parts, block_rows = (32, 8) if rows <= 512 or device.type == "cpu" else (32, 32)
    own = reduction if at_once else "none"
    arguments = {
        "loss": losses, "lse": lse, "count": None if own == "none" else count, "parts": parts, "chosen": chosen, "target": target, "target_stride": target.stride(0), "rows": rows,
        "part_count": parts.shape[1], "columns": columns, **numbers
    }
    launch(kernels.combine_parts, cdiv(rows, block_rows) if own == "none" else 1, device, arguments, {**kinds, "REDUCTION": own, "PARTS": block_parts, "ROWS": block_rows}, _SIZES,
           num_warps=4)
    if not at_once:
        _reduce(loss, count, losses, target, numbers["ignore_index"], reduction)


def _tile(device, columns, size):
    """(repetitions, lanes, warps) for rows of `columns` elements of `size` bytes: every thread has 16 bytes of each repetition."""
    if device.type == "cpu":
        return 1, step_up(columns, (16, 128, 1024)), 4
    vector = 16 // size
    if columns <= 128 * vector:
        return 1, step_up(columns, [32 * vector * i for i in (1, 2, 4)]), step_up(columns, (32 * vector, 64 * vector, 128 * vector)) // (32 * vector)
    warps = 4 if columns <= 4 * 128 * vector else 8
    lanes = 32 * warps * vector
    return step_up(cdiv(columns, lanes), (2, 4)), lanes, warps


def _access(x, out=None):
    unit, vector = x.stride(1) == 1, 16 // x.element_size()
    found = {"UNIT": unit, "VECTOR": vector}
    aligned = unit and x.stride(0) % vector == 0 and x.shape[1] % vector == 0
    if out is not None:
        found["OUT_UNIT"] = out.stride(1) == 1
        aligned = aligned and found["OUT_UNIT"] and out.stride(0) % vector == 0
    return found | {"ALIGNED": aligned}


def _fake(logits, target, ignore_index=-100, label_smoothing=0.0, z_loss=0.0, softcap=0.0, reduction="mean", in_place=False):
    _check(logits, target, label_smoothing, softcap, reduction)
    return _results(logits, logits.shape[0], reduction)


def _fake_gradient(grad, grad_lse, logits, target, lse, count, ignore_index, label_smoothing, z_loss, softcap, reduction):
    return torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)


def _save(ctx, inputs, output):
    logits, target, *numbers = inputs
    ctx.save_for_backward(logits, target, *output[1:])
    ctx.numbers = numbers
    ctx.set_materialize_grads(False)


def _backward(ctx, grad, grad_lse, _):
    logits, target, lse, count = ctx.saved_tensors
    *numbers, in_place = ctx.numbers
    nothing = (None, ) * (len(ctx.numbers) + 1)
    if grad is None and grad_lse is None:
        return None, *nothing
    if grad is None:
        grad = grad_lse.new_zeros(lse.shape if numbers[-1] == "none" else ())
    if in_place:
        cross_entropy_in_place_backward(grad, grad_lse, logits.detach(), target, lse, count, *numbers)
        return logits.detach(), *nothing
    return cross_entropy_backward(grad, grad_lse, logits, target, lse, count, *numbers), *nothing


def _differentiate(out, grad, grad_lse, logits, target, lse, count, ignore_index, label_smoothing, z_loss, softcap, reduction):
    rows, columns = logits.shape
    if not rows or not columns:
        return
    device = logits.device
    repetitions, lanes, warps = _tile(device, columns, logits.element_size())
    block = repetitions * lanes
    of_part = block * (1 if rows * cdiv(columns, block) <= 4 * programs_wanted(device) else 4)
    arguments = {
        "out": out, "grad": grad, "grad_lse": grad_lse, "logits": logits, "target": target, "lse": lse, "count": count if reduction == "mean" else None,
        "row_stride": logits.stride(0), "column_stride": logits.stride(1), "out_row_stride": out.stride(0), "out_column_stride": out.stride(1), "target_stride": target.stride(0),
        "grad_stride": grad.stride(0) if reduction == "none" else 0, "grad_lse_stride": 0 if grad_lse is None else grad_lse.stride(0), "columns": columns,
        "tiles_of_part": of_part // block, **_numbers(columns, ignore_index, label_smoothing, z_loss, softcap)
    }
    constants = {**_kinds(logits.dtype, label_smoothing, z_loss), "CAP": softcap != 0, "REDUCTION": reduction, **_access(logits, out), "BLOCK": block}
    launch(kernels.gradient_of_rows, (rows, cdiv(columns, of_part)), device, arguments, constants, _SIZES, num_warps=warps)


_GRADIENT_ARGUMENTS = ("Tensor target, Tensor lse, Tensor count, int ignore_index, float label_smoothing, float z_loss, float softcap, str reduction")


@operator(f"cross_entropy_backward(Tensor grad, Tensor? grad_lse, Tensor logits, {_GRADIENT_ARGUMENTS}) -> Tensor", fake=_fake_gradient, sharding=_sharding.loss_gradient)
def cross_entropy_backward(grad, grad_lse, logits, target, lse, count, ignore_index, label_smoothing, z_loss, softcap, reduction):
    """The gradient of `logits`, contiguous. grad: of the loss; grad_lse: of the log-sum-exp, or None; lse, count: as `cross_entropy` returns them."""
    out = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
    _differentiate(out, grad, grad_lse, logits, target, lse, count, ignore_index, label_smoothing, z_loss, softcap, reduction)
    return out


@operator(f"cross_entropy_in_place_backward(Tensor grad, Tensor? grad_lse, Tensor(a!) logits, {_GRADIENT_ARGUMENTS}) -> ()", fake=lambda *arguments: None)
def cross_entropy_in_place_backward(grad, grad_lse, logits, target, lse, count, ignore_index, label_smoothing, z_loss, softcap, reduction):
    """`cross_entropy_backward` that writes the gradient in place of the logits."""
    _differentiate(logits, grad, grad_lse, logits, target, lse, count, ignore_index, label_smoothing, z_loss, softcap, reduction)


@operator("cross_entropy(Tensor logits, Tensor target, int ignore_index=-100, float label_smoothing=0., float z_loss=0., float softcap=0., str reduction=\"mean\", "
          "bool in_place=False) -> (Tensor, Tensor, Tensor)", fake=_fake, backward=_backward, save=_save, sharding=_sharding.loss)
def entropy(logits, target, ignore_index, label_smoothing, z_loss, softcap, reduction, in_place):
    """(loss, log-sum-exp by row, number of rows that are not ignored): the operator behind `cross_entropy`. The number is empty with reduction="none"."""
    _check(logits, target, label_smoothing, softcap, reduction)
    rows, columns = logits.shape
    device = logits.device
    results = loss, lse, count = _results(logits, rows, reduction)
    numbers, kinds = _numbers(columns, ignore_index, label_smoothing, z_loss), _kinds(logits.dtype, label_smoothing, z_loss)
    if not rows:
        if reduction != "none":
            _reduce(loss, count, lse, target, ignore_index, reduction)
        return results
    repetitions, lanes, warps = _tile(device, columns, logits.element_size())
    block = repetitions * lanes
    blocks, wanted = cdiv(columns, block), programs_wanted(device)
    of_part = block * max(1, blocks if 2 * rows > wanted else cdiv(blocks, wanted // rows))
    count_of_parts = max(1, cdiv(columns, of_part))
    losses, parts, chosen = loss, None, None
    if count_of_parts > 1:
        parts = torch.empty((3 if label_smoothing else 2, count_of_parts, rows), dtype=lse.dtype, device=device)
        chosen = torch.empty((rows, ), dtype=lse.dtype, device=device)
    elif reduction != "none":
        losses = torch.empty((rows, ), dtype=lse.dtype, device=device)
    arguments = {
        "loss": losses if parts is None else None, "lse": lse if parts is None else None, "parts": parts, "chosen": chosen, "logits": logits, "target": target,
        "row_stride": logits.stride(0), "column_stride": logits.stride(1), "target_stride": target.stride(0), "rows": rows, "columns": columns, "tiles_of_part": of_part // block,
        **numbers, "softcap": float(softcap)
    }
    launch(kernels.entropy_of_rows, (rows, count_of_parts), device, arguments, {**kinds, "CAP": softcap != 0, **_access(logits), "R": repetitions, "L": lanes}, _SIZES,
           num_warps=warps)
    if parts is not None:
        _combine(results, parts, chosen, target, columns, numbers, kinds, reduction)
    elif reduction != "none":
        _reduce(loss, count, losses, target, ignore_index, reduction)
    return results


def cross_entropy(logits, target, ignore_index=-100, label_smoothing=0.0, z_loss=0.0, softcap=0.0, reduction="mean", return_lse=False, in_place=False):
    """Cross-entropy of rows of logits with classes as targets, as `torch.nn.functional.cross_entropy`; with `return_lse` (loss, log-sum-exp by row).

    logits: (rows, classes), floats, any strides. target: (rows,), int64. softcap: logits become softcap * tanh(logits / softcap) first, unless it is 0. z_loss: the
    factor of lse ** 2 in the loss of each row (Chowdhery et al. 2022, "PaLM"). reduction: "mean" over the rows whose target is not `ignore_index` (not-a-number if
    there are none), "sum" or "none". in_place: the gradient of `logits` is written in place of `logits`, which must not be used afterwards; it then works once.

    The loss is in fp32 for 16-bit logits. Rows whose target is `ignore_index` are not read: their loss, log-sum-exp and gradient are 0. Where a target is no class, loss
    and gradient of the row are not-a-number. Results do not depend on the order of programs. Gradients: of the logits, through loss and log-sum-exp.

    Raises TypeError for other dtypes; ValueError for shapes or devices that do not fit, and for numbers or reductions that are not defined.
    """
    loss, lse, _ = entropy(logits, target, ignore_index, label_smoothing, z_loss, softcap, reduction, in_place)
    return (loss, lse) if return_lse else loss


def _check_linear(x, weight, target, bias, label_smoothing, softcap, reduction):
    _arguments.floats(x=x, weight=weight, bias=bias)
    _arguments.one_dtype(x=x, weight=weight, bias=bias)
    if x.dim() != 2:
        raise ValueError(f"`x` has {x.dim()} dimensions: expected 2 (rows, width)")
    if weight.dim() != 2 or weight.shape[1] != x.shape[1]:
        raise ValueError(f"`weight` has shape {tuple(weight.shape)}: expected (classes, {x.shape[1]})")
    _arguments.shape(bias, weight.shape[:1], "bias")
    _check_rest(target, x.shape[0], label_smoothing, softcap, reduction)
    _arguments.one_device(x=x, weight=weight, target=target, bias=bias)


def _product_tiles(x, rows):
    """(m, n, k, warps, stages) of tiles of logits."""
    device, dtype = x.device, x.dtype
    if device.type == "cpu":
        return step_up(rows, (8, 32)), 64, 64, 4, 3
    if dtype == torch.float64:
        return step_up(rows, (16, 64)), 64, 16, 4, 3
    if dtype == torch.float32:
        return (step_up(rows, (64, 128)), 128, 32, 8, 3) if fp32_precision(device) == "tf32" else (step_up(rows, (16, 64)), 64, 16, 4, 3)
    if rows <= 64:
        return step_up(rows, (16, 64)), 128, 64, 4, 4
    return 128, 256, 64, 8, 3


def _product(x, weight, bias, cut):
    """(arguments, constants) of `product_tile`."""
    m, n, k, _, _ = cut
    rows, width = x.shape
    multiple = 16 // x.element_size()
    x_unit, w_unit = x.stride(1) == 1, weight.stride(1) == 1
    aligned = (x_unit and x.stride(0) % multiple == 0) | (w_unit and weight.stride(0) % multiple == 0) << 1 | (width % multiple == 0) << 2
    even = (rows % m == 0) | (weight.shape[0] % n == 0) << 1 | (width % k == 0) << 2
    reach = max(m * x.stride(0) + k * x.stride(1), n * weight.stride(0) + k * weight.stride(1))
    arguments = {
        "x": x, "weight": weight, "bias": bias, "m_size": rows, "n_size": weight.shape[0], "k_size": width, "x_strides": x.stride(), "w_strides": weight.stride(),
        "bias_stride": 0 if bias is None else bias.stride(0)
    }
    constants = {
        "PRECISION": fp32_precision(x.device) if x.dtype == torch.float32 else "ieee", "X_UNIT": x_unit, "W_UNIT": w_unit, "ALIGNED": aligned, "MULTIPLE": multiple,
        "EVEN": even, "IN_ORDER": x.device.type == "cpu", "GROUP": 16, "BM": m, "BN": n, "BK": k, "WIDE": reach > NARROW
    }
    return arguments, constants


def _fake_linear(x, weight, target, bias=None, ignore_index=-100, label_smoothing=0.0, z_loss=0.0, softcap=0.0, reduction="mean"):
    _check_linear(x, weight, target, bias, label_smoothing, softcap, reduction)
    return _results(x, x.shape[0], reduction)


def _linear_gradients(x, weight, bias, needed):
    """Tensors for the gradients, empty where they are not needed."""
    found = [torch.empty(tensor.shape if which else (0, ), dtype=x.dtype, device=x.device) for tensor, which in zip((x, weight, bias), needed)]
    return tuple(found)


def _part(count, size, unit, limit):
    """Of how many rows or classes, a multiple of `unit` or all of them, gradients of the logits are computed at once; size: bytes of one, limit: of all."""
    most = max(unit, limit // max(1, size) // unit * unit)
    return min(count, cdiv(cdiv(count, cdiv(count, most)), unit) * unit)


def gradient_parts(rows, classes, needed, element_size):
    """(rows, classes) of the parts of the logits whose gradients the backward step of `linear_cross_entropy` holds at once: some classes of all rows, or some rows of all classes.

    Parts of classes give whole rows of the weight's gradient and terms of x's, which are added up in memory; parts of rows the other way round. The smaller sum is chosen.
    """
    if needed[1] and (rows <= classes or not needed[0]):
        return rows, _part(classes, rows * element_size, 256, _CHUNK_OF_CLASSES)
    return _part(rows, cdiv(classes, 16) * 16 * element_size, 128, _CHUNK), classes


def _fake_linear_gradient(grad, grad_lse, x, weight, target, bias, lse, count, needed, ignore_index, label_smoothing, z_loss, softcap, reduction):
    return _linear_gradients(x, weight, bias, needed)


def _save_linear(ctx, inputs, output):
    x, weight, target, bias, *numbers = inputs
    ctx.save_for_backward(x, weight, target, bias, *output[1:])
    ctx.numbers = numbers
    ctx.set_materialize_grads(False)


def _backward_linear(ctx, grad, grad_lse, _):
    x, weight, target, bias, lse, count = ctx.saved_tensors
    nothing = (None, ) * len(ctx.numbers)
    if grad is None and grad_lse is None:
        return None, None, None, None, *nothing
    if grad is None:
        grad = grad_lse.new_zeros(lse.shape if ctx.numbers[-1] == "none" else ())
    needed = [any(ctx.needs_input_grad[i:i + 1]) for i in (0, 1, 3)]  # trailing defaults are not in it
    found = linear_cross_entropy_backward(grad, grad_lse, x, weight, target, bias, lse, count, needed, *ctx.numbers)
    of_x, of_weight, of_bias = (tensor if which else None for tensor, which in zip(found, needed))
    return of_x, of_weight, None, of_bias, *nothing


@operator("linear_cross_entropy_backward(Tensor grad, Tensor? grad_lse, Tensor x, Tensor weight, Tensor target, Tensor? bias, Tensor lse, Tensor count, bool[] needed, "
          "int ignore_index, float label_smoothing, float z_loss, float softcap, str reduction) -> (Tensor, Tensor, Tensor)", fake=_fake_linear_gradient,
          sharding=_sharding.linear_loss_gradient)
def linear_cross_entropy_backward(grad, grad_lse, x, weight, target, bias, lse, count, needed, ignore_index, label_smoothing, z_loss, softcap, reduction):
    """The gradients of x, weight and bias; `needed` says of each whether it is wanted, and the others are empty.

    Gradients of the logits are computed for parts that take at most 256 MiB (some classes) or 1 GiB (some rows; `gradient_parts`). What several parts contribute to, the gradient of x or that of the weight, is added up in fp32, and
    rounded when the memory of the parts is free again.
    """
    rows, width = x.shape
    classes, device = weight.shape[0], x.device
    if not rows or not classes:
        results = _linear_gradients(x, weight, bias, needed)
        for tensor in results:
            tensor.zero_()
        return results
    acc = _compute(x.dtype)
    some_rows, some_classes = gradient_parts(rows, classes, needed, x.element_size())
    x_rounded, weight_rounded = needed[0] and some_classes < classes and acc != x.dtype, needed[1] and some_rows < rows and acc != x.dtype
    of_x, of_weight, of_bias = _linear_gradients(x, weight, bias, (needed[0], needed[1] and not weight_rounded, needed[2]))
    x_sum = torch.empty(x.shape, dtype=acc, device=device) if x_rounded else of_x
    weight_sum = torch.empty(weight.shape, dtype=acc, device=device) if weight_rounded else of_weight
    stride = cdiv(some_classes, 16) * 16
    workspace = torch.empty((some_rows, stride), dtype=x.dtype, device=device)
    cut = _product_tiles(x, some_rows)
    sums = torch.empty((sum(cdiv(min(some_rows, rows - first), cut[0]) for first in range(0, rows, some_rows)), classes), dtype=acc, device=device) if needed[2] else None
    of_call = {"count": count if reduction == "mean" else None, "out": workspace, "out_stride": stride, "classes": classes, "target_stride": target.stride(0),
               "grad_stride": grad.stride(0) if reduction == "none" else 0, "grad_lse_stride": 0 if grad_lse is None else grad_lse.stride(0),
               **_numbers(classes, ignore_index, label_smoothing, z_loss, softcap)}  # yapf: disable
    kinds = {**_kinds(x.dtype, label_smoothing, z_loss), "CAP": softcap != 0, "REDUCTION": reduction}
    for row, column in ((row, column) for row in range(0, rows, some_rows) for column in range(0, classes, some_classes)):
        m, n = min(some_rows, rows - row), min(some_classes, classes - column)
        x_part, target_part, lse_part = (tensor.narrow(0, row, m) for tensor in (x, target, lse))
        weight_part, bias_part = weight.narrow(0, column, n), None if bias is None else bias.narrow(0, column, n)
        arguments, constants = _product(x_part, weight_part, bias_part, cut)
        own = {
            "column_sums": None if sums is None else sums.narrow(0, row // cut[0], cdiv(m, cut[0])), "grad": grad.narrow(0, row, m) if reduction == "none" else grad,
            "grad_lse": None if grad_lse is None else grad_lse.narrow(0, row, m), "lse": lse_part, "target": target_part, "first_class": column
        }
        launch(kernels.gradient_of_tiles, cdiv(m, cut[0]) * cdiv(n, cut[1]), device, arguments | of_call | own, {**kinds, **constants}, _SIZES, num_warps=cut[3], num_stages=cut[4])
        if needed[0] and width:
            out = x_sum.narrow(0, row, m)
            multiply(out, workspace, weight_part, out if column else None, (1, m, width, n), ((0, *out.stride()), (0, 0, stride, 1), (0, 0, *weight_part.stride()), (0, *out.stride())))
        if needed[1] and width:
            out = weight_sum.narrow(0, column, n)
            multiply(out, workspace, x_part, out if row else None, (1, n, width, m), ((0, *out.stride()), (0, 0, 1, stride), (0, 0, *x_part.stride()), (0, *out.stride())))
    del workspace, of_call
    if x_rounded:
        run(COPY, [x_sum], [], [of_x])
    if weight_rounded:
        of_weight = torch.empty(weight.shape, dtype=x.dtype, device=device)
        run(COPY, [weight_sum], [], [of_weight])
    if sums is not None:
        block = 128 if device.type == "cuda" else 1024
        launch(kernels.add_rows, cdiv(classes, block), device, {"out": of_bias, "parts": sums, "rows": sums.shape[0], "columns": classes},
               {"COMPUTE": DTYPES[acc], "BLOCK": block}, _SIZES, num_warps=4)
    return of_x, of_weight, of_bias


@operator("linear_cross_entropy(Tensor x, Tensor weight, Tensor target, Tensor? bias=None, int ignore_index=-100, float label_smoothing=0., float z_loss=0., "
          "float softcap=0., str reduction=\"mean\") -> (Tensor, Tensor, Tensor)", fake=_fake_linear, backward=_backward_linear, save=_save_linear,
          sharding=_sharding.linear_loss)
def linear_entropy(x, weight, target, bias, ignore_index, label_smoothing, z_loss, softcap, reduction):
    """(loss, log-sum-exp by row, number of rows that are not ignored): the operator behind `linear_cross_entropy`."""
    _check_linear(x, weight, target, bias, label_smoothing, softcap, reduction)
    rows, classes, device = x.shape[0], weight.shape[0], x.device
    results = loss, lse, count = _results(x, rows, reduction)
    if not rows:
        if reduction != "none":
            _reduce(loss, count, lse, target, ignore_index, reduction)
        return results
    cut = _product_tiles(x, rows)
    parts = torch.empty((3 if label_smoothing else 2, cdiv(classes, cut[1]), rows), dtype=lse.dtype, device=device)
    chosen = torch.empty((rows, ), dtype=lse.dtype, device=device)
    arguments, constants = _product(x, weight, bias, cut)
    kinds, numbers = _kinds(x.dtype, label_smoothing, z_loss), _numbers(classes, ignore_index, label_smoothing, z_loss)
    own = {"parts": parts, "chosen": chosen, "target": target, "target_stride": target.stride(0), "ignore_index": ignore_index, "softcap": float(softcap)}
    if classes:
        launch(kernels.entropy_of_tiles, cdiv(rows, cut[0]) * cdiv(classes, cut[1]), device, arguments | own,
               {"SMOOTH": kinds["SMOOTH"], "CAP": softcap != 0, "COMPUTE": kinds["COMPUTE"], **constants}, _SIZES, num_warps=cut[3], num_stages=cut[4])
    _combine(results, parts, chosen, target, classes, numbers, kinds, reduction)
    return results


def linear_cross_entropy(x, weight, target, bias=None, ignore_index=-100, label_smoothing=0.0, z_loss=0.0, softcap=0.0, reduction="mean", return_lse=False):
    """`cross_entropy` of the logits x @ weight.T + bias, which are never all in memory (Wijmans et al. 2024, "Cut your losses in large-vocabulary language models").

    x: (rows, width), weight: (classes, width), bias: (classes,) or None: of one float dtype, any strides. The other arguments, the results and targets that are no class:
    as for `cross_entropy`. Logits are sums in fp32 (fp64 for fp64) that are not rounded to the dtype of x. Tiles all of whose targets are ignored are not computed.

    Memory: 8 bytes by row and 256 classes; the backward step takes up to 256 MiB for gradients of logits (1 GiB with more rows than classes), and 4 bytes by element of x (of the weight) if all of them
    take more than that. Gradients: of x, weight and bias, through loss and log-sum-exp. Gradients of logits are rounded to the dtype of x.

    Raises TypeError for other or mixed dtypes; ValueError for shapes or devices that do not fit, and for numbers or reductions that are not defined.
    """
    loss, lse, _ = linear_entropy(x, weight, target, bias, ignore_index, label_smoothing, z_loss, softcap, reduction)
    return (loss, lse) if return_lse else loss
