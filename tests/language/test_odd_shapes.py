"""Blocks whose sizes are no powers of two: every family of ops, and kernels made of them. Nothing outside of the arrays may be
touched, so every output lies between guards."""

import numpy as np
import pytest

import harness
from harness import DTYPES

F16, BF16, F32, F64 = (DTYPES[n] for n in ("float16", "bfloat16", "float32", "float64"))
I8, I16, I32, I64, U8, BOOL = (DTYPES[n] for n in ("int8", "int16", "int32", "int64", "uint8", "int1"))
GUARD = 64


def grid_of(shape):
    """Row-major offsets of a block, as text."""
    parts = []
    for d, n in enumerate(shape):
        index = ", ".join(":" if e == d else "None" for e in range(len(shape)))
        parts.append(f"tl.arange(0, {n})[{index}] * {int(np.prod(shape[d + 1:]))}")
    return " + ".join(parts) if shape else "0"


def guarded(dtype, shape):
    """An output between guards: the whole array, and where the output begins."""
    return harness.empty(dtype, (int(np.prod(shape)) + 2 * GUARD, ))


def inner(array, shape, dtype):
    values = harness.exact(array)
    np.testing.assert_array_equal(np.concatenate([values[:GUARD], values[-GUARD:]]), harness.exact(harness.empty(dtype, (2 * GUARD, ))))
    return values[GUARD:-GUARD].reshape(shape)


def run(inputs, body, outputs, helpers="", extra="", args=(), debug=False):
    """`body` on blocks x, y, z... makes blocks r, s, ...; `inputs`: (array, dtype), `outputs`: (shape, dtype)."""
    names, results = "xyzw"[:len(inputs)], "rst"[:len(outputs)]
    loads = "".join(f"    {n} = tl.load({n}_ptr + {grid_of(d.shape)})\n" for n, (d, _) in zip(names, inputs))
    stores = "".join(f"    tl.store({r}_ptr + {GUARD} + {grid_of(shape)}, {r})\n" for r, (shape, _) in zip(results, outputs))
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    kernel = harness.make(f"""{helpers}
@triton.jit(debug={debug})
def kernel({''.join(f'{n}_ptr, ' for n in names)}{''.join(f'{r}_ptr, ' for r in results)}{extra}):
{loads}{lines}{stores}""")
    out = [guarded(dtype, shape) for shape, dtype in outputs]
    kernel[(1, )](*(harness.to_tensor(d, dtype) for d, dtype in inputs), *out, *args)
    found = [inner(array, shape, dtype) for array, (shape, dtype) in zip(out, outputs)]
    return found[0] if len(found) == 1 else found


def integers(shape, seed=0, dtype=I32):
    return harness.values(dtype, shape, seed, low=-100 if dtype.kind == "int" else 0, high=100), dtype


def floats(shape, seed=0, dtype=F32):
    return harness.values(dtype, shape, seed, low=-4.0, high=4.0), dtype


SIZES = [3, 7, 33, 96, 100, 129, 176, 1000]


@pytest.mark.parametrize("n", SIZES)
def test_elementwise(n, target):
    (x, _), (y, _) = integers((n, )), integers((n, ), 1)
    got = run([(x, I32), (y, I32)], "r = tl.where(x > y, x * 3 - y, x // (tl.abs(y) + 1)) + tl.arange(5, %d)" % (n + 5), [((n, ), I32)])
    np.testing.assert_array_equal(got, np.where(x > y, x * 3 - y, np.trunc(x / (abs(y) + 1)).astype(int)) + np.arange(5, n + 5))


@pytest.mark.parametrize("shape", [(3, 5), (33, 4), (4, 33), (7, 100), (96, 3), (3, 5, 7), (2, 3, 4, 5)], ids=str)
def test_masked_access_and_broadcast(shape, target):
    x, _ = floats(shape)
    keep = np.arange(np.prod(shape)).reshape(shape) % 3 != 0
    offsets = grid_of(shape)
    got = run([(x, F32)], f"""
offsets = {offsets}
keep = offsets % 3 != 0
again = tl.load(x_ptr + offsets, mask=keep, other=-7.0)
row = tl.arange(0, {shape[-1]}).to(tl.float32)
r = again + row
tl.store(s_ptr + {GUARD} + offsets, x, mask=keep)
tl.debug_barrier()
s = tl.load(s_ptr + {GUARD} + offsets)""", [(shape, F32), (shape, F32)])
    np.testing.assert_array_equal(got[0], (np.where(keep, x, -7.0) + np.arange(shape[-1])).astype(np.float32))
    np.testing.assert_array_equal(got[1], np.where(keep, x.astype(np.float32), 77.0))


