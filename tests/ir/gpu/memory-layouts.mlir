// Layouts of kernels that are bound by memory.
// RUN: nereid-opt %s --tile-pipeline --gpu-assign-layouts=report=true 2>&1 >/dev/null | FileCheck %s
// RUN: nereid-opt %s --tile-pipeline --gpu-assign-layouts | FileCheck %s --check-prefix=IR

// Rows of 256: a row stays within a warp, so that no reduction needs a barrier.
// CHECK-LABEL: layouts of @softmax2d
// CHECK: reduce tensor<8x256xf32>
// CHECK-NEXT: register = {{.*}}, lane = {{\[\[}}0, 4], [0, 8], [0, 16], [0, 32], [0, 64]], warp = {{\[\[}}1, 0], [2, 0]]
// CHECK: tile.store {{.*}} [4 x 4 elements, 16 sectors, 4 lines]
// CHECK-NOT: conversion
// IR-LABEL: func.func @softmax2d
// IR-NOT: convert_layout

// Sums in a loop, then again with the weights: one layout for all three loops, 16 bytes at a time.
// CHECK-LABEL: layouts of @ln_loop
// CHECK-COUNT-5: tile.load {{.*}} [2 x 8 elements, 16 sectors, 4 lines]
// CHECK: tile.store {{.*}} [2 x 8 elements, 16 sectors, 4 lines]
// CHECK-NOT: conversion
// IR-LABEL: func.func @ln_loop
// IR-NOT: convert_layout

// Both sides in whole lines: the tensor is moved once, through shared memory.
// CHECK-LABEL: layouts of @transpose
// CHECK: tile.load {{.*}} [4 x 8 elements, 16 sectors, 4 lines]
// CHECK: tile.store {{.*}} [4 x 8 elements, 16 sectors, 4 lines]
// CHECK: conversion tensor<64x64xf16>: {{.*}} behind tile.load
// CHECK-NOT: conversion
// IR-LABEL: func.func @transpose
// IR: %[[X:.*]] = tile.load
// IR-NEXT: ngpu.convert_layout %[[X]]
// IR-NOT: convert_layout

// The indices are loaded where the rows need them.
// CHECK-LABEL: layouts of @gather
// CHECK: tile.load {{.*}} [4 x 8 elements, 16 sectors, 4 lines]
// CHECK-NOT: conversion
// IR-LABEL: func.func @gather
// IR-NOT: convert_layout

// Columns are summed at the end: the loop only adds.
// CHECK-LABEL: layouts of @colsum
// CHECK: tile.load {{.*}} [8 x 4 elements, 16 sectors, 4 lines]
// CHECK-NOT: conversion
// IR-LABEL: func.func @colsum
// IR-NOT: convert_layout

// CHECK-LABEL: layouts of @cumsum
// CHECK: scan tensor<1024xf32>
// CHECK-NEXT: register = {{\[\[}}1], [2]
// CHECK-NOT: conversion

