"""Tuples as arguments of kernels: each item is an argument of its own, specialised by itself."""

from collections import namedtuple
from typing import NamedTuple

import nereid
import nereid.language as tl
import numpy as np
import pytest
import torch
from nereid.tools.tensor_descriptor import TensorDescriptor

Pair = namedtuple("Pair", "first second")


class Matrix(NamedTuple):
    data: object
    stride: object
    rest: object = None


@nereid.jit
def numbers(dst, pair, nested):
    tl.store(dst, pair[0] * 10 + pair[1] + nested[1][0])


def test_numbers(target):
    dst = np.zeros(1, np.float32)
    numbers[(1, )](dst, (2, 3), (None, (0.5, "text")))
    assert dst[0] == 23.5
    numbers[(1, )](dst, (2, 1), (1, (0.5, )))
    assert dst[0] == 21.5
    numbers[(1, )](dst, tl.tuple([2**40, 1]), (1, (True, )))
    assert dst[0] == np.float32(10 * 2**40 + 2)


@nereid.jit
def add(ptrs, sizes, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < sizes[0]
    tl.store(ptrs[2] + i, tl.load(ptrs[0] + i, mask=mask) + tl.load(ptrs[1] + i, mask=mask), mask=mask)


@pytest.mark.parametrize("make", [torch.arange, np.arange], ids=["torch", "numpy"])
def test_arrays(target, make):
    x, y, z = make(100), make(100) * 3, make(100) * 0
    add[(2, )]((x, y, z), (100, 1), BLOCK=64)
    assert (z == x * 4).all()
    add[(2, )]((y, y, z), (100, ), 64)
    assert (z == x * 6).all()


@nereid.jit
def total(dst, items):
    result = 0.0
    for item in tl.static_range(len(items)):
        result += tl.load(items[item])
    tl.store(dst, result)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_of_any_size(target, count):
    items = tuple(torch.full((1, ), float(i + 1)) for i in range(count))
    dst = torch.full((1, ), -1.0)
    total[(1, )](dst, items)
    assert dst[0] == sum(range(count + 1))


@nereid.jit
def scale(dst, src: tl.constexpr, matrix, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(matrix.data + i * matrix.stride, mask=i < n, other=0.0)
    if matrix.rest is not None:
        x += tl.load(matrix.rest.second)
    tl.store(dst + i, x, mask=i < n)


def test_named_tuples(target):
    x, y = torch.rand(40), torch.rand(1)
    dst = torch.zeros(10)
    scale[(1, )](dst, None, Matrix(x, 4), 10, 16)
    assert torch.equal(dst, x[::4])
    scale[(1, )](dst, None, Matrix(x, 1, Pair(None, y)), 10, 16)
    assert torch.equal(dst, x[:10] + y)


@nereid.jit
def _double(x):
    return x * 2


@nereid.jit
def _apply(dst, first, operation, last):
    tl.store(dst, operation[0](first[1]) + last[0])


def test_positions_after_what_is_not_passed(target):
    """Constants, None, functions and unused items are no parameters of the compiled kernel; what follows them still finds its place."""
    dst = torch.zeros(1)
    _apply[(1, )](dst, (None, 3, dst, 1), (_double, ), (0.25, ))
    assert dst[0] == 6.25
    _apply[(1, )](dst, ((), 5), (_double, None, (1, 1)), (0.5, 7, 16))
    assert dst[0] == 10.5


@nereid.jit
def _copy_block(descs, BLOCK: tl.constexpr):
    block = descs[0].load([0, 0])
    descs[1].store([0, 0], block * 2)


def test_descriptors(target):
    x, y = torch.rand(16, 16), torch.zeros(16, 16)
    _copy_block[(1, )](tuple(TensorDescriptor.from_tensor(t, [16, 16]) for t in (x, y)), BLOCK=16)
    assert torch.equal(y, x * 2)


@nereid.jit
def _facts(dst, items):
    tl.store(dst, items[0])


def _signature(items, **options):
    compiled = _facts.warmup(torch.float32, items, grid=(1, ), **options)
    return [param["signature"] for param in compiled.metadata.params][1:]


def test_items_are_specialised_one_by_one(target):
    assert _signature((1, 16, 17, True, 2.5, None)) == ["1", "i32:16", "i32", "u1", "fp32", "None"]
    assert _signature((2**31, (2**63, 1), ())) == ["i64:16", "u64:16", "1"]
    assert _signature((2, nereid.MockTensor(torch.float16), torch.int8)) == ["i32", "*fp16:16", "*i8:16"]


def test_names_of_items(target):
    compiled = _facts.warmup(torch.float32, (2, Pair(3, (4, 5))), grid=(1, ))
    names = [param["name"] for param in compiled.metadata.params]
    assert names == ["dst", "items[0]", "items[1].first", "items[1].second[0]", "items[1].second[1]"]


def test_a_kernel_for_each_specialisation(target):
    dst = torch.zeros(1)
    first = _facts[(1, )](dst, (2, 3))
    assert _facts[(1, )](dst, (4, 5)) is first
    assert dst[0] == 4
    others = [_facts[(1, )](dst, items) for items in [(4, 16), (4, 1), (4, (5, )), (4, ), Pair(4, 5), (4.0, 5)]]
    assert len({id(kernel) for kernel in [first, *others]}) == 7


def test_launching_the_compiled_kernel(target):
    dst = torch.zeros(1)
    compiled = _apply[(1, )](dst, (None, 3), (_double, ), (0.25, ))
    compiled[(1, )](dst, (None, 4), (_double, ), (0.5, ))
    assert dst[0] == 8.5


@pytest.mark.parametrize("items, text", [
    (([1], ), r"failed to specialize argument of type: list \(argument `items`\); pass a tuple"),
    ((1, (object(), )), r"failed to specialize argument of type: object \(argument `items`\)"),
    ((np.int64(3), ), r"failed to specialize argument of type: numpy.int64"),
])
def test_refused_items(target, items, text):
    with pytest.raises(TypeError, match=text):
        _facts[(1, )](torch.zeros(1), items)


def test_too_large_integers_in_tuples(target):
    with pytest.raises(OverflowError, match="integer to be specialized too large to represent"):
        _facts[(1, )](torch.zeros(1), (2**64, ))


def test_lists_are_refused(target):
    with pytest.raises(TypeError, match=r"failed to specialize argument of type: list \(argument `items`\); pass a tuple"):
        _facts[(1, )](torch.zeros(1), [1, 2])


@pytest.mark.cpu_only("arrays of the host say that they are read-only")
def test_read_only_items_as_output_are_refused(target):
    x = np.zeros(100, np.float32)
    x.flags.writeable = False
    with pytest.raises(ValueError, match=r"`ptrs\[2\]`.*read-only"):
        add[(1, )]((x, x, x), (100, ), BLOCK=64)


@pytest.mark.cpu_only("checked mode is the CPU's")
def test_extent_of_items_in_checked_mode(target):
    x, y = np.zeros(100, np.float32), np.zeros(50, np.float32)
    with pytest.raises(RuntimeError, match=r"ptrs\[1\]"):
        add[(1, )]((x, y, x), (100, ), BLOCK=64, checked=True)
