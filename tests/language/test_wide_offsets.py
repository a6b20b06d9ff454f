"""Offsets of 32 bits into tensors of more than 2^31 elements. The memory is reserved and, but for a few pages, never touched."""

import numpy as np
import pytest

import harness

SIZE = (1 << 32) + 4096 + 13

ROWS = """@triton.jit
def kernel(x_ptr, out_ptr, row, stride, n, BLOCK: tl.constexpr):
    rows = row + tl.arange(0, 2)
    offsets = rows[:, None] * stride + tl.arange(0, BLOCK)[None, :]
    value = tl.load(x_ptr + offsets, mask=offsets < n, other=-1)
    tl.store(out_ptr + tl.arange(0, 2)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :], value)
    tl.store(x_ptr + offsets, value + 1, mask=offsets < n)
"""


@pytest.fixture
def large(target):
    if target == "cuda":
        torch = pytest.importorskip("torch")
        if torch.cuda.mem_get_info()[0] < 2 * SIZE:
            pytest.skip("too little memory")
        yield torch.empty(SIZE, dtype=torch.int8, device="cuda")
    else:
        # Pages that are not touched take no memory.
        yield np.zeros(SIZE, dtype=np.int8)


def put(large, at, values):
    if isinstance(large, np.ndarray):
        large[at:at + len(values)] = values
    else:
        import torch
        large[at:at + len(values)] = torch.tensor(values, dtype=torch.int8)


def get(large, at, count):
    part = large[at:at + count]
    return part if isinstance(part, np.ndarray) else part.cpu().numpy()


@pytest.mark.overflows("its integers wrap on purpose")
@pytest.mark.parametrize("row,stride", [(40000, 100003), (3, (1 << 30) + 5), (32767, 65537)])
def test_rows_times_stride(large, row, stride, target):
    first, n = row * stride, SIZE
    assert first + stride < n and first + stride + 64 > 1 << 31
    put(large, first, list(range(64)))
    put(large, first + stride, list(range(64, 128)))
    out = harness.empty(harness.DTYPES["int8"], (2, 64))
    out = out.cuda() if target == "cuda" and not isinstance(large, np.ndarray) else out
    harness.make(ROWS)[(1, )](large, out, row, stride, n, BLOCK=64)
    np.testing.assert_array_equal(out.cpu().numpy().ravel(), np.arange(128))
    np.testing.assert_array_equal(get(large, first, 64), np.arange(1, 65))


def test_last_block_stops_at_the_end(large, target):
    """Beyond the end offsets would be negative in 32 bits, and so below the bound."""
    n = (1 << 31) - 100
    put(large, n - 28, [5] * 128)
    harness.make("""@triton.jit
def kernel(x_ptr, first, n, BLOCK: tl.constexpr):
    offsets = (first + tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, 7, mask=offsets < n)
""")[(2, )](large, (1 << 31) // 128 - 2, n, BLOCK=128)
    np.testing.assert_array_equal(get(large, n - 28, 128), [7] * 28 + [5] * 100)


@pytest.mark.overflows("its integers wrap on purpose")
def test_carried_by_a_loop(large, target):
    step = 1 << 30
    for i in range(4):
        put(large, i * step, [i + 1])
    out = harness.empty(harness.DTYPES["int32"], (1, ))
    out = out.cuda() if target == "cuda" and not isinstance(large, np.ndarray) else out
    harness.make("""@triton.jit
def kernel(x_ptr, out_ptr, step, count):
    offset = step - step
    total = 0
    for i in range(count):
        total = total * 10 + tl.load(x_ptr + offset).to(tl.int32)
        offset += step
    tl.store(out_ptr, total)
""")[(1, )](large, out, step, 4)
    assert int(out.cpu()[0]) == 1234


@pytest.mark.overflows("its integers wrap on purpose")
def test_numbers_wrap_for_everybody_else(target):
    out = harness.empty(harness.DTYPES["int32"], (1, ))
    harness.make("""@triton.jit
def kernel(out_ptr, a, b):
    tl.store(out_ptr, a * b)
""")[(1, )](out, 100003, 40000)
    assert int(out[0]) == np.int64(100003 * 40000).astype(np.int32)


SMALL = "@triton.jit\ndef kernel(x_ptr, n):\n    tl.store(x_ptr + n * n, 1)\n"


def test_specialisation(large, target):
    """Another kernel for large tensors, by their size alone."""
    kernel = harness.make(SMALL)
    assert "large" not in kernel.warmup(large[:1000], 3, grid=(1, )).asm["tile"]
    text = kernel.warmup(large, 3, grid=(1, )).asm["tile"]
    assert "tile.large" in text and "extsi" in text


@pytest.mark.not_in_mode("debug", "it reads the code, in which checks use 64 bits")
@pytest.mark.not_in_mode("checked", "it reads the code, in which checks use 64 bits")
def test_strict_mode_wraps(large, target):
    kernel = harness.make(SMALL)
    text = kernel.warmup(large, 3, grid=(1, ), strict=True).asm["tile"]
    assert "tile.large" not in text and "extsi" not in text


@pytest.mark.overflows("its integers wrap on purpose")
@pytest.mark.cpu_only("checked mode is the CPU's")
def test_checked_mode_reports_what_wraps_in_strict_mode(target):
    large = np.zeros(SIZE, dtype=np.int8)
    out = np.zeros(128, dtype=np.int8)
    with pytest.raises(RuntimeError, match="overflow"):
        harness.make(ROWS)[(1, )](large, out, 40000, 100003, SIZE, BLOCK=64, strict=True, checked=True)
    harness.make(ROWS)[(1, )](large, out, 40000, 100003, SIZE, BLOCK=64, checked=True)


@pytest.mark.overflows("its integers wrap on purpose")
@pytest.mark.parametrize("noinline", [False, True])
@pytest.mark.parametrize("body", ["tl.store(x_ptr + row * stride, tl.load(x_ptr + row * stride) + 1)",
                                  "o = row * stride + tl.arange(0, 16)\n    tl.store(x_ptr + o, tl.load(x_ptr + o) + 1, mask=o < n)"],
                         ids=["scalar", "block"])
def test_in_a_called_function(large, body, noinline, target):
    """That an argument is large is known of the kernel's arguments: a function must hear of it."""
    row, stride = 40000, 100003
    put(large, row * stride, list(range(16)))
    harness.make(f"""@triton.jit(noinline={noinline})
def inner(x_ptr, row, stride, n):
    {body}


@triton.jit(noinline={noinline})
def outer(x_ptr, row, stride, n):
    inner(x_ptr, row, stride, n)


@triton.jit
def kernel(x_ptr, row, stride, n):
    outer(x_ptr, row, stride, n)
""")[(1, )](large, row, stride, SIZE)
    assert get(large, row * stride, 1)[0] == 1
