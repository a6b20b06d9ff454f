"""Loads and stores: dtype x layout x mask, what masked lanes see and touch, hints, aliasing, pointers of every kind."""

import numpy as np
import pytest
import torch

import access
import harness
from harness import BOOL, DTYPES, FLOATS, FP8, INTS

COVERED = {"load", "store", "debug_barrier", "assume", "max_contiguous", "multiple_of", "max_constancy"}


@pytest.mark.parametrize("acc", access.EVERY, ids=str)
@pytest.mark.parametrize("dtype", [BOOL, *INTS, *FLOATS, *FP8], ids=str)
def test_copy(dtype, acc, target):
    data = harness.values(dtype, acc.shape)
    got, = acc.run("x0", [data], [dtype], [dtype])
    harness.check(got, data, dtype, 0)


@pytest.mark.parametrize("dtype", [DTYPES["float32"], DTYPES["int8"], DTYPES["bfloat16"], DTYPES["int64"]], ids=str)
@pytest.mark.parametrize("other", ["", ", other=5", ", other=-1.5", ", other=tl.full((64,), 5, tl.int32)"])
def test_masked_lanes(dtype, other, target):
    if "-1.5" in other and dtype.is_int:
        want_other = -1
    else:
        want_other = 0 if not other else -1.5 if "-1.5" in other else 5
    kernel = harness.make(f"""@triton.jit
def kernel(x_ptr, y_ptr, n):
    i = tl.arange(0, 64)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n{other}))
""")
    data = harness.values(dtype, (40,))
    for n in (0, 1, 16, 33, 40):
        out = harness.empty(dtype, (64,))
        kernel[(1,)](harness.to_tensor(data, dtype), out, n)
        harness.check(out[:n], data[:n], dtype, 0)
        if other:
            harness.check(out[n:], np.full(64 - n, want_other, dtype=np.int64 if dtype.is_int else np.float64), dtype, 0)


@pytest.mark.parametrize("n", [0, 1, 7, 16, 31, 64])
def test_masked_store_touches_nothing_else(n, target):
    out = torch.full((100,), 7, dtype=torch.int32)
    harness.make("""@triton.jit
def kernel(y_ptr, n):
    i = tl.arange(0, 64)
    tl.store(y_ptr + i, i, mask=i < n)
""")[(1,)](out, n)
    np.testing.assert_array_equal(out.numpy(), np.where(np.arange(100) < n, np.arange(100), 7))


def test_masks_of_any_pattern(target):
    pattern = torch.rand(128) > 0.5
    x, out = torch.randn(128), torch.zeros(128)
    harness.make("""@triton.jit
def kernel(x_ptr, m_ptr, y_ptr):
    i = tl.arange(0, 128)
    m = tl.load(m_ptr + i)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=m, other=-1.0), mask=m)
""")[(1,)](x, pattern, out)
    torch.testing.assert_close(out, torch.where(pattern, x, torch.zeros(())))


@pytest.mark.parametrize("mask", ["True", "False", "n > 3", "(i < n) & (i % 2 == 0)"])
def test_masks_that_are_not_blocks(mask, target):
    x, out = torch.arange(16.0), torch.full((16,), -5.0)
    harness.make(f"""@triton.jit
def kernel(x_ptr, y_ptr, n):
    i = tl.arange(0, 16)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask={mask}, other=0.0), mask={mask})
""")[(1,)](x, out, 9)
    i = np.arange(16)
    lanes = np.broadcast_to(eval(mask, {"i": i, "n": 9}), (16,))
    np.testing.assert_array_equal(out.numpy(), np.where(lanes, i, -5))


def test_store_narrows_and_broadcasts_the_value(target):
    out = torch.zeros(4, 8, dtype=torch.int8)
    harness.make("""@triton.jit
def kernel(y_ptr):
    p = y_ptr + tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(p, tl.arange(0, 8)[None, :] + 250)
""")[(1,)](out)
    want = (np.arange(8) + 250).astype(np.uint8).astype(np.int8)
    np.testing.assert_array_equal(out.numpy(), np.broadcast_to(want, (4, 8)))


