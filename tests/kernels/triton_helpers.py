"""What kernels that a compiler of PyTorch programs generates call: a module of small functions."""

import nereid as triton
import nereid.language as tl
from nereid.language import math as tl_math
from nereid.language.extra import libdevice


def builtin(function):
    return tl.core.builtin(function)


@builtin
def constexpr_next_power_of_2(n, *, _semantic=None):
    """Python that runs while the kernel is compiled."""
    assert isinstance(n, tl.constexpr)
    return tl.constexpr(triton.next_power_of_2(n.value))


@builtin
def if_mask(mask, val, *, _semantic=None):
    """`val`, or None where there is no mask: `other` must go with the mask."""
    if isinstance(mask, tl.constexpr) and mask.value is None:
        return tl.constexpr(None)
    return val


@triton.jit
def promote_to_tensor(x):
    return x + tl.zeros((1,), tl.int1)


@triton.jit
def is_floating(x):
    return promote_to_tensor(x).dtype.is_floating()


@triton.jit
def div_floor_integer(a, b):
    quotient = a // b
    lower = tl.where(a % b != 0, quotient - 1, quotient)
    return tl.where((a < 0) != (b < 0), lower, quotient)


@triton.jit
def remainder_integer(a, b):
    r = a % b
    return tl.where(r != 0 and ((r < 0) != (b < 0)), r + b, r)


@triton.jit
def minimum(a, b):
    take = a < b
    if is_floating(a):
        take |= a != a
    return tl.where(take, a, b)


@triton.jit
def maximum(a, b):
    take = a > b
    if is_floating(a):
        take |= a != a
    return tl.where(take, a, b)


@triton.jit
def min2(a, dim):
    return tl.reduce(a, dim, minimum)


@triton.jit
def max2(a, dim):
    return tl.reduce(a, dim, maximum)


@triton.jit
def _extremum_with_index(a_value, a_index, b_value, b_index, larger: tl.constexpr):
    take = a_value > b_value if larger else a_value < b_value
    equal = a_value == b_value
    if is_floating(a_value):
        a_nan = a_value != a_value
        b_nan = b_value != b_value
        take |= a_nan and not b_nan
        equal |= a_nan and b_nan
    take |= equal & (a_index < b_index)
    return tl.where(take, a_value, b_value), tl.where(take, a_index, b_index)


@triton.jit
def minimum_with_index(a_value, a_index, b_value, b_index):
    return _extremum_with_index(a_value, a_index, b_value, b_index, False)


@triton.jit
def maximum_with_index(a_value, a_index, b_value, b_index):
    return _extremum_with_index(a_value, a_index, b_value, b_index, True)


@triton.jit
def min_with_index(value, index, dim):
    return tl.reduce((value, index), dim, minimum_with_index)


@triton.jit
def max_with_index(value, index, dim):
    return tl.reduce((value, index), dim, maximum_with_index)


@triton.jit
def _multiply(a, b):
    return a * b


@triton.jit
def prod(input, axis):
    return tl.reduce(input, axis, _multiply)


@triton.jit
def _either(a, b):
    return a | b


@triton.jit
def any(a, dim):
    return tl.reduce(a, dim, _either)


@triton.jit
def exp(x, use_fast_math: tl.constexpr):
    if use_fast_math:
        return tl_math.exp(x)
    else:
        return libdevice.exp(x)


@triton.jit
def online_softmax_reduce(lhs_max, lhs_sum, dim, use_fast_math: tl.constexpr):
    out_max = max2(lhs_max, dim)
    out_max_keepdim = out_max[:, None]
    delta = tl.where(out_max_keepdim == float("-inf"), 0, lhs_max - out_max_keepdim)
    out_sum = tl.sum(lhs_sum * exp(delta, use_fast_math), dim)
    return out_max, out_sum


