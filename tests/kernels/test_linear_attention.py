"""Linear attention and state-space models: sums in chunks, gated attention by chunks with gradients, the delta rule, recurrent loops,
selective scans, causal convolutions."""

import nereid as triton
import nereid.language as tl
import pytest
import torch
from reference import close

RCP_LN2 = tl.constexpr(1.4426950216)


@triton.jit
def exp(x):
    return tl.exp(x.to(tl.float32))


@triton.jit
def exp2(x):
    return tl.math.exp2(x.to(tl.float32))


# ---- sums in chunks ---------------------------------------------------------------------------------


@triton.heuristics({
    'HAS_SCALE': lambda args: args['scale'] is not None,
    'IS_VARLEN': lambda args: args['cu_seqlens'] is not None,
})
@triton.autotune(
    configs=[triton.Config({'BS': BS}, num_warps=num_warps) for BS in [16, 32] for num_warps in [2]],
    key=['B', 'H', 'S', 'BT', 'IS_VARLEN', 'REVERSE'],
)
@triton.jit(do_not_specialize=['T'])
def chunk_local_cumsum_kernel(s, o, scale, cu_seqlens, chunk_indices, T, B: tl.constexpr, H: tl.constexpr, S: tl.constexpr,
                              BT: tl.constexpr, BS: tl.constexpr, REVERSE: tl.constexpr, HAS_SCALE: tl.constexpr,
                              IS_VARLEN: tl.constexpr):
    i_s, i_t, i_bh = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i_b, i_h = i_bh // H, i_bh % H
    if IS_VARLEN:
        i_n, i_t = tl.load(chunk_indices + i_t * 2).to(tl.int32), tl.load(chunk_indices + i_t * 2 + 1).to(tl.int32)
        bos, eos = tl.load(cu_seqlens + i_n).to(tl.int32), tl.load(cu_seqlens + i_n + 1).to(tl.int32)
        T = eos - bos
    else:
        bos, eos = i_b * T, i_b * T + T
    o_t = i_t * BT + tl.arange(0, BT)
    o_s = i_s * BS + tl.arange(0, BS)
    m = (o_t < T)[:, None] & (o_s < S)[None, :]
    p = (bos * H + i_h) * S + o_t[:, None] * (H * S) + o_s[None, :]
    b_s = tl.load(s + p, mask=m, other=0.).to(tl.float32)
    if REVERSE:
        b_o = tl.cumsum(b_s, axis=0, reverse=True)
    else:
        b_o = tl.cumsum(b_s, axis=0)
    if HAS_SCALE:
        b_o *= scale
    tl.store(o + p, b_o.to(o.dtype.element_ty), mask=m)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("ragged", [False, True])
def test_chunk_cumsum(ragged, reverse, target):
    H, S, BT = 2, 24, 16
    B, T = (1, 50) if ragged else (2, 41)
    x, y = torch.randn(B, T, H, S), torch.empty(B, T, H, S)
    bounds = [0, 7, 50] if ragged else [0, T]
    cu = torch.tensor(bounds, dtype=torch.int32) if ragged else None
    chunks = [[n, i] for n in range(len(bounds) - 1) for i in range(triton.cdiv(bounds[n + 1] - bounds[n], BT))]
    indices = torch.tensor(chunks, dtype=torch.int32) if ragged else None
    scale = None if ragged else 0.5
    grid = lambda meta: (triton.cdiv(meta['S'], meta['BS']), len(chunks), B * H)
    chunk_local_cumsum_kernel[grid](s=x, o=y, scale=scale, cu_seqlens=cu, chunk_indices=indices, T=T, B=B, H=H, S=S, BT=BT,
                                    REVERSE=reverse)
    want = torch.empty(B, T, H, S, dtype=torch.float64)
    for low, high in zip(bounds, bounds[1:]):
        for start in range(low, high, BT):
            part = x[:, start:min(start + BT, high)].double()
            want[:, start:min(start + BT, high)] = part.flip(1).cumsum(1).flip(1) if reverse else part.cumsum(1)
    close(y, want * (scale or 1.0), 32)


# ---- gated linear attention by chunks ---------------------------------------------------------------