@pytest.mark.parametrize("hints", ["cache_modifier='.ca'", "cache_modifier='.cg'", "eviction_policy='evict_first'",
                                   "eviction_policy='evict_last'", "volatile=True"])
def test_load_hints_change_nothing(hints, target):
    x, out = torch.randn(64), torch.empty(64)
    harness.make(f"""@triton.jit
def kernel(x_ptr, y_ptr):
    i = tl.arange(0, 64)
    tl.store(y_ptr + i, tl.load(x_ptr + i, {hints}))
""")[(1,)](x, out)
    assert torch.equal(x, out)


@pytest.mark.parametrize("shift", [-3, -1, 0, 1, 5, 16])
def test_a_block_is_read_whole_before_it_is_written(shift, target):
    """`v = load(p); store(p + k, v)` on one buffer: no part of the store may be seen by the load."""
    x = torch.arange(160, dtype=torch.int32)
    want = x.numpy().copy()
    want[16 + shift:16 + shift + 128] = x.numpy()[16:144]
    harness.make("""@triton.jit
def kernel(x_ptr, y_ptr, shift):
    i = tl.arange(0, 128) + 16
    v = tl.load(x_ptr + i)
    tl.store(y_ptr + i + shift, v)
""")[(1,)](x, x, shift)
    np.testing.assert_array_equal(x.numpy(), want)


def test_a_load_after_a_store_sees_it(target):
    x, out = torch.zeros(128), torch.empty(128)
    harness.make("""@triton.jit
def kernel(x_ptr, y_ptr):
    i = tl.arange(0, 128)
    tl.store(x_ptr + i, i * 2.0)
    tl.debug_barrier()
    tl.store(y_ptr + i, tl.load(x_ptr + 127 - i))
""")[(1,)](x, out)
    np.testing.assert_array_equal(out.numpy(), 2.0 * np.arange(127, -1, -1))


def test_stores_to_one_address_in_program_order(target):
    out = torch.zeros(1, dtype=torch.int32)
    harness.make("""@triton.jit
def kernel(y_ptr, n):
    for i in range(0, n):
        tl.store(y_ptr, tl.load(y_ptr) * 3 + i)
""")[(1,)](out, 7)
    want = 0
    for i in range(7):
        want = want * 3 + i
    assert out.item() == want


def test_wrapped_offsets(target):
    """Offsets modulo a size, as matmul kernels use them to stay in bounds."""
    x = torch.randn(100)
    for size in (16, 48, 60, 100):
        out = torch.empty(128)
        harness.make("""@triton.jit
def kernel(x_ptr, y_ptr, size):
    i = tl.arange(0, 128)
    tl.store(y_ptr + i, tl.load(x_ptr + (i + 5) % size))
""")[(1,)](x, out, size)
        np.testing.assert_array_equal(out.numpy(), x.numpy()[(np.arange(128) + 5) % size])


def test_unsigned_offsets_are_zero_extended(target):
    x = torch.arange(64.0)
    out = torch.empty(16)
    harness.make("""@triton.jit
def kernel(x_ptr, y_ptr):
    i = tl.arange(0, 16).to(tl.uint8) + 128
    tl.store(y_ptr + i - 128, tl.load(x_ptr - 100 + i))
""")[(1,)](x, out)
    np.testing.assert_array_equal(out.numpy(), np.arange(28.0, 44.0))


