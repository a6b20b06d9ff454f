"""Reverse mode of loops: accumulators, recurrences, pointers that advance, nested loops, kernels of the tutorials against torch.autograd, ownership across rounds,
and what is refused."""

import math
import random
import re

import grad_check
import jvp_check
import nereid
import nereid.language as tl
import pytest
import torch
import torch.nn.functional as F
from nereid.language.extra import libdevice
from test_grad import against, of_text, refused, zeros
from test_grad_ownership import owned
from test_jvp_kernels import TYPES, attention, layer_norm, matmul

F64 = torch.float64

# ---- accumulators -------------------------------------------------------------------------------------


@nereid.jit
def row_sums(x, w, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK, ), tl.float64)
    for off in range(0, n, BLOCK):
        i = off + tl.arange(0, BLOCK)
        acc += tl.sin(tl.load(x + row * n + i, mask=i < n, other=0.0)) * tl.load(w + i, mask=i < n, other=0.0)
    tl.store(y + row, tl.sum(acc))


@pytest.mark.parametrize("n", [0, 1, 16, 50])
def test_accumulators(n):
    x, w = jvp_check.random(3, max(n, 1)), jvp_check.random(max(n, 1))
    found = grad_check.gradients(row_sums, (3, ), dict(x=x, w=w, y=zeros(3), n=n), ("x", "w"), ("y", ), {"y": torch.ones(3, dtype=F64)}, BLOCK=16)
    if n:
        grad_check.check(row_sums, (3, ), dict(x=x, w=w, y=zeros(3), n=n), ("x", "w"), ("y", ), BLOCK=16)
        torch.testing.assert_close(found["x"], torch.cos(x) * w)
        torch.testing.assert_close(found["w"], torch.sin(x).sum(0))
    else:
        assert not found["x"].any() and not found["w"].any()


def test_the_states_of_accumulators_are_not_computed_again():
    """One loop within that over the programs of a partial sum: the one of the forward pass is gone."""
    x, w = jvp_check.random(3, 50), jvp_check.random(50)
    gradient = nereid.grad(row_sums, ("x", "w"), "y")
    gradient.backward[(3, )](x, w, zeros(3), 50, dx=torch.zeros_like(x), dw=torch.zeros_like(w), dy=zeros(3), BLOCK=16)
    # That of the kernel with partial sums, which runs; of the other one only facts are made, from code that is not simplified.
    tile, = (compiled.asm["tile"] for kernel in gradient.backward._partial.values() for compiled in kernel._kernels())
    assert tile.count("scf.for") == 2


@nereid.jit
def chunked_dot(a, b, c, K, BM: tl.constexpr, BK: tl.constexpr):
    m = tl.arange(0, BM)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BM), a.dtype.element_ty)
    for at in range(0, tl.cdiv(K, BK)):
        left = tl.load(a + m[:, None] * K + (at * BK + k)[None, :], mask=k[None, :] < K - at * BK, other=0.0)
        right = tl.load(b + (at * BK + k)[:, None] * BM + m[None, :], mask=k[:, None] < K - at * BK, other=0.0)
        acc += tl.dot(left, right, input_precision="ieee")
    tl.store(c + m[:, None] * BM + m[None, :], acc)


@TYPES
@pytest.mark.parametrize("wrt", [("a", "b"), ("b", )])
def test_products_in_chunks(target, wrt, dtype, rtol):
    a, b = jvp_check.random(16, 41), jvp_check.random(41, 16)
    reference = torch.matmul if len(wrt) == 2 else lambda b: a.to(dtype).double() @ b
    against(chunked_dot, (1, ), dict(a=a, b=b, c=torch.zeros(16, 16), K=41), wrt, "c", reference, rtol, dtype, BM=16, BK=16)


# ---- recurrences --------------------------------------------------------------------------------------


@nereid.jit
def recurrence(x, w, y, n, N: tl.constexpr):
    """States that are read, an accumulator, a pointer that advances, values from outside."""
    i = tl.arange(0, N)
    weight = tl.load(w + i)
    h = weight
    total = h * 0.0
    p = x + i
    for k in range(n):
        v = tl.load(p)
        h = tl.sin(h * v) + 0.5 * h
        total += h * v * weight
        p += N
    tl.store(y + i, total + h)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 10, 37])
def test_recurrences(n):
    grad_check.check(recurrence, (1, ), dict(x=jvp_check.random(max(n, 1), 16), w=jvp_check.random(16), y=zeros(16), n=n), ("x", "w"), ("y", ), N=16)


@nereid.jit
def unused_states(x, y, n, N: tl.constexpr):
    """What overflows reaches no output."""
    i = tl.arange(0, N)
    a = tl.load(x + i)
    alone, other, used = a, a, a * 0.0 + 1.0
    for k in range(n):
        alone = tl.exp(alone * alone + a * a + 5.0)
    for k in range(n):
        other = tl.exp(tl.exp(other * other)) * used
        for j in range(n):
            other += tl.exp(other)
        used = used * tl.sin(a)
    tl.store(y + i, used)


@pytest.mark.parametrize("n", [0, 1, 3, 5, 17])
def test_states_that_reach_no_output(n):
    """Their adjoints are zero: no product of these with an infinite factor may reach a gradient."""
    x, dy, dx = jvp_check.random(16), jvp_check.random(16), torch.full((16, ), float("nan"), dtype=F64)
    nereid.grad(unused_states, "x", "y").backward[(1, )](x, zeros(16), n, dx=dx, dy=dy, N=16)
    torch.testing.assert_close(dx, dy * n * torch.sin(x)**max(n - 1, 0) * torch.cos(x))


@nereid.jit
def branching(x, w, y, n, N: tl.constexpr, T: tl.constexpr):
    """A known number of rounds, and branches in them."""
    i = tl.arange(0, N)
    h = tl.load(w + i)
    s = h * 0.0
    for k in range(T):
        v = tl.load(x + k * N + i)
        h = tl.sin(h * v) + 0.5 * h
        if k > n:
            s += h * v * tl.load(w + i)
        elif k % 2 == 0:
            h = tl.cos(h * s + v)
    tl.store(y + i, s + h)


