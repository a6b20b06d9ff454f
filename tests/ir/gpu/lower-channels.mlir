// RUN: nereid-opt %s --gpu-lower-channels | FileCheck %s
// RUN: nereid-opt %s | nereid-opt | FileCheck %s --check-prefix=ROUND

#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>

// CHECK-LABEL: func.func @stream
// ROUND-LABEL: func.func @stream
// CHECK: %[[FULL:.*]] = ngpu.local_alloc <2x1xi64
// CHECK: %[[EMPTY:.*]] = ngpu.local_alloc <2x1xi64
// CHECK: ngpu.mbarrier_init %{{.*}}, 1 :
// CHECK: ngpu.mbarrier_init %{{.*}}, 4 :
// CHECK: ngpu.fence_async
func.func @stream(%n: i32) attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  // ROUND: ngpu.channel readers 4 : <2>
  %c = ngpu.channel readers 4 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    // ROUND: ngpu.channel_none
    %none = ngpu.channel_none
    // CHECK: scf.for {{.*}} iter_args(%[[S:.*]] = %{{.*}}, %[[P:.*]] = %{{.*}}, %[[H:.*]] = %c-1_i32) -> (i32, i32, i32)
    %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%slot = %c0, %phase = %c0, %before = %none) -> (i32, i32, !ngpu.hold) : i32 {
      // CHECK: %[[F:.*]] = ngpu.slot %[[FULL]][%[[S]]]
      // CHECK-NEXT: ngpu.mbarrier_wait %[[F]], %[[P]]
      // ROUND: ngpu.channel_get
      %hold = ngpu.channel_get %c[%slot, %phase] : !ngpu.channel<2>
      ngpu.wgmma_wait 0
      // CHECK: %[[SOME:.*]] = arith.cmpi sge, %[[H]], %{{.*}} : i32
      // CHECK: %[[E:.*]] = ngpu.slot %[[EMPTY]][%[[H]]]
      // CHECK-NEXT: ngpu.mbarrier_arrive %[[E]] each_warp if %[[SOME]]
      // ROUND: ngpu.channel_release
      ngpu.channel_release %c, %before : !ngpu.channel<2>
      %next = arith.xori %slot, %c1 : i32
      %turn = arith.xori %phase, %slot : i32
      scf.yield %next, %turn, %hold : i32, i32, !ngpu.hold
    }
    ngpu.wgmma_wait 0
    ngpu.channel_release %c, %r#2 : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    // CHECK: }, {
    // CHECK: scf.for {{.*}} iter_args(%[[S2:.*]] = %{{.*}}, %[[P2:.*]] = %{{.*}})
    %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%slot = %c0, %phase = %c0) -> (i32, i32) : i32 {
      // The phase before, of the other parity.
      // CHECK: %[[Q:.*]] = arith.xori %[[P2]], %c1
      // CHECK: ngpu.mbarrier_wait %{{.*}}, %[[Q]]
      // CHECK: %[[F2:.*]] = ngpu.slot %[[FULL]][%[[S2]]]
      // CHECK: ngpu.mbarrier_expect %[[F2]], 256
      // CHECK: ngpu.tma_load %{{.*}}, %[[F2]]
      // ROUND: ngpu.channel_put %{{.*}}[%{{.*}}, %{{.*}}] {
      // ROUND-NEXT: ^bb0(%{{.*}}: !ngpu.buffer<1xi64
      ngpu.channel_put %c[%slot, %phase] {
      ^bb0(%full: !ngpu.buffer<1xi64, #one>):
        %to = ngpu.slot %ring[%slot] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
        ngpu.tma_load %map[%i], %to, %full : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
      } : !ngpu.channel<2>
      %next = arith.xori %slot, %c1 : i32
      %turn = arith.xori %phase, %slot : i32
      scf.yield %next, %turn : i32, i32
    }
    ngpu.part_yield
  }
  return
}

// Copies of both blocks of a pair fill a slot, and the readers of both release it.
// CHECK-LABEL: func.func @paired
// ROUND-LABEL: func.func @paired
// CHECK: ngpu.mbarrier_init %{{.*}}, 1 :
// CHECK: ngpu.mbarrier_init %{{.*}}, 8 :
// CHECK: ngpu.fence_async cluster
func.func @paired(%beside: i1, %same: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32, ngpu.pairs = 1 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  // ROUND: ngpu.channel readers 4 paired : <2>
  %c = ngpu.channel readers 4 paired : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %hold = ngpu.channel_get %c[%c0, %c0] : !ngpu.channel<2>
    // CHECK: ngpu.mbarrier_arrive %{{.*}} each_warp beside %[[BESIDE:[^ ]*]] :
    // ROUND: ngpu.channel_release %{{.*}}, %{{.*}} beside %{{.*}} : <2>
    ngpu.channel_release %c, %hold beside %beside : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    // The bytes of both are announced here.
    // CHECK: ngpu.mbarrier_expect %{{.*}}, 256
    // CHECK: ngpu.tma_load {{.*}} shared %{{.*}} by %c0
    // ROUND: ngpu.channel_put %{{.*}}[%{{.*}}, %{{.*}}] beside %{{.*}} {
    ngpu.channel_put %c[%c0, %c0] beside %beside {
    ^bb0(%full: !ngpu.buffer<1xi64, #one>):
      %to = ngpu.slot %ring[%c0] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
      ngpu.tma_load %map[%c0], %to, %full shared %same by %c0 : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
    } : !ngpu.channel<2>
    ngpu.part_yield
  }
  return
}