@pytest.mark.overflows("its integers wrap on purpose")
@pytest.mark.parametrize("start", [2 ** 32 - 4, 2 ** 32 - 16])
def test_offsets_that_wrap_inside_a_block(start, target):
    """uint32 arithmetic wraps between two lanes of one vector: the lanes after it are at the front."""
    x = torch.arange(64, dtype=torch.int32)
    out = torch.full((16,), -1, dtype=torch.int32)
    harness.make("""@triton.jit
def kernel(x_ptr, y_ptr, start):
    lane = tl.arange(0, 16)
    i = lane.to(tl.uint32) + start.to(tl.uint32)
    tl.store(y_ptr + lane, tl.load(x_ptr + i, mask=i < 64, other=-2))
""")[(1,)](x, out, start)
    i = (np.arange(16, dtype=np.uint64) + start) % 2 ** 32
    np.testing.assert_array_equal(out.numpy(), np.where(i < 64, i.astype(np.int64), -2))


def test_pointers_through_integers_and_where(target):
    x, y, out = torch.arange(32.0), torch.arange(32.0) + 100, torch.empty(32)
    harness.make("""@triton.jit
def kernel(x_ptr, y_ptr, o_ptr):
    i = tl.arange(0, 32)
    p = tl.where(i % 2 == 0, x_ptr + i, y_ptr + i)
    q = p.to(tl.int64).to(tl.pointer_type(tl.float32))
    tl.store(o_ptr + i, tl.load(q))
""")[(1,)](x, y, out)
    i = np.arange(32.0)
    np.testing.assert_array_equal(out.numpy(), np.where(i % 2 == 0, i, i + 100))


@pytest.mark.parametrize("hint", ["tl.multiple_of(i, 16)", "tl.max_contiguous(i, 64)", "tl.max_constancy(i, 1)"])
def test_block_hints_return_their_operand(hint, target):
    x, out = torch.randn(64), torch.empty(64)
    harness.make(f"""@triton.jit
def kernel(x_ptr, y_ptr, n):
    tl.assume(n > 0)
    i = tl.arange(0, 64)
    i = {hint}
    tl.store(y_ptr + i, tl.load(x_ptr + i))
""")[(1,)](x, out, 64)
    assert torch.equal(x, out)


def test_same_buffer_twice_is_not_restrict(target):
    x = torch.arange(256.0)
    harness.make("""@triton.jit
def kernel(a_ptr, b_ptr):
    i = tl.arange(0, 128)
    a = tl.load(a_ptr + i)
    tl.store(b_ptr + i, a + 1)
    c = tl.load(a_ptr + i)
    tl.store(b_ptr + 128 + i, c)
""")[(1,)](x, x)
    np.testing.assert_array_equal(x.numpy(), np.concatenate([np.arange(128.0) + 1] * 2))


def test_zero_stride_views(target):
    x = torch.randn(16, 1).expand(16, 32)
    out = torch.empty(16, 32)
    harness.make("""@triton.jit
def kernel(x_ptr, y_ptr, s0, s1):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 32)[None, :]
    tl.store(y_ptr + i * 32 + j, tl.load(x_ptr + i * s0 + j * s1))
""")[(1,)](x, out, *x.stride())
    assert torch.equal(x, out)


def test_address_with_a_part_that_is_affine_only_sometimes(target):
    """`i % n` is a step from 0 only where the block holds no multiple of n; what is added to it is a gather in any case."""
    kernel = harness.make("""@triton.jit
def kernel(index_ptr, table_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(index_ptr + i // n)
    tl.store(y_ptr + i, tl.load(table_ptr + i % n + n * row))
""")
    n, block = 37, 128
    index = torch.tensor([3, 10, 0, 5])
    table = torch.arange(11 * n, dtype=torch.float32)
    y = torch.empty(block)
    kernel[(1,)](index, table, y, n, BLOCK=block)
    assert torch.equal(y, table.view(-1, n)[index].flatten()[:block])


