"""Launches of the kernels that walk through one tensor and index another (kernels/indexing.py)."""

import torch

from . import _shapes
from ._moves import clear
from ._launch import DTYPES, holds, launch
from ._strided import COMPUTE, FLOATS, cdiv, collapse, product, step_up, units
from .functions import reductions as functions
from .kernels import indexing as kernels
from .reduction import Reduction
from ._sorted import sort
from .scan import Scan

INDICES = (torch.int32, torch.int64)
#: Dtypes that GPUs add atomically in any order.
ATOMIC = (torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64)

_BOUNDS = Reduction(map=functions.twice, combine=functions.minimum_and_maximum, identity=functions.greatest_and_least, states=("compute", ) * 2)
_OUTSIDE = Reduction(map=functions.outside, combine=functions.maximum)
_RUNNING = Scan()
#: Elements of a row that a program of a CPU moves one by one.
_SINGLY = 16384


def _counted(device):
    """Elements of a block of `Kept`. On GPUs few, because a thread divides for each of its elements."""
    return 4096 if device.type == "cpu" else 512



def bounds(x):
    """(least, greatest) element of a tensor that is not empty. On GPUs this waits for the device."""
    found = [torch.empty((), dtype=x.dtype, device=x.device) for _ in range(2)]
    _BOUNDS.launch([x], list(range(x.dim())), found, COMPUTE[x.dtype])
    return found[0].item(), found[1].item()


def within(x, low, high):
    """Whether all elements of a tensor of the host are from `low` to `high`; not where there is a NaN. The call can still be recorded (`holds`)."""
    if not x.numel():
        return True
    found = torch.empty((), dtype=torch.uint8, device=x.device)
    _OUTSIDE.launch([x], list(range(x.dim())), [found], COMPUTE[x.dtype], (low, high))
    return not holds(found)


def exist(index, size, negative=False):
    """Whether all indices are from 0 (from -size with `negative`) to size - 1. On GPUs nothing is checked: kernels pass over what does not exist."""
    return index.device.type != "cpu" or within(index, -size if negative else 0, size - 1)


def _value(value, dtype):
    return float(value) if dtype in FLOATS else int(value)


def walk(mode, x, other, value, indices, shape, x_strides, other_strides, index_strides, limits, steps, wraps=True, check=False):
    """Reads ("read"), writes ("set") or takes up atomically ("add", "amin", "amax") at indices, all elements at the same time.

    x: the indexed tensor; other: the one that is read into it, or written, or None for the number `value` (which is a factor for atomics). shape: of the
    walked elements; x_strides, other_strides, index_strides: strides in these dimensions, the last a tuple for each index. limits, steps: for each index the
    size and the stride in `x` of the dimension that it indexes. wraps: whether indices may be below 0. check: whether it is not known that indices
    exist; only for "read", with an `other` that nothing else has. Returns whether they do, as far as it was asked for.
    """
    if 0 in shape:
        return True
    strides = [other_strides or x_strides, x_strides, *index_strides]
    sizes, strides = _shapes.collapsed(shape, strides)
    inner, rows = sizes[-1], product(sizes[:-1])
    if x.device.type == "cpu" and other is not None and mode in ("read", "set") and any(stride[-1] for stride in strides[2:]):
        share, outside = min(inner, _SINGLY), None
        if check:
            if 0 in limits:
                return False
            outside = _unmarked(x.device)
        launch(kernels.indexed_singly, (rows, cdiv(inner, share)), x.device, {
            "x": x, "other": other, "outside": outside, "indices": tuple(indices), "sizes": sizes[:-1], "inner": inner, "x_strides": strides[1], "other_strides": strides[0],
            "index_strides": tuple(strides[2:]), "limits": tuple(limits), "steps": tuple(steps), "share": share
        }, {"UNIT": units([strides[1][-1], strides[0][-1], *(stride[-1] for stride in strides[2:])]), "ONCE": units(steps), "STILL": strides[1][-1] == 0, "MODE": mode, "WRAPS": wraps, "COUNT": 4})
        return outside is None or not holds(outside)
    if check and not all(exist(index, limit, wraps) for index, limit in zip(indices, limits)):
        return False
    columns = step_up(inner, (1, 4, 32, 256, 1024))
    block = 1024 // columns
    launch(kernels.indexed, cdiv(rows, block) * cdiv(inner, columns), x.device, {
        "x": x, "other": other, "value": _value(value, x.dtype), "indices": tuple(indices), "sizes": sizes[:-1], "inner": inner, "x_strides": strides[1],
        "other_strides": strides[0], "index_strides": tuple(strides[2:]), "limits": tuple(limits), "steps": tuple(steps), "rows": rows
    }, {
        "FIXED": sum(1 << k for k, stride in enumerate(strides[2:]) if stride[-1] == 0), "UNIT": units([strides[1][-1], strides[0][-1], *(stride[-1] for stride in strides[2:])]),
        "MODE": mode, "BR": block, "BC": columns
    }, divisible=("inner", "x_strides", "other_strides", "index_strides", "steps"))
    return True


