"""What reductions and scans promise and naive implementations miss; the numbers are those of the list of behaviours."""

import numpy as np
import pytest

import harness
from harness import DTYPES
from test_shapes import offsets

F32, I32 = DTYPES["float32"], DTYPES["int32"]


def run(inputs, body, outputs, prologue="", **options):
    """`body` on blocks x, y... of (dtype, data); stores r, s... of (dtype, shape), whose types are checked."""
    names, results = "xyzw"[:len(inputs)], "rstuv"[:len(outputs)]
    loads = "\n".join(f"    {n} = tl.load({n}_ptr + {offsets(d.shape)})" for n, (_, d) in zip(names, inputs))
    stores = "\n".join(f"    tl.static_assert({n}.dtype == tl.{d})\n    tl.store({n}_ptr + {offsets(s)}, {n})" for n, (d, s) in zip(results, outputs))
    lines = "\n".join("    " + line for line in body.splitlines())
    kernel = harness.make(f"""{prologue}@triton.jit
def kernel({', '.join(f'{n}_ptr' for n in names + results)}):
{loads}
{lines}
{stores}
""")
    tensors = [harness.empty(d, s or (1,)) for d, s in outputs]
    kernel[(1,)](*(harness.to_tensor(d, t) for t, d in inputs), *tensors, **options)
    return [harness.exact(t).reshape(s) for t, (_, s) in zip(tensors, outputs)]


@pytest.mark.parametrize("name", ["max", "min"])
def test_12_extrema_ignore_nan(name, target):
    data = harness.values(F32, (4, 64))
    data[0, 0] = data[1, 63] = data[2, 7] = np.nan
    data[3] = np.nan
    r, s, t = run([(F32, data)], f"r = tl.{name}(x, 1)\ns, t = tl.{name}(x, 1, return_indices=True)", [(F32, (4,)), (F32, (4,)), (I32, (4,))])
    want = np.append({"max": np.nanmax, "min": np.nanmin}[name](data[:3], 1), np.nan)
    np.testing.assert_array_equal(r, want)
    np.testing.assert_array_equal(s, want)
    np.testing.assert_array_equal(t[:3], {"max": np.nanargmax, "min": np.nanargmin}[name](data[:3], 1))
    assert 0 <= t[3] < 64


@pytest.mark.parametrize("name,numpy,ignoring", [("maximum", np.maximum, np.fmax), ("minimum", np.minimum, np.fmin)])
def test_12_propagate_nan(name, numpy, ignoring, target):
    a = np.array([1, np.nan, np.nan, 2, -0.0, np.inf, 3, -1.0])
    b = np.array([np.nan, 1, np.nan, 3, 0.0, np.nan, 2, -2.0])
    r, s = run([(F32, a), (F32, b)], f"r = tl.{name}(x, y)\ns = tl.{name}(x, y, propagate_nan=tl.PropagateNan.ALL)", [(F32, (8,)), (F32, (8,))])
    np.testing.assert_array_equal(r, ignoring(a, b))
    np.testing.assert_array_equal(s, numpy(a, b))
    r, = run([(F32, a)], "r = tl.max(tl.where(x == 0, x, -0.0), 0)", [(F32, ())])
    assert r == 0