func.func @softmax2d(%arg0: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "x"}, %arg1: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "y"}, %arg2: i32 {tile.divisibility = 16 : i64, tile.name = "stride"}, %arg3: i32 {tile.name = "R"}, %arg4: i32 {tile.divisibility = 16 : i64, tile.name = "C"}) attributes {tile.kernel} {
  %cst = arith.constant dense<0xFF800000> : tensor<8x256xf32>
  %c8_i32 = arith.constant 8 : i32
  %0 = tile.program_id 0
  %1 = arith.muli %0, %c8_i32 : i32
  %2 = tile.range 0 to 8 : tensor<8xi32>
  %3 = tile.splat %1 : i32 -> tensor<8xi32>
  %4 = arith.addi %3, %2 : tensor<8xi32>
  %5 = tile.range 0 to 256 : tensor<256xi32>
  %6 = tile.splat %arg3 : i32 -> tensor<8xi32>
  %7 = arith.cmpi slt, %4, %6 : tensor<8xi32>
  %8 = tile.expand_dims %7 1 : tensor<8xi1> -> tensor<8x1xi1>
  %9 = tile.splat %arg4 : i32 -> tensor<256xi32>
  %10 = arith.cmpi slt, %5, %9 : tensor<256xi32>
  %11 = tile.expand_dims %10 0 : tensor<256xi1> -> tensor<1x256xi1>
  %12 = tile.broadcast %8 : tensor<8x1xi1> -> tensor<8x256xi1>
  %13 = tile.broadcast %11 : tensor<1x256xi1> -> tensor<8x256xi1>
  %14 = arith.andi %12, %13 : tensor<8x256xi1>
  %15 = tile.splat %arg2 : i32 -> tensor<8xi32>
  %16 = arith.muli %4, %15 : tensor<8xi32>
  %17 = tile.splat %arg0 : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %18 = tile.addptr %17, %16 : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  %19 = tile.expand_dims %18 1 : tensor<8x!tile.ptr<f32>> -> tensor<8x1x!tile.ptr<f32>>
  %20 = tile.expand_dims %5 0 : tensor<256xi32> -> tensor<1x256xi32>
  %21 = tile.broadcast %19 : tensor<8x1x!tile.ptr<f32>> -> tensor<8x256x!tile.ptr<f32>>
  %22 = tile.broadcast %20 : tensor<1x256xi32> -> tensor<8x256xi32>
  %23 = tile.addptr %21, %22 : tensor<8x256x!tile.ptr<f32>>, tensor<8x256xi32>
  %24 = tile.load %23 mask %14 other %cst : tensor<8x256x!tile.ptr<f32>>, mask tensor<8x256xi1>, other tensor<8x256xf32> -> tensor<8x256xf32>
  %25 = tile.reduce(%24) axis 1 {
  ^bb0(%arg5: f32, %arg6: f32):
    %39 = arith.maxnumf %arg5, %arg6 : f32
    tile.yield %39 : f32
  } : (tensor<8x256xf32>) -> tensor<8xf32>
  %26 = tile.expand_dims %25 1 : tensor<8xf32> -> tensor<8x1xf32>
  %27 = tile.broadcast %26 : tensor<8x1xf32> -> tensor<8x256xf32>
  %28 = arith.subf %24, %27 : tensor<8x256xf32>
  %29 = math.exp %28 : tensor<8x256xf32>
  %30 = tile.reduce(%29) axis 1 {
  ^bb0(%arg5: f32, %arg6: f32):
    %39 = arith.addf %arg5, %arg6 : f32
    tile.yield %39 : f32
  } : (tensor<8x256xf32>) -> tensor<8xf32>
  %31 = tile.expand_dims %30 1 : tensor<8xf32> -> tensor<8x1xf32>
  %32 = tile.broadcast %31 : tensor<8x1xf32> -> tensor<8x256xf32>
  %33 = arith.divf %29, %32 : tensor<8x256xf32>
  %34 = tile.splat %arg1 : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %35 = tile.addptr %34, %16 : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  %36 = tile.expand_dims %35 1 : tensor<8x!tile.ptr<f32>> -> tensor<8x1x!tile.ptr<f32>>
  %37 = tile.broadcast %36 : tensor<8x1x!tile.ptr<f32>> -> tensor<8x256x!tile.ptr<f32>>
  %38 = tile.addptr %37, %22 : tensor<8x256x!tile.ptr<f32>>, tensor<8x256xi32>
  tile.store %38, %33 mask %14 : tensor<8x256x!tile.ptr<f32>>, tensor<8x256xf32>, mask tensor<8x256xi1>
  return
}

