"""Block pointers: windows inside, across and outside of tensors of every rank, strides, dtypes, padding, loops, calls, and what is
refused."""

import numpy as np
import pytest
import torch

import harness
from harness import BOOL, DTYPES, FLOATS, FP8, INTS
from nereid.errors import CompilationError

COVERED = {"make_block_ptr", "advance"}


def window(data, offsets, block, padding):
    """The block of an array that begins at `offsets`, outside filled with `padding`."""
    out = np.full(block, padding, dtype=data.dtype)
    for index in np.ndindex(*block):
        place = tuple(o + i for o, i in zip(offsets, index))
        if all(0 <= p < s for p, s in zip(place, data.shape)):
            out[index] = data[place]
    return out


def copy_kernel(rank, block, checks, padding, order=None):
    """A kernel that copies a window of x to a dense y."""
    names = [f"{name}{d}" for name in ("size", "stride", "offset") for d in range(rank)]
    listed = lambda name: "(" + "".join(f"{name}{d}, " for d in range(rank)) + ")"
    dense = [int(np.prod(block[d + 1:])) for d in range(rank)]
    order = order or tuple(reversed(range(rank)))
    return harness.make(f"""@triton.jit
def kernel(x, y, {', '.join(names)}):
    source = tl.make_block_ptr(x, {listed('size')}, {listed('stride')}, {listed('offset')}, {tuple(block)}, {order})
    target = tl.make_block_ptr(y, {tuple(block)}, {tuple(dense)}, {(0,) * rank}, {tuple(block)}, {order})
    tl.store(target, tl.load(source, boundary_check={checks}, padding_option="{padding}"))
""")


PLACES = {
    1: [((37,), (16,), (0,)), ((37,), (16,), (32,)), ((37,), (16,), (-5,))],
    2: [((19, 45), (8, 16), (8, 16)), ((19, 45), (8, 16), (16, 40)), ((19, 45), (4, 8), (-2, -3)), ((19, 45), (4, 8), (50, 0))],
    3: [((5, 6, 9), (2, 4, 8), (2, 1, 1)), ((5, 6, 9), (4, 4, 4), (3, 4, 7))],
    4: [((3, 4, 5, 6), (2, 2, 4, 4), (1, 1, 1, 1)), ((3, 4, 5, 6), (2, 4, 4, 4), (2, 3, 3, 4))],
    5: [((2, 3, 4, 5, 6), (2, 2, 2, 4, 4), (1, 2, 3, 4, 5))],
}


@pytest.mark.parametrize("rank, place", [(rank, place) for rank, all in PLACES.items() for place in range(len(all))])
@pytest.mark.parametrize("strided", [False, True], ids=["dense", "transposed"])
def test_windows(rank, place, strided, target):
    shape, block, offsets = PLACES[rank][place]
    dtype = DTYPES["float32"]
    data = harness.values(dtype, shape, seed=rank)
    x = harness.to_tensor(data, dtype)
    if strided:
        x = x.permute(*reversed(range(rank))).contiguous().permute(*reversed(range(rank)))
    out = harness.empty(dtype, block)
    kernel = copy_kernel(rank, block, tuple(range(rank)), "zero")
    kernel[(1,)](x, out, *shape, *x.stride(), *offsets)
    harness.check(out, window(data, offsets, block, 0), dtype)


@pytest.mark.parametrize("dtype", [BOOL, *INTS, *FLOATS, *FP8], ids=str)
def test_dtypes(dtype, target):
    shape, block, offsets = (13, 29), (8, 16), (8, 16)
    data = harness.values(dtype, shape, seed=3)
    x, out = harness.to_tensor(data, dtype), harness.empty(dtype, block)
    copy_kernel(2, block, (0, 1), "zero")[(1,)](x, out, *shape, *x.stride(), *offsets)
    harness.check(out, window(data, offsets, block, 0), dtype)


def test_bool_is_read_as_a_byte(target):
    x, out = torch.tensor([True, False] * 8), torch.zeros(16, dtype=torch.int32)
    kernel = harness.make("""@triton.jit
def kernel(x, out):
    block = tl.make_block_ptr(x, (16,), (1,), (0,), (16,), (0,))
    value = tl.load(block)
    tl.static_assert(value.dtype == tl.int8)
    tl.store(out + tl.arange(0, 16), value)
""")
    kernel[(1,)](x, out)
    assert out.tolist() == [1, 0] * 8


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_padding(dtype, target):
    data = harness.values(dtype, (10,), seed=4, special=False)
    x, out = harness.to_tensor(data, dtype), harness.empty(dtype, (16,))
    copy_kernel(1, (16,), (0,), "nan")[(1,)](x, out, 10, 1, 3)
    got = out.to(torch.float64)
    assert got[:7].tolist() == x[3:].to(torch.float64).tolist() and bool(got[7:].isnan().all())