@pytest.mark.parametrize("length", [5, 64, 300, 1024])
@pytest.mark.parametrize("dtype", [DTYPES["bfloat16"], DTYPES["float16"]], ids=str)
def test_12_extrema_of_16_bits(dtype, length, target):
    """Rows of a block that is longer, with a NaN of either sign, infinities, zeros of both signs."""
    kernel = harness.make("""@triton.jit
def greater(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
@triton.jit
def less(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
@triton.jit
def kernel(x_ptr, r_ptr, s_ptr, length, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    inside = places < length
    x = tl.load(x_ptr + tl.program_id(0) * length + places, inside, 0).to(tl.float32)
    tl.store(r_ptr + tl.program_id(0), tl.reduce(tl.where(inside, x, float("-inf")), 0, greater))
    tl.store(s_ptr + tl.program_id(0), tl.reduce(tl.where(inside, x, float("inf")), 0, less))
""")
    data = harness.values(dtype, (10, length), special=False)
    data[1, length // 2] = data[2, -1] = data[3, 0] = np.nan
    data[4, 0], data[4, -1] = np.inf, -np.inf
    data[5], data[6] = -np.inf, np.inf
    data[7] = np.where(np.arange(length) % 3 == 0, 0.0, -0.0)
    data[8], data[9] = np.abs(data[8]), -np.abs(data[9])
    x = harness.to_tensor(data, dtype)
    x[2:4] = x[2:4].abs().neg()  # NaN with a sign
    data = harness.exact(x)
    largest, smallest = harness.empty(F32, (10,)), harness.empty(F32, (10,))
    kernel[(10,)](x, largest, smallest, length, BLOCK=1024)
    for result, want, zero_sign in ((largest, data.max(1), False), (smallest, data.min(1), True)):
        result = harness.exact(result)
        np.testing.assert_array_equal(result, want)
        assert np.signbit(result[7]) == zero_sign


@pytest.mark.parametrize("length,warps", [(8, 1), (64, 4), (1024, 4), (2048, 8)])
@pytest.mark.parametrize("dtype", [DTYPES["int8"], DTYPES["float16"], F32, DTYPES["int64"]], ids=str)
def test_13_the_first_of_equals(dtype, length, warps, target):
    """All equal, and the extremum in two places that different threads hold."""
    data = np.zeros((3, length))
    data[1, [length // 2 - 1, length // 2, length - 1]] = 5, 5, 5
    data[2, [1, length - 1]] = -5, -5
    r, s = run([(dtype, data)], "r = tl.argmax(x, 1)\ns = tl.argmin(x, axis=1, tie_break_left=True)", [(I32, (3,)), (I32, (3,))], num_warps=warps)
    np.testing.assert_array_equal(r, np.argmax(data, 1))
    np.testing.assert_array_equal(s, np.argmin(data, 1))


@pytest.mark.parametrize("dtype,plain,indexed", [("int8", "int32", "int8"), ("int16", "int32", "int16"), ("uint8", "int32", "uint8"), ("float16", "float32", "float16"),
                                                 ("bfloat16", "float32", "float32"), ("int64", "int64", "int64"), ("float64", "float64", "float64")])
def test_14_types_of_extrema(dtype, plain, indexed, target):
    dtype, plain, indexed = DTYPES[dtype], DTYPES[plain], DTYPES[indexed]
    data = harness.values(dtype, (32,), low=1, high=99)
    r, s, t = run([(dtype, data)], "r = tl.max(x, 0)\ns, t = tl.max(x, 0, return_indices=True)", [(plain, ()), (indexed, ()), (I32, ())])
    assert r == s == data.max() and data[int(t)] == data.max()


@pytest.mark.parametrize("dtype,result", [("int8", "int32"), ("int16", "int32"), ("int1", "uint32"), ("uint8", "uint32"), ("uint16", "uint32"), ("int64", "int64"),
                                          ("float16", "float16"), ("bfloat16", "bfloat16"), ("float32", "float32")])
def test_15_types_of_sums(dtype, result, target):
    dtype, result = DTYPES[dtype], DTYPES[result]
    data = np.ones(256) if dtype.is_float else np.full(256, dtype.high)  # a narrow sum would wrap
    want = 256 if dtype.is_float else 256 * dtype.high
    if dtype.bits == 64:
        data, want = np.arange(256), 255 * 128
    r, = run([(dtype, data)], "r = tl.sum(x)", [(result, ())])
    assert r == want
    wide = DTYPES["float32" if dtype.is_float else "int64"]
    r, = run([(dtype, data)], f"r = tl.sum(x, axis=0, dtype=tl.{wide})", [(wide, ())])
    assert r == want


@pytest.mark.overflows("its integers wrap on purpose")
def test_16_scans_of_narrow_types(target):
    """`cumsum` counts bools, `cumprod` wraps where it is."""
    bools, i8 = DTYPES["int1"], DTYPES["int8"]
    data = np.arange(64) % 3 == 0
    r, = run([(bools, data)], "r = tl.cumsum(x, 0)", [(DTYPES["uint32"], (64,))])
    np.testing.assert_array_equal(r, np.cumsum(data))
    r, = run([(bools, data)], "r = tl.cumsum(x, 0, dtype=tl.int16)", [(DTYPES["int16"], (64,))])
    np.testing.assert_array_equal(r, np.cumsum(data))
    threes = np.full(16, 3)
    r, = run([(i8, threes)], "r = tl.cumprod(x, 0)", [(i8, (16,))])
    np.testing.assert_array_equal(r, harness.wrap(np.cumprod(threes), i8))
    halves = np.full(8, 0.5)
    r, = run([(DTYPES["bfloat16"], halves)], "r = tl.cumprod(x)", [(F32, (8,))])
    np.testing.assert_array_equal(r, np.cumprod(halves))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_17_scans_from_the_end(reverse, axis, target):
    """Which element is left: `first` keeps its left operand, so all results are that of the end the scan starts from."""
    prologue = """@triton.jit
def first(a, i, b, j):
    return a, i


@triton.jit
def last(a, i, b, j):
    return b, j


"""
    data, number = harness.values(F32, (4, 32)), np.arange(128).reshape(4, 32)
    for combine in ("first", "last"):
        r, s = run([(F32, data), (I32, number)], f"r, s = tl.associative_scan((x, y), {axis}, {combine}, reverse={reverse})", [(F32, (4, 32)), (I32, (4, 32))], prologue)
        if combine == "last":
            want = slice(None), slice(None)
            np.testing.assert_array_equal(r, data[want])
            np.testing.assert_array_equal(s, number)
            continue
        end = -1 if reverse else 0
        np.testing.assert_array_equal(r, np.broadcast_to(np.take(data, [end], axis), data.shape))
        np.testing.assert_array_equal(s, np.broadcast_to(np.take(number, [end], axis), data.shape))


def test_18_axes(target):
    data = np.arange(64).reshape(2, 1, 32)
    r, s = run([(I32, data)], "r = tl.sum(x, -1)\ns = tl.sum(x, axis=1)", [(I32, (2, 1)), (I32, (2, 32))])
    np.testing.assert_array_equal(r, data.sum(-1))
    np.testing.assert_array_equal(s, data.sum(1))
    r, s, t = run([(I32, data)], "r = tl.max(x)\ns = tl.max(x, keep_dims=True)\nt = tl.min(x, -3, keep_dims=True)", [(I32, ()), (I32, (1, 1, 1)), (I32, (1, 1, 32))])
    assert r == 63 and s == 63
    np.testing.assert_array_equal(t, data.min(0, keepdims=True))
    r, s = run([(I32, data)], "r, s = tl.max(x, axis=None, return_indices=True)", [(I32, ()), (I32, ())])
    assert (r, s) == (63, 63)
    r, s = run([(I32, data)], "r = tl.cumsum(x, 1)\ns = tl.cumsum(x, -1)", [(I32, (2, 1, 32)), (I32, (2, 1, 32))])
    np.testing.assert_array_equal(r, data)
    np.testing.assert_array_equal(s, data.cumsum(-1))


@pytest.mark.parametrize("expression", ["tl.sum(x, 2)", "tl.max(x, axis=-3)", "tl.cumsum(x, 5)", "tl.argmax(x, 2)", "tl.reduce(x, 7, add)"])
def test_18_wrong_axes_are_refused(expression):
    kernel = harness.make(f"""@triton.jit
def add(a, b):
    return a + b


@triton.jit
def kernel(p):
    x = tl.load(p + tl.arange(0, 4)[:, None] + tl.arange(0, 8)[None, :])
    tl.store(p, tl.sum({expression}))
""")
    with pytest.raises(Exception, match="invalid axis"):
        kernel[(1,)](harness.empty(I32, (64,)))


def test_19_inputs_of_different_types(target):
    prologue = """@triton.jit
def heaviest(w, n, f, v, m, g):
    keep = (w > v) | ((w == v) & (n < m))
    return tl.where(keep, w, v), tl.where(keep, n, m), f | g


"""
    f16, i64, bools = DTYPES["float16"], DTYPES["int64"], DTYPES["int1"]
    weight = np.array([[1, 7, 7, 0] * 8, [2, 2, 1, 9] * 8])
    number = np.arange(64).reshape(2, 32) << 33
    flag = np.zeros((2, 32), bool)
    flag[1, 17] = True
    r, s, t = run([(f16, weight), (i64, number), (bools, flag)], "r, s, t = tl.reduce((x, y, z), 1, heaviest)", [(f16, (2,)), (i64, (2,)), (bools, (2,))], prologue)
    np.testing.assert_array_equal(r, [7, 9])
    np.testing.assert_array_equal(s, [number[0, 1], number[1, 3]])
    np.testing.assert_array_equal(t, [False, True])


@pytest.mark.parametrize("length", [32, 96, 256])
def test_19_combiners_with_branches_and_assertions(length, target):
    """They see the elements and what was made of them, never a filling: all are positive here, and so is every sum."""
    prologue = """@triton.jit
def checked(a, b):
    tl.device_assert((a > 0) & (b > 0), "not an element")
    if a > b:
        c = a + b
    else:
        c = b + a
    return c


"""
    data = np.random.default_rng(0).integers(1, 9, (2, length))
    r, s = run([(I32, data)], "r = tl.reduce(x, 1, checked)\ns = tl.associative_scan(x, 1, checked)", [(I32, (2,)), (I32, (2, length))], prologue, debug=True)
    np.testing.assert_array_equal(r, data.sum(1))
    np.testing.assert_array_equal(s, data.cumsum(1))


def test_combiners_of_the_library_by_name(target):
    """`tl.standard` has the functions behind `tl.sum`, `tl.argmax` and the like, for users' own reductions and scans."""
    data = np.random.default_rng(0).integers(-50, 50, (2, 64))
    code = """r, s = tl.reduce((x, tl.broadcast_to(tl.arange(0, 64)[None, :], 2, 64)), 1, tl.standard._argmax_combine_tie_break_left)
t = tl.associative_scan(x, 1, tl.standard._sum_combine)
u, v = tl.reduce(x, 1, tl.standard._elementwise_min), tl.core.reduce(x, 1, tl.standard._xor_combine)"""
    outputs = [(I32, (2,)), (I32, (2,)), (I32, (2, 64)), (I32, (2,)), (I32, (2,))]
    r, s, t, u, v = run([(I32, data)], code, outputs)
    np.testing.assert_array_equal(r, data.max(1))
    np.testing.assert_array_equal(s, data.argmax(1))
    np.testing.assert_array_equal(t, data.cumsum(1))
    np.testing.assert_array_equal(u, data.min(1))
    np.testing.assert_array_equal(v, np.bitwise_xor.reduce(data, 1))
    from nereid.language.standard import _prod_combine
    with pytest.raises(ValueError):
        _prod_combine(1, 2)
