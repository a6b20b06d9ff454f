// RUN: nereid-opt %s --gpu-pipeline="stages=3" --emit-nvidia="stage=ptx" -o /dev/null | FileCheck %s
// RUN: nereid-opt %s --gpu-pipeline="stages=3" --emit-nvidia="stage=check" -o /dev/null | FileCheck %s --check-prefix=SASS
// SASS: assembled: 0 bytes of spills

// Maps are parameters that the copy engine reads where they lie; one thread asks, all wait.
// CHECK-LABEL: .entry matmul(
// CHECK-COUNT-3: .param .align 64 .b8 matmul_param_{{[0-9]+}}[128]
// CHECK-COUNT-3: prefetch.tensormap
// CHECK: mbarrier.init.shared::cta.b64
// CHECK: fence.proxy.async.shared::cta;
// CHECK: bar.sync
// CHECK: mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r{{[0-9]+}}], 24576;
// A of 64 x 64 is one box, B of 64 x 128 two.
// CHECK-COUNT-3: cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
// CHECK: mbarrier.try_wait.parity.shared::cta.b64
// CHECK: wgmma.mma_async
// CHECK: bar.sync
// CHECK-COUNT-3: cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
// CHECK: wgmma.wait_group.sync.aligned 0;
// CHECK: fence.proxy.async.shared::cta;
// CHECK: bar.sync
// CHECK: cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group
// CHECK: cp.async.bulk.commit_group;
// CHECK: cp.async.bulk.wait_group.read 0;
func.func @matmul(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "x"}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "y"},
                  %z: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "z"}, %n: i32, %s: i64 {tile.divisibility = 8 : i64}, %i: i32, %j: i32)
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
  }
  tile.desc_store %c [%i, %j], %r : !tile.desc<64x128xf32>, tensor<64x128xf32>
  return
}
