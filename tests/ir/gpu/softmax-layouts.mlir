// Softmax of a row a program: one layout for everything, in vectors of 16 bytes.
// RUN: nereid-opt %s --tile-pipeline --gpu-assign-layouts | FileCheck %s
// RUN: nereid-opt %s --tile-pipeline --gpu-assign-layouts=report=true 2>&1 >/dev/null | FileCheck %s --check-prefix=REPORT

// CHECK: #[[L:.*]] = #ngpu.layout<register = {{\[\[}}1], [2], [512]], lane = {{\[\[}}4], [8], [16], [32], [64]], warp = {{\[\[}}128], [256]], shape = [1024]>
// CHECK-LABEL: func.func @softmax_kernel
// CHECK-NOT: convert_layout
// CHECK: %[[X:.*]] = tile.load {{.*}} -> tensor<1024xf32, #[[L]]>
// CHECK: tile.reduce(%[[X]]) axis 0
// CHECK: (tensor<1024xf32, #[[L]]>) -> f32
// CHECK: math.exp {{.*}} : tensor<1024xf32, #[[L]]>
// CHECK: tile.store
// CHECK-NOT: convert_layout
// CHECK: return

// REPORT: layouts of @softmax_kernel: {{[0-9]+}} cycles
// REPORT: access tensor<1024xf32>: {{[0-9]+}}
// REPORT-NEXT: register = {{\[\[}}1], [2], [512]], lane = {{\[\[}}4],
// REPORT-NEXT: tile.load (line {{[0-9]+}}) [2 x 4 elements, 16 sectors, 4 lines]
// REPORT: reduce tensor<1024xf32>: {{[0-9]+}}
// REPORT: values tensor<1024xf32>: {{[0-9]+}}
// REPORT: arith.subf {{.*}} math.exp {{.*}} arith.divf
// REPORT-NOT: conversion
module {
  func.func @softmax_kernel(%arg0: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "output_ptr"}, %arg1: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "input_ptr"}, %arg2: i32 {tile.divisibility = 16 : i64, tile.name = "input_row_stride"}, %arg3: i32 {tile.divisibility = 16 : i64, tile.name = "output_row_stride"}, %arg4: i32 {tile.divisibility = 16 : i64, tile.name = "n_cols"}) attributes {tile.kernel} {
    %cst = arith.constant dense<0xFF800000> : tensor<1024xf32>
    %0 = tile.program_id 0
    %1 = arith.muli %0, %arg2 : i32
    %2 = tile.addptr %arg1, %1 : !tile.ptr<f32>, i32
    %3 = tile.range 0 to 1024 : tensor<1024xi32>
    %4 = tile.splat %2 : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
    %5 = tile.addptr %4, %3 : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
    %6 = tile.splat %arg4 : i32 -> tensor<1024xi32>
    %7 = arith.cmpi slt, %3, %6 : tensor<1024xi32>
    %8 = tile.load %5 mask %7 other %cst : tensor<1024x!tile.ptr<f32>>, mask tensor<1024xi1>, other tensor<1024xf32> -> tensor<1024xf32>
    %9 = tile.reduce(%8) axis 0 {
    ^bb0(%arg5: f32, %arg6: f32):
      %20 = arith.maxnumf %arg5, %arg6 : f32
      tile.yield %20 : f32
    } : (tensor<1024xf32>) -> f32
    %10 = tile.splat %9 : f32 -> tensor<1024xf32>
    %11 = arith.subf %8, %10 : tensor<1024xf32>
    %12 = math.exp %11 : tensor<1024xf32>
    %13 = tile.reduce(%12) axis 0 {
    ^bb0(%arg5: f32, %arg6: f32):
      %20 = arith.addf %arg5, %arg6 : f32
      tile.yield %20 : f32
    } : (tensor<1024xf32>) -> f32
    %14 = tile.splat %13 : f32 -> tensor<1024xf32>
    %15 = arith.divf %12, %14 : tensor<1024xf32>
    %16 = arith.muli %0, %arg3 : i32
    %17 = tile.addptr %arg0, %16 : !tile.ptr<f32>, i32
    %18 = tile.splat %17 : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
    %19 = tile.addptr %18, %3 : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
    tile.store %19, %15 mask %7 : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>, mask tensor<1024xi1>
    return
  }
}
