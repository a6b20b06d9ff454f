"""Creation and shape builtins, on every dtype class they carry."""

import numpy as np
import pytest

import harness
from harness import BOOL, DTYPES, FLOATS, INTS

ALL = [BOOL, *INTS, *FLOATS]
SOME = [BOOL, DTYPES["int8"], DTYPES["int64"], DTYPES["bfloat16"], DTYPES["float32"]]
COVERED = {"program_id", "num_programs", "arange", "full", "zeros", "zeros_like", "broadcast", "broadcast_to", "expand_dims", "reshape",
           "view", "ravel", "trans", "permute", "join", "split", "interleave", "cat", "item", "cast", "squeeze", "unsqueeze", "swizzle2d"}


def offsets(shape):
    index = {0: [], 1: [""], 2: ["[:, None]", "[None, :]"], 3: ["[:, None, None]", "[None, :, None]", "[None, None, :]"],
             4: ["[:, None, None, None]", "[None, :, None, None]", "[None, None, :, None]", "[None, None, None, :]"]}[len(shape)]
    steps = [int(np.prod(shape[d + 1:])) for d in range(len(shape))]
    return " + ".join(f"tl.arange(0, {n}){i} * {s}" for n, i, s in zip(shape, index, steps)) or "0"


def run(dtype, inputs, expression, shape, out=None):
    """`expression` on blocks x, y...; its result of this shape."""
    out = out or dtype
    names = "xyzw"[:len(inputs)]
    loads = "\n".join(f"    {n} = tl.load({n}_ptr + {offsets(d.shape)})" for n, d in zip(names, inputs))
    kernel = harness.make(f"""@triton.jit
def kernel({''.join(f'{n}_ptr, ' for n in names)}out):
{loads}
    r = {expression}
    tl.store(out + {offsets(shape)}, r)
""")
    result = harness.empty(out, shape or (1,))
    kernel[(1,)](*(harness.to_tensor(d, dtype) for d in inputs), result)
    return harness.exact(result)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_full_and_zeros(dtype, target):
    np.testing.assert_array_equal(run(dtype, [], f"tl.full((4, 8), 1, tl.{dtype})", (4, 8)), np.ones((4, 8)))
    np.testing.assert_array_equal(run(dtype, [], f"tl.zeros((4, 8), tl.{dtype})", (4, 8)), np.zeros((4, 8)))
    x = harness.values(dtype, (8,))
    np.testing.assert_array_equal(run(dtype, [x], "tl.zeros_like(x)", (8,)), np.zeros(8))


@pytest.mark.parametrize("start,end", [(0, 1), (0, 64), (5, 21), (-8, 8), (100, 102)])
def test_arange(start, end, target):
    np.testing.assert_array_equal(run(DTYPES["int32"], [], f"tl.arange({start}, {end})", (end - start,)), np.arange(start, end))


@pytest.mark.parametrize("dtype", SOME, ids=str)
@pytest.mark.parametrize("expression,shape,reference", [
    ("x[None, :]", (1, 16), lambda x: x[None, :]), ("x[:, None]", (16, 1), lambda x: x[:, None]), ("x[None]", (1, 16), lambda x: x[None]),
    ("tl.expand_dims(x, 0)", (1, 16), lambda x: x[None]), ("tl.expand_dims(x, -1)", (16, 1), lambda x: x[:, None]),
    ("x.expand_dims((0, 2))", (1, 16, 1), lambda x: x[None, :, None]),
    ("tl.broadcast_to(x[:, None], (16, 4))", (16, 4), lambda x: np.broadcast_to(x[:, None], (16, 4))),
    ("x[None, :].broadcast_to(4, 16)", (4, 16), lambda x: np.broadcast_to(x, (4, 16))),
    ("tl.reshape(x, (4, 4))", (4, 4), lambda x: x.reshape(4, 4)), ("x.reshape(2, 8)", (2, 8), lambda x: x.reshape(2, 8)),
    ("tl.reshape(x, (2, 2, 4))", (2, 2, 4), lambda x: x.reshape(2, 2, 4)), ("tl.ravel(tl.reshape(x, (4, 4)))", (16,), lambda x: x),
    ("tl.trans(tl.reshape(x, (2, 8)))", (8, 2), lambda x: x.reshape(2, 8).T), ("tl.reshape(x, (2, 8)).T", (8, 2), lambda x: x.reshape(2, 8).T),
    ("tl.trans(tl.reshape(x, (2, 2, 4)), 2, 0, 1)", (4, 2, 2), lambda x: x.reshape(2, 2, 4).transpose(2, 0, 1)),
    ("tl.permute(tl.reshape(x, (2, 2, 4)), (1, 2, 0))", (2, 4, 2), lambda x: x.reshape(2, 2, 4).transpose(1, 2, 0)),
    ("tl.permute(tl.reshape(x, (2, 2, 2, 2)), 3, 1, 0, 2)", (2, 2, 2, 2), lambda x: x.reshape(2, 2, 2, 2).transpose(3, 1, 0, 2)),
    ("tl.join(x, x)", (16, 2), lambda x: np.stack([x, x], -1)), ("tl.interleave(x, x)", (32,), lambda x: np.repeat(x, 2)),
    ("tl.split(tl.reshape(x, (8, 2)))[0]", (8,), lambda x: x[0::2]), ("tl.split(tl.reshape(x, (8, 2)))[1]", (8,), lambda x: x[1::2]),
    ("tl.cat(x, x)", (32,), lambda x: np.concatenate([x, x])),
    ("tl.cat(tl.reshape(x, (4, 4)), tl.reshape(x, (4, 4)), dim=1)", (4, 8), lambda x: np.concatenate([x.reshape(4, 4)] * 2, 1)),
    ("tl.join(x.reshape(2, 2, 4), x.reshape(2, 2, 4))", (2, 2, 4, 2), lambda x: np.stack([x.reshape(2, 2, 4)] * 2, -1)),
    ("tl.split(tl.reshape(x, (2, 2, 2, 2)))[1]", (2, 2, 2), lambda x: x.reshape(2, 2, 2, 2)[..., 1]),
    ("tl.cat(x.reshape(2, 2, 4), x.reshape(2, 2, 4), dim=-2)", (2, 4, 4), lambda x: np.concatenate([x.reshape(2, 2, 4)] * 2, 1)),
    ("tl.cat(x, x, can_reorder=False, dim=-1)", (32,), lambda x: np.concatenate([x, x])),
    ("tl.interleave(x.reshape(4, 4), x.reshape(4, 4))", (4, 8), lambda x: np.repeat(x.reshape(4, 4), 2, 1)),
    ("tl.permute(tl.reshape(x, (2, 2, 1, 2, 2)), 4, 2, 0, 3, 1).ravel()", (16,), lambda x: x.reshape(2, 2, 1, 2, 2).transpose(4, 2, 0, 3, 1).ravel()),
    ("tl.squeeze(tl.reshape(x, (4, 1, 4)), -2)", (4, 4), lambda x: x.reshape(4, 4)), ("tl.unsqueeze(x, -2)", (1, 16), lambda x: x[None]),
    ("tl.expand_dims(x, (-1, 0))", (1, 16, 1), lambda x: x[None, :, None]),
    ("tl.broadcast(x[:, None], x[None, :])[0]", (16, 16), lambda x: np.broadcast_to(x[:, None], (16, 16))),
    ("tl.broadcast(x[:, None], x[None, :])[1]", (16, 16), lambda x: np.broadcast_to(x[None, :], (16, 16))),
    ("tl.trans(x[None, :] + tl.zeros((4, 16), x.dtype) if x.dtype != tl.int1 else tl.broadcast_to(x[None, :], (4, 16)))", (16, 4),
     lambda x: np.broadcast_to(x[:, None], (16, 4))),
], ids=lambda v: v if isinstance(v, str) else "")
def test_shape(expression, shape, reference, dtype, target):
    x = harness.values(dtype, (16,))
    np.testing.assert_array_equal(run(dtype, [x], expression, shape), reference(x))