@triton.heuristics({
    'USE_INITIAL_STATE': lambda args: args['h0'] is not None,
    'STORE_FINAL_STATE': lambda args: args['ht'] is not None,
    'USE_G': lambda args: args['g'] is not None,
})
@triton.jit(do_not_specialize=['T'])
def chunk_fwd_kernel_h(k, v, h, g, h0, ht, T, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr,
                       BV: tl.constexpr, USE_G: tl.constexpr, USE_INITIAL_STATE: tl.constexpr, STORE_FINAL_STATE: tl.constexpr):
    i_k, i_v, i_nh = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i_n, i_h = i_nh // H, i_nh % H
    NT = tl.cdiv(T, BT)
    o_k = i_k * BK + tl.arange(0, BK)
    o_v = i_v * BV + tl.arange(0, BV)
    o_i = tl.arange(0, BT)
    m_h = (o_k < K)[:, None] & (o_v < V)[None, :]
    b_h = tl.zeros([BK, BV], dtype=tl.float32)
    if USE_INITIAL_STATE:
        b_h += tl.load(h0 + i_nh * K * V + o_k[:, None] * V + o_v[None, :], mask=m_h, other=0.).to(tl.float32)
    for i_t in range(NT):
        p_h = h + ((i_n * NT + i_t).to(tl.int64) * H + i_h) * K * V + o_k[:, None] * V + o_v[None, :]
        tl.store(p_h, b_h.to(p_h.dtype.element_ty), mask=m_h)
        o_t = i_t * BT + o_i
        m_t = o_t < T
        base = (i_n * T + o_t) * H + i_h
        b_k = tl.load(k + base[None, :] * K + o_k[:, None], mask=m_t[None, :] & (o_k < K)[:, None], other=0.)
        b_v = tl.load(v + base[:, None] * V + o_v[None, :], mask=m_t[:, None] & (o_v < V)[None, :], other=0.)
        last_idx = tl.minimum((i_t + 1) * BT, T) - 1
        if USE_G:
            b_g_last = tl.load(g + (i_n * T + last_idx) * H + i_h)
            b_g = tl.load(g + base, mask=m_t, other=0.)
            b_h *= exp(b_g_last)
            b_v = (b_v * tl.where(m_t, exp(b_g_last - b_g), 0.)[:, None]).to(b_v.dtype)
        b_h += tl.dot(b_k, b_v, allow_tf32=False)
    if STORE_FINAL_STATE:
        p_ht = ht + i_nh * K * V + o_k[:, None] * V + o_v[None, :]
        tl.store(p_ht, b_h.to(p_ht.dtype.element_ty), mask=m_h)


@triton.heuristics({'USE_G': lambda args: args['g'] is not None})
@triton.jit(do_not_specialize=['T'])
def chunk_fwd_kernel_o(q, k, v, h, g, o, scale, T, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr,
                       BV: tl.constexpr, USE_G: tl.constexpr):
    i_v, i_t, i_bh = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i_b, i_h = i_bh // H, i_bh % H
    NT = tl.cdiv(T, BT)
    h += ((i_b * NT + i_t).to(tl.int64) * H + i_h) * K * V
    o_t = i_t * BT + tl.arange(0, BT)
    o_v = i_v * BV + tl.arange(0, BV)
    m_t = o_t < T
    base = (i_b * T + o_t) * H + i_h
    b_o = tl.zeros([BT, BV], dtype=tl.float32)
    b_A = tl.zeros([BT, BT], dtype=tl.float32)
    for i_k in range(tl.cdiv(K, BK)):
        o_k = i_k * BK + tl.arange(0, BK)
        m_k = o_k < K
        b_q = tl.load(q + base[:, None] * K + o_k[None, :], mask=m_t[:, None] & m_k[None, :], other=0.)
        b_k = tl.load(k + base[None, :] * K + o_k[:, None], mask=m_t[None, :] & m_k[:, None], other=0.)
        b_h = tl.load(h + o_k[:, None] * V + o_v[None, :], mask=m_k[:, None] & (o_v < V)[None, :], other=0.)
        b_o += tl.dot(b_q, b_h, allow_tf32=False)
        b_A += tl.dot(b_q, b_k, allow_tf32=False)
    if USE_G:
        g += i_b * T * H + i_h
        b_g = tl.load(g + o_t * H, mask=m_t, other=0.)
        b_o = b_o * exp(b_g)[:, None]
        b_A = b_A * exp(tl.where(o_t[:, None] >= o_t[None, :], b_g[:, None] - b_g[None, :], 0.))
    m_A = (o_t[:, None] >= o_t[None, :]) & (m_t[:, None] & m_t)
    b_A = tl.where(m_A, b_A, 0)
    m_v = m_t[:, None] & (o_v < V)[None, :]
    b_v = tl.load(v + base[:, None] * V + o_v[None, :], mask=m_v, other=0.)
    b_o = b_o * scale + tl.dot(b_A.to(b_v.dtype), b_v, allow_tf32=False) * scale
    tl.store(o + base[:, None] * V + o_v[None, :], b_o.to(o.dtype.element_ty), mask=m_v)


@triton.jit(do_not_specialize=['T'])
def chunk_bwd_kernel_dh(q, g, do, dh, scale, T, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr,
                        BV: tl.constexpr):
    """Gradients of the states, from the last chunk to the first."""
    i_k, i_v, i_nh = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i_n, i_h = i_nh // H, i_nh % H
    NT = tl.cdiv(T, BT)
    o_k = i_k * BK + tl.arange(0, BK)
    o_v = i_v * BV + tl.arange(0, BV)
    m_h = (o_k < K)[:, None] & (o_v < V)[None, :]
    b_dh = tl.zeros([BK, BV], dtype=tl.float32)
    for i_t in range(NT - 1, -1, -1):
        tl.store(dh + ((i_n * NT + i_t).to(tl.int64) * H + i_h) * K * V + o_k[:, None] * V + o_v[None, :], b_dh, mask=m_h)
        o_t = i_t * BT + tl.arange(0, BT)
        m_t = o_t < T
        base = (i_n * T + o_t) * H + i_h
        b_q = tl.load(q + base[None, :] * K + o_k[:, None], mask=m_t[None, :] & (o_k < K)[:, None], other=0.)
        b_do = tl.load(do + base[:, None] * V + o_v[None, :], mask=m_t[:, None] & (o_v < V)[None, :], other=0.)
        b_g_last = tl.load(g + (i_n * T + tl.minimum((i_t + 1) * BT, T) - 1) * H + i_h)
        b_g = tl.load(g + base, mask=m_t, other=0.)
        b_q = (b_q * scale * exp(b_g)[None, :]).to(b_q.dtype)
        b_dh *= exp(b_g_last)
        b_dh += tl.dot(b_q, b_do, input_precision="ieee")


