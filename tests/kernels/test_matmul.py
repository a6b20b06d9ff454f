"""Products of matrices: swizzled, persistent, split along K, stream-K, batched, quantised, grouped, over descriptors and block
pointers."""

import nereid as triton
import nereid.language as tl
import pytest
import torch
from nereid.tools.tensor_descriptor import TensorDescriptor
from reference import close


def fp32_ulp(dtype, k):
    return {torch.float32: 4.0 * k ** 0.5, torch.float16: 4, torch.bfloat16: 4}[dtype]


# ---- one tile a program, tuned ----------------------------------------------------------------------


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


def early_config_prune(configs, named_args, **kwargs):
    """No block is much larger than the matrix."""
    m = named_args["M"]
    return [config for config in configs if config.kwargs["BLOCK_SIZE_M"] <= max(32, triton.next_power_of_2(m))]


@triton.autotune(
    configs=[
        triton.Config({'BLOCK_SIZE_M': 128, 'BLOCK_SIZE_N': 64, 'BLOCK_SIZE_K': 32, 'GROUP_SIZE_M': 8}, num_stages=3, num_warps=8),
        triton.Config({'BLOCK_SIZE_M': 32, 'BLOCK_SIZE_N': 64, 'BLOCK_SIZE_K': 32, 'GROUP_SIZE_M': 8}, num_stages=4, num_warps=4),
        triton.Config({'BLOCK_SIZE_M': 32, 'BLOCK_SIZE_N': 32, 'BLOCK_SIZE_K': 64, 'GROUP_SIZE_M': 4}, num_stages=2, num_warps=2),
    ],
    key=['M', 'N', 'K'],
    prune_configs_by={'early_config_prune': early_config_prune, 'perf_model': None, 'top_k': None},
)
@triton.heuristics({'EVEN_K': lambda args: args['K'] % args['BLOCK_SIZE_K'] == 0, 'HAS_BIAS': lambda args: args['bias_ptr'] is not None})
@triton.jit
def matmul_kernel(
        # Pointers to matrices
        a_ptr, b_ptr, c_ptr, bias_ptr,
        # Matrix dimensions
        M, N, K,
        # The stride variables represent how much to increase the ptr by when moving by 1 element in a particular dimension.
        stride_am, stride_ak,  #
        stride_bk, stride_bn,  #
        stride_cm, stride_cn,
        # Meta-parameters
        BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,  #
        GROUP_SIZE_M: tl.constexpr,  #
        EVEN_K: tl.constexpr, HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr  #
):
    """Kernel for computing the matmul C = A x B."""
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m

    offs_am = (pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)) % M
    offs_bn = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)) % N
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)

    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        if EVEN_K:
            a = tl.load(a_ptrs)
            b = tl.load(b_ptrs)
        else:
            a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0.0)
            b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0.0)
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk
    if HAS_BIAS:
        bias = tl.load(bias_ptr + offs_bn, eviction_policy="evict_last").to(tl.float32)
        accumulator = accumulator + bias[None, :]
    if ACTIVATION == "leaky_relu":
        accumulator = leaky_relu(accumulator)
    elif ACTIVATION == "square":
        accumulator *= accumulator
    c = accumulator.to(c_ptr.dtype.element_ty)

    offs_cm = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptrs, c, mask=c_mask)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("dtype, activation, with_bias", [(torch.float16, "leaky_relu", True), (torch.float32, "square", False),
                                                          (torch.bfloat16, "", True)], ids=str)
