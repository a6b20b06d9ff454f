// RUN: nereid-opt %s --gpu-plan-tensor-maps --gpu-assign-layouts --gpu-partition-warps="stages=3" | FileCheck %s
// RUN: nereid-opt %s --gpu-plan-tensor-maps --gpu-assign-layouts --gpu-partition-warps="stages=3 specialise=never" | FileCheck %s --check-prefix=NEVER

// The consumers keep one product in flight: a slot is given back an iteration after it was got.
// CHECK-LABEL: func.func @matmul
// CHECK: %[[A:.*]] = ngpu.local_alloc <3x64x64xf16
// CHECK: %[[B:.*]] = ngpu.local_alloc <3x64x128xf16
// CHECK: %[[C:.*]] = ngpu.channel readers 4 : <3>
// CHECK: ngpu.warp_specialize warps [1] registers [0, 0] {
// CHECK: %[[NONE:.*]] = ngpu.channel_none
// CHECK: scf.for {{.*}} iter_args({{.*}}, %[[SLOT:.*]] = %{{.*}}, %[[PHASE:.*]] = %{{.*}}, %[[BEFORE:.*]] = %[[NONE]])
// CHECK: %[[HOLD:.*]] = ngpu.channel_get %[[C]][%[[SLOT]], %[[PHASE]]]
// CHECK: ngpu.slot %[[A]][%[[SLOT]]]
// CHECK: ngpu.wgmma {{.*}} async
// CHECK-NEXT: ngpu.wgmma_wait 1
// CHECK-NEXT: ngpu.channel_release %[[C]], %[[BEFORE]]
// CHECK: scf.yield {{.*}}, %[[HOLD]]
// CHECK: ngpu.wgmma_wait 0
// CHECK-NEXT: ngpu.channel_release %[[C]]
// CHECK-NEXT: ngpu.local_dealloc %[[A]]
// CHECK: tile.desc_store
// CHECK: ngpu.part_yield
// The producer has the loop's bounds and coordinates, and no tensors.
// CHECK-NEXT: }, {
// CHECK-NOT: tensor<
// CHECK: scf.for
// CHECK-NOT: tensor<
// CHECK: ngpu.channel_put %[[C]]
// CHECK-COUNT-2: ngpu.tma_load
// CHECK-NOT: tensor<
// CHECK: ngpu.part_yield
// NEVER-LABEL: func.func @matmul
// NEVER-NOT: ngpu.warp_specialize
func.func @matmul(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                  %z: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32, %s: i64 {tile.divisibility = 8 : i64}, %i: i32, %j: i32)
    attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x128xf16>
  %c = tile.make_descriptor %z [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<64x128xf32>
  %zero = arith.constant dense<0.0> : tensor<64x128xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %r = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
    %0 = tile.desc_load %a [%i, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %1 = tile.desc_load %b [%k, %j] : !tile.desc<64x128xf16> -> tensor<64x128xf16>
    %2 = tile.dot %0, %1, %acc : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
    scf.yield %2 : tensor<64x128xf32>
  } {tile.warp_specialize}
  tile.desc_store %c [%i, %j], %r : !tile.desc<64x128xf32>, tensor<64x128xf32>
  return
}

// A loop around that asks: the state of the ring goes through it, and through a branch.
// CHECK-LABEL: func.func @tiles
// CHECK: ngpu.warp_specialize
// CHECK: scf.for {{.*}} iter_args(%[[S:.*]] = %{{.*}}, %[[P:.*]] = %{{.*}}) -> (i32, i32)
// CHECK: scf.if {{.*}} -> (i32, i32)
// CHECK: ngpu.channel_get
// CHECK: ngpu.local_dealloc
// CHECK: }, {
// CHECK: scf.for {{.*}} -> (i32, i32)
// CHECK: scf.if {{.*}} -> (i32, i32)
// CHECK: scf.for {{.*}} -> (i32, i32)
// CHECK: ngpu.channel_put
// CHECK: } else {
// CHECK-NEXT: scf.yield %{{.*}}, %{{.*}} : i32, i32
func.func @tiles(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                 %z: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32, %s: i64 {tile.divisibility = 8 : i64}, %some: i1)
    attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %c = tile.make_descriptor %z [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<64x64xf32>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  scf.for %i = %c0 to %n step %c64 : i32 {
    scf.if %some {
      %r = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
        %0 = tile.desc_load %a [%i, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
        %1 = tile.desc_load %b [%k, %i] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
        %2 = tile.dot %0, %1, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
        scf.yield %2 : tensor<64x64xf32>
      }
      tile.desc_store %c [%i, %c0], %r : !tile.desc<64x64xf32>, tensor<64x64xf32>
    }
  } {tile.warp_specialize}
  return
}

