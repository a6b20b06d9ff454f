"""Sorted rows: how the kernels of kernels/sorting.py are launched."""

import torch

from ._launch import launch
from ._strided import cdiv, collapse, product, units
from .kernels import sorting as kernels

#: Elements that are ordered by counting.
COUNTED = 64


def _block(x, length, wanted):
    """(elements of a block that is sorted at once, whether by a bitonic sort) for rows of `length` elements of which the first `wanted` are kept."""
    if x.element_size() > 4:
        return COUNTED, False
    if x.device.type == "cpu":
        most, parts = 4096, 256 if wanted <= 64 else 4096
    else:
        most, parts = 8192 if x.element_size() == 4 else 16384, 4096
    if wanted > 64 or x.device.type != "cpu":
        parts = most if length <= most else parts
    return min(parts, max(16, 1 << (length - 1).bit_length())), True


def sort(x, dim, values=None, indices=None, descending=False, first=0, count=None):
    """Writes the elements number `first` to `first + count - 1` of each sorted row of `x` along `dim`, and their places.

    x: not empty, one dimension at least; dim: not negative, its size fits 31 bits. values, indices: of the shape of `x` but for `dim`, whose size is `count` (or
    that dimension is missing, for a count of 1); any strides; None: not wanted. Equal elements stay in order.
    """
    length = x.shape[dim]
    count = length if count is None else count
    others = [d for d in range(x.dim()) if d != dim]

    def strides_of(result):
        if result is None:
            return (0, ) * len(others), 0
        if result.dim() == x.dim():
            return tuple([result.stride(d) for d in others]), result.stride(dim)
        return result.stride(), 0

    value_strides, value_stride = strides_of(values)
    index_strides, index_stride = strides_of(indices)
    dims = collapse([x.shape[d] for d in others], [(x.stride(d), value_strides[i], index_strides[i]) for i, d in enumerate(others)]) if others else [(1, (0, 0, 0))]
    rows = product(size for size, _ in dims)
    arguments = {
        "values": values, "indices": indices, "x": x, "sizes": tuple([size for size, _ in dims]), "x_strides": tuple([strides[0] for _, strides in dims]),
        "value_strides": tuple([strides[1] for _, strides in dims]), "index_strides": tuple([strides[2] for _, strides in dims]), "length": length,
        "x_stride": x.stride(dim), "value_stride": value_stride, "index_stride": index_stride, "first": first, "count": count
    }
    wanted = 1 << (first + count - 1).bit_length()
    block, bitonic = _block(x, length, wanted)
    blocks, run = cdiv(length, block), min(block, wanted)
    last = blocks == 1
    keys, order, new_length = None, None, 0
    if not last:
        new_length = (blocks - 1) * run + min(run, length - (blocks - 1) * block)
        keys, order = _workspaces(x, rows * new_length)
    arguments |= {"keys": keys, "order": order, "run": run, "new_length": new_length}
    if bitonic:
        several = max(1, 1024 // block)
        launch(kernels.sort_tiles, cdiv(rows * blocks, several), x.device, arguments | {"rows": rows}, {
            "LAST": last, "DESCENDING": bool(descending), "UNIT": units([x.stride(dim), value_stride, index_stride]), "ROWS": several, "BLOCK": block
        }, num_warps=min(32, max(4, block // 256)))
    else:
        launch(kernels.sort_blocks, rows * blocks, x.device, arguments, {"LAST": last, "DESCENDING": bool(descending), "BLOCK": COUNTED})
    while not last:
        length, runs = new_length, cdiv(new_length, run)
        pairs, last = cdiv(runs, 2), runs <= 2
        new_run, new_keys, new_order = min(2 * run, wanted), None, None
        if not last:
            new_length = (pairs - 1) * new_run + min(new_run, length - (pairs - 1) * 2 * run)
            new_keys, new_order = _workspaces(x, rows * new_length)
        launch(kernels.merge, cdiv(rows * length, 1024), x.device, arguments | {
            "new_keys": new_keys, "new_order": new_order, "keys": keys, "order": order, "rows": rows, "length": length, "run": run, "new_run": new_run,
            "new_length": new_length, "steps": run.bit_length() + 1
        }, {"LAST": last, "BLOCK": 1024})
        keys, order, run = new_keys, new_order, new_run


def _workspaces(x, count):
    return (torch.empty(count, dtype=torch.int64 if x.element_size() == 8 else torch.int32, device=x.device), torch.empty(count, dtype=torch.int32, device=x.device))


def search(out, values, ordered, order=None, right=False):
    """Writes, for each of `values` (None: 0, 1, ...), its place among the sorted rows `ordered`: one row, or one for each row of `values`. All are contiguous."""
    length = ordered.shape[-1]
    launch(kernels.searched, cdiv(out.numel(), 1024), out.device, {
        "out": out, "values": values, "sorted": ordered, "order": order, "numel": out.numel(), "length": length, "row_length": out.shape[-1] if out.dim() else 1,
        "rows": ordered.numel() // max(length, 1), "steps": length.bit_length() + 1
    }, {"RIGHT": bool(right), "BLOCK": 1024})
