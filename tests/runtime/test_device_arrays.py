"""How the tests move their arrays to a GPU: `tests/device_arrays.py`, with other memory of the host in place of a GPU's."""

from collections import namedtuple

import device_arrays
import nereid
import nereid.language as tl
import numpy as np
import pytest
import torch
from nereid.tools.tensor_descriptor import TensorDescriptor

Pair = namedtuple("Pair", "first second")


@nereid.aggregate
class View:
    base: tl.tensor
    count: tl.tensor


@nereid.aggregate
class Views:
    view: View
    rest: tl.tuple
    scale: tl.constexpr


def addresses(value):
    """The addresses that a launch would take out of an argument."""
    if isinstance(value, (tuple, tl.tuple)):
        return [address for item in value for address in addresses(item)]
    if hasattr(type(value), "__nereid_fields__"):
        return [address for name in type(value).__nereid_fields__ for address in addresses(getattr(value, name))]
    if isinstance(value, TensorDescriptor):
        return addresses(value.base)
    if isinstance(value, np.ndarray):
        return [value.ctypes.data]
    return [value.data_ptr()] if hasattr(value, "data_ptr") else []


@pytest.mark.parametrize("wrap", [
    lambda x: x, lambda x: x.numpy(), lambda x: (1, x), lambda x: Pair(x, 2), lambda x: tl.tuple([x, x]), lambda x: (None, (x, "text")),
    lambda x: nereid.reinterpret(x, tl.uint32), lambda x: TensorDescriptor.from_tensor(x, [16]), lambda x: View(x, 3),
    lambda x: Views(View(x, 3), (x[2:], 5), 7), lambda x: (Views(View(x, 3), (x[2:], 5), 7), x[4:]),
])
def test_everything_that_holds_arrays(wrap):
    x = torch.arange(64, dtype=torch.int32)
    value = wrap(x)
    moved = device_arrays.Moved("cpu")
    there = moved(value)
    assert type(there) is type(value) or isinstance(there, device_arrays._DeviceArray)
    inside, outside = addresses(there), addresses(value)
    assert len(inside) == len(outside) > 0 and addresses(wrap(x)) == outside
    (data, copy, writeable), = moved.memory.values()  # one allocation, however many views of it
    assert data.data_ptr() == x.data_ptr() and writeable
    assert [address - copy.data_ptr() for address in inside] == [address - x.data_ptr() for address in outside]
    copy[:4] = 0xFF
    moved.back()
    assert x.tolist() == [-1, *range(1, 64)]


def test_what_stays():
    value = (1, 2.5, None, "text", torch.zeros(3, device="meta"), tl.constexpr(3))
    moved = device_arrays.Moved("cpu")
    assert all(after is before for after, before in zip(moved(value), value)) and not moved.memory


def test_launches(monkeypatch):

    @nereid.jit
    def kernel(out, views):
        i = tl.arange(0, 16)
        x = tl.load(views.view.base + i) + tl.load(views.rest[0] + i)
        tl.store(out + i, x * views.scale, mask=i < views.view.count)

    seen = []
    original = nereid.JITFunction.run
    monkeypatch.setattr(nereid.JITFunction, "run", lambda self, *args, **kwargs: seen.extend(addresses(args)) or original(self, *args, **kwargs))
    device_arrays.install(monkeypatch, "cpu")
    x, out = torch.arange(20), torch.zeros(16, dtype=torch.int64)
    kernel[(1, )](out, Views(View(x, 5), (x[4:], 1), 3))
    assert out.tolist() == [3 * (2 * i + 4) for i in range(5)] + [0] * 11
    assert len(seen) == 3 and not {x.data_ptr(), x[4:].data_ptr(), out.data_ptr()} & set(seen)
