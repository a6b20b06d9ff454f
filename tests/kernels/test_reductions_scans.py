"""Reductions and scans over long rows and whole tensors, sorting, selection, counting, scattering: in one block, in several kernels,
with atomics, with programs that wait for one another."""

import nereid as triton
import nereid.language as tl
import pytest
import torch
from reference import close


# ---- argmax and friends -----------------------------------------------------------------------------


@triton.jit
def get_dtype_min(dtype):
    if dtype.is_floating():
        return float("-inf")
    elif dtype.is_int_signed():
        return -(2**(dtype.primitive_bitwidth - 1))
    else:
        return 0


@triton.jit
def argmax_kernel_1(inp, mid_value, mid_index, M, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    offset = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offset < M
    min_value = get_dtype_min(inp.type.element_ty)
    inp_val = tl.load(inp + offset, mask=mask, other=min_value)
    max_val, max_index = tl.max(inp_val, axis=0, return_indices=True)
    tl.store(mid_value + pid, max_val)
    tl.store(mid_index + pid, max_index + pid * BLOCK_SIZE)


@triton.jit
def argmax_kernel_2(mid_value, mid_index, out, mid_size, BLOCK_MID: tl.constexpr):
    offset = tl.arange(0, BLOCK_MID)
    mask = offset < mid_size
    min_value = get_dtype_min(mid_value.type.element_ty)
    mid_val = tl.load(mid_value + offset, mask=mask, other=min_value)
    index_val = tl.argmax(mid_val, axis=0)
    tl.store(out, tl.load(mid_index + index_val))


@triton.jit
def argmax_rows_kernel(inp, out_index, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    min_value = get_dtype_min(inp.type.element_ty)
    max_values = tl.full([BLOCK_M], dtype=tl.float32, value=float("-inf"))
    argmax_values = tl.full([BLOCK_M], dtype=tl.int64, value=0)
    for start_n in range(0, N, BLOCK_N):
        cols = start_n + tl.arange(0, BLOCK_N)
        mask = rows[:, None] < M and cols[None, :] < N
        x = tl.load(inp + rows[:, None] * N + cols[None, :], mask=mask, other=min_value)
        local_max, local_argmax = tl.max(x, 1, return_indices=True, return_indices_tie_break_left=True)
        update = local_max > max_values
        max_values = tl.where(update, local_max, max_values)
        argmax_values = tl.where(update, start_n + local_argmax, argmax_values)
    tl.store(out_index + rows, argmax_values, mask=rows < M)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int32, torch.float16], ids=str)
def test_argmax(dtype, target):
    n = 5000
    x = torch.randint(-100, 100, (n, )).to(dtype)
    parts = triton.cdiv(n, 512)
    values, indices, out = torch.empty(parts, dtype=dtype), torch.empty(parts, dtype=torch.int64), torch.empty(1, dtype=torch.int64)
    argmax_kernel_1[(parts, 1, 1)](x, values, indices, n, 512)
    argmax_kernel_2[(1, 1, 1)](values, indices, out, parts, triton.next_power_of_2(parts))
    assert out.item() == (x == x.max()).nonzero()[0].item()
    rows = x.view(8, 625).float()
    where = torch.empty(8, dtype=torch.int64)
    argmax_rows_kernel[(2, )](rows, where, 8, 625, BLOCK_M=4, BLOCK_N=128)
    assert torch.equal(where, torch.stack([(r == r.max()).nonzero()[0, 0] for r in rows]))


@triton.jit
def reduce_all(a, b):
    return a and b


@triton.jit
def prod_of(a, b):
    return a * b