@pytest.mark.overflows("its integers wrap on purpose")
def test_unrolled_chains_of_values_used_several_times(target):
    """Every step uses the one before it two or three times, and addresses depend on all: nothing may follow every path through them."""
    kernel = harness.make("""@triton.jit
def kernel(table_ptr, wanted_ptr, place_ptr, hash_ptr, N: tl.constexpr):
    i = tl.arange(0, 64)
    wanted = tl.load(wanted_ptr + i)
    low, high = tl.zeros([64], tl.int32), tl.full([64], 256, tl.int32)
    for _ in tl.static_range(9):
        middle = (low + high) >> 1
        below = tl.load(table_ptr + middle, mask=low < high, other=0.0) < wanted
        low, high = tl.where(below & (low < high), middle + 1, low), tl.where(below, high, middle)
    tl.store(place_ptr + i, low)
    h = i.to(tl.uint32)
    for _ in tl.static_range(N):
        h = (h ^ (h >> 15)) * 0x2C1B3C6D + h
    tl.store(hash_ptr + i, tl.load(table_ptr + (h & 255)))
""")
    table = np.sort(np.random.default_rng(0).random(257).astype(np.float32))
    table[256] = 2
    wanted = np.random.default_rng(1).random(64).astype(np.float32)
    place, found = np.empty(64, np.int32), np.empty(64, np.float32)
    kernel[(1,)](table, wanted, place, found, N=40)
    np.testing.assert_array_equal(place, np.searchsorted(table[:256], wanted))
    h = np.arange(64, dtype=np.uint32)
    for _ in range(40):
        h = (h ^ (h >> np.uint32(15))) * np.uint32(0x2C1B3C6D) + h
    np.testing.assert_array_equal(found, table[h & 255])


@pytest.mark.parametrize("rows", [3, 8])
def test_a_load_has_the_shape_of_pointer_and_mask(rows, target):
    kernel = harness.make("""
@triton.jit
def kernel(x, out, rows):
    i, j = tl.arange(0, 8)[:, None], tl.arange(0, 16)
    y = tl.load(x + j, mask=(i < rows) & (j < 13)[None, :], other=-1.0)
    z = tl.load(x + j[None, :], mask=i < rows, other=j)
    tl.store(out + i * 16 + j[None, :], y * 2 + z)
""")
    x, out = torch.randn(16), torch.zeros(8, 16)
    kernel[(1,)](x, out, rows)
    j = torch.arange(16.0)
    inside = torch.arange(8)[:, None] < rows
    y = torch.where(inside & (j < 13), x, torch.tensor(-1.0))
    assert torch.equal(out, y * 2 + torch.where(inside, x, j))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("stride", [1, 2, 7, -3])
def test_costly_elements_across_memory(stride, dtype, target):
    """Strides that only the launch knows: what is computed of the elements costs more than to collect them, also under masks and in reductions."""
    dtype = DTYPES[dtype]
    rows, columns, reach = 5, 100, 100 * 7
    x = harness.values(dtype, (rows, 2 * reach), 1, low=0.5, high=2.0)
    out, sums = harness.empty(DTYPES["float32"], (rows, 2 * reach)), harness.empty(DTYPES["float32"], (rows,))
    harness.make("""@triton.jit
def kernel(x_ptr, out_ptr, sums_ptr, columns, row_stride, stride):
    j = tl.arange(0, 128)
    start = tl.program_id(0) * row_stride + row_stride // 2
    x = tl.load(x_ptr + start + j * stride, mask=j < columns, other=1.0).to(tl.float32)
    y = tl.exp(x) * tl.log(x) + tl.sqrt(x) / (x + 1)
    tl.store(out_ptr + start + j * stride, y, mask=j < columns)
    tl.store(sums_ptr + tl.program_id(0), tl.sum(tl.where(j < columns, y, 0.0), 0))
""")[(rows,)](harness.to_tensor(x, dtype), out, sums, columns, 2 * reach, stride)
    places = reach + np.arange(columns) * stride
    picked = x[:, places].astype(np.float64)
    want = np.exp(picked) * np.log(picked) + np.sqrt(picked) / (picked + 1)
    np.testing.assert_allclose(out.numpy()[:, places], want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(sums.numpy(), want.sum(1), rtol=1e-5)
