"""The kernels of a small transformer. The program embeds them (CMakeLists.txt); no Python takes part.

Activations are rows of one token each; weights are [inputs, outputs], row-major. Element types are those of the pointers;
sums are in fp32.
"""

import triton
import triton.language as tl


@triton.jit
def embed(tokens_ptr, table_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    """out[i] = table[tokens[i]]; one program a token."""
    row = tl.program_id(0)
    token = tl.load(tokens_ptr + row)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    tl.store(out_ptr + row * columns + offsets, tl.load(table_ptr + token * columns + offsets, mask), mask)


@triton.jit
def rms_norm(x_ptr, weight_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    """Every row divided by the root of its mean square, times the weights; one program a row."""
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * columns + offsets, mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, 0) / columns + eps)
    weight = tl.load(weight_ptr + offsets, mask).to(tl.float32)
    tl.store(out_ptr + row * columns + offsets, (x * scale * weight).to(out_ptr.dtype.element_ty), mask)


@triton.jit
def matmul(a_ptr, b_ptr, residual_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = a @ b, plus a residual unless that is None. N and K are multiples of their blocks."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    inside = (rows < M)[:, None]
    a_ptrs = a_ptr + rows[:, None] * K + k[None, :]
    b_ptrs = b_ptr + k[:, None] * N + columns[None, :]
    sum = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        sum = tl.dot(tl.load(a_ptrs, inside, other=0.0), tl.load(b_ptrs), sum, input_precision="ieee")
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    place = rows[:, None] * N + columns[None, :]
    if residual_ptr is not None:
        sum += tl.load(residual_ptr + place, inside, other=0.0).to(tl.float32)
    tl.store(c_ptr + place, sum.to(c_ptr.dtype.element_ty), inside)


@triton.jit
def rotate(low, high, position, HALF: tl.constexpr):
    """A head's two halves, turned by angles that depend on the position (RoPE, Su et al. 2021)."""
    angle = position * tl.exp2(tl.arange(0, HALF) * (-13.287712379549449 / HALF))  # log2(10000)
    sin = tl.sin(angle)
    cos = tl.cos(angle)
    return low * cos - high * sin, high * cos + low * sin


@triton.jit
def rope_and_cache(qkv_ptr, keys_ptr, values_ptr, start, HEADS: tl.constexpr, HEAD: tl.constexpr):
    """Turns the queries in place; turns the keys and puts them, and the values, into the cache, from position `start` on.
    One program a token and head. qkv: [tokens, 3, HEADS, HEAD]; cache: [positions, HEADS, HEAD]."""
    HALF: tl.constexpr = HEAD // 2
    token = tl.program_id(0)
    head = tl.program_id(1)
    position = start + token
    half = tl.arange(0, HALF)
    q = qkv_ptr + (token * 3 * HEADS + head) * HEAD + half
    k = q + HEADS * HEAD
    v = k + HEADS * HEAD
    cached = (position * HEADS + head) * HEAD + half
    low, high = rotate(tl.load(q).to(tl.float32), tl.load(q + HALF).to(tl.float32), position, HALF)
    tl.store(q, low.to(qkv_ptr.dtype.element_ty))
    tl.store(q + HALF, high.to(qkv_ptr.dtype.element_ty))
    low, high = rotate(tl.load(k).to(tl.float32), tl.load(k + HALF).to(tl.float32), position, HALF)
    tl.store(keys_ptr + cached, low.to(keys_ptr.dtype.element_ty))
    tl.store(keys_ptr + cached + HALF, high.to(keys_ptr.dtype.element_ty))
    tl.store(values_ptr + cached, tl.load(v))
    tl.store(values_ptr + cached + HALF, tl.load(v + HALF))


@triton.jit
def attention(qkv_ptr, keys_ptr, values_ptr, out_ptr, start, tokens, scale, HEADS: tl.constexpr, HEAD: tl.constexpr,
              BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Causal attention of the tokens at `start`.. to everything before them and themselves, without ever storing the
    scores (FlashAttention, Dao et al. 2022). One program for BLOCK_M queries of a head. `scale` includes log2(e)."""
    head = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, HEAD)
    inside = (rows < tokens)[:, None]
    q = tl.load(qkv_ptr + (rows[:, None] * 3 * HEADS + head) * HEAD + dims[None, :], inside, other=0.0)
    largest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    sum = tl.zeros((BLOCK_M, HEAD), tl.float32)
    end = start + tl.minimum((tl.program_id(0) + 1) * BLOCK_M, tokens)
    for first in range(0, end, BLOCK_N):
        columns = first + tl.arange(0, BLOCK_N)
        cached = (columns[:, None] * HEADS + head) * HEAD + dims[None, :]
        there = (columns < end)[:, None]
        k = tl.load(keys_ptr + cached, there, other=0.0)
        v = tl.load(values_ptr + cached, there, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where(columns[None, :] <= start + rows[:, None], scores, float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp2(scores - larger[:, None])
        shrink = tl.exp2(largest - larger)
        total = total * shrink + tl.sum(weights, 1)
        sum = tl.dot(weights.to(v.dtype), v, sum * shrink[:, None], input_precision="ieee")
        largest = larger
    out = out_ptr + (rows[:, None] * HEADS + head) * HEAD + dims[None, :]
    tl.store(out, (sum / total[:, None]).to(out_ptr.dtype.element_ty), inside)


@triton.jit
def silu_gate(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    """out = silu(x[:, :columns]) * x[:, columns:]; one program a row and block."""
    row = tl.program_id(0)
    offsets = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < columns
    gate = tl.load(x_ptr + row * 2 * columns + offsets, mask).to(tl.float32)
    up = tl.load(x_ptr + row * 2 * columns + columns + offsets, mask).to(tl.float32)
    tl.store(out_ptr + row * columns + offsets, (gate * tl.sigmoid(gate) * up).to(out_ptr.dtype.element_ty), mask)


@triton.jit
def greedy(logits_ptr, tokens_ptr, columns, BLOCK: tl.constexpr):
    """The most likely token: one program."""
    offsets = tl.arange(0, BLOCK)
    logits = tl.load(logits_ptr + offsets, offsets < columns, other=float("-inf")).to(tl.float32)
    tl.store(tokens_ptr, tl.argmax(logits, 0))
