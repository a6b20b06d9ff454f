"""Errors of names, values, functions and calls: each beside its nearest valid neighbour. The notes that go with them are DefinedHere, CalledRepeatedly, CallsLeftOut
and CalledFromHere. Others: control_flow_errors.py, class_errors.py."""
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


@triton.must_use_result("It has no effect.")
@triton.jit
def pure(x):
    return x + 1


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
def bad_unknown_constant(p, n):
    tl.store(p, CYCLE)
# CHECK-LABEL: == bad_unknown_constant
# CHECK: errors.py:[[@LINE-2]]:17: error: the value of `CYCLE` is not a constant that is known without Python
# CHECK: [HostFailed]


@triton.jit
def ok_unknown_constant(p, n):
    tl.store(p, SIX + 1)


@triton.jit
def bad_set_item(p, n):
    p[0] = 1
# CHECK-LABEL: == bad_set_item
# CHECK: errors.py:[[@LINE-2]]:5: error: cannot assign to a subscript: use `tl.store` to write to memory
# CHECK: [SubscriptAssignment]


@triton.jit
def ok_set_item(p, n):
    tl.store(p, 1)


@triton.jit
def bad_set_attribute(p, n):
    p.x = 3
# CHECK-LABEL: == bad_set_attribute
# CHECK: errors.py:[[@LINE-2]]:5: error: cannot assign to an attribute: only the constructor of a class sets its fields
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
# CHECK: errors.py:{{[0-9]+}}:12: note: called from here, 63 times in a row
# CHECK: errors.py:[[@LINE-4]]:17: note: called from here
# CHECK: [CallsTooDeep]


@triton.jit
def ping(x, K: tl.constexpr):
    return pong(x, K + 1)


@triton.jit
def pong(x, K: tl.constexpr):
    return ping(x, K + 1)


@triton.jit
def bad_ping_pong(p, n):
    tl.store(p, ping(n, 0))
# CHECK-LABEL: == bad_ping_pong
# CHECK: error: calls nested too deeply: at most 64 levels are accepted
# CHECK: note: {{[0-9]+}} calls are left out here
# CHECK: errors.py:[[@LINE-4]]:17: note: called from here
# CHECK: [CallsTooDeep]


@triton.jit
def ok_too_deep(p, n):
    tl.store(p, shallow(n, 40))


@triton.jit
def bad_constexpr_reassigned(p, n):
    x: tl.constexpr = 3
    if n > 3:
        x = 4
# CHECK-LABEL: == bad_constexpr_reassigned
# CHECK: errors.py:[[@LINE-2]]:9: error: the constexpr `x` already has a value: use another name
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
# CHECK: errors.py:[[@LINE-2]]:5: error: the constexpr `x` already has a value: use another name
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


@triton.jit
def bad_unused_result(p, n):
    pure(n)
# CHECK-LABEL: == bad_unused_result
# CHECK: errors.py:[[@LINE-2]]:5: error: the result of `pure` is not used: assign it to a name
# CHECK: note: in Triton's words: The result of pure is not being used. It has no effect.
# CHECK: [ResultNotUsed]


@triton.jit
def ok_used_result(p, n):
    tl.store(p, pure(n))