func.func @ln_loop(%arg0: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "X"}, %arg1: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "Y"}, %arg2: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "W"}, %arg3: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "B"}, %arg4: i32 {tile.divisibility = 16 : i64, tile.name = "stride"}, %arg5: i32 {tile.divisibility = 16 : i64, tile.name = "N"}, %arg6: f32 {tile.name = "eps"}) attributes {tile.kernel} {
  %cst = arith.constant 1.000000e+00 : f32
  %cst_0 = arith.constant dense<0.000000e+00> : tensor<2048xf16>
  %c2048_i32 = arith.constant 2048 : i32
  %c0_i32 = arith.constant 0 : i32
  %cst_1 = arith.constant dense<0.000000e+00> : tensor<2048xf32>
  %0 = tile.program_id 0
  %1 = arith.muli %0, %arg4 : i32
  %2 = tile.addptr %arg0, %1 : !tile.ptr<f16>, i32
  %3 = tile.addptr %arg1, %1 : !tile.ptr<f16>, i32
  %4 = tile.range 0 to 2048 : tensor<2048xi32>
  %5 = tile.splat %2 : !tile.ptr<f16> -> tensor<2048x!tile.ptr<f16>>
  %6 = tile.splat %arg5 : i32 -> tensor<2048xi32>
  %7 = scf.for %arg7 = %c0_i32 to %arg5 step %c2048_i32 iter_args(%arg8 = %cst_1) -> (tensor<2048xf32>)  : i32 {
    %22 = tile.splat %arg7 : i32 -> tensor<2048xi32>
    %23 = arith.addi %22, %4 : tensor<2048xi32>
    %24 = tile.addptr %5, %23 : tensor<2048x!tile.ptr<f16>>, tensor<2048xi32>
    %25 = arith.cmpi slt, %23, %6 : tensor<2048xi32>
    %26 = tile.load %24 mask %25 other %cst_0 : tensor<2048x!tile.ptr<f16>>, mask tensor<2048xi1>, other tensor<2048xf16> -> tensor<2048xf16>
    %27 = arith.extf %26 : tensor<2048xf16> to tensor<2048xf32>
    %28 = arith.addf %arg8, %27 : tensor<2048xf32>
    scf.yield %28 : tensor<2048xf32>
  }
  %8 = tile.reduce(%7) axis 0 {
  ^bb0(%arg7: f32, %arg8: f32):
    %22 = arith.addf %arg7, %arg8 : f32
    tile.yield %22 : f32
  } : (tensor<2048xf32>) -> f32
  %9 = arith.sitofp %arg5 : i32 to f32
  %10 = arith.divf %8, %9 : f32
  %11 = tile.splat %10 : f32 -> tensor<2048xf32>
  %12 = scf.for %arg7 = %c0_i32 to %arg5 step %c2048_i32 iter_args(%arg8 = %cst_1) -> (tensor<2048xf32>)  : i32 {
    %22 = tile.splat %arg7 : i32 -> tensor<2048xi32>
    %23 = arith.addi %22, %4 : tensor<2048xi32>
    %24 = tile.addptr %5, %23 : tensor<2048x!tile.ptr<f16>>, tensor<2048xi32>
    %25 = arith.cmpi slt, %23, %6 : tensor<2048xi32>
    %26 = tile.load %24 mask %25 other %cst_0 : tensor<2048x!tile.ptr<f16>>, mask tensor<2048xi1>, other tensor<2048xf16> -> tensor<2048xf16>
    %27 = arith.extf %26 : tensor<2048xf16> to tensor<2048xf32>
    %28 = arith.subf %27, %11 : tensor<2048xf32>
    %29 = arith.select %25, %28, %cst_1 : tensor<2048xi1>, tensor<2048xf32>
    %30 = arith.mulf %29, %29 : tensor<2048xf32>
    %31 = arith.addf %arg8, %30 : tensor<2048xf32>
    scf.yield %31 : tensor<2048xf32>
  }
  %13 = tile.reduce(%12) axis 0 {
  ^bb0(%arg7: f32, %arg8: f32):
    %22 = arith.addf %arg7, %arg8 : f32
    tile.yield %22 : f32
  } : (tensor<2048xf32>) -> f32
  %14 = arith.divf %13, %9 : f32
  %15 = arith.addf %14, %arg6 : f32
  %16 = math.sqrt %15 : f32
  %17 = arith.divf %cst, %16 : f32
  %18 = tile.splat %arg2 : !tile.ptr<f16> -> tensor<2048x!tile.ptr<f16>>
  %19 = tile.splat %arg3 : !tile.ptr<f16> -> tensor<2048x!tile.ptr<f16>>
  %20 = tile.splat %3 : !tile.ptr<f16> -> tensor<2048x!tile.ptr<f16>>
  %21 = tile.splat %17 : f32 -> tensor<2048xf32>
  scf.for %arg7 = %c0_i32 to %arg5 step %c2048_i32  : i32 {
    %22 = tile.splat %arg7 : i32 -> tensor<2048xi32>
    %23 = arith.addi %22, %4 : tensor<2048xi32>
    %24 = arith.cmpi slt, %23, %6 : tensor<2048xi32>
    %25 = tile.addptr %18, %23 : tensor<2048x!tile.ptr<f16>>, tensor<2048xi32>
    %26 = tile.load %25 mask %24 : tensor<2048x!tile.ptr<f16>>, mask tensor<2048xi1> -> tensor<2048xf16>
    %27 = tile.addptr %19, %23 : tensor<2048x!tile.ptr<f16>>, tensor<2048xi32>
    %28 = tile.load %27 mask %24 : tensor<2048x!tile.ptr<f16>>, mask tensor<2048xi1> -> tensor<2048xf16>
    %29 = tile.addptr %5, %23 : tensor<2048x!tile.ptr<f16>>, tensor<2048xi32>
    %30 = tile.load %29 mask %24 other %cst_0 : tensor<2048x!tile.ptr<f16>>, mask tensor<2048xi1>, other tensor<2048xf16> -> tensor<2048xf16>
    %31 = arith.extf %30 : tensor<2048xf16> to tensor<2048xf32>
    %32 = tile.addptr %20, %23 : tensor<2048x!tile.ptr<f16>>, tensor<2048xi32>
    %33 = arith.subf %31, %11 : tensor<2048xf32>
    %34 = arith.mulf %33, %21 : tensor<2048xf32>
    %35 = arith.extf %26 : tensor<2048xf16> to tensor<2048xf32>
    %36 = arith.mulf %34, %35 : tensor<2048xf32>
    %37 = arith.extf %28 : tensor<2048xf16> to tensor<2048xf32>
    %38 = arith.addf %36, %37 : tensor<2048xf32>
    %39 = arith.truncf %38 : tensor<2048xf32> to tensor<2048xf16>
    tile.store %32, %39 mask %24 : tensor<2048x!tile.ptr<f16>>, tensor<2048xf16>, mask tensor<2048xi1>
  }
  return
}

