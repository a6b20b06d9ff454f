"""Operators of ATen that read, write and accumulate where tensors of indices or masks say.

On CPUs indices are checked first, and ATen raises its error for those that do not exist; on GPUs, where ATen stops the device, kernels pass over them.
"""

import torch

from .. import _shapes
from .._declare import Native, declare
from .._indexed import ATOMIC, INDICES, Kept, accumulate, add_groups, exist, places, walk
from .._moves import bits, cloned, fill, foreign, move, number
from .._shapes import conflict, overlaps_itself
from .._strided import COMPUTE, FLOATS, INTEGERS
from ..functions import arithmetic
from ..pointwise import Rule, run
from ._computed import Computed
from ._outputs import ready

OF_ONE = ("functional", "out")
KIND = "indexing"


def _unusable(*tensors):
    """`Native` for tensors whose memory kernels cannot move, and for elements of 16 bytes."""
    return foreign(*tensors) or (Native("dtype") if any(tensor is not None and tensor.element_size() > 8 for tensor in tensors) else None)


def _strange(x):
    """`Native` for dtypes that ATen does not index along a dimension."""
    return None if x.dtype in COMPUTE or x.dtype == torch.complex64 else Native("dtype")


def _line(x):
    """A tensor without dimensions as one of one."""
    return x if x.dim() else x.view(1)


def _fresh(outs, shape, dtype, tensors):
    """The output of an operator that reads and writes different places, or `Native`: it shares no memory with what is read."""
    if outs is None:
        return torch.empty(shape, dtype=dtype, device=tensors[0].device)
    if any(tensor.data_ptr() == outs[0].data_ptr() and tensor.numel() for tensor in tensors):
        return Native("overlap")
    return ready(outs, [(shape, dtype)], tensors) or outs[0]


def _target(values, outs, others, contiguous=True):
    """The tensor that an operator changes: `self` for in-place overloads, else a copy of it, new or in the output. `Native` before it is written."""
    x = values["self"]
    if outs is None:
        return cloned(x, contiguous)
    if outs[0] is x:
        if overlaps_itself(x) or any(conflict(x, other) or other.data_ptr() == x.data_ptr() and other.numel() for other in others):
            return Native("overlap")
        return x
    if any(other.data_ptr() == outs[0].data_ptr() and other.numel() for other in others):
        return Native("overlap")
    if (found := ready(outs, [(x.shape, x.dtype)], (x, *others))) is not None:
        return found
    move(outs[0], x)
    return outs[0]


def _along(dim, strides):
    """Strides with 0 in place of that of `dim`."""
    return tuple([0 if d == dim else stride for d, stride in enumerate(strides)])


# Reading along one dimension


def _index_select(values, outs):
    x, dim, index = values["self"], values["dim"], values["index"]
    if (found := _unusable(x, index, *(outs or ()))) is not None:
        return found
    if index.dtype not in INDICES or index.dim() > 1 or not x.dim() or not -x.dim() <= dim < x.dim():
        return Native("shapes")
    dim, index = dim % x.dim(), _line(index)
    if not exist(index, x.shape[dim]):
        return Native("index")
    shape = (*x.shape[:dim], len(index), *x.shape[dim + 1:])
    result = _fresh(outs, shape, x.dtype, (x, index))
    if type(result) is not Native:
        walk("read", bits(x), bits(result), 0, [index], shape, _along(dim, x.stride()), result.stride(),
             [tuple([index.stride(0) if d == dim else 0 for d in range(len(shape))])], [x.shape[dim]], [x.stride(dim)])
    return result


def _gather(values, outs):
    x, dim, index = values["self"], values["dim"], values["index"]
    if (found := _unusable(x, index, *(outs or ())) or _strange(x)) is not None:
        return found
    places_of_x = max(x.dim(), 1)
    if index.dtype != torch.int64 or not -places_of_x <= dim < places_of_x:
        return Native("shapes")
    line, at, dim = _line(x), _line(index), dim % places_of_x
    if index.numel():
        if line.dim() != at.dim() or any(a > b for d, (a, b) in enumerate(zip(at.shape, line.shape)) if d != dim):
            return Native("shapes")
        if outs is not None and not exist(index, line.shape[dim]):
            return Native("index")
    result = _fresh(outs, index.shape, x.dtype, (x, index))
    if type(result) is not Native and index.numel():
        to = _line(bits(result))
        found = walk("read", bits(line), to, 0, [at], at.shape, _along(dim, line.stride()), to.stride(), [at.stride()], [line.shape[dim]], [line.stride(dim)], False, outs is None)
        return result if found else Native("index")
    return result


