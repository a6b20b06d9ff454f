// RUN: nereid-opt %s --split-input-file --gpu-pipeline="stages=2 warps=8 specialise=always" | FileCheck %s

// Blocks of a tensor of three dimensions may begin in front of its rows. Each group of four warps stores its 64 rows, and leaves products out if none of them is inside.
// The place of the rows, a load and a difference, is known in front of the loop; a load of another argument does not need the store to be complete.
// CHECK-LABEL: func.func @groups
// CHECK: %[[OUT:.*]] = ngpu.local_alloc <128x64xf16, {{.*}}> {ngpu.by_group,
// CHECK: %[[ROW:.*]] = tile.load
// CHECK: %[[FIRST:.*]] = arith.subi %{{.*}}, %[[ROW]]
// CHECK: %[[INSIDE:.*]] = ngpu.any_in_warp
// CHECK: %[[SUMS:.*]]:4 = scf.if %[[INSIDE]]
// CHECK: scf.for
// CHECK: ngpu.mbarrier_wait
// CHECK: ngpu.wgmma {{.*}} async
// CHECK: ngpu.wgmma_wait 1
// CHECK: ngpu.mbarrier_arrive
// CHECK: ngpu.wgmma_wait 0 for
// CHECK-NEXT: scf.yield
// CHECK: } else {
// CHECK: scf.for
// CHECK: ngpu.mbarrier_wait
// CHECK-NOT: ngpu.wgmma
// CHECK: ngpu.mbarrier_arrive
// CHECK: scf.yield
// CHECK: scf.yield
// CHECK: arith.truncf %[[SUMS]]#0
// CHECK: ngpu.tma_store_wait 0 each_group
// CHECK-NEXT: ngpu.group_barrier
// CHECK: ngpu.tma_store %[[OUT]] to {{.*}}[%[[ROW]], {{.*}}] chunk 64 : <128x64xf16
// CHECK-NOT: complete
// CHECK: ngpu.part_yield
func.func @groups(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "x"}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "y"},
                  %z: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "z"}, %table: !tile.ptr<i32> {tile.name = "table"}, %n: i32, %s: i64 {tile.divisibility = 8 : i64})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<128x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %c = tile.make_descriptor %z [%n, %c128, %n] strides [%s, %s] copy_engine : !tile.ptr<f16> -> !tile.desc<1x128x64xf16>
  %zero = arith.constant dense<0.0> : tensor<128x64xf32>
  scf.for %i = %c0 to %n step %c1 : i32 {
    %place = tile.addptr %table, %i : !tile.ptr<i32>, i32
    %row = tile.load %place : !tile.ptr<i32> -> i32
    %r = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %0 = tile.desc_load %a [%i, %k] : !tile.desc<128x64xf16> -> tensor<128x64xf16>
      %1 = tile.desc_load %b [%k, %i] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %2 = tile.dot %0, %1, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %2 : tensor<128x64xf32>
    }
    %first = arith.subi %i, %row : i32
    %half = arith.truncf %r : tensor<128x64xf32> to tensor<128x64xf16>
    %block = tile.expand_dims %half 0 : tensor<128x64xf16> -> tensor<1x128x64xf16>
    tile.desc_store %c [%row, %first, %c0], %block : !tile.desc<1x128x64xf16>, tensor<1x128x64xf16>
  }
  return
}

// -----

// Other operations between the sums and the store: all products are computed.
// CHECK-LABEL: func.func @used
// CHECK-NOT: scf.if
// CHECK: ngpu.wgmma {{.*}} async
// CHECK-NOT: scf.if
// CHECK: ngpu.tma_store {{.*}} chunk 64 : <128x64xf16
func.func @used(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "x"}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "y"},
                %z: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "z"}, %n: i32, %s: i64 {tile.divisibility = 8 : i64})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<128x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %c = tile.make_descriptor %z [%n, %c128, %n] strides [%s, %s] copy_engine : !tile.ptr<f16> -> !tile.desc<1x128x64xf16>
  %zero = arith.constant dense<0.0> : tensor<128x64xf32>
  scf.for %i = %c0 to %n step %c128 : i32 {
    %number = arith.constant 1.0 : f16
    %r = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %0 = tile.desc_load %a [%i, %k] : !tile.desc<128x64xf16> -> tensor<128x64xf16>
      %1 = tile.desc_load %b [%k, %i] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %2 = tile.dot %0, %1, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %2 : tensor<128x64xf32>
    }
    %half = arith.truncf %r : tensor<128x64xf32> to tensor<128x64xf16>
    %all = tile.splat %number : f16 -> tensor<128x64xf16>
    %sum = arith.addf %half, %all : tensor<128x64xf16>
    %block = tile.expand_dims %sum 0 : tensor<128x64xf16> -> tensor<1x128x64xf16>
    tile.desc_store %c [%i, %c0, %c0], %block : !tile.desc<1x128x64xf16>, tensor<1x128x64xf16>
  }
  return
}

// -----

// The tensor that is stored to is read: the store is complete before.
// CHECK-LABEL: func.func @read
// CHECK-NOT: scf.if
// CHECK: ngpu.tma_store_wait 0 complete
func.func @read(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "x"}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "y"},
                %z: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "z"}, %n: i32, %s: i64 {tile.divisibility = 8 : i64})
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<128x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %c = tile.make_descriptor %z [%n, %c128, %n] strides [%s, %s] copy_engine : !tile.ptr<f16> -> !tile.desc<1x128x64xf16>
  %zero = arith.constant dense<0.0> : tensor<128x64xf32>
  scf.for %i = %c0 to %n step %c128 : i32 {
    %place = tile.addptr %z, %i : !tile.ptr<f16>, i32
    %number = tile.load %place : !tile.ptr<f16> -> f16
    %r = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %0 = tile.desc_load %a [%i, %k] : !tile.desc<128x64xf16> -> tensor<128x64xf16>
      %1 = tile.desc_load %b [%k, %i] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %2 = tile.dot %0, %1, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %2 : tensor<128x64xf32>
    }
    %half = arith.truncf %r : tensor<128x64xf32> to tensor<128x64xf16>
    %all = tile.splat %number : f16 -> tensor<128x64xf16>
    %sum = arith.addf %half, %all : tensor<128x64xf16>
    %block = tile.expand_dims %sum 0 : tensor<128x64xf16> -> tensor<1x128x64xf16>
    tile.desc_store %c [%i, %c0, %c0], %block : !tile.desc<1x128x64xf16>, tensor<1x128x64xf16>
  }
  return
}