@pytest.mark.parametrize("rounds", [0, 1, 5, 16, 17, 30])
def test_known_numbers_of_rounds(rounds):
    """Written out up to 16."""
    grad_check.check(branching, (1, ), dict(x=jvp_check.random(max(rounds, 1), 16), w=jvp_check.random(16), y=zeros(16), n=2), ("x", "w"), ("y", ), N=16,
                     T=rounds)


@nereid.jit
def nested(x, w, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    h = tl.load(w + i)
    for k in range(n):
        q = h
        for j in range(k):
            q = tl.sin(q * tl.load(x + (k * n + j) * N + i)) + h * 0.3
        h = 0.5 * q + tl.cos(h)
    tl.store(y + i, h)


@pytest.mark.parametrize("n", [0, 1, 4, 7])
def test_nested_loops(n):
    grad_check.check(nested, (1, ), dict(x=jvp_check.random(max(n * n, 1), 16), w=jvp_check.random(16), y=zeros(16), n=n), ("x", "w"), ("y", ), N=16)


def test_three_loops_inside_each_other():

    @nereid.jit
    def deep(x, y, n, N: tl.constexpr):
        i = tl.arange(0, N)
        h = tl.load(x + i)
        total = h * 0.0
        for a in range(n):
            for b in range(a, n):
                for c in range(b):
                    h = tl.sin(h) + 0.1 * tl.load(x + (a + b + c) * N + i)
                total += h * h
            h = h + 0.1 * total
        tl.store(y + i, h + total)

    for n in (1, 3, 5):
        grad_check.check(deep, (1, ), dict(x=jvp_check.random(16, 16), y=zeros(16), n=n), ("x", ), ("y", ), N=16)


def test_reductions_in_nested_regions():
    """They are copied several times, each time with arguments of their own."""

    @nereid.jit
    def nested_sums(x, y, n, N: tl.constexpr):
        i = tl.arange(0, N)
        h = tl.load(x + i)
        if n > 0:
            if n > 1:
                h = h * tl.sum(tl.sin(h) * h)
                h = h / tl.max(tl.abs(h))
        for a in range(n):
            for b in range(a, n):
                h = tl.sin(0.1 * h * tl.sum(h * h)) + 0.1 * tl.max(h) * tl.load(x + (a + b) * N + i)
                if b == 2:
                    h = h + 0.1 * tl.sum(tl.exp(-h * h))
        tl.store(y + i, h)

    for n in (0, 1, 2, 4):
        grad_check.check(nested_sums, (1, ), dict(x=jvp_check.random(16, 16), y=zeros(16), n=n), ("x", ), ("y", ), N=16)


def test_atomic_additions_in_loops():

    @nereid.jit
    def summed(x, y, n, N: tl.constexpr):
        i = tl.arange(0, N)
        for k in range(n):
            v = tl.load(x + k * N + i)
            tl.atomic_add(y + i % 8, v * v)
            tl.atomic_add(y + 8 + k % 2, tl.sum(v))

    grad_check.check(summed, (1, ), dict(x=jvp_check.random(5, 16), y=zeros(10), n=5), ("x", ), ("y", ), N=16, begin=0.0)


def test_random_numbers_and_loaded_bounds_in_loops():

    @nereid.jit
    def dropped(x, count, y, seed, N: tl.constexpr):
        i = tl.arange(0, N)
        h = tl.load(x + i)
        for k in range(tl.load(count + tl.program_id(0))):
            keep = tl.rand(seed, k * N + i) > 0.3
            h = tl.where(keep, tl.sin(h) * 1.2, 0.5 * h)
        tl.store(y + tl.program_id(0) * N + i, h)

    arguments = dict(x=jvp_check.random(16), count=torch.tensor([0, 3, 8], dtype=torch.int32), y=zeros(3, 16), seed=5)
    grad_check.check(dropped, (3, ), arguments, ("x", ), ("y", ), N=16)


@nereid.jit
def exchanged(x, y, n, start, step, N: tl.constexpr):
    """Carried values that change places, an integer with no closed form, a loop with a step, backwards."""
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.load(x + N + i)
    at = 1
    for k in range(start, n, step):
        a, b = b, tl.sin(a * b) + 0.1 * k * a * at
        at = (at * 3) % 7
    for k in range(n, 0, -1):
        a = 0.5 * a * b + k * 0.01 * a
    tl.store(y + i, a * b)


@pytest.mark.parametrize("n,start,step", [(9, 0, 1), (9, 2, 3), (20, -3, 4), (1, 5, 2)])
def test_carried_values_of_all_kinds(n, start, step):
    grad_check.check(exchanged, (1, ), dict(x=jvp_check.random(2, 16), y=zeros(16), n=n, start=start, step=step), ("x", ), ("y", ), N=16)


@nereid.jit
def log_sum_exp(x, y, n, BLOCK: tl.constexpr):
    """The maximum and the sum in one pass."""
    row = tl.program_id(0)
    m = tl.full((), -float("inf"), tl.float64)
    total = tl.full((), 0.0, tl.float64)
    for off in range(0, n, BLOCK):
        i = off + tl.arange(0, BLOCK)
        a = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
        larger = tl.maximum(m, tl.max(a, 0))
        total = total * tl.exp(m - larger) + tl.sum(tl.exp(a - larger), 0)
        m = larger
    tl.store(y + row, m + tl.log(total))


@pytest.mark.parametrize("n", [5, 16, 50, 200])
def test_log_sum_exp_in_one_pass(n):
    against(log_sum_exp, (3, ), dict(x=jvp_check.random(3, n), y=zeros(3), n=n), ("x", ), "y", lambda x: x.logsumexp(1), BLOCK=16)


@nereid.jit
def welford(x, mean_ptr, var_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    mean = tl.zeros((BLOCK, ), tl.float64)
    m2 = tl.zeros((BLOCK, ), tl.float64)
    count = 0.0
    for k in range(n):
        v = tl.load(x + k * BLOCK + i)
        count += 1.0
        delta = v - mean
        mean += delta / count
        m2 += delta * (v - mean)
    tl.store(mean_ptr + i, mean)
    tl.store(var_ptr + i, m2 / n)


def test_variance_in_one_pass():
    x = jvp_check.random(23, 16)
    given = {"mean_ptr": jvp_check.random(16), "var_ptr": jvp_check.random(16)}
    found = grad_check.gradients(welford, (1, ), dict(x=x, mean_ptr=zeros(16), var_ptr=zeros(16), n=23), ("x", ), tuple(given), given, BLOCK=16)
    leaf = x.clone().requires_grad_()
    expected, = torch.autograd.grad((leaf.mean(0), leaf.var(0, unbiased=False)), leaf, tuple(given.values()))
    torch.testing.assert_close(found["x"], expected)


@nereid.jit
def scan_of_rows(x, a, y, n, N: tl.constexpr):
    """A state that every round stores."""
    i = tl.arange(0, N)
    h = tl.zeros((N, ), tl.float64)
    for t in range(n):
        h = libdevice.tanh(tl.load(a + t * N + i) * h + tl.load(x + t * N + i))
        tl.store(y + t * N + i, h)


def test_a_state_that_every_round_stores():
    arguments = dict(x=jvp_check.random(19, 16), a=jvp_check.random(19, 16), y=zeros(19, 16), n=19)
    grad_check.check(scan_of_rows, (1, ), arguments, ("x", "a"), ("y", ), N=16)


def test_causal_bounds():

    @nereid.jit
    def causal(x, w, y, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        i = tl.arange(0, BLOCK)
        h = tl.load(w + row * BLOCK + i)
        for k in range(row + 1):
            h = h * tl.cos(tl.load(x + k * BLOCK + i)) + 0.1
        tl.store(y + row * BLOCK + i, h)

    grad_check.check(causal, (6, ), dict(x=jvp_check.random(6, 16), w=jvp_check.random(6, 16), y=zeros(6, 16)), ("x", "w"), ("y", ), BLOCK=16)


def test_block_pointers():

    @nereid.jit
    def through(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
        p = tl.make_block_ptr(x, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
        acc = tl.zeros((BM, BN), tl.float64)
        for k in range(0, N, BN):
            v = tl.load(p, boundary_check=(0, 1), padding_option="zero")
            acc = acc * 0.5 + v * v
            p = tl.advance(p, (0, BN))
        q = tl.make_block_ptr(y, (M, BN), (BN, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
        tl.store(q, acc, boundary_check=(0, ))

    grad_check.check(through, (2, ), dict(x=jvp_check.random(13, 40), y=zeros(13, 16), M=13, N=40), ("x", ), ("y", ), BM=8, BN=16)


# ---- kernels of the tutorials -------------------------------------------------------------------------


@nereid.jit
def persistent_softmax(output_ptr, input_ptr, input_row_stride, output_row_stride, n_rows, n_cols, BLOCK_SIZE: tl.constexpr, num_stages: tl.constexpr):
    row_start = tl.program_id(0)
    row_step = tl.num_programs(0)
    for row_idx in tl.range(row_start, n_rows, row_step, num_stages=num_stages):
        row_start_ptr = input_ptr + row_idx * input_row_stride
        col_offsets = tl.arange(0, BLOCK_SIZE)
        input_ptrs = row_start_ptr + col_offsets
        mask = col_offsets < n_cols
        row = tl.load(input_ptrs, mask=mask, other=-float('inf'))
        row_minus_max = row - tl.max(row, axis=0)
        numerator = tl.exp(row_minus_max)
        denominator = tl.sum(numerator, axis=0)
        softmax_output = numerator / denominator
        output_row_start_ptr = output_ptr + row_idx * output_row_stride
        output_ptrs = output_row_start_ptr + col_offsets
        tl.store(output_ptrs, softmax_output, mask=mask)


@TYPES
@pytest.mark.parametrize("programs", [1, 3, 9])
def test_softmax_of_several_rows_a_program(target, programs, dtype, rtol):
    against(persistent_softmax, (programs, ), dict(output_ptr=torch.zeros(7, 50), input_ptr=jvp_check.random(7, 50), input_row_stride=50, output_row_stride=50,
                                                   n_rows=7, n_cols=50), ("input_ptr", ), "output_ptr", lambda x: x.softmax(1), rtol, dtype, BLOCK_SIZE=64,
            num_stages=2)


@nereid.jit
def softmax_in_three_passes(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * n
    y += row * n
    m = tl.full((), -float("inf"), x.dtype.element_ty)
    for off in range(0, n, BLOCK):
        i = off + tl.arange(0, BLOCK)
        m = tl.maximum(m, tl.max(tl.load(x + i, mask=i < n, other=-float("inf")), 0))
    total = tl.zeros((BLOCK, ), x.dtype.element_ty)
    for off in range(0, n, BLOCK):
        i = off + tl.arange(0, BLOCK)
        total += tl.exp(tl.load(x + i, mask=i < n, other=-float("inf")) - m)
    total = tl.sum(total, 0)
    for off in range(0, n, BLOCK):
        i = off + tl.arange(0, BLOCK)
        tl.store(y + i, tl.exp(tl.load(x + i, mask=i < n, other=-float("inf")) - m) / total, mask=i < n)


@TYPES
def test_softmax_in_three_passes(target, dtype, rtol):
    against(softmax_in_three_passes, (5, ), dict(x=jvp_check.random(5, 77), y=torch.zeros(5, 77), n=77), ("x", ), "y", lambda x: x.softmax(1), rtol, dtype,
            BLOCK=16)


@TYPES
def test_layer_norm(target, dtype, rtol):
    rows, N = 5, 77
    against(layer_norm, (rows, ), dict(X=jvp_check.random(rows, N), Y=torch.zeros(rows, N), W=jvp_check.random(N), B=jvp_check.random(N), Mean=torch.zeros(rows),
                                       Rstd=torch.zeros(rows), stride=N, N=N, eps=0.125), ("X", "W", "B"), "Y",
            lambda x, w, b: F.layer_norm(x, (N, ), w, b, 0.125), rtol, dtype, BLOCK_SIZE=32)


@TYPES
@pytest.mark.parametrize("wrt", [("a_ptr", "b_ptr"), ("b_ptr", )])
def test_matrix_product_with_activation(target, wrt, dtype, rtol):
    M, N, K = 37, 29, 41
    a, b = jvp_check.random(M, K), jvp_check.random(K, N)
    reference = (lambda a, b: F.leaky_relu(a @ b)) if len(wrt) == 2 else (lambda b: F.leaky_relu(a.to(dtype).double() @ b))
    against(matmul, (6, ), dict(a_ptr=a, b_ptr=b, c_ptr=torch.zeros(M, N), M=M, N=N, K=K, stride_am=K, stride_ak=1, stride_bk=N, stride_bn=1, stride_cm=N,
                                stride_cn=1), wrt, "c_ptr", reference, rtol, dtype, BM=16, BN=16, BK=16, GROUP=2, ACTIVATION="leaky_relu")


@TYPES
@pytest.mark.parametrize("causal", [False, True])
def test_attention(target, causal, dtype, rtol):
    heads, length, D = 2, 40, 16
    tensors = {name: jvp_check.random(heads, length, D) for name in "QKV"}

    def reference(q, k, v):
        scores = q @ k.transpose(1, 2) * 0.25
        if causal:
            scores = scores.masked_fill(~torch.ones(length, length).tril().bool(), -math.inf)
        return scores.softmax(2) @ v

    against(attention, (3, heads), dict(**tensors, Out=torch.zeros(heads, length, D), M=torch.zeros(heads, length), stride_h=length * D, stride_n=D, scale=0.25,
                                        heads=heads, length=length), ("Q", "K", "V"), "Out", reference, max(rtol, 1e-6), dtype, BM=16, BN=16, D=D, CAUSAL=causal)


@nereid.jit
def _attention_rounds(acc, l_i, m_i, q, k_ptrs, v_ptrs, offs_m, offs_n, scale, length, lo, hi, BN: tl.constexpr, D: tl.constexpr, MASKED: tl.constexpr):
    k_ptrs += lo * D
    v_ptrs += lo * D
    for start in tl.range(lo, hi, BN, num_stages=2):
        start = tl.multiple_of(start, BN)
        cols = start + offs_n
        if MASKED:
            k = tl.load(k_ptrs, mask=cols[None, :] < length, other=0.0)
        else:
            k = tl.load(k_ptrs)
        qk = tl.dot(q, k, input_precision="ieee") * scale
        if MASKED:
            qk = tl.where((offs_m[:, None] >= cols[None, :]) & (cols[None, :] < length), qk, float("-inf"))
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_ij[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        acc = acc * alpha[:, None]
        if MASKED:
            v = tl.load(v_ptrs, mask=cols[:, None] < length, other=0.0)
        else:
            v = tl.load(v_ptrs)
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")
        l_i = l_i * alpha + tl.sum(p, 1)
        m_i = m_ij
        k_ptrs += BN * D
        v_ptrs += BN * D
    return acc, l_i, m_i


@nereid.jit
def attention_in_two_loops(Q, K, V, Out, Lse, scale, length, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Whole blocks of keys first, then those with the diagonal in them; pointers that advance."""
    start = tl.program_id(0)
    head = tl.program_id(1) * length * D
    offs_m = start * BM + tl.arange(0, BM)
    offs_n = tl.arange(0, BN)
    offs_d = tl.arange(0, D)
    wide: tl.constexpr = tl.float64 if Q.dtype.element_ty == tl.float64 else tl.float32
    q = tl.load(Q + head + offs_m[:, None] * D + offs_d[None, :], mask=offs_m[:, None] < length, other=0.0)
    k_ptrs = K + head + offs_n[None, :] * D + offs_d[:, None]
    v_ptrs = V + head + offs_n[:, None] * D + offs_d[None, :]
    m_i = tl.zeros([BM], wide) - float("inf")
    l_i = tl.zeros([BM], wide)
    acc = tl.zeros([BM, D], wide)
    full = start * BM // BN * BN
    scale *= 1.44269504088896340736
    acc, l_i, m_i = _attention_rounds(acc, l_i, m_i, q, k_ptrs, v_ptrs, offs_m, offs_n, scale, length, 0, full, BN, D, False)
    acc, l_i, m_i = _attention_rounds(acc, l_i, m_i, q, k_ptrs, v_ptrs, offs_m, offs_n, scale, length, full, tl.minimum((start + 1) * BM, length), BN, D, True)
    tl.store(Lse + tl.program_id(1) * length + offs_m, m_i + tl.math.log2(l_i), mask=offs_m < length)
    tl.store(Out + head + offs_m[:, None] * D + offs_d[None, :], (acc / l_i[:, None]).to(Out.dtype.element_ty), mask=offs_m[:, None] < length)


@pytest.mark.parametrize("dtype,rtol", [(F64, 1e-6), (torch.float32, 2e-4), (torch.float16, 3e-2), (torch.bfloat16, 1e-1)])
def test_attention_in_two_loops(target, dtype, rtol):
    heads, length, D = 2, 70, 16
    causal = ~torch.ones(length, length).tril().bool()
    tensors = {name: jvp_check.random(heads, length, D) for name in "QKV"}
    against(attention_in_two_loops, (3, heads), dict(**tensors, Out=torch.zeros(heads, length, D), Lse=torch.zeros(heads, length), scale=0.25, length=length),
            ("Q", "K", "V"), "Out", lambda q, k, v: (q @ k.transpose(1, 2) * 0.25).masked_fill(causal, -math.inf).softmax(2) @ v, rtol, dtype, BM=32, BN=16, D=D)


@pytest.mark.parametrize("dtype,rtol", [(torch.float16, 3e-2), (torch.bfloat16, 1e-1)])
def test_narrow_types_in_loops(target, dtype, rtol):
    """Gradients are summed in fp32, through pointers that loops advance."""
    a, b = jvp_check.random(37, 41), jvp_check.random(41, 29)
    against(narrow_matmul, (6, ), dict(a_ptr=a, b_ptr=b, c_ptr=torch.zeros(37, 29), M=37, N=29, K=41), ("a_ptr", "b_ptr"), "c_ptr", torch.matmul, rtol, dtype,
            BM=16, BN=16, BK=16)


@nereid.jit
def narrow_matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) // tl.cdiv(N, BN) * BM + tl.arange(0, BM)
    n = tl.program_id(0) % tl.cdiv(N, BN) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_ptrs = a_ptr + (m[:, None] * K + k[None, :])
    b_ptrs = b_ptr + (k[:, None] * N + n[None, :])
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=(m[:, None] < M) & (k[None, :] < K - i * BK), other=0.0)
        b = tl.load(b_ptrs, mask=(k[:, None] < K - i * BK) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK
        b_ptrs += BK * N
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@nereid.jit
def through_descriptors(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    acc = tl.zeros((BM, BN), y.dtype.element_ty)
    for k in range(0, N, BN):
        v = source.load([tl.program_id(0) * BM, k])
        acc = acc * 0.5 + v * v
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    tl.store(y + m[:, None] * BN + tl.arange(0, BN)[None, :], acc, mask=m[:, None] < M)


def test_descriptors_in_loops(target):
    grad_check.check(through_descriptors, (2, ), dict(x=jvp_check.random(13, 48), y=zeros(13, 16), M=13, N=48), ("x", ), ("y", ), BM=8, BN=16)
    x, y, dy = jvp_check.random(13, 48).half(), torch.zeros(13, 16), jvp_check.random(13, 16).float()
    dx = torch.empty_like(x)
    nereid.grad(through_descriptors, "x", "y").backward[(2, )](x, y, 13, 48, dx=dx, dy=dy, BM=8, BN=16)
    expected = torch.cat([2 * x[:, 16 * k:16 * k + 16].float() * dy * 0.5**(2 - k) for k in range(3)], 1)
    torch.testing.assert_close(dx.float(), expected, rtol=2e-3, atol=2e-3)


LOOPS = {
    "accumulator": (layer_norm, dict(X="*fp32", Y="*fp32", W="*fp32", B="*fp32", Mean="*fp32", Rstd="*fp32", stride="i32", N="i32", eps="fp32", BLOCK_SIZE=64), ("X", "W"), "Y"),
    "states": (recurrence, dict(x="*fp32", w="*fp32", y="*fp32", n="i32", N=128), ("x", "w"), "y"),
    "product": (matmul.fn, dict(a_ptr="*fp16", b_ptr="*fp16", c_ptr="*fp32", M="i32", N="i32", K="i32", stride_am="i32", stride_ak=1, stride_bk="i32", stride_bn=1,
                                stride_cm="i32", stride_cn=1, BM=64, BN=64, BK=32, GROUP=2, ACTIVATION="leaky_relu"), ("a_ptr", "b_ptr"), "c_ptr"),
    "attention": (attention, dict(Q="*fp32", K="*fp32", V="*fp32", Out="*fp32", M="*fp32", stride_h="i32", stride_n="i32", scale="fp32", heads="i32", length="i32", BM=32, BN=32,
                                  D=32, CAUSAL=True), ("Q", "K", "V"), "Out"),
}


@pytest.mark.parametrize("name", LOOPS)
def test_code_of_loops_for_gpus(name):
    kernel, arguments, wrt, out = LOOPS[name]
    gradient = nereid.grad(kernel, wrt, out)
    sample = {"*fp32": torch.ones(64), "*fp16": torch.ones(64, dtype=torch.float16), "i32": 77, "fp32": 0.5}
    given = {name: sample.get(value, value) for name, value in arguments.items()}
    tangents = {f"d{name}": torch.ones(64, dtype=given[name].dtype) for name in (*wrt, out)}
    compiled = gradient.backward.warmup(**given, **tangents, grid=(2, ), target="cuda:90")
    assert "atom" in compiled.asm["ptx"] or "red" in compiled.asm["ptx"]
    assert compiled.asm["cubin"]


# ---- ownership across rounds --------------------------------------------------------------------------


def explained(kernel, grid, arguments, wrt, out, **options):
    gradient = nereid.grad(kernel, wrt, out)
    given = {f"d{name}": torch.zeros_like(arguments[name]) for name in (*wrt, *out)}
    gradient.backward[grid](**arguments, **given, **options)
    return gradient.explain().splitlines()[1:]


def test_explain_tells_who_owns_what_in_loops():
    x, w = jvp_check.random(3, 50), jvp_check.random(50)
    found = explained(row_sums, (3, ), dict(x=x, w=w, y=zeros(3), n=50), ("x", "w"), ("y", ), BLOCK=16)
    assert sorted(found) == sorted([owned("x"), "  the gradient of `w` is summed in partial sums, one of each launched program, which a second launch adds",
                                    "  last launched with 3 partial sums"])
    found = explained(row_sums, (1, ), dict(x=x, w=w, y=zeros(3), n=50), ("x", "w"), ("y", ), BLOCK=16)
    grid = "the grid has one program along axis 0 and the grid has one program along axis 1 and the grid has one program along axis 2"
    assert sorted(found) == sorted([owned("x"), f"  the gradient of `w` is stored by the program that owns it where {grid}, and summed by atomic additions elsewhere; "
                                    "its schedule is not transposed: all programs read the same blocks in the rounds of a loop"])
    found = explained(recurrence, (1, ), dict(x=jvp_check.random(3, 16), w=jvp_check.random(16), y=zeros(16), n=3), ("x", "w"), ("y", ), N=16)
    assert all("is stored by the program that owns it" in line for line in found)
    x = jvp_check.random(7, 50)
    arguments = dict(output_ptr=zeros(7, 50), input_ptr=x, input_row_stride=50, output_row_stride=50, n_rows=7, n_cols=50)
    found = explained(persistent_softmax, (3, ), arguments, ("input_ptr", ), ("output_ptr", ), BLOCK_SIZE=64, num_stages=2)
    assert owned("input_ptr", " and `input_row_stride` is at least `n_cols` or 64") in found
    assert ("  the gradient of `output_ptr` is taken as NaN unless `output_row_stride` * num_programs(0) is at least `n_cols` or 64, since rounds of a loop might store to "
            "one element") in [line.replace("num_programs(0) * `output_row_stride`", "`output_row_stride` * num_programs(0)") for line in found]


@nereid.jit
def shared_by_rounds(x, w, y, n, step, N: tl.constexpr):
    """Each round reads all of `w`, and rows of `x` that overlap where `step` is less than a row."""
    i = tl.arange(0, N)
    for k in range(n):
        tl.store(y + k * N + i, tl.load(w + i) * tl.sin(tl.load(x + k * step + i)))


@pytest.mark.parametrize("step", [16, 17, 5, 1, 0])
def test_elements_that_several_rounds_read(step):
    x, w = jvp_check.random(5 * 17 + 16), jvp_check.random(16)
    grad_check.check(shared_by_rounds, (1, ), dict(x=x, w=w, y=zeros(5, 16), n=5, step=step), ("x", "w"), ("y", ), N=16)


@nereid.jit
def rows_in_rounds(x, y, stride, width, n, BLOCK: tl.constexpr):
    """Programs and rounds share the rows."""
    i = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), n, tl.num_programs(0)):
        v = tl.load(x + row * stride + i, mask=i < width, other=0.0)
        tl.store(y + row * BLOCK + i, v * v, mask=i < width)


@pytest.mark.parametrize("programs", [1, 3])
@pytest.mark.parametrize("stride,width", [(16, 16), (12, 12), (12, 9), (4, 16), (3, 9), (0, 5), (1, 1), (1, 2)])
def test_rows_that_overlap_or_not(stride, width, programs):
    x, dy = jvp_check.random(7 * stride + 16), jvp_check.random(7, 16)
    dx = torch.empty_like(x)
    nereid.grad(rows_in_rounds, "x", "y").backward[(programs, )](x, zeros(7, 16), stride, width, 7, dx=dx, dy=dy, BLOCK=16)
    expected = torch.zeros_like(x)
    for row in range(7):
        at = slice(row * stride, row * stride + width)
        expected[at] += 2 * x[at] * dy[row, :width]
    torch.testing.assert_close(dx, expected)


@nereid.jit
def tiles(x, y, n, rows, ld, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    for k in range(0, n, BN):
        c = k + tl.arange(0, BN)
        mask = (m[:, None] < rows) & (c[None, :] < n)
        at = m[:, None] * ld + c[None, :]
        tl.store(y + at, tl.exp(tl.load(x + at, mask=mask)), mask=mask)


@pytest.mark.parametrize("rows,n,ld", [(13, 40, 40), (13, 40, 57), (16, 32, 32), (3, 5, 5)])
def test_tiles_in_rounds(rows, n, ld):
    x, y = jvp_check.random(rows, ld), zeros(rows, ld)
    found = grad_check.check(tiles, (4, ), dict(x=x, y=y, n=n, rows=rows, ld=ld), ("x", ), ("y", ), BM=4, BN=16)
    assert not found["x"][:, n:].any()


ADDRESSES = {
    "rounds": ("range(n)", "p0 * s0 + p1 * s1 + k * s2 + m[:, None] * s3 + i[None, :]", "i[None, :] < width"),
    "chunks": ("range(0, 4 * n, 4)", "p0 * s0 + p1 * s1 + m[:, None] * s3 + k + i[None, :]", "k + i[None, :] < width"),
    "turns": ("range(p0, n, tl.num_programs(0))", "p1 * s1 + k * s2 + m[:, None] * s3 + i[None, :]", "i[None, :] < width"),
    "tiles": ("range(n)", "(p0 * 2 + m[:, None]) * s0 + k * 4 + p1 * s1 + i[None, :]", "(k * 4 + i[None, :] < width) & (p0 * 2 + m[:, None] < 5)"),
    "columns": ("range(n)", "p0 * s0 + m[:, None] + i[None, :] * s3 + k * s2 + p1 * s1", "(m[:, None] < width) & (p1 < 3)"),
}


@pytest.mark.parametrize("name", ADDRESSES)
def test_random_strides(name):
    """Which elements are shared depends on strides: the gradient is always that of all programs, rounds and lanes."""
    rounds, address, mask = ADDRESSES[name]
    body = f"p0, p1 = tl.program_id(0), tl.program_id(1)\nm = tl.arange(0, 2)\nfor k in {rounds}:\n    at = {address}\n" + (
        "    v = tl.load(x + at, mask=" + mask + ", other=0.0)\n    place = (((p0 * 3 + p1) * 64 + k) * 2 + m[:, None]) * 4 + i[None, :]\n    tl.store(y + place, v * v)")
    kernel = of_text("i = tl.arange(0, 4)\n" + body, "x, y, s0, s1, s2, s3, width, n")
    generator = random.Random(name)
    owned = 0
    for _ in range(25):
        s3, width, n = generator.choice([1, 2, 3, 4, 8]), generator.choice([0, 1, 2, 3, 4, 7, 12]), generator.choice([0, 1, 2, 3])
        s2 = s3 * generator.choice([0, 1, 2, 2, 2])
        s1 = generator.choice([s2 * max(n, 1), 0, 3, 24])
        s0 = generator.choice([s1 * 2, 0, s2, 5, 48])
        grid = (generator.choice([1, 2, 3]), generator.choice([1, 2]))
        values = dict(s0=s0, s1=s1, s2=s2, s3=s3, width=width, n=n)
        x, y, dy = jvp_check.random(1000), zeros(3 * 3 * 64 * 2 * 4), jvp_check.random(3 * 3 * 64 * 2 * 4)
        dx = torch.empty_like(x)
        nereid.grad(kernel, "x", "y").backward[grid](x, y, **values, dx=dx, dy=dy, N=4)
        expected, reads = torch.zeros_like(x), set()
        once = True
        m, i = torch.arange(2), torch.arange(4)
        for p0 in range(grid[0]):
            for p1 in range(grid[1]):
                for k in eval(rounds.replace("tl.num_programs(0)", str(grid[0])), dict(n=n, p0=p0)):
                    names = dict(values, p0=p0, p1=p1, k=k, m=m, i=i)
                    at = eval(address, names).expand(2, 4)
                    inside = torch.as_tensor(eval(mask, names)).expand(2, 4)
                    place = (((p0 * 3 + p1) * 64 + k) * 2 + m[:, None]) * 4 + i[None, :]
                    for element, where in zip(at[inside].tolist(), place[inside].tolist()):
                        expected[element] += 2 * x[element] * dy[where]
                        once &= element not in reads
                        reads.add(element)
        torch.testing.assert_close(dx, expected)
        owned += once
    assert 0 < owned < 25  # both kinds were among them


def test_rounds_that_store_to_one_element_give_nan():
    """Known at run time alone: only the last round's value is left, so there is no gradient of the others."""

    @nereid.jit
    def spaced(x, y, n, step, N: tl.constexpr):
        i = tl.arange(0, N)
        for k in range(n):
            tl.store(y + k * step + i, tl.load(x + k * N + i))

    x = jvp_check.random(4, 16)
    for step, good in ((16, True), (20, True), (15, False), (0, False)):
        dx = torch.empty_like(x)
        nereid.grad(spaced, "x", "y").backward[(1, )](x, zeros(80), 4, step, dx=dx, dy=torch.ones(80, dtype=F64), N=16)
        assert (dx == 1).all() if good else dx.isnan().all()


def test_gradients_that_rounds_own_are_the_same_in_every_run():
    x, dy = torch.randn(64, 300), torch.randn(64, 300)
    gradient = nereid.grad(persistent_softmax, "input_ptr", "output_ptr")
    runs = []
    for _ in range(3):
        dx = torch.empty_like(x)
        gradient.backward[(8, )](torch.zeros_like(x), x, 300, 300, 64, 300, dinput_ptr=dx, doutput_ptr=dy, BLOCK_SIZE=512, num_stages=2)
        runs.append(dx)
    assert all(torch.equal(runs[0], run) for run in runs)


# ---- refusals (GradientStoredInLoop) ------------------------------------------------------------------


SINE = "s = tl.sin(s) + 0.1"


@pytest.mark.parametrize("body", [
    f"k = n\nwhile k > 0:\n    {SINE}\n    k -= 1",
    f"k = n\nwhile k > 1:\n    {SINE}\n    if k % 2 == 0:\n        k = k // 2\n    else:\n        k = 3 * k + 1",
    f"k = n\nwhile k > 0:\n    j = k\n    while j > 0:\n        s = tl.sin(s) + 0.1 * j\n        j -= 2\n    k -= 1",
    f"for k in range(n):\n    j = k\n    while j * j < 20:\n        {SINE}\n        j += 1",
    f"k = 0\nwhile True:\n    {SINE}\n    k += 1\n    if k > n:\n        break",
    f"for k in range(n, 0, -1):\n    {SINE}\n    if tl.sum(s, 0) > 9.0:\n        break\n    s = s + 0.3",
    f"k = 0\nwhile tl.load(index + k) >= 0:\n    {SINE} * tl.load(x + tl.load(index + k))\n    k += 1",
    f"k = 0\nwhile tl.load(x + k) < 100.0:\n    {SINE}\n    k += 1",
    "r = 1.0 + s * s\nerror = tl.max(tl.abs(r * r - 1.0 - s * s), 0)\nwhile error > 1e-9:\n    r = 0.5 * (r + (1.0 + s * s) / r)\n    error = tl.max(tl.abs(r * r - 1.0 - s * s), 0)\ns = r",
])
def test_while_loops_whose_rounds_are_counted(body):
    """In front of the loop, by a loop that computes its condition alone: integers, branches, inner loops, memory, values that have gradients themselves."""
    kernel = of_text(f"s = tl.load(x + i)\n{body}\ntl.store(y + i, s)", "x, y, n, index")
    for n in (0, 1, 6, 20):
        x = torch.cat((0.5 * jvp_check.random(13), torch.full((3, ), 200.0, dtype=F64)))
        if "error" in body:
            x = x.clamp(-2, 2)
        grad_check.check(kernel, (1, ), dict(x=x, y=zeros(16), n=n, index=torch.tensor([3, 2, 5, 2, -1])), ("x", ), ("y", ), rtol=1e-8, N=16)


def test_while_loops_are_refused():
    """Whose condition may not be the same when it is computed again."""
    body = "s = tl.load(x + i)\nk = 0\nwhile {}:\n    s = tl.sin(s)\n    k += 1{}\ntl.store(y + i, s)"
    arguments = dict(x=jvp_check.random(16), y=zeros(16), index=torch.tensor([3, 2, 5, -1]), other=torch.zeros(16, dtype=torch.int32))
    for condition, more in (("tl.load(index + k, volatile=True) >= 0", ""), ("tl.load(index + k) >= 0", "\n    tl.store(other + k, k)")):
        refused(of_text(body.format(condition, more), "x, y, index, other"), arguments, ("x", ), ("y", ), "a `while` loop, or a `for` loop that is left early, around what is differentiated has no "
                "reverse derivative: its rounds cannot be counted before it, since its condition depends on memory that the loop may write", N=16)
    for condition, more in (("tl.load(index + k) >= 0", ""), ("tl.at_most(tl.load(index + k, volatile=True) >= 0, 3)", ""), ("k < 3", "\n    tl.store(other + k, k)")):
        grad_check.check(of_text(body.format(condition, more), "x, y, index, other"), (1, ), arguments, ("x", ), ("y", ), N=16)
    # One that computes nothing that depends on the inputs is computed again.
    counting = "k = n\ns = 1\nwhile k > 0:\n    s = s * 2\n    k -= 1\ntl.store(y + i, tl.sin(tl.load(x + i) * s))"
    grad_check.check(of_text(counting, "x, y, n"), (1, ), dict(x=jvp_check.random(16), y=zeros(16), n=3), ("x", ), ("y", ), N=16)


@pytest.mark.parametrize("address,why", [
    ("i", "the rounds of a loop share addresses"),
    ("k * 15 + i", "a stride is smaller than what the positions inside it reach"),
    ("(k % 2) * 16 + i", "its addresses are no sums of positions, program ids and strides|its addresses come from values that are computed or loaded|the rounds of a loop"),
    ("tl.load(index + k) * 16 + i", "its addresses come from values that are computed or loaded|the rounds of a loop"),
])
def test_rounds_that_may_store_to_one_element_are_refused(address, why):
    body = f"for k in range(n):\n    tl.store(y + {address}, tl.load(x + k * N + i))"
    arguments = dict(x=jvp_check.random(4, 16), y=zeros(64), n=4, index=torch.arange(4))
    with pytest.raises(nereid.CompilationError, match="`y` is stored to in a loop, and that its rounds store to different elements is not proven, since (" + why + ")"):
        grad_check.gradients(of_text(body, "x, y, n, index"), (1, ), arguments, ("x", ), ("y", ), {"y": torch.ones(64, dtype=F64)}, N=16)
    good = "for k in range(n):\n    tl.store(y + k * 16 + i, tl.load(x + k * N + i))"
    grad_check.check(of_text(good, "x, y, n, index"), (1, ), arguments, ("x", ), ("y", ), N=16)


def test_two_stores_in_a_loop_are_refused():
    body = "for k in range(n):\n    v = tl.load(x + k * N + i)\n    tl.store(y + k * {0} + i, v)\n    tl.store(y + k * {0} + 16 + i, v * v)"
    arguments = dict(x=jvp_check.random(4, 16), y=zeros(200), n=4)
    refused(of_text(body.format(16), "x, y, n"), arguments, ("x", ), ("y", ), "`y` is stored to in more than one place", N=16)


@pytest.mark.parametrize("expression", ["tl.gather(tl.sin(h), (i * 3 + k) % N, axis=0)", "tl.cumprod(1.0 + 0.1 * tl.sin(h), axis=0)", "tl.sin(h) + 0.1 * tl.max(h * h, 0, return_indices=True)[0]",
                                        "tl.reshape(tl.cat(h[8:16], h[0:8], can_reorder=False), (N, ))"])
def test_gathers_scans_and_slices_of_states(expression):
    body = f"h = tl.load(x + i)\nfor k in range(n):\n    h = {expression}\ntl.store(y + i, h)"
    for n in (0, 1, 4, 20):
        grad_check.check(of_text(body, "x, y, n"), (1, ), dict(x=0.3 * jvp_check.random(16), y=zeros(16), n=n), ("x", ), ("y", ), N=16)


def test_stores_of_rounds_that_count_down():
    body = "for k in range(n):\n    at = (n - 1 - k) * 16 + i\n    tl.store(y + at, tl.sin(tl.load(x + at)){})"
    for mask in ("", ", mask=at < n * 16 - 3", ", mask=at < 20"):
        grad_check.check(of_text(body.format(mask), "x, y, n"), (1, ), dict(x=jvp_check.random(64), y=zeros(64), n=4), ("x", ), ("y", ), begin=0.0, N=16)
    body = "for k in range(n):\n    at = 64 - k * 8 + i\n    tl.store(y + at, tl.load(x + k * 16 + i){})"
    for mask in ("", ", mask=at < 8"):  # a bound does not limit how far rounds that count down reach
        refused(of_text(body.format(mask), "x, y, n"), dict(x=jvp_check.random(64), y=zeros(96), n=4), ("x", ), ("y", ),
                "its rounds store to different elements is not proven, since a stride is smaller than what the positions inside it reach", N=16)


def test_the_line_of_a_refusal():
    body = "for k in range(n):\n    tl.store(y + i, tl.load(x + k * N + i))"
    with pytest.raises(nereid.CompilationError, match=re.escape("    tl.store(y + i, tl.load(x + k * N + i))")):
        grad_check.gradients(of_text(body, "x, y, n"), (1, ), dict(x=jvp_check.random(4, 16), y=zeros(16), n=4), ("x", ), ("y", ), {"y": torch.ones(16, dtype=F64)}, N=16)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 30])
def test_bodies_that_are_written_once_for_both_runs(n):
    """A round of many operations, with states of several types: the two loops that compute states again share its code on CPUs."""
    rounds = "\n    ".join(f"h = 0.7 * tl.sin(h + {0.01 * each:.2f} * g) + 0.2 * tl.cos(h * g)" for each in range(8))
    body = (f"h = tl.load(x + i)\ng = tl.sum(h, 0)\ncount = 1\np = w + i\nfor k in range(n):\n    {rounds}\n    g = 0.5 * tl.sin(g) + 0.1 * tl.sum(h * tl.load(p), 0)\n"
            "    count = count * 3 % 7\n    if count > 3:\n        p += 16\n        g = g * 0.9 + 0.01 * count\n    tl.store(y + k * 16 + i, h * g)\ntl.store(z + i, h + g)")
    arguments = dict(x=jvp_check.random(16), w=jvp_check.random(16 * 32), y=zeros(16 * 32), z=zeros(16), n=n)
    kernel = of_text(body, "x, w, y, z, n")
    grad_check.check(kernel, (1, ), arguments, ("x", "w"), ("y", "z"), begin=0.0, N=16)
    gradient = nereid.grad(kernel, ("x", "w"), ("y", "z"))
    given = {f"d{name}": arguments[name] for name in ("x", "w", "y", "z")}
    cpu, gpu = (gradient.backward.kernel.warmup(**arguments, **given, grid=(1, ), N=16, **target).asm["tile"].count("math.sin") for target in ({}, dict(target="cuda:90")))
    assert gpu - cpu == (9 if n != 1 else 0)  # those of one copy of the body; of one round, which is known, there is no run