@pytest.mark.parametrize("checks", [(0,), (1,), (0, 1), (1, 0), [1]], ids=str)
def test_only_the_named_dimensions_are_checked(checks, target):
    # The tensor is a window of a larger one: what is not checked is read from there.
    whole = torch.arange(400, dtype=torch.int32).reshape(20, 20)
    out = torch.zeros(8, 8, dtype=torch.int32)
    copy_kernel(2, (8, 8), checks, "zero")[(1,)](whole, out, 12, 13, 20, 1, 8, 8)
    want = whole[8:16, 8:16].clone()
    if 0 in checks:
        want[4:] = 0
    if 1 in checks:
        want[:, 5:] = 0
    assert torch.equal(out, want)


@pytest.mark.parametrize("offsets", [(0, 0), (8, 24), (-3, 30), (14, -2)], ids=str)
def test_stores_stay_inside(offsets, target):
    shape = (13, 29)
    whole = torch.full((20, 40), -1, dtype=torch.int16)
    value = torch.arange(8 * 16, dtype=torch.int16).reshape(8, 16)
    kernel = harness.make("""@triton.jit
def kernel(y, v, m, n, stride, i, j):
    block = tl.make_block_ptr(y, shape=(m, n), strides=(stride, 1), offsets=(i, j), block_shape=(8, 16), order=(1, 0))
    index = tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :]
    block.store(tl.load(v + index), boundary_check=(0, 1), cache_modifier=".cs")
""")
    view = whole[3:, 5:]
    kernel[(1,)](view, value, *shape, 40, *offsets)
    want = torch.full((20, 40), -1, dtype=torch.int16)
    for i in range(8):
        for j in range(16):
            if 0 <= offsets[0] + i < 13 and 0 <= offsets[1] + j < 29:
                want[3 + offsets[0] + i, 5 + offsets[1] + j] = value[i, j]
    assert torch.equal(whole, want)


ADVANCES = {
    "function": "block = tl.advance(block, (0, 16))",
    "method": "block = block.advance((0, 16))",
    "list": "block = tl.advance(block, [0, 16])",
    "runtime": "block = tl.advance(block, (zero, 16 + zero))",
    "int64": "block = tl.advance(block, (0, (16 + zero).to(tl.int64)))",
    "backwards": "block = tl.advance(tl.advance(block, (5, 32)), (-5, -16))",
    "keywords": "block = tl.advance(base=block, offsets=(0, 16))",
}


@pytest.mark.parametrize("how", ADVANCES)
def test_advance_in_a_loop(how, target):
    x = torch.randint(-1000, 1000, (16, 75), dtype=torch.int32)
    out = torch.zeros(16, dtype=torch.int32)
    kernel = harness.make(f"""@triton.jit
def kernel(x, out, n, zero):
    block = tl.make_block_ptr(x, (16, n), (n, 1), (0, 0), (16, 16), (1, 0))
    total = tl.zeros((16, 16), tl.int32)
    for _ in range(0, n, 16):
        total += tl.load(block, boundary_check=(1,), padding_option="zero")
        {ADVANCES[how]}
    tl.store(out + tl.arange(0, 16), tl.sum(total, 1))
""")
    kernel[(1,)](x, out, 75, 0)
    assert torch.equal(out, x.sum(1, dtype=torch.int32))


def test_while_if_and_calls(target):
    x = torch.arange(64, dtype=torch.float32)
    out = torch.zeros(16, dtype=torch.float32)
    kernel = harness.make("""@triton.jit
def skip(block, by):
    if by > 20:
        return tl.advance(block, (16,))
    return block

@triton.jit
def kernel(x, out, n):
    block = tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (0,))
    i = 0
    while i < n:
        if i == 16:
            block = tl.advance(block, (8,))
        else:
            block = tl.advance(block, (4,))
        block = skip(block, i)
        i += 16
    tl.store(out + tl.arange(0, 16), block.load(boundary_check=(0,), padding_option="zero"))
""")
    kernel[(1,)](x, out, 64)
    want = torch.zeros(16)
    want[:12] = x[52:64]
    assert torch.equal(out, want)


def test_types(target):
    out = torch.zeros(4, dtype=torch.int32)
    kernel = harness.make("""@triton.jit
def kernel(x, out):
    block = tl.make_block_ptr(x, (4, 4), (4, 1), (0, 0), (4, 4), (1, 0))
    tl.static_assert(block.type.element_ty.element_ty == tl.float16)
    value = tl.full((4, 4), 1.5, tl.float32).to(block.type.element_ty)
    tl.static_assert(value.dtype == tl.float16)
    tl.static_assert(block.type.is_ptr())
    tl.static_assert(not isinstance(block, tl.tensor))
    tl.store(block, value)
""")
    x = torch.zeros(16, dtype=torch.float16)
    kernel[(1,)](x, out)
    assert x.tolist() == [1.5] * 16


