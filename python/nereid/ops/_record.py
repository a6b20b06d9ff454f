"""Records the allocations, launches and results of a call of the Python route. The router repeats them for calls of the same signature
without Python (src/ops/replay.h).

A call can be recorded if it only allocates, makes views, launches kernels and calls operators that are declared here (copies, fills). A call that
reads elements depends on more than the signature, and the effects of other operators are not known; Python runs such calls each time.
"""

import ctypes
import functools
import itertools

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import _launch
from ._declare import OPERATORS, Native
from ._launch import POINTERS

_ALLOCATIONS = {
    torch.ops.aten.empty.memory_format, torch.ops.aten.empty_strided.default, torch.ops.aten.empty_like.default, torch.ops.aten.new_empty.default,
    torch.ops.aten.new_empty_strided.default
}
#: They ask for dtypes only.
_QUESTIONS = {torch.ops.aten.promote_types, torch.ops.aten.can_cast, torch.ops.aten.result_type}
_CODES = tuple(POINTERS)
PYTHON, NATIVE, RECORDED = range(3)
_TENSOR, _ALLOCATION, _INT, _FLOAT = range(4)
_MADE, _VIEW, _ARGUMENT, _NOTHING, _NUMBER = range(5)

_Numbers = ctypes.POINTER(ctypes.c_int64)


class _Allocation(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int32), ("rank", ctypes.c_int32), ("sizes", _Numbers), ("strides", _Numbers)]


class _Argument(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint8), ("code", ctypes.c_uint8), ("index", ctypes.c_uint16), ("reserved", ctypes.c_uint32), ("integer", ctypes.c_int64),
                ("real", ctypes.c_double)]


class _Step(ctypes.Structure):
    _fields_ = [("kernel", ctypes.c_void_p), ("grid", ctypes.c_uint32 * 3), ("argument_count", ctypes.c_uint32), ("arguments", ctypes.POINTER(_Argument))]


class _Result(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint8), ("reserved", ctypes.c_uint8), ("index", ctypes.c_uint16), ("rank", ctypes.c_int32), ("offset", ctypes.c_int64),
                ("sizes", _Numbers), ("strides", _Numbers)]


class Record(ctypes.Structure):
    _fields_ = [("route", ctypes.c_uint8), ("reason", ctypes.c_uint8), ("reserved", ctypes.c_uint16), ("allocation_count", ctypes.c_uint32),
                ("step_count", ctypes.c_uint32), ("result_count", ctypes.c_uint32), ("allocations", ctypes.POINTER(_Allocation)),
                ("steps", ctypes.POINTER(_Step)), ("results", ctypes.POINTER(_Result))]


def _numbers(items):
    return (ctypes.c_int64 * max(1, len(items)))(*items)


def _storage(tensor):
    return tensor.untyped_storage()._cdata


def tensors_of(form, args, kwargs):
    """The tensors among the arguments of a call, in the order of the schema, those in lists too."""
    names = (argument.name for argument in form.overload._schema.arguments)
    found = []
    for name, value in itertools.zip_longest(names, args):
        value = kwargs.get(name) if name in kwargs else value
        for item in value if isinstance(value, (list, tuple)) else (value, ):
            if isinstance(item, torch.Tensor):
                found.append(item)
    return found


def apart(form, args, kwargs):
    """The arguments of a call, tensors that share memory with others seen through storages of their own, since the storage identifies the argument of a launch: those that are only
    read, and in calls without results those that are written, where no other tensor has their elements. The record is valid for arguments that share memory and for those that do not;
    where one that is written may share elements, the router asks Python (`Replay::run`)."""
    storages = set()
    written = {argument.name for argument in form.overload._schema.arguments if argument.alias_info is not None and argument.alias_info.is_write}
    names = [argument.name for argument in form.overload._schema.arguments]
    ranges = None if form.overload._schema.returns else _shared_ranges(tensors_of(form, args, kwargs))

    def is_alone(tensor):
        first, end = _range(tensor)
        return ranges is not None and sum(first < other_end and other_first < end for other_first, other_end in ranges[tensor.untyped_storage()._cdata]) == 1

    def seen(value, name):
        if isinstance(value, (list, tuple)):
            return [seen(item, name) for item in value]
        if not isinstance(value, torch.Tensor):
            return value
        storage = value.untyped_storage()
        if storage._cdata in storages and storage.nbytes() and (name not in written or is_alone(value)):
            storage = torch._C._construct_storage_from_data_pointer(storage.data_ptr(), storage.device, storage.nbytes())
            value = torch.empty(0, dtype=value.dtype, device=value.device).set_(storage, value.storage_offset(), value.shape, value.stride())
        storages.add(storage._cdata)
        return value

    return [seen(value, name) for name, value in zip(names, args)], {name: seen(value, name) for name, value in kwargs.items()}


def _range(tensor):
    """The bytes of its storage that the elements are in: from the first to behind the last."""
    if not tensor.numel():
        return 0, 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    first = tensor.storage_offset()
    return first * tensor.element_size(), (first + last + 1) * tensor.element_size()


def _shared_ranges(tensors):
    """{storage: the ranges of the tensors in it}"""
    found = {}
    for tensor in tensors:
        found.setdefault(tensor.untyped_storage()._cdata, []).append(_range(tensor))
    return found


