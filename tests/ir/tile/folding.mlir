// RUN: nereid-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: @range_of_one
func.func @range_of_one() -> tensor<1xi32> {
  // CHECK: arith.constant dense<-7> : tensor<1xi32>
  %0 = tile.range -7 to -6 : tensor<1xi32>
  return %0 : tensor<1xi32>
}

// CHECK-LABEL: @splats_of_constants
func.func @splats_of_constants() -> (tensor<4xi32>, tensor<4xf16>, tensor<4xi1>, tensor<4xf8E5M2>) {
  %i = arith.constant 3 : i32
  %f = arith.constant 0xFC00 : f16
  %b = arith.constant true
  %q = arith.constant 1.5 : f8E5M2
  // CHECK-DAG: dense<3> : tensor<4xi32>
  // CHECK-DAG: dense<0xFC00> : tensor<4xf16>
  // CHECK-DAG: dense<true> : tensor<4xi1>
  // CHECK-DAG: dense<1.500000e+00> : tensor<4xf8E5M2>
  %0 = tile.splat %i : i32 -> tensor<4xi32>
  %1 = tile.splat %f : f16 -> tensor<4xf16>
  %2 = tile.splat %b : i1 -> tensor<4xi1>
  %3 = tile.splat %q : f8E5M2 -> tensor<4xf8E5M2>
  return %0, %1, %2, %3 : tensor<4xi32>, tensor<4xf16>, tensor<4xi1>, tensor<4xf8E5M2>
}

// CHECK-LABEL: @shapes_of_constants
func.func @shapes_of_constants() -> (tensor<2x8xi32>, tensor<1x2xi32>, tensor<2x1xi32>, tensor<4x2xi32>, tensor<8x2x2xi32>) {
  %v = arith.constant dense<[5, 6]> : tensor<2xi32>
  %s = arith.constant dense<9> : tensor<2x1xi32>
  %m = arith.constant dense<[[1, 2, 3, 4], [5, 6, 7, 8]]> : tensor<2x4xi32>
  %t = arith.constant dense<9> : tensor<2x2x8xi32>
  // CHECK-DAG: dense<9> : tensor<2x8xi32>
  %0 = tile.broadcast %s : tensor<2x1xi32> -> tensor<2x8xi32>
  // CHECK-DAG: dense<{{\[\[}}5, 6]]> : tensor<1x2xi32>
  %1 = tile.expand_dims %v 0 : tensor<2xi32> -> tensor<1x2xi32>
  // CHECK-DAG: dense<{{\[\[}}5], [6]]> : tensor<2x1xi32>
  %2 = tile.expand_dims %v 1 : tensor<2xi32> -> tensor<2x1xi32>
  // CHECK-DAG: dense<{{\[\[}}1, 2], [3, 4], [5, 6], [7, 8]]> : tensor<4x2xi32>
  %3 = tile.reshape %m : tensor<2x4xi32> -> tensor<4x2xi32>
  // CHECK-DAG: dense<9> : tensor<8x2x2xi32>
  %4 = tile.trans %t [2, 0, 1] : tensor<2x2x8xi32> -> tensor<8x2x2xi32>
  return %0, %1, %2, %3, %4 : tensor<2x8xi32>, tensor<1x2xi32>, tensor<2x1xi32>, tensor<4x2xi32>, tensor<8x2x2xi32>
}

// CHECK-LABEL: @unsplat
// CHECK-SAME: (%[[X:.*]]: f32, %[[V:.*]]: tensor<1xf32>)
func.func @unsplat(%x: f32, %v: tensor<1xf32>) -> (f32, f32, f32) {
  %0 = tile.splat %x : f32 -> tensor<1x1xf32>
  %1 = tile.unsplat %0 : tensor<1x1xf32> -> f32
  // CHECK-DAG: %[[C:.*]] = arith.constant 2.0
  %c = arith.constant dense<2.0> : tensor<1xf32>
  %2 = tile.unsplat %c : tensor<1xf32> -> f32
  // CHECK-DAG: %[[U:.*]] = tile.unsplat %[[V]] : tensor<1xf32> -> f32
  %3 = tile.expand_dims %v 0 : tensor<1xf32> -> tensor<1x1xf32>
  %4 = tile.unsplat %3 : tensor<1x1xf32> -> f32
  // CHECK: return %[[X]], %[[C]], %[[U]]
  return %1, %2, %4 : f32, f32, f32
}

// CHECK-LABEL: @identities
// CHECK-SAME: (%[[X:.*]]: tensor<4x4xf32>, %[[P:.*]]: !tile.ptr<f32>)
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[P]], %[[P]]
func.func @identities(%x: tensor<4x4xf32>, %p: !tile.ptr<f32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, !tile.ptr<f32>, !tile.ptr<f32>) {
  %zero = arith.constant 0 : i32
  %0 = tile.broadcast %x : tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = tile.reshape %x : tensor<4x4xf32> -> tensor<4x4xf32>
  %2 = tile.trans %x [0, 1] : tensor<4x4xf32> -> tensor<4x4xf32>
  %3 = tile.addptr %p, %zero : !tile.ptr<f32>, i32
  %4 = tile.ptr_cast %p : !tile.ptr<f32> -> !tile.ptr<i8>
  %5 = tile.ptr_cast %4 : !tile.ptr<i8> -> !tile.ptr<f32>
  return %0, %1, %2, %3, %5 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, !tile.ptr<f32>, !tile.ptr<f32>
}

