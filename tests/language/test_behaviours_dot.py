"""Behaviours of matrix products that are easy to get wrong, by their numbers in the list of behaviours."""

import nereid
import numpy as np
import pytest
import torch

import harness
from harness import DTYPES
from test_dot import BF16, F16, F32, F64, I8, I32, operands, result_of

KERNEL = """@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    a = tl.load(a_ptr + tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :])
    b = tl.load(b_ptr + tl.arange(0, K)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(c_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], %s)
"""


@pytest.mark.parametrize("m,n", [(1, 1), (1, 16), (16, 1), (4, 8)])
@pytest.mark.parametrize("dtype,k", [(F32, 8), (F32, 1), (F16, 16), (F16, 4), (BF16, 2), (I8, 32), (I8, 16), (I8, 1), (F64, 4), (F64, 2),
                                     (DTYPES["float8e5"], 8)], ids=str)
def test_28_every_size(dtype, k, m, n, target):
    a, b = operands(dtype, m, n, k)
    out = harness.empty(result_of(dtype), (m, n))
    harness.make(KERNEL % "tl.dot(a, b, input_precision='ieee')")[(1, )](harness.to_tensor(a, dtype), harness.to_tensor(b, dtype), out, m, n, k)
    # Matrix units add up products of 8-bit floats in about 14 bits.
    np.testing.assert_allclose(harness.exact(out), a @ b, rtol=1e-5, atol=2.0**-6 if dtype.kind == "fp8" else 1e-4)


@pytest.mark.parametrize("dtype,least", [(F32, 16), (F16, 16), (I8, 32), (F64, 16)], ids=str)
def test_28_least_k_in_strict_mode(dtype, least):
    def compile(k):
        a, b = operands(dtype, 16, 16, k)
        harness.make(KERNEL % "tl.dot(a, b)").warmup(harness.to_tensor(a, dtype), harness.to_tensor(b, dtype), harness.empty(result_of(dtype), (16, 16)),
                                                     16, 16, k, grid=(1, ), target="cuda:90", strict=True)
    with pytest.raises(nereid.CompilationError, match=f"Input shapes should have M >= 1, N >= 1 and K >= {least}"):
        compile(least // 2)
    compile(least)


def error_of(precision, target, seed=0):
    """The worst error of a product of 64 x 64 x 64, in units of 2^-23 of its terms."""
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(1.0, 2.0, (64, 64)).astype(np.float32) for _ in range(2))
    out = harness.empty(F32, (64, 64))
    option = f", input_precision='{precision}'" if precision else ""
    harness.make(KERNEL % f"tl.dot(a, b{option})")[(1, )](harness.to_tensor(a, F32), harness.to_tensor(b, F32), out, 64, 64, 64)
    want = a.astype(np.float64) @ b.astype(np.float64)
    return np.max(np.abs(harness.exact(out) - want) / want) * 2**23


def test_29_default_precision_is_tf32(target):
    assert error_of(None, target) < 2**13
    assert error_of(None, target) == error_of("tf32", target)


@pytest.mark.parametrize("precision,bound", [("tf32", 2**13), ("bf16x3", 2**8), ("tf32x3", 64), ("bf16x6", 64), ("ieee", 16)])
def test_29_precision(precision, bound, target):
    assert error_of(precision, target) < bound


def test_29_split_products_are_unbiased(target):
    """Of 16 positive terms. With operands split by truncation, all products are too small, by 3e-7 of themselves."""
    rng = np.random.default_rng(0)
    a, b = (np.abs(rng.standard_normal((64, 16), np.float32)) for _ in range(2))
    out = harness.empty(F32, (64, 64))
    harness.make(KERNEL % "tl.dot(a, b, input_precision='tf32x3')")[(1, )](harness.to_tensor(a, F32), harness.to_tensor(b.T.copy(), F32), out, 64, 64, 16)
    want = a.astype(np.float64) @ b.T.astype(np.float64)
    error = (harness.exact(out) - want) / want
    assert abs(error.mean()) < 1.2e-7 and np.sqrt((error * error).mean()) < 1.5e-7


