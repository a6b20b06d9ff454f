"""Products of quantised matrices: int8, fp8 with scales by row and by block, int4 packed into int32, with zero points and groups."""

import nereid as triton
import nereid.language as tl
import pytest
import torch
from reference import close


@triton.jit
def scaled_int8_kernel(a_ptr, b_ptr, scale_a_ptr, scale_b_ptr, c_ptr, bias_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
                       ACCUMULATOR_DTYPE: tl.constexpr, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr,
                       BLOCK_SIZE_K: tl.constexpr, BLOCK_SIZE_SCALE_A: tl.constexpr, BLOCK_SIZE_SCALE_B: tl.constexpr):
    pid = tl.program_id(axis=0)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    pid_m = pid // num_pid_n
    pid_n = pid % num_pid_n
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=ACCUMULATOR_DTYPE)
    offsets_am = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M).to(tl.int64)
    masks_am = offsets_am < M
    offsets_bn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N).to(tl.int64)
    masks_bn = offsets_bn < N
    offsets_k = tl.arange(0, BLOCK_SIZE_K).to(tl.int64)
    # Scales of one row, or one for all.
    offsets_scale_am = tl.arange(0, BLOCK_SIZE_SCALE_A) + (BLOCK_SIZE_SCALE_A > 1) * pid_m * BLOCK_SIZE_M
    masks_scale_am = offsets_scale_am < M
    offsets_scale_bn = tl.arange(0, BLOCK_SIZE_SCALE_B) + (BLOCK_SIZE_SCALE_B > 1) * pid_n * BLOCK_SIZE_N
    masks_scale_bn = offsets_scale_bn < N
    a_ptrs = a_ptr + stride_am * offsets_am[:, None] + stride_ak * offsets_k[None, :]
    b_ptrs = b_ptr + stride_bk * offsets_k[:, None] + stride_bn * offsets_bn[None, :]
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        masks_k = offsets_k < K
        a = tl.load(a_ptrs, mask=masks_am[:, None] & masks_k[None, :])
        b = tl.load(b_ptrs, mask=masks_k[:, None] & masks_bn[None, :])
        accumulator = tl.dot(a, b, accumulator, out_dtype=ACCUMULATOR_DTYPE)
        offsets_k += BLOCK_SIZE_K
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk
    scale_a = tl.load(scale_a_ptr + offsets_scale_am[:, None], masks_scale_am[:, None])
    scale_a = scale_a.broadcast_to((BLOCK_SIZE_M, 1))
    accumulator = scale_a * accumulator.to(tl.float32)
    scale_b = tl.load(scale_b_ptr + offsets_scale_bn[:, None], masks_scale_bn[:, None])
    scale_b = scale_b.broadcast_to((BLOCK_SIZE_N, 1))
    accumulator = scale_b.T * accumulator.to(tl.float32)
    c = accumulator.to(c_ptr.type.element_ty)
    if bias_ptr:
        c += tl.load(bias_ptr + offsets_bn, masks_bn)
    offs_cm = (pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)).to(tl.int64)
    offs_cn = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)).to(tl.int64)
    c_ptrs = c_ptr + N * offs_cm[:, None] + offs_cn[None, :]
    tl.store(c_ptrs, c, mask=(offs_cm[:, None] < M) & (offs_cn[None, :] < N))


