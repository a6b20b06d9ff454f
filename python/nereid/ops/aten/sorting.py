"""Operators of ATen that sort, choose by rank, find places in sorted rows and count."""

import math

import torch

from .._declare import Native, declare
from .._indexed import Kept, accumulate, bounds, exist
from .._launch import DTYPES, launch
from .._moves import cloned, fill, foreign, move, number
from .._promotion import result_type
from .._sorted import has_nth, nth, search, sort
from .._strided import COMPUTE, INTEGERS, NARROW, cdiv
from ..functions import arithmetic
from ..kernels import sorting as kernels
from ..pointwise import Rule, run
from .scans import SUM
from ._computed import Computed
from ._outputs import made, ready

OF_ONE = ("functional", "out")
KIND = "sorting"


def _sortable(x, outs, dim):
    """A dimension that is not negative, or `Native`."""
    if (found := foreign(x, *(outs or ()))) is not None:
        return found
    places = max(x.dim(), 1)
    if x.dtype not in COMPUTE or not -places <= dim < places or x.dim() and x.shape[dim] > NARROW:
        return Native("dtype")
    return dim % places


def _line(x):
    return x if x.dim() else x.view(1)


def _results(x, outs, shape):
    """The outputs for values and places, or `Native`."""
    if outs is not None and any(out.data_ptr() == x.data_ptr() and x.numel() for out in outs):
        return Native("overlap")
    return made(outs, [(shape, x.dtype), (shape, torch.int64)], (x, ), x.device)


def _sort(values, outs):
    x = values["self"]
    dim = _sortable(x, outs, values["dim"])
    if type(dim) is Native:
        return dim
    if outs is None:
        results = [torch.empty_like(x), torch.empty_like(x, dtype=torch.int64)]
    elif outs[0].shape == x.shape or not outs[0].numel():
        # Where an output is empty, it gets the strides of new ones.
        new = [tuple(out.shape) != tuple(x.shape) for out in outs]
        results = _results(x, outs, x.shape)
        if type(results) is Native:
            return results
        for result, resized in zip(results, new):
            if resized:
                result.as_strided_(x.shape, torch.empty_like(x, device="meta").stride())
    else:
        return Native("shape of the output")
    if x.numel():
        sort(_line(x), dim, _line(results[0]), _line(results[1]), values["descending"])
    return tuple(results)


def _topk(values, outs):
    x, k = values["self"], values["k"]
    dim = _sortable(x, outs, values["dim"])
    if type(dim) is Native:
        return dim
    line = _line(x)
    if not 0 <= k <= line.shape[dim] or x.dtype == torch.bool:
        return Native("k")
    shape = list(x.shape)
    if shape:
        shape[dim] = k
    elif not k:
        return Native("k")
    results = _results(x, outs, shape)
    if type(results) is not Native and results[0].numel():
        sort(line, dim, _line(results[0]), _line(results[1]), values["largest"], 0, k)
    return results if type(results) is Native else tuple(results)


def _kthvalue(values, outs):
    x, k = values["self"], values["k"]
    dim = _sortable(x, outs, values["dim"])
    if type(dim) is Native:
        return dim
    line = _line(x)
    if not 1 <= k <= line.shape[dim] or not x.numel() or x.dtype == torch.bool:
        return Native("k")
    shape = [1 if d == dim else size for d, size in enumerate(x.shape) if values["keepdim"] or d != dim]
    results = _results(x, outs, shape)
    if type(results) is Native:
        return results
    its = [_line(result) for result in results] if values["keepdim"] or not x.dim() else results
    if has_nth(x, line.shape[dim]):
        nth(line, dim, *its, "rank", k - 1)
    else:
        sort(line, dim, *its, False, k - 1, 1)
    return tuple(results)


_WITHOUT_NAMES = ("self", "k", "dim", "largest", "sorted", "descending", "stable", "keepdim")


