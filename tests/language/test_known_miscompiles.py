"""What other compilers of this language got wrong without a word: one test for each, named by the issue.

Numbers without a name are issues of triton-lang/triton. A row that another test covers is not repeated: the casts between all
dtypes are in test_casts, keys of the cache in tests/runtime.
"""

import numpy as np
import pytest
import torch

import harness
from harness import DTYPES

F16, BF16, F32, F64, I32 = (DTYPES[n] for n in ("float16", "bfloat16", "float32", "float64", "int32"))
E4M3, E5M2 = DTYPES["float8e4nv"], DTYPES["float8e5"]


def small(dtype, shape, seed):
    """Multiples of 1/4 of at most 2: products and their sums are exact in float32."""
    return np.random.default_rng(seed).integers(-8, 9, shape) / 4.0


def tile(rows, columns, stride=None):
    return f"tl.arange(0, {rows})[:, None] * {stride or columns} + tl.arange(0, {columns})[None, :]"


# Loops of products.

MATMUL = """@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, K, sa, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j, kk = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + i[:, None] * sa + (k + kk)[None, :], mask=(kk < K - k)[None, :], other=0.0)
        b = tl.load(b_ptr + (k + kk)[:, None] * BN + j[None, :], mask=(kk < K - k)[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + i[:, None] * BN + j[None, :], acc)
"""


@pytest.mark.parametrize("dtype", [F16, BF16, F32, E4M3], ids=str)
@pytest.mark.parametrize("num_warps", [4, 8])
@pytest.mark.parametrize("num_stages", [1, 2, 3, 4])
def test_pipelined_matmul(num_stages, num_warps, dtype, target):
    """K of no step, of less than one, of a few and a rest, of more steps than stages."""
    m, n, step = 64, 64, 32
    kernel = harness.make(MATMUL)
    for k in (0, 5, 32, 77, 200):
        room = max(k, 1)
        a, b = small(dtype, (m, room), k), small(dtype, (room, n), k + 1)
        out = harness.empty(F32, (m, n))
        kernel[(1,)](harness.to_tensor(a, dtype), harness.to_tensor(b, dtype), out, k, room, BM=m, BN=n, BK=step, num_warps=num_warps,
                     num_stages=num_stages)
        np.testing.assert_array_equal(out.numpy(), a[:, :k] @ b[:k], err_msg=f"K = {k}")


@pytest.mark.parametrize("block", [(32, 64, 32), (64, 64, 32), (32, 32, 64)], ids=str)
@pytest.mark.parametrize("num_stages", [3, 5])
def test_pipelined_small_blocks(num_stages, block, target):
    """Products of mma.sync of two warps: fewer iterations than slots, as many, more, and a rest."""
    m, n, step = block
    kernel = harness.make(MATMUL)
    for k in (0, step, 4 * step, 5 * step + 16, 11 * step):
        room = max(k, 16)
        a, b = small(F16, (m, room), k), small(F16, (room, n), k + 1)
        out = harness.empty(F32, (m, n))
        kernel[(1,)](harness.to_tensor(a, F16), harness.to_tensor(b, F16), out, k, room, BM=m, BN=n, BK=step, num_warps=2, num_stages=num_stages)
        np.testing.assert_array_equal(out.numpy(), a[:, :k] @ b[:k], err_msg=f"K = {k}")


