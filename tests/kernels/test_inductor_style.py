"""Kernels in the style of those that PyTorch's compiler generates: numbered temporaries, sizes written into the text, masks that are
None or all true where a size divides, helper functions of a module. Those without reductions (test_inductor_reductions.py), and templates."""

import triton_helpers
import nereid as triton
import nereid.language as tl
import pytest
import torch
from nereid.language import math as tl_math
from nereid.language.extra import libdevice
from reference import close
from triton_helpers import div_floor_integer, remainder_integer


@triton.jit
def triton_poi_fused_add_gelu_relu_0(in_ptr0, in_ptr1, in_ptr2, out_ptr0, out_ptr1, xnumel, XBLOCK: tl.constexpr):
    xnumel = 5000
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x0 = (xindex % 50)
    tmp0 = tl.load(in_ptr0 + (x2), xmask).to(tl.float32)
    tmp1 = tl.load(in_ptr1 + (x0), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp13 = tl.load(in_ptr2 + (x2), xmask)
    tmp2 = tmp0 + tmp1
    tmp3 = 0.5
    tmp4 = tmp2 * tmp3
    tmp5 = 0.7071067811865476
    tmp6 = tmp2 * tmp5
    tmp7 = libdevice.erf(tmp6)
    tmp8 = 1.0
    tmp9 = tmp7 + tmp8
    tmp10 = tmp4 * tmp9
    tmp11 = tl.full([1], 0, tl.int32)
    tmp12 = triton_helpers.maximum(tmp11, tmp10)
    tmp14 = 0.0
    tmp15 = tmp12 <= tmp14
    tmp16 = tl.where(tmp13, tmp12, tmp14)
    tl.store(out_ptr0 + (x2), tmp16, xmask)
    tl.store(out_ptr1 + (x2), tmp15, xmask)


def test_pointwise_with_bool_and_half(target):
    x, bias, keep = torch.randn(100, 50).half(), torch.randn(50).half(), torch.rand(100, 50) > 0.3
    y, zero = torch.empty(100, 50), torch.empty(100, 50, dtype=torch.bool)
    x[3, 4] = float("nan")
    triton_poi_fused_add_gelu_relu_0[(triton.cdiv(5000, 512), )](x, bias, keep, y, zero, 5000, XBLOCK=512, num_warps=4, num_stages=1)
    want = torch.relu(torch.nn.functional.gelu(x.double() + bias.double()))
    close(y, torch.where(keep, want, 0.0), 64)
    close(zero, want <= 0)


@triton.jit
def triton_poi_fused_all_lanes_1(in_out_ptr0, in_ptr0, xnumel, XBLOCK: tl.constexpr):
    xnumel = 4096
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([XBLOCK], True, tl.int1)[:]
    x0 = xindex
    tmp0 = tl.load(in_out_ptr0 + (x0), None)
    tmp1 = tl.load(in_ptr0 + (0))
    tmp2 = tl.broadcast_to(tmp1, [XBLOCK])
    tmp3 = tmp0 * tmp2
    tmp4 = libdevice.tanh(tmp3)
    tmp5 = tl.sigmoid(tmp4)
    tmp6 = tl_math.exp(tmp5)
    tmp7 = libdevice.log1p(tmp6)
    tmp8 = libdevice.rsqrt(tmp7)
    tmp9 = tmp8 + tl_math.sin(tmp0) * tl_math.cos(tmp0) + tl_math.abs(tmp0) + libdevice.expm1(tmp5)
    tl.store(in_out_ptr0 + (x0), tmp9, None)


def test_pointwise_without_mask_in_place(target):
    x, scale = torch.randn(4096), torch.tensor([0.7])
    y = x.clone()
    triton_poi_fused_all_lanes_1[(4, )](y, scale, 4096, XBLOCK=1024, num_warps=4)
    d = x.double()
    s = torch.sigmoid(torch.tanh(d * scale.double()))
    close(y, torch.rsqrt(torch.log1p(s.exp())) + d.sin() * d.cos() + d.abs() + torch.expm1(s), 16)


@triton.jit
def triton_poi_fused_clone_transpose_2(in_ptr0, out_ptr0, ynumel, xnumel, YBLOCK: tl.constexpr, XBLOCK: tl.constexpr):
    ynumel = 96
    xnumel = 63
    yoffset = (tl.program_id(1) + tl.program_id(2) * tl.num_programs(1)) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]
    ymask = yindex < ynumel
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]
    xmask = xindex < xnumel
    x2 = xindex
    y3 = yindex
    y0 = (yindex % 32)
    y1 = yindex // 32
    tmp0 = tl.load(in_ptr0 + (y0 + 32 * x2 + 2016 * y1), xmask & ymask, eviction_policy='evict_last')
    tl.store(out_ptr0 + (x2 + 63 * y3), tmp0, xmask & ymask)


