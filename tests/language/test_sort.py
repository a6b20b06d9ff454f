"""`sort`, `topk`, `bitonic_merge` and `flip` against NumPy: every dtype, every dimension, NaN and zeros of both signs."""

import numpy as np
import pytest
import torch

import harness
from harness import BOOL, DTYPES, FLOATS, FP8, INTS
from test_shapes import offsets

COVERED = {"sort", "topk", "bitonic_merge", "flip"}
ALL = [BOOL, *INTS, *FLOATS, *FP8]


def run(dtype, data, expression, shape, warps=4):
    kernel = harness.make(f"""@triton.jit
def kernel(x_ptr, y_ptr):
    x = tl.load(x_ptr + {offsets(data.shape)})
    r = {expression}
    tl.static_assert(r.dtype == x.dtype)
    tl.store(y_ptr + {offsets(shape)}, r)
""")
    result = harness.empty(dtype, shape)
    kernel[(1,)](harness.to_tensor(data, dtype), result, num_warps=warps)
    return harness.exact(result)


def values(dtype, shape):
    """As the dtype rounds them; no NaN, both zeros compare equal."""
    data = harness.exact(harness.to_tensor(harness.values(dtype, shape, 3), dtype))
    return np.nan_to_num(data, nan=1) if dtype.is_float else data


def greatest(data, k, axis):
    return np.flip(np.take(np.sort(data, axis), range(data.shape[axis] - k, data.shape[axis]), axis), axis)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_dtype(dtype, target):
    data = values(dtype, (4, 64))
    np.testing.assert_array_equal(run(dtype, data, "tl.sort(x)", (4, 64)), np.sort(data, 1))
    np.testing.assert_array_equal(run(dtype, data, "tl.topk(x, 8)", (4, 8)), greatest(data, 8, 1))


@pytest.mark.parametrize("shape,dim,warps", [((1,), 0, 1), ((2,), None, 4), ((1024,), None, 4), ((256,), -1, 1), ((8, 128), 1, 4), ((64, 8), 0, 4),
                                             ((2, 16, 8), 1, 8), ((2, 4, 2, 16), 3, 4), ((3, 32), 1, 2)], ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_sort(shape, dim, warps, descending, target):
    i32 = DTYPES["int32"]
    data = values(i32, shape)
    axis = len(shape) - 1 if dim is None else dim
    want = np.sort(data, axis)
    got = run(i32, data, f"tl.sort(x, dim={dim}, descending={descending})", shape, warps)
    np.testing.assert_array_equal(got, np.flip(want, axis) if descending else want)


@pytest.mark.parametrize("shape,k,dim,warps", [((64,), 1, None, 1), ((64,), 64, 0, 4), ((512,), 16, None, 4), ((4, 128), 4, -1, 4), ((128, 4), 8, 0, 4),
                                               ((2, 64, 4), 2, 1, 2)], ids=str)
def test_topk(shape, k, dim, warps, target):
    f32 = DTYPES["float32"]
    data = values(f32, shape)
    axis = len(shape) - 1 if dim is None else dim % len(shape)
    result = (*shape[:axis], k, *shape[axis + 1:])
    np.testing.assert_array_equal(run(f32, data, f"tl.topk(x, {k}, {dim})", result, warps), greatest(data, k, axis))
    np.testing.assert_array_equal(run(f32, data, f"tl.topk(x, {k}, dim={dim}, descending=False)", result, warps), np.take(np.sort(data, axis), range(k), axis))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_infinities_and_zeros(dtype, target):
    """NaN is the greatest, whatever its sign; -0.0 stands before 0.0."""
    data = np.array([np.nan, -np.inf, 1, -0.0, 0.0, -np.nan, np.inf, -2], dtype=np.float64)
    got = run(dtype, data, "tl.sort(x)", (8,))
    np.testing.assert_array_equal(got, [-np.inf, -2, -0.0, 0.0, 1, np.inf, np.nan, np.nan])
    np.testing.assert_array_equal(np.signbit(got[2:4]), [True, False])
    np.testing.assert_array_equal(run(dtype, data, "x.sort(descending=True)", (8,)), [np.nan, np.nan, np.inf, 1, 0, 0, -2, -np.inf])
    np.testing.assert_array_equal(run(dtype, data, "tl.topk(x, 4)", (4,)), [np.nan, np.nan, np.inf, 1])


@pytest.mark.parametrize("descending", [False, True])
def test_bitonic_merge(descending, target):
    i32 = DTYPES["int32"]
    data = values(i32, (4, 32))
    bitonic = np.concatenate([np.sort(data[:, :16]), -np.sort(-data[:, 16:])], 1)
    want = np.sort(bitonic)
    got = run(i32, bitonic, f"tl.bitonic_merge(x, descending={descending})", (4, 32))
    np.testing.assert_array_equal(got, want[:, ::-1] if descending else want)


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("shape,dim", [((64,), None), ((8, 16), 0), ((2, 4, 8), 1), ((12, 4), 0)], ids=str)
def test_flip(dtype, shape, dim, target):
    data = values(dtype, shape)
    np.testing.assert_array_equal(run(dtype, data, f"tl.flip(x, {dim})", shape), np.flip(data, -1 if dim is None else dim))


def test_ranks_of_a_row(target):
    """Keys and places in one integer: an argsort, as kernels that choose experts have it."""
    i64 = DTYPES["int64"]
    data = np.random.default_rng(5).integers(-99, 99, 128)
    got = run(i64, data, "tl.sort((x << 32) | tl.arange(0, 128), descending=True) & 0x7fffffff", (128,))
    np.testing.assert_array_equal(got, np.argsort((data << 32) | np.arange(128))[::-1])


@pytest.mark.parametrize("name", ["sort", "topk"])
def test_stages_share_scratch_memory_on_the_cpu(name):
    kernel = harness.make(f"""
@triton.jit
def kernel(x, out):
    i = tl.arange(0, 1024)
    y = tl.{name}(tl.load(x + i){", 16" if name == "topk" else ""})
    tl.store(out + tl.arange(0, y.shape[0]), y)
""")
    x = torch.zeros(1024)
    # A stage reads the block of the one before: two are enough, whatever the number of stages.
    assert kernel.warmup(x, x, grid=(1, ), target="cpu").metadata.scratch_bytes <= 2 * 4096
