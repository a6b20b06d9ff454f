"""Launches of kernels/resampling.py: interpolation, means of windows and padding's gradients on CPUs."""

import torch

from .._launch import launch
from .._strided import COMPUTE, STORAGE, cdiv, product, programs_wanted, step_up
from ..kernels import resampling as kernels
from ._planes import five

#: Lines or places of a program that are worth its start.
_LEAST = 16


def _programs(items, device):
    """(programs, items of each)."""
    share = max(cdiv(items, programs_wanted(device)), min(_LEAST, items))
    return cdiv(items, share), share


def resample(kind, out, x, bounds, *, mode=None, flag=False, scales=None, kernel=None, stride=None, padding=None, divisor=0):
    """Writes a map of `x` to `out`, both (n, c, 1 to 3 dimensions) on a CPU, of any strides.

    kind, mode, flag: KIND, MODE and FLAG of kernels/resampling.py. bounds: at most how many places of `x` an element of the result takes, by dimension. scales, kernel,
    stride, padding: options of the map, by dimension. divisor: by which the result is divided, 0 for none.
    """
    rank, device, compute = out.dim() - 2, out.device, COMPUTE[out.dtype]
    rows, zeros = tuple(out.shape[2:]), (0, ) * rank
    places = torch.empty(sum((bound + 1) * count + 1 for bound, count in zip(bounds, rows)), dtype=torch.int32, device=device)
    weights = torch.empty(sum(bound * count for bound, count in zip(bounds, rows)), dtype=STORAGE[compute], device=device)
    launch(kernels.tables, rank, device, {
        "places": places, "weights": weights, "rows": rows, "sizes": tuple(x.shape[2:]), "bounds": tuple(bounds), "scales": tuple([float(scale) for scale in scales or zeros]),
        "kernel": tuple(kernel or zeros), "stride": tuple(stride or zeros), "padding": tuple(padding or zeros)
    }, {"KIND": kind, "MODE": mode, "FLAG": flag, "COMPUTE": compute, "BLOCK": step_up(max(rows), (16, 64))})
    arguments = {
        "out": out, "x": x, "places": places, "weights": weights, "in_sizes": five(x.shape), "out_sizes": five(out.shape), "x_strides": five(x.stride()),
        "out_strides": five(out.stride()), "rows": rows, "bounds": tuple(bounds), "divisor": float(divisor) if divisor else None
    }
    if out.stride(1) == x.stride(1) == 1 and out.stride(-1) != 1:
        items, block = out.numel() // out.shape[1], step_up(out.shape[1], (16, 32, 64, 128))
        programs, share = _programs(items, device)
        launch(kernels.resample_channels, (programs, cdiv(out.shape[1], block)), device, arguments | {"items": items, "share": share}, {"COMPUTE": compute, "BLOCK": block})
        return
    items = product(out.shape[:-1])
    programs, share = _programs(items, device)
    launch(kernels.resample_lines, programs, device, arguments | {
        "lines": torch.empty((programs, x.shape[-1]), dtype=STORAGE[compute], device=device), "items": items, "share": share
    }, {"UNIT": out.stride(-1) == x.stride(-1) == 1, "COMPUTE": compute, "IN_BLOCK": step_up(x.shape[-1], (16, 32, 64, 128, 256)),
        "BLOCK": step_up(out.shape[-1], (16, 32, 64, 128, 256))})