def _take(values, outs):
    x, index = values["self"], values["index"]
    if (found := _unusable(x, index, *(outs or ()))) is not None:
        return found
    if index.dtype != torch.int64 or not exist(index, x.numel(), True) or not x.numel() and index.numel():
        return Native("index")
    result = _fresh(outs, index.shape, x.dtype, (x, index))
    if type(result) is not Native:
        flat = x if x.is_contiguous() else cloned(x, True)
        walk("read", bits(flat), bits(result), 0, [index], index.shape, (0, ) * index.dim(), result.stride(), [index.stride()], [x.numel()], [1])
    return result


declare(Computed(name="index_select", compute=_index_select, arguments=("self", "dim", "index"), kinds=OF_ONE, kind=KIND))
declare(Computed(name="gather", compute=_gather, arguments=("self", "dim", "index", "sparse_grad"), kinds=OF_ONE, kind=KIND))
declare(Computed(name="take", compute=_take, kinds=OF_ONE, kind=KIND))


# Writing along one dimension


def _number_for(x, value):
    """(x, value) as `walk` writes a number: bools as bytes. The value is `Native` where ATen has to decide."""
    value = number(value, x.dtype)
    if type(value) is Native:
        return x, value
    return (x, value) if x.dtype in COMPUTE and x.dtype != torch.bool else (bits(x), value)


def _along_index(mode, x, dim, index, other, value=1):
    """x[..., index, ...] along `dim`, `index` of one dimension, in order on CPUs and wherever a GPU has no atomic operation for it."""
    shape = (*x.shape[:dim], len(index), *x.shape[dim + 1:])
    strides = [tuple([index.stride(0) if d == dim else 0 for d in range(len(shape))])]
    _changed(mode, x, dim, shape, strides, [index], other, value)


def _changed(mode, x, dim, shape, index_strides, indices, other, value, wraps=True, check=False):
    """Changes the elements of `x` at the indices; wraps, check, the result: see `accumulate`."""
    x_strides, limits, steps = _along(dim, x.stride()), [x.shape[dim]], [x.stride(dim)]
    other_strides = other.stride() if other is not None else (0, ) * len(shape)
    if mode == "set" and other is not None:
        x, other = bits(x), bits(other)
    if x.device.type == "cpu" and not (mode == "set" and other is None) or not _any_order(mode, x):
        dims = [(size, (to, source, *at)) for size, to, source, *at in zip(shape, x_strides, other_strides, *index_strides)]
        turns = [(dims[dim][0], dims[dim][1][1:])]
        return accumulate(mode, x, other, value, indices, dims[:dim] + dims[dim + 1:], turns, limits, steps, wraps, check)
    return walk(mode, x, other, value, indices, shape, x_strides, other_strides if other is not None else None, index_strides, limits, steps, wraps, check)


def _any_order(mode, x):
    """Whether a GPU may take elements up in any order."""
    if mode == "set":
        return True
    if torch.are_deterministic_algorithms_enabled():
        return False
    return mode == "add" and x.dtype in ATOMIC or mode in ("amax", "amin") and x.dtype in (torch.int32, torch.int64)


def _one_index(values, outs, source=None, dtypes=INDICES, wraps=False):
    """(self, dim, index) of operators whose index has one dimension, or `Native`. source: a tensor of the shape that is written, or None."""
    x, dim, index = values["self"], values["dim"], values["index"]
    found = _unusable(x, index, source, *(outs or ())) or _strange(x)
    if found is not None:
        return found
    dims = max(x.dim(), 1)
    if index.dtype not in dtypes or index.dim() > 1 or not -dims <= dim < dims:
        return Native("shapes")
    line, dim = _line(x), dim % dims
    index = _line(index)
    if source is not None:
        its_shape = _line(source).shape
        if source.dtype != x.dtype or tuple(its_shape) != (*line.shape[:dim], len(index), *line.shape[dim + 1:]) or source.dim() != x.dim() and x.dim() > 1:
            return Native("shapes")
    if not exist(index, line.shape[dim], wraps):
        return Native("index")
    return dim, index


