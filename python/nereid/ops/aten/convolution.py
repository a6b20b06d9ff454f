"""Convolutions of ATen and their gradients.

`convolution` and `convolution_backward` are the leaves: ATen differentiates them by formulas of its own, and everything else (`conv2d`, `conv_transpose2d`, `_convolution_mode`,
...) is composed of them. What they call in turn differs by device and build (oneDNN, cuDNN, `slow_conv*`, ...); these operators have formulas of their own, too, and are
not replaced.
"""

import dataclasses
import math

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .. import convolution
from .._declare import Native, Operator, declare
from .._moves import foreign
from .._strided import COMPUTE, FLOATS, NARROW, product
from ..reduction import Reduction

SUM = Reduction()


def _numbers(values, name, rank):
    """A list of numbers of a call, one for each dimension; None where there are others than one or `rank`."""
    numbers = tuple(values[name])
    return numbers * rank if len(numbers) == 1 else numbers if len(numbers) == rank else None


def _plan(x, w, values):
    """(Window, shape of the result), or `Native` where ATen has to decide."""
    rank = x.dim() - 2
    if w.dim() != x.dim() or rank not in (1, 2, 3):
        return Native("shapes")
    if not x.numel() or not w.numel():
        return Native("empty")
    stride, padding, dilation, added = (_numbers(values, name, rank) for name in ("stride", "padding", "dilation", "output_padding"))
    groups, transposed = values["groups"], bool(values["transposed"])
    if None in (stride, padding, dilation, added) or groups < 1 or min(*stride, *dilation) < 1 or min(*padding, *added) < 0:
        return Native("window")
    if w.shape[0] % groups or x.shape[1] != (w.shape[0] if transposed else w.shape[1] * groups):
        return Native("shapes")
    if transposed:
        if any(extra >= max(pair) for extra, *pair in zip(added, stride, dilation)):
            return Native("window")
        places = [(size - 1) * its_stride - 2 * its_padding + its_dilation * (tap - 1) + extra + 1
                  for size, its_stride, its_padding, its_dilation, tap, extra in zip(x.shape[2:], stride, padding, dilation, w.shape[2:], added)]
        channels = w.shape[1] * groups
    else:
        places = [(size + 2 * its_padding - its_dilation * (tap - 1) - 1) // its_stride + 1
                  for size, its_stride, its_padding, its_dilation, tap in zip(x.shape[2:], stride, padding, dilation, w.shape[2:])]
        channels = w.shape[0]
    if min(places) < 1:
        return Native("window")
    if max(groups, math.prod(stride)) > convolution.MOST or max(x.shape[0] * product(places), x.numel() // x.shape[1], w.numel(), *stride, *padding, *dilation) > NARROW // 2:
        return Native("size")
    return convolution.Window(tuple(w.shape[2:]), stride, padding, dilation, groups, transposed), (x.shape[0], channels, *places)


def _format(x, w, values):
    """The memory format that ATen gives to results, as its fake tensors find it."""
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups", "bias", "bias_sizes")
    with _disable_current_modes():
        backend = torch._C._select_conv_backend(x, w, **{name: values.get(name) for name in names})
        if x.dim() == 3:  # a plane with one row, which ATen makes contiguous first
            w = w.unsqueeze(2)
            x = x.unsqueeze(2) if x.is_contiguous() else w
        return torch._C._conv_determine_backend_memory_format(x, w, backend)


def _made(shape, like, form):
    """A new tensor; `form` is of planes where it has one dimension."""
    if len(shape) == 3 and form == torch.channels_last:
        return torch.empty((*shape[:2], 1, shape[2]), dtype=like.dtype, device=like.device, memory_format=form).squeeze(2)
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=torch.contiguous_format if len(shape) == 3 else form)


def _unusable(*tensors):
    """`Native` for tensors that kernels cannot read, or not of one floating dtype; None is passed over."""
    if (found := foreign(*tensors)) is not None:
        return found
    tensors = [tensor for tensor in tensors if tensor is not None]
    if tensors[0].dtype not in FLOATS:
        return Native("dtype")
    return None if all(tensor.dtype == tensors[0].dtype for tensor in tensors) else Native("dtypes differ")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Convolution(Operator):
    family = "convolution"
    served_dtypes = FLOATS

    def accepts(self, form):
        return form.kind == "functional"

    def _kind(self, x, w, values):
        """(kind, sizes) of routing data: dimensions, algorithm and layout; pixels of the input, channels of the result and of the input in a group, taps."""
        if x.dim() != w.dim() or not x.numel() or not w.numel():
            return None
        found = _plan(x, w, values)
        if type(found) is Native:
            return None
        window, shape = found
        channels, inner = shape[1] // window.groups, x.shape[1] // window.groups
        how = "plain" if window.is_plain and window.groups == 1 else "direct" if convolution.is_direct(window.groups, channels, inner) else "groups" if window.groups > 1 else "dense"
        kind = f"{x.dim() - 2}d {how}{' transposed' if window.transposed else ''} {'channels' if x.stride(1) == 1 and x.shape[1] > 1 else 'planes'}"
        return kind, (x.shape[0] * product(shape[2:]), shape[1], inner, product(window.taps))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Forward(_Convolution):
    """`convolution`."""

    def shape_class(self, form, values):
        return self._kind(values["input"], values["weight"], values)

    def call(self, form, values, outs):
        x, w, bias = values["input"], values["weight"], values["bias"]
        if (found := _unusable(x, w, bias)) is not None:
            return found
        found = _plan(x, w, values)
        if type(found) is Native:
            return found
        window, shape = found
        if bias is not None and tuple(bias.shape) != shape[1:2]:
            return Native("shapes")
        out = _made(shape, x, _format(x, w, values))
        convolution.convolve(out, x, w, bias, window)
        return out


@dataclasses.dataclass(frozen=True, kw_only=True)
class Backward(_Convolution):
    """`convolution_backward`: the gradients of input, weight and bias that `output_mask` asks for."""

    def shape_class(self, form, values):
        found = self._kind(values["input"], values["weight"], values)
        if found is None:
            return None
        return found[0] + "".join(name for name, wanted in zip((" input", " weight"), values["output_mask"]) if wanted), found[1]

    def call(self, form, values, outs):
        y, x, w, mask = values["grad_output"], values["input"], values["weight"], values["output_mask"]
        if (found := _unusable(y, x, w)) is not None:
            return found
        found = _plan(x, w, values)
        if type(found) is Native:
            return found
        window, shape = found
        if tuple(y.shape) != shape:
            return Native("shapes")
        format_of = _format(x, w, values)
        x_gradient, w_gradient, bias_gradient = None, None, None
        if mask[0]:
            x_gradient = _made(x.shape, x, format_of)
            convolution.convolve(x_gradient, y, w, None, window.turned())
        if mask[1]:
            w_gradient = _made(w.shape, w, format_of)
            if window.transposed:
                convolution.weigh(w_gradient, x, y, window.turned())
            else:
                convolution.weigh(w_gradient, y, x, window)
        if mask[2]:
            bias_gradient = torch.empty(shape[1:2], dtype=y.dtype, device=y.device)
            SUM.launch((y, ), [0, *range(2, y.dim())], [bias_gradient], COMPUTE[y.dtype])
        return x_gradient, w_gradient, bias_gradient


declare(Forward(name="convolution"))
declare(Backward(name="convolution_backward"))