@pytest.mark.not_in_mode("checked", "it adds up masked-off elements, which its author left undefined: checked mode shows them")
@pytest.mark.parametrize("per_row", [True, False])
@pytest.mark.parametrize("kind", ["int8", "fp8"])
def test_scaled(kind, per_row, target):
    m, n, k = 45, 80, 150
    if kind == "int8":
        a, b = torch.randint(-128, 128, (m, k), dtype=torch.int8), torch.randint(-128, 128, (n, k), dtype=torch.int8).t()
    else:
        a, b = torch.randn(m, k).to(torch.float8_e4m3fn), torch.randn(n, k).to(torch.float8_e4m3fn).t()
    sa, sb = torch.rand(m if per_row else 1, 1) + 0.1, torch.rand(n if per_row else 1, 1) + 0.1
    bias = torch.randn(n).bfloat16() if per_row else None
    c = torch.empty(m, n, dtype=torch.bfloat16)
    scaled_int8_kernel[(2 * 3, )](a, b, sa, sb, c, bias, m, n, k, *a.stride(), *b.stride(), tl.int32 if kind == "int8" else tl.float32, 32,
                                  32, 64, 32 if per_row else 1, 32 if per_row else 1)
    want = (a.double() * sa.double()) @ (b.double() * sb.double().t())
    close(c, want + (bias.double() if bias is not None else 0), 4)


@triton.jit
def block_fp8_kernel(A, B, C, As, Bs, M, N, K, group_n, group_k, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                     stride_As_m, stride_As_k, stride_Bs_k, stride_Bs_n, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr,
                     BLOCK_SIZE_K: tl.constexpr):
    """A has a scale for each row and group of K, B one for each block of both."""
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    offs_am = (pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)) % M
    offs_bn = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)) % N
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = A + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = B + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    As_ptrs = As + offs_am * stride_As_m
    offs_bsn = offs_bn // group_n
    Bs_ptrs = Bs + offs_bsn * stride_Bs_n
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0.0)
        k_start = k * BLOCK_SIZE_K
        offs_ks = k_start // group_k
        a_s = tl.load(As_ptrs + offs_ks * stride_As_k)
        b_s = tl.load(Bs_ptrs + offs_ks * stride_Bs_k)
        accumulator += tl.dot(a, b) * a_s[:, None] * b_s[None, :]
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk
    if C.dtype.element_ty == tl.bfloat16:
        c = accumulator.to(tl.bfloat16)
    elif C.dtype.element_ty == tl.float16:
        c = accumulator.to(tl.float16)
    else:
        c = accumulator.to(tl.float32)
    offs_cm = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = C + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptrs, c, mask=c_mask)


