"""Errors of classes of values and of functions inside functions: each beside its nearest valid neighbour."""
# RUN: not nereid-frontend %s 'bad_*' "p:*i32,n:i32" | FileCheck %s --implicit-check-not=func.func
# RUN: nereid-frontend %s 'ok_*' "p:*i32,n:i32"
import triton
import triton.language as tl


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


class Ordinary:
    pass


@triton.aggregate
class Derived(Ordinary):
    pass


@triton.jit
def maker(x):
    def inner(y):
        return x + y
    return inner


@triton.jit
def bad_local_decorator(p, n):
    @triton.autotune([], [])
    def inner(x):
        return x
# CHECK-LABEL: == bad_local_decorator
# CHECK: class_errors.py:[[@LINE-4]]:6: error: a function defined inside a kernel may only be decorated with `@triton.jit`: `inner`
# CHECK: [LocalDecorator]


@triton.jit
def ok_local_decorator(p, n):
    @triton.jit
    def inner(x):
        return x
    tl.store(p, inner(n))


@triton.jit
def bad_closure_ended(p, n):
    tl.store(p, maker(n)(1))
# CHECK-LABEL: == bad_closure_ended
# CHECK: class_errors.py:[[@LINE-2]]:17: error: `inner` sees the names of a call that has ended: it can be called only while that call runs
# CHECK: [ClosureEnded]


@triton.jit
def ok_closure(p, n):
    def inner(y):
        return n + y
    tl.store(p, inner(1))


@triton.jit
def bad_unset_field(p, n):
    x = Partial(n)
# CHECK-LABEL: == bad_unset_field
# CHECK: class_errors.py:[[@LINE-2]]:9: error: the constructor of `Partial` does not set the field `second`
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
# CHECK: class_errors.py:[[@LINE-2]]:9: error: the field `second` must have the type tl.tensor, found int
# CHECK: [FieldType]


@triton.jit
def ok_field_types(p, n):
    x = Pair(n, n + 1, scale=3)


@triton.jit
def bad_constexpr_field(p, n):
    x = Pair(n, n, n)
# CHECK-LABEL: == bad_constexpr_field
# CHECK: class_errors.py:[[@LINE-2]]:9: error: the field `scale` must have the type tl.constexpr, found int32 scalar
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
# CHECK: class_errors.py:[[@LINE-2]]:5: error: cannot assign to an attribute: only the constructor of a class sets its fields
# CHECK: [AttributeAssignment]


@triton.jit
def bad_ordinary_class(p, n):
    x = Ordinary()
# CHECK-LABEL: == bad_ordinary_class
# CHECK: class_errors.py:[[@LINE-2]]:9: error: `Ordinary` is an ordinary class: decorate it with `@triton.aggregate` to use it in a kernel
# CHECK: [HostFailed]


@triton.jit
def bad_ordinary_base(p, n):
    x = Derived()
# CHECK-LABEL: == bad_ordinary_base
# CHECK: class_errors.py:[[@LINE-2]]:9: error: `Derived` may inherit from one other aggregate only
# CHECK: [HostFailed]


@triton.jit
def bad_combiner_capture(p, n):
    tl.store(p, tl.reduce(tl.arange(0, 16), 0, lambda a, b: a + b * n))
# CHECK-LABEL: == bad_combiner_capture
# CHECK: class_errors.py:[[@LINE-2]]:69: error: `n` is a run-time value: a function that combines elements can only use its parameters and values known during compilation
# CHECK: [CombinerCapture]


@triton.jit
def ok_combiner_capture(p, n):
    m = 3
    tl.store(p, tl.reduce(tl.arange(0, 16), 0, lambda a, b: a + b * m))
