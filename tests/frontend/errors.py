"""Errors of names, statements, control flow and calls: each beside its nearest valid neighbour. The notes that go with them
are AssignedHere, OtherReturn, DefinedHere and CalledFromHere."""
# RUN: not nereid-frontend %s 'bad_*' "p:*i32,n:i32" | FileCheck %s --implicit-check-not=func.func
# RUN: nereid-frontend %s 'ok_*' "p:*i32,n:i32"
from math import pi

import torch
import triton
import triton.language as tl

CYCLE = CYCLE2 + 1
CYCLE2 = CYCLE
SIX = tl.constexpr(6)


def plain(x):
    return x


@triton.jit
def jitted(x):
    return x


@triton.jit
def needs(a, b, N: tl.constexpr):
    return a


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


@triton.jit
def recursive(n):
    return recursive(n - 1)


@triton.jit
def deep(n, K: tl.constexpr):
    return deep(n, K + 1)


@triton.jit
def shallow(n, K: tl.constexpr):
    if K == 0:
        return n
    return shallow(n, K - 1)


@triton.jit(noinline=True)
def outlined(x):
    return x


@triton.jit
def bad_unknown_name(p, n):
    tl.store(p, nn)
# CHECK-LABEL: == bad_unknown_name
# CHECK: errors.py:[[@LINE-2]]:17: error: name `nn` is not defined
# CHECK: [UnknownName]


@triton.jit
def ok_unknown_name(p, n):
    tl.store(p, n)


@triton.jit
def bad_unknown_name_near(p, n):
    offset = n
    tl.store(p, ofset)
# CHECK-LABEL: == bad_unknown_name_near
# CHECK: errors.py:[[@LINE-2]]:17: error: name `ofset` is not defined, did you mean `offset`?
# CHECK: [UnknownNameNear]


@triton.jit
def ok_unknown_name_near(p, n):
    offset = n
    tl.store(p, offset)


@triton.jit
def bad_one_branch(p, n):
    if n > 1:
        x = 1
    tl.store(p, x)
# CHECK-LABEL: == bad_one_branch
# CHECK: errors.py:[[@LINE-2]]:17: error: `x` is not defined here: it is assigned in only one branch of the `if` on line {{[0-9]+}}
# CHECK: errors.py:[[@LINE-4]]:9: note: `x` is assigned here
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
# CHECK: errors.py:[[@LINE-2]]:17: error: `y` is not defined here: it is first assigned inside the loop on line {{[0-9]+}}, which may run zero times
# CHECK: errors.py:[[@LINE-4]]:9: note: `y` is assigned here
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
# CHECK: errors.py:[[@LINE-3]]:9: error: type changes in a loop: Loop-carried variable acc has initial type int32 but is re-assigned to fp32 in loop! Please make sure that the type stays consistent
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
# CHECK: errors.py:[[@LINE-2]]:9: error: type changes in a loop: Loop-carried variable acc has initial type int32 but is re-assigned to int64 in loop! Please make sure that the type stays consistent
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
# CHECK: errors.py:[[@LINE-3]]:9: error: initial value for `x` is of type int32, but the then block redefines it as fp32
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
# CHECK: errors.py:[[@LINE-3]]:9: error: initial value for `x` is of type int32, but the else block redefines it as fp32
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
# CHECK: errors.py:[[@LINE-3]]:9: error: types of the branches differ: Mismatched type for x between then block (fp32) and else block (int32)
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
# CHECK: errors.py:{{[0-9]+}}:12: error: the `return` statements disagree: Return type mismatch: fp32 and int32
# CHECK: errors.py:{{[0-9]+}}:16: note: the other `return` gives fp32
# CHECK: errors.py:[[@LINE-4]]:17: note: called from here
# CHECK: [ReturnTypeMismatch]


@triton.jit
def ok_returns_differ(p, n):
    tl.store(p, same_returns(n))


@triton.jit
def ok_return_missing(p, n):
    tl.store(p, falls_off(n))


@triton.jit
def bad_plain_function(p, n):
    tl.store(p, plain(n))
# CHECK-LABEL: == bad_plain_function
# CHECK: errors.py:[[@LINE-2]]:17: error: `plain` is an ordinary Python function: decorate it with `@triton.jit` to call it in a kernel
# CHECK: [HostFailed]