class _Along(Computed):
    """An operator whose dimension is a number, not a name."""

    def accepts(self, form):
        return super().accepts(form) and all(argument.type == "int" for argument in form.arguments if argument.name == "dim")


declare(_Along(name="sort", compute=_sort, arguments=_WITHOUT_NAMES, kinds=OF_ONE, results=2, kind=KIND))
declare(_Along(name="topk", compute=_topk, arguments=_WITHOUT_NAMES, kinds=OF_ONE, results=2, kind=KIND))
declare(_Along(name="kthvalue", compute=_kthvalue, arguments=_WITHOUT_NAMES, kinds=OF_ONE, results=2, kind=KIND))


# Medians and modes: rows are sorted


def _of_sorted(values, outs, find, mode=None):
    """(values, places) of one element of each sorted row. find(values, places, ordered, order, length, rows): launches what finds them; mode: of `nth`, which finds them
    in shorter rows, or None."""
    x = values["self"]
    dim = _sortable(x, outs, values["dim"])
    if type(dim) is Native:
        return dim
    if not x.numel():
        return Native("empty")
    shape = [1 if d == dim else size for d, size in enumerate(x.shape) if values["keepdim"] or d != dim]
    results = _results(x, outs, shape)
    if type(results) is Native:
        return results
    if mode is not None and has_nth(x, _line(x).shape[dim]):
        nth(_line(x), dim, *([_line(result) for result in results] if values["keepdim"] or not x.dim() else results), mode)
        return tuple(results)
    moved = _line(x).movedim(dim, -1)
    ordered, order = torch.empty(moved.shape, dtype=x.dtype, device=x.device), torch.empty(moved.shape, dtype=torch.int64, device=x.device)
    sort(moved, moved.dim() - 1, ordered, order)
    length = moved.shape[-1]
    found = [out if out.is_contiguous() else torch.empty(shape, dtype=out.dtype, device=x.device) for out in results]
    find(*found, ordered, order, length, x.numel() // length)
    for out, its in zip(results, found):
        if out is not its:
            move(out, its)
    return tuple(results)


def _find_medians(ignore):

    def find(values, places, ordered, order, length, rows):
        launch(kernels.medians, cdiv(rows, 64), values.device, {
            "values": values, "places": places, "ordered": ordered, "order": order, "length": length, "rows": rows, "steps": length.bit_length() + 1
        }, {"IGNORE": ignore, "BLOCK": 64})

    return find


def _median(ignore):
    find, mode = _find_medians(ignore), "nanmedian" if ignore else "median"

    def compute(values, outs):
        x = values["self"]
        if x.dtype == torch.bool:
            return Native("dtype")
        if "dim" in values:
            return _of_sorted(values, outs, find, mode)
        if (found := foreign(x)) is not None or x.dtype not in COMPUTE or not 0 < x.numel() <= NARROW:
            return found or Native("dtype")
        flat, result = _flat(x), torch.empty((), dtype=x.dtype, device=x.device)
        if has_nth(x, len(flat)):
            nth(flat, 0, result, None, mode)
            return result
        ordered = torch.empty_like(flat)
        sort(flat, 0, ordered)
        find(result, None, ordered, None, flat.numel(), 1)
        return result

    return compute


def _find_modes(values, places, ordered, order, length, rows):
    launch(kernels.modes, rows, values.device, {"values": values, "places": places, "ordered": ordered, "order": order, "length": length},
           {"BLOCK": min(1024, max(16, 1 << (length - 1).bit_length()))})


class _Median(Computed):
    """Of all elements, or along a dimension that is a number, with places."""

    def accepts(self, form):
        along = [argument.type for argument in form.arguments if argument.name == "dim"]
        return form.kind in ("functional", "out") and set(along) <= {"int"} and form.returns == 1 + len(along) and (along or form.kind == "functional")


declare(_Median(name="median", compute=_median(False), kind=KIND))
declare(_Median(name="nanmedian", compute=_median(True), kind=KIND))
declare(_Along(name="mode", compute=lambda values, outs: _of_sorted(values, outs, _find_modes), arguments=_WITHOUT_NAMES, kinds=OF_ONE, results=2, kind=KIND))


# Distinct elements


def _distinct(flat, order, shape, inverse, counts):
    """(distinct elements, group of each element, sizes of the groups) of a contiguous tensor whose equal elements are neighbours.

    order: where its elements were before, or None.
    """
    n, device = flat.numel(), flat.device
    flags = torch.empty(n, dtype=torch.uint8, device=device)
    launch(kernels.changes, cdiv(n, 1024), device, {"out": flags, "x": flat, "numel": n}, {"BLOCK": 1024})
    kept = Kept(flags, ((1, ), ))
    found = torch.empty(kept.total, dtype=flat.dtype, device=device)
    kept.select(found, flat)
    of_each = torch.empty(shape if inverse else 0, dtype=torch.int64, device=device)
    if inverse:
        numbers = torch.empty(n, dtype=torch.int64, device=device)
        SUM.launch((flags, ), 0, [numbers], COMPUTE[torch.int64])
        launch(kernels.groups, cdiv(n, 1024), device, {"inverse": of_each, "numbers": numbers, "order": order, "numel": n}, {"BLOCK": 1024})
    sizes = torch.empty(kept.total if counts else 0, dtype=torch.int64, device=device)
    if counts:
        starts = torch.empty((kept.total, 1), dtype=torch.int64, device=device)
        kept.coordinates(starts)
        launch(kernels.lengths, cdiv(kept.total, 1024), device, {"out": sizes, "starts": starts, "count": kept.total, "numel": n}, {"BLOCK": 1024})
    return found, of_each, sizes


def _flat(x):
    return (x if x.is_contiguous() else cloned(x, True)).view(-1)


def _unique(values, outs):
    x = values["self"]
    if (found := foreign(x)) is not None:
        return found
    if x.dtype not in COMPUTE or not 0 < x.numel() <= NARROW:
        return Native("dtype")
    flat = _flat(x)
    ordered, order = torch.empty_like(flat), torch.empty(flat.shape, dtype=torch.int64, device=x.device)
    sort(flat, 0, ordered, order)
    return _distinct(ordered, order, x.shape, values["return_inverse"], values["return_counts"])


def _unique_consecutive(values, outs):
    x = values["self"]
    if (found := foreign(x)) is not None:
        return found
    if x.dtype not in COMPUTE or not x.numel() or values["dim"] is not None and x.dim() != 1:
        return Native("dimension")
    return _distinct(_flat(x), None, x.shape, values["return_inverse"], values["return_counts"])


declare(Computed(name="_unique2", compute=_unique, kinds=("functional", ), results=3, kind=KIND))
declare(Computed(name="unique_consecutive", compute=_unique_consecutive, kinds=("functional", ), results=3, kind=KIND))


# Places in sorted rows


def _search(ordered, x, right, out_int32, outs, order=None):
    if not isinstance(x, torch.Tensor):
        return Native("number")
    if (found := foreign(ordered, x, order, *(outs or ()))) is not None:
        return found
    if ordered.dtype != x.dtype or x.dtype not in COMPUTE or not ordered.dim() or order is not None and (order.dtype != torch.int64 or order.shape != ordered.shape):
        return Native("dtype")
    if ordered.dim() > 1 and (x.dim() != ordered.dim() or x.shape[:-1] != ordered.shape[:-1]) or out_int32 and ordered.shape[-1] >= NARROW:
        return Native("shapes")
    if outs is None:
        results = [torch.empty(x.shape, dtype=torch.int32 if out_int32 else torch.int64, device=x.device)]
    else:
        results = made(outs, [(x.shape, torch.int32 if out_int32 else torch.int64)], (ordered, x, order), x.device)
        if type(results) is Native:
            return results
        if any(results[0].data_ptr() == tensor.data_ptr() for tensor in (ordered, x)):
            return Native("overlap")
    result = results[0]
    if not x.numel():
        return result
    if order is not None and not exist(order, ordered.shape[-1]):
        return Native("sorter")
    dense = [tensor if tensor is None or tensor.is_contiguous() else cloned(tensor, True) for tensor in (x, ordered, order)]
    into = result if result.is_contiguous() else torch.empty(x.shape, dtype=result.dtype, device=x.device)
    search(into, *dense, right)
    if into is not result:
        move(result, into)
    return result


def _searchsorted(values, outs):
    side = values["side"]
    if side not in (None, "left", "right") or side == "left" and values["right"]:
        return Native("side")
    ordered, x = _with_number(values["sorted_sequence"], values["self"])
    return _search(ordered, x, values["right"] or side == "right", values["out_int32"], outs, values["sorter"])


def _bucketize(values, outs):
    if values["boundaries"].dim() != 1:
        return Native("boundaries")
    ordered, x = _with_number(values["boundaries"], values["self"])
    return _search(ordered, x, values["right"], values["out_int32"], outs)


def _with_number(ordered, x):
    """Both operands as tensors. A number gets the dtype that it and the row promote to; where ATen has to complain it stays one."""
    if isinstance(x, torch.Tensor) or isinstance(x, complex) or ordered.dim() != 1 or ordered.dtype not in COMPUTE:
        return ordered, x
    dtype = torch.result_type(ordered, x)
    return ordered.to(dtype), torch.full((), x, dtype=dtype, device=ordered.device)


declare(Computed(name="searchsorted", compute=_searchsorted, kinds=OF_ONE, kind=KIND))
declare(Computed(name="bucketize", compute=_bucketize, kinds=OF_ONE, kind=KIND))


def _isin(values, outs):
    x, others = values.get("elements", values.get("element")), values.get("test_elements", values.get("test_element"))
    tensors = [value for value in (x, others) if isinstance(value, torch.Tensor)]
    if (found := foreign(*tensors, *(outs or ()))) is not None:
        return found
    invert = bool(values["invert"])
    if not isinstance(others, torch.Tensor):
        found = run(Rule(function=arithmetic.ne if invert else arithmetic.eq, promotion="always_bool"), [x, others], (), outs, contiguous=True)
        return found if type(found) is Native else found[0]
    common = result_type([x, others])
    if common not in COMPUTE or common == torch.bool or not others.numel() or others.numel() > NARROW or any(tensor.dtype not in DTYPES for tensor in tensors):
        return Native("dtype")
    if not isinstance(x, torch.Tensor):
        value = number(x, common)
        if type(value) is Native:
            return value
        x = torch.empty((), dtype=common, device=others.device)
        fill(x, value)
    if outs is not None:
        if any(outs[0].data_ptr() == tensor.data_ptr() for tensor in tensors) or not outs[0].is_contiguous():
            return Native("overlap")
        if (found := ready(outs, [(x.shape, torch.bool)], tensors)) is not None:
            return found
    result = torch.empty(x.shape, dtype=torch.bool, device=x.device) if outs is None else outs[0]
    if not x.numel():
        return result
    x, others = _as(x, common), _as(others, common).view(-1)
    ordered = torch.empty_like(others)
    sort(others, 0, ordered)
    launch(kernels.member, cdiv(x.numel(), 1024), x.device, {
        "out": result, "values": x, "sorted": ordered, "numel": x.numel(), "length": len(ordered), "steps": len(ordered).bit_length() + 1
    }, {"INVERT": invert, "BLOCK": 1024})
    return result


def _as(x, dtype):
    if x.dtype == dtype and x.is_contiguous():
        return x
    result = torch.empty(x.shape, dtype=dtype, device=x.device)
    move(result, x)
    return result


declare(Computed(name="isin", compute=_isin, kinds=OF_ONE, kind=KIND))


def _repeat_interleave(values, outs):
    repeats, size = values["repeats"], values["output_size"]
    if (found := foreign(repeats)) is not None:
        return found
    if repeats.dtype not in (torch.int32, torch.int64) or repeats.dim() != 1:
        return Native("dtype")
    if not len(repeats):
        return Native("empty")
    if repeats.device.type == "cpu" and bounds(repeats)[0] < 0:
        return Native("negative")
    ends = torch.empty(len(repeats), dtype=torch.int64, device=repeats.device)
    SUM.launch((repeats, ), 0, [ends], COMPUTE[torch.int64])
    total = ends[-1].item() if size is None or repeats.device.type == "cpu" else size
    if size is not None and size != total:
        return Native("size")
    result = torch.empty(total, dtype=repeats.dtype, device=repeats.device)
    if total:
        search(result, None, ends, right=True)
    return result


declare(Computed(name="repeat_interleave", compute=_repeat_interleave, arguments=("repeats", "output_size"), kinds=("functional", ), kind=KIND))


# Counts


def _histc(values, outs):
    x, count, low, high = values["self"], values["bins"], values["min"], values["max"]
    if (found := foreign(x, *(outs or ()))) is not None:
        return found
    if x.dtype not in (torch.float32, torch.float64) or count <= 0 or isinstance(low, complex) or isinstance(high, complex) or torch.are_deterministic_algorithms_enabled():
        return Native("dtype")
    low, high = float(low), float(high)
    if low == high and x.numel():
        low, high = bounds(x)
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        return Native("range")
    results = made(outs, [((count, ), x.dtype)], (x, ), x.device)
    if type(results) is Native:
        return results
    counts = torch.empty(count, dtype=torch.int64, device=x.device)
    fill(counts, 0)
    flat = _flat(x) if x.dim() != 1 else x
    if x.numel():
        launch(kernels.bins, cdiv(x.numel(), 1024), x.device, {
            "out": counts, "x": flat, "weights": None, "numel": x.numel(), "x_stride": flat.stride(0), "weight_stride": 0, "low": low, "high": high, "count": count
        }, {"COMPUTE": DTYPES[x.dtype], "BLOCK": 1024})
    move(results[0], counts)
    return results[0]


def _bincount(values, outs):
    x, weights, least = values["self"], values["weights"], values["minlength"]
    if (found := foreign(x, weights)) is not None:
        return found
    if x.dtype not in INTEGERS or x.dim() != 1 or not len(x) or least < 0 or weights is not None and (weights.shape != x.shape or weights.dtype not in COMPUTE):
        return Native("dtype")
    if weights is not None and x.device.type != "cpu" and torch.are_deterministic_algorithms_enabled():
        return Native("deterministic")
    first, last = bounds(x)
    if first < 0:
        return Native("negative")
    size = max(last + 1, least)
    dtype = torch.int64 if weights is None else torch.float32 if weights.dtype == torch.float32 else torch.float64
    result = torch.empty(size, dtype=dtype, device=x.device)
    fill(result, 0)
    if weights is not None and x.device.type == "cpu":
        accumulate("add", result, weights if weights.dtype == dtype else _as(weights, dtype), 1, [x], [], [(len(x), (weights.stride(0) if weights.dtype == dtype else 1, x.stride(0)))],
                   [size], [1])
    else:
        launch(kernels.bins, cdiv(len(x), 1024), x.device, {
            "out": result, "x": x, "weights": weights, "numel": len(x), "x_stride": x.stride(0), "weight_stride": 0 if weights is None else weights.stride(0), "low": 0.0, "high": 0.0,
            "count": size
        }, {"COMPUTE": None, "BLOCK": 1024})
    return result


declare(Computed(name="histc", compute=_histc, kinds=OF_ONE, kind=KIND))
declare(Computed(name="bincount", compute=_bincount, kinds=("functional", ), kind=KIND))