def test_transposing_copy_of_two_axes(target):
    x = torch.randn(3, 63, 32)
    y = torch.empty(3, 32, 63)
    triton_poi_fused_clone_transpose_2[(triton.cdiv(63, 16), 2, 3)](x, y, 96, 63, YBLOCK=16, XBLOCK=16)
    assert torch.equal(y, x.transpose(1, 2))


@triton.jit
def triton_poi_fused_index_3(in_ptr0, in_ptr1, out_ptr0, ks0, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0).to(tl.int64) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:].to(tl.int64)
    xmask = xindex < xnumel
    x1 = xindex // ks0
    x0 = (xindex % ks0)
    x2 = xindex
    tmp0 = tl.load(in_ptr0 + (x1), xmask, eviction_policy='evict_last')
    tmp1 = tl.full([XBLOCK], 11, tl.int32)
    tmp2 = tmp0 + tmp1
    tmp3 = tmp0 < 0
    tmp4 = tl.where(tmp3, tmp2, tmp0)
    tl.device_assert(((0 <= tmp4) & (tmp4 < 11)) | ~(xmask), "index out of bounds: 0 <= tmp4 < 11")
    tmp6 = tl.load(in_ptr1 + (x0 + ks0 * tmp4), xmask, eviction_policy='evict_last')
    tl.store(out_ptr0 + (x2), tmp6, xmask)


def test_dynamic_sizes_with_negative_indices(target):
    index = torch.tensor([3, -1, 0, 10, -11, 5, 5])
    table = torch.randn(11, 37)
    out = torch.empty(7, 37)
    triton_poi_fused_index_3[(triton.cdiv(7 * 37, 128), )](index, table, out, 37, 7 * 37, XBLOCK=128)
    assert torch.equal(out, table[index])


@triton.jit
def triton_poi_fused_integers_4(in_ptr0, in_ptr1, out_ptr0, out_ptr1, out_ptr2, out_ptr3, xnumel, XBLOCK: tl.constexpr):
    xnumel = 500
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    tmp0 = tl.load(in_ptr0 + xindex, xmask)
    tmp1 = tl.load(in_ptr1 + xindex, xmask, other=1)
    tmp2 = triton_helpers.div_floor_integer(tmp0, tmp1)
    tmp3 = triton_helpers.remainder_integer(tmp0, tmp1)
    tmp4 = tmp0.to(tl.int8).to(tl.uint8)
    tmp5 = tmp0.to(tl.float32)
    tmp6 = tl_math.div_rn(tmp5, tmp1.to(tl.float32))
    tmp7 = libdevice.nearbyint(tmp6) + libdevice.trunc(tmp6) + libdevice.floor(tmp6) + libdevice.ceil(tmp6)
    tl.store(out_ptr0 + xindex, tmp2, xmask)
    tl.store(out_ptr1 + xindex, tmp3, xmask)
    tl.store(out_ptr2 + xindex, tmp4, xmask)
    tl.store(out_ptr3 + xindex, tmp7, xmask)


