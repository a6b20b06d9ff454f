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


DIVIDES = harness.make("""@triton.jit
def kernel(x_ptr, y_ptr, shift, FROM: tl.constexpr):
    i = (tl.program_id(0) - 1) * 128 + tl.arange(0, 128)
    tl.store(y_ptr + tl.arange(0, 128), tl.load(x_ptr + shift + (i + FROM) % 128))
""")


@pytest.mark.parametrize("checked", [False, True])
def test_negative_dividends_in_addresses_are_exact(checked, target):
    """What docs/python.md says of a CPU; a GPU may read others."""
    x, y = torch.arange(256), torch.zeros(128, dtype=torch.int64)
    DIVIDES[(1,)](x, y, 128, FROM=0, checked=checked)
    assert y.tolist() == [128, *range(1, 128)]
    DIVIDES[(1,)](x, y, 128, FROM=128, checked=checked)
    assert y.tolist() == [*range(128, 256)]


def test_a_negative_remainder_outside_is_named(target):
    x, y = torch.arange(256), torch.zeros(128, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="index -127 is outside of `x_ptr`"):
        DIVIDES[(1,)](x, y, 0, FROM=0, checked=True)


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


@pytest.mark.parametrize("mask", ["(i < n) | (i % 3 == 0)", "(i < n) | (one == 1)", "~((i < n) & (i < one))", "(i < n) != (one == 1)", "tl.load(y_ptr + i, mask=i < n, other=1) != 0"])
def test_masks_computed_from_others(mask, target):
    """Off for the first elements, or on beyond those of the mask inside: the lanes behind are looked at."""
    kernel = harness.make(f"""@triton.jit
def kernel(x_ptr, y_ptr, n, one):
    i = tl.arange(0, 32)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask={mask}, other=0))
""")
    kernel[(1, )](torch.zeros(32), torch.zeros(32), 10, 1, checked=True)
    with pytest.raises(RuntimeError, match="index 1[02] is outside of `x_ptr`"):
        kernel[(1, )](torch.zeros(10), torch.zeros(32), 10, 1, checked=True)


@pytest.mark.parametrize("view", ["p[:, None]", "tl.reshape(p, [4, 4])", "tl.trans(p[None, :]) + tl.arange(0, 2)[None, :] * 0"])
def test_each_side_of_a_choice_in_another_shape(view, target):
    """What one side misses is not excused by the other's tensor, which lies behind it."""
    kernel = harness.make(f"""@triton.jit
def kernel(a_ptr, b_ptr, y_ptr):
    i = tl.arange(0, 16)
    p = tl.where(i < 8, a_ptr + i, b_ptr + i)
    tl.store(y_ptr, tl.sum(tl.load({view})))
""")
    memory = torch.ones(24)
    kernel[(1, )](memory[:8], memory[8:], torch.zeros(1), checked=True)
    with pytest.raises(RuntimeError, match="index 4 is outside of `a_ptr`, whose indices go from 0 to 3"):
        kernel[(1, )](memory[:4], memory[4:20], torch.zeros(1), checked=True)


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


BY_ADDRESS = harness.make("""@triton.jit
def kernel(table_ptr, x_ptr, out_ptr, n, KIND: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    p = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    if KIND == "load":
        tl.store(out_ptr + tl.program_id(0) * BLOCK + i, tl.load(p + i, mask=i < n, other=0))
    elif KIND == "store":
        tl.store(p + i, i.to(tl.float32), mask=i < n)
    elif KIND == "atomic":
        tl.atomic_add(p + i, 1.0, mask=i < n)
    elif KIND == "loop":
        for k in range(4):
            tl.store(out_ptr + i, tl.load(p + i, mask=i < n // 4, other=0))
            p += n // 4
    elif KIND == "where":
        tl.store(out_ptr + i, tl.load(tl.where(i < n - 1, x_ptr + i, p + i), mask=i < n, other=0))
""")
LINES = {"load": 10, "store": 12, "atomic": 14, "loop": 17, "where": 20}


