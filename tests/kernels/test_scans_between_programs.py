"""Programs that talk to one another: look-back with status and value in one word, serial split-K, counters that pick the last program, stencils that
exchange rows, tables and lists built by atomics; sampling and verification of drafts; sparse matrices and segments."""

import nereid as triton
import nereid.language as tl
import pytest
import torch
from reference import close

# ---- look-back --------------------------------------------------------------------------------------


@triton.jit
def _pack(value, status):
    return value.to(tl.float32).to(tl.uint32, bitcast=True).to(tl.uint64) | (tl.full([], status, tl.uint64) << 32)


@triton.jit
def _value_of(word):
    return word.to(tl.uint32).to(tl.float32, bitcast=True)


@triton.jit
def look_back_kernel(x_ptr, y_ptr, state_ptr, ticket_ptr, n, BLOCK: tl.constexpr):
    """One word says how far a program is and what its sum is; programs number themselves, so that earlier ones run."""
    pid = tl.atomic_add(ticket_ptr, 1, sem="relaxed")
    i = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    local = tl.cumsum(x, 0)
    total = tl.sum(x, 0)
    if pid == 0:
        tl.atomic_xchg(state_ptr, _pack(total, 2), sem="release")
        before = 0.0
    else:
        tl.atomic_xchg(state_ptr + pid, _pack(total, 1), sem="release")
        before = 0.0
        at = pid - 1
        while at >= 0:
            word = tl.atomic_or(state_ptr + at, tl.full([], 0, tl.uint64), sem="acquire")
            status = (word >> 32).to(tl.int32)
            if status != 0:
                before += _value_of(word)
                at = -1 if status == 2 else at - 1
        tl.atomic_xchg(state_ptr + pid, _pack(before + total, 2), sem="release")
    tl.store(y_ptr + i, before + local, mask=i < n)


def test_look_back(target):
    n = 900
    x, y = torch.randn(n), torch.empty(n)
    programs = triton.cdiv(n, 64)
    look_back_kernel[(programs, )](x, y, torch.zeros(programs, dtype=torch.uint64), torch.zeros(1, dtype=torch.int32), n, BLOCK=64)
    close(y, x.double().cumsum(0), 64)


@triton.jit
def _first_of_segment(flag_a, sum_a, flag_b, sum_b):
    return flag_a | flag_b, tl.where(flag_b != 0, sum_b, sum_a + sum_b)


@triton.jit
def segmented_scan_kernel(x_ptr, head_ptr, y_ptr, carry_ptr, n, BLOCK: tl.constexpr, REVERSE: tl.constexpr):
    """A chain: each program waits for the one before it."""
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    x, head = tl.load(x_ptr + i, mask=i < n, other=0.0), tl.load(head_ptr + i, mask=i < n, other=0).to(tl.int32)
    flags, sums = tl.associative_scan((head, x), 0, _first_of_segment)
    carry = 0.0
    if pid > 0:
        while tl.atomic_add(carry_ptr + 2 * pid, 0, sem="acquire") == 0:
            pass
        carry = tl.load(carry_ptr + 2 * pid + 1).to(tl.float32, bitcast=True)
    result = tl.where(flags != 0, sums, sums + carry)
    tl.store(y_ptr + i, result, mask=i < n)
    last = tl.sum(tl.where(tl.arange(0, BLOCK) == BLOCK - 1, result, 0.0), 0)
    if pid + 1 < tl.num_programs(0):
        tl.store(carry_ptr + 2 * pid + 3, last.to(tl.int32, bitcast=True))
        tl.debug_barrier()
        tl.atomic_xchg(carry_ptr + 2 * pid + 2, 1, sem="release")


