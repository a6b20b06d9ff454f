"""`histogram`: counts of every integer type, masks, numbers outside of the bins, bins that few or all elements fall into."""

import numpy as np
import pytest

import harness
from harness import DTYPES, INTS

COVERED = {"histogram"}


def run(dtype, data, bins, mask=None, warps=4, expression="tl.histogram(x, {bins}{mask})"):
    length = len(data)
    kernel = harness.make(f"""@triton.jit
def kernel(x_ptr, m_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, {length}))
    m = tl.load(m_ptr + tl.arange(0, {length}))
    tl.store(y_ptr + tl.arange(0, {bins}), {expression.format(bins=bins, mask="" if mask is None else ", mask=m")})
""")
    result = harness.empty(DTYPES["int32"], (bins,))
    given = np.zeros(length, bool) if mask is None else mask
    kernel[(1,)](harness.to_tensor(data, dtype), harness.to_tensor(given, DTYPES["int1"]), result, num_warps=warps)
    return result.numpy()


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_every_dtype(dtype, target):
    data = np.random.default_rng(1).integers(max(dtype.low, -20), min(dtype.high, 90), 512).astype(dtype.numpy)
    np.testing.assert_array_equal(run(dtype, data, 64), [np.sum(data == i) for i in range(64)])


@pytest.mark.parametrize("length,bins,warps", [(1, 1, 1), (1024, 2, 4), (32, 512, 4), (2048, 128, 8), (256, 2048, 8), (64, 4, 1), (96, 12, 4)])
def test_sizes_and_masks(length, bins, warps, target):
    i32 = DTYPES["int32"]
    random = np.random.default_rng(length)
    data, mask = random.integers(-3, bins + 3, length).astype(np.int32), random.random(length) < 0.7
    np.testing.assert_array_equal(run(i32, data, bins, warps=warps), [np.sum(data == i) for i in range(bins)])
    np.testing.assert_array_equal(run(i32, data, bins, mask, warps), [np.sum((data == i) & mask) for i in range(bins)])


def test_numbers_outside_touch_nothing(target):
    """The largest and smallest numbers of 64 bits, and those whose low half would be a bin."""
    i64 = DTYPES["int64"]
    data = np.array([i64.low, i64.high, -1, 1 << 32, (1 << 32) + 3, 16, 15, 0] * 16)
    np.testing.assert_array_equal(run(i64, data, 16), [16] + [0] * 14 + [16])


def test_all_in_one_bin_and_a_member(target):
    i32 = DTYPES["int32"]
    data = np.full(1024, 5, np.int32)
    np.testing.assert_array_equal(run(i32, data, 8, expression="x.histogram({bins}) + x.histogram({bins}, mask=x < 0)"), [0, 0, 0, 0, 0, 1024, 0, 0])