def _index_add(values, outs):
    source = values["source"]
    found = _one_index(values, outs, source)
    if type(found) is Native:
        return found
    dim, index = found
    alpha = number(values["alpha"], source.dtype)
    if source.dtype not in COMPUTE or type(alpha) is Native:
        return Native("dtype")
    if source.dtype is torch.bool:  # which is computed as an integer, where 1 and -1 add up to 0
        alpha = bool(alpha)
    result = _target(values, outs, (index, source))
    if type(result) is not Native:
        _along_index("add", _line(result), dim, index, _line(source), alpha)
    return result


def _index_copy(values, outs):
    source = values["source"]
    found = _one_index(values, outs, source, dtypes=(torch.int64, ))
    if type(found) is Native:
        return found
    result = _target(values, outs, (found[1], source))
    if type(result) is not Native:
        _along_index("set", _line(result), *found, _line(source))
    return result


def _index_fill(values, outs):
    value = values["value"]
    found = _one_index(values, outs, dtypes=(torch.int64, ), wraps=True)
    if type(found) is Native:
        return found
    if isinstance(value, torch.Tensor) and (value.dim() or value.device.type != "cpu"):
        return Native("value")
    passed = _number_for(values["self"], value)[1]
    if type(passed) is Native:
        return passed
    result = _target(values, outs, (found[1], ), contiguous=False)
    if type(result) is not Native:
        _along_index("set", _number_for(_line(result), value)[0], *found, None, passed)
    return result


declare(Computed(name="index_add", compute=_index_add, arguments=("self", "dim", "index", "source", "alpha"), kind=KIND))
declare(Computed(name="index_copy", compute=_index_copy, arguments=("self", "dim", "index", "source"), kind=KIND))
declare(Computed(name="index_fill", compute=_index_fill, kinds=("functional", "inplace"), kind=KIND))


# Scattering: an index for each element

_MODES = {"add": "add", "multiply": "multiply", "sum": "add", "prod": "multiply", "amax": "amax", "amin": "amin", "mean": "add", None: "set"}
_MEAN = Rule(function=arithmetic.div)
_FLOOR_MEAN = Rule(function=arithmetic.div_floor)


def _scatter_plan(values, outs, source, check=True):
    """(dim, index, source) with lines in place of tensors without dimensions, or `Native`. check: whether indices have to exist."""
    x, dim, index = values["self"], values["dim"], values["index"]
    if (found := _unusable(x, index, source, *(outs or ())) or _strange(x)) is not None:
        return found
    dims = max(x.dim(), 1)
    if index.dtype != torch.int64 or not -dims <= dim < dims or source is not None and source.dtype != x.dtype:
        return Native("dtype")
    dim, at, line = dim % dims, _line(index), _line(x)
    source = None if source is None else _line(source)
    if index.numel():
        if at.dim() != line.dim() or any(a > b for d, (a, b) in enumerate(zip(at.shape, line.shape)) if d != dim):
            return Native("shapes")
        if source is not None and (source.dim() != at.dim() or any(a > b for a, b in zip(at.shape, source.shape))):
            return Native("shapes")
        if check and not exist(index, line.shape[dim]):
            return Native("index")
    return dim, at, source


def _scatter_into(mode, result, dim, index, source, value=1, check=False):
    """Returns whether indices exist, with `check`."""
    return not index.numel() or _changed(mode, _line(result), dim, tuple(index.shape), [index.stride()], [index], source, value, False, check)


def _checked_late(x, outs):
    """Whether indices are checked while elements are changed: on CPUs, where the result is new and not used if one does not exist."""
    return outs is None and x.device.type == "cpu"


def _scatter(values, outs):
    source, reduce = values.get("src"), values.get("reduce")
    if reduce not in (None, "add", "multiply") or reduce and values["self"].dtype not in COMPUTE:
        return Native("reduce")
    late = _checked_late(values["self"], outs) and not (source is None and reduce is None)
    plan = _scatter_plan(values, outs, source, not late)
    if type(plan) is Native:
        return plan
    value = 1
    if source is None:
        value = _number_for(values["self"], values["value"])[1]
        if type(value) is Native:
            return value
    result = _target(values, outs, [tensor for tensor in (values["index"], source) if tensor is not None])
    if type(result) is not Native:
        to = result
        if source is None and reduce is None:
            to = _number_for(result, values["value"])[0]
        if not _scatter_into(_MODES[reduce], to, *plan, value, check=late):
            return Native("index")
    return result


