"""8-bit floats: every code of every type to every float, every fp16 and bf16 (and the neighbours of every rounding boundary in fp32 and
fp64) back; rounding, saturation, NaN, subnormals; what strict mode refuses."""


import numpy as np
import pytest
import torch

import harness

#: name: (exponent bits, mantissa bits, bias, codes of NaN, code of the largest number, has -0)
FORMATS = {
    "float8e5": (5, 2, 15, [0x7d, 0x7e, 0x7f], 0x7b, True),
    "float8e4nv": (4, 3, 7, [0x7f], 0x7e, True),
    "float8e4b15": (4, 3, 15, [], 0x7e, True),
    "float8e5b16": (5, 2, 16, [0x80], 0x7f, False),
    "float8e4b8": (4, 3, 8, [0x80], 0x7f, False),
}
FLOATS = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}


def decoded(name):
    """The value of every code, in float64."""
    exponent_bits, mantissa, bias, nans, largest, has_negative_zero = FORMATS[name]
    values = np.zeros(256)
    negative_nan = np.copysign(np.nan, -1)
    for code in range(256):
        exponent, fraction = (code & 0x7f) >> mantissa, code & ((1 << mantissa) - 1)
        size = (fraction * 2.0 ** (1 - bias - mantissa) if exponent == 0 else
                (1 + fraction / (1 << mantissa)) * 2.0 ** (exponent - bias))
        values[code] = -size if code & 0x80 else size
        if has_negative_zero and (code & 0x7f) in nans or not has_negative_zero and code in nans:
            values[code] = negative_nan if code & 0x80 else np.nan
    if name == "float8e5":
        values[0x7c], values[0xfc] = np.inf, -np.inf
    return values


def encoded(name, x, towards_zero=False):
    """The code of each float64: to the nearest, ties to the even code; saturating."""
    _, _, _, nans, largest, has_negative_zero = FORMATS[name]
    table = decoded(name)[:largest + 1]
    size = np.minimum(np.abs(x), table[-1])
    above = np.searchsorted(table, size).clip(0, largest)
    below = np.maximum(above - (table[above] > size), 0)
    middle = (table[below] + table[above]) / 2
    up = (size > middle) | ((size == middle) & (below % 2 == 1))
    code = np.where(up & ~np.bool_(towards_zero), above, below)
    code = np.where(table[above] == size, above, code)
    code |= np.where(np.signbit(x) & (has_negative_zero | (code != 0)), 0x80, 0)
    nan = 0x80 if not has_negative_zero else nans[-1] if nans else largest
    if not nans:  # the sign of what is no number stays
        nan = nan | np.where(np.signbit(x), 0x80, 0)
    return np.where(np.isnan(x), nan, code).astype(np.uint8)


