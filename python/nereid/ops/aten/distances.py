"""Distances between rows (cdist, pdist), cross products and limits of norms (renorm) of ATen."""

import math

import torch

from .. import _shapes
from .._declare import Native, declare
from .._indexed import INDICES, exist
from .._launch import launch
from .._moves import foreign
from .._strided import COMPUTE, FLOATS, INTEGERS, STORAGE, cdiv, product
from ..functions import rescaling as functions
from ..kernels import distances as kernels
from ..pointwise import Rule, apply
from ._computed import Computed
from ._outputs import made

KIND = "distance"
#: ATen's limit above which it multiplies matrices for Euclidean distances.
FEW = 25
#: Distances of so many rows and more are computed of a copy of the others, in which their elements are neighbours.
_COPIED = 4


def _norm(p):
    return {0.0: "zero", 1.0: "one", 2.0: "two", math.inf: "inf"}.get(p, "other")


def _power(p):
    """A number that kernels take: that of the infinite norm is not used."""
    return 1.0 if math.isinf(p) else float(p)


def _batches(x1, x2):
    """(x1, x2) as (batch, rows, width), and the shape of the batches, or None where ATen has to complain."""
    if x1.dim() < 2 or x2.dim() < 2 or x1.shape[-1] != x2.shape[-1]:
        return None
    try:
        shape = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    except RuntimeError:
        return None
    return [x.expand(*shape, *x.shape[-2:]).reshape(-1, *x.shape[-2:]) for x in (x1, x2)], tuple(shape)


def _distances(values, outs):
    x1, x2, p, mode = values["x1"], values["x2"], values["p"], values["compute_mode"]
    if (found := foreign(x1, x2)) is not None:
        return found
    if x1.dtype not in FLOATS[2:] or x2.dtype != x1.dtype:
        return Native("dtype")
    if not x1.numel() or not x2.numel() or not p >= 0 or mode not in (None, 0, 1, 2):
        return Native("empty")
    if p == 2 and (mode == 1 or mode != 2 and (x1.shape[-2] > FEW or x2.shape[-2] > FEW)):
        return Native("by products")  # ATen multiplies matrices
    found = _batches(x1, x2)
    if found is None:
        return Native("shapes")
    (a, b), shape = found
    rows, columns, width = a.shape[1], b.shape[1], a.shape[2]
    result = torch.empty((*shape, rows, columns), dtype=x1.dtype, device=x1.device)
    _launch(kernels.distances, (columns, rows, len(a)), a.device, {"out": result, "a": a, "b": b, "p": _power(p), "rows": rows, "columns": columns, "width": width},
            {"P": _norm(p), "CONDENSED": False}, a, b)
    return result


def _launch(kernel, sizes, device, arguments, constants, a, b):
    # On CPUs the sums of four rows stay in registers.
    tiles = ((4 if kernel is kernels.distances else 16), 64) if device.type == "cpu" else (32, 32)
    columns, rows, count = sizes
    if device.type == "cpu" and kernel is kernels.distances and b.stride(1) != 1 and rows >= _COPIED:
        b = b.transpose(1, 2).contiguous().transpose(1, 2)  # registers hold an element of neighbouring rows
        arguments = arguments | {"b": b}
    if kernel is kernels.distances:
        constants = constants | {"UNIT": b.stride(1) == 1}
    launch(kernel, (cdiv(columns, tiles[1]), cdiv(rows, tiles[0]), count), device, arguments | {"a_strides": a.stride(), "b_strides": b.stride()},
           constants | {"COMPUTE": COMPUTE[a.dtype], "BR": tiles[0], "BC": tiles[1]})


