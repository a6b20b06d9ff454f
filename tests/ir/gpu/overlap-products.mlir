// RUN: nereid-opt %s --gpu-plan-tensor-maps=warps=8 --gpu-assign-layouts=warps=8 --gpu-partition-warps="warps=8 specialise=always" | FileCheck %s
// RUN: nereid-opt %s --gpu-plan-tensor-maps --gpu-assign-layouts --gpu-partition-warps="specialise=always" | FileCheck %s --check-prefix=ONE

// Two products, the second of which needs the first: an iteration issues its first product and the second one of the iteration before.
// CHECK-LABEL: func.func @attention
// CHECK: %[[K:.*]] = ngpu.local_alloc <3x64x64xf16
// CHECK: %[[KC:.*]] = ngpu.channel readers 8
// CHECK: %[[V:.*]] = ngpu.local_alloc <3x64x64xf16
// CHECK: %[[VC:.*]] = ngpu.channel readers 8
// CHECK: ngpu.warp_specialize
// CHECK-NEXT: ngpu.turn_start
// CHECK: %[[NONE:.*]] = ngpu.channel_none
// CHECK: scf.for %[[J:.*]] = %[[LOW:.*]] to %[[HIGH:.*]] step {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}, %[[SLOT:.*]] = %{{.*}}, %[[PHASE:.*]] = %{{.*}}, %[[P:.*]] = %{{.*}}, %[[BEFORE:.*]] = %[[NONE]], %[[ITS:.*]] = %{{.*}})
// CHECK: %[[HOLD:.*]] = ngpu.channel_get %[[KC]][%[[SLOT]], %[[PHASE]]]
// CHECK: ngpu.turn_take
// CHECK-NEXT: %[[S:.*]] = ngpu.wgmma {{.*}} async
// CHECK-NEXT: %[[LATER:.*]] = arith.cmpi ne, %[[J]], %[[LOW]]
// CHECK-NEXT: %[[BOTH:.*]]:2 = scf.if %[[LATER]]
// CHECK-NEXT: %[[OLD:.*]] = ngpu.slot %[[V]][%[[ITS]]]
// CHECK-NEXT: ngpu.wgmma %[[P]], %[[OLD]], %[[ACC]] async
// CHECK-NEXT: ngpu.turn_pass
// CHECK-NEXT: ngpu.wgmma_wait 1 for %[[S]]
// CHECK: } else {
// CHECK-NEXT: ngpu.turn_pass
// CHECK-NEXT: ngpu.wgmma_wait 0 for %[[S]]
// CHECK: ngpu.channel_release %[[KC]], %[[HOLD]]
// CHECK: %[[E:.*]] = math.exp2 %[[BOTH]]#0
// CHECK: %[[NEXT:.*]] = ngpu.channel_get %[[VC]]
// CHECK-NEXT: %[[DONE:.*]]:2 = ngpu.wgmma_wait 0 for %[[BOTH]]#1, %[[E]]
// CHECK-NEXT: ngpu.channel_release %[[VC]], %[[BEFORE]]
// CHECK-NEXT: %[[HALVES:.*]] = arith.truncf %[[DONE]]#1
// CHECK-NEXT: %[[SCALED:.*]] = arith.mulf %[[DONE]]#0
// CHECK-NEXT: scf.yield %[[SCALED]], %{{.*}}, %{{.*}}, %[[HALVES]], %[[NEXT]], %[[SLOT]]
// The second product of the last iteration.
// CHECK: %[[ANY:.*]] = arith.cmpi slt, %[[LOW]], %[[HIGH]]
// CHECK-NEXT: scf.if %[[ANY]]
// CHECK: ngpu.wgmma
// CHECK-NOT: async
// CHECK: ngpu.channel_release %[[VC]]
// CHECK: }, {
// CHECK: ngpu.channel_put %[[KC]]
// CHECK: ngpu.channel_put %[[VC]]
// One group of warps has nobody to take turns with.
// ONE-LABEL: func.func @attention
// ONE-NOT: ngpu.turn
func.func @attention(%q: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "q"},
                     %k: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "k"},
                     %v: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "v"},
                     %out: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "out"}, %length: i32)
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %rows = arith.constant 128 : i32
  %head = arith.constant 64 : i32
  %stride = arith.constant 64 : i64
  %zero = arith.constant dense<0.0> : tensor<128x64xf32>
  %half = arith.constant dense<0.5> : tensor<128x64xf32>
  %qd = tile.make_descriptor %q [%rows, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<128x64xf16>
  %kd = tile.make_descriptor %k [%length, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %vd = tile.make_descriptor %v [%length, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %od = tile.make_descriptor %out [%rows, %head] strides [%stride] copy_engine : !tile.ptr<f32> -> !tile.desc<128x64xf32>
  %qb = tile.desc_load %qd [%c0, %c0] : !tile.desc<128x64xf16> -> tensor<128x64xf16>
  %sum = scf.for %j = %c0 to %length step %c64 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
    %kb = tile.desc_load %kd [%j, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %kt = tile.trans %kb [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %s = tile.dot %qb, %kt, %zero : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
    %e = math.exp2 %s : tensor<128x64xf32>
    %p = arith.truncf %e : tensor<128x64xf32> to tensor<128x64xf16>
    %scaled = arith.mulf %acc, %half : tensor<128x64xf32>
    %vb = tile.desc_load %vd [%j, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %next = tile.dot %p, %vb, %scaled : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
    scf.yield %next : tensor<128x64xf32>
  }
  tile.desc_store %od [%c0, %c0], %sum : !tile.desc<128x64xf32>, tensor<128x64xf32>
  return
}

// Two loops take their slots from one ring: the second goes on where the first has stopped.
// CHECK-LABEL: func.func @two_loops
// CHECK-COUNT-2: ngpu.channel readers
// CHECK-NOT: ngpu.channel readers
// CHECK: %[[FIRST:.*]]:6 = scf.for
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %[[FIRST]]#1, %{{.*}} = %[[FIRST]]#2, {{.*}})
// CHECK: ngpu.local_dealloc
// CHECK: }, {
// CHECK: %[[PUT:.*]]:2 = scf.for
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[PUT]]#0, %{{.*}} = %[[PUT]]#1)
func.func @two_loops(%q: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "q"},
                     %k: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "k"},
                     %v: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "v"},
                     %out: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "out"}, %length: i32, %split: i32)
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %rows = arith.constant 128 : i32
  %head = arith.constant 64 : i32
  %stride = arith.constant 64 : i64
  %zero = arith.constant dense<0.0> : tensor<128x64xf32>
  %half = arith.constant dense<0.5> : tensor<128x64xf32>
  %qd = tile.make_descriptor %q [%rows, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<128x64xf16>
  %kd = tile.make_descriptor %k [%length, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %vd = tile.make_descriptor %v [%length, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %od = tile.make_descriptor %out [%rows, %head] strides [%stride] copy_engine : !tile.ptr<f32> -> !tile.desc<128x64xf32>
  %qb = tile.desc_load %qd [%c0, %c0] : !tile.desc<128x64xf16> -> tensor<128x64xf16>
  %part = scf.for %j = %c0 to %split step %c64 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
    %kb = tile.desc_load %kd [%j, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %kt = tile.trans %kb [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %s = tile.dot %qb, %kt, %zero : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
    %e = math.exp2 %s : tensor<128x64xf32>
    %p = arith.truncf %e : tensor<128x64xf32> to tensor<128x64xf16>
    %scaled = arith.mulf %acc, %half : tensor<128x64xf32>
    %vb = tile.desc_load %vd [%j, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %next = tile.dot %p, %vb, %scaled : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
    scf.yield %next : tensor<128x64xf32>
  }
  %sum = scf.for %j = %split to %length step %c64 iter_args(%acc = %part) -> (tensor<128x64xf32>) : i32 {
    %kb = tile.desc_load %kd [%j, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %kt = tile.trans %kb [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %s = tile.dot %qb, %kt, %zero : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
    %e = math.exp2 %s : tensor<128x64xf32>
    %p = arith.truncf %e : tensor<128x64xf32> to tensor<128x64xf16>
    %scaled = arith.mulf %acc, %half : tensor<128x64xf32>
    %vb = tile.desc_load %vd [%j, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %next = tile.dot %p, %vb, %scaled : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
    scf.yield %next : tensor<128x64xf32>
  }
  tile.desc_store %od [%c0, %c0], %sum : !tile.desc<128x64xf32>, tensor<128x64xf32>
  return
}

// The accumulator is read otherwise: products end within their iteration, and one channel brings both blocks.
// CHECK-LABEL: func.func @also_read
// CHECK-COUNT-1: ngpu.channel readers
// CHECK-NOT: ngpu.channel readers
// CHECK: ngpu.warp_specialize
// CHECK-NOT: ngpu.turn
// CHECK-NOT: async
// CHECK: ngpu.part_yield
func.func @also_read(%q: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "q"},
                     %k: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "k"},
                     %v: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "v"},
                     %out: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "out"}, %length: i32)
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %rows = arith.constant 128 : i32
  %head = arith.constant 64 : i32
  %stride = arith.constant 64 : i64
  %zero = arith.constant dense<0.0> : tensor<128x64xf32>
  %half = arith.constant dense<0.5> : tensor<128x64xf32>
  %qd = tile.make_descriptor %q [%rows, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<128x64xf16>
  %kd = tile.make_descriptor %k [%length, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %vd = tile.make_descriptor %v [%length, %head] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %od = tile.make_descriptor %out [%rows, %head] strides [%stride] copy_engine : !tile.ptr<f32> -> !tile.desc<128x64xf32>
  %qb = tile.desc_load %qd [%c0, %c0] : !tile.desc<128x64xf16> -> tensor<128x64xf16>
  %sum = scf.for %j = %c0 to %length step %c64 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
    %kb = tile.desc_load %kd [%j, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %kt = tile.trans %kb [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %s = tile.dot %qb, %kt, %zero : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
    %e = math.exp2 %s : tensor<128x64xf32>
    %f = arith.addf %e, %acc : tensor<128x64xf32>
    %p = arith.truncf %f : tensor<128x64xf32> to tensor<128x64xf16>
    %scaled = arith.mulf %acc, %half : tensor<128x64xf32>
    %vb = tile.desc_load %vd [%j, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %next = tile.dot %p, %vb, %scaled : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
    scf.yield %next : tensor<128x64xf32>
  }
  tile.desc_store %od [%c0, %c0], %sum : !tile.desc<128x64xf32>, tensor<128x64xf32>
  return
}