@pytest.mark.parametrize("dtype", [I8, BF16, F16, I64, F64, BOOL], ids=str)
def test_types(dtype, target):
    x = harness.values(dtype, (5, 13), 3)
    np.testing.assert_array_equal(run([(x, dtype)], "r = x.T", [((13, 5), dtype)]), x.T)


REDUCTIONS = [("tl.sum({}, axis={})", lambda x, a: x.sum(a)), ("tl.max({}, axis={})", lambda x, a: x.max(a)),
              ("tl.min({}, axis={})", lambda x, a: x.min(a)), ("tl.xor_sum({}, axis={})", lambda x, a: np.bitwise_xor.reduce(x, a)),
              ("tl.argmax({}, axis={})", lambda x, a: x.argmax(a)), ("tl.argmin({}, axis={})", lambda x, a: x.argmin(a))]


@pytest.mark.parametrize("shape,axis", [((33, ), 0), ((7, 12), 0), ((7, 12), 1), ((100, 3), 0), ((3, 100), 1), ((3, 5, 7), 1), ((96, 16), 0)],
                         ids=str)
def test_reductions(shape, axis, target):
    x, _ = integers(shape)
    kept = tuple(n for d, n in enumerate(shape) if d != axis)
    for text, reference in REDUCTIONS:
        expression = f"r = {text.format('x', axis)}"
        got = run([(x - 300, I32)], expression, [(kept, I32)])
        np.testing.assert_array_equal(got, reference(x - 300, axis), err_msg=text)


def test_float_reductions(target):
    x, _ = floats((33, 10))
    x[3] = np.nan
    x[5] = -np.inf
    got = run([(x, F32)], "r = tl.max(x, 1)\ns = tl.sum(x, 1)\nt = tl.max(x)", [((33, ), F32), ((33, ), F32), ((), F32)])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got[0], x.max(1))
        np.testing.assert_allclose(got[1], x.sum(1), rtol=1e-5, atol=1e-5)
        assert got[2] == np.nanmax(x)


WELFORD = """
@triton.jit
def combine(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    delta = mean_b - mean_a
    return mean_a + delta * n_b / n, m2_a + m2_b + delta * delta * n_a * n_b / n, n
"""


