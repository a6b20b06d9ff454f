"""Pooling and interpolation of ATen in two dimensions, with their gradients."""

import ctypes
import math

import torch

from .._declare import Native, declare
from .._launch import launch
from .._moves import bits, foreign
from .._strided import COMPUTE, FLOATS, cdiv
from ..kernels import pooling as kernels
from ._computed import Computed
from ._outputs import ready

OF_ONE = ("functional", "out")
KIND = "pooling"
BLOCK = 256


def _four(x):
    """Planes without a batch as a batch of one."""
    return x if x.dim() == 4 else x.unsqueeze(0)


def _pair(numbers, other=None):
    """Two numbers from a list of one or two; from an empty one `other`."""
    numbers = list(numbers) if isinstance(numbers, (list, tuple)) else [numbers]
    return tuple(numbers * 2 if len(numbers) == 1 else numbers) if numbers else other


def _unusable(x, *others):
    """`Native` for tensors that are no planes of floats, or not of one dtype."""
    if (found := foreign(x, *others)) is not None:
        return found
    if x.dim() not in (3, 4) or x.dtype not in FLOATS or any(other is not None and other.is_floating_point() and other.dtype != x.dtype for other in others):
        return Native("dtype")
    return Native("empty") if not x.numel() else None


def _outputs(outs, shapes, x, dtypes, tensors, strided=None):
    """Outputs in the memory format of `x`, or `Native`."""
    form = torch._prims_common.suggest_memory_format(x) if strided is None else strided
    if outs is None:
        return [torch.empty(shape, dtype=dtype, device=x.device, memory_format=form) for shape, dtype in zip(shapes, dtypes)]
    if any(out.data_ptr() == tensor.data_ptr() for out in outs for tensor in tensors):
        return Native("overlap")
    new = [tuple(out.shape) != tuple(shape) for out, shape in zip(outs, shapes)]
    if (found := ready(outs, list(zip(shapes, dtypes)), tensors)) is not None:
        return found
    for out, shape, resized in zip(outs, shapes, new):
        if resized:
            out.resize_(shape, memory_format=form)
    return outs


def _length(size, kernel, stride, padding, dilation, ceil):
    """How many windows there are along a dimension."""
    count = (size + 2 * padding - dilation * (kernel - 1) - 1 + (stride - 1 if ceil else 0)) // stride + 1
    return count - 1 if ceil and (count - 1) * stride >= size + padding else count