def by_address(address, x, n, kind="load", **options):
    table, out = torch.tensor([address], dtype=torch.int64), torch.zeros(256)
    BY_ADDRESS[(1, )](table, x, out, n, KIND=kind, BLOCK=128, checked=True, **options)
    return out


@pytest.mark.parametrize("kind", LINES)
def test_addresses_from_memory(kind, target):
    """They must lead into an argument of the launch, whichever that is."""
    x = torch.randn(100)
    by_address(x.data_ptr(), x, 100, kind)
    for address, n in ((x.data_ptr(), 101), (x.data_ptr() - 4, 1), (0, 1)):
        with pytest.raises(RuntimeError, match="address 0x[0-9a-fA-F]+ is outside of every argument of the launch") as error:
            by_address(address, x, n if kind != "loop" else 4 * n, kind)
        assert f":{LINES[kind]}:" in str(error.value) and "in program (0, 0, 0)" in str(error.value)


def test_addresses_from_memory_lead_to_memory_of_the_launch(target):
    """Memory that the launch does not know is refused, as it cannot be told from a wrong address; memory of another argument is not."""
    x, other = torch.randn(100), torch.randn(100)
    with pytest.raises(RuntimeError, match="outside of every argument of the launch"):
        by_address(other.data_ptr(), x, 100)
    assert torch.equal(by_address(other.data_ptr(), other, 100)[:100], other)
    both = torch.randn(200)
    assert torch.equal(by_address(both[50:].data_ptr(), both, 100)[:100], both[50:150])


class Raw:
    """A pointer without a size."""
    dtype = torch.float32

    def __init__(self, address):
        self.address = address

    def data_ptr(self):
        return self.address


def test_addresses_from_memory_beside_a_pointer_without_size(target):
    """Any address may be meant then; null and the first page stay errors."""
    other = torch.randn(100)
    assert torch.equal(by_address(other.data_ptr(), Raw(other.data_ptr()), 100)[:100], other)
    with pytest.raises(RuntimeError, match="outside of every argument of the launch"):
        by_address(64, Raw(other.data_ptr()), 1)


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


PADDED = harness.make("""@triton.jit
def host(d, o_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    v = d.load([2, 4])
    tl.store(o_ptr + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :], v)


@triton.jit
def made(x_ptr, o_ptr, m, n, PADDING: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    d = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [ROWS, COLUMNS], padding_option=PADDING)
    v = d.load([2, 4])
    tl.store(o_ptr + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :], v)


@triton.jit
def gathered(x_ptr, o_ptr, m, n, PADDING: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    d = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [1, COLUMNS], padding_option=PADDING)
    v = d.gather(tl.arange(0, ROWS) + 2, 4)
    tl.store(o_ptr + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :], v)


@triton.jit
def window(x_ptr, o_ptr, m, n, PADDING: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    p = tl.make_block_ptr(x_ptr, [m, n], [n, 1], [2, 4], [ROWS, COLUMNS], [1, 0])
    v = tl.load(p, boundary_check=(0, 1), padding_option=PADDING)
    tl.store(o_ptr + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :], v)


@triton.jit
def product(x_ptr, o_ptr, m, n, PADDING: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    d = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [ROWS, COLUMNS], padding_option=PADDING)
    x = d.load([2, 4])
    i = tl.arange(0, ROWS)
    tl.store(o_ptr + i[:, None] * ROWS + i[None, :], tl.dot(x, x.T, input_precision="ieee"))
""", "host")
DEFINED = [(kind, padding, dtype) for kind in ("host", "made", "gathered", "window") for padding in ("zero", "nan")
           for dtype in ("float32", "float16", "bfloat16", "float64", "int8", "int32", "int64", "uint16")
           if (padding == "zero" or dtype.startswith(("float", "bfloat"))) and (kind, dtype) != ("gathered", "int8")]  # which takes 32 columns


def padded_kernel(name):
    return getattr(sys.modules[PADDED.__module__], name)


