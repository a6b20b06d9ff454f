// RUN: nereid-opt %s --gpu-plan-tensor-maps --gpu-assign-layouts --gpu-lower-tensor-copies --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @copy
// CHECK-SAME: ngpu.tensor_maps = 2 : i32
func.func @copy(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "x"}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "y"},
                %m: i32, %n: i32, %s: i64 {tile.divisibility = 8 : i64}, %i: i32, %j: i32) attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%m, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<16x64xf16>
  %b = tile.make_descriptor %y [%m, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<16x64xf16>
  // CHECK-DAG: %[[BUF:.*]] = ngpu.local_alloc <16x64xf16
  // CHECK-DAG: %[[BAR:.*]] = ngpu.local_alloc <1xi64
  // CHECK: ngpu.mbarrier_init %[[BAR]], 1
  // CHECK-NEXT: ngpu.fence_async
  // CHECK-NEXT: ngpu.barrier
  // CHECK-NEXT: ngpu.mbarrier_expect %[[BAR]], 2048
  // CHECK-NEXT: %[[MAP:.*]] = ngpu.tensor_map 0
  // CHECK-NEXT: ngpu.tma_load %[[MAP]][%{{.*}}, %{{.*}}], %[[BUF]], %[[BAR]]
  // CHECK: ngpu.mbarrier_wait %[[BAR]]
  // CHECK-NEXT: ngpu.barrier
  // CHECK-NEXT: ngpu.mbarrier_inval %[[BAR]]
  // CHECK-NEXT: %[[V:.*]] = ngpu.local_load %[[BUF]]
  %0 = tile.desc_load %a [%i, %j] : !tile.desc<16x64xf16> -> tensor<16x64xf16>
  // CHECK: %[[W:.*]] = arith.addf %[[V]], %[[V]]
  %1 = arith.addf %0, %0 : tensor<16x64xf16>
  // CHECK: %[[OUT:.*]] = ngpu.local_alloc %[[W]]
  // CHECK-NEXT: ngpu.fence_async
  // CHECK-NEXT: ngpu.barrier
  // CHECK-NEXT: %[[MAP1:.*]] = ngpu.tensor_map 1
  // CHECK-NEXT: ngpu.tma_store %[[OUT]] to %[[MAP1]]
  // CHECK-NEXT: ngpu.tma_store_wait 0{{ *$}}
  // CHECK-NEXT: ngpu.barrier
  tile.desc_store %b [%i, %j], %1 : !tile.desc<16x64xf16>, tensor<16x64xf16>
  // CHECK-NOT: tile.make_descriptor
  return
}

// -----

// Operands of wgmma stay where the engine put them; two loads, one mbarrier.
// CHECK-LABEL: func.func @operands
func.func @operands(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                    %n: i32, %s: i64 {tile.divisibility = 8 : i64}, %i: i32, %z: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %acc = arith.constant dense<0.0> : tensor<64x64xf32>
  %c = tile.make_descriptor %z [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<64x64xf32>
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %c1 = arith.constant 1 : i32
  // CHECK: %[[A:.*]] = ngpu.local_alloc <64x64xf16
  // CHECK: %[[B:.*]] = ngpu.local_alloc <64x64xf16
  // CHECK: ngpu.mbarrier_expect %{{.*}}, 16384
  // CHECK: ngpu.tma_load %{{.*}}, %[[A]],
  // CHECK: ngpu.tma_load %{{.*}}, %[[B]],
  // CHECK-NOT: ngpu.local_load
  // CHECK: ngpu.wgmma %[[A]], %[[B]],
  %0 = tile.desc_load %a [%i, %n] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
  %j = arith.addi %i, %c1 : i32
  %1 = tile.desc_load %b [%j, %n] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
  %2 = tile.dot %0, %1, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
  tile.desc_store %c [%i, %n], %2 : !tile.desc<64x64xf32>, tensor<64x64xf32>
  return
}

// -----

// A reduction; another access of the kernel could meet it, so it is waited for entirely.
// CHECK-LABEL: func.func @reduction
func.func @reduction(%x: !tile.ptr<i32> {tile.divisibility = 16 : i64}, %n: i32) attributes {tile.kernel} {
  %v = arith.constant dense<1> : tensor<64xi32>
  %a = tile.make_descriptor %x [%n] strides [] copy_engine : !tile.ptr<i32> -> !tile.desc<64xi32>
  // CHECK: ngpu.tma_store %{{.*}} to %{{.*}}[%{{.*}}] reduce max
  // CHECK-NEXT: ngpu.tma_store_wait 0 complete
  tile.desc_reduce max %a [%n], %v : !tile.desc<64xi32>, tensor<64xi32>
  // CHECK: ngpu.tma_store
  tile.desc_store %a [%n], %v : !tile.desc<64xi32>, tensor<64xi32>
  return
}

// -----

// What no launcher computes becomes pointers after all.
// CHECK-LABEL: func.func @not_planned
// CHECK-NOT: ngpu.tensor_maps
// CHECK: tile.store
func.func @not_planned(%x: !tile.ptr<i32> {tile.divisibility = 16 : i64}, %n: i32) attributes {tile.kernel} {
  %v = arith.constant dense<1> : tensor<64xi32>
  %m = arith.divsi %n, %n : i32
  %a = tile.make_descriptor %x [%m] strides [] copy_engine : !tile.ptr<i32> -> !tile.desc<64xi32>
  tile.desc_store %a [%n], %v : !tile.desc<64xi32>, tensor<64xi32>
  return
}
