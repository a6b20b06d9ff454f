"""What a compilation may take (src/frontend/limits.h): programs that ask for too much, each beside its nearest valid neighbour. The
note is CallTakes; steps are counted in tests/unit/frontend/BudgetTest.cpp."""
# RUN: not nereid-frontend %s 'bad_*' "p:*i32,n:i32" | FileCheck %s --implicit-check-not=func.func
# RUN: nereid-frontend %s 'ok_*' "p:*i32,n:i32"
import triton
import triton.language as tl

A0 = (1, 2)
A1 = (A0, A0)
A2 = (A1, A1)


@triton.jit
def bad_strings(p, n):
    a = "x"
    for i in tl.static_range(50):
        a = a + a
# CHECK-LABEL: == bad_strings
# CHECK: budget.py:[[@LINE-2]]:13: error: `+`: the result is too large: an integer may have 65536 bits, a string or tuple 16777216 bytes, a float must be finite
# CHECK: [KnownTooLarge]


@triton.jit
def ok_strings(p, n):
    a = "x"
    for i in tl.static_range(10):
        a = a + a
    tl.store(p, len(a))


@triton.jit
def bad_formatted(p, n):
    a = "x" * 1000
    for i in tl.static_range(50):
        a = f"{a}{a}{a}{a}{a}{a}{a}{a}"
# CHECK-LABEL: == bad_formatted
# CHECK: budget.py:[[@LINE-2]]:13: error: this string takes more than 16777216 bytes, the most that one value may take during compilation: pass large data in memory
# CHECK: [ValueTooLarge]


@triton.jit
def bad_pairs(p, n):
    t = ()
    for i in tl.static_range(50):
        t = (t, t)
# CHECK-LABEL: == bad_pairs
# CHECK: budget.py:[[@LINE-2]]:13: error: this tuple takes more than 16777216 bytes
# CHECK: [ValueTooLarge]


@triton.jit
def bad_spread(p, n):
    t = ("x", "y")
    for i in tl.static_range(50):
        t = (*t, *t)
# CHECK-LABEL: == bad_spread
# CHECK: budget.py:[[@LINE-2]]:13: error: this tuple takes more than 16777216 bytes
# CHECK: [ValueTooLarge]


@triton.jit
def bad_tuple_sum(p, n):
    t = (1, 2)
    for i in tl.static_range(50):
        t = t + t
# CHECK-LABEL: == bad_tuple_sum
# CHECK: budget.py:[[@LINE-2]]:13: error: `+`: the result is too large
# CHECK: [KnownTooLarge]


@triton.jit
def bad_repeated(p, n):
    t = ("x", "y") * 1000000
# CHECK-LABEL: == bad_repeated
# CHECK: budget.py:[[@LINE-2]]:9: error: `*`: the result is too large
# CHECK: [KnownTooLarge]


@triton.jit
def bad_nested(p, n):
    t = ("x", )
    for i in tl.static_range(1000):
        t = (t, )
# CHECK-LABEL: == bad_nested
# CHECK: budget.py:[[@LINE-2]]:13: error: tuples nested too deeply: at most 400 levels are accepted
# CHECK: [ValueTooDeep]


@triton.jit
def ok_nested(p, n):
    t = ("x", )
    for i in tl.static_range(100):
        t = (t, )
    tl.store(p, len(t))


@triton.jit
def bad_integers(p, n):
    x: tl.constexpr = 2**(10**9)
# CHECK-LABEL: == bad_integers
# CHECK: budget.py:[[@LINE-2]]:23: error: `**`: the result is too large


@triton.jit
def bad_shift(p, n):
    x: tl.constexpr = 1 << (10**9)
# CHECK-LABEL: == bad_shift
# CHECK: budget.py:[[@LINE-2]]:23: error: `<<`: the result is too large


@triton.jit
def ok_integers(p, n):
    x: tl.constexpr = (2**20000 >> 19990) + (1 << 4)
    tl.store(p, x)


@triton.jit
def bad_bytes(p, n):
    for i in tl.static_range(10000):
        s = f"{i}" + "x" * 1000000
# CHECK-LABEL: == bad_bytes
# CHECK: budget.py:[[@LINE-2]]:{{[0-9]+}}: error: this compilation takes more than its 268435456 bytes of strings and tuples: make fewer or smaller ones, or raise the setting `NEREID_COMPILE_BUDGET` (now 1)
# CHECK: [BudgetExceeded]


@triton.jit
def twice(p, x, N: tl.constexpr):
    if N == 0:
        tl.store(p, x)
    else:
        twice(p, x, N - 1)
        twice(p, x, N - 1)


@triton.jit
def bad_calls(p, n):
    twice(p, n, 30)
# CHECK-LABEL: == bad_calls
# CHECK: budget.py:[[@LINE-7]]:9: error: this compilation takes more than its 1048576 operations: unroll less (`tl.range` instead of `tl.static_range`), call with `noinline`, or raise the setting `NEREID_COMPILE_BUDGET` (now 1)
# CHECK: budget.py:[[@LINE-13]]:5: note: a call of `twice`, with all that it calls, takes {{[0-9]+}} operations
# CHECK: [BudgetExceeded]


@triton.jit
def bad_loops(p, n):
    for i in tl.static_range(60000):
        for j in tl.static_range(60000):
            tl.store(p + j, i)
# CHECK-LABEL: == bad_loops
# CHECK: budget.py:[[@LINE-3]]:{{[0-9]+}}: error: this compilation takes more than its 1048576 operations: unroll less
# CHECK: [BudgetExceeded]


@triton.jit
def bad_empty_loops(p, n):
    for i in tl.static_range(60000):
        for j in tl.static_range(60000):
            pass
# CHECK-LABEL: == bad_empty_loops
# CHECK: budget.py:{{[0-9]+}}:{{[0-9]+}}: error: this compilation takes more than its 16777216 steps of evaluation
# CHECK: [BudgetExceeded]


@triton.jit
def ok_calls(p, n):
    twice(p, n, 8)


@triton.jit
def bad_branches(p, n):
    for i in tl.static_range(1000):
        if n == i:
            break
        tl.store(p + i, i)
# CHECK-LABEL: == bad_branches
# CHECK: budget.py:{{[0-9]+}}:{{[0-9]+}}: error: run-time branches nested too deeply: at most 256 levels are accepted; each iteration of an unrolled loop that may be left early is a level, use `tl.range`
# CHECK: [BranchesTooDeep]


@triton.jit
def ok_branches(p, n):
    for i in tl.static_range(100):
        if n == i:
            break
        tl.store(p + i, i)


@triton.jit
def ok_many_iterations(p, n):
    for i in tl.static_range(60000):
        pass


@triton.jit
def ok_shared(p, n):
    tl.store(p, A2[0][1][0])