@triton.jit(do_not_specialize=['T'])
def chunk_bwd_kernel_dqkv(q, k, v, h, g, do, dh, dq, dk, dv, scale, T, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
                          BT: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr):
    i_t, i_bh = tl.program_id(0), tl.program_id(1)
    i_b, i_h = i_bh // H, i_bh % H
    NT = tl.cdiv(T, BT)
    state = ((i_b * NT + i_t).to(tl.int64) * H + i_h) * K * V
    o_i = tl.arange(0, BT)
    o_t = i_t * BT + o_i
    m_t = o_t < T
    base = (i_b * T + o_t) * H + i_h
    o_k, o_v = tl.arange(0, BK), tl.arange(0, BV)
    m_k = m_t[:, None] & (o_k < K)[None, :]
    m_v = m_t[:, None] & (o_v < V)[None, :]
    m_h = (o_k < K)[:, None] & (o_v < V)[None, :]
    b_q = tl.load(q + base[:, None] * K + o_k[None, :], mask=m_k, other=0.)
    b_k = tl.load(k + base[:, None] * K + o_k[None, :], mask=m_k, other=0.)
    b_v = tl.load(v + base[:, None] * V + o_v[None, :], mask=m_v, other=0.)
    b_do = tl.load(do + base[:, None] * V + o_v[None, :], mask=m_v, other=0.)
    b_h = tl.load(h + state + o_k[:, None] * V + o_v[None, :], mask=m_h, other=0.).to(tl.float32)
    b_dh = tl.load(dh + state + o_k[:, None] * V + o_v[None, :], mask=m_h, other=0.).to(tl.float32)
    b_g = tl.load(g + base, mask=m_t, other=0.)
    b_g_last = tl.load(g + (i_b * T + tl.minimum((i_t + 1) * BT, T) - 1) * H + i_h)
    b_D = tl.where(o_i[:, None] >= o_i[None, :], exp(b_g[:, None] - b_g[None, :]), 0.)
    b_ds = tl.dot(b_do, tl.trans(b_v), allow_tf32=False) * b_D * scale
    b_A = tl.dot(b_q, tl.trans(b_k), allow_tf32=False) * b_D * scale
    tail = tl.where(m_t, exp(b_g_last - b_g), 0.)
    b_dq = tl.dot(b_ds.to(b_k.dtype), b_k, allow_tf32=False)
    b_dq += tl.dot(b_do, tl.trans(b_h).to(b_do.dtype), allow_tf32=False) * (exp(b_g) * scale)[:, None]
    b_dk = tl.dot(tl.trans(b_ds).to(b_q.dtype), b_q, allow_tf32=False)
    b_dk += tl.dot(b_v, tl.trans(b_dh).to(b_v.dtype), allow_tf32=False) * tail[:, None]
    b_dv = tl.dot(tl.trans(b_A).to(b_do.dtype), b_do, allow_tf32=False)
    b_dv += tl.dot(b_k, b_dh.to(b_k.dtype), allow_tf32=False) * tail[:, None]
    tl.store(dq + base[:, None] * K + o_k[None, :], b_dq.to(dq.dtype.element_ty), mask=m_k)
    tl.store(dk + base[:, None] * K + o_k[None, :], b_dk.to(dk.dtype.element_ty), mask=m_k)
    tl.store(dv + base[:, None] * V + o_v[None, :], b_dv.to(dv.dtype.element_ty), mask=m_v)


def gated_attention(q, k, v, g, scale, state=None):
    """Step by step: S = exp(g) S + k v, o = q S; (B, T, H, ...)."""
    B, T, H, K = q.shape
    S = torch.zeros(B, H, K, v.shape[-1], dtype=torch.float64) if state is None else state.double()
    out = []
    for t in range(T):
        S = S * g[:, t].exp()[..., None, None] + k[:, t, :, :, None] * v[:, t, :, None, :]
        out.append((q[:, t, :, :, None] * scale * S).sum(2))
    return torch.stack(out, 1), S


