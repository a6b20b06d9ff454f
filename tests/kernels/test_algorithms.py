"""Algorithms outside of neural networks: transforms, factorisations, hash tables, graphs, strings, images, simulations."""

import math

import nereid as triton
import nereid.language as tl
import pytest
import torch
from reference import close

# ---- transforms by reshape, join and split ----------------------------------------------------------


@triton.jit
def _butterfly(re, im, angle_step, N: tl.constexpr, HALF: tl.constexpr):
    """One level of decimation in time on bit-reversed data."""
    re = tl.reshape(re, (N // (2 * HALF), 2, HALF))
    im = tl.reshape(im, (N // (2 * HALF), 2, HALF))
    re0, re1 = tl.split(tl.permute(re, (0, 2, 1)))
    im0, im1 = tl.split(tl.permute(im, (0, 2, 1)))
    angle = tl.arange(0, HALF).to(tl.float32) * angle_step
    c, s = tl.cos(angle)[None, :], tl.sin(angle)[None, :]
    tr, ti = re1 * c - im1 * s, re1 * s + im1 * c
    re = tl.permute(tl.join(re0 + tr, re0 - tr), (0, 2, 1))
    im = tl.permute(tl.join(im0 + ti, im0 - ti), (0, 2, 1))
    return tl.reshape(re, (N, )), tl.reshape(im, (N, ))


@triton.jit
def fft_kernel(x_ptr, out_ptr, stride_x, N: tl.constexpr, LOG_N: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, N)
    reversed_bits = tl.zeros((N, ), tl.int32)
    for bit in tl.static_range(LOG_N):
        reversed_bits |= ((i >> bit) & 1) << (LOG_N - 1 - bit)
    pair = x_ptr + row * stride_x + 2 * reversed_bits
    re, im = tl.load(pair), tl.load(pair + 1)
    for level in tl.static_range(LOG_N):
        half: tl.constexpr = 1 << level
        re, im = _butterfly(re, im, -3.14159265358979 / half, N, half)
    tl.store(out_ptr + row * 2 * N + tl.arange(0, 2 * N), tl.interleave(re, im))


@pytest.mark.parametrize("n", [16, 128])
def test_fft(n, target):
    x = torch.randn(3, n, dtype=torch.complex64)
    out = torch.empty_like(x)
    fft_kernel[(3, )](torch.view_as_real(x), torch.view_as_real(out), 2 * x.stride(0), N=n, LOG_N=int(math.log2(n)))
    close(torch.view_as_real(out), torch.view_as_real(torch.fft.fft(x.to(torch.complex128))), 64)


@triton.jit
def hadamard_kernel(x_ptr, scale, n_rows, stride, D: tl.constexpr, LOG_D: tl.constexpr, ROWS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    pointers = x_ptr + rows[:, None] * stride + tl.arange(0, D)[None, :]
    mask = (rows < n_rows)[:, None]
    x = tl.load(pointers, mask=mask, other=0.0).to(tl.float32)
    for k in tl.static_range(LOG_D):
        x = x.reshape(ROWS, D // 2**(k + 1), 2, 2**k)
        even, odd = tl.sum(x, 2), tl.sum(x * (1 - 2 * tl.arange(0, 2))[None, None, :, None], axis=2)
        x = tl.trans(tl.join(even, odd), 0, 1, 3, 2).reshape(ROWS, D)
    tl.store(pointers, (x * scale).to(x_ptr.dtype.element_ty), mask=mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_hadamard_transform(dtype, target):
    d, rows = 32, 11
    x = torch.randn(rows, d + 3, dtype=dtype)[:, :d]
    h = torch.ones(1, 1, dtype=torch.float64)
    while h.shape[0] < d:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)], 0)
    want = x.double() @ h * d**-0.5
    hadamard_kernel[(triton.cdiv(rows, 4), )](x, d**-0.5, rows, x.stride(0), D=d, LOG_D=5, ROWS=4)
    close(x, want, 16)


@triton.jit
def _haar_level(approx, out_ptr, N: tl.constexpr):
    if N > 1:
        a, b = tl.split(tl.reshape(approx, [N // 2, 2]))
        tl.store(out_ptr + N // 2 + tl.arange(0, N // 2), (a - b) * 0.7071067811865476)
        _haar_level((a + b) * 0.7071067811865476, out_ptr, N // 2)
    else:
        tl.store(out_ptr + tl.arange(0, 1), approx)


@triton.jit
def haar_kernel(x_ptr, out_ptr, N: tl.constexpr):
    _haar_level(tl.load(x_ptr + tl.arange(0, N)), out_ptr, N)


def test_haar_wavelet(target):
    n = 64
    x, out = torch.randn(n), torch.empty(n)
    haar_kernel[(1, )](x, out, N=n)
    want, approx = torch.empty(n, dtype=torch.float64), x.double()
    while len(approx) > 1:
        a, b = approx[::2], approx[1::2]
        want[len(a):2 * len(a)] = (a - b) / 2**0.5
        approx = (a + b) / 2**0.5
    want[0] = approx[0]
    close(out, want, 16)


# ---- dense factorisations in a block ----------------------------------------------------------------


@triton.jit
def cholesky_solve_kernel(a_ptr, b_ptr, l_ptr, x_ptr, n, nrhs, stride_ab, stride_ar, stride_ac, N: tl.constexpr, R: tl.constexpr):
    batch = tl.program_id(0).to(tl.int64)
    i, r = tl.arange(0, N), tl.arange(0, R)
    inside = (i < n)[:, None] & (i < n)[None, :]
    a = tl.load(a_ptr + batch * stride_ab + i[:, None] * stride_ar + i[None, :] * stride_ac, mask=inside, other=0.0)
    a = tl.where(inside, a, (i[:, None] == i[None, :]).to(a.dtype))
    lower = tl.zeros_like(a)
    for k in range(n):
        column = tl.sum(tl.where(i[None, :] == k, a, 0.0), axis=1)
        pivot = tl.sqrt(tl.sum(tl.where(i == k, column, 0.0)))
        column = tl.where(i >= k, column / pivot, 0.0)
        lower = tl.where(i[None, :] == k, column[:, None], lower)
        a -= column[:, None] * column[None, :]
    tl.store(l_ptr + batch * n * n + i[:, None] * n + i[None, :], lower, mask=inside)
    rhs_mask = (i < n)[:, None] & (r < nrhs)[None, :]
    x = tl.load(b_ptr + batch * n * nrhs + i[:, None] * nrhs + r[None, :], mask=rhs_mask, other=0.0)
    for k in range(n):
        diagonal = tl.sum(tl.sum(tl.where((i[:, None] == k) & (i[None, :] == k), lower, 0.0), 1), 0)
        row = tl.sum(tl.where(i[:, None] == k, x, 0.0), axis=0) / diagonal
        factor = tl.sum(tl.where(i[None, :] == k, lower, 0.0), axis=1)
        x = tl.where(i[:, None] == k, row[None, :], tl.where(i[:, None] > k, x - factor[:, None] * row[None, :], x))
    for k in range(n - 1, -1, -1):
        diagonal = tl.sum(tl.where((i[:, None] == k) & (i[None, :] == k), lower, 0.0))
        row = tl.sum(tl.where(i[:, None] == k, x, 0.0), axis=0) / diagonal
        factor = tl.sum(tl.where(i[:, None] == k, lower, 0.0), axis=0)
        x = tl.where(i[:, None] == k, row[None, :], tl.where(i[:, None] < k, x - factor[:, None] * row[None, :], x))
    tl.store(x_ptr + batch * n * nrhs + i[:, None] * nrhs + r[None, :], x, mask=rhs_mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cholesky_and_solve(dtype, target):
    n, nrhs = 13, 3
    root = torch.randn(2, n, n, dtype=torch.float64)
    a = root @ root.mT + 4 * torch.eye(n)
    b = torch.randn(2, n, nrhs, dtype=dtype)
    given = a.to(dtype).mT  # strides of a transposed matrix
    factor, x = torch.full((2, n, n), 7.0, dtype=dtype), torch.empty(2, n, nrhs, dtype=dtype)
    cholesky_solve_kernel[(2, )](given, b, factor, x, n, nrhs, *given.stride(), N=16, R=4)
    close(factor, torch.linalg.cholesky(a), 200)
    close(x, torch.linalg.solve(a, b.double()), 2000)


@triton.jit
def gauss_jordan_kernel(a_ptr, inv_ptr, det_ptr, N: tl.constexpr):
    """Inverse with partial pivoting: rows are swapped by masks."""
    base = tl.program_id(0) * N * N
    i = tl.arange(0, N)
    offsets = i[:, None] * N + i[None, :]
    a = tl.load(a_ptr + base + offsets)
    inv = (i[:, None] == i[None, :]).to(tl.float32)
    det = 1.0
    for k in range(N):
        column = tl.sum(tl.where(i[None, :] == k, a, 0.0), 1)
        p = tl.argmax(tl.where(i >= k, tl.abs(column), -1.0), axis=0)
        is_k, is_p = (i == k)[:, None], (i == p)[:, None]
        row_k, row_p = tl.sum(tl.where(is_k, a, 0.0), 0)[None, :], tl.sum(tl.where(is_p, a, 0.0), 0)[None, :]
        inv_k, inv_p = tl.sum(tl.where(is_k, inv, 0.0), 0)[None, :], tl.sum(tl.where(is_p, inv, 0.0), 0)[None, :]
        a, inv = tl.where(is_p, row_k, a), tl.where(is_p, inv_k, inv)
        pivot = tl.sum(tl.where(i[None, :] == k, row_p, 0.0))
        det *= pivot if p == k else -pivot
        row, inv_row = row_p / pivot, inv_p / pivot
        column = tl.sum(tl.where(i[None, :] == k, a, 0.0), 1)[:, None]
        a = tl.where(is_k, row, a - column * row)
        inv = tl.where(is_k, inv_row, inv - column * inv_row)
    tl.store(inv_ptr + base + offsets, inv)
    tl.store(det_ptr + tl.program_id(0), det)


def test_inverse_with_pivots(target):
    a = torch.randn(3, 8, 8)
    a[0] = torch.eye(8).flip(0)
    inv, det = torch.empty_like(a), torch.empty(3)
    gauss_jordan_kernel[(3, )](a, inv, det, N=8)
    close(inv, torch.linalg.inv(a.double()), 4000)
    close(det, torch.linalg.det(a.double()), 4000)


# ---- hash tables, graphs, strings -------------------------------------------------------------------


@triton.jit
def _murmur(x):
    x = x.to(tl.uint32, bitcast=True)
    x ^= x >> 16
    x *= 0x85EBCA6B
    x ^= x >> 13
    x *= 0xC2B2AE35
    return x ^ (x >> 16)


@triton.jit
def hash_insert_kernel(keys_ptr, table_ptr, slots_ptr, n, EMPTY: tl.constexpr, CAPACITY: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pending = offsets < n
    key = tl.load(keys_ptr + offsets, mask=pending, other=EMPTY)
    slot = (_murmur(key) & (CAPACITY - 1)).to(tl.int32)
    found = tl.full([BLOCK], -1, tl.int32)
    while tl.max(pending.to(tl.int32), axis=0) > 0:
        # Lanes that are done compare with a key no slot holds: nothing is exchanged.
        expected = tl.where(pending, EMPTY, -2)
        old = tl.atomic_cas(table_ptr + slot, expected, key, sem="relaxed")
        done = pending & ((old == EMPTY) | (old == key))
        found = tl.where(done, slot, found)
        pending = pending & ~done
        slot = tl.where(pending, (slot + 1) % CAPACITY, slot)
    tl.store(slots_ptr + offsets, found, mask=offsets < n)


@pytest.mark.overflows("its integers wrap on purpose")
def test_hash_table(target):
    keys = torch.randint(0, 60, (150, ), dtype=torch.int32)
    table, slots = torch.full((128, ), -1, dtype=torch.int32), torch.empty(150, dtype=torch.int32)
    hash_insert_kernel[(triton.cdiv(150, 32), )](keys, table, slots, 150, EMPTY=-1, CAPACITY=128, BLOCK=32)
    assert sorted(table[table >= 0].tolist()) == sorted(set(keys.tolist()))
    assert torch.equal(table[slots.long()], keys)


@triton.jit
def relax_edges_kernel(src_ptr, dst_ptr, weight_ptr, dist_ptr, changed_ptr, n_edges, BLOCK: tl.constexpr):
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = e < n_edges
    u, v = tl.load(src_ptr + e, mask=m, other=0), tl.load(dst_ptr + e, mask=m, other=0)
    candidate = tl.load(dist_ptr + u, mask=m, other=float("inf")) + tl.load(weight_ptr + e, mask=m, other=float("inf"))
    old = tl.atomic_min(dist_ptr + v, candidate, mask=m)
    better = (candidate < old) & m
    if tl.sum(better.to(tl.int32)) > 0:
        tl.atomic_or(changed_ptr, 1)


def test_shortest_paths(target):
    nodes, edges = 20, 70
    src, dst = torch.randint(0, nodes, (edges, ), dtype=torch.int32), torch.randint(0, nodes, (edges, ), dtype=torch.int32)
    weight = torch.randint(1, 10, (edges, )).float()
    dist = torch.full((nodes, ), float("inf"))
    dist[0] = 0.0
    want = dist.clone()
    for _ in range(nodes):
        for a, b, w in zip(src.tolist(), dst.tolist(), weight.tolist()):
            want[b] = min(want[b], want[a] + w)
    for _ in range(nodes):
        changed = torch.zeros(1, dtype=torch.int32)
        relax_edges_kernel[(triton.cdiv(edges, 32), )](src, dst, weight, dist, changed, edges, BLOCK=32)
        if not changed.item():
            break
    assert torch.equal(dist, want)


@triton.jit
def edit_distance_kernel(a_ptr, b_ptr, len_ptr, out_ptr, stride, N: tl.constexpr):
    """One pair a program; the row of the table is a block, the recurrence along it a scan."""
    pair = tl.program_id(0)
    la, lb = tl.load(len_ptr + 2 * pair), tl.load(len_ptr + 2 * pair + 1)
    j = tl.arange(0, N)
    b = tl.load(b_ptr + pair * stride + j - 1, mask=(j > 0) & (j <= lb), other=0)
    row = j
    i = 0
    while i < la:
        c = tl.load(a_ptr + pair * stride + i)
        shifted = tl.gather(row, tl.maximum(j - 1, 0), 0)
        best = tl.minimum(row + 1, shifted + (b != c).to(tl.int32))
        best = tl.where(j == 0, i + 1, best)
        row = tl.associative_scan(best - j, 0, _smaller) + j
        i += 1
    tl.store(out_ptr + pair, tl.sum(tl.where(j == lb, row, 0)))


@triton.jit
def _smaller(a, b):
    return a if a < b else b


def test_edit_distance(target):
    pairs = [("kitten", "sitting"), ("", "abc"), ("flaw", "lawn"), ("intention", "execution"), ("same", "same")]
    texts = torch.zeros(2, len(pairs), 12, dtype=torch.uint8)
    for p, pair in enumerate(pairs):
        for s, text in enumerate(pair):
            texts[s, p, :len(text)] = torch.tensor(list(text.encode()), dtype=torch.uint8)
    lengths, out = torch.tensor([[len(a), len(b)] for a, b in pairs], dtype=torch.int32), torch.empty(len(pairs), dtype=torch.int32)
    edit_distance_kernel[(len(pairs), )](texts[0], texts[1], lengths, out, texts.stride(1), N=16)
    assert out.tolist() == [3, 3, 2, 5, 0]


# ---- simulations ------------------------------------------------------------------------------------


@triton.jit
def mandelbrot_kernel(out_ptr, width, height, limit, BLOCK: tl.constexpr):
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cx = -2.0 + 3.0 * (pixel % width).to(tl.float32) / width
    cy = -1.5 + 3.0 * (pixel // width).to(tl.float32) / height
    x, y = tl.zeros_like(cx), tl.zeros_like(cy)
    count = tl.zeros([BLOCK], dtype=tl.int32)
    alive = pixel < width * height
    step = 0
    while (step < limit) & (tl.sum(alive.to(tl.int32)) > 0):
        x, y = tl.where(alive, x * x - y * y + cx, x), tl.where(alive, 2.0 * x * y + cy, y)
        alive &= x * x + y * y <= 4.0
        count += alive.to(tl.int32)
        step += 1
    tl.store(out_ptr + pixel, count, mask=pixel < width * height)


def test_escape_times(target):
    width, height, limit = 21, 13, 30
    out = torch.empty(height, width, dtype=torch.int32)
    mandelbrot_kernel[(triton.cdiv(width * height, 64), )](out, width, height, limit, BLOCK=64)
    pixel = torch.arange(width * height).reshape(height, width)
    c = torch.complex(-2.0 + 3.0 * (pixel % width).double() / width, -1.5 + 3.0 * (pixel // width).double() / height)
    z, want = torch.zeros_like(c), torch.zeros(height, width, dtype=torch.int32)
    alive = torch.ones(height, width, dtype=torch.bool)
    for _ in range(limit):
        z = torch.where(alive, z * z + c, z)
        alive &= z.abs() <= 2
        want += alive
    assert ((out - want).abs() > 1).sum() <= 2


@triton.jit
def nbody_kernel(pos_ptr, mass_ptr, acc_ptr, n, SOFTENING: tl.constexpr, I: tl.constexpr, J: tl.constexpr):
    i = tl.program_id(0) * I + tl.arange(0, I)
    mi = i < n
    xi, yi, zi = tl.load(pos_ptr + i * 3, mask=mi), tl.load(pos_ptr + i * 3 + 1, mask=mi), tl.load(pos_ptr + i * 3 + 2, mask=mi)
    acc = (tl.zeros([I], tl.float32), tl.zeros([I], tl.float32), tl.zeros([I], tl.float32))
    for start in range(0, n, J):
        j = start + tl.arange(0, J)
        mj = j < n
        mass = tl.load(mass_ptr + j, mask=mj, other=0.0)
        d = (tl.load(pos_ptr + j * 3, mask=mj, other=0.0)[None, :] - xi[:, None],
             tl.load(pos_ptr + j * 3 + 1, mask=mj, other=0.0)[None, :] - yi[:, None],
             tl.load(pos_ptr + j * 3 + 2, mask=mj, other=0.0)[None, :] - zi[:, None])
        r = tl.rsqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + SOFTENING * SOFTENING)
        w = mass[None, :] * r * r * r
        acc = (acc[0] + tl.sum(d[0] * w, 1), acc[1] + tl.sum(d[1] * w, 1), acc[2] + tl.sum(d[2] * w, 1))
    for axis in tl.static_range(3):
        tl.store(acc_ptr + i * 3 + axis, acc[axis], mask=mi)


def test_nbody(target):
    n = 37
    pos, mass, acc = torch.randn(n, 3), torch.rand(n), torch.empty(n, 3)
    nbody_kernel[(triton.cdiv(n, 16), )](pos, mass, acc, n, SOFTENING=0.1, I=16, J=8)
    d = pos.double()[None] - pos.double()[:, None]
    want = (mass.double()[None, :, None] * d / (d.square().sum(-1) + 0.1**2).pow(1.5)[..., None]).sum(1)
    close(acc, want, 64)


@triton.jit
def life_kernel(board_ptr, next_ptr, words, rows, WORDS: tl.constexpr):
    """The game of life on 32 cells a word, wrapping around; counts are added bit by bit."""
    row, w = tl.program_id(0), tl.arange(0, WORDS)
    m = w < words
    low, mid, high = tl.zeros([WORDS], tl.uint32), tl.zeros([WORDS], tl.uint32), tl.zeros([WORDS], tl.uint32)
    own = tl.zeros([WORDS], tl.uint32)
    for dy in tl.static_range(-1, 2):
        base = board_ptr + ((row + dy + rows) % rows) * words
        here = tl.load(base + w, mask=m, other=0)
        left, right = tl.load(base + (w + words - 1) % words, mask=m, other=0), tl.load(base + (w + 1) % words, mask=m, other=0)
        for dx in tl.static_range(-1, 2):
            if dx == -1:
                cells = (here << 1) | (left >> 31)
            elif dx == 1:
                cells = (here >> 1) | (right << 31)
            else:
                cells = here
            if dx == 0 and dy == 0:
                own = here
            else:
                carry = low & cells
                low ^= cells
                high |= mid & carry
                mid ^= carry
    alive = mid & ~high & (low | own)
    tl.store(next_ptr + row * words + w, alive, mask=m)


def test_game_of_life(target):
    rows, words = 9, 3
    cells = torch.randint(0, 2, (rows, words * 32))
    weights = 2**torch.arange(32)
    board = (cells.reshape(rows, words, 32) * weights).sum(-1).to(torch.uint32)
    out = torch.zeros_like(board)
    life_kernel[(rows, )](board, out, words, rows, WORDS=4)
    count = sum(cells.roll((dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx)
    want = ((count == 3) | ((count == 2) & (cells == 1))).long()
    assert torch.equal(out.long(), (want.reshape(rows, words, 32) * weights).sum(-1))
