// RUN: nereid-opt --unmark-noinline --split-input-file %s | FileCheck %s
// RUN: nereid-opt --unmark-noinline=keep=none --split-input-file %s | FileCheck %s --check-prefix=NONE

// NONE-NOT: no_inline

// CHECK-LABEL: func.func @kernel
func.func @kernel(%p: !tile.ptr<i32>, %n: i32) attributes {tile.kernel} {
  // CHECK: call @scalars(%{{.*}}) {no_inline}
  %0 = func.call @scalars(%n) {no_inline} : (i32) -> i32
  // CHECK: call @tensors(%{{.*}}) :
  %1 = func.call @tensors(%0) {no_inline} : (i32) -> i32
  // CHECK: call @caller(%{{.*}}) :
  %2 = func.call @caller(%1) {no_inline} : (i32) -> i32
  // CHECK: call @moved(%{{.*}}) {no_inline}
  func.call @moved(%p, %2) {no_inline} : (!tile.ptr<i32>, i32) -> ()
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

// CHECK: func.func private @moved(%{{.*}}: !tile.ptr<i32>, %{{.*}}: i32) attributes {no_inline}
func.func private @moved(%p: !tile.ptr<i32>, %n: i32) attributes {no_inline} {
  %q = tile.addptr %p, %n : !tile.ptr<i32>, i32
  tile.store %q, %n : !tile.ptr<i32>, i32
  return
}

// -----

// Offsets into a large argument are widened from the kernel on.
// CHECK-LABEL: func.func @large
func.func @large(%p: !tile.ptr<i32> {tile.large}, %n: i32) attributes {tile.kernel} {
  // CHECK: call @moved(%{{.*}}, %{{.*}}) :
  func.call @moved(%p, %n) {no_inline} : (!tile.ptr<i32>, i32) -> ()
  // CHECK: call @twice(%{{.*}}) {no_inline}
  %0 = func.call @twice(%n) {no_inline} : (i32) -> i32
  tile.store %p, %0 : !tile.ptr<i32>, i32
  return
}
// CHECK: func.func private @moved(%{{.*}}: !tile.ptr<i32>, %{{.*}}: i32) {
func.func private @moved(%p: !tile.ptr<i32>, %n: i32) attributes {no_inline} {
  %q = tile.addptr %p, %n : !tile.ptr<i32>, i32
  tile.store %q, %n : !tile.ptr<i32>, i32
  return
}
// CHECK: func.func private @twice(%{{.*}}: i32) -> i32 attributes {no_inline}
func.func private @twice(%n: i32) -> i32 attributes {no_inline} {
  %0 = arith.addi %n, %n : i32
  return %0 : i32
}
