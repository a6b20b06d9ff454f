"""Branches, loops and early exits become scf.if, scf.for and scf.while."""
# RUN: nereid-frontend %s 'k_*' "p:*i32,n:i32,f:*fp32" --inline | FileCheck %s
import triton
import triton.language as tl


# CHECK-LABEL: == k_early_return
# CHECK: %[[PID:.*]] = tile.program_id 0
# CHECK: %[[STAYS:.*]] = arith.cmpi slt, %[[PID]], %arg1
# CHECK-NEXT: scf.if %[[STAYS]] {
# CHECK: tile.store
@triton.jit
def k_early_return(p, n):
    pid = tl.program_id(0)
    if pid >= n:
        return
    tl.store(p + pid, pid)


# A return on some paths only: what follows runs on the others.
# CHECK-LABEL: == k_nested_return
# CHECK: %[[LEFT:.*]] = scf.if {{.*}} -> (i1) {
# CHECK: %[[STAYS:.*]] = arith.xori %[[LEFT]], %true
# CHECK-NEXT: scf.if %[[STAYS]] {
# CHECK-NEXT: tile.store %arg0, %c2_i32
@triton.jit
def k_nested_return(p, n):
    if n > 3:
        tl.store(p, 1)
        if tl.load(p) > 5:
            return
        tl.store(p, 3)
    tl.store(p, 2)


# CHECK-LABEL: == k_known_condition
# CHECK-NOT: scf.if
# CHECK: tile.store %arg0, %c1_i32
# CHECK-NEXT: return
@triton.jit
def k_known_condition(p, n, K: tl.constexpr = 3):
    if K == 3 and n is not None:
        tl.store(p, 1)
    elif undefined:
        tl.store(p, 2)
    else:
        undefined_too()


# A name that lives before keeps its type; one that both sides assign lives on.
# CHECK-LABEL: == k_merge
# CHECK: %[[X:.*]] = arith.select %{{.*}}, %c2_i32, %c1_i32
# CHECK: %[[Y:.*]] = arith.select %{{.*}}, %arg1, %c1_i32
# CHECK: arith.addi %[[X]], %[[Y]]
@triton.jit
def k_merge(p, n):
    x = 1
    if n > 3:
        x = 2
        y = n
    else:
        y = x
    tl.store(p, x + y)


# CHECK-LABEL: == k_conditional_expression
# CHECK: %[[C:.*]] = arith.cmpi sgt, %arg1, %c0_i32
# CHECK: arith.select %[[C]], %c1_i32, %arg1
@triton.jit
def k_conditional_expression(p, n):
    tl.store(p, 1 if n > 0 else n)


# CHECK-LABEL: == k_for
# CHECK: scf.for %[[I:.*]] = %c0_i32 to %arg1 step %c16_i32 iter_args(%[[ACC:.*]] = %cst) -> (tensor<16xf32>)
# CHECK: scf.yield %{{.*}} : tensor<16xf32>
@triton.jit
def k_for(f, n):
    acc = tl.zeros((16,), dtype=tl.float32)
    offs = tl.arange(0, 16)
    for i in range(0, n, 16):
        acc += tl.load(f + i + offs)
    tl.store(f + offs, acc)


# The index counts upwards inside and is mirrored.
# CHECK-LABEL: == k_down
# CHECK: scf.for %[[I:.*]] = %c0_i32 to %arg1 step %c2_i32
# CHECK-NEXT: %[[J:.*]] = arith.subi %arg1, %[[I]]
# CHECK-NEXT: tile.addptr %arg0, %[[J]]
@triton.jit
def k_down(p, n):
    for i in range(n, 0, -2):
        tl.store(p + i, i)


# Assigning the index does not change the iteration.
# CHECK-LABEL: == k_index_assigned
# CHECK: scf.for %[[I:.*]] = %c0_i32 to %arg1 step %c1_i32
# CHECK-NEXT: arith.addi %[[I]], %c5_i32
@triton.jit
def k_index_assigned(p, n):
    for i in range(n):
        i += 5
        tl.store(p + i, i)


# CHECK-LABEL: == k_wide_bounds
# CHECK: %[[N:.*]] = arith.extsi %arg1 : i32 to i64
# CHECK: scf.for %{{.*}} = %{{.*}} to %[[N]] step %{{.*}} : i64
@triton.jit
def k_wide_bounds(p, n):
    for i in range(5000000000, n):
        tl.store(p, 1)


# CHECK-LABEL: == k_unsigned
# CHECK: scf.for unsigned
@triton.jit
def k_unsigned(p, n):
    for i in range(n.to(tl.uint32)):
        tl.store(p, 1)


# CHECK-LABEL: == k_hints
# CHECK: scf.for
# CHECK: } {tile.flatten, tile.num_stages = 3 : i32, tile.unroll = 2 : i32}
@triton.jit
def k_hints(p, n):
    for i in tl.range(0, n, num_stages=3, loop_unroll_factor=2, flatten=True):
        tl.store(p + i, i)


# CHECK-LABEL: == k_carried_tuple
# CHECK: scf.for {{.*}} iter_args(%[[A:.*]] = %c1_i32) -> (i32)
@triton.jit
def k_carried_tuple(p, n):
    state = (1, (n, None))
    for i in range(n):
        state = (state[0] + 1, (n, None))
    tl.store(p, state[0] + state[1][0])


# CHECK-LABEL: == k_static
# CHECK-NOT: scf
# CHECK: arith.muli %arg1, %c2_i32
# CHECK-NEXT: tile.store
@triton.jit
def k_static(p, n):
    t = 0
    for i in tl.static_range(3):
        if i == 1:
            continue
        t += i * n
    tl.store(p, t)