@pytest.mark.parametrize("num_stages", [1, 3])
def test_products_on_the_diagonal(num_stages, target):
    """A loop of one round whose products take most of a thread's registers, behind a loop of a round for each earlier block."""
    n, d, blocks = 128, 64, 3
    q, k = small(F16, (n * blocks, d), 1), small(F16, (n * blocks, d), 2)
    kernel = harness.make(f"""@triton.jit
def kernel(q_ptr, k_ptr, o_ptr):
    start = tl.program_id(0) * {n}
    at = {tile(n, d)}
    q = tl.load(q_ptr + start * {d} + at)
    acc = tl.zeros(({n}, {d}), tl.float32)
    for i in range(0, start, {n}):
        k = tl.load(k_ptr + i * {d} + at)
        acc = tl.dot((tl.dot(q, k.T) / 32).to(tl.float16), k, acc)
    for i in range(start, start + {n}, {n}):
        k = tl.load(k_ptr + i * {d} + at)
        p = tl.where(tl.arange(0, {n})[:, None] >= tl.arange(0, {n})[None, :], tl.dot(q, k.T) / 32, 0.0)
        acc = tl.dot(p.to(tl.float16), k, acc)
    tl.store(o_ptr + start * {d} + at, acc)
""")
    out = harness.empty(F32, (n * blocks, d))
    kernel[(blocks,)](harness.to_tensor(q, F16), harness.to_tensor(k, F16), out, num_stages=num_stages, num_warps=4)
    p = np.tril((q @ k.T) / 32).astype(np.float16).astype(np.float64)
    np.testing.assert_allclose(out.numpy(), p @ k, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("num_stages", [1, 2, 3, 4])
def test_9871_products_with_bounds_of_the_program(num_stages, target):
    """Each program has its own first and last step, some of them none; repeated launches agree."""
    bounds = np.array([[0, 0], [0, 1], [1, 3], [2, 2], [0, 6], [5, 6], [3, 1]], dtype=np.int32)
    a, b = small(F16, (32, 192), 1), small(F16, (192, 32), 2)
    kernel = harness.make(f"""@triton.jit
def kernel(a_ptr, b_ptr, bounds_ptr, c_ptr):
    pid = tl.program_id(0)
    acc = tl.zeros((32, 32), tl.float32)
    for k in range(tl.load(bounds_ptr + pid * 2), tl.load(bounds_ptr + pid * 2 + 1)):
        acc = tl.dot(tl.load(a_ptr + k * 32 + {tile(32, 32, 192)}), tl.load(b_ptr + k * 32 * 32 + {tile(32, 32)}), acc)
    tl.store(c_ptr + pid * 1024 + {tile(32, 32)}, acc)
""")
    want = [a[:, 32 * lo:32 * max(lo, hi)] @ b[32 * lo:32 * max(lo, hi)] for lo, hi in bounds]
    for _ in range(3):
        out = harness.empty(F32, (len(bounds), 32, 32))
        kernel[(len(bounds),)](harness.to_tensor(a, F16), harness.to_tensor(b, F16), torch.from_numpy(bounds), out, num_stages=num_stages)
        np.testing.assert_array_equal(out.numpy(), want)


@pytest.mark.parametrize("num_stages", [1, 3])
@pytest.mark.parametrize("shape", [(32, 32, 32), (64, 64, 64), (128, 64, 32)], ids=str)
def test_10821_two_products_into_one_accumulator(shape, num_stages, target):
    m, n, k = shape
    a, b, c, d = (small(F16, s, i) for i, s in enumerate([(4, m, k), (4, k, n), (4, m, k), (4, k, n)]))
    kernel = harness.make(f"""@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, d_ptr, out, steps):
    acc = tl.zeros(({m}, {n}), tl.float32)
    left, right = {tile(m, k)}, {tile(k, n)}
    for s in range(steps):
        acc = tl.dot(tl.load(a_ptr + s * {m * k} + left), tl.load(b_ptr + s * {k * n} + right), acc)
        acc = tl.dot(tl.load(c_ptr + s * {m * k} + left), tl.load(d_ptr + s * {k * n} + right), acc)
    tl.store(out + {tile(m, n)}, acc)
""")
    out = harness.empty(F32, (m, n))
    kernel[(1,)](*(harness.to_tensor(x, F16) for x in (a, b, c, d)), out, 4, num_stages=num_stages)
    np.testing.assert_array_equal(out.numpy(), (a @ b + c @ d).sum(axis=0))


@pytest.mark.parametrize("num_warps", [4, 8])
@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
@pytest.mark.parametrize("size", [16, 32, 64, 128])
def test_6124_product_of_a_transposed_product(size, dtype, num_warps, target):
    """dot(dot(a, b).T, c); the inner product is exact in the dtype."""
    rng = np.random.default_rng(size)
    a, b, c = (rng.integers(-1, 2, (size, size)).astype(np.float64) for _ in range(3))
    out = harness.empty(F32, (size, size))
    harness.make(f"""@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, out):
    i = {tile(size, size)}
    inner = tl.dot(tl.load(a_ptr + i), tl.load(b_ptr + i))
    tl.store(out + i, tl.dot(inner.T.to(tl.{dtype}), tl.load(c_ptr + i)))
""")[(1,)](*(harness.to_tensor(x, dtype) for x in (a, b, c)), out, num_warps=num_warps)
    np.testing.assert_array_equal(out.numpy(), (a @ b).T @ c)


@pytest.mark.parametrize("num_stages", [1, 2, 3])
@pytest.mark.parametrize("num_warps", [4, 8])
def test_xla_19780_chained_products(num_warps, num_stages, target):
    """(q @ k_i) @ v_i summed over i, as attention does without its softmax."""
    m, d, n, steps = 128, 32, 64, 3
    rng = np.random.default_rng(num_warps)
    q, k, v = (rng.integers(-1, 2, s).astype(np.float64) for s in [(m, d), (steps, d, n), (steps, n, d)])
    out = harness.empty(F32, (m, d))
    harness.make(f"""@triton.jit
def kernel(q_ptr, k_ptr, v_ptr, out, steps):
    q = tl.load(q_ptr + {tile(m, d)})
    acc = tl.zeros(({m}, {d}), tl.float32)
    for s in range(steps):
        p = tl.dot(q, tl.load(k_ptr + s * {d * n} + {tile(d, n)}))
        acc = tl.dot(p.to(tl.float16), tl.load(v_ptr + s * {n * d} + {tile(n, d)}), acc)
    tl.store(out + {tile(m, d)}, acc)
""")[(1,)](*(harness.to_tensor(x, F16) for x in (q, k, v)), out, steps, num_warps=num_warps, num_stages=num_stages)
    np.testing.assert_array_equal(out.numpy(), sum((q @ k[s]) @ v[s] for s in range(steps)))


@pytest.mark.parametrize("num_stages", [1, 2, 3, 4])
@pytest.mark.parametrize("d", [16, 32])
def test_11366_narrow_attention(d, num_stages, target):
    """Softmax of q k^T times v over more blocks than stages: stages of narrow blocks are reused while products still read them."""
    m, n, steps = 64, 64, 5
    q, k, v = (harness.values(F16, s, i, low=-1.0, high=1.0) for i, s in enumerate([(m, d), (steps * n, d), (steps * n, d)]))
    out = harness.empty(F32, (m, d))
    harness.make(f"""@triton.jit
def kernel(q_ptr, k_ptr, v_ptr, out, N):
    q = tl.load(q_ptr + {tile(m, d)})
    top = tl.full(({m},), float("-inf"), tl.float32)
    total = tl.zeros(({m},), tl.float32)
    acc = tl.zeros(({m}, {d}), tl.float32)
    for start in range(0, N, {n}):
        s = tl.dot(q, tl.load(k_ptr + start * {d} + {tile(n, d)}).T)
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - higher[:, None])
        scale = tl.exp(top - higher)
        total = total * scale + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), tl.load(v_ptr + start * {d} + {tile(n, d)}), acc * scale[:, None])
        top = higher
    tl.store(out + {tile(m, d)}, acc / total[:, None])
""")[(1,)](*(harness.to_tensor(x, F16) for x in (q, k, v)), out, steps * n, num_warps=4, num_stages=num_stages)
    e = np.exp(q @ k.T)
    np.testing.assert_allclose(out.numpy(), (e / e.sum(axis=1, keepdims=True)) @ v, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("num_stages", [1, 2, 3, 4])
def test_8139_pipelined_load_used_under_a_condition(num_stages, target):
    a, b = small(F16, (32, 256), 1), small(F16, (256, 32), 2)
    flags = np.array([1, 0, 0, 1, 1, 0, 1, 0], dtype=np.int32)
    out = harness.empty(F32, (32, 32))
    harness.make(f"""@triton.jit
def kernel(a_ptr, b_ptr, flags_ptr, c_ptr, steps):
    acc = tl.zeros((32, 32), tl.float32)
    for k in range(steps):
        a = tl.load(a_ptr + k * 32 + {tile(32, 32, 256)})
        b = tl.load(b_ptr + k * 1024 + {tile(32, 32)})
        if tl.load(flags_ptr + k) != 0:
            acc = tl.dot(a, b, acc)
        else:
            acc += tl.sum(a.to(tl.float32), 1)[:, None]
    tl.store(c_ptr + {tile(32, 32)}, acc)
""")[(1,)](harness.to_tensor(a, F16), harness.to_tensor(b, F16), torch.from_numpy(flags), out, 8, num_stages=num_stages)
    want = np.zeros((32, 32))
    for k, flag in enumerate(flags):
        left, right = a[:, 32 * k:32 * k + 32], b[32 * k:32 * k + 32]
        want += left @ right if flag else left.sum(axis=1)[:, None]
    np.testing.assert_array_equal(out.numpy(), want)


@pytest.mark.parametrize("order", ["abcd", "dcba", "badc", "cadb"])
@pytest.mark.parametrize("num_stages", [2, 3])
def test_6691_order_of_the_lines(num_stages, order, target):
    """Statements of a pipelined loop that do not depend on each other, in several orders."""
    statements = {
        "a": "x = tl.load(a_ptr + k * 32 + left)", "b": "y = tl.load(b_ptr + k * 1024 + right)",
        "c": "scale = tl.load(s_ptr + k)", "d": "total += tl.load(r_ptr + k * 32 + tl.arange(0, 32))",
    }
    body = "\n        ".join(statements[letter] for letter in order)
    a, b, s, r = (small(d, shape, i) for i, (d, shape) in enumerate([(F16, (32, 192)), (F16, (192, 32)), (F32, (6,)), (F32, (6, 32))]))
    out = harness.empty(F32, (32, 32))
    harness.make(f"""@triton.jit
def kernel(a_ptr, b_ptr, s_ptr, r_ptr, c_ptr, steps):
    left, right = {tile(32, 32, 192)}, {tile(32, 32)}
    acc = tl.zeros((32, 32), tl.float32)
    total = tl.zeros((32,), tl.float32)
    for k in range(steps):
        {body}
        acc += tl.dot(x, y) * scale
    tl.store(c_ptr + right, acc + total[None, :])
""")[(1,)](*(harness.to_tensor(x, d) for x, d in ((a, F16), (b, F16), (s, F32), (r, F32))), out, 6, num_stages=num_stages)
    want = sum(a[:, 32 * k:32 * k + 32] @ b[32 * k:32 * k + 32] * s[k] for k in range(6)) + r.sum(axis=0)
    np.testing.assert_array_equal(out.numpy(), want)


@pytest.mark.parametrize("num_stages", [1, 3])
def test_3469_mask_in_another_layout(num_stages, target):
    """The mask of a pipelined load comes from a reduction, not from the offsets."""
    a, b, w = small(F16, (32, 128), 1), small(F16, (128, 32), 2), small(F32, (32, 32), 3)
    out = harness.empty(F32, (32, 32))
    harness.make(f"""@triton.jit
def kernel(a_ptr, b_ptr, w_ptr, c_ptr, steps):
    kept = tl.sum(tl.load(w_ptr + {tile(32, 32)}), 1) > 0
    acc = tl.zeros((32, 32), tl.float32)
    for k in range(steps):
        a = tl.load(a_ptr + k * 32 + {tile(32, 32, 128)}, mask=kept[:, None], other=0.25)
        b = tl.load(b_ptr + k * 1024 + {tile(32, 32)}, mask=kept[None, :], other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + {tile(32, 32)}, acc, mask=kept[:, None] | kept[None, :])
""")[(1,)](harness.to_tensor(a, F16), harness.to_tensor(b, F16), harness.to_tensor(w, F32), out, 4, num_stages=num_stages)
    kept = w.sum(axis=1) > 0
    want = np.where(kept[:, None], a, 0.25) @ np.where(kept[None, :], b, 0.0)
    np.testing.assert_array_equal(out.numpy(), np.where(kept[:, None] | kept[None, :], want, 77.0))


# Branches and assumptions.

@pytest.mark.parametrize("flag", [0, 1])
def test_11153_store_of_one_program_after_an_opaque_branch(flag, target):
    x = harness.values(F32, (4, 128), 1)
    out = harness.empty(F32, (4, 128))
    harness.make("""@triton.jit
def kernel(x_ptr, y_ptr, flag_ptr):
    pid = tl.program_id(0)
    i = tl.arange(0, 128)
    x = tl.load(x_ptr + pid * 128 + i)
    total = tl.sum(x, 0)
    if tl.load(flag_ptr) != 0:
        total = tl.max(x, 0)
    tl.store(y_ptr + pid * 128 + i, x - total, mask=(pid != 0) & (i < 128))
    tl.store(y_ptr + i, x + tl.sum(x * 0.0 + 1.0, 0), mask=pid == 0)
""")[(4,)](harness.to_tensor(x, F32), out, torch.tensor([flag], dtype=torch.int32))
    want = x - (x.max(axis=1) if flag else x.sum(axis=1))[:, None]
    want[0] = x[0] + 128
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-5, atol=1e-4)


def test_11326_scratch_memory_before_a_call(target):
    """A function that reduces is called right after a reduction and inside both sides of a branch."""
    x = np.random.default_rng(1).integers(-8, 9, (32, 64)).astype(np.int32)
    out = torch.zeros(2, 32, dtype=torch.int32)
    kernel = harness.make(f"""@triton.jit
def normalised(x, axis: tl.constexpr):
    return tl.cumsum(x - tl.sum(x, axis, keep_dims=True), axis)

@triton.jit
def kernel(x_ptr, y_ptr):
    x = tl.load(x_ptr + {tile(32, 64)})
    first = tl.max(x, 1)
    if tl.program_id(0) == 0:
        y = normalised(x + first[:, None], 0)
    else:
        y = normalised(normalised(x, 1), 0)
    tl.store(y_ptr + tl.program_id(0) * 32 + tl.arange(0, 32), tl.sum(y, 1))
""")
    kernel[(2,)](torch.from_numpy(x), out)

    def normalised(v, axis):
        return np.cumsum(v - v.sum(axis=axis, keepdims=True), axis)
    want = [normalised(x + x.max(axis=1)[:, None], 0).sum(axis=1), normalised(normalised(x, 1), 0).sum(axis=1)]
    np.testing.assert_array_equal(out.numpy(), want)


@pytest.mark.parametrize("stride", [0, 1, 64])
def test_aiter_5428_assumed_stride(stride, target):
    """What is assumed of a stride leaves 0 possible: every load is then of one element."""
    x = harness.values(F32, (64 * 64,), 2)
    out = harness.empty(F32, (64,))
    harness.make("""@triton.jit
def kernel(x_ptr, y_ptr, stride):
    tl.assume(stride >= 0)
    i = tl.arange(0, 64)
    tl.store(y_ptr + i, tl.load(x_ptr + i * stride))
""")[(1,)](harness.to_tensor(x, F32), out, stride)
    np.testing.assert_array_equal(out.numpy(), x[np.arange(64) * stride])


@pytest.mark.parametrize("n", [0, 1, 7])
def test_741_argument_assigned_again(n, target):
    """What an argument was specialised on, the value 1 or that it is divisible by 16, does not hold for its next values."""
    out = torch.full((3,), -1, dtype=torch.int32)
    kernel = harness.make("""@triton.jit
def kernel(out, one, sixteen, n):
    for k in range(n):
        one = one + 1
        sixteen = sixteen + 3
    if n == 7:
        out += 1
    tl.store(out, one)
    tl.store(out + 1, sixteen)
""")
    kernel[(1,)](out, 1, 16, n)
    want = [-1, -1, -1]
    want[n == 7], want[(n == 7) + 1] = 1 + n, 16 + 3 * n
    assert out.tolist() == want


def test_3648_none_and_numbers_are_different_kernels(target):
    kernel = harness.make("""@triton.jit
def kernel(out, x, y):
    r = 0
    if x is not None:
        r += 1
    if y is not None:
        r += 2
    tl.store(out, r)
""")
    other = torch.zeros(1)
    for x, y, want in [(None, None, 0), (other, None, 1), (None, other, 2), (other, other, 3), (None, None, 0), (1, None, 1), (None, 1, 2),
                       (17, 1, 3), (None, None, 0)]:
        out = torch.full((1,), -1, dtype=torch.int32)
        kernel[(1,)](out, x, y)
        assert out.item() == want


# Reductions and scans.

@pytest.mark.parametrize("num_warps", [1, 4, 8])
@pytest.mark.parametrize("block", [2, 16, 32, 64])
def test_2361_running_sums_in_a_loop(block, num_warps, target):
    """Blocks of fewer elements than threads, so several threads hold an element; the scratch memory is used again in each step."""
    rows, count = 4, 5
    x = small(F32, (rows, block * count), block)
    out = harness.empty(F32, (rows, block * count))
    harness.make(f"""@triton.jit
def kernel(x_ptr, y_ptr, n):
    row = tl.program_id(0) * n
    carry = 0.0
    for start in range(0, n, {block}):
        x = tl.load(x_ptr + row + start + tl.arange(0, {block}))
        tl.store(y_ptr + row + start + tl.arange(0, {block}), tl.cumsum(x, 0) + carry)
        carry += tl.sum(x, 0)
""")[(rows,)](harness.to_tensor(x, F32), out, block * count, num_warps=num_warps)
    np.testing.assert_array_equal(out.numpy(), np.cumsum(x, axis=1))


MATRICES = """@triton.jit
def multiply(a, b, c, d, e, f, g, h):
    return a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h


"""


@pytest.mark.overflows("its integers wrap on purpose")
@pytest.mark.parametrize("num_warps", [1, 4, 8])
@pytest.mark.parametrize("shape,axis,reverse", [((1024,), 0, False), ((1024,), 0, True), ((8, 128), 1, True), ((128, 8), 0, False),
                                                ((1, 64), 1, True), ((64, 1), 0, True), ((4, 16, 8), 1, True), ((4, 16, 8), 0, False)],
                         ids=str)
def test_2359_scan_of_products_that_do_not_commute(shape, axis, reverse, num_warps, target):
    """2359, 4362, 8412, ROCm 947: products of integer 2 x 2 matrices modulo 2^32, across warps, on every axis, from both ends."""
    rng = np.random.default_rng(len(shape))
    data = rng.integers(-2, 3, (4, *shape)).astype(np.int32)
    steps = [int(np.prod(shape[d + 1:])) for d in range(len(shape))]
    index = {1: ["[:]"], 2: ["[:, None]", "[None, :]"], 3: ["[:, None, None]", "[None, :, None]", "[None, None, :]"]}[len(shape)]
    offsets = " + ".join(f"tl.arange(0, {n}){i} * {s}" for n, i, s in zip(shape, index, steps))
    size = int(np.prod(shape))
    out = torch.zeros((4, *shape), dtype=torch.int32)
    harness.make(MATRICES + f"""@triton.jit
def kernel(x, y):
    i = {offsets}
    a, b, c, d = tl.load(x + i), tl.load(x + {size} + i), tl.load(x + {2 * size} + i), tl.load(x + {3 * size} + i)
    a, b, c, d = tl.associative_scan((a, b, c, d), {axis}, multiply, reverse={reverse})
    tl.store(y + i, a)
    tl.store(y + {size} + i, b)
    tl.store(y + {2 * size} + i, c)
    tl.store(y + {3 * size} + i, d)
""")[(1,)](torch.from_numpy(data), out, num_warps=num_warps)
    moved = np.moveaxis(data.astype(np.uint32), axis + 1, 1)
    moved = moved[:, ::-1] if reverse else moved
    want = moved.copy()
    for i in range(1, shape[axis]):
        a, b, c, d = want[:, i - 1]
        e, f, g, h = moved[:, i]
        with np.errstate(over="ignore"):
            want[:, i] = a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h
    want = np.moveaxis(want[:, ::-1] if reverse else want, 1, axis + 1)
    np.testing.assert_array_equal(out.numpy(), want.astype(np.int32))


@pytest.mark.parametrize("axis", [0, 1])
def test_2298_assertion_beside_a_scan(axis, target):
    """The assertion sees what the store sees, and changes nothing."""
    x = np.random.default_rng(3).integers(0, 9, (16, 64)).astype(np.int32)
    out = torch.zeros(16, 64, dtype=torch.int32)
    harness.make(f"""@triton.jit
def kernel(x_ptr, y_ptr):
    x = tl.load(x_ptr + {tile(16, 64)})
    y = tl.cumsum(x, {axis})
    tl.device_assert(y >= x, "a running sum below one of its terms")
    tl.device_assert(tl.max(y, {axis}) == tl.sum(x, {axis}), "the last running sum is not the sum")
    tl.store(y_ptr + {tile(16, 64)}, y)
""")[(1,)](torch.from_numpy(x), out, debug=True)
    np.testing.assert_array_equal(out.numpy(), np.cumsum(x, axis))


@pytest.mark.parametrize("num_warps", [1, 4, 8])
@pytest.mark.parametrize("shape,axis", [((1,), 0), ((1, 1), 0), ((1, 64), 0), ((64, 1), 1), ((8, 1, 16), 1), ((1, 1, 32), 0)], ids=str)
def test_3013_reduction_of_one_element(shape, axis, num_warps, target):
    x = np.random.default_rng(4).integers(-99, 99, shape).astype(np.int32)
    want = x.max(axis=axis)
    size = max(want.size, 1)
    index = {1: ["[:]"], 2: ["[:, None]", "[None, :]"], 3: ["[:, None, None]", "[None, :, None]", "[None, None, :]"]}[len(shape)]
    steps = [int(np.prod(shape[d + 1:])) for d in range(len(shape))]
    offsets = " + ".join(f"tl.arange(0, {n}){i} * {s}" for n, i, s in zip(shape, index, steps))
    out = torch.full((3, size), -777, dtype=torch.int32)
    flat = f"tl.reshape(%s, ({size},))" if want.ndim else "%s + tl.zeros((1,), tl.int32)"
    harness.make(f"""@triton.jit
def kernel(x_ptr, y_ptr):
    x = tl.load(x_ptr + {offsets})
    v, i = tl.max(x, {axis}, return_indices=True)
    tl.store(y_ptr + tl.arange(0, {size}), {flat % f'tl.max(x, {axis})'})
    tl.store(y_ptr + {size} + tl.arange(0, {size}), {flat % 'v'})
    tl.store(y_ptr + {2 * size} + tl.arange(0, {size}), {flat % 'i'})
""")[(1,)](torch.from_numpy(x), out, num_warps=num_warps)
    np.testing.assert_array_equal(out.numpy(), [want.reshape(-1), want.reshape(-1), np.zeros(size)])


# Conversions to eight bits: to the nearest, ties to even, the largest value instead of an overflow.

def nearest_fp8(wide, dtype):
    """Exact values rounded once to the nearest of the dtype's values; beyond the largest, the largest."""
    table = torch.arange(256, dtype=torch.uint8).view(dtype.torch).double().numpy()
    codes = np.flatnonzero(np.isfinite(table[:128]))
    values = table[codes]
    size = np.minimum(np.abs(wide), values[-1])
    above = np.clip(np.searchsorted(values, size), 1, len(values) - 1)
    low, high = values[above - 1], values[above]
    up = (size - low > high - size) | ((size - low == high - size) & (codes[above] % 2 == 0))
    return np.copysign(np.where(up, high, low), wide)


def converted(bits, source, expression, dtype):
    """Codes of the conversion of each pattern of `bits`, a tensor of integers."""
    out = torch.zeros(bits.numel(), dtype=torch.uint8)
    harness.make(f"""@triton.jit
def kernel(x_ptr, y_ptr):
    i = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    x = tl.load(x_ptr + i).to(tl.{source}, bitcast=True)
    tl.store(y_ptr + i, {expression}.to(tl.uint8, bitcast=True))
""")[(bits.numel() // 1024,)](bits, out)
    return out.view(dtype.torch).double().numpy()


def same(got, wide, dtype):
    finite = np.isfinite(wide)
    want = nearest_fp8(np.where(finite, wide, 0.0), dtype)
    np.testing.assert_array_equal(got[finite], want[finite])
    np.testing.assert_array_equal(np.signbit(got[finite]), np.signbit(want[finite]))
    assert np.isnan(got[np.isnan(wide)]).all()


@pytest.mark.parametrize("to", [E5M2, E4M3], ids=str)
@pytest.mark.parametrize("source", [F16, BF16], ids=str)
def test_5925_every_half_to_eight_bits(source, to, target):
    """5925, 6102, 11753."""
    bits = torch.arange(-2 ** 15, 2 ** 15, dtype=torch.int32).to(torch.int16)
    same(converted(bits, source, f"x.to(tl.{to})", to), bits.view(source.torch).double().numpy(), to)


@pytest.mark.parametrize("to", [E5M2, E4M3], ids=str)
def test_10846_floats_beside_ties_to_eight_bits(to, target):
    """10846, 7618: the upper half of each pattern, with lower halves that put it just below, on and just above a value that two
    roundings would take for a tie; overflows among them."""
    upper = np.arange(2 ** 16, dtype=np.uint32) << 16
    lower = np.array([0, 1, 0xfff, 0x1000, 0x8000, 0xffff], dtype=np.uint32)
    bits = torch.from_numpy((upper[:, None] | lower).reshape(-1).view(np.int32))
    same(converted(bits, F32, f"x.to(tl.{to})", to), bits.view(torch.float32).double().numpy(), to)


@pytest.mark.parametrize("to", [F16, BF16], ids=str)
def test_9808_mantissa_carry(to, target):
    """Values whose rounding carries into the exponent, to the next binade or to infinity."""
    exponents = np.arange(0, 256, dtype=np.uint32) << 23
    fractions = np.array([0x7fffff, 0x7ff000, 0x7fefff, 0x7fe000, 0x7f8000, 0x7f7fff, 0x7f0000, 0x001000, 0x003000, 0x008000, 0x018000, 0],
                         dtype=np.uint32)
    signs = np.array([0, 1 << 31], dtype=np.uint32)
    bits = (exponents[:, None, None] | fractions[:, None] | signs).reshape(-1).view(np.int32)
    x = torch.from_numpy(bits.copy()).view(torch.float32)
    out = harness.empty(to, (x.numel(),))
    harness.make(f"""@triton.jit
def kernel(x_ptr, y_ptr):
    i = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    tl.store(y_ptr + i, tl.load(x_ptr + i).to(tl.{to}))
""")[(x.numel() // 1024,)](x, out)
    np.testing.assert_array_equal(harness.exact(out), x.to(to.torch).double().numpy())
