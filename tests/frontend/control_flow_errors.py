"""Errors of branches, loops, `with` and what functions return: each beside its nearest valid neighbour. The notes that go with them
are AssignedHere and OtherReturn."""
# RUN: not nereid-frontend %s 'bad_*' "p:*i32,n:i32" | FileCheck %s --implicit-check-not=func.func
# RUN: nereid-frontend %s 'ok_*' "p:*i32,n:i32"
import triton
import triton.language as tl

SIX = tl.constexpr(6)


@triton.jit
def mixed_returns(n):
    if n > 1:
        return 1.0
    return n


@triton.jit
def same_returns(n):
    if n > 1:
        return 1
    return n


@triton.jit
def falls_off(n):
    if n > 1:
        return n


@triton.aggregate
class Scope:
    value: tl.tensor

    def __enter__(self):
        return self.value

    def __exit__(self, kind, value, trace):
        pass


@triton.jit
def bad_one_branch(p, n):
    if n > 1:
        x = 1
    tl.store(p, x)
# CHECK-LABEL: == bad_one_branch
# CHECK: control_flow_errors.py:[[@LINE-2]]:17: error: `x` is not defined here: it is assigned in only one branch of the `if` on line {{[0-9]+}}
# CHECK: control_flow_errors.py:[[@LINE-4]]:9: note: `x` is assigned here
# CHECK: [AssignedInOneBranch]


@triton.jit
def ok_one_branch(p, n):
    if n > 1:
        x = 1
    else:
        x = n
    tl.store(p, x)


@triton.jit
def bad_loop_body(p, n):
    for i in range(n):
        y = i
    tl.store(p, y)
# CHECK-LABEL: == bad_loop_body
# CHECK: control_flow_errors.py:[[@LINE-2]]:17: error: `y` is not defined here: it is first assigned inside the loop on line {{[0-9]+}}, which may run zero times
# CHECK: control_flow_errors.py:[[@LINE-4]]:9: note: `y` is assigned here
# CHECK: [AssignedInLoop]


@triton.jit
def ok_loop_body(p, n):
    y = 0
    for i in range(n):
        y = i
    tl.store(p, y)


@triton.jit
def bad_loop_carried(p, n):
    acc = 0
    for i in range(n):
        acc += 1.5
    tl.store(p, acc)
# CHECK-LABEL: == bad_loop_carried
# CHECK: control_flow_errors.py:[[@LINE-3]]:9: error: `acc` has type int32 before the loop and type fp32 after an iteration: cast one of them
# CHECK: [LoopCarriedType]


@triton.jit
def ok_loop_carried(p, n):
    acc = 0.0
    for i in range(n):
        acc += 1.5
    tl.store(p, acc)


@triton.jit
def bad_loop_carried_while(p, n):
    acc = n
    while acc < 10:
        acc = acc.to(tl.int64) + 1
# CHECK-LABEL: == bad_loop_carried_while
# CHECK: control_flow_errors.py:[[@LINE-2]]:9: error: `acc` has type int32 before the loop and type int64 after an iteration: cast one of them
# CHECK: [LoopCarriedType]


@triton.jit
def ok_loop_carried_while(p, n):
    acc = n
    while acc < 10:
        acc = acc + 1


@triton.jit
def bad_branch_changes(p, n):
    x = 1
    if n > 1:
        x = 2.0
    tl.store(p, x)
# CHECK-LABEL: == bad_branch_changes
# CHECK: control_flow_errors.py:[[@LINE-3]]:9: error: initial value for `x` is of type int32, but the then block redefines it as fp32
# CHECK: [BranchChangesType]


@triton.jit
def ok_branch_changes(p, n):
    x = 1
    if n > 1:
        x = 2
    tl.store(p, x)


@triton.jit
def bad_branch_changes_else(p, n):
    x = 1
    if n > 1:
        pass
    else:
        x = 2.0
    tl.store(p, x)
# CHECK-LABEL: == bad_branch_changes_else
# CHECK: control_flow_errors.py:[[@LINE-3]]:9: error: initial value for `x` is of type int32, but the else block redefines it as fp32
# CHECK: [BranchChangesType]


@triton.jit
def ok_branch_changes_else(p, n):
    x = 1.0
    if n > 1:
        pass
    else:
        x = 2.0
    tl.store(p, x)


@triton.jit
def bad_branches_differ(p, n):
    if n > 1:
        x = 2.0
    else:
        x = 1
    tl.store(p, x)
# CHECK-LABEL: == bad_branches_differ
# CHECK: control_flow_errors.py:[[@LINE-3]]:9: error: `x` has type fp32 in the `then` block and type int32 in the `else` block: cast one of them
# CHECK: [BranchTypesDiffer]


@triton.jit
def ok_branches_differ(p, n):
    if n > 1:
        x = 2.0
    else:
        x = 1.0
    tl.store(p, x)


@triton.jit
def bad_returns_differ(p, n):
    tl.store(p, mixed_returns(n))
# CHECK-LABEL: == bad_returns_differ
# CHECK: control_flow_errors.py:{{[0-9]+}}:12: error: the `return` statements of a function must give one type, found fp32 and int32: cast one of them
# CHECK: control_flow_errors.py:{{[0-9]+}}:16: note: the other `return` gives fp32
# CHECK: control_flow_errors.py:[[@LINE-4]]:17: note: called from here
# CHECK: [ReturnTypeMismatch]


@triton.jit
def ok_returns_differ(p, n):
    tl.store(p, same_returns(n))


@triton.jit
def ok_return_missing(p, n):
    tl.store(p, falls_off(n))


@triton.jit
def bad_block_condition(p, n):
    x = tl.arange(0, 16)
    if x > 1:
        tl.store(p, 1)
