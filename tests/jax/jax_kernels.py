"""Kernels of the tests of `nereid.jax`."""

import nereid
import nereid.language as tl


@nereid.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@nereid.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@nereid.jit
def scale(x, factor, n, BLOCK: tl.constexpr):
    """In place."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


@nereid.jit
def with_defaults(x, out, factor=3.0, n: tl.int64 = 8, BLOCK: tl.constexpr = 8):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


@nereid.jit
def sum_and_difference(x, y, total, difference, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x + i, mask=i < n), tl.load(y + i, mask=i < n)
    tl.store(total + i, a + b, mask=i < n)
    tl.store(difference + i, a - b, mask=i < n)


@nereid.jit
def numbers(out, whole, real, flag, nothing, big):
    """Writes its numbers as fp32."""
    tl.store(out, whole)
    tl.store(out + 1, real)
    tl.store(out + 2, flag)
    tl.store(out + 3, big % 1000)
    if nothing is None:
        tl.store(out + 4, 1.0)


@nereid.jit
def places(out):
    """Where each program of a grid is."""
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    tl.store(out + x + tl.num_programs(0) * (y + tl.num_programs(1) * z), x + 10 * y + 100 * z)


@nereid.jit
def scale_by_loaded(x, factor, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * tl.load(factor), mask=i < n)


@nereid.jit
def relay(flags, out):
    """Each program waits for the one before it; `flags` begins as zeros."""
    me = tl.program_id(0)
    if me > 0:
        while tl.atomic_add(flags + me - 1, 0) == 0:
            pass
        tl.store(out + me, tl.load(out + me - 1, volatile=True) + 1)
    else:
        tl.store(out, 1)
    tl.atomic_xchg(flags + me, 1)


@nereid.jit
def typed_number(out, n: tl.int32):
    tl.store(out, n)


@nereid.jit
def asserting(x, out):
    value = tl.load(x)
    tl.device_assert(value > 0, "expected a positive number")
    tl.store(out, value)


@nereid.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf")).to(tl.float32)
    exponents = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * columns + i, exponents / tl.sum(exponents, 0), mask=i < columns)


@nereid.jit
def swiglu(gate, up, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(gate + i, mask=i < n).to(tl.float32), tl.load(up + i, mask=i < n).to(tl.float32)
    tl.store(y + i, a * tl.sigmoid(a) * b, mask=i < n)


@nereid.jit
def normalised(x, weight, out, sign, scales, columns, BLOCK: tl.constexpr):
    """Rows divided by their root mean square, times a weight; the signs of the inputs, and the scale of each row."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, mask=i < columns, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(values * values, 0) / columns + 1e-5)
    tl.store(out + row * columns + i, values * scale * tl.load(weight + i, mask=i < columns), mask=i < columns)
    tl.store(sign + row * columns + i, tl.where(values < 0, -1, 1), mask=i < columns)
    tl.store(scales + row, scale)


@nereid.jit
def activated(a, b, bias, c, M, N, K, BLOCK: tl.constexpr):
    """c = silu(a @ b + bias)"""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        at = k + tl.arange(0, BLOCK)
        x = tl.load(a + rows[:, None] * K + at[None, :], mask=(rows[:, None] < M) & (at[None, :] < K), other=0.0)
        y = tl.load(b + at[:, None] * N + columns[None, :], mask=(at[:, None] < K) & (columns[None, :] < N), other=0.0)
        sums = tl.dot(x, y, sums, input_precision="ieee")
    sums += tl.load(bias + columns, mask=columns < N, other=0.0)[None, :]
    tl.store(c + rows[:, None] * N + columns[None, :], sums * tl.sigmoid(sums), mask=(rows[:, None] < M) & (columns[None, :] < N))


@nereid.jit
def store_constant(out, VALUE: tl.constexpr):
    tl.store(out, VALUE)


@nereid.jit
def changing(out):
    tl.store(out, 1.0)


@nereid.jit
def maximum_is_bf16(x, out):
    """What depends on the release of Triton whose rules hold."""
    values = tl.load(x + tl.arange(0, 16))
    tl.store(out, tl.maximum(values, values).dtype == tl.bfloat16)
