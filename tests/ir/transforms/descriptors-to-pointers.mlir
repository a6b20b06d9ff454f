// RUN: nereid-opt %s --descriptors-to-pointers --split-input-file | FileCheck %s

// The shared part of the addresses is one scalar; the last dimension has no factor.
// CHECK-LABEL: func.func @load(
// CHECK-SAME: %[[P:.*]]: !tile.ptr<f16>, %[[M:.*]]: i32, %[[N:.*]]: i32, %[[S:.*]]: i64, %[[I:.*]]: i32, %[[J:.*]]: i32)
func.func @load(%p: !tile.ptr<f16>, %m: i32, %n: i32, %s: i64, %i: i32, %j: i32) -> tensor<16x64xf16> {
  // CHECK: %[[IW:.*]] = arith.extsi %[[I]]
  // CHECK: %[[IS:.*]] = arith.muli %[[IW]], %[[S]] : i64
  // CHECK: %[[R0:.*]] = tile.range 0 to 16
  // CHECK: %[[X0:.*]] = arith.addi %{{.*}}, %[[R0]] : tensor<16xi32>
  // CHECK: arith.muli %{{.*}}, %{{.*}} : tensor<16xi64>
  // CHECK: arith.cmpi ult, %[[X0]], %{{.*}} : tensor<16xi32>
  // CHECK: %[[JW:.*]] = arith.extsi %[[J]]
  // CHECK: %[[U:.*]] = arith.addi %[[IS]], %[[JW]] : i64
  // CHECK: arith.cmpi ult, %{{.*}}, %{{.*}} : tensor<64xi32>
  // CHECK: %[[MASK:.*]] = arith.andi %{{.*}}, %{{.*}} : tensor<16x64xi1>
  // CHECK: %[[B:.*]] = tile.addptr %[[P]], %[[U]]
  // CHECK: %[[PS:.*]] = tile.splat %[[B]] : !tile.ptr<f16> -> tensor<16x64x!tile.ptr<f16>>
  // CHECK: %[[PTRS:.*]] = tile.addptr %[[PS]], %{{.*}} : tensor<16x64x!tile.ptr<f16>>, tensor<16x64xi64>
  // CHECK: tile.load %[[PTRS]] mask %[[MASK]] :
  %d = tile.make_descriptor %p [%m, %n] strides [%s] : !tile.ptr<f16> -> !tile.desc<16x64xf16>
  %0 = tile.desc_load %d [%i, %j] : !tile.desc<16x64xf16> -> tensor<16x64xf16>
  return %0 : tensor<16x64xf16>
}

// -----