@pytest.mark.parametrize("T", [64, 45])
def test_gated_attention_by_chunks(T, target):
    B, H, K, V, BT = 1, 2, 24, 32, 16
    q, k, v, do = torch.randn(B, T, H, K), torch.randn(B, T, H, K), torch.randn(B, T, H, V), torch.randn(B, T, H, V)
    g = -torch.rand(B, T, H)
    scale, NT = K ** -0.5, triton.cdiv(T, BT)
    state = torch.randn(B, H, K, V)
    gc = torch.cat([part.cumsum(1) for part in g.split(BT, 1)], 1)
    h, dh, last = torch.empty(B, NT, H, K, V), torch.empty(B, NT, H, K, V), torch.empty(B, H, K, V)
    o = torch.empty_like(v)
    chunk_fwd_kernel_h[(2, 2, B * H)](k=k, v=v, h=h, g=gc, h0=state, ht=last, T=T, H=H, K=K, V=V, BT=BT, BK=16, BV=16)
    chunk_fwd_kernel_o[(2, NT, B * H)](q=q, k=k, v=v, h=h, g=gc, o=o, scale=scale, T=T, H=H, K=K, V=V, BT=BT, BK=16, BV=16)
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    want, want_state = gated_attention(*leaves, g.double(), scale, state)
    close(o, want, 256)
    close(last, want_state, 256)
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    chunk_bwd_kernel_dh[(2, 2, B * H)](q, gc, do, dh, scale, T, H, K, V, BT, BK=16, BV=16)
    chunk_bwd_kernel_dqkv[(NT, B * H)](q, k, v, h, gc, do, dh, dq, dk, dv, scale, T, H, K, V, BT, BK=32, BV=32)
    want.backward(do.double())
    for got, leaf in zip((dq, dk, dv), leaves):
        close(got, leaf.grad, 512)


@triton.heuristics({'USE_G': lambda args: args['g'] is not None, 'USE_INITIAL_STATE': lambda args: args['h0'] is not None,
                    'STORE_FINAL_STATE': lambda args: args['ht'] is not None})
@triton.jit(do_not_specialize=['B', 'T'])
def fused_recurrent_fwd_kernel(q, k, v, g, o, h0, ht, scale, B, T, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr,
                               BV: tl.constexpr, REVERSE: tl.constexpr, USE_G: tl.constexpr, USE_INITIAL_STATE: tl.constexpr,
                               STORE_FINAL_STATE: tl.constexpr):
    i_v, i_nh = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    i_n, i_h = i_nh // H, i_nh % H
    o_k = tl.arange(0, BK)
    o_v = i_v * BV + tl.arange(0, BV)
    p_q = q + (i_n * T + ((T - 1) if REVERSE else 0)) * H * K + i_h * K + o_k
    p_k = k + (i_n * T + ((T - 1) if REVERSE else 0)) * H * K + i_h * K + o_k
    p_v = v + (i_n * T + ((T - 1) if REVERSE else 0)) * H * V + i_h * V + o_v
    p_o = o + (i_n * T + ((T - 1) if REVERSE else 0)) * H * V + i_h * V + o_v
    if USE_G:
        p_g = g + (i_n * T + ((T - 1) if REVERSE else 0)) * H + i_h
    mask_k = o_k < K
    mask_v = o_v < V
    mask_h = mask_k[None, :] & mask_v[:, None]
    b_h = tl.zeros([BV, BK], dtype=tl.float32)
    if USE_INITIAL_STATE:
        b_h += tl.load(h0 + i_nh * K * V + o_k[None, :] * V + o_v[:, None], mask=mask_h, other=0).to(tl.float32)
    for _ in range(0, T):
        b_q = tl.load(p_q, mask=mask_k, other=0).to(tl.float32) * scale
        b_k = tl.load(p_k, mask=mask_k, other=0).to(tl.float32)
        b_v = tl.load(p_v, mask=mask_v, other=0).to(tl.float32)
        if USE_G:
            b_g = tl.load(p_g).to(tl.float32)
            b_h = b_h * exp(b_g)
        b_h += b_k[None, :] * b_v[:, None]
        b_o = b_h * b_q[None, :]
        b_o = tl.sum(b_o, axis=1)
        tl.store(p_o, b_o.to(p_o.dtype.element_ty), mask=mask_v)
        p_q += (-1 if REVERSE else 1) * H * K
        p_k += (-1 if REVERSE else 1) * H * K
        p_v += (-1 if REVERSE else 1) * H * V
        p_o += (-1 if REVERSE else 1) * H * V
        if USE_G:
            p_g += (-1 if REVERSE else 1) * H
    if STORE_FINAL_STATE:
        tl.store(ht + i_nh * K * V + o_k[None, :] * V + o_v[:, None], b_h.to(ht.dtype.element_ty), mask=mask_h)


@pytest.mark.parametrize("reverse", [False, True])
def test_fused_recurrent(reverse, target):
    B, T, H, K, V = 2, 13, 2, 24, 20
    q, k, v = torch.randn(B, T, H, K).bfloat16(), torch.randn(B, T, H, K).bfloat16(), torch.randn(B, T, H, V).bfloat16()
    g = None if reverse else -torch.rand(B, T, H)
    o, ht = torch.empty(B, T, H, V), torch.empty(B, H, K, V)
    fused_recurrent_fwd_kernel[(triton.cdiv(V, 8), B * H)](q, k, v, g, o, None, ht, K ** -0.5, B, T, H=H, K=K, V=V, BK=32, BV=8,
                                                         REVERSE=reverse, num_warps=1, num_stages=3)
    turn = (lambda x: x.flip(1)) if reverse else (lambda x: x)
    want, state = gated_attention(turn(q.double()), turn(k.double()), turn(v.double()),
                                  torch.zeros(B, T, H).double() if g is None else g.double(), K ** -0.5)
    close(o, turn(want), 64)
    close(ht, state, 64)


