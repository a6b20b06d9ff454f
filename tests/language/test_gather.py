"""`gather` along every axis, on every dtype and kind of index, with tables smaller and larger than what is looked up."""

import numpy as np
import pytest

import harness
from harness import BOOL, DTYPES, FLOATS, FP8, INTS
from test_shapes import offsets

COVERED = {"gather"}
SHAPES = [((64,), (64,), 0), ((16,), (256,), 0), ((512,), (32,), 0), ((8, 32), (8, 32), 1), ((8, 32), (8, 32), -2), ((4, 64), (16, 64), 0),
          ((32, 16), (32, 1), 1), ((4, 8, 16), (4, 8, 4), 2), ((4, 8, 16), (4, 32, 16), 1), ((2, 4, 2, 8), (8, 4, 2, 8), 0), ((128, 8), (128, 64), 1),
          ((12,), (24,), 0), ((6, 20), (6, 4), 1)]


def run(dtype, index_dtype, source, index, axis, expression="tl.gather(x, i, {axis})", warps=4):
    kernel = harness.make(f"""@triton.jit
def kernel(x_ptr, i_ptr, y_ptr):
    x = tl.load(x_ptr + {offsets(source.shape)})
    i = tl.load(i_ptr + {offsets(index.shape)})
    tl.store(y_ptr + {offsets(index.shape)}, {expression.format(axis=axis)})
""")
    result = harness.empty(dtype, index.shape)
    kernel[(1,)](harness.to_tensor(source, dtype), harness.to_tensor(index, index_dtype), result, num_warps=warps)
    return harness.exact(result)


def data(dtype, shape, length, index_dtype, index_shape):
    source = harness.values(dtype, shape, 1)
    return source, np.random.default_rng(2).integers(0, length, index_shape).astype(index_dtype.numpy)


@pytest.mark.parametrize("shape,index_shape,axis", SHAPES, ids=str)
@pytest.mark.parametrize("warps", [1, 4])
def test_gather(shape, index_shape, axis, warps, target):
    f32, i32 = DTYPES["float32"], DTYPES["int32"]
    source, index = data(f32, shape, shape[axis], i32, index_shape)
    np.testing.assert_array_equal(run(f32, i32, source, index, axis, warps=warps), np.take_along_axis(source, index, axis))


@pytest.mark.parametrize("dtype", [BOOL, *INTS, *FLOATS, *FP8], ids=str)
@pytest.mark.parametrize("shape,index_shape,axis", [((64,), (128,), 0), ((16, 32), (64, 32), 0)], ids=str)
def test_every_dtype(dtype, shape, index_shape, axis, target):
    i32 = DTYPES["int32"]
    source, index = data(dtype, shape, shape[axis], i32, index_shape)
    source = harness.exact(harness.to_tensor(source, dtype))  # as the dtype rounds it
    np.testing.assert_array_equal(run(dtype, i32, source, index, axis), np.take_along_axis(source, index, axis))


@pytest.mark.parametrize("index_dtype", INTS, ids=str)
def test_every_type_of_index(index_dtype, target):
    """An index of 8 bits without a sign reaches all of 256 elements."""
    f32 = DTYPES["float32"]
    length = 256 if index_dtype.high > 200 else 64
    source, index = data(f32, (length,), length, index_dtype, (128,))
    np.testing.assert_array_equal(run(f32, index_dtype, source, index, 0, "x.gather(i, axis={axis})"), source[index.astype(np.int64)])


def test_of_computed_values_and_pointers(target):
    """The source exists nowhere in memory, and a gather of a gather; pointers are elements like others."""
    f32, i32 = DTYPES["float32"], DTYPES["int32"]
    source, index = data(f32, (64,), 64, i32, (64,))
    want = (source.astype(np.float32) * 2 + 1)[index][index]
    np.testing.assert_array_equal(run(f32, i32, source, index, 0, "tl.gather(tl.gather(x * 2 + 1, i, 0), i, 0)"), want)
    np.testing.assert_array_equal(run(f32, i32, source, index, 0, "tl.load(tl.gather(x_ptr + tl.arange(0, 64), i, 0))"), source[index])


def test_in_a_loop(target):
    """Pointer jumping: the carried tensor is gathered by itself."""
    kernel = harness.make("""@triton.jit
def kernel(x_ptr, y_ptr, n):
    x = tl.load(x_ptr + tl.arange(0, 128))
    for _ in range(n):
        x = tl.gather(x, x, 0)
    tl.store(y_ptr + tl.arange(0, 128), x)
""")
    i32 = DTYPES["int32"]
    data = np.random.default_rng(0).permutation(128).astype(np.int32)
    result = harness.empty(i32, (128,))
    kernel[(1,)](harness.to_tensor(data, i32), result, 3)
    want = data
    for _ in range(3):
        want = want[want]
    np.testing.assert_array_equal(result.numpy(), want)