@triton.jit
def _per_token_group_quant_fp8(y_ptr, y_q_ptr, y_s_ptr, group_size, y_num_columns, y_row_stride, eps, fp8_min, fp8_max,
                               use_ue8m0: tl.constexpr, BLOCK: tl.constexpr):
    groups_per_row = y_num_columns // group_size
    g_id = tl.program_id(0)
    row = g_id // groups_per_row
    row_g_id = g_id % groups_per_row
    y_ptr += (row.to(tl.int64) * y_row_stride) + (row_g_id * group_size)
    y_q_ptr += g_id.to(tl.int64) * group_size
    y_s_ptr += g_id
    cols = tl.arange(0, BLOCK)
    mask = cols < group_size
    y = tl.load(y_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    _absmax = tl.maximum(tl.max(tl.abs(y)), eps)
    scale_raw = _absmax / fp8_max
    y_s = tl.math.exp2(tl.ceil(tl.log2(scale_raw))) if use_ue8m0 else scale_raw
    y_q = tl.clamp(y / y_s, fp8_min, fp8_max).to(y_q_ptr.dtype.element_ty)
    tl.store(y_q_ptr + cols, y_q, mask=mask)
    tl.store(y_s_ptr, y_s)


@pytest.mark.parametrize("ue8m0", [True, False])
def test_block_scaled_fp8(ue8m0, target):
    m, n, k, group = 40, 90, 160, 32
    x, w = torch.randn(m, k) * torch.rand(m, 1) * 10, torch.randn(n, k)
    xq, xs = torch.empty(m, k, dtype=torch.float8_e4m3fn), torch.empty(m, k // group)
    finfo = torch.finfo(torch.float8_e4m3fn)
    _per_token_group_quant_fp8[(m * k // group, )](x, xq, xs, group, k, k, 1e-10, finfo.min, finfo.max, use_ue8m0=ue8m0, BLOCK=32,
                                                   num_warps=1, num_stages=1)
    want_s = x.double().abs().view(m, -1, group).amax(-1) / finfo.max
    if ue8m0:
        close(xs, torch.exp2(torch.ceil(torch.log2(want_s))), 0)
    else:
        close(xs, want_s, 2)
    back = xq.double() * xs.double().repeat_interleave(group, 1)
    assert ((back - x).abs() <= x.abs() / 15 + 1e-2).all()
    wq, ws = w.to(torch.float8_e4m3fn), torch.rand(triton.cdiv(n, 32), k // group) + 0.5
    c = torch.empty(m, n)
    block_fp8_kernel[(2, 3)](xq, wq, c, xs, ws, m, n, k, 32, group, k, 1, 1, k, n, 1, *xs.stride(), ws.stride(1), ws.stride(0), 32, 32, 32)
    want = back @ (wq.double() * ws.double().repeat_interleave(32, 0)[:n].repeat_interleave(group, 1)).t()
    close(c, want, 4, eps=2.0 ** -12)  # some GPUs add products of fp8 with 14 bits


@triton.jit
def matmul4_kernel(a_ptr, b_ptr, c_ptr, scales_ptr, zeros_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm,
                   stride_cn, stride_scales_g, stride_scales_n, stride_zeros_g, stride_zeros_n, groupsize,
                   NO_GROUPS: tl.constexpr, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
                   GROUP_SIZE_M: tl.constexpr):
    """b: (K // 8, N) int32, eight numbers of four bits along K, low ones first; zeros: (groups, N // 8) alike, less one."""
    bits = 4
    infearure_per_bits = 8
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    num_pid_k = tl.cdiv(K, BLOCK_SIZE_K)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + (pid % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_am = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_bn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    a_mask = (offs_am[:, None] < M)
    # Each word is read eight times.
    b_ptrs = b_ptr + ((offs_k[:, None] // infearure_per_bits) * stride_bk + offs_bn[None, :] * stride_bn)
    scales_ptrs = scales_ptr + offs_bn * stride_scales_n
    zeros_ptrs = zeros_ptr + ((offs_bn // infearure_per_bits) * stride_zeros_n)
    shifter = (offs_k % infearure_per_bits) * bits
    zeros_shifter = (offs_bn % infearure_per_bits) * bits
    if NO_GROUPS:
        scales = tl.load(scales_ptrs)
        zeros = tl.load(zeros_ptrs)
        zeros = (zeros >> zeros_shifter) & 0xF
        zeros = (zeros + 1) * scales
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, num_pid_k):
        a = tl.load(a_ptrs, mask=a_mask, other=0.)
        b = tl.load(b_ptrs)
        if not NO_GROUPS:
            g_id = k // (groupsize // BLOCK_SIZE_K)
            ptr = scales_ptrs + g_id * stride_scales_g
            scales = tl.load(ptr)
            ptr = zeros_ptrs + g_id * stride_zeros_g
            zeros = tl.load(ptr)
            zeros = (zeros >> zeros_shifter) & 0xF
            zeros = (zeros + 1) * scales
        b = (b >> shifter[:, None]) & 0xF
        b = b * scales[None, :] - zeros[None, :]
        accumulator += tl.dot(a, b.to(a.dtype))
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += (BLOCK_SIZE_K // infearure_per_bits) * stride_bk
    c = accumulator.to(c_ptr.dtype.element_ty)
    offs_cm = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptrs, c, mask=c_mask)


def packed(values, dim):
    """Eight four-bit numbers along `dim` in each int32."""
    values = values.movedim(dim, -1).unflatten(-1, (-1, 8)).long()
    words = sum(values[..., i] << (4 * i) for i in range(8))
    return torch.where(words >= 2 ** 31, words - 2 ** 32, words).int().movedim(-1, dim).contiguous()


@pytest.mark.parametrize("group", [64, 128])
def test_int4_by_shifts(group, target):
    m, n, k = 37, 64, 128
    a = torch.randn(m, k).half()
    q = torch.randint(0, 16, (k, n))
    zeros = torch.randint(1, 17, (k // group, n))
    scales = (torch.rand(k // group, n) * 0.1 + 0.01).half()
    b, z = packed(q, 0), packed(zeros - 1, 1)
    c = torch.empty(m, n, dtype=torch.float16)
    matmul4_kernel[(2 * 2, )](a, b, c, scales, z, m, n, k, *a.stride(), *b.stride(), *c.stride(), *scales.stride(), *z.stride(), group,
                              NO_GROUPS=group == k, BLOCK_SIZE_M=32, BLOCK_SIZE_N=32, BLOCK_SIZE_K=32, GROUP_SIZE_M=8)
    w = (q - zeros.repeat_interleave(group, 0)).double() * scales.double().repeat_interleave(group, 0)
    close(c, a.double() @ w, 8)


@triton.jit
def awq_gemm_kernel(a_ptr, b_ptr, c_ptr, zeros_ptr, scales_ptr, M, N, K, group_size, BLOCK_SIZE_M: tl.constexpr,
                    BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr, SPLIT_K: tl.constexpr):
    """b: (K, N // 8) int32, eight numbers along N in the order 0 4 1 5 2 6 3 7, spread by interleaving the words with themselves."""
    pid = tl.program_id(axis=0)
    pid_z = tl.program_id(1)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    pid_m = pid // num_pid_n
    pid_n = pid % num_pid_n
    accumulator_dtype = c_ptr.type.element_ty
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=accumulator_dtype)
    reverse_awq_order_tensor = ((tl.arange(0, 2) * 4)[None, :] + tl.arange(0, 4)[:, None]).reshape(8)
    shifts = reverse_awq_order_tensor * 4
    shifts = tl.broadcast_to(shifts[None, :], (BLOCK_SIZE_K * (BLOCK_SIZE_N // 8), 8))
    shifts = tl.reshape(shifts, (BLOCK_SIZE_K, BLOCK_SIZE_N))
    offsets_am = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    masks_am = offsets_am < M
    offsets_bn = pid_n * (BLOCK_SIZE_N // 8) + tl.arange(0, BLOCK_SIZE_N // 8)
    masks_bn = offsets_bn < N // 8
    offsets_zn = pid_n * (BLOCK_SIZE_N // 8) + tl.arange(0, BLOCK_SIZE_N // 8)
    masks_zn = offsets_zn < N // 8
    offsets_sn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    masks_sn = offsets_sn < N
    offsets_k = pid_z * BLOCK_SIZE_K + tl.arange(0, BLOCK_SIZE_K)
    offsets_a = K * offsets_am[:, None] + offsets_k[None, :]
    offsets_b = (N // 8) * offsets_k[:, None] + offsets_bn[None, :]
    a_ptrs = a_ptr + offsets_a
    b_ptrs = b_ptr + offsets_b
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K * SPLIT_K)):
        masks_k = offsets_k < K
        a = tl.load(a_ptrs, mask=masks_am[:, None] & masks_k[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=masks_k[:, None] & masks_bn[None, :], other=0.0)
        b = tl.interleave(b, b)
        b = tl.interleave(b, b)
        b = tl.interleave(b, b)
        offsets_szk = (BLOCK_SIZE_K * SPLIT_K * k + pid_z * BLOCK_SIZE_K) // group_size + tl.arange(0, 1)
        offsets_z = (N // 8) * offsets_szk[:, None] + offsets_zn[None, :]
        masks_zk = offsets_szk < K // group_size
        zeros = tl.load(zeros_ptr + offsets_z, mask=masks_zk[:, None] & masks_zn[None, :], other=0.0)
        zeros = tl.interleave(zeros, zeros)
        zeros = tl.interleave(zeros, zeros)
        zeros = tl.interleave(zeros, zeros)
        zeros = tl.broadcast_to(zeros, (BLOCK_SIZE_K, BLOCK_SIZE_N))
        offsets_s = N * offsets_szk[:, None] + offsets_sn[None, :]
        scales = tl.load(scales_ptr + offsets_s, mask=masks_zk[:, None] & masks_sn[None, :], other=0.0)
        scales = tl.broadcast_to(scales, (BLOCK_SIZE_K, BLOCK_SIZE_N))
        b = (b >> shifts) & 0xF
        zeros = (zeros >> shifts) & 0xF
        b = (b - zeros) * scales
        b = b.to(c_ptr.type.element_ty)
        accumulator = tl.dot(a, b, accumulator, out_dtype=accumulator_dtype)
        offsets_k += BLOCK_SIZE_K * SPLIT_K
        a_ptrs += BLOCK_SIZE_K * SPLIT_K
        b_ptrs += BLOCK_SIZE_K * SPLIT_K * (N // 8)
    c = accumulator.to(c_ptr.type.element_ty)
    offs_cm = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + pid_z * N * M + N * offs_cm[:, None] + offs_cn[None, :]
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptrs, c, mask=c_mask)


@pytest.mark.parametrize("split", [1, 2])
def test_int4_by_interleaving(split, target):
    m, n, k, group = 30, 96, 128, 64
    a = (torch.randint(-8, 9, (m, k)) / 8).half()
    q, zeros = torch.randint(0, 16, (k, n)), torch.randint(0, 16, (k // group, n))
    scales = torch.tensor([0.5, 1.0, 2.0])[torch.randint(0, 3, (k // group, n))].half() / 16
    order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])  # the place in the word of each of eight
    swapped = lambda x: packed(x.unflatten(1, (-1, 8))[..., order].flatten(1), 1)
    parts = torch.empty(split, m, n, dtype=torch.float16)
    awq_gemm_kernel[(1 * 3, split)](a, swapped(q), parts, swapped(zeros), scales, m, n, k, group, BLOCK_SIZE_M=32, BLOCK_SIZE_N=32,
                                    BLOCK_SIZE_K=32, SPLIT_K=split)
    w = (q - zeros.repeat_interleave(group, 0)).double() * scales.double().repeat_interleave(group, 0)
    close(parts.double().sum(0).half(), a.double() @ w, 32)


@triton.jit
def int4_join_kernel(x_ptr, w_ptr, s_ptr, y_ptr, M, N, K, GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                     BLOCK_K: tl.constexpr):
    """w: (N, K // 2) int8, two signed numbers in each, unpacked with arithmetic shifts and `join`."""
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in tl.range(0, K, BLOCK_K):
        rk = k + tl.arange(0, BLOCK_K)
        rh = k // 2 + tl.arange(0, BLOCK_K // 2)
        x = tl.load(x_ptr + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None], other=0.0)
        byte = tl.load(w_ptr + rn[:, None] * (K // 2) + rh[None, :], mask=(rn < N)[:, None], other=0)
        _4_i8 = tl.full((1, ), 4, dtype=tl.int8)
        low = (byte << _4_i8) >> _4_i8
        high = byte >> _4_i8
        w = tl.join(low.to(tl.bfloat16), high.to(tl.bfloat16)).reshape(BLOCK_N, BLOCK_K)
        s = tl.load(s_ptr + rn * (K // GROUP) + k // GROUP, mask=rn < N, other=0.0)
        acc += tl.dot(x, w.trans(1, 0)) * s[None, :]
    tl.store(y_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm < M)[:, None] & (rn < N)[None, :])


def test_signed_int4_by_join(target):
    m, n, k, group = 20, 50, 128, 64
    x = torch.randn(m, k).bfloat16()
    q = torch.randint(-8, 8, (n, k))
    scales = torch.rand(n, k // group) + 0.1
    w = ((q[:, 0::2] & 0xF) | (q[:, 1::2] << 4)).to(torch.int8)
    y = torch.empty(m, n)
    int4_join_kernel[(1, 2)](x, w, scales, y, m, n, k, GROUP=group, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
    close(y, x.double() @ (q.double() * scales.double().repeat_interleave(group, 1)).t(), 128)