# CHECK-LABEL: == k_static_break
# CHECK: %[[STAYS:.*]] = arith.cmpi sle
# CHECK: scf.if %[[STAYS]]
@triton.jit
def k_static_break(p, n):
    for i in tl.static_range(2):
        if tl.load(p + i) > n:
            break
        tl.store(p + i, i)


# CHECK-LABEL: == k_break_continue
# CHECK: scf.while (%[[I:.*]] = %c0_i32, %[[S:.*]] = %c0_i32, %[[LEFT:.*]] = %false)
# CHECK: arith.cmpi slt, %[[I]], %arg1
# CHECK: arith.xori %[[LEFT]], %true
# CHECK: scf.condition
# CHECK: arith.cmpi eq, %[[V:.*]], %c0_i32
# CHECK-NEXT: scf.if
# CHECK-NEXT: scf.yield %false, %[[KEPT:.*]] : i1, i32
# CHECK-NEXT: } else {
# CHECK-NEXT: %[[BREAK:.*]] = arith.cmpi slt, %[[V]], %c0_i32
# CHECK: arith.addi %[[KEPT]], %[[V]]
# CHECK: scf.yield %[[BREAK]],
@triton.jit
def k_break_continue(p, n):
    s = 0
    for i in range(n):
        v = tl.load(p + i)
        if v == 0:
            continue
        if v < 0:
            break
        s += v
    tl.store(p, s)


# CHECK-LABEL: == k_return_in_loop
# CHECK: %[[W:.*]]:2 = scf.while
# CHECK: %[[STAYS:.*]] = arith.xori %[[W]]#1, %true
# CHECK-NEXT: scf.if %[[STAYS]] {
# CHECK-NEXT: tile.store %arg0, %c-1_i32
@triton.jit
def k_return_in_loop(p, n):
    for i in range(n):
        if tl.load(p + i) < 0:
            tl.store(p, i)
            return
    tl.store(p, -1)


@triton.jit
def find(p, n):
    for i in range(n):
        if tl.load(p + i) == 7:
            return i
    return -1


# CHECK-LABEL: == k_value_from_loop
# CHECK: %[[W:.*]]:3 = scf.while
# CHECK: %[[R:.*]] = arith.select %[[W]]#1, %[[W]]#2, %c-1_i32
# CHECK: tile.store %arg0, %[[R]]
@triton.jit
def k_value_from_loop(p, n):
    tl.store(p, find(p, n))


# CHECK-LABEL: == k_spin
# CHECK: scf.while : () -> () {
# CHECK-NEXT: tile.atomic_cas
# CHECK-NEXT: arith.cmpi eq
# CHECK-NEXT: scf.condition
# CHECK-NEXT: } do {
# CHECK-NEXT: scf.yield
# CHECK: tile.atomic_rmw xchg
@triton.jit
def k_spin(p):
    while tl.atomic_cas(p, 0, 1) == 1:
        pass
    tl.atomic_xchg(p, 0)


# The condition has effects: it is not evaluated again after the break.
# CHECK-LABEL: == k_while_break
# CHECK: scf.while
# CHECK-SAME: (%[[LEFT:.*]] = %false)
# CHECK-NEXT: %[[C:.*]] = scf.if %[[LEFT]] -> (i1) {
# CHECK-NEXT: scf.yield %false
# CHECK-NEXT: } else {
# CHECK-NEXT: tile.atomic_rmw add
# CHECK: scf.condition(%[[C]])
@triton.jit
def k_while_break(p, n):
    while tl.atomic_add(p, 1) < n:
        if tl.load(p + 1) == 0:
            break
        tl.store(p + 2, n)


# CHECK-LABEL: == k_while_true
# CHECK: scf.while (%{{.*}} = %c0_i32, %[[LEFT:.*]] = %false)
# CHECK-NEXT: arith.xori %[[LEFT]], %true
@triton.jit
def k_while_true(p):
    i = 0
    while True:
        if tl.load(p + i) == 0:
            break
        i += 1
    tl.store(p, i)


# CHECK-LABEL: == k_while_false
# CHECK-NOT: scf.while
# CHECK: tile.store %arg0, %c1_i32
@triton.jit
def k_while_false(p, K: tl.constexpr = 0):
    while K > 0:
        tl.store(p, 2)
    tl.store(p, 1)


# A name made by the condition lives in the body and after the loop.
# CHECK-LABEL: == k_walrus
# CHECK: %[[W:.*]] = scf.while : () -> i32 {
# CHECK-NEXT: %[[V:.*]] = tile.load
# CHECK: scf.condition(%{{.*}}) %[[V]]
# CHECK: tile.store %arg0, %[[W]]
@triton.jit
def k_walrus(p):
    while (v := tl.load(p)) > 0:
        tl.store(p, v - 1)
    tl.store(p, v)


# CHECK-LABEL: == k_nested_loops
# CHECK: scf.while
# CHECK: scf.while
# CHECK: scf.condition
@triton.jit
def k_nested_loops(p, n):
    for i in range(n):
        for j in range(i):
            if j > 3:
                if tl.load(p + j) == 0:
                    return
                if tl.load(p + j) == 1:
                    break
            tl.store(p + j, i)
        tl.store(p + i, i)


# Chained comparisons, known operands that decide before tensors are looked at.
# CHECK-LABEL: == k_boolean
# CHECK: arith.andi
# CHECK-NOT: tile.load
# CHECK: return
@triton.jit
def k_boolean(p, n, q=None):
    if 0 < n < 10:
        tl.store(p, 3)
    if q is not None and tl.load(q) > 0:
        tl.store(p, 4)
