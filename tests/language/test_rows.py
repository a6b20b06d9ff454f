"""Masked rows: chunks before the end of a row, the one with the end, and those behind it take different code on CPUs. Matrices that are read or
written across the order of memory."""

import numpy as np
import pytest
import torch

import harness
from harness import DTYPES

# Ends inside a chunk, at its border, one element before and behind, and rows without any element.
WIDTHS = [0, 1, 15, 63, 64, 65, 128, 200, 255, 256, 781, 1000, 1023, 1024]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "float16"])
@pytest.mark.parametrize("width", WIDTHS)
def test_softmax(target, dtype, width):
    kernel = harness.make("""@triton.jit
def kernel(y_ptr, x_ptr, n, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    m = c < n
    x = tl.load(x_ptr + tl.program_id(0) * n + c, m, -float("inf"))
    e = tl.exp((x - tl.max(x, 0)).to(tl.float32))
    tl.store(y_ptr + tl.program_id(0) * n + c, e / tl.sum(e, 0), m)
""")
    rows = 5
    x = harness.to_tensor(np.random.default_rng(width).normal(0, 3, (rows, width)), DTYPES[dtype])
    y = torch.full((rows * width + 8,), 7.0, dtype=x.dtype)
    kernel[(rows,)](y, x, width, BLOCK=1024)
    assert (y[rows * width:] == 7).all()
    want = torch.softmax(x.double().reshape(rows, width), 1)
    eps = 3e-7 if dtype == "float64" else 2 * max(DTYPES[dtype].eps, 2.0 ** -23)  # computed in fp32
    torch.testing.assert_close(y[:rows * width].double().reshape(rows, width), want, rtol=3 * eps, atol=4 * eps)


