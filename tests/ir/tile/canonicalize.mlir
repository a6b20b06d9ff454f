// RUN: nereid-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: @splats_absorb_shapes
// CHECK-SAME: (%[[P:.*]]: !tile.ptr<f32>)
// CHECK-DAG: %[[A:.*]] = tile.splat %[[P]] : !tile.ptr<f32> -> tensor<4x8x!tile.ptr<f32>>
// CHECK-DAG: %[[B:.*]] = tile.splat %[[P]] : !tile.ptr<f32> -> tensor<16x!tile.ptr<f32>>
// CHECK-NEXT: return %[[A]], %[[B]]
func.func @splats_absorb_shapes(%p: !tile.ptr<f32>) -> (tensor<4x8x!tile.ptr<f32>>, tensor<16x!tile.ptr<f32>>) {
  %0 = tile.splat %p : !tile.ptr<f32> -> tensor<4x!tile.ptr<f32>>
  %1 = tile.expand_dims %0 0 : tensor<4x!tile.ptr<f32>> -> tensor<1x4x!tile.ptr<f32>>
  %2 = tile.trans %1 [1, 0] : tensor<1x4x!tile.ptr<f32>> -> tensor<4x1x!tile.ptr<f32>>
  %3 = tile.broadcast %2 : tensor<4x1x!tile.ptr<f32>> -> tensor<4x8x!tile.ptr<f32>>
  %4 = tile.broadcast %2 : tensor<4x1x!tile.ptr<f32>> -> tensor<4x4x!tile.ptr<f32>>
  %5 = tile.reshape %4 : tensor<4x4x!tile.ptr<f32>> -> tensor<16x!tile.ptr<f32>>
  return %3, %5 : tensor<4x8x!tile.ptr<f32>>, tensor<16x!tile.ptr<f32>>
}

// Trans moves inward past expand_dims and broadcast.
// CHECK-LABEL: @order_of_shapes
// CHECK-SAME: (%[[V:.*]]: tensor<4x6xf32>)
// CHECK-NEXT: %[[T:.*]] = tile.trans %[[V]] [1, 0] : tensor<4x6xf32> -> tensor<6x4xf32>
// CHECK-NEXT: %[[E:.*]] = tile.expand_dims %[[T]] 1 : tensor<6x4xf32> -> tensor<6x1x4xf32>
// CHECK-NEXT: %[[B:.*]] = tile.broadcast %[[E]] : tensor<6x1x4xf32> -> tensor<6x5x4xf32>
// CHECK-NEXT: return %[[B]]
func.func @order_of_shapes(%v: tensor<4x6xf32>) -> tensor<6x5x4xf32> {
  %0 = tile.expand_dims %v 0 : tensor<4x6xf32> -> tensor<1x4x6xf32>
  %1 = tile.broadcast %0 : tensor<1x4x6xf32> -> tensor<5x4x6xf32>
  %2 = tile.trans %1 [2, 0, 1] : tensor<5x4x6xf32> -> tensor<6x5x4xf32>
  return %2 : tensor<6x5x4xf32>
}

// CHECK-LABEL: @expand_before_broadcast
// CHECK: tile.expand_dims %{{.*}} 2 : tensor<1x4xf32> -> tensor<1x4x1xf32>
// CHECK: tile.broadcast %{{.*}} : tensor<1x4x1xf32> -> tensor<8x4x1xf32>
func.func @expand_before_broadcast(%v: tensor<1x4xf32>) -> tensor<8x4x1xf32> {
  %0 = tile.broadcast %v : tensor<1x4xf32> -> tensor<8x4xf32>
  %1 = tile.expand_dims %0 2 : tensor<8x4xf32> -> tensor<8x4x1xf32>
  return %1 : tensor<8x4x1xf32>
}

// CHECK-LABEL: @reshape_is_expand
// CHECK-DAG: tile.expand_dims %{{.*}} 1 : tensor<4xf32> -> tensor<4x1xf32>
// CHECK-DAG: tile.reshape %{{.*}} : tensor<4xf32> -> tensor<2x2xf32>
func.func @reshape_is_expand(%v: tensor<4xf32>) -> (tensor<4x1xf32>, tensor<2x2xf32>) {
  %0 = tile.reshape %v : tensor<4xf32> -> tensor<4x1xf32>
  %1 = tile.reshape %v : tensor<4xf32> -> tensor<2x2xf32>
  return %0, %1 : tensor<4x1xf32>, tensor<2x2xf32>
}

