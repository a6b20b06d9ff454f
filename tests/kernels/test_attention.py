"""Attention: forward and backward, causal, windows, biases, groups of heads, ragged batches, paged caches, split decoding, rotary
embeddings."""

import nereid as triton
import nereid.language as tl
import pytest
import torch
from reference import close

RCP_LN2: tl.constexpr = tl.constexpr(1.4426950408889634)


# ---- forward ----------------------------------------------------------------------------------------


@triton.jit
def apply_softcap(S, x):
    Sdiv = S / x
    p1 = tl.exp(Sdiv)
    p2 = tl.exp(-Sdiv)
    return x * (p1 - p2) / (p1 + p2)


@triton.jit
def _attn_fwd_inner(acc, l_i, m_i, q, k_ptrs, v_ptrs, stride_kn, stride_vn, start_m, qk_scale, alibi_slope, softcap, seqlen_q, seqlen_k,
                    window, lo, hi, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr, IS_CAUSAL: tl.constexpr,
                    USE_ALIBI: tl.constexpr, USE_SOFTCAP: tl.constexpr, SLIDING_WINDOW: tl.constexpr, offs_m, offs_n, mask_d):
    rows = start_m * BLOCK_M + offs_m
    k_ptrs += lo * stride_kn
    v_ptrs += lo * stride_vn
    for start_n in tl.range(lo, hi, BLOCK_N, num_stages=2):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        cols = start_n + offs_n
        if MASKED:
            k = tl.load(k_ptrs, mask=(cols < seqlen_k)[None, :] & mask_d[:, None], other=0.0)
        else:
            k = tl.load(k_ptrs, mask=mask_d[:, None], other=0.0)
        qk = tl.dot(q, k)
        if USE_SOFTCAP:
            qk = apply_softcap(qk * (qk_scale / RCP_LN2), softcap) * RCP_LN2
        else:
            qk = qk * qk_scale
        if USE_ALIBI:
            distance = tl.abs(rows[:, None] + seqlen_k - seqlen_q - cols[None, :])
            qk -= alibi_slope * distance * RCP_LN2
        if MASKED:
            keep = (cols < seqlen_k)[None, :] & (rows < seqlen_q)[:, None]
            if IS_CAUSAL:
                keep = keep & (rows[:, None] + seqlen_k - seqlen_q >= cols[None, :])
            if SLIDING_WINDOW:
                keep &= rows[:, None] + seqlen_k - seqlen_q - cols[None, :] < window
            qk = tl.where(keep, qk, float("-inf"))
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        m_safe = tl.where(m_ij == float("-inf"), 0.0, m_ij)
        p = tl.math.exp2(qk - m_safe[:, None])
        alpha = tl.math.exp2(m_i - m_safe)
        l_ij = tl.sum(p, 1)
        acc = acc * alpha[:, None]
        if MASKED:
            v = tl.load(v_ptrs, mask=(cols < seqlen_k)[:, None] & mask_d[None, :], other=0.0)
        else:
            v = tl.load(v_ptrs, mask=mask_d[None, :], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        l_i = l_i * alpha + l_ij
        m_i = m_ij
        k_ptrs += BLOCK_N * stride_kn
        v_ptrs += BLOCK_N * stride_vn
    return acc, l_i, m_i


@triton.heuristics({
    "USE_ALIBI": lambda args: args["AlibiSlopes"] is not None,
    "USE_SOFTCAP": lambda args: args["softcap"] > 0.0,
    "VARLEN": lambda args: args["cu_seqlens_q"] is not None,
    "BLOCK_D": lambda args: triton.next_power_of_2(args["D"]),
})
@triton.jit(do_not_specialize=["seqlen_q", "seqlen_k"])
def _attn_fwd(Q, K, V, Out, Lse, sm_scale, softcap, AlibiSlopes, cu_seqlens_q, cu_seqlens_k, stride_qz, stride_qh, stride_qm, stride_kz,
              stride_kh, stride_kn, stride_vz, stride_vh, stride_vn, stride_oz, stride_oh, stride_om, H, H_KV, seqlen_q, seqlen_k, window,
              D, IS_CAUSAL: tl.constexpr, SLIDING_WINDOW: tl.constexpr, USE_ALIBI: tl.constexpr, USE_SOFTCAP: tl.constexpr,
              VARLEN: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr):
    start_m = tl.program_id(0)
    off_hz = tl.program_id(1)
    off_z = off_hz // H
    off_h = off_hz % H
    off_hk = off_h // (H // H_KV)
    lse_start = off_hz.to(tl.int64) * seqlen_q
    if VARLEN:
        q_start = tl.load(cu_seqlens_q + off_z).to(tl.int64)
        k_start = tl.load(cu_seqlens_k + off_z).to(tl.int64)
        seqlen_q = (tl.load(cu_seqlens_q + off_z + 1) - q_start).to(tl.int32)
        seqlen_k = (tl.load(cu_seqlens_k + off_z + 1) - k_start).to(tl.int32)
        if start_m * BLOCK_M >= seqlen_q:
            return
        Q += q_start * stride_qm
        K += k_start * stride_kn
        V += k_start * stride_vn
        Out += q_start * stride_om
    else:
        Q += off_z.to(tl.int64) * stride_qz
        K += off_z.to(tl.int64) * stride_kz
        V += off_z.to(tl.int64) * stride_vz
        Out += off_z.to(tl.int64) * stride_oz
    Q += off_h.to(tl.int64) * stride_qh
    K += off_hk.to(tl.int64) * stride_kh
    V += off_hk.to(tl.int64) * stride_vh
    Out += off_h.to(tl.int64) * stride_oh
    offs_m = tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, BLOCK_D)
    rows = start_m * BLOCK_M + offs_m
    q = tl.load(Q + rows[:, None] * stride_qm + offs_d[None, :], mask=(rows < seqlen_q)[:, None] & (offs_d < D)[None, :], other=0.0)
    k_ptrs = K + offs_n[None, :] * stride_kn + offs_d[:, None]
    v_ptrs = V + offs_n[:, None] * stride_vn + offs_d[None, :]
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], dtype=tl.float32)
    qk_scale = sm_scale * RCP_LN2
    if USE_ALIBI:
        alibi_slope = tl.load(AlibiSlopes + off_h)
    else:
        alibi_slope = None
    # Whole blocks first, then those with a border in them.
    shift = seqlen_k - seqlen_q
    hi = seqlen_k
    if IS_CAUSAL:
        hi = tl.minimum(hi, tl.cdiv(tl.maximum((start_m + 1) * BLOCK_M + shift, 0), BLOCK_N) * BLOCK_N)
    lo = 0
    full = 0
    if SLIDING_WINDOW:
        lo = tl.maximum(start_m * BLOCK_M + shift - window + 1, 0) // BLOCK_N * BLOCK_N
        full = lo
    elif IS_CAUSAL:
        full = tl.maximum(tl.minimum(start_m * BLOCK_M + shift + 1, seqlen_k), 0) // BLOCK_N * BLOCK_N
    else:
        full = seqlen_k // BLOCK_N * BLOCK_N
    acc, l_i, m_i = _attn_fwd_inner(acc, l_i, m_i, q, k_ptrs, v_ptrs, stride_kn, stride_vn, start_m, qk_scale, alibi_slope, softcap,
                                    seqlen_q, seqlen_k, window, lo, full, BLOCK_M, BLOCK_N, False, IS_CAUSAL, USE_ALIBI, USE_SOFTCAP,
                                    SLIDING_WINDOW, offs_m, offs_n, offs_d < D)
    acc, l_i, m_i = _attn_fwd_inner(acc, l_i, m_i, q, k_ptrs, v_ptrs, stride_kn, stride_vn, start_m, qk_scale, alibi_slope, softcap,
                                    seqlen_q, seqlen_k, window, full, hi, BLOCK_M, BLOCK_N, True, IS_CAUSAL, USE_ALIBI, USE_SOFTCAP,
                                    SLIDING_WINDOW, offs_m, offs_n, offs_d < D)
    l_safe = tl.where(l_i == 0.0, 1.0, l_i)
    acc = acc / l_safe[:, None]
    if not VARLEN:
        lse = m_i + tl.math.log2(l_safe)
        tl.store(Lse + lse_start + rows, lse, mask=rows < seqlen_q)
    tl.store(Out + rows[:, None] * stride_om + offs_d[None, :], acc.to(Out.dtype.element_ty),
             mask=(rows < seqlen_q)[:, None] & (offs_d < D)[None, :])


