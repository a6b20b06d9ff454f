"""Checked mode: wrong accesses are found, named and placed; right ones are left alone; the process survives."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import harness

pytestmark = pytest.mark.cpu_only("checked mode is the CPU's")

COPY = harness.make("""@triton.jit
def kernel(x_ptr, y_ptr, n, shift, sx, sy, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x_ptr + (i + shift) * sx, mask=i < n, other=0)
    tl.store(y_ptr + i * sy, v, mask=i < n)
""")


def copy(x, y, n, shift=0, sx=1, sy=1, **options):
    COPY[(-(-n // 32),)](x, y, n, shift, sx, sy, BLOCK=32, checked=True, **options)


def test_a_right_kernel_passes(target):
    x, y = torch.randn(1000), torch.zeros(1000)
    copy(x, y, 1000)
    assert torch.equal(x, y)


@pytest.mark.parametrize("shift,index", [(1, 1000), (-1, -1), (500, 1000), (10 ** 6, 10 ** 6)])
def test_a_load_outside_is_named(shift, index, target):
    x, y = torch.randn(1000), torch.zeros(1000)
    with pytest.raises(RuntimeError) as error:
        copy(x, y, 1000, shift)
    text = str(error.value)
    assert "outside of `x_ptr`" in text and "indices go from 0 to 999" in text
    assert f"index {index} " in text
    assert ":8:" in text and "v = tl.load(" in text  # the line in the file, and its text
    assert "in program (" in text
    copy(x, y, 1000)  # the process and the kernel survive


def test_a_store_outside_is_named_and_not_done(target):
    store = torch.zeros(200)
    with pytest.raises(RuntimeError, match="outside of `y_ptr`"):
        copy(torch.ones(128), store[:100], 128)
    assert torch.all(store[100:] == 0)


def test_the_first_program_is_reported(target):
    """The lowest failing program, whatever the number of threads."""
    for threads in (1, 2):
        with pytest.raises(RuntimeError, match=r"in program \(3, 0, 0\)"):
            copy(torch.ones(3200), torch.zeros(100), 3200, num_threads=threads)


@pytest.mark.parametrize("kind", ["add", "max", "xchg"])
def test_atomics_are_checked(kind, target):
    kernel = harness.make(f"""@triton.jit
def kernel(m_ptr, n):
    tl.atomic_{kind}(m_ptr + tl.arange(0, 16), 1, mask=tl.arange(0, 16) < n)
""")
    memory = torch.zeros(12, dtype=torch.int32)
    kernel[(1,)](memory, 12, checked=True)
    with pytest.raises(RuntimeError, match="index 12 is outside of `m_ptr`"):
        kernel[(1,)](memory, 13, checked=True)


def test_masked_lanes_may_point_anywhere(target):
    x, y = torch.randn(40), torch.zeros(40)
    copy(x, y, 40)
    assert torch.equal(x, y)


def test_views_with_strides(target):
    base = torch.randn(100)
    y = torch.zeros(34)
    copy(base[::3], y, 34, sx=3)
    assert torch.equal(y, base[::3])
    with pytest.raises(RuntimeError, match="outside of `x_ptr`"):
        copy(base[:97:3], torch.zeros(34), 34, sx=3)  # one element further than the view reaches


def test_negative_strides(target):
    base = np.arange(64, dtype=np.float32)
    y = np.zeros(64, dtype=np.float32)
    copy(base[::-1], y, 64, sx=-1)
    np.testing.assert_array_equal(y, base[::-1])
    with pytest.raises(RuntimeError, match="index 1 is outside of `x_ptr`"):
        copy(base[::-1], y, 64, sx=1, shift=0)


def test_origins_travel_through_where_and_loops(target):
    kernel = harness.make("""@triton.jit
def kernel(a_ptr, b_ptr, y_ptr, n):
    i = tl.arange(0, 16)
    p = tl.where(i < 8, a_ptr + i, b_ptr + i)
    for k in range(n):
        p += 1
    tl.store(y_ptr + i, tl.load(p))
""")
    a, b, y = torch.arange(8.0), torch.arange(16.0) + 100, torch.zeros(16)
    kernel[(1,)](a, b, y, 0, checked=True)
    assert torch.equal(y, torch.cat([a, b[8:]]))
    with pytest.raises(RuntimeError, match="outside of"):
        kernel[(1,)](a, b, y, 1, checked=True)


def test_offsets_that_overflow(target):
    kernel = harness.make("""@triton.jit
def kernel(x_ptr, y_ptr, stride):
    i = tl.arange(0, 16)
    tl.store(y_ptr + i, tl.load(x_ptr + i * stride))
""")
    with pytest.raises(RuntimeError, match="overflow"):
        kernel[(1,)](torch.zeros(16), torch.zeros(16), 2 ** 28, checked=True)


def test_lanes_without_other_show(target):
    kernel = harness.make("""@triton.jit
def kernel(x_ptr, y_ptr, n):
    i = tl.arange(0, 16)
    tl.store(y_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n), axis=0))
""")
    y = torch.zeros(1)
    kernel[(1,)](torch.ones(16), y, 10, checked=True)
    assert torch.isnan(y).item()


def test_the_environment_turns_it_on(target, tmp_path):
    script = tmp_path / "wrong.py"
    script.write_text("""import torch, nereid, nereid.language as tl

@nereid.jit
def kernel(x):
    tl.store(x + tl.arange(0, 16), 1.0)

kernel[(1,)](torch.zeros(8))
""")
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=os.environ | {"NEREID_CHECKED": "1"})
    assert result.returncode == 1
    assert "wrong.py:5:" in result.stderr and "index 8 is outside of `x`" in result.stderr