// CHECK-LABEL: @split_of_join
// CHECK-SAME: (%[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>, %[[S:.*]]: f32)
// CHECK-NEXT: return %[[B]], %[[A]], %[[S]]
func.func @split_of_join(%a: tensor<4xf32>, %b: tensor<4xf32>, %s: f32) -> (tensor<4xf32>, tensor<4xf32>, f32) {
  %0 = tile.join %a, %b : tensor<4xf32> -> tensor<4x2xf32>
  %1:2 = tile.split %0 : tensor<4x2xf32> -> tensor<4xf32>, tensor<4xf32>
  %2 = tile.splat %s : f32 -> tensor<2xf32>
  %3:2 = tile.split %2 : tensor<2xf32> -> f32, f32
  return %1#1, %1#0, %3#1 : tensor<4xf32>, tensor<4xf32>, f32
}

// Offsets are extended one by one: a sum that would wrap stays as it is.
// CHECK-LABEL: @constant_offsets
// CHECK-DAG: %[[C7:.*]] = arith.constant 7 : i32
// CHECK-DAG: %[[MAX:.*]] = arith.constant 2147483647 : i32
// CHECK-DAG: %[[C4:.*]] = arith.constant 4 : i32
// CHECK-DAG: tile.addptr %{{.*}}, %[[C7]] : !tile.ptr<f32>, i32
// CHECK-DAG: %[[Q:.*]] = tile.addptr %{{.*}}, %[[MAX]] : !tile.ptr<f32>, i32
// CHECK: tile.addptr %[[Q]], %[[C4]] : !tile.ptr<f32>, i32
func.func @constant_offsets(%p: !tile.ptr<f32>) -> (!tile.ptr<f32>, !tile.ptr<f32>) {
  %c3 = arith.constant 3 : i32
  %c4 = arith.constant 4 : i32
  %max = arith.constant 2147483647 : i32
  %0 = tile.addptr %p, %c3 : !tile.ptr<f32>, i32
  %1 = tile.addptr %0, %c4 : !tile.ptr<f32>, i32
  %2 = tile.addptr %p, %max : !tile.ptr<f32>, i32
  %3 = tile.addptr %2, %c4 : !tile.ptr<f32>, i32
  return %1, %3 : !tile.ptr<f32>, !tile.ptr<f32>
}

// CHECK-LABEL: @masks
// CHECK-SAME: (%[[P:.*]]: tensor<4x!tile.ptr<f32>>, %[[O:.*]]: tensor<4xf32>)
// CHECK-DAG: %[[ZERO:.*]] = arith.constant dense<0.0{{.*}}> : tensor<4xf32>
// CHECK-DAG: %[[L:.*]] = tile.load %[[P]] : tensor<4x!tile.ptr<f32>> -> tensor<4xf32>
// CHECK-NEXT: tile.store %[[P]], %[[O]] : tensor<4x!tile.ptr<f32>>, tensor<4xf32>
// CHECK-NEXT: return %[[L]], %[[O]], %[[ZERO]]
func.func @masks(%p: tensor<4x!tile.ptr<f32>>, %o: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %all = arith.constant dense<true> : tensor<4xi1>
  %none = arith.constant dense<false> : tensor<4xi1>
  %0 = tile.load %p mask %all other %o : tensor<4x!tile.ptr<f32>>, mask tensor<4xi1>, other tensor<4xf32> -> tensor<4xf32>
  %1 = tile.load %p mask %none other %o : tensor<4x!tile.ptr<f32>>, mask tensor<4xi1>, other tensor<4xf32> -> tensor<4xf32>
  %2 = tile.load %p mask %none : tensor<4x!tile.ptr<f32>>, mask tensor<4xi1> -> tensor<4xf32>
  tile.store %p, %o mask %none : tensor<4x!tile.ptr<f32>>, tensor<4xf32>, mask tensor<4xi1>
  tile.store %p, %o mask %all : tensor<4x!tile.ptr<f32>>, tensor<4xf32>, mask tensor<4xi1>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: @reduce_of_one
// CHECK-SAME: (%[[X:.*]]: tensor<4x1xf32>, %[[Y:.*]]: tensor<1xi32>)
// CHECK-DAG: %[[R:.*]] = tile.reshape %[[X]] : tensor<4x1xf32> -> tensor<4xf32>
// CHECK-DAG: %[[U:.*]] = tile.unsplat %[[Y]] : tensor<1xi32> -> i32
// CHECK-NEXT: return %[[R]], %[[U]]
func.func @reduce_of_one(%x: tensor<4x1xf32>, %y: tensor<1xi32>) -> (tensor<4xf32>, i32) {
  %0 = tile.reduce(%x) axis 1 {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tile.yield %s : f32
  } : (tensor<4x1xf32>) -> tensor<4xf32>
  %1 = tile.reduce(%y) axis 0 {
  ^bb0(%a: i32, %b: i32):
    %s = arith.addi %a, %b : i32
    tile.yield %s : i32
  } : (tensor<1xi32>) -> i32
  return %0, %1 : tensor<4xf32>, i32
}

// CHECK-LABEL: @reduce_of_equal
// CHECK-SAME: (%[[S:.*]]: f32, %[[X:.*]]: tensor<1x4xf32>)
// CHECK-DAG: %[[C:.*]] = arith.constant 5 : i32
// CHECK-DAG: %[[R:.*]] = tile.reshape %[[X]] : tensor<1x4xf32> -> tensor<4xf32>
// CHECK-DAG: %[[SUM:.*]] = tile.reduce
// CHECK: return %[[S]], %[[R]], %[[C]], %[[SUM]]
func.func @reduce_of_equal(%s: f32, %x: tensor<1x4xf32>) -> (f32, tensor<4xf32>, i32, f32) {
  %0 = tile.splat %s : f32 -> tensor<8xf32>
  %1 = tile.reduce(%0) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maxnumf %a, %b : f32
    tile.yield %m : f32
  } : (tensor<8xf32>) -> f32
  %2 = tile.broadcast %x : tensor<1x4xf32> -> tensor<8x4xf32>
  %3 = tile.reduce(%2) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %m = arith.minimumf %a, %b : f32
    tile.yield %m : f32
  } : (tensor<8x4xf32>) -> tensor<4xf32>
  %c = arith.constant dense<5> : tensor<8xi32>
  %4 = tile.reduce(%c) axis 0 {
  ^bb0(%a: i32, %b: i32):
    %m = arith.ori %b, %a : i32
    tile.yield %m : i32
  } : (tensor<8xi32>) -> i32
  %5 = tile.reduce(%0) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %m = arith.addf %a, %b : f32
    tile.yield %m : f32
  } : (tensor<8xf32>) -> f32
  return %1, %3, %4, %5 : f32, tensor<4xf32>, i32, f32
}

