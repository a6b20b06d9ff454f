"""Blocks indexed by integers, slices, None and `...`: NumPy's meaning, checked against NumPy."""

import numpy as np
import pytest

import harness
from harness import BOOL, DTYPES, FLOATS, FP8, INTS
from test_shapes import offsets

INDICES = [((16,), i) for i in ("0", "-1", "5", "0:8", "4:12", "3:7", "::2", "1::2", "::-1", "::-4", "10:2:-2", "...", "None, 3:5", "5:6", "-4:", ":-8", "..., None")] + \
          [((8, 32), i) for i in (":, 0", "3", "3, 4", "-1, :", "2:4", ":, 16:", ":, ::2", "1::2, 4:12", "..., 0", "0, ...", "::-1, ::-1", "None, :, 5", ":, 5, None",
                                  "6::-2, 1:30:7", "..., None", "5:7, None, -3:-1", "4:, 31", ":, 8:24")] + \
          [((4, 8, 16), i) for i in ("1", ":, 2", "..., 3", "0, :, 3", "..., 2:4, :", "1:3, ::4, ::-1", ":, None, -1", "3, 7, 15", ":, 1:4, 2")] + \
          [((2, 4, 2, 8), i) for i in ("1, :, 0", "..., 1, :", ":, 2, ..., ::2", "::-1, 0, 1, 4:")] + [((12, 20), i) for i in ("3", ":, 4:8", "::5, 1", "2:10:3, ::-2")]


def run(dtype, data, expression, shape, arguments=(), warps=4):
    names = "".join(f", {name}" for name, _ in arguments)
    kernel = harness.make(f"""@triton.jit
def kernel(x_ptr, y_ptr{names}):
    x = tl.load(x_ptr + {offsets(data.shape)})
    r = {expression}
    tl.store(y_ptr + {offsets(shape)}, r)
""")
    result = harness.empty(dtype, shape or (1,))
    kernel[(1,)](harness.to_tensor(data, dtype), result, *(value for _, value in arguments), num_warps=warps)
    return harness.exact(result).reshape(shape)


def indexed(data, index):
    return eval(f"data[{index}]", {"data": data})


@pytest.mark.parametrize("shape,index", INDICES, ids=str)
def test_index(shape, index, target):
    f32 = DTYPES["float32"]
    data = harness.values(f32, shape)
    want = indexed(data, index)
    np.testing.assert_array_equal(run(f32, data, f"x[{index}]", want.shape), want)
    # Of values that exist nowhere in memory, and computed with afterwards.
    np.testing.assert_array_equal(run(f32, data, f"(x * 2)[{index}] + 1", want.shape, warps=1), want.astype(np.float32) * 2 + 1)


@pytest.mark.parametrize("dtype", [BOOL, *INTS, *FLOATS, *FP8], ids=str)
@pytest.mark.parametrize("index", [":, 3", "2:4, ::-1", "::2, 8:16"])
def test_every_dtype(dtype, index, target):
    data = harness.exact(harness.to_tensor(harness.values(dtype, (8, 32)), dtype))
    want = indexed(data, index)
    np.testing.assert_array_equal(run(dtype, data, f"x[{index}]", want.shape), want)


@pytest.mark.parametrize("place", [0, 5, -1, -8])
def test_run_time_index(place, target):
    """A run-time scalar, negative ones from the end; also beside slices."""
    f32 = DTYPES["float32"]
    data = harness.values(f32, (8, 32))
    np.testing.assert_array_equal(run(f32, data, "x[i]", (32,), [("i", place)]), data[place])
    np.testing.assert_array_equal(run(f32, data, "x[:, i]", (8,), [("i", place)]), data[:, place])
    np.testing.assert_array_equal(run(f32, data, "x[i, j]", (), [("i", place), ("j", 7)]), data[place, 7])
    np.testing.assert_array_equal(run(f32, data, "x[2:4, i, None]", (2, 1), [("i", place)]), data[2:4, place, None])


def test_in_loops(target):
    """A loop counter, known during compilation or at run time."""
    f32 = DTYPES["float32"]
    data = harness.values(f32, (4, 16))
    for loop in ("tl.static_range(4)", "range(4)"):
        kernel = harness.make(f"""@triton.jit
def kernel(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, 4)[:, None] * 16 + tl.arange(0, 16)[None, :])
    r = tl.zeros((16,), tl.float32)
    for i in {loop}:
        r = r * 2 + x[i]
    tl.store(y_ptr + tl.arange(0, 16), r)
""")
        result = harness.empty(f32, (16,))
        kernel[(1,)](harness.to_tensor(data, f32), result)
        want = np.zeros(16, np.float32)
        for row in data.astype(np.float32):
            want = want * np.float32(2) + row
        np.testing.assert_array_equal(result.numpy(), want)


def test_pointers_ranges_and_constants(target):
    f32, i32 = DTYPES["float32"], DTYPES["int32"]
    data = harness.values(f32, (64,))
    np.testing.assert_array_equal(run(f32, data, "tl.load((x_ptr + tl.arange(0, 64))[8:40:2])", (16,)), data[8:40:2])
    np.testing.assert_array_equal(run(i32, data, "tl.arange(0, 64)[16:32][::-1]", (16,)), np.arange(31, 15, -1))
    np.testing.assert_array_equal(run(f32, data, "tl.full((8, 8), 3.0, tl.float32)[:, 2][1:3]", (2,)), [3, 3])


REFUSED = [("x[8, 0]", "index 8 is out of bounds for dimension 0 with size 8"), ("x[:, -33]", "index -33 is out of bounds for dimension 1 with size 32"),
           ("x[0, 0, 0]", "too many indices: found 3 for a tensor of rank 2"), ("x[4:4]", "the slice of dimension 0 with size 8 is empty"),
           ("x[..., ...]", "an index can only have a single ellipsis"), ("x[::0]", "the step of a slice cannot be zero"),
           ("x[1.5]", "unsupported tensor index: 1.5"), ("x[tl.arange(0, 8)]", "`tl.gather` takes the elements that a block names"),
           ("x[0:tl.program_id(0)]", "a bound of a slice"), ("x['a']", "unsupported tensor index: 'a'")]


@pytest.mark.parametrize("expression,message", REFUSED, ids=lambda v: v)
def test_refusals(expression, message):
    kernel = harness.make(f"""@triton.jit
def kernel(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 8)[:, None] * 32 + tl.arange(0, 32)[None, :])
    y = {expression}
    tl.store(x_ptr + tl.arange(0, 1), 0.0)
""")
    with pytest.raises(Exception) as error:
        kernel[(1,)](harness.empty(DTYPES["float32"], (256,)))
    assert message in str(error.value)