@triton.jit
def ok_plain_function(p, n):
    tl.store(p, jitted(n))


@triton.jit
def bad_foreign_module(p, n):
    tl.store(p, torch.foo)
# CHECK-LABEL: == bad_foreign_module
# CHECK: errors.py:[[@LINE-2]]:17: error: module `torch` cannot be used in a kernel that is compiled without Python
# CHECK: [HostFailed]


@triton.jit
def ok_foreign_module(p, n):
    tl.store(p, tl.cdiv(n, 2))


@triton.jit
def bad_foreign_member(p, n):
    tl.store(p, pi)
# CHECK-LABEL: == bad_foreign_member
# CHECK: errors.py:[[@LINE-2]]:17: error: `pi` comes from `math`, which cannot be used in a kernel that is compiled without Python
# CHECK: [HostFailed]


@triton.jit
def ok_foreign_member(p, n):
    tl.store(p, SIX)


@triton.jit
def bad_cyclic_constant(p, n):
    tl.store(p, CYCLE)
# CHECK-LABEL: == bad_cyclic_constant
# CHECK: errors.py:[[@LINE-2]]:17: error: the value of `CYCLE` depends on itself
# CHECK: [HostFailed]


@triton.jit
def ok_cyclic_constant(p, n):
    tl.store(p, SIX + 1)


@triton.jit
def bad_set_item(p, n):
    p[0] = 1
# CHECK-LABEL: == bad_set_item
# CHECK: errors.py:[[@LINE-2]]:5: error: __setitem__ is not supported in triton: use `tl.store` to write to memory
# CHECK: [SubscriptAssignment]


@triton.jit
def ok_set_item(p, n):
    tl.store(p, 1)


@triton.jit
def bad_set_attribute(p, n):
    p.x = 3
# CHECK-LABEL: == bad_set_attribute
# CHECK: errors.py:[[@LINE-2]]:5: error: unsupported: Attribute assignment is not supported in triton
# CHECK: [AttributeAssignment]


@triton.jit
def ok_set_attribute(p, n):
    x = 3


@triton.jit
def bad_unknown_attribute_near(p, n):
    tl.stor(p, 1)
# CHECK-LABEL: == bad_unknown_attribute_near
# CHECK: errors.py:[[@LINE-2]]:8: error: module `triton.language` has no attribute `stor`, did you mean `store`?
# CHECK: [UnknownAttributeNear]


@triton.jit
def ok_unknown_attribute_near(p, n):
    tl.store(p, 1)


@triton.jit
def bad_unknown_attribute(p, n):
    tl.store(p, n.foobar)
# CHECK-LABEL: == bad_unknown_attribute
# CHECK: errors.py:[[@LINE-2]]:19: error: int32 scalar has no attribute `foobar`
# CHECK: [UnknownAttribute]


@triton.jit
def ok_unknown_attribute(p, n):
    tl.store(p, n.dtype.primitive_bitwidth)


@triton.jit
def bad_block_condition(p, n):
    x = tl.arange(0, 16)
    if x > 1:
        tl.store(p, 1)
# CHECK-LABEL: == bad_block_condition
# CHECK: errors.py:[[@LINE-3]]:8: error: a condition must be a scalar, found int1 block of shape [16]: reduce it, or select with `tl.where`
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
# CHECK: errors.py:[[@LINE-3]]:11: error: this loop never ends: its condition is always true and nothing leaves it
# CHECK: [EndlessLoop]


@triton.jit
def ok_endless(p, n):
    while True:
        tl.store(p, 1)
        break


@triton.jit
def bad_recursive(p, n):
    tl.store(p, recursive(n))
# CHECK-LABEL: == bad_recursive
# CHECK: errors.py:{{[0-9]+}}:12: error: recursive call of `recursive` with the same types and known values: it would never end
# CHECK: errors.py:[[@LINE-3]]:17: note: called from here
# CHECK: [RecursiveCall]


@triton.jit
def ok_recursive(p, n):
    tl.store(p, shallow(n, 3))


@triton.jit
def bad_too_deep(p, n):
    tl.store(p, deep(n, 1))
