// RUN: nereid-opt --emit-nvidia %s --split-input-file -o /dev/null | FileCheck %s
// RUN: nereid-opt --emit-nvidia="stage=check" %s --split-input-file -o /dev/null | FileCheck %s --check-prefix=SASS
// SASS-COUNT-3: assembled: 0 bytes of spills

#line = #ngpu.layout<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[64]], shape = [128]>

// A loop that carries a tensor: a phi for each register; nothing runs when there is no trip.
// CHECK-LABEL: define ptx_kernel void @loops(
// CHECK: br i1 %{{.*}}, label %[[LOOP:.*]], label %[[END:.*]]
// CHECK: [[LOOP]]:
// CHECK: %i = phi i32
// CHECK-COUNT-2: phi contract float
// CHECK: add nsw i32 %i
// CHECK: br i1 %{{.*}}, label %[[LOOP]], label %[[END]], !llvm.loop ![[META:[0-9]+]]
// CHECK: [[END]]:
// CHECK-COUNT-2: phi contract float
// CHECK: ![[META]] = distinct !{![[META]], ![[COUNT:[0-9]+]]}
// CHECK: ![[COUNT]] = !{!"llvm.loop.unroll.count", i32 4}
func.func @loops(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32) attributes {tile.kernel, ngpu.num_warps = 2 : i32, ngpu.sm = 90 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<128xf32, #line>
  %range = tile.range 0 to 128 : tensor<128xi32, #line>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #line>
  %p = tile.addptr %xs, %range : tensor<128x!tile.ptr<f32>, #line>, tensor<128xi32, #line>
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128xf32, #line>) : i32 {
    %v = tile.load %p : tensor<128x!tile.ptr<f32>, #line> -> tensor<128xf32, #line>
    %even = arith.remsi %i, %n : i32
    %is = arith.cmpi eq, %even, %c0 : i32
    %next = scf.if %is -> (tensor<128xf32, #line>) {
      %s = arith.addf %acc, %v : tensor<128xf32, #line>
      scf.yield %s : tensor<128xf32, #line>
    } else {
      scf.yield %acc : tensor<128xf32, #line>
    }
    scf.if %is {
      tile.barrier
    }
    scf.yield %next : tensor<128xf32, #line>
  } {tile.unroll = 4 : i32}
  tile.store %p, %sum : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>
  return
}

// -----

// CHECK-LABEL: define ptx_kernel void @whiles(
// CHECK: while:
// CHECK: phi i32
// CHECK: br i1 %{{.*}}, label %while.body, label %while.end
func.func @whiles(%x: !tile.ptr<i32>, %n: i32) attributes {tile.kernel, ngpu.num_warps = 2 : i32, ngpu.sm = 90 : i32} {
  %c3 = arith.constant 3 : i32
  %r = scf.while (%a = %n) : (i32) -> i32 {
    %more = arith.cmpi sgt, %a, %c3 : i32
    scf.condition(%more) %a : i32
  } do {
  ^bb0(%b: i32):
    %half = arith.divsi %b, %c3 : i32
    scf.yield %half : i32
  }
  tile.store %x, %r : !tile.ptr<i32>, i32
  return
}

// -----

#line = #ngpu.layout<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[64]], shape = [128]>

// A function that is not inlined takes and gives registers.
// CHECK-LABEL: define ptx_kernel void @calls(
// CHECK: call contract { float, float } @twice(float %{{.*}}, float %{{.*}}, i32 %{{.*}})
// CHECK: define internal { float, float } @twice(float %{{.*}}, float %{{.*}}, i32 %{{.*}})
func.func private @twice(%v: tensor<128xf32, #line>, %n: i32) -> tensor<128xf32, #line> attributes {no_inline} {
  %f = arith.sitofp %n : i32 to f32
  %s = tile.splat %f : f32 -> tensor<128xf32, #line>
  %r = arith.mulf %v, %s : tensor<128xf32, #line>
  return %r : tensor<128xf32, #line>
}
func.func @calls(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32) attributes {tile.kernel, ngpu.num_warps = 2 : i32, ngpu.sm = 90 : i32} {
  %range = tile.range 0 to 128 : tensor<128xi32, #line>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #line>
  %p = tile.addptr %xs, %range : tensor<128x!tile.ptr<f32>, #line>, tensor<128xi32, #line>
  %v = tile.load %p : tensor<128x!tile.ptr<f32>, #line> -> tensor<128xf32, #line>
  %w = func.call @twice(%v, %n) : (tensor<128xf32, #line>, i32) -> tensor<128xf32, #line>
  tile.store %p, %w : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>
  return
}
