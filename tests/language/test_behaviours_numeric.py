"""Behaviours of arithmetic and conversions that an implementation gets wrong easily, numbered as in the list of forty-eight."""

import numpy as np
import pytest
import torch

import harness
from harness import DTYPES

COVERED = {"expect_zero"}


def store(expression, out, *inputs, size=64, prologue=""):
    names = [f"x{i}" for i in range(len(inputs))]
    loads = "".join(f"    {n} = tl.load({n}_ptr + i)\n" for n in names)
    harness.make(f"""@triton.jit
def kernel({', '.join([n + '_ptr' for n in names] + ['o_ptr'])}):
    i = tl.arange(0, {size})
{loads}{prologue}    tl.store(o_ptr + i, {expression})
""")[(1,)](*inputs, out)
    return out


def refused(expression, match, dtype=torch.float16):
    import nereid
    with pytest.raises(nereid.CompilationError, match=match):
        store(expression, torch.zeros(64), torch.ones(64, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_07_remainder_of_floats_is_fmod(dtype, target):
    x = torch.tensor([7.5, -7.5, 7.5, -7.5, 0.0, -0.0, float("inf"), 1.0] * 8, dtype=dtype)
    y = torch.tensor([2.0, 2.0, -2.0, -2.0, 3.0, 3.0, 2.0, float("inf")] * 8, dtype=dtype)
    result = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    got = store("x0 % x1", torch.zeros(64, dtype=result), x, y, prologue=f"    tl.static_assert((x0 % x1).dtype == tl.{str(result)[6:]})\n")
    want = np.fmod(x.double().numpy(), y.double().numpy())
    np.testing.assert_array_equal(got.double().numpy(), want)
    np.testing.assert_array_equal(np.signbit(got.numpy()[~np.isnan(want)]), np.signbit(want[~np.isnan(want)]))


def test_07_fp16_remainder_is_computed_in_fp32(target):
    x = torch.full((64,), 60000.0, dtype=torch.float16)
    y = torch.full((64,), 0.1, dtype=torch.float16)
    got = store("x0 % x1", torch.zeros(64), x, y)
    np.testing.assert_array_equal(got.numpy(), np.fmod(x.float().numpy(), y.float().numpy()))


def test_08_right_shift_by_the_left_operands_own_sign(target):
    signed, unsigned = torch.full((64,), -16, dtype=torch.int32), torch.full((64,), 2, dtype=torch.int32)
    # int32 >> uint32 promotes to uint32, and still shifts arithmetically.
    got = store("(x0 >> x1.to(tl.uint32)).to(tl.int32)", torch.zeros(64, dtype=torch.int32), signed, unsigned)
    assert torch.equal(got, torch.full((64,), -4, dtype=torch.int32))
    got = store("(x0.to(tl.uint32) >> x1).to(tl.int32)", torch.zeros(64, dtype=torch.int32), signed, unsigned)
    assert torch.equal(got, torch.full((64,), (2 ** 32 - 16) >> 2, dtype=torch.int32))


@pytest.mark.overflows("its integers wrap on purpose")
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
@pytest.mark.parametrize("operator", ["+", "-", "*"])
def test_09_integers_wrap(operator, dtype, target):
    dtype = DTYPES[dtype]
    x, y = harness.values(dtype, (64,), 1), harness.values(dtype, (64,), 2)
    got = store(f"x0 {operator} x1", harness.empty(dtype, (64,)), harness.to_tensor(x, dtype), harness.to_tensor(y, dtype))
    exact = [eval(f"a {operator} b") for a, b in zip(x.tolist(), y.tolist())]
    mask = (1 << dtype.bits) - 1
    assert [v & mask for v in harness.exact(got).tolist()] == [v & mask for v in exact]


@pytest.mark.overflows("its integers wrap on purpose")
def test_09_no_conclusion_is_drawn_from_overflow(target):
    """`x + 1 > x` is false for the largest number."""
    x = torch.full((64,), 2 ** 31 - 1, dtype=torch.int32)
    assert not store("x0 + 1 > x0", torch.ones(64, dtype=torch.bool), x).any()


@pytest.mark.cpu_only("a failed assertion ends a GPU's context: tests/device")
@pytest.mark.parametrize("operation", ["x0 + x0", "x0 - (-1 - x0) - 2", "x0 * x0"])
def test_09_debug_reports_overflow(operation, target):
    import nereid
    source = f"""@triton.jit
def kernel(x_ptr, o_ptr):
    i = tl.arange(0, 64)
    x0 = tl.load(x_ptr + i)
    tl.store(o_ptr + i, {operation})
"""
    x = torch.full((64,), 2 ** 31 - 1, dtype=torch.int32)
    with pytest.raises(Exception, match="int32 overflow detected for operation"):
        harness.make(source)[(1,)](x, torch.zeros_like(x), debug=True)
    harness.make(source)[(1,)](x, torch.zeros_like(x), debug=True, sanitize_overflow=False)
    harness.make(source)[(1,)](x.long(), torch.zeros(64, dtype=torch.int64), debug=True)  # 64 bits are not checked
    off = source.replace("x0 + x0", "tl.add(x0, x0, sanitize_overflow=False)")
    if off != source:
        harness.make(off)[(1,)](x, torch.zeros_like(x), debug=True)
    assert nereid


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_10_unary_minus_flips_the_sign(dtype, target):
    x = torch.tensor([0.0, -0.0, 1.0, -1.0, float("inf"), float("nan"), 3.5, -2.5] * 8, dtype=dtype)
    got = store("-x0", torch.zeros(64, dtype=dtype), x)
    bits = torch.int16 if dtype.itemsize == 2 else torch.int32 if dtype.itemsize == 4 else torch.int64
    numbers = ~torch.isnan(x)
    assert torch.equal(got[numbers].view(bits), (-x)[numbers].view(bits))


def test_11_comparisons_with_nan(target):
    x = torch.tensor([1.0, float("nan")] * 32)
    for operator in ("==", "<", "<=", ">", ">="):
        assert not store(f"x0 {operator} float('nan')", torch.ones(64, dtype=torch.bool), x).any()
    assert store("x0 != float('nan')", torch.zeros(64, dtype=torch.bool), x).all()
    assert torch.equal(store("x0 != x0", torch.zeros(64, dtype=torch.bool), x), torch.isnan(x))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["maximum", "minimum", "clamp"])
def test_12_propagation_of_nan(name, dtype, target):
    nan = float("nan")
    x = torch.tensor([1.0, nan, 2.0, nan] * 16, dtype=getattr(torch, dtype))
    y = torch.tensor([nan, 1.0, 1.0, nan] * 16, dtype=getattr(torch, dtype))
    call = f"tl.clamp(x0, x1, x1, propagate_nan=tl.PropagateNan.{{}})" if name == "clamp" else f"tl.{name}(x0, x1, propagate_nan=tl.PropagateNan.{{}})"
    keeps = store(call.format("ALL"), torch.zeros_like(x), x, y)
    assert torch.equal(torch.isnan(keeps), torch.isnan(x) | torch.isnan(y))
    if name != "clamp":
        drops = store(call.format("NONE"), torch.zeros_like(x), x, y)
        want = (torch.fmax if name == "maximum" else torch.fmin)(x, y)
        torch.testing.assert_close(drops, want, equal_nan=True, rtol=0, atol=0)


def test_12_bf16_extremes_are_fp32(target):
    x = torch.ones(64, dtype=torch.bfloat16)
    store("tl.maximum(x0, x0)", torch.zeros(64), x, prologue="    tl.static_assert(tl.maximum(x0, x0).dtype == tl.float32)\n")


def test_33_floats_to_integers_truncate(target):
    x = torch.tensor([1.9, -1.9, 0.5, -0.5, 100.99, -100.99, 0.0, -0.0] * 8)
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        assert torch.equal(store(f"x0.to(tl.{str(dtype)[6:]})", torch.zeros(64, dtype=dtype), x), x.to(dtype))
    assert torch.equal(store("x0.to(tl.uint8)", torch.zeros(64, dtype=torch.uint8), x.abs()), x.abs().to(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_33_bools(dtype, target):
    x = torch.tensor([0.0, -0.0, 1e-5, -1.0, float("inf"), float("nan"), 0.25, 256.0] * 8, dtype=dtype)
    assert torch.equal(store("x0.to(tl.int1)", torch.zeros(64, dtype=torch.bool), x), x != 0)
    flags = x > 0
    assert torch.equal(store(f"x0.to(tl.{str(dtype)[6:]})", torch.zeros(64, dtype=dtype), flags), flags.to(dtype))


def test_33_bitcasts_keep_the_size(target):
    refused("x0.to(tl.int32, bitcast=True)", "Cannot bitcast data-type of size 16 to data-type of size 32")


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "cos", "sin", "sqrt", "rsqrt", "erf", "floor", "ceil"])
def test_34_functions_take_fp32_and_fp64_alone(name, target):
    for dtype in (torch.float16, torch.bfloat16, torch.int32):
        short = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.int32: "int32"}[dtype]
        refused(f"tl.{name}(x0)", rf"Expected dtype \['fp32', 'fp64'\] but got {short}", dtype)
        refused(f"tl.math.{name}(x0)", rf"Expected dtype \['fp32', 'fp64'\] but got {short}", dtype)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32", "float16", "bfloat16", "float32", "float64", "float8e5", "float8e4nv"])