# CHECK-LABEL: == bad_too_deep
# CHECK: errors.py:{{[0-9]+}}:12: error: calls nested too deeply: at most 64 levels are accepted
# CHECK: errors.py:{{[0-9]+}}:12: note: called from here
# CHECK: errors.py:{{[0-9]+}}:12: note: called from here
# CHECK: [CallsTooDeep]


@triton.jit
def ok_too_deep(p, n):
    tl.store(p, shallow(n, 40))


@triton.jit
def bad_try_statement(p, n):
    try:
        tl.store(p, 1)
    except Exception:
        pass
# CHECK-LABEL: == bad_try_statement
# CHECK: errors.py:[[@LINE-5]]:5: error: unsupported AST node type: Try
# CHECK: [UnsupportedSyntax]


@triton.jit
def ok_try_statement(p, n):
    tl.store(p, 1)


@triton.jit
def bad_constexpr_reassigned(p, n):
    x: tl.constexpr = 3
    if n > 3:
        x = 4
# CHECK-LABEL: == bad_constexpr_reassigned
# CHECK: errors.py:[[@LINE-2]]:9: error: `x` is already defined. constexpr cannot be reassigned
# CHECK: [ConstexprReassigned]


@triton.jit
def ok_constexpr_reassigned(p, n):
    x: tl.constexpr = 3
    x += 4
    if n > 3:
        x = 5


@triton.jit
def bad_constexpr_again(p, n):
    x: tl.constexpr = 3
    x: tl.constexpr = 4
# CHECK-LABEL: == bad_constexpr_again
# CHECK: errors.py:[[@LINE-2]]:5: error: `x` is already defined. constexpr cannot be reassigned
# CHECK: [ConstexprReassigned]


@triton.jit
def ok_constexpr_again(p, n):
    for i in tl.static_range(2):
        x: tl.constexpr = i + 3


@triton.jit
def ok_constexpr_run_time(p, n):
    x: tl.constexpr = 2 * SIX
    y: tl.constexpr = n + x


@triton.jit
def ok_constexpr_declared(p, n):
    x: tl.constexpr
    if SIX == 6:
        x = 8
    y = tl.arange(0, x)


@triton.jit
def bad_unpack_count(p, n):
    a, b, c = (1, 2)
# CHECK-LABEL: == bad_unpack_count
# CHECK: errors.py:[[@LINE-2]]:5: error: cannot unpack: expected 3 values, found 2
# CHECK: [UnpackCount]


@triton.jit
def ok_unpack_count(p, n):
    a, b, c = (1, 2, 3)


@triton.jit
def bad_unpack_number(p, n):
    a, b = n
# CHECK-LABEL: == bad_unpack_number
# CHECK: errors.py:[[@LINE-2]]:5: error: cannot unpack int32 scalar: expected a tuple
# CHECK: [NotUnpackable]


@triton.jit
def ok_unpack_number(p, n):
    a, b = (n, n)


@triton.jit
def bad_missing_argument(p, n):
    needs(1)
# CHECK-LABEL: == bad_missing_argument
# CHECK: errors.py:[[@LINE-2]]:5: error: `needs` needs the argument `b`
# CHECK: errors.py:{{[0-9]+}}:5: note: `needs` is defined here
# CHECK: [MissingArgument]


@triton.jit
def ok_missing_argument(p, n):
    needs(1, 2, 3)


@triton.jit
def bad_surplus_argument(p, n):
    needs(1, 2, 3, 4)
# CHECK-LABEL: == bad_surplus_argument
# CHECK: errors.py:[[@LINE-2]]:20: error: `needs` takes at most 3 positional arguments, found 4
# CHECK: errors.py:{{[0-9]+}}:5: note: `needs` is defined here
# CHECK: [TooManyArguments]


@triton.jit
def ok_surplus_argument(p, n):
    needs(*(1, 2, 3))


@triton.jit
def bad_unknown_keyword(p, n):
    needs(1, 2, Q=3)
# CHECK-LABEL: == bad_unknown_keyword
# CHECK: errors.py:[[@LINE-2]]:19: error: `needs` has no parameter `Q`
# CHECK: errors.py:{{[0-9]+}}:5: note: `needs` is defined here
# CHECK: [UnknownKeyword]


