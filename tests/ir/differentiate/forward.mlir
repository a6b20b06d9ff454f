// RUN: nereid-opt --differentiate --split-input-file %s | FileCheck %s

// Tangents beside values, stores through both, and nothing for what depends on no input.
// CHECK-LABEL: func.func @multiply(%arg0: !tile.ptr<f32>, %arg1: !tile.ptr<f32>, %arg2: !tile.ptr<f32>,
// CHECK-SAME:    %arg3: !tile.ptr<f32>, %arg4: !tile.ptr<f32>) attributes {tile.kernel}
func.func @multiply(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt}, %w: !tile.ptr<f32>,
                    %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %dx: !tile.ptr<f32>,
                    %dy: !tile.ptr<f32>) attributes {tile.kernel} {
  // CHECK: %[[X:.*]] = tile.load %arg0
  // CHECK-NEXT: %[[DX:.*]] = tile.load %arg3
  %0 = tile.load %x : !tile.ptr<f32> -> f32
  // CHECK-NEXT: %[[W:.*]] = tile.load %arg1
  // CHECK-NEXT: %[[Y:.*]] = arith.mulf %[[X]], %[[W]]
  %1 = tile.load %w : !tile.ptr<f32> -> f32
  // CHECK-NEXT: %[[DY:.*]] = arith.mulf %[[DX]], %[[W]]
  %2 = arith.mulf %0, %1 : f32
  // CHECK-NEXT: tile.store %arg2, %[[Y]]
  // CHECK-NEXT: tile.store %arg4, %[[DY]]
  tile.store %y, %2 : !tile.ptr<f32>, f32
  // CHECK-NEXT: return
  return
}

// -----

// A kernel without marks stays.
// CHECK-LABEL: func.func @plain
func.func @plain(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) attributes {tile.kernel} {
  // CHECK-NEXT: tile.load
  // CHECK-NEXT: tile.store
  // CHECK-NEXT: return
  %0 = tile.load %x : !tile.ptr<f32> -> f32
  tile.store %y, %0 : !tile.ptr<f32>, f32
  return
}

// -----

// A loop carries tangents and shadows beside what it carried.
// CHECK-LABEL: func.func @loop
func.func @loop(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt},
                %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %n: i32,
                %dx: !tile.ptr<f32>, %dy: !tile.ptr<f32>) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  // CHECK: %[[R:.*]]:4 = scf.for {{.*}} iter_args(%[[P:.*]] = %arg0, %[[S:.*]] = %{{.*}}, %[[DP:.*]] = %arg3, %[[DS:.*]] = %{{.*}})
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%p = %x, %s = %zero) -> (!tile.ptr<f32>, f32) : i32 {
    // CHECK: %[[V:.*]] = tile.load %[[P]]
    // CHECK: %[[DV:.*]] = tile.load %[[DP]]
    %v = tile.load %p : !tile.ptr<f32> -> f32
    // CHECK: %[[T:.*]] = arith.addf %[[S]], %[[V]]
    // CHECK: %[[DT:.*]] = arith.addf %[[DS]], %[[DV]]
    %t = arith.addf %s, %v : f32
    // CHECK: %[[Q:.*]] = tile.addptr %[[P]], %arg2
    // CHECK: %[[DQ:.*]] = tile.addptr %[[DP]], %arg2
    %q = tile.addptr %p, %n : !tile.ptr<f32>, i32
    // CHECK: scf.yield %[[Q]], %[[T]], %[[DQ]], %[[DT]]
    scf.yield %q, %t : !tile.ptr<f32>, f32
  }
  // CHECK: tile.store %arg1, %[[R]]#1
  // CHECK: tile.store %arg4, %[[R]]#3
  tile.store %y, %r#1 : !tile.ptr<f32>, f32
  return
}

// -----

// Sums are summed on their own; other combiners combine values and tangents together, sides apart.
// CHECK-LABEL: func.func @reductions
func.func @reductions(%x: !tile.ptr<f32> {tile.tangent = 2 : i64, tile.wrt},
                      %y: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.out},
                      %dx: !tile.ptr<f32>, %dy: !tile.ptr<f32>) attributes {tile.kernel} {
  %p = tile.splat %x : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %i = tile.range 0 to 8 : tensor<8xi32>
  %q = tile.addptr %p, %i : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  // CHECK: %[[V:.*]] = tile.load
  // CHECK: %[[DV:.*]] = tile.load
  %v = tile.load %q : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
  // CHECK: %[[SUM:.*]] = tile.reduce(%[[V]])
  // CHECK: %[[DSUM:.*]] = tile.reduce(%[[DV]])
  %sum = tile.reduce(%v) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<8xf32>) -> f32
  // CHECK: %[[MAX:.*]]:2 = tile.reduce(%[[V]], %[[DV]]) axis 0 {
  // CHECK: ^bb0(%[[A:.*]]: f32, %[[DA:.*]]: f32, %[[B:.*]]: f32, %[[DB:.*]]: f32):
  // CHECK: %[[C:.*]] = arith.maxnumf %[[A]], %[[B]]
  // CHECK: %[[DC:.*]] = arith.select %{{.*}}, %[[DA]], %[[DB]]
  // CHECK: tile.yield %[[C]], %[[DC]]
  %max = tile.reduce(%v) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maxnumf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<8xf32>) -> f32
  // CHECK: arith.subf %[[MAX]]#0, %[[SUM]]
  // CHECK: %[[D:.*]] = arith.subf %[[MAX]]#1, %[[DSUM]]
  %d = arith.subf %max, %sum : f32
  // CHECK: tile.store %arg3, %[[D]]
  tile.store %y, %d : !tile.ptr<f32>, f32
  return
}

