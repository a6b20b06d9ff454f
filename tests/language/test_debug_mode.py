"""Debug mode: a right kernel is left alone, whatever the library's own arithmetic does in it, and gives the same results. Overflow of what
the author computes, sums with a name included, is reported. (`python -m pytest --mode debug` runs the whole matrix in this mode.)"""

import numpy as np
import pytest
import torch

import harness
from harness import DTYPES

CPU_ONLY = "a failed assertion ends a GPU's context: tests/device"
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def elementwise(body, n=256, before=""):
    return harness.make(f"""{before}@triton.jit
def kernel(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, {body})
""")


def same(kernel, x, out):
    """The results of a kernel, equal with and without debug mode."""
    plain, debug = out.clone(), out.clone()
    kernel[(1,)](x, plain, N=x.numel(), debug=False)
    kernel[(1,)](x, debug, N=x.numel(), debug=True)
    assert torch.equal(plain.view(torch.uint8), debug.view(torch.uint8))
    return debug


@pytest.mark.parametrize("lhs,rhs", [("e2m1", "e2m1"), ("e2m1", "e5m2"), ("e2m1", "bf16"), ("e2m1", "fp16"), ("e4m3", "e2m1")])
def test_scaled_products(lhs, rhs, target):
    """Every code of e2m1: the arithmetic of its normal numbers wraps in the lanes of the subnormal ones."""
    m, n, k = 16, 16, 64
    kinds = {"e2m1": (torch.uint8, 2), "e4m3": (torch.float8_e4m3fn, 1), "e5m2": (torch.float8_e5m2, 1), "bf16": (torch.bfloat16, 1),
             "fp16": (torch.float16, 1)}

    def operand(kind, seed):
        """The numbers [16, K] and their bytes along K."""
        rng = np.random.default_rng(seed)
        if kind == "e2m1":
            codes = np.concatenate([np.arange(16), rng.integers(0, 16, 16 * k - 16)]).reshape(16, k)
            return torch.from_numpy(E2M1[codes]), torch.from_numpy((codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8))
        values = torch.from_numpy(rng.integers(-4, 5, (16, k)) * 0.5).to(kinds[kind][0])
        return values.double(), values

    a, a_stored = operand(lhs, 1)
    b, b_stored = operand(rhs, 2)
    scale = torch.full((16, k // 32), 128, dtype=torch.uint8)
    kernel = harness.make(f"""@triton.jit
def kernel(a_ptr, b_ptr, s_ptr, o_ptr, KA: tl.constexpr, KB: tl.constexpr):
    m, ka, kb, g = tl.arange(0, 16), tl.arange(0, KA), tl.arange(0, KB), tl.arange(0, 2)
    a = tl.load(a_ptr + m[:, None] * KA + ka[None, :])
    b = tl.load(b_ptr + m[None, :] * KB + kb[:, None])
    s = tl.load(s_ptr + m[:, None] * 2 + g[None, :])
    r = tl.dot_scaled(a, s, "{lhs}", b, s if {rhs in ("e2m1", "e4m3", "e5m2")} else None, "{rhs}")
    tl.store(o_ptr + m[:, None] * 16 + m[None, :], r)
""")
    want = 2 * a @ b.T * (2 if rhs in ("e2m1", "e4m3", "e5m2") else 1)
    for debug in (False, True):
        out = torch.zeros(m, n)
        kernel[(1,)](a_stored, b_stored, scale, out, KA=k // kinds[lhs][1], KB=k // kinds[rhs][1], debug=debug)
        torch.testing.assert_close(out.double(), want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["float8e4b15", "float8e4b8", "float8e5b16"])
@pytest.mark.parametrize("source", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("rounding", ["", ', fp_downcast_rounding="rtz"'])
def test_software_floats(name, source, rounding, target):
    """Small numbers, whose exponents wrap; zeros, large ones and NaN."""
    dtype = DTYPES[source]
    x = torch.cat([harness.to_tensor(harness.values(dtype, (244,), 5, -500.0, 500.0), dtype),
                   torch.tensor([0.0, -0.0, 2.0**-9, -2.0**-10, 2.0**-14, 1e-20, 448.0, 1e30, -1e30, float("inf"), float("nan"), 1.0]).to(dtype.torch)])
    same(elementwise(f"x.to(tl.{name}{rounding}).to(tl.float32)"), x, torch.zeros(256))


@pytest.mark.parametrize("body", ["tl.uint_to_uniform_float(x)", "tl.uint_to_uniform_float(x.to(tl.uint32, bitcast=True))",
                                  "tl.rand(7, x)", "tl.randint(7, x).to(tl.float32)", "tl.randn(-3, x)", "tl.sort(x).to(tl.float32)",
                                  "tl.flip(x).to(tl.float32)", "tl.ravel(tl.topk(tl.reshape(x, [16, 16]), 16)).to(tl.float32)",
                                  "tl.max(x, 0, return_indices=True)[1].to(tl.float32) + i", "tl.xor_sum(x, 0).to(tl.float32) + i"])
def test_library_functions_of_all_integers(body, target):
    """The smallest integers have no negative, the largest no successor."""
    x = harness.to_tensor(harness.values(DTYPES["int32"], (256,), 3), DTYPES["int32"])
    assert x.min() == -2**31 and x.max() == 2**31 - 1
    same(elementwise(body), x, torch.zeros(256))


def test_block_pointers_and_descriptors(target):
    """Their offsets are 64-bit numbers."""
    kernel = harness.make("""@triton.jit
def kernel(x_ptr, o_ptr, N: tl.constexpr):
    p = tl.make_block_ptr(x_ptr, [16, 16], [16, 1], [-2147483647, 0], [16, 16], [1, 0])
    far = tl.load(tl.advance(p, [2147483647, 0]), boundary_check=(0, 1), padding_option="zero")
    d = tl.make_tensor_descriptor(x_ptr, [16, 16], [16, 1], [16, 16])
    outside = d.load([2147483647, 0]) + d.load([-2147483648, 0])
    i = tl.arange(0, 16)
    tl.store(o_ptr + i[:, None] * 16 + i[None, :], far + outside)
""")
    x = torch.arange(256.0)
    assert torch.equal(same(kernel, x, torch.zeros(256)), x)


COMBINE = "@triton.jit\ndef combine(a, b):\n    return a + b\n\n\n"


@pytest.mark.cpu_only(CPU_ONLY)
@pytest.mark.parametrize("body,name", [
    ("tl.sum(x, 0) + tl.zeros_like(i)", "add"), ("tl.cumsum(x, 0)", "add"), ("tl.cumsum(x, 0, reverse=True)", "add"), ("tl.cumprod(x, 0)", "mul"),
    ("tl.cdiv(x, 7)", "add"), ("tl.cdiv(x, x)", "add"), ("tl.associative_scan(x, 0, combine)", "add"),
    ("tl.reduce(x, 0, combine) + tl.zeros_like(i)", "add"), ("-x - 2", "sub"), ("tl.mul(x, 2)", "mul")])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64"])
def test_what_the_author_computes_is_reported(body, name, dtype, target):
    """The results would be wrong numbers. 64 bits are not checked."""
    kind = DTYPES[dtype]
    x = torch.from_numpy(np.full(256, kind.high, dtype=kind.numpy))
    kernel, out = elementwise(body, before=COMBINE), torch.zeros(256, dtype=kind.torch)
    kernel[(1,)](x, out, N=256, debug=True, sanitize_overflow=False)
    if kind.bits == 64:
        kernel[(1,)](x, out, N=256, debug=True)
        return
    with pytest.raises(RuntimeError, match=f"{dtype} overflow detected for operation {name}"):
        kernel[(1,)](x, out, N=256, debug=True)
    if "-x" not in body:
        kernel[(1,)](torch.ones_like(x), out, N=256, debug=True)


def test_assertions_in_lanes_that_a_scan_discards(target):
    """Prefixes of a scan fit; combinations that are no prefixes, as threads exchange them, do not."""
    big = 2**31 - 1
    for reverse in (False, True):
        x = torch.tensor([big, -big] * 128, dtype=torch.int32)
        x = torch.flip(x, (0,)) if reverse else x
        kernel = elementwise(f"tl.associative_scan(x, 0, combine, reverse={reverse})", before=COMBINE)
        got = same(kernel, x, torch.zeros(256, dtype=torch.int32))
        assert set(got.tolist()) == {0, big}