# ---- delta rule -------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=['T'])
def chunk_scaled_dot_kkt_kernel(k, beta, A, T, H: tl.constexpr, K: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr):
    i_t, i_bh = tl.program_id(0), tl.program_id(1)
    i_b, i_h = i_bh // H, i_bh % H
    o_t = i_t * BT + tl.arange(0, BT)
    m_t = o_t < T
    base = (i_b * T + o_t) * H + i_h
    b_beta = tl.load(beta + base, mask=m_t, other=0.)
    b_A = tl.zeros([BT, BT], dtype=tl.float32)
    for i_k in range(tl.cdiv(K, BK)):
        o_k = i_k * BK + tl.arange(0, BK)
        b_k = tl.load(k + base[:, None] * K + o_k[None, :], mask=m_t[:, None] & (o_k < K)[None, :], other=0.)
        b_kb = b_k * b_beta[:, None]
        b_A += tl.dot(b_kb.to(b_k.dtype), tl.trans(b_k), input_precision="ieee")
    m_A = (o_t[:, None] > o_t[None, :]) & (m_t[:, None] & m_t)
    b_A = tl.where(m_A, b_A, 0)
    tl.store(A + base[:, None] * BT + tl.arange(0, BT)[None, :], b_A.to(A.dtype.element_ty), mask=m_t[:, None])


@triton.jit(do_not_specialize=['T'])
def solve_tril_kernel(A, Ai, T, H: tl.constexpr, BT: tl.constexpr):
    """(I + A)^-1 of strictly lower triangular blocks, row by row."""
    i_t, i_bh = tl.program_id(0), tl.program_id(1)
    i_b, i_h = i_bh // H, i_bh % H
    A = A + (i_b * T * H + i_h) * BT
    Ai = Ai + (i_b * T * H + i_h) * BT
    o_i = tl.arange(0, BT)
    m_A = o_i[:, None] > o_i[None, :]
    m_I = o_i[:, None] == o_i[None, :]
    m_t = (i_t * BT + o_i) < T
    b_A = tl.load(A + (i_t * BT + o_i)[:, None] * H * BT + o_i[None, :], mask=m_t[:, None], other=0.).to(tl.float32)
    b_A = -tl.where(m_A, b_A, 0)
    for i in range(1, tl.minimum(BT, T - i_t * BT)):
        b_a = -tl.load(A + (i_t * BT + i) * H * BT + o_i)
        b_a = tl.where(o_i < i, b_a, 0.)
        b_a = b_a + tl.sum(b_a[:, None] * b_A, 0)
        b_A = tl.where((o_i == i)[:, None], b_a, b_A)
    b_A += m_I
    tl.store(Ai + (i_t * BT + o_i)[:, None] * H * BT + o_i[None, :], b_A.to(Ai.dtype.element_ty, fp_downcast_rounding="rtne"),
             mask=m_t[:, None])


@triton.jit(do_not_specialize=['T'])
def recompute_w_u_kernel(k, v, beta, w, u, A, T, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr,
                         BV: tl.constexpr, DOT_PRECISION: tl.constexpr):
    i_t, i_bh = tl.program_id(0), tl.program_id(1)
    i_b, i_h = i_bh // H, i_bh % H
    o_t = i_t * BT + tl.arange(0, BT)
    m_t = o_t < T
    base = (i_b * T + o_t) * H + i_h
    b_beta = tl.load(beta + base, mask=m_t, other=0.)
    b_A = tl.load(A + base[:, None] * BT + tl.arange(0, BT)[None, :], mask=m_t[:, None], other=0.)
    for i_v in range(tl.cdiv(V, BV)):
        o_v = i_v * BV + tl.arange(0, BV)
        m = m_t[:, None] & (o_v < V)[None, :]
        b_v = tl.load(v + base[:, None] * V + o_v[None, :], mask=m, other=0.)
        b_u = tl.dot(b_A, (b_v * b_beta[:, None]).to(b_v.dtype), input_precision=DOT_PRECISION)
        tl.store(u + base[:, None] * V + o_v[None, :], b_u.to(u.dtype.element_ty), mask=m)
    for i_k in range(tl.cdiv(K, BK)):
        o_k = i_k * BK + tl.arange(0, BK)
        m = m_t[:, None] & (o_k < K)[None, :]
        b_k = tl.load(k + base[:, None] * K + o_k[None, :], mask=m, other=0.)
        b_w = tl.dot(b_A, (b_k * b_beta[:, None]).to(b_k.dtype), input_precision=DOT_PRECISION)
        tl.store(w + base[:, None] * K + o_k[None, :], b_w.to(w.dtype.element_ty), mask=m)


