"""Interpolation of ATen: nearest, linear, cubic and filtered, in one to three dimensions, with its gradients."""

import ctypes
import math

import torch

from .._declare import Native, declare
from .._moves import bits
from .._strided import COMPUTE, FLOATS
from ..kernels import interpolation as kernels
from ._plane_tiles import nearest_gradient, upsample, weight_sums
from ._plane_tiles import resample as resample_along
from ._planes import OF_ONE, OnPlanes, by_lines, channels_last, five, launch_by_element, outputs, padded, unusable
from ._resampling import pick, resample

KIND = "interpolation"


def _float(value):
    """A number rounded to fp32."""
    return ctypes.c_float(value).value


def _given(values, rank):
    """The caller's factors by dimension, None where there is none."""
    return [values["scales"]] if rank == 1 else [values[name] for name in ("scales_d", "scales_h", "scales_w")[3 - rank:]]


def _scales(values, in_sizes, out_sizes, rounded):
    """How far apart the output's places are in the input, by dimension."""
    given = _given(values, len(in_sizes))
    found = [1 / scale if scale is not None and scale > 0 else size / count for scale, size, count in zip(given, in_sizes, out_sizes)]
    return tuple([_float(scale) for scale in found]) if rounded else tuple(found)


def _linear_scales(values, in_sizes, out_sizes):
    if values["align_corners"]:
        return tuple([(size - 1) / (count - 1) if count > 1 else 0.0 for size, count in zip(in_sizes, out_sizes)])
    return _scales(values, in_sizes, out_sizes, False)


#: Where ATen ignores the caller's factor since a size stays what it is, (on CPUs, on GPUs): in "each" dimension of its own, in "all" or none, or "never".
_KEPT = {"linear": ("each", "all"), "cubic": ("never", "all"), "linear gradient": ("each", "all"), "cubic gradient": ("all", "all"), "filter": ("each", "never"),
         "filter gradient": ("never", "all"), "nearest plane": ("never", "all")}


def _kept(operator, scales, in_sizes, out_sizes, device):
    """The scales that an operator of `_KEPT` uses."""
    same, rule = [size == count for size, count in zip(in_sizes, out_sizes)], _KEPT[operator][0 if by_lines(device) else 1]
    if rule != "each":
        same = [rule == "all" and all(same)] * len(same)
    return tuple([1.0 if keeps and scale > 0 else scale for scale, keeps in zip(scales, same)])


def _sizes_of(values, x, rank):
    sizes = tuple(values["output_size"])
    return None if len(sizes) != rank or any(size <= 0 for size in sizes) or x.dim() != rank + 2 else sizes


def _gradient_sizes(values, gradient, rank):
    """(sizes of the output, shape of the input), or None where ATen has to complain."""
    sizes, shape = _sizes_of(values, gradient, rank), tuple(values["input_size"])
    if sizes is None or len(shape) != rank + 2 or tuple(gradient.shape) != (*shape[:2], *sizes) or any(size <= 0 for size in shape):
        return None
    return sizes, shape


def _fits(scales, in_sizes, out_sizes):
    """Whether scales fit the sizes: otherwise the last place of the input can give to any number of the output's."""
    return all(scale > 0 and abs(scale * count - size) <= scale for scale, count, size in zip(scales, out_sizes, in_sizes))


def _form(x, rank):
    """The memory format of results: lines are contiguous."""
    return torch.contiguous_format if rank == 1 else None


#: Names of kernels' modes on GPUs, where ATen uses the caller's factor also for sizes that stay or double.
_GPU_MODES = {"nearest": "factor"}


