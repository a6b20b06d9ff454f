"""Matrix products: dtype x shape x layout x accumulator x precision."""

import numpy as np
import pytest

import harness
from harness import DTYPES

F16, BF16, F32, F64, I8, I32 = (DTYPES[n] for n in ("float16", "bfloat16", "float32", "float64", "int8", "int32"))
OPERANDS = [F16, BF16, F32, F64, I8, DTYPES["float8e4nv"], DTYPES["float8e5"]]
SHAPES = [(16, 16, 16), (32, 64, 16), (128, 128, 32), (1, 16, 16), (16, 1, 32), (2, 4, 64), (64, 32, 128), (1, 1, 32)]
COVERED = {"dot"}


def result_of(dtype):
    return {"float64": F64, "int8": I32}.get(dtype.name, F32)


def kernel(m, n, k, call, trans_a=False, trans_b=False, acc=False):
    a = f"a_ptr + tl.arange(0, {m})[:, None] * {1 if trans_a else k} + tl.arange(0, {k})[None, :] * {m if trans_a else 1}"
    b = f"b_ptr + tl.arange(0, {k})[:, None] * {1 if trans_b else n} + tl.arange(0, {n})[None, :] * {k if trans_b else 1}"
    c = f"c_ptr + tl.arange(0, {m})[:, None] * {n} + tl.arange(0, {n})[None, :]"
    return harness.make(f"""@triton.jit
def kernel(a_ptr, b_ptr, c_ptr):
    a = tl.load({a})
    b = tl.load({b})
    {f'acc = tl.load({c})' if acc else 'pass'}
    tl.store({c}, {call})
""")


def operands(dtype, m, n, k):
    limit = {} if dtype.is_int else {"low": -2.0, "high": 2.0}
    return harness.values(dtype, (m, k), 1, **limit), harness.values(dtype, (k, n), 2, **limit)


def compare(got, want, dtype, k, low_precision=False, eps=None):
    if dtype.is_int:
        np.testing.assert_array_equal(got.numpy(), want)
    else:
        eps = eps or (2.0 ** -10 if low_precision else result_of(dtype).eps)
        np.testing.assert_allclose(harness.exact(got), want, rtol=eps * 4, atol=eps * 12 * k ** 0.5)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", OPERANDS, ids=str)
def test_dot(dtype, shape, target):
    m, n, k = shape
    a, b = operands(dtype, m, n, k)
    out = harness.empty(result_of(dtype), (m, n))
    precision = ", input_precision='ieee'" if dtype is F32 else ""
    kernel(m, n, k, f"tl.dot(a, b{precision})")[(1,)](harness.to_tensor(a, dtype), harness.to_tensor(b, dtype), out)
    # Matrix units add up products of 8-bit floats in about 14 bits.
    compare(out, a @ b, dtype, k, eps=2.0 ** -12 if target != "cpu" and dtype.bits == 8 else None)


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("shape", [(40, 23, 48), (23, 40, 70), (100, 36, 130)], ids=str)
@pytest.mark.parametrize("dtype", [F16, BF16, I8, DTYPES["float8e5"]], ids=str)
def test_shapes_that_units_do_not_divide(dtype, shape, trans_a, trans_b, target):
    """Several rows and columns of tiles with a rest along each dimension, added to what C holds."""
    m, n, k = shape
    a, b = operands(dtype, m, n, k)
    before = np.arange(m * n).reshape(m, n) % 7
    out = harness.to_tensor(before, result_of(dtype))
    source_a, source_b = (np.ascontiguousarray(x.T) if transposed else x for x, transposed in ((a, trans_a), (b, trans_b)))
    kernel(m, n, k, "tl.dot(a, b, acc)", trans_a, trans_b, acc=True)[(1,)](harness.to_tensor(source_a, dtype), harness.to_tensor(source_b, dtype), out)
    compare(out, a @ b + before, dtype, k, eps=2.0 ** -12 if target != "cpu" and dtype.bits == 8 else None)


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("dtype", [F16, BF16, F32, I8], ids=str)
def test_operands_in_either_order(dtype, trans_a, trans_b, target):
    m, n, k = 32, 64, 32
    a, b = operands(dtype, m, n, k)
    out = harness.empty(result_of(dtype), (m, n))
    kernel(m, n, k, "tl.dot(a, b)", trans_a, trans_b)[(1,)](
        harness.to_tensor(a.T if trans_a else a, dtype), harness.to_tensor(b.T if trans_b else b, dtype), out)
    compare(out, a @ b, dtype, k, low_precision=dtype is F32)