@triton.jit
def ok_unknown_keyword(p, n):
    needs(1, 2, N=3)


@triton.jit
def bad_unknown_keyword_near(p, n):
    mixed_returns(nn=3)
# CHECK-LABEL: == bad_unknown_keyword_near
# CHECK: errors.py:[[@LINE-2]]:22: error: `mixed_returns` has no parameter `nn`
# CHECK: errors.py:{{[0-9]+}}:5: note: `mixed_returns` is defined here
# CHECK: [UnknownKeyword]


@triton.jit
def ok_unknown_keyword_near(p, n):
    same_returns(n=3)


@triton.jit
def bad_argument_twice(p, n):
    needs(1, 2, N=1, b=2)
# CHECK-LABEL: == bad_argument_twice
# CHECK: errors.py:[[@LINE-2]]:24: error: `needs` got two values for its parameter `b`
# CHECK: errors.py:{{[0-9]+}}:5: note: `needs` is defined here
# CHECK: [DuplicateArgument]


@triton.jit
def ok_argument_twice(p, n):
    needs(1, b=2, N=1)


@triton.jit
def ok_constexpr_argument(p, n):
    needs(1, n, 2)


@triton.jit
def bad_kernel_returns(p, n):
    return n
# CHECK-LABEL: == bad_kernel_returns
# CHECK: errors.py:[[@LINE-2]]:12: error: kernel `bad_kernel_returns` cannot return a value, found int32
# CHECK: [KernelReturnsValue]


@triton.jit
def ok_kernel_returns(p, n):
    return


@triton.jit
def bad_ternary_types(p, n):
    tl.store(p, 1.0 if n > 1 else n)
# CHECK-LABEL: == bad_ternary_types
# CHECK: errors.py:[[@LINE-2]]:17: error: ternary expression with dynamic condition has inconsistent types fp32 and int32
# CHECK: [ConditionalExpressionTypes]


@triton.jit
def ok_ternary_types(p, n):
    tl.store(p, 1 if n > 1 else n)


@triton.jit
def bad_not_iterable(p, n):
    for x in n:
        pass
# CHECK-LABEL: == bad_not_iterable
# CHECK: errors.py:[[@LINE-3]]:14: error: cannot iterate over int32 scalar: expected `range`, `tl.range`, `tl.static_range` or a tuple
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
# CHECK: errors.py:[[@LINE-3]]:14: error: the step of a range must not be zero
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
# CHECK: errors.py:[[@LINE-3]]:14: error: the bounds of a loop must be scalar integers, found fp32
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
# CHECK: errors.py:[[@LINE-2]]:9: error: unsupported AST node type: `else` of a `for`
# CHECK: [UnsupportedSyntax]


@triton.jit
def ok_loop_else(p, n):
    for i in range(n):
        pass


@triton.jit
def bad_not_callable(p, n):
    n(1)
# CHECK-LABEL: == bad_not_callable
# CHECK: errors.py:[[@LINE-2]]:5: error: int32 scalar cannot be called
# CHECK: [NotCallable]


@triton.jit
def ok_not_callable(p, n):
    jitted(1)


@triton.jit
def bad_membership(p, n):
    if n in (1, 2):
        pass
# CHECK-LABEL: == bad_membership
# CHECK: errors.py:[[@LINE-3]]:8: error: `in` needs values known during compilation, found int32 scalar
# CHECK: [MembershipUnknown]


@triton.jit
def ok_membership(p, n):
    if SIX in (1, 6):
        pass


@triton.jit
def bad_format(p, n):
    tl.static_print(f"{SIX:q}")
# CHECK-LABEL: == bad_format
# CHECK: errors.py:[[@LINE-2]]:23: error: unsupported format specification `q` for int
# CHECK: [FormatSpecification]


@triton.jit
def bad_format_precision(p, n):
    tl.static_print(f"{0.125:.2}")
# CHECK-LABEL: == bad_format_precision
# CHECK: errors.py:[[@LINE-2]]:23: error: unsupported format specification `.2` for float
# CHECK: [FormatSpecification]