// CHECK-LABEL: @promises
// CHECK-SAME: (%[[A:.*]]: i1, %[[B:.*]]: i1, %[[T:.*]]: tensor<4xi1>)
// CHECK-NEXT: tile.assume %[[A]]
// CHECK-NEXT: tile.assume %[[B]]
// CHECK-NEXT: tile.assert %[[T]], "kept" : tensor<4xi1>
// CHECK-NEXT: return
func.func @promises(%a: i1, %b: i1, %t: tensor<4xi1>) {
  %both = arith.andi %a, %b : i1
  tile.assume %both
  %true = arith.constant true
  tile.assume %true
  tile.assert %true, "gone" : i1
  %all = arith.constant dense<true> : tensor<4xi1>
  %none = arith.constant dense<false> : tensor<4xi1>
  tile.assert %t, "gone" mask %none : tensor<4xi1>, tensor<4xi1>
  tile.assert %t, "kept" mask %all : tensor<4xi1>, tensor<4xi1>
  return
}

// A slice of equal elements, of neighbours, of a slice, of everything.
// CHECK-LABEL: @slices
// CHECK-SAME: (%[[X:.*]]: tensor<16xf32>, %[[P:.*]]: i32)
// CHECK-DAG: %[[S:.*]] = tile.splat %[[P]] : i32 -> tensor<4xi32>
// CHECK-DAG: %[[R:.*]] = tile.range 12 to 16 : tensor<4xi32>
// CHECK-DAG: %[[C:.*]] = tile.slice %[[X]] [11] step [-4] : tensor<16xf32> -> tensor<2xf32>
// CHECK-DAG: %[[B:.*]] = tile.range 0 to 16 : tensor<16xi32>
// CHECK-DAG: %[[E:.*]] = tile.slice %[[B]] [0] step [2] : tensor<16xi32> -> tensor<8xi32>
// CHECK: return %[[S]], %[[R]], %[[C]], %[[X]], %[[E]]
func.func @slices(%x: tensor<16xf32>, %p: i32) -> (tensor<4xi32>, tensor<4xi32>, tensor<2xf32>, tensor<16xf32>, tensor<8xi32>) {
  %s = tile.splat %p : i32 -> tensor<16xi32>
  %0 = tile.slice %s [2] step [3] : tensor<16xi32> -> tensor<4xi32>
  %r = tile.range 4 to 20 : tensor<16xi32>
  %1 = tile.slice %r [8] step [1] : tensor<16xi32> -> tensor<4xi32>
  %2 = tile.slice %x [15] step [-2] : tensor<16xf32> -> tensor<8xf32>
  %3 = tile.slice %2 [2] step [2] : tensor<8xf32> -> tensor<2xf32>
  %4 = tile.slice %x [0] step [1] : tensor<16xf32> -> tensor<16xf32>
  %b = tile.range 0 to 16 : tensor<16xi32>
  %5 = tile.slice %b [0] step [2] : tensor<16xi32> -> tensor<8xi32>
  return %0, %1, %3, %4, %5 : tensor<4xi32>, tensor<4xi32>, tensor<2xf32>, tensor<16xf32>, tensor<8xi32>
}