@pytest.mark.parametrize("shape", [(32, 64, 32), (33, 20, 17), (7, 9, 40), (16, 1, 24), (64, 8, 12)], ids=str)
@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64, I8], ids=str)
def test_transposed_tiles(dtype, shape, target):
    """Tiles that are loaded in the order of memory and transposed: the CPU reads a left one where it is, and reorders a right one by squares. All four orders
    in one kernel, one operand both as it is and transposed."""
    m, n, k = shape
    a, b = operands(dtype, m, n, k)
    result = result_of(dtype)
    out, square = harness.empty(result, (4, m, n)), harness.empty(result, (m, m))
    precision = ", input_precision='ieee'" if dtype is F32 else ""
    harness.make(f"""@triton.jit
def kernel(a_ptr, at_ptr, b_ptr, bt_ptr, out, square):
    i, j, kk = tl.arange(0, {m}), tl.arange(0, {n}), tl.arange(0, {k})
    a = tl.load(a_ptr + i[:, None] * {k} + kk[None, :])
    at = tl.load(at_ptr + kk[:, None] * {m} + i[None, :])
    b = tl.load(b_ptr + kk[:, None] * {n} + j[None, :])
    bt = tl.load(bt_ptr + j[:, None] * {k} + kk[None, :])
    places = out + i[:, None] * {n} + j[None, :]
    tl.store(places, tl.dot(a, b{precision}))
    tl.store(places + {m * n}, tl.dot(tl.trans(at), b{precision}))
    tl.store(places + {2 * m * n}, tl.dot(a, tl.trans(bt){precision}))
    tl.store(places + {3 * m * n}, tl.dot(tl.trans(at), tl.trans(bt){precision}))
    tl.store(square + i[:, None] * {m} + i[None, :], tl.dot(a, tl.trans(a){precision}))
""")[(1,)](*(harness.to_tensor(np.ascontiguousarray(x), dtype) for x in (a, a.T, b, b.T)), out, square)
    for i in range(4):
        compare(out[i], a @ b, dtype, k)
    compare(square, a @ a.T, dtype, k)


@pytest.mark.parametrize("dtype", [BF16, F16, I8, DTYPES["float8e5"]], ids=str)
@pytest.mark.parametrize("shape", [(1, 20, 2048), (9, 13, 2050)], ids=str)
def test_sums_are_wide(dtype, shape, target):
    """Two thousand products are added in fp32 or int32, whatever the operands are."""
    m, n, k = shape
    a, b = operands(dtype, m, n, k)
    out = harness.empty(result_of(dtype), (m, n))
    kernel(m, n, k, "tl.dot(a, b)")[(1,)](harness.to_tensor(a, dtype), harness.to_tensor(b, dtype), out)
    compare(out, a @ b, dtype, k, eps=2.0 ** -12 if target != "cpu" and dtype.bits == 8 else F32.eps * 16)


@pytest.mark.parametrize("dtype", [F16, F32, F64, I8], ids=str)
def test_accumulator(dtype, target):
    m, n, k = 32, 32, 64
    a, b = operands(dtype, m, n, k)
    result = result_of(dtype)
    start = harness.values(result, (m, n), 3, **({"low": -99, "high": 99} if result.is_int else {}))
    out = harness.to_tensor(start, result)
    kernel(m, n, k, "tl.dot(a, b, acc)", acc=True)[(1,)](harness.to_tensor(a, dtype), harness.to_tensor(b, dtype), out)
    compare(out, a @ b + start, dtype, k, low_precision=dtype is F32)