def test_integer_helpers(target):
    a = torch.randint(-1000, 1000, (500, ))
    b = torch.randint(1, 50, (500, )) * (torch.randint(0, 2, (500, )) * 2 - 1)
    div, mod, byte, rounded = torch.empty_like(a), torch.empty_like(a), torch.empty(500, dtype=torch.uint8), torch.empty(500)
    triton_poi_fused_integers_4[(2, )](a, b, div, mod, byte, rounded, 500, XBLOCK=256)
    close(div, torch.div(a, b, rounding_mode="floor"))
    close(mod, torch.remainder(a, b))
    close(byte, a.to(torch.int8).view(torch.uint8))
    q = (a.float() / b.float())
    close(rounded, q.round() + q.trunc() + q.floor() + q.ceil(), 2)


@triton.jit
def triton_poi_fused_bucketize_15(in_ptr0, in_ptr1, in_ptr2, out_ptr0, out_ptr1, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), xmask)
    tmp1 = triton_helpers.bucketize_binary_search(tmp0, in_ptr1, 37, 37, 1, 0, tl.int32, False, None, None, None, )
    tmp2 = triton_helpers.bucketize_binary_search(tmp0, in_ptr1, 37, 37, 1, 0, tl.int64, True, in_ptr2, 1, 0, )
    tl.store(out_ptr0 + (x0), tmp1, xmask)
    tl.store(out_ptr1 + (x0), tmp2, xmask)


def test_bucketize(target):
    edges = torch.randn(37).sort().values
    x = torch.cat([torch.randn(200), edges[:5]])
    left, right = torch.empty(205, dtype=torch.int32), torch.empty(205, dtype=torch.int64)
    triton_poi_fused_bucketize_15[(2, )](x, edges, torch.arange(37), left, right, 205, XBLOCK=128)
    close(left, torch.bucketize(x, edges, out_int32=True))
    close(right, torch.bucketize(x, edges, right=True))


@triton.jit
def triton_per_fused_sort_16(in_ptr0, out_ptr0, out_ptr1, xnumel, r0_numel, XBLOCK: tl.constexpr, DESCENDING: tl.constexpr):
    R0_BLOCK: tl.constexpr = 64
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_mask = r0_index < r0_numel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_index + r0_numel * x0), r0_mask & xmask, other=0.0)
    tmp1 = r0_index.to(tl.int16)
    tmp2 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
    tmp3 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
    tmp4, tmp5, = triton_helpers.sort_with_index(tmp2, tmp3, r0_numel, 1, stable=True, descending=DESCENDING)
    tmp6 = tmp5.to(tl.int64)
    tl.store(out_ptr0 + (r0_index + r0_numel * x0), tmp4, r0_mask & xmask)
    tl.store(out_ptr1 + (r0_index + r0_numel * x0), tmp6, r0_mask & xmask)


@pytest.mark.parametrize("descending", [False, True])
def test_sort_with_index(descending, target):
    x = torch.randint(-9, 9, (11, 50)).float()
    values, indices = torch.empty_like(x), torch.empty(11, 50, dtype=torch.int64)
    triton_per_fused_sort_16[(6, )](x, values, indices, 11, 50, XBLOCK=2, DESCENDING=descending)
    want = x.sort(dim=1, descending=descending, stable=True)
    close(values, want.values, 0)
    close(indices, want.indices)


@triton.jit
def triton_for_fused_foreach_17(in_ptr0, in_ptr1, in_ptr2, out_ptr0, out_ptr1, out_ptr2):
    pid = tl.program_id(0)
    XBLOCK: tl.constexpr = 256
    num_xblocks_0 = tl.cdiv(1000, XBLOCK)
    num_xblocks_1 = num_xblocks_0 + tl.cdiv(30, XBLOCK)
    num_xblocks_2 = num_xblocks_1 + tl.cdiv(513, XBLOCK)
    if pid < num_xblocks_0:
        pid_offset = pid
        xnumel = 1000
        r0_numel = 1
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x0 = xindex
        tmp0 = tl.load(in_ptr0 + (x0), xmask)
        tmp1 = 0.9
        tmp2 = tmp0 * tmp1
        tl.store(out_ptr0 + (x0), tmp2, xmask)
    elif pid < num_xblocks_1:
        pid_offset = pid - num_xblocks_0
        xnumel = 30
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x1 = xindex
        tmp3 = tl.load(in_ptr1 + (x1), xmask)
        tmp4 = 0.9
        tmp5 = tmp3 * tmp4
        tl.store(out_ptr1 + (x1), tmp5, xmask)
    elif pid < num_xblocks_2:
        pid_offset = pid - num_xblocks_1
        xnumel = 513
        xoffset = pid_offset * XBLOCK
        xindex = xoffset + tl.arange(0, XBLOCK)[:]
        xmask = xindex < xnumel
        x2 = xindex
        tmp6 = tl.load(in_ptr2 + (x2), xmask)
        tmp7 = 0.9
        tmp8 = tmp6 * tmp7
        tl.store(out_ptr2 + (x2), tmp8, xmask)
    else:
        pass