@triton.jit
def online_softmax_combine(lhs_max, lhs_sum, rhs_max, use_fast_math: tl.constexpr):
    out_max = maximum(lhs_max, rhs_max)
    lhs_scale = tl.where(out_max == float("-inf"), 1.0, exp(lhs_max - out_max, use_fast_math))
    rhs_scale = tl.where(out_max == float("-inf"), 1.0, exp(rhs_max - out_max, use_fast_math))
    return out_max, lhs_sum * lhs_scale + rhs_scale


@triton.jit
def welford_reduce(value, mean, m2, weight, first_iteration):
    if first_iteration:
        new_weight = tl.full(weight.shape, 1, weight.dtype)
        new_mean = value
        new_m2 = tl.zeros_like(m2)
    else:
        delta = value - mean
        new_weight = weight + 1
        new_mean = mean + delta / new_weight
        new_m2 = m2 + delta * (value - new_mean)
    return new_mean, new_m2, new_weight


@triton.jit
def welford_combine(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    delta = mean_2 - mean_1
    weight = weight_1 + weight_2
    ratio = tl.where(weight == 0.0, 0.0, weight_2 / weight)
    return mean_1 + delta * ratio, m2_1 + m2_2 + delta * delta * weight_1 * ratio, weight


@triton.jit
def welford(mean, m2, weight, dim):
    return tl.reduce((mean, m2, weight), dim, welford_combine)


@triton.jit
def device_assert_then(cond, msg, r):
    tl.device_assert(cond, msg)
    return r


@triton.jit
def randint64(seed, offset, low, high):
    r0, r1, _r2, _r3 = tl.randint4x(seed, offset)
    bits = r0.to(tl.uint64) | (r1.to(tl.uint64) << 32)
    size = (high - low).to(tl.uint64)
    return (bits % size).to(tl.int64) + low


@triton.jit
def select_one(x, mask, dim, keep_dims=False):
    """The one element of each row where the mask is set, whatever its bits."""
    idtype = tl.core.get_int_dtype(x.dtype.primitive_bitwidth, signed=False)
    bits = x.to(idtype, bitcast=True)
    picked = tl.sum(bits * mask, dim, keep_dims=keep_dims)
    return picked.to(x.dtype, bitcast=True)


@triton.jit
def bucketize_binary_search(values, boundaries_ptr, BOUNDARIES_SIZE, BOUNDARIES_UNDERLYING_NUMEL, BOUNDARIES_STRIDE,
                            boundary_indices, indexing_dtype, right: tl.constexpr, sorter_ptr, SORTER_STRIDE, sorter_indices):
    low = tl.zeros(values.shape, dtype=indexing_dtype)
    high = tl.full(values.shape, BOUNDARIES_SIZE, dtype=indexing_dtype)
    full_range = BOUNDARIES_SIZE + 1
    while full_range > 1:
        mid = (high + low) // 2
        mask = (mid * BOUNDARIES_STRIDE + boundary_indices) < BOUNDARIES_UNDERLYING_NUMEL and mid < BOUNDARIES_SIZE
        mid_indices = (mid if sorter_ptr is None or SORTER_STRIDE is None else tl.load(
            sorter_ptr + sorter_indices + SORTER_STRIDE * mid, mask=mask, other=0))
        bucket_upper_bound = tl.load(boundaries_ptr + boundary_indices + BOUNDARIES_STRIDE * mid_indices, mask=mask, other=0)
        if right:
            is_above = values >= bucket_upper_bound
        else:
            is_above = values > bucket_upper_bound
        low = tl.where(is_above & mask, mid + 1, low)
        high = tl.where(is_above, high, mid)
        full_range = (full_range + 1) // 2
    return low


@triton.jit
def pack_value_flag(value, flag, DTYPE_VALUE_AS_UINT: tl.constexpr, DTYPE_PACK: tl.constexpr):
    bitwidth: tl.constexpr = DTYPE_VALUE_AS_UINT.primitive_bitwidth
    word = value.to(DTYPE_VALUE_AS_UINT, bitcast=True).to(DTYPE_PACK)
    return flag.to(DTYPE_PACK) | (word << bitwidth)


@triton.jit
def unpack_value(pack, DTYPE_VALUE, DTYPE_VALUE_AS_UINT: tl.constexpr, DTYPE_PACK: tl.constexpr):
    bitwidth: tl.constexpr = DTYPE_VALUE_AS_UINT.primitive_bitwidth
    return (pack >> bitwidth).to(DTYPE_VALUE_AS_UINT).to(DTYPE_VALUE, bitcast=True)


@triton.jit
def unpack_flag(pack, DTYPE_FLAG):
    return pack.to(DTYPE_FLAG)


@triton.jit
def exclusive_scan_decoupled_lookback(scratch_base, block_value, index, combine_fn, DTYPE_VALUE_AS_UINT: tl.constexpr,
                                      DTYPE_PACK: tl.constexpr):
    """The combination of what all programs before `index` have: each publishes its own value (flag 1), then its prefix (flag 2),
    and waits for the flags of those before it."""
    DTYPE_VALUE = block_value.dtype
    if index > 0:
        pack = pack_value_flag(block_value, tl.full(block_value.shape, 1, DTYPE_VALUE_AS_UINT), DTYPE_VALUE_AS_UINT, DTYPE_PACK)
        tl.atomic_xchg(scratch_base + index, pack, sem="relaxed")
    exclusive_prefix = tl.zeros([], DTYPE_VALUE)
    prefix_valid = False
    test_target = index - 1
    while test_target >= 0:
        flag = tl.full([], 0, DTYPE_VALUE_AS_UINT)
        pack = tl.full([], 0, DTYPE_PACK)
        while flag == 0:
            pack = tl.atomic_add(scratch_base + test_target, 0, sem="relaxed")
            flag = unpack_flag(pack, DTYPE_VALUE_AS_UINT)
        value = unpack_value(pack, DTYPE_VALUE, DTYPE_VALUE_AS_UINT, DTYPE_PACK)
        if prefix_valid:
            exclusive_prefix = combine_fn(value, exclusive_prefix)
        else:
            exclusive_prefix = value
            prefix_valid = True
        if flag == 2:
            test_target = -1
        else:
            test_target = test_target - 1
    if prefix_valid:
        inclusive_prefix = combine_fn(exclusive_prefix, block_value)
    else:
        inclusive_prefix = block_value
    pack = pack_value_flag(inclusive_prefix, tl.full([], 2, DTYPE_VALUE_AS_UINT), DTYPE_VALUE_AS_UINT, DTYPE_PACK)
    tl.atomic_xchg(scratch_base + index, pack, sem="relaxed")
    return exclusive_prefix


@triton.jit
def frexp(x):
    y = libdevice.ilogb(x) + 1
    exponent = tl.where(x == 0, 0, y)
    mantissa = tl.where(x == 0, 0, libdevice.ldexp(x, -y))
    return mantissa, exponent


@triton.jit
def _compare_and_swap_with_index(x, idxs, rnumel, flip, i: tl.constexpr, n_dims: tl.constexpr, stable: tl.constexpr,
                                 descending: tl.constexpr):
    n_outer: tl.constexpr = x.numel >> n_dims
    shape: tl.constexpr = [n_outer * 2**i, 2, 2**(n_dims - i - 1)]
    idtype = tl.core.get_int_dtype(bitwidth=x.dtype.primitive_bitwidth, signed=True)
    y = tl.reshape(x, shape)
    iy = y.to(idtype, bitcast=True)
    right_mask = tl.arange(0, 2)[None, :, None].to(idtype)
    left_mask = (1 - right_mask).to(idtype)
    ileft = tl.broadcast_to(tl.sum((iy * left_mask).to(idtype), 1).to(idtype)[:, None, :], shape)
    iright = tl.broadcast_to(tl.sum((iy * right_mask).to(idtype), 1).to(idtype)[:, None, :], shape)
    left = tl.reshape(ileft, x.shape).to(x.dtype, bitcast=True)
    right = tl.reshape(iright, x.shape).to(x.dtype, bitcast=True)
    y_idx = tl.reshape(idxs, shape)
    left_idx = tl.broadcast_to(tl.sum(y_idx * (1 - tl.arange(0, 2))[None, :, None].to(y_idx.dtype), 1)[:, None, :], shape)
    right_idx = tl.broadcast_to(tl.sum(y_idx * tl.arange(0, 2)[None, :, None].to(y_idx.dtype), 1)[:, None, :], shape)
    left_idx = tl.reshape(left_idx, x.shape).to(idxs.dtype)
    right_idx = tl.reshape(right_idx, x.shape).to(idxs.dtype)
    left_valid = tl.full(x.shape, True, tl.int1) if rnumel is None else left_idx < rnumel
    right_valid = tl.full(x.shape, True, tl.int1) if rnumel is None else right_idx < rnumel
    if descending:
        cond = left < right
        eq = left == right
    else:
        cond = left > right
        eq = left == right
    if stable:
        cond = cond | (eq & (left_idx > right_idx))
    # What is beyond the end goes to the end, whichever the order.
    cond = (right_valid > left_valid) | ((right_valid == left_valid) & cond)
    cond = (cond ^ flip).to(tl.int1)
    ix = x.to(idtype, bitcast=True)
    ret = ix ^ tl.where(cond, ileft.reshape(x.shape) ^ iright.reshape(x.shape), tl.zeros_like(ix))
    new_idxs = idxs ^ tl.where(cond, left_idx ^ right_idx, tl.zeros_like(idxs))
    return ret.to(x.dtype, bitcast=True), new_idxs


@triton.jit
def _bitonic_merge_with_index(x, idxs, rnumel, stage: tl.constexpr, alternating: tl.constexpr, n_dims: tl.constexpr,
                              stable: tl.constexpr, descending: tl.constexpr):
    n_outer: tl.constexpr = x.numel >> n_dims
    if alternating:
        shape: tl.constexpr = [n_outer * 2**(n_dims - 1 - stage), 2, 2**stage]
        flip = tl.reshape(tl.broadcast_to(tl.arange(0, 2)[None, :, None], shape), x.shape)
    else:
        flip = False
    next_x = x
    next_idxs = idxs
    for i in tl.static_range(stage):
        next_x, next_idxs = _compare_and_swap_with_index(next_x, next_idxs, rnumel, flip, i + (n_dims - stage), n_dims, stable,
                                                         descending)
    return next_x, next_idxs


@triton.jit
def sort_with_index(x, idxs, rnumel, dim: tl.constexpr = None, stable: tl.constexpr = tl.constexpr(False),
                    descending: tl.constexpr = tl.constexpr(False)):
    x, idxs = tl.broadcast(x, idxs)
    _dim: tl.constexpr = len(x.shape) - 1 if dim is None or dim == -1 else dim
    tl.static_assert(_dim == len(x.shape) - 1, "only the last dimension can be sorted")
    n_dims: tl.constexpr = tl.standard._log2(x.shape[_dim])
    for i in tl.static_range(1, n_dims + 1):
        x, idxs = _bitonic_merge_with_index(x, idxs, rnumel, i, i < n_dims, n_dims, stable, descending)
    return x, idxs


@triton.jit
def x_grid_barrier(sem):
    """All programs of the first axis wait for one another; they must all be running."""
    tl.debug_barrier()
    one_i32 = 1
    one_u32 = one_i32.to(tl.uint32)
    expected = tl.num_programs(0).to(tl.uint32)
    if tl.program_id(0) == 0:
        nb = 0x80000000 - (expected - one_u32)
    else:
        nb = one_u32
    old_arrive = tl.atomic_add(sem, nb, sem="release")
    bar_flipped = False
    while not bar_flipped:
        current_arrive = tl.atomic_add(sem, one_u32 - one_u32, sem="acquire")
        bar_flipped = ((old_arrive ^ current_arrive) & 0x80000000) != 0
    tl.debug_barrier()
