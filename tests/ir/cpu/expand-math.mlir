// RUN: nereid-opt %s --nereid-cpu-expand-math | FileCheck %s --implicit-check-not="math.{{exp|tanh|powf|sin|erf}}"
// RUN: nereid-opt %s --nereid-cpu-expand-math="fma=false rounding=false" | FileCheck %s --check-prefix=BARE --implicit-check-not=math.fma --implicit-check-not=math.floor
// The numbers themselves are tested in tests/unit/cpu_kernels/MathTest.cpp.

// BARE: llvm.func @pow(f64, f64) -> f64
// CHECK-LABEL: func.func @vectors
func.func @vectors(%x: vector<16xf32>) -> vector<16xf32> {
  // CHECK: math.fma {{.*}} : vector<16xf32>
  // A subnormal result is a number of quanta, so that no operation has one.
  // CHECK: llvm.intr.lrint({{.*}}) : (vector<16xf32>) -> vector<16xi32>
  %0 = math.exp %x : vector<16xf32>
  return %0 : vector<16xf32>
}

// CHECK-LABEL: func.func @scalars
func.func @scalars(%x: f32, %y: f64) -> (f32, f64) {
  // CHECK: math.fma {{.*}} : f32
  %0 = math.tanh %x : f32
  // CHECK: math.fma {{.*}} : f64
  %1 = math.exp2 %y : f64
  return %0, %1 : f32, f64
}

// Large arguments of sine take a branch of their own.
// CHECK-LABEL: func.func @sine
func.func @sine(%x: vector<8xf32>) -> vector<8xf32> {
  // CHECK: %[[ANY:.*]] = vector.reduction <or>, {{.*}} : vector<8xi1> into i1
  // CHECK: scf.if %[[ANY]]
  %0 = math.sin %x : vector<8xf32>
  return %0 : vector<8xf32>
}

// Half precision is computed in single and rounded once.
// CHECK-LABEL: func.func @half
func.func @half(%x: vector<8xf16>, %y: vector<8xf16>) -> vector<8xf16> {
  // CHECK: arith.extf %{{.*}} : vector<8xf16> to vector<8xf32>
  // CHECK: arith.truncf %{{.*}} : vector<8xf32> to vector<8xf16>
  // CHECK-NEXT: return
  %0 = math.powf %x, %y : vector<8xf16>
  return %0 : vector<8xf16>
}

// Without fused multiply-adds by the C library, once a lane.
// CHECK-LABEL: func.func @power
// BARE-LABEL: func.func @power
func.func @power(%x: vector<2xf64>) -> vector<2xf64> {
  // CHECK-NOT: llvm.call
  // CHECK: math.fma {{.*}} : vector<2xf64>
  // BARE-COUNT-2: llvm.call @pow
  %0 = math.powf %x, %x : vector<2xf64>
  return %0 : vector<2xf64>
}

// CHECK-LABEL: func.func @no_library
func.func @no_library(%x: vector<2xf64>) -> vector<2xf64> {
  // CHECK-NOT: llvm.call
  // CHECK: return
  %0 = math.erf %x : vector<2xf64>
  return %0 : vector<2xf64>
}

// CHECK-LABEL: func.func @rounding
func.func @rounding(%x: f32) -> f32 {
  // CHECK: math.floor
  %0 = math.floor %x : f32
  return %0 : f32
}

// Tensors are not lanes yet.
// CHECK-LABEL: func.func @tensor
func.func @tensor(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: math.log
  %0 = math.log %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