@pytest.mark.parametrize("n", [3, 33, 100])
def test_reduction_of_several_values(n, target):
    x, _ = floats((n, 6))
    got = run([(x, F32)], "r, s, t = tl.reduce((x, tl.zeros_like(x), tl.full(x.shape, 1.0, tl.float32)), 0, combine)", [((6, ), F32)] * 3, WELFORD)
    np.testing.assert_allclose(got[0], x.mean(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got[1], ((x - x.mean(0))**2).sum(0), rtol=1e-4)
    np.testing.assert_array_equal(got[2], np.full(6, n))


ORDERED = """
@triton.jit
def after(a, b):
    return a * 10 + b


@triton.jit
def compose(a, b, c, d):
    return a * c, b * c + d
"""


@pytest.mark.overflows("its integers wrap on purpose")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape,axis", [((33, ), 0), ((7, 12), 0), ((7, 12), 1), ((5, 100), 1)], ids=str)
def test_scans(shape, axis, reverse, target):
    x, _ = integers(shape)
    flip = (lambda v: np.flip(v, axis)) if reverse else (lambda v: v)
    got = run([(x, I32)], f"r = tl.cumsum(x, {axis}, reverse={reverse})", [(shape, I32)])
    np.testing.assert_array_equal(got, flip(np.cumsum(flip(x), axis)))
    # Affine maps do not commute.
    a, b = x % 3 + 1, x % 5
    got = run([(a, I32), (b, I32)], f"r, s = tl.associative_scan((x, y), {axis}, compose, reverse={reverse})", [(shape, I32)] * 2, ORDERED)
    first, second = np.moveaxis(flip(a), axis, 0), np.moveaxis(flip(b), axis, 0)
    want_a, want_b = [first[0]], [second[0]]
    for i in range(1, len(first)):
        want_a.append(want_a[-1] * first[i])
        want_b.append(want_b[-1] * first[i] + second[i])
    back = lambda v: harness.wrap(flip(np.moveaxis(np.array(v), 0, axis)), I32)
    np.testing.assert_array_equal(got[0], back(want_a))
    np.testing.assert_array_equal(got[1], back(want_b))


def test_combiner_runs_on_real_elements_only(target):
    """The combiner stops the kernel when it meets an element that is not there."""
    helpers = """
@triton.jit
def careful(a, b):
    tl.device_assert((a > 0) & (b > 0), "not an element")
    return a + b
"""
    x = np.arange(1, 3 * 33 + 1).reshape(3, 33)
    got = run([(x, I32)], "r = tl.reduce(x, 1, careful)\ns = tl.associative_scan(x, 0, careful)", [((3, ), I32), ((3, 33), I32)],
              helpers, debug=True)
    np.testing.assert_array_equal(got[0], x.sum(1))
    np.testing.assert_array_equal(got[1], x.cumsum(0))


@pytest.mark.parametrize("before,after", [((100, ), (10, 10)), ((10, 10), (100, )), ((6, 32), (192, )), ((3, 5, 7), (105, )), ((105, ), (5, 21)),
                                          ((12, ), (3, 4)), ((12, ), (4, 3)), ((7, 4), (28, )), ((33, ), (1, 33, 1)), ((2, 9), (3, 6)),
                                          ((100, 16), (25, 4, 16)), ((48, 6), (6, 48)), ((4, 6), (24, ))], ids=str)
def test_reshape(before, after, target):
    x = np.arange(np.prod(before)).reshape(before)
    np.testing.assert_array_equal(run([(x, I32)], f"r = tl.reshape(x, {after})", [(after, I32)]), x.reshape(after))


@pytest.mark.parametrize("shape,order", [((5, 7), (1, 0)), ((3, 4, 5), (2, 0, 1)), ((2, 3, 1, 5), (3, 1, 0, 2)), ((33, 100), (1, 0))], ids=str)
def test_permute(shape, order, target):
    x = np.arange(np.prod(shape)).reshape(shape)
    want = x.transpose(order)
    np.testing.assert_array_equal(run([(x, I32)], f"r = tl.permute(x, {order})", [(want.shape, I32)]), want)


@pytest.mark.parametrize("shape", [(5, ), (33, ), (3, 7)], ids=str)
def test_join_split_interleave(shape, target):
    (x, _), (y, _) = integers(shape), integers(shape, 1)
    np.testing.assert_array_equal(run([(x, I32), (y, I32)], "r = tl.join(x, y)", [(shape + (2, ), I32)]), np.stack([x, y], -1))
    got = run([(x, I32), (y, I32)], "r, s = tl.split(tl.join(x, y))", [(shape, I32)] * 2)
    np.testing.assert_array_equal(got[0], x)
    np.testing.assert_array_equal(got[1], y)
    wide = shape[:-1] + (2 * shape[-1], )
    np.testing.assert_array_equal(run([(x, I32), (y, I32)], "r = tl.interleave(x, y)", [(wide, I32)]), np.stack([x, y], -1).reshape(wide))


@pytest.mark.parametrize("a,b,dim", [((5, ), (5, ), 0), ((5, ), (3, ), 0), ((64, ), (32, ), 0), ((3, 5), (4, 5), 0), ((3, 5), (3, 9), 1),
                                     ((2, 33), (2, 31), 1)], ids=str)
def test_cat(a, b, dim, target):
    (x, _), (y, _) = integers(a), integers(b, 1)
    want = np.concatenate([x, y], dim)
    np.testing.assert_array_equal(run([(x, I32), (y, I32)], f"r = tl.cat(x, y, dim={dim})", [(want.shape, I32)]), want)


def test_atomics(target):
    x = np.arange(33)
    got = run([(x, I32)], f"""
i = tl.arange(0, 33)
tl.store(r_ptr + {GUARD} + i, x)
tl.debug_barrier()
s = tl.atomic_add(r_ptr + {GUARD} + i, 5)
tl.atomic_max(r_ptr + {GUARD} + i, 20, mask=i < 10)
t = tl.atomic_cas(r_ptr + {GUARD} + i, 20, -1)
tl.debug_barrier()
r = tl.load(r_ptr + {GUARD} + i)
""", [((33, ), I32)] * 3)
    after = np.where(x < 10, np.maximum(x + 5, 20), x + 5)
    np.testing.assert_array_equal(got[1], x)
    np.testing.assert_array_equal(got[2], after)
    np.testing.assert_array_equal(got[0], np.where(after == 20, -1, after))


def test_many_lanes_add_to_one_address(target):
    got = run([], f"""
r = tl.zeros([], tl.int32)
tl.store(r_ptr + {GUARD}, 0)
tl.debug_barrier()
tl.atomic_add(r_ptr + {GUARD} + tl.zeros([100], tl.int32), tl.arange(0, 100))
tl.debug_barrier()
r = tl.load(r_ptr + {GUARD})""", [((), I32)])
    assert got == 4950


def test_loops_and_branches_carry_them(target):
    x, _ = integers((33, 5))
    got = run([(x, I32)], """
acc = tl.zeros((33, 5), tl.int32)
best = tl.full((33,), -1000, tl.int32)
for i in range(0, n):
    if i % 2 == 0:
        acc += x * i
    else:
        acc -= tl.arange(0, 33)[:, None]
    best = tl.maximum(best, tl.max(acc, 1))
while tl.sum(tl.sum(acc, 1), 0) > 0:
    acc -= 50
r = acc
s = best""", [((33, 5), I32), ((33, ), I32)], extra="n", args=(7, ))
    acc, best = np.zeros((33, 5), int), np.full(33, -1000)
    for i in range(7):
        acc = acc + x * i if i % 2 == 0 else acc - np.arange(33)[:, None]
        best = np.maximum(best, acc.max(1))
    while acc.sum() > 0:
        acc = acc - 50
    np.testing.assert_array_equal(got[0], acc)
    np.testing.assert_array_equal(got[1], best)


@pytest.mark.parametrize("rows", [1, 7])
def test_softmax(rows, target):
    x, _ = floats((rows, 100))
    got = run([(x, F32)], "e = tl.exp(x - tl.max(x, 1, keep_dims=True))\nr = e / tl.sum(e, 1, keep_dims=True)", [((rows, 100), F32)])
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(got, e / e.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("m,n,k", [(33, 48, 100), (7, 5, 3), (100, 100, 33), (48, 176, 80), (1, 33, 1), (16, 72, 40)])
@pytest.mark.parametrize("dtype", [F16, BF16, F32, I8, F64], ids=str)
def test_dot(m, n, k, dtype, target):
    (a, _), (b, _) = (integers((m, k), 0, I8), integers((k, n), 1, I8)) if dtype is I8 else (floats((m, k), 0, dtype), floats((k, n), 1, dtype))
    out = {"int8": I32, "float64": F64}.get(dtype.name, F32)
    got = run([(a, dtype), (b, dtype)], "r = tl.dot(x, y, input_precision='ieee')", [((m, n), out)])
    np.testing.assert_allclose(got, a @ b, rtol=1e-5, atol=1e-3)


def test_dot_of_what_is_computed(target):
    """Neither operand has zeros in its padding, and infinities must not meet them."""
    (a, _), (b, _) = floats((16, 33), 0, F16), floats((33, 16), 1, F16)
    got = run([(a, F16), (b, F16)], "r = tl.dot(tl.exp(x.to(tl.float32)).to(tl.float16), (1.0 / (y * 0.0 + tl.arange(0, 33)[:, None] + 1)).to(tl.float16))",
              [((16, 16), F32)])
    want = np.exp(a).astype(np.float16).astype(float) @ np.broadcast_to((1 / (np.arange(33) + 1)).astype(np.float16).astype(float)[:, None], (33, 16))
    np.testing.assert_allclose(got, want, rtol=5e-3)
