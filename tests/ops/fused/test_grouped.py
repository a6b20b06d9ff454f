"""Grouped products."""

import importlib
import math
import types

import pytest
import torch
from fused_checks import check, compare, layouts, random

from nereid.ops import fused, products
from nereid.ops.kernels import grouped as kernels

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
#: Shapes of the four forms with four groups; the last but one is empty, and something is behind the last end.
FORMS = {
    "rows": ((13, 33), (4, 33, 20)), "columns": ((4, 17, 33), (33, 13)), "summed": ((17, 13), (13, 20)), "batch": ((4, 9, 33), (4, 33, 20))
}
ENDS = (3, 10, 10, 12)


def definition(a, b, ends=None):
    if ends is None:
        return a @ b
    bounds = list(zip([0, *ends.tolist()], ends.tolist()))
    if a.dim() == b.dim():
        return torch.stack([a[:, first:end] @ b[first:end] for first, end in bounds])
    last = bounds[-1][1] if bounds else 0
    if a.dim() == 2:
        return torch.cat([*(a[first:end] @ b[g] for g, (first, end) in enumerate(bounds)), a.new_zeros(a.shape[0] - last, b.shape[2])])
    return torch.cat([*(a[g] @ b[:, first:end] for g, (first, end) in enumerate(bounds)), b.new_zeros(a.shape[1], b.shape[1] - last)], 1)


def pair(form, dtype, target, shapes=None):
    a, b = shapes or FORMS[form]
    return [random(*a, dtype=dtype, device=target), random(*b, dtype=dtype, device=target, seed=1, scale=max(b[-2], 1)**-0.5)]


def ends_of(form, target, ends=ENDS, dtype=torch.int32):
    return None if form == "batch" else torch.tensor(ends, dtype=dtype, device=target)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_values_and_gradients(form, dtype, target):
    check(fused.grouped_mm, definition, [*pair(form, dtype, target), ends_of(form, target)], units=8)


@pytest.mark.parametrize("form", FORMS)
def test_strides(form, target):
    a, b = pair(form, torch.float32, target)
    for (_, first), (_, second) in zip(layouts(a), layouts(b)[1:] + layouts(b)[:1]):
        check(fused.grouped_mm, definition, [first, second, ends_of(form, target, dtype=torch.int64)], units=8)
    check(fused.grouped_mm, definition, [a.mT.contiguous().mT, b.mT.contiguous().mT, ends_of(form, target)], units=8)


def test_larger_groups(target):
    """Several tiles in a group, and groups of very different sizes."""
    ends = torch.tensor([1, 140, 140, 300], device=target)
    check(fused.grouped_mm, definition, [*pair("rows", torch.bfloat16, target, ((300, 96), (4, 96, 72))), ends], units=8)
    check(fused.grouped_mm, definition, [*pair("summed", torch.bfloat16, target, ((72, 300), (300, 96))), ends], units=16)


@pytest.mark.parametrize("scheduled", [False, True], ids=["copied", "scheduled"])
@pytest.mark.parametrize("ends", [(1, 140, 140, 300), (0, 0, 0, 0), (300, 300, 300, 300), (128, 256, 270, 290)])
def test_kernel_through_descriptors(ends, scheduled, monkeypatch):
    """The kernel of GPUs of sm_90 on a CPU: programs that walk over tiles, weights in both orders, incomplete tiles along all dimensions."""
    grouped = importlib.import_module("nereid.ops.grouped")
    tiles, names, launch = products.Tiles(32, 64, 32, 1, 8, 8, 3), [], grouped.launch
    monkeypatch.setattr(grouped, "is_scheduled", lambda m, groups: scheduled)
    monkeypatch.setattr(grouped, "can_copy", lambda *args: True)
    monkeypatch.setattr(grouped, "whole_tiles", lambda *args: tiles)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: types.SimpleNamespace(multi_processor_count=7))
    monkeypatch.setattr(grouped, "launch", lambda kernel, *args, **options: (names.append(kernel.__name__), launch(kernel, *args, **options)))
    a, b = pair("rows", torch.bfloat16, "cpu", ((300, 104), (4, 104, 72)))
    ends = torch.tensor(ends)
    for weights in (b, b.mT.contiguous().mT):
        out = grouped.grouped_into(torch.full((300, 72), math.nan, dtype=a.dtype), a, weights, ends)
        compare(out, definition(a.double(), weights.double(), ends), units=8)
    assert names == (["schedule_of_groups", "grouped_product_scheduled"] if scheduled else ["tiles_of_groups", "grouped_product_copied"]) * 2