@triton.jit(do_not_specialize=['T'])
def chunk_delta_h_kernel(k, u, w, v_new, h, T, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr, BK: tl.constexpr,
                         BV: tl.constexpr):
    i_v, i_nh = tl.program_id(0), tl.program_id(1)
    i_n, i_h = i_nh // H, i_nh % H
    NT = tl.cdiv(T, BT)
    o_k = tl.arange(0, BK)
    o_v = i_v * BV + tl.arange(0, BV)
    m_h = (o_k < K)[:, None] & (o_v < V)[None, :]
    b_h = tl.zeros([BK, BV], dtype=tl.float32)
    for i_t in range(NT):
        tl.store(h + ((i_n * NT + i_t) * H + i_h) * K * V + o_k[:, None] * V + o_v[None, :], b_h, mask=m_h)
        o_t = i_t * BT + tl.arange(0, BT)
        m_t = o_t < T
        base = (i_n * T + o_t) * H + i_h
        m_v = m_t[:, None] & (o_v < V)[None, :]
        b_w = tl.load(w + base[:, None] * K + o_k[None, :], mask=m_t[:, None] & (o_k < K)[None, :], other=0.)
        b_v = tl.load(u + base[:, None] * V + o_v[None, :], mask=m_v, other=0.)
        b_v -= tl.dot(b_w, b_h.to(b_w.dtype), input_precision="ieee")
        tl.store(v_new + base[:, None] * V + o_v[None, :], b_v.to(v_new.dtype.element_ty), mask=m_v)
        b_k = tl.load(k + base[None, :] * K + o_k[:, None], mask=m_t[None, :] & (o_k < K)[:, None], other=0.)
        b_h += tl.dot(b_k, b_v.to(b_k.dtype), input_precision="ieee")


@pytest.mark.parametrize("T", [48, 37])
def test_delta_rule_by_chunks(T, target):
    B, H, K, V, BT = 1, 2, 32, 24, 16
    q, v, beta = torch.randn(B, T, H, K), torch.randn(B, T, H, V), torch.rand(B, T, H)
    k = torch.nn.functional.normalize(torch.randn(B, T, H, K), dim=-1)
    NT, scale = triton.cdiv(T, BT), K ** -0.5
    A, Ai = torch.empty(B, T, H, BT), torch.empty(B, T, H, BT)
    w, u, v_new, o = torch.empty_like(k), torch.empty_like(v), torch.empty_like(v), torch.empty_like(v)
    h = torch.empty(B, NT, H, K, V)
    chunk_scaled_dot_kkt_kernel[(NT, B * H)](k, beta, A, T, H=H, K=K, BT=BT, BK=32)
    solve_tril_kernel[(NT, B * H)](A, Ai, T, H=H, BT=BT)
    first = A[0, :BT, 0].double()
    close(Ai[0, :BT, 0], torch.linalg.inv(torch.eye(BT, dtype=torch.float64) + first.tril(-1)), 64)
    recompute_w_u_kernel[(NT, B * H)](k, v, beta, w, u, Ai, T, H=H, K=K, V=V, BT=BT, BK=16, BV=16, DOT_PRECISION="tf32x3")
    chunk_delta_h_kernel[(2, B * H)](k, u, w, v_new, h, T, H=H, K=K, V=V, BT=BT, BK=32, BV=16)
    chunk_fwd_kernel_o[(2, NT, B * H)](q=q, k=k, v=v_new, h=h, g=None, o=o, scale=scale, T=T, H=H, K=K, V=V, BT=BT, BK=16, BV=16)
    S = torch.zeros(B, H, K, V, dtype=torch.float64)
    want = []
    for t in range(T):
        kt, vt, bt = k[:, t].double(), v[:, t].double(), beta[:, t].double()
        S = S + kt[..., None] * (bt[..., None] * (vt - (kt[..., None] * S).sum(2)))[:, :, None]
        want.append((q[:, t].double()[..., None] * scale * S).sum(2))
    close(o, torch.stack(want, 1), 512)


# ---- selective scan ---------------------------------------------------------------------------------


@triton.jit
def first_order_op(fl, xl, fr, xr):
    f = fr * fl
    x = fr * xl + xr
    return f, x


@triton.jit
def softplus(dt):
    return tl.where(dt <= 20.0, tl.math.log(tl.math.exp(dt) + 1), dt)