def test_computed_values_keep_their_place(target):
    """The same operations on values that are computed, not loaded, so that nothing can be read from memory again."""
    f32 = DTYPES["float32"]
    x = harness.values(f32, (8, 16))
    got = run(f32, [x], "tl.trans(tl.reshape(tl.exp(x * 0.1), (16, 8))) * 2.0", (8, 16))
    np.testing.assert_allclose(got, np.exp(x * 0.1).reshape(16, 8).T * 2, rtol=1e-6)


def test_scalars(target):
    i32 = DTYPES["int32"]
    x = harness.values(i32, (1,), low=0, high=9)
    assert run(i32, [x], "x.item() + 1", ())[0] == x[0] + 1
    np.testing.assert_array_equal(run(i32, [], "tl.join(3, 4)", (2,)), [3, 4])
    assert run(i32, [], "tl.split(tl.join(3, 4))[1]", ())[0] == 4
    assert run(i32, [], "tl.full((), 7, tl.int32)", ())[0] == 7


def test_dimensions_need_not_be_powers_of_two(target):
    """Elementwise code, loads, stores and reductions of any size are an extension."""
    f32 = DTYPES["float32"]
    x = harness.values(f32, (12,))
    np.testing.assert_allclose(run(f32, [x], "x * 2.0", (12,)), x * 2)


def test_grid(target):
    out = harness.empty(DTYPES["int32"], (3, 5, 7, 6))
    harness.make("""@triton.jit
def kernel(out):
    i, j, k = tl.program_id(0), tl.program_id(1), tl.program_id(axis=2)
    p = out + ((i * 5 + j) * 7 + k) * 6
    tl.store(p, i)
    tl.store(p + 1, j)
    tl.store(p + 2, k)
    tl.store(p + 3, tl.num_programs(0))
    tl.store(p + 4, tl.num_programs(1))
    tl.store(p + 5, tl.num_programs(2))
""")[(3, 5, 7)](out)
    i, j, k = np.meshgrid(range(3), range(5), range(7), indexing="ij")
    want = np.stack([i, j, k, np.full_like(i, 3), np.full_like(i, 5), np.full_like(i, 7)], -1)
    np.testing.assert_array_equal(out.numpy(), want)


@pytest.mark.parametrize("rows,columns,group", [(4, 3, 2), (5, 4, 2), (7, 2, 4), (3, 3, 8)])
def test_swizzle2d(rows, columns, group, target):
    """Groups of rows are walked column by column; the last group may be smaller."""
    out = harness.empty(DTYPES["int32"], (rows, columns))
    harness.make(f"""@triton.jit
def kernel(out):
    i = tl.program_id(0)
    j = tl.program_id(1)
    r, c = tl.swizzle2d(i, j, {rows}, {columns}, {group})
    tl.store(out + r * {columns} + c, i * {columns} + j)
""")[(rows, columns)](out)
    want, position = np.empty((rows, columns), np.int32), 0
    for first in range(0, rows, group):
        for column in range(columns):
            for row in range(first, min(first + group, rows)):
                want[row, column] = position
                position += 1
    np.testing.assert_array_equal(out.numpy(), want)