def test_foreach(target):
    inputs = [torch.randn(n) for n in (1000, 30, 513)]
    outputs = [torch.empty_like(x) for x in inputs]
    triton_for_fused_foreach_17[(4 + 1 + 3 + 2, )](*inputs, *outputs)
    for x, y in zip(inputs, outputs):
        close(y, x.double() * 0.9, 2)


@triton.jit
def triton_poi_fused_scatter_18(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x1 = xindex // 24
    x0 = (xindex % 24)
    tmp0 = tl.load(in_ptr0 + (x1), xmask, eviction_policy='evict_last')
    tmp5 = tl.load(in_ptr1 + (xindex), xmask)
    tl.device_assert(((0 <= tl.broadcast_to(tmp0, [XBLOCK])) & (tl.broadcast_to(tmp0, [XBLOCK]) < 10)) | ~(xmask),
                     "index out of bounds: 0 <= tl.broadcast_to(tmp0, [XBLOCK]) < 10")
    tl.atomic_add(out_ptr0 + (x0 + 24 * tmp0), tmp5, xmask, sem='relaxed')


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float16], ids=str)
def test_index_put_accumulates(dtype, target):
    index = torch.randint(0, 10, (40, ))
    x = torch.randint(-3, 4, (40, 24)).to(dtype)
    out = torch.zeros(10, 24, dtype=dtype)
    triton_poi_fused_scatter_18[(4, )](index, x, out, 40 * 24, XBLOCK=256)
    close(out, torch.zeros(10, 24, dtype=torch.float64).index_add_(0, index, x.double()), 0)


