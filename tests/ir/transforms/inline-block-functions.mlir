// RUN: nereid-opt --inline-block-functions %s | FileCheck %s

// CHECK-LABEL: func.func @kernel
func.func @kernel(%p: !tile.ptr<i32>, %n: i32) attributes {tile.kernel} {
  // CHECK: call @scalars(%{{.*}}) {no_inline}
  %0 = func.call @scalars(%n) {no_inline} : (i32) -> i32
  // CHECK: call @tensors(%{{.*}}) :
  %1 = func.call @tensors(%0) {no_inline} : (i32) -> i32
  // CHECK: call @caller(%{{.*}}) :
  %2 = func.call @caller(%1) {no_inline} : (i32) -> i32
  tile.store %p, %2 : !tile.ptr<i32>, i32
  return
}

// CHECK: func.func private @scalars(%{{.*}}: i32) -> i32 attributes {no_inline}
func.func private @scalars(%n: i32) -> i32 attributes {no_inline} {
  %0 = arith.addi %n, %n : i32
  return %0 : i32
}

// CHECK: func.func private @tensors(%{{.*}}: i32) -> i32 {
func.func private @tensors(%n: i32) -> i32 attributes {no_inline} {
  %0 = tile.splat %n : i32 -> tensor<1xi32>
  %1 = tile.unsplat %0 : tensor<1xi32> -> i32
  return %1 : i32
}

// CHECK: func.func private @caller(%{{.*}}: i32) -> i32 {
func.func private @caller(%n: i32) -> i32 attributes {no_inline} {
  %0 = func.call @tensors(%n) {no_inline} : (i32) -> i32
  return %0 : i32
}