// Padding with NaN, a block without its dimensions of size 1: those test one scalar.
// CHECK-LABEL: func.func @row
func.func @row(%p: !tile.ptr<f32>, %m: i32, %s: i64, %i: i32) -> tensor<8xf32> {
  // CHECK-DAG: %[[IN:.*]] = arith.cmpi ult, %{{.*}}, %{{.*}} : i32
  // CHECK-DAG: tile.splat %[[IN]] : i1 -> tensor<8xi1>
  // CHECK-DAG: %[[NAN:.*]] = arith.constant dense<0x7FC00000> : tensor<8xf32>
  // CHECK: tile.load %{{.*}} mask %{{.*}} other %[[NAN]] cache cg
  %d = tile.make_descriptor %p [%m, %m] strides [%s] : !tile.ptr<f32> -> !tile.desc<1x8xf32, nan>
  %0 = tile.desc_load %d [%i, %i] cache cg : !tile.desc<1x8xf32, nan> -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// CHECK-LABEL: func.func @writes
// CHECK-NOT: tile.desc
func.func @writes(%p: !tile.ptr<i32>, %m: i32, %s: i64, %i: i32, %v: tensor<4x8xi32>, %rows: tensor<8xi32>, %w: tensor<8x8xi32>) {
  %d = tile.make_descriptor %p [%m, %m] strides [%s] : !tile.ptr<i32> -> !tile.desc<4x8xi32>
  %r = tile.make_descriptor %p [%m, %m] strides [%s] : !tile.ptr<i32> -> !tile.desc<1x8xi32>
  // CHECK: tile.store %{{.*}}, %{{.*}} mask %{{.*}} : tensor<4x8x!tile.ptr<i32>>, tensor<4x8xi32>, mask tensor<4x8xi1>
  tile.desc_store %d [%i, %i], %v : !tile.desc<4x8xi32>, tensor<4x8xi32>
  // CHECK: tile.atomic_rmw umin %{{.*}}, %{{.*}} mask %{{.*}} sem relaxed
  tile.desc_reduce umin %d [%i, %i], %v : !tile.desc<4x8xi32>, tensor<4x8xi32>
  // CHECK: %[[WIDE:.*]] = arith.extsi %{{.*}} : tensor<8xi32> to tensor<8xi64>
  // CHECK: tile.load %{{.*}} mask %{{.*}}
  %0 = tile.desc_gather %r [%rows, %i] : !tile.desc<1x8xi32>, tensor<8xi32> -> tensor<8x8xi32>
  // CHECK: tile.store %{{.*}}, %{{.*}} mask %{{.*}} : tensor<8x8x!tile.ptr<i32>>, tensor<8x8xi32>
  tile.desc_scatter %r [%rows, %i], %w : !tile.desc<1x8xi32>, tensor<8xi32>, tensor<8x8xi32>
  return
}

// -----

// Round a loop, through branches, a select, a path that was left, and a call.
// CHECK-LABEL: func.func @flow
// CHECK-NOT: tile.desc
// CHECK-NOT: unrealized_conversion_cast
func.func @flow(%a: !tile.ptr<f32>, %b: !tile.ptr<f32>, %n: i32, %c: i1, %lo: i32, %hi: i32, %one: i32) -> tensor<8xf32> {
  %da = tile.make_descriptor %a [%n] strides [] : !tile.ptr<f32> -> !tile.desc<8xf32>
  %db = tile.make_descriptor %b [%n] strides [] : !tile.ptr<f32> -> !tile.desc<8xf32>
  // CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : !tile.ptr<f32>
  %s = arith.select %c, %da, %db : !tile.desc<8xf32>
  // CHECK: scf.if %{{.*}} -> (!tile.ptr<f32>, i32)
  %i = scf.if %c -> !tile.desc<8xf32> {
    scf.yield %s : !tile.desc<8xf32>
  } else {
    // CHECK: ub.poison : !tile.ptr<f32>
    %p = ub.poison : !tile.desc<8xf32>
    scf.yield %p : !tile.desc<8xf32>
  }
  // CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}})
  %f:2 = scf.for %k = %lo to %hi step %one iter_args(%x = %i, %y = %db) -> (!tile.desc<8xf32>, !tile.desc<8xf32>) : i32 {
    scf.yield %y, %x : !tile.desc<8xf32>, !tile.desc<8xf32>
  }
  // CHECK: scf.while
  %w = scf.while (%x = %f#0) : (!tile.desc<8xf32>) -> !tile.desc<8xf32> {
    scf.condition(%c) %x : !tile.desc<8xf32>
  } do {
  ^bb0(%x: !tile.desc<8xf32>):
    scf.yield %x : !tile.desc<8xf32>
  }
  // CHECK: call @other(%{{.*}}, %{{.*}}) : (!tile.ptr<f32>, i32) -> (!tile.ptr<f32>, i32)
  %o = func.call @other(%w) : (!tile.desc<8xf32>) -> !tile.desc<8xf32>
  %size = tile.desc_shape %o 0 : !tile.desc<8xf32>
  %0 = tile.desc_load %o [%size] : !tile.desc<8xf32> -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// CHECK: func.func private @other(%{{.*}}: !tile.ptr<f32>, %{{.*}}: i32) -> (!tile.ptr<f32>, i32)
func.func private @other(%d: !tile.desc<8xf32>) -> !tile.desc<8xf32> attributes {no_inline} {
  return %d : !tile.desc<8xf32>
}

// -----

// What the copy engine serves stays.
// CHECK-LABEL: func.func @kept
func.func @kept(%a: !tile.ptr<f32>, %n: i32) -> tensor<8xf32> {
  // CHECK: tile.make_descriptor
  // Of the others there are no maps.
  // CHECK-NOT: tile.desc_mapped
  // CHECK: tile.desc_load
  // CHECK: tile.load
  %da = tile.make_descriptor %a [%n] strides [] copy_engine : !tile.ptr<f32> -> !tile.desc<8xf32>
  %db = tile.make_descriptor %a [%n] strides [] : !tile.ptr<f32> -> !tile.desc<8xf32>
  %mapped = tile.desc_mapped %db : !tile.desc<8xf32>
  %0 = tile.desc_load %da [%n] : !tile.desc<8xf32> -> tensor<8xf32>
  %1 = tile.desc_load %db [%n] : !tile.desc<8xf32> -> tensor<8xf32>
  %2 = arith.addf %0, %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}
