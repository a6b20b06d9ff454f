// Sizes that layouts take badly become powers of two; what is not there is masked off or makes no difference.
// RUN: nereid-opt %s --gpu-pad-shapes | FileCheck %s

// CHECK-LABEL: func.func @sum
// CHECK: %[[VALID:.*]] = arith.cmpi slt, %{{.*}} : tensor<128xi32>
// CHECK: %[[X:.*]] = tile.load %{{.*}} mask %[[VALID]]
// CHECK: %[[ZERO:.*]] = arith.constant dense<-0.000000e+00> : tensor<128xf32>
// CHECK: %[[REAL:.*]] = arith.select %[[VALID]], %[[X]], %[[ZERO]]
// CHECK: tile.reduce(%[[REAL]]) axis 0
func.func @sum(%p: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.range 0 to 100 : tensor<100xi32>
  %s = tile.splat %p : !tile.ptr<f32> -> tensor<100x!tile.ptr<f32>>
  %ptr = tile.addptr %s, %r : tensor<100x!tile.ptr<f32>>, tensor<100xi32>
  %x = tile.load %ptr : tensor<100x!tile.ptr<f32>> -> tensor<100xf32>
  %y = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %m = arith.addf %a, %b : f32
    tile.yield %m : f32
  } : (tensor<100xf32>) -> f32
  tile.store %p, %y : !tile.ptr<f32>, f32
  return
}

// 192 = 3 * 64 stays, where threads share the core; and 256, a power of two.
// CHECK-LABEL: func.func @kept
// CHECK: tile.load {{.*}} -> tensor<256x192xf32>
func.func @kept(%p: tensor<256x192x!tile.ptr<f32>>) attributes {tile.kernel} {
  %x = tile.load %p : tensor<256x192x!tile.ptr<f32>> -> tensor<256x192xf32>
  tile.store %p, %x : tensor<256x192x!tile.ptr<f32>>, tensor<256x192xf32>
  return
}

// A combiner that nothing leaves alone is told which elements there are. One with effects does not run on others, in no row.
// CHECK-LABEL: func.func @combiners
// CHECK: tile.reduce(%{{.*}}, %{{.*}}) axis 0
// CHECK: ^bb0(%[[A:.*]]: f32, %[[IN_A:.*]]: i1, %[[B:.*]]: f32, %[[IN_B:.*]]: i1):
// CHECK: %[[BOTH:.*]] = arith.andi %[[IN_A]], %[[IN_B]]
// CHECK: %[[ANY:.*]] = arith.ori %[[IN_A]], %[[IN_B]]
// CHECK: %[[ALONE:.*]] = arith.select %[[IN_A]], %[[A]], %[[B]]
// CHECK: %[[DIFFERENCE:.*]] = arith.subf %[[A]], %[[B]]
// CHECK: %[[C:.*]] = arith.select %[[BOTH]], %[[DIFFERENCE]], %[[ALONE]]
// CHECK: tile.yield %[[C]], %[[ANY]] : f32, i1
// CHECK: tile.scan(%{{.*}}, %{{.*}}) axis 1
// CHECK: scf.if
// CHECK-NEXT: arith.cmpf
// CHECK-NEXT: tile.assert
func.func @combiners(%p: tensor<33x2x!tile.ptr<f32>>, %q: tensor<2x!tile.ptr<f32>>) attributes {tile.kernel} {
  %x = tile.load %p : tensor<33x2x!tile.ptr<f32>> -> tensor<33x2xf32>
  %y = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %m = arith.subf %a, %b : f32
    tile.yield %m : f32
  } : (tensor<33x2xf32>) -> tensor<2xf32>
  tile.store %q, %y : tensor<2x!tile.ptr<f32>>, tensor<2xf32>
  %z = tile.scan(%x) axis 1 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf olt, %a, %b : f32
    tile.assert %c, "ordered" : i1
    tile.yield %b : f32
  } : (tensor<33x2xf32>) -> tensor<33x2xf32>
  tile.store %p, %z : tensor<33x2x!tile.ptr<f32>>, tensor<33x2xf32>
  return
}

// K gets zeros; what is loaded has them.
// CHECK-LABEL: func.func @dot
// CHECK: %[[A:.*]] = tile.load
// CHECK: %[[B:.*]] = math.exp
// CHECK: %[[REAL:.*]] = arith.select %{{.*}}, %[[B]], %{{.*}} : tensor<64x16xi1>, tensor<64x16xf32>
// CHECK: tile.dot %[[A]], %[[REAL]], %{{.*}} : tensor<16x64xf32>, tensor<64x16xf32>
func.func @dot(%p: tensor<16x33x!tile.ptr<f32>>, %q: tensor<33x16x!tile.ptr<f32>>, %c: tensor<16x16xf32>) -> tensor<16x16xf32> attributes {tile.kernel} {
  %a = tile.load %p : tensor<16x33x!tile.ptr<f32>> -> tensor<16x33xf32>
  %x = tile.load %q : tensor<33x16x!tile.ptr<f32>> -> tensor<33x16xf32>
  %b = math.exp %x : tensor<33x16xf32>
  %d = tile.dot %a, %b, %c : tensor<16x33xf32>, tensor<33x16xf32> -> tensor<16x16xf32>
  return %d : tensor<16x16xf32>
}

// Rows of 7 one behind the other are not rows of 8: elements are fetched by index. Rows of 4 are.
// CHECK-LABEL: func.func @reshape
// CHECK: tile.gather %{{.*}}[%{{.*}}] axis 0 : tensor<32xf32>, tensor<32xi32> -> tensor<32xf32>
// CHECK: tile.reshape %{{.*}} : tensor<8x4xf32> -> tensor<32xf32>
func.func @reshape(%p: tensor<4x7x!tile.ptr<f32>>, %q: tensor<7x4x!tile.ptr<f32>>, %r: tensor<28x!tile.ptr<f32>>) attributes {tile.kernel} {
  %x = tile.load %p : tensor<4x7x!tile.ptr<f32>> -> tensor<4x7xf32>
  %y = tile.reshape %x : tensor<4x7xf32> -> tensor<28xf32>
  tile.store %r, %y : tensor<28x!tile.ptr<f32>>, tensor<28xf32>
  %z = tile.load %q : tensor<7x4x!tile.ptr<f32>> -> tensor<7x4xf32>
  %w = tile.reshape %z : tensor<7x4xf32> -> tensor<28xf32>
  tile.store %r, %w : tensor<28x!tile.ptr<f32>>, tensor<28xf32>
  return
}