@pytest.mark.parametrize("sizes,tiles_n,programs", [((300, 0, 64, 65, 128, 1, 391, 40, 256, 20), 3, 7), ((130, 129, 60, 10), 8, 50), ((0, 0), 2, 4)])
def test_schedule(sizes, tiles_n, programs):
    """Every tile once; programs differ by one tile, and by one of those with at most half of the rows."""
    ends = torch.tensor(sizes).cumsum(0).to(torch.int32)
    rows, groups = int(ends[-1]), len(sizes)
    most = (rows // 128 + groups + 1) * tiles_n + programs
    table = torch.full((4 * (most + 1), ), -1, dtype=torch.int32)
    kernels.schedule_of_groups[(math.ceil(most / 32), )](table, ends, groups, rows, tiles_n, programs, GROUPS=16, GROUP=2, BM=128, BT=32)
    count, entries = int(table[0]), table[4:].view(-1, 4).tolist()
    expected = sorted((g, first, int(ends[g]), n) for g in range(groups) for first in range(int(ends[g]) - sizes[g], int(ends[g]), 128) for n in range(tiles_n))
    assert count == math.ceil(len(expected) / programs) * programs
    found = [tuple(entry) for entry in entries[:count] if entry[0] < groups]
    assert sorted(found) == expected and all(group == groups and row == end == 0 for group, row, end, _ in entries[:count] if group >= groups)
    of_programs = [[end - row for group, row, end, _ in entries[program:count:programs] if group < groups] for program in range(programs)]
    for numbers in ([len(own) for own in of_programs], [sum(left <= 64 for left in own) for own in of_programs]):
        assert max(numbers) - min(numbers) <= 1


def test_second_gradients(target):
    for form in FORMS:
        a, b = (x.requires_grad_() for x in pair(form, torch.float64, target, [tuple(min(n, 4) if i < len(shape) - 2 else min(n, 5) for i, n in enumerate(shape)) for shape in FORMS[form]]))
        ends = ends_of(form, target, (2, 2, 3, 4))
        assert torch.autograd.gradgradcheck(lambda a, b: fused.grouped_mm(a, b, ends), (a, b), atol=1e-6)


def test_ends_beyond_the_size_and_ends_with_strides(target):
    a, b = pair("rows", torch.float32, target)
    wanted = definition(a, b, torch.tensor([3, 13, 13, 13]))
    torch.testing.assert_close(fused.grouped_mm(a, b, torch.tensor([3, 20, 2000, 3000], device=target)), wanted)
    spread = torch.tensor([3, 0, 20, 0, 2000, 0, 3000, 0], device=target)[::2]
    torch.testing.assert_close(fused.grouped_mm(a, b, spread), wanted)


def test_empty(target):
    for a, b in (((0, 33), (4, 33, 20)), ((13, 33), (4, 33, 0)), ((13, 0), (4, 0, 20))):
        check(fused.grouped_mm, definition, [*pair("rows", torch.float32, target, (a, b)), ends_of("rows", target, (0, 0, 0, min(12, a[0])))], units=8)
    assert fused.grouped_mm(torch.ones(3, 4, device=target), torch.ones(0, 4, 5, device=target), ends_of("rows", target, ())).tolist() == [[0.0] * 5] * 3
    assert fused.grouped_mm(torch.ones(3, 0, device=target), torch.ones(0, 5, device=target), ends_of("summed", target, (0, 0))).tolist() == [[[0.0] * 5] * 3] * 2


def test_errors(target):
    a, b, ends = *pair("rows", torch.float32, target), ends_of("rows", target)
    with pytest.raises(ValueError, match=r"`b` has shape \(4, 30, 20\): expected \(groups, 33, n\)"):
        fused.grouped_mm(a, b[:, :30], ends)
    with pytest.raises(ValueError, match=r"`ends` has shape \(3,\): expected \(4,\)"):
        fused.grouped_mm(a, b, ends[:3])
    with pytest.raises(TypeError, match="`ends` has dtype torch.float32: expected int32 or int64"):
        fused.grouped_mm(a, b, ends.float())
    with pytest.raises(ValueError, match="`ends` are None"):
        fused.grouped_mm(a, b)
    with pytest.raises(ValueError, match="`ends` are given"):
        fused.grouped_mm(*pair("batch", torch.float32, target), ends)
    with pytest.raises(TypeError, match="`b` has dtype torch.float64, `a` torch.float32"):
        fused.grouped_mm(a, b.double(), ends)
    with pytest.raises(TypeError, match="`a` has dtype torch.int32"):
        fused.grouped_mm(a.int(), b.int(), ends)
    with pytest.raises(ValueError, match=r"`a` has shape \(33,\): expected 2 or 3 dimensions"):
        fused.grouped_mm(a[0], b, ends)