class _Windows:
    """The windows of a pooling call: kernel, stride, padding, dilation of (h, w), and the shape of the result; `wrong` where ATen has to complain."""

    def __init__(self, x, values):
        self.kernel = _pair(values["kernel_size"])
        self.stride = _pair(values["stride"], self.kernel)
        self.padding = _pair(values["padding"])
        self.dilation = _pair(values.get("dilation", 1))
        self.wrong = any(size <= 0 for size in (*self.kernel, *self.stride, *self.dilation)) or any(
            not 0 <= padding <= kernel // 2 for padding, kernel in zip(self.padding, self.kernel))
        if self.wrong:
            return
        self.sizes = tuple([_length(size, *numbers, values["ceil_mode"])
                            for size, *numbers in zip(x.shape[-2:], self.kernel, self.stride, self.padding, self.dilation)])
        self.wrong = any(size <= 0 for size in self.sizes)
        self.shape = (*x.shape[:-2], *self.sizes)

    def arguments(self):
        return {"kernel": self.kernel, "stride": self.stride, "padding": self.padding}

    def covering(self):
        """How many windows can contain an element, for h and w."""
        return tuple([dilation * (kernel - 1) // stride + 1 for kernel, stride, dilation in zip(self.kernel, self.stride, self.dilation)])


class _Adaptive:
    """Windows that cover the input so that there are as many as the result has elements."""

    def __init__(self, x, sizes):
        self.sizes = _pair(sizes, (0, 0))
        self.wrong = any(size <= 0 for size in self.sizes)
        self.shape = (*x.shape[:-2], *self.sizes)
        self.dilation = (1, 1)
        self.covered = [] if self.wrong else [cdiv(size, count) + 1 for size, count in zip(x.shape[-2:], self.sizes)]
        self.around = [] if self.wrong else [cdiv(count, size) + 3 for size, count in zip(x.shape[-2:], self.sizes)]

    def arguments(self):
        return {"kernel": tuple(self.covered), "stride": (1, 1), "padding": (0, 0)}

    def covering(self):
        return tuple(self.around)


def _launch(kernel, numel, device, arguments, constants):
    launch(kernel, cdiv(numel, BLOCK), device, arguments | {"numel": numel}, constants | {"BLOCK": BLOCK})


def _max_pool(windows_of, adaptive):

    def compute(values, outs):
        x = values["self"]
        if (found := _unusable(x, *(outs or ()))) is not None:
            return found
        windows = windows_of(x, values)
        if windows.wrong:
            return Native("windows")
        results = _outputs(outs, [windows.shape] * 2, x, (x.dtype, torch.int64), (x, ))
        if type(results) is Native:
            return results
        planes, out, places = _four(x), _four(results[0]), _four(results[1])
        _launch(kernels.max_pool, out.numel(), x.device, windows.arguments() | {
            "out": out, "places": places, "x": planes, "in_sizes": tuple(planes.shape), "out_sizes": tuple(out.shape), "x_strides": planes.stride(),
            "out_strides": out.stride(), "place_strides": places.stride(), "dilation": windows.dilation
        }, {"ADAPTIVE": adaptive, "COMPUTE": COMPUTE[x.dtype]})
        return tuple(results)

    return compute


def _max_pool_gradient(windows_of, adaptive):

    def compute(values, outs):
        gradient, x, places = values["grad_output"], values["self"], values["indices"]
        if (found := _unusable(x, gradient, places, *(outs or ()))) is not None:
            return found
        windows = windows_of(x, values)
        if windows.wrong or places.dtype != torch.int64 or tuple(gradient.shape) != windows.shape or places.shape != gradient.shape:
            return Native("windows")
        results = _outputs(outs, [x.shape], x, (x.dtype, ), (gradient, places))
        if type(results) is Native:
            return results
        to, gradient, places = _four(results[0]), _four(gradient), _four(places)
        _launch(kernels.max_pool_gradient, to.numel(), x.device, windows.arguments() | {
            "result": to, "gradient": gradient, "places": places, "in_sizes": tuple(to.shape), "out_sizes": tuple(gradient.shape), "result_strides": to.stride(),
            "gradient_strides": gradient.stride(), "place_strides": places.stride(), "dilation": windows.dilation, "windows": windows.covering()
        }, {"ADAPTIVE": adaptive, "COMPUTE": COMPUTE[x.dtype]})
        return results[0]

    return compute


def _average_options(values):
    divisor = values.get("divisor_override")
    return {"divisor": divisor or 0}, {"PADDED": bool(values.get("count_include_pad", True))}, divisor == 0


def _average_pool(windows_of, adaptive):

    def compute(values, outs):
        x = values["self"]
        if (found := _unusable(x, *(outs or ()))) is not None:
            return found
        windows = windows_of(x, values)
        arguments, constants, wrong = _average_options(values)
        if windows.wrong or wrong:
            return Native("windows")
        results = _outputs(outs, [windows.shape], x, (x.dtype, ), (x, ))
        if type(results) is Native:
            return results
        planes, out = _four(x), _four(results[0])
        _launch(kernels.average_pool, out.numel(), x.device, windows.arguments() | arguments | {
            "out": out, "x": planes, "in_sizes": tuple(planes.shape), "out_sizes": tuple(out.shape), "x_strides": planes.stride(), "out_strides": out.stride()
        }, constants | {"ADAPTIVE": adaptive, "COMPUTE": COMPUTE[x.dtype]})
        return results[0]

    return compute


def _average_pool_gradient(windows_of, adaptive):

    def compute(values, outs):
        gradient, x = values["grad_output"], values["self"]
        if (found := _unusable(x, gradient, *(outs or ()))) is not None:
            return found
        windows = windows_of(x, values)
        arguments, constants, wrong = _average_options(values)
        if windows.wrong or wrong or tuple(gradient.shape) != windows.shape:
            return Native("windows")
        results = _outputs(outs, [x.shape], x, (x.dtype, ), (gradient, ))
        if type(results) is Native:
            return results
        to, gradient = _four(results[0]), _four(gradient)
        _launch(kernels.average_pool_gradient, to.numel(), x.device, windows.arguments() | arguments | {
            "result": to, "gradient": gradient, "in_sizes": tuple(to.shape), "out_sizes": tuple(gradient.shape), "result_strides": to.stride(),
            "gradient_strides": gradient.stride(), "windows": windows.covering()
        }, constants | {"ADAPTIVE": adaptive, "COMPUTE": COMPUTE[x.dtype]})
        return results[0]

    return compute


def _by_gradient(x, values):
    return _Adaptive(x, values["grad_output"].shape[-2:])


def _by_size(x, values):
    return _Adaptive(x, values["output_size"])


declare(Computed(name="max_pool2d_with_indices", compute=_max_pool(_Windows, False), kinds=OF_ONE, results=2, kind=KIND))
declare(Computed(name="max_pool2d_with_indices_backward", compute=_max_pool_gradient(_Windows, False), kinds=OF_ONE, kind=KIND))
declare(Computed(name="adaptive_max_pool2d", compute=_max_pool(_by_size, True), kinds=OF_ONE, results=2, kind=KIND))
declare(Computed(name="adaptive_max_pool2d_backward", compute=_max_pool_gradient(_by_gradient, True), kinds=OF_ONE, kind=KIND))
declare(Computed(name="avg_pool2d", compute=_average_pool(_Windows, False), kinds=OF_ONE, kind=KIND))
declare(Computed(name="avg_pool2d_backward", compute=_average_pool_gradient(_Windows, False), kinds=OF_ONE, kind=KIND))
declare(Computed(name="_adaptive_avg_pool2d", compute=_average_pool(_by_size, True), kinds=("functional", ), kind=KIND))
declare(Computed(name="_adaptive_avg_pool2d_backward", compute=_average_pool_gradient(_by_gradient, True), kinds=("functional", ), kind=KIND))


# Interpolation


def _float(value):
    """A number rounded to fp32."""
    return ctypes.c_float(value).value


def _scales(values, in_sizes, out_sizes, rounded):
    """How far apart the output's places are in the input, for h and w."""
    given = (values.get("scales_h"), values.get("scales_w"))
    found = [1 / scale if scale is not None and scale > 0 else size / count for scale, size, count in zip(given, in_sizes, out_sizes)]
    return tuple([_float(scale) for scale in found]) if rounded else tuple(found)


def _sizes_of(values, x):
    sizes = tuple(values["output_size"])
    return None if len(sizes) != 2 or any(size <= 0 for size in sizes) or x.dim() != 4 else sizes


def _nearest(exact):

    def compute(values, outs):
        x = values["self"]
        if (found := _unusable(x, *(outs or ()))) is not None:
            return found
        sizes = _sizes_of(values, x)
        if sizes is None:
            return Native("sizes")
        results = _outputs(outs, [(*x.shape[:2], *sizes)], x, (x.dtype, ), (x, ))
        if type(results) is Native:
            return results
        out = results[0]
        _launch(kernels.upsample_nearest, out.numel(), x.device, {
            "out": bits(out), "x": bits(x), "in_sizes": tuple(x.shape), "out_sizes": tuple(out.shape), "x_strides": x.stride(), "out_strides": out.stride(),
            "scale": _scales(values, x.shape[2:], sizes, True)
        }, {"EXACT": exact})
        return out

    return compute


def _nearest_gradient(exact):

    def compute(values, outs):
        gradient, shape = values["grad_output"], tuple(values["input_size"])
        if (found := _unusable(gradient, *(outs or ()))) is not None:
            return found
        sizes = _sizes_of(values, gradient)
        if sizes is None or len(shape) != 4 or tuple(gradient.shape) != (*shape[:2], *sizes) or any(size <= 0 for size in shape):
            return Native("sizes")
        scales = _scales(values, shape[2:], sizes, True)
        if not _fits(scales, shape[2:], sizes):
            return Native("scales")
        results = _outputs(outs, [shape], gradient, (gradient.dtype, ), (gradient, ))
        if type(results) is Native:
            return results
        to = results[0]
        _launch(kernels.upsample_nearest_gradient, to.numel(), to.device, {
            "result": to, "gradient": gradient, "in_sizes": shape, "out_sizes": tuple(gradient.shape), "result_strides": to.stride(),
            "gradient_strides": gradient.stride(), "scale": scales, "windows": tuple([int(1 / scale) + 6 for scale in scales])
        }, {"EXACT": exact, "COMPUTE": COMPUTE[to.dtype]})
        return to

    return compute


def _linear_scales(values, in_sizes, out_sizes):
    if values["align_corners"]:
        return tuple([(size - 1) / (count - 1) if count > 1 else 0.0 for size, count in zip(in_sizes, out_sizes)])
    return _scales(values, in_sizes, out_sizes, False)


def _bilinear(values, outs):
    x = values["self"]
    if (found := _unusable(x, *(outs or ()))) is not None:
        return found
    sizes = _sizes_of(values, x)
    if sizes is None:
        return Native("sizes")
    results = _outputs(outs, [(*x.shape[:2], *sizes)], x, (x.dtype, ), (x, ))
    if type(results) is Native:
        return results
    out, aligned = results[0], bool(values["align_corners"])
    scales = _linear_scales(values, x.shape[2:], sizes)
    _launch(kernels.upsample_bilinear, out.numel(), x.device, {
        "out": out, "x": x, "in_sizes": tuple(x.shape), "out_sizes": tuple(out.shape), "x_strides": x.stride(), "out_strides": out.stride(), "scale": scales
    }, {"ALIGNED": aligned, "COMPUTE": COMPUTE[x.dtype]})
    return out


def _fits(scales, in_sizes, out_sizes):
    """Whether scales fit the sizes: otherwise the last place of the input can give to any number of the output's."""
    return all(scale > 0 and abs(scale * count - size) <= scale for scale, count, size in zip(scales, out_sizes, in_sizes))


def _bilinear_gradient(values, outs):
    gradient, shape = values["grad_output"], tuple(values["input_size"])
    if (found := _unusable(gradient, *(outs or ()))) is not None:
        return found
    sizes = _sizes_of(values, gradient)
    if sizes is None or len(shape) != 4 or tuple(gradient.shape) != (*shape[:2], *sizes) or any(size <= 0 for size in shape):
        return Native("sizes")
    scales, aligned = _linear_scales(values, shape[2:], sizes), bool(values["align_corners"])
    if aligned:  # a place has at most two neighbours, all of the output's have one
        scales_fit = all(scale > 0 for scale in scales)
    else:
        scales_fit = _fits(scales, shape[2:], sizes)
    if not scales_fit:
        return Native("scales")
    results = _outputs(outs, [shape], gradient, (gradient.dtype, ), (gradient, ))
    if type(results) is Native:
        return results
    to = results[0]
    _launch(kernels.upsample_bilinear_gradient, to.numel(), to.device, {
        "result": to, "gradient": gradient, "in_sizes": shape, "out_sizes": tuple(gradient.shape), "result_strides": to.stride(),
        "gradient_strides": gradient.stride(), "scale": scales, "windows": tuple([int(2 / scale) + 5 for scale in scales])
    }, {"ALIGNED": aligned, "COMPUTE": COMPUTE[to.dtype]})
    return to


def _filtered(cubic):

    def compute(values, outs):
        x = values["self"]
        if (found := _unusable(x, *(outs or ()))) is not None:
            return found
        if x.device.type == "cpu" and x.dtype not in (torch.float32, torch.float64):
            return Native("dtype")
        sizes = _sizes_of(values, x)
        if sizes is None:
            return Native("sizes")
        scales = _linear_scales(values, x.shape[2:], sizes)
        results = _outputs(outs, [(*x.shape[:2], *sizes)], x, (x.dtype, ), (x, ))
        if type(results) is Native:
            return results
        out = results[0]
        windows = tuple([math.ceil((4 if cubic else 2) * max(scale, 1)) + 2 for scale in scales])
        _launch(kernels.upsample_filtered, out.numel(), x.device, {
            "out": out, "x": x, "in_sizes": tuple(x.shape), "out_sizes": tuple(out.shape), "x_strides": x.stride(), "out_strides": out.stride(), "scale": scales,
            "windows": windows
        }, {"CUBIC": cubic, "COMPUTE": COMPUTE[x.dtype]})
        return out

    return compute


_NEAREST = ("self", "output_size", "scales_h", "scales_w")
_NEAREST_BACKWARD = ("grad_output", "output_size", "input_size", "scales_h", "scales_w")
declare(Computed(name="upsample_nearest2d", compute=_nearest(False), arguments=_NEAREST, kinds=OF_ONE, kind=KIND))
declare(Computed(name="_upsample_nearest_exact2d", compute=_nearest(True), arguments=_NEAREST, kinds=OF_ONE, kind=KIND))
declare(Computed(name="upsample_nearest2d_backward", compute=_nearest_gradient(False), arguments=_NEAREST_BACKWARD, kinds=OF_ONE, kind=KIND))
declare(Computed(name="_upsample_nearest_exact2d_backward", compute=_nearest_gradient(True), arguments=_NEAREST_BACKWARD, kinds=OF_ONE, kind=KIND))
declare(Computed(name="upsample_bilinear2d", compute=_bilinear, arguments=(*_NEAREST, "align_corners"), kinds=OF_ONE, kind=KIND))
declare(Computed(name="upsample_bilinear2d_backward", compute=_bilinear_gradient, arguments=(*_NEAREST_BACKWARD, "align_corners"), kinds=OF_ONE, kind=KIND))
declare(Computed(name="_upsample_bilinear2d_aa", compute=_filtered(False), arguments=(*_NEAREST, "align_corners"), kinds=OF_ONE, kind=KIND))
declare(Computed(name="_upsample_bicubic2d_aa", compute=_filtered(True), arguments=(*_NEAREST, "align_corners"), kinds=OF_ONE, kind=KIND))