func.func @transpose(%arg0: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "x"}, %arg1: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "y"}, %arg2: i32 {tile.divisibility = 16 : i64, tile.name = "sx"}, %arg3: i32 {tile.divisibility = 16 : i64, tile.name = "sy"}) attributes {tile.kernel} {
  %c64_i32 = arith.constant 64 : i32
  %0 = tile.program_id 0
  %1 = arith.muli %0, %c64_i32 : i32
  %2 = tile.range 0 to 64 : tensor<64xi32>
  %3 = tile.splat %1 : i32 -> tensor<64xi32>
  %4 = arith.addi %3, %2 : tensor<64xi32>
  %5 = tile.program_id 1
  %6 = arith.muli %5, %c64_i32 : i32
  %7 = tile.splat %6 : i32 -> tensor<64xi32>
  %8 = arith.addi %7, %2 : tensor<64xi32>
  %9 = tile.splat %arg2 : i32 -> tensor<64xi32>
  %10 = arith.muli %4, %9 : tensor<64xi32>
  %11 = tile.splat %arg0 : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>>
  %12 = tile.addptr %11, %10 : tensor<64x!tile.ptr<f16>>, tensor<64xi32>
  %13 = tile.expand_dims %12 1 : tensor<64x!tile.ptr<f16>> -> tensor<64x1x!tile.ptr<f16>>
  %14 = tile.expand_dims %8 0 : tensor<64xi32> -> tensor<1x64xi32>
  %15 = tile.broadcast %13 : tensor<64x1x!tile.ptr<f16>> -> tensor<64x64x!tile.ptr<f16>>
  %16 = tile.broadcast %14 : tensor<1x64xi32> -> tensor<64x64xi32>
  %17 = tile.addptr %15, %16 : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
  %18 = tile.load %17 : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
  %19 = tile.splat %arg3 : i32 -> tensor<64xi32>
  %20 = arith.muli %8, %19 : tensor<64xi32>
  %21 = tile.splat %arg1 : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>>
  %22 = tile.addptr %21, %20 : tensor<64x!tile.ptr<f16>>, tensor<64xi32>
  %23 = tile.expand_dims %22 1 : tensor<64x!tile.ptr<f16>> -> tensor<64x1x!tile.ptr<f16>>
  %24 = tile.expand_dims %4 0 : tensor<64xi32> -> tensor<1x64xi32>
  %25 = tile.broadcast %23 : tensor<64x1x!tile.ptr<f16>> -> tensor<64x64x!tile.ptr<f16>>
  %26 = tile.broadcast %24 : tensor<1x64xi32> -> tensor<64x64xi32>
  %27 = tile.addptr %25, %26 : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
  %28 = tile.trans %18 [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
  tile.store %27, %28 : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xf16>
  return
}

func.func @gather(%arg0: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "x"}, %arg1: !tile.ptr<i64> {tile.divisibility = 16 : i64, tile.name = "idx"}, %arg2: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "y"}, %arg3: i32 {tile.divisibility = 16 : i64, tile.name = "stride"}) attributes {tile.kernel} {
  %c32_i32 = arith.constant 32 : i32
  %0 = tile.program_id 0
  %1 = arith.muli %0, %c32_i32 : i32
  %2 = tile.range 0 to 32 : tensor<32xi32>
  %3 = tile.splat %1 : i32 -> tensor<32xi32>
  %4 = arith.addi %3, %2 : tensor<32xi32>
  %5 = tile.splat %arg1 : !tile.ptr<i64> -> tensor<32x!tile.ptr<i64>>
  %6 = tile.addptr %5, %4 : tensor<32x!tile.ptr<i64>>, tensor<32xi32>
  %7 = tile.load %6 : tensor<32x!tile.ptr<i64>> -> tensor<32xi64>
  %8 = tile.range 0 to 128 : tensor<128xi32>
  %9 = arith.extsi %arg3 : i32 to i64
  %10 = tile.splat %9 : i64 -> tensor<32xi64>
  %11 = arith.muli %7, %10 : tensor<32xi64>
  %12 = tile.splat %arg0 : !tile.ptr<f16> -> tensor<32x!tile.ptr<f16>>
  %13 = tile.addptr %12, %11 : tensor<32x!tile.ptr<f16>>, tensor<32xi64>
  %14 = tile.expand_dims %13 1 : tensor<32x!tile.ptr<f16>> -> tensor<32x1x!tile.ptr<f16>>
  %15 = tile.expand_dims %8 0 : tensor<128xi32> -> tensor<1x128xi32>
  %16 = tile.broadcast %14 : tensor<32x1x!tile.ptr<f16>> -> tensor<32x128x!tile.ptr<f16>>
  %17 = tile.broadcast %15 : tensor<1x128xi32> -> tensor<32x128xi32>
  %18 = tile.addptr %16, %17 : tensor<32x128x!tile.ptr<f16>>, tensor<32x128xi32>
  %19 = tile.load %18 : tensor<32x128x!tile.ptr<f16>> -> tensor<32x128xf16>
  %20 = tile.splat %arg3 : i32 -> tensor<32xi32>
  %21 = arith.muli %4, %20 : tensor<32xi32>
  %22 = tile.splat %arg2 : !tile.ptr<f16> -> tensor<32x!tile.ptr<f16>>
  %23 = tile.addptr %22, %21 : tensor<32x!tile.ptr<f16>>, tensor<32xi32>
  %24 = tile.expand_dims %23 1 : tensor<32x!tile.ptr<f16>> -> tensor<32x1x!tile.ptr<f16>>
  %25 = tile.broadcast %24 : tensor<32x1x!tile.ptr<f16>> -> tensor<32x128x!tile.ptr<f16>>
  %26 = tile.addptr %25, %17 : tensor<32x128x!tile.ptr<f16>>, tensor<32x128xi32>
  tile.store %26, %19 : tensor<32x128x!tile.ptr<f16>>, tensor<32x128xf16>
  return
}