// -----

// da b + (a db + dc); the order of a reshape is the values' and the tangents'.
// CHECK-LABEL: func.func @dot
func.func @dot(%x: !tile.ptr<f32> {tile.tangent = 2 : i64, tile.wrt},
               %y: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.out},
               %dx: !tile.ptr<f32>, %dy: !tile.ptr<f32>) attributes {tile.kernel} {
  %p = tile.splat %x : !tile.ptr<f32> -> tensor<16x16x!tile.ptr<f32>>
  // CHECK: %[[V:.*]] = tile.load
  // CHECK: %[[DV:.*]] = tile.load
  %v = tile.load %p : tensor<16x16x!tile.ptr<f32>> -> tensor<16x16xf32>
  // CHECK: %[[T:.*]] = tile.trans %[[V]]
  // CHECK: %[[DT:.*]] = tile.trans %[[DV]]
  %t = tile.trans %v [1, 0] : tensor<16x16xf32> -> tensor<16x16xf32>
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  // CHECK: tile.dot %[[V]], %[[T]], %{{.*}} precision ieee
  // CHECK: %[[ZERO:.*]] = arith.constant dense<0.000000e+00>
  // CHECK: %[[ONE:.*]] = tile.dot %[[DV]], %[[T]], %[[ZERO]] precision ieee
  // CHECK: %[[D:.*]] = tile.dot %[[V]], %[[DT]], %[[ONE]] precision ieee
  %d = tile.dot %v, %t, %zero precision ieee : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  // CHECK: tile.reshape %{{.*}} : tensor<16x16xf32> -> tensor<256xf32>
  // CHECK: tile.reshape %[[D]] : tensor<16x16xf32> -> tensor<256xf32>
  %r = tile.reshape %d any_order : tensor<16x16xf32> -> tensor<256xf32>
  %q = tile.splat %y : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
  tile.store %q, %r : tensor<256x!tile.ptr<f32>>, tensor<256xf32>
  return
}

// -----

// The tangent's address need not be aligned as the author promises of the tensor's.
// CHECK-LABEL: func.func @hints
func.func @hints(%x: !tile.ptr<f32> {tile.tangent = 2 : i64, tile.wrt},
                 %y: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.out}, %dx: !tile.ptr<f32>,
                 %dy: !tile.ptr<f32>) attributes {tile.kernel} {
  // CHECK: %[[P:.*]] = tile.hint %arg0 divisibility [16]
  // CHECK-NOT: tile.hint
  // CHECK: tile.load %[[P]]
  // CHECK: tile.load %arg2
  %p = tile.hint %x divisibility [16] : !tile.ptr<f32>
  %v = tile.load %p : !tile.ptr<f32> -> f32
  tile.store %y, %v : !tile.ptr<f32>, f32
  return
}

// -----

// What does not depend on an input has the tangent zero where an output needs one; sizes of an
// argument's descriptor are its tangent's in the tangent's descriptor, and nowhere else.
// CHECK-LABEL: func.func @descriptor
func.func @descriptor(%x: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.wrt, tile.out},
                      %m: i32 {tile.tangent = 5 : i64}, %n: i32 {tile.tangent = 6 : i64},
                      %s: i64 {tile.tangent = 7 : i64}, %dx: !tile.ptr<f32>, %dm: i32, %dn: i32,
                      %ds: i64) attributes {tile.kernel} {
  // CHECK: %[[D:.*]] = tile.make_descriptor %arg0[%arg1, %arg2] strides[%arg3]
  // CHECK: %[[DD:.*]] = tile.make_descriptor %arg4[%arg5, %arg6] strides[%arg7]
  %d = tile.make_descriptor %x[%m, %n] strides[%s] : !tile.ptr<f32> -> !tile.desc<4x4xf32>
  // CHECK: %[[V:.*]] = tile.desc_load %[[D]][%arg1, %arg2]
  // CHECK: %[[DV:.*]] = tile.desc_load %[[DD]][%arg1, %arg2]
  %v = tile.desc_load %d[%m, %n] : !tile.desc<4x4xf32> -> tensor<4x4xf32>
  // CHECK: tile.desc_store %[[D]][%arg1, %arg2], %[[V]]
  // CHECK: tile.desc_store %[[DD]][%arg1, %arg2], %[[DV]]
  tile.desc_store %d[%m, %n], %v : !tile.desc<4x4xf32>, tensor<4x4xf32>
  // CHECK: %[[P:.*]] = tile.addptr %arg0, %arg1
  // CHECK: %[[DP:.*]] = tile.addptr %arg4, %arg1
  %p = tile.addptr %x, %m : !tile.ptr<f32>, i32
  %c = arith.constant 3.0 : f32
  // CHECK: %[[C:.*]] = arith.constant 3
  // CHECK: tile.store %[[P]], %[[C]]
  // CHECK: %[[Z:.*]] = arith.constant 0
  // CHECK: tile.store %[[DP]], %[[Z]]
  tile.store %p, %c : !tile.ptr<f32>, f32
  return
}
