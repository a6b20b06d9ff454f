"""Sorted rows: how the kernels of kernels/sorting.py are launched."""

import torch

from ._launch import launch
from ._strided import NARROW, cdiv, collapse, product, programs_wanted, units
from .kernels import radix, selecting
from .kernels import sorting as kernels

#: Elements of 64 bits that GPUs sort at once in registers.
WIDE_BLOCK = 4096
#: GPUs sort rows of 64-bit elements by comparing all pairs where there are at most so many: that takes one launch.
PAIRS = 2**22
#: Bytes of an element -> the shortest rows that are sorted by their digits on GPUs: measured on an H100 by benchmarks/ops/long_rows.py.
RADIX_FROM = {1: 32768, 2: 32768, 4: 131072, 8: 131072}
#: Elements that are put in the order of a digit at once, as a logarithm, and warps that do it.
DIGIT_TILE = 10, 2
#: Sizes and strides on which it depends how many elements are loaded at once.
_DIVISIBLE = ("length", "x_strides")
#: The most elements of a block from which some are chosen, and the least.
CHOSEN_FROM, _FEW = 16384, 2048
#: On CPUs: how many elements are chosen from whole rows by `choose_row` at most, and from rows of how many elements.
_OF_ROW, _LONG = 1024, 8192
#: Elements that a program merges on CPUs.
_PART = 4096


def _on_cpu(x):
    return x.device.type == "cpu"


def _block(x, length, wanted):
    """Elements of a block that is sorted at once, for rows of `length` elements of which the first `wanted` are kept."""
    if _on_cpu(x):
        most, parts = 4096, 256 if wanted <= 64 else 4096
    else:
        most, parts = {8: (WIDE_BLOCK, WIDE_BLOCK), 4: (8192, 4096)}.get(x.element_size(), (16384, 4096))
    if wanted > 64 or x.device.type != "cpu":
        parts = most if length <= most else parts
    return min(parts, max(16, 1 << (length - 1).bit_length()))


class _Rows:
    """Rows of `x` along `dim` and of results as kernels take them: `count` elements number `first` and more of each sorted row."""

    def __init__(self, x, dim, values, indices):
        self.x, self.values, self.indices, self.length = x, values, indices, x.shape[dim]
        others = [d for d in range(x.dim()) if d != dim]

        def strides_of(result):
            if result is None:
                return (0, ) * len(others), 0
            if result.dim() == x.dim():
                return tuple([result.stride(d) for d in others]), result.stride(dim)
            return result.stride(), 0

        value_strides, self.value_stride = strides_of(values)
        index_strides, self.index_stride = strides_of(indices)
        self.x_stride = x.stride(dim)
        dims = collapse([x.shape[d] for d in others], [(x.stride(d), value_strides[i], index_strides[i]) for i, d in enumerate(others)]) if others else [(1, (0, 0, 0))]
        self.sizes = tuple([size for size, _ in dims])
        self.x_strides, self.value_strides, self.index_strides = (tuple([strides[k] for _, strides in dims]) for k in range(3))
        self.count = product(self.sizes)

    @property
    def bits(self):
        """Of a key (kernels/selecting.py)."""
        return max(16, 8 * self.x.element_size())

    @property
    def halves(self):
        """Whether 64-bit keys are searched by halves."""
        return _on_cpu(self.x) and self.bits == 64

    def arguments(self):
        return {
            "values": self.values, "indices": self.indices, "x": self.x, "sizes": self.sizes, "x_strides": self.x_strides, "value_strides": self.value_strides,
            "index_strides": self.index_strides, "length": self.length, "x_stride": self.x_stride, "value_stride": self.value_stride, "index_stride": self.index_stride
        }

    def dense_strides(self):
        """Strides of the dimensions of the rows in a contiguous tensor (rows, length)."""
        strides, step = [], self.length
        for size in reversed(self.sizes):
            strides.append(step)
            step *= size
        return tuple(reversed(strides))


def sort(x, dim, values=None, indices=None, descending=False, first=0, count=None):
    """Writes the elements number `first` to `first + count - 1` of each sorted row of `x` along `dim`, and their places.

    x: not empty, one dimension at least; dim: not negative, its size fits 31 bits. values, indices: of the shape of `x` but for `dim`, whose size is `count` (or
    that dimension is missing, for a count of 1); any strides; None: not wanted. Equal elements stay in order.
    """
    rows = _Rows(x, dim, values, indices)
    count = rows.length if count is None else count
    wanted = first + count
    on_cpu = _on_cpu(x)
    if (x.element_size() <= 4 or on_cpu) and rows.length > (256 if on_cpu else 1024) and 4 * wanted <= min(rows.length, CHOSEN_FROM) and not first:
        _choose(rows, bool(descending), count)
    elif not on_cpu and x.element_size() == 8 and rows.count * rows.length**2 <= PAIRS:
        launch(kernels.sort_by_rank, rows.count * cdiv(rows.length, 32), x.device, rows.arguments() | {"first": first, "count": count},
               {"DESCENDING": bool(descending), "BLOCK": 32, "CHUNK": 128}, divisible=_DIVISIBLE)
    elif rows.length >= _radix_from(x):
        _sort_by_digits(rows, bool(descending), first, count)
    else:
        _merge_blocks(rows, bool(descending), first, count)


