"""Launches of kernels/pooling_lines.py: max pooling and its gradient on CPUs."""

import torch

from .._launch import DTYPES, launch
from .._strided import COMPUTE, STORAGE, cdiv, product, programs_wanted, step_up
from ..kernels import pooling_lines as kernels
from ._planes import channels_last, five, padded, programs_of

_BLOCKS = (16, 32, 64, 128, 256)
#: Places within (d, h, w) are numbers of 32 bits.
_MOST = 2**31 - 1


def fits(x, windows):
    """Whether the kernels can compute the windows of a tensor (n, c, ...): places are numbers that they have, and no window has all its places in the padding."""
    dilated = windows.name == "strided" and any(dilation > size for size, dilation in zip(x.shape[2:], windows.dilation))
    return product(x.shape[2:]) <= _MOST and not dilated


def max_pool(out, places, x, windows):
    """Writes the greatest elements of the windows of `x` and their places; all (n, c, 2 or 3 dimensions), of any strides. windows: as in pooling.py."""
    dilation = padded(windows.dilation)
    arguments = windows.arguments() | {
        "out": out, "places": places, "x": x, "in_sizes": five(x.shape), "out_sizes": five(out.shape), "x_strides": five(x.stride()), "out_strides": five(out.stride()),
        "place_strides": five(places.stride()), "dilation": dilation
    }
    constants = {"WINDOWS": windows.name, "COMPUTE": COMPUTE[x.dtype]}
    if channels_last(x, out, places):
        items, block = product(out.shape[2:-1]) * out.shape[0], step_up(out.shape[1], _BLOCKS[:3])
        programs, share = programs_of(items, x.device)
        launch(kernels.max_pool_channels, (programs, cdiv(out.shape[1], block)), x.device, arguments | {"items": items, "share": share}, constants | {"BLOCK": block})
        return
    size, count, items = x.shape[-1], out.shape[-1], product(out.shape[:-1])
    programs, share = programs_of(items, x.device)
    block = step_up(count, _BLOCKS)
    length = size
    if windows.name == "strided":
        length = max(size + windows.padding[-1], (cdiv(count, block) * block - 1) * windows.stride[-1] + (windows.kernel[-1] - 1) * windows.dilation[-1] + 1)
    launch(kernels.max_pool_lines, programs, x.device, arguments | {
        "values": torch.empty((programs, length), dtype=STORAGE[constants["COMPUTE"]], device=x.device),
        "rows": torch.empty((programs, length), dtype=torch.int32, device=x.device), "length": length, "items": items, "share": share
    }, constants | {"UNIT": out.stride(-1) == places.stride(-1) == x.stride(-1) == 1, "IN_BLOCK": step_up(size, _BLOCKS), "BLOCK": block})


def gradient_fits(to):
    """Whether places of a plane of the result, (n, c, ...), lie side by side, or with all channels between them."""
    return to[0, 0].is_contiguous() or to.stride(1) == 1 and _step(to) is not None


def _step(to):
    """The distance of neighbouring places of a tensor whose places are all that far apart, else None."""
    step = expected = to.stride(-1)
    for size, stride in zip(reversed(to.shape[2:]), reversed(to.stride()[2:])):
        if size != 1 and stride != expected:
            return None
        expected *= size
    return step


def _meet(windows):
    """Whether windows may have elements in common."""
    return windows.name != "strided" or any(stride <= dilation * (kernel - 1) for kernel, stride, dilation in zip(windows.kernel, windows.stride, windows.dilation))


def max_pool_gradient(to, gradient, places, windows):
    """Adds the gradients of windows at their places; all (n, c, 2 or 3 dimensions). to: as `gradient_fits` asks for. windows: as in pooling.py."""
    # Sums of one number need no wider dtype.
    compute, plane, device = COMPUTE[to.dtype] if _meet(windows) else DTYPES[to.dtype], product(to.shape[2:]), to.device
    dtype = STORAGE[compute] if _meet(windows) else to.dtype
    arguments = {
        "result": to, "gradient": gradient, "places": places, "plane": plane, "sizes": tuple(to.shape[:2]), "out_sizes": five(gradient.shape), "result_strides": to.stride()[:2],
        "gradient_strides": five(gradient.stride()), "place_strides": five(places.stride())
    }
    if _step(gradient) == _step(places) == 1:  # windows of a plane are one line
        windows_of = (*gradient.shape[:2], product(gradient.shape[2:]))
        arguments |= {"out_sizes": five(windows_of), "gradient_strides": five((*gradient.stride()[:2], 1)), "place_strides": five((*places.stride()[:2], 1))}
    if not to[0, 0].is_contiguous():
        block = step_up(to.shape[1], _BLOCKS[:3])
        programs = cdiv(to.shape[1], block)
        sums = None if to.dtype == dtype else torch.empty((to.shape[0], programs, plane, block), dtype=dtype, device=device)
        launch(kernels.max_pool_gradient_channels, (programs, to.shape[0]), device, arguments | {"sums": sums, "step": _step(to)}, {"COMPUTE": compute, "BLOCK": block})
        return
    items = to.shape[0] * to.shape[1]
    share = cdiv(items, programs_wanted(device))
    programs = cdiv(items, share)
    sums = None if to.dtype == dtype else torch.empty((programs, plane), dtype=dtype, device=device)
    launch(kernels.max_pool_gradient_planes, programs, device, arguments | {"sums": sums, "share": share}, {
        "COMPUTE": compute, "UNIT": gradient.stride(-1) == places.stride(-1) == 1, "BLOCK": step_up(plane, (*_BLOCKS, 1024, 4096))})
