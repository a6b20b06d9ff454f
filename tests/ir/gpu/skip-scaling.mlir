// RUN: nereid-opt %s --gpu-skip-scaling="skip-scaling=always" | FileCheck %s
// RUN: nereid-opt %s --gpu-skip-scaling="skip-scaling=never" | FileCheck %s --check-prefix=OFF
// By default only in divided loops.
// RUN: nereid-opt %s --gpu-skip-scaling | FileCheck %s --check-prefix=OFF
// RUN: sed 's|// DIVIDED|{ngpu.specialised}|' %s | nereid-opt --gpu-skip-scaling | FileCheck %s
// RUN: sed 's|// DIVIDED|{ngpu.specialised}|' %s | nereid-opt --gpu-skip-scaling="skip-scaling=never" | FileCheck %s --check-prefix=OFF

#acc = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]], shape = [64, 16]>
#row = #ngpu.layout<register = [[8]], lane = [[0], [0], [1], [2], [4]], warp = [[16], [32]], shape = [64]>
#col = #ngpu.layout<register = [[8, 0]], lane = [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]], shape = [64, 1]>
#a = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [4, 0], [0, 8], [8, 0], [16, 0], [32, 0]], shape = [64, 16]>
#b = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [4, 0], [0, 8], [8, 0]], shape = [16, 16]>

// Only the factors of the first product are a change of what the loop carries.
// CHECK-LABEL: func.func @scaled
// CHECK: %[[NEW:.*]] = arith.maxnumf
// CHECK: %[[FACTORS:.*]] = math.exp2
// CHECK: %[[WIDE:.*]] = tile.broadcast
// CHECK: %[[ONES:.*]] = arith.constant dense<1.000000e+00> : tensor<64xf32
// CHECK: %[[DIFFER:.*]] = arith.cmpf une, %[[FACTORS]], %[[ONES]]
// CHECK: %[[ANY:.*]] = ngpu.any_in_warp %[[DIFFER]]
// CHECK: %[[SUM:.*]] = scf.if %[[ANY]]
// CHECK-NEXT: %[[PRODUCT:.*]] = arith.mulf %[[ACC:.*]], %[[WIDE]]
// CHECK-NEXT: scf.yield %[[PRODUCT]]
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.yield %[[ACC]]
// CHECK: ngpu.wgmma %{{.*}}, %{{.*}}, %[[SUM]]
// CHECK-NOT: scf.if
// OFF-LABEL: func.func @scaled
// OFF-NOT: scf.if
func.func @scaled(%n: i32, %tops: tensor<64xf32, #row>, %others: tensor<64xf32, #row>)
    attributes {tile.kernel, ngpu.num_warps = 4 : i32, ngpu.num_lanes = 32 : i32} {
  %a = ngpu.local_alloc <64x16xf16, #a>
  %b = ngpu.local_alloc <16x16xf16, #b>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x16xf32, #acc>
  %least = arith.constant dense<0xFF800000> : tensor<64xf32, #row>
  %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero, %top = %least, %scaled = %zero)
      -> (tensor<64x16xf32, #acc>, tensor<64xf32, #row>, tensor<64x16xf32, #acc>) : i32 {
    %new = arith.maxnumf %top, %tops : tensor<64xf32, #row>
    %change = arith.subf %top, %new : tensor<64xf32, #row>
    %factors = math.exp2 %change : tensor<64xf32, #row>
    %0 = tile.expand_dims %factors 1 : tensor<64xf32, #row> -> tensor<64x1xf32, #col>
    %1 = tile.broadcast %0 : tensor<64x1xf32, #col> -> tensor<64x16xf32, #acc>
    %2 = arith.mulf %sum, %1 : tensor<64x16xf32, #acc>
    %3 = ngpu.wgmma %a, %b, %2 : !ngpu.buffer<64x16xf16, #a>, <16x16xf16, #b> -> tensor<64x16xf32, #acc>
    %less = arith.subf %others, %new : tensor<64xf32, #row>
    %scales = math.exp2 %less : tensor<64xf32, #row>
    %4 = tile.expand_dims %scales 1 : tensor<64xf32, #row> -> tensor<64x1xf32, #col>
    %5 = tile.broadcast %4 : tensor<64x1xf32, #col> -> tensor<64x16xf32, #acc>
    %6 = arith.mulf %scaled, %5 : tensor<64x16xf32, #acc>
    scf.yield %3, %new, %6 : tensor<64x16xf32, #acc>, tensor<64xf32, #row>, tensor<64x16xf32, #acc>
  } // DIVIDED
  return
}
