"""Kernels that the random programs (tests/generator) found to be compiled wrongly, made small."""

import re

import numpy as np
import pytest
import torch

import harness
from harness import DTYPES

I8, I32, F16, F32 = (DTYPES[n] for n in ("int8", "int32", "float16", "float32"))


@pytest.mark.not_in_mode("checked", "it reads rows in front of the view that it is given")
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


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64"])
def test_the_absolute_value_of_the_smallest_integer(target, name):
    """It is itself, and negative: less than all others."""
    kernel = harness.make("""@triton.jit
def kernel(x_ptr, y_ptr, z_ptr):
    x = tl.abs(tl.load(x_ptr + tl.arange(0, 128)))
    largest, index = tl.max(tl.reshape(x, (64, 2)), 1, return_indices=True)
    tl.store(y_ptr + tl.arange(0, 64), index)
    tl.store(z_ptr + tl.arange(0, 128), x.to(tl.int64) < 0)
""")
    dtype = DTYPES[name]
    x = np.arange(128) - 64
    x[::6] = -1 << (int(name[3:]) - 1)
    y, z = harness.empty(I32, (64, )), harness.empty(I32, (128, ))
    kernel[(1, )](harness.to_tensor(x, dtype), y, z)
    magnitude = np.where(x < -64, x, np.abs(x))
    np.testing.assert_array_equal(y.numpy(), np.argmax(magnitude.reshape(64, 2), 1))
    np.testing.assert_array_equal(z.numpy(), magnitude < 0)


@pytest.mark.parametrize("rounds", [0, 2])
def test_range_that_a_loop_needs_in_memory(target, rounds):
    """What a loop body writes to memory for its own use, a range for a scan, is there in that body alone."""
    kernel = harness.make("""@triton.jit
def pair(a, i, b, j):
    return tl.minimum(a, b), tl.maximum(i, j)


@triton.jit
def kernel(x_ptr, y_ptr, n):
    i = tl.arange(0, 128)
    for _ in range(0, n):
        least, _ = tl.associative_scan((tl.load(x_ptr + i), i), 0, pair)
        tl.store(y_ptr + 4096 + i, least)
    if n >= 0:
        _, most = tl.associative_scan((tl.load(x_ptr + i), i), 0, pair)
        tl.store(y_ptr + 4224 + i, most)
    j, k = tl.arange(0, 8)[None, :, None], tl.arange(0, 2)[None, None, :]
    tl.store(y_ptr + i[:, None, None] * 8 + j + k * 1024, i[:, None, None] + j + k)
""")
    x = harness.values(I32, (128, ), seed=1)
    out = harness.empty(I32, (4352, ))
    kernel[(1, )](harness.to_tensor(x, I32), out, rounds)
    got = out.numpy()
    j, i, k = np.arange(8)[None, :, None], np.arange(128)[:, None, None], np.arange(2)[None, None, :]
    np.testing.assert_array_equal(got[:2048].reshape(2, 1024).T.reshape(128, 8, 2), i + j + k)
    np.testing.assert_array_equal(got[4096:4224], np.minimum.accumulate(x) if rounds else np.full(128, 77))
    np.testing.assert_array_equal(got[4224:], np.arange(128))


def test_function_called_twice_computes_twice(target):
    """A `noinline` function that needs a block in memory, called with other arguments."""
    kernel = harness.make("""@triton.jit(noinline=True)
def largest(n):
    return tl.max(tl.cumsum(tl.arange(0, 32) * n, 0), 0)


@triton.jit
def kernel(y_ptr, n):
    tl.store(y_ptr, largest(n))
    tl.store(y_ptr + 1, largest(n + 1))
""")
    out = harness.empty(I32, (2, ))
    kernel[(1, )](out, 3)
    np.testing.assert_array_equal(out.numpy(), [496 * 3, 496 * 4])


def test_comparison_of_bits_of_another_float(target):
    """fp16 whose bits are read as bf16, and the other way round, and compared."""
    kernel = harness.make("""@triton.jit
def kernel(x_ptr, y_ptr):
    i = tl.arange(0, 64)
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + i, x.to(tl.float16).to(tl.bfloat16, bitcast=True) != 0.0)
    tl.store(y_ptr + 64 + i, x.to(tl.bfloat16).to(tl.float16, bitcast=True) > 1.0)
""")
    x = np.arange(64) - 32
    out = harness.empty(I32, (128, ))
    kernel[(1, )](harness.to_tensor(x, I32), out)
    upper = torch.from_numpy(x).to(torch.bfloat16).view(torch.float16).numpy() > 1
    np.testing.assert_array_equal(out.numpy(), np.concatenate([x != 0, upper]))


