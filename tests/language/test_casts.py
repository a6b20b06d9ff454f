"""Conversions: every dtype to every other, values and special values; bit casts."""

import itertools

import numpy as np
import pytest
import torch

import access
import harness
from harness import BOOL, DTYPES, FLOATS, FP8, INTS

ALL = [BOOL, *INTS, *FLOATS, *FP8]
LINE = access.Access("line", (64,), (64,))


def expected(data, source, to):
    """Values of `data` (exact) after the cast."""
    if to.kind == "bool":
        return data != 0
    if to.is_int:
        return harness.wrap(np.trunc(data).astype(np.int64) if source.is_float else data, to)
    wide = torch.from_numpy(np.asarray(data, dtype=np.float64))
    if to.kind == "fp8":
        limit = float(torch.finfo(to.torch).max)
        wide = wide.clamp(-limit, limit)
    return wide.to(to.torch).double().numpy()


@pytest.mark.parametrize("source,to", itertools.product(ALL, repeat=2), ids=str)
def test_cast(source, to, target):
    if source.is_float and to.is_int:  # out of range is undefined
        data = harness.values(source, (64,), low=max(to.low, -100.0), high=min(to.high, 100.0), special=False)
    else:
        data = harness.values(source, (64,))
    got, = LINE.run(f"x0.to(tl.{to})", [data], [source], [to])
    # Integers above 2^53 are not exact in float64, where the reference is computed.
    harness.check(got, expected(data, source, to), to, 1.0 if source.bits == 64 and source.is_int else 0.0)


@pytest.mark.parametrize("to", [DTYPES["float16"], DTYPES["bfloat16"], *FP8], ids=str)
@pytest.mark.parametrize("source", [DTYPES["float32"], DTYPES["float64"]], ids=str)
def test_narrowing_special_values(source, to, target):
    data = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-8, -1e-8, 448.0, 464.0, 465.0, 57344.0, 61440.0, 65504.0, 65520.0],
                    dtype=np.float32).astype(np.float64)
    got, = access.Access("special", (16,), (16,)).run(f"x0.to(tl.{to})", [data], [source], [to])
    want = expected(data, source, to)
    np.testing.assert_array_equal(harness.exact(got), want)
    np.testing.assert_array_equal(np.signbit(harness.exact(got))[:2], [False, True])


@pytest.mark.parametrize("to", [DTYPES["float16"], DTYPES["bfloat16"]], ids=str)
def test_rounding_towards_zero(to, target):
    f32 = DTYPES["float32"]
    data = harness.values(f32, (64,))
    got, = LINE.run(f"x0.to(tl.{to}, fp_downcast_rounding='rtz')", [data], [f32], [to])
    got = harness.exact(got)
    assert np.all(np.abs(got) <= np.abs(data))
    assert np.all(np.abs(got - data) < to.eps * np.abs(data) + 1e-30)


@pytest.mark.parametrize("source,to", [("float32", "int32"), ("int32", "float32"), ("float16", "int16"), ("bfloat16", "uint16"),
                                       ("float64", "int64"), ("int8", "uint8"), ("float16", "bfloat16")])
def test_bitcast(source, to, target):
    source, to = DTYPES[source], DTYPES[to]
    data = harness.values(source, (64,))
    got, = LINE.run(f"x0.to(tl.{to}, bitcast=True)", [data], [source], [to])
    bits = {8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}[to.bits]
    np.testing.assert_array_equal(got.view(bits).numpy(), harness.to_tensor(data, source).view(bits).numpy())


@pytest.mark.parametrize("dtype", FP8, ids=str)
def test_every_fp8_value_widens_exactly(dtype, target):
    codes = torch.arange(256, dtype=torch.uint8)
    kernel = harness.make(f"""@triton.jit
def kernel(x_ptr, y_ptr):
    i = tl.arange(0, 256)
    tl.store(y_ptr + i, tl.load(x_ptr + i).to(tl.{dtype}, bitcast=True).to(tl.float32))
""")
    out = torch.empty(256)
    kernel[(1,)](codes, out)
    np.testing.assert_array_equal(out.numpy(), codes.view(dtype.torch).float().numpy())


@pytest.mark.parametrize("bits, signed, name", [(8, True, "int8"), (16, False, "uint16"), (32, False, "uint32"), (64, True, "int64")])
def test_integer_type_by_width(bits, signed, name, target):
    kernel = harness.make(f"""@triton.jit
def kernel(y_ptr):
    word: tl.constexpr = tl.core._unwrap_if_constexpr({bits})
    tl.static_assert(tl.core.get_int_dtype(word, signed={signed}) == tl.{name})
    tl.store(y_ptr, 1 << tl.standard._log2(word))
""")
    y = torch.zeros(1, dtype=torch.int32)
    kernel[(1,)](y)
    assert y.item() == bits


def test_integer_type_of_no_width(target):
    kernel = harness.make("""@triton.jit
def kernel(y_ptr):
    tl.store(y_ptr, tl.zeros([1], tl.core.get_int_dtype(24, True)))
""")
    with pytest.raises(Exception, match="module `triton.language` has no attribute `int24`"):
        kernel[(1,)](torch.zeros(1))
