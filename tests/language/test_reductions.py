"""Reductions and scans: builtin x dtype x shape x axis, generic combiners, ties and NaN."""

import numpy as np
import pytest

import harness
from harness import BOOL, DTYPES, FLOATS, INTS

SHAPES = [((32,), 0), ((128,), 0), ((8, 16), 0), ((8, 16), 1), ((1, 16), 0), ((16, 1), 1), ((4, 8, 16), 1), ((4, 8, 16), 2), ((2, 64), -1)]
WIDENED = {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32", "int1": "uint32"}


def accumulated(dtype):
    return DTYPES[WIDENED.get(dtype.name, dtype.name)]


def compared(dtype):
    if dtype.name == "bfloat16" or (dtype.is_float and dtype.bits < 32):
        return DTYPES["float32"]
    return DTYPES["int32"] if dtype.is_int and dtype.bits < 32 else dtype


REDUCE = {
    "sum": (INTS + FLOATS + [BOOL], lambda x, axis: np.sum(x, axis=axis, dtype=None if x.dtype.kind != "b" else np.uint64), accumulated),
    "max": (INTS + FLOATS, lambda x, axis: np.nanmax(x, axis=axis), compared),
    "min": (INTS + FLOATS, lambda x, axis: np.nanmin(x, axis=axis), compared),
    "argmax": (INTS + FLOATS, lambda x, axis: np.argmax(x, axis=axis), lambda d: DTYPES["int32"]),
    "argmin": (INTS + FLOATS, lambda x, axis: np.argmin(x, axis=axis), lambda d: DTYPES["int32"]),
    "xor_sum": (INTS, lambda x, axis: np.bitwise_xor.reduce(x, axis=axis), lambda d: d),
    "reduce_or": (INTS, lambda x, axis: np.bitwise_or.reduce(x, axis=axis), lambda d: d),
}
SCAN = {
    "cumsum": (INTS + FLOATS + [BOOL], np.cumsum, lambda d: DTYPES["float32"] if d.name == "bfloat16" else accumulated(d)),
    "cumprod": (INTS + FLOATS, np.cumprod, lambda d: DTYPES["float32"] if d.name == "bfloat16" else d),
}
COVERED = set(REDUCE) | set(SCAN) | {"reduce", "associative_scan", "softmax"}


def load_all(shape):
    """Text of an expression for the row-major offsets of a block of this shape."""
    index = {1: [""], 2: ["[:, None]", "[None, :]"], 3: ["[:, None, None]", "[None, :, None]", "[None, None, :]"]}[len(shape)]
    steps = [int(np.prod(shape[d + 1:])) for d in range(len(shape))]
    return " + ".join(f"tl.arange(0, {n}){i} * {s}" for n, i, s in zip(shape, index, steps))


def run(shape, dtype, data, expression, result_shape, result, prologue=""):
    store = f"tl.store(y_ptr + {load_all(result_shape)}, r)" if result_shape else "tl.store(y_ptr, r)"
    kernel = harness.make(f"""{prologue}@triton.jit
def kernel(x_ptr, y_ptr):
    x = tl.load(x_ptr + {load_all(shape)})
    r = {expression}
    tl.static_assert(r.dtype == tl.{result})
    {store}
""")
    out = harness.empty(result, result_shape or (1,))
    kernel[(1,)](harness.to_tensor(data, dtype), out)
    return out


def tolerance(dtype, count):
    """Sums are reassociated: the bound grows with the number of terms."""
    return 2.0 * count


@pytest.mark.overflows("its integers wrap on purpose")
@pytest.mark.parametrize("shape,axis", SHAPES, ids=str)
@pytest.mark.parametrize("name,dtype", [(n, d) for n, (dtypes, *_) in REDUCE.items() for d in dtypes], ids=str)
def test_reduce(name, dtype, shape, axis, target):
    _, reference, result = REDUCE[name]
    data = harness.values(dtype, shape, seed=len(shape), **({} if dtype.is_int else {"low": 0.5, "high": 2.0}))
    with np.errstate(all="ignore"):
        want = np.asarray(reference(data, axis))
    result_shape = want.shape
    got = run(shape, dtype, data, f"tl.{name}(x, axis={axis})", result_shape, result(dtype))
    harness.check(got.reshape(result_shape), want, result(dtype), tolerance(dtype, shape[axis]) if name == "sum" else 0)


@pytest.mark.parametrize("name", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", [DTYPES["int32"], DTYPES["float32"]], ids=str)
def test_keep_dims_and_all_axes(name, dtype, target):
    shape = (8, 16)
    data = harness.values(dtype, shape, low=0, high=9)
    reference = {"sum": np.sum, "max": np.max, "min": np.min}[name]
    got = run(shape, dtype, data, f"tl.{name}(x, axis=1, keep_dims=True)", (8, 1), dtype)
    harness.check(got, reference(data, axis=1, keepdims=True), dtype, 64)
    got = run(shape, dtype, data, f"tl.{name}(x)", (), dtype)
    harness.check(got, reference(data).reshape(1), dtype, 512)


@pytest.mark.parametrize("name,pick", [("max", np.max), ("min", np.min)])
@pytest.mark.parametrize("left", [True, False])
def test_indices_and_ties(name, pick, left, target):
    data = np.array([[3, 1, 3, 1, 2, 3, 1, 0], [0, 0, 0, 0, 0, 0, 0, 0]], dtype=np.int64)
    kernel = harness.make(f"""@triton.jit
def kernel(x_ptr, v_ptr, i_ptr):
    x = tl.load(x_ptr + tl.arange(0, 2)[:, None] * 8 + tl.arange(0, 8)[None, :])
    v, i = tl.{name}(x, axis=1, return_indices=True, return_indices_tie_break_left={left})
    tl.static_assert(v.dtype == tl.int8)
    tl.store(v_ptr + tl.arange(0, 2), v)
    tl.store(i_ptr + tl.arange(0, 2), i)
""")
    i8, i32 = DTYPES["int8"], DTYPES["int32"]
    v, i = harness.empty(i8, (2,)), harness.empty(i32, (2,))
    kernel[(1,)](harness.to_tensor(data, i8), v, i)
    np.testing.assert_array_equal(v.numpy(), pick(data, axis=1))
    if left:
        want = [np.flatnonzero(r == pick(r))[0] for r in data]
        np.testing.assert_array_equal(i.numpy(), want)
    else:
        assert all(r[j] == pick(r) for r, j in zip(data, i.numpy()))


@pytest.mark.parametrize("name", ["max", "min"])
def test_nan_is_ignored(name, target):
    f32 = DTYPES["float32"]
    data = harness.values(f32, (32,))
    data[[0, 5, 31]] = np.nan
    got = run((32,), f32, data, f"tl.{name}(x, axis=0)", (), f32)
    assert got.item() == (np.nanmax if name == "max" else np.nanmin)(data)


PAIR = """@triton.jit
def linear(a0, b0, a1, b1):
    return a0 * a1, b0 * a1 + b1


"""


@pytest.mark.parametrize("axis", [0, 1])
def test_reduce_with_a_combiner_that_does_not_commute(axis, target):
    """Composition of x -> a x + b: associative, not commutative."""
    f64 = DTYPES["float64"]
    shape = (8, 16)
    a, b = harness.values(f64, shape, 1, low=0.5, high=1.5), harness.values(f64, shape, 2)
    kernel = harness.make(PAIR + f"""@triton.jit
def kernel(a_ptr, b_ptr, p_ptr, q_ptr):
    offsets = {load_all(shape)}
    p, q = tl.reduce((tl.load(a_ptr + offsets), tl.load(b_ptr + offsets)), {axis}, linear)
    tl.store(p_ptr + tl.arange(0, {shape[1 - axis]}), p)
    tl.store(q_ptr + tl.arange(0, {shape[1 - axis]}), q)
""")
    p, q = harness.empty(f64, (shape[1 - axis],)), harness.empty(f64, (shape[1 - axis],))
    kernel[(1,)](harness.to_tensor(a, f64), harness.to_tensor(b, f64), p, q)
    want_a, want_b = np.ones(shape[1 - axis]), np.zeros(shape[1 - axis])
    for i in range(shape[axis]):
        ai, bi = np.take(a, i, axis), np.take(b, i, axis)
        want_a, want_b = want_a * ai, want_b * ai + bi
    harness.check(p, want_a, f64, 100)
    harness.check(q, want_b, f64, 100, 1e-12)


@pytest.mark.overflows("its integers wrap on purpose")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape,axis", SHAPES, ids=str)
@pytest.mark.parametrize("name,dtype", [(n, d) for n, (dtypes, *_) in SCAN.items() for d in dtypes], ids=str)
def test_scan(name, dtype, shape, axis, reverse, target):
    _, reference, result = SCAN[name]
    data = harness.values(dtype, shape, seed=7, **({} if dtype.is_int else {"low": 0.9, "high": 1.1}))
    out = result(dtype)
    source = np.flip(data, axis) if reverse else data
    with np.errstate(all="ignore"):
        want = reference(source.astype(np.uint64) if source.dtype.kind == "b" else source, axis=axis)
    want = np.flip(want, axis) if reverse else want
    got = run(shape, dtype, data, f"tl.{name}(x, axis={axis}, reverse={reverse})", shape, out)
    harness.check(got, want, out, tolerance(dtype, shape[axis]))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_scan_with_a_combiner_that_does_not_commute(axis, reverse, target):
    f64 = DTYPES["float64"]
    shape = (8, 16)
    a, b = harness.values(f64, shape, 1, low=0.5, high=1.5), harness.values(f64, shape, 2)
    kernel = harness.make(PAIR + f"""@triton.jit
def kernel(a_ptr, b_ptr, p_ptr, q_ptr):
    offsets = {load_all(shape)}
    p, q = tl.associative_scan((tl.load(a_ptr + offsets), tl.load(b_ptr + offsets)), {axis}, linear, reverse={reverse})
    tl.store(p_ptr + offsets, p)
    tl.store(q_ptr + offsets, q)
""")
    p, q = harness.empty(f64, shape), harness.empty(f64, shape)
    kernel[(1,)](harness.to_tensor(a, f64), harness.to_tensor(b, f64), p, q)
    order = range(shape[axis] - 1, -1, -1) if reverse else range(shape[axis])
    want_a, want_b = np.empty(shape), np.empty(shape)
    ra, rb = np.ones(shape[1 - axis]), np.zeros(shape[1 - axis])
    for i in order:
        ai, bi = np.take(a, i, axis), np.take(b, i, axis)
        ra, rb = ra * ai, rb * ai + bi
        index = (i, slice(None)) if axis == 0 else (slice(None), i)
        want_a[index], want_b[index] = ra, rb
    harness.check(p, want_a, f64, 100)
    harness.check(q, want_b, f64, 100, 1e-12)


@pytest.mark.parametrize("dim", [0, 1])
def test_softmax(dim, target):
    f32 = DTYPES["float32"]
    data = harness.values(f32, (8, 16))
    e = np.exp(data - data.max(axis=dim, keepdims=True))
    got = run((8, 16), f32, data, f"tl.softmax(x, {dim})", (8, 16), f32)
    harness.check(got, e / e.sum(axis=dim, keepdims=True), f32, 16, 1e-7)


COLUMNS = """@triton.jit
def kernel(x_ptr, sum_ptr, max_ptr, at_ptr, both_ptr, h, w, stride, H: tl.constexpr, W: tl.constexpr):
    r, c = tl.arange(0, H), tl.arange(0, W)
    mask = (r[:, None] < h) & (c[None, :] < w)
    place = r[:, None] * stride + c[None, :]
    tl.store(sum_ptr + c, tl.sum(tl.load(x_ptr + place, mask, 0).to(tl.float32), 0), c < w)
    least = tl.load(x_ptr + place, mask, -100)
    tl.store(max_ptr + c, tl.max(least, 0), c < w)
    tl.store(at_ptr + c, tl.argmax(least, 0), c < w)
    tl.store(both_ptr + c, tl.sum(tl.exp(least.to(tl.float32)), 0), c < w)
"""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "float64"])
@pytest.mark.parametrize("h,w,H,W", [(64, 256, 64, 256), (70, 300, 128, 512), (9, 200, 16, 256), (33, 5, 64, 8), (100, 127, 128, 128), (1, 130, 1, 256)])
def test_columns_of_many_lanes(h, w, H, W, dtype, target):
    """Columns are reduced many registers at a time, with memory fetched ahead of its use: also of the last rows, behind which there may be nothing."""
    x = np.random.default_rng(h).integers(-9, 9, (h, w + 3)).astype(np.float64)
    outs = [harness.empty(DTYPES["float32"], (w,)), harness.empty(compared(DTYPES[dtype]), (w,)), harness.empty(DTYPES["int32"], (w,)), harness.empty(DTYPES["float32"], (w,))]
    harness.make(COLUMNS)[(1,)](harness.to_tensor(x, DTYPES[dtype]), *outs, h, w, w + 3, H, W)
    x = x[:, :w]
    total, most, at, exponentials = (harness.exact(out) for out in outs)
    assert np.array_equal(total, x.sum(0)) and np.array_equal(most, x.max(0)) and np.array_equal(at, x.argmax(0))
    assert np.allclose(exponentials, np.exp(x).sum(0), rtol=1e-5)
