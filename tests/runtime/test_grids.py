"""What a grid may be: numbers, sequences of them, and functions that return either."""

import nereid
import nereid.language as tl
import numpy as np
import pytest
import torch


@nereid.jit
def count(out):
    tl.atomic_add(out + tl.num_programs(0) * 10000 + tl.num_programs(1) * 100 + tl.num_programs(2), 1)


def counted(grid, kernel=count):
    """The sizes that the programs saw, and how many programs there were."""
    out = np.zeros(100000, np.int32)
    kernel[grid](out)
    [place] = np.flatnonzero(out)
    return (int(place) // 10000, int(place) // 100 % 100, int(place) % 100), int(out[place])


GRIDS = [
    (3, (3, 1, 1)), ((3, ), (3, 1, 1)), ([3, 2], (3, 2, 1)), ((3, 2, 4), (3, 2, 4)), (np.int64(3), (3, 1, 1)), ((np.int32(3), np.uint8(2)), (3, 2, 1)),
    (np.array([3, 2]), (3, 2, 1)), (np.array(3), (3, 1, 1)), (np.array([3]), (3, 1, 1)), (torch.tensor([3, 2, 4]), (3, 2, 4)),
    (torch.tensor(3), (3, 1, 1)), (torch.Size([3, 2]), (3, 2, 1)), ((torch.tensor(3), torch.tensor(2)), (3, 2, 1)), (range(2, 4), (2, 3, 1)),
    ((3, 2, 4, 1), (3, 2, 4)), ([3, 2, 1, 1], (3, 2, 1)), ((3, 2, 1, np.int64(1), 1, 1), (3, 2, 1)), (np.array([3, 2, 4, 1]), (3, 2, 4)),
    (torch.tensor([3, 2, 4, 1]), (3, 2, 4)), ((True, 3), (1, 3, 1)),
]  # yapf: disable


@pytest.mark.parametrize("grid, sizes", GRIDS, ids=lambda value: str(value).replace(" ", ""))
def test_grids(target, grid, sizes):
    programs = sizes[0] * sizes[1] * sizes[2]
    for given in (grid, grid, lambda meta: grid):
        assert counted(given) == (sizes, programs)


def test_grids_of_decorated_and_compiled_kernels(target):
    one = nereid.heuristics({})(count)
    tuned = nereid.autotune([nereid.Config({})], key=[])(count)
    for kernel in (one, tuned):
        for _ in range(4):
            assert counted((3, 2, 1, 1), kernel) == ((3, 2, 1), 6)
            assert counted([3, 2], kernel) == ((3, 2, 1), 6)
    compiled = count.warmup(np.zeros(1, np.int32), grid=(1, ))
    assert counted((3, 2, 1, 1), compiled) == ((3, 2, 1), 6)
    assert counted(lambda meta: (3, 2, 1, 1), compiled) == ((3, 2, 1), 6)
    seen = []
    with nereid.knobs.runtime.scope():
        nereid.knobs.runtime.launch_enter_hook = seen.append
        assert counted((3, 2, 1, 1)) == ((3, 2, 1), 6) and seen


@pytest.mark.parametrize("grid, error, text", [
    ((3, 2, 1, 2), ValueError, r"a grid has three dimensions: expected 1 for every size after the third, found 2 in dimension 3 of \(3, 2, 1, 2\)"),
    ((1, 1, 1, 1, 0), ValueError, "expected 1 for every size after the third, found 0 in dimension 4"),
    ([1, 1, 1, "x"], ValueError, "expected 1 for every size after the third, found x in dimension 3"),
    ((), ValueError, r"the grid must be one to three integers, .*, found \(\)"),
    (np.zeros(0, int), ValueError, "the grid must be one to three integers"),
    (None, TypeError, "the grid must be one to three integers, .*, found None"),
    ("12", TypeError, "the grid must be one to three integers, .*, found '12'"),
    (2.0, TypeError, "the grid must be one to three integers, .*, found 2.0"),
    ({1: 2}, TypeError, "the grid must be one to three integers"),
    ((2.0, ), TypeError, "the grid must be made of integers, found 2.0 in dimension 0"),
    (np.array([2.0, 1.0]), TypeError, "the grid must be made of integers, found .* in dimension 0"),
    ((-1, ), ValueError, "the grid must not be negative, found -1 in dimension 0"),
])  # yapf: disable
def test_grids_that_are_refused(target, grid, error, text):
    for given in (grid, lambda meta: grid):
        with pytest.raises(error, match=text):
            count[given](np.zeros(4, np.int32))


def test_strict_mode_does_not_look_at_the_rest(target, monkeypatch):
    """As Triton, which takes the first three sizes."""
    monkeypatch.setattr(nereid.knobs.nereid, "strict", True)
    assert counted((3, 2, 1, 7)) == ((3, 2, 1), 6)
