"""Padding by reflection and replication, patches of images (im2col, col2im) and windows of ATen, with their gradients."""

import torch

from .._declare import Native, declare
from .._launch import launch
from .._moves import bits, foreign
from .._strided import COMPUTE, FLOATS, INTEGERS, cdiv, product, programs_wanted, step_up
from ..kernels import padding as kernels
from ._planes import BLOCK, OF_ONE, OnPlanes, batched, by_lines, five, launch_by_element, outputs, padded, programs_of, unusable
from ._resampling import resample

KIND = "padding"
_BLOCKS = (16, 32, 64, 128, 256)
#: Rows of an item, of which programs of a CPU pad several.
_ROWS = 64
_NARROW = 2**30
#: What ATen pads: complex numbers of 8 bytes, too, which are moved.
MOVED = (*FLOATS, *INTEGERS, torch.complex64)


def _padding(shape, values, rank, reflect):
    """(the padding in front by dimension, sizes of the result), or None where ATen has to complain."""
    numbers = list(values["padding"])
    if len(numbers) != 2 * rank:
        return None
    before, after = numbers[-2::-2], numbers[::-2]
    sizes = [size + b + a for size, b, a in zip(shape[-rank:], before, after)]
    if any(size <= 0 for size in sizes) or reflect and any(max(b, a) >= size for size, b, a in zip(shape[-rank:], before, after)):
        return None
    return before, sizes


def _unusable(x, rank, others, dtypes):
    found = unusable(x, rank, others, dtypes)
    return found or (Native("sizes") if not all(x.shape[-rank:]) else None)


def _in_rows(out, x):
    """The dimensions of batches, those of rows last, where planes (channels, d, h) or (d, h, w) of `out` and `x` have neighbours in their rows, else None."""
    rank = x.dim() - 2
    for order in (range(rank + 2), (0, *range(2, rank + 2), 1)):
        if all(tensor.stride(order[-1]) == 1 or tensor.shape[order[-1]] == 1 for tensor in (out, x)) and max(out.shape[order[-1]], x.shape[order[-1]]) < _NARROW:
            return order
    return None


def _pad_planes(out, x, order, before, reflect):
    """Launches `pad_planes`. order: the dimensions, rows last; before: the padding in front, of d, h and w."""
    before = [None, None, *before[3 - (x.dim() - 2):]]
    outer = [None] * (5 - x.dim()) + list(order[:-2])
    row, column = order[-2:]

    def of(numbers, absent):
        return tuple([absent if d is None else numbers[d] for d in outer])

    items = out.numel() // (out.shape[row] * out.shape[column]) * cdiv(out.shape[row], _ROWS)
    share = cdiv(items, programs_wanted(x.device))
    launch(kernels.pad_planes, cdiv(items, share), x.device, {
        "out": out, "x": x, "outer": of(out.shape, 1), "in_outer": of(x.shape, 1), "out_strides": of(out.stride(), 0), "x_strides": of(x.stride(), 0), "outer_before": of(before, None),
        "rows": out.shape[row], "in_rows": x.shape[row], "out_step": out.stride(row), "x_step": x.stride(row), "row_before": before[row] or 0, "width": out.shape[column],
        "count": x.shape[column], "before": before[column] or 0, "items": items, "part": _ROWS, "share": share
    }, {"REFLECT": reflect, "BR": 8 if x.shape[row] < 32 else 16, "BC": step_up(x.shape[column], (*_BLOCKS, 512, 1024))}, {"width": "i32", "count": "i32", "before": "i32"})


def _pad(reflect, rank):

    def compute(values, outs):
        x = values["self"]
        if (found := _unusable(x, rank, outs or (), MOVED)) is not None:
            return found
        padding = _padding(x.shape, values, rank, reflect)
        if padding is None:
            return Native("padding")
        before, sizes = padding
        results = outputs(outs, [(*x.shape[:-rank], *sizes)], x, (x.dtype, ), (x, ), _format(x, rank))
        if type(results) is Native:
            return results
        planes, out = batched(bits(x), rank), batched(bits(results[0]), rank)
        arguments = {
            "out": out, "x": planes, "in_sizes": five(planes.shape), "out_sizes": five(out.shape), "x_strides": five(planes.stride()), "out_strides": five(out.stride()),
            "before": padded(before)
        }
        order = _in_rows(out, planes) if by_lines(x.device) else None
        if order is not None:
            _pad_planes(out, planes, order, arguments["before"], reflect)
        else:
            launch_by_element(kernels.pad, out.numel(), x.device, arguments, {"REFLECT": reflect})
        return results[0]

    return compute