def _distance_gradient(values, outs):
    gradient, x1, x2, p, distance = (values[name] for name in ("grad", "x1", "x2", "p", "cdist"))
    if (found := foreign(gradient, x1, x2, distance)) is not None:
        return found
    if x1.dtype not in FLOATS[2:] or any(x.dtype != x1.dtype for x in (gradient, x2, distance)):
        return Native("dtype")
    if not x1.numel() or not x2.numel() or not p > 0:
        return Native("empty")
    found = _batches(x1, x2)
    if found is None:
        return Native("shapes")
    (a, b), shape = found
    rows, columns, width = a.shape[1], b.shape[1], a.shape[2]
    if tuple(gradient.shape) != (*shape, rows, columns) or distance.shape != gradient.shape:
        return Native("shapes")
    gradient, distance = gradient.reshape(-1, rows, columns), distance.reshape(-1, rows, columns)
    result = torch.empty((*shape, rows, width), dtype=x1.dtype, device=x1.device)
    _launch(kernels.distance_gradient, (width, rows, len(a)), a.device, {
        "result": result, "gradient": gradient, "distance": distance, "a": a, "b": b, "p": _power(p), "rows": rows, "columns": columns, "width": width,
        "gradient_strides": gradient.stride(), "distance_strides": distance.stride()
    }, {"P": _norm(p), "CONDENSED": False}, a, b)
    return result


