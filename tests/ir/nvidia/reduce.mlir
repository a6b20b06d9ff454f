// RUN: nereid-opt --split-input-file --emit-nvidia="stage=llvm" %s -o /dev/null | FileCheck %s

#row = #ngpu.layout<register = [[0, 1], [0, 2]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [], shape = [32, 4]>
#sum = #ngpu.layout<lane = [[1], [2], [4], [8], [16]], warp = [], shape = [32]>

// A row alone in its thread is reduced as a tree.
// CHECK-LABEL: @rows
// CHECK: %[[L:.*]] = call {{.*}}float @llvm.maxnum.f32(
// CHECK: %[[R:.*]] = call {{.*}}float @llvm.maxnum.f32(
// CHECK: call {{.*}}float @llvm.maxnum.f32(float %[[L]], float %[[R]])
func.func @rows(%p: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel, ngpu.num_warps = 1 : i32, ngpu.sm = 90 : i32} {
  %c4 = arith.constant dense<4> : tensor<32xi32, #sum>
  %rows = tile.range 0 to 32 : tensor<32xi32, #sum>
  %starts = arith.muli %rows, %c4 : tensor<32xi32, #sum>
  %s = tile.splat %p : !tile.ptr<f32> -> tensor<32x!tile.ptr<f32>, #sum>
  %at = tile.addptr %s, %starts : tensor<32x!tile.ptr<f32>, #sum>, tensor<32xi32, #sum>
  %e = tile.expand_dims %at 1 : tensor<32x!tile.ptr<f32>, #sum> -> tensor<32x1x!tile.ptr<f32>, #ngpu.layout<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [], shape = [32, 1]>>
  %b = tile.broadcast %e : tensor<32x1x!tile.ptr<f32>, #ngpu.layout<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [], shape = [32, 1]>> -> tensor<32x4x!tile.ptr<f32>, #row>
  %columns = tile.range 0 to 4 : tensor<4xi32, #ngpu.layout<register = [[1], [2]], lane = [[0], [0], [0], [0], [0]], warp = [], shape = [4]>>
  %ec = tile.expand_dims %columns 0 : tensor<4xi32, #ngpu.layout<register = [[1], [2]], lane = [[0], [0], [0], [0], [0]], warp = [], shape = [4]>> -> tensor<1x4xi32, #ngpu.layout<register = [[0, 1], [0, 2]], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], warp = [], shape = [1, 4]>>
  %bc = tile.broadcast %ec : tensor<1x4xi32, #ngpu.layout<register = [[0, 1], [0, 2]], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], warp = [], shape = [1, 4]>> -> tensor<32x4xi32, #row>
  %from = tile.addptr %b, %bc : tensor<32x4x!tile.ptr<f32>, #row>, tensor<32x4xi32, #row>
  %x = tile.load %from : tensor<32x4x!tile.ptr<f32>, #row> -> tensor<32x4xf32, #row>
  %max = tile.reduce(%x) axis 1 {
  ^bb0(%l: f32, %r: f32):
    %m = arith.maxnumf %l, %r : f32
    tile.yield %m : f32
  } : (tensor<32x4xf32, #row>) -> tensor<32xf32, #sum>
  tile.store %at, %max : tensor<32x!tile.ptr<f32>, #sum>, tensor<32xf32, #sum>
  %sum = tile.reduce(%x) axis 1 {
  ^bb0(%l: f32, %r: f32):
    %m = arith.addf %l, %r : f32
    tile.yield %m : f32
  } : (tensor<32x4xf32, #row>) -> tensor<32xf32, #sum>
  tile.store %at, %sum : tensor<32x!tile.ptr<f32>, #sum>, tensor<32xf32, #sum>
  return
}

// -----

#row2 = #ngpu.layout<register = [[0, 1], [0, 2], [32, 0]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [], shape = [64, 4]>
#sum2 = #ngpu.layout<register = [[32]], lane = [[1], [2], [4], [8], [16]], warp = [], shape = [64]>

// Of several rows the maxima are chains, sums, which are rounded, trees.
// CHECK-LABEL: @twoRows
// CHECK: %[[A:.*]] = call {{.*}}float @llvm.maxnum.f32(float %[[E0:.*]], float %[[E1:.*]])
// CHECK: %[[B:.*]] = call {{.*}}float @llvm.maxnum.f32(float %[[A]], float %[[E2:.*]])
// CHECK: call {{.*}}float @llvm.maxnum.f32(float %[[B]], float %[[E3:.*]])
// CHECK-DAG: %[[L:.*]] = fadd {{.*}}float %[[E0]], %[[E1]]
// CHECK-DAG: %[[R:.*]] = fadd {{.*}}float %[[E2]], %[[E3]]
// CHECK: fadd {{.*}}float %[[L]], %[[R]]
func.func @twoRows(%p: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel, ngpu.num_warps = 1 : i32, ngpu.sm = 90 : i32} {
  %c4 = arith.constant dense<4> : tensor<64xi32, #sum2>
  %rows = tile.range 0 to 64 : tensor<64xi32, #sum2>
  %starts = arith.muli %rows, %c4 : tensor<64xi32, #sum2>
  %s = tile.splat %p : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #sum2>
  %at = tile.addptr %s, %starts : tensor<64x!tile.ptr<f32>, #sum2>, tensor<64xi32, #sum2>
  %e = tile.expand_dims %at 1 : tensor<64x!tile.ptr<f32>, #sum2> -> tensor<64x1x!tile.ptr<f32>, #ngpu.layout<register = [[32, 0]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [], shape = [64, 1]>>
  %b = tile.broadcast %e : tensor<64x1x!tile.ptr<f32>, #ngpu.layout<register = [[32, 0]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [], shape = [64, 1]>> -> tensor<64x4x!tile.ptr<f32>, #row2>
  %columns = tile.range 0 to 4 : tensor<4xi32, #ngpu.layout<register = [[1], [2]], lane = [[0], [0], [0], [0], [0]], warp = [], shape = [4]>>
  %ec = tile.expand_dims %columns 0 : tensor<4xi32, #ngpu.layout<register = [[1], [2]], lane = [[0], [0], [0], [0], [0]], warp = [], shape = [4]>> -> tensor<1x4xi32, #ngpu.layout<register = [[0, 1], [0, 2]], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], warp = [], shape = [1, 4]>>
  %bc = tile.broadcast %ec : tensor<1x4xi32, #ngpu.layout<register = [[0, 1], [0, 2]], lane = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]], warp = [], shape = [1, 4]>> -> tensor<64x4xi32, #row2>
  %from = tile.addptr %b, %bc : tensor<64x4x!tile.ptr<f32>, #row2>, tensor<64x4xi32, #row2>
  %x = tile.load %from : tensor<64x4x!tile.ptr<f32>, #row2> -> tensor<64x4xf32, #row2>
  %max = tile.reduce(%x) axis 1 {
  ^bb0(%l: f32, %r: f32):
    %m = arith.maxnumf %l, %r : f32
    tile.yield %m : f32
  } : (tensor<64x4xf32, #row2>) -> tensor<64xf32, #sum2>
  tile.store %at, %max : tensor<64x!tile.ptr<f32>, #sum2>, tensor<64xf32, #sum2>
  %sum = tile.reduce(%x) axis 1 {
  ^bb0(%l: f32, %r: f32):
    %m = arith.addf %l, %r : f32
    tile.yield %m : f32
  } : (tensor<64x4xf32, #row2>) -> tensor<64xf32, #sum2>
  tile.store %at, %sum : tensor<64x!tile.ptr<f32>, #sum2>, tensor<64xf32, #sum2>
  return
}

// -----

// The maximum of 32 elements of a thread: a chain, which takes one register beside them. Their sum is a tree.
// CHECK-LABEL: @many
// CHECK: %[[A:.*]] = call {{.*}}float @llvm.maxnum.f32(
// CHECK-NEXT: %[[B:.*]] = call {{.*}}float @llvm.maxnum.f32(float %[[A]],
// CHECK-NEXT: %[[C:.*]] = call {{.*}}float @llvm.maxnum.f32(float %[[B]],
// CHECK-NEXT: call {{.*}}float @llvm.maxnum.f32(float %[[C]],
// CHECK: %[[D:.*]] = fadd {{.*}}float
// CHECK-NEXT: %[[E:.*]] = fadd {{.*}}float
// CHECK-NEXT: fadd {{.*}}float %[[D]], %[[E]]
#row = #ngpu.layout<register = [[1], [2], [128], [256], [512]], lane = [[4], [8], [16], [32], [64]], warp = [], shape = [1024]>
func.func @many(%p: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel, ngpu.num_warps = 1 : i32, ngpu.sm = 90 : i32} {
  %range = tile.range 0 to 1024 : tensor<1024xi32, #row>
  %base = tile.splat %p : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>, #row>
  %ptrs = tile.addptr %base, %range : tensor<1024x!tile.ptr<f32>, #row>, tensor<1024xi32, #row>
  %x = tile.load %ptrs : tensor<1024x!tile.ptr<f32>, #row> -> tensor<1024xf32, #row>
  %max = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maxnumf %a, %b : f32
    tile.yield %m : f32
  } : (tensor<1024xf32, #row>) -> f32
  %all = tile.splat %max : f32 -> tensor<1024xf32, #row>
  %d = arith.subf %x, %all : tensor<1024xf32, #row>
  %sum = tile.reduce(%d) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tile.yield %s : f32
  } : (tensor<1024xf32, #row>) -> f32
  tile.store %p, %sum : !tile.ptr<f32>, f32
  return
}