def _unmarked(device):
    """A byte that is 0, which kernels set to 1 where an index does not exist."""
    found = torch.empty((), dtype=torch.uint8, device=device)
    clear(found)
    return found


def accumulate(mode, x, other, value, indices, parallel, turns, limits, steps, wraps=True, check=False):
    """Writes at indices, or accumulates ("set", "add", "multiply", "amax", "amin"), duplicates in order.

    x, other, value, indices, limits, steps: as for `walk`. parallel: dimensions in which no two elements meet, [(size, (stride of x, of other, of each index))];
    turns: those in which they may, in order, outermost first, [(size, (stride of other, of each index))]. wraps, check: as for `walk`; check only for an `x` that nothing else has.
    """
    numel, count = product(size for size, _ in parallel), product(size for size, _ in turns)
    if not numel or not count:
        return True
    n = len(indices)
    dims = collapse([size for size, _ in parallel], [strides for _, strides in parallel]) if parallel else [(1, (0, ) * (n + 2))]
    turns = _merged(turns) or [(1, (0, ) * (n + 1))]

    def strides(k):
        return tuple([its[k] for _, its in dims])

    arguments = {
        "x": x, "other": other, "value": _value(value, x.dtype), "indices": tuple(indices), "sizes": tuple([size for size, _ in dims]), "x_strides": strides(0),
        "other_strides": strides(1), "index_strides": tuple([strides(2 + k) for k in range(n)]), "turns": count, "turn_sizes": tuple([size for size, _ in turns]),
        "other_turns": tuple([its[0] for _, its in turns]), "index_turns": tuple([tuple([its[1 + k] for _, its in turns]) for k in range(n)]),
        "limits": tuple(limits), "steps": tuple(steps)
    }
    constants = {"MODE": mode, "COMPUTE": COMPUTE.get(x.dtype) or DTYPES[x.dtype]}
    if x.device.type == "cpu":
        inner, last = dims[-1]
        if last[0] != 1 or inner == 1:  # they would be gathered and scattered
            if check and 0 in limits:
                return False
            outside = _unmarked(x.device) if check else None
            launch(kernels.accumulated_singly, (numel // inner, inner), x.device, arguments | {"outside": outside, "sizes": arguments["sizes"][:-1], "inner": inner}, constants | {
                "SCALED": mode == "add" and value != 1, "WRAPS": wraps, "ONCE": units(steps), "FLAT": len(turns) == 1, "LAST_UNIT": units(turns[0][1]) if len(turns) == 1 else 0})
            return not check or not holds(outside)
        if check and not all(exist(index, limit, wraps) for index, limit in zip(indices, limits)):
            return False
        block = step_up(inner, (8, 64, 256))
        launch(kernels.accumulated_lines, (numel // inner, cdiv(inner, block)), x.device, arguments | {"sizes": arguments["sizes"][:-1], "inner": inner}, constants | {
            "FIXED": sum(1 << k for k in range(n) if last[2 + k] == 0), "UNIT": units(last), "BLOCK": block})
        return True
    block = step_up(numel, (1, 8, 64, 256))
    launch(kernels.accumulated, cdiv(numel, block), x.device, arguments | {"numel": numel}, constants | {"BLOCK": block})
    return True


