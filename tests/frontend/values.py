"""Known values and run-time values: assignment, tuples, strings, calls, constants of the file."""
# RUN: nereid-frontend %s 'k_*' "p:*i32,n:i32" | FileCheck %s
import nereid
import nereid.language as nl
import triton
import triton.language as tl
from triton.language import load as read
from triton.language.math import sqrt

N: tl.constexpr = 4
SIZES = (1, N, N * 2 - 1)
WIDE = tl.constexpr(1 << 33)
if N > 3:
    CHOSEN = tl.float16
else:
    CHOSEN = tl.float32


# A literal bound to a plain name is a tensor, and still usable where only a known value will do.
# CHECK-LABEL: == k_literal
# CHECK: tile.range 0 to 1024
# CHECK: arith.sitofp
@triton.jit
def k_literal(p):
    BLOCK_SIZE = 1024
    n = tl.arange(0, BLOCK_SIZE)
    x = 3
    tl.store(p + n, x.to(tl.float32).to(tl.int32))


# CHECK-LABEL: == k_big_literals
# CHECK: arith.constant -2147483648 : i32
# CHECK: arith.constant 1099511627776 : i64
# CHECK: arith.constant {{.*}} : f64
# CHECK: arith.extui %{{.*}} : i32 to i64
@triton.jit
def k_big_literals(p):
    signed = 2147483648
    tl.static_assert(signed.dtype == tl.uint32)
    wide = 1 << 40
    tl.static_assert(wide.dtype == tl.int64)
    huge = 1e50
    tl.static_assert(huge.dtype == tl.float64)
    truth = True
    tl.static_assert(truth.dtype == tl.int1)
    tl.store(p, signed.to(tl.int64).to(tl.int32))


# CHECK-LABEL: == k_constants
# CHECK: arith.constant 8589934592 : i64
# CHECK: tile.range 0 to 7
@triton.jit
def k_constants(p):
    tl.static_assert(CHOSEN == tl.float16)
    tl.static_assert(SIZES == (1, 4, 7))
    tl.static_assert(nl.float32 == tl.float32)
    wide = WIDE
    tl.store(p + nl.arange(0, SIZES[2]), wide.to(tl.int32) + triton.cdiv(N, 3))


# CHECK-LABEL: == k_tuples
# CHECK: arith.addi %{{.*}}, %arg1
@triton.jit
def k_tuples(p, n):
    a, (b, _) = 1, ((n, 2) if N == 4 else (1, n))
    tl.store(p, a + b)


# CHECK-LABEL: == k_comprehension
# CHECK: arith.constant 12 : i32
@triton.jit
def k_comprehension(p):
    sizes = [size for size in SIZES]
    total: tl.constexpr = SIZES[0] + SIZES[1] + SIZES[2]
    tl.static_assert(len([s for s in SIZES if s > 1]) == 2)
    tl.static_assert((1, *SIZES, 2) == (1, 1, 4, 7, 2))
    tl.store(p, total)


# CHECK-LABEL: == k_strings
# CHECK: name-004-0x10-[1.50]-'x'
@triton.jit
def k_strings(p):
    text: tl.constexpr = f"name-{N:03d}-0x{16:x}-[{1.5:.2f}]-{'x'!r}"
    tl.device_print(text)


@triton.jit
def scale(x, factor, offset: tl.constexpr = 2, *rest):
    result = x * factor + offset
    for each in rest:
        result += each
    return result, offset


# Each specialisation is one function.
# CHECK-LABEL: == k_calls
# CHECK: call @[[A:scale__i32]](%arg1) : (i32) -> i32
# CHECK: call @[[A]](%arg1) : (i32) -> i32
# CHECK: call @[[A]](%{{[0-9]+}}) : (i32) -> i32
# CHECK: call @[[B:scale__i32.1]](%{{.*}}) : (i32) -> i32
# CHECK: call @[[C:scale__i32_i32]](%{{.*}}, %arg1) : (i32, i32) -> i32
# CHECK: func.func private @[[A]](
# CHECK: func.func private @[[B]](
# CHECK: func.func private @[[C]](
@nereid.jit
def k_calls(p, n):
    a, _ = scale(n, 3)
    tl.static_assert(scale(n, 3)[1] == 2)
    b, _ = scale(a, factor=3)
    c, _ = scale(b, 3, 5)
    d, _ = scale(c, 3, 2, n)
    tl.store(p, d)


