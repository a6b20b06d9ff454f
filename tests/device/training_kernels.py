"""Kernels of training for tests/device/sanitized.py: products of any dtype, attention's gradients, layer norm's gradients under a lock."""

import nereid as triton
import nereid.language as tl


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, BLOCK_M: tl.constexpr,
                   BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, ACCUMULATOR: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), ACCUMULATOR)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak, mask=k[None, :] < K, other=0)
        b = tl.load(b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn, mask=k[:, None] < K, other=0)
        acc = tl.dot(a, b, acc, out_dtype=ACCUMULATOR)
    tl.store(c_ptr + m[:, None] * stride_cm + n[None, :], acc)


# The probabilities are made again from the scores and `lse`, the logarithm to base 2 of each row's sum of exponentials; `delta` is each
# row's sum of o * do. One program computes the gradients of BLOCK_N rows of k and v.
@triton.jit
def attention_backward_kv(q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, stride_head, SEQUENCE, scale,
                          HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr):
    base = tl.program_id(1) * stride_head
    rows = tl.program_id(1) * SEQUENCE
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    d = tl.arange(0, HEAD)
    k = tl.load(k_ptr + base + n[:, None] * HEAD + d[None, :])
    v = tl.load(v_ptr + base + n[:, None] * HEAD + d[None, :])
    dk = tl.zeros((BLOCK_N, HEAD), tl.float32)
    dv = tl.zeros((BLOCK_N, HEAD), tl.float32)
    first = tl.program_id(0) * BLOCK_N // BLOCK_M * BLOCK_M if CAUSAL else 0
    for start in range(first, SEQUENCE, BLOCK_M):
        m = start + tl.arange(0, BLOCK_M)
        q = tl.load(q_ptr + base + m[:, None] * HEAD + d[None, :])
        do = tl.load(do_ptr + base + m[:, None] * HEAD + d[None, :])
        p = tl.exp2(tl.dot(q, tl.trans(k)) * (scale * 1.4426950408889634) - tl.load(lse_ptr + rows + m)[:, None])
        if CAUSAL:
            p = tl.where(m[:, None] >= n[None, :], p, 0.0)
        dv = tl.dot(tl.trans(p.to(do.dtype)), do, dv)
        ds = p * (tl.dot(do, tl.trans(v)) - tl.load(delta_ptr + rows + m)[:, None])
        dk = tl.dot(tl.trans(ds.to(q.dtype)), q, dk)
    tl.store(dk_ptr + base + n[:, None] * HEAD + d[None, :], (dk * scale).to(k.dtype))
    tl.store(dv_ptr + base + n[:, None] * HEAD + d[None, :], dv.to(k.dtype))


@triton.jit
def attention_backward_q(q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, stride_head, SEQUENCE, scale, HEAD: tl.constexpr,
                         BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr):
    base = tl.program_id(1) * stride_head
    rows = tl.program_id(1) * SEQUENCE
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, HEAD)
    q = tl.load(q_ptr + base + m[:, None] * HEAD + d[None, :])
    do = tl.load(do_ptr + base + m[:, None] * HEAD + d[None, :])
    lse = tl.load(lse_ptr + rows + m)
    delta = tl.load(delta_ptr + rows + m)
    dq = tl.zeros((BLOCK_M, HEAD), tl.float32)
    last = (tl.program_id(0) + 1) * BLOCK_M if CAUSAL else SEQUENCE
    for start in range(0, last, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + base + n[:, None] * HEAD + d[None, :])
        v = tl.load(v_ptr + base + n[:, None] * HEAD + d[None, :])
        p = tl.exp2(tl.dot(q, tl.trans(k)) * (scale * 1.4426950408889634) - lse[:, None])
        if CAUSAL:
            p = tl.where(m[:, None] >= n[None, :], p, 0.0)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(dq_ptr + base + m[:, None] * HEAD + d[None, :], (dq * scale).to(q.dtype))


# A program for a row. The gradients of weight and bias are summed over rows in GROUPS buffers, each under a lock: locks[:GROUPS] are the
# locks, locks[GROUPS:] say whether a buffer has been written.
@triton.jit
def layer_norm_backward(x_ptr, w_ptr, dy_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, locks, N, GROUPS: tl.constexpr,
                        BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < N
    x = tl.load(x_ptr + row * N + columns, mask=mask, other=0.0)
    dy = tl.load(dy_ptr + row * N + columns, mask=mask, other=0.0)
    w = tl.load(w_ptr + columns, mask=mask, other=0.0)
    normal = tl.where(mask, (x - tl.load(mean_ptr + row)) * tl.load(rstd_ptr + row), 0.0)
    weighted = w * dy
    along = tl.sum(normal * weighted, 0) / N
    dx = (weighted - normal * along - tl.sum(weighted, 0) / N) * tl.load(rstd_ptr + row)
    tl.store(dx_ptr + row * N + columns, dx, mask=mask)
    group = row % GROUPS
    dw = dy * normal
    db = dy
    while tl.atomic_cas(locks + group, 0, 1) == 1:
        pass
    if tl.load(locks + GROUPS + group) == 0:
        tl.atomic_xchg(locks + GROUPS + group, 1)
    else:
        dw += tl.load(dw_ptr + group * N + columns, mask=mask)
        db += tl.load(db_ptr + group * N + columns, mask=mask)
    tl.store(dw_ptr + group * N + columns, dw, mask=mask)
    tl.store(db_ptr + group * N + columns, db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(locks + group, 0)