@pytest.mark.parametrize("kind,padding,dtype", DEFINED)
def test_padding_stays_what_it_is(kind, padding, dtype, target):
    """What lies outside of a tensor is zero or NaN by definition: nothing is put there that shows."""
    from nereid.tools.tensor_descriptor import TensorDescriptor
    x = harness.to_tensor(np.arange(1, 161).reshape(10, 16) % 100, harness.DTYPES[dtype])
    block = torch.full((8, 16), 0, dtype=x.dtype)
    outside = float("nan") if padding == "nan" else 0
    want = torch.nn.functional.pad(x[2:10, 4:].double(), (0, 4), value=outside)
    for checked in (False, True):
        if kind == "host":
            padded_kernel("host")[(1,)](TensorDescriptor(x, [10, 16], [16, 1], [8, 16], padding), block, ROWS=8, COLUMNS=16, checked=checked)
        else:
            padded_kernel(kind)[(1,)](x, block, 10, 16, PADDING=padding, ROWS=8, COLUMNS=16, checked=checked)
        np.testing.assert_array_equal(block.double().numpy(), want.numpy())
    assert torch.isnan(want).any() == (padding == "nan")


def test_a_product_of_padded_blocks(target):
    x = torch.randn(10, 16)
    padded = torch.nn.functional.pad(x[2:, 4:], (0, 4, 0, 8)).double()
    out = torch.zeros(16, 16)
    padded_kernel("product")[(1,)](x, out, 10, 16, PADDING="zero", ROWS=16, COLUMNS=16, checked=True)
    torch.testing.assert_close(out.double(), padded @ padded.T, rtol=1e-6, atol=1e-6)


def test_a_window_without_padding_shows(target):
    """Without `padding_option` the language defines nothing outside."""
    for x, shows in ((torch.ones(10, 16), lambda v: torch.isnan(v)), (torch.ones(10, 16, dtype=torch.int32), lambda v: v == 0x5A5A5A5A)):
        block = torch.zeros(8, 16, dtype=x.dtype)
        padded_kernel("window")[(1,)](x, block, 10, 16, PADDING="", ROWS=8, COLUMNS=16, checked=True)
        assert shows(block)[:, 12:].all() and (block[:, :12] == 1).all()


def test_bools_and_masks_known_to_be_false_show(target):
    kernel = harness.make("""@triton.jit
def kernel(x_ptr, b_ptr, o_ptr, n):
    i = tl.arange(0, 16)
    flag = tl.load(b_ptr + i, mask=i < n)
    nothing = tl.load(x_ptr + i, mask=False)
    scalar = tl.load(x_ptr, mask=n > 100)
    tl.store(o_ptr + i, flag.to(tl.float32))
    tl.store(o_ptr + 16 + i, nothing)
    tl.store(o_ptr + 32, scalar)
""")
    out = torch.zeros(33)
    kernel[(1,)](torch.zeros(16), torch.zeros(16, dtype=torch.bool), out, 10, checked=True)
    assert not out[:10].any() and (out[10:16] == 1).all() and torch.isnan(out[16:]).all()


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


BOX = harness.make("""@triton.jit
def kernel(x_ptr, o_ptr, first, down, right, h, w, wide: tl.constexpr, FLAT: tl.constexpr, H: tl.constexpr, W: tl.constexpr):
    r, c = tl.arange(0, H)[:, None], tl.arange(0, W)[None, :]
    if wide:
        r, c = r.to(tl.int64), c.to(tl.int64)
    mask = (r * W + c < h) if FLAT else (r < h) & (c < w)
    v = tl.load(x_ptr + first + r * down + c * right, mask=mask, other=0)
    tl.store(o_ptr + tl.arange(0, W), tl.sum(v, 0))
""")


def box(n, first, down, right, h, w, wide=True, flat=False):
    """Runs on `n` elements; whether an access was reported, and the index that was."""
    try:
        BOX[(1,)](torch.zeros(n), torch.zeros(16), first, down, right, h, w, wide, flat, H=8, W=16, checked=True)
    except RuntimeError as error:
        assert "outside of `x_ptr`" in str(error)
        return int(str(error).split("index ")[1].split()[0])
    return None


def expected(n, first, down, right, h, w, flat):
    for r in range(8):
        for c in range(16):
            index = first + r * down + c * right
            if ((r * 16 + c < h) if flat else (r < h and c < w)) and not 0 <= index < n:
                return index
    return None