@triton.jit
def selective_scan_kernel(x_ptr, dt_ptr, A_ptr, B_ptr, C_ptr, y_ptr, L, D: tl.constexpr, N: tl.constexpr, BL: tl.constexpr):
    """One channel of one sequence a program; chunks of time by an associative scan, the state carried between them."""
    i_d, i_b = tl.program_id(0), tl.program_id(1)
    o_n = tl.arange(0, N)
    A = -tl.exp(tl.load(A_ptr + i_d * N + o_n))
    carry = tl.zeros([N], dtype=tl.float32)
    for start in range(0, L, BL):
        o_l = start + tl.arange(0, BL)
        m_l = o_l < L
        x = tl.load(x_ptr + (i_b * L + o_l) * D + i_d, mask=m_l, other=0.)
        dt = softplus(tl.load(dt_ptr + (i_b * L + o_l) * D + i_d, mask=m_l, other=-1e4))
        Bt = tl.load(B_ptr + (i_b * L + o_l)[:, None] * N + o_n[None, :], mask=m_l[:, None], other=0.)
        Ct = tl.load(C_ptr + (i_b * L + o_l)[:, None] * N + o_n[None, :], mask=m_l[:, None], other=0.)
        f = tl.exp(dt[:, None] * A[None, :])
        u = (dt * x)[:, None] * Bt
        f, s = tl.associative_scan((f, u), 0, first_order_op)
        s = s + f * carry[None, :]
        tl.store(y_ptr + (i_b * L + o_l) * D + i_d, tl.sum(s * Ct, 1), mask=m_l)
        carry = tl.sum(tl.where((tl.arange(0, BL) == BL - 1)[:, None], s, 0.0), 0)


def test_selective_scan(target):
    batch, L, D, N = 2, 45, 3, 8
    x, dt, A = torch.randn(batch, L, D), torch.randn(batch, L, D), torch.randn(D, N) * 0.3
    Bt, Ct = torch.randn(batch, L, N), torch.randn(batch, L, N)
    y = torch.empty_like(x)
    selective_scan_kernel[(D, batch)](x, dt, A, Bt, Ct, y, L, D=D, N=N, BL=16)
    s = torch.zeros(batch, D, N, dtype=torch.float64)
    delta, decay = torch.nn.functional.softplus(dt.double()), -A.double().exp()
    want = []
    for t in range(L):
        s = s * (delta[:, t, :, None] * decay).exp() + (delta[:, t] * x[:, t].double())[..., None] * Bt[:, t, None].double()
        want.append((s * Ct[:, t, None].double()).sum(-1))
    close(y, torch.stack(want, 1), 256)


# ---- convolutions and shifts ------------------------------------------------------------------------


@triton.heuristics({'HAS_WEIGHT': lambda args: args['weight'] is not None, 'HAS_BIAS': lambda args: args['bias'] is not None,
                    'HAS_RESIDUAL': lambda args: args['residual'] is not None})
@triton.jit(do_not_specialize=['T'])
def causal_conv1d_fwd_kernel(x, y, weight, bias, residual, T, D: tl.constexpr, W: tl.constexpr, BT: tl.constexpr, BW: tl.constexpr,
                             BD: tl.constexpr, ACTIVATION: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr,
                             HAS_RESIDUAL: tl.constexpr):
    i_d, i_t, i_b = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    o_d = i_d * BD + tl.arange(0, BD)
    o_w = tl.arange(0, BW) + W - BW
    m_d = o_d < D
    m_w = o_w >= 0
    o_t = i_t * BT + tl.arange(0, BT)
    if HAS_WEIGHT:
        b_w = tl.load(weight + o_d[:, None] * W + o_w, mask=m_d[:, None] & m_w, other=0).to(tl.float32)
    b_y = tl.zeros((BT, BD), dtype=tl.float32)
    for i_w in tl.static_range(-W + 1, 1):
        p = o_t + i_w
        b_yi = tl.load(x + (i_b * T + p)[:, None] * D + o_d[None, :], mask=((p >= 0) & (p < T))[:, None] & m_d[None, :], other=0.)
        b_yi = b_yi.to(tl.float32)
        if HAS_WEIGHT:
            b_yi *= tl.sum(b_w * (o_w == (i_w + W - 1)), 1)
        b_y += b_yi
    if HAS_BIAS:
        b_y += tl.load(bias + o_d, mask=m_d).to(tl.float32)
    if ACTIVATION == 'swish' or ACTIVATION == 'silu':
        b_y = b_y * tl.sigmoid(b_y)
    m = (o_t < T)[:, None] & m_d[None, :]
    if HAS_RESIDUAL:
        b_y += tl.load(residual + (i_b * T + o_t)[:, None] * D + o_d[None, :], mask=m, other=0.)
    tl.store(y + (i_b * T + o_t)[:, None] * D + o_d[None, :], b_y.to(y.dtype.element_ty, fp_downcast_rounding="rtne"), mask=m)


@triton.jit(do_not_specialize=['T'])
def causal_conv1d_bwd_kernel(x, weight, dy, dx, dw, db, T, B: tl.constexpr, D: tl.constexpr, W: tl.constexpr, BT: tl.constexpr,
                             BD: tl.constexpr):
    """Without activation; dw and db by atomics."""
    i_d, i_t, i_b = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    o_d = i_d * BD + tl.arange(0, BD)
    m_d = o_d < D
    o_t = i_t * BT + tl.arange(0, BT)
    b_dx = tl.zeros((BT, BD), dtype=tl.float32)
    b_x = tl.load(x + (i_b * T + o_t)[:, None] * D + o_d[None, :], mask=(o_t < T)[:, None] & m_d[None, :], other=0.)
    for i_w in tl.static_range(0, W):
        p = o_t + i_w
        b_dy = tl.load(dy + (i_b * T + p)[:, None] * D + o_d[None, :], mask=(p < T)[:, None] & m_d[None, :], other=0.).to(tl.float32)
        b_w = tl.load(weight + o_d * W + (W - i_w - 1), mask=m_d, other=0.)
        b_dx += b_dy * b_w
        tl.atomic_add(dw + o_d * W + (W - i_w - 1), tl.sum(b_dy * b_x, 0), mask=m_d)
        if i_w == 0:
            tl.atomic_add(db + o_d, tl.sum(b_dy, 0), mask=m_d, sem="relaxed")
    tl.store(dx + (i_b * T + o_t)[:, None] * D + o_d[None, :], b_dx, mask=(o_t < T)[:, None] & m_d[None, :])


