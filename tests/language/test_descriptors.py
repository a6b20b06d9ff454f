"""Tensor descriptors, made in kernels and on the host: blocks inside, across and outside of tensors, every dtype and rank, both paddings,
atomics, rows, and what is refused."""

import itertools

import numpy as np
import pytest
import torch

import harness
import nereid
from harness import BOOL, DTYPES, FLOATS, FP8, INTS
from nereid.tools.tensor_descriptor import TensorDescriptor

COVERED = {"make_tensor_descriptor", "load_tensor_descriptor", "store_tensor_descriptor", "tensor_descriptor"}

F16, F32, I32 = DTYPES["float16"], DTYPES["float32"], DTYPES["int32"]


def block_at(data, offsets, block, padding):
    """The block of an array that begins at `offsets`, outside filled with `padding`."""
    out = np.full(block, padding, dtype=data.dtype)
    places = [(max(0, -o), min(b, s - o)) for o, b, s in zip(offsets, block, data.shape)]
    if all(low < high for low, high in places):
        out[tuple(slice(low, high) for low, high in places)] = data[tuple(
            slice(o + low, o + high) for o, (low, high) in zip(offsets, places))]
    return out


def put_block(data, offsets, value):
    """The array with the block stored at `offsets`, what lies outside dropped."""
    out = data.copy()
    places = [(max(0, -o), min(b, s - o)) for o, b, s in zip(offsets, value.shape, data.shape)]
    if all(low < high for low, high in places):
        out[tuple(slice(o + low, o + high) for o, (low, high) in zip(offsets, places))] = value[tuple(
            slice(low, high) for low, high in places)]
    return out


