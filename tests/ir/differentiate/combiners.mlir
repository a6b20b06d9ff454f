// RUN: nereid-opt --differentiate --canonicalize --split-input-file %s | FileCheck %s

// The gradient of a product is a linear recurrence over the partial products, which runs from the
// end: the derivative in the left side of the next element (here the element itself) is the factor.
// CHECK-LABEL: func.func @product
// CHECK:         %[[X:.*]] = tile.load
// CHECK:         %[[PARTIAL:.*]] = tile.scan(%[[X]]) axis 0 {
// CHECK:         %[[BEFORE:.*]] = tile.gather %[[PARTIAL]]
// CHECK:         %[[NEXT:.*]] = tile.gather %[[X]]
// CHECK:         %[[FACTOR:.*]] = arith.select %{{.*}}, %{{.*}}, %[[NEXT]]
// CHECK:         tile.scan(%[[FACTOR]], %{{.*}}) axis 0 reverse {
// CHECK:         arith.mulf %{{.*}}, %[[BEFORE]]
func.func @product(%x: !tile.ptr<f32> {tile.tangent = 2 : i64, tile.wrt},
                   %y: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.out}, %dx: !tile.ptr<f32>,
                   %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  %p = tile.splat %x : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %i = tile.range 0 to 8 : tensor<8xi32>
  %q = tile.addptr %p, %i : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  %0 = tile.load %q : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
  %1 = tile.reduce(%0) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %2 = arith.mulf %a, %b : f32
    tile.yield %2 : f32
  } : (tensor<8xf32>) -> f32
  tile.store %y, %1 : !tile.ptr<f32>, f32
  return
}

// -----

// Every index that picked an element adds to it.
// CHECK-LABEL: func.func @gather
// CHECK:         scf.for %[[PLACE:.*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args
// CHECK:           arith.cmpi eq, %{{.*}}, %{{.*}} : tensor<4xi32>
// CHECK:           tile.reduce
// CHECK:           scf.yield
func.func @gather(%x: !tile.ptr<f32> {tile.tangent = 2 : i64, tile.wrt},
                  %y: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.out}, %dx: !tile.ptr<f32>,
                  %dy: !tile.ptr<f32>, %index: tensor<4xi32>) attributes {tile.kernel, tile.reverse} {
  %p = tile.splat %x : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %i = tile.range 0 to 8 : tensor<8xi32>
  %q = tile.addptr %p, %i : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  %0 = tile.load %q : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
  %1 = tile.gather %0 [%index] axis 0 : tensor<8xf32>, tensor<4xi32> -> tensor<4xf32>
  %r = tile.splat %y : !tile.ptr<f32> -> tensor<4x!tile.ptr<f32>>
  %j = tile.range 0 to 4 : tensor<4xi32>
  %s = tile.addptr %r, %j : tensor<4x!tile.ptr<f32>>, tensor<4xi32>
  tile.store %s, %1 : tensor<4x!tile.ptr<f32>>, tensor<4xf32>
  return
}

// -----

// Elements of the matrix that are always zero, here those beside its diagonal, are no operands.
// CHECK-LABEL: func.func @diagonal
// CHECK:         tile.scan(%{{.*}}, %{{.*}}) axis 0 {
// CHECK:         tile.scan(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) axis 0 reverse {
// CHECK-COUNT-4:   arith.mulf
// CHECK-NOT:       arith.mulf
// CHECK:           tile.yield
func.func @diagonal(%x: !tile.ptr<f32> {tile.tangent = 2 : i64, tile.wrt},
                    %y: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.out}, %dx: !tile.ptr<f32>,
                    %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  %p = tile.splat %x : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %i = tile.range 0 to 8 : tensor<8xi32>
  %q = tile.addptr %p, %i : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  %0 = tile.load %q : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
  %1:2 = tile.scan(%0, %0) axis 0 {
  ^bb0(%a: f32, %u: f32, %b: f32, %v: f32):
    %2 = arith.mulf %b, %a : f32
    %3 = arith.mulf %b, %u : f32
    %4 = arith.addf %3, %v : f32
    tile.yield %2, %4 : f32, f32
  } : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  %r = tile.splat %y : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %s = tile.addptr %r, %i : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  tile.store %s, %1#1 : tensor<8x!tile.ptr<f32>>, tensor<8xf32>
  return
}
