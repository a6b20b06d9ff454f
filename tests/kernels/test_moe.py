"""Mixtures of experts and other grouped products: sorting tokens by expert, products over sorted tokens, pointers in memory."""

import nereid as triton
import nereid.language as tl
import pytest
import torch
from reference import close


@triton.jit
def topk_softmax_kernel(gates_ptr, weights_ptr, ids_ptr, stride_g, num_experts, TOPK: tl.constexpr, RENORM: tl.constexpr,
                        BLOCK_E: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_E)
    mask = cols < num_experts
    logits = tl.load(gates_ptr + row * stride_g + cols, mask=mask, other=-float("inf")).to(tl.float32)
    probs = tl.exp(logits - tl.max(logits, 0))
    probs = probs / tl.sum(probs, 0)
    left = probs
    total = 0.0
    for k in tl.static_range(TOPK):
        value, index = tl.max(left, axis=0, return_indices=True, return_indices_tie_break_left=True)
        tl.store(weights_ptr + row * TOPK + k, value)
        tl.store(ids_ptr + row * TOPK + k, index)
        total += value
        left = tl.where(cols == index, -1.0, left)
    if RENORM:
        tl.debug_barrier()
        offs = row * TOPK + tl.arange(0, TOPK)
        tl.store(weights_ptr + offs, tl.load(weights_ptr + offs) / total)


@triton.jit
def moe_align_block_size_stage1(topk_ids_ptr, tokens_cnts_ptr, num_experts: tl.constexpr, numel: tl.constexpr,
                                tokens_per_thread: tl.constexpr):
    pid = tl.program_id(0)
    start_idx = pid * tokens_per_thread
    off_c = (pid + 1) * num_experts
    for i in range(tokens_per_thread):
        if start_idx + i < numel:
            idx = tl.load(topk_ids_ptr + start_idx + i)
            token_cnt = tl.load(tokens_cnts_ptr + off_c + idx)
            tl.store(tokens_cnts_ptr + off_c + idx, token_cnt + 1)


@triton.jit
def moe_align_block_size_stage2(tokens_cnts_ptr, num_experts: tl.constexpr):
    pid = tl.program_id(0)
    last_cnt = 0
    for i in range(1, num_experts + 1):
        token_cnt = tl.load(tokens_cnts_ptr + i * num_experts + pid)
        last_cnt = last_cnt + token_cnt
        tl.store(tokens_cnts_ptr + i * num_experts + pid, last_cnt)


@triton.jit
def moe_align_block_size_stage3(total_tokens_post_pad_ptr, tokens_cnts_ptr, cumsum_ptr, num_experts: tl.constexpr,
                                block_size: tl.constexpr):
    last_cumsum = 0
    off_cnt = num_experts * num_experts
    for i in range(1, num_experts + 1):
        token_cnt = tl.load(tokens_cnts_ptr + off_cnt + i - 1)
        last_cumsum = last_cumsum + tl.cdiv(token_cnt, block_size) * block_size
        tl.store(cumsum_ptr + i, last_cumsum)
    tl.store(total_tokens_post_pad_ptr, last_cumsum)


@triton.jit
def moe_align_block_size_stage4(topk_ids_ptr, sorted_token_ids_ptr, expert_ids_ptr, tokens_cnts_ptr, cumsum_ptr,
                                num_experts: tl.constexpr, block_size: tl.constexpr, numel: tl.constexpr,
                                tokens_per_thread: tl.constexpr):
    pid = tl.program_id(0)
    start_idx = tl.load(cumsum_ptr + pid)
    end_idx = tl.load(cumsum_ptr + pid + 1)
    for i in range(start_idx, end_idx, block_size):
        tl.store(expert_ids_ptr + i // block_size, pid)
    start_idx = pid * tokens_per_thread
    off_t = pid * num_experts
    for i in range(start_idx, tl.minimum(start_idx + tokens_per_thread, numel)):
        expert_id = tl.load(topk_ids_ptr + i)
        token_cnt = tl.load(tokens_cnts_ptr + off_t + expert_id)
        rank_post_pad = token_cnt + tl.load(cumsum_ptr + expert_id)
        tl.store(sorted_token_ids_ptr + rank_post_pad, i)
        tl.store(tokens_cnts_ptr + off_t + expert_id, token_cnt + 1)


@triton.jit
def write_zeros_to_output(c_ptr, stride_cm, stride_cn, pid_n, N, offs_token, token_mask, BLOCK_SIZE_M, BLOCK_SIZE_N, compute_type):
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=compute_type)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + stride_cm * offs_token[:, None] + stride_cn * offs_cn[None, :]
    c_mask = token_mask[:, None] & (offs_cn[None, :] < N)
    tl.store(c_ptrs, accumulator, mask=c_mask)