class Recorder(TorchDispatchMode):
    """A `with` block that records what runs in it in this thread. tensors: those of the call (`tensors_of`, `apart`); device: the type of device of the key."""

    @classmethod
    def ignore_compile_internals(cls):
        return True

    def __init__(self, tensors, device):
        super().__init__()
        self.arguments, self.device = tensors, device
        self.allocations, self.steps, self.problem, self._outer, self.conditions = [], [], None, [], 0
        self._where = {_storage(tensor): (_TENSOR, i) for i, tensor in enumerate(tensors)}
        if len(self._where) < len(tensors):
            self.problem = "arguments share memory"

    def __enter__(self):
        self._outer.append(getattr(_launch.recorders, "current", None))
        _launch.recorders.current = self
        return super().__enter__()

    def __exit__(self, *exception):
        _launch.recorders.current = self._outer.pop()
        return super().__exit__(*exception)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        ours = _declared().get(function)
        if ours is not None:
            operator, form = ours
            with self:
                result = operator.call(form, *form.bind(args, kwargs or {}))
            if type(result) is not Native:
                return result
        result = function(*args, **(kwargs or {}))
        if function in _ALLOCATIONS:
            if result.device.type != self.device or result.is_pinned() and self.device == "cpu":
                self.problem = "memory elsewhere"
            self._where[_storage(result)] = (_ALLOCATION, len(self.allocations))
            self.allocations.append(result)
        elif function.overloadpacket not in _QUESTIONS and not _is_view(function._schema):
            self.problem = str(function)
        return result

    def launched(self, kernel, grid, values):
        """Records a launch. kernel: the CompiledKernel; values: of its parameters that are no constants."""
        self.steps.append((kernel, (*grid, 1, 1)[:3], [self._leaf(value) for value in _leaves(values)]))

    def answered(self, flag, answer):
        """Records a question to a condition: in place of a launch a step without a kernel, whose grid holds the answer."""
        self.conditions += 1
        self.steps.append((None, (answer, 0, 0), [self._leaf(flag)]))

    def _leaf(self, value):
        if isinstance(value, torch.Tensor):
            kind, index = self._where.get(_storage(value), (None, 0))
            if kind is None:
                self.problem = "a tensor from elsewhere"
                return _Argument()
            base = (self.arguments if kind == _TENSOR else self.allocations)[index]
            return _Argument(kind=kind, code=_CODES.index(value.dtype), index=index, integer=value.data_ptr() - base.data_ptr())
        if isinstance(value, float):
            return _Argument(kind=_FLOAT, real=value)
        return _Argument(kind=_INT, integer=int(value))

    def _result(self, result):
        if result is None:
            return _Result(kind=_NOTHING)
        if isinstance(result, int):
            return _Result(kind=_NUMBER, offset=result)
        for i, tensor in enumerate(self.arguments):
            if tensor is result:
                return _Result(kind=_ARGUMENT, index=i)
        kind, index = self._where.get(_storage(result), (None, 0))
        if kind != _ALLOCATION or result.dtype != self.allocations[index].dtype:
            self.problem = "a result from elsewhere"
            return _Result()
        made = self.allocations[index]
        offset = result.storage_offset() - made.storage_offset()
        if not offset and made.shape == result.shape and made.stride() == result.stride():
            return _Result(kind=_MADE, index=index)
        return _Result(kind=_VIEW, index=index, rank=result.dim(), offset=offset, sizes=_numbers(result.shape), strides=_numbers(result.stride()))

    def record(self, results):
        """The `Record` of a call that has returned these results: a tensor, or a tuple of tensors, integers and None. Its route is PYTHON where it
        cannot be repeated."""
        results = [self._result(result) for result in (results if isinstance(results, (tuple, list)) else (results, ))]
        if self.problem is not None:
            return Record(route=PYTHON)
        allocations = [_Allocation(dtype=_scalar_type(made.dtype), rank=made.dim(), sizes=_numbers(made.shape), strides=_numbers(made.stride())) for made in self.allocations]
        steps = [_Step(kernel=kernel and kernel.address, grid=(ctypes.c_uint32 * 3)(*grid), argument_count=len(leaves), arguments=(_Argument * len(leaves))(*leaves))
                 for kernel, grid, leaves in self.steps]
        return Record(route=RECORDED, allocation_count=len(allocations), step_count=len(steps), result_count=len(results),
                      allocations=(_Allocation * len(allocations))(*allocations), steps=(_Step * len(steps))(*steps), results=(_Result * len(results))(*results))


@functools.cache
def _declared():
    return {form.overload: (operator, form) for operator in OPERATORS.values() for form in operator.forms}


def _leaves(value):
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield value


def _is_view(schema):
    return all(result.alias_info is not None and not result.alias_info.is_write for result in schema.returns) and \
        not any(argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments)


_SCALAR_TYPES = {}


def _scalar_type(dtype):
    """The number that c10::ScalarType gives to a dtype."""
    if not _SCALAR_TYPES:
        names = ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64", "complex128", "bool")
        _SCALAR_TYPES.update({getattr(torch, name): i for i, name in enumerate(names)} | {
            torch.bfloat16: 15, torch.float8_e5m2: 23, torch.float8_e4m3fn: 24, torch.float8_e5m2fnuz: 25, torch.float8_e4m3fnuz: 26, torch.uint16: 27, torch.uint32: 28,
            torch.uint64: 29
        })
    return _SCALAR_TYPES[dtype]
