"""Cross-entropy of logits, and of logits that a matrix product would give."""

import torch

from .._launch import DTYPES, OPMATH, launch
from .._strided import cdiv, programs_wanted, step_up
from ..kernels import losses as kernels
from . import _arguments
from ._declare import operator

_REDUCTIONS = ("mean", "sum", "none")
_SIZES = {name: "i32" for name in ("columns", "columns_of_part", "rows", "part_count", "width")}


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


def _numbers(ignore_index, label_smoothing, z_loss, softcap=None):
    found = {"ignore_index": ignore_index, "smoothing": float(label_smoothing), "z_loss": float(z_loss)}
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
        "columns_of_part": of_part, **_numbers(ignore_index, label_smoothing, z_loss, softcap)
    }
    constants = {**_kinds(logits.dtype, label_smoothing, z_loss), "CAP": softcap != 0, "REDUCTION": reduction, **_access(logits, out), "BLOCK": block}
    launch(kernels.gradient_of_rows, (rows, cdiv(columns, of_part)), device, arguments, constants, _SIZES, num_warps=warps)


_GRADIENT_ARGUMENTS = ("Tensor target, Tensor lse, Tensor count, int ignore_index, float label_smoothing, float z_loss, float softcap, str reduction")


@operator(f"cross_entropy_backward(Tensor grad, Tensor? grad_lse, Tensor logits, {_GRADIENT_ARGUMENTS}) -> Tensor", fake=_fake_gradient)
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
          "bool in_place=False) -> (Tensor, Tensor, Tensor)", fake=_fake, backward=_backward, save=_save)
def entropy(logits, target, ignore_index, label_smoothing, z_loss, softcap, reduction, in_place):
    """(loss, log-sum-exp by row, number of rows that are not ignored): the operator behind `cross_entropy`. The number is empty with reduction="none"."""
    _check(logits, target, label_smoothing, softcap, reduction)
    rows, columns = logits.shape
    device = logits.device
    results = loss, lse, count = _results(logits, rows, reduction)
    numbers, kinds = _numbers(ignore_index, label_smoothing, z_loss), _kinds(logits.dtype, label_smoothing, z_loss)
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
        "row_stride": logits.stride(0), "column_stride": logits.stride(1), "target_stride": target.stride(0), "rows": rows, "columns": columns, "columns_of_part": of_part,
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
