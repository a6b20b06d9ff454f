"""What checked mode puts into loads, and where debug mode asserts."""
# RUN: nereid-frontend --checked --debug %s 'k_*' "p:*fp32,q:*i32,n:i32" | FileCheck %s
import triton
import triton.language as tl


# Only what the author left open: a masked load without `other`.
# CHECK-LABEL: == k_masked
# CHECK: %[[NAN:.*]] = arith.constant dense<0x7FC00000> : tensor<16xf32>
# CHECK: tile.load %{{.*}} mask %{{.*}} other %[[NAN]]
# CHECK: %[[BYTES:.*]] = arith.constant dense<1515870810> : tensor<16xi32>
# CHECK: tile.load %{{.*}} mask %{{.*}} other %[[BYTES]]
@triton.jit
def k_masked(p, q, n):
    i = tl.arange(0, 16)
    x = tl.load(p + i, mask=i < n)
    y = tl.load(q + i, mask=i < n)
    tl.store(p + i, x + y)


# CHECK-LABEL: == k_defined
# CHECK-NOT: 0x7FC00000
# CHECK: tile.load %{{[0-9]+}} : tensor<16x!tile.ptr<f32>>
# CHECK: tile.desc_load
@triton.jit
def k_defined(p, q, n):
    i = tl.arange(0, 16)
    x = tl.load(p + i)
    y = tl.load(p + i, mask=i < n, other=1.0)
    d = tl.make_tensor_descriptor(p, [n], [1], [16])
    tl.store(p + i, x + y + d.load([n]))


# The author's arithmetic is asserted to fit, sums with a name included.
# CHECK-LABEL: == k_author
# CHECK: tile.assert %{{.*}}, "int32 overflow detected for operation mul"
# CHECK: tile.reduce
# CHECK: tile.assert %{{.*}}, "int32 overflow detected for operation add"
# CHECK: tile.yield
@triton.jit
def k_author(p, q, n):
    i = tl.arange(0, 16)
    tl.store(q, tl.sum(tl.load(q + i) * n, 0))


# The library's may wrap.
# CHECK-LABEL: == k_library
# CHECK-NOT: tile.assert
# CHECK: tile.store
@triton.jit
def k_library(p, q, n):
    i = tl.arange(0, 16)
    bits = tl.load(q + i)
    tl.store(p + i, tl.uint_to_uniform_float(bits) + tl.rand(n, i) + tl.load(p + i).to(tl.float8e4b8).to(tl.float32))
