"""Pooling of ATen in two and three dimensions (one dimension is composed of two), with its gradients."""

import torch

from .._declare import Native, declare
from .._indexed import exist
from .._moves import bits, clear
from .._strided import COMPUTE, FLOATS, INTEGERS, cdiv, product
from ..functions import reductions as functions
from ..kernels import pooling as kernels
from ..reduction import Reduction
from . import _pooling_lines
from ._planes import OF_ONE, OnPlanes, batched, by_lines, five, launch_by_element, outputs, padded, several, unusable
from ._resampling import resample

KIND = "pooling"
_MEAN = Reduction(finish=functions.divided_by_count)


def _length(size, kernel, stride, padding, dilation, ceil):
    """How many windows there are along a dimension."""
    count = (size + 2 * padding - dilation * (kernel - 1) - 1 + (stride - 1 if ceil else 0)) // stride + 1
    return count - 1 if ceil and (count - 1) * stride >= size + padding else count


class _Strided:
    """The windows of a pooling call: kernel, stride, padding, dilation by dimension, and the shape of the result; `wrong` where ATen has to complain."""
    name = "strided"

    def __init__(self, x, values, rank):
        self.kernel = several(values["kernel_size"], rank)
        self.stride = several(values["stride"], rank, self.kernel)
        self.padding = several(values["padding"], rank)
        self.dilation = several(values.get("dilation", 1), rank)
        self.wrong = any(size <= 0 for size in (*self.kernel, *self.stride, *self.dilation)) or any(
            not 0 <= padding <= kernel // 2 for padding, kernel in zip(self.padding, self.kernel))
        if self.wrong:
            return
        self.sizes = tuple([_length(size, *numbers, values["ceil_mode"])
                            for size, *numbers in zip(x.shape[-rank:], self.kernel, self.stride, self.padding, self.dilation)])
        self.wrong = any(size <= 0 for size in self.sizes)
        self.shape = (*x.shape[:-rank], *self.sizes)

    def arguments(self):
        return {"kernel": padded(self.kernel), "stride": padded(self.stride), "padding": padded(self.padding)}

    def kernel_sizes(self):
        """The most elements of a window, by dimension."""
        return self.kernel

    def by_dimension(self):
        """Options of `resample`."""
        return {"kernel": self.kernel, "stride": self.stride, "padding": self.padding}

    def covering(self):
        """How many windows can contain an element, by dimension."""
        return padded([dilation * (kernel - 1) // stride + 1 for kernel, stride, dilation in zip(self.kernel, self.stride, self.dilation)])


class _Adaptive:
    """Windows that cover the input so that there are as many as the result has elements."""
    name = "adaptive"

    def __init__(self, x, sizes, rank):
        self.sizes = several(sizes, rank, (0, ) * rank)
        self.wrong = any(size <= 0 for size in self.sizes)
        self.shape = (*x.shape[:-rank], *self.sizes)
        self.dilation = (1, ) * rank
        self.covered = [] if self.wrong else [cdiv(size, count) + 1 for size, count in zip(x.shape[-rank:], self.sizes)]
        self.around = [] if self.wrong else [cdiv(count, size) + 3 for size, count in zip(x.shape[-rank:], self.sizes)]

    def arguments(self):
        absent = padded([None] * len(self.sizes))
        return {"kernel": padded(self.covered), "stride": absent, "padding": absent}

    def kernel_sizes(self):
        return self.covered

    def by_dimension(self):
        return {}

    def covering(self):
        return padded(self.around)


class _Random:
    """Random intervals of fractional pooling."""
    name = "random"

    def __init__(self, x, values, rank):
        self.kernel, self.sizes = several(values["kernel_size"], rank), several(values["output_size"], rank)
        sizes = x.shape[-rank:]
        self.wrong = len(values["kernel_size"]) != rank or len(values["output_size"]) != rank or any(
            count <= 0 or kernel <= 0 or count + kernel - 1 > size for size, kernel, count in zip(sizes, self.kernel, self.sizes))
        self.shape = (*x.shape[:-rank], *self.sizes)
        self.dilation = (None, ) * rank
        self.around = [] if self.wrong else [count if size == kernel else min(count, cdiv((kernel + 3) * max(count - 1, 1), size - kernel) + 3)
                                             for size, kernel, count in zip(sizes, self.kernel, self.sizes)]

    def arguments(self):
        absent = padded([None] * len(self.sizes))
        return {"kernel": padded(self.kernel), "stride": absent, "padding": absent}

    def covering(self):
        return padded(self.around)


def _by_gradient(x, values, rank):
    return _Adaptive(x, values["grad_output"].shape[-rank:], rank)


def _by_size(x, values, rank):
    return _Adaptive(x, values["output_size"], rank)


def _format(x, rank, name=None):
    """The memory format of results: volumes are contiguous, but those of max pooling with a batch, and what comes of random intervals. None: as the input's."""
    return torch.contiguous_format if name == "random" or rank == 3 and (x.dim() == 4 or name != "strided") else None


def _max_pool(windows_of, name, rank):

    def compute(values, outs):
        x = values["self"]
        if (found := unusable(x, rank, outs or (), FLOATS if name == "adaptive" else FLOATS + INTEGERS)) is not None:
            return found
        windows = windows_of(x, values, rank)
        if windows.wrong:
            return Native("windows")
        results = outputs(outs, [windows.shape] * 2, x, (x.dtype, torch.int64), (x, ), _format(x, rank, name))
        if type(results) is Native:
            return results
        x, out, places = batched(x, rank), batched(results[0], rank), batched(results[1], rank)
        if by_lines(x.device) and _pooling_lines.fits(x, windows):
            _pooling_lines.max_pool(out, places, x, windows)
            return tuple(results)
        launch_by_element(kernels.max_pool, out.numel(), x.device, windows.arguments() | {
            "out": out, "places": places, "x": x, "in_sizes": five(x.shape), "out_sizes": five(out.shape), "x_strides": five(x.stride()),
            "out_strides": five(out.stride()), "place_strides": five(places.stride()), "dilation": padded(windows.dilation)
        }, {"WINDOWS": name, "COMPUTE": COMPUTE[x.dtype]})
        return tuple(results)

    return compute


def _max_pool_gradient(windows_of, name, rank):

    def compute(values, outs):
        gradient, x, places = values["grad_output"], values["self"], values["indices"]
        if (found := unusable(x, rank, (gradient, places, *(outs or ())))) is not None:
            return found
        windows = windows_of(x, values, rank)
        if windows.wrong or places.dtype != torch.int64 or tuple(gradient.shape) != tuple(windows.shape) or places.shape != gradient.shape:
            return Native("windows")
        results = outputs(outs, [x.shape], x, (x.dtype, ), (gradient, places), _format(x, rank, name))
        if type(results) is Native:
            return results
        to, gradient, places = batched(results[0], rank), batched(gradient, rank), batched(places, rank)
        if by_lines(to.device) and _pooling_lines.gradient_fits(to):
            _pooling_lines.max_pool_gradient(to, gradient, places, windows)
            return results[0]
        launch_by_element(kernels.max_pool_gradient, to.numel(), x.device, windows.arguments() | {
            "result": to, "gradient": gradient, "places": places, "in_sizes": five(to.shape), "out_sizes": five(gradient.shape), "result_strides": five(to.stride()),
            "gradient_strides": five(gradient.stride()), "place_strides": five(places.stride()), "dilation": padded(windows.dilation), "windows": windows.covering()
        }, {"WINDOWS": name, "COMPUTE": COMPUTE[x.dtype]})
        return results[0]

    return compute


def _average_options(values):
    divisor = values.get("divisor_override")
    return {"divisor": divisor or 0}, {"PADDED": bool(values.get("count_include_pad", True))}, divisor == 0


def _averaged(x, name, rank):
    """Dtypes whose means ATen has: on CPUs no halves of volumes, integers of 64 bits."""
    halves = x.device.type != "cpu" or rank == 2 or name == "adaptive"
    return (*(FLOATS if halves else FLOATS[2:]), *((torch.int64, ) if name == "strided" else ()))


def _refused(x, windows, name, rank):
    """Whether ATen raises an error: for means of volumes smaller than a window, padded or not."""
    return windows.wrong or name == "strided" and rank == 3 and any(size < kernel for size, kernel in zip(x.shape[-3:], windows.kernel))


def _mean_by_lines(step, windows, bounds, out, x, padded, divisor):
    """The means of windows, or with the step "_gradient" their gradient, by `resample`. bounds: at most how many elements an element of `out` is made of, by dimension."""
    divisor = divisor if windows.name == "strided" else 0
    resample(("sum" if divisor else "average") + step, out, x, bounds, mode=windows.name, flag=padded or windows.name == "adaptive", divisor=divisor,
             **windows.by_dimension())


def _average_pool(windows_of, name, rank):

    def compute(values, outs):
        x = values["self"]
        if (found := unusable(x, rank, outs or (), _averaged(x, name, rank))) is not None:
            return found
        windows = windows_of(x, values, rank)
        arguments, constants, wrong = _average_options(values)
        if _refused(x, windows, name, rank) or wrong:
            return Native("windows")
        if outs is not None and rank == 3 and not outs[0].is_contiguous():
            return Native("strides of the output")  # ATen writes those of volumes as if they were contiguous
        results = outputs(outs, [windows.shape], x, (x.dtype, ), (x, ), _format(x, rank))
        if type(results) is Native:
            return results
        x, out = batched(x, rank), batched(results[0], rank)
        if by_lines(x.device) and x.dtype.is_floating_point:
            _mean_by_lines("", windows, windows.kernel_sizes(), out, x, constants["PADDED"], arguments["divisor"])
            return results[0]
        if name == "adaptive" and product(windows.sizes) == 1:  # one window for each plane
            _MEAN.launch([x], list(range(2, 2 + rank)), [out], COMPUTE[x.dtype], (product(x.shape[2:]), ))
            return results[0]
        launch_by_element(kernels.average_pool, out.numel(), x.device, windows.arguments() | arguments | {
            "out": out, "x": x, "in_sizes": five(x.shape), "out_sizes": five(out.shape), "x_strides": five(x.stride()), "out_strides": five(out.stride())
        }, constants | {"WINDOWS": name, "COMPUTE": COMPUTE[x.dtype]})
        return results[0]

    return compute


def _average_pool_gradient(windows_of, name, rank):

    def compute(values, outs):
        gradient, x = values["grad_output"], values["self"]
        dtypes = [dtype for dtype in _averaged(x, name, rank) if dtype.is_floating_point]
        if (found := unusable(x, rank, (gradient, *(outs or ())), dtypes)) is not None:
            return found
        windows = windows_of(x, values, rank)
        arguments, constants, wrong = _average_options(values)
        if _refused(x, windows, name, rank) or wrong or tuple(gradient.shape) != tuple(windows.shape):
            return Native("windows")
        results = outputs(outs, [x.shape], x, (x.dtype, ), (gradient, ), _format(x, rank))
        if type(results) is Native:
            return results
        to, gradient = batched(results[0], rank), batched(gradient, rank)
        if by_lines(to.device):
            _mean_by_lines("_gradient", windows, windows.covering()[-rank:], to, gradient, constants["PADDED"], arguments["divisor"])
            return results[0]
        launch_by_element(kernels.average_pool_gradient, to.numel(), x.device, windows.arguments() | arguments | {
            "result": to, "gradient": gradient, "in_sizes": five(to.shape), "out_sizes": five(gradient.shape), "result_strides": five(to.stride()),
            "gradient_strides": five(gradient.stride()), "windows": windows.covering()
        }, constants | {"WINDOWS": name, "COMPUTE": COMPUTE[x.dtype]})
        return results[0]

    return compute


for _rank in (2, 3):
    declare(OnPlanes(name=f"max_pool{_rank}d_with_indices", compute=_max_pool(_Strided, "strided", _rank), kinds=OF_ONE, results=2, kind=KIND))
    declare(OnPlanes(name=f"max_pool{_rank}d_with_indices_backward", compute=_max_pool_gradient(_Strided, "strided", _rank), kinds=OF_ONE, kind=KIND))
    declare(OnPlanes(name=f"adaptive_max_pool{_rank}d", compute=_max_pool(_by_size, "adaptive", _rank), kinds=OF_ONE, results=2, kind=KIND))
    declare(OnPlanes(name=f"adaptive_max_pool{_rank}d_backward", compute=_max_pool_gradient(_by_gradient, "adaptive", _rank), kinds=OF_ONE, kind=KIND))
    declare(OnPlanes(name=f"avg_pool{_rank}d", compute=_average_pool(_Strided, "strided", _rank), kinds=OF_ONE, kind=KIND))
    declare(OnPlanes(name=f"avg_pool{_rank}d_backward", compute=_average_pool_gradient(_Strided, "strided", _rank), kinds=OF_ONE, kind=KIND))
    declare(OnPlanes(name=f"_adaptive_avg_pool{_rank}d", compute=_average_pool(_by_size, "adaptive", _rank), kinds=("functional", ), kind=KIND))
    declare(OnPlanes(name=f"_adaptive_avg_pool{_rank}d_backward", compute=_average_pool_gradient(_by_gradient, "adaptive", _rank), kinds=("functional", ), kind=KIND))
    declare(OnPlanes(name=f"adaptive_avg_pool{_rank}d", compute=_average_pool(_by_size, "adaptive", _rank), kinds=("out", ), kind=KIND))
declare(OnPlanes(name="adaptive_avg_pool3d_backward", compute=_average_pool_gradient(_by_gradient, "adaptive", 3), kinds=("out", ), kind=KIND))


# Fractional pooling


def _random_max_pool(rank):

    def compute(values, outs):
        x, samples = values["self"], values["random_samples"]
        # On CPUs ATen finds the intervals of halves in arithmetic of halves.
        if (found := unusable(x, rank, (samples, *(outs or ())), FLOATS[2:] if x.device.type == "cpu" else FLOATS)) is not None:
            return found
        windows = _Random(x, values, rank)
        planes = batched(x, rank)
        if windows.wrong or samples.dtype != x.dtype or tuple(samples.shape) != (*planes.shape[:2], rank):
            return Native("windows")
        results = outputs(outs, [windows.shape] * 2, x, (x.dtype, torch.int64), (x, samples), torch.contiguous_format)
        if type(results) is Native:
            return results
        out, places = batched(results[0], rank), batched(results[1], rank)
        launch_by_element(kernels.random_max_pool, out.numel(), x.device, {
            "out": out, "places": places, "x": planes, "samples": samples, "in_sizes": five(planes.shape), "out_sizes": five(out.shape), "x_strides": five(planes.stride()),
            "out_strides": five(out.stride()), "place_strides": five(places.stride()), "sample_strides": samples.stride(), "kernel": padded(windows.kernel)
        }, {"COMPUTE": COMPUTE[x.dtype]})
        return tuple(results)

    return compute


for _rank in (2, 3):
    declare(OnPlanes(name=f"fractional_max_pool{_rank}d", compute=_random_max_pool(_rank), kinds=OF_ONE, results=2, kind=KIND))
    declare(OnPlanes(name=f"fractional_max_pool{_rank}d_backward", compute=_max_pool_gradient(_Random, "random", _rank), kinds=OF_ONE, kind=KIND))


# The inverse of max pooling


def _unpool(rank):

    def compute(values, outs):
        x, places, sizes = values["self"], values["indices"], tuple(values["output_size"])
        if (found := unusable(x, rank, (places, *(outs or ())))) is not None:
            return found
        if places.dtype != torch.int64 or places.shape != x.shape or len(sizes) != rank or any(size <= 0 for size in sizes):
            return Native("shapes")
        if rank == 3:
            stride, padding = values["stride"], values["padding"]
            if len(stride) != 3 or len(padding) != 3 or any(step <= 0 for step in stride):
                return Native("windows")
        if torch.are_deterministic_algorithms_enabled() or not exist(places, product(sizes)):
            return Native("places")
        form = None if rank == 2 and x.device.type == "cpu" else torch.contiguous_format
        results = outputs(outs, [(*x.shape[:-rank], *sizes)], x, (x.dtype, ), (x, places), form)
        if type(results) is Native:
            return results
        clear(results[0])
        planes, places, out = batched(x, rank), batched(places, rank), batched(results[0], rank)
        launch_by_element(kernels.max_unpool, x.numel(), x.device, {
            "out": bits(out), "x": bits(planes), "places": places, "in_sizes": five(planes.shape), "out_sizes": five(out.shape), "x_strides": five(planes.stride()),
            "out_strides": five(out.stride()), "place_strides": five(places.stride()), "plane": product(sizes)
        }, {})
        return results[0]

    return compute


for _rank in (2, 3):
    declare(OnPlanes(name=f"max_unpool{_rank}d", compute=_unpool(_rank), kinds=OF_ONE, kind=KIND))
