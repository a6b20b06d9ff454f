// A row of 16384 fp32 that is used behind its reduction does not fit the registers of one warp; two blocks of four warps run it. What only
// follows from indices does not count, nor does a row that is used no more.
// RUN: nereid-opt %s --split-input-file --tile-pipeline --gpu-pipeline="warps=1 choose-blocks=1" | FileCheck %s
// RUN: nereid-opt %s --split-input-file --tile-pipeline --gpu-pipeline="warps=1" | FileCheck %s --check-prefix=ONE

// ONE-NOT: ngpu.num_blocks

// CHECK-LABEL: func.func @centred
// CHECK-SAME: ngpu.num_blocks = 2 : i32
// CHECK-SAME: ngpu.num_warps = 8 : i32
func.func @centred(%out: !tile.ptr<f32>, %x: !tile.ptr<f32>) attributes {tile.kernel} {
  %at = tile.range 0 to 16384 : tensor<16384xi32>
  %s = tile.splat %x : !tile.ptr<f32> -> tensor<16384x!tile.ptr<f32>>
  %p = tile.addptr %s, %at : tensor<16384x!tile.ptr<f32>>, tensor<16384xi32>
  %v = tile.load %p : tensor<16384x!tile.ptr<f32>> -> tensor<16384xf32>
  %sum = tile.reduce(%v) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<16384xf32>) -> f32
  %all = tile.splat %sum : f32 -> tensor<16384xf32>
  %less = arith.subf %v, %all : tensor<16384xf32>
  %o = tile.splat %out : !tile.ptr<f32> -> tensor<16384x!tile.ptr<f32>>
  %to = tile.addptr %o, %at : tensor<16384x!tile.ptr<f32>>, tensor<16384xi32>
  tile.store %to, %less : tensor<16384x!tile.ptr<f32>>, tensor<16384xf32>
  return
}

// -----

// CHECK-LABEL: func.func @sums
// CHECK-NOT: ngpu.num_blocks
// CHECK: return
func.func @sums(%out: !tile.ptr<i32>, %x: !tile.ptr<i32>) attributes {tile.kernel} {
  %at = tile.range 0 to 16384 : tensor<16384xi32>
  %s = tile.splat %x : !tile.ptr<i32> -> tensor<16384x!tile.ptr<i32>>
  %p = tile.addptr %s, %at : tensor<16384x!tile.ptr<i32>>, tensor<16384xi32>
  %v = tile.load %p : tensor<16384x!tile.ptr<i32>> -> tensor<16384xi32>
  %sum = tile.reduce(%v) axis 0 {
  ^bb0(%a: i32, %b: i32):
    %c = arith.addi %a, %b : i32
    tile.yield %c : i32
  } : (tensor<16384xi32>) -> i32
  %all = tile.splat %sum : i32 -> tensor<16384xi32>
  %more = arith.addi %at, %all : tensor<16384xi32>
  %o = tile.splat %out : !tile.ptr<i32> -> tensor<16384x!tile.ptr<i32>>
  %to = tile.addptr %o, %at : tensor<16384x!tile.ptr<i32>>, tensor<16384xi32>
  tile.store %to, %more : tensor<16384x!tile.ptr<i32>>, tensor<16384xi32>
  return
}