def test_34_abs_takes_everything(dtype, target):
    dtype = DTYPES[dtype]
    x = harness.values(dtype, (64,), 1)
    got = store("tl.abs(x0)", harness.empty(dtype, (64,)), harness.to_tensor(x, dtype))
    want = x if dtype.kind == "uint" else harness.wrap(np.abs(x), dtype) if dtype.is_int else np.abs(x)
    np.testing.assert_array_equal(harness.exact(got), want)


def test_35_correctly_rounded_division_and_roots(target):
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.integers(1, 2 ** 31 - 2 ** 24, 4096).astype(np.int32)).view(torch.float32)
    y = torch.from_numpy(rng.integers(2 ** 23, 2 ** 31 - 2 ** 24, 4096).astype(np.int32)).view(torch.float32)
    with np.errstate(over="ignore", under="ignore"):
        quotient, root = x.numpy() / y.numpy(), np.sqrt(x.numpy())
    for expression in ("tl.div_rn(x0, x1)", "tl.math.div_rn(x0, x1)", "tl.fdiv(x0, x1, ieee_rounding=True)"):
        np.testing.assert_array_equal(store(expression, torch.zeros(4096), x, y, size=4096).numpy(), quotient)
    np.testing.assert_array_equal(store("tl.sqrt_rn(x0)", torch.zeros(4096), x, size=4096).numpy(), root)
    np.testing.assert_array_equal(store("x0.sqrt_rn()", torch.zeros(4096), x, size=4096).numpy(), root)