# CHECK-LABEL: == bad_block_condition
# CHECK: control_flow_errors.py:[[@LINE-3]]:8: error: a condition must be a scalar, found int1 block of shape [16]: reduce it, or select with `tl.where`
# CHECK: [BlockAsCondition]


@triton.jit
def ok_block_condition(p, n):
    x = tl.arange(0, 16)
    if tl.max(x, 0) > 1:
        tl.store(p, 1)


@triton.jit
def bad_endless(p, n):
    while True:
        tl.store(p, 1)
# CHECK-LABEL: == bad_endless
# CHECK: control_flow_errors.py:[[@LINE-3]]:11: error: this loop never ends: its condition is always true and nothing leaves it
# CHECK: [EndlessLoop]


@triton.jit
def ok_endless(p, n):
    while True:
        tl.store(p, 1)
        break


@triton.jit
def bad_try_statement(p, n):
    try:
        tl.store(p, 1)
    except Exception:
        pass
# CHECK-LABEL: == bad_try_statement
# CHECK: control_flow_errors.py:[[@LINE-5]]:5: error: unsupported AST node type: Try
# CHECK: [UnsupportedSyntax]


@triton.jit
def ok_try_statement(p, n):
    tl.store(p, 1)


@triton.jit
def bad_kernel_returns(p, n):
    return n
# CHECK-LABEL: == bad_kernel_returns
# CHECK: control_flow_errors.py:[[@LINE-2]]:12: error: kernel `bad_kernel_returns` cannot return a value, found int32
# CHECK: [KernelReturnsValue]


@triton.jit
def ok_kernel_returns(p, n):
    return


@triton.jit
def bad_ternary_types(p, n):
    tl.store(p, 1.0 if n > 1 else n)
# CHECK-LABEL: == bad_ternary_types
# CHECK: control_flow_errors.py:[[@LINE-2]]:17: error: both values of a conditional expression with a run-time condition must have one type, found fp32 and int32: cast one of them
# CHECK: [ConditionalExpressionTypes]


@triton.jit
def ok_ternary_types(p, n):
    tl.store(p, 1 if n > 1 else n)


@triton.jit
def bad_not_iterable(p, n):
    for x in n:
        pass
# CHECK-LABEL: == bad_not_iterable
# CHECK: control_flow_errors.py:[[@LINE-3]]:14: error: cannot iterate over int32 scalar: expected `range`, `tl.range`, `tl.static_range` or a tuple
# CHECK: [NotIterable]


@triton.jit
def ok_not_iterable(p, n):
    for x in (1, n):
        pass


@triton.jit
def bad_step_zero(p, n):
    for i in range(0, 10, 0):
        pass
# CHECK-LABEL: == bad_step_zero
# CHECK: control_flow_errors.py:[[@LINE-3]]:14: error: the step of a range must not be zero
# CHECK: [LoopStepZero]


@triton.jit
def ok_step_zero(p, n):
    for i in range(10, 0, -1):
        pass


@triton.jit
def bad_float_bound(p, n):
    for i in range(1.5):
        pass
# CHECK-LABEL: == bad_float_bound
# CHECK: control_flow_errors.py:[[@LINE-3]]:14: error: the bounds of a loop must be scalar integers, found fp32
# CHECK: [LoopBoundType]


@triton.jit
def ok_float_bound(p, n):
    for i in range(n):
        pass


@triton.jit
def bad_loop_else(p, n):
    for i in range(n):
        pass
    else:
        pass
# CHECK-LABEL: == bad_loop_else
# CHECK: control_flow_errors.py:[[@LINE-2]]:9: error: unsupported AST node type: `else` of a `for`
# CHECK: [UnsupportedSyntax]


@triton.jit
def ok_loop_else(p, n):
    for i in range(n):
        pass


@triton.jit
def bad_static_range_bound(p, n):
    for i in tl.static_range(n):
        pass
# CHECK-LABEL: == bad_static_range_bound
# CHECK: control_flow_errors.py:[[@LINE-3]]:14: error: a bound of tl.static_range must be known during compilation, found int32 scalar: pass it as a `tl.constexpr`
# CHECK: [ExpectedKnownValue]


@triton.jit
def ok_static_range_bound(p, n):
    for i in tl.static_range(SIX):
        pass


@triton.jit
def bad_too_many_iterations(p, n):
    for i in tl.static_range(1000000):
        pass
# CHECK-LABEL: == bad_too_many_iterations
# CHECK: control_flow_errors.py:[[@LINE-3]]:14: error: a loop that is unrolled may have at most 65536 iterations, found 1000000: use `tl.range`, or raise the setting `NEREID_COMPILE_BUDGET`
# CHECK: [TooManyIterations]


@triton.jit
def ok_too_many_iterations(p, n):
    for i in tl.static_range(100):
        pass


@triton.jit
def bad_with_statement(p, n):
    with n:
        pass
# CHECK-LABEL: == bad_with_statement
# CHECK: control_flow_errors.py:[[@LINE-3]]:10: error: int32 scalar has no attribute `__enter__`
# CHECK: [UnknownAttribute]


@triton.jit
def ok_with_statement(p, n):
    with Scope(n) as x, Scope(n + 1):
        tl.store(p, x)


@triton.jit
def bad_return_in_with(p, n):
    with Scope(n):
        return
# CHECK-LABEL: == bad_return_in_with
# CHECK: control_flow_errors.py:[[@LINE-3]]:5: error: `return` is not available inside a `with` block: return after it
# CHECK: [ReturnInWith]


@triton.jit
def ok_loop_in_with(p, n):
    with Scope(n):
        for i in range(n):
            if i > 3:
                break
