// A program of two blocks: its warps are those of both, and partial results go to both.
// RUN: nereid-opt %s --tile-pipeline --gpu-pipeline="warps=2 blocks=2" | FileCheck %s
// RUN: nereid-opt %s --tile-pipeline --gpu-pipeline="warps=2 blocks=2" --emit-nvidia="stage=ptx" -o /dev/null | FileCheck %s --check-prefix=PTX
// RUN: nereid-opt %s --tile-pipeline --gpu-pipeline="warps=2 blocks=2" --emit-nvidia="stage=check" -o /dev/null | FileCheck %s --check-prefix=SASS
// RUN: nereid-opt %s --tile-pipeline --gpu-pipeline="warps=2 blocks=2 sm=80" --emit-nvidia="sm=80 stage=ptx" -o /dev/null | FileCheck %s --check-prefix=ONE

// SASS: assembled: 0 bytes of spills

// All blocks have started before one writes to others; the loads do not wait for that.
// CHECK: warp = {{\[\[}}128], [256]]
// CHECK-LABEL: func.func @total
// CHECK-SAME: ngpu.num_blocks = 2 : i32
// CHECK-SAME: ngpu.num_warps = 4 : i32
// CHECK: ngpu.cluster_barrier arrive_only
// CHECK: tile.load
// CHECK: ngpu.cluster_barrier wait_only
// CHECK-NEXT: tile.reduce
// CHECK-NOT: barrier
// CHECK: return

// PTX-LABEL: .entry total(
// PTX: .reqntid 64
// PTX: .reqnctapercluster 2
// PTX: barrier.cluster.arrive.relaxed.aligned;
// PTX: %clusterid.x
// PTX: barrier.cluster.wait.aligned;
// PTX-COUNT-2: st.shared::cluster.b32
// PTX: barrier.cluster.arrive.aligned;
// PTX-NEXT: barrier.cluster.wait.aligned;
// PTX: ld.shared.

// ONE-NOT: cluster
// ONE: .reqntid 64
// ONE-NOT: cluster
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
