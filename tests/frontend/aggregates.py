"""Classes of values whose text stands in the file, functions inside functions, block pointers: without Python."""
# RUN: nereid-frontend %s 'k_*' "p:*i32,n:i32" | FileCheck %s
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

    @triton.jit
    def __add__(self, other):
        return Pair(self.first + other.first, self.second + other.second, self.scale)

    @staticmethod
    @triton.jit
    def of(x):
        return Pair(x, x)


@triton.aggregate
class Window(Pair):
    offsets: tl.tensor
    size: tl.constexpr

    def __init__(self, x, size, _semantic=None):
        self.first = x
        self.second = x
        self.size = size
        self.offsets = tl.arange(0, size)


# A value of a class is its tensors; a method takes them as arguments, and its constants make the specialisation.
# CHECK-LABEL: == k_method
# CHECK: call @total__i32_i32(%arg1, %arg1)
# CHECK: call @total__i32_i32.1(%arg1, %arg1)
# CHECK: func.func private @total__i32_i32(%arg0: i32
# CHECK: arith.constant 2 : i32
# CHECK: func.func private @total__i32_i32.1(%arg0: i32
# CHECK: arith.constant 3 : i32
@triton.jit
def k_method(p, n):
    tl.store(p, Pair(n, n).total() + Pair(n, n, 3).total())


# CHECK-LABEL: == k_loop
# CHECK: scf.for {{.*}} iter_args(%[[A:[a-z0-9]+]] = %0#0, %[[B:[a-z0-9]+]] = %0#1) -> (i32, i32)
# CHECK: call @__add____i32_i32_i32_i32(%[[A]], %[[B]]
@triton.jit
def k_loop(p, n):
    x = Pair.of(n)
    for i in range(n):
        x += Pair.of(i)
    tl.store(p, x.first + x.second)


# CHECK-LABEL: == k_constructor
# CHECK: tile.range 0 to 16
# CHECK: call @total__i32_i32_i32S16S(%arg1, %arg1, %0)
@triton.jit
def k_constructor(p, n):
    w = Window(n, 16)
    tl.store(p + w.offsets, w.total())


# CHECK-LABEL: == k_closure
# CHECK: %[[N:.*]] = arith.addi %arg1
# CHECK: arith.muli %{{.*}}, %[[N]]
# CHECK-NOT: func.call
@triton.jit
def k_closure(p, n):
    m = n + 1

    def scaled(x):
        return x * m
    tl.store(p, scaled(n))


# A local function sees what a name means when it is called, and goes where it is called.
# CHECK-LABEL: == k_closure_in_loop
# CHECK: scf.for
# CHECK: arith.muli
@triton.jit
def k_closure_in_loop(p, n):
    m = n
    scaled = lambda x: x * m
    for i in range(n):
        m = m + 1
        tl.store(p + i, scaled(i))


# CHECK-LABEL: == k_block_pointer
# CHECK: tile.range 0 to 16
# CHECK: tile.load
# CHECK-NOT: Pair
@triton.jit
def k_block_pointer(p, n):
    block = tl.make_block_ptr(p, (n, ), (1, ), (0, ), (16, ), (0, ))
    tl.store(tl.advance(block, (16, )), tl.load(block, boundary_check=(0, ), padding_option="zero"))


# CHECK-LABEL: == k_starred
# CHECK: arith.constant 2 : i32
@triton.jit
def k_starred(p, n):
    a, *b, c = (1, n, 3, 4)
    tl.store(p, len(b))


# CHECK-LABEL: == k_comprehension
# CHECK: arith.constant 22 : i32
@triton.jit
def k_comprehension(p, n):
    tl.store(p, [x + y for x in (1, 2, 3) if x < 3 for y in (10, 20)][3])