def convert(expression, data, out, size):
    harness.make(f"""@triton.jit
def kernel(x_ptr, o_ptr):
    i = tl.program_id(0) * 256 + tl.arange(0, 256)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, {expression})
""")[(size // 256,)](data, out)
    return out


@pytest.mark.parametrize("to", FLOATS)
@pytest.mark.parametrize("name", FORMATS)
def test_every_code_widens_exactly(name, to, target):
    got = convert(f"x.to(tl.{name}, bitcast=True).to(tl.{to})", torch.arange(256, dtype=torch.uint8), torch.zeros(256, dtype=FLOATS[to]), 256)
    want = decoded(name)
    np.testing.assert_array_equal(got.double().numpy(), want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got.double().numpy())[numbers], np.signbit(want)[numbers])


def sources(name, to_dtype):
    """All 16-bit floats, or the places where rounding changes its mind and their neighbours."""
    if to_dtype in (torch.float16, torch.bfloat16):
        return torch.arange(65536, dtype=torch.int32).to(torch.int16).view(to_dtype)
    table = decoded(name)
    table = np.sort(table[np.isfinite(table) & (table >= 0)])
    middles = (table[1:] + table[:-1]) / 2
    points = np.concatenate([table, middles, [0.0, np.inf, np.nan, 1e30, table[-1] * 1.01, table[-1] * 1.5, table[1] / 2, table[1] / 4]])
    scalar = np.float32 if to_dtype == torch.float32 else np.float64
    points = points.astype(scalar)
    points = np.concatenate([points, np.nextafter(points, scalar(np.inf)), np.nextafter(points, scalar(0))])
    points = np.concatenate([points, -points])
    return torch.from_numpy(np.resize(points, -(-len(points) // 256) * 256))


def same_codes(got, want, name):
    """Equal, but for the payload of NaN."""
    nan = np.isnan(decoded(name))
    np.testing.assert_array_equal(nan[got], nan[want])
    np.testing.assert_array_equal(got[~nan[got]], want[~nan[want]])


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("name", FORMATS)
def test_32_narrowing_rounds_to_nearest_even_and_saturates(name, source, target):
    data = sources(name, FLOATS[source])
    got = convert(f"x.to(tl.{name}).to(tl.uint8, bitcast=True)", data, torch.zeros(len(data), dtype=torch.uint8), len(data)).numpy()
    with np.errstate(invalid="ignore"):
        same_codes(got, encoded(name, data.double().numpy()), name)


@pytest.mark.parametrize("source", ["float16", "float32"])
@pytest.mark.parametrize("name", FORMATS)
def test_32_narrowing_towards_zero(name, source, target):
    data = sources(name, FLOATS[source])
    got = convert(f"x.to(tl.{name}, fp_downcast_rounding='rtz').to(tl.uint8, bitcast=True)", data, torch.zeros(len(data), dtype=torch.uint8),
                  len(data)).numpy()
    with np.errstate(invalid="ignore"):
        same_codes(got, encoded(name, data.double().numpy(), towards_zero=True), name)


@pytest.mark.parametrize("source,to", [(a, b) for a in FORMATS for b in FORMATS if a != b])
def test_between_8_bit_floats(source, to, target):
    got = convert(f"x.to(tl.{source}, bitcast=True).to(tl.{to}).to(tl.uint8, bitcast=True)", torch.arange(256, dtype=torch.uint8),
                  torch.zeros(256, dtype=torch.uint8), 256).numpy()
    same_codes(got, encoded(to, decoded(source)), to)


@pytest.mark.parametrize("name", FORMATS)
def test_integers_and_bools(name, target):
    data = torch.arange(-128, 128, dtype=torch.int32)
    got = convert(f"x.to(tl.{name}).to(tl.uint8, bitcast=True)", data, torch.zeros(256, dtype=torch.uint8), 256).numpy()
    same_codes(got, encoded(name, data.double().numpy()), name)
    codes = torch.arange(256, dtype=torch.uint8)
    values = decoded(name)
    truth = convert(f"x.to(tl.{name}, bitcast=True).to(tl.int1)", codes, torch.zeros(256, dtype=torch.bool), 256).numpy()
    np.testing.assert_array_equal(truth, values != 0)
    whole = convert(f"x.to(tl.{name}, bitcast=True).to(tl.int32)", codes, torch.zeros(256, dtype=torch.int32), 256).numpy()
    finite = np.isfinite(values)
    np.testing.assert_array_equal(whole[finite], np.trunc(values[finite]).astype(np.int32))


@pytest.mark.parametrize("name", FORMATS)
def test_arithmetic_goes_through_fp32(name, target):
    """Also numbers in them: `tl.full`, comparisons, negation, selection."""
    codes = torch.arange(256, dtype=torch.uint8)
    body = f"""@triton.jit
def kernel(x_ptr, sum_ptr, less_ptr, negative_ptr):
    i = tl.arange(0, 256)
    x = tl.load(x_ptr + i).to(tl.{name}, bitcast=True)
    half = tl.full((256,), 0.5, tl.{name})
    tl.store(sum_ptr + i, (x + half).to(tl.float32))
    tl.store(less_ptr + i, x < half)
    tl.store(negative_ptr + i, (-x).to(tl.float32))
"""
    total, less, negative = torch.zeros(256), torch.zeros(256, dtype=torch.bool), torch.zeros(256)
    harness.make(body)[(1,)](codes, total, less, negative)
    values = decoded(name)
    with np.errstate(invalid="ignore"):
        want = decoded(name)[encoded(name, values + 0.5)]
        np.testing.assert_array_equal(less.numpy(), values < 0.5)
    np.testing.assert_array_equal(total.numpy(), want)
    finite = np.isfinite(values)
    limit = values[FORMATS[name][4]]  # one code of float8e4b15 is above
    np.testing.assert_array_equal(negative.numpy()[finite], -values[finite].clip(-limit, limit))


@pytest.mark.parametrize("name,dtype", [("float8e4b8", torch.float8_e4m3fnuz), ("float8e5b16", torch.float8_e5m2fnuz),
                                        ("float8e4nv", torch.float8_e4m3fn), ("float8e5", torch.float8_e5m2)])
def test_tensors_of_torch(name, dtype, target):
    """Loads and stores of torch's tensors of these types."""
    x = torch.linspace(-3, 3, 256).to(dtype)
    out = torch.zeros(256, dtype=torch.uint8).view(dtype)
    harness.make("""@triton.jit
def kernel(x_ptr, o_ptr):
    i = tl.arange(0, 256)
    x = tl.load(x_ptr + i)
    tl.static_assert(x.dtype == tl.NAME)
    tl.store(o_ptr + i, x.to(tl.float32) * 2)
""".replace("NAME", name))[(1,)](x.view(torch.uint8).view(dtype), out)
    assert torch.equal(out.float(), (x.float() * 2).to(dtype).float())


@pytest.mark.parametrize("name", ["float8e4b15", "float8e4b8", "float8e5b16"])
def test_dot(name, target):
    """Exact in fp16."""
    a, b = (torch.randint(0, 120, (16, 32), dtype=torch.uint8) & 0x77 for _ in range(2))
    out = torch.zeros(16, 16)
    harness.make(f"""@triton.jit
def kernel(a_ptr, b_ptr, o_ptr):
    m, k = tl.arange(0, 16), tl.arange(0, 32)
    a = tl.load(a_ptr + m[:, None] * 32 + k[None, :]).to(tl.{name}, bitcast=True)
    b = tl.load(b_ptr + m[None, :] * 32 + k[:, None]).to(tl.{name}, bitcast=True)
    tl.store(o_ptr + m[:, None] * 16 + m[None, :], tl.dot(a, b))
""")[(1,)](a, b, out)
    table = decoded(name)
    np.testing.assert_allclose(out.numpy(), table[a.numpy()] @ table[b.numpy()].T, rtol=1e-5)


@pytest.mark.parametrize("name,cpu,sm80,sm90", [
    ("float8e5", True, True, True), ("float8e4nv", True, False, True), ("float8e4b15", False, True, True), ("float8e5b16", True, False, False),
    ("float8e4b8", False, False, False)])
def test_strict_mode_refuses_what_triton_refuses(name, cpu, sm80, sm90):
    import nereid
    kernel = harness.make(f"""@triton.jit
def kernel(o_ptr):
    i = tl.arange(0, 256)
    tl.store(o_ptr + i, i.to(tl.float32).to(tl.{name}).to(tl.float32))
""")
    for target, accepted in (("cpu", cpu), ("cuda:80", sm80), ("cuda:90", sm90)):
        kernel.warmup(torch.float32, grid=(1,), target=target)
        if accepted:
            kernel.warmup(torch.float32, grid=(1,), target=target, strict=True)
            continue
        short = name.replace("float8", "fp8")
        with pytest.raises(nereid.CompilationError,
                           match=rf"type {short} not supported in this architecture. The supported fp8 dtypes are \("):  # Float8NotSupported
            kernel.warmup(torch.float32, grid=(1,), target=target, strict=True)


def test_custom_conversions_by_name(target):
    """`convert_custom_float8_sm80`, as CUDA's code generation calls it."""
    out = torch.zeros(256)
    harness.make("""@triton.jit
def kernel(o_ptr):
    i = tl.arange(0, 256)
    x = i.to(tl.uint8).to(tl.float8e4b15, bitcast=True)
    half = tl.extra.cuda.convert_custom_float8_sm80(x, tl.float16)
    back = tl.extra.cuda.convert_custom_float8_sm70(half, tl.float8e4b15)
    tl.store(o_ptr + i, back.to(tl.float32))
""")[(1,)](out)
    want = decoded("float8e4b15")
    np.testing.assert_array_equal(out.numpy(), want.clip(-1.75, 1.75))