@triton.jit
def ok_format_precision(p, n):
    x: tl.constexpr = f"{0.125:.2f}"


@triton.jit
def ok_format(p, n):
    x: tl.constexpr = f"{SIX:03d}"


@triton.jit
def bad_noinline_block(p, n):
    outlined(tl.arange(0, 16))
# CHECK-LABEL: == bad_noinline_block
# CHECK: errors.py:[[@LINE-2]]:5: error: function `outlined` is marked noinline, but was called with non-scalar argument <['16'], int32>
# CHECK: [NoinlineNonScalar]


@triton.jit
def ok_noinline_block(p, n):
    outlined(n)


@triton.jit
def bad_static_range_bound(p, n):
    for i in tl.static_range(n):
        pass
# CHECK-LABEL: == bad_static_range_bound
# CHECK: errors.py:[[@LINE-3]]:14: error: a bound of tl.static_range must be known during compilation, found int32 scalar: pass it as a `tl.constexpr`
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
# CHECK: errors.py:[[@LINE-3]]:14: error: a loop that is unrolled may have at most 65536 iterations
# CHECK: [TooManyIterations]


@triton.jit
def ok_too_many_iterations(p, n):
    for i in tl.static_range(100):
        pass


@triton.jit
def bad_double_star(p, n):
    needs(1, **n)
# CHECK-LABEL: == bad_double_star
# CHECK: errors.py:[[@LINE-2]]:14: error: unsupported AST node type: `**` in a call
# CHECK: [UnsupportedSyntax]


@triton.jit
def ok_double_star(p, n):
    needs(1, 2, 3)


@triton.jit
def bad_bytes(p, n):
    x = b"abc"
# CHECK-LABEL: == bad_bytes
# CHECK: errors.py:[[@LINE-2]]:9: error: unsupported AST node type: Constant of type bytes
# CHECK: [UnsupportedSyntax]


@triton.jit
def ok_bytes(p, n):
    x = "abc"


@triton.jit
def ok_one_ellipsis(p, n):
    tl.store(p, tl.sum(tl.zeros((4, 4), tl.int32)[..., 0]))


@triton.jit
def bad_several_ellipses(p, n):
    x = tl.zeros((4, 4), tl.int32)[..., 0, ...]
# CHECK-LABEL: == bad_several_ellipses
# CHECK: errors.py:[[@LINE-2]]:44: error: an index can only have a single ellipsis (`...`)
# CHECK: [SeveralEllipses]


@triton.aggregate
class Pair:
    first: tl.tensor
    second: tl.tensor
    scale: tl.constexpr = 2

    @triton.jit
    def total(self):
        return (self.first + self.second) * self.scale


@triton.aggregate
class Partial:
    first: tl.tensor
    second: tl.tensor

    def __init__(self, first, _semantic=None):
        self.first = first


@triton.aggregate
class Invents:
    first: tl.tensor

    def __init__(self, first):
        self.third = first


@triton.aggregate
class Scope:
    value: tl.tensor

    def __enter__(self):
        return self.value

    def __exit__(self, kind, value, trace):
        pass


class Ordinary:
    pass


@triton.aggregate
class Derived(Ordinary):
    pass


@triton.jit
def bad_with_statement(p, n):
    with n:
        pass
# CHECK-LABEL: == bad_with_statement
# CHECK: errors.py:[[@LINE-3]]:10: error: int32 scalar has no attribute `__enter__`
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
# CHECK: errors.py:[[@LINE-3]]:5: error: cannot leave a `with` block: Cannot have `return` statements inside `with` statements in triton
# CHECK: [ReturnInWith]


@triton.jit
def ok_loop_in_with(p, n):
    with Scope(n):
        for i in range(n):
            if i > 3:
                break


@triton.jit
def bad_local_decorator(p, n):
    @triton.autotune([], [])
    def inner(x):
        return x
# CHECK-LABEL: == bad_local_decorator
# CHECK: errors.py:[[@LINE-4]]:6: error: a function defined inside a kernel may only be decorated with `@triton.jit`: `inner`
# CHECK: [LocalDecorator]


@triton.jit
def ok_local_decorator(p, n):
    @triton.jit
    def inner(x):
        return x
    tl.store(p, inner(n))


