// RUN: nereid-opt %s --nereid-cpu-expand-conversions | FileCheck %s
// RUN: nereid-opt %s --nereid-cpu-expand-conversions=f16c=false | FileCheck %s --check-prefix=BARE
// The numbers themselves are tested in tests/unit/cpu_kernels/ConversionsTest.cpp.

// Without the instruction nothing converts f16 but integers.
// BARE-NOT: f16 to vector<8xf32>
// BARE-NOT: f32> to vector<8xf16>

// CHECK-LABEL: func.func @bf16
func.func @bf16(%x: vector<8xf32>, %y: f64) -> (vector<8xbf16>, bf16) {
  // CHECK-NOT: arith.truncf %{{.*}} : {{.*}}bf16
  // CHECK: arith.trunci %{{.*}} : vector<8xi32> to vector<8xi16>
  // CHECK-NEXT: arith.bitcast %{{.*}} : vector<8xi16> to vector<8xbf16>
  %0 = arith.truncf %x : vector<8xf32> to vector<8xbf16>
  // CHECK: arith.truncf %{{.*}} : f64 to f32
  %1 = arith.truncf %y : f64 to bf16
  return %0, %1 : vector<8xbf16>, bf16
}

// CHECK-LABEL: func.func @f16
func.func @f16(%x: vector<8xf32>) -> (vector<8xf16>, vector<8xf16>) {
  // CHECK: arith.truncf %{{.*}} : vector<8xf32> to vector<8xf16>
  // CHECK-NOT: arith.truncf
  %0 = arith.truncf %x : vector<8xf32> to vector<8xf16>
  %1 = arith.truncf %x toward_zero : vector<8xf32> to vector<8xf16>
  // CHECK: return
  return %0, %1 : vector<8xf16>, vector<8xf16>
}

// Every operation rounds its result.
// CHECK-LABEL: func.func @arithmetic
func.func @arithmetic(%x: vector<8xf16>, %y: vector<8xf16>) -> (vector<8xf16>, vector<8xi1>) {
  // CHECK: arith.addf %{{.*}}, %{{.*}} : vector<8xf32>
  // CHECK-NEXT: arith.truncf
  %0 = arith.addf %x, %y : vector<8xf16>
  // CHECK: arith.cmpf olt, %{{.*}}, %{{.*}} : vector<8xf32>
  %1 = arith.cmpf olt, %0, %y : vector<8xf16>
  return %0, %1 : vector<8xf16>, vector<8xi1>
}

// f32 and f64 alone are left as they are.
// CHECK-LABEL: func.func @wide
func.func @wide(%x: f64) -> f32 {
  // CHECK-NEXT: arith.truncf
  // CHECK-NEXT: return
  %0 = arith.truncf %x : f64 to f32
  return %0 : f32
}

// Signs are changed in the bits.
// CHECK-LABEL: func.func @signs
func.func @signs(%x: vector<8xbf16>, %y: vector<8xbf16>) -> (vector<8xbf16>, vector<8xbf16>) {
  // CHECK-NOT: f32
  // CHECK: arith.andi %{{.*}}, %{{.*}} : vector<8xi16>
  %0 = math.absf %x : vector<8xbf16>
  // CHECK: arith.ori %{{.*}}, %{{.*}} : vector<8xi16>
  // CHECK-NOT: f32
  // CHECK: return
  %1 = math.copysign %0, %y : vector<8xbf16>
  return %0, %1 : vector<8xbf16>, vector<8xbf16>
}
