// Reductions across the blocks of a cluster send their partial results: no scratch memory, and no barrier but that of the start.
// RUN: nereid-opt %s --tile-pipeline --gpu-pipeline="warps=2 blocks=2 sends=true" | FileCheck %s
// RUN: nereid-opt %s --tile-pipeline --gpu-pipeline="warps=2 blocks=2 sends=true" --emit-nvidia="stage=ptx" -o /dev/null | FileCheck %s --check-prefix=PTX
// RUN: nereid-opt %s --tile-pipeline --gpu-pipeline="warps=2 blocks=2 sends=true" --emit-nvidia="stage=check ptx=81" -o /dev/null | FileCheck %s --check-prefix=SASS
// RUN: nereid-opt %s --tile-pipeline --gpu-pipeline="warps=4 sends=true" | FileCheck %s --check-prefix=ONE

// SASS: assembled: 0 bytes of spills

// Two mbarriers of 8 bytes and two slots of four fp32.
// CHECK-LABEL: func.func @total
// CHECK-SAME: ngpu.send_bytes = 16 : i32
// CHECK-SAME: ngpu.shared_bytes = 48 : i32
// CHECK: ngpu.cluster_barrier arrive_only
// CHECK: tile.load
// CHECK: ngpu.cluster_barrier wait_only
// CHECK-NEXT: tile.reduce
// CHECK-NOT: ngpu.scratch
// CHECK: {ngpu.sends}
// CHECK-NOT: barrier
// CHECK: return

// A lane for each block sends.
// PTX-LABEL: .entry total(
// PTX-COUNT-2: mbarrier.init.shared::cta.b64 {{.*}}, 1;
// PTX: fence.mbarrier_init.release.cluster;
// PTX: barrier.cluster.arrive.relaxed.aligned;
// PTX: barrier.cluster.wait.aligned;
// PTX-COUNT-1: st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32
// PTX-NOT: st.async
// PTX: mbarrier.arrive.expect_tx.shared::cta.b64 _, {{.*}}, 16;
// PTX: mbarrier.try_wait.parity
// PTX: ld.shared.
// PTX-NOT: barrier.cluster

// ONE-NOT: ngpu.send
module {
  func.func @total(%out: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "out"}, %x: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "x"}) attributes {tile.kernel} {
    %row = tile.program_id 0
    %size = arith.constant 512 : i32
    %start = arith.muli %row, %size : i32
    %from = tile.addptr %x, %start : !tile.ptr<f32>, i32
    %at = tile.range 0 to 512 : tensor<512xi32>
    %s = tile.splat %from : !tile.ptr<f32> -> tensor<512x!tile.ptr<f32>>
    %p = tile.addptr %s, %at : tensor<512x!tile.ptr<f32>>, tensor<512xi32>
    %v = tile.load %p : tensor<512x!tile.ptr<f32>> -> tensor<512xf32>
    %sum = tile.reduce(%v) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<512xf32>) -> f32
    %to = tile.addptr %out, %row : !tile.ptr<f32>, i32
    tile.store %to, %sum : !tile.ptr<f32>, f32
    return
  }
}
