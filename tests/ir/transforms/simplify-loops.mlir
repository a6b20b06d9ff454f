// RUN: nereid-opt %s --simplify-loops --canonicalize --cse | FileCheck %s

// Two blocks of pointers with one step share one 64-bit offset; the third, of another step, has its own.
// CHECK-LABEL: @pointers
// CHECK-SAME: (%[[P:.*]]: tensor<8x!tile.ptr<f32>>, %[[Q:.*]]: tensor<8x!tile.ptr<f32>>, %[[N:.*]]: i32, %[[S:.*]]: i32)
// CHECK: %[[END:.*]]:2 = scf.for {{.*}} iter_args(%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}}) -> (i64, i64)
// CHECK: %[[BS:.*]] = tile.splat %[[B]] : i64 -> tensor<8xi64>
// CHECK-NEXT: %[[QB:.*]] = tile.addptr %[[Q]], %[[BS]] : tensor<8x!tile.ptr<f32>>, tensor<8xi64>
// CHECK-NEXT: %[[AS:.*]] = tile.splat %[[A]] : i64 -> tensor<8xi64>
// CHECK-NEXT: %[[QA:.*]] = tile.addptr %[[Q]], %[[AS]] : tensor<8x!tile.ptr<f32>>, tensor<8xi64>
// CHECK-NEXT: %[[PA:.*]] = tile.addptr %[[P]], %[[AS]] : tensor<8x!tile.ptr<f32>>, tensor<8xi64>
// CHECK-NEXT: %[[V:.*]] = tile.load %[[PA]]
// CHECK-NEXT: tile.store %[[QA]], %[[V]]
// CHECK-NEXT: tile.store %[[QB]], %[[V]]
// CHECK-DAG: %[[NEXTA:.*]] = arith.addi %[[A]], %c32_i64 : i64
// CHECK-DAG: %[[WIDE:.*]] = arith.extsi %[[S]] : i32 to i64
// CHECK-DAG: %[[NEXTB:.*]] = arith.addi %[[B]], %[[WIDE]] : i64
// CHECK: scf.yield %[[NEXTA]], %[[NEXTB]]
// CHECK: %[[ENDS:.*]] = tile.splat %[[END]]#0 : i64 -> tensor<8xi64>
// CHECK: %[[LAST:.*]] = tile.addptr %[[P]], %[[ENDS]]
// CHECK: return %[[LAST]]
func.func @pointers(%p: tensor<8x!tile.ptr<f32>>, %q: tensor<8x!tile.ptr<f32>>, %n: i32, %s: i32) -> tensor<8x!tile.ptr<f32>> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c32 = arith.constant dense<32> : tensor<8xi32>
  %0:3 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %p, %b = %q, %c = %q) -> (tensor<8x!tile.ptr<f32>>, tensor<8x!tile.ptr<f32>>, tensor<8x!tile.ptr<f32>>) : i32 {
    %v = tile.load %a : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
    tile.store %b, %v : tensor<8x!tile.ptr<f32>>, tensor<8xf32>
    tile.store %c, %v : tensor<8x!tile.ptr<f32>>, tensor<8xf32>
    %an = tile.addptr %a, %c32 : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
    %bn = tile.addptr %b, %c32 : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
    %ss = tile.splat %s : i32 -> tensor<8xi32>
    %cn = tile.addptr %c, %ss : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
    scf.yield %an, %bn, %cn : tensor<8x!tile.ptr<f32>>, tensor<8x!tile.ptr<f32>>, tensor<8x!tile.ptr<f32>>
  }
  return %0#0 : tensor<8x!tile.ptr<f32>>
}

// Integers keep their width: the sums wrap as before. Several steps in one round add up.
// CHECK-LABEL: @integers
// CHECK-SAME: (%[[X:.*]]: tensor<8xi32>, %[[N:.*]]: i32, %[[S:.*]]: i32
// CHECK: scf.for {{.*}} iter_args(%[[A:.*]] = %{{.*}}) -> (i32)
// CHECK: %[[AS:.*]] = tile.splat %[[A]] : i32 -> tensor<8xi32>
// CHECK: arith.addi %[[X]], %[[AS]] : tensor<8xi32>
// CHECK: %[[FIRST:.*]] = arith.addi %[[A]], %[[S]] : i32
// CHECK: %[[SECOND:.*]] = arith.addi %[[FIRST]], %c4_i32 : i32
// CHECK: scf.yield %[[SECOND]] : i32
func.func @integers(%x: tensor<8xi32>, %n: i32, %s: i32, %p: tensor<8x!tile.ptr<i32>>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant dense<4> : tensor<8xi32>
  %ss = tile.splat %s : i32 -> tensor<8xi32>
  scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> tensor<8xi32> : i32 {
    tile.store %p, %a : tensor<8x!tile.ptr<i32>>, tensor<8xi32>
    %0 = arith.addi %c4, %a : tensor<8xi32>
    %1 = arith.addi %0, %ss : tensor<8xi32>
    scf.yield %1 : tensor<8xi32>
  }
  return
}

// A step that is not uniform, and a tensor that is replaced, stay carried.
// CHECK-LABEL: @others
// CHECK: scf.for {{.*}} -> (tensor<8x!tile.ptr<f32>>, tensor<8xi32>)
func.func @others(%p: tensor<8x!tile.ptr<f32>>, %s: tensor<8xi32>, %n: i32) -> (tensor<8x!tile.ptr<f32>>, tensor<8xi32>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %0:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %p, %b = %s) -> (tensor<8x!tile.ptr<f32>>, tensor<8xi32>) : i32 {
    %an = tile.addptr %a, %s : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
    %is = tile.splat %i : i32 -> tensor<8xi32>
    %bn = arith.muli %b, %is : tensor<8xi32>
    scf.yield %an, %bn : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  }
  return %0#0, %0#1 : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
}

// Values that only feed themselves or each other go; what a store or a branch needs stays.
// CHECK-LABEL: @dead_values
// CHECK: scf.for {{.*}} iter_args(%[[KEPT:.*]] = %{{.*}}) -> (f32)
// CHECK-NOT: arith.mulf
// CHECK-NOT: math.exp
func.func @dead_values(%x: f32, %n: i32, %p: !tile.ptr<f32>, %c: i1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %0:3 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %x, %k = %x) -> (f32, f32, f32) : i32 {
    %an = arith.mulf %b, %b : f32
    %bn = math.exp %a : f32
    scf.if %c {
      tile.store %p, %k : !tile.ptr<f32>, f32
    }
    %kn = arith.addf %k, %k : f32
    scf.yield %an, %bn, %kn : f32, f32, f32
  }
  return
}