TRUTH = """@triton.jit
def kernel(x_ptr, y_ptr):
    i = tl.arange(0, 64)
    x = (tl.load(x_ptr + i, mask=i < 61, other=0) != 0).to(TYPE).to(tl.FLOAT, bitcast=True)
    tl.store(y_ptr + i, RESULT)
"""


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_truth_values_as_bits_of_floats(target, name):
    """The smallest denormal, a truth value's bits: ptxas made it the integer 1 before conversions and negations."""
    width = 32 if name == "float32" else 16
    source = TRUTH.replace("TYPE", f"tl.int{width}").replace("FLOAT", name)
    kinds = (f"(-x).to(tl.int{width}, bitcast=True)", "x.to(tl.int32)", "tl.ceil(x.to(tl.float32)).to(tl.int32)")
    x = np.arange(64) % 3
    truth = (x != 0) & (np.arange(64) < 61)
    for result, want in zip(kinds, (truth - (1 << width - 1), np.zeros(64, int), truth.astype(int))):
        out = harness.empty(I32, (64, ))
        harness.make(source.replace("RESULT", result))[(1, )](harness.to_tensor(x, I32), out)
        np.testing.assert_array_equal(out.numpy(), want, result)


@pytest.mark.parametrize("device", ["cuda:80", "cuda:90", "cuda:100"])
def test_machine_code_converts_truth_values_as_floats(device):
    """The same in machine code, for GPUs that need not be there: the conversion is one of floats."""
    kernel = harness.make(TRUTH.replace("TYPE", "tl.int32").replace("FLOAT", "float32").replace("RESULT", "x.to(tl.int32)"))
    try:
        code = kernel.warmup(harness.empty(I32, (64, )), harness.empty(I32, (64, )), grid=(1, ), target=device).asm["sass"]
    except Exception as error:
        if "nvdisasm" not in str(error) and "no assembler" not in str(error):
            raise
        pytest.skip(str(error))
    assert "F2I" in code


ONTO_ITSELF = """@triton.jit
def kernel(x_ptr, y_ptr, z_ptr, K: tl.constexpr):
    i, k = tl.arange(0, 64), tl.arange(0, K)
    x = tl.load(x_ptr + i[:, None] * K + k[None, :]).to(tl.float32)
    x = tl.maximum(x, 0.0).to(tl.float16)
    y = tl.load(y_ptr + k[:, None] * K + k[None, :])
    tl.store(z_ptr + i[:, None] * K + k[None, :], tl.dot(x, y, acc=x, out_dtype=tl.float16))
"""


@pytest.mark.parametrize("k", [32, 64])
def test_products_added_to_an_operand(target, k):
    """The accumulator is the left operand: they were given the same registers, which the matrix unit writes while it reads."""
    random = np.random.default_rng(k)
    x, y = random.integers(-3, 4, (64, k)), random.integers(-3, 4, (k, k))
    out = harness.empty(F16, (64, k))
    harness.make(ONTO_ITSELF)[(1, )](harness.to_tensor(x, F16), harness.to_tensor(y, F16), out, K=k)
    x = np.maximum(x, 0)
    np.testing.assert_array_equal(out.numpy(), x + x @ y)


def test_operands_of_wgmma_have_registers_of_their_own():
    """An operand that is the accumulator too is read from shared memory."""
    kernel = harness.make(ONTO_ITSELF)
    arrays = [harness.empty(F16, shape) for shape in ((64, 64), (64, 64), (64, 64))]
    ptx = kernel.warmup(*arrays, K=64, grid=(1, ), target="cuda:90").asm["ptx"]
    products = re.findall(r"wgmma\.mma_async\S+ \{([^}]*)\}, (\S+)", ptx)
    assert products and all(operand == "descA," for sums, operand in products), products  # registers are in braces


SHORT_PRODUCT = """@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, y_ptr):
    r = tl.arange(0, 16)
    a = tl.load(a_ptr + r[:, None] * 16 + r[None, :]).to(tl.FLOAT)
    b = tl.load(b_ptr + r[:, None] * 16 + r[None, :]).to(tl.FLOAT)
    place = tl.program_id(0) * 144
    tl.store(c_ptr + place + r[:, None] * 16 + r[None, :], tl.dot(a, b))
    tl.store(y_ptr + tl.program_id(0), place)
"""