@triton.jit
def maker(x):
    def inner(y):
        return x + y
    return inner


@triton.jit
def bad_closure_ended(p, n):
    tl.store(p, maker(n)(1))
# CHECK-LABEL: == bad_closure_ended
# CHECK: errors.py:[[@LINE-2]]:17: error: `inner` sees the names of a call that has ended: it can be called only while that call runs
# CHECK: [ClosureEnded]


@triton.jit
def ok_closure(p, n):
    def inner(y):
        return n + y
    tl.store(p, inner(1))


@triton.must_use_result("It has no effect.")
@triton.jit
def pure(x):
    return x + 1


@triton.jit
def bad_unused_result(p, n):
    pure(n)
# CHECK-LABEL: == bad_unused_result
# CHECK: errors.py:[[@LINE-2]]:5: error: result dropped: The result of pure is not being used. It has no effect.
# CHECK: [ResultNotUsed]


@triton.jit
def ok_used_result(p, n):
    tl.store(p, pure(n))


@triton.jit
def bad_unset_field(p, n):
    x = Partial(n)
# CHECK-LABEL: == bad_unset_field
# CHECK: errors.py:[[@LINE-2]]:9: error: incomplete value: constructor for Partial did not initialize attribute 'second'
# CHECK: [FieldNotInitialized]


@triton.jit
def ok_fields(p, n):
    x = Pair(n, n)
    tl.store(p, x.total())


@triton.jit
def bad_undeclared_field(p, n):
    x = Invents(n)
# CHECK-LABEL: == bad_undeclared_field
# CHECK: error: Invents has no attribute `third`
# CHECK: [UnknownAttribute]


@triton.jit
def ok_keyword_fields(p, n):
    x = Pair(second=n, first=n, scale=3)


@triton.jit
def bad_field_type(p, n):
    x = Pair(n, 3)
# CHECK-LABEL: == bad_field_type
# CHECK: errors.py:[[@LINE-2]]:9: error: wrong type of a field: Expected tl.tensor for attribute 'second', got int
# CHECK: [FieldType]


@triton.jit
def ok_field_types(p, n):
    x = Pair(n, n + 1, scale=3)


@triton.jit
def bad_constexpr_field(p, n):
    x = Pair(n, n, n)
# CHECK-LABEL: == bad_constexpr_field
# CHECK: errors.py:[[@LINE-2]]:9: error: wrong type of a field: Expected tl.constexpr for attribute 'scale', got int32 scalar
# CHECK: [FieldType]


@triton.jit
def ok_replaced(p, n):
    x = tl.aggregate_replace(Pair(n, n), scale=4)
    tl.store(p, x.total())


@triton.jit
def bad_assigned_field(p, n):
    x = Pair(n, n)
    x.first = n
# CHECK-LABEL: == bad_assigned_field
# CHECK: errors.py:[[@LINE-2]]:5: error: unsupported: Attribute assignment is not supported in triton
# CHECK: [AttributeAssignment]


@triton.jit
def bad_ordinary_class(p, n):
    x = Ordinary()
# CHECK-LABEL: == bad_ordinary_class
# CHECK: errors.py:[[@LINE-2]]:9: error: `Ordinary` is an ordinary class: decorate it with `@triton.aggregate` to use it in a kernel
# CHECK: [HostFailed]


@triton.jit
def bad_ordinary_base(p, n):
    x = Derived()
# CHECK-LABEL: == bad_ordinary_base
# CHECK: errors.py:[[@LINE-2]]:9: error: `Derived` may inherit from one other aggregate only
# CHECK: [HostFailed]


@triton.jit
def bad_combiner_capture(p, n):
    tl.store(p, tl.reduce(tl.arange(0, 16), 0, lambda a, b: a + b * n))
# CHECK-LABEL: == bad_combiner_capture
# CHECK: errors.py:[[@LINE-2]]:69: error: `n` is a value of the run: a function that combines elements can only use its parameters and values known during compilation
# CHECK: [CombinerCapture]


@triton.jit
def ok_combiner_capture(p, n):
    m = 3
    tl.store(p, tl.reduce(tl.arange(0, 16), 0, lambda a, b: a + b * m))
