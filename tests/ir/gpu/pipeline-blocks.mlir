// RUN: nereid-opt %s --gpu-pipeline="stages=3" | FileCheck %s

// Blocks of descriptors are asked for two iterations ahead, into rings of three slots with an mbarrier each.
// CHECK-LABEL: func.func @matmul
func.func @matmul(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                  %z: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32, %s: i64 {tile.divisibility = 8 : i64}, %i: i32, %j: i32)
    attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x128xf16>
  %c = tile.make_descriptor %z [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<64x128xf32>
  %zero = arith.constant dense<0.0> : tensor<64x128xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  // CHECK-DAG: %[[A:.*]] = ngpu.local_alloc <3x64x64xf16
  // CHECK-DAG: %[[B:.*]] = ngpu.local_alloc <3x64x128xf16
  // CHECK-DAG: %[[BARS:.*]] = ngpu.local_alloc <3x1xi64
  // CHECK-COUNT-3: ngpu.mbarrier_init
  // CHECK: ngpu.fence_async
  // CHECK-NEXT: ngpu.barrier
  // Two iterations before the loop, if they exist.
  // CHECK: ngpu.mbarrier_expect %{{.*}}, 24576 if
  // CHECK: ngpu.tma_load {{.*}} if
  // CHECK: ngpu.tma_load {{.*}} if
  // CHECK: ngpu.mbarrier_expect %{{.*}}, 24576 if
  // CHECK: ngpu.tma_load {{.*}} if
  // CHECK: ngpu.tma_load {{.*}} if
  // CHECK: scf.for
  // CHECK: ngpu.mbarrier_wait
  // CHECK: arith.xori
  // CHECK-NOT: ngpu.local_load
  // CHECK: ngpu.wgmma {{.*}} async
  // All threads have done with the slot before it is filled again.
  // CHECK: ngpu.wgmma_wait 1
  // CHECK-NEXT: ngpu.barrier
  // CHECK: ngpu.tma_load {{.*}} if
  // CHECK: ngpu.tma_load {{.*}} if
  // CHECK-NOT: ngpu.barrier
  // CHECK: scf.yield
  // CHECK: ngpu.wgmma_wait 0
  // CHECK: ngpu.mbarrier_inval
  // CHECK: ngpu.tma_store
  %r = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
    %0 = tile.desc_load %a [%i, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %1 = tile.desc_load %b [%k, %j] : !tile.desc<64x128xf16> -> tensor<64x128xf16>
    %2 = tile.dot %0, %1, %acc : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
    scf.yield %2 : tensor<64x128xf32>
  }
  tile.desc_store %c [%i, %j], %r : !tile.desc<64x128xf32>, tensor<64x128xf32>
  return
}