def test_half_accumulator(target):
    a, b = operands(F16, 16, 16, 16)
    out = harness.empty(F16, (16, 16))
    kernel(16, 16, 16, "tl.dot(a, b, out_dtype=tl.float16)")[(1,)](harness.to_tensor(a, F16), harness.to_tensor(b, F16), out)
    np.testing.assert_allclose(harness.exact(out), a @ b, rtol=5e-3, atol=5e-2)


@pytest.mark.parametrize("precision", ["tf32", "tf32x3", "ieee"])
def test_precision(precision, target):
    a, b = operands(F32, 32, 32, 128)
    out = harness.empty(F32, (32, 32))
    kernel(32, 32, 128, f"tl.dot(a, b, input_precision='{precision}')")[(1,)](harness.to_tensor(a, F32), harness.to_tensor(b, F32), out)
    # Matrix units truncate their sums where multiply-adds round.
    compare(out, a @ b, F32, 128, low_precision=precision == "tf32", eps=F32.eps * 4 if precision == "tf32x3" else None)


@pytest.mark.parametrize("dtype", [BF16, F32, I8], ids=str)
def test_batches(dtype, target):
    a, b = harness.values(dtype, (4, 16, 32), 1), harness.values(dtype, (4, 32, 16), 2)
    out = harness.empty(result_of(dtype), (4, 16, 16))
    harness.make("""@triton.jit
def kernel(a_ptr, b_ptr, c_ptr):
    g = tl.arange(0, 4)[:, None, None]
    a = tl.load(a_ptr + g * 512 + tl.arange(0, 16)[None, :, None] * 32 + tl.arange(0, 32)[None, None, :])
    b = tl.load(b_ptr + g * 512 + tl.arange(0, 32)[None, :, None] * 16 + tl.arange(0, 16)[None, None, :])
    tl.store(c_ptr + g * 256 + tl.arange(0, 16)[None, :, None] * 16 + tl.arange(0, 16)[None, None, :], tl.dot(a, b, input_precision="ieee"))
""")[(1,)](harness.to_tensor(a, dtype), harness.to_tensor(b, dtype), out)
    np.testing.assert_allclose(out.numpy(), a @ b, rtol=1e-5, atol=1e-4)


def test_extreme_bytes(target):
    """Products of -128 and -128, which do not fit pairs of i16, and sums that need all of an i32's upper bits."""
    m, n, k = 16, 32, 256
    a, b = (np.random.default_rng(i).choice([-128, -127, 127], size) for i, size in enumerate([(m, k), (k, n)]))
    a[:8], b[:, :16] = -128, -128
    out = harness.empty(I32, (m, n))
    kernel(m, n, k, "tl.dot(a, b)")[(1,)](harness.to_tensor(a, I8), harness.to_tensor(b, I8), out)
    np.testing.assert_array_equal(out.numpy(), a @ b)