def test_tuned_with_epilogue(dtype, activation, with_bias, layout, target):
    m, n, k = 70, 90, 100
    a = torch.randn(m, k).to(dtype) if layout[0] == "n" else torch.randn(k, m).to(dtype).t()
    b = torch.randn(k, n).to(dtype) if layout[1] == "n" else torch.randn(n, k).to(dtype).t()
    bias = torch.randn(n).to(dtype) if with_bias else None
    c = torch.empty(m, n, dtype=dtype)
    grid = lambda META: (triton.cdiv(m, META['BLOCK_SIZE_M']) * triton.cdiv(n, META['BLOCK_SIZE_N']), )
    matmul_kernel[grid](a, b, c, bias, m, n, k, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0), c.stride(1),
                        ACTIVATION=activation)
    want = a.double() @ b.double() + (bias.double() if with_bias else 0)
    want = {"leaky_relu": torch.nn.functional.leaky_relu, "square": torch.square, "": lambda x: x}[activation](want)
    close(c, want, fp32_ulp(dtype, k))


# ---- persistent -------------------------------------------------------------------------------------


@triton.jit
def _compute_pid(tile_id, num_pid_in_group, num_pid_m, GROUP_SIZE_M: tl.constexpr):
    group_id = tile_id // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + (tile_id % group_size_m)
    pid_n = (tile_id % num_pid_in_group) // group_size_m
    return pid_m, pid_n


def _matmul_launch_metadata(grid, kernel, args):
    m, n, k = args["M"], args["N"], args["K"]
    return {"name": f"{kernel.name} [M={m}, N={n}, K={k}]", "flops": 2. * m * n * k}


@triton.jit(launch_metadata=_matmul_launch_metadata)
def matmul_kernel_persistent(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                             BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
                             GROUP_SIZE_M: tl.constexpr, NUM_SMS: tl.constexpr):
    start_pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    k_tiles = tl.cdiv(K, BLOCK_SIZE_K)
    num_tiles = num_pid_m * num_pid_n
    # The tile to store lags behind the one that is computed.
    tile_id_c = start_pid - NUM_SMS
    offs_k_for_mask = tl.arange(0, BLOCK_SIZE_K)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    for tile_id in tl.range(start_pid, num_tiles, NUM_SMS, flatten=True):
        pid_m, pid_n = _compute_pid(tile_id, num_pid_in_group, num_pid_m, GROUP_SIZE_M)
        start_m = pid_m * BLOCK_SIZE_M
        start_n = pid_n * BLOCK_SIZE_N
        offs_am = start_m + tl.arange(0, BLOCK_SIZE_M)
        offs_bn = start_n + tl.arange(0, BLOCK_SIZE_N)
        offs_am = tl.where(offs_am < M, offs_am, 0)
        offs_bn = tl.where(offs_bn < N, offs_bn, 0)
        offs_am = tl.max_contiguous(tl.multiple_of(offs_am, BLOCK_SIZE_M), BLOCK_SIZE_M)
        offs_bn = tl.max_contiguous(tl.multiple_of(offs_bn, BLOCK_SIZE_N), BLOCK_SIZE_N)
        accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
        for ki in range(k_tiles):
            offs_k = ki * BLOCK_SIZE_K + tl.arange(0, BLOCK_SIZE_K)
            a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
            b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
            a = tl.load(a_ptrs, mask=offs_k_for_mask[None, :] < K - ki * BLOCK_SIZE_K, other=0.0)
            b = tl.load(b_ptrs, mask=offs_k_for_mask[:, None] < K - ki * BLOCK_SIZE_K, other=0.0)
            accumulator = tl.dot(a, b, accumulator)
        tile_id_c += NUM_SMS
        pid_m, pid_n = _compute_pid(tile_id_c, num_pid_in_group, num_pid_m, GROUP_SIZE_M)
        offs_cm = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
        offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
        c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
        c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
        if (c_ptr.dtype.element_ty == tl.float8e4nv):
            c = accumulator.to(tl.float8e4nv)
        else:
            c = accumulator.to(tl.float16)
        tl.store(c_ptrs, c, mask=c_mask)


