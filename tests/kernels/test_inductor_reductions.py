"""Kernels in the style of those that PyTorch's compiler generates: numbered temporaries, sizes written into the text, masks that are
None or all true where a size divides, helper functions of a module. Reductions and scans, whole or in loops."""

import triton_helpers
import nereid as triton
import nereid.language as tl
import pytest
import torch
from nereid.language import math as tl_math
from nereid.language.extra import libdevice
from reference import close


@triton.jit
def triton_per_fused__softmax_5(in_ptr0, out_ptr2, xnumel, r0_numel, XBLOCK: tl.constexpr):
    xnumel = 61
    r0_numel = 200
    R0_BLOCK: tl.constexpr = 256
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_offset = 0
    r0_mask = r0_index < r0_numel
    roffset = r0_offset
    rindex = r0_index
    r0_1 = r0_index
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_1 + 200 * x0), r0_mask & xmask, other=0.0)
    tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
    tmp3 = tl.where(r0_mask & xmask, tmp1, float("-inf"))
    tmp4 = triton_helpers.max2(tmp3, 1)[:, None].to(tl.float32)
    tmp5 = tmp0 - tmp4
    tmp6 = tl_math.exp(tmp5)
    tmp7 = tl.broadcast_to(tmp6, [XBLOCK, R0_BLOCK])
    tmp9 = tl.where(r0_mask & xmask, tmp7, 0)
    tmp10 = tl.sum(tmp9, 1)[:, None].to(tl.float32)
    tmp11 = (tmp6 / tmp10)
    tl.store(out_ptr2 + (r0_1 + 200 * x0), tmp11, r0_mask & xmask)


@pytest.mark.parametrize("xblock", [1, 8])
def test_persistent_softmax(xblock, target):
    x = torch.randn(61, 200)
    y = torch.empty_like(x)
    triton_per_fused__softmax_5[(triton.cdiv(61, xblock), )](x, y, 61, 200, XBLOCK=xblock, num_warps=2)
    close(y, torch.softmax(x.double(), 1))


@triton.jit
def triton_per_fused_one_row_6(in_ptr0, out_ptr0, out_ptr1, out_ptr2, xnumel, r0_numel):
    xnumel = 30
    XBLOCK: tl.constexpr = 1
    r0_numel = 512
    R0_BLOCK: tl.constexpr = 512
    xoffset = tl.program_id(0) * XBLOCK
    xindex = tl.full([1], xoffset, tl.int32)
    xmask = tl.full([R0_BLOCK], True, tl.int1)
    r0_index = tl.arange(0, R0_BLOCK)[:]
    r0_mask = tl.full([R0_BLOCK], True, tl.int1)
    r0_1 = r0_index
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_1 + 512 * x0), None)
    tmp1 = tl.broadcast_to(tmp0, [R0_BLOCK])
    tmp3 = triton_helpers.promote_to_tensor(tl.sum(tmp1, 0))
    tmp4 = triton_helpers.promote_to_tensor(triton_helpers.max2(tmp1, 0))
    tmp5 = tmp0 > 2.5
    tmp6 = tl.broadcast_to(tmp5, [R0_BLOCK])
    tmp7 = triton_helpers.promote_to_tensor(triton_helpers.any(tmp6, 0))
    tl.store(out_ptr0 + (x0), tmp3, None)
    tl.store(out_ptr1 + (x0), tmp4, None)
    tl.store(out_ptr2 + (x0), tmp7, None)


def test_persistent_without_x_axis(target):
    x = torch.randn(30, 512)
    x[4, 7] = float("nan")
    total, top, some = torch.empty(30), torch.empty(30), torch.empty(30, dtype=torch.bool)
    triton_per_fused_one_row_6[(30, )](x, total, top, some, 30, 512)
    close(total, x.double().sum(1), 64)
    close(top, x.double().amax(1), 0)
    close(some, (x > 2.5).any(1))