def test_29_split_products_of_special_values(target):
    a = np.zeros((16, 16), np.float32)
    values = np.array([np.inf, -np.inf, np.nan, -0.0, 1 + 2**-23, -3e38, 2**-100, 2 - 2**-23], np.float32)
    values = np.concatenate([values, np.array([0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view(np.float32)])
    np.fill_diagonal(a, np.resize(values, 16))
    out = harness.empty(F32, (16, 16))
    harness.make(KERNEL % "tl.dot(a, b, input_precision='tf32x3')")[(1, )](harness.to_tensor(a, F32), harness.to_tensor(np.eye(16, dtype=np.float32), F32), out, 16, 16, 16)
    np.testing.assert_array_equal(harness.exact(out).diagonal(), a.diagonal())


def test_29_allow_tf32(target):
    a, b = operands(F32, 16, 16, 16)
    results = []
    for option in ("allow_tf32=False", "input_precision='ieee'"):
        out = harness.empty(F32, (16, 16))
        harness.make(KERNEL % f"tl.dot(a, b, {option})")[(1, )](harness.to_tensor(a, F32), harness.to_tensor(b, F32), out, 16, 16, 16)
        results.append(harness.exact(out))
    np.testing.assert_array_equal(*results)


def test_30_result_in_half(target):
    a, b = operands(F16, 32, 32, 32)
    out = harness.empty(F16, (32, 32))
    harness.make(KERNEL % "tl.dot(a, b, out_dtype=tl.float16)")[(1, )](harness.to_tensor(a, F16), harness.to_tensor(b, F16), out, 32, 32, 32)
    np.testing.assert_allclose(harness.exact(out), a @ b, rtol=5e-3, atol=5e-2)


def test_30_integers_are_exact(target):
    a = np.full((16, 256), -128)
    b = np.full((256, 16), -128)
    out = harness.empty(I32, (16, 16))
    harness.make(KERNEL % "tl.dot(a, b)")[(1, )](harness.to_tensor(a, I8), harness.to_tensor(b, I8), out, 16, 16, 256)
    np.testing.assert_array_equal(out.numpy(), np.full((16, 16), 128 * 128 * 256))


@pytest.mark.parametrize("call,message", [
    ("tl.dot(a, b, tl.zeros((16, 16), tl.float16))", "the accumulator must have the type of the result"),
    ("tl.dot(a, b, out_dtype=tl.bfloat16)", "out_dtype=bfloat16 is unsupported"),
    ("tl.dot(a.to(tl.uint8), b.to(tl.uint8))", "only int8 supported!"),
    ("tl.dot(a, b.to(tl.float16))", "Both operands must be same dtype"),
    ("tl.dot(a, b, input_precision='tf32', allow_tf32=True)", "only one of"),
    ("tl.dot(a, b, input_precision='exact')", "input_precision"),
])
def test_30_refusals(call, message, target):
    a, b = operands(F32, 16, 16, 16)
    with pytest.raises(nereid.CompilationError, match=message):
        harness.make(KERNEL % call)[(1, )](harness.to_tensor(a, F32), harness.to_tensor(b, F32), harness.empty(F32, (16, 16)), 16, 16, 16)


@pytest.mark.parametrize("batch", [(3, ), (2, 2), (2, 1, 3), (1, 2, 1, 2)], ids=str)
def test_31_batches(batch, target):
    rank = len(batch)
    shape = lambda m, n: (*batch, m, n)
    def offsets(m, n):
        dims = shape(m, n)
        at = lambda d: ", ".join(":" if e == d else "None" for e in range(rank + 2))
        return " + ".join(f"tl.arange(0, {size})[{at(d)}] * {int(np.prod(dims[d + 1:]))}" for d, size in enumerate(dims))
    a, b = harness.values(F16, shape(16, 32), 1, low=-1.0, high=1.0), harness.values(F16, shape(32, 8), 2, low=-1.0, high=1.0)
    acc = harness.values(F32, shape(16, 8), 3)
    out = harness.to_tensor(acc, F32)
    harness.make(f"""@triton.jit
def kernel(a_ptr, b_ptr, c_ptr):
    a = tl.load(a_ptr + {offsets(16, 32)})
    b = tl.load(b_ptr + {offsets(32, 8)})
    c = tl.load(c_ptr + {offsets(16, 8)})
    tl.store(c_ptr + {offsets(16, 8)}, tl.dot(a, b, c))
""")[(1, )](harness.to_tensor(a, F16), harness.to_tensor(b, F16), out)
    np.testing.assert_allclose(harness.exact(out), a @ b + acc, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("a_type,b_type", [("float8e4nv", "float8e5"), ("float8e5", "float8e4nv")])
def test_30_mixed_eight_bit_floats(a_type, b_type, target):
    a = harness.values(DTYPES[a_type], (16, 32), 1, low=-2.0, high=2.0)
    b = harness.values(DTYPES[b_type], (32, 16), 2, low=-2.0, high=2.0)
    out = harness.empty(F32, (16, 16))
    harness.make(KERNEL % "tl.dot(a, b)")[(1, )](harness.to_tensor(a, DTYPES[a_type]), harness.to_tensor(b, DTYPES[b_type]), out, 16, 16, 32)
    np.testing.assert_allclose(harness.exact(out), a @ b, rtol=1e-5, atol=2.0**-6)


@pytest.mark.parametrize("columns", [32, 64])
def test_scores_of_few_rows_with_many_warps(columns, target):
    # Attention with 64 rows in 8 warps: on GPUs with wgmma both groups of four warps compute the same scores of 32 columns, and parts of those of 64.
    rng = np.random.default_rng(0)
    q, k, v = (torch.from_numpy(rng.standard_normal(shape)).half() for shape in ((64, 64), (2 * columns, 64), (2 * columns, 64)))
    out = torch.full((64, 64), float("nan"))
    kernel = harness.make("""@triton.jit
def kernel(q_ptr, k_ptr, v_ptr, o_ptr, tiles, N: tl.constexpr):
    rows, d, n = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, N)
    q = tl.load(q_ptr + rows[:, None] * 64 + d[None, :])
    m = tl.full([64], -float("inf"), tl.float32)
    total = tl.zeros([64], tl.float32)
    acc = tl.zeros([64, 64], tl.float32)
    for tile in range(tiles):
        keys = tile * N + n
        s = tl.dot(q, tl.load(k_ptr + keys[None, :] * 64 + d[:, None])) * 0.125
        new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        factor = tl.exp(m - new)
        total = total * factor + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), tl.load(v_ptr + keys[:, None] * 64 + d[None, :]), acc * factor[:, None])
        m = new
    tl.store(o_ptr + rows[:, None] * 64 + d[None, :], acc / total[:, None])
""")
    kernel[(1,)](q, k, v, out, 2, N=columns, num_warps=8)
    want = torch.softmax(q.double() @ k.double().t() * 0.125, 1) @ v.double()
    torch.testing.assert_close(out.double(), want, rtol=2e-3, atol=2e-3)
