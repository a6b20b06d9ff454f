// RUN: nereid-opt %s --split-input-file --gpu-pipeline="stages=2 warps=8 specialise=always overlap-stores=waits" | FileCheck %s
// RUN: nereid-opt %s --split-input-file --gpu-pipeline="stages=2 warps=8 specialise=always" | FileCheck %s --check-prefix=GROUPS
// RUN: nereid-opt %s --split-input-file --gpu-pipeline="stages=2 warps=8 specialise=always overlap-stores=never" | FileCheck %s --check-prefix=NEVER

// The store of a tile is waited for when the buffer is written again, and behind the loop.
// CHECK-LABEL: func.func @tiles
// CHECK: ngpu.warp_specialize
// CHECK: %[[OUT:.*]] = ngpu.local_alloc <128x64xf32
// CHECK-NEXT: scf.for
// CHECK: scf.for
// CHECK: ngpu.tma_store_wait 0
// CHECK-NEXT: ngpu.barrier
// CHECK-NEXT: ngpu.local_store %{{.*}}, %[[OUT]]
// CHECK-NEXT: ngpu.fence_async
// CHECK-NEXT: ngpu.barrier
// CHECK: ngpu.tma_store %[[OUT]] to
// CHECK-NEXT: scf.yield
// CHECK: ngpu.tma_store_wait 0
// CHECK-NOT: ngpu.barrier
// CHECK: ngpu.local_dealloc %[[OUT]]

// Each group stores the 64 rows that it has.
// GROUPS-LABEL: func.func @tiles
// GROUPS: %[[OUT:.*]] = ngpu.local_alloc <128x64xf32, {{.*}}> {ngpu.by_group,
// GROUPS: ngpu.tma_store_wait 0 each_group
// GROUPS-NEXT: ngpu.group_barrier
// GROUPS-NEXT: ngpu.local_store %{{.*}}, %[[OUT]]
// GROUPS-NEXT: ngpu.fence_async
// GROUPS-NEXT: ngpu.group_barrier
// GROUPS: ngpu.tma_store %[[OUT]] to {{.*}} chunk 64
// GROUPS-NEXT: scf.yield
// GROUPS: ngpu.tma_store_wait 0 each_group
// GROUPS-NOT: ngpu.barrier
// GROUPS: ngpu.part_yield

// NEVER-LABEL: func.func @tiles
// NEVER: ngpu.warp_specialize
// NEVER: ngpu.tma_store
// NEVER-NEXT: ngpu.tma_store_wait 0
// NEVER-NEXT: ngpu.barrier
// NEVER-NEXT: scf.yield
func.func @tiles(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "x"}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "y"},
                 %z: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "z"}, %n: i32, %s: i64 {tile.divisibility = 8 : i64})
    attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<128x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %c = tile.make_descriptor %z [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<128x64xf32>
  %zero = arith.constant dense<0.0> : tensor<128x64xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  scf.for %i = %c0 to %n step %c128 : i32 {
    %r = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
      %0 = tile.desc_load %a [%i, %k] : !tile.desc<128x64xf16> -> tensor<128x64xf16>
      %1 = tile.desc_load %b [%k, %i] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %2 = tile.dot %0, %1, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %2 : tensor<128x64xf32>
    }
    tile.desc_store %c [%i, %c0], %r : !tile.desc<128x64xf32>, tensor<128x64xf32>
  }
  return
}

// -----

// What is stored is loaded again: the engine must have written it.
// CHECK-LABEL: func.func @again
// CHECK: ngpu.tma_store
// CHECK-NEXT: ngpu.tma_store_wait 0 complete
// GROUPS-LABEL: func.func @again
// GROUPS-NOT: ngpu.group_barrier
// NEVER-LABEL: func.func @again
func.func @again(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "x"}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "y"},
                 %z: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "z"}, %n: i32, %s: i64 {tile.divisibility = 8 : i64})
    attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<128x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %c = tile.make_descriptor %z [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<128x64xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  scf.for %i = %c0 to %n step %c128 : i32 {
    %old = tile.desc_load %c [%i, %c0] : !tile.desc<128x64xf32> -> tensor<128x64xf32>
    %r = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %old) -> (tensor<128x64xf32>) : i32 {
      %0 = tile.desc_load %a [%i, %k] : !tile.desc<128x64xf16> -> tensor<128x64xf16>
      %1 = tile.desc_load %b [%k, %i] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %2 = tile.dot %0, %1, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
      scf.yield %2 : tensor<128x64xf32>
    }
    tile.desc_store %c [%i, %c0], %r : !tile.desc<128x64xf32>, tensor<128x64xf32>
  }
  return
}

// -----

// Sums that the copy engine adds to memory: their order does not matter, so they need not be complete. Each group adds the 64 columns that it has.
// CHECK-LABEL: func.func @sums
// CHECK: ngpu.tma_store_wait 0
// CHECK: ngpu.barrier
// CHECK-NEXT: ngpu.local_store %{{.*}}, %[[OUT:.*]] :
// CHECK: ngpu.tma_store %[[OUT]] to {{.*}} reduce fadd :
// CHECK-NOT: complete
// GROUPS-LABEL: func.func @sums
// GROUPS: ngpu.tma_store_wait 0 each_group
// GROUPS-NEXT: ngpu.group_barrier
// GROUPS-NEXT: ngpu.local_store %{{.*}}, %[[OUT:.*]] :
// GROUPS-NEXT: ngpu.fence_async
// GROUPS-NEXT: ngpu.group_barrier
// GROUPS: ngpu.tma_store %[[OUT]] to {{.*}} reduce fadd columns 64
// GROUPS-NOT: complete
// NEVER-LABEL: func.func @sums
// NEVER: ngpu.tma_store {{.*}} reduce fadd
// NEVER-NEXT: ngpu.tma_store_wait 0{{$}}
func.func @sums(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "a"},
                %b: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "b"},
                %c: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "c"}, %length: i32)
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %width = arith.constant 128 : i32
  %stride = arith.constant 128 : i64
  %zero = arith.constant dense<0.0> : tensor<128x64xf32>
  %ad = tile.make_descriptor %a [%width, %width] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<128x128xf16>
  %bd = tile.make_descriptor %b [%length, %width] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x128xf16>
  %cd = tile.make_descriptor %c [%length, %width] strides [%stride] copy_engine : !tile.ptr<f32> -> !tile.desc<64x128xf32>
  %ab = tile.desc_load %ad [%c0, %c0] : !tile.desc<128x128xf16> -> tensor<128x128xf16>
  scf.for %m = %c0 to %length step %c64 : i32 {
    %bb = tile.desc_load %bd [%m, %c0] : !tile.desc<64x128xf16> -> tensor<64x128xf16>
    %bt = tile.trans %bb [1, 0] : tensor<64x128xf16> -> tensor<128x64xf16>
    %p = tile.dot %ab, %bt, %zero : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
    %pt = tile.trans %p [1, 0] : tensor<128x64xf32> -> tensor<64x128xf32>
    tile.desc_reduce fadd %cd [%m, %c0], %pt : !tile.desc<64x128xf32>, tensor<64x128xf32>
  }
  return
}
