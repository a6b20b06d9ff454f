// Columns modulo the width of a matrix: a remainder is computed once for the 8 that are loaded together, and is no reason to load fewer.
// RUN: nereid-opt %s --gpu-assign-layouts=report=true 2>&1 >/dev/null | FileCheck %s

// CHECK-LABEL: layouts of @wrapped
// CHECK: tile.load {{.*}}[1 x 8 elements
func.func @wrapped(%p: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}, %stride: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %c32 = arith.constant 32 : i32
  %pid = tile.program_id 0
  %start = arith.muli %pid, %c32 : i32
  %range = tile.range 0 to 32 : tensor<32xi32>
  %first = tile.splat %start : i32 -> tensor<32xi32>
  %columns = arith.addi %first, %range : tensor<32xi32>
  %width = tile.splat %n : i32 -> tensor<32xi32>
  %wrapped = arith.remsi %columns, %width : tensor<32xi32>
  %strides = tile.splat %stride : i32 -> tensor<32xi32>
  %rows = arith.muli %range, %strides : tensor<32xi32>
  %down = tile.expand_dims %rows 1 : tensor<32xi32> -> tensor<32x1xi32>
  %across = tile.expand_dims %wrapped 0 : tensor<32xi32> -> tensor<1x32xi32>
  %a = tile.broadcast %down : tensor<32x1xi32> -> tensor<32x32xi32>
  %b = tile.broadcast %across : tensor<1x32xi32> -> tensor<32x32xi32>
  %offsets = arith.addi %a, %b : tensor<32x32xi32>
  %from = tile.splat %p : !tile.ptr<f16> -> tensor<32x32x!tile.ptr<f16>>
  %source = tile.addptr %from, %offsets : tensor<32x32x!tile.ptr<f16>>, tensor<32x32xi32>
  %x = tile.load %source : tensor<32x32x!tile.ptr<f16>> -> tensor<32x32xf16>
  %to = tile.splat %q : !tile.ptr<f16> -> tensor<32x32x!tile.ptr<f16>>
  %target = tile.addptr %to, %offsets : tensor<32x32x!tile.ptr<f16>>, tensor<32x32xi32>
  tile.store %target, %x : tensor<32x32x!tile.ptr<f16>>, tensor<32x32xf16>
  return
}