def test_segmented_scan(target):
    n = 300
    x, head, y = torch.randn(n), torch.rand(n) < 0.05, torch.empty(n)
    programs = triton.cdiv(n, 32)
    segmented_scan_kernel[(programs, )](x, head, y, torch.zeros(2 * programs, dtype=torch.int32), n, BLOCK=32, REVERSE=False)
    want, total = [], 0.0
    for value, first in zip(x.tolist(), head.tolist()):
        total = value if first else total + value
        want.append(total)
    close(y, torch.tensor(want, dtype=torch.float64), 64)


# ---- serial split-K, stencils, sinking counters -----------------------------------------------------


@triton.autotune(configs=[triton.Config({'BLOCK_M': 16, 'BLOCK_N': 16, 'BLOCK_K': 32, 'SPLIT_K': s}, num_stages=2, num_warps=2) for s in (1, 3, 4)],
                 key=['M', 'N', 'K'], reset_to_zero=['locks_ptr'])
@triton.heuristics({'EVEN_K': lambda args: args['K'] % (args['BLOCK_K'] * args['SPLIT_K']) == 0})
@triton.jit
def serial_split_k_kernel(a_ptr, b_ptr, c_ptr, locks_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, BLOCK_M: tl.constexpr,
                          BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr, EVEN_K: tl.constexpr):
    """Parts add in order, so that sums are the same in every run: the lock says whose turn it is."""
    pid, pid_z = tl.program_id(0), tl.program_id(1)
    grid_n = tl.cdiv(N, BLOCK_N)
    rm, rn = (pid // grid_n) * BLOCK_M + tl.arange(0, BLOCK_M), (pid % grid_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = pid_z * BLOCK_K + tl.arange(0, BLOCK_K)
    A, B = a_ptr + rm[:, None] * stride_am + rk[None, :] * stride_ak, b_ptr + rk[:, None] * stride_bk + rn[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K * SPLIT_K)):
        if EVEN_K:
            a, b = tl.load(A, mask=rm[:, None] < M, other=0.0), tl.load(B, mask=rn[None, :] < N, other=0.0)
        else:
            k_remaining = K - k * (BLOCK_K * SPLIT_K)
            a = tl.load(A, mask=(rk[None, :] < k_remaining) & (rm[:, None] < M), other=0.0)
            b = tl.load(B, mask=(rk[:, None] < k_remaining) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
        A += BLOCK_K * SPLIT_K * stride_ak
        B += BLOCK_K * SPLIT_K * stride_bk
    C = c_ptr + rm[:, None] * stride_cm + rn[None, :] * stride_cn
    mask = (rm < M)[:, None] & (rn < N)[None, :]
    if SPLIT_K > 1:
        while tl.atomic_cas(locks_ptr + pid, pid_z, pid_z, sem="acquire") != pid_z:
            pass
        if pid_z > 0:
            acc += tl.load(C, mask=mask, other=0.0).to(tl.float32)
        tl.store(C, acc.to(c_ptr.dtype.element_ty), mask=mask)
        tl.debug_barrier()
        tl.atomic_xchg(locks_ptr + pid, (pid_z + 1) % SPLIT_K, sem="release")
    else:
        tl.store(C, acc.to(c_ptr.dtype.element_ty), mask=mask)


@pytest.mark.parametrize("k", [96, 173])
def test_serial_split_k(k, target):
    M, N = 21, 35
    a, b = torch.randn(k, M, dtype=torch.float16).T, torch.randn(1, N, dtype=torch.float16).expand(k, N)
    c = torch.empty(N, M).T
    locks = torch.zeros(64, dtype=torch.int32)
    grid = lambda META: (triton.cdiv(M, META['BLOCK_M']) * triton.cdiv(N, META['BLOCK_N']), META['SPLIT_K'])
    serial_split_k_kernel[grid](a, b, c, locks, M, N, k, *a.stride(), *b.stride(), *c.stride())
    close(c, a.double() @ b.double(), 32)


@triton.jit
def jacobi_kernel(a_ptr, b_ptr, progress_ptr, rows, columns, steps, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Each program keeps a strip of rows; before a step it waits until its neighbours have done the one before."""
    pid, last = tl.program_id(0), tl.num_programs(0) - 1
    r, c = pid * ROWS + tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    inner = (r > 0) & (r < rows - 1) & (c > 0) & (c < columns - 1)
    inside = (r < rows) & (c < columns)
    for step in range(steps):
        if pid > 0:
            while tl.atomic_add(progress_ptr + pid - 1, 0, sem="acquire") < step:
                pass
        if pid < last:
            while tl.atomic_add(progress_ptr + pid + 1, 0, sem="acquire") < step:
                pass
        source, result = (a_ptr, b_ptr) if step % 2 == 0 else (b_ptr, a_ptr)
        at = source + r * columns + c
        new = 0.25 * (tl.load(at - columns, mask=inner, other=0.0, volatile=True) + tl.load(at + columns, mask=inner, other=0.0, volatile=True) +
                      tl.load(at - 1, mask=inner, other=0.0, volatile=True) + tl.load(at + 1, mask=inner, other=0.0, volatile=True))
        tl.store(result + r * columns + c, tl.where(inner, new, tl.load(at, mask=inside, other=0.0, volatile=True)), mask=inside)
        tl.debug_barrier()
        tl.atomic_add(progress_ptr + pid, 1, sem="release")


def test_stencil_with_neighbours(target):
    rows, columns, steps = 22, 13, 5
    grid = torch.randn(rows, columns)
    a, b = grid.clone(), torch.empty_like(grid)
    programs = triton.cdiv(rows, 8)
    jacobi_kernel[(programs, )](a, b, torch.zeros(programs, dtype=torch.int32), rows, columns, steps, ROWS=8, COLUMNS=16, launch_cooperative_grid=True)
    want = grid.double()
    for _ in range(steps):
        new = want.clone()
        new[1:-1, 1:-1] = 0.25 * (want[:-2, 1:-1] + want[2:, 1:-1] + want[1:-1, :-2] + want[1:-1, 2:])
        want = new
    close(b, want, 16)


@triton.jit
def compact_lists_kernel(keys_ptr, head_ptr, next_ptr, count_ptr, out_ptr, n, THRESHOLD: tl.constexpr, BLOCK: tl.constexpr):
    """Linked lists by exchange, and elements above a threshold appended behind one atomic for each program."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    key = tl.load(keys_ptr + i, mask=m, other=0)
    tl.store(next_ptr + i, tl.atomic_xchg(head_ptr + key, i, mask=m), mask=m)
    keep = m & (key > THRESHOLD)
    place = tl.cumsum(keep.to(tl.int32), 0) - 1
    start = tl.atomic_add(count_ptr, tl.sum(keep.to(tl.int32), 0))
    tl.store(out_ptr + start + place, i, mask=keep)


def test_lists_by_atomics(target):
    n, keys = 150, torch.randint(0, 9, (150, ), dtype=torch.int32)
    head, following = torch.full((9, ), -1, dtype=torch.int32), torch.empty(n, dtype=torch.int32)
    count, out = torch.zeros(1, dtype=torch.int32), torch.full((n, ), -1, dtype=torch.int32)
    compact_lists_kernel[(triton.cdiv(n, 32), )](keys, head, following, count, out, n, THRESHOLD=4, BLOCK=32)
    for key in range(9):
        found, at = [], head[key].item()
        while at >= 0:
            found.append(at)
            at = following[at].item()
        assert sorted(found) == (keys == key).nonzero()[:, 0].tolist()
    assert sorted(out[:count.item()].tolist()) == (keys > 4).nonzero()[:, 0].tolist()


# ---- sampling and drafts ----------------------------------------------------------------------------


@triton.jit
def nucleus_kernel(logits_ptr, out_ptr, kept_ptr, vocab, stride, top_k, top_p, temperature, seed, BLOCK: tl.constexpr):
    """The threshold of the nucleus is found by halving; a token by the Gumbel trick."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    logits = tl.load(logits_ptr + row * stride + i, mask=i < vocab, other=-float("inf")).to(tl.float32) / temperature
    probability = tl.softmax(logits, 0)
    low, high = 0.0, tl.max(probability, 0)
    for _ in range(30):
        middle = (low + high) * 0.5
        above = probability >= middle
        if (tl.sum(tl.where(above, probability, 0.0), 0) >= top_p) or (tl.sum(above.to(tl.int32), 0) >= top_k):
            low = middle
        else:
            high = middle
    keep = (probability >= low) & (i < vocab)
    tl.store(kept_ptr + row * vocab + i, keep, mask=i < vocab)
    noise = -tl.log(-tl.log(tl.maximum(tl.rand(seed, row * vocab + i), 1e-10)))
    tl.store(out_ptr + row, tl.argmax(tl.where(keep, tl.log(probability) + noise, -float("inf")), 0))


def test_nucleus(target):
    rows, vocab, top_p = 5, 77, 0.8
    logits = torch.randn(rows, vocab + 3, dtype=torch.bfloat16)[:, :vocab] * 2
    out, kept = torch.empty(rows, dtype=torch.int64), torch.empty(rows, vocab, dtype=torch.bool)
    nucleus_kernel[(rows, )](logits, out, kept, vocab, logits.stride(0), 1000, top_p, 0.7, 1234, BLOCK=128)
    p = torch.softmax(logits.double() / 0.7, -1)
    for row in range(rows):
        mass = p[row, kept[row]].sum()
        assert mass >= top_p - 1e-5 and kept[row, out[row]]
        smallest = p[row, kept[row]].min()
        assert mass - smallest * (p[row] == smallest).sum() < top_p


@triton.jit(do_not_specialize=["max_spec_len"])
def rejection_kernel(output_ptr, cu_num_draft_ptr, draft_ids_ptr, draft_probs_ptr, target_probs_ptr, bonus_ptr, recovered_ptr, uniform_ptr, is_greedy_ptr,
                     max_spec_len, vocab_size, NO_DRAFT_PROBS: tl.constexpr):
    req = tl.program_id(0)
    is_greedy = tl.load(is_greedy_ptr + req)
    if is_greedy:
        return
    start = 0 if req == 0 else tl.load(cu_num_draft_ptr + req - 1)
    num = tl.load(cu_num_draft_ptr + req) - start
    rejected = False
    for pos in range(num):
        if not rejected:
            draft = tl.load(draft_ids_ptr + start + pos)
            if NO_DRAFT_PROBS:
                draft_prob = 1
            else:
                draft_prob = tl.load(draft_probs_ptr + (start + pos) * vocab_size + draft)
            target_prob = tl.load(target_probs_ptr + (start + pos) * vocab_size + draft)
            if draft_prob > 0 and target_prob / draft_prob >= tl.load(uniform_ptr + start + pos):
                token = draft
            else:
                rejected = True
                token = tl.load(recovered_ptr + start + pos)
            tl.store(output_ptr + req * (max_spec_len + 1) + pos, token)
    if not rejected:
        tl.store(output_ptr + req * (max_spec_len + 1) + num, tl.load(bonus_ptr + req))


@pytest.mark.parametrize("without", [False, True])
def test_verifying_drafts(without, target):
    counts, vocab, longest = [3, 0, 4, 2], 11, 4
    cu, total = torch.tensor(counts).cumsum(0).to(torch.int32), sum(counts)
    ids, bonus, recovered = (torch.randint(0, vocab, (n, ), dtype=torch.int32) for n in (total, 4, total))
    q, p = torch.softmax(torch.randn(total, vocab), -1), torch.softmax(torch.randn(total, vocab), -1)
    uniform, greedy = torch.rand(total, dtype=torch.float64) * 0.7, torch.tensor([False, False, False, True])
    out = torch.full((4, longest + 1), -1, dtype=torch.int32)
    rejection_kernel[(4, )](out, cu, ids, None if without else q, p, bonus, recovered, uniform, greedy, longest, vocab, NO_DRAFT_PROBS=without, num_warps=1)
    want = torch.full_like(out, -1)
    for r, n in enumerate(counts):
        first = int(cu[r]) - n
        for pos in range(0 if greedy[r] else n):
            at = first + pos
            if p[at, ids[at]] / (1 if without else q[at, ids[at]]) < uniform[at]:
                want[r, pos] = recovered[at]
                break
            want[r, pos] = ids[at]
        else:
            if not greedy[r]:
                want[r, n] = bonus[r]
    assert torch.equal(out, want)


# ---- sparse matrices, segments, jagged batches ------------------------------------------------------


@triton.jit
def csr_times_dense_kernel(crow_ptr, col_ptr, values_ptr, x_ptr, y_ptr, columns, stride_xr, stride_xc, BLOCK: tl.constexpr, CHUNK: tl.constexpr,
                           REDUCE: tl.constexpr):
    row = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first, last = tl.load(crow_ptr + row), tl.load(crow_ptr + row + 1)
    acc = tl.full([BLOCK], 0.0 if REDUCE != "max" else -float("inf"), tl.float32)
    for start in range(first, last, CHUNK):
        k = start + tl.arange(0, CHUNK)
        at = tl.load(col_ptr + k, mask=k < last, other=0)
        if values_ptr is None:
            value = tl.where(k < last, 1.0, 0.0)
        else:
            value = tl.load(values_ptr + k, mask=k < last, other=0.0)
        x = tl.load(x_ptr + at[:, None] * stride_xr + c[None, :] * stride_xc, mask=(k < last)[:, None] & (c < columns)[None, :], other=0.0)
        if REDUCE == "max":
            acc = tl.maximum(acc, tl.max(tl.where((k < last)[:, None], x * value[:, None], -float("inf")), 0))
        else:
            acc += tl.sum(x * value[:, None], 0)
    if REDUCE == "mean":
        acc /= tl.maximum(last - first, 1)
    elif REDUCE == "max":
        acc = tl.where(last > first, acc, 0.0)
    tl.store(y_ptr + row * columns + c, acc, mask=c < columns)


@pytest.mark.parametrize("reduce,weighted", [("sum", True), ("mean", False), ("max", True)])
def test_sparse_rows(reduce, weighted, target):
    rows, inner, columns = 17, 23, 19
    dense = torch.randn(rows, inner) * (torch.rand(rows, inner) < 0.4)
    dense[3] = 0
    sparse = dense.to_sparse_csr()
    values = sparse.values() if weighted else None
    x = torch.randn(columns, inner).T
    y = torch.empty(rows, columns)
    csr_times_dense_kernel[(rows, triton.cdiv(columns, 16))](sparse.crow_indices(), sparse.col_indices(), values, x, y, columns, *x.stride(), BLOCK=16, CHUNK=8,
                                                             REDUCE=reduce)
    present = dense != 0
    weight = dense.double() if weighted else present.double()
    if reduce == "max":
        terms = (weight[:, :, None] * x.double()).masked_fill(~present[:, :, None], -float("inf"))
        want = torch.where(present.any(1)[:, None], terms.max(1).values, 0.0)
    else:
        want = weight @ x.double()
        want = want / present.sum(1).clamp(min=1)[:, None] if reduce == "mean" else want
    close(y, want, 16)


@triton.jit
def coo_times_dense_kernel(row_ptr, col_ptr, value_ptr, x_ptr, y_ptr, nnz, columns, BLOCK_Z: tl.constexpr, BLOCK_C: tl.constexpr):
    """Rows are sorted: products are added along equal rows in the block, and only the last of each adds to memory."""
    z = tl.program_id(0) * BLOCK_Z + tl.arange(0, BLOCK_Z)
    c = tl.arange(0, BLOCK_C)
    m = z < nnz
    row = tl.load(row_ptr + z, mask=m, other=-1)
    after = tl.load(row_ptr + z + 1, mask=z + 1 < nnz, other=-1)
    x = tl.load(x_ptr + tl.load(col_ptr + z, mask=m, other=0)[:, None] * columns + c[None, :], mask=m[:, None] & (c < columns)[None, :], other=0.0)
    terms = x * tl.load(value_ptr + z, mask=m, other=0.0)[:, None]
    rows = tl.broadcast_to(row[:, None], (BLOCK_Z, BLOCK_C))
    _, sums = tl.associative_scan((rows, terms), 0, _add_equal_rows)
    ends = (row != after) | (tl.arange(0, BLOCK_Z) == BLOCK_Z - 1)
    tl.atomic_add(y_ptr + row[:, None] * columns + c[None, :], sums, mask=(ends & m)[:, None] & (c < columns)[None, :], sem="relaxed")


@triton.jit
def _add_equal_rows(row_a, sum_a, row_b, sum_b):
    return row_b, tl.where(row_a == row_b, sum_a + sum_b, sum_b)


def test_sparse_coordinates(target):
    rows, inner, columns = 9, 23, 13
    dense = torch.randn(rows, inner) * (torch.rand(rows, inner) < 0.5)
    sparse = dense.to_sparse().coalesce()
    (row, col), x, y = sparse.indices(), torch.randn(inner, columns), torch.zeros(rows, columns)
    coo_times_dense_kernel[(triton.cdiv(sparse._nnz(), 32), )](row, col, sparse.values(), x, y, sparse._nnz(), columns, BLOCK_Z=32, BLOCK_C=16)
    close(y, dense.double() @ x.double(), 16)


@triton.jit
def jagged_softmax_kernel(values_ptr, offsets_ptr, out_ptr, stride_v, stride_o, max_len, D: tl.constexpr, BLOCK_L: tl.constexpr, BLOCK_D: tl.constexpr):
    """Over the rows of each sequence, for each feature."""
    batch, part = tl.program_id(0), tl.program_id(1)
    begin, end = tl.load(offsets_ptr + batch), tl.minimum(tl.load(offsets_ptr + batch) + max_len, tl.load(offsets_ptr + batch + 1))
    if begin == end:
        return
    d = part * BLOCK_D + tl.arange(0, BLOCK_D)
    top = tl.full([BLOCK_D], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_D], tl.float32)
    for start in range(begin, end, BLOCK_L):
        at = start + tl.arange(0, BLOCK_L)
        v = tl.load(values_ptr + at[:, None] * stride_v + d[None, :], mask=(at < end)[:, None] & (d < D)[None, :], other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(v, 0))
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(top - shift) + tl.sum(tl.exp(v - shift[None, :]), 0)
        top = higher
    for start in range(begin, end, BLOCK_L):
        at = start + tl.arange(0, BLOCK_L)
        m = (at < end)[:, None] & (d < D)[None, :]
        v = tl.load(values_ptr + at[:, None] * stride_v + d[None, :], mask=m, other=float("-inf")).to(tl.float32)
        tl.store(out_ptr + at[:, None] * stride_o + d[None, :], (tl.exp(v - top[None, :]) / total[None, :]).to(out_ptr.dtype.element_ty), mask=m)


def test_jagged_softmax(target):
    offsets, D = torch.tensor([0, 5, 5, 41, 60]), 11
    values, out = torch.randn(60, D + 2, dtype=torch.float16)[:, 1:D + 1], torch.zeros(60, D)
    jagged_softmax_kernel[(4, 2)](values, offsets, out, values.stride(0), out.stride(0), 1000, D=D, BLOCK_L=16, BLOCK_D=8)
    for low, high in zip(offsets.tolist(), offsets.tolist()[1:]):
        if high > low:
            close(out[low:high], torch.softmax(values[low:high].double(), 0), 32)