def _pairs(values, outs):
    x, p = values["self"], values["p"]
    if (found := foreign(x)) is not None:
        return found
    if x.dtype not in FLOATS[2:] or x.dim() != 2 or not x.is_contiguous() or len(x) < 2 or not x.numel() or not p >= 0:
        return Native("shapes")
    rows, width = x.shape
    result = torch.empty((rows * (rows - 1) // 2, ), dtype=x.dtype, device=x.device)
    x = x.unsqueeze(0)
    _launch(kernels.distances, (rows, rows, 1), x.device, {"out": result, "a": x, "b": x, "p": _power(p), "rows": rows, "columns": rows, "width": width},
            {"P": _norm(p), "CONDENSED": True}, x, x)
    return result


def _pairs_gradient(values, outs):
    gradient, x, p, distance = values["grad"], values["self"], values["p"], values["pdist"]
    if (found := foreign(gradient, x, distance)) is not None:
        return found
    if x.dtype not in FLOATS[2:] or gradient.dtype != x.dtype or distance.dtype != x.dtype or x.dim() != 2 or len(x) < 2 or not x.numel() or not p > 0:
        return Native("shapes")
    rows, width = x.shape
    if tuple(gradient.shape) != (rows * (rows - 1) // 2, ) or distance.shape != gradient.shape:
        return Native("shapes")
    result = torch.empty((rows, width), dtype=x.dtype, device=x.device)
    x = x.unsqueeze(0)
    _launch(kernels.distance_gradient, (width, rows, 1), x.device, {
        "result": result, "gradient": gradient, "distance": distance, "a": x, "b": x, "p": _power(p), "rows": rows, "columns": rows, "width": width,
        "gradient_strides": gradient.stride(), "distance_strides": distance.stride()
    }, {"P": _norm(p), "CONDENSED": True}, x, x)
    return result


def _cross(values, outs):
    a, b, dim = values["self"], values["other"], values["dim"]
    if (found := foreign(a, b, *(outs or ()))) is not None:
        return found
    rank = a.dim()
    if a.dtype not in (*FLOATS, *INTEGERS) or b.dtype != a.dtype:
        return Native("dtype")
    if rank != b.dim() or not -rank <= dim < rank or a.shape[dim] != 3 or b.shape[dim] != 3:
        return Native("shapes")
    try:
        shape = torch.broadcast_shapes(a.shape, b.shape)
    except RuntimeError:
        return Native("shapes")
    if 0 in shape:
        return Native("empty")
    if outs is not None and outs[0].shape != shape and outs[0].numel():
        return Native("shape of the output")
    if outs is not None and any(_shapes.conflict(outs[0], x) or outs[0] is x for x in (a, b)):
        return Native("overlap")
    results = made(outs, [(shape, a.dtype)], (a, b), a.device)
    if type(results) is Native:
        return results
    out, a, b, dim = results[0], a.expand(shape), b.expand(shape), dim % rank
    others = [d for d in range(rank) if d != dim]
    sizes, strides = _shapes.collapsed([shape[d] for d in others], [tuple([x.stride(d) for d in others]) for x in (out, a, b)])
    numel = product(sizes)
    launch(kernels.cross, cdiv(numel, 256), out.device, {
        "out": out, "a": a, "b": b, "sizes": sizes, "out_strides": strides[0], "a_strides": strides[1], "b_strides": strides[2],
        "steps": (out.stride(dim), a.stride(dim), b.stride(dim)), "numel": numel
    }, {"COMPUTE": COMPUTE[out.dtype], "BLOCK": 256})
    return out


_KEPT = Rule(function=functions.kept_below)


def _renorm(values, outs):
    x, p, dim, most = values["self"], values["p"], values["dim"], values["maxnorm"]
    if (found := foreign(x, *(outs or ()))) is not None:
        return found
    if x.dtype not in FLOATS or x.dim() < 2 or not x.numel() or not -x.dim() <= dim < x.dim():
        return Native("shapes")
    if isinstance(p, complex) or isinstance(most, complex) or not p > 0 or not most >= 0:
        return Native("parameter")
    dim %= x.dim()
    dtype = STORAGE[COMPUTE[x.dtype]]
    if outs is None:
        outs = [torch.empty_like(x, memory_format=torch.contiguous_format)]
    elif outs[0].dtype != x.dtype or outs[0].shape != x.shape or _shapes.overlaps_itself(outs[0]) or _shapes.conflict(outs[0], x):
        return Native("output")
    norm = torch.linalg.vector_norm(x, float(p), [d for d in range(x.dim()) if d != dim], keepdim=True, dtype=dtype)
    apply(_KEPT, outs, [x, norm.expand(x.shape)], (float(most), ), x.shape, dtype, x.device)
    return outs[0]


def _embedding_renorm(values, outs):
    table, indices, most, p = values["self"], values["indices"], values["max_norm"], values["norm_type"]
    if (found := foreign(table, indices)) is not None:
        return found
    if table.dtype not in FLOATS or indices.dtype not in INDICES or table.dim() != 2 or not table.numel() or not indices.numel() or not p > 0:
        return Native("dtype")
    if not exist(indices, len(table)) or _shapes.overlaps_itself(table):
        return Native("index")
    ordered, _ = torch.sort(indices.reshape(-1), stable=True)
    rows, width = table.shape
    launch(kernels.keep_rows, len(ordered), table.device, {
        "table": table, "indices": ordered, "count": len(ordered), "rows": rows, "width": width, "row_stride": table.stride(0), "column_stride": table.stride(1),
        "p": _power(p), "most": float(most)
    }, {"P": _norm(float(p)), "COMPUTE": COMPUTE[table.dtype], "BLOCK": min(1024, max(16, 1 << (width - 1).bit_length()))})
    return table


def _word(values):
    """The order of the norm, as a word of shape classes: few orders have code of their own."""
    p = float(values["norm_type" if "norm_type" in values else "p"])
    return f"p {p:g}" if p in (0, 1, 2, math.inf) else "p other"


declare(Computed(name="_cdist_forward", compute=_distances, kinds=("functional", ), kind=KIND, word=_word))
declare(Computed(name="_cdist_backward", compute=_distance_gradient, kinds=("functional", ), kind=KIND, word=_word))
declare(Computed(name="_pdist_forward", compute=_pairs, kinds=("functional", ), kind=KIND, word=_word))
declare(Computed(name="_pdist_backward", compute=_pairs_gradient, kinds=("functional", ), kind=KIND, word=_word))
declare(Computed(name="linalg_cross", compute=_cross, kinds=("functional", "out"), kind=KIND))
declare(Computed(name="renorm", compute=_renorm, kind=KIND, word=_word))
declare(Computed(name="embedding_renorm", compute=_embedding_renorm, kinds=("inplace", ), kind=KIND, word=_word))