def _scatter_add(values, outs):
    return _reduced(values, outs, "sum", True)


def _scatter_reduce(values, outs):
    return _reduced(values, outs, values["reduce"], values["include_self"])


def _least(dtype):
    return float("-inf") if dtype in FLOATS else 0 if dtype == torch.bool else torch.iinfo(dtype).min


def _greatest(dtype):
    return float("inf") if dtype in FLOATS else 1 if dtype == torch.bool else torch.iinfo(dtype).max


def _reduced(values, outs, reduce, with_self):
    x, source = values["self"], values["src"]
    if reduce not in _MODES or reduce in (None, "add", "multiply") or x.dtype not in COMPUTE or reduce == "mean" and x.dtype == torch.bool:
        return Native("reduce")
    late = _checked_late(x, outs) and reduce == "sum" and with_self
    plan = _scatter_plan(values, outs, source, not late)
    if type(plan) is Native:
        return plan
    wide = x.device.type == "cpu" and x.dtype in (torch.float16, torch.bfloat16) and reduce in ("sum", "prod")
    if late and wide and plan[1].numel():
        result = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    else:
        result = _target(values, outs, (values["index"], source))
    if type(result) is not Native and plan[1].numel():
        dim, index, source = plan
        to = cast(x if late else result, torch.float32) if wide else result  # which is rounded once, as ATen does
        if late:
            if not _scatter_into("add", to, dim, index, source, check=True):
                return Native("index")
        else:
            _in_steps(reduce, with_self, to, source, lambda mode, to, source, value: _scatter_into(mode, to, dim, index, source, value))
        if wide:
            move(result, to)
    return result


def _in_steps(reduce, with_self, result, source, change):
    """A reduction into `result`. change(mode, x, other, value): changes the elements of `x` at the indices."""
    if not with_self:
        first = {"sum": 0, "mean": 0, "prod": 1, "amax": _least(result.dtype), "amin": _greatest(result.dtype)}[reduce]
        change("set", bits(result) if result.dtype == torch.bool else result, None, first)
    change(_MODES[reduce], result, source, 1)
    if reduce == "mean":
        count = torch.empty(result.shape, dtype=torch.int64, device=result.device)
        fill(count, 1 if with_self else 0)
        change("add", count, None, 1)
        run(Rule(function=arithmetic.clamp_min), [count, 1], (), [count])
        if result.dtype in FLOATS:
            run(_MEAN, [result, count], (), [result])
        else:
            run(_FLOOR_MEAN, [result, cast(count, result.dtype)], (), [result])


def _index_reduce(values, outs):
    source, reduce = values["source"], values["reduce"]
    found = _one_index(values, outs, source)
    if type(found) is Native:
        return found
    if reduce not in ("prod", "mean", "amax", "amin") or source.dtype not in (*FLOATS, *INTEGERS):
        return Native("reduce")
    result = _target(values, outs, (found[1], source))
    if type(result) is not Native and source.numel():
        _in_steps(reduce, values["include_self"], result, _line(source), lambda mode, to, other, value: _along_index(mode, _line(to), *found, other, value))
    return result


def cast(x, dtype):
    """A contiguous copy of another dtype."""
    result = torch.empty(x.shape, dtype=dtype, device=x.device)
    move(result, x)
    return result


declare(Computed(name="scatter", compute=_scatter, arguments=("self", "dim", "index", "src", "value", "reduce"), kind=KIND))
declare(Computed(name="scatter_add", compute=_scatter_add, arguments=("self", "dim", "index", "src"), kind=KIND))
declare(Computed(name="scatter_reduce", compute=_scatter_reduce, kind=KIND))
declare(Computed(name="index_reduce", compute=_index_reduce, kind=KIND))


