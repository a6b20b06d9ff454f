"""Attention that reads part of the keys, or keys of another kind: block-sparse layouts, chosen blocks, latent caches, int8 scores, scores changed
by functions of the user, windows with sinks, prefixes in trees."""

import nereid as triton
import nereid.language as tl
import numpy as np
import pytest
import torch
from reference import close

# ---- block-sparse, by rows of a compressed layout ---------------------------------------------------


@triton.heuristics({
    'EVEN_M': lambda args: args['n_q'] % args['BLOCK_M'] == 0,
    'BLOCK_D': lambda args: triton.next_power_of_2(args['d']),
})
@triton.jit
def block_sparse_kernel(Q, K, V, Out, crow, col, scale, n_q, n_k, d, stride_h, stride_n, q_start, H: tl.constexpr, EVEN_M: tl.constexpr,
                        BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr):
    start_m, off_h = tl.program_id(0), tl.program_id(1)
    layout_h = off_h % H
    rows = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    q_ptrs = Q + off_h * stride_h + rows[:, None] * stride_n + dims[None, :]
    if EVEN_M:
        q = tl.load(q_ptrs, mask=dims[None, :] < d, other=0.0)
    else:
        q = tl.load(q_ptrs, mask=(rows[:, None] < n_q) & (dims[None, :] < d), other=0.0)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float('inf')
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], dtype=tl.float32)
    blocks = tl.num_programs(0)
    first = tl.load(crow + layout_h * (blocks + 1) + start_m)
    last = tl.load(crow + layout_h * (blocks + 1) + start_m + 1)
    for at in range(first, last):
        start_n = tl.load(col + at) * BLOCK_N
        columns = start_n + tl.arange(0, BLOCK_N)
        inside = (columns[:, None] < n_k) & (dims[None, :] < d)
        k = tl.load(K + off_h * stride_h + columns[:, None] * stride_n + dims[None, :], mask=inside, other=0.0)
        s = tl.dot(q, k.T) * scale
        s = tl.where((columns[None, :] < n_k) & (columns[None, :] <= rows[:, None] + q_start), s, float('-inf'))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        safe = tl.where(m_new == float('-inf'), 0.0, m_new)
        p = tl.math.exp2((s - safe[:, None]) * 1.44269504)
        alpha = tl.math.exp2((m_i - safe) * 1.44269504)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(V + off_h * stride_h + columns[:, None] * stride_n + dims[None, :], mask=inside, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m_i = m_new
    acc = tl.where(l_i[:, None] == 0, 0.0, acc / l_i[:, None])
    tl.store(Out + off_h * stride_h + rows[:, None] * stride_n + dims[None, :], acc.to(Out.dtype.element_ty),
             mask=(rows[:, None] < n_q) & (dims[None, :] < d))


@pytest.mark.parametrize("n,d", [(64, 16), (75, 24)])
def test_block_sparse(n, d, target):
    heads, block = 2, 16
    blocks = triton.cdiv(n, block)
    layout = torch.rand(heads, blocks, blocks) < 0.5
    layout[:, 1] = False  # rows that see nothing
    q, k, v = (torch.randn(heads, n, d, dtype=torch.float16) for _ in range(3))
    crow = torch.zeros(heads, blocks + 1, dtype=torch.int32)
    crow[:, 1:] = layout.sum(-1).flatten().cumsum(0).reshape(heads, blocks)
    crow[1:, 0] = crow[:-1, -1]
    col = layout.nonzero()[:, 2].to(torch.int32)
    out = torch.empty_like(q)
    block_sparse_kernel[(blocks, heads)](q, k, v, out, crow, col, d**-0.5, n, n, d, q.stride(0), q.stride(1), 0, H=heads, BLOCK_M=block,
                                         BLOCK_N=block)
    allowed = layout.repeat_interleave(block, 1).repeat_interleave(block, 2)[:, :n, :n].tril()
    s = (q.double() @ k.double().mT * d**-0.5).masked_fill(~allowed, -float("inf"))
    close(out, torch.softmax(s, -1).nan_to_num(0) @ v.double(), 16)


# ---- blocks that each token chose -------------------------------------------------------------------


@triton.jit
def selected_blocks_kernel(q, k, v, o, lse, block_indices, block_counts, scale, T, HQ: tl.constexpr, H: tl.constexpr, G: tl.constexpr,
                           D: tl.constexpr, S: tl.constexpr, BS: tl.constexpr, USE_COUNTS: tl.constexpr):
    """A program a token and a head of keys: the heads of queries of its group are the rows of its products."""
    i_t, i_h = tl.program_id(0), tl.program_id(1)
    p_q = tl.make_block_ptr(q + i_t * HQ * D, (HQ, D), (D, 1), (i_h * G, 0), (G, D), (1, 0))
    b_q = tl.load(p_q, boundary_check=(0, 1))
    b_q = (b_q * scale).to(b_q.dtype)
    if USE_COUNTS:
        NS = tl.load(block_counts + i_t * H + i_h)
    else:
        NS = S
    b_o = tl.zeros([G, D], dtype=tl.float32)
    b_m = tl.full([G], float('-inf'), dtype=tl.float32)
    b_acc = tl.zeros([G], dtype=tl.float32)
    for i in range(NS):
        i_s = tl.load(block_indices + (i_t * H + i_h) * S + i).to(tl.int32) * BS
        if i_s <= i_t and i_s >= 0:
            p_k = tl.make_block_ptr(k + i_h * D, (D, T), (1, H * D), (0, i_s), (D, BS), (0, 1))
            p_v = tl.make_block_ptr(v + i_h * D, (T, D), (H * D, 1), (i_s, 0), (BS, D), (1, 0))
            b_k, b_v = tl.load(p_k, boundary_check=(0, 1)), tl.load(p_v, boundary_check=(0, 1))
            b_s = tl.dot(b_q, b_k)
            b_s = tl.where((i_t >= (i_s + tl.arange(0, BS)))[None, :], b_s, float('-inf'))
            b_m, b_mp = tl.maximum(b_m, tl.max(b_s, 1)), b_m
            b_r = tl.exp(b_mp - b_m)
            b_p = tl.exp(b_s - b_m[:, None])
            b_acc = b_acc * b_r + tl.sum(b_p, 1)
            b_o = b_o * b_r[:, None] + tl.dot(b_p.to(b_q.dtype), b_v)
    b_o = b_o / b_acc[:, None]
    b_m += tl.log(b_acc)
    p_o = tl.make_block_ptr(o + i_t * HQ * D, (HQ, D), (D, 1), (i_h * G, 0), (G, D), (1, 0))
    tl.store(p_o, b_o.to(p_o.dtype.element_ty), boundary_check=(0, 1))
    tl.store(lse + i_t * HQ + i_h * G + tl.arange(0, G), b_m.to(lse.dtype.element_ty))


@pytest.mark.not_in_mode("checked", "it adds up masked-off elements, which its author left undefined: checked mode shows them")
@pytest.mark.parametrize("counted", [False, True])
def test_selected_blocks(counted, target):
    T, H, G, D, S, BS = 21, 2, 16, 16, 3, 8
    q, k, v = torch.randn(T, H * G, D, dtype=torch.bfloat16), torch.randn(T, H, D, dtype=torch.bfloat16), torch.randn(T, H, D, dtype=torch.bfloat16)
    chosen = torch.stack([torch.stack([torch.randperm(t // BS + 4)[:S] for _ in range(H)]) for t in range(T)])
    chosen[:, :, 0] = torch.arange(T)[:, None] // BS  # the own block is always there
    counts = torch.randint(1, S + 1, (T, H)) if counted else None
    o, lse = torch.empty_like(q), torch.empty(T, H * G)
    selected_blocks_kernel[(T, H)](q, k, v, o, lse, chosen, counts, D**-0.5, T, HQ=H * G, H=H, G=G, D=D, S=S, BS=BS, USE_COUNTS=counted)
    s = torch.einsum("thgd,shd->thgs", q.double().reshape(T, H, G, D), k.double()) * D**-0.5
    used = [[(chosen[t, h, :counts[t, h]] if counted else chosen[t, h]).tolist() for h in range(H)] for t in range(T)]
    seen = torch.tensor([[[i <= t and i // BS in used[t][h] for i in range(T)] for h in range(H)] for t in range(T)])
    # A block that was chosen twice counts twice.
    twice = torch.tensor([[[float(max(used[t][h].count(i // BS), 1)) for i in range(T)] for h in range(H)] for t in range(T)]).double()
    s = (s + twice.log()[:, :, None]).masked_fill(~seen[:, :, None], -float("inf"))
    close(o.reshape(T, H, G, D), torch.einsum("thgs,shd->thgd", torch.softmax(s, -1), v.double()), 8)
    close(lse.reshape(T, H, G), torch.logsumexp(s, -1), 8, eps=2.0**-8)


# ---- latent caches, decoded in parts ----------------------------------------------------------------


@triton.jit
def latent_decode_stage1(Q, Cache, Req_to_tokens, B_Seqlen, Att_Out, sm_scale, stride_req, stride_cache, kv_group_num: tl.constexpr,
                         q_head_num: tl.constexpr, BLOCK_H: tl.constexpr, LATENT: tl.constexpr, ROPE: tl.constexpr, BLOCK_N: tl.constexpr,
                         NUM_KV_SPLITS: tl.constexpr, PAGE_SIZE: tl.constexpr, logit_cap: tl.constexpr):
    cur_batch, cur_head_id, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    VALID: tl.constexpr = BLOCK_H if kv_group_num > BLOCK_H else kv_group_num
    cur_head = cur_head_id * VALID + tl.arange(0, BLOCK_H)
    mask_h = (cur_head < (cur_head_id + 1) * VALID) & (cur_head < q_head_num)
    d, dpe = tl.arange(0, LATENT), LATENT + tl.arange(0, ROPE)
    seq_len = tl.load(B_Seqlen + cur_batch)
    row: tl.constexpr = LATENT + ROPE
    base = Q + (cur_batch * q_head_num + cur_head[:, None]) * row
    q = tl.load(base + d[None, :], mask=mask_h[:, None], other=0.0)
    qpe = tl.load(base + dpe[None, :], mask=mask_h[:, None], other=0.0)
    per_split = tl.cdiv(seq_len, NUM_KV_SPLITS)
    start, end = per_split * split, tl.minimum(per_split * split + per_split, seq_len)
    e_max = tl.zeros([BLOCK_H], dtype=tl.float32) - float("inf")
    e_sum = tl.zeros([BLOCK_H], dtype=tl.float32)
    acc = tl.zeros([BLOCK_H, LATENT], dtype=tl.float32)
    if end > start:
        for start_n in range(start, end, BLOCK_N):
            n = start_n + tl.arange(0, BLOCK_N)
            page = tl.load(Req_to_tokens + stride_req * cur_batch + n // PAGE_SIZE, mask=n < end, other=0)
            loc = page * PAGE_SIZE + n % PAGE_SIZE
            kv = tl.load(Cache + loc[None, :] * stride_cache + d[:, None], mask=n[None, :] < end, other=0.0)
            kpe = tl.load(Cache + loc[None, :] * stride_cache + dpe[:, None], mask=n[None, :] < end, other=0.0)
            qk = tl.dot(q, kv.to(q.dtype))
            qk += tl.dot(qpe, kpe.to(qpe.dtype))
            qk *= sm_scale
            if logit_cap > 0:
                qk = logit_cap * (2 * tl.sigmoid(2 * (qk / logit_cap)) - 1)
            qk = tl.where(mask_h[:, None] & (n[None, :] < end), qk, float("-inf"))
            n_max = tl.maximum(tl.max(qk, 1), e_max)
            re_scale = tl.exp(e_max - n_max)
            p = tl.exp(qk - n_max[:, None])
            # The values are the latent part of the keys.
            acc = acc * re_scale[:, None] + tl.dot(p.to(kv.dtype), tl.trans(kv))
            e_sum = e_sum * re_scale + tl.sum(p, 1)
            e_max = n_max
        mid = Att_Out + ((cur_batch * q_head_num + cur_head) * NUM_KV_SPLITS + split) * (LATENT + 1)
        tl.store(mid[:, None] + d[None, :], acc / e_sum[:, None], mask=mask_h[:, None])
        tl.store(mid + LATENT, e_max + tl.log(e_sum), mask=mask_h)


@triton.jit
def latent_decode_stage2(Mid_O, O, B_Seqlen, sinks, q_head_num, NUM_KV_SPLITS: tl.constexpr, LATENT: tl.constexpr, HAS_SINK: tl.constexpr):
    cur_batch, cur_head = tl.program_id(0), tl.program_id(1)
    seq_len = tl.load(B_Seqlen + cur_batch)
    d = tl.arange(0, LATENT)
    e_sum, e_max = 0.0, -float("inf")
    acc = tl.zeros([LATENT], dtype=tl.float32)
    base = Mid_O + (cur_batch * q_head_num + cur_head) * NUM_KV_SPLITS * (LATENT + 1)
    for split in range(0, NUM_KV_SPLITS):
        per_split = tl.cdiv(seq_len, NUM_KV_SPLITS)
        start = per_split * split
        if tl.minimum(start + per_split, seq_len) > start:
            tv = tl.load(base + split * (LATENT + 1) + d)
            tlogic = tl.load(base + split * (LATENT + 1) + LATENT)
            n_max = tl.maximum(tlogic, e_max)
            old_scale, exp_logic = tl.exp(e_max - n_max), tl.exp(tlogic - n_max)
            acc = acc * old_scale + exp_logic * tv
            e_sum = e_sum * old_scale + exp_logic
            e_max = n_max
    if HAS_SINK:
        e_sum += tl.exp(tl.load(sinks + cur_head) - e_max)
    tl.store(O + (cur_batch * q_head_num + cur_head) * LATENT + d, acc / e_sum)


@pytest.mark.parametrize("heads,cap,sink", [(6, 0.0, False), (24, 20.0, True)])
def test_latent_decoding(heads, cap, sink, target):
    batch, latent, rope, page, splits = 3, 32, 16, 4, 3
    lengths = torch.tensor([1, 13, 30], dtype=torch.int32)
    cache = torch.randn(40 * page, 1, latent + rope, dtype=torch.bfloat16)
    table = torch.randperm(40)[:batch * 8].reshape(batch, 8).to(torch.int32)
    q = torch.randn(batch, heads, latent + rope, dtype=torch.bfloat16)
    mid, o = torch.empty(batch, heads, splits, latent + 1), torch.empty(batch, heads, latent, dtype=torch.bfloat16)
    sinks = torch.randn(heads) if sink else None
    block_h = 16
    grid = (batch, triton.cdiv(heads, min(block_h, heads)), splits)
    latent_decode_stage1[grid](q, cache, table, lengths, mid, 0.1, table.stride(0), cache.stride(0), kv_group_num=heads, q_head_num=heads,
                               BLOCK_H=block_h, LATENT=latent, ROPE=rope, BLOCK_N=16, NUM_KV_SPLITS=splits, PAGE_SIZE=page,
                               logit_cap=cap, num_warps=4, num_stages=2)
    latent_decode_stage2[(batch, heads)](mid, o, lengths, sinks, heads, NUM_KV_SPLITS=splits, LATENT=latent, HAS_SINK=sink)
    for b, length in enumerate(lengths.tolist()):
        at = [table[b, i // page].item() * page + i % page for i in range(length)]
        kv = cache[at, 0].double()
        s = q[b].double() @ kv.T * 0.1
        s = cap * torch.tanh(s / cap) if cap else s
        s = torch.cat([s, sinks.double()[:, None]], 1) if sink else s
        close(o[b], torch.softmax(s, -1)[:, :length] @ kv[:, :latent], 8)


# ---- int8 scores ------------------------------------------------------------------------------------


@triton.jit
def quantise_per_block_kernel(x, q, scale, L, sm_scale, C: tl.constexpr, BLK: tl.constexpr):
    block, bh = tl.program_id(0), tl.program_id(1)
    n, c = block * BLK + tl.arange(0, BLK), tl.arange(0, C)
    values = tl.load(x + (bh * L + n[:, None]) * C + c[None, :], mask=n[:, None] < L).to(tl.float32) * sm_scale
    values = tl.where(n[:, None] < L, values, 0.0)
    s = tl.max(tl.abs(values)) / 127. + 1e-7
    rounded = values / s
    rounded += 0.5 * tl.where(rounded >= 0, 1, -1)
    tl.store(q + (bh * L + n[:, None]) * C + c[None, :], rounded.to(tl.int8), mask=n[:, None] < L)
    tl.store(scale + bh * tl.num_programs(0) + block, s)


@triton.jit
def _int8_inner(acc, l_i, m_i, q, q_scale, kv_len, K_ptrs, K_scale_ptr, V_ptrs, start_m, stride, BLOCK_M: tl.constexpr, D: tl.constexpr,
                BLOCK_N: tl.constexpr, STAGE: tl.constexpr, offs_m, offs_n):
    if STAGE == 1:
        lo, hi = 0, start_m * BLOCK_M
    else:
        lo, hi = start_m * BLOCK_M, tl.minimum((start_m + 1) * BLOCK_M, kv_len)
        lo = tl.multiple_of(lo, BLOCK_M)
        K_scale_ptr += lo // BLOCK_N
        K_ptrs += stride * lo
        V_ptrs += stride * lo
    for start_n in range(lo, hi, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        k_mask = offs_n[None, :] < (kv_len - start_n)
        k = tl.load(K_ptrs, mask=k_mask)
        qk = tl.dot(q, k).to(tl.float32) * q_scale * tl.load(K_scale_ptr)
        if STAGE == 2:
            qk += tl.where(k_mask & (offs_m[:, None] >= (start_n + offs_n[None, :])), 0, -1.0e6)
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_ij[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(V_ptrs, mask=offs_n[:, None] < (kv_len - start_n), other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(tl.float16), v, out_dtype=tl.float16)
        m_i = m_ij
        K_ptrs += BLOCK_N * stride
        K_scale_ptr += 1
        V_ptrs += BLOCK_N * stride
    return acc, l_i, m_i


@triton.jit
def int8_attention_kernel(Q, K, V, Q_scale, K_scale, Out, n, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    start_m, bh = tl.program_id(0), tl.program_id(1).to(tl.int64)
    offs_m, offs_n, offs_k = start_m * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, D)
    base = bh * n * D
    q = tl.load(Q + base + offs_m[:, None] * D + offs_k[None, :], mask=offs_m[:, None] < n)
    q_scale = tl.load(Q_scale + bh * tl.cdiv(n, BLOCK_M) + start_m)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    K_ptrs, V_ptrs = K + base + offs_n[None, :] * D + offs_k[:, None], V + base + offs_n[:, None] * D + offs_k[None, :]
    K_scale += bh * tl.cdiv(n, BLOCK_N)
    acc, l_i, m_i = _int8_inner(acc, l_i, m_i, q, q_scale, n, K_ptrs, K_scale, V_ptrs, start_m, D, BLOCK_M, D, BLOCK_N, 1, offs_m, offs_n)
    acc, l_i, _ = _int8_inner(acc, l_i, m_i, q, q_scale, n, K_ptrs, K_scale, V_ptrs, start_m, D, BLOCK_M, D, BLOCK_N, 2, offs_m, offs_n)
    tl.store(Out + base + offs_m[:, None] * D + offs_k[None, :], (acc / l_i[:, None]).to(Out.type.element_ty), mask=offs_m[:, None] < n)


def test_int8_scores(target):
    bh, n, d = 2, 75, 32
    q, k, v = (torch.randn(bh, n, d, dtype=torch.float16) for _ in range(3))
    k -= k.mean(1, keepdim=True)
    q8, k8 = torch.empty(bh, n, d, dtype=torch.int8), torch.empty(bh, n, d, dtype=torch.int8)
    qs, ks = torch.empty(bh, triton.cdiv(n, 32)), torch.empty(bh, triton.cdiv(n, 16))
    quantise_per_block_kernel[(qs.shape[1], bh)](q, q8, qs, n, d**-0.5 * 1.44269504, C=d, BLK=32)
    quantise_per_block_kernel[(ks.shape[1], bh)](k, k8, ks, n, 1.0, C=d, BLK=16)
    out = torch.empty_like(q)
    int8_attention_kernel[(qs.shape[1], bh)](q8, k8, v, qs, ks, out, n, D=d, BLOCK_M=32, BLOCK_N=16)
    s = (q8.double() * qs.repeat_interleave(32, 1)[:, :n, None]) @ (k8.double() * ks.repeat_interleave(16, 1)[:, :n, None]).mT / 1.44269504
    s = s.masked_fill(torch.ones(n, n).triu(1).bool(), -float("inf"))
    close(out, torch.softmax(s, -1) @ v.double(), 8)


# ---- scores changed by functions of the user --------------------------------------------------------


@triton.jit
def no_change(score, b, h, i, j, extra):
    return score


@triton.jit
def relative_bias(score, b, h, i, j, extra):
    table, reach = extra
    return score + tl.load(table + h * (2 * reach + 1) + tl.clamp((j - i).to(tl.float32), -reach.to(tl.float32), reach.to(tl.float32)).to(tl.int32) + reach)


@triton.jit
def document_mask(b, h, i, j, extra):
    documents, n = extra
    return (tl.load(documents + i, mask=i < n, other=-1) == tl.load(documents + j, mask=j < n, other=-2)) & (i >= j)


@triton.jit
def window_with_prefix(b, h, i, j, extra):
    return ((i - j < extra.window) & (i >= j)) | (j < extra.prefix)


@triton.jit
def flexible_kernel(Q, K, V, Out, LSE, n, scale, score_extra, mask_extra, score_mod: tl.constexpr, mask_mod: tl.constexpr, H: tl.constexpr, D: tl.constexpr,
                    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, PRESCALE: tl.constexpr = False):
    bh = tl.program_id(1)
    b, h = bh // H, bh % H
    i, dims = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, D)
    q = tl.load(Q + (bh * n + i[:, None]) * D + dims[None, :], mask=i[:, None] < n, other=0.0)
    if PRESCALE:
        q = (q * scale).to(q.dtype)
    m, l, acc = tl.full([BLOCK_M], float("-inf"), tl.float32), tl.zeros([BLOCK_M], tl.float32), tl.zeros([BLOCK_M, D], tl.float32)
    for start in tl.range(0, n, BLOCK_N):
        j = start + tl.arange(0, BLOCK_N)
        k = tl.load(K + (bh * n + j[None, :]) * D + dims[:, None], mask=j[None, :] < n, other=0.0)
        s = tl.dot(q, k, input_precision="ieee")
        s = s if PRESCALE else s * scale
        s = score_mod(s, b, h, i[:, None], j[None, :], score_extra)
        s = tl.where(mask_mod(b, h, i[:, None], j[None, :], mask_extra) & (j < n)[None, :], s, float("-inf"))
        new = tl.maximum(m, tl.max(s, 1))
        shift = tl.where(new == float("-inf"), 0, new)
        alpha, p = tl.exp(m - shift), tl.exp(s - shift[:, None])
        l = l * alpha + tl.sum(p, 1)
        v = tl.load(V + (bh * n + j[:, None]) * D + dims[None, :], mask=j[:, None] < n, other=0.0)
        acc = tl.dot(p, v, acc * alpha[:, None], input_precision="ieee")
        m = new
    l = tl.where(l == 0.0, 1, l)
    tl.store(Out + (bh * n + i[:, None]) * D + dims[None, :], acc / l[:, None], mask=i[:, None] < n)
    tl.store(LSE + bh * n + i, m + tl.log(l), mask=i < n)


def flexible(q, k, v, score_mod, score_extra, mask_mod, mask_extra):
    batch, heads, n, d = q.shape
    out, lse = torch.empty_like(q), torch.empty(batch, heads, n)
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK_M"]), batch * heads)
    flexible_kernel[grid](q, k, v, out, lse, n, d**-0.5, score_extra, mask_extra, score_mod, mask_mod, H=heads, D=d, BLOCK_M=16, BLOCK_N=32)
    return out, lse


def test_functions_of_scores_and_masks(target):
    from collections import namedtuple
    batch, heads, n, d, reach = 1, 2, 45, 16, 4
    q, k, v = (torch.randn(batch, heads, n, d) for _ in range(3))
    s = q.double() @ k.double().mT * d**-0.5
    gap = torch.arange(n)[None] - torch.arange(n)[:, None]
    table, documents = torch.randn(heads, 2 * reach + 1), torch.tensor([0] * 11 + [1] * 20 + [2] * 14)
    out, lse = flexible(q, k, v, relative_bias, (table, reach), document_mask, (documents, n))
    biased = s + table.double()[:, gap.clamp(-reach, reach) + reach]
    biased = biased.masked_fill(~((documents[None] == documents[:, None]) & (gap <= 0)), -float("inf"))
    close(out, torch.softmax(biased, -1) @ v.double(), 64)
    close(lse, torch.logsumexp(biased, -1), 64)
    Window = namedtuple("Window", ["window", "prefix"])
    out, lse = flexible(q, k, v, no_change, None, window_with_prefix, Window(7, 3))
    seen = ((gap > -7) & (gap <= 0)) | (torch.arange(n) < 3)[None]
    masked = s.masked_fill(~seen, -float("inf"))
    close(out, torch.softmax(masked, -1) @ v.double(), 64)


def test_arrays_with_negative_strides(target):
    """Keys and values given backwards, as NumPy gives them; the strides are arguments."""
    n, d = 40, 16
    q, k, v = (np.random.default_rng(0).standard_normal((3, 1, n, d)).astype(np.float32))
    out = np.zeros_like(q)
    backward_kernel[(triton.cdiv(n, 16), )](q[0], k[0, ::-1], v[0, ::-1, ::-1], out[0], n, *(s // 4 for s in k[0, ::-1].strides), *(s // 4 for s in v[0, ::-1, ::-1].strides),
                                            D=d, BLOCK=16)
    s = torch.tensor(q[0].astype(np.float64) @ k[0, ::-1].T.astype(np.float64)) * d**-0.5
    close(torch.from_numpy(out[0]), torch.softmax(s, -1) @ torch.tensor(v[0, ::-1, ::-1].astype(np.float64)), 64)


@triton.jit
def backward_kernel(q_ptr, k_ptr, v_ptr, o_ptr, n, stride_kn, stride_kd, stride_vn, stride_vd, D: tl.constexpr, BLOCK: tl.constexpr):
    i, dims = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    q = tl.load(q_ptr + i[:, None] * D + dims[None, :], mask=i[:, None] < n, other=0.0)
    m, l, acc = tl.full([BLOCK], float("-inf"), tl.float32), tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK, D], tl.float32)
    k_block = tl.make_block_ptr(k_ptr, (D, n), (stride_kd, stride_kn), (0, 0), (D, BLOCK), (0, 1))
    v_block = tl.make_block_ptr(v_ptr, (n, D), (stride_vn, stride_vd), (0, 0), (BLOCK, D), (1, 0))
    for start in range(0, n, BLOCK):
        s = tl.dot(q, tl.load(k_block, boundary_check=(1, ), padding_option="zero"), input_precision="ieee") * D**-0.5
        s = tl.where((start + tl.arange(0, BLOCK) < n)[None, :], s, float("-inf"))
        new = tl.maximum(m, tl.max(s, 1))
        alpha, p = tl.exp(m - new), tl.exp(s - new[:, None])
        l = l * alpha + tl.sum(p, 1)
        acc = tl.dot(p, tl.load(v_block, boundary_check=(0, ), padding_option="zero"), acc * alpha[:, None], input_precision="ieee")
        m = new
        k_block, v_block = tl.advance(k_block, (0, BLOCK)), v_block.advance((BLOCK, 0))
    tl.store(o_ptr + i[:, None] * D + dims[None, :], acc / l[:, None], mask=i[:, None] < n)
