// RUN: nereid-opt --differentiate --canonicalize --cse --split-input-file %s | FileCheck %s

// A row, and in a branch one of its elements, at a position from memory. The program stores the
// row's gradient once, with that of the element. Without parameters for two steps the element is
// added atomically.
// CHECK-LABEL: func.func @picked
// CHECK-SAME:  the gradient of `x` is stored by the program that owns it
// CHECK-SAME:  with it what is read at positions from memory
// CHECK-SAME:  tile.saved_bytes = 16
// CHECK:       %[[FIRST:.*]] = arith.cmpi eq, %arg6, %c0_i32
// CHECK:       scf.if %[[FIRST]]
// CHECK:         tile.store %[[NOTE:.*]], %c0_i32
// CHECK:         tile.store %[[NOTE]], %c1_i32 mask
// CHECK:         %[[IS:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}} : tensor<8xi32>
// CHECK:         %[[BOTH:.*]] = arith.addf %[[OWN:.*]], %{{.*}} : tensor<8xf32>
// CHECK:         %[[ALL:.*]] = arith.select %[[IS]], %[[BOTH]], %[[OWN]]
// CHECK:         tile.store %{{.*}}, %[[ALL]]
// CHECK:       %[[SECOND:.*]] = arith.cmpi eq, %arg6, %c1_i32
// CHECK:       scf.if %[[SECOND]]
// CHECK:         %[[LEFT:.*]] = tile.load {{.*}} !tile.ptr<i32> -> i32
// CHECK:         %[[HAS:.*]] = arith.cmpi ne, %[[LEFT]], %c0_i32
// CHECK:         scf.if %[[HAS]]
// CHECK:           tile.atomic_rmw fadd {{.*}} mask {{.*}} : !tile.ptr<f32>, f32
func.func @picked(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt, tile.name = "x"}, %labels: !tile.ptr<i32>,
                  %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %dx: !tile.ptr<f32>,
                  %dy: !tile.ptr<f32>, %saved: !tile.ptr<i8> {tile.saved},
                  %step: i32 {tile.step}) attributes {tile.kernel, tile.reverse} {
  %row = tile.program_id 0
  %width = arith.constant 8 : i32
  %none = arith.constant 0.0 : f32
  %ignored = arith.constant -100 : i32
  %i = tile.range 0 to 8 : tensor<8xi32>
  %begin = arith.muli %row, %width : i32
  %base = tile.addptr %x, %begin : !tile.ptr<f32>, i32
  %bases = tile.splat %base : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %p = tile.addptr %bases, %i : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  %values = tile.load %p : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
  %squares = arith.mulf %values, %values : tensor<8xf32>
  %sum = tile.reduce(%squares) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<8xf32>) -> f32
  %q = tile.addptr %labels, %row : !tile.ptr<i32>, i32
  %label = tile.load %q : !tile.ptr<i32> -> i32
  %counts = arith.cmpi ne, %label, %ignored : i32
  %one = scf.if %counts -> f32 {
    %at = tile.addptr %base, %label : !tile.ptr<f32>, i32
    %element = tile.load %at : !tile.ptr<f32> -> f32
    scf.yield %element : f32
  } else {
    scf.yield %none : f32
  }
  %loss = arith.subf %sum, %one : f32
  %r = tile.addptr %y, %row : !tile.ptr<f32>, i32
  tile.store %r, %loss : !tile.ptr<f32>, f32
  return
}

// -----

// CHECK-LABEL: func.func @one_launch
// CHECK-SAME:  the gradient of `x` is summed by atomic additions
// CHECK:       tile.atomic_rmw fadd {{.*}} : !tile.ptr<f32>, f32
// CHECK:       tile.atomic_rmw fadd {{.*}} : tensor<8x!tile.ptr<f32>>
// CHECK-NOT:   tile.store
// CHECK:       return
func.func @one_launch(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt, tile.name = "x"}, %labels: !tile.ptr<i32>,
                      %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %dx: !tile.ptr<f32>,
                      %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  %row = tile.program_id 0
  %width = arith.constant 8 : i32
  %i = tile.range 0 to 8 : tensor<8xi32>
  %begin = arith.muli %row, %width : i32
  %base = tile.addptr %x, %begin : !tile.ptr<f32>, i32
  %bases = tile.splat %base : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %p = tile.addptr %bases, %i : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  %values = tile.load %p : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
  %sum = tile.reduce(%values) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<8xf32>) -> f32
  %q = tile.addptr %labels, %row : !tile.ptr<i32>, i32
  %label = tile.load %q : !tile.ptr<i32> -> i32
  %at = tile.addptr %base, %label : !tile.ptr<f32>, i32
  %element = tile.load %at : !tile.ptr<f32> -> f32
  %loss = arith.subf %sum, %element : f32
  %r = tile.addptr %y, %row : !tile.ptr<f32>, i32
  tile.store %r, %loss : !tile.ptr<f32>, f32
  return
}

// -----

// With outputs the first of two steps stores them, the second does not.
// CHECK-LABEL: func.func @with_outputs
// CHECK-NOT:     tile.store
// CHECK:         arith.cmpi eq, %arg6, %c0_i32
// CHECK:         scf.if
// CHECK:           tile.store %[[Y:.*]], %{{.*}} : !tile.ptr<f32>, f32
// CHECK:         arith.cmpi eq, %arg6, %c1_i32
// CHECK:         scf.if
// CHECK-NOT:       tile.store %{{.*}} : !tile.ptr<f32>, f32
// CHECK:         return
func.func @with_outputs(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt, tile.name = "x"}, %labels: !tile.ptr<i32>,
                        %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %dx: !tile.ptr<f32>,
                        %dy: !tile.ptr<f32>, %saved: !tile.ptr<i8> {tile.saved},
                        %step: i32 {tile.step}) attributes {tile.kernel, tile.reverse, tile.outputs} {
  %row = tile.program_id 0
  %width = arith.constant 8 : i32
  %i = tile.range 0 to 8 : tensor<8xi32>
  %begin = arith.muli %row, %width : i32
  %base = tile.addptr %x, %begin : !tile.ptr<f32>, i32
  %bases = tile.splat %base : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %p = tile.addptr %bases, %i : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  %values = tile.load %p : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
  %squares = arith.mulf %values, %values : tensor<8xf32>
  %sum = tile.reduce(%squares) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<8xf32>) -> f32
  %q = tile.addptr %labels, %row : !tile.ptr<i32>, i32
  %label = tile.load %q : !tile.ptr<i32> -> i32
  %at = tile.addptr %base, %label : !tile.ptr<f32>, i32
  %element = tile.load %at : !tile.ptr<f32> -> f32
  %loss = arith.subf %sum, %element : f32
  %r = tile.addptr %y, %row : !tile.ptr<f32>, i32
  tile.store %r, %loss : !tile.ptr<f32>, f32
  return
}
