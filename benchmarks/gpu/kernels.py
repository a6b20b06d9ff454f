"""Kernels that the GPU benchmarks need beside those of examples/kernels/seed.py.

Like that file it is loaded twice, once for Nereid and once for an installed Triton: what `triton` means is up to the one who loads it
(load.py).
"""

import triton
import triton.language as tl


# A matrix product whose fp32 operands are multiplied with the precision asked for.
@triton.jit
def matmul_precision_kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                            BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
                            GROUP_SIZE_M: tl.constexpr, PRECISION: tl.constexpr):
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_m = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_n = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + ((offs_m % M)[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + (offs_n % N)[None, :] * stride_bn)
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0.0)
        accumulator = tl.dot(a, b, accumulator, input_precision=PRECISION)
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk
    c_ptrs = c_ptr + stride_cm * offs_m[:, None] + stride_cn * offs_n[None, :]
    tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


# Attention, forward: one block of queries a program, keys and values in a loop, softmax kept up to date. `scale` is 1/sqrt(d) times
# log2(e). The sequence is a multiple of the blocks.
@triton.jit
def attention_inner(acc, l_i, m_i, q, k_ptrs, v_ptrs, stride_k, stride_v, offs_m, offs_n, low, high, scale, MASKED: tl.constexpr,
                    BLOCK_N: tl.constexpr):
    k_ptrs += low * stride_k
    v_ptrs += low * stride_v
    for start in range(low, high, BLOCK_N):
        k = tl.load(k_ptrs)
        qk = tl.dot(q, k) * scale
        if MASKED:
            qk = tl.where(offs_m[:, None] >= (start + offs_n)[None, :], qk, -1.0e6)
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_new[:, None])
        alpha = tl.math.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(v_ptrs)
        acc = tl.dot(p.to(v.dtype), v, acc)
        m_i = m_new
        k_ptrs += BLOCK_N * stride_k
        v_ptrs += BLOCK_N * stride_v
    return acc, l_i, m_i


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, o_ptr, stride_head, stride_row, SEQUENCE, scale, HEAD: tl.constexpr, BLOCK_M: tl.constexpr,
                     BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr):
    block = tl.program_id(0)
    base = tl.program_id(1).to(tl.int64) * stride_head
    offs_m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD)
    q = tl.load(q_ptr + base + offs_m[:, None] * stride_row + offs_d[None, :])
    k_ptrs = k_ptr + base + offs_n[None, :] * stride_row + offs_d[:, None]
    v_ptrs = v_ptr + base + offs_n[:, None] * stride_row + offs_d[None, :]
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD], dtype=tl.float32)
    if CAUSAL:
        diagonal = block * BLOCK_M
        acc, l_i, m_i = attention_inner(acc, l_i, m_i, q, k_ptrs, v_ptrs, stride_row, stride_row, offs_m, offs_n, 0, diagonal, scale,
                                        False, BLOCK_N)
        acc, l_i, m_i = attention_inner(acc, l_i, m_i, q, k_ptrs, v_ptrs, stride_row, stride_row, offs_m, offs_n, diagonal,
                                        diagonal + BLOCK_M, scale, True, BLOCK_N)
    else:
        acc, l_i, m_i = attention_inner(acc, l_i, m_i, q, k_ptrs, v_ptrs, stride_row, stride_row, offs_m, offs_n, 0, SEQUENCE, scale,
                                        False, BLOCK_N)
    o = acc / l_i[:, None]
    tl.store(o_ptr + base + offs_m[:, None] * stride_row + offs_d[None, :], o.to(o_ptr.dtype.element_ty))


# A matrix product through tensor descriptors: the copy engine where there is one. B is transposed in memory, N by K.
@triton.jit
def matmul_descriptor_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr,
                             BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr):
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_SIZE_M, BLOCK_SIZE_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BLOCK_SIZE_N, BLOCK_SIZE_K])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK_SIZE_M, BLOCK_SIZE_N])
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        a = a_desc.load([pid_m * BLOCK_SIZE_M, k * BLOCK_SIZE_K])
        b = b_desc.load([pid_n * BLOCK_SIZE_N, k * BLOCK_SIZE_K])
        accumulator = tl.dot(a, b.T, accumulator)
    c_desc.store([pid_m * BLOCK_SIZE_M, pid_n * BLOCK_SIZE_N], accumulator.to(c_ptr.dtype.element_ty))


# Nothing to do: what a launch costs.
@triton.jit
def launch_kernel(a, b, c, d, e, f, i, j, k, l, m, n, x, y):
    pass