// What is stored is loaded again: nothing may go ahead.
// CHECK-LABEL: func.func @in_place
// CHECK-NOT: ngpu.warp_specialize
func.func @in_place(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %n: i32, %s: i64 {tile.divisibility = 8 : i64}) attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  scf.for %i = %c0 to %n step %c64 : i32 {
    %r = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %0 = tile.desc_load %a [%i, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %2 = tile.dot %0, %0, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
      scf.yield %2 : tensor<64x64xf32>
    }
    %h = arith.truncf %r : tensor<64x64xf32> to tensor<64x64xf16>
    tile.desc_store %a [%i, %c0], %h : !tile.desc<64x64xf16>, tensor<64x64xf16>
  } {tile.warp_specialize}
  return
}

// A bound that is read from memory, in front of all stores: the producer reads it, too.
// CHECK-LABEL: func.func @counted
// CHECK: ngpu.warp_specialize
// CHECK: tile.load %{{.*}} : !tile.ptr<i32> -> i32
// CHECK: }, {
// CHECK: tile.load %{{.*}} : !tile.ptr<i32> -> i32
// CHECK: ngpu.channel_put
func.func @counted(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %z: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %count: !tile.ptr<i32>, %n: i32,
                   %s: i64 {tile.divisibility = 8 : i64}) attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %c = tile.make_descriptor %z [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<64x64xf32>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %end = tile.load %count : !tile.ptr<i32> -> i32
  scf.for %i = %c0 to %end step %c64 : i32 {
    %r = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %0 = tile.desc_load %a [%i, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %2 = tile.dot %0, %0, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
      scf.yield %2 : tensor<64x64xf32>
    }
    tile.desc_store %c [%i, %c0], %r : !tile.desc<64x64xf32>, tensor<64x64xf32>
  } {tile.warp_specialize}
  return
}

// A loop that the source asks to divide: numbers are read ahead of stores through other arguments.
// CHECK-LABEL: func.func @counted_within
// CHECK: ngpu.warp_specialize
// CHECK: }, {
// CHECK: scf.for
// CHECK: tile.load %{{.*}} : !tile.ptr<i32> -> i32
// CHECK: scf.for
// CHECK: ngpu.channel_put
func.func @counted_within(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %z: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %count: !tile.ptr<i32>, %n: i32,
                          %s: i64 {tile.divisibility = 8 : i64}) attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %c = tile.make_descriptor %z [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<64x64xf32>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  scf.for %i = %c0 to %n step %c64 : i32 {
    %end = tile.load %count : !tile.ptr<i32> -> i32
    %r = scf.for %k = %c0 to %end step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %0 = tile.desc_load %a [%i, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %2 = tile.dot %0, %0, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
      scf.yield %2 : tensor<64x64xf32>
    }
    tile.desc_store %c [%i, %c0], %r : !tile.desc<64x64xf32>, tensor<64x64xf32>
  } {tile.warp_specialize}
  return
}

// What is read may have been stored by the iteration before: nothing goes ahead.
// CHECK-LABEL: func.func @counted_and_changed
// CHECK-NOT: ngpu.warp_specialize
func.func @counted_and_changed(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %z: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %count: !tile.ptr<i32>, %n: i32,
                          %s: i64 {tile.divisibility = 8 : i64}) attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %c = tile.make_descriptor %z [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<64x64xf32>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  scf.for %i = %c0 to %n step %c64 : i32 {
    %end = tile.load %count : !tile.ptr<i32> -> i32
    %r = scf.for %k = %c0 to %end step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %0 = tile.desc_load %a [%i, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %2 = tile.dot %0, %0, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
      scf.yield %2 : tensor<64x64xf32>
    }
    tile.store %count, %i : !tile.ptr<i32>, i32
    tile.desc_store %c [%i, %c0], %r : !tile.desc<64x64xf32>, tensor<64x64xf32>
  } {tile.warp_specialize}
  return
}