def _nearest(exact, rank):

    def compute(values, outs):
        x = values["self"]
        if (found := unusable(x, rank, outs or (), (*FLOATS, torch.uint8))) is not None:
            return found
        sizes = _sizes_of(values, x, rank)
        if sizes is None:
            return Native("sizes")
        results = outputs(outs, [(*x.shape[:2], *sizes)], x, (x.dtype, ), (x, ), _form(x, rank))
        if type(results) is Native:
            return results
        out, scales = results[0], _scales(values, x.shape[2:], sizes, True)
        if rank == 2:
            scales = _kept("nearest plane", scales, x.shape[2:], sizes, x.device)
        # ATen's kernel for any strides, which takes planes never and volumes of fewer than 4 channels always, uses the factors of sizes that stay or double, too.
        if by_lines(x.device) and (not channels_last(out, x) or (rank == 3 and x.shape[1] < 4)):
            pick(bits(out), bits(x), "exact" if exact else "nearest" if rank == 2 else "factor", scales)
            return out
        if by_lines(x.device):
            launch_by_element(kernels.upsample_nearest, out.numel(), x.device, {
                "out": bits(out), "x": bits(x), "in_sizes": five(x.shape), "out_sizes": five(out.shape), "x_strides": five(x.stride()), "out_strides": five(out.stride()),
                "scale": padded(scales)
            }, {"MODE": "exact" if exact else "nearest"})
        else:
            upsample(bits(out), bits(x), "exact" if exact else "factor", scales)
        return out

    return compute


def _interpolated(mode, rank):

    def compute(values, outs):
        x = values["self"]
        if (found := unusable(x, rank, outs or ())) is not None:
            return found
        sizes = _sizes_of(values, x, rank)
        if sizes is None:
            return Native("sizes")
        results = outputs(outs, [(*x.shape[:2], *sizes)], x, (x.dtype, ), (x, ), _form(x, rank))
        if type(results) is Native:
            return results
        out, scales = results[0], _kept(mode, _linear_scales(values, x.shape[2:], sizes), x.shape[2:], sizes, x.device)
        if by_lines(x.device):
            resample("upsample", out, x, [_TAPS[mode]] * rank, mode=mode, flag=bool(values["align_corners"]), scales=scales)
            return out
        upsample(out, x, mode, scales, bool(values["align_corners"]))
        return out

    return compute


#: How many places of the input give to one of the output, along a dimension.
_TAPS = {"linear": 2, "cubic": 4}


def _windows(mode, scales):
    """How many places of the output an element of the input can give to, by dimension."""
    reach = {"linear": 1, "cubic": 2}.get(mode)
    return [int(1 / scale) + 6 if reach is None else int(2 * reach / scale) + 5 for scale in scales]


def _gradient(mode, rank):

    def compute(values, outs):
        gradient = values["grad_output"]
        if (found := unusable(gradient, rank, outs or ())) is not None:
            return found
        sizes = _gradient_sizes(values, gradient, rank)
        if sizes is None:
            return Native("sizes")
        sizes, shape = sizes
        aligned = bool(values.get("align_corners"))
        if mode in ("linear", "cubic"):
            scales = _kept(f"{mode} gradient", _linear_scales(values, shape[2:], sizes), shape[2:], sizes, gradient.device)
        else:
            scales = _scales(values, shape[2:], sizes, True)
        if not (all(scale > 0 for scale in scales) if aligned else _fits(scales, shape[2:], sizes)):
            return Native("scales")
        kept = mode == "linear" or mode in ("nearest", "exact") and rank == 2
        results = outputs(outs, [shape], gradient, (gradient.dtype, ), (gradient, ), _form(gradient, rank) if kept else torch.contiguous_format)
        if type(results) is Native:
            return results
        to = results[0]
        if by_lines(to.device):
            resample("upsample_gradient", to, gradient, _windows(mode, scales), mode=mode, flag=aligned, scales=scales)
            return to
        if mode in ("nearest", "exact"):
            nearest_gradient(to, gradient, _GPU_MODES.get(mode, mode), scales)
        else:
            resample_along("gradient", to, gradient, scales, _windows(mode, scales), mode, aligned)
        return to

    return compute


# Filters

_REACH = {"linear": 1, "cubic": 2, "lanczos": 3}