def padded(tensor):
    """The same values in memory whose rows begin at multiples of 16 bytes."""
    columns = 16 // tensor.element_size()
    width = -(-tensor.shape[-1] // columns) * columns
    whole = torch.zeros((*tensor.shape[:-1], width), dtype=tensor.dtype)
    whole[..., :tensor.shape[-1]] = tensor
    return whole[..., :tensor.shape[-1]]


def stores_dense(block):
    """Lines of a kernel that write `value`, a block of this shape, to y_ptr without gaps."""
    return f"""    i = tl.arange(0, {int(np.prod(block))})
    tl.store(y_ptr + i, tl.reshape(value, ({int(np.prod(block))},)))
"""


def dense_loader(block):
    return f"tl.reshape(tl.load(v_ptr + tl.arange(0, {int(np.prod(block))})), {tuple(block)})"


# ---- loads and stores ---------------------------------------------------------------------------------


@pytest.mark.parametrize("made", ["host", "kernel"])
@pytest.mark.parametrize("dtype", [BOOL, *INTS, *FLOATS, *FP8], ids=str)
def test_load_of_every_dtype(dtype, made, target):
    shape, block, offsets = (53, 101), (16, 64), (48, 64)
    data = harness.values(dtype, shape)
    x, out = padded(harness.to_tensor(data, dtype)), harness.empty(dtype, block)
    make = "d" if made == "host" else "tl.make_tensor_descriptor(x_ptr, [m, n], [stride, 1], [16, 64])"
    parameters = "d" if made == "host" else "x_ptr, m, n, stride"
    kernel = harness.make(f"""@triton.jit
def kernel({parameters}, y_ptr, i, j):
    desc = {make}
    value = desc.load([i, j])
{stores_dense(block)}""".replace("    i = ", "    k = ").replace("y_ptr + i", "y_ptr + k"))
    arguments = (TensorDescriptor.from_tensor(x, block), ) if made == "host" else (x, *shape, x.stride(0))
    kernel[(1,)](*arguments, out, *offsets)
    harness.check(out, block_at(data, offsets, block, 0), dtype, 0)


RANKS = [((100,), (64,)), ((700,), (512,)), ((9, 70), (4, 32)), ((40, 150), (16, 128)), ((5, 6, 40), (2, 4, 16)), ((5, 6, 80), (2, 4, 64)),
         ((3, 4, 5, 24), (2, 2, 4, 16)), ((3, 2, 4, 5, 12), (2, 1, 2, 4, 8)), ((3, 2, 4, 5, 44), (2, 1, 2, 4, 32))]


@pytest.mark.parametrize("shape, block", RANKS, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_load_of_every_rank(shape, block, padding, target):
    rank = len(shape)
    data = harness.values(F32, shape)
    x = padded(harness.to_tensor(data, F32))
    names = [f"o{i}" for i in range(rank)]
    kernel = harness.make(f"""@triton.jit
def kernel(d, y_ptr, {", ".join(names)}):
    value = d.load([{", ".join(names)}])
{stores_dense(block)}""")
    desc = TensorDescriptor.from_tensor(x, block, padding)
    for offsets in itertools.product(*([0, -1, s - b // 2, s + 3] for s, b in zip(shape, block))):
        if rank > 2 and sum(o != 0 for o in offsets) > 2:
            continue  # what several dimensions do together, two show
        out = harness.empty(F32, block)
        kernel[(1,)](desc, out, *offsets)
        harness.check(out, block_at(data, offsets, block, 0 if padding == "zero" else np.nan), F32, 0)


@pytest.mark.parametrize("shape, block", RANKS, ids=lambda s: "x".join(map(str, s)))
def test_store_of_every_rank(shape, block, target):
    rank = len(shape)
    value = harness.values(F32, block, seed=1)
    names = [f"o{i}" for i in range(rank)]
    kernel = harness.make(f"""@triton.jit
def kernel(d, v_ptr, {", ".join(names)}):
    d.store([{", ".join(names)}], {dense_loader(block)})
""")
    before = harness.values(F32, shape)
    for offsets in itertools.product(*([0, -1, s - b // 2, s] for s, b in zip(shape, block))):
        if rank > 2 and sum(o != 0 for o in offsets) > 2:
            continue
        x = padded(harness.to_tensor(before, F32))
        guard = x._base.clone() if x._base is not None else None
        kernel[(1,)](TensorDescriptor.from_tensor(x, block), harness.to_tensor(value, F32), *offsets)
        harness.check(x, put_block(before, offsets, value), F32, 0)
        if guard is not None:  # what lies between the rows is not touched
            np.testing.assert_array_equal(x._base[..., shape[-1]:].numpy(), guard[..., shape[-1]:].numpy())


@pytest.mark.parametrize("dtype", [BOOL, *INTS, *FLOATS, *FP8], ids=str)
def test_store_of_every_dtype(dtype, target):
    shape, block = (29, 112), (16, 64)
    before, value = harness.values(dtype, shape), harness.values(dtype, block, seed=1)
    x = padded(harness.to_tensor(before, dtype))
    harness.make(f"""@triton.jit
def kernel(x_ptr, v_ptr, m, n, stride, i, j):
    desc = tl.make_tensor_descriptor(x_ptr, shape=[m, n], strides=[stride, 1], block_shape=[16, 64])
    tl.store_tensor_descriptor(desc, [i, j], {dense_loader(block)})
""")[(1,)](x, harness.to_tensor(value, dtype), *shape, x.stride(0), 16, 64)
    harness.check(x, put_block(before, (16, 64), value), dtype, 0)


def test_store_casts_and_fills(target):
    x = torch.zeros(4, 16, dtype=torch.int32)
    harness.make("""@triton.jit
def kernel(d):
    d.store([0, 0], tl.full((2, 16), 2.75, tl.float32))
    d.store((2, 0), 7)
""")[(1,)](TensorDescriptor.from_tensor(x, [2, 16]))
    np.testing.assert_array_equal(x.numpy(), [[2] * 16] * 2 + [[7] * 16] * 2)


def test_functions_and_methods_are_the_same(target):
    x = torch.randn(8, 32)
    out = torch.zeros(8, 32)
    harness.make("""@triton.jit
def kernel(x, y):
    tl.static_assert(isinstance(x, tl.tensor_descriptor))
    tl.static_assert(not isinstance(x, tl.tensor))
    tl.store_tensor_descriptor(y, [0, 0], tl.load_tensor_descriptor(x, [0, 0]) + x.load((0, 0)))
""")[(1,)](TensorDescriptor.from_tensor(x, [8, 32]), TensorDescriptor.from_tensor(out, [8, 32]))
    torch.testing.assert_close(out, x + x, rtol=0, atol=0)


def test_attributes(target):
    out = torch.zeros(4, dtype=torch.int64)
    harness.make("""@triton.jit
def kernel(d, y_ptr):
    tl.static_assert(d.dtype == tl.float16)
    tl.static_assert(d.block_shape == [8, 32])
    tl.static_assert(d.block_type == tl.block_type(tl.float16, [8, 32]))
    tl.store(y_ptr, d.shape[0])
    tl.store(y_ptr + 1, d.shape[1])
    tl.store(y_ptr + 2, d.strides[0])
    tl.store(y_ptr + 3, d.strides[1])
""")[(1,)](TensorDescriptor(torch.zeros(10, 48, dtype=torch.float16), [9, 41], [48, 1], [8, 32]), out)
    assert out.tolist() == [9, 41, 48, 1]


# ---- where descriptors go -----------------------------------------------------------------------------


def test_loop_helper_and_branch(target):
    """Through a function, round a loop and out of branches."""
    a, b = torch.randn(40, 32), torch.randn(40, 32)
    out = torch.zeros(40, 32)
    kernel = harness.make("""@triton.jit
def scaled(desc, i, factor):
    return desc.load([i, 0]) * factor


@triton.jit
def kernel(a_ptr, b, out, m, swap):
    first = tl.make_tensor_descriptor(a_ptr, [m, 32], [32, 1], [16, 32])
    second = b
    if swap > 0:
        first, second = second, first
    for i in range(0, m, 16):
        out.store([i, 0], scaled(first, i, 2.0) + scaled(second, i, 1.0))
        first, second = second, first
""")
    for swap in (0, 5):
        kernel[(1,)](a, TensorDescriptor.from_tensor(b, [16, 32]), TensorDescriptor.from_tensor(out, [16, 32]), 40, swap)
        x, y = (a, b) if swap == 0 else (b, a)
        want = 2 * x + y
        want[16:32] = (2 * y + x)[16:32]
        torch.testing.assert_close(out, want)


def test_while_loop_and_early_return(target):
    x, out = torch.randn(64), torch.zeros(64)
    harness.make("""@triton.jit
def pick(d, e, n):
    if n > 10:
        return d
    return e


@triton.jit
def kernel(d, e, n):
    chosen = pick(d, e, n)
    i = 0
    while i < n:
        e.store([i], chosen.load([i]))
        i += 16
""")[(1,)](TensorDescriptor.from_tensor(x, [16]), TensorDescriptor.from_tensor(out, [16]), 64)
    torch.testing.assert_close(out, x, rtol=0, atol=0)


def test_noinline_takes_descriptors(target):
    x, out = torch.randn(32), torch.zeros(32)
    harness.make("""@triton.jit(noinline=True)
def move(d, e, i):
    e.store([i], d.load([i]))


@triton.jit
def kernel(d, e):
    move(d, e, 0)
    move(d, e, 16)
""")[(1,)](TensorDescriptor.from_tensor(x, [16]), TensorDescriptor.from_tensor(out, [16]))
    torch.testing.assert_close(out, x, rtol=0, atol=0)


@pytest.mark.parametrize("m, n, k", [(64, 64, 64), (70, 50, 40), (33, 17, 8)])
def test_matmul(m, n, k, target):
    a, b = padded(torch.randn(m, k).half()), padded(torch.randn(k, n).half())
    c = padded(torch.zeros(m, n))
    harness.make("""@triton.jit
def kernel(a, b, c_ptr, M, N, K, stride_c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [stride_c, 1], [BM, BN])
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([i, k]), b.load([k, j]), acc)
    c.store([i, j], acc)
""")[(-(-m // 32), -(-n // 32))](TensorDescriptor.from_tensor(a, [32, 16]), TensorDescriptor.from_tensor(b, [16, 32]), c, m, n, k,
                                 c.stride(0), BM=32, BN=32, BK=16)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-3)


#: Numbers, and what they are with a mantissa of 10 bits: to the nearest, ties to even, up into the next power of two; infinities, NaN and zeros stay.
ROUNDED_TO_TF32 = [(0x3F800FFF, 0x3F800000), (0x3F801000, 0x3F800000), (0x3F801001, 0x3F802000), (0x3F803000, 0x3F804000), (0x3FFFF000, 0x40000000), (0xBF801001, 0xBF802000),
                   (0x7F7FFFFF, 0x7F800000), (0x7F800000, 0x7F800000), (0xFF800000, 0xFF800000), (0x7F800001, 0x7F800001), (0xFFFFFFFF, 0xFFFFFFFF), (0x00001001, 0x00002000),
                   (0x00000FFF, 0x00000000), (0x80000000, 0x80000000), (0x3F800000, 0x3F800000), (0x3F802000, 0x3F802000)]


@pytest.mark.parametrize("rounds", [True, False])
def test_rounding_to_tf32(rounds, target):
    """What is loaded is rounded, by `load` and by `gather`; what is stored is not."""
    before, after = (np.array(column, np.uint32) for column in zip(*ROUNDED_TO_TF32))
    x = torch.from_numpy(np.stack([before, before[::-1]] * 4).copy().view(np.float32))
    loaded, gathered, stored = torch.zeros(8, 16, dtype=torch.int32), torch.zeros(8, 16, dtype=torch.int32), torch.zeros(8, 16)
    kernel = harness.make("""@triton.jit
def kernel(d, rows, out, loaded_ptr, gathered_ptr, x_ptr):
    i = tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(loaded_ptr + i, d.load([0, 0]).to(tl.int32, bitcast=True))
    tl.store(gathered_ptr + i, rows.gather(7 - tl.arange(0, 8), 0).to(tl.int32, bitcast=True))
    out.store([0, 0], tl.load(x_ptr + i))
""")
    descriptors = [TensorDescriptor.from_tensor(tensor, block, round_f32_to_tf32=rounds) for tensor, block in ((x, [8, 16]), (x, [1, 16]), (stored, [8, 16]))]
    compiled = kernel[(1, )](*descriptors, loaded, gathered, x)
    expected = np.stack([after, after[::-1]] * 4) if rounds else x.numpy().view(np.uint32)
    np.testing.assert_array_equal(loaded.numpy().view(np.uint32), expected)
    np.testing.assert_array_equal(gathered.numpy().view(np.uint32), expected[::-1])
    np.testing.assert_array_equal(stored.numpy().view(np.uint32), x.numpy().view(np.uint32))
    assert compiled.src.signature["d"] == "tensordesc<fp32[8, 16]" + (", tf32>" if rounds else ">")


# ---- atomics and rows ---------------------------------------------------------------------------------

REDUCTIONS = {"add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
REDUCED = {"add": ["int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32"]}


@pytest.mark.parametrize("op, name", [(op, name) for op in REDUCTIONS
                                      for name in REDUCED.get(op, ["int32", "uint32", "int64", "uint64"])])
def test_atomics(op, name, target):
    dtype = DTYPES[name]
    shape, block, offsets = (21, 100), (16, 64), (10, 48)
    bounds = dict(low=-4.0, high=4.0) if dtype.is_float else {}
    before, value = harness.values(dtype, shape, **bounds), harness.values(dtype, block, seed=1, **bounds)
    if dtype.is_float:  # sums that are exact
        before, value = np.round(before), np.round(value)
    x = padded(harness.to_tensor(before, dtype))
    harness.make(f"""@triton.jit
def kernel(d, v_ptr, i, j):
    d.atomic_{op}([i, j], {dense_loader(block)})
""")[(1,)](TensorDescriptor.from_tensor(x, block), harness.to_tensor(value, dtype), *offsets)
    with np.errstate(all="ignore"):
        combined = REDUCTIONS[op](block_at(before, offsets, block, 0), value)
    harness.check(x, put_block(before, offsets, combined), dtype, 0)


@pytest.mark.parametrize("rows_dtype", ["int32", "int16"])
@pytest.mark.parametrize("column", [0, 16, -8, 40])
def test_gather(column, rows_dtype, target):
    data = harness.values(F32, (20, 40))
    rows = np.array([3, 0, 19, 3, -1, 20, 7, 11])
    out = harness.empty(F32, (8, 32))
    harness.make(f"""@triton.jit
def kernel(d, r_ptr, y_ptr, column):
    value = d.gather(tl.load(r_ptr + tl.arange(0, 8)), column)
{stores_dense((8, 32))}""")[(1,)](TensorDescriptor.from_tensor(harness.to_tensor(data, F32), [1, 32]),
                                 harness.to_tensor(rows, DTYPES[rows_dtype]), out, column)
    harness.check(out, np.concatenate([block_at(data, (int(r), column), (1, 32), 0) for r in rows]), F32, 0)


@pytest.mark.parametrize("column", [0, 16, -8])
def test_scatter(column, target):
    before, value = harness.values(F16, (20, 40)), harness.values(F16, (8, 32), seed=1)
    rows = np.array([3, 0, 19, 5, -1, 20, 7, 11])
    x = harness.to_tensor(before, F16)
    harness.make(f"""@triton.jit
def kernel(d, v_ptr, r_ptr, column):
    d.scatter({dense_loader((8, 32))}, tl.load(r_ptr + tl.arange(0, 8)), column)
""")[(1,)](TensorDescriptor.from_tensor(x, [1, 32]), harness.to_tensor(value, F16), harness.to_tensor(rows, I32), column)
    want = before
    for i, row in enumerate(rows):
        want = put_block(want, (int(row), column), value[i:i + 1])
    harness.check(x, want, F16, 0)


# ---- the host's class, and what is refused ------------------------------------------------------------


def test_numpy_arrays_and_sizes_of_their_own(target):
    x = np.arange(64, dtype=np.float32).reshape(4, 16)
    out = np.zeros((4, 16), dtype=np.float32)
    harness.make("""@triton.jit
def kernel(d, e):
    e.store([0, 0], d.load([0, 0]))
""")[(1,)](TensorDescriptor(x, [3, 10], [16, 1], [4, 16]), TensorDescriptor.from_tensor(out, [4, 16]))
    want = np.zeros((4, 16), dtype=np.float32)
    want[:3, :10] = x[:3, :10]
    np.testing.assert_array_equal(out, want)


def test_specialisation_and_signature():
    kernel = harness.make("""@triton.jit
def kernel(d, e):
    e.store([0, 0], d.load([0, 0]))
""")
    x = torch.zeros(32, 32, dtype=torch.float16)
    first = kernel.warmup(TensorDescriptor.from_tensor(x, [16, 32]), TensorDescriptor.from_tensor(x, [16, 32]), grid=(1,))
    again = kernel.warmup(TensorDescriptor.from_tensor(x.clone(), [16, 32]), TensorDescriptor.from_tensor(x, [16, 32]), grid=(1,))
    assert first is again
    with pytest.raises(nereid.CompilationError, match="expected \\[8, 32\\], found \\[16, 32\\]"):
        kernel.warmup(TensorDescriptor.from_tensor(x, [16, 32]), TensorDescriptor.from_tensor(x, [8, 32]), grid=(1,))


@pytest.mark.parametrize("change, text", [
    (dict(shape=[4]), "rank mismatch"),
    (dict(shape=[], strides=[], block_shape=[]), "rank must not be zero"),
    (dict(shape=[1] * 6, strides=[16] * 5 + [1], block_shape=[1] * 5 + [16]), "rank cannot be more than 5"),
    (dict(base=torch.zeros(100)[1:]), "base must be 16-byte aligned"),
    (dict(strides=[17, 1]), "strides must be 16-byte aligned"),
    (dict(strides=[16, 2]), "Last dimension must be contiguous"),
    (dict(shape=[0, 16]), "shape must be positive"),
    (dict(block_shape=[0, 16]), "block_shape must be positive"),
    (dict(padding="one"), "Illegal value for padding"),
    (dict(base=torch.zeros(4, 16, dtype=torch.int32), padding="nan"), "only supported for floating point tensors"),
    (dict(base=torch.zeros(4, 16, dtype=torch.float64), round_f32_to_tf32=True), "round_f32_to_tf32 is only supported for float32 tensors"),
])
def test_host_checks(change, text):
    arguments = dict(base=torch.zeros(4, 16), shape=[4, 16], strides=[16, 1], block_shape=[4, 16])
    TensorDescriptor(**arguments)
    with pytest.raises(AssertionError, match=text):
        TensorDescriptor(**{**arguments, **change})


def test_launch_checks_what_changed_since(target):
    kernel = harness.make("""@triton.jit
def kernel(d):
    d.store([0, 0], 1.0)
""")
    desc = TensorDescriptor.from_tensor(torch.zeros(4, 16), [4, 16])
    desc.strides = [15, 1]
    with pytest.raises(TypeError, match="expected strides that are multiples of 16 bytes, found 60 bytes"):
        kernel[(1,)](desc)
    desc.strides = [16]
    with pytest.raises(TypeError, match="one size, stride and block size for each dimension"):
        kernel[(1,)](desc)


@pytest.mark.parametrize("text, message", [
    ("d + 1", "cannot convert tensor descriptor"),
    ("-d", "cannot convert tensor descriptor"),
    ("tl.where(d, 1, 2)", "cannot convert tensor descriptor"),
    ("d[0]", "cannot be subscripted"),
    ("d.load([0])", "expected 2 offsets, but got 1"),
    ("d.lod([0, 0])", "has no attribute `lod`"),
    ("tl.load(d)", "Unsupported ptr type"),
    ("d.atomic_max([0, 0], 1.0)", "atomic_max does not support fp32"),
])
def test_refused_in_kernels(text, message, target):
    kernel = harness.make(f"""@triton.jit
def kernel(d):
    {text}
""")
    with pytest.raises(nereid.CompilationError, match=message.replace("[", "\\[")):
        kernel[(1,)](TensorDescriptor.from_tensor(torch.zeros(4, 16), [4, 16]))


@pytest.mark.cpu_only("checked mode is the CPU's")
def test_checked_mode_sees_descriptors(target):
    """A descriptor larger than its tensor."""
    kernel = harness.make("""@triton.jit
def kernel(d, y_ptr):
    value = d.load([8, 0])
    i = tl.arange(0, 128)
    tl.store(y_ptr + i, tl.reshape(value, (128,)))
""")
    x, out = torch.zeros(12, 16), torch.zeros(128)
    kernel[(1,)](TensorDescriptor.from_tensor(x, [8, 16]), out, checked=True)
    with pytest.raises(RuntimeError, match="is outside of `d`, whose indices go from 0 to 191"):
        kernel[(1,)](TensorDescriptor(x, [16, 16], [16, 1], [8, 16]), out, checked=True)
