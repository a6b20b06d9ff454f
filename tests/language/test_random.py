"""Philox random numbers: bit-exact against an independent implementation, and their moments."""

import numpy as np
import pytest
import torch

import harness
from harness import DTYPES

COVERED = {"randint", "rand", "randn", "randint4x", "rand4x", "randn4x", "philox", "philox_impl", "uint_to_uniform_float",
           "pair_uniform_to_normal"}
N = 256


def philox4x32(seed, counters, rounds=10):
    """Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), table 2; counters of shape [4, n]."""
    c = [np.asarray(x, dtype=np.uint64) for x in counters]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    low = np.uint64(0xFFFFFFFF)
    for _ in range(rounds):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), p1 & low, (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [x.astype(np.uint32) for x in c]


def run(expression, dtype, seed, outputs=1):
    stores = "\n".join(f"    tl.store(out + {k * N} + i, r{f'[{k}]' if outputs > 1 else ''})" for k in range(outputs))
    out = harness.empty(dtype, (outputs * N,))
    harness.make(f"""@triton.jit
def kernel(out, seed):
    i = tl.arange(0, {N})
    r = {expression}
{stores}
""")[(1,)](out, seed)
    return out.numpy().reshape(outputs, N)


@pytest.mark.parametrize("seed", [0, 42, 124, 2 ** 31 - 1, 2 ** 40 + 7])
def test_bits(seed, target):
    zero = np.zeros(N, dtype=np.uint64)
    want = philox4x32(seed, [np.arange(N), zero, zero, zero])
    np.testing.assert_array_equal(run("tl.randint(seed, i)", DTYPES["uint32"], seed)[0], want[0])
    np.testing.assert_array_equal(run("tl.randint4x(seed, i)", DTYPES["uint32"], seed, 4), want)


@pytest.mark.parametrize("rounds", [1, 6, 10])
def test_rounds(rounds, target):
    zero = np.zeros(N, dtype=np.uint64)
    want = philox4x32(7, [np.arange(N), zero, zero, zero], rounds)
    np.testing.assert_array_equal(run(f"tl.randint(seed, i, {rounds})", DTYPES["uint32"], 7)[0], want[0])


def test_known_vector(target):
    """The published test vector of Philox-4x32-10 for counter and key zero."""
    got = run("tl.randint4x(seed, i * 0)", DTYPES["uint32"], 0, 4)[:, 0]
    np.testing.assert_array_equal(got, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8])


def test_uniform_floats_follow_the_bits(target):
    bits = run("tl.randint(seed, i)", DTYPES["uint32"], 5)[0].astype(np.int64)
    signed = np.where(bits >= 2 ** 31, bits - 2 ** 32, bits)
    want = np.where(signed < 0, -signed - 1, signed).astype(np.float32) * np.float32(4.6566127342e-10)
    got = run("tl.rand(seed, i)", DTYPES["float32"], 5)[0]
    np.testing.assert_array_equal(got, want)
    assert np.all((got >= 0) & (got < 1))


@pytest.mark.parametrize("name,mean,std", [("rand", 0.5, 12 ** -0.5), ("randn", 0.0, 1.0)])
def test_moments(name, mean, std, target):
    out = torch.empty(1 << 16)
    harness.make(f"""@triton.jit
def kernel(out, seed):
    i = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    tl.store(out + i, tl.{name}(seed, i))
""")[(64,)](out, 3)
    assert abs(out.mean().item() - mean) < 0.02 and abs(out.std().item() - std) < 0.02
    four = run(f"tl.{name}4x(seed, i)", DTYPES["float32"], 3, 4)
    np.testing.assert_allclose(four[0], out.numpy()[:N], rtol=2e-6, atol=2e-6)