def test_scalars_are_broadcast_and_values_cast(target):
    x = torch.zeros(8, 8, dtype=torch.float16)
    kernel = harness.make("""@triton.jit
def kernel(x, scale):
    block = tl.make_block_ptr(x, (8, 8), (8, 1), (0, 0), (8, 8), (1, 0))
    tl.store(block, scale)
""")
    kernel[(1,)](x, 2.5)
    assert x.eq(2.5).all()


@pytest.mark.parametrize("sizes", [(64, 64, 64), (60, 70, 50)], ids=str)
def test_matrix_product(sizes, target):
    m, n, k = sizes
    a, b = torch.randn(m, k, dtype=torch.float16), torch.randn(k, n, dtype=torch.float16)
    c = torch.zeros(m, n, dtype=torch.float32)
    kernel = harness.make("""@triton.jit
def kernel(a, b, c, M, N, K, sa, sb, sc, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    i, j = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    pa = tl.make_block_ptr(a, (M, K), (sa, 1), (i, 0), (BLOCK_M, BLOCK_K), (1, 0))
    pb = tl.make_block_ptr(b, (K, N), (sb, 1), (0, j), (BLOCK_K, BLOCK_N), (1, 0))
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(pa, boundary_check=(0, 1), padding_option="zero"),
                     tl.load(pb, boundary_check=(0, 1), padding_option="zero"), acc)
        pa = tl.advance(pa, (0, BLOCK_K))
        pb = tl.advance(pb, (BLOCK_K, 0))
    pc = tl.make_block_ptr(c, (M, N), (sc, 1), (i, j), (BLOCK_M, BLOCK_N), (1, 0))
    tl.store(pc, acc, boundary_check=(0, 1))
""")
    kernel[(-(-m // 32), -(-n // 32))](a, b, c, m, n, k, k, n, n, 32, 32, 16)
    torch.testing.assert_close(c, (a.double() @ b.double()).float(), atol=2e-3, rtol=1e-3)


def test_offsets_are_computed_in_64_bits(target):
    # 2**20 * 2**12 overflows 32 bits.
    if target != "cpu":
        pytest.skip("a virtual range of host memory")
    import mmap
    size = (2**20 * 2**12 + 16) * 1
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0))
    x = np.frombuffer(memory, dtype=np.int8)
    x[2**32:2**32 + 16] = np.arange(16)
    out = np.zeros(16, dtype=np.int32)
    kernel = harness.make("""@triton.jit
def kernel(x, out, rows, stride, row):
    block = tl.make_block_ptr(x, (rows, 16), (stride, 1), (row, 0), (1, 16), (1, 0))
    tl.store(out + tl.arange(0, 16), tl.reshape(tl.load(block, boundary_check=(0, 1), padding_option="zero"), (16,)))
""")
    kernel[(1,)](x, out, 2**20 + 1, 2**12, 2**20)
    assert out.tolist() == list(range(16))


REFUSALS = {
    "no pointer": ("BlockPointerBase", "tl.make_block_ptr(n, (16,), (1,), (0,), (16,), (0,))",
                   "Expected `base` to be a pointer type .but not a block pointer type or others."),
    "a block of pointers": ("BlockPointerBase", "tl.make_block_ptr(x + tl.arange(0, 16), (16,), (1,), (0,), (16,), (0,))", "Expected `base` to be a pointer type"),
    "a float offset": ("BlockPointerScalar", "tl.make_block_ptr(x, (16,), (1,), (0.5,), (16,), (0,))", "Expected an integer scalar type in shape/strides/offsets"),
    "a block as size": ("BlockPointerScalar", "tl.make_block_ptr(x, (tl.arange(0, 16),), (1,), (0,), (16,), (0,))", "Expected a scalar in shape/strides/offsets"),
    "a run-time size": ("BlockPointerConstants", "tl.make_block_ptr(x, (16,), (1,), (0,), (n,), (0,))",
                          "Expected a list of constant integers .`int32_t` range. in `block_shape`"),
    "no permutation": ("BlockPointerOrder", "tl.make_block_ptr(x, (4, 4), (4, 1), (0, 0), (4, 4), (1, 1))",
                       r"Expected a permutation of \(0, 1, ..., len\(order\)-1\) in order"),
    "lengths": ("BlockPointerLengths", "tl.make_block_ptr(x, (4, 4), (4, 1), (0,), (4, 4), (1, 0))",
                "Expected shape/strides/offsets/block_shape to have the same length"),
    "advance unused": ("ResultNotUsed", "tl.advance(b, (0, 4))", "The result of tl.advance is not being used. Note that tl.advance does not have any side effects"),
    "advance of a pointer": ("AdvanceNotBlockPointer", "y = tl.advance(x, (0,))", "`advance` expects a block pointer"),
    "advance by too few": ("AdvanceCount", "y = tl.advance(b, (4,))", "`advance` expects 2 offsets, found 1"),
    "mask": ("BlockPointerMask", "tl.load(b, mask=n > 3)", "`mask` and `other` arguments cannot be specified for loading block pointers"),
    "other": ("BlockPointerMask", "tl.load(b, other=0)", "`mask` and `other` arguments cannot be specified for loading block pointers"),
    "mask of a store": ("BlockPointerMask", "tl.store(b, 1, mask=n > 3)", "`mask` and `other` arguments cannot be specified for loading block pointers"),
    "nan of integers": ("BlockPointerNaN", "tl.load(b, boundary_check=(0,), padding_option='nan')",
                        "Padding option `nan` is not supported for integer block pointers"),
    "unknown padding": ("UnknownChoice", "tl.load(b, boundary_check=(0,), padding_option='one')", "`padding_option`.*one"),
    "a dimension that is none": ("BoundaryCheckRange", "tl.load(b, boundary_check=(2,))", "`boundary_check` names dimension 2 of a block pointer of rank 2"),
    "a dimension twice": ("BoundaryCheckDuplicate", "tl.load(b, boundary_check=(0, 0))", "Duplicate dimension in `boundary_check`"),
    "another shape": ("BlockPointerShape", "tl.store(b, tl.zeros((8, 2), tl.int32))", r"Block shape\(\[4, 4\]\) and value shape\(\[8, 2\]\) mismatch"),
    "of ordinary pointers": ("LoadBlockOptions", "tl.load(x, boundary_check=(0,))", "`padding_option` or `boundary_check` argument is not supported for loading a tensor of"),
    "of ordinary pointers, stored through": ("StoreBlockOptions", "tl.store(x, 1, boundary_check=(0,))", "`boundary_check` argument is not supported for storing"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    diagnostic, body, text = REFUSALS[name]
    kernel = harness.make(f"""@triton.jit
def kernel(x, n):
    b = tl.make_block_ptr(x, (4, 4), (4, 1), (0, 0), (4, 4), (1, 0))
    {body}
""", "kernel")
    with pytest.raises(CompilationError, match=text) as info:
        kernel.warmup(torch.zeros(16, dtype=torch.int32), 7, grid=(1,))
    assert info.value.diagnostic == diagnostic


def test_const_pointers_are_not_stored_through():
    kernel = harness.make("""@triton.jit
def kernel(x: tl.const):
    tl.store(tl.make_block_ptr(x, (4,), (1,), (0,), (4,), (0,)), 1)
""", "kernel")
    with pytest.raises(CompilationError, match="Cannot store to a constant pointer"):
        kernel.warmup(torch.zeros(16, dtype=torch.int32), grid=(1,))


def test_generated_code_is_as_good_as_with_pointers():
    """On a GPU both read whole vectors, pipelined; the block pointer needs no more accesses."""
    parameters = "a, b, c, K, sa, sb, sc"
    plain = harness.make(f"""@triton.jit
def kernel({parameters}):
    i, k = tl.arange(0, 64), tl.arange(0, 32)
    pa = a + i[:, None] * sa + k[None, :]
    pb = b + k[:, None] * sb + i[None, :]
    acc = tl.zeros((64, 64), tl.float32)
    for _ in range(0, K, 32):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc)
        pa += 32
        pb += 32 * sb
    tl.store(c + i[:, None] * sc + i[None, :], acc)
""", "kernel")
    blocks = harness.make(f"""@triton.jit
def kernel({parameters}):
    pa = tl.make_block_ptr(a, (64, K), (sa, 1), (0, 0), (64, 32), (1, 0))
    pb = tl.make_block_ptr(b, (K, 64), (sb, 1), (0, 0), (32, 64), (1, 0))
    acc = tl.zeros((64, 64), tl.float32)
    for _ in range(0, K, 32):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc)
        pa = tl.advance(pa, (0, 32))
        pb = tl.advance(pb, (32, 0))
    tl.store(tl.make_block_ptr(c, (64, 64), (sc, 1), (0, 0), (64, 64), (1, 0)), acc)
""", "kernel")
    half, single = torch.zeros(64, 64, dtype=torch.float16), torch.zeros(64, 64)
    counts = []
    for kernel in (plain, blocks):
        text = kernel.warmup(half, half, single, 1024, 64, 64, 64, grid=(1,), target="cuda:80").asm["ptx"]
        counts.append([text.count(what) for what in ("cp.async.cg.shared.global", "cp.async.ca", "st.global.v4", "ld.global")])
    assert counts[0][0] > 0 and counts[0] == counts[1]
