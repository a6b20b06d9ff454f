// RUN: nereid-opt --differentiate --split-input-file %s | FileCheck %s

// The value is the first operand, the tangent that of the second; the mark is gone.
// CHECK-LABEL: func.func @through(
// CHECK-NEXT: %[[X:.*]] = tile.load %arg0
// CHECK-NEXT: %[[DX:.*]] = tile.load %arg2
// CHECK-NEXT: %[[Y:.*]] = math.floor %[[X]]
// CHECK-NEXT: tile.store %arg1, %[[Y]]
// CHECK-NEXT: tile.store %arg3, %[[DX]]
// CHECK-NEXT: return
func.func @through(%x: !tile.ptr<f32> {tile.tangent = 2 : i64, tile.wrt}, %y: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.out},
                   %dx: !tile.ptr<f32>, %dy: !tile.ptr<f32>) attributes {tile.kernel} {
  %0 = tile.load %x : !tile.ptr<f32> -> f32
  %1 = math.floor %0 : f32
  %2 = tile.extern_elementwise "with_tangent" from "nereid"(%1, %0) pure : (f32, f32) -> f32
  tile.store %y, %2 : !tile.ptr<f32>, f32
  return
}

// -----

// Kernels that are not differentiated.
// CHECK-LABEL: func.func @plain(
// CHECK-NEXT: %[[X:.*]] = tile.load %arg0
// CHECK-NEXT: tile.store %arg1, %[[X]]
func.func @plain(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) attributes {tile.kernel} {
  %0 = tile.load %x : !tile.ptr<f32> -> f32
  %1 = tile.extern_elementwise "with_tangent" from "nereid"(%0, %0) pure : (f32, f32) -> f32
  tile.store %y, %1 : !tile.ptr<f32>, f32
  return
}