@pytest.mark.parametrize("dtype", [BF16, I8], ids=str)
def test_special_rows(dtype, target):
    """Zeros, and for floats infinities and NaN, reach only the results that they are part of, whatever the order of the operands in memory."""
    m, n, k = 16, 16, 32
    a, b = operands(dtype, m, n, k)
    a[3], b[:, 5] = 0, 0
    if not dtype.is_int:
        a[7, 9], a[8, 2] = np.inf, np.nan
        b[9], b[2] = 1, 1
    out = harness.empty(result_of(dtype), (m, n))
    kernel(m, n, k, "tl.dot(a, b)")[(1,)](harness.to_tensor(a, dtype), harness.to_tensor(b, dtype), out)
    got = out.numpy()
    if not dtype.is_int:
        assert np.isposinf(got[7, :5]).all() and np.isnan(got[8]).all()
    kept = np.setdiff1d(np.arange(m), [] if dtype.is_int else [7, 8])
    np.testing.assert_allclose(got[kept], (a[kept] @ b), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", [BF16, I8], ids=str)
def test_products_of_one_size(dtype, target):
    """Products that share their code, some from zero and some added to an accumulator, in a loop."""
    m, n, k = 16, 32, 32
    a, b = operands(dtype, m, n, k)
    out = harness.empty(result_of(dtype), (m, n))
    zero = "tl.int32" if dtype.is_int else "tl.float32"
    harness.make(f"""@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, turns):
    a = tl.load(a_ptr + tl.arange(0, {m})[:, None] * {k} + tl.arange(0, {k})[None, :])
    b = tl.load(b_ptr + tl.arange(0, {k})[:, None] * {n} + tl.arange(0, {n})[None, :])
    acc = tl.zeros(({m}, {n}), {zero})
    for _ in range(turns):
        acc = tl.dot(a, b, acc)
    acc += tl.dot(a, b)
    acc = tl.dot(a, b, acc)
    tl.store(c_ptr + tl.arange(0, {m})[:, None] * {n} + tl.arange(0, {n})[None, :], acc)
""")[(1,)](harness.to_tensor(a, dtype), harness.to_tensor(b, dtype), out, 3)
    compare(out, 5 * (a @ b), dtype, 5 * k)


@pytest.mark.parametrize("dtype", [F32, F64, F16], ids=str)
def test_long_rows(dtype, target):
    """Products of one size, whose operands are loaded for the product alone (on CPUs their rows get gaps), loaded for other uses, too, and computed."""
    m, n, k = 16, 128, 128
    precision = ", input_precision='ieee'" if dtype is F32 else ""
    kernel = harness.make(f"""@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, d_ptr):
    a_ptrs = a_ptr + tl.arange(0, {m})[:, None] * {k} + tl.arange(0, {k})[None, :]
    b_ptrs = b_ptr + tl.arange(0, {k})[:, None] * {n} + tl.arange(0, {n})[None, :]
    c_ptrs = tl.arange(0, {m})[:, None] * {n} + tl.arange(0, {n})[None, :]
    a, b = tl.load(a_ptrs), tl.load(b_ptrs)
    total = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs){precision})
    total += tl.dot(a + a, b{precision})
    total += tl.dot(a, tl.load(b_ptrs){precision})
    total += tl.dot(tl.load(a_ptrs), b * 2{precision})
    tl.store(c_ptr + c_ptrs, total)
    tl.store(d_ptr + c_ptrs, a + tl.sum(b.to(tl.float32), 0)[None, :])
""")
    a, b = operands(dtype, m, n, k)
    a, b = harness.to_tensor(a, dtype), harness.to_tensor(b, dtype)
    c, d = harness.empty(result_of(dtype), (m, n)), harness.empty(F64, (m, n))
    kernel[(1,)](a, b, c, d)
    a, b = harness.exact(a), harness.exact(b)
    compare(c, 6 * (a @ b), dtype, 36 * k * (1 if target == "cpu" else 16))  # GPUs round sums of sums towards zero
    np.testing.assert_allclose(harness.exact(d), a + b.sum(0), rtol=1e-5, atol=1e-4)


def test_chained_products(target):
    """dot(dot(a, b).T, c), and two products into one accumulator."""
    a, b, c = (harness.values(F32, (32, 32), i, low=-1.0, high=1.0) for i in range(3))
    out = harness.empty(F32, (32, 32))
    harness.make("""@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, out):
    i = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    a, b, c = tl.load(a_ptr + i), tl.load(b_ptr + i), tl.load(c_ptr + i)
    t = tl.dot(a, b, input_precision="ieee")
    r = tl.dot(tl.trans(t), c, input_precision="ieee")
    r = tl.dot(a, c, r, input_precision="ieee")
    tl.store(out + i, r)
""")[(1,)](*(harness.to_tensor(v, F32) for v in (a, b, c)), out)
    np.testing.assert_allclose(out.numpy(), (a @ b).T @ c + a @ c, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("k", [0, 1, 31, 32, 100])
def test_loop_over_k(k, target):
    m = n = 32
    a, b = harness.values(F32, (m, max(k, 1)), 1)[:, :k], harness.values(F32, (max(k, 1), n), 2)[:k]
    out = harness.empty(F32, (m, n))
    harness.make("""@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, K, sa):
    i, j, kk = tl.arange(0, 32), tl.arange(0, 32), tl.arange(0, 32)
    a_ptrs = a_ptr + i[:, None] * sa + kk[None, :]
    b_ptrs = b_ptr + kk[:, None] * 32 + j[None, :]
    acc = tl.zeros((32, 32), tl.float32)
    for k in range(0, K, 32):
        a = tl.load(a_ptrs, mask=kk[None, :] < K - k, other=0.0)
        b = tl.load(b_ptrs, mask=kk[:, None] < K - k, other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
        a_ptrs += 32
        b_ptrs += 32 * 32
    tl.store(c_ptr + i[:, None] * 32 + j[None, :], acc)
""")[(1,)](harness.to_tensor(a, F32) if k else harness.empty(F32, (1,)), harness.to_tensor(b, F32) if k else harness.empty(F32, (1,)), out,
           k, max(k, 1))
    np.testing.assert_allclose(out.numpy(), a @ b, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", [F32, F64, BF16, I8], ids=str)
def test_sums_in_a_loop_start_from_zero_for_each_tile(dtype, target):
    """A program computes several tiles of two products of one size, one of which has no turn for some tiles."""
    n, result = 32, result_of(dtype)
    steps = np.array([2, 0, 1, 3], np.int32)
    a, b = harness.values(dtype, (4, 3, n, n), 1, **({} if dtype.is_int else {"low": -2.0, "high": 2.0})), harness.values(dtype, (4, 3, n, n), 2, **({} if dtype.is_int else {"low": -2.0, "high": 2.0}))
    out = harness.empty(result, (4, n, n))
    harness.make(f"""@triton.jit
def kernel(a_ptr, b_ptr, steps_ptr, out_ptr):
    i = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    for tile in range(4):
        steps = tl.load(steps_ptr + tile)
        total = tl.zeros((32, 32), tl.{result.name})
        for k in range(steps):
            at = (tile * 3 + k) * 1024 + i
            total = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at), total, input_precision="ieee", out_dtype=tl.{result.name})
        first = tl.load(a_ptr + tile * 3072 + i)
        total = tl.dot(first, tl.load(b_ptr + tile * 3072 + i), total, input_precision="ieee", out_dtype=tl.{result.name})
        tl.store(out_ptr + tile * 1024 + i, total)
""")[(1,)](harness.to_tensor(a, dtype), harness.to_tensor(b, dtype), harness.to_tensor(steps, I32), out)
    want = np.stack([sum((a[t, s] @ b[t, s] for s in range(steps[t])), a[t, 0] @ b[t, 0]) for t in range(4)])
    compare(out, want, dtype, 4 * n)


def test_long_sums_have_short_parts(target):
    """fp32: the tiles of a loop over K are added up, so the error is below that of adding one product after the other, which grows with the root of K."""
    if target != "cpu":
        pytest.skip("this order of additions is the CPU target's: GPUs add fp32 products along K one after the other")
    m = n = 32
    k = 8192
    random = np.random.default_rng(3)
    a, b = random.standard_normal((m, k)).astype(np.float32), random.standard_normal((k, n)).astype(np.float32)
    chain = np.zeros((m, n), np.float32)
    for step in range(k):
        chain += a[:, step, None] * b[step]
    out = harness.empty(F32, (m, n))
    harness.make("""@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, K):
    i, j, kk = tl.arange(0, 32), tl.arange(0, 32), tl.arange(0, 64)
    acc = tl.zeros((32, 32), tl.float32)
    for k in range(0, K, 64):
        a = tl.load(a_ptr + i[:, None] * K + (k + kk)[None, :])
        b = tl.load(b_ptr + (k + kk)[:, None] * 32 + j[None, :])
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + i[:, None] * 32 + j[None, :], acc)
""")[(1,)](harness.to_tensor(a, F32), harness.to_tensor(b, F32), out, k)
    want = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(out.numpy() - want).mean() < 0.5 * np.abs(chain - want).mean()
