"""Every operation knows the line and column of its expression; what is walked in place also the call."""
# RUN: nereid-frontend %s kernel "p:*fp32,n:i32" --locations | FileCheck %s
import triton
import triton.language as tl


@triton.jit
def helper(x):
    return x + 1


@triton.jit
def kernel(p, n):
    v = tl.load(p)
    w = helper(n)
    m = tl.sum(tl.load(p + tl.arange(0, 4)), 0)
    tl.store(p, v * m + w)


# CHECK: #[[SUMCALL:loc[0-9]*]] = loc("{{.*}}locations.py":16:9)
# CHECK: #[[SUM:loc[0-9]*]] = loc(callsite(#{{.*}} at #[[SUMCALL]]))
# CHECK: tile.load %arg0 {{.*}} loc(#[[LOAD:.*]])
# CHECK: call @helper__i32{{.*}} loc(#[[CALL:.*]])
# CHECK: } : (tensor<4xf32>) -> f32 loc(#[[SUM]])
# CHECK: func.func private @helper__i32
# CHECK: arith.addi {{.*}} loc(#[[ADD:.*]])
# CHECK-DAG: #[[LOAD]] = loc("{{.*}}locations.py":14:9)
# CHECK-DAG: #[[CALL]] = loc("{{.*}}locations.py":15:9)
# CHECK-DAG: #[[ADD]] = loc("{{.*}}locations.py":9:12)