func.func @colsum(%arg0: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "x"}, %arg1: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "y"}, %arg2: i32 {tile.divisibility = 16 : i64, tile.name = "stride"}, %arg3: i32 {tile.name = "R"}) attributes {tile.kernel} {
  %c32_i32 = arith.constant 32 : i32
  %c0_i32 = arith.constant 0 : i32
  %cst = arith.constant dense<0.000000e+00> : tensor<32x128xf32>
  %c128_i32 = arith.constant 128 : i32
  %0 = tile.program_id 0
  %1 = arith.muli %0, %c128_i32 : i32
  %2 = tile.range 0 to 128 : tensor<128xi32>
  %3 = tile.splat %1 : i32 -> tensor<128xi32>
  %4 = arith.addi %3, %2 : tensor<128xi32>
  %5 = tile.range 0 to 32 : tensor<32xi32>
  %6 = tile.splat %arg2 : i32 -> tensor<32xi32>
  %7 = tile.splat %arg0 : !tile.ptr<f32> -> tensor<32x!tile.ptr<f32>>
  %8 = tile.expand_dims %4 0 : tensor<128xi32> -> tensor<1x128xi32>
  %9 = tile.broadcast %8 : tensor<1x128xi32> -> tensor<32x128xi32>
  %10 = scf.for %arg4 = %c0_i32 to %arg3 step %c32_i32 iter_args(%arg5 = %cst) -> (tensor<32x128xf32>)  : i32 {
    %14 = tile.splat %arg4 : i32 -> tensor<32xi32>
    %15 = arith.addi %14, %5 : tensor<32xi32>
    %16 = arith.muli %15, %6 : tensor<32xi32>
    %17 = tile.addptr %7, %16 : tensor<32x!tile.ptr<f32>>, tensor<32xi32>
    %18 = tile.expand_dims %17 1 : tensor<32x!tile.ptr<f32>> -> tensor<32x1x!tile.ptr<f32>>
    %19 = tile.broadcast %18 : tensor<32x1x!tile.ptr<f32>> -> tensor<32x128x!tile.ptr<f32>>
    %20 = tile.addptr %19, %9 : tensor<32x128x!tile.ptr<f32>>, tensor<32x128xi32>
    %21 = tile.load %20 : tensor<32x128x!tile.ptr<f32>> -> tensor<32x128xf32>
    %22 = arith.addf %arg5, %21 : tensor<32x128xf32>
    scf.yield %22 : tensor<32x128xf32>
  }
  %11 = tile.splat %arg1 : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
  %12 = tile.addptr %11, %4 : tensor<128x!tile.ptr<f32>>, tensor<128xi32>
  %13 = tile.reduce(%10) axis 0 {
  ^bb0(%arg4: f32, %arg5: f32):
    %14 = arith.addf %arg4, %arg5 : f32
    tile.yield %14 : f32
  } : (tensor<32x128xf32>) -> tensor<128xf32>
  tile.store %12, %13 : tensor<128x!tile.ptr<f32>>, tensor<128xf32>
  return
}

