"""Random numbers in kernels: dropout that its backward repeats, distributions, sampling."""

import math

import nereid as triton
import nereid.language as tl
import pytest
import torch
from nereid.language.extra.libdevice import fast_logf
from reference import close

UNROLL = 4


# ---- dropout ----------------------------------------------------------------------------------------


@triton.jit
def _seeded_dropout(x_ptr, output_ptr, n_elements, p, seed, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    block_start = pid * BLOCK_SIZE
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    random = tl.rand(seed, offsets)
    x_keep = random > p
    output = tl.where(x_keep, x / (1 - p), 0.0)
    tl.store(output_ptr + offsets, output, mask=mask)


def test_seeded_dropout_and_its_gradient(target):
    """The gradient needs no mask in memory: the same seed gives the same one."""
    n, p = 5000, 0.3
    x, dy = torch.rand(n) + 0.5, torch.rand(n) + 0.5
    y, dx, other = torch.empty(n), torch.empty(n), torch.empty(n)
    grid = lambda meta: (triton.cdiv(n, meta['BLOCK_SIZE']), )
    _seeded_dropout[grid](x, y, n, p, seed=123, BLOCK_SIZE=1024)
    _seeded_dropout[grid](dy, dx, n, p, seed=123, BLOCK_SIZE=512)
    kept = y != 0
    assert torch.equal(kept, dx != 0) and abs((~kept).double().mean() - p) < 0.03
    close(y[kept], x[kept].double() / 0.7, 4)
    close(dx[kept], dy[kept].double() / 0.7, 4)
    _seeded_dropout[grid](x, other, n, p, seed=512, BLOCK_SIZE=1024)
    assert not torch.equal(other != 0, kept)


@triton.heuristics({"BLOCK": lambda args: 512 if args["N"] <= 512 * 4 else 1024, "num_warps": lambda args: 4 if args["N"] <= 512 else 8})
@triton.jit(do_not_specialize=["p", "philox_seed", "philox_offset"])
def dropout_forward_kernel(X, Y, dropout_mask, N, p, philox_seed, philox_offset, BLOCK: tl.constexpr):
    philox_seed = philox_seed.to(tl.int64)
    philox_offset = philox_offset.to(tl.int64)
    c0 = (philox_offset & 0xFFFFFFFF).to(tl.uint32)
    c1 = ((philox_offset >> 32) & 0xFFFFFFFF).to(tl.uint32)
    i4 = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c0 += i4
    _O = c0 * 0
    r0, r1, r2, r3 = tl.philox(philox_seed, c0, c1, _O, _O)
    r0 = tl.uint_to_uniform_float(r0)
    r1 = tl.uint_to_uniform_float(r1)
    r2 = tl.uint_to_uniform_float(r2)
    r3 = tl.uint_to_uniform_float(r3)
    mask0 = r0 > p
    mask1 = r1 > p
    mask2 = r2 > p
    mask3 = r3 > p
    p = 1.0 / (1.0 - p)
    off_0 = tl.program_id(0) * BLOCK * 4 + tl.arange(0, BLOCK)
    off_1 = off_0 + BLOCK
    off_2 = off_1 + BLOCK
    off_3 = off_2 + BLOCK
    x0 = tl.load(X + off_0, mask=off_0 < N, other=0.0, eviction_policy="evict_first")
    x1 = tl.load(X + off_1, mask=off_1 < N, other=0.0, eviction_policy="evict_first")
    x2 = tl.load(X + off_2, mask=off_2 < N, other=0.0, eviction_policy="evict_first")
    x3 = tl.load(X + off_3, mask=off_3 < N, other=0.0, eviction_policy="evict_first")
    tl.store(dropout_mask + off_0, mask0, mask=off_0 < N, eviction_policy="evict_first")
    tl.store(dropout_mask + off_1, mask1, mask=off_1 < N, eviction_policy="evict_first")
    tl.store(dropout_mask + off_2, mask2, mask=off_2 < N, eviction_policy="evict_first")
    tl.store(dropout_mask + off_3, mask3, mask=off_3 < N, eviction_policy="evict_first")
    tl.store(Y + off_0, x0 * p * mask0, mask=off_0 < N, eviction_policy="evict_first")
    tl.store(Y + off_1, x1 * p * mask1, mask=off_1 < N, eviction_policy="evict_first")
    tl.store(Y + off_2, x2 * p * mask2, mask=off_2 < N, eviction_policy="evict_first")
    tl.store(Y + off_3, x3 * p * mask3, mask=off_3 < N, eviction_policy="evict_first")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_dropout_with_mask(dtype, target):
    n, p = 6000, 0.5
    x, y, mask = torch.rand(n).to(dtype) + 0.5, torch.empty(n, dtype=dtype), torch.empty(n, dtype=torch.bool)
    grid = lambda meta: (triton.cdiv(n, meta['BLOCK'] * UNROLL), )
    dropout_forward_kernel[grid](x, y, mask, n, p, 2 ** 40 + 17, 2 ** 33 + 5)
    close(y, x.double() * 2 * mask, 1)
    assert abs(mask.double().mean() - 0.5) < 0.03
    again = torch.empty_like(mask)
    dropout_forward_kernel[grid](x, y, again, n, p, 2 ** 40 + 17, 2 ** 33 + 5)
    assert torch.equal(mask, again)
    dropout_forward_kernel[grid](x, y, again, n, p, 2 ** 40 + 17, 2 ** 33 + 5 + 2 ** 32)
    assert not torch.equal(mask, again)


# ---- distributions ----------------------------------------------------------------------------------


@triton.jit
def paired_uniform_to_exponential(u, lambd, eps_minimum, USE_FAST: tl.constexpr):
    if USE_FAST:
        log = fast_logf(u)
    else:
        log = tl.log(u)
    is_min = u >= 1.0 + eps_minimum
    log = tl.where(is_min, eps_minimum, log)
    return -1.0 / lambd * log


@triton.jit(do_not_specialize=["philox_seed", "philox_offset", "N"])
def fused_distributions_kernel(uniform_ptr, normal_ptr, exponential_ptr, N, lambd, eps, philox_seed, philox_offset, BLOCK: tl.constexpr,
                               USE_FAST: tl.constexpr):
    philox_seed = philox_seed.to(tl.int64)
    philox_offset = philox_offset.to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c0 = (philox_offset & 0xFFFFFFFF).to(tl.uint32) + i
    c1 = ((philox_offset >> 32) & 0xFFFFFFFF).to(tl.uint32)
    zero = c0 * 0
    r0, r1, r2, r3 = tl.philox(philox_seed, c0, c1, zero, zero)
    u0 = tl.uint_to_uniform_float(r0)
    u1 = tl.uint_to_uniform_float(r1)
    n0, n1 = tl.pair_uniform_to_normal(u0, u1)
    u2 = tl.uint_to_uniform_float(r2)
    tl.store(uniform_ptr + i, u2, mask=i < N)
    tl.store(normal_ptr + i * 2, n0, mask=i < N)
    tl.store(normal_ptr + i * 2 + 1, n1, mask=i < N)
    tl.store(exponential_ptr + i, paired_uniform_to_exponential(u2, lambd, eps, USE_FAST), mask=i < N)


@pytest.mark.parametrize("fast", [False, True])
def test_distributions(fast, target):
    n, rate = 20000, 2.5
    uniform, normal, exponential = torch.empty(n), torch.empty(2 * n), torch.empty(n)
    eps = -0.5 * torch.finfo(torch.float32).eps
    fused_distributions_kernel[(triton.cdiv(n, 1024), )](uniform, normal, exponential, n, rate, eps, 99, 7, BLOCK=1024, USE_FAST=fast)
    assert uniform.min() >= 0 and uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.01 and abs(uniform.var() - 1 / 12) < 0.01
    assert abs(normal.mean()) < 0.03 and abs(normal.std() - 1) < 0.03 and abs((normal.abs() < 1).double().mean() - 0.6827) < 0.01
    assert abs(exponential.mean() - 1 / rate) < 0.01 and exponential.min() >= 0
    nonzero = uniform > 0
    close(exponential[nonzero], -uniform[nonzero].double().log() / rate, 1024 if fast else 8)
    # Empirical and true distribution functions differ by no more than chance allows.
    ordered = exponential.double().sort().values
    steps = (torch.arange(n) + 0.5).double() / n
    assert (1 - torch.exp(-rate * ordered) - steps).abs().max() < 1.9 / math.sqrt(n)


@triton.jit(do_not_specialize=["K", "N", "philox_seed"])
def multinomial_with_replacement(cdf_ptr, out_ptr, K, N, philox_seed, NBLOCK: tl.constexpr):
    """Of each row of distribution functions, by bisection; four numbers from each counter."""
    y_off = tl.program_id(1) * N
    n = tl.program_id(0) * NBLOCK + tl.arange(0, NBLOCK)
    r0, r1, r2, r3 = tl.rand4x(philox_seed, y_off + n)
    rv = tl.interleave(tl.interleave(r0, r2), tl.interleave(r1, r3))
    n = tl.program_id(0) * NBLOCK * 4 + tl.arange(0, NBLOCK * 4)
    cdf_ptr += tl.program_id(1) * K
    start = tl.zeros((NBLOCK * 4, ), dtype=tl.int32)
    end = tl.zeros((NBLOCK * 4, ), dtype=tl.int32) + K - 1
    steps = tl.math.log2(K.to(tl.float32)).to(tl.int32) + 1
    for _ in range(steps):
        mid = start + (end - start) // 2
        x = tl.load(cdf_ptr + mid, mask=n < N)
        start = tl.where(x < rv, mid + 1, start)
        end = tl.where(x < rv, end, mid)
    start = tl.where(start >= K, K - 1, start)
    tl.store(out_ptr + y_off + n, start, mask=n < N)


def test_multinomial(target):
    rows, k, n = 2, 37, 8000
    p = torch.rand(rows, k) + 0.05
    p[1, 5] = 0
    cdf = (p / p.sum(1, keepdim=True)).cumsum(1)
    out = torch.empty(rows, n, dtype=torch.int64)
    multinomial_with_replacement[(triton.cdiv(n, 512), rows)](cdf, out, k, n, 4321, NBLOCK=128)
    counts = torch.stack([row.bincount(minlength=k) for row in out])
    assert counts[1, 5] == 0
    expected = p.double() / p.double().sum(1, keepdim=True) * n
    chi = ((counts - expected) ** 2 / expected.clamp(min=1)).sum(1)
    assert (chi < 100).all()  # 36 degrees of freedom


@triton.jit
def stochastic_round_kernel(x_ptr, y_ptr, seed, n, BLOCK: tl.constexpr):
    """fp32 to bf16, up or down with the probability of the part that is cut off."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    noise = tl.randint(seed, i) & 0xFFFF
    bits = x.to(tl.uint32, bitcast=True) + noise
    y = ((bits >> 16) << 16).to(tl.float32, bitcast=True)
    tl.store(y_ptr + i, y.to(tl.bfloat16), mask=i < n)


def test_stochastic_rounding(target):
    x, y = torch.full((8000, ), 1.0 + 2 ** -9), torch.empty(8000, dtype=torch.bfloat16)
    stochastic_round_kernel[(8, )](x, y, 5, 8000, BLOCK=1024)
    assert set(y.tolist()) == {1.0, 1.0 + 2 ** -7}
    assert abs((y > 1).double().mean() - 0.25) < 0.02


@triton.jit
def randperm_keys_kernel(keys_ptr, n, seed, BLOCK: tl.constexpr):
    """64-bit counters: the large generator."""
    i = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.uint64)
    zero = i * 0
    a, b, c, d = tl.philox(seed, i, zero, zero, zero, n_rounds=7)
    tl.store(keys_ptr + i, (a ^ c).to(tl.int64, bitcast=True), mask=i < n)


def test_permutation(target):
    keys = torch.empty(5000, dtype=torch.int64)
    randperm_keys_kernel[(5, )](keys, 5000, 2 ** 50 + 3, BLOCK=1024)
    assert keys.unique().numel() == 5000 and (keys < 0).double().mean().sub(0.5).abs() < 0.05