def _format(x, rank):
    """The memory format of results: that of tensors of 4 and 5 dimensions is kept on CPUs, so also that of volumes without a batch."""
    return None if x.dim() > 3 and x.device.type == "cpu" else torch.contiguous_format


def _pad_gradient(reflect, rank):

    def compute(values, outs):
        gradient, x = values["grad_output"], values["self"]
        if (found := _unusable(x, rank, (gradient, *(outs or ())), FLOATS)) is not None:
            return found
        padding = _padding(x.shape, values, rank, reflect)
        if padding is None or tuple(gradient.shape) != (*x.shape[:-rank], *padding[1]):
            return Native("padding")
        if x.device.type != "cpu" and torch.are_deterministic_algorithms_enabled():
            return Native("deterministic")  # ATen raises an error
        before, sizes = padding
        results = outputs(outs, [x.shape], x, (x.dtype, ), (gradient, ), _format(x, rank))
        if type(results) is Native:
            return results
        to, gradient = batched(results[0], rank), batched(gradient, rank)
        arguments = {"result": to, "gradient": gradient, "in_sizes": five(to.shape), "out_sizes": five(gradient.shape), "result_strides": five(to.stride()),
                     "gradient_strides": five(gradient.stride()), "before": padded(before)}
        constants = {"COMPUTE": COMPUTE[x.dtype]}
        copies = [3 if reflect else count if size == 1 else 1 + max(b, count - size - b, 0) for size, count, b in zip(x.shape[-rank:], sizes, before)]
        if by_lines(x.device):
            resample("reflect_gradient" if reflect else "replicate_gradient", to, gradient, copies, padding=before)
        elif reflect:
            launch_by_element(kernels.reflect_gradient, to.numel(), x.device, arguments, constants)
        else:
            launch_by_element(kernels.replicate_gradient, to.numel(), x.device, arguments | {"copies": padded(copies)}, constants)
        return results[0]

    return compute


for _rank in (1, 2, 3):
    for _name, _reflect in (("reflection", True), ("replication", False)):
        declare(OnPlanes(name=f"{_name}_pad{_rank}d", compute=_pad(_reflect, _rank), kinds=OF_ONE, kind=KIND))
        declare(OnPlanes(name=f"{_name}_pad{_rank}d_backward", compute=_pad_gradient(_reflect, _rank), kinds=OF_ONE, kind=KIND))


# Patches


