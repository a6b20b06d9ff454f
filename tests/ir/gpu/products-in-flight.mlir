// RUN: nereid-opt %s --gpu-plan-tensor-maps --gpu-assign-layouts --gpu-partition-warps="specialise=always" | FileCheck %s

// Five products: each starts when its operands are there, and is waited for where its result is needed.
// CHECK-LABEL: func.func @backward
// CHECK: ngpu.warp_specialize
// CHECK: %[[K:.*]] = ngpu.local_alloc
// CHECK: scf.for
// CHECK: %[[HOLD:.*]] = ngpu.channel_get
// CHECK: %[[S:.*]] = ngpu.wgmma %[[K]], {{.*}} async
// CHECK-NEXT: %[[DP:.*]] = ngpu.wgmma {{.*}} async
// CHECK: %[[SW:.*]] = ngpu.wgmma_wait 1 for %[[S]]
// CHECK: %[[W:.*]] = arith.mulf %[[SW]]
// CHECK-NEXT: %[[WH:.*]] = arith.truncf %[[W]]
// CHECK-NEXT: %[[DV:.*]] = ngpu.wgmma %[[WH]], {{.*}} async
// CHECK: %[[DPW:.*]] = ngpu.wgmma_wait 1 for %[[DP]]
// CHECK: %[[DS:.*]] = arith.addf %[[W]], %[[DPW]]
// CHECK-NEXT: %[[DSH:.*]] = arith.truncf %[[DS]]
// CHECK-NEXT: %[[DK:.*]] = ngpu.wgmma %[[DSH]], {{.*}} async
// The transpose is read from shared memory along its columns, not gathered into registers.
// CHECK: %[[DSB:.*]] = ngpu.local_alloc %[[DSH]]
// CHECK-NEXT: %[[DST:.*]] = ngpu.trans_buffer %[[DSB]] [1, 0]
// CHECK: %[[DQ:.*]] = ngpu.wgmma %[[DST]], %{{.*}} async
// CHECK: ngpu.wgmma_wait 0 for %[[DV]], %[[DK]], %[[DQ]]
// CHECK: tile.desc_store
// CHECK: ngpu.channel_release %{{.*}}, %[[HOLD]]
// CHECK-NEXT: scf.yield
func.func @backward(%q: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "q"},
                    %g: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "g"},
                    %k: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "k"},
                    %v: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "v"},
                    %dk: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "dk"},
                    %dv: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "dv"},
                    %dq: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "dq"}, %length: i32)
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %head = arith.constant 64 : i32
  %stride = arith.constant 64 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %half = arith.constant dense<0.5> : tensor<64x64xf32>
  %qd = tile.make_descriptor %q [%length, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %gd = tile.make_descriptor %g [%length, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %kd = tile.make_descriptor %k [%c64, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %vd = tile.make_descriptor %v [%c64, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %dkd = tile.make_descriptor %dk [%c64, %head] strides [%stride] copy_engine : !tile.ptr<f32> -> !tile.desc<64x64xf32>
  %dvd = tile.make_descriptor %dv [%c64, %head] strides [%stride] copy_engine : !tile.ptr<f32> -> !tile.desc<64x64xf32>
  %dqd = tile.make_descriptor %dq [%length, %head] strides [%stride] copy_engine : !tile.ptr<f32> -> !tile.desc<64x64xf32>
  %kb = tile.desc_load %kd [%c0, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
  %vb = tile.desc_load %vd [%c0, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
  %r:2 = scf.for %m = %c0 to %length step %c64 iter_args(%dka = %zero, %dva = %zero) -> (tensor<64x64xf32>, tensor<64x64xf32>) : i32 {
    %qb = tile.desc_load %qd [%m, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %gb = tile.desc_load %gd [%m, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %qt = tile.trans %qb [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %gt = tile.trans %gb [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %s = tile.dot %kb, %qt, %zero : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    %w = arith.mulf %s, %half : tensor<64x64xf32>
    %wh = arith.truncf %w : tensor<64x64xf32> to tensor<64x64xf16>
    %dvn = tile.dot %wh, %gb, %dva : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    %dp = tile.dot %vb, %gt, %zero : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    %ds = arith.addf %w, %dp : tensor<64x64xf32>
    %dsh = arith.truncf %ds : tensor<64x64xf32> to tensor<64x64xf16>
    %dkn = tile.dot %dsh, %qb, %dka : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    %dst = tile.trans %dsh [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %dqn = tile.dot %dst, %kb, %zero : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    tile.desc_store %dqd [%m, %c0], %dqn : !tile.desc<64x64xf32>, tensor<64x64xf32>
    scf.yield %dkn, %dvn : tensor<64x64xf32>, tensor<64x64xf32>
  }
  tile.desc_store %dkd [%c0, %c0], %r#0 : !tile.desc<64x64xf32>, tensor<64x64xf32>
  tile.desc_store %dvd [%c0, %c0], %r#1 : !tile.desc<64x64xf32>, tensor<64x64xf32>
  return
}
