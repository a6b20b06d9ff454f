// RUN: nereid-opt %s --split-input-file --gpu-split-products="split" | FileCheck %s
// RUN: nereid-opt %s --split-input-file --gpu-split-products | FileCheck %s --check-prefix=OFF
// RUN: nereid-opt %s --split-input-file --gpu-split-products="split blocks=2" | FileCheck %s --check-prefix=OFF
// RUN: nereid-opt %s --split-input-file --gpu-split-products="split sm=80" | FileCheck %s --check-prefix=OFF

// Each block takes a part of the iterations, with pointers advanced to it; the first one adds and stores.
// CHECK-LABEL: func.func @product
// CHECK-SAME: ngpu.splits = 4 : i32
// CHECK-DAG: %[[SIZE:.*]] = ngpu.cluster_size
// CHECK-DAG: %[[RANK:.*]] = ngpu.cluster_rank
// CHECK: %[[COUNT:.*]] = arith.select
// CHECK: %[[LEAST:.*]] = arith.select %{{.*}}, %c19_i32, %c23_i32
// CHECK: %[[ENOUGH:.*]] = arith.cmpi uge, %[[COUNT]], %[[LEAST]]
// CHECK: %[[NOTALONE:.*]] = arith.cmpi ne, %[[SIZE]]
// CHECK: %[[SEVERAL:.*]] = arith.andi %[[NOTALONE]], %[[ENOUGH]]
// CHECK: arith.shrui %[[SIZE]]
// CHECK: arith.shrui %[[SIZE]]
// CHECK: arith.shrui
// CHECK: %[[SHARE:.*]] = arith.select %[[SEVERAL]], %{{.*}}, %[[COUNT]]
// CHECK: %[[BEFORE:.*]] = arith.muli %[[RANK]], %[[SHARE]]
// CHECK: %[[FIRST:.*]] = arith.minui %[[BEFORE]]
// CHECK: %[[LOWER:.*]] = arith.select
// CHECK: %[[UPPER:.*]] = arith.select
// CHECK: %[[WIDE:.*]] = arith.extsi %{{.*}} : tensor<64x64xi32> to tensor<64x64xi64>
// CHECK: %[[MOVE:.*]] = arith.muli %[[WIDE]], %{{.*}} : tensor<64x64xi64>
// CHECK: %[[START:.*]] = tile.addptr %{{.*}}, %[[MOVE]]
// CHECK: %[[LOOP:.*]]:2 = scf.for %{{.*}} = %[[LOWER]] to %[[UPPER]] step %{{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %[[START]])
// CHECK: %[[SUM:.*]] = scf.if %[[SEVERAL]]
// CHECK-NEXT: %[[ALL:.*]] = ngpu.sum_blocks %[[LOOP]]#0
// CHECK-NEXT: scf.yield %[[ALL]]
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.yield %[[LOOP]]#0
// CHECK: %[[ISFIRST:.*]] = arith.cmpi eq, %[[RANK]]
// CHECK-NEXT: scf.if %[[ISFIRST]] {
// CHECK-NEXT: tile.store %{{.*}}, %[[SUM]]
// CHECK-NEXT: }
// CHECK-NEXT: return
// OFF-LABEL: func.func @product
// OFF-NOT: ngpu.splits
// OFF-NOT: cluster
func.func @product(%p: tensor<64x64x!tile.ptr<f16>>, %b: tensor<64x64xf16>, %out: tensor<64x64x!tile.ptr<f32>>, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %step = arith.constant dense<64> : tensor<64x64xi32>
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %at = %p) -> (tensor<64x64xf32>, tensor<64x64x!tile.ptr<f16>>) : i32 {
    %a = tile.load %at : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
    %d = tile.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    %next = tile.addptr %at, %step : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
    scf.yield %d, %next : tensor<64x64xf32>, tensor<64x64x!tile.ptr<f16>>
  }
  tile.store %out, %r#0 : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  return
}

// -----

// The accumulator begins with something: every block would add it.
// CHECK-LABEL: func.func @begins
// CHECK-NOT: cluster
// OFF-LABEL: func.func @begins
func.func @begins(%a: tensor<64x64xf16>, %start: tensor<64x64xf32>, %out: tensor<64x64x!tile.ptr<f32>>, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %start) -> (tensor<64x64xf32>) : i32 {
    %d = tile.dot %a, %a, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  tile.store %out, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  return
}

// -----

// The sum is scaled on its way.
// CHECK-LABEL: func.func @scaled
// CHECK-NOT: cluster
// OFF-LABEL: func.func @scaled
func.func @scaled(%a: tensor<64x64xf16>, %factor: tensor<64x64xf32>, %out: tensor<64x64x!tile.ptr<f32>>, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %s = arith.mulf %acc, %factor : tensor<64x64xf32>
    %d = tile.dot %a, %a, %s : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  tile.store %out, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  return
}

// -----

// Something is stored before the loop, and would be stored by every block.
// CHECK-LABEL: func.func @stores
// CHECK-NOT: cluster
// OFF-LABEL: func.func @stores
func.func @stores(%a: tensor<64x64xf16>, %mark: !tile.ptr<i32>, %out: tensor<64x64x!tile.ptr<f32>>, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  tile.store %mark, %n : !tile.ptr<i32>, i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %d = tile.dot %a, %a, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  tile.store %out, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  return
}

// -----

// What the loop counts is needed behind it, and is not the same in every block.
// CHECK-LABEL: func.func @counts
// CHECK-NOT: cluster
// OFF-LABEL: func.func @counts
func.func @counts(%a: tensor<64x64xf16>, %mark: !tile.ptr<i32>, %out: tensor<64x64x!tile.ptr<f32>>, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %count = %c0) -> (tensor<64x64xf32>, i32) : i32 {
    %d = tile.dot %a, %a, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    %next = arith.addi %count, %c1 : i32
    scf.yield %d, %next : tensor<64x64xf32>, i32
  }
  tile.store %mark, %r#1 : !tile.ptr<i32>, i32
  tile.store %out, %r#0 : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  return
}

// -----

// An author's assembly may ask for the block's number.
// CHECK-LABEL: func.func @assembly
// CHECK-NOT: ngpu.splits
// OFF-LABEL: func.func @assembly
func.func @assembly(%a: tensor<64x64xf16>, %out: tensor<64x64x!tile.ptr<f32>>, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %d = tile.dot %a, %a, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  %s = tile.inline_asm "mov.u32 $0, %ctaid.x;" constraints "=r,r" target "nvptx" pack 1 pure (%r) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  tile.store %out, %s : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  return
}

// -----

// The launcher cannot compute how many iterations there are.
// CHECK-LABEL: func.func @bound
// CHECK-NOT: cluster
// OFF-LABEL: func.func @bound
func.func @bound(%a: tensor<64x64xf16>, %out: tensor<64x64x!tile.ptr<f32>>, %p: !tile.ptr<i32>) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %n = tile.load %p : !tile.ptr<i32> -> i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %d = tile.dot %a, %a, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  tile.store %out, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  return
}

// -----

// Both bounds and a step.
// CHECK-LABEL: func.func @steps
// CHECK-SAME: ngpu.splits = 4 : i32
// OFF-LABEL: func.func @steps
func.func @steps(%a: tensor<64x64xf16>, %out: tensor<64x64x!tile.ptr<f32>>, %m: i32, %n: i32) attributes {tile.kernel} {
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %r = scf.for %i = %m to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %d = tile.dot %a, %a, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  tile.store %out, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  return
}