def _windows(values, sizes):
    """(kernel, stride, padding, dilation, numbers of patches) for h and w, or None where ATen has to complain."""
    found = [tuple(values[name]) for name in ("kernel_size", "stride", "padding", "dilation")]
    if any(len(numbers) != 2 for numbers in found):
        return None
    kernel, stride, padding, dilation = found
    counts = tuple([(size + 2 * p - d * (k - 1) - 1) // s + 1 if s > 0 else 0 for size, k, s, p, d in zip(sizes, kernel, stride, padding, dilation)])
    if any(number <= 0 for number in (*kernel, *dilation, *counts)) or any(number < 0 for number in padding):
        return None
    return kernel, stride, padding, dilation, counts


def _patches(values, outs):
    x = values["self"]
    if (found := unusable(x, 2, outs or (), (*FLOATS, torch.bool, torch.complex64))) is not None:
        return found
    windows = _windows(values, x.shape[-2:])
    if windows is None:
        return Native("windows")
    kernel, stride, padding, dilation, counts = windows
    channels = x.shape[-3] * kernel[0] * kernel[1]
    results = outputs(outs, [(*x.shape[:-3], channels, counts[0] * counts[1])], x, (x.dtype, ), (x, ), torch.contiguous_format)
    if type(results) is Native:
        return results
    planes = bits(x) if x.dim() == 4 else bits(x).unsqueeze(0)
    out = bits(results[0]) if x.dim() == 4 else bits(results[0]).unsqueeze(0)
    arguments = {
        "out": out, "x": planes, "sizes": tuple(planes.shape[2:]), "counts": counts, "channels": channels, "x_strides": planes.stride(), "out_strides": out.stride(),
        "kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation
    }
    if by_lines(x.device):
        items = out.numel() // counts[1]
        programs, share = programs_of(items, x.device)
        launch(kernels.patch_lines, programs, x.device, arguments | {"items": items, "share": share}, {
            "UNIT": stride[1] * planes.stride(3) == out.stride(2) == 1, "BLOCK": step_up(counts[1], _BLOCKS)})
    else:
        launch_by_element(kernels.patches, out.numel(), x.device, arguments, {})
    return results[0]


def _patch_sums(values, outs):
    x, sizes = values["self"], tuple(values["output_size"])
    if (found := foreign(x, *(outs or ()))) is not None:
        return found
    if x.dtype not in FLOATS or x.dim() not in (2, 3) or not x.numel():
        return Native("dtype")
    if len(sizes) != 2 or any(size <= 0 for size in sizes):
        return Native("sizes")
    windows = _windows(values, sizes)
    if windows is None:
        return Native("windows")
    kernel, stride, padding, dilation, counts = windows
    channels = x.shape[-2] // (kernel[0] * kernel[1])
    if x.shape[-2] != channels * kernel[0] * kernel[1] or x.shape[-1] != counts[0] * counts[1]:
        return Native("windows")
    results = outputs(outs, [(*x.shape[:-2], channels, *sizes)], x, (x.dtype, ), (x, ), torch.contiguous_format)
    if type(results) is Native:
        return results
    columns, out = (x, results[0]) if x.dim() == 3 else (x.unsqueeze(0), results[0].unsqueeze(0))
    arguments = {
        "out": out, "x": columns, "sizes": sizes, "counts": counts, "depth": channels, "x_strides": columns.stride(), "out_strides": out.stride(), "kernel": kernel,
        "stride": stride, "padding": padding, "dilation": dilation
    }
    if by_lines(x.device) and stride[1] == 1:
        items = out.numel() // sizes[1]
        programs, share = programs_of(items, x.device)
        launch(kernels.patch_sum_lines, programs, x.device, arguments | {"items": items, "share": share}, {
            "UNIT": columns.stride(2) == out.stride(3) == 1, "COMPUTE": COMPUTE[x.dtype], "BLOCK": step_up(sizes[1], _BLOCKS)})
    else:
        launch_by_element(kernels.patch_sums, out.numel(), x.device, arguments, {"COMPUTE": COMPUTE[x.dtype]})
    return results[0]


def _window_sums(values, outs):
    gradient, shape, dim, size, step = (values[name] for name in ("grad_in", "input_sizes", "dim", "size", "step"))
    if (found := foreign(gradient)) is not None:
        return found
    rank = len(shape)
    if gradient.dtype not in FLOATS or outs is not None or not rank or not gradient.numel() or not -rank <= dim < rank or size <= 0 or step <= 0:
        return Native("dtype")
    dim %= rank
    windows = (shape[dim] - size) // step + 1
    if tuple(gradient.shape) != (*shape[:dim], windows, *shape[dim + 1:], size) or any(length <= 0 for length in shape):
        return Native("shapes")
    result = torch.empty(tuple(shape), dtype=gradient.dtype, device=gradient.device)
    others = [d for d in range(rank) if d != dim]
    launch(kernels.window_sums, cdiv(result.numel(), BLOCK), result.device, {
        "out": result, "gradient": gradient, "sizes": tuple([shape[d] for d in others]), "out_strides": tuple([result.stride(d) for d in others]),
        "gradient_strides": tuple([gradient.stride(d) for d in others]), "dim_size": shape[dim], "dim_stride": result.stride(dim), "windows": windows,
        "window_stride": gradient.stride(dim), "place_stride": gradient.stride(rank), "step": step, "size": size, "covering": cdiv(size, step), "numel": result.numel()
    }, {"COMPUTE": COMPUTE[gradient.dtype], "BLOCK": BLOCK})
    return result


declare(OnPlanes(name="im2col", compute=_patches, kinds=OF_ONE, kind=KIND))
declare(OnPlanes(name="col2im", compute=_patch_sums, kinds=OF_ONE, kind=KIND))
declare(OnPlanes(name="unfold_backward", compute=_window_sums, kinds=("functional", ), kind=KIND))
