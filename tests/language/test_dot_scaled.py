"""Products of microscaling formats against the same in float64."""

import numpy as np
import pytest

import harness
from harness import DTYPES

U8, F32, BF16, F16 = DTYPES["uint8"], DTYPES["float32"], DTYPES["bfloat16"], DTYPES["float16"]
STORED = {"e2m1": U8, "e4m3": DTYPES["float8e4nv"], "e5m2": DTYPES["float8e5"], "bf16": BF16, "fp16": F16}
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
COVERED = {"dot_scaled"}


def operand(kind, shape, pack_axis, seed):
    """The numbers [..], as they are stored, and their dtype."""
    rng = np.random.default_rng(seed)
    if kind == "e2m1":
        codes = rng.integers(0, 16, shape)
        pairs = np.moveaxis(codes, pack_axis, -1)
        packed = np.moveaxis(pairs[..., ::2] | pairs[..., 1::2] << 4, -1, pack_axis)
        return E2M1[codes], packed, U8
    values = harness.values(STORED[kind], shape, seed, low=-2.0, high=2.0)
    return values, values, STORED[kind]


def scales(kind, rows, k, seed):
    """Factors [rows, k] in float64, as they are stored, and their dtype."""
    rng = np.random.default_rng(seed)
    if kind is None:
        return np.ones((rows, k)), None, None
    if kind == "e4m3":
        values = harness.values(DTYPES["float8e4nv"], (rows, k // 16), seed, low=0.25, high=4.0)
        return values.repeat(16, 1), values, DTYPES["float8e4nv"]
    codes = rng.integers(122, 132, (rows, k // 32))
    return (2.0**(codes - 127)).repeat(32, 1), codes, U8


def block(pointer, shape):
    m, n = shape
    return f"{pointer} + tl.arange(0, {m})[:, None] * {n} + tl.arange(0, {n})[None, :]"


def run(lhs, lhs_scale, lhs_format, rhs, rhs_scale, rhs_format, shape, extra="", acc=None):
    """Operands and scales: (stored, dtype), the latter perhaps (None, None)."""
    given = [(n, d, t) for n, (d, t) in zip("abcd", (lhs, rhs, lhs_scale, rhs_scale)) if d is not None]
    loads = "".join(f"    {n} = tl.load({block(n + '_ptr', d.shape)})\n" for n, d, _ in given)
    names = {n for n, _, _ in given}
    kernel = harness.make(f"""@triton.jit
def kernel({''.join(n + '_ptr, ' for n, _, _ in given)}out):
{loads}    acc = tl.load({block('out', shape)})
    r = tl.dot_scaled(a, {'c' if 'c' in names else None}, "{lhs_format}", b, {'d' if 'd' in names else None}, "{rhs_format}"{', acc' if acc is not None else ''}{extra})
    tl.store({block('out', shape)}, r)
""")
    out = harness.empty(F32, shape) if acc is None else harness.to_tensor(acc, F32)
    kernel[(1, )](*(harness.to_tensor(d, t) for _, d, t in given), out)
    return harness.exact(out)


@pytest.mark.parametrize("lhs_format", list(STORED))
@pytest.mark.parametrize("rhs_format", list(STORED))
def test_formats(lhs_format, rhs_format, target):
    m, n, k = 32, 16, 64
    a, a_stored, a_type = operand(lhs_format, (m, k), -1, 1)
    b, b_stored, b_type = operand(rhs_format, (k, n), -2, 2)
    sa, sa_stored, sa_type = scales("e8m0", m, k, 3)
    sb, sb_stored, sb_type = scales("e8m0", n, k, 4)
    got = run((a_stored, a_type), (sa_stored, sa_type), lhs_format, (b_stored, b_type), (sb_stored, sb_type), rhs_format, (m, n))
    np.testing.assert_allclose(got, (a * sa) @ (b * sb.T), rtol=1e-5, atol=1e-3 * 2**8)


@pytest.mark.parametrize("lhs_scale,rhs_scale", [("e8m0", None), (None, "e8m0"), (None, None), ("e4m3", "e4m3"), ("e4m3", "e8m0")])
def test_scales(lhs_scale, rhs_scale, target):
    m, n, k = 16, 32, 64
    a, a_stored, a_type = operand("e2m1", (m, k), -1, 1)
    b, b_stored, b_type = operand("e2m1", (k, n), -2, 2)
    sa, sa_stored, sa_type = scales(lhs_scale, m, k, 3)
    sb, sb_stored, sb_type = scales(rhs_scale, n, k, 4)
    acc = harness.values(F32, (m, n), 5)
    got = run((a_stored, a_type), (sa_stored, sa_type), "e2m1", (b_stored, b_type), (sb_stored, sb_type), "e2m1", (m, n), acc=acc)
    np.testing.assert_allclose(got, (a * sa) @ (b * sb.T) + acc, rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("lhs_k_pack,rhs_k_pack", [(False, True), (True, False), (False, False)])
def test_pairs_along_other_dimensions(lhs_k_pack, rhs_k_pack, target):
    m, n, k = 32, 16, 32
    a, a_stored, a_type = operand("e2m1", (m, k), -1 if lhs_k_pack else -2, 1)
    b, b_stored, b_type = operand("e2m1", (k, n), -2 if rhs_k_pack else -1, 2)
    got = run((a_stored, a_type), (None, None), "e2m1", (b_stored, b_type), (None, None), "e2m1", (m, n),
              f", lhs_k_pack={lhs_k_pack}, rhs_k_pack={rhs_k_pack}")
    np.testing.assert_array_equal(got, a @ b)


@pytest.mark.parametrize("code,factor", [(255, np.nan), (0, 2.0**-127), (1, 2.0**-126), (254, 2.0**127)])
def test_scales_at_the_ends(code, factor, target):
    """255 is NaN, also of zeros; 0 is subnormal."""
    values = np.zeros((16, 32))
    values[:, 0] = 1.0
    b = np.eye(32, 16)
    codes = np.full((16, 1), 127)
    codes[3] = code
    got = run((values, BF16), (codes, U8), "bf16", (b, BF16), (None, None), "bf16", (16, 16))
    want = np.zeros((16, 16))
    want[:, 0] = 1.0
    want[3] = np.nan if np.isnan(factor) else want[3] * factor
    # 2 ** -127 is subnormal in fp32, which matrix units may take for zero.
    np.testing.assert_allclose(got, want, atol=2.0**-126 if code == 0 else 0)


def test_eight_bits_as_bytes(target):
    a = harness.values(DTYPES["float8e4nv"], (16, 32), 1, low=-2.0, high=2.0)
    bits = harness.to_tensor(a, DTYPES["float8e4nv"]).view(harness.torch.uint8).numpy()
    b = harness.values(BF16, (32, 16), 2, low=-2.0, high=2.0)
    got = run((bits, U8), (None, None), "e4m3", (b, BF16), (None, None), "bf16", (16, 16))
    np.testing.assert_allclose(got, a @ b, rtol=1e-5, atol=1e-4)


def test_loop_over_k(target):
    m, n, k = 32, 32, 128
    a, a_stored, _ = operand("e2m1", (m, k), -1, 1)
    b, b_stored, _ = operand("e4m3", (k, n), -2, 2)
    sa, sa_stored, _ = scales("e8m0", m, k, 3)
    sb, sb_stored, _ = scales("e8m0", n, k, 4)
    out = harness.empty(F32, (m, n))
    harness.make("""@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, d_ptr, out, K, N: tl.constexpr):
    i, j, k = tl.arange(0, 32), tl.arange(0, 32), tl.arange(0, 64)
    acc = tl.zeros((32, 32), tl.float32)
    for step in range(0, K, 64):
        a = tl.load(a_ptr + i[:, None] * (K // 2) + step // 2 + tl.arange(0, 32)[None, :])
        b = tl.load(b_ptr + (step + k)[:, None] * N + j[None, :])
        c = tl.load(c_ptr + i[:, None] * (K // 32) + step // 32 + tl.arange(0, 2)[None, :])
        d = tl.load(d_ptr + j[:, None] * (K // 32) + step // 32 + tl.arange(0, 2)[None, :])
        acc = tl.dot_scaled(a, c, "e2m1", b, d, "e4m3", acc)
    tl.store(out + i[:, None] * 32 + j[None, :], acc)
""")[(1, )](harness.to_tensor(a_stored, U8), harness.to_tensor(b_stored, STORED["e4m3"]), harness.to_tensor(sa_stored, U8),
            harness.to_tensor(sb_stored, U8), out, k, n)
    np.testing.assert_allclose(harness.exact(out), (a * sa) @ (b * sb.T), rtol=1e-5, atol=1e-1)