@pytest.mark.parametrize("flat", [False, True])
def test_blocks_of_which_one_lane_is_outside(flat, target):
    """Checks look at the corners of a masked block where they can, and find the first lane that fails all the same."""
    for h, w in [(8, 16), (7, 16), (8, 15), (3, 5), (1, 1), (0, 16), (8, 0), (-1, 20), (9, 99)]:
        for down, right in [(16, 1), (-16, 1), (16, -1), (1, 8), (-3, -5), (0, 1), (7, 0), (0, 0)]:
            inside = [r * down + c * right for r in range(8) for c in range(16) if ((r * 16 + c < h) if flat else (r < h and c < w))] or [0]
            least, most = min(inside), max(inside)
            for n, first in [(most - least + 1, -least), (most - least + 1, -least + 1), (most - least + 1, -least - 1), (max(1, most - least), -least)]:
                assert box(n, first, down, right, h, w, flat=flat) == expected(n, first, down, right, h, w, flat), (n, first, down, right, h, w)


@pytest.mark.parametrize("down,right", [(2**59, 1), (-2**59, 1), (2**61, 2**60), (1, 2**58), (2**40, 0), (1, -2**57)])
def test_strides_with_which_addresses_wrap(down, right, target):
    """Both ends of a block may be inside of a tensor where lanes between them are not."""
    assert box(100, 0, down, right, 8, 16) is not None
    assert box(100, 0, down, right, 1, 1) is None
    assert box(100, 2**60, down, right, 8, 16) is not None
    assert box(100, 2**60, down, right, 0, 16) is None


@pytest.mark.overflows("the stride of the second launch wraps")
def test_a_stride_that_wraps_in_32_bits_is_reported(target):
    with pytest.raises(RuntimeError, match="overflow"):
        BOX[(1,)](torch.zeros(128), torch.zeros(16), 0, 2**29, 1, 8, 16, False, False, H=8, W=16, checked=True)
    BOX[(1,)](torch.zeros(128), torch.zeros(16), 0, 2**29, 1, 1, 16, False, False, H=8, W=16, checked=True)


def test_assertions_about_blocks(target):
    kernel = harness.make("""@triton.jit
def kernel(x_ptr, o_ptr, n, limit):
    i = tl.arange(0, 64)
    tl.device_assert(i * 3 <= limit, "too far", mask=i < n)
    v = tl.load(x_ptr + i)
    tl.device_assert(v >= 0, "negative")
    tl.store(o_ptr + i, v)
""")
    x, out = torch.arange(64.0), torch.zeros(64)
    kernel[(1,)](x, out, 64, 189, debug=True)
    kernel[(1,)](x, out, 10, 27, debug=True)
    assert torch.equal(x, out)
    for n, limit in [(64, 188), (10, 26), (1, -1)]:
        with pytest.raises(RuntimeError, match="too far"):
            kernel[(1,)](x, out, n, limit, debug=True)
    kernel[(1,)](x, out, 0, -1, debug=True)
    x[63] = -1
    with pytest.raises(RuntimeError, match="negative"):
        kernel[(1,)](x, out.zero_(), 64, 189, debug=True)
    assert not out.any()


@pytest.mark.timeout(60)
def test_addresses_from_a_sort(target):
    """The steps of a sort, which an address comes from, are computed once: code that computes them for each use never ends."""
    kernel = harness.make("""@triton.jit
def kernel(out, x):
    place = tl.arange(0, 4)[:, None] * 128 + tl.arange(0, 128)[None, :]
    tl.atomic_add(out + (tl.topk(tl.load(x + place), 128, 1) & 7), place)
""")
    x, out = torch.randint(0, 100, (4, 128), dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    kernel[(1, )](out, x, checked=True)
    expected = torch.zeros(8, dtype=torch.int32)
    expected.index_add_(0, (x.sort(1, descending=True).values & 7).flatten(), torch.arange(512, dtype=torch.int32))
    assert torch.equal(out, expected)
    with pytest.raises(RuntimeError, match="outside of `out`"):
        kernel[(1, )](out[:7], x, checked=True)