// CHECK-LABEL: @chains
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4xf32>, %[[Y:.*]]: tensor<1x1xf32>)
func.func @chains(%x: tensor<2x3x4xf32>, %y: tensor<1x1xf32>) -> (tensor<3x4x2xf32>, tensor<2x3x4xf32>, tensor<6x4xf32>, tensor<8x4xf32>) {
  // The order of two: dimension i of the result is order1[order2[i]] of the source.
  // CHECK-DAG: %[[T:.*]] = tile.trans %[[X]] [1, 2, 0]
  %0 = tile.trans %x [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  %1 = tile.trans %0 [2, 0, 1] : tensor<4x2x3xf32> -> tensor<3x4x2xf32>
  %2 = tile.trans %1 [2, 0, 1] : tensor<3x4x2xf32> -> tensor<2x3x4xf32>
  // CHECK-DAG: %[[R:.*]] = tile.reshape %[[X]] any_order : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %3 = tile.reshape %x any_order : tensor<2x3x4xf32> -> tensor<24xf32>
  %4 = tile.reshape %3 : tensor<24xf32> -> tensor<6x4xf32>
  // CHECK-DAG: %[[B:.*]] = tile.broadcast %[[Y]] : tensor<1x1xf32> -> tensor<8x4xf32>
  %5 = tile.broadcast %y : tensor<1x1xf32> -> tensor<8x1xf32>
  %6 = tile.broadcast %5 : tensor<8x1xf32> -> tensor<8x4xf32>
  // CHECK: return %[[T]], %[[X]], %[[R]], %[[B]]
  return %1, %2, %4, %6 : tensor<3x4x2xf32>, tensor<2x3x4xf32>, tensor<6x4xf32>, tensor<8x4xf32>
}

// CHECK-LABEL: @numbers
func.func @numbers(%i: i32) -> (i32, i32, f32, f8E5M2) {
  // 0xFFFFFFFF * 0x80000000 = 0x7FFFFFFF80000000
  // CHECK-DAG: %[[H:.*]] = arith.constant 2147483647 : i32
  // CHECK-DAG: %[[Z:.*]] = arith.constant 0 : i32
  // CHECK-DAG: %[[W:.*]] = arith.constant 1.750000e+00 : f32
  // CHECK-DAG: %[[N:.*]] = arith.constant 5.734400e+04 : f8E5M2
  // CHECK: return %[[H]], %[[Z]], %[[W]], %[[N]]
  %a = arith.constant 0xFFFFFFFF : i32
  %b = arith.constant 0x80000000 : i32
  %c0 = arith.constant 0 : i32
  %q = arith.constant 1.75 : f8E5M2
  %f = arith.constant 1.0e30 : f32
  %0 = tile.mulhi_u %a, %b : i32
  %1 = tile.mulhi_u %i, %c0 : i32
  %2 = tile.fp_cast %q : f8E5M2 -> f32
  %3 = tile.fp_cast %f : f32 -> f8E5M2
  return %0, %1, %2, %3 : i32, i32, f32, f8E5M2
}

// To 8 bits: overflow and infinities give the largest number. Rounding towards zero is kept.
// CHECK-LABEL: func.func @narrow
func.func @narrow() -> (f8E4M3FN, f8E4M3FN, f8E4M3FN, bf16) {
  // CHECK-DAG: %[[A:.*]] = arith.constant -4.480000e+02 : f8E4M3FN
  // CHECK-DAG: %[[B:.*]] = arith.constant 0.000000e+00 : f8E4M3FN
  // CHECK-DAG: %[[C:.*]] = arith.constant 1.125000e+00 : f8E4M3FN
  // CHECK-DAG: %[[D:.*]] = arith.constant 1.000000e+00 : bf16
  // CHECK: return %[[A]], %[[B]], %[[C]], %[[D]]
  %inf = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %x = arith.constant 1.07 : f32
  %y = arith.constant 1.0074 : f32
  %0 = tile.fp_cast %inf : f32 -> f8E4M3FN
  %1 = tile.fp_cast %zero : f32 -> f8E4M3FN
  %2 = tile.fp_cast %x : f32 -> f8E4M3FN
  %3 = tile.fp_cast %y rounding rtz : f32 -> bf16
  return %0, %1, %2, %3 : f8E4M3FN, f8E4M3FN, f8E4M3FN, bf16
}

// CHECK-LABEL: func.func @descriptor_parts
// CHECK-SAME: %{{.*}}: !tile.ptr<f32>, %[[M:.*]]: i32, %[[N:.*]]: i32, %[[S:.*]]: i64
func.func @descriptor_parts(%p: !tile.ptr<f32>, %m: i32, %n: i32, %s: i64, %d: !tile.desc<4x8xf32>) -> (i32, i64, i64, i64) {
  // CHECK: %[[ONE:.*]] = arith.constant 1 : i64
  // CHECK: return %[[N]], %[[S]], %[[ONE]], %[[ONE]]
  %0 = tile.make_descriptor %p [%m, %n] strides [%s] : !tile.ptr<f32> -> !tile.desc<4x8xf32>
  %1 = tile.desc_shape %0 1 : !tile.desc<4x8xf32>
  %2 = tile.desc_stride %0 0 : !tile.desc<4x8xf32>
  %3 = tile.desc_stride %0 1 : !tile.desc<4x8xf32>
  %4 = tile.desc_stride %d 1 : !tile.desc<4x8xf32>
  return %1, %2, %3, %4 : i32, i64, i64, i64
}