@pytest.mark.parametrize("name", ["float8e5", "float8e4nv"])
def test_products_of_few_8_bit_floats(target, name):
    """K is filled up with zeros; ptxas took half of them from the constant 144."""
    a, b = (np.random.default_rng(n).integers(-1, 2, (16, 16)).astype(np.float32) for n in (1, 2))
    c, y = harness.empty(F32, (16, 16)), harness.empty(I32, (1, ))
    harness.make(SHORT_PRODUCT.replace("FLOAT", name))[(1, )](harness.to_tensor(a, F32), harness.to_tensor(b, F32), c, y)
    np.testing.assert_array_equal(c.numpy(), a @ b)


@pytest.mark.parametrize("device, eight", [("cuda:89", True), ("cuda:90", False), ("cuda:100", False), ("cuda:120", True)])
@pytest.mark.parametrize("name, word", [("float8e5", "e5m2"), ("float8e4nv", "e4m3")])
def test_the_assembler_makes_no_products_of_8_bit_floats(device, eight, name, word):
    kernel = harness.make(SHORT_PRODUCT.replace("FLOAT", name))
    arguments = [harness.empty(F32, (256, )) for _ in range(3)] + [harness.empty(I32, (1, ))]
    ptx = kernel.warmup(*arguments, grid=(1, ), target=device).asm["ptx"]
    assert (f".f32.{word}.{word}.f32" in ptx) == eight and ("m16n8k16.row.col.f32.f16.f16.f32" in ptx) != eight


SCANNED_TWICE = """@triton.jit
def pair(a, i, b, j):
    return tl.minimum(a, b), tl.maximum(i, j)


@triton.jit
def kernel(x_ptr, y_ptr, z_ptr, n1: tl.int64, n3: tl.int64, step):
    row, column = tl.arange(0, 8)[:, None], tl.arange(0, 64)[None, :]
    for turn in tl.static_range(2):
        y = tl.load(y_ptr + 33 + (n1 & 3) * 16 + (row * step + column.to(tl.uint32)), volatile=True)
        x = tl.load(x_ptr + (row * (-64) + (column + (n3 | n1))).to(tl.int64), cache_modifier=".cg")
        least = tl.associative_scan((x, y), 0, pair)[0]
        tl.store(z_ptr + (tl.program_id(0) * 512 + row * 64 + column), least)
"""


@pytest.mark.not_in_mode("checked", "it reads rows in front of the view that it is given")
def test_scans_of_16_bit_floats_over_warps(target):
    """What lies before a warp's rows is chosen by its number; ptxas mixed the choice up with its parts, one row came out as if two before it were not there."""
    random = np.random.default_rng(3)
    x, y = random.integers(-40, 40, 8 * 64 + 5) / 4, random.integers(-9, 9, 8 * 64 + 33)
    held, out = harness.to_tensor(x, F16), harness.empty(F16, (8, 64))
    harness.make(SCANNED_TWICE)[(1, )](held[7 * 64:], harness.to_tensor(y, I32), out, 4, 1, 64, num_warps=8)
    np.testing.assert_array_equal(out.numpy(), np.minimum.accumulate(x[5:].reshape(8, 64)[::-1], 0))


@pytest.mark.overflows("its integers wrap on purpose")
@pytest.mark.parametrize("wide", ["int32", "uint32", "int64", "float32"])
@pytest.mark.parametrize("name", ["int8", "int16"])
def test_the_negation_of_the_smallest_integer(target, name, wide):
    """It is itself, whatever it is converted to; ptxas widened it first."""
    dtype, result = DTYPES[name], DTYPES[wide]
    kernel = harness.make(f"""@triton.jit
def kernel(x_ptr, y_ptr):
    i = tl.arange(0, 128)
    tl.store(y_ptr + i, (-tl.load(x_ptr + i)).to(tl.{wide}))
""")
    x = (np.arange(128) - 64).astype(name)
    x[::6] = np.iinfo(name).min
    y = harness.empty(result, (128, ))
    kernel[(1, )](harness.to_tensor(x, dtype), y)
    np.testing.assert_array_equal(y.numpy(), (-x).astype(wide))


@pytest.mark.parametrize("device", ["cuda:80", "cuda:90", "cuda:100"])
def test_no_negation_of_16_bits_is_left_to_the_assembler(device):
    kernel = harness.make("""@triton.jit
def kernel(x_ptr, y_ptr):
    i = tl.arange(0, 128)
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + i, (tl.where(x != 0, tl.full((), -1, tl.int16), x) * x).to(tl.int32))
""")
    ptx = kernel.warmup(harness.empty(DTYPES["int16"], (128, )), harness.empty(I32, (128, )), grid=(1, ), target=device).asm["ptx"]
    assert "neg.s16" not in ptx and "sub.u16" in ptx