def _radix_from(x):
    return NARROW + 1 if _on_cpu(x) else RADIX_FROM[x.element_size()]


def _warps(block):
    """So that a thread has 16 elements of a block of 512 or more."""
    return min(16, max(1, block // 512))


def nth(x, dim, values, indices, mode, number=0):
    """Writes one element of each row of `x` along `dim` and its place, as `kernels.selecting.nth` says; rows for which `has_nth` holds. values, indices: as for `sort`,
    for a count of 1."""
    rows = _Rows(x, dim, values, indices)
    arguments = rows.arguments()
    for name in ("value_stride", "index_stride"):
        del arguments[name]
    if rows.length > selectable(x):
        launch(selecting.nth_of_row, rows.count, x.device, arguments | {"number": number}, {"MODE": mode, "UNIT": rows.x_stride == 1, "BITS": rows.bits, "SHORT": 1024, "BLOCK": CHOSEN_FROM},
               divisible=_DIVISIBLE)
        return
    block = max(16, 1 << (rows.length - 1).bit_length())
    launch(selecting.nth, rows.count, x.device, arguments | {"number": number}, {"MODE": mode, "UNIT": rows.x_stride == 1, "BITS": rows.bits, "HALVES": rows.halves, "BLOCK": block},
           divisible=_DIVISIBLE, num_warps=_warps(block))


def has_nth(x, length):
    """Whether `nth` takes rows of so many elements."""
    return _on_cpu(x) or length <= selectable(x)


def selectable(x):
    """How many elements a row may have to be kept in registers by `nth`."""
    return CHOSEN_FROM // 2 if x.element_size() == 8 else CHOSEN_FROM


def _choose(rows, descending, count):
    """The first `count` elements of sorted rows: blocks of rows choose as many each, until few are left, which are sorted."""
    x, length, keys, order = rows.x, rows.length, None, None
    arguments = rows.arguments()
    enough = max(1024, 2 * count)
    if _on_cpu(x) and length >= _LONG and count <= _OF_ROW:
        room = max(64, 1 << (2 * count - 1).bit_length())
        keys, order = _workspaces(x, rows.count * room)
        launch(selecting.choose_row, rows.count, x.device, {
            "new_keys": keys, "new_order": order, "x": x, "sizes": rows.sizes, "x_strides": rows.x_strides, "length": length, "x_stride": rows.x_stride, "wanted": count, "room": room
        }, {"DESCENDING": descending, "UNIT": rows.x_stride == 1, "BITS": rows.bits, "GROUPS": max(256 if rows.bits == 64 else 1024, 1 << (4 * count - 1).bit_length()), "SHORT": 256, "BLOCK": 4096}, divisible=_DIVISIBLE)
        length = room
    while keys is None or length > enough:
        block = max(_FEW, 1 << (4 * count - 1).bit_length())
        if block < 4096 < 2 * length and rows.count * cdiv(length, 4096) >= programs_wanted(x.device) // 2:
            block = 4096
        if _on_cpu(x):
            block = min(block, 1 << (length - 1).bit_length())
        blocks = cdiv(length, block)
        new_length = (blocks - 1) * count + min(count, length - (blocks - 1) * block)
        new_keys, new_order = _workspaces(x, rows.count * new_length)
        launch(selecting.choose, rows.count * blocks, x.device, {
            "new_keys": new_keys, "new_order": new_order, "keys": keys, "order": order, "x": x, "sizes": rows.sizes, "x_strides": rows.x_strides, "length": length,
            "x_stride": rows.x_stride, "wanted": count, "new_length": new_length
        }, {"FIRST": keys is None, "DESCENDING": descending, "UNIT": rows.x_stride == 1, "BITS": rows.bits, "HALVES": rows.halves, "BLOCK": block}, divisible=_DIVISIBLE, num_warps=_warps(block), maxnreg=80 if block <= 8192 else 128)
        keys, order, length = new_keys, new_order, new_length
    block = max(16, 1 << (length - 1).bit_length())
    several = max(1, 1024 // block)
    launch(selecting.sort_chosen, cdiv(rows.count, several), x.device, arguments | {"keys": keys, "order": order, "rows": rows.count, "length": length, "count": count}, {
        "UNIT": units([rows.value_stride, rows.index_stride]), "ROWS": several, "BLOCK": block
    }, num_warps=min(32, max(4, block // 256)))


def _sort_by_digits(rows, descending, first, count):
    """Sorts long rows, one pass for each 8 bits of an element: the first one reads `x`, the last one writes the results, those between move workspaces."""
    x, values, length, device = rows.x, rows.values, rows.length, rows.x.device
    if x.dtype == torch.bool:
        x, values = x.view(torch.uint8), None if values is None else values.view(torch.uint8)
    log, warps = DIGIT_TILE
    programs = min(cdiv(length, 1 << log), max(1, programs_wanted(device) * 8 // (warps * rows.count)))
    chunk = cdiv(cdiv(length, programs), 4096) * 4096
    programs = cdiv(length, chunk)
    counts = torch.empty(rows.count * programs * 256, dtype=torch.int32, device=device)
    totals = torch.empty(rows.count * 256, dtype=torch.int32, device=device)
    passes, dense = x.element_size(), rows.dense_strides()
    spare = [(torch.empty(rows.count * length, dtype=x.dtype, device=device),
              None if rows.indices is None else torch.empty(rows.count * length, dtype=torch.int32, device=device)) for _ in range(min(2, passes - 1))]
    source, order, strides, stride = x, None, rows.x_strides, rows.x_stride
    common = {"sizes": rows.sizes, "length": length, "programs": programs, "chunk": chunk}
    for turn in range(passes):
        last = turn == passes - 1
        to, new_order = (values, rows.indices) if last else spare[turn % 2]
        its = common | {"x": source, "x_strides": strides, "x_stride": stride, "shift": 8 * turn, "flip": 128 if last and x.dtype != torch.uint8 else 0}
        launch(radix.digit_counts, rows.count * programs, device, its | {"counts": counts}, {"DESCENDING": descending, "UNIT": stride == 1, "BLOCK": 4096},
               {"shift": "i32", "flip": "i32"}, (*_DIVISIBLE, "chunk"), num_warps=8)
        launch(radix.digit_starts, rows.count * 16, device, {"counts": counts, "totals": totals, "programs": programs}, {"BLOCK": 64 if programs <= 64 else 256}, num_warps=4)
        steps = (rows.value_stride, rows.index_stride) if last else (1, 1)
        launch(radix.move_by_digit, rows.count * programs, device, its | {
            "to": to, "new_order": new_order, "order": order, "starts": counts, "totals": totals, "to_strides": rows.value_strides if last else dense,
            "new_strides": rows.index_strides if last else dense, "to_stride": steps[0], "new_stride": steps[1], "first": first if last else 0,
            "count": count if last else length
        }, {"DESCENDING": descending, "UNIT": units([stride, *steps]), "LOG": log, "BLOCK": 1 << log}, {"shift": "i32", "flip": "i32"}, (*_DIVISIBLE, "chunk"), num_warps=warps)
        source, order, strides, stride = to, new_order, dense, 1


def _merge_blocks(rows, descending, first, count):
    """Sorts blocks of rows, then merges neighbouring runs."""
    x, length, arguments = rows.x, rows.length, rows.arguments() | {"first": first, "count": count}
    wanted = 1 << (first + count - 1).bit_length()
    block = _block(x, length, wanted)
    blocks, run = cdiv(length, block), min(block, wanted)
    last = blocks == 1
    keys, order, new_length = None, None, 0
    if not last:
        new_length = (blocks - 1) * run + min(run, length - (blocks - 1) * block)
        keys, order = _workspaces(x, rows.count * new_length)
    arguments |= {"keys": keys, "order": order, "run": run, "new_length": new_length}
    several = max(1, 1024 // block)
    launch(kernels.sort_tiles, cdiv(rows.count * blocks, several), x.device, arguments | {"rows": rows.count}, {
        "LAST": last, "DESCENDING": descending, "UNIT": units([rows.x_stride, rows.value_stride, rows.index_stride]), "ROWS": several, "BLOCK": block
    }, divisible=_DIVISIBLE, num_warps=min(32, max(4, block // 256)))
    while not last:
        length, runs = new_length, cdiv(new_length, run)
        pairs, last = cdiv(runs, 2), runs <= 2
        new_run, new_keys, new_order = min(2 * run, wanted), None, None
        if not last:
            new_length = (pairs - 1) * new_run + min(new_run, length - (pairs - 1) * 2 * run)
            new_keys, new_order = _workspaces(x, rows.count * new_length)
        if _on_cpu(x):
            its = arguments | {"new_keys": new_keys, "new_order": new_order, "keys": keys, "order": order, "length": length, "run": run, "new_run": new_run, "new_length": new_length}
            if not last:
                its |= {"first": 0, "count": new_run}
            launch(kernels.merge_parts, (cdiv(its["count"], _PART), pairs, rows.count), x.device, its, {"LAST": last, "PART": _PART})
            keys, order, run = new_keys, new_order, new_run
            continue
        launch(kernels.merge, cdiv(rows.count * length, 1024), x.device, arguments | {
            "new_keys": new_keys, "new_order": new_order, "keys": keys, "order": order, "rows": rows.count, "length": length, "run": run, "new_run": new_run,
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
