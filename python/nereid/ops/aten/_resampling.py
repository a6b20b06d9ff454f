"""Launches of kernels/resampling.py: interpolation, means of windows and padding's gradients on CPUs."""

import torch

from .._launch import launch
from .._strided import COMPUTE, STORAGE, cdiv, product, step_up
from ..kernels import resampling as kernels
from ._planes import channels_last, five, programs_of

_BLOCKS = (16, 32, 64, 128, 256)


def _tables(kind, out, x, bounds, compute, *, mode=None, flag=False, scales=None, kernel=None, stride=None, padding=None):
    """Computes the tables of a map; returns the arguments that all kernels of kernels/resampling.py take. compute: the dtype of weights; others: see `resample`."""
    device, rows, zeros = out.device, tuple(out.shape[2:]), (0, ) * (out.dim() - 2)
    places = torch.empty(sum((bound + 1) * count + 1 for bound, count in zip(bounds, rows)), dtype=torch.int32, device=device)
    weights = torch.empty(sum(bound * count for bound, count in zip(bounds, rows)), dtype=STORAGE[compute], device=device)
    launch(kernels.tables, len(rows), device, {
        "places": places, "weights": weights, "rows": rows, "sizes": tuple(x.shape[2:]), "bounds": tuple(bounds), "scales": tuple([float(scale) for scale in scales or zeros]),
        "kernel": tuple(kernel or zeros), "stride": tuple(stride or zeros), "padding": tuple(padding or zeros)
    }, {"KIND": kind, "MODE": mode, "FLAG": flag, "COMPUTE": compute, "BLOCK": step_up(max(rows), _BLOCKS[:3])})
    return {"out": out, "x": x, "places": places, "weights": weights, "in_sizes": five(x.shape), "out_sizes": five(out.shape), "x_strides": five(x.stride()),
            "out_strides": five(out.stride()), "rows": rows, "bounds": tuple(bounds)}


def resample(kind, out, x, bounds, *, divisor=0, **options):
    """Writes a map of `x` to `out`, both (n, c, 1 to 3 dimensions) on a CPU, of any strides.

    kind, and mode, flag in `options`: KIND, MODE and FLAG of kernels/resampling.py. bounds: at most how many places of `x` an element of the result takes, by dimension.
    scales, kernel, stride, padding in `options`: those of the map, by dimension. divisor: by which the result is divided, 0 for none.
    """
    device, compute = out.device, COMPUTE[out.dtype]
    arguments = _tables(kind, out, x, bounds, compute, **options) | {"divisor": float(divisor) if divisor else None}
    if channels_last(out, x):
        items, block = product(out.shape[2:-1]) * out.shape[0], step_up(out.shape[1], _BLOCKS[:4])
        programs, share = programs_of(items, device)
        launch(kernels.resample_channels, (programs, cdiv(out.shape[1], block)), device, arguments | {"items": items, "share": share}, {"COMPUTE": compute, "BLOCK": block})
        return
    items = product(out.shape[:-1])
    programs, share = programs_of(items, device)
    lines = torch.empty((programs, x.shape[-1]), dtype=STORAGE[compute], device=device) if out.dim() > 3 else None
    launch(kernels.resample_lines, programs, device, arguments | {"lines": lines, "items": items, "share": share}, {
        "UNIT": out.stride(-1) == x.stride(-1) == 1, "COMPUTE": compute, "IN_BLOCK": step_up(x.shape[-1], _BLOCKS), "BLOCK": step_up(out.shape[-1], _BLOCKS)})


def pick(out, x, mode, scales):
    """Writes the nearest elements of `x` to `out`; dtypes of any kind, else as `resample`. mode: "nearest", "factor" or "exact"."""
    arguments, items = _tables("upsample", out, x, [1] * (out.dim() - 2), COMPUTE[torch.float32], mode=mode, scales=scales), product(out.shape[:-1])
    programs, share = programs_of(items, out.device)
    # Powers of two, so that no place is rounded.
    repeats = next((count for count in (2, 4) if out.shape[-1] == count * x.shape[-1] and scales[-1] == 1 / count), None)
    launch(kernels.pick_lines, programs, out.device, arguments | {"items": items, "share": share}, {
        "UNIT": out.stride(-1) == x.stride(-1) == 1, "REPEATS": repeats, "BLOCK": step_up(out.shape[-1], (*_BLOCKS, 1024, 4096))})