def test_35_fma_rounds_once(target):
    x = torch.full((64,), 1 + 2.0 ** -12)
    got = store("tl.fma(x0, x0, -1.0 - 2.0 ** -11)", torch.zeros(64), x)
    np.testing.assert_array_equal(got.numpy(), np.full(64, 2.0 ** -24, np.float32))


def test_35_types_of_fdiv_and_div_rn(target):
    refused("tl.fdiv(x0, x0)", "both operands of fdiv must have floating scalar type", torch.int32)
    refused("tl.div_rn(x0, x0)", r"Expected dtype \['fp32'\] but got fp16")
    refused("tl.sqrt_rn(x0)", r"Expected dtype \['fp32'\] but got fp64", torch.float64)
    refused("tl.clamp(x0, 0, 1)", "Only floating point clamp is supported", torch.int32)
    refused("tl.umulhi(x0, x0)", "Expected dtype", torch.int16)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_umulhi(dtype, target):
    dtype = DTYPES[dtype]
    x, y = harness.values(dtype, (64,), 1), harness.values(dtype, (64,), 2)
    got = store("tl.umulhi(x0, x1)", harness.empty(dtype, (64,)), harness.to_tensor(x, dtype), harness.to_tensor(y, dtype))
    mask = (1 << dtype.bits) - 1
    assert [v & mask for v in harness.exact(got).tolist()] == [(a & mask) * (b & mask) >> dtype.bits for a, b in zip(x.tolist(), y.tolist())]


@pytest.mark.not_in_mode("debug", "there the claim, which is wrong here, is checked")
def test_expect_zero_is_the_identity(target):
    x = torch.randn(64)
    assert torch.equal(store("tl.expect_zero(x0, i < 3)", torch.zeros(64), x), x)


def test_math_is_complete():
    import nereid.language as tl
    for name in ("umulhi exp exp2 log log2 cos sin sqrt sqrt_rn rsqrt abs fdiv div_rn erf floor ceil fma").split():
        assert getattr(tl.math, name) is getattr(tl, name)


#: below 2^51 lanes of 64-bit integers are divided in f64 on CPUs, from there on one by one
WIDE = [0, 1, 2, 499, 500, 10 ** 6 + 3, 2 ** 31, 2 ** 32 + 1, 2 ** 50 - 1, 2 ** 51 - 1, 2 ** 51, 2 ** 51 + 1, 2 ** 53 + 1, 2 ** 62, 2 ** 63 - 1]


@pytest.mark.parametrize("bound", [2 ** 51, 2 ** 64], ids=["small", "any"])
@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_integers_of_64_bits_are_divided_exactly(dtype, bound, target):
    numbers = [n for n in WIDE if n < bound]
    if dtype == "int64":
        numbers += [-n for n in numbers]
    elif bound > 2 ** 63:
        numbers += [2 ** 63, 2 ** 64 - 1]
    pairs = [(n, d) for n in numbers for d in numbers if d]
    pairs += [(q * d + r, d) for q in numbers for d in numbers if d and abs(q * d) < min(bound, 2 ** 63) - 1 for r in (-1, 1) if q * d > 0]
    size = 1 << (len(pairs) - 1).bit_length()
    pairs += [(1, 1)] * (size - len(pairs))
    x, y = (torch.tensor([n - 2 ** 64 if n >= 2 ** 63 else n for n in side]).view(DTYPES[dtype].torch) for side in zip(*pairs))

    def quotient(n, d):
        q = abs(n) // abs(d)
        return q if (n < 0) == (d < 0) else -q

    for expression, want in [("x0 // x1", [quotient(*pair) for pair in pairs]), ("x0 % x1", [n - quotient(n, d) * d for n, d in pairs]),
                             ("x0 // 500", [quotient(n, 500) for n, _ in pairs]), ("x0 % 500", [n - quotient(n, 500) * 500 for n, _ in pairs])]:
        got = store(expression, torch.zeros(size, dtype=DTYPES[dtype].torch), x, y, size=size)
        assert [n % 2 ** 64 for n in got.view(torch.int64).tolist()] == [n % 2 ** 64 for n in want], expression
