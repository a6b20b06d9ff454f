// RUN: nereid-opt %s --gpu-plan-tensor-maps=warps=8 --gpu-assign-layouts=warps=8 --gpu-partition-warps="warps=8 specialise=always" | FileCheck %s

// A product an iteration behind the others. Registers (240 of a thread) hold the result of dp only when that of dq has been used. dk, which adds to
// an accumulator, is in flight over the end of the iteration; its slot is given back when the first wait of the next one has seen it end. Numbers
// of queries come through slots as well, and are read where they are needed.
// CHECK-LABEL: func.func @behind
// CHECK: ngpu.warp_specialize
// CHECK: %[[K:.*]] = ngpu.local_alloc
// CHECK: scf.for {{.*}} iter_args(%[[DKA:[^ ]*]] = {{.*}}, %[[DVA:[^ ]*]] = {{.*}}, %[[BEFORE:[^ ]*]] = {{.*}}, %{{.*}} = {{.*}}, %{{.*}} = {{.*}}, %{{.*}} = {{.*}}, %[[LAST:[^ ]*]] = {{.*}})
// CHECK: %[[HOLD:.*]] = ngpu.channel_get
// CHECK: %[[DQ:.*]] = ngpu.wgmma {{.*}} async
// CHECK-NEXT: %[[S:.*]] = ngpu.wgmma {{.*}} async
// CHECK: %[[DQW:.*]] = ngpu.wgmma_wait 1 for %[[DQ]]
// CHECK-NEXT: ngpu.channel_release %{{.*}}, %[[LAST]]
// CHECK: tile.desc_reduce fadd
// CHECK-NEXT: %[[DP:.*]] = ngpu.wgmma {{.*}} async
// CHECK: %[[SW:.*]] = ngpu.wgmma_wait 1 for %[[S]]
// CHECK-NEXT: arith.mulf %[[SW]]
// CHECK: ngpu.local_load
// CHECK: arith.subf
// CHECK: %[[DV:.*]] = ngpu.wgmma %{{.*}}, %{{.*}}, %[[DVA]] async
// CHECK: ngpu.wgmma_wait 1 for %[[DP]]
// CHECK: %[[DK:.*]] = ngpu.wgmma %{{.*}}, %{{.*}}, %[[DKA]] async
// CHECK: %[[DVW:.*]] = ngpu.wgmma_wait 1 for %[[DV]]
// CHECK-NEXT: scf.yield %[[DK]], %[[DVW]], {{.*}}, %[[HOLD]]
// CHECK: ngpu.wgmma_wait 0
// CHECK: ngpu.channel_release
func.func @behind(%q: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "q"},
                    %g: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "g"},
                    %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"},
                    %k: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "k"},
                    %v: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "v"},
                    %dk: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "dk"},
                    %dv: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "dv"},
                    %dq: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "dq"}, %length: i32)
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %head = arith.constant 128 : i32
  %stride = arith.constant 128 : i64
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %zeros = arith.constant dense<0.0> : tensor<128x64xf32>
  %none = arith.constant dense<0.0> : tensor<128x64xf16>
  %half = arith.constant dense<0.5> : tensor<128x64xf32>
  %qd = tile.make_descriptor %q [%length, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x128xf16>
  %gd = tile.make_descriptor %g [%length, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x128xf16>
  %cd = tile.make_descriptor %c [%length] strides [] copy_engine : !tile.ptr<f32> -> !tile.desc<64xf32>
  %kd = tile.make_descriptor %k [%head, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<128x128xf16>
  %vd = tile.make_descriptor %v [%head, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<128x128xf16>
  %dkd = tile.make_descriptor %dk [%head, %head] strides [%stride] copy_engine : !tile.ptr<f32> -> !tile.desc<128x128xf32>
  %dvd = tile.make_descriptor %dv [%head, %head] strides [%stride] copy_engine : !tile.ptr<f32> -> !tile.desc<128x128xf32>
  %dqd = tile.make_descriptor %dq [%length, %head] strides [%stride] copy_engine : !tile.ptr<f32> -> !tile.desc<64x128xf32>
  %kb = tile.desc_load %kd [%c0, %c0] : !tile.desc<128x128xf16> -> tensor<128x128xf16>
  %vb = tile.desc_load %vd [%c0, %c0] : !tile.desc<128x128xf16> -> tensor<128x128xf16>
  %kt = tile.trans %kb [1, 0] : tensor<128x128xf16> -> tensor<128x128xf16>
  %r:4 = scf.for %m = %c0 to %length step %c64 iter_args(%dka = %zero, %dva = %zero, %before = %none, %last = %length)
      -> (tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x64xf16>, i32) : i32 {
    %qb = tile.desc_load %qd [%m, %c0] : !tile.desc<64x128xf16> -> tensor<64x128xf16>
    %gb = tile.desc_load %gd [%m, %c0] : !tile.desc<64x128xf16> -> tensor<64x128xf16>
    %cb = tile.desc_load %cd [%m] : !tile.desc<64xf32> -> tensor<64xf32>
    %dqt = tile.dot %kt, %before, %zeros : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
    %dqb = tile.trans %dqt [1, 0] : tensor<128x64xf32> -> tensor<64x128xf32>
    tile.desc_reduce fadd %dqd [%last, %c0], %dqb : !tile.desc<64x128xf32>, tensor<64x128xf32>
    %qt = tile.trans %qb [1, 0] : tensor<64x128xf16> -> tensor<128x64xf16>
    %gt = tile.trans %gb [1, 0] : tensor<64x128xf16> -> tensor<128x64xf16>
    %s = tile.dot %kb, %qt, %zeros : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
    %scaled = arith.mulf %s, %half : tensor<128x64xf32>
    %row = tile.expand_dims %cb 0 : tensor<64xf32> -> tensor<1x64xf32>
    %rows = tile.broadcast %row : tensor<1x64xf32> -> tensor<128x64xf32>
    %w = arith.subf %scaled, %rows : tensor<128x64xf32>
    %dp = tile.dot %vb, %gt, %zeros : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
    %ds = arith.addf %w, %dp : tensor<128x64xf32>
    %wh = arith.truncf %w : tensor<128x64xf32> to tensor<128x64xf16>
    %dvn = tile.dot %wh, %gb, %dva : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
    %dsh = arith.truncf %ds : tensor<128x64xf32> to tensor<128x64xf16>
    %dkn = tile.dot %dsh, %qb, %dka : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
    scf.yield %dkn, %dvn, %dsh, %m : tensor<128x128xf32>, tensor<128x128xf32>, tensor<128x64xf16>, i32
  }
  %dqt = tile.dot %kt, %r#2, %zeros : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
  %dqb = tile.trans %dqt [1, 0] : tensor<128x64xf32> -> tensor<64x128xf32>
  tile.desc_reduce fadd %dqd [%r#3, %c0], %dqb : !tile.desc<64x128xf32>, tensor<64x128xf32>
  tile.desc_store %dkd [%c0, %c0], %r#0 : !tile.desc<128x128xf32>, tensor<128x128xf32>
  tile.desc_store %dvd [%c0, %c0], %r#1 : !tile.desc<128x128xf32>, tensor<128x128xf32>
  return
}
