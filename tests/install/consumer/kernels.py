"""Kernels that the tests of the C and C++ interfaces embed and compile."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask) + tl.load(y_ptr + offsets, mask), mask)


# Which variant runs shows in what it stores: the block's size.
@triton.jit
def which(out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, BLOCK, offsets < n)


# A bias that may be None, a scalar of each kind, a flag, a parameter whose name is a keyword of C++.
@triton.jit
def scale(x_ptr, bias_ptr, out_ptr, n, factor, double: tl.constexpr, template, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    value = tl.load(x_ptr + offsets, mask) * factor
    if bias_ptr is not None:
        value += tl.load(bias_ptr + offsets, mask)
    if double:
        value *= 2
    value = tl.where(template, -value, value)
    tl.store(out_ptr + offsets, value, mask)


# Numbers beyond 32 bits.
@triton.jit
def count(out_ptr, start):
    tl.store(out_ptr, start + 1)


# Asserts and prints: what the support library does on the CPU.
@triton.jit
def checked(x_ptr, limit, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.device_assert(x < limit, "x is below the limit")
    tl.device_print("x", x)


# A function of the device library, and of the C library.
@triton.jit
def special(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask)
    tl.store(out_ptr + offsets, libdevice.erfinv(x) + libdevice.cyl_bessel_i0(x), mask)


# A tensor descriptor from the host.
@triton.jit
def transpose(source, out_ptr, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK
    column = tl.program_id(1) * BLOCK
    block = source.load([row, column])
    i = row + tl.arange(0, BLOCK)
    j = column + tl.arange(0, BLOCK)
    mask = (i < rows)[:, None] & (j < columns)[None, :]
    tl.store(out_ptr + j[None, :] * rows + i[:, None], block, mask)


@triton.jit
def nothing():
    pass


# Programs that wait for each other.
@triton.jit
def together(counter_ptr, out_ptr, N: tl.constexpr):
    tl.atomic_add(counter_ptr, 1)
    while tl.load(counter_ptr, volatile=True) < N:
        pass
    tl.store(out_ptr + tl.program_id(0), tl.program_id(0))
