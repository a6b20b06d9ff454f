"""Operators of ATen that create tensors: constants, sequences, the identity matrix, complex numbers of two parts."""

import math

import torch

from .. import _promotion
from .._declare import Native, declare
from .._launch import DTYPES, launch
from .._moves import clear, fill, foreign, number
from .._shapes import output_strides
from .._strided import FLOATS, INTEGERS, cdiv, step_up
from ..functions import arithmetic
from ..kernels import moves as kernels
from ..pointwise import Rule, run
from ._computed import Computed, options
from ._outputs import ready

OF_ONE = ("functional", "out")
NEW = ("size", "fill_value", "dtype", "layout", "device", "pin_memory", "memory_format", "self")


def _output(values, outs, shape, dtype=None):
    """The tensor that an operator without inputs writes, or `Native`."""
    if outs is not None:
        return ready(outs, [(shape, outs[0].dtype)], ()) or foreign(outs[0]) or outs[0]
    found = options(values, dtype)
    return found if type(found) is Native else torch.empty(shape, dtype=found[0], device=found[1])


# Constants


def _of_number(value):
    return torch.bool if isinstance(value, bool) else torch.int64 if isinstance(value, int) else torch.get_default_dtype()


def _constant(value_of):
    """A tensor of the shape `size` full of a number; for overloads with `self` options are its own where none are given."""

    def compute(values, outs):
        value, size = value_of(values), list(values["size"])
        if isinstance(value, (complex, torch.Tensor)) or any(length < 0 for length in size):
            return Native("value")
        like = values.get("self")
        if like is not None:
            if values["device"] is not None and torch.device(values["device"]) != like.device or foreign(like) is not None:
                return Native("device")
            values = values | {"device": like.device, "dtype": values["dtype"] or like.dtype}
        found = options(values, _of_number(value) if "fill_value" in values else None)
        if type(found) is Native:
            return found
        dtype = found[0] if outs is None else outs[0].dtype
        value = number(value, dtype)
        if type(value) is Native:
            return value
        result = _output(values, outs, size, dtype)
        if type(result) is not Native:
            fill(result, value)
        return result

    return compute


def _like(value_of):

    def compute(values, outs):
        x, value = values["self"], value_of(values)
        device = values["device"]
        if (found := foreign(x)) is not None:
            return found
        if values["layout"] not in (None, torch.strided) or values["pin_memory"] or device is not None and torch.device(device) != x.device:
            return Native("device")
        if isinstance(value, (complex, torch.Tensor)):
            return Native("value")
        value = number(value, values["dtype"] or x.dtype)
        if type(value) is Native:
            return value
        form = values["memory_format"]
        result = torch.empty_like(x, dtype=values["dtype"], memory_format=torch.preserve_format if form is None else form)
        fill(result, value)
        return result

    return compute


def _of_dtype(value):
    return lambda values: value


def _given(values):
    return values["fill_value"]


for _name, _value in {"zeros": _of_dtype(0), "ones": _of_dtype(1), "full": _given}.items():
    declare(Computed(name=_name, compute=_constant(_value), arguments=NEW, kinds=OF_ONE, kind="creation"))
    declare(Computed(name=f"new_{_name}", compute=_constant(_value), arguments=NEW, kinds=("functional", ), kind="creation"))
    declare(Computed(name=f"{_name}_like", compute=_like(_value), arguments=NEW, kinds=("functional", ), kind="creation"))


def _scalar_tensor(values, outs):
    if isinstance(values["s"], complex):
        return Native("value")
    return _constant(lambda values: values["s"])(values | {"size": ()}, outs)


declare(Computed(name="scalar_tensor", compute=_scalar_tensor, kinds=("functional", ), kind="creation"))


# Sequences


def _row(values, outs, count, dtype):
    """The tensor for a sequence of `count` numbers and the stride of its elements, or `Native`. One of as many elements keeps its shape."""
    if outs is not None and outs[0].numel() == count and outs[0].is_contiguous():
        result = foreign(outs[0]) or outs[0]
    else:
        result = _output(values, outs, (count, ), dtype)
    if type(result) is Native:
        return result
    return result, 1 if result.is_contiguous() else result.stride(0)


def _arange(values, outs):
    numbers = [values.get("start", 0), values["end"], values.get("step", 1)]
    start, end, step = numbers
    if any(isinstance(value, (complex, torch.Tensor)) or value != value or abs(value) == float("inf") for value in numbers):
        return Native("range")
    found = options(values, torch.int64 if all(isinstance(value, int) for value in numbers) else torch.get_default_dtype())
    if type(found) is Native:
        return found
    dtype = found[0] if outs is None else outs[0].dtype
    if dtype not in (*INTEGERS, *FLOATS):
        return Native("dtype")
    if dtype not in FLOATS:
        start, end, step = (int(value) for value in numbers) if dtype == torch.int64 else (float(value) for value in numbers)
    if not step or (end - start) * step < 0 or abs(start) >= 2**53 or abs(end) >= 2**53:
        return Native("range")
    count = math.ceil((float(end) - float(start)) / float(step))
    if dtype not in FLOATS:
        if any(not torch.iinfo(dtype).min <= value <= torch.iinfo(dtype).max for value in (start, end, step)):
            return Native("range")
        start, step = int(start), int(step)
        if not step:
            return Native("range")
    found = _row(values, outs, count, dtype)
    if type(found) is Native:
        return found
    result, stride = found
    if count:
        compute = torch.int64 if dtype not in FLOATS else torch.float64 if dtype == torch.float64 or dtype == torch.float32 and result.device.type == "cpu" else torch.float32
        launch(kernels.sequence, cdiv(count, 1024), result.device, {
            "out": result, "start": float(start) if dtype in FLOATS else start, "step": float(step) if dtype in FLOATS else step, "numel": count, "stride": stride
        }, {"COMPUTE": DTYPES[compute], "BLOCK": 1024})
    return result