@triton.jit
def sum_all_prod_kernel(inp, total, everything, product, count, N, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if tl.constexpr(inp.dtype.element_ty == tl.float16) or tl.constexpr(inp.dtype.element_ty == tl.bfloat16):
        cdtype = tl.float32
    else:
        cdtype = inp.dtype.element_ty
    _all = tl.full([BLOCK], value=1, dtype=tl.int1)
    _sum = tl.zeros([BLOCK], dtype=cdtype)
    _prod = tl.full([BLOCK], value=1.0, dtype=cdtype)
    nonzero = tl.zeros([BLOCK], dtype=tl.int64)
    for off in range(0, N, BLOCK):
        offset = off + tl.arange(0, BLOCK)
        mask = offset < N
        a = tl.load(inp + pid * N + offset, mask, other=0)
        _sum += a
        _all = _all and (a != 0 or not mask)
        _prod *= tl.where(mask, a, 1.0)
        nonzero += tl.where(mask, a != 0, 0)
    tl.store(total + pid, tl.sum(_sum, axis=0))
    tl.store(everything + pid, tl.reduce(_all, axis=0, combine_fn=reduce_all))
    tl.store(product + pid, tl.reduce(_prod, axis=0, combine_fn=prod_of))
    tl.store(count + pid, tl.sum(nonzero, axis=0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_sum_all_product_count(dtype, target):
    x = (torch.rand(6, 300) * 0.1 + 0.95).to(dtype)
    x[1, 7] = x[2, 299] = 0
    total, product = torch.empty(6, dtype=dtype), torch.empty(6, dtype=dtype)
    everything, count = torch.empty(6, dtype=torch.bool), torch.empty(6, dtype=torch.int64)
    sum_all_prod_kernel[(6, )](x, total, everything, product, count, 300, BLOCK=128)
    close(total, x.double().sum(1), 16)
    close(product, x.double().prod(1), 256 if dtype == torch.float32 else 4 if dtype == torch.bfloat16 else 1024)
    assert torch.equal(everything, (x != 0).all(1)) and torch.equal(count, torch.count_nonzero(x, 1))


@triton.jit
def norm_atomic_kernel(X, Out, Done, M, ord, BLOCK: tl.constexpr):
    """The last program to come takes the root."""
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + offs, mask=offs < M, other=0.0).to(tl.float32)
    tl.atomic_add(Out, tl.sum(tl.exp2(tl.log2(tl.abs(x) + 1e-30) * ord)))
    arrived = tl.atomic_add(Done, 1)
    if arrived == tl.num_programs(0) - 1:
        total = tl.atomic_add(Out, 0.0)
        tl.store(Out, tl.exp2(tl.log2(total) / ord))


def test_norm_by_the_last_program(target):
    x, out, done = torch.randn(3000), torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    norm_atomic_kernel[(triton.cdiv(3000, 256), )](x, out, done, 3000, 3.0, BLOCK=256)
    close(out[0], x.double().abs().pow(3).sum().pow(1 / 3), 256)


# ---- scans ------------------------------------------------------------------------------------------


@triton.jit
def scan_part_sum_kernel(inp, out, partial_sum, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    offset = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offset < n_elements
    inp_vals = tl.load(inp + offset, mask=mask)
    if (tl.constexpr(inp_vals.dtype.is_int64()) or tl.constexpr(inp_vals.dtype.is_uint64())) or tl.constexpr(inp_vals.dtype.is_fp64()):
        inp_vals = inp_vals
    elif tl.constexpr(inp_vals.dtype.is_int()):
        inp_vals = inp_vals.to(tl.int32)
    else:
        inp_vals = inp_vals.to(tl.float32)
    inp_vals = tl.where(mask, inp_vals, 0)
    result = tl.cumsum(inp_vals, axis=0)
    part_sum = tl.sum(inp_vals)
    tl.store(out + offset, result, mask=mask)
    tl.store(partial_sum + pid, part_sum)


@triton.jit
def add_base_sum_kernel(out, partial_sum, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    offset = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offset < n_elements
    out_vals = tl.load(out + offset, mask=mask)
    if pid > 0:
        last_part_sum_via_sum = tl.load(partial_sum + pid - 1)
        final_vals = out_vals + last_part_sum_via_sum
        tl.store(out + offset, final_vals.to(out_vals.dtype), mask=mask)


def scan_then_fan(x, out, block=128):
    n = x.numel()
    parts = triton.cdiv(n, block)
    partial = torch.empty(parts, dtype=out.dtype)
    scan_part_sum_kernel[(parts, )](x, out, partial, n, block, num_warps=4)
    if parts > 1:
        scan_then_fan(partial, partial, block)
        add_base_sum_kernel[(parts, )](out, partial, n, block)


@pytest.mark.parametrize("source, result", [(torch.int32, torch.int64), (torch.bool, torch.int64), (torch.float64, torch.float64)], ids=str)
def test_cumsum_of_many_blocks(source, result, target):
    x = torch.randint(0, 3, (20000, )).to(source)
    out = torch.empty(20000, dtype=result)
    scan_then_fan(x, out)
    assert torch.equal(out, x.cumsum(0).to(result))


@triton.jit
def tl_cummax(input, index, axis=0):
    return tl.associative_scan((input, index), axis, _later_or_larger)


@triton.jit
def _later_or_larger(a_value, a_index, b_value, b_index):
    take_b = b_value >= a_value
    return tl.where(take_b, b_value, a_value), tl.where(take_b, b_index, a_index)


@triton.jit
def cummax_rows_kernel(inp, out, out_indices, A, B, BLOCK: tl.constexpr):
    """Rows longer than a block: what was the largest before it goes along."""
    row = tl.program_id(0)
    best = tl.full([], float("-inf"), tl.float32)
    best_index = tl.full([], 0, tl.int64)
    for start in range(0, B, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < B
        x = tl.load(inp + row * B + offs, mask=mask, other=float("-inf"))
        value, index = tl_cummax(x, offs.to(tl.int64), axis=0)
        older = value < best
        value = tl.where(older, best, value)
        index = tl.where(older, best_index, index)
        tl.store(out + row * B + offs, value, mask=mask)
        tl.store(out_indices + row * B + offs, index, mask=mask)
        last = tl.arange(0, BLOCK) == BLOCK - 1
        best = tl.sum(tl.where(last, value, 0.0), 0)
        best_index = tl.sum(tl.where(last, index, 0), 0)


def test_cummax_of_long_rows(target):
    x = torch.randint(-100, 100, (5, 300)).float()
    values, indices = torch.empty_like(x), torch.empty(5, 300, dtype=torch.int64)
    cummax_rows_kernel[(5, )](x, values, indices, 5, 300, BLOCK=64)
    want = x.cummax(1)
    assert torch.equal(values, want.values) and torch.equal(x.gather(1, indices), want.values)
    assert (indices <= torch.arange(300)).all()


@triton.jit
def lookback_cumsum_kernel(inp, out, status, aggregates, prefixes, n, BLOCK: tl.constexpr):
    """One pass: each program publishes its sum, then walks back until it meets a prefix. Spins on volatile loads."""
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(inp + offs, mask=offs < n, other=0)
    local = tl.cumsum(x, 0)
    aggregate = tl.sum(x, 0)
    prefix = tl.zeros([], dtype=aggregate.dtype)
    if pid == 0:
        tl.store(prefixes, aggregate)
        tl.debug_barrier()
        tl.atomic_xchg(status, 2, sem="release")
    else:
        tl.store(aggregates + pid, aggregate)
        tl.debug_barrier()
        tl.atomic_xchg(status + pid, 1, sem="release")
        before = pid - 1
        while before >= 0:
            state = tl.load(status + before, volatile=True)
            while state == 0:
                state = tl.load(status + before, volatile=True)
            state = tl.atomic_add(status + before, 0, sem="acquire")
            if state == 2:
                prefix += tl.load(prefixes + before, volatile=True)
                before = -1
            else:
                prefix += tl.load(aggregates + before, volatile=True)
                before -= 1
        tl.store(prefixes + pid, prefix + aggregate)
        tl.debug_barrier()
        tl.atomic_xchg(status + pid, 2, sem="release")
    tl.store(out + offs, local + prefix, mask=offs < n)


def test_single_pass_scan(target):
    n, block = 8000, 256
    x, out, parts = torch.randint(-9, 9, (n, )), torch.empty(n, dtype=torch.int64), triton.cdiv(n, block)
    work = [torch.zeros(parts, dtype=torch.int64) for _ in range(2)]
    lookback_cumsum_kernel[(parts, )](x, out, torch.zeros(parts, dtype=torch.int32), *work, n, BLOCK=block)
    assert torch.equal(out, x.cumsum(0))


# ---- selection and counting -------------------------------------------------------------------------


@triton.jit
def nonzero_kernel(inp, prefix_sum, out, n_elements, shape, ndim: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    offset = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offset < n_elements
    inp_vals = tl.load(inp + offset, mask=mask)
    out_offset = tl.load(prefix_sum + offset, mask=mask) - 1
    nonzero_mask = mask and inp_vals == True  # noqa: E712
    idx_flat = offset
    for dim in range(ndim - 1, -1, -1):
        dim_size = tl.load(shape + dim)
        remainder = idx_flat % dim_size
        idx_flat //= dim_size
        tl.store(out + out_offset * ndim + dim, remainder, mask=nonzero_mask)


@triton.jit
def masked_select_kernel(inp_ptr, select_mask_ptr, prefix_sum_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    inp = tl.load(inp_ptr + offsets, mask=mask, other=0.0)
    select_mask = tl.load(select_mask_ptr + offsets, mask=mask, other=0.0).to(tl.int1)
    out_offset = tl.load(prefix_sum_ptr + offsets, mask=mask, other=0.0) - 1
    tl.store(out_ptr + out_offset, inp, mask=(select_mask and mask))


def test_nonzero_and_masked_select(target):
    x = torch.rand(9, 5, 20) > 0.7
    n = x.numel()
    counts = torch.empty(n, dtype=torch.int64)
    scan_then_fan(x.flatten(), counts)
    out = torch.empty(int(counts[-1]), 3, dtype=torch.int64)
    nonzero_kernel[(triton.cdiv(n, 128), )](x, counts, out, n, torch.tensor(x.shape, dtype=torch.int32), 3, BLOCK_SIZE=128)
    assert torch.equal(out, x.nonzero())
    values = torch.randn(9, 5, 20)
    picked = torch.empty(int(counts[-1]))
    masked_select_kernel[(triton.cdiv(n, 128), )](values, x, counts, picked, n, BLOCK_SIZE=128)
    assert torch.equal(picked, values[x])


@triton.jit
def unique_flat_kernel(sorted_ptr, first_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    a = tl.load(sorted_ptr + i, mask=mask)
    b = tl.load(sorted_ptr + i - 1, mask=mask & (i > 0))
    tl.store(first_ptr + i, tl.where(i > 0, a != b, 1), mask=mask)


@triton.jit
def unique_scatter_kernel(sorted_ptr, place_ptr, order_ptr, unique_ptr, inverse_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    place = tl.load(place_ptr + i, mask=mask) - 1
    tl.store(unique_ptr + place, tl.load(sorted_ptr + i, mask=mask), mask=mask)
    tl.store(inverse_ptr + tl.load(order_ptr + i, mask=mask), place, mask=mask)
    tl.atomic_add(counts_ptr + place, 1, mask=mask, sem="relaxed")


def test_unique_by_scan(target):
    x = torch.randint(0, 40, (500, ))
    ordered, order = x.sort()
    first, place = torch.empty(500, dtype=torch.int32), torch.empty(500, dtype=torch.int64)
    unique_flat_kernel[(4, )](ordered, first, 500, BLOCK=128)
    scan_then_fan(first, place)
    m = int(place[-1])
    unique, inverse, counts = torch.empty(m, dtype=torch.int64), torch.empty(500, dtype=torch.int64), torch.zeros(m, dtype=torch.int64)
    unique_scatter_kernel[(4, )](ordered, place, order, unique, inverse, counts, 500, BLOCK=128)
    want = x.unique(return_inverse=True, return_counts=True)
    assert torch.equal(unique, want[0]) and torch.equal(inverse, want[1]) and torch.equal(counts, want[2])


# ---- sorting ----------------------------------------------------------------------------------------


@triton.jit
def convert_to_uint_preserve_order(x, descending: tl.constexpr):
    """Unsigned numbers in the order of signed ones or floats."""
    if x.dtype.is_floating():
        bits = x.to(tl.int32, bitcast=True)
        bits = tl.where(bits < 0, ~bits, bits | (-2147483647 - 1))
        u = bits.to(tl.uint32, bitcast=True)
    else:
        u = x.to(tl.uint32, bitcast=True) ^ 0x80000000
    return ~u if descending else u


@triton.jit
def radix_count_kernel(keys, counts, n, shift, K_BITS: tl.constexpr, descending: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    key = convert_to_uint_preserve_order(tl.load(keys + i, mask=i < n), descending)
    digit = ((key >> shift) & (2**K_BITS - 1)).to(tl.int32)
    for bucket in tl.static_range(2**K_BITS):
        tl.store(counts + bucket * tl.num_programs(0) + pid, tl.sum(((digit == bucket) & (i < n)).to(tl.int32)))


@triton.jit
def radix_scatter_kernel(keys, values, bases, keys_out, values_out, n, shift, K_BITS: tl.constexpr, descending: tl.constexpr,
                         BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    raw = tl.load(keys + i, mask=mask)
    value = tl.load(values + i, mask=mask)
    key = convert_to_uint_preserve_order(raw, descending)
    digit = ((key >> shift) & (2**K_BITS - 1)).to(tl.int32)
    place = tl.zeros([BLOCK], tl.int32)
    for bucket in tl.static_range(2**K_BITS):
        mine = ((digit == bucket) & mask).to(tl.int32)
        base = tl.load(bases + bucket * tl.num_programs(0) + pid) - tl.sum(mine)
        place = tl.where(mine != 0, base + tl.cumsum(mine, 0) - 1, place)
    tl.store(keys_out + place, raw, mask=mask)
    tl.store(values_out + place, value, mask=mask)


@pytest.mark.parametrize("dtype, descending", [(torch.int32, False), (torch.float32, True)], ids=str)
def test_radix_sort(dtype, descending, target):
    n, block, bits = 1500, 256, 4
    keys = torch.randint(-5000, 5000, (n, )).to(dtype)
    values = torch.arange(n)
    want = keys.sort(descending=descending, stable=True)
    parts = triton.cdiv(n, block)
    for shift in range(0, 32, bits):
        counts, bases = torch.empty(2 ** bits * parts, dtype=torch.int32), torch.empty(2 ** bits * parts, dtype=torch.int32)
        radix_count_kernel[(parts, )](keys, counts, n, shift, K_BITS=bits, descending=descending, BLOCK=block)
        scan_then_fan(counts, bases)
        new_keys, new_values = torch.empty_like(keys), torch.empty_like(values)
        radix_scatter_kernel[(parts, )](keys, values, bases, new_keys, new_values, n, shift, K_BITS=bits, descending=descending, BLOCK=block)
        keys, values = new_keys, new_values
    assert torch.equal(keys, want.values) and torch.equal(values, want.indices)


@triton.jit
def sort_rows_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr, DESCENDING: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=float("-inf") if DESCENDING else float("inf"))
    tl.store(y_ptr + row * N + cols, tl.sort(x, descending=DESCENDING), mask=cols < N)


@triton.jit
def topk_rows_kernel(x_ptr, values_ptr, ids_ptr, N, BLOCK: tl.constexpr, K: tl.constexpr):
    """Value and column in one 64-bit number, as routers do."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=float("-inf"))
    bits = x.to(tl.uint32, bitcast=True)
    ordered = tl.where((bits >> 31) != 0, ~bits, bits | 0x80000000)
    packed = (ordered.to(tl.uint64) << 32) | (0xFFFFFFFF - cols.to(tl.uint32)).to(tl.uint64)
    best = tl.topk(packed, K)
    value = (best >> 32).to(tl.uint32)
    value = tl.where((value >> 31) != 0, value ^ 0x80000000, ~value).to(tl.float32, bitcast=True)
    tl.store(values_ptr + row * K + tl.arange(0, K), value)
    tl.store(ids_ptr + row * K + tl.arange(0, K), (0xFFFFFFFF - (best & 0xFFFFFFFF)).to(tl.int32))


@triton.jit
def histogram_kernel(x_ptr, counts_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.atomic_add(counts_ptr + tl.arange(0, BINS), tl.histogram(x, BINS, mask=i < n))


@pytest.mark.parametrize("descending", [False, True])
def test_sort_and_topk_of_rows(descending, target):
    x = torch.randn(7, 50)
    y = torch.empty_like(x)
    sort_rows_kernel[(7, )](x, y, 50, BLOCK=64, DESCENDING=descending)
    assert torch.equal(y, x.sort(1, descending=descending).values)
    values, ids = torch.empty(7, 8), torch.empty(7, 8, dtype=torch.int32)
    topk_rows_kernel[(7, )](x, values, ids, 50, BLOCK=64, K=8)
    want = x.topk(8, 1)
    assert torch.equal(values, want.values) and torch.equal(ids, want.indices.int())


def test_histogram(target):
    x = torch.randint(0, 32, (1000, ), dtype=torch.int32)
    counts = torch.zeros(32, dtype=torch.int32)
    histogram_kernel[(4, )](x, counts, 1000, BINS=32, BLOCK=256)
    assert torch.equal(counts, x.bincount(minlength=32).int())


@triton.jit
def quantile_kernel(sorted_ptr, q_ptr, out_ptr, N, Q, BLOCK_Q: tl.constexpr, interpolation: tl.constexpr):
    q_offs = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    mask = q_offs < Q
    position = tl.load(q_ptr + q_offs, mask=mask, other=0.0) * (N - 1)
    lower = tl.floor(position).to(tl.int32)
    upper = tl.ceil(position).to(tl.int32)
    fraction = position - lower
    low = tl.load(sorted_ptr + lower, mask=mask)
    high = tl.load(sorted_ptr + upper, mask=mask)
    if interpolation == "linear":
        out = low + (high - low) * fraction
    elif interpolation == "lower":
        out = low
    else:
        tl.static_assert(interpolation == "midpoint", "unknown interpolation")
        out = (low + high) / 2
    tl.store(out_ptr + q_offs, out, mask=mask)


@pytest.mark.parametrize("interpolation", ["linear", "lower", "midpoint"])
def test_quantile(interpolation, target):
    x, q, out = torch.randn(101), torch.rand(5), torch.empty(5)
    quantile_kernel[(1, )](x.sort().values, q, out, 101, 5, BLOCK_Q=8, interpolation=interpolation)
    close(out, torch.quantile(x.double(), q.double(), interpolation=interpolation), 64, eps=2.0 ** -20)


# ---- scatter and gather -----------------------------------------------------------------------------


@triton.jit
def embedding_kernel(out_ptr, in_ptr, weight_ptr, N: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    out_ptr += pid * N
    mask = tl.arange(0, BLOCK_SIZE) < N
    cols = tl.arange(0, BLOCK_SIZE)
    row_idx = tl.load(in_ptr + pid)
    weight_ptr += row_idx * N
    tl.store(out_ptr + cols, tl.load(weight_ptr + cols, mask, other=0.0), mask)


@triton.jit
def embedding_backward_kernel(grad_in, grad_out, indices, padding_idx, HAS_PADDING_IDX: tl.constexpr, N: tl.constexpr,
                              BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    grad_out += pid * N
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < N
    row_idx = tl.load(indices + pid).to(tl.int32)
    if not HAS_PADDING_IDX:
        grad_in += row_idx * N
        embedding_grad = tl.load(grad_out + cols, mask, other=0.0)
        if tl.constexpr(embedding_grad.dtype.is_bf16()):
            embedding_grad = embedding_grad.to(tl.float32)
        tl.atomic_add(grad_in + cols, embedding_grad, mask=mask)
    else:
        if row_idx != padding_idx:
            grad_in += row_idx * N
            embedding_grad = tl.load(grad_out + cols, mask, other=0.0)
            if tl.constexpr(embedding_grad.dtype.is_bf16()):
                embedding_grad = embedding_grad.to(tl.float32)
            tl.atomic_add(grad_in + cols, embedding_grad, mask=mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("padding", [None, 3])
def test_embedding(padding, dtype, target):
    weight, index, dy = torch.randn(20, 50).to(dtype), torch.randint(0, 20, (33, )), torch.randint(-2, 3, (33, 50)).to(dtype)
    out, grad = torch.empty(33, 50, dtype=dtype), torch.zeros(20, 50)
    embedding_kernel[(33, )](out, index, weight, 50, 64)
    assert torch.equal(out, weight[index])
    embedding_backward_kernel[(33, )](grad, dy, index, padding if padding is not None else 0, padding is not None, 50, 64)
    leaf = weight.double().requires_grad_()
    torch.nn.functional.embedding(index, leaf, padding).backward(dy.double())
    close(grad, leaf.grad, 0)


@triton.jit
def scatter_kernel(index_ptr, src_ptr, out_ptr, n, d0, d1, s_out0, s_out1, s_src0, s_src1, dim: tl.constexpr, REDUCE: tl.constexpr,
                   BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    i0, i1 = i // d1, i % d1
    index = tl.load(index_ptr + i, mask=mask, other=0)
    value = tl.load(src_ptr + i0 * s_src0 + i1 * s_src1, mask=mask, other=0)
    if dim == 0:
        target = index * s_out0 + i1 * s_out1
    else:
        target = i0 * s_out0 + index * s_out1
    if REDUCE == "add":
        tl.atomic_add(out_ptr + target, value, mask=mask, sem="relaxed")
    elif REDUCE == "amax":
        tl.atomic_max(out_ptr + target, value, mask=mask)
    elif REDUCE == "multiply":
        # By comparing and exchanging, one lane after the other would be slow: all that have not stored yet try again.
        stop = tl.where(mask, 0, 1).to(tl.int1)
        block_stop = False
        while not block_stop:
            old = tl.load(out_ptr + target, mask=mask, other=0.0)
            want = tl.where(stop, old, old * value)
            seen = tl.atomic_cas(out_ptr + target, old.to(tl.int32, bitcast=True).to(tl.float32, bitcast=True), want)
            stop |= seen.to(tl.int32, bitcast=True) == old.to(tl.int32, bitcast=True)
            block_stop = tl.sum(stop.to(tl.int32)) == BLOCK
    else:
        tl.store(out_ptr + target, value, mask=mask)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("reduce, dtype", [("add", torch.float32), ("add", torch.int32), ("amax", torch.float32), ("multiply", torch.float32),
                                           ("none", torch.float16)], ids=str)
def test_scatter(reduce, dtype, dim, target):
    shape = [12, 16]
    index = torch.randint(0, shape[dim], (8, 16)) if reduce != "none" else torch.rand(8, 16).argsort(dim)
    src = torch.randint(-3, 4, (16, 8)).to(dtype).t()
    if reduce == "multiply":
        src = torch.tensor([0.5, 1.0, 2.0])[torch.randint(0, 3, (16, 8))].t()
    out = torch.randint(1, 5, shape).to(dtype)
    want = out.clone()
    if reduce == "none":
        want.scatter_(dim, index, src)
    else:
        want.scatter_reduce_(dim, index, src, {"add": "sum", "amax": "amax", "multiply": "prod"}[reduce])
    scatter_kernel[(1, )](index, src, out, 128, 8, 16, *out.stride(), *src.stride(), dim=dim, REDUCE=reduce, BLOCK=128)
    assert torch.equal(out, want)