@pytest.mark.parametrize("sms", [1, 5, 64])
def test_persistent(sms, target):
    m, n, k = 130, 100, 70
    a, b = torch.randn(m, k).half(), torch.randn(k, n).half()
    c = torch.empty(m, n, dtype=torch.float16)
    matmul_kernel_persistent[(min(sms, 5 * 2), )](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), BLOCK_SIZE_M=32,
                                                 BLOCK_SIZE_N=64, BLOCK_SIZE_K=32, GROUP_SIZE_M=8, NUM_SMS=min(sms, 10))
    close(c, a.double() @ b.double(), 4)


@triton.jit
def matmul_kernel_descriptor_persistent(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr,
                                        BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr, EPILOGUE_SUBTILE: tl.constexpr,
                                        NUM_SMS: tl.constexpr, WARP_SPECIALIZE: tl.constexpr, FLATTEN: tl.constexpr):
    # Descriptors made on the device; b is N x K.
    dtype = c_ptr.dtype.element_ty
    start_pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    k_tiles = tl.cdiv(K, BLOCK_SIZE_K)
    num_tiles = num_pid_m * num_pid_n
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_SIZE_M, BLOCK_SIZE_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BLOCK_SIZE_N, BLOCK_SIZE_K])
    c_desc = tl.make_tensor_descriptor(
        c_ptr, shape=[M, N], strides=[N, 1],
        block_shape=[BLOCK_SIZE_M, BLOCK_SIZE_N if not EPILOGUE_SUBTILE else BLOCK_SIZE_N // 2])
    tile_id_c = start_pid - NUM_SMS
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    for tile_id in tl.range(start_pid, num_tiles, NUM_SMS, flatten=FLATTEN, warp_specialize=WARP_SPECIALIZE):
        pid_m, pid_n = _compute_pid(tile_id, num_pid_in_group, num_pid_m, GROUP_SIZE_M)
        offs_am = pid_m * BLOCK_SIZE_M
        offs_bn = pid_n * BLOCK_SIZE_N
        accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
        for ki in range(k_tiles):
            offs_k = ki * BLOCK_SIZE_K
            a = a_desc.load([offs_am, offs_k])
            b = b_desc.load([offs_bn, offs_k])
            accumulator = tl.dot(a, b.T, accumulator)
        tile_id_c += NUM_SMS
        pid_m, pid_n = _compute_pid(tile_id_c, num_pid_in_group, num_pid_m, GROUP_SIZE_M)
        offs_cm = pid_m * BLOCK_SIZE_M
        offs_cn = pid_n * BLOCK_SIZE_N
        if EPILOGUE_SUBTILE:
            acc = tl.reshape(accumulator, (BLOCK_SIZE_M, 2, BLOCK_SIZE_N // 2))
            acc = tl.permute(acc, (0, 2, 1))
            acc0, acc1 = tl.split(acc)
            c0 = acc0.to(dtype)
            c_desc.store([offs_cm, offs_cn], c0)
            c1 = acc1.to(dtype)
            c_desc.store([offs_cm, offs_cn + BLOCK_SIZE_N // 2], c1)
        else:
            accumulator = accumulator.to(dtype)
            c_desc.store([offs_cm, offs_cn], accumulator)


@pytest.mark.parametrize("subtile, flatten, specialize", [(False, True, False), (True, False, True)])
def test_descriptors_of_the_device(subtile, flatten, specialize, target):
    m, n, k = 100, 144, 80
    a, b = torch.randn(m, k).half(), torch.randn(n, k).half()
    c = torch.empty(m, n, dtype=torch.float16)
    matmul_kernel_descriptor_persistent[(3, )](a, b, c, m, n, k, 64, 64, 32, 8, subtile, NUM_SMS=3, WARP_SPECIALIZE=specialize,
                                               FLATTEN=flatten)
    close(c, a.double() @ b.double().t(), 4)


def matmul_tma_set_block_size_hook(nargs):
    block_m, block_n, block_k = nargs["BLOCK_SIZE_M"], nargs["BLOCK_SIZE_N"], nargs["BLOCK_SIZE_K"]
    nargs["a_desc"].block_shape = [block_m, block_k]
    nargs["b_desc"].block_shape = [block_n, block_k]
    nargs["c_desc"].block_shape = [block_m, block_n]


@triton.autotune(
    configs=[
        triton.Config({'BLOCK_SIZE_M': bm, 'BLOCK_SIZE_N': bn, 'BLOCK_SIZE_K': bk}, num_stages=s, num_warps=w,
                      pre_hook=matmul_tma_set_block_size_hook)
        for bm, bn, bk, s, w in [(64, 32, 32, 3, 4), (32, 64, 64, 2, 4)]
    ],
    key=["M", "N", "K"],
)
@triton.jit
def matmul_kernel_tma(a_desc, b_desc, c_desc, M, N, K, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr,
                      BLOCK_SIZE_K: tl.constexpr):
    pid_m = tl.program_id(axis=0)
    pid_n = tl.program_id(axis=1)
    offs_am = pid_m * BLOCK_SIZE_M
    offs_bn = pid_n * BLOCK_SIZE_N
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in tl.range(tl.cdiv(K, BLOCK_SIZE_K), warp_specialize=False, num_stages=3):
        offs_k = k * BLOCK_SIZE_K
        a = a_desc.load([offs_am, offs_k])
        b = b_desc.load([offs_bn, offs_k])
        accumulator = tl.dot(a, b.T, accumulator)
    c_desc.store([offs_am, offs_bn], accumulator.to(c_desc.dtype))


def test_descriptors_of_the_host_set_by_hooks(target):
    m, n, k = 72, 96, 104
    a, b = torch.randn(m, k).bfloat16(), torch.randn(n, k).bfloat16()
    c = torch.zeros(m, n, dtype=torch.bfloat16)
    a_desc, b_desc = TensorDescriptor.from_tensor(a, [1, 1]), TensorDescriptor.from_tensor(b, [1, 1])
    c_desc = TensorDescriptor(c, c.shape, c.stride(), [1, 1])
    grid = lambda META: (triton.cdiv(m, META["BLOCK_SIZE_M"]), triton.cdiv(n, META["BLOCK_SIZE_N"]))
    matmul_kernel_tma[grid](a_desc, b_desc, c_desc, m, n, k)
    close(c, a.double() @ b.double().t(), 4)


# ---- split along K ----------------------------------------------------------------------------------


@triton.autotune(
    configs=[
        triton.Config({'BLOCK_M': 32, 'BLOCK_N': 32, 'BLOCK_K': 32, 'SPLIT_K': split}, num_stages=2, num_warps=4)
        for split in (3, 4)
    ],
    key=['M', 'N', 'K'],
    reset_to_zero=['C'],
)
@triton.jit
def _splitk_kernel(A, B, C, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, dot_out_dtype: tl.constexpr,
                   allow_tf32: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                   SPLIT_K: tl.constexpr):
    pid = tl.program_id(0)
    pid_z = tl.program_id(1)
    grid_n = tl.cdiv(N, BLOCK_N)
    pid_m, pid_n = pid // grid_n, pid % grid_n
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    ram = tl.max_contiguous(tl.multiple_of(rm % M, BLOCK_M), BLOCK_M)
    rbn = tl.max_contiguous(tl.multiple_of(rn % N, BLOCK_N), BLOCK_N)
    rk = pid_z * BLOCK_K + tl.arange(0, BLOCK_K)
    A = A + (ram[:, None] * stride_am + rk[None, :] * stride_ak)
    B = B + (rk[:, None] * stride_bk + rbn[None, :] * stride_bn)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=dot_out_dtype)
    for k in range(0, tl.cdiv(K, BLOCK_K * SPLIT_K)):
        k_remaining = K - k * (BLOCK_K * SPLIT_K)
        _0 = tl.zeros((1, 1), dtype=C.dtype.element_ty)
        a = tl.load(A, mask=rk[None, :] < k_remaining, other=_0)
        b = tl.load(B, mask=rk[:, None] < k_remaining, other=_0)
        acc += tl.dot(a, b, out_dtype=dot_out_dtype, allow_tf32=allow_tf32)
        A += BLOCK_K * SPLIT_K * stride_ak
        B += BLOCK_K * SPLIT_K * stride_bk
    acc = acc.to(C.dtype.element_ty)
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    C = C + (rm[:, None] * stride_cm + rn[None, :] * stride_cn)
    mask = (rm < M)[:, None] & (rn < N)[None, :]
    if SPLIT_K == 1:
        tl.store(C, acc, mask=mask)
    else:
        tl.atomic_add(C, acc, mask=mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_split_k_with_atomics(dtype, target):
    m, n, k = 40, 50, 300
    a, b = (torch.randint(-3, 4, (m, k)) * 0.25).to(dtype), (torch.randint(-3, 4, (k, n)) * 0.5).to(dtype)
    c = torch.zeros(m, n, dtype=dtype)
    grid = lambda META: (triton.cdiv(m, META['BLOCK_M']) * triton.cdiv(n, META['BLOCK_N']), META['SPLIT_K'])
    _splitk_kernel[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), dot_out_dtype=tl.float32, allow_tf32=False)
    close(c, a.double() @ b.double(), 0)


@triton.jit
def _splitk_serial_kernel(A, B, C, locks_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                          BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr):
    # Slices are added in their order: each waits until the lock has its number.
    pid_m, pid_n, pid_k = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(pid_k * BLOCK_K, K, BLOCK_K * SPLIT_K):
        rk = k + tl.arange(0, BLOCK_K)
        a = tl.load(A + rm[:, None] * stride_am + rk[None, :] * stride_ak, mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.)
        b = tl.load(B + rk[:, None] * stride_bk + rn[None, :] * stride_bn, mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.)
        acc += tl.dot(a, b, input_precision="tf32x3")
    lock = locks_ptr + pid_m * tl.num_programs(1) + pid_n
    c_ptrs = C + rm[:, None] * stride_cm + rn[None, :] * stride_cn
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    while tl.atomic_cas(lock, pid_k, pid_k) != pid_k:
        pass
    if pid_k > 0:
        acc += tl.load(c_ptrs, mask=mask)
    tl.store(c_ptrs, acc, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock, (pid_k + 1) % SPLIT_K)


def test_split_k_with_a_semaphore(target):
    m, n, k = 40, 50, 333
    a, b, c = torch.randn(m, k), torch.randn(k, n), torch.full((m, n), float("nan"))
    locks = torch.zeros(2 * 4, dtype=torch.int32)
    _splitk_serial_kernel[(2, 4, 4)](a, b, c, locks, m, n, k, *a.stride(), *b.stride(), *c.stride(), 32, 16, 32, SPLIT_K=4)
    close(c, a.double() @ b.double(), 64)
    assert not locks.any()


@triton.jit
def mac_loop(A, B, C, M, N, K, P, locks, iters_per_tile, start_iter, end_iter, stride_am, stride_ak, stride_bk, stride_bn, stride_cm,
             stride_cn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    tile_id = start_iter // iters_per_tile
    pid_m, pid_n = tile_id // tl.cdiv(N, BLOCK_N), tile_id % tl.cdiv(N, BLOCK_N)
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for current in range(start_iter, end_iter):
        k = (current % iters_per_tile) * BLOCK_K + rk
        a = tl.load(A + rm[:, None] * stride_am + k[None, :] * stride_ak, mask=(rm[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(B + k[:, None] * stride_bk + rn[None, :] * stride_bn, mask=(k[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
    mask = (rm < M)[:, None] & (rn < N)[None, :]
    pid = tl.program_id(0)
    partial = P + pid * BLOCK_M * BLOCK_N + tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    if start_iter % iters_per_tile == 0:
        # The program with the first part of a tile adds what others have of it.
        if end_iter % iters_per_tile != 0:
            next_pid = tl.program_id(0) + 1
            stop_iter = start_iter + iters_per_tile
            end = end_iter
            while end < stop_iter:
                while tl.atomic_cas(locks + next_pid, 1, 1) != 1:
                    pass
                P_other = P + next_pid * BLOCK_M * BLOCK_N + tl.arange(0, BLOCK_M)[:, None] * BLOCK_N
                acc += tl.load(P_other + tl.arange(0, BLOCK_N)[None, :], cache_modifier=".cv")
                end += tl.load(locks + tl.num_programs(0) + next_pid)
                next_pid += 1
        tl.store(C + rm[:, None] * stride_cm + rn[None, :] * stride_cn, acc, mask=mask)
    else:
        tl.store(partial, acc, cache_modifier=".wt")
        tl.debug_barrier()
        tl.atomic_xchg(locks + pid, 1)


@triton.jit
def stream_k(A, B, C, M, N, K, P, locks, iters_per_tile, total_iters, iters_per_program, stride_am, stride_ak, stride_bk, stride_bn,
             stride_cm, stride_cn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    pid = tl.program_id(0)
    start_iter = pid * iters_per_program
    last_iter = tl.minimum(start_iter + iters_per_program, total_iters)
    # Parts in front of a tile's end go first: whoever waits, waits for a program behind it that does not wait.
    while start_iter < last_iter:
        remainder = start_iter % iters_per_tile
        end_iter = tl.minimum(start_iter + (iters_per_tile - remainder), last_iter)
        mac_loop(A, B, C, M, N, K, P, locks, iters_per_tile, start_iter, end_iter, stride_am, stride_ak, stride_bk, stride_bn,
                 stride_cm, stride_cn, BLOCK_M, BLOCK_N, BLOCK_K)
        start_iter = end_iter


@pytest.mark.parametrize("programs", [1, 3, 4])
def test_stream_k(programs, target):
    m, n, k, block = 60, 50, 400, 32
    a, b, c = torch.randn(m, k).half(), torch.randn(k, n).half(), torch.full((m, n), float("nan"))
    per_tile = triton.cdiv(k, block)
    total = 4 * per_tile
    each = triton.cdiv(total, programs)
    # Second half of the locks: how many steps of its first tile each program has.
    locks = torch.zeros(2 * programs, dtype=torch.int32)
    for p in range(programs):
        start = p * each
        locks[programs + p] = min(per_tile - start % per_tile, each, total - start)
    partial = torch.empty(programs, block, block)
    stream_k[(programs, )](a, b, c, m, n, k, partial, locks, per_tile, total, each, *a.stride(), *b.stride(), *c.stride(),
                           BLOCK_M=block, BLOCK_N=block, BLOCK_K=block, launch_cooperative_grid=True)
    close(c, a.double() @ b.double(), 256)


# ---- batches and vectors ----------------------------------------------------------------------------


@triton.jit
def bmm_kernel(A, B, O, M, N, K, stride_ab, stride_bb, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
               DIVISIBLE_M: tl.constexpr, DIVISIBLE_N: tl.constexpr, DIVISIBLE_K: tl.constexpr):
    pid_b = tl.program_id(2).to(tl.int64)
    A += pid_b * stride_ab
    B += pid_b * stride_bb
    O += pid_b * M * N
    offs_m = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    offs_n = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    offs_k = tl.arange(0, TILE_K)
    if not DIVISIBLE_M:
        mask_m = offs_m < M
    if not DIVISIBLE_N:
        mask_n = offs_n < N
    a_ptrs = A + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = B + offs_k[:, None] * N + offs_n[None, :]
    o_ptrs = O + offs_m[:, None] * N + offs_n[None, :]
    num_iters = tl.cdiv(K, TILE_K)
    o = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for _ in range(num_iters):
        if DIVISIBLE_K:
            mask_a = None if DIVISIBLE_M else mask_m[:, None]
            mask_b = None if DIVISIBLE_N else mask_n[None, :]
        else:
            mask_k = offs_k < K
            mask_a = mask_k[None, :] if DIVISIBLE_M else mask_m[:, None] & mask_k[None, :]
            mask_b = mask_k[:, None] if DIVISIBLE_N else mask_k[:, None] & mask_n[None, :]
        a = tl.load(a_ptrs, mask_a)
        b = tl.load(b_ptrs, mask_b)
        offs_k += TILE_K
        a_ptrs += TILE_K
        b_ptrs += TILE_K * N
        o += tl.dot(a, b, allow_tf32=False)
    if DIVISIBLE_M and DIVISIBLE_N:
        mask_c = None
    elif DIVISIBLE_M and not DIVISIBLE_N:
        mask_c = mask_n[None, :]
    elif not DIVISIBLE_M and DIVISIBLE_N:
        mask_c = mask_m[:, None]
    else:
        mask_c = mask_m[:, None] & mask_n[None, :]
    tl.store(o_ptrs, o, mask_c)


@pytest.mark.not_in_mode("checked", "it adds up masked-off elements, which its author left undefined: checked mode shows them")
@pytest.mark.parametrize("m, n, k", [(64, 64, 64), (33, 64, 40), (64, 50, 32), (20, 30, 50)])
def test_batched_with_divisibility_flags(m, n, k, target):
    a, b = torch.randn(3, m, k), torch.randn(3, k, n)
    c = torch.empty(3, m, n)
    bmm_kernel[(triton.cdiv(m, 32), triton.cdiv(n, 32), 3)](a, b, c, m, n, k, a.stride(0), b.stride(0), 32, 32, 32,
                                                           m % 32 == 0, n % 32 == 0, k % 32 == 0)
    close(c, a.double() @ b.double(), 64)


@triton.jit
def mv_kernel(A, B, C, N, M, stride_an, stride_am, stride_bm, stride_cn, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr):
    pid = tl.program_id(0)
    offset_n = pid * BLOCK_N + tl.arange(0, BLOCK_N)[:, None]
    offset_m = tl.arange(0, BLOCK_M)[None, :]
    n_mask = offset_n < N
    A_ptrs = A + offset_n * stride_an + offset_m * stride_am
    B_ptrs = B + offset_m * stride_bm
    acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for m in range(0, M, BLOCK_M):
        m_mask = m + offset_m < M
        a = tl.load(A_ptrs, mask=n_mask & m_mask, other=0.0).to(tl.float32)
        b = tl.load(B_ptrs, mask=m_mask, other=0.0).to(tl.float32)
        acc += a * b
        A_ptrs += BLOCK_M * stride_am
        B_ptrs += BLOCK_M * stride_bm
    acc = tl.sum(acc, axis=1)
    C_ptrs = C + offset_n * stride_cn
    tl.store(C_ptrs, acc[:, None], mask=n_mask)


def test_matrix_times_vector(target):
    a, x, y = torch.randn(70, 300).bfloat16().t(), torch.randn(70).bfloat16(), torch.empty(300, dtype=torch.bfloat16)
    mv_kernel[(triton.cdiv(300, 32), )](a, x, y, 300, 70, *a.stride(), 1, 1, BLOCK_N=32, BLOCK_M=64)
    close(y, a.double() @ x.double(), 2)


# ---- block pointers, LoRA, SwiGLU -------------------------------------------------------------------


@triton.jit
def lora_kernel(x_ptr, w_ptr, a_ptr, b_ptr, y_ptr, M, N, K, scale, R: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                BK: tl.constexpr):
    i_m, i_n = tl.program_id(0), tl.program_id(1)
    p_x = tl.make_block_ptr(x_ptr, (M, K), (K, 1), (i_m * BM, 0), (BM, BK), (1, 0))
    p_w = tl.make_block_ptr(w_ptr, (K, N), (1, K), (0, i_n * BN), (BK, BN), (0, 1))
    p_a = tl.make_block_ptr(a_ptr, (K, R), (R, 1), (0, 0), (BK, R), (1, 0))
    acc = tl.zeros([BM, BN], dtype=tl.float32)
    low = tl.zeros([BM, R], dtype=tl.float32)
    for _ in range(tl.cdiv(K, BK)):
        x = tl.load(p_x, boundary_check=(0, 1), padding_option="zero")
        acc += tl.dot(x, tl.load(p_w, boundary_check=(0, 1)))
        low += tl.dot(x, tl.load(p_a, boundary_check=(0, )))
        p_x = tl.advance(p_x, (0, BK))
        p_w = tl.advance(p_w, (BK, 0))
        p_a = tl.advance(p_a, (BK, 0))
    b = tl.load(tl.make_block_ptr(base=b_ptr, shape=(R, N), strides=(N, 1), offsets=(0, i_n * BN), block_shape=(R, BN), order=(1, 0)),
                boundary_check=(1, ))
    acc += tl.dot((low * scale).to(b.dtype), b)
    p_y = tl.make_block_ptr(y_ptr, (M, N), (N, 1), (i_m * BM, i_n * BN), (BM, BN), (1, 0))
    tl.store(p_y, acc.to(p_y.dtype.element_ty), boundary_check=(0, 1))


@pytest.mark.not_in_mode("checked", "it adds up masked-off elements, which its author left undefined: checked mode shows them")
def test_lora_with_block_pointers(target):
    m, n, k, r = 50, 70, 90, 16
    x, w = torch.randn(m, k).bfloat16(), torch.randn(n, k).bfloat16()
    a, b = torch.randn(k, r).bfloat16(), (torch.randn(r, n) / 8).bfloat16()
    y = torch.empty(m, n, dtype=torch.bfloat16)
    lora_kernel[(2, 3)](x, w, a, b, y, m, n, k, 0.5, R=r, BM=32, BN=32, BK=32)
    close(y, x.double() @ w.double().t() + 0.5 * (x.double() @ a.double()) @ b.double(), 8)


@triton.jit
def silu(x):
    return x * tl.sigmoid(x)


@triton.jit
def fused_swiglu_kernel(x_ptr, gate_ptr, up_ptr, y_ptr, M, N, K, stride_xm, stride_wn, stride_ym, BLOCK_M: tl.constexpr,
                        BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, USE_FP8: tl.constexpr = False):
    pid_m, pid_n = tl.swizzle2d(tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), 2)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    gate = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    up = tl.zeros_like(gate)
    for k in tl.range(0, K, BLOCK_K, num_stages=2):
        mask_k = (k + offs_k) < K
        x = tl.load(x_ptr + offs_m[:, None] * stride_xm + (k + offs_k)[None, :], mask=(offs_m < M)[:, None] & mask_k[None, :], other=0)
        w_offs = offs_n[None, :] * stride_wn + (k + offs_k)[:, None]
        w_mask = (offs_n < N)[None, :] & mask_k[:, None]
        gate = tl.dot(x, tl.load(gate_ptr + w_offs, mask=w_mask, other=0), acc=gate)
        up = tl.dot(x, tl.load(up_ptr + w_offs, mask=w_mask, other=0), acc=up)
    y = silu(gate) * up
    tl.store(y_ptr + offs_m[:, None] * stride_ym + offs_n[None, :], y.to(y_ptr.type.element_ty),
             mask=(offs_m < M)[:, None] & (offs_n < N)[None, :])


def test_fused_swiglu(target):
    m, n, k = 45, 75, 100
    x, gate, up = (torch.randn(s, k).half() / 3 for s in (m, n, n))
    y = torch.empty(m, n, dtype=torch.float16)
    fused_swiglu_kernel[(2, 3)](x, gate, up, y, m, n, k, k, k, n, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
    close(y, torch.nn.functional.silu(x.double() @ gate.double().t()) * (x.double() @ up.double().t()), 8)