@triton.jit
def half(n):
    return n // 2


# Nothing is called where the result is known.
# CHECK-LABEL: == k_known_call
# CHECK-NOT: call @
# CHECK: tile.range 0 to 8
# CHECK-NOT: func.func
@triton.jit
def k_known_call(p):
    tl.store(p + tl.arange(0, half(16)), 1)


@triton.jit
def pyramid(x, K: tl.constexpr):
    if K == 0:
        return x
    return pyramid(x + K, K - 1)


# CHECK-LABEL: == k_recursion
# CHECK: call @pyramid__i32(%arg1)
@triton.jit
def k_recursion(p, n):
    tl.store(p, pyramid(n, 3))


@triton.jit
def apply(function, x):
    return function(x)


# CHECK-LABEL: == k_function_argument
# CHECK: call @apply__i32(%arg1)
# CHECK: call @half__i32(
@triton.jit
def k_function_argument(p, n):
    tl.store(p, apply(half, n))


@triton.jit(noinline=True)
def outlined(x):
    return x + 1


# CHECK-LABEL: == k_noinline
# CHECK: call @outlined__i32(%arg1) {no_inline}
@triton.jit
def k_noinline(p, n):
    tl.store(p, outlined(n))


# CHECK-LABEL: == k_imports
# CHECK: tile.load %arg0
# CHECK: math.sqrt
@triton.jit
def k_imports(p):
    x = sqrt(read(p).to(tl.float32))
    tl.store(p, x.to(tl.int32))


# CHECK-LABEL: == k_python
# CHECK: arith.constant 5 : i32
@triton.jit
def k_python(p, n):
    if isinstance(n, tl.tensor) and hasattr(n, "dtype"):
        tl.store(p, max(2, 5) + min(0, 3) + int(0.5) + len((1, 2)) - 2)


# Numbers at the ends of what 64 bits hold.
# CHECK-LABEL: == k_wide_numbers
@triton.jit
def k_wide_numbers(p):
    tl.static_assert(float(1 << 63) == 2.0**63)
    tl.static_assert(float((1 << 70) - 1) == 2.0**70)
    tl.static_assert(triton.next_power_of_2((1 << 62) + 1) == 1 << 63)
    tl.static_assert(tuple(range((1 << 63) - 8, (1 << 63) - 1, 5)) == ((1 << 63) - 8, (1 << 63) - 3))
    tl.static_assert(float(" -1_0.5E1") == -105.0)
    tl.static_assert(float("Infinity") == float("1e999"))
    text: tl.constexpr = f"{1 << 63:.1f}"
    tl.static_assert(text == "9223372036854775808.0")


# --- Names of the file mean what its statements, run in order, have left them to mean. A kernel sees the end, the default of a
# parameter what was there when the function was made.

COUNTED = 1
COUNTED += 4
LEFT, RIGHT = 1, 2
LEFT, RIGHT = RIGHT, LEFT
if __name__ == "__main__":
    COUNTED = 100
try:
    import triton
    SETTLED = 3
except ImportError:
    SETTLED = 4
if unknown():
    SAME = 5
else:
    SAME = 5
STEP = 8


@triton.jit
def by_default(x, step: tl.constexpr = STEP, twice=STEP * 2):
    return x + step + twice


STEP = 9


# CHECK-LABEL: == k_order
# CHECK: arith.constant 24 : i32
@triton.jit
def k_order(p):
    tl.static_assert(COUNTED == 5)
    tl.static_assert(LEFT == 2 and RIGHT == 1)
    tl.static_assert(SETTLED == 3 and SAME == 5)
    tl.static_assert(STEP == 9)
    tl.store(p, by_default(0))