def _put(values, outs):
    x, index, source = values["self"], values["index"], values["source"]
    if (found := _unusable(x, index, source) or _strange(x)) is not None:
        return found
    if index.dtype != torch.int64 or source.dtype != x.dtype or source.numel() != index.numel() or not exist(index, x.numel(), True) or not x.numel():
        return Native("index")
    if values["accumulate"] and x.dtype not in COMPUTE:
        return Native("dtype")
    result = _target(values, outs, (index, source), contiguous=False)
    if type(result) is Native or not index.numel():
        return result
    flat = result if result.is_contiguous() else cloned(result, True)
    source = source if source.is_contiguous() else cloned(source, True)
    index = index if index.is_contiguous() else cloned(index, True)
    index, source, flat = index.view(-1), source.view(-1), flat.view(-1)
    _changed("add" if values["accumulate"] else "set", flat, 0, (len(index), ), [(1, )], [index], source, 1)
    if result.data_ptr() != flat.data_ptr():
        move(result, flat.view(result.shape))
    return result


declare(Computed(name="put", compute=_put, kinds=("functional", "inplace"), kind=KIND))


# Several indices at once


class _Plan:
    """How several indices select elements of a tensor: the shape of the selection and all strides in its dimensions.

    walked: bool for each dimension, whether it is one of the indices'.
    """

    def __init__(self, x, indices, at):
        self.indices, self.at = indices, at
        shape = torch.broadcast_shapes(*(index.shape for index in indices))
        together = at[-1] - at[0] == len(at) - 1
        first = at[0] if together else 0
        others = [d for d in range(x.dim()) if d not in at]
        before, after = [d for d in others if d < first], [d for d in others if d >= first]
        self.shape = (*(x.shape[d] for d in before), *shape, *(x.shape[d] for d in after))
        self.first, self.rank = len(before), len(shape)
        self.x_strides = (*(x.stride(d) for d in before), *(0, ) * len(shape), *(x.stride(d) for d in after))
        self.index_strides = [(*(0, ) * len(before), *index.expand(shape).stride(), *(0, ) * len(after)) for index in indices]
        self.limits, self.steps = [x.shape[d] for d in at], [x.stride(d) for d in at]

    def accumulate(self, x, other):
        other_strides = other.expand(self.shape).stride()
        dims = [(size, (to, source, *strides)) for size, to, source, *strides in zip(self.shape, self.x_strides, other_strides, *self.index_strides)]
        first, end = self.first, self.first + self.rank
        parallel, turns = dims[:first] + dims[end:], [(size, strides[1:]) for size, strides in dims[first:end]]
        if x.device.type == "cpu":
            accumulate("add", x, other, 1, self.indices, parallel, turns, self.limits, self.steps)
        else:
            add_groups(x, other, self.indices, parallel, turns, self.limits, self.steps)

    def output_strides(self, x):
        views = [x.as_strided(self.shape, self.x_strides, x.storage_offset())]
        views += [index.as_strided(self.shape, strides, index.storage_offset()) for index, strides in zip(self.indices, self.index_strides)]
        return _shapes.output_strides(torch.Size(self.shape), views)


def _selection(x, given, others):
    """The `_Plan` of a list of indices, masks and Nones, or `Native`."""
    given = list(given)
    if (found := _unusable(x, *given, *others)) is not None:
        return found
    if any(index is not None and index.dtype not in (*INDICES, torch.bool) for index in given) or all(index is None for index in given):
        return Native("dtype of an index")
    indices, at, d = [], [], 0
    for index in given:
        if index is None:
            d += 1
        elif index.dtype == torch.bool:
            if tuple(index.shape) != tuple(x.shape[d:d + index.dim()]) or not index.dim():
                return Native("mask")
            for found in places(index):
                indices.append(found)
                at.append(d)
                d += 1
        else:
            indices.append(index)
            at.append(d)
            d += 1
    if d > x.dim():
        return Native("shapes")
    try:
        plan = _Plan(x, indices, at)
    except RuntimeError:
        return Native("shapes")
    if any(not exist(index, limit, True) for index, limit in zip(indices, plan.limits)):
        return Native("index")
    if 0 in plan.limits:
        return Native("empty")
    return plan