func.func @cumsum(%arg0: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "x"}, %arg1: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "y"}, %arg2: i32 {tile.name = "n"}) attributes {tile.kernel} {
  %c1024_i32 = arith.constant 1024 : i32
  %0 = tile.program_id 0
  %1 = arith.muli %0, %c1024_i32 : i32
  %2 = tile.range 0 to 1024 : tensor<1024xi32>
  %3 = tile.splat %1 : i32 -> tensor<1024xi32>
  %4 = arith.addi %3, %2 : tensor<1024xi32>
  %5 = tile.splat %arg1 : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %6 = tile.addptr %5, %4 : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  %7 = tile.splat %arg0 : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %8 = tile.addptr %7, %4 : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  %9 = tile.load %8 : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  %10 = tile.scan(%9) axis 0 {
  ^bb0(%arg3: f32, %arg4: f32):
    %11 = arith.addf %arg3, %arg4 : f32
    tile.yield %11 : f32
  } : (tensor<1024xf32>) -> tensor<1024xf32>
  tile.store %6, %10 : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  return
}

// The offsets are summed in 32 bits, which might wrap between groups of 8: only those are proven to be neighbours. Sectors are counted as if
// nothing wrapped, so results of a product go to memory in rows, not in its fragments.
// CHECK-LABEL: layouts of @sum_of_offsets
// CHECK: tile.store {{.*}} [32 x 8 elements, 16 sectors, 4 lines]
// CHECK: conversion tensor<128x256xf16>
// IR-LABEL: func.func @sum_of_offsets
func.func @sum_of_offsets(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %zero = arith.constant dense<0.0> : tensor<128x256xf32>
  %x = arith.constant dense<1.0> : tensor<128x64xf16>
  %y = arith.constant dense<1.0> : tensor<64x256xf16>
  %r = tile.range 0 to 128 : tensor<128xi32>
  %c = tile.range 0 to 256 : tensor<256xi32>
  %stride = tile.splat %n : i32 -> tensor<128xi32>
  %rows = arith.muli %r, %stride : tensor<128xi32>
  %rows2 = tile.expand_dims %rows 1 : tensor<128xi32> -> tensor<128x1xi32>
  %columns2 = tile.expand_dims %c 0 : tensor<256xi32> -> tensor<1x256xi32>
  %rowsb = tile.broadcast %rows2 : tensor<128x1xi32> -> tensor<128x256xi32>
  %columnsb = tile.broadcast %columns2 : tensor<1x256xi32> -> tensor<128x256xi32>
  %offsets = arith.addi %rowsb, %columnsb : tensor<128x256xi32>
  %s = tile.splat %a : !tile.ptr<f16> -> tensor<128x256x!tile.ptr<f16>>
  %p = tile.addptr %s, %offsets : tensor<128x256x!tile.ptr<f16>>, tensor<128x256xi32>
  %d = tile.dot %x, %y, %zero precision ieee : tensor<128x64xf16>, tensor<64x256xf16> -> tensor<128x256xf32>
  %h = arith.truncf %d : tensor<128x256xf32> to tensor<128x256xf16>
  tile.store %p, %h : tensor<128x256x!tile.ptr<f16>>, tensor<128x256xf16>
  return
}