def attention(q, k, v, causal=False, window=None, softcap=0.0, slopes=None, scale=None):
    """Reference, in float64: (Z, H, M, D) times (Z, H_KV, N, D)."""
    q, k, v = (x.double() for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    s = q @ k.transpose(2, 3) * (scale or q.shape[-1] ** -0.5)
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    behind = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2] - torch.arange(k.shape[2])[None, :]
    if slopes is not None:
        s = s - slopes.double().view(1, -1, 1, 1) * behind.abs()
    keep = torch.ones_like(behind, dtype=torch.bool)
    if causal:
        keep &= behind >= 0
    if window:
        keep &= behind < window
    p = torch.softmax(s.masked_fill(~keep, float("-inf")), -1).nan_to_num(0)
    return p @ v, torch.logsumexp(s.masked_fill(~keep, float("-inf")), -1)


def run_forward(q, k, v, causal=False, window=None, softcap=0.0, slopes=None, block_m=32, block_n=32):
    z, h, m, d = q.shape
    out, lse = torch.empty_like(q), torch.empty(z, h, m)
    _attn_fwd[(triton.cdiv(m, block_m), z * h)](
        q, k, v, out, lse, d ** -0.5, softcap, slopes, None, None, *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3], h,
        k.shape[1], m, k.shape[2], window or 0, d, IS_CAUSAL=causal, SLIDING_WINDOW=window is not None, BLOCK_M=block_m, BLOCK_N=block_n,
        num_warps=4)
    return out, lse