@triton.jit
def triton_poi_fused_cat_19(in_ptr0, in_ptr1, in_ptr2, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = (xindex % 30)
    x1 = xindex // 30
    x2 = xindex
    tmp0 = x0
    tmp1 = tl.full([1], 0, tl.int64)
    tmp2 = tmp0 >= tmp1
    tmp3 = tl.full([1], 7, tl.int64)
    tmp4 = tmp0 < tmp3
    tmp5 = tl.load(in_ptr0 + (7 * x1 + (x0)), tmp4 & xmask, eviction_policy='evict_last', other=0.0)
    tmp6 = tmp0 >= tmp3
    tmp7 = tl.full([1], 20, tl.int64)
    tmp8 = tmp0 < tmp7
    tmp9 = tmp6 & tmp8
    tmp10 = tl.load(in_ptr1 + (13 * x1 + ((-7) + x0)), tmp9 & xmask, eviction_policy='evict_last', other=0.0)
    tmp11 = tmp0 >= tmp7
    tmp12 = tl.full([1], 30, tl.int64)
    tmp13 = tmp0 < tmp12
    tmp14 = tl.load(in_ptr2 + (10 * x1 + ((-20) + x0)), tmp11 & xmask, eviction_policy='evict_last', other=0.0)
    tmp15 = tl.where(tmp9, tmp10, tmp14)
    tmp16 = tl.where(tmp4, tmp5, tmp15)
    tl.store(out_ptr0 + (x2), tmp16, xmask)


def test_cat(target):
    parts = [torch.randn(17, n) for n in (7, 13, 10)]
    out = torch.empty(17, 30)
    triton_poi_fused_cat_19[(2, )](*parts, out, 510, XBLOCK=256)
    assert torch.equal(out, torch.cat(parts, 1))


@triton.jit
def triton_poi_fused_dropout_20(in_ptr0, in_ptr1, out_ptr0, out_ptr1, out_ptr2, load_seed_offset, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + load_seed_offset)
    tmp1 = x0
    tmp2 = tl.rand(tmp0, (tmp1).to(tl.uint32))
    tmp3 = 0.25
    tmp4 = tmp2 > tmp3
    tmp5 = tmp4.to(tl.float32)
    tmp6 = tl.load(in_ptr1 + (x0), xmask)
    tmp7 = tmp5 * tmp6
    tmp8 = 1.3333333333333333
    tmp9 = tmp7 * tmp8
    tmp10 = tl.randn(tmp0, (tmp1).to(tl.uint32))
    tmp11 = triton_helpers.randint64(tmp0, (tmp1).to(tl.uint32), tl.full([1], 5, tl.int64), tl.full([1], 12, tl.int64))
    tl.store(out_ptr0 + (x0), tmp9, xmask)
    tl.store(out_ptr1 + (x0), tmp10, xmask)
    tl.store(out_ptr2 + (x0), tmp11, xmask)


def test_random(target):
    n = 20000
    seeds, x = torch.tensor([7, 123456789012345]), torch.ones(n)
    y, normal, integers = torch.empty(n), torch.empty(n), torch.empty(n, dtype=torch.int64)
    launch = lambda: triton_poi_fused_dropout_20[(triton.cdiv(n, 1024), )](seeds, x, y, normal, integers, 1, n, XBLOCK=1024)
    launch()
    assert abs((y == 0).double().mean() - 0.25) < 0.02 and set(y.unique().tolist()) == {0.0, y.max().item()}
    assert abs(normal.mean()) < 0.03 and abs(normal.std() - 1) < 0.03
    assert integers.min() == 5 and integers.max() == 11 and integers.bincount()[5:].min() > n / 7 * 0.9
    first = y.clone()
    launch()
    assert torch.equal(first, y)


@triton.jit
def triton_poi_fused_helpers_22(in_ptr0, out_ptr0, out_ptr1, out_ptr2, out_ptr3, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, triton_helpers.constexpr_next_power_of_2(XBLOCK))[:]
    xmask = xindex < xnumel
    tmp0 = tl.load(in_ptr0 + xindex, xmask, other=triton_helpers.if_mask(xmask, 0.0))
    tmp1, tmp2 = triton_helpers.frexp(tmp0)
    tmp3 = libdevice.pow(tl_math.abs(tmp0), 1.5)
    tmp4 = libdevice.signbit(tmp0) != 0
    tmp5 = tl.where(tmp4, -tmp3, tmp3) + libdevice.copysign(tmp3, tmp0) + libdevice.atan2(tmp0, tmp3)
    tmp6 = libdevice.isnan(tmp0).to(tl.int1) | libdevice.isinf(tmp0).to(tl.int1)
    tl.store(out_ptr0 + xindex, tmp1, xmask)
    tl.store(out_ptr1 + xindex, tmp2, xmask)
    tl.store(out_ptr2 + xindex, tmp5, xmask)
    tl.store(out_ptr3 + xindex, tmp6, xmask)


@pytest.mark.overflows("the helper adds one to the exponent of an infinity")
def test_builtins_of_python_and_frexp(target):
    x = torch.cat([torch.randn(200) * 100, torch.tensor([0.0, -0.0, 1.0, 2.0 ** -100, float("inf"), float("nan")])])
    n = x.numel()
    mantissa, exponent = torch.empty(n), torch.empty(n, dtype=torch.int32)
    y, odd = torch.empty(n), torch.empty(n, dtype=torch.bool)
    triton_poi_fused_helpers_22[(2, )](x, mantissa, exponent, y, odd, n, XBLOCK=128)
    want = torch.frexp(x)
    finite = torch.isfinite(x)
    close(mantissa[finite], want.mantissa[finite], 0)
    close(exponent[finite], want.exponent[finite])
    d = x[finite].double()
    p = d.abs() ** 1.5
    close(y[finite], 2 * torch.copysign(p, d) + torch.atan2(d, p), 8)
    close(odd, ~finite)


@triton.jit
def triton_tem_fused_mm_relu_23(arg_A, arg_B, in_ptr2, out_ptr0, ks0):
    GROUP_M: tl.constexpr = 8
    EVEN_K: tl.constexpr = False
    ALLOW_TF32: tl.constexpr = False
    ACC_TYPE: tl.constexpr = tl.float32
    BLOCK_M: tl.constexpr = 32
    BLOCK_N: tl.constexpr = 64
    BLOCK_K: tl.constexpr = 16
    A = arg_A
    B = arg_B
    M = ks0
    N = 88
    K = 70
    if M * N == 0:
        # early exit due to zero-size input(s)
        return
    stride_am = 70
    stride_ak = 1
    stride_bk = 1
    stride_bn = 70
    pid = tl.program_id(0)
    grid_m = (M + BLOCK_M - 1) // BLOCK_M
    grid_n = (N + BLOCK_N - 1) // BLOCK_N
    width = GROUP_M * grid_n
    group_id = pid // width
    group_size = min(grid_m - group_id * GROUP_M, GROUP_M)
    pid_m = group_id * GROUP_M + (pid % group_size)
    pid_n = (pid % width) // (group_size)
    tl.assume(pid_m >= 0)
    tl.assume(pid_n >= 0)
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    if ((stride_am == 1 and stride_ak == M) or (stride_am == K and stride_ak == 1)) and (M >= BLOCK_M and K > 1):
        offs_a_m = tl.max_contiguous(tl.multiple_of(rm % M, BLOCK_M), BLOCK_M)
    else:
        offs_a_m = rm % M
    if ((stride_bk == 1 and stride_bn == K) or (stride_bk == N and stride_bn == 1)) and (N >= BLOCK_N and K > 1):
        offs_b_n = tl.max_contiguous(tl.multiple_of(rn % N, BLOCK_N), BLOCK_N)
    else:
        offs_b_n = rn % N
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC_TYPE)
    for k_idx in range(0, tl.cdiv(K, BLOCK_K)):
        a_mask = offs_k[None, :] < (K - k_idx * BLOCK_K)
        b_mask = offs_k[:, None] < (K - k_idx * BLOCK_K)
        a_k_idx_vals = offs_k[None, :] + (k_idx * BLOCK_K)
        b_k_idx_vals = offs_k[:, None] + (k_idx * BLOCK_K)
        idx_m = offs_a_m[:, None]
        idx_n = a_k_idx_vals
        xindex = idx_n + 70 * idx_m
        a = tl.load(A + (xindex), mask=a_mask, other=0.0)
        idx_m = b_k_idx_vals
        idx_n = offs_b_n[None, :]
        xindex = idx_m + 70 * idx_n
        b = tl.load(B + (xindex), mask=b_mask, other=0.0)
        acc += tl.dot(a, b, allow_tf32=ALLOW_TF32, out_dtype=ACC_TYPE)
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    idx_m = rm[:, None]
    idx_n = rn[None, :]
    mask = (idx_m < M) & (idx_n < N)
    xindex = idx_n + 88 * idx_m
    tmp0 = tl.load(in_ptr2 + (tl.broadcast_to(idx_n, [BLOCK_M, BLOCK_N])), mask, eviction_policy='evict_last').to(tl.float32)
    tmp1 = acc + tmp0
    tmp2 = tl.full([1], 0, tl.int32)
    tmp3 = triton_helpers.maximum(tmp2, tmp1)
    tl.store(out_ptr0 + (tl.broadcast_to(xindex, [BLOCK_M, BLOCK_N])), tmp3, mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_mm_template(dtype, target):
    a, b, bias = torch.randn(75, 70).to(dtype), torch.randn(88, 70).to(dtype), torch.randn(88)
    out = torch.empty(75, 88, dtype=dtype)
    triton_tem_fused_mm_relu_23[(3 * 2, )](a, b, bias, out, 75, num_stages=3, num_warps=4)
    close(out, torch.relu(a.double() @ b.double().t() + bias.double()), 64 if dtype == torch.float32 else 4)