declare(Computed(name="arange", compute=_arange, kinds=OF_ONE, kind="creation"))


def _spaced(values, outs):
    start, end, steps, base = values["start"], values["end"], values["steps"], values.get("base")
    start, end = (value.item() if isinstance(value, torch.Tensor) and not value.dim() and value.device.type == "cpu" else value for value in (start, end))
    if any(isinstance(value, (complex, torch.Tensor)) for value in (start, end)) or steps < 0 or base is not None and base <= 0:
        return Native("range")
    found = options(values)
    if type(found) is Native:
        return found
    dtype = found[0] if outs is None else outs[0].dtype
    if dtype not in FLOATS and (dtype not in INTEGERS or base is not None):
        return Native("dtype")
    if dtype in INTEGERS:
        device = outs[0].device if outs is not None else found[1]
        if device is not None and device.type != "cpu":
            return Native("integers on GPUs")  # ATen rounds otherwise there
        if any(not torch.iinfo(dtype).min <= value <= torch.iinfo(dtype).max for value in (start, end)):
            return Native("range")
        start, end = int(start), int(end)
    found = _row(values, outs, steps, dtype)
    if type(found) is Native:
        return found
    result, stride = found
    if steps:
        start, end = float(start), float(end)
        launch(kernels.spaced, cdiv(steps, 1024), result.device, {
            "out": result, "start": start, "end": end if steps > 1 else start, "step": (end - start) / (steps - 1) if steps > 1 else 0.0, "numel": steps, "stride": stride,
            "base": 1.0 if base is None else float(base)
        }, {"BASE": base is not None, "BLOCK": 1024})
    return result


declare(Computed(name="linspace", compute=_spaced, kinds=OF_ONE, kind="creation"))
declare(Computed(name="logspace", compute=_spaced, kinds=OF_ONE, kind="creation"))


# Matrices


def _eye(values, outs):
    rows = values["n"]
    columns = values.get("m", rows)
    if rows < 0 or columns < 0:
        return Native("shape")
    result = _output(values, outs, (rows, columns))
    if type(result) is Native:
        return result
    one = number(1, result.dtype)
    if type(one) is Native:
        return one
    clear(result)
    fill(result.diagonal(), one)
    return result


declare(Computed(name="eye", compute=_eye, kinds=OF_ONE, kind="creation"))


def _below(rows, columns, diagonal):
    """How many elements lie on and below a diagonal."""
    first = min(max(-diagonal, 0), rows)
    end = max(min(rows, columns - diagonal), first)
    return (end - first) * (first + end - 1) // 2 + (end - first) * (diagonal + 1) + (rows - end) * columns


def _triangle_places(upper):

    def compute(values, outs):
        rows, columns, diagonal = values["row"], values["col"], values["offset"]
        if rows < 0 or columns < 0 or max(rows, columns, abs(diagonal)) >= 2**31:
            return Native("shape")
        if values["dtype"] not in (torch.int32, torch.int64, 3, 4):  # a default of the schema is a number
            return Native("dtype")
        count = _below(rows, columns, diagonal - upper)
        count = rows * columns - count if upper else count
        result = _output(values, outs, (2, count), torch.int64)
        if type(result) is not Native and count:
            launch(kernels.triangle_places, rows, result.device, {"out": result, "columns": columns, "diagonal": diagonal, "row_stride": result.stride(0), "stride": result.stride(1)},
                   {"UPPER": bool(upper), "BLOCK": step_up(columns, (16, 128, 1024))})
        return result

    return compute


declare(Computed(name="tril_indices", compute=_triangle_places(0), kinds=("functional", ), kind="creation"))
declare(Computed(name="triu_indices", compute=_triangle_places(1), kinds=("functional", ), kind="creation"))

# Complex numbers


def _of_parts(names, function):
    rule = Rule(function=function, dtypes=(torch.float16, torch.float32, torch.float64), same=True, results=2)

    def compute(values, outs):
        a, b = (values[name] for name in names)
        if (found := foreign(a, b, *(outs or ()))) is not None:
            return found
        if a.dtype != b.dtype or a.dtype not in rule.dtypes or a.dtype == torch.float16 and names[0] == "abs":
            return Native("dtype")
        dtype = _promotion.result_type([a]).to_complex()
        try:
            shape = torch.broadcast_shapes(a.shape, b.shape)
        except RuntimeError:
            return Native("shapes")
        if outs is not None:
            if (found := ready(outs, [(shape, dtype)], (a, b))) is not None:
                return found
            result = outs[0]
        else:
            result = torch.empty_strided(shape, output_strides(shape, [a, b]), dtype=dtype, device=a.device)
        parts = torch.view_as_real(result)
        if result.numel():
            found = run(rule, [a, b], [], [parts.select(-1, 0), parts.select(-1, 1)])
            if type(found) is Native:
                return found
        return result

    return compute


declare(Computed(name="complex", compute=_of_parts(("real", "imag"), arithmetic.both), kinds=OF_ONE, kind="creation"))
declare(Computed(name="polar", compute=_of_parts(("abs", "angle"), arithmetic.polar), kinds=OF_ONE, kind="creation"))
