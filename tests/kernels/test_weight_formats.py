"""Products with weights in formats of their own: permuted and interleaved int4, tables of 16 values, base 3, structured sparsity, microscaling;
adapters of several ranks; groups of products whose tiles programs take from a counter."""

import nereid as triton
import nereid.language as tl
import pytest
import torch
from reference import TF32, close

# ---- int4 in the orders of its quantisers -----------------------------------------------------------


@triton.jit
def permuted_groups_kernel(a_ptr, b_ptr, c_ptr, scales_ptr, zeros_ptr, g_ptr, M, N, K, bits: tl.constexpr, stride_am, stride_ak, stride_bk, stride_bn,
                           stride_scales, stride_zeros, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                           GROUP_M: tl.constexpr):
    """Every row of the weights names its group: scales and zero points are gathered."""
    per_word: tl.constexpr = 32 // bits
    maxq: tl.constexpr = 2**bits - 1
    pid = tl.program_id(axis=0)
    num_pid_m, num_pid_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    pid_m, pid_n = tl.swizzle2d(pid // num_pid_n, pid % num_pid_n, num_pid_m, num_pid_n, GROUP_M)
    offs_am, offs_bn, offs_k = pid_m * BLOCK_M + tl.arange(0, BLOCK_M), pid_n * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    a_mask = offs_am[:, None] < M
    b_ptrs = b_ptr + ((offs_k[:, None] // per_word) * stride_bk + offs_bn[None, :] * stride_bn)
    g_ptrs = g_ptr + offs_k
    shifter, zeros_shifter = (offs_k % per_word) * bits, (offs_bn % per_word) * bits
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        g_idx = tl.load(g_ptrs)
        scales = tl.load(scales_ptr + offs_bn[None, :] + g_idx[:, None] * stride_scales, mask=offs_bn[None, :] < N, other=0.0)
        zeros = tl.load(zeros_ptr + (offs_bn[None, :] // per_word) + g_idx[:, None] * stride_zeros, mask=offs_bn[None, :] < N, other=0)
        zeros = (zeros >> zeros_shifter[None, :]) & maxq
        zeros = (zeros + 1) & maxq
        a = tl.load(a_ptrs, mask=a_mask, other=0.)
        b = tl.load(b_ptrs, mask=offs_bn[None, :] < N, other=0)
        b = (b >> shifter[:, None]) & maxq
        b = ((b - zeros) * scales).to(a.dtype)
        accumulator += tl.dot(a, b)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += (BLOCK_K // per_word) * stride_bk
        g_ptrs += BLOCK_K
    tl.store(c_ptr + offs_am[:, None] * N + offs_bn[None, :], accumulator.to(c_ptr.dtype.element_ty), mask=a_mask & (offs_bn[None, :] < N))


def packed(values, bits, dim):
    """Unsigned values, side by side in int32 along `dim`."""
    per = 32 // bits
    values = values.movedim(dim, -1).long()
    words = (values.reshape(*values.shape[:-1], -1, per) << (torch.arange(per) * bits)).sum(-1)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32).movedim(-1, dim).contiguous()


@pytest.mark.parametrize("bits", [4, 8, 2])
def test_permuted_groups(bits, target):
    M, N, K, groups = 11, 48, 64, 4
    a = torch.randn(M, K, dtype=torch.float16)
    values, zeros = torch.randint(0, 2**bits, (K, N)), torch.randint(0, 2**bits, (groups, N))
    scales, g_idx = torch.rand(groups, N, dtype=torch.float16) / 2**bits, torch.randint(0, groups, (K, ), dtype=torch.int32)
    b, z = packed(values, bits, 0), packed(zeros, bits, 1)
    c = torch.empty(M, N, dtype=torch.float16)
    grid = lambda META: (triton.cdiv(M, META['BLOCK_M']) * triton.cdiv(N, META['BLOCK_N']), )
    permuted_groups_kernel[grid](a, b, c, scales, z, g_idx, M, N, K, bits, *a.stride(), *b.stride(), scales.stride(0), z.stride(0), BLOCK_M=16,
                                 BLOCK_N=32, BLOCK_K=32, GROUP_M=2)
    weights = (values - ((zeros + 1) & (2**bits - 1))[g_idx.long()]) * scales.double()[g_idx.long()]
    close(c, a.double() @ weights.half().double(), 8)


@triton.jit
def interleaved_dequantise_kernel(qweight_ptr, scales_ptr, zeros_ptr, result_ptr, rows, cols, group_size, BLOCK_Y: tl.constexpr, BLOCK_X: tl.constexpr):
    """Eight values a word in the order 0 4 1 5 2 6 3 7; the order is made from `arange`, not loaded."""
    x, y = tl.program_id(axis=0) * BLOCK_X + tl.arange(0, BLOCK_X), tl.program_id(axis=1) * BLOCK_Y + tl.arange(0, BLOCK_Y)
    masks = (y < rows)[:, None] & (x < cols)[None, :]
    iweights = tl.load(qweight_ptr + cols * y[:, None] + x[None, :], masks, 0)
    iweights = tl.interleave(iweights, iweights)
    iweights = tl.interleave(iweights, iweights)
    iweights = tl.interleave(iweights, iweights)
    reverse_order = ((tl.arange(0, 2) * 4)[None, :] + tl.arange(0, 4)[:, None]).reshape(8)
    shifts = tl.reshape(tl.broadcast_to((reverse_order * 4)[None, :], (BLOCK_Y * BLOCK_X, 8)), (BLOCK_Y, BLOCK_X * 8))
    iweights = (iweights >> shifts) & 0xF
    group = y // group_size
    zeros = tl.load(zeros_ptr + group[:, None] * cols + x[None, :], masks, 0)
    zeros = tl.interleave(zeros, zeros)
    zeros = tl.interleave(zeros, zeros)
    zeros = tl.interleave(zeros, zeros)
    zeros = (zeros >> shifts) & 0xF
    wide = tl.program_id(axis=0) * BLOCK_X * 8 + tl.arange(0, BLOCK_X * 8)
    inside = (y < rows)[:, None] & (wide < cols * 8)[None, :]
    scales = tl.load(scales_ptr + group[:, None] * (cols * 8) + wide[None, :], inside, 0.0)
    tl.store(result_ptr + y[:, None] * (cols * 8) + wide[None, :], ((iweights - zeros) * scales).to(result_ptr.type.element_ty), inside)


def test_interleaved_int4(target):
    rows, cols, group = 37, 5, 16
    order = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])
    values, zeros = torch.randint(0, 16, (rows, cols, 8)), torch.randint(0, 16, (3, cols, 8))
    scales, out = torch.rand(3, cols * 8, dtype=torch.float16), torch.empty(rows, cols * 8, dtype=torch.float16)
    words = [packed(t[..., torch.argsort(order)], 4, 2)[..., 0].contiguous() for t in (values, zeros)]
    interleaved_dequantise_kernel[(triton.cdiv(cols, 4), triton.cdiv(rows, 16))](*words[:1], scales, words[1], out, rows, cols, group, BLOCK_X=4, BLOCK_Y=16)
    at = torch.arange(rows) // group
    want = (values - zeros[at]).reshape(rows, -1) * scales.double()[at]
    close(out, want, 1)


# ---- tables, base 3, structured sparsity ------------------------------------------------------------

NF4 = [-1.0, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0.0, 0.0795803, 0.1609302, 0.24611230, 0.33791524,
       0.44070983, 0.56261700, 0.72295684, 1.0]  # yapf: disable


@triton.jit
def _table_by_selection(code):
    low = tl.where(code & 1, -0.6961928, -1.0)
    for i in tl.static_range(1, 8):
        pair = tl.where(code & 1, _TABLE[2 * i + 1], _TABLE[2 * i])
        low = tl.where((code >> 1) == i, pair, low)
    return low


_TABLE = tl.constexpr(tuple(NF4))


@triton.jit
def normal_float_kernel(q_ptr, absmax8_ptr, code_ptr, absmax2_ptr, offset, table_ptr, out_ptr, n, BLOCK: tl.constexpr, INNER: tl.constexpr,
                        GATHER: tl.constexpr):
    """Two codes a byte, high first; the largest values of blocks are quantised themselves."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    packed = tl.load(q_ptr + i, mask=i < n // 2, other=0)
    block = i * 2 // INNER
    absmax = tl.load(code_ptr + tl.load(absmax8_ptr + block, mask=i < n // 2, other=0).to(tl.int32)) * tl.load(absmax2_ptr + block // 4, mask=i < n // 2, other=0.0) + offset
    high, low = (packed >> 4).to(tl.int32), (packed & 0xF).to(tl.int32)
    if GATHER:
        table = tl.load(table_ptr + tl.arange(0, 16))
        high, low = tl.gather(table, high, 0), tl.gather(table, low, 0)
    else:
        high, low = _table_by_selection(high), _table_by_selection(low)
    both = tl.interleave(high * absmax, low * absmax)
    wide = tl.program_id(0) * BLOCK * 2 + tl.arange(0, BLOCK * 2)
    tl.store(out_ptr + wide, both.to(out_ptr.dtype.element_ty), mask=wide < n)


@pytest.mark.parametrize("gather", [True, False])
def test_tables_of_values(gather, target):
    n, inner = 300, 16
    codes, table = torch.randint(0, 16, (n, )), torch.tensor(NF4)
    q = (codes[::2] * 16 + codes[1::2]).to(torch.uint8)
    absmax8, code, absmax2 = torch.randint(0, 256, (19, ), dtype=torch.uint8), torch.randn(256), torch.rand(5)
    out = torch.empty(n, dtype=torch.bfloat16)
    normal_float_kernel[(triton.cdiv(n, 128), )](q, absmax8, code, absmax2, 0.25, table, out, n, BLOCK=64, INNER=inner, GATHER=gather)
    block = torch.arange(n) // inner
    absmax = code.double()[absmax8.long()][block] * absmax2.double()[block // 4] + 0.25
    close(out, table.double()[codes] * absmax, 1)


@triton.jit
def base3_kernel(x_ptr, w_ptr, s_ptr, y_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Five weights of -1, 0, 1 in a byte, as digits of base 3, and int8 activations with a scale a row."""
    m, n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0)
        byte = tl.load(w_ptr + n[None, :] * tl.cdiv(K, 5) + (k // 5)[:, None], mask=(n[None, :] < N) & (k[:, None] < K), other=0).to(tl.int32)
        digit, power = k % 5, tl.full([BLOCK_K], 1, tl.int32)
        for step in tl.static_range(4):
            power = tl.where(digit > step, power * 3, power)
        w = (byte // power[:, None]) % 3 - 1
        acc = tl.dot(x, w.to(tl.int8), acc, out_dtype=tl.int32)
    y = acc.to(tl.float32) * tl.load(s_ptr + m, mask=m < M, other=0.0)[:, None]
    tl.store(y_ptr + m[:, None] * N + n[None, :], y.to(y_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


def test_digits_of_base_3(target):
    M, N, K = 13, 20, 75
    x, w, s = torch.randint(-128, 128, (M, K), dtype=torch.int8), torch.randint(-1, 2, (N, K)), torch.rand(M)
    bytes_ = ((w + 1).reshape(N, K // 5, 5) * 3**torch.arange(5)).sum(-1).to(torch.uint8)
    y = torch.empty(M, N, dtype=torch.bfloat16)
    base3_kernel[(1, 2)](x, bytes_, s, y, M, N, K, BLOCK_M=16, BLOCK_N=16, BLOCK_K=32)
    close(y, (x.double() @ w.double().T) * s.double()[:, None], 1)


@triton.jit
def two_of_four_kernel(values_ptr, meta_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Two of four weights are kept; a nibble says which. The dense block is made by comparing positions."""
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    for start in range(0, K, BK):
        half = start // 2 + tl.arange(0, BK // 2)
        kept = tl.load(values_ptr + m[:, None] * (K // 2) + half[None, :], mask=(m[:, None] < M) & (half[None, :] < K // 2), other=0.0)
        first, second = tl.split(tl.reshape(kept, (BM, BK // 4, 2)))
        quad = start // 4 + tl.arange(0, BK // 4)
        nibble = tl.load(meta_ptr + m[:, None] * (K // 4) + quad[None, :], mask=(m[:, None] < M) & (quad[None, :] < K // 4), other=0)
        at = tl.arange(0, 4)[None, None, :]
        dense = tl.where(at == (nibble & 3)[:, :, None], first[:, :, None], 0.0) + tl.where(at == (nibble >> 2)[:, :, None], second[:, :, None], 0.0)
        k = start + tl.arange(0, BK)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc += tl.dot(tl.reshape(dense, (BM, BK)).to(b.dtype), b)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_two_of_four(dtype, target):
    M, N, K = 19, 21, 56
    values, b, c = torch.randn(M, K // 2, dtype=dtype), torch.randn(K, N, dtype=dtype), torch.empty(M, N, dtype=dtype)
    places = torch.rand(M, K // 4, 4).argsort(-1)[..., :2].sort(-1).values
    meta = (places[..., 0] | places[..., 1] << 2).to(torch.uint8)
    dense = torch.zeros(M, K // 4, 4, dtype=torch.float64).scatter_(2, places, values.double().reshape(M, K // 4, 2)).reshape(M, K)
    two_of_four_kernel[(2, 2)](values, meta, b, c, M, N, K, BM=16, BN=16, BK=32)
    close(c, dense @ b.double(), 8, eps=TF32 if dtype == torch.float32 else None)


# ---- microscaling -----------------------------------------------------------------------------------


@triton.jit
def microscaled_kernel(a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr, M, N, K: tl.constexpr, A_FORMAT: tl.constexpr, B_FORMAT: tl.constexpr, BM: tl.constexpr,
                       BN: tl.constexpr, BK: tl.constexpr):
    A_PACK: tl.constexpr = 2 if A_FORMAT == "e2m1" else 1
    B_PACK: tl.constexpr = 2 if B_FORMAT == "e2m1" else 1
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    ka, kb, ks = tl.arange(0, BK // A_PACK), tl.arange(0, BK // B_PACK), tl.arange(0, BK // 32)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, K // BK, num_stages=2):
        a = tl.load(a_ptr + m[:, None] * (K // A_PACK) + ka[None, :] + k * (BK // A_PACK), mask=m[:, None] < M, other=0.0 if A_PACK == 1 else 0)
        b = tl.load(b_ptr + n[None, :] * (K // B_PACK) + kb[:, None] + k * (BK // B_PACK), mask=n[None, :] < N, other=0.0 if B_PACK == 1 else 0)
        a_scale = tl.load(a_scale_ptr + m[:, None] * (K // 32) + ks[None, :] + k * (BK // 32), mask=m[:, None] < M, other=127)
        if b_scale_ptr is not None:
            b_scale = tl.load(b_scale_ptr + n[:, None] * (K // 32) + ks[None, :] + k * (BK // 32), mask=n[:, None] < N, other=127)
        else:
            b_scale = None
        acc = tl.dot_scaled(a, a_scale, A_FORMAT, b, b_scale, B_FORMAT, acc)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)


@pytest.mark.parametrize("formats", [("e2m1", "e2m1"), ("e4m3", "e2m1"), ("e5m2", "bf16")])
def test_microscaling(formats, target):
    M, N, K = 19, 24, 128
    operands = []
    for rows, kind in zip((M, N), formats):
        scale = torch.randint(120, 132, (rows, K // 32), dtype=torch.uint8)
        if kind == "e2m1":
            codes = torch.randint(0, 16, (rows, K))
            data, plain = (codes[:, ::2] | codes[:, 1::2] << 4).to(torch.uint8), E2M1[codes]
        else:
            data = torch.randn(rows, K).to({"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "bf16": torch.bfloat16}[kind])
            plain = data.double()
        if kind == "bf16":
            scale = None
        else:
            plain = plain * (2.0**(scale.double() - 127)).repeat_interleave(32, 1)
        operands.append((data, scale, plain))
    (a, a_scale, a_plain), (b, b_scale, b_plain) = operands
    c = torch.empty(M, N)
    microscaled_kernel[(2, 2)](a, a_scale, b, b_scale, c, M, N, K, *formats, BM=16, BN=16, BK=64)
    close(c, a_plain @ b_plain.T, 8)


# ---- adapters of several ranks ----------------------------------------------------------------------


@triton.jit
def _adapter_tile(x_ptr, w_ptr, out_ptr, rows, n_rows, offs_n, N, K, stride_x, scale, ADD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    w_ptr = w_ptr.to(tl.pointer_type(x_ptr.dtype.element_ty))
    for k in range(0, K, BK):
        kk = k + tl.arange(0, BK)
        x = tl.load(x_ptr + rows[:, None] * stride_x + kk[None, :], mask=(tl.arange(0, BM)[:, None] < n_rows) & (kk[None, :] < K), other=0.0)
        w = tl.load(w_ptr + offs_n[None, :] * K + kk[:, None], mask=(offs_n[None, :] < N) & (kk[:, None] < K), other=0.0)
        acc += tl.dot(x, w, input_precision="ieee")
    acc *= scale
    pointers = out_ptr + rows[:, None] * N + offs_n[None, :]
    mask = (tl.arange(0, BM)[:, None] < n_rows) & (offs_n[None, :] < N)
    if ADD:
        acc += tl.load(pointers, mask=mask, other=0.0)
    tl.store(pointers, acc.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def adapters_kernel(x_ptr, addresses_ptr, ranks_ptr, scales_ptr, seg_starts_ptr, seg_adapters_ptr, sorted_rows_ptr, out_ptr, N, MAX_K, stride_x,
                    EXPAND: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """One segment of rows has one adapter; its rank is the width of the result, or the depth of the product."""
    segment = tl.program_id(1)
    adapter = tl.load(seg_adapters_ptr + segment)
    if adapter == -1:
        return
    rank = tl.load(ranks_ptr + adapter)
    start, end = tl.load(seg_starts_ptr + segment), tl.load(seg_starts_ptr + segment + 1)
    pid_n = tl.program_id(0)
    if not EXPAND and pid_n * BN >= rank:
        return
    width = N if EXPAND else rank
    depth = rank if EXPAND else MAX_K
    w = tl.load(addresses_ptr + adapter)
    offs_n = pid_n * BN + tl.arange(0, BN)
    for first in tl.range(start, end, BM):
        i = first + tl.arange(0, BM)
        rows = tl.load(sorted_rows_ptr + i, mask=i < end, other=0)
        scale = tl.load(scales_ptr + adapter) if EXPAND else 1.0
        if EXPAND:
            _adapter_tile(x_ptr, w, out_ptr, rows, end - first, offs_n, width, depth, stride_x, scale, True, BM, BN, BK)
        else:
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            w_typed = w.to(tl.pointer_type(x_ptr.dtype.element_ty))
            for k in range(0, depth, BK):
                kk = k + tl.arange(0, BK)
                x = tl.load(x_ptr + rows[:, None] * stride_x + kk[None, :], mask=(i[:, None] < end) & (kk[None, :] < depth), other=0.0)
                ww = tl.load(w_typed + offs_n[None, :] * depth + kk[:, None], mask=(offs_n[None, :] < rank) & (kk[:, None] < depth), other=0.0)
                acc += tl.dot(x, ww, input_precision="ieee")
            tl.store(out_ptr + rows[:, None] * N + offs_n[None, :], acc.to(out_ptr.dtype.element_ty), mask=(i[:, None] < end) & (offs_n[None, :] < N))


@pytest.mark.not_in_mode("checked", "its addresses come from memory, and lead to none of the arguments")
@pytest.mark.cpu_only("addresses of the host in arrays")
def test_adapters_of_several_ranks(target):
    """The matrices are found by addresses, which are those of the host here."""
    tokens, width, out_width, ranks = 33, 40, 50, [8, 16, 3]
    adapters = [-1, 2, 0, 1]
    starts, rows = torch.tensor([0, 4, 21, 22, 33], dtype=torch.int32), torch.randperm(tokens).to(torch.int32)
    A, B = [torch.randn(r, width) for r in ranks], [torch.randn(out_width, r) for r in ranks]
    x, base, scales = torch.randn(tokens, width), torch.randn(tokens, out_width), torch.rand(3)
    middle, out = torch.zeros(tokens, 16), base.clone()
    common = (torch.tensor(ranks, dtype=torch.int32), scales, starts, torch.tensor(adapters, dtype=torch.int32), rows)
    adapters_kernel[(1, 4)](x, torch.tensor([t.data_ptr() for t in A]), *common, middle, 16, width, x.stride(0), EXPAND=False, BM=16, BN=16, BK=16)
    adapters_kernel[(triton.cdiv(out_width, 32), 4)](middle, torch.tensor([t.data_ptr() for t in B]), *common, out, out_width, 16, 16, EXPAND=True, BM=16,
                                                     BN=32, BK=16)
    want = base.double()
    for s, adapter in enumerate(adapters):
        at = rows[starts[s]:starts[s + 1]].long()
        if adapter >= 0:
            want[at] += scales[adapter].double() * (x[at].double() @ A[adapter].double().T @ B[adapter].double().T)
    close(out, want, 64)


# ---- tiles taken from a counter ---------------------------------------------------------------------


@triton.jit
def counted_tiles_kernel(a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr, sizes_ptr, counter_ptr, N, K, groups, NUM_TILES_N: tl.constexpr, BM: tl.constexpr,
                         BN: tl.constexpr, BK: tl.constexpr):
    """Persistent programs over ragged groups of rows: fp8 with scales by 1 x BK and BN x BK, the next tile from an atomic counter."""
    tile = tl.atomic_add(counter_ptr, 1, sem="relaxed")
    group, first_tile, first_row = 0, 0, 0
    while group < groups:
        rows = tl.load(sizes_ptr + group)
        tiles = tl.cdiv(rows, BM) * NUM_TILES_N
        while tile >= first_tile and tile < first_tile + tiles:
            here = tile - first_tile
            m, n = (here // NUM_TILES_N) * BM + tl.arange(0, BM), (here % NUM_TILES_N) * BN + tl.arange(0, BN)
            row = first_row + m
            acc = tl.zeros((BM, BN), tl.float32)
            for k in range(0, tl.cdiv(K, BK)):
                kk = k * BK + tl.arange(0, BK)
                a = tl.load(a_ptr + row[:, None] * K + kk[None, :], mask=(m < rows)[:, None] & (kk < K)[None, :], other=0.0)
                b = tl.load(b_ptr + (group.to(tl.int64) * N + n[None, :]) * K + kk[:, None], mask=(n < N)[None, :] & (kk < K)[:, None], other=0.0)
                a_scale = tl.load(a_scale_ptr + row * tl.cdiv(K, BK) + k, mask=m < rows, other=0.0)
                b_scale = tl.load(b_scale_ptr + (group * NUM_TILES_N + here % NUM_TILES_N) * tl.cdiv(K, BK) + k)
                acc += tl.dot(a, b) * a_scale[:, None] * b_scale
            tl.store(c_ptr + row[:, None] * N + n[None, :], acc.to(c_ptr.dtype.element_ty), mask=(m < rows)[:, None] & (n < N)[None, :])
            tile = tl.atomic_add(counter_ptr, 1, sem="relaxed")
        first_tile += tiles
        first_row += rows
        group += 1


def test_tiles_from_a_counter(target):
    sizes, N, K, block = torch.tensor([5, 0, 33, 17], dtype=torch.int32), 40, 70, 32
    rows, parts = int(sizes.sum()), triton.cdiv(K, block)
    a, b = torch.randn(rows, K).to(torch.float8_e4m3fn), torch.randn(4, N, K).to(torch.float8_e4m3fn)
    a_scale, b_scale, c = torch.rand(rows, parts), torch.rand(4, triton.cdiv(N, 16), parts), torch.empty(rows, N, dtype=torch.bfloat16)
    counted_tiles_kernel[(3, )](a, a_scale, b, b_scale, c, sizes, torch.zeros(1, dtype=torch.int32), N, K, 4, NUM_TILES_N=triton.cdiv(N, 16), BM=16, BN=16, BK=block)
    wide = lambda t: t.double().repeat_interleave(block, -1)[..., :K]
    weights = b.double() * wide(b_scale).repeat_interleave(16, 1)[:, :N]
    owner = torch.repeat_interleave(torch.arange(4), sizes.long())
    close(c, torch.einsum("mk,mnk->mn", a.double() * wide(a_scale), weights[owner]), 4)