@pytest.mark.parametrize("other", ["0.0", "-float('inf')", "float('nan')", "1.5", "c * 0.5"])
@pytest.mark.parametrize("width", [3, 64, 200, 256])
def test_what_lies_behind_the_end(target, other, width):
    """Each reduction sees the value for masked elements once for every one of them, whether or not whole chunks are off."""
    kernel = harness.make(f"""@triton.jit
def kernel(out, y_ptr, x_ptr, n, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    m = c < n
    x = tl.load(x_ptr + c, m, {other})
    tl.store(out + 0, tl.sum(x, 0))
    tl.store(out + 1, tl.max(x, 0))
    tl.store(out + 2, tl.argmax(x, 0))
    d = tl.where(m, x - tl.sum(x, 0), 2.0)
    tl.store(out + 3, tl.sum(d * d, 0))
    tl.store(y_ptr + c, x + d)
""")
    block = 1024
    x = np.random.default_rng(width).normal(size=width).astype(np.float32)
    c = np.arange(block)
    fill = eval(other, {"c": c, "float": float}) * np.ones(block, np.float32)
    padded = np.where(c < width, np.pad(x, (0, block - width)), fill).astype(np.float64)
    d = np.where(c < width, padded - padded.sum(), 2.0)
    out, y = torch.empty(4), torch.empty(block)
    kernel[(1,)](out, y, harness.to_tensor(x, DTYPES["float32"]), width, BLOCK=block)
    with np.errstate(all="ignore"):
        want = [padded.sum(), np.fmax.reduce(padded), np.nanargmax(padded), (d * d).sum()]
    np.testing.assert_allclose(out.cpu().numpy(), want, rtol=1e-4)
    np.testing.assert_allclose(y.cpu().numpy(), padded + d, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("condition, holds", [
    ("c <= n", lambda c, n: c <= n), ("n > c", lambda c, n: n > c), ("n >= c", lambda c, n: n >= c),
    ("c * 3 < n", lambda c, n: c * 3 < n), ("(c < n) & (c < 100)", lambda c, n: (c < n) & (c < 100)),
    ("(c < n) & (n != 7)", lambda c, n: (c < n) & (n != 7)), ("c + 2147483000 < n", lambda c, n: (c + 2147483000).astype(np.int32) < n),
    ("c.to(tl.int64) - 5 < n", lambda c, n: c - 5 < n), ("(c < n) & (c % 2 == 0)", lambda c, n: (c < n) & (c % 2 == 0)),
    ("c.to(tl.uint32) < n.to(tl.uint32)", lambda c, n: c.astype(np.uint32) < np.uint32(n & 0xFFFFFFFF)),
])
@pytest.mark.parametrize("n", [-3, 0, 7, 64, 300, 2147483300, 2147483647])
def test_forms_of_masks(target, condition, holds, n):
    kernel = harness.make(f"""@triton.jit
def kernel(y_ptr, x_ptr, s_ptr, n, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    m = {condition}
    x = tl.load(x_ptr + c, m, 2.0)
    tl.store(s_ptr, tl.sum(x, 0))
    tl.store(y_ptr + c, x + 1, m)
""")
    block = 512
    c = np.arange(block)
    x = np.random.default_rng(0).integers(-9, 9, block).astype(np.float32)
    y, total = torch.full((block,), 99.0), torch.empty(1)
    with np.errstate(all="ignore"):
        on = holds(c, np.int64(n) if "uint" not in condition else n)
    kernel[(1,)](y, harness.to_tensor(x, DTYPES["float32"]), total, n, BLOCK=block)
    assert total.item() == np.where(on, x, 2).sum()
    np.testing.assert_array_equal(y.cpu().numpy(), np.where(on, x + 1, 99))


@pytest.mark.parametrize("divisor", [3.0, 1e-40, -1e-45, 0.0, -0.0, 3e38, 1.7e38, float("inf"), float("nan"), 2.0 ** -126, -7e-38])
def test_division_by_one_number(target, divisor):
    kernel = harness.make("""@triton.jit
def kernel(y_ptr, x_ptr, d_ptr, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    tl.store(y_ptr + c, tl.load(x_ptr + c) / tl.load(d_ptr))
""")
    x = torch.tensor([0.0, -0.0, 1.0, -1.0, 3.0, 1e-30, 1e30, 3e38, -3.4e38, float("inf"), -float("inf"), float("nan"), 1e-38, 5e-39, 1e-45, 0.7] * 8)
    y = torch.empty_like(x)
    kernel[(1,)](y, x, torch.tensor([divisor]), BLOCK=x.numel())
    want = (x.double() / torch.tensor(divisor, dtype=torch.float32).double().item()).float() if divisor == divisor and divisor != 0 else x / divisor
    assert (y.isnan() == want.isnan()).all()
    assert (torch.signbit(y) == torch.signbit(want))[~want.isnan()].all()
    torch.testing.assert_close(y, want, rtol=2.5e-7, atol=2e-45, equal_nan=True)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int8", "int32", "int1"])
@pytest.mark.parametrize("way", ["load", "store", "trans", "trans of sum", "both"])
@pytest.mark.parametrize("shape, block", [((64, 64), (32, 32)), ((37, 53), (16, 32)), ((100, 9), (64, 16)), ((5, 70), (8, 64))])
def test_transposed(target, dtype, way, shape, block):
    """`y` is the transpose of `x`, whichever of the two is accessed across its order."""
    body = {
        "load": "x = tl.load(x_ptr + c[None, :] * w + r[:, None], (r[:, None] < w) & (c[None, :] < h))\n"
                "    tl.store(y_ptr + r[:, None] * h + c[None, :], x, (r[:, None] < w) & (c[None, :] < h))",
        "store": "x = tl.load(x_ptr + c[:, None] * w + r[None, :], (r[None, :] < w) & (c[:, None] < h))\n"
                 "    tl.store(y_ptr + r[None, :] * h + c[:, None], x, (r[None, :] < w) & (c[:, None] < h))",
        "trans": "x = tl.load(x_ptr + c[:, None] * w + r[None, :], (r[None, :] < w) & (c[:, None] < h))\n"
                 "    tl.store(y_ptr + r[:, None] * h + c[None, :], tl.trans(x), (r[:, None] < w) & (c[None, :] < h))",
        "trans of sum": "x = tl.load(x_ptr + c[:, None] * w + r[None, :], (r[None, :] < w) & (c[:, None] < h), 0)\n"
                        "    z = tl.load(x_ptr + c[None, :] * w + r[:, None], (r[:, None] < w) & (c[None, :] < h), 0)\n"
                        "    tl.store(y_ptr + r[:, None] * h + c[None, :], tl.where(tl.trans(x) == z, z, 1 - z), "
                        "(r[:, None] < w) & (c[None, :] < h))",
        "both": "x = tl.load(x_ptr + c[None, :] * w + r[:, None], (r[:, None] < w) & (c[None, :] < h))\n"
                "    tl.store(y_ptr + r[None, :] * h + c[:, None], tl.trans(x), (r[None, :] < w) & (c[:, None] < h))",
    }[way]
    kernel = harness.make(f"""@triton.jit
def kernel(y_ptr, x_ptr, h, w, H: tl.constexpr, W: tl.constexpr):
    c = tl.program_id(0) * H + tl.arange(0, H)
    r = tl.program_id(1) * W + tl.arange(0, W)
    {body}
""")
    dtype = DTYPES[dtype]
    data = np.random.default_rng(1).integers(0, 2 if dtype.kind == "bool" else 100, shape)
    x = harness.to_tensor(data, dtype).reshape(shape)
    y = torch.zeros(shape[1], shape[0], dtype=x.dtype)
    kernel[(-(-shape[0] // block[0]), -(-shape[1] // block[1]))](y, x, *shape, H=block[0], W=block[1])
    assert torch.equal(y, x.T)


def test_transposed_in_place(target):
    """Loads of a whole block come before its stores, also where the block is transposed on the way."""
    kernel = harness.make("""@triton.jit
def kernel(x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i[:, None] * N + i[None, :])
    tl.store(x_ptr + i[:, None] * N + i[None, :], tl.trans(x))
""")
    x = harness.to_tensor(np.arange(32 * 32, dtype=np.float32).reshape(32, 32), DTYPES["float32"]).reshape(32, 32)
    want = x.T.clone()
    kernel[(1,)](x, N=32)
    assert torch.equal(x, want)


def test_transposed_products(target):
    """Operands that lie across their order, and the transpose of a product."""
    kernel = harness.make("""@triton.jit
def kernel(y_ptr, a_ptr, b_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(a_ptr + i[None, :] * N + i[:, None])
    b = tl.load(b_ptr + i[None, :] * N + i[:, None])
    c = tl.dot(a, b, input_precision="ieee")
    tl.store(y_ptr + i[:, None] * N + i[None, :], tl.trans(c) + a)
""")
    rng = np.random.default_rng(2)
    a, b = (harness.to_tensor(rng.integers(-4, 4, (32, 32)).astype(np.float32), DTYPES["float32"]).reshape(32, 32) for _ in range(2))
    y = torch.empty_like(a)
    kernel[(1,)](y, a, b, N=32)
    assert torch.equal(y, (a.T @ b.T).T + a.T)


@pytest.mark.parametrize("behind", ["if n > 0:\n        tl.store(z_ptr + at, c)", "tl.store(z_ptr + at, tl.dot(c, c, input_precision='ieee'))"], ids=["branch", "dot"])
@pytest.mark.parametrize("both", ["c + 2 * tl.trans(c)", "2 * tl.trans(c) + c", "tl.trans(c) * (c + tl.trans(c))"])
@pytest.mark.parametrize("size", [8, 32])
def test_read_both_ways(target, both, behind, size):
    """One loop reads a block and its transpose, in either order; the block is needed behind it."""
    kernel = harness.make(f"""@triton.jit
def kernel(y_ptr, z_ptr, x_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    x = tl.load(x_ptr + at)
    c = tl.zeros((N, N), tl.float32)
    for k in range(n):
        c += x
    tl.store(y_ptr + at, {both})
    {behind}
""")
    x = harness.to_tensor(np.random.default_rng(3).integers(-4, 4, (size, size)).astype(np.float32), DTYPES["float32"]).reshape(size, size)
    y, z = torch.zeros_like(x), torch.zeros_like(x)
    kernel[(1,)](y, z, x, 2, N=size)
    c = 2 * x
    assert torch.equal(y, c + 2 * c.T if "2 *" in both else c.T * (c + c.T))
    assert torch.equal(z, c @ c if "dot" in behind else c)


@pytest.mark.parametrize("flag", [False, True])
@pytest.mark.parametrize("bound", ["tl.max(x, 1).to(tl.int32)", "tl.load(n_ptr + i)", "tl.argmax(x, 1)"])
def test_masks_of_what_is_in_memory(target, bound, flag):
    """What a mask was computed from is gone, or has changed, when the masked tensor is stored in a branch."""
    kernel = harness.make(f"""@triton.jit
def kernel(y_ptr, x_ptr, n_ptr, flag, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + i[:, None] * N + j[None, :])
    n = {bound}
    z = x / tl.sum(tl.exp(x), 1)[:, None]
    total = tl.sum(2 * z, 1)
    both = z + tl.where(j[None, :] == n[:, None], total[:, None], 0) - tl.where(j[None, :] < n[:, None], x, 0)
    tl.store(n_ptr + i, tl.zeros_like(i))
    at = y_ptr + i[:, None] * N + j[None, :]
    if flag:
        tl.store(at, both)
    else:
        tl.atomic_add(at, both)
""")
    M, N = 8, 128
    rng = np.random.default_rng(3)
    x, n = rng.normal(0, 2, (M, N)), rng.integers(0, N, M).astype(np.int32)
    of = {"tl.load(n_ptr + i)": n, "tl.argmax(x, 1)": x.argmax(1)}.get(bound, x.max(1).astype(np.int32))[:, None]
    j, z = np.arange(N)[None, :], x / np.exp(x).sum(1, keepdims=True)
    want = z + np.where(j == of, 2 * z.sum(1, keepdims=True), 0) - np.where(j < of, x, 0)
    y = harness.to_tensor(np.zeros((M, N)), DTYPES["float64"])
    kernel[(1,)](y, harness.to_tensor(x, DTYPES["float64"]), harness.to_tensor(n, DTYPES["int32"]), flag, M=M, N=N)
    np.testing.assert_allclose(y.cpu().numpy().reshape(M, N), want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("running", [False, True], ids=["row", "running"])
def test_exponentials_of_differences_to_the_maximum(running, target):
    # Known not to be positive, which the GPU target computes in its own way: within 2 ulp (2^-22, relative), exactly 1 at the maximum, 0 of minus infinity.
    rng = np.random.default_rng(0)
    x = np.concatenate([-rng.exponential(1.0, 200), -rng.uniform(0, 87, 200), -(2.0 ** rng.uniform(-30, 0, 96)),
                        [0.0, -np.inf, -100.0, -1e30, -87.3, -88.5, 0.0, -np.inf]] * 2)[:1024].astype(np.float32)
    x = np.resize(x, 1024) + np.float32(0)
    maximum = "m = tl.maximum(tl.load(o_ptr), tl.max(x, 0))" if running else "m = tl.max(x, 0)"
    kernel = harness.make(f"""@triton.jit
def kernel(x_ptr, o_ptr):
    i = tl.arange(0, 1024)
    x = tl.load(x_ptr + i)
    {maximum}
    tl.store(o_ptr + i, tl.exp(x - m))
""")
    got = torch.full((1024,), -5.0)
    kernel[(1,)](torch.from_numpy(x), got)
    with np.errstate(under="ignore"):
        want = np.exp(x.astype(np.float64))
    normal = want >= 2.0 ** -126
    assert (np.abs(got.numpy().astype(np.float64) - want)[normal] / want[normal]).max() <= 2.0 ** -22
    assert (got.numpy()[x == 0] == 1).all() and (got.numpy()[np.isneginf(x)] == 0).all()
    assert (np.abs(got.numpy()[~normal]) <= 2.0 ** -126).all()
    for special in (np.nan, np.inf):
        x[7] = special
        kernel[(1,)](torch.from_numpy(x), got)
        # Beside infinity everything finite is 0 and infinity itself NaN; NaN is no maximum.
        assert np.isnan(got.numpy()[7]) and np.isnan(got.numpy()).sum() == 1