def test_causal_convolution(target):
    B, T, D, W = 2, 37, 20, 4
    x, weight, bias, residual, dy = torch.randn(B, T, D), torch.randn(D, W), torch.randn(D), torch.randn(B, T, D), torch.randn(B, T, D)
    conv = lambda x, w, b: torch.nn.functional.conv1d(torch.nn.functional.pad(x.transpose(1, 2), (W - 1, 0)), w[:, None], b,
                                                      groups=D).transpose(1, 2)
    grid = lambda meta: (triton.cdiv(D, meta['BD']), triton.cdiv(T, meta['BT']), B)
    y = torch.empty_like(x)
    causal_conv1d_fwd_kernel[grid](x=x, y=y, weight=weight, bias=bias, residual=residual, T=T, D=D, W=W, BT=16, BW=4, BD=16,
                                   ACTIVATION='silu')
    close(y, torch.nn.functional.silu(conv(x.double(), weight.double(), bias.double())) + residual.double(), 32)
    causal_conv1d_fwd_kernel[grid](x=x, y=y, weight=None, bias=None, residual=None, T=T, D=D, W=W, BT=16, BW=4, BD=16, ACTIVATION=None)
    close(y, conv(x.double(), torch.ones(D, W).double(), None), 32)
    leaves = [t.double().requires_grad_() for t in (x, weight, bias)]
    conv(*leaves).backward(dy.double())
    dx, dw, db = torch.empty_like(x), torch.zeros_like(weight), torch.zeros_like(bias)
    causal_conv1d_bwd_kernel[grid](x, weight, dy, dx, dw, db, T, B, D, W, BT=16, BD=16)
    for got, leaf in zip((dx, dw, db), leaves):
        close(got, leaf.grad, 128)


@triton.jit
def token_shift_kernel(x, y, cu_seqlens, D: tl.constexpr, BD: tl.constexpr, IS_VARLEN: tl.constexpr, T):
    i_b, i_t = tl.program_id(0), tl.program_id(1)
    if IS_VARLEN:
        bos, eos = tl.load(cu_seqlens + i_b), tl.load(cu_seqlens + i_b + 1)
        g_t = i_t + bos
        if g_t >= eos:
            return
        is_first = i_t == 0
    else:
        g_t = i_b * T + i_t
        is_first = i_t == 0
    o_d = tl.arange(0, BD)
    m_d = o_d < D
    b_x = tl.load(x + g_t * D + o_d, mask=m_d)
    if is_first:
        tl.store(y + g_t * D + o_d, -b_x, mask=m_d)
    else:
        prev = tl.load(x + (g_t - 1) * D + o_d, mask=m_d)
        tl.store(y + g_t * D + o_d, prev - b_x, mask=m_d)


def test_token_shift(target):
    x, cu = torch.randn(11, 20), torch.tensor([0, 4, 5, 11])
    y = torch.empty_like(x)
    token_shift_kernel[(3, 6)](x, y, cu, D=20, BD=32, IS_VARLEN=True, T=0)
    want = torch.cat([torch.cat([torch.zeros(1, 20), x[a:b - 1]]) - x[a:b] for a, b in zip(cu, cu[1:])])
    assert torch.equal(y, want)


@triton.jit
def gather_in_chunk_kernel(x, index, y, T, BT: tl.constexpr, BD: tl.constexpr):
    """Rows of a chunk, and log-sum-exp in base 2, by a gather within the block."""
    i_t = tl.program_id(0)
    o_t, o_d = i_t * BT + tl.arange(0, BT), tl.arange(0, BD)
    b_x = tl.load(x + o_t[:, None] * BD + o_d[None, :])
    b_i = tl.load(index + o_t)
    b_y = tl.gather(b_x, tl.broadcast_to(b_i[:, None], (BT, BD)), axis=0)
    b_y = exp2(b_y * RCP_LN2)
    tl.store(y + o_t[:, None] * BD + o_d[None, :], b_y)


def test_gather_in_chunk(target):
    x, index = torch.randn(32, 8), torch.randint(0, 16, (32, ), dtype=torch.int16)
    y = torch.empty_like(x)
    gather_in_chunk_kernel[(2, )](x, index.int(), y, 32, BT=16, BD=8)
    rows = torch.cat([index[:16].long(), index[16:].long() + 16])
    close(y, x.double()[rows].exp(), 4)