def _halves(x):
    """Whether ATen has no filters for a tensor: halves on the CPU."""
    return x.device.type == "cpu" and x.dtype not in (torch.float32, torch.float64)


def _window(filter, scale):
    """The most elements of the input that an element of the result is made of, along a dimension."""
    return math.ceil(2 * _REACH[filter] * max(scale, 1)) + 2


def _filtered(filter):

    def compute(values, outs):
        x = values["self"]
        if (found := unusable(x, 2, outs or ())) is not None:
            return found
        sizes = _sizes_of(values, x, 2)
        if sizes is None or _halves(x):
            return Native("sizes" if sizes is None else "dtype")
        scales = _kept("filter", _linear_scales(values, x.shape[2:], sizes), x.shape[2:], sizes, x.device)
        results = outputs(outs, [(*x.shape[:2], *sizes)], x, (x.dtype, ), (x, ))
        if type(results) is Native:
            return results
        out = results[0]
        if by_lines(x.device):
            resample("filter", out, x, [_window(filter, scale) for scale in scales], mode=filter, scales=scales)
            return out
        resample_along("filter", out, x, scales, [_window(filter, scale) for scale in scales], filter)
        return out

    return compute


def _filtered_gradient(filter):

    def compute(values, outs):
        gradient = values["grad_output"]
        if (found := unusable(gradient, 2, outs or ())) is not None:
            return found
        sizes = _gradient_sizes(values, gradient, 2)
        if sizes is None or _halves(gradient):
            return Native("sizes" if sizes is None else "dtype")
        sizes, shape = sizes
        scales = _kept("filter gradient", _linear_scales(values, shape[2:], sizes), shape[2:], sizes, gradient.device)
        if any(scale <= 0 for scale in scales):
            return Native("scales")
        results = outputs(outs, [shape], gradient, (gradient.dtype, ), (gradient, ), torch.contiguous_format)
        if type(results) is Native:
            return results
        to, windows = results[0], tuple([int(2 * _REACH[filter] * max(scale, 1) / scale) + 5 for scale in scales])
        if by_lines(to.device):
            resample("filter_gradient", to, gradient, windows, mode=filter, scales=scales)
            return to
        sums = [weight_sums(filter, size, count, scale, _window(filter, scale), COMPUTE[to.dtype], to.device) for size, count, scale in zip(shape[2:], sizes, scales)]
        resample_along("filter_gradient", to, gradient, scales, windows, filter, sums=sums)
        return to

    return compute


_SCALES = {1: ("scales", ), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}


def _declare(name, compute, gradient, rank, *more):
    declare(OnPlanes(name=name, compute=compute, arguments=("self", "output_size", *_SCALES[rank], *more), kinds=OF_ONE, kind=KIND))
    declare(OnPlanes(name=name + "_backward", compute=gradient, arguments=("grad_output", "output_size", "input_size", *_SCALES[rank], *more), kinds=OF_ONE, kind=KIND))


for _rank, _linear in ((1, "upsample_linear1d"), (2, "upsample_bilinear2d"), (3, "upsample_trilinear3d")):
    _declare(f"upsample_nearest{_rank}d", _nearest(False, _rank), _gradient("nearest", _rank), _rank)
    _declare(f"_upsample_nearest_exact{_rank}d", _nearest(True, _rank), _gradient("exact", _rank), _rank)
    _declare(_linear, _interpolated("linear", _rank), _gradient("linear", _rank), _rank, "align_corners")
_declare("upsample_bicubic2d", _interpolated("cubic", 2), _gradient("cubic", 2), 2, "align_corners")
for _name, _filter in (("_upsample_bilinear2d_aa", "linear"), ("_upsample_bicubic2d_aa", "cubic"), ("_upsample_lanczos2d_aa", "lanczos")):
    _declare(_name, _filtered(_filter), _filtered_gradient(_filter), 2, "align_corners")