def _index(values, outs):
    x = values["self"]
    plan = _selection(x, values["indices"], outs or ())
    if type(plan) is Native:
        return plan
    if outs is None:
        result = torch.empty_strided(plan.shape, plan.output_strides(x), dtype=x.dtype, device=x.device)
    else:
        result = _fresh(outs, plan.shape, x.dtype, (x, *plan.indices))
    if type(result) is not Native:
        walk("read", bits(x), bits(result), 0, plan.indices, plan.shape, plan.x_strides, result.stride(), plan.index_strides, plan.limits, plan.steps)
    return result


def _index_put(values, outs):
    x, new = values["self"], values["values"]
    if new.dtype != x.dtype or values["accumulate"] and x.dtype not in COMPUTE:
        return Native("dtype")
    plan = _selection(x, values["indices"], (new, *(outs or ())))
    if type(plan) is Native:
        return plan
    try:
        new = new.expand(plan.shape)
    except RuntimeError:
        return Native("shapes")
    if not new.numel() and outs is None:
        return Native("empty")
    result = _target(values, outs, (*plan.indices, new), contiguous=False)
    if type(result) is Native:
        return result
    plan = _Plan(result, plan.indices, plan.at)
    if not values["accumulate"]:
        walk("set", bits(result), bits(new), 0, plan.indices, plan.shape, plan.x_strides, new.stride(), plan.index_strides, plan.limits, plan.steps)
    else:
        plan.accumulate(result, new)
    return result


declare(Computed(name="index", compute=_index, arguments=("self", "indices"), kinds=OF_ONE, kind=KIND))
declare(Computed(name="index_put", compute=_index_put, kinds=("functional", "inplace"), kind=KIND))
declare(Computed(name="_index_put_impl", compute=_index_put, kinds=("functional", "inplace"), kind=KIND))


# Masks


def _masked_select(values, outs):
    x, mask = values["self"], values["mask"]
    if (found := _unusable(x, mask, *(outs or ()))) is not None:
        return found
    if mask.dtype != torch.bool:
        return Native("dtype of the mask")
    try:
        shape = torch.broadcast_shapes(x.shape, mask.shape)
    except RuntimeError:
        return Native("shapes")
    source = x.expand(shape)
    kept = Kept(mask.expand(shape), (source.stride(), ))
    result = _fresh(outs, (kept.total, ), x.dtype, (x, mask))
    if type(result) is not Native:
        kept.select(bits(result), bits(source))
    return result


def _nonzero(values, outs):
    x = values["self"]
    if (found := foreign(x, *(outs or ()))) is not None:
        return found
    if x.dtype not in COMPUTE:
        return Native("dtype")
    kept = Kept(x)
    shape = (kept.total, x.dim())
    new = outs is None or tuple(outs[0].shape) != shape
    result = _fresh(outs, shape, torch.int64, (x, ))
    if type(result) is not Native and new:  # ATen's rows are the columns of a contiguous tensor
        result.as_strided_(shape, (1, kept.total))
    if type(result) is not Native:
        kept.coordinates(result)
    return result


def _masked_scatter(values, outs):
    x, mask, source = values["self"], values["mask"], values["source"]
    if (found := _unusable(x, mask, source)) is not None:
        return found
    if mask.dtype != torch.bool or source.dtype != x.dtype:
        return Native("dtype")
    try:
        shape = torch.broadcast_shapes(x.shape, mask.shape)
    except RuntimeError:
        return Native("shapes")
    if outs is not None and tuple(shape) != tuple(x.shape):
        return Native("shapes")
    mask = mask.expand(shape)
    values = values | {"self": x.expand(shape)} if outs is None else values
    if outs is not None and (overlaps_itself(x) or any(conflict(x, other) or x.data_ptr() == other.data_ptr() for other in (mask, source))):
        return Native("overlap")
    result = cloned(values["self"], True) if outs is None else x
    kept = Kept(mask, (result.stride(), ))
    if kept.total > source.numel():
        return Native("source")
    kept.refill(bits(result), bits(source if source.is_contiguous() else cloned(source, True)))
    return result


declare(Computed(name="masked_select", compute=_masked_select, kinds=OF_ONE, kind=KIND))
declare(Computed(name="nonzero", compute=_nonzero, kinds=OF_ONE, kind=KIND))
declare(Computed(name="masked_scatter", compute=_masked_scatter, kinds=("functional", "inplace"), kind=KIND))
