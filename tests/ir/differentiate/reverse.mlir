// RUN: nereid-opt --differentiate --canonicalize --split-input-file %s | FileCheck %s

// The gradient is read where the output was stored, nothing else is stored, and each element of the
// input's gradient has one owner when the grid has one axis.
// CHECK-LABEL: func.func @multiply(%arg0: !tile.ptr<f32>, %arg1: !tile.ptr<f32>, %arg2: !tile.ptr<f32>,
// CHECK-SAME:    %arg3: !tile.ptr<f32>, %arg4: !tile.ptr<f32>) attributes {tile.gradients = ["the gradient of `argument 0` is stored by the program that owns it where the grid has one program along axis 1 and the grid has one program along axis 2, and summed by atomic additions elsewhere"], tile.kernel}
func.func @multiply(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt}, %w: !tile.ptr<f32>,
                    %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %dx: !tile.ptr<f32>,
                    %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  // CHECK-NOT: tile.store
  // CHECK: %[[DX:.*]] = tile.addptr %arg3
  // CHECK: %[[W:.*]] = tile.load %arg1
  // CHECK: %[[DY:.*]] = tile.load %{{.*}} : !tile.ptr<f32> -> f32
  // CHECK: %[[A:.*]] = arith.mulf %[[DY]], %[[W]]
  // CHECK: scf.if
  // CHECK-NEXT: tile.store %[[DX]], %[[A]]
  // CHECK-NEXT: } else {
  // CHECK-NEXT: tile.atomic_rmw fadd %[[DX]], %[[A]]
  // CHECK-NEXT: }
  // CHECK-NEXT: return
  %id = tile.program_id 0
  %p = tile.addptr %x, %id : !tile.ptr<f32>, i32
  %0 = tile.load %p : !tile.ptr<f32> -> f32
  %1 = tile.load %w : !tile.ptr<f32> -> f32
  %2 = arith.mulf %0, %1 : f32
  %q = tile.addptr %y, %id : !tile.ptr<f32>, i32
  tile.store %q, %2 : !tile.ptr<f32>, f32
  return
}

// -----

// A value that is loaded twice is summed atomically; sums become broadcasts.
// CHECK-LABEL: func.func @sums
func.func @sums(%x: !tile.ptr<f32> {tile.tangent = 2 : i64, tile.wrt},
                %y: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.out}, %dx: !tile.ptr<f32>,
                %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  %p = tile.splat %x : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %i = tile.range 0 to 8 : tensor<8xi32>
  %q = tile.addptr %p, %i : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  %v = tile.load %q : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
  %first = tile.load %x : !tile.ptr<f32> -> f32
  // CHECK: %[[DY:.*]] = tile.load %arg3
  // CHECK: %[[A:.*]] = tile.splat %[[DY]] : f32 -> tensor<8xf32>
  // CHECK: tile.atomic_rmw fadd %arg2, %[[DY]]
  // CHECK: tile.atomic_rmw fadd %{{.*}}, %[[A]]
  %sum = tile.reduce(%v) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<8xf32>) -> f32
  %r = arith.addf %sum, %first : f32
  tile.store %y, %r : !tile.ptr<f32>, f32
  return
}

// -----

// A branch computes anew what its transpose needs, and gives the adjoints of what it used.
// CHECK-LABEL: func.func @branch
func.func @branch(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt},
                  %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %c: i1, %dx: !tile.ptr<f32>,
                  %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  %v = tile.load %x : !tile.ptr<f32> -> f32
  // CHECK: %[[DY:.*]] = tile.load %arg4
  // CHECK: %[[A:.*]] = scf.if %arg2 -> (f32) {
  // CHECK:   %[[E:.*]] = math.exp
  // CHECK:   arith.mulf %[[DY]], %[[E]]
  // CHECK: } else {
  // CHECK:   scf.yield %[[DY]]
  // CHECK: }
  %r = scf.if %c -> f32 {
    %e = math.exp %v : f32
    scf.yield %e : f32
  } else {
    scf.yield %v : f32
  }
  tile.store %y, %r : !tile.ptr<f32>, f32
  return
}
