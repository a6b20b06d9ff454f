// Dots that no unit computes become others.
// RUN: nereid-opt %s --gpu-legalise-dots --split-input-file | FileCheck %s
// RUN: nereid-opt %s --gpu-legalise-dots="sm=80" --split-input-file | FileCheck %s --check-prefix=SM80

// Three products of what tf32 holds, rounded, and what is left; NaN of the small ones counts as 0. Their sum is added to the accumulator outside.
// CHECK-LABEL: func.func @tf32x3
// CHECK: %[[POWER:.*]] = arith.constant dense<-8388608> : tensor<16x16xi32>
// CHECK: %[[EXPONENT:.*]] = arith.andi %{{.*}}, %[[POWER]]
// CHECK: %[[P:.*]] = arith.bitcast %[[EXPONENT]]
// CHECK: %[[HALF:.*]] = arith.constant dense<4.8828125E-4> : tensor<16x16xf32>
// CHECK: %[[RAISED:.*]] = math.fma %[[P]], %[[HALF]], %arg0
// CHECK: %[[RBITS:.*]] = arith.bitcast %[[RAISED]]
// CHECK: %[[MASK:.*]] = arith.constant dense<-8192> : tensor<16x16xi32>
// CHECK: %[[BITS:.*]] = arith.andi %[[RBITS]], %[[MASK]]
// CHECK: %[[AH:.*]] = arith.bitcast %[[BITS]]
// CHECK: %[[AL:.*]] = arith.subf %arg0, %[[AH]]
// CHECK: math.fma %{{.*}}, %{{.*}}, %arg1
// CHECK: %[[BL:.*]] = arith.subf %arg1, %[[BH:.*]] :
// CHECK: %[[S1:.*]] = tile.dot %[[AL]], %[[BH]], %{{.*}} :
// CHECK: %[[S2:.*]] = tile.dot %[[AH]], %[[BL]], %[[S1]] :
// CHECK: arith.cmpf uno, %[[S2]], %[[S2]]
// CHECK: %[[S3:.*]] = arith.select
// CHECK: %[[SUM:.*]] = tile.dot %[[AH]], %[[BH]], %[[S3]] :
// CHECK: %[[R:.*]] = arith.addf %arg2, %[[SUM]]
// CHECK: return %[[R]]
func.func @tf32x3(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>, %c: tensor<16x16xf32>) -> tensor<16x16xf32> attributes {tile.kernel} {
  %0 = tile.dot %a, %b, %c precision tf32x3 : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  return %0 : tensor<16x16xf32>
}

// -----

// CHECK-LABEL: func.func @bf16x6
// CHECK-COUNT-6: tile.dot {{.*}} : tensor<16x16xbf16>, tensor<16x16xbf16> -> tensor<16x16xf32>
// CHECK-NOT: tile.dot
func.func @bf16x6(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>, %c: tensor<16x16xf32>) -> tensor<16x16xf32> attributes {tile.kernel} {
  %0 = tile.dot %a, %b, %c precision bf16x6 : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  return %0 : tensor<16x16xf32>
}

// -----

// CHECK-LABEL: func.func @bf16x3
// CHECK-COUNT-3: tile.dot {{.*}} : tensor<16x16xbf16>, tensor<16x16xbf16> -> tensor<16x16xf32>
// CHECK-NOT: tile.dot
func.func @bf16x3(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>, %c: tensor<16x16xf32>) -> tensor<16x16xf32> attributes {tile.kernel} {
  %0 = tile.dot %a, %b, %c precision bf16x3 : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  return %0 : tensor<16x16xf32>
}

// -----

// 8-bit floats stay where the unit takes them, with accumulators of f32.
// CHECK-LABEL: func.func @fp8
// CHECK: %[[C:.*]] = arith.extf %arg2
// CHECK: %[[D:.*]] = tile.dot %arg0, %arg1, %[[C]] : tensor<16x32xf8E4M3FN>, tensor<32x16xf8E5M2> -> tensor<16x16xf32>
// CHECK: arith.truncf %[[D]]
// SM80-LABEL: func.func @fp8
// SM80-DAG: %[[A:.*]] = tile.fp_cast %arg0 : tensor<16x32xf8E4M3FN> -> tensor<16x32xf16>
// SM80-DAG: %[[B:.*]] = tile.fp_cast %arg1 : tensor<32x16xf8E5M2> -> tensor<32x16xf16>
// SM80: tile.dot %[[A]], %[[B]], %{{.*}} : tensor<16x32xf16>, tensor<32x16xf16> -> tensor<16x16xf32>
func.func @fp8(%a: tensor<16x32xf8E4M3FN>, %b: tensor<32x16xf8E5M2>, %c: tensor<16x16xf16>) -> tensor<16x16xf16> attributes {tile.kernel} {
  %0 = tile.dot %a, %b, %c : tensor<16x32xf8E4M3FN>, tensor<32x16xf8E5M2> -> tensor<16x16xf16>
  return %0 : tensor<16x16xf16>
}

// -----

// Few rows and many columns: the transposed product, carried as such by the loop.
// CHECK-LABEL: func.func @skinny
// CHECK: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<128x16xf32>
// CHECK: %[[R:.*]] = scf.for {{.*}} iter_args(%[[ACC:.*]] = %[[ZERO]]) -> (tensor<128x16xf32>)
// CHECK-DAG: %[[BT:.*]] = tile.trans %arg1 [1, 0]
// CHECK-DAG: %[[AT:.*]] = tile.trans %arg0 [1, 0]
// CHECK: %[[D:.*]] = tile.dot %[[BT]], %[[AT]], %[[ACC]] : tensor<128x64xf16>, tensor<64x16xf16> -> tensor<128x16xf32>
// CHECK: scf.yield %[[D]]
// CHECK: %[[T:.*]] = tile.trans %[[R]] [1, 0] : tensor<128x16xf32> -> tensor<16x128xf32>
// CHECK: return %[[T]]
// SM80-LABEL: func.func @skinny
// SM80-NOT: tile.trans
func.func @skinny(%a: tensor<16x64xf16>, %b: tensor<64x128xf16>, %n: i32) -> tensor<16x128xf32> attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<16x128xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<16x128xf32>) : i32 {
    %0 = tile.dot %a, %b, %acc : tensor<16x64xf16>, tensor<64x128xf16> -> tensor<16x128xf32>
    scf.yield %0 : tensor<16x128xf32>
  }
  return %r : tensor<16x128xf32>
}