CASES = {
    "plain": dict(),
    "causal": dict(causal=True),
    "window": dict(causal=True, window=20),
    "softcap": dict(causal=True, softcap=15.0),
    "alibi": dict(causal=True, slopes=torch.tensor([0.5, 0.25, 0.125, 0.0625])),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("m, n, d, kv_heads", [(64, 64, 32, 4), (50, 77, 40, 2)])
def test_forward(name, m, n, d, kv_heads, target):
    q, k, v = torch.randn(2, 4, m, d).half(), torch.randn(2, kv_heads, n, d).half(), torch.randn(2, kv_heads, n, d).half()
    out, lse = run_forward(q, k, v, **CASES[name])
    want, want_lse = attention(q, k, v, **CASES[name])
    close(out, want, 4)
    close(lse / RCP_LN2.value, want_lse, 256)


def test_forward_with_more_queries_than_keys(target):
    q, k, v = torch.randn(1, 2, 60, 32).bfloat16(), torch.randn(1, 2, 20, 32).bfloat16(), torch.randn(1, 2, 20, 32).bfloat16()
    out, _ = run_forward(q, k, v, causal=True)
    close(out, attention(q, k, v, causal=True)[0], 4)
    assert not out[:, :, :40].any()


def test_ragged_batch(target):
    lengths_q, lengths_k, h, d = [5, 40, 33], [9, 40, 70], 2, 32
    cu_q = torch.tensor([0, *lengths_q]).cumsum(0).int()
    cu_k = torch.tensor([0, *lengths_k]).cumsum(0).int()
    q, k, v = torch.randn(int(cu_q[-1]), h, d).half(), torch.randn(int(cu_k[-1]), h, d).half(), torch.randn(int(cu_k[-1]), h, d).half()
    out = torch.empty_like(q)
    _attn_fwd[(triton.cdiv(max(lengths_q), 16), 3 * h)](
        q, k, v, out, None, d ** -0.5, 0.0, None, cu_q, cu_k, 0, q.stride(1), q.stride(0), 0, k.stride(1), k.stride(0), 0, v.stride(1),
        v.stride(0), 0, out.stride(1), out.stride(0), h, h, max(lengths_q), max(lengths_k), 0, d, IS_CAUSAL=True, SLIDING_WINDOW=False,
        BLOCK_M=16, BLOCK_N=32)
    for i in range(3):
        one = lambda x, cu: x[cu[i]:cu[i + 1]].transpose(0, 1)[None]
        close(one(out, cu_q), attention(one(q, cu_q), one(k, cu_k), one(v, cu_k), causal=True)[0], 4)


# ---- backward ---------------------------------------------------------------------------------------


@triton.jit
def _attn_bwd_preprocess(O, DO, Delta, N_CTX, BLOCK_M: tl.constexpr, HEAD_DIM: tl.constexpr):
    off_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    off_hz = tl.program_id(1)
    off_n = tl.arange(0, HEAD_DIM)
    mask = (off_m < N_CTX)[:, None]
    o = tl.load(O + off_hz * HEAD_DIM * N_CTX + off_m[:, None] * HEAD_DIM + off_n[None, :], mask=mask, other=0.)
    do = tl.load(DO + off_hz * HEAD_DIM * N_CTX + off_m[:, None] * HEAD_DIM + off_n[None, :], mask=mask, other=0.).to(tl.float32)
    delta = tl.sum(o * do, axis=1)
    tl.store(Delta + off_hz * N_CTX + off_m, delta, mask=off_m < N_CTX)


@triton.jit
def _attn_bwd_dkdv(dk, dv, Q, k, v, sm_scale, DO, M, D, stride_tok, stride_d, N_CTX, BLOCK_M1: tl.constexpr, BLOCK_N1: tl.constexpr,
                   HEAD_DIM: tl.constexpr, start_n, start_m, num_steps, MASK: tl.constexpr):
    offs_m = start_m + tl.arange(0, BLOCK_M1)
    offs_n = start_n + tl.arange(0, BLOCK_N1)
    offs_k = tl.arange(0, HEAD_DIM)
    qT_ptrs = Q + offs_m[None, :] * stride_tok + offs_k[:, None] * stride_d
    do_ptrs = DO + offs_m[:, None] * stride_tok + offs_k[None, :] * stride_d
    tl.static_assert(BLOCK_N1 % BLOCK_M1 == 0)
    curr_m = start_m
    step_m = BLOCK_M1
    for blk_idx in range(num_steps):
        offs_m = curr_m + tl.arange(0, BLOCK_M1)
        inside = offs_m < N_CTX
        qT = tl.load(qT_ptrs, mask=inside[None, :], other=0.0)
        m = tl.load(M + offs_m, mask=inside, other=0.0)
        qkT = tl.dot(k, qT)
        pT = tl.math.exp2(qkT - m[None, :])
        pT = tl.where(inside[None, :], pT, 0.0)
        if MASK:
            mask = (offs_m[None, :] >= offs_n[:, None])
            pT = tl.where(mask, pT, 0.0)
        do = tl.load(do_ptrs, mask=inside[:, None], other=0.0)
        ppT = pT
        ppT = ppT.to(do.dtype)
        dv += tl.dot(ppT, do)
        Di = tl.load(D + offs_m, mask=inside, other=0.0)
        dpT = tl.dot(v, tl.trans(do)).to(tl.float32)
        dsT = pT * (dpT - Di[None, :])
        dsT = dsT.to(do.dtype)
        dk += tl.dot(dsT, tl.trans(qT))
        curr_m += step_m
        qT_ptrs += step_m * stride_tok
        do_ptrs += step_m * stride_tok
    return dk, dv


@triton.jit
def _attn_bwd_dq(dq, q, K, V, do, m, D, stride_tok, stride_d, N_CTX, BLOCK_M2: tl.constexpr, BLOCK_N2: tl.constexpr,
                 HEAD_DIM: tl.constexpr, start_m, start_n, num_steps, MASK: tl.constexpr):
    offs_m = start_m + tl.arange(0, BLOCK_M2)
    offs_n = start_n + tl.arange(0, BLOCK_N2)
    offs_k = tl.arange(0, HEAD_DIM)
    kT_ptrs = K + offs_n[None, :] * stride_tok + offs_k[:, None] * stride_d
    vT_ptrs = V + offs_n[None, :] * stride_tok + offs_k[:, None] * stride_d
    Di = tl.load(D + offs_m, mask=offs_m < N_CTX, other=0.0)
    tl.static_assert(BLOCK_M2 % BLOCK_N2 == 0)
    curr_n = start_n
    step_n = BLOCK_N2
    for blk_idx in range(num_steps):
        offs_n = curr_n + tl.arange(0, BLOCK_N2)
        inside = offs_n < N_CTX
        kT = tl.load(kT_ptrs, mask=inside[None, :], other=0.0)
        vT = tl.load(vT_ptrs, mask=inside[None, :], other=0.0)
        qk = tl.dot(q, kT)
        p = tl.math.exp2(qk - m)
        p = tl.where(inside[None, :], p, 0.0)
        if MASK:
            mask = (offs_m[:, None] >= offs_n[None, :])
            p = tl.where(mask, p, 0.0)
        dp = tl.dot(do, vT).to(tl.float32)
        ds = p * (dp - Di[:, None])
        ds = ds.to(kT.dtype)
        dq += tl.dot(ds, tl.trans(kT))
        curr_n += step_n
        kT_ptrs += step_n * stride_tok
        vT_ptrs += step_n * stride_tok
    return dq


@triton.jit
def _attn_bwd(Q, K, V, sm_scale, DO, DQ, DK, DV, M, D, stride_z, stride_h, stride_tok, stride_d, H, N_CTX, CAUSAL: tl.constexpr,
              BLOCK_M1: tl.constexpr, BLOCK_N1: tl.constexpr, BLOCK_M2: tl.constexpr, BLOCK_N2: tl.constexpr,
              BLK_SLICE_FACTOR: tl.constexpr, HEAD_DIM: tl.constexpr):
    LN2: tl.constexpr = 0.6931471824645996
    bhid = tl.program_id(2)
    off_chz = (bhid * N_CTX).to(tl.int64)
    adj = (stride_h * (bhid % H) + stride_z * (bhid // H)).to(tl.int64)
    pid = tl.program_id(0)
    Q += adj
    K += adj
    V += adj
    DO += adj
    DQ += adj
    DK += adj
    DV += adj
    M += off_chz
    D += off_chz
    offs_k = tl.arange(0, HEAD_DIM)
    start_n = pid * BLOCK_N1
    start_m = 0
    MASK_BLOCK_M1: tl.constexpr = BLOCK_M1 // BLK_SLICE_FACTOR
    offs_n = start_n + tl.arange(0, BLOCK_N1)
    dv = tl.zeros([BLOCK_N1, HEAD_DIM], dtype=tl.float32)
    dk = tl.zeros([BLOCK_N1, HEAD_DIM], dtype=tl.float32)
    # K and V stay where they are through the loop; K carries the scale.
    k = tl.load(K + offs_n[:, None] * stride_tok + offs_k[None, :] * stride_d, mask=(offs_n < N_CTX)[:, None], other=0.0)
    v = tl.load(V + offs_n[:, None] * stride_tok + offs_k[None, :] * stride_d, mask=(offs_n < N_CTX)[:, None], other=0.0)
    if CAUSAL:
        start_m = start_n
        num_steps = BLOCK_N1 // MASK_BLOCK_M1
        dk, dv = _attn_bwd_dkdv(dk, dv, Q, k, v, sm_scale, DO, M, D, stride_tok, stride_d, N_CTX, MASK_BLOCK_M1, BLOCK_N1, HEAD_DIM,
                                start_n, start_m, num_steps, MASK=True)
        start_m += num_steps * MASK_BLOCK_M1
    num_steps = tl.cdiv(tl.maximum(N_CTX - start_m, 0), BLOCK_M1)
    dk, dv = _attn_bwd_dkdv(dk, dv, Q, k, v, sm_scale, DO, M, D, stride_tok, stride_d, N_CTX, BLOCK_M1, BLOCK_N1, HEAD_DIM, start_n,
                            start_m, num_steps, MASK=False)
    tl.store(DV + offs_n[:, None] * stride_tok + offs_k[None, :] * stride_d, dv, mask=(offs_n < N_CTX)[:, None])
    dk *= sm_scale
    tl.store(DK + offs_n[:, None] * stride_tok + offs_k[None, :] * stride_d, dk, mask=(offs_n < N_CTX)[:, None])

    start_m = pid * BLOCK_M2
    start_n = 0
    num_steps = tl.cdiv(N_CTX, BLOCK_N2)
    MASK_BLOCK_N2: tl.constexpr = BLOCK_N2 // BLK_SLICE_FACTOR
    offs_m = start_m + tl.arange(0, BLOCK_M2)
    rows = (offs_m < N_CTX)[:, None]
    q = tl.load(Q + offs_m[:, None] * stride_tok + offs_k[None, :] * stride_d, mask=rows, other=0.0)
    dq = tl.zeros([BLOCK_M2, HEAD_DIM], dtype=tl.float32)
    do = tl.load(DO + offs_m[:, None] * stride_tok + offs_k[None, :] * stride_d, mask=rows, other=0.0)
    m = tl.load(M + offs_m, mask=offs_m < N_CTX, other=0.0)
    m = m[:, None]
    if CAUSAL:
        end_n = start_m + BLOCK_M2
        num_steps = BLOCK_M2 // MASK_BLOCK_N2
        dq = _attn_bwd_dq(dq, q, K, V, do, m, D, stride_tok, stride_d, N_CTX, BLOCK_M2, MASK_BLOCK_N2, HEAD_DIM, start_m,
                          end_n - num_steps * MASK_BLOCK_N2, num_steps, MASK=True)
        end_n -= num_steps * MASK_BLOCK_N2
        num_steps = end_n // BLOCK_N2
        start_n = end_n - num_steps * BLOCK_N2
    dq = _attn_bwd_dq(dq, q, K, V, do, m, D, stride_tok, stride_d, N_CTX, BLOCK_M2, BLOCK_N2, HEAD_DIM, start_m, start_n, num_steps,
                      MASK=False)
    dq *= LN2
    tl.store(DQ + offs_m[:, None] * stride_tok + offs_k[None, :] * stride_d, dq, mask=rows)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [96, 77])
def test_backward(n, causal, dtype, target):
    z, h, d = 1, 2, 32
    q, k, v, do = (torch.randn(z, h, n, d).to(dtype) for _ in range(4))
    out, lse = run_forward(q, k, v, causal=causal)
    scale = d ** -0.5
    delta = torch.empty(z, h, n)
    dq, dk, dv = (torch.full_like(q, 7) for _ in range(3))
    _attn_bwd_preprocess[(triton.cdiv(n, 32), z * h)](out, do, delta, n, BLOCK_M=32, HEAD_DIM=d)
    scaled = k * (scale * RCP_LN2.value)
    _attn_bwd[(triton.cdiv(n, 64), 1, z * h)](q, scaled, v, scale, do, dq, dk, dv, lse, delta, *q.stride(), h, n, CAUSAL=causal,
                                             BLOCK_M1=32, BLOCK_N1=64, BLOCK_M2=64, BLOCK_N2=32, BLK_SLICE_FACTOR=2, HEAD_DIM=d,
                                             num_warps=4, num_stages=2)
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    attention(*leaves, causal=causal)[0].backward(do.double())
    for got, leaf in zip((dq, dk, dv), leaves):
        close(got, leaf.grad, 16)


# ---- decoding ---------------------------------------------------------------------------------------


@triton.jit
def _fwd_grouped_kernel_stage1(Q, K_Buffer, V_Buffer, sm_scale, Req_to_tokens, B_Seqlen, Att_Out, stride_req, stride_qb, stride_qh,
                               stride_kt, stride_kh, stride_ob, stride_oh, stride_os, kv_group_num: tl.constexpr,
                               q_head_num: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_H: tl.constexpr,
                               NUM_KV_SPLITS: tl.constexpr, PAGE_SIZE: tl.constexpr, logit_cap: tl.constexpr, Lk: tl.constexpr):
    cur_batch = tl.program_id(0)
    cur_head_id = tl.program_id(1)
    cur_kv_head = cur_head_id // tl.cdiv(kv_group_num, BLOCK_H)
    split_kv_id = tl.program_id(2)
    if kv_group_num > BLOCK_H:
        VALID_BLOCK_H: tl.constexpr = BLOCK_H
    else:
        VALID_BLOCK_H: tl.constexpr = kv_group_num
    cur_head = cur_head_id * VALID_BLOCK_H + tl.arange(0, BLOCK_H)
    mask_h = cur_head < (cur_head_id + 1) * VALID_BLOCK_H
    mask_h = mask_h & (cur_head < q_head_num)
    offs_d = tl.arange(0, BLOCK_D)
    mask_d = offs_d < Lk
    cur_batch_seq_len = tl.load(B_Seqlen + cur_batch)
    offs_q = cur_batch * stride_qb + cur_head[:, None] * stride_qh + offs_d[None, :]
    q = tl.load(Q + offs_q, mask=(mask_h[:, None]) & (mask_d[None, :]), other=0.0)
    kv_len_per_split = tl.cdiv(cur_batch_seq_len, NUM_KV_SPLITS)
    split_kv_start = kv_len_per_split * split_kv_id
    split_kv_end = tl.minimum(split_kv_start + kv_len_per_split, cur_batch_seq_len)
    e_max = tl.zeros([BLOCK_H], dtype=tl.float32) - float("inf")
    e_sum = tl.zeros([BLOCK_H], dtype=tl.float32)
    acc = tl.zeros([BLOCK_H, BLOCK_D], dtype=tl.float32)
    if split_kv_end > split_kv_start:
        for start_n in range(split_kv_start, split_kv_end, BLOCK_N):
            offs_n = start_n + tl.arange(0, BLOCK_N)
            kv_page_number = tl.load(Req_to_tokens + stride_req * cur_batch + offs_n // PAGE_SIZE, mask=offs_n < split_kv_end, other=0)
            kv_loc = kv_page_number * PAGE_SIZE + offs_n % PAGE_SIZE
            offs_buf_k = kv_loc[None, :] * stride_kt + cur_kv_head * stride_kh + offs_d[:, None]
            k = tl.load(K_Buffer + offs_buf_k, mask=(offs_n[None, :] < split_kv_end) & (mask_d[:, None]), other=0.0)
            qk = tl.dot(q, k.to(q.dtype))
            qk *= sm_scale
            if logit_cap > 0:
                qk = logit_cap * (2 * tl.sigmoid(2 * (qk / logit_cap)) - 1)
            qk = tl.where(mask_h[:, None] & (offs_n[None, :] < split_kv_end), qk, float("-inf"))
            offs_buf_v = kv_loc[:, None] * stride_kt + cur_kv_head * stride_kh + offs_d[None, :]
            v = tl.load(V_Buffer + offs_buf_v, mask=(offs_n[:, None] < split_kv_end) & (mask_d[None, :]), other=0.0)
            n_e_max = tl.maximum(tl.max(qk, 1), e_max)
            re_scale = tl.exp(e_max - n_e_max)
            p = tl.exp(qk - n_e_max[:, None])
            acc *= re_scale[:, None]
            acc += tl.dot(p.to(v.dtype), v)
            e_sum = e_sum * re_scale + tl.sum(p, 1)
            e_max = n_e_max
        offs_mid_o = cur_batch * stride_ob + cur_head[:, None] * stride_oh + split_kv_id * stride_os + offs_d[None, :]
        tl.store(Att_Out + offs_mid_o, acc / e_sum[:, None], mask=(mask_h[:, None]) & (mask_d[None, :]))
        offs_mid_o_1 = cur_batch * stride_ob + cur_head * stride_oh + split_kv_id * stride_os + Lk
        tl.store(Att_Out + offs_mid_o_1, e_max + tl.log(e_sum), mask=mask_h)


@triton.jit
def _fwd_kernel_stage2(Mid_O, o, B_Seqlen, stride_mid_ob, stride_mid_oh, stride_mid_os, stride_obs, stride_oh,
                       NUM_KV_SPLITS: tl.constexpr, BLOCK_DV: tl.constexpr, Lv: tl.constexpr):
    cur_batch = tl.program_id(0)
    cur_head = tl.program_id(1)
    cur_batch_seq_len = tl.load(B_Seqlen + cur_batch)
    offs_d = tl.arange(0, BLOCK_DV)
    mask_d = offs_d < Lv
    e_sum = 0.0
    e_max = -float("inf")
    acc = tl.zeros([BLOCK_DV], dtype=tl.float32)
    offs_v = cur_batch * stride_mid_ob + cur_head * stride_mid_oh + offs_d
    offs_logic = cur_batch * stride_mid_ob + cur_head * stride_mid_oh + Lv
    for split_kv_id in range(0, NUM_KV_SPLITS):
        kv_len_per_split = tl.cdiv(cur_batch_seq_len, NUM_KV_SPLITS)
        split_kv_start = kv_len_per_split * split_kv_id
        split_kv_end = tl.minimum(split_kv_start + kv_len_per_split, cur_batch_seq_len)
        if split_kv_end > split_kv_start:
            tv = tl.load(Mid_O + offs_v + split_kv_id * stride_mid_os, mask=mask_d, other=0.0)
            tlogic = tl.load(Mid_O + offs_logic + split_kv_id * stride_mid_os)
            n_e_max = tl.maximum(tlogic, e_max)
            old_scale = tl.exp(e_max - n_e_max)
            acc *= old_scale
            exp_logic = tl.exp(tlogic - n_e_max)
            acc += exp_logic * tv
            e_sum = e_sum * old_scale + exp_logic
            e_max = n_e_max
    tl.store(o + cur_batch * stride_obs + cur_head * stride_oh + offs_d, acc / e_sum, mask=mask_d)


@triton.jit
def reshape_and_cache_kernel(key_ptr, value_ptr, key_cache_ptr, value_cache_ptr, slot_mapping_ptr, key_stride: tl.int64,
                             value_stride: tl.int64, block_stride: tl.int64, page_stride: tl.int64, n: tl.constexpr,
                             page_size: tl.constexpr, TILE: tl.constexpr):
    token_idx = tl.program_id(axis=0)
    slot_idx = tl.load(slot_mapping_ptr + token_idx).to(tl.int64)
    if slot_idx < 0:
        # Padding.
        return
    tile_offs = tl.program_id(axis=1) * TILE + tl.arange(0, TILE)
    block_idx = slot_idx // page_size
    block_offset = slot_idx % page_size
    target = block_idx * block_stride + block_offset * page_stride
    key = tl.load(key_ptr + token_idx * key_stride + tile_offs, mask=tile_offs < n)
    value = tl.load(value_ptr + token_idx * value_stride + tile_offs, mask=tile_offs < n)
    tl.store(key_cache_ptr + target + tile_offs, key, mask=tile_offs < n)
    tl.store(value_cache_ptr + target + tile_offs, value, mask=tile_offs < n)


@pytest.mark.parametrize("cap", [0.0, 20.0])
@pytest.mark.parametrize("heads, kv_heads", [(4, 4), (12, 3)])
def test_paged_decoding(heads, kv_heads, cap, target):
    lengths, d, page, splits = torch.tensor([70, 3, 41], dtype=torch.int32), 40, 16, 4
    pages, total = 5, int(lengths.sum())
    tables = torch.randperm(3 * pages).view(3, pages).int()
    keys, values = torch.randn(total + 1, kv_heads, d).half(), torch.randn(total + 1, kv_heads, d).half()
    slots = torch.cat([tables[b].long().repeat_interleave(page)[:n] * page + torch.arange(n) % page for b, n in enumerate(lengths)])
    slots = torch.cat([slots, torch.tensor([-1])])
    k_cache, v_cache = torch.zeros(3 * pages, page, kv_heads, d).half(), torch.zeros(3 * pages, page, kv_heads, d).half()
    n = kv_heads * d
    reshape_and_cache_kernel[(total + 1, triton.cdiv(n, 64))](keys, values, k_cache, v_cache, slots, keys.stride(0), values.stride(0),
                                                             k_cache.stride(0), k_cache.stride(1), n, page, TILE=64)
    flat = k_cache.view(-1, kv_heads, d)
    assert torch.equal(flat[slots[:-1]], keys[:-1])
    q = torch.randn(3, heads, d).half()
    out = torch.empty_like(q)
    mid = torch.full((3, heads, splits, d + 1), float("nan"))
    group = heads // kv_heads
    block_h = 16
    _fwd_grouped_kernel_stage1[(3, triton.cdiv(heads, min(block_h, group)), splits)](
        q, k_cache, v_cache, d ** -0.5, tables, lengths, mid, tables.stride(0), q.stride(0), q.stride(1), flat.stride(0), flat.stride(1),
        *mid.stride()[:3], kv_group_num=group, q_head_num=heads, BLOCK_D=64, BLOCK_N=16, BLOCK_H=block_h, NUM_KV_SPLITS=splits,
        PAGE_SIZE=page, logit_cap=cap, Lk=d, num_warps=4, num_stages=2)
    _fwd_kernel_stage2[(3, heads)](mid, out, lengths, *mid.stride()[:3], *out.stride()[:2], NUM_KV_SPLITS=splits, BLOCK_DV=64, Lv=d,
                                   num_warps=4, num_stages=2)
    starts = [0, *lengths.cumsum(0).tolist()]
    for b in range(3):
        k, v = (x[starts[b]:starts[b + 1]].transpose(0, 1)[None] for x in (keys, values))
        close(out[b], attention(q[b][None, :, None], k, v, softcap=cap)[0][0, :, 0], 4)


# ---- rotary embeddings ------------------------------------------------------------------------------


@triton.jit
def rotary_kernel(OUT, X, COS, SIN, CU_SEQLENS, SEQLEN_OFFSETS, seqlen, nheads, rotary_dim, seqlen_ro, stride_out_batch,
                  stride_out_seqlen, stride_out_nheads, stride_x_batch, stride_x_seqlen, stride_x_nheads, ROTARY_DIM: tl.constexpr,
                  IS_SEQLEN_OFFSETS_TENSOR: tl.constexpr, IS_VARLEN: tl.constexpr, INTERLEAVED: tl.constexpr, CONJUGATE: tl.constexpr,
                  BLOCK_H: tl.constexpr, BLOCK_M: tl.constexpr):
    BLOCK_K: tl.constexpr = triton.next_power_of_2(ROTARY_DIM)
    ROTARY_DIM_HALF = ROTARY_DIM // 2
    pid_head = tl.program_id(axis=0)
    pid_m = tl.program_id(axis=1)
    pid_batch = tl.program_id(axis=2)
    if not IS_VARLEN:
        X = X + pid_batch * stride_x_batch
        OUT = OUT + pid_batch * stride_out_batch
    else:
        start_idx = tl.load(CU_SEQLENS + pid_batch)
        seqlen = tl.load(CU_SEQLENS + pid_batch + 1) - start_idx
        X = X + start_idx * stride_x_seqlen
        OUT = OUT + start_idx * stride_out_seqlen
    if pid_m * BLOCK_M >= seqlen:
        return
    rh = pid_head * BLOCK_H + tl.arange(0, BLOCK_H)
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    if not IS_SEQLEN_OFFSETS_TENSOR:
        rm_cs = rm + SEQLEN_OFFSETS
    else:
        rm_cs = rm + tl.load(SEQLEN_OFFSETS + pid_batch)
    rk_half = tl.arange(0, BLOCK_K // 2)
    COS = COS + (rm_cs[:, None] * ROTARY_DIM_HALF + rk_half[None, :])
    SIN = SIN + (rm_cs[:, None] * ROTARY_DIM_HALF + rk_half[None, :])
    mask_cs = (rm_cs[:, None] < seqlen_ro) & (rk_half[None, :] < ROTARY_DIM_HALF)
    cos = tl.load(COS, mask=mask_cs, other=1.0).to(tl.float32)
    sin = tl.load(SIN, mask=mask_cs, other=0.0).to(tl.float32)
    if CONJUGATE:
        sin = -sin
    if not INTERLEAVED:
        X = X + (rh[:, None, None] * stride_x_nheads + rm[None, :, None] * stride_x_seqlen + rk_half[None, None, :])
        OUT = OUT + (rh[:, None, None] * stride_out_nheads + rm[None, :, None] * stride_out_seqlen + rk_half[None, None, :])
        mask = (rh[:, None, None] < nheads) & (rm[None, :, None] < seqlen) & (rk_half[None, None, :] < ROTARY_DIM_HALF)
        x0 = tl.load(X, mask=mask, other=0.0).to(tl.float32)
        x1 = tl.load(X + ROTARY_DIM_HALF, mask=mask, other=0.0).to(tl.float32)
        o0 = x0 * cos - x1 * sin
        o1 = x0 * sin + x1 * cos
        tl.store(OUT, o0, mask=mask)
        tl.store(OUT + ROTARY_DIM_HALF, o1, mask=mask)
    else:
        rk = tl.arange(0, BLOCK_K)
        X = X + (rh[:, None, None] * stride_x_nheads + rm[None, :, None] * stride_x_seqlen + rk[None, None, :])
        OUT = OUT + (rh[:, None, None] * stride_out_nheads + rm[None, :, None] * stride_out_seqlen + rk[None, None, :])
        mask = (rh[:, None, None] < nheads) & (rm[None, :, None] < seqlen) & (rk[None, None, :] < ROTARY_DIM)
        x = tl.load(X, mask=mask, other=0.0).to(tl.float32)
        x0, x1 = tl.split(tl.reshape(x, [BLOCK_H, BLOCK_M, BLOCK_K // 2, 2]))
        o0 = x0 * cos - x1 * sin
        o1 = x0 * sin + x1 * cos
        o = tl.reshape(tl.join(o0, o1), [BLOCK_H, BLOCK_M, BLOCK_K])
        tl.store(OUT, o, mask=mask)


def rotate(x, cos, sin, interleaved):
    x, cos, sin = x.double(), cos.double()[:, None], sin.double()[:, None]
    if interleaved:
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dim", [32, 24])
def test_rotary(dim, interleaved, target):
    batch, seqlen, heads, offset = 2, 19, 3, 5
    x = torch.randn(batch, seqlen, heads, dim).bfloat16()
    angle = torch.rand(seqlen + offset, dim // 2) * 6
    cos, sin = angle.cos(), angle.sin()
    y, back = torch.empty_like(x), torch.empty_like(x)
    grid = (triton.cdiv(heads, 2), triton.cdiv(seqlen, 8), batch)
    strides = (x.stride(0), x.stride(1), x.stride(2)) * 2
    rotary_kernel[grid](y, x, cos, sin, None, offset, seqlen, heads, dim, seqlen + offset, *strides, dim, False, False, interleaved, False,
                        BLOCK_H=2, BLOCK_M=8)
    close(y, rotate(x, cos[offset:], sin[offset:], interleaved), 2)
    rotary_kernel[grid](back, y, cos, sin, None, torch.tensor([offset] * batch), seqlen, heads, dim, seqlen + offset, *strides, dim, True,
                        False, interleaved, True, BLOCK_H=2, BLOCK_M=8)
    close(back, rotate(y, cos[offset:], -sin[offset:], interleaved), 2)


@triton.jit
def _triton_rope(q_ptr, q_row_stride, k_ptr, k_row_stride, cos, cos_row_stride, sin, sin_row_stride, sl, bs: tl.constexpr,
                 cos_bs: tl.constexpr, n_qh: tl.constexpr, n_kh: tl.constexpr, hd: tl.constexpr, pad_n_qh: tl.constexpr,
                 pad_n_kh: tl.constexpr, pad_hd: tl.constexpr, BLOCK_SIZE: tl.constexpr, BACKWARD_PASS: tl.constexpr = False):
    """In place, all heads of a position in one program, sines and cosines of both halves stored."""
    pid = tl.program_id(0).to(tl.int64)
    q_ptr = q_ptr + pid * q_row_stride
    k_ptr = k_ptr + pid * k_row_stride
    batch_idx = pid // sl
    cos_row_idx = pid % sl
    cos = cos + tl.where(cos_bs == 1, cos_row_idx * cos_row_stride, batch_idx * (sl * cos_row_stride) + cos_row_idx * cos_row_stride)
    sin = sin + tl.where(cos_bs == 1, cos_row_idx * sin_row_stride, batch_idx * (sl * sin_row_stride) + cos_row_idx * sin_row_stride)
    cos_offsets = tl.arange(0, pad_hd // 2)
    cos_mask = cos_offsets < hd // 2
    cos_row = tl.load(cos + cos_offsets, mask=cos_mask, other=0)
    sin_row = tl.load(sin + cos_offsets, mask=cos_mask, other=0)
    first_half_q_offsets = tl.arange(0, pad_n_qh)[:, None] * hd + tl.arange(0, pad_hd // 2)[None, :]
    first_half_k_offsets = tl.arange(0, pad_n_kh)[:, None] * hd + tl.arange(0, pad_hd // 2)[None, :]
    first_q_mask = (tl.arange(0, pad_n_qh)[:, None] < n_qh) & (tl.arange(0, pad_hd // 2)[None, :] < hd // 2)
    first_k_mask = (tl.arange(0, pad_n_kh)[:, None] < n_kh) & (tl.arange(0, pad_hd // 2)[None, :] < hd // 2)
    q_tile_1 = tl.load(q_ptr + first_half_q_offsets, mask=first_q_mask, other=0).to(sin_row.dtype)
    k_tile_1 = tl.load(k_ptr + first_half_k_offsets, mask=first_k_mask, other=0).to(sin_row.dtype)
    second_half_q_offsets = first_half_q_offsets + (hd // 2)
    second_half_k_offsets = first_half_k_offsets + (hd // 2)
    second_q_mask = first_q_mask
    second_k_mask = first_k_mask
    q_tile_2 = tl.load(q_ptr + second_half_q_offsets, mask=second_q_mask, other=0).to(sin_row.dtype)
    k_tile_2 = tl.load(k_ptr + second_half_k_offsets, mask=second_k_mask, other=0).to(sin_row.dtype)
    if not BACKWARD_PASS:
        new_q_tile_1 = q_tile_1 * cos_row - q_tile_2 * sin_row
        tl.store(q_ptr + first_half_q_offsets, new_q_tile_1, mask=first_q_mask)
        new_q_tile_2 = q_tile_2 * cos_row + q_tile_1 * sin_row
        tl.store(q_ptr + second_half_q_offsets, new_q_tile_2, mask=second_q_mask)
        new_k_tile_1 = k_tile_1 * cos_row - k_tile_2 * sin_row
        tl.store(k_ptr + first_half_k_offsets, new_k_tile_1, mask=first_k_mask)
        new_k_tile_2 = k_tile_2 * cos_row + k_tile_1 * sin_row
        tl.store(k_ptr + second_half_k_offsets, new_k_tile_2, mask=second_k_mask)
    else:
        new_q_tile_1 = q_tile_1 * cos_row + q_tile_2 * sin_row
        tl.store(q_ptr + first_half_q_offsets, new_q_tile_1, mask=first_q_mask)
        new_q_tile_2 = q_tile_2 * cos_row - q_tile_1 * sin_row
        tl.store(q_ptr + second_half_q_offsets, new_q_tile_2, mask=second_q_mask)
        new_k_tile_1 = k_tile_1 * cos_row + k_tile_2 * sin_row
        tl.store(k_ptr + first_half_k_offsets, new_k_tile_1, mask=first_k_mask)
        new_k_tile_2 = k_tile_2 * cos_row - k_tile_1 * sin_row
        tl.store(k_ptr + second_half_k_offsets, new_k_tile_2, mask=second_k_mask)


def test_rotary_in_place(target):
    batch, seqlen, heads_q, heads_k, dim = 2, 7, 6, 2, 48
    q, k = torch.randn(batch, seqlen, heads_q, dim), torch.randn(batch, seqlen, heads_k, dim)
    angle = torch.rand(seqlen, dim // 2) * 6
    cos, sin = torch.cat([angle.cos()] * 2, 1), torch.cat([angle.sin()] * 2, 1)
    got = [q.clone(), k.clone()]
    launch = lambda backward: _triton_rope[(batch * seqlen, )](
        got[0], q.stride(1), got[1], k.stride(1), cos, cos.stride(0), sin, sin.stride(0), seqlen, batch, 1, heads_q, heads_k, dim, 8, 2, 64,
        BLOCK_SIZE=64, BACKWARD_PASS=backward)
    launch(False)
    for x, y in zip((q, k), got):
        close(y, rotate(x, angle.cos(), angle.sin(), False), 4)
    launch(True)
    for x, y in zip((q, k), got):
        close(y, x.double(), 8)
