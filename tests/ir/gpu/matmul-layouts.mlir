// A matrix product in a loop. With wgmma both operands go to swizzled shared memory straight from coalesced loads;
// with mma.sync they are converted to fragments. Nothing else moves in the loop, and the result is converted once,
// as f16, to be stored in vectors of 16 bytes.
// RUN: nereid-opt %s --tile-pipeline --gpu-assign-layouts | FileCheck %s --check-prefixes=CHECK,WGMMA
// RUN: nereid-opt %s --tile-pipeline --gpu-assign-layouts=sm=80 | FileCheck %s --check-prefixes=CHECK,MMA

// CHECK-LABEL: func.func @matmul_full_kernel
// CHECK-NOT: convert_layout
// CHECK: scf.for
// CHECK-NOT: convert_layout
// CHECK: %[[A:.*]] = tile.load {{.*}} -> tensor<128x64xf16, #[[LA:.*]]>
// WGMMA: %[[SA:.*]] = ngpu.local_alloc %[[A]]
// MMA: %[[FA:.*]] = ngpu.convert_layout %[[A]]
// CHECK-NOT: convert_layout
// CHECK: %[[B:.*]] = tile.load {{.*}} -> tensor<64x128xf16, #[[LB:.*]]>
// WGMMA: %[[SB:.*]] = ngpu.local_alloc %[[B]]
// WGMMA: %[[C:.*]] = ngpu.wgmma %[[SA]], %[[SB]], %{{.*}} -> tensor<128x128xf32, #[[LC:.*]]>
// MMA: %[[FB:.*]] = ngpu.convert_layout %[[B]]
// MMA: %[[C:.*]] = ngpu.mma %[[FA]], %[[FB]], %{{.*}} -> tensor<128x128xf32, #[[LC:.*]]>
// CHECK-NOT: convert_layout
// CHECK: scf.yield %[[C]]
// CHECK: %[[H:.*]] = arith.truncf {{.*}} : tensor<128x128xf32, #[[LC]]> to tensor<128x128xf16, #[[LC]]>
// CHECK: %[[O:.*]] = ngpu.convert_layout %[[H]]
// CHECK-NOT: convert_layout
// CHECK: tile.store %{{.*}}, %[[O]]
module {
  func.func @matmul_full_kernel(%arg0: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a_ptr"}, %arg1: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "b_ptr"}, %arg2: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "c_ptr"}, %arg3: i32 {tile.divisibility = 16 : i64, tile.name = "M"}, %arg4: i32 {tile.divisibility = 16 : i64, tile.name = "N"}, %arg5: i32 {tile.divisibility = 16 : i64, tile.name = "K"}, %arg6: i32 {tile.divisibility = 16 : i64, tile.name = "stride_am"}, %arg7: i32 {tile.divisibility = 16 : i64, tile.name = "stride_bk"}, %arg8: i32 {tile.divisibility = 16 : i64, tile.name = "stride_cm"}) attributes {tile.kernel} {
    %c64_i64 = arith.constant 64 : i64
    %c0_i64 = arith.constant 0 : i64
    %cst = arith.constant dense<0.000000e+00> : tensor<64x128xf16>
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<128x64xf16>
    %c1_i32 = arith.constant 1 : i32
    %c0_i32 = arith.constant 0 : i32
    %c64_i32 = arith.constant 64 : i32
    %c63_i32 = arith.constant 63 : i32
    %cst_1 = arith.constant dense<0.000000e+00> : tensor<128x128xf32>
    %c8_i32 = arith.constant 8 : i32
    %c128_i32 = arith.constant 128 : i32
    %c127_i32 = arith.constant 127 : i32
    %0 = tile.program_id 0
    %1 = arith.addi %arg3, %c127_i32 : i32
    %2 = arith.divsi %1, %c128_i32 : i32
    %3 = arith.addi %arg4, %c127_i32 : i32
    %4 = arith.divsi %3, %c128_i32 : i32
    %5 = arith.muli %4, %c8_i32 : i32
    %6 = arith.divsi %0, %5 : i32
    %7 = arith.muli %6, %c8_i32 : i32
    %8 = arith.subi %2, %7 : i32
    %9 = arith.minsi %8, %c8_i32 : i32
    %10 = arith.remsi %0, %5 : i32
    %11 = arith.remsi %10, %9 : i32
    %12 = arith.addi %7, %11 : i32
    %13 = arith.divsi %10, %9 : i32
    %14 = arith.muli %12, %c128_i32 : i32
    %15 = tile.range 0 to 128 : tensor<128xi32>
    %16 = tile.splat %14 : i32 -> tensor<128xi32>
    %17 = arith.addi %16, %15 : tensor<128xi32>
    %18 = tile.splat %arg3 : i32 -> tensor<128xi32>
    %19 = arith.remsi %17, %18 : tensor<128xi32>
    %20 = arith.muli %13, %c128_i32 : i32
    %21 = tile.splat %20 : i32 -> tensor<128xi32>
    %22 = arith.addi %21, %15 : tensor<128xi32>
    %23 = tile.splat %arg4 : i32 -> tensor<128xi32>
    %24 = arith.remsi %22, %23 : tensor<128xi32>
    %25 = tile.range 0 to 64 : tensor<64xi32>
    %26 = tile.splat %arg6 : i32 -> tensor<128xi32>
    %27 = arith.muli %19, %26 : tensor<128xi32>
    %28 = tile.expand_dims %27 1 : tensor<128xi32> -> tensor<128x1xi32>
    %29 = tile.expand_dims %25 0 : tensor<64xi32> -> tensor<1x64xi32>
    %30 = tile.broadcast %28 : tensor<128x1xi32> -> tensor<128x64xi32>
    %31 = tile.broadcast %29 : tensor<1x64xi32> -> tensor<128x64xi32>
    %32 = arith.addi %30, %31 : tensor<128x64xi32>
    %33 = tile.splat %arg7 : i32 -> tensor<64xi32>
    %34 = arith.muli %25, %33 : tensor<64xi32>
    %35 = tile.expand_dims %34 1 : tensor<64xi32> -> tensor<64x1xi32>
    %36 = tile.expand_dims %24 0 : tensor<128xi32> -> tensor<1x128xi32>
    %37 = tile.broadcast %35 : tensor<64x1xi32> -> tensor<64x128xi32>
    %38 = tile.broadcast %36 : tensor<1x128xi32> -> tensor<64x128xi32>
    %39 = arith.addi %37, %38 : tensor<64x128xi32>
    %40 = arith.addi %arg5, %c63_i32 : i32
    %41 = arith.divsi %40, %c64_i32 : i32
    %42 = arith.muli %arg7, %c64_i32 : i32
    %43 = arith.extsi %42 : i32 to i64
    %44:3 = scf.for %arg9 = %c0_i32 to %41 step %c1_i32 iter_args(%arg10 = %cst_1, %arg11 = %c0_i64, %arg12 = %c0_i64) -> (tensor<128x128xf32>, i64, i64)  : i32 {
      %62 = tile.addptr %arg1, %arg12 : !tile.ptr<f16>, i64
      %63 = tile.splat %62 : !tile.ptr<f16> -> tensor<64x128x!tile.ptr<f16>>
      %64 = tile.addptr %63, %39 : tensor<64x128x!tile.ptr<f16>>, tensor<64x128xi32>
      %65 = tile.addptr %arg0, %arg11 : !tile.ptr<f16>, i64
      %66 = tile.splat %65 : !tile.ptr<f16> -> tensor<128x64x!tile.ptr<f16>>
      %67 = tile.addptr %66, %32 : tensor<128x64x!tile.ptr<f16>>, tensor<128x64xi32>
      %68 = arith.muli %arg9, %c64_i32 : i32
      %69 = arith.subi %arg5, %68 : i32
      %70 = tile.splat %69 : i32 -> tensor<64xi32>
      %71 = arith.cmpi slt, %25, %70 : tensor<64xi32>
      %72 = tile.expand_dims %71 0 : tensor<64xi1> -> tensor<1x64xi1>
      %73 = tile.broadcast %72 : tensor<1x64xi1> -> tensor<128x64xi1>
      %74 = tile.load %67 mask %73 other %cst_0 : tensor<128x64x!tile.ptr<f16>>, mask tensor<128x64xi1>, other tensor<128x64xf16> -> tensor<128x64xf16>
      %75 = tile.expand_dims %71 1 : tensor<64xi1> -> tensor<64x1xi1>
      %76 = tile.broadcast %75 : tensor<64x1xi1> -> tensor<64x128xi1>
      %77 = tile.load %64 mask %76 other %cst : tensor<64x128x!tile.ptr<f16>>, mask tensor<64x128xi1>, other tensor<64x128xf16> -> tensor<64x128xf16>
      %78 = tile.dot %74, %77, %arg10 : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      %79 = arith.addi %arg11, %c64_i64 : i64
      %80 = arith.addi %arg12, %43 : i64
      scf.yield %78, %79, %80 : tensor<128x128xf32>, i64, i64
    }
    %45 = arith.truncf %44#0 : tensor<128x128xf32> to tensor<128x128xf16>
    %46 = tile.splat %arg8 : i32 -> tensor<128xi32>
    %47 = arith.muli %46, %17 : tensor<128xi32>
    %48 = tile.splat %arg2 : !tile.ptr<f16> -> tensor<128x!tile.ptr<f16>>
    %49 = tile.addptr %48, %47 : tensor<128x!tile.ptr<f16>>, tensor<128xi32>
    %50 = tile.expand_dims %49 1 : tensor<128x!tile.ptr<f16>> -> tensor<128x1x!tile.ptr<f16>>
    %51 = tile.expand_dims %22 0 : tensor<128xi32> -> tensor<1x128xi32>
    %52 = tile.broadcast %50 : tensor<128x1x!tile.ptr<f16>> -> tensor<128x128x!tile.ptr<f16>>
    %53 = tile.broadcast %51 : tensor<1x128xi32> -> tensor<128x128xi32>
    %54 = tile.addptr %52, %53 : tensor<128x128x!tile.ptr<f16>>, tensor<128x128xi32>
    %55 = arith.cmpi slt, %17, %18 : tensor<128xi32>
    %56 = tile.expand_dims %55 1 : tensor<128xi1> -> tensor<128x1xi1>
    %57 = arith.cmpi slt, %22, %23 : tensor<128xi32>
    %58 = tile.expand_dims %57 0 : tensor<128xi1> -> tensor<1x128xi1>
    %59 = tile.broadcast %56 : tensor<128x1xi1> -> tensor<128x128xi1>
    %60 = tile.broadcast %58 : tensor<1x128xi1> -> tensor<128x128xi1>
    %61 = arith.andi %59, %60 : tensor<128x128xi1>
    tile.store %54, %45 mask %61 : tensor<128x128x!tile.ptr<f16>>, tensor<128x128xf16>, mask tensor<128x128xi1>
    return
  }
}