def add_groups(x, other, indices, parallel, turns, limits, steps):
    """`accumulate("add", ...)` for indices that are the same along all of `parallel`: sorted first, so that all spots are summed up at the same time, each in order."""
    numel, count = product(size for size, _ in parallel), product(size for size, _ in turns)
    if not numel or not count:
        return
    n = len(indices)
    dims = collapse([size for size, _ in parallel], [strides[:2] for _, strides in parallel]) if parallel else [(1, (0, 0))]
    turns = _merged(turns) or [(1, (0, ) * (n + 1))]
    places, ordered, order = (torch.empty(count, dtype=torch.int64, device=x.device) for _ in range(3))
    sizes = tuple([size for size, _ in turns])
    launch(kernels.spots, cdiv(count, 1024), x.device, {
        "out": places, "indices": tuple(indices), "sizes": sizes, "index_strides": tuple([tuple([strides[1 + k] for _, strides in turns]) for k in range(n)]),
        "limits": tuple(limits), "steps": tuple(steps), "numel": count
    }, {"BLOCK": 1024})
    sort(places, 0, ordered, order)
    block = step_up(numel, (8, 64, 256, 1024))
    launch(kernels.grouped, (count, cdiv(numel, block)), x.device, {
        "x": x, "other": other, "spots": ordered, "order": order, "count": count, "sizes": tuple([size for size, _ in dims]),
        "x_strides": tuple([strides[0] for _, strides in dims]), "other_strides": tuple([strides[1] for _, strides in dims]), "numel": numel, "turn_sizes": sizes,
        "other_turns": tuple([strides[0] for _, strides in turns])
    }, {"COMPUTE": COMPUTE[x.dtype], "BLOCK": block})


def _merged(dims):
    """Neighbouring dimensions merged where all strides allow it, in their order. dims: [(size, strides)]."""
    merged = []
    for size, strides in dims:
        if size == 1:
            continue
        if merged and all(a == b * size for a, b in zip(merged[-1][1], strides)):
            merged[-1] = (merged[-1][0] * size, strides)
        else:
            merged.append((size, strides))
    return merged


class Kept:
    """The elements of a tensor that are not 0, counted. mask: any strides; others: strides of further tensors of its shape, which kernels of the
    compaction take along.

    total: how many there are (waits for a GPU).
    """

    def __init__(self, mask, others=()):
        dims = _merged([(size, tuple(strides)) for size, *strides in zip(mask.shape, mask.stride(), *others)]) or [(1, (0, ) * (1 + len(others)))]
        self.numel, self.device, self.block = mask.numel(), mask.device, _counted(mask.device)
        self.sizes = tuple([size for size, _ in dims])
        self.strides = [tuple([strides[k] for _, strides in dims]) for k in range(1 + len(others))]
        self.mask, self.ends, self.total = mask, None, 0
        if not self.numel:
            return
        counts = torch.empty(cdiv(self.numel, self.block), dtype=torch.int64, device=mask.device)
        launch(kernels.counts, len(counts), mask.device, {"result": counts, "x": mask, "sizes": self.sizes, "strides": self.strides[0], "numel": self.numel}, {"BLOCK": self.block})
        self.ends = counts
        if len(counts) > 1:
            self.ends = torch.empty_like(counts)
            _RUNNING.launch((counts, ), 0, [self.ends], COMPUTE[torch.int64])
        self.total = self.ends[-1].item()

    def select(self, out, x):
        """out, (total), = the elements of `x`, whose strides were the first of `others`."""
        self._launch(kernels.selected, {"out": out, "x": x, "mask": self.mask, "ends": self.ends, "sizes": self.sizes, "x_strides": self.strides[1],
                                        "mask_strides": self.strides[0], "numel": self.numel, "out_stride": out.stride(0)})

    def refill(self, x, source):
        """The elements of `x` = those of `source`, which is contiguous."""
        self._launch(kernels.refilled, {"x": x, "mask": self.mask, "source": source, "ends": self.ends, "sizes": self.sizes, "x_strides": self.strides[1],
                                        "mask_strides": self.strides[0], "numel": self.numel, "available": source.numel()})

    def coordinates(self, out):
        """out, (at most total, dimensions), = the places of the elements."""
        self._launch(kernels.coordinates, {"out": out, "x": self.mask, "ends": self.ends, "shape": tuple(self.mask.shape), "sizes": self.sizes, "strides": self.strides[0],
                                           "numel": self.numel, "row_stride": out.stride(0), "column_stride": out.stride(1), "room": len(out)})

    def _launch(self, kernel, arguments):
        if self.total:
            launch(kernel, cdiv(self.numel, self.block), self.device, arguments, {"BLOCK": self.block})


def places(mask):
    """The indices of the elements that are not 0: for each dimension a tensor (count), int64."""
    kept = Kept(mask)
    found = torch.empty((mask.dim(), kept.total), dtype=torch.int64, device=mask.device)
    kept.coordinates(found.t())
    return found.unbind(0)
