"""Kernels that the random programs (tests/generator) found to be compiled wrongly, made small."""

import numpy as np
import pytest
import torch

import harness
from harness import DTYPES

I8, I32, F32 = (DTYPES[n] for n in ("int8", "int32", "float32"))


def test_masked_rows_in_front_of_a_pointer(target):
    """Rows at negative distances: the offset of an instruction's address is negative."""
    kernel = harness.make("""@triton.jit
def kernel(x_ptr, y_ptr, n):
    i, j = tl.arange(0, 4)[:, None], tl.arange(0, 64)[None, :]
    x = tl.load(x_ptr + i * -64 + j, mask=(j != n) & (i < 4), other=5)
    tl.store(y_ptr + 192 + i * -64 + j, x, mask=j < n)
""")
    x = harness.values(I32, (4, 64), seed=1)
    out = harness.empty(I32, (4, 64))
    kernel[(1, )](harness.to_tensor(x, I32)[3:], out, 33)
    want = np.full((4, 64), 77)
    want[:, :33] = x[:, :33]
    np.testing.assert_array_equal(out.numpy(), harness.wrap(want, I32))


def test_one_element_of_a_truncated_block(target):
    """The only lane stored of a truncated vector is stored with its own width."""
    kernel = harness.make("""@triton.jit
def kernel(x_ptr, y_ptr, n):
    i = tl.arange(0, 8)
    x = tl.cumsum(tl.load(x_ptr + i), 0)
    tl.store(y_ptr + i, x.to(tl.int16), mask=i < n)
""")
    x = np.arange(8) * 1000003
    for n in (1, 2):  # 1 is known while compiling
        out = harness.empty(DTYPES["int16"], (8, ))
        kernel[(1, )](torch.from_numpy(x), out, n)
        want = np.full(8, 77)
        want[:n] = np.cumsum(x)[:n]
        np.testing.assert_array_equal(out.numpy(), want.astype(np.int16))


def test_function_of_blocks_that_is_not_to_be_inlined(target):
    """A `noinline` function that reduces a block inside, called by another one."""
    kernel = harness.make("""@triton.jit
def largest(a, b):
    return tl.maximum(a, b)


@triton.jit(noinline=True)
def inner(n):
    return tl.sum(tl.arange(0, 64) * n, 0), tl.reduce(tl.full((2, 1), n, tl.int32)[-1, :], 0, largest)


@triton.jit(noinline=True)
def outer(n):
    a, b = inner(n)
    return a + b


@triton.jit(noinline=True)
def scalars(n):
    return n * n


@triton.jit
def kernel(y_ptr, n):
    tl.store(y_ptr, outer(n) + scalars(n))
""")
    out = harness.empty(I32, (1, ))
    kernel[(1, )](out, 7)
    assert out.item() == 2016 * 7 + 7 + 49


@pytest.mark.parametrize("dtype", ["float64", "int32", "float32"])
def test_half_of_a_vector_is_masked_off(target, dtype):
    """Columns that a mask never lets through, in vectors wider than a register of the machine: filled with `other`, not written."""
    kernel = harness.make("""@triton.jit
def kernel(x_ptr, y_ptr, z_ptr, n):
    i, j = tl.arange(0, 32)[:, None], tl.arange(0, 16)[None, :]
    x = tl.load(x_ptr + i * n + j, mask=(i != 30) & (j < 4), other=-2)
    tl.store(y_ptr + i * 16 + j, x)
    tl.store(z_ptr + i * 16 + j, tl.load(x_ptr + i * n + j), mask=(i != n) & (j >= 8))
    tl.store(z_ptr + 512 + i * 16 + j, tl.load(x_ptr + i * n + j, mask=(i < n) & (j >= 8), other=3))
""")
    dtype = DTYPES[dtype]
    x = harness.values(dtype, (32, 16), seed=1)
    y, z = harness.empty(dtype, (32, 16)), harness.empty(dtype, (64, 16))
    kernel[(1, )](harness.to_tensor(x, dtype), y, z, 16)
    i, j = np.arange(32)[:, None], np.arange(16)[None, :]
    np.testing.assert_array_equal(y.numpy(), np.where((i != 30) & (j < 4), x, -2))
    np.testing.assert_array_equal(z.numpy()[:32], np.where((i != 16) & (j >= 8), x, 77))
    np.testing.assert_array_equal(z.numpy()[32:], np.where((i < 16) & (j >= 8), x, 3))


def test_leaving_a_loop_on_the_else_side(target):
    """The condition of the flag, negated, is computed in front of what uses it."""
    for word, want in (("continue", [2, 2, 77, 2]), ("break", [2, 2, 77, 77]), ("return", [2, 2, 77, 77])):
        kernel = harness.make(f"""@triton.jit
def kernel(x_ptr, y_ptr, n):
    for i in range(0, n):
        if tl.load(x_ptr + i) != 0:
            tl.store(y_ptr + i, 1)
        else:
            {word}
        tl.debug_barrier()
        tl.store(y_ptr + i, 2)
""")
        out = harness.empty(I32, (4, ))
        kernel[(1, )](harness.to_tensor(np.array([1, 1, 0, 1]), I32), out, 4)
        np.testing.assert_array_equal(out.numpy(), want)