@triton.jit
def triton_red_fused_mean_var_layer_norm_7(in_ptr0, in_ptr1, in_ptr2, out_ptr0, out_ptr1, out_ptr2, xnumel, r0_numel,
                                           XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    xnumel = 45
    r0_numel = 700
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    tmp2_mean = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    tmp2_m2 = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    tmp2_weight = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK, num_stages=2):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        rindex = r0_index
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + 700 * x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
        tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
        tmp2_mean_next, tmp2_m2_next, tmp2_weight_next = triton_helpers.welford_reduce(
            tmp1, tmp2_mean, tmp2_m2, tmp2_weight, roffset == 0
        )
        tmp2_mean = tl.where(r0_mask & xmask, tmp2_mean_next, tmp2_mean)
        tmp2_m2 = tl.where(r0_mask & xmask, tmp2_m2_next, tmp2_m2)
        tmp2_weight = tl.where(r0_mask & xmask, tmp2_weight_next, tmp2_weight)
    tmp3, tmp4, tmp5 = triton_helpers.welford(tmp2_mean, tmp2_m2, tmp2_weight, 1)
    tmp2 = tmp3[:, None]
    tmp6 = tmp4[:, None]
    tmp7 = tmp5[:, None]
    tl.store(out_ptr0 + (x0), tmp2, xmask)
    tmp8 = 700.0
    tmp9 = (tmp6 / tmp8)
    tmp10 = 1e-05
    tmp11 = tmp9 + tmp10
    tmp12 = libdevice.rsqrt(tmp11)
    tl.store(out_ptr1 + (x0), tmp12, xmask)
    for r0_offset in range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        r0_1 = r0_index
        tmp13 = tl.load(in_ptr0 + (r0_1 + 700 * x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0).to(tl.float32)
        tmp16 = tl.load(in_ptr1 + (r0_1), r0_mask, eviction_policy='evict_last', other=0.0)
        tmp18 = tl.load(in_ptr2 + (r0_1), r0_mask, eviction_policy='evict_last', other=0.0)
        tmp14 = tmp13 - tmp2
        tmp15 = tmp14 * tmp12
        tmp17 = tmp15 * tmp16
        tmp19 = tmp17 + tmp18
        tmp20 = tmp19.to(tl.float32)
        tl.store(out_ptr2 + (r0_1 + 700 * x0), tmp20, r0_mask & xmask)


@pytest.mark.parametrize("xblock, rblock", [(1, 1024), (8, 128), (4, 512)])
def test_looped_welford_layer_norm(xblock, rblock, target):
    x, weight, bias = (torch.randn(45, 700) * 3 + 100).bfloat16(), torch.randn(700), torch.randn(700)
    mean, rstd, y = torch.empty(45), torch.empty(45), torch.empty(45, 700, dtype=torch.bfloat16)
    triton_red_fused_mean_var_layer_norm_7[(triton.cdiv(45, xblock), )](x, weight, bias, mean, rstd, y, 45, 700, XBLOCK=xblock,
                                                                       R0_BLOCK=rblock, num_warps=4)
    d = x.double()
    close(mean, d.mean(1))
    close(rstd, (d.var(1, correction=0) + 1e-5).rsqrt(), 64)
    close(y, torch.nn.functional.layer_norm(d, (700, ), weight.double(), bias.double()), 2)


@triton.jit
def triton_red_fused__log_softmax_8(in_ptr0, out_ptr2, xnumel, r0_numel, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    x0 = xindex
    _tmp3_max = tl.full([XBLOCK, R0_BLOCK], float('-inf'), tl.float32)
    _tmp3_sum = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    for r0_offset in range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        r0_1 = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_1 + r0_numel * x0), r0_mask & xmask, eviction_policy='evict_last', other=0.0)
        tmp2 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
        _tmp3_max_next, _tmp3_sum_next = triton_helpers.online_softmax_combine(
            _tmp3_max, _tmp3_sum, tmp2, False
        )
        _tmp3_max = tl.where(r0_mask & xmask, _tmp3_max_next, _tmp3_max)
        _tmp3_sum = tl.where(r0_mask & xmask, _tmp3_sum_next, _tmp3_sum)
    tmp3, tmp4 = triton_helpers.online_softmax_reduce(_tmp3_max, _tmp3_sum, 1, False)
    tmp3 = tmp3[:, None]
    tmp4 = tmp4[:, None]
    for r0_offset in range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        r0_1 = r0_index
        tmp5 = tl.load(in_ptr0 + (r0_1 + r0_numel * x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp6 = tmp5 - tmp3
        tmp7 = tl_math.log(tmp4)
        tmp8 = tmp6 - tmp7
        tl.store(out_ptr2 + (r0_1 + r0_numel * x0), tmp8, r0_mask & xmask)


@pytest.mark.parametrize("rows, columns", [(5, 1000), (33, 65)])
def test_looped_online_softmax(rows, columns, target):
    x = torch.randn(rows, columns) * 5
    y = torch.empty_like(x)
    triton_red_fused__log_softmax_8[(triton.cdiv(rows, 4), )](x, y, rows, columns, XBLOCK=4, R0_BLOCK=128)
    close(y, torch.log_softmax(x.double(), 1))


@triton.jit
def triton_red_fused_argmax_amin_prod_9(in_ptr0, out_ptr0, out_ptr1, out_ptr2, out_ptr3, xnumel, r0_numel, XBLOCK: tl.constexpr,
                                        R0_BLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    x0 = xindex
    _tmp2 = tl.full([XBLOCK, R0_BLOCK], float("-inf"), tl.float32)
    _tmp2_index = tl.full([XBLOCK, R0_BLOCK], 2147483647, tl.int32)
    _tmp4 = tl.full([XBLOCK, R0_BLOCK], float("inf"), tl.float32)
    _tmp6 = tl.full([XBLOCK, R0_BLOCK], 1, tl.float32)
    _tmp8 = tl.full([XBLOCK, R0_BLOCK], False, tl.int1)
    for r0_offset in range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        rindex = r0_index
        tmp0 = tl.load(in_ptr0 + (r0_index + r0_numel * x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
        _tmp2_next, _tmp2_index_next = triton_helpers.maximum_with_index(
            _tmp2, _tmp2_index, tmp1, rindex
        )
        _tmp2 = tl.where(r0_mask & xmask, _tmp2_next, _tmp2)
        _tmp2_index = tl.where(r0_mask & xmask, _tmp2_index_next, _tmp2_index)
        tmp5 = triton_helpers.minimum(_tmp4, tmp1)
        _tmp4 = tl.where(r0_mask & xmask, tmp5, _tmp4)
        tmp7 = _tmp6 * tmp1
        _tmp6 = tl.where(r0_mask & xmask, tmp7, _tmp6)
        tmp9 = _tmp8 | (tmp1 == 1.5)
        _tmp8 = tl.where(r0_mask & xmask, tmp9, _tmp8)
    tmp2_val, tmp2_idx = triton_helpers.max_with_index(_tmp2, _tmp2_index, 1)
    tmp2 = tmp2_idx[:, None]
    tl.store(out_ptr0 + (x0), tmp2, xmask)
    tmp4 = triton_helpers.min2(_tmp4, 1)[:, None]
    tl.store(out_ptr1 + (x0), tmp4, xmask)
    tmp6 = triton_helpers.prod(_tmp6, 1)[:, None]
    tl.store(out_ptr2 + (x0), tmp6, xmask)
    tmp10 = triton_helpers.any(_tmp8.to(tl.int8), 1)[:, None].to(tl.int1)
    tl.store(out_ptr3 + (x0), tmp10, xmask)


@pytest.mark.parametrize("columns", [5, 300])
def test_looped_reductions_with_nan_and_ties(columns, target):
    x = torch.rand(21, columns) * 0.2 + 0.9
    x[2, 3] = x[5, 1] = x[5, 4] = float("nan")
    x[7, 1] = x[7, 3] = 1.5
    where, low = torch.empty(21, dtype=torch.int64), torch.empty(21)
    product, some = torch.empty(21), torch.empty(21, dtype=torch.bool)
    triton_red_fused_argmax_amin_prod_9[(3, )](x, where, low, product, some, 21, columns, XBLOCK=8, R0_BLOCK=64)
    close(where, x.argmax(1))
    close(low, x.double().amin(1), 0)
    close(product, x.double().prod(1), columns * 4)
    close(some, (x == 1.5).any(1))


@triton.jit
def triton_red_fused_split_sum_10(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    xnumel = 128
    r0_numel = 157
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    x1 = xindex // 32
    x0 = (xindex % 32)
    _tmp9 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    x3 = xindex
    for r0_offset in range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        r0_2 = r0_index
        tmp0 = r0_2 + 157 * x1
        tmp1 = tl.full([1, 1], 626, tl.int32)
        tmp2 = tmp0 < tmp1
        tmp3 = tl.load(in_ptr0 + (x0 + 32 * (((r0_2 + 157 * x1) % 626))), r0_mask & tmp2 & xmask, eviction_policy='evict_last',
                       other=0.0)
        tmp4 = tmp3 * tmp3
        tmp5 = tl.full(tmp4.shape, 0, tmp4.dtype)
        tmp6 = tl.where(tmp2, tmp4, tmp5)
        tmp7 = tl.broadcast_to(tmp6, [XBLOCK, R0_BLOCK])
        tmp8 = _tmp9 + tmp7
        _tmp9 = tl.where(r0_mask & xmask, tmp8, _tmp9)
    tmp9 = tl.sum(_tmp9, 1)[:, None]
    tl.store(out_ptr0 + (x3), tmp9, xmask)


@triton.jit
def triton_per_fused_split_sum_11(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK: tl.constexpr):
    xnumel = 32
    r0_numel = 4
    R0_BLOCK: tl.constexpr = 4
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_mask = tl.full([XBLOCK, R0_BLOCK], True, tl.int1)
    r0_1 = r0_index
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0 + 32 * r0_1), xmask, other=0.0)
    tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
    tmp3 = tl.where(xmask, tmp1, 0)
    tmp4 = tl.sum(tmp3, 1)[:, None]
    tl.store(out_ptr0 + (x0), tmp4, xmask)


def test_split_reduction(target):
    x = torch.randn(626, 32)
    partial, total = torch.empty(4, 32), torch.empty(32)
    triton_red_fused_split_sum_10[(16, )](x, partial, 128, 157, XBLOCK=8, R0_BLOCK=64)
    triton_per_fused_split_sum_11[(1, )](partial, total, 32, 4, XBLOCK=32)
    close(total, (x.double() ** 2).sum(0), 64)


@triton.jit
def _triton_helper_fn_add0(arg0_0, arg1_0):
    tmp0 = arg0_0 + arg1_0
    return tmp0


@triton.jit
def _triton_helper_fn_cummax(arg0_0, arg0_1, arg1_0, arg1_1):
    tmp0 = arg0_0 > arg1_0
    tmp1 = arg0_0 == arg1_0
    tmp2 = arg0_0 != arg0_0
    tmp3 = arg1_0 != arg1_0
    tmp4 = tmp2 > tmp3
    tmp5 = tmp0 | tmp4
    tmp6 = tmp2 & tmp3
    tmp7 = tmp1 | tmp6
    tmp8 = arg0_1 > arg1_1
    tmp9 = tmp7 & tmp8
    tmp10 = tmp5 | tmp9
    tmp11 = tl.where(tmp10, arg0_0, arg1_0)
    tmp12 = tl.where(tmp10, arg0_1, arg1_1)
    return tmp11, tmp12


@triton.jit
def triton_per_fused_cumsum_cummax_12(in_ptr0, out_ptr0, out_ptr1, out_ptr2, xnumel, r0_numel, XBLOCK: tl.constexpr):
    R0_BLOCK: tl.constexpr = 128
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_mask = r0_index < r0_numel
    r0_1 = r0_index
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_1 + r0_numel * x0), r0_mask & xmask, other=0.0)
    tmp1 = tmp0.to(tl.float32)
    tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
    tmp3, = tl.associative_scan((tmp2,), 1, _triton_helper_fn_add0)
    tmp4 = r0_1
    tmp5 = tmp4.to(tl.int64)
    tmp6 = tl.broadcast_to(tmp5, [XBLOCK, R0_BLOCK])
    tmp7, tmp8, = tl.associative_scan((tmp2, tmp6,), 1, _triton_helper_fn_cummax)
    tl.store(out_ptr0 + (r0_1 + r0_numel * x0), tmp3, r0_mask & xmask)
    tl.store(out_ptr1 + (r0_1 + r0_numel * x0), tmp7, r0_mask & xmask)
    tl.store(out_ptr2 + (r0_1 + r0_numel * x0), tmp8, r0_mask & xmask)


def test_scans(target):
    x = torch.randn(13, 100)
    x[3, 20] = float("nan")
    total, top, where = torch.empty_like(x), torch.empty_like(x), torch.empty(13, 100, dtype=torch.int64)
    triton_per_fused_cumsum_cummax_12[(4, )](x, total, top, where, 13, 100, XBLOCK=4)
    close(total, x.double().cumsum(1), 64)
    values, indices = x.double().cummax(1)
    close(top, values, 0)
    rows = torch.arange(13) != 3  # which of several NaN is the index is anybody's choice
    close(where[rows], indices[rows])


@triton.jit
def triton_red_fused_cumsum_13(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    rbase = r0_base
    x0 = xindex
    tmp4 = tl.full([XBLOCK, 1], float('nan'), tl.float32)
    for r0_offset in range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        roffset = r0_offset
        tmp0 = tl.load(in_ptr0 + (r0_index + r0_numel * x0), r0_mask & xmask, eviction_policy='evict_first', other=0.0)
        tmp1 = tmp0.to(tl.float32)
        tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
        tmp3, = tl.associative_scan((tmp2,), 1, _triton_helper_fn_add0)
        tmp5 = triton_helpers.select_one((tmp3), rbase == (R0_BLOCK - 1), dim=-1, keep_dims=True)
        tmp6 = tmp4 + tmp5
        tmp7 = tmp4 + tmp3
        tmp8 = tl.where(roffset > 0, tmp7, tmp3)
        tmp4 = tl.where(roffset > 0, tmp6, tmp5)
        tl.store(out_ptr0 + (r0_index + r0_numel * x0), tmp8, r0_mask & xmask)


def test_looped_scan_with_carry(target):
    x = torch.randn(9, 500)
    y = torch.empty_like(x)
    triton_red_fused_cumsum_13[(3, )](x, y, 9, 500, XBLOCK=4, R0_BLOCK=64)
    close(y, x.double().cumsum(1), 128)


@triton.jit
def triton_spl_fused_cumsum_14(in_ptr0, out_ptr0, ws_ptr, xnumel, r0_numel, R0_BLOCK: tl.constexpr):
    XBLOCK: tl.constexpr = 1
    xoffset = tl.program_id(1) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = tl.full([R0_BLOCK], True, tl.int1)
    r0_offset = tl.program_id(0) * R0_BLOCK
    r0_index = r0_offset + tl.arange(0, R0_BLOCK)[:]
    r0_mask = r0_index < r0_numel
    tmp2_ws = (ws_ptr).to(tl.pointer_type(tl.uint64))
    tmp0 = tl.load(in_ptr0 + (r0_index), r0_mask, eviction_policy='evict_first', other=0.0)
    tmp1 = tmp0.to(tl.float32)
    tmp2 = tl.sum(tmp1, 0)
    tmp3 = triton_helpers.exclusive_scan_decoupled_lookback(
        tmp2_ws,
        tmp2,
        tl.program_id(0),
        _triton_helper_fn_add0,
        DTYPE_VALUE_AS_UINT=tl.uint32,
        DTYPE_PACK=tl.uint64,
    )
    tmp4, = tl.associative_scan((tmp1,), 0, _triton_helper_fn_add0)
    tmp5 = _triton_helper_fn_add0(tmp3, tmp4)
    tmp6 = tl.where(r0_offset == 0, tmp4, tmp5)
    tl.store(out_ptr0 + (r0_index), tmp6, r0_mask)


def test_split_scan_looks_back(target):
    x = torch.randint(-8, 8, (4000, )).float()
    y, workspace = torch.empty_like(x), torch.zeros(64 * 8, dtype=torch.uint8)
    triton_spl_fused_cumsum_14[(triton.cdiv(4000, 256), )](x, y, workspace, 1, 4000, R0_BLOCK=256)
    assert torch.equal(y, x.cumsum(0))


@triton.jit
def triton_unk_fused_cooperative_21(in_ptr0, out_ptr0, ws_ptr, sem_ptr, xnumel, r0_numel, RSPLIT: tl.constexpr,
                                    XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    xoffset = tl.program_id(1) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    rsplit_id = tl.program_id(0)
    num_rblocks = (r0_numel + R0_BLOCK - 1) // R0_BLOCK
    rsplit_chunk = (num_rblocks + RSPLIT - 1) // RSPLIT * R0_BLOCK
    rsplit_start = rsplit_chunk * rsplit_id
    rsplit_end = rsplit_chunk * (rsplit_id + 1)
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    _tmp2 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for r0_offset in range(rsplit_start, min(rsplit_end, r0_numel), R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        tmp0 = tl.load(in_ptr0 + (r0_index + r0_numel * xindex), r0_mask & xmask, other=0.0)
        _tmp2 = tl.where(r0_mask & xmask, _tmp2 + tmp0, _tmp2)
    tmp2 = tl.sum(_tmp2, 1)[:, None]
    tl.store(ws_ptr + (xindex * RSPLIT + rsplit_id), tmp2, xmask)
    triton_helpers.x_grid_barrier(sem_ptr + tl.program_id(1))
    if rsplit_id == 0:
        peers = tl.load(ws_ptr + (xindex * RSPLIT + tl.arange(0, RSPLIT)[None, :]), xmask, volatile=True)
        tl.store(out_ptr0 + xindex, tl.sum(peers, 1)[:, None], xmask)


def test_cooperative_reduction(target):
    x = torch.randint(-8, 8, (6, 3000)).float()
    out, workspace, semaphores = torch.empty(6), torch.empty(8 * 4), torch.zeros(2, dtype=torch.int32)
    semaphores = triton.reinterpret(semaphores, tl.uint32)
    triton_unk_fused_cooperative_21[(4, 2)](x, out, workspace, semaphores, 6, 3000, RSPLIT=4, XBLOCK=4, R0_BLOCK=256,
                                            launch_cooperative_grid=True)
    assert torch.equal(out, x.sum(1))
