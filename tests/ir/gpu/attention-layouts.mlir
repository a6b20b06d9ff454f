// Attention: scores, their row maxima and sums, and the probabilities stay in the layout of the first product's
// accumulator, which is also that of the second product's operand A. No conversion in the loop; one before the store.
// RUN: nereid-opt %s --tile-pipeline --gpu-assign-layouts | FileCheck %s --check-prefixes=CHECK,WGMMA
// RUN: nereid-opt %s --tile-pipeline --gpu-assign-layouts=sm=80 | FileCheck %s --check-prefixes=CHECK,MMA

// CHECK-LABEL: func.func @attn_fwd
// CHECK: tile.load
// WGMMA: %[[Q:.*]] = ngpu.local_alloc
// MMA: %[[Q:.*]] = ngpu.convert_layout
// CHECK: scf.for
// WGMMA-NOT: convert_layout
// WGMMA: %[[K:.*]] = ngpu.local_alloc
// MMA: %[[K:.*]] = ngpu.convert_layout
// WGMMA: ngpu.wgmma %[[Q]], %[[K]], %{{.*}} use_acc %{{.*}} : {{.*}} -> tensor<128x64xf32, #[[L:.*]]>
// MMA: ngpu.mma %[[Q]], %[[K]], %{{.*}} : {{.*}} -> tensor<128x64xf32, #[[L:.*]]>
// MMA-NOT: convert_layout
// CHECK: tile.reduce
// CHECK: (tensor<128x64xf32, #[[L]]>) -> tensor<128xf32, #[[ROW:.*]]>
// CHECK: arith.maxnumf {{.*}} : tensor<128xf32, #[[ROW]]>
// CHECK: math.exp2 {{.*}} : tensor<128x64xf32, #[[L]]>
// WGMMA-NOT: convert_layout
// MMA: arith.truncf {{.*}} to tensor<128x64xf16, #[[L]]>
// MMA: ngpu.mma
// WGMMA: ngpu.wgmma %{{.*}} : tensor<128x64xf16, #[[L]]>, <{{.*}}> -> tensor<128x64xf32, #[[L]]>
// CHECK: scf.yield
// CHECK: ngpu.convert_layout
// CHECK: tile.store
module {
  func.func @attn_fwd(%arg0: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "Q"}, %arg1: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "K"}, %arg2: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "V"}, %arg3: f32 {tile.name = "sm_scale"}, %arg4: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "Out"}, %arg5: i32 {tile.divisibility = 16 : i64, tile.name = "stride_qh"}, %arg6: i32 {tile.divisibility = 16 : i64, tile.name = "stride_qm"}, %arg7: i32 {tile.divisibility = 16 : i64, tile.name = "N_CTX"}) attributes {tile.kernel} {
    %c0_i64 = arith.constant 0 : i64
    %cst = arith.constant dense<-1.000000e+06> : tensor<128x64xf32>
    %cst_0 = arith.constant dense<1.000000e+00> : tensor<128xf32>
    %cst_1 = arith.constant dense<0xFF800000> : tensor<128xf32>
    %c64_i32 = arith.constant 64 : i32
    %c0_i32 = arith.constant 0 : i32
    %cst_2 = arith.constant 1.44269502 : f32
    %cst_3 = arith.constant dense<0.000000e+00> : tensor<128x64xf32>
    %c128_i32 = arith.constant 128 : i32
    %0 = tile.program_id 0
    %1 = tile.program_id 1
    %2 = arith.muli %1, %arg5 : i32
    %3 = arith.muli %0, %c128_i32 : i32
    %4 = tile.range 0 to 128 : tensor<128xi32>
    %5 = tile.splat %3 : i32 -> tensor<128xi32>
    %6 = arith.addi %5, %4 : tensor<128xi32>
    %7 = tile.range 0 to 64 : tensor<64xi32>
    %8 = tile.addptr %arg0, %2 : !tile.ptr<f16>, i32
    %9 = tile.splat %arg6 : i32 -> tensor<128xi32>
    %10 = arith.muli %6, %9 : tensor<128xi32>
    %11 = tile.splat %8 : !tile.ptr<f16> -> tensor<128x!tile.ptr<f16>>
    %12 = tile.addptr %11, %10 : tensor<128x!tile.ptr<f16>>, tensor<128xi32>
    %13 = tile.expand_dims %12 1 : tensor<128x!tile.ptr<f16>> -> tensor<128x1x!tile.ptr<f16>>
    %14 = tile.expand_dims %7 0 : tensor<64xi32> -> tensor<1x64xi32>
    %15 = tile.broadcast %13 : tensor<128x1x!tile.ptr<f16>> -> tensor<128x64x!tile.ptr<f16>>
    %16 = tile.broadcast %14 : tensor<1x64xi32> -> tensor<128x64xi32>
    %17 = tile.addptr %15, %16 : tensor<128x64x!tile.ptr<f16>>, tensor<128x64xi32>
    %18 = tile.load %17 : tensor<128x64x!tile.ptr<f16>> -> tensor<128x64xf16>
    %19 = tile.addptr %arg1, %2 : !tile.ptr<f16>, i32
    %20 = tile.splat %arg6 : i32 -> tensor<64xi32>
    %21 = arith.muli %7, %20 : tensor<64xi32>
    %22 = tile.expand_dims %7 1 : tensor<64xi32> -> tensor<64x1xi32>
    %23 = tile.broadcast %22 : tensor<64x1xi32> -> tensor<64x64xi32>
    %24 = tile.addptr %arg2, %2 : !tile.ptr<f16>, i32
    %25 = tile.broadcast %14 : tensor<1x64xi32> -> tensor<64x64xi32>
    %26 = arith.mulf %arg3, %cst_2 : f32
    %27 = tile.expand_dims %6 1 : tensor<128xi32> -> tensor<128x1xi32>
    %28 = tile.broadcast %27 : tensor<128x1xi32> -> tensor<128x64xi32>
    %29 = tile.splat %26 : f32 -> tensor<128x64xf32>
    %30 = arith.muli %arg6, %c64_i32 : i32
    %31 = arith.extsi %30 : i32 to i64
    %32:4 = scf.for %arg8 = %c0_i32 to %arg7 step %c64_i32 iter_args(%arg9 = %cst_1, %arg10 = %cst_0, %arg11 = %cst_3, %arg12 = %c0_i64) -> (tensor<128xf32>, tensor<128xf32>, tensor<128x64xf32>, i64)  : i32 {
      %43 = tile.addptr %24, %arg12 : !tile.ptr<f16>, i64
      %44 = tile.splat %43 : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>>
      %45 = tile.addptr %44, %21 : tensor<64x!tile.ptr<f16>>, tensor<64xi32>
      %46 = tile.expand_dims %45 1 : tensor<64x!tile.ptr<f16>> -> tensor<64x1x!tile.ptr<f16>>
      %47 = tile.broadcast %46 : tensor<64x1x!tile.ptr<f16>> -> tensor<64x64x!tile.ptr<f16>>
      %48 = tile.addptr %47, %25 : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
      %49 = tile.addptr %19, %arg12 : !tile.ptr<f16>, i64
      %50 = tile.splat %49 : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>>
      %51 = tile.addptr %50, %21 : tensor<64x!tile.ptr<f16>>, tensor<64xi32>
      %52 = tile.expand_dims %51 0 : tensor<64x!tile.ptr<f16>> -> tensor<1x64x!tile.ptr<f16>>
      %53 = tile.broadcast %52 : tensor<1x64x!tile.ptr<f16>> -> tensor<64x64x!tile.ptr<f16>>
      %54 = tile.addptr %53, %23 : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
      %55 = tile.load %54 : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
      %56 = tile.dot %18, %55, %cst_3 : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %57 = tile.splat %arg8 : i32 -> tensor<64xi32>
      %58 = arith.addi %57, %7 : tensor<64xi32>
      %59 = tile.expand_dims %58 0 : tensor<64xi32> -> tensor<1x64xi32>
      %60 = tile.broadcast %59 : tensor<1x64xi32> -> tensor<128x64xi32>
      %61 = arith.cmpi sge, %28, %60 : tensor<128x64xi32>
      %62 = arith.mulf %56, %29 : tensor<128x64xf32>
      %63 = arith.select %61, %cst_3, %cst : tensor<128x64xi1>, tensor<128x64xf32>
      %64 = arith.addf %62, %63 : tensor<128x64xf32>
      %65 = tile.reduce(%64) axis 1 {
      ^bb0(%arg13: f32, %arg14: f32):
        %83 = arith.maxnumf %arg13, %arg14 : f32
        tile.yield %83 : f32
      } : (tensor<128x64xf32>) -> tensor<128xf32>
      %66 = arith.maxnumf %arg9, %65 : tensor<128xf32>
      %67 = tile.expand_dims %66 1 : tensor<128xf32> -> tensor<128x1xf32>
      %68 = tile.broadcast %67 : tensor<128x1xf32> -> tensor<128x64xf32>
      %69 = arith.subf %64, %68 : tensor<128x64xf32>
      %70 = math.exp2 %69 : tensor<128x64xf32>
      %71 = tile.reduce(%70) axis 1 {
      ^bb0(%arg13: f32, %arg14: f32):
        %83 = arith.addf %arg13, %arg14 : f32
        tile.yield %83 : f32
      } : (tensor<128x64xf32>) -> tensor<128xf32>
      %72 = arith.subf %arg9, %66 : tensor<128xf32>
      %73 = math.exp2 %72 : tensor<128xf32>
      %74 = arith.mulf %arg10, %73 : tensor<128xf32>
      %75 = arith.addf %74, %71 : tensor<128xf32>
      %76 = tile.expand_dims %73 1 : tensor<128xf32> -> tensor<128x1xf32>
      %77 = tile.broadcast %76 : tensor<128x1xf32> -> tensor<128x64xf32>
      %78 = arith.mulf %arg11, %77 : tensor<128x64xf32>
      %79 = tile.load %48 : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
      %80 = arith.truncf %70 : tensor<128x64xf32> to tensor<128x64xf16>
      %81 = tile.dot %80, %79, %78 : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      %82 = arith.addi %arg12, %31 : i64
      scf.yield %66, %75, %81, %82 : tensor<128xf32>, tensor<128xf32>, tensor<128x64xf32>, i64
    }
    %33 = tile.expand_dims %32#1 1 : tensor<128xf32> -> tensor<128x1xf32>
    %34 = tile.broadcast %33 : tensor<128x1xf32> -> tensor<128x64xf32>
    %35 = arith.divf %32#2, %34 : tensor<128x64xf32>
    %36 = tile.addptr %arg4, %2 : !tile.ptr<f16>, i32
    %37 = tile.splat %36 : !tile.ptr<f16> -> tensor<128x!tile.ptr<f16>>
    %38 = tile.addptr %37, %10 : tensor<128x!tile.ptr<f16>>, tensor<128xi32>
    %39 = tile.expand_dims %38 1 : tensor<128x!tile.ptr<f16>> -> tensor<128x1x!tile.ptr<f16>>
    %40 = tile.broadcast %39 : tensor<128x1x!tile.ptr<f16>> -> tensor<128x64x!tile.ptr<f16>>
    %41 = tile.addptr %40, %16 : tensor<128x64x!tile.ptr<f16>>, tensor<128x64xi32>
    %42 = arith.truncf %35 : tensor<128x64xf32> to tensor<128x64xf16>
    tile.store %41, %42 : tensor<128x64x!tile.ptr<f16>>, tensor<128x64xf16>
    return
  }
}