@triton.jit
def fused_moe_kernel(a_ptr, b_ptr, c_ptr, b_scale_ptr, topk_weights_ptr, sorted_token_ids_ptr, expert_ids_ptr,
                     num_tokens_post_padded_ptr, N, K, EM, num_valid_tokens, stride_am, stride_ak, stride_be, stride_bk, stride_bn,
                     stride_cm, stride_cn, stride_bse, stride_bsn, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr,
                     BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr, MUL_ROUTED_WEIGHT: tl.constexpr, top_k: tl.constexpr,
                     compute_type: tl.constexpr, use_int8_w8a16: tl.constexpr):
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(EM, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m

    num_tokens_post_padded = tl.load(num_tokens_post_padded_ptr)
    if pid_m * BLOCK_SIZE_M >= num_tokens_post_padded:
        return
    offs_token_id = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M).to(tl.int64)
    offs_token = tl.load(sorted_token_ids_ptr + offs_token_id)
    token_mask = offs_token < num_valid_tokens

    off_experts = tl.load(expert_ids_ptr + pid_m).to(tl.int64)
    if off_experts == -1:
        # An expert that lives elsewhere: nothing is added.
        write_zeros_to_output(c_ptr, stride_cm, stride_cn, pid_n, N, offs_token, token_mask, BLOCK_SIZE_M, BLOCK_SIZE_N, compute_type)
        return

    offs_bn = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N).to(tl.int64)) % N
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + (offs_token[:, None] // top_k * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + off_experts * stride_be + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    if use_int8_w8a16:
        b_scale_ptrs = b_scale_ptr + off_experts * stride_bse + offs_bn[None, :] * stride_bsn
        b_scale = tl.load(b_scale_ptrs)

    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        a = tl.load(a_ptrs, mask=token_mask[:, None] & (offs_k[None, :] < K - k * BLOCK_SIZE_K), other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0.0)
        if use_int8_w8a16:
            accumulator = tl.dot(a, b.to(compute_type), acc=accumulator)
        else:
            accumulator += tl.dot(a, b)
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk
    if MUL_ROUTED_WEIGHT:
        moe_weight = tl.load(topk_weights_ptr + offs_token, mask=token_mask, other=0)
        accumulator = accumulator * moe_weight[:, None]
    if use_int8_w8a16:
        accumulator = (accumulator * b_scale).to(compute_type)
    else:
        accumulator = accumulator.to(compute_type)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + stride_cm * offs_token[:, None] + stride_cn * offs_cn[None, :]
    c_mask = token_mask[:, None] & (offs_cn[None, :] < N)
    tl.store(c_ptrs, accumulator, mask=c_mask)


def aligned(ids, experts, block):
    """Tokens in the order of their experts, each expert padded to whole blocks; the expert of each block; the count."""
    numel = ids.numel()
    ordered = torch.full((numel + experts * (block - 1), ), numel, dtype=torch.int32)
    blocks = torch.full((triton.cdiv(ordered.numel(), block), ), -7, dtype=torch.int32)
    count = torch.empty(1, dtype=torch.int32)
    counts = torch.zeros(experts + 1, experts, dtype=torch.int32)
    cumsum = torch.zeros(experts + 1, dtype=torch.int32)
    each = triton.cdiv(numel, experts)
    grid = (experts, )
    moe_align_block_size_stage1[grid](ids, counts, experts, numel, each)
    moe_align_block_size_stage2[grid](counts, experts)
    moe_align_block_size_stage3[(1, )](count, counts, cumsum, experts, block)
    moe_align_block_size_stage4[grid](ids, ordered, blocks, counts, cumsum, experts, block, numel, each)
    return ordered, blocks, count


@pytest.mark.parametrize("weights", ["fp16", "int8"])
def test_fused_moe(weights, target):
    tokens, experts, top_k, n, k, block = 37, 8, 2, 70, 90, 16
    x, gates = torch.randn(tokens, k).half(), torch.randn(tokens, experts)
    probs, ids = torch.empty(tokens, top_k), torch.empty(tokens, top_k, dtype=torch.int32)
    topk_softmax_kernel[(tokens, )](gates, probs, ids, gates.stride(0), experts, TOPK=top_k, RENORM=True, BLOCK_E=8)
    want_p, want_i = torch.softmax(gates.double(), 1).topk(top_k)
    close(ids, want_i)
    close(probs, want_p / want_p.sum(1, keepdim=True))
    ordered, blocks, count = aligned(ids, experts, block)
    sizes = ids.flatten().bincount(minlength=experts)
    assert count == ((sizes + block - 1) // block * block).sum()
    blocks[0] = -1  # this expert is elsewhere
    w = torch.randn(experts, n, k).half() if weights == "fp16" else torch.randint(-127, 128, (experts, n, k), dtype=torch.int8)
    scale = torch.rand(experts, n) * 0.02 if weights == "int8" else None
    c = torch.full((tokens, top_k, n), 9.0, dtype=torch.float16)
    grid = lambda META: (triton.cdiv(ordered.numel(), META['BLOCK_SIZE_M']) * triton.cdiv(n, META['BLOCK_SIZE_N']), )
    fused_moe_kernel[grid](x, w, c, scale, probs, ordered, blocks, count, n, k, ordered.numel(), ids.numel(), x.stride(0), x.stride(1),
                           w.stride(0), w.stride(2), w.stride(1), c.stride(1), c.stride(2), scale.stride(0) if weights == "int8" else 0,
                           scale.stride(1) if weights == "int8" else 0, BLOCK_SIZE_M=block, BLOCK_SIZE_N=32, BLOCK_SIZE_K=32,
                           GROUP_SIZE_M=2, MUL_ROUTED_WEIGHT=True, top_k=top_k, compute_type=tl.float16,
                           use_int8_w8a16=weights == "int8")
    full = w.double() * (scale.double()[..., None] if weights == "int8" else 1)
    want = torch.einsum("tk,tjnk->tjn", x.double(), full[ids.long()]) * probs.double()[..., None]
    gone = torch.zeros(ids.numel(), dtype=torch.bool)
    first = ordered[:block]
    gone[first[first < ids.numel()].long()] = True
    want[gone.view(tokens, top_k)] = 0
    close(c, want, 8)


@triton.jit
def grouped_matmul_kernel(group_a_ptrs, group_b_ptrs, group_c_ptrs, group_gemm_sizes, g_lds, group_size, NUM_SM: tl.constexpr,
                          BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr):
    """Matrices by their addresses in memory; a persistent loop over the tiles of all products."""
    tile_idx = tl.program_id(0)
    last_problem_end = 0
    for g in range(group_size):
        gm = tl.load(group_gemm_sizes + g * 3)
        gn = tl.load(group_gemm_sizes + g * 3 + 1)
        gk = tl.load(group_gemm_sizes + g * 3 + 2)
        num_m_tiles = tl.cdiv(gm, BLOCK_SIZE_M)
        num_n_tiles = tl.cdiv(gn, BLOCK_SIZE_N)
        num_tiles = num_m_tiles * num_n_tiles
        while (tile_idx >= last_problem_end and tile_idx < last_problem_end + num_tiles):
            k = gk
            lda = tl.load(g_lds + g * 3)
            ldb = tl.load(g_lds + g * 3 + 1)
            ldc = tl.load(g_lds + g * 3 + 2)
            a_ptr = tl.load(group_a_ptrs + g).to(tl.pointer_type(tl.float16))
            b_ptr = tl.load(group_b_ptrs + g).to(tl.pointer_type(tl.float16))
            c_ptr = tl.load(group_c_ptrs + g).to(tl.pointer_type(tl.float16))
            tile_idx_in_gemm = tile_idx - last_problem_end
            tile_m_idx = tile_idx_in_gemm // num_n_tiles
            tile_n_idx = tile_idx_in_gemm % num_n_tiles
            offs_am = tile_m_idx * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
            offs_bn = tile_n_idx * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
            offs_k = tl.arange(0, BLOCK_SIZE_K)
            a_ptrs = a_ptr + offs_am[:, None] * lda + offs_k[None, :]
            b_ptrs = b_ptr + offs_k[:, None] * ldb + offs_bn[None, :]
            accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
            for kk in range(0, tl.cdiv(k, BLOCK_SIZE_K)):
                tl.multiple_of(a_ptrs, [16, 16])
                tl.multiple_of(b_ptrs, [16, 16])
                a = tl.load(a_ptrs)
                b = tl.load(b_ptrs)
                accumulator += tl.dot(a, b)
                a_ptrs += BLOCK_SIZE_K
                b_ptrs += BLOCK_SIZE_K * ldb
            c = accumulator.to(tl.float16)
            offs_cm = tile_m_idx * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
            offs_cn = tile_n_idx * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
            c_ptrs = c_ptr + ldc * offs_cm[:, None] + offs_cn[None, :]
            tl.store(c_ptrs, c)
            tile_idx += NUM_SM
        last_problem_end = last_problem_end + num_tiles


@pytest.mark.not_in_mode("checked", "its addresses come from memory, and lead to none of the arguments")
@pytest.mark.not_emulated("its addresses come from memory, and lead to none of the arguments")
def test_grouped_by_addresses(target):
    sizes = [(64, 32, 64), (32, 96, 32), (128, 32, 96)]
    device = "cuda" if target == "cuda" and torch.cuda.is_available() else "cpu"
    a = [torch.randn(m, k).half().to(device) for m, n, k in sizes]
    b = [torch.randn(k, n).half().to(device) for m, n, k in sizes]
    c = [torch.empty(m, n, dtype=torch.float16, device=device) for m, n, k in sizes]
    addresses = lambda tensors: torch.tensor([t.data_ptr() for t in tensors], dtype=torch.int64, device=device)
    strides = [s for x, y, z in zip(a, b, c) for s in (x.stride(0), y.stride(0), z.stride(0))]
    grouped_matmul_kernel[lambda META: (META['NUM_SM'], )](
        addresses(a), addresses(b), addresses(c), torch.tensor(sizes, dtype=torch.int32, device=device),
        torch.tensor(strides, dtype=torch.int32, device=device), len(sizes), NUM_SM=3, BLOCK_SIZE_M=32, BLOCK_SIZE_N=32, BLOCK_SIZE_K=32)
    for x, y, z in zip(a, b, c):
        close(z.cpu(), x.cpu().double() @ y.cpu().double(), 4)


@triton.jit
def grouped_mm_jagged(x_ptr, w_ptr, y_ptr, offs_ptr, G: tl.constexpr, N, K, NUM_SMS, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                      BLOCK_K: tl.constexpr):
    """Rows of x in groups that end at `offs`, each with its own w."""
    tidx = tl.program_id(0)
    iterated_tiles = 0
    m_end = 0
    for g in tl.range(G):
        m_start = m_end
        m_end = tl.load(offs_ptr + g)
        m_size = m_end - m_start
        if m_size > 0:
            num_m_tiles = tl.cdiv(m_size, BLOCK_M)
            num_n_tiles = tl.cdiv(N, BLOCK_N)
            num_tiles = num_m_tiles * num_n_tiles
            while tidx >= iterated_tiles and tidx < iterated_tiles + num_tiles:
                gidx = tidx - iterated_tiles
                tile_m_idx = gidx % num_m_tiles
                tile_n_idx = gidx // num_m_tiles
                rm = tile_m_idx * BLOCK_M + tl.arange(0, BLOCK_M)
                rn = tile_n_idx * BLOCK_N + tl.arange(0, BLOCK_N)
                acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
                for k0 in range(0, K, BLOCK_K):
                    rk = k0 + tl.arange(0, BLOCK_K)
                    x = tl.load(x_ptr + (m_start + rm)[:, None] * K + rk[None, :], mask=(rm < m_size)[:, None] & (rk < K)[None, :],
                                other=0)
                    w = tl.load(w_ptr + g.to(tl.int64) * N * K + rn[None, :] * K + rk[:, None],
                                mask=(rn < N)[None, :] & (rk < K)[:, None], other=0)
                    acc += tl.dot(x, w)
                tl.store(y_ptr + (m_start + rm)[:, None] * N + rn[None, :], acc.to(y_ptr.dtype.element_ty),
                         mask=(rm < m_size)[:, None] & (rn < N)[None, :])
                tidx += NUM_SMS
            iterated_tiles += num_tiles


def test_grouped_rows(target):
    ends = torch.tensor([20, 20, 65, 70], dtype=torch.int32)
    n, k = 50, 72
    x, w = torch.randn(70, k).bfloat16(), torch.randn(4, n, k).bfloat16()
    y = torch.empty(70, n, dtype=torch.bfloat16)
    grouped_mm_jagged[(3, )](x, w, y, ends, 4, n, k, 3, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
    which = torch.bucketize(torch.arange(70), ends, right=True)
    close(y, torch.einsum("mk,mnk->mn", x.double(), w.double()[which]), 4)
