// RUN: nereid-opt --emit-nvidia="stage=ptx ptx=87" %s --split-input-file -o /dev/null | FileCheck %s
// RUN: nereid-opt --emit-nvidia="stage=ptx sm=80" %s --split-input-file -o /dev/null | FileCheck %s --check-prefix=OLD
// RUN: nereid-opt --emit-nvidia="stage=check" %s --split-input-file -o /dev/null | FileCheck %s --check-prefix=SASS
// RUN: nereid-opt --emit-nvidia="stage=check sm=80" %s --split-input-file -o /dev/null | FileCheck %s --check-prefix=SASS
// RUN: nereid-opt --emit-nvidia="stage=check sm=120" %s --split-input-file -o /dev/null | FileCheck %s --check-prefix=SASS
// SASS-COUNT-8: assembled: 0 bytes of spills

#line = #ngpu.layout<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[0]], shape = [128]>

// Nobody reads the results: sums of neighbours in one instruction, one owner, fences once.
// CHECK-LABEL: .entry sums(
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: fence.acq_rel.gpu
// CHECK: red.relaxed.gpu.global.add.v4.f32
// CHECK: red.relaxed.gpu.global.add.noftz.v2.f16x2
// CHECK: red.relaxed.gpu.global.add.noftz.v2.bf16x2
// CHECK: fence.acq_rel.gpu
// OLD-LABEL: .entry sums(
// OLD-COUNT-4: red.relaxed.gpu.global.add.f32
// OLD-COUNT-2: red.relaxed.gpu.global.add.noftz.f16x2
// OLD: atom.{{.*}}cas.b32
func.func @sums(%p: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                %r: !tile.ptr<bf16> {tile.divisibility = 16 : i64}) attributes {tile.kernel, ngpu.num_warps = 2 : i32, ngpu.sm = 90 : i32} {
  %range = tile.range 0 to 128 : tensor<128xi32, #line>
  %ps = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #line>
  %pp = tile.addptr %ps, %range : tensor<128x!tile.ptr<f32>, #line>, tensor<128xi32, #line>
  %x = tile.load %pp : tensor<128x!tile.ptr<f32>, #line> -> tensor<128xf32, #line>
  %a = tile.atomic_rmw fadd %pp, %x : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>
  %qs = tile.splat %q : !tile.ptr<f16> -> tensor<128x!tile.ptr<f16>, #line>
  %qp = tile.addptr %qs, %range : tensor<128x!tile.ptr<f16>, #line>, tensor<128xi32, #line>
  %h = arith.truncf %x : tensor<128xf32, #line> to tensor<128xf16, #line>
  %b = tile.atomic_rmw fadd %qp, %h sem relaxed : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>
  %rs = tile.splat %r : !tile.ptr<bf16> -> tensor<128x!tile.ptr<bf16>, #line>
  %rp = tile.addptr %rs, %range : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xi32, #line>
  %g = arith.truncf %x : tensor<128xf32, #line> to tensor<128xbf16, #line>
  %c = tile.atomic_rmw fadd %rp, %g sem acquire : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>
  return
}

// -----

#line = #ngpu.layout<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0]], shape = [64]>

// A single 16-bit float is added as one half of the word around it, never in a loop of compare-and-swap.
// CHECK-LABEL: .entry halves(
// CHECK: red.relaxed.gpu.global.add.noftz.bf16x2
// CHECK-NOT: add.noftz.bf16 [
// CHECK: atom.relaxed.gpu.global.add.noftz.f16x2
// CHECK-NOT: add.noftz.f16 [
// OLD-LABEL: .entry halves(
// OLD: atom.relaxed.gpu.global.add.noftz.f16x2
func.func @halves(%p: !tile.ptr<bf16> {tile.divisibility = 16 : i64}, %q: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %n: i32)
    attributes {tile.kernel, ngpu.num_warps = 2 : i32, ngpu.sm = 90 : i32} {
  %range = tile.range 0 to 64 : tensor<64xi32, #line>
  %step = tile.splat %n : i32 -> tensor<64xi32, #line>
  %at = arith.muli %range, %step : tensor<64xi32, #line>
  %ps = tile.splat %p : !tile.ptr<bf16> -> tensor<64x!tile.ptr<bf16>, #line>
  %pp = tile.addptr %ps, %at : tensor<64x!tile.ptr<bf16>, #line>, tensor<64xi32, #line>
  %x = tile.load %pp : tensor<64x!tile.ptr<bf16>, #line> -> tensor<64xbf16, #line>
  %a = tile.atomic_rmw fadd %pp, %x sem relaxed : tensor<64x!tile.ptr<bf16>, #line>, tensor<64xbf16, #line>
  %qs = tile.splat %q : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>, #line>
  %qp = tile.addptr %qs, %at : tensor<64x!tile.ptr<f16>, #line>, tensor<64xi32, #line>
  %y = tile.load %qp : tensor<64x!tile.ptr<f16>, #line> -> tensor<64xf16, #line>
  %old = tile.atomic_rmw fadd %qp, %y sem relaxed {ngpu.scratch = 0 : i32} : tensor<64x!tile.ptr<f16>, #line>, tensor<64xf16, #line>
  tile.store %qp, %old : tensor<64x!tile.ptr<f16>, #line>, tensor<64xf16, #line>
  return
}

// -----

#line = #ngpu.layout<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0]], shape = [64]>

// Results of elements that two warps hold go through scratch memory.
// CHECK-LABEL: .entry kinds(
// CHECK: @%p{{.*}} atom.relaxed.sys.global.add.u32
// CHECK: st.shared
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: ld.shared
// CHECK: atom.relaxed.gpu.global.max.s32
// CHECK: atom.relaxed.gpu.global.min.u32
func.func @kinds(%p: !tile.ptr<i32> {tile.divisibility = 16 : i64}, %q: !tile.ptr<f32>, %n: i32)
    attributes {tile.kernel, ngpu.num_warps = 2 : i32, ngpu.sm = 90 : i32} {
  %range = tile.range 0 to 64 : tensor<64xi32, #line>
  %limit = tile.splat %n : i32 -> tensor<64xi32, #line>
  %mask = arith.cmpi slt, %range, %limit : tensor<64xi32, #line>
  %ps = tile.splat %p : !tile.ptr<i32> -> tensor<64x!tile.ptr<i32>, #line>
  %pp = tile.addptr %ps, %range : tensor<64x!tile.ptr<i32>, #line>, tensor<64xi32, #line>
  %a = tile.atomic_rmw add %pp, %range mask %mask sem acquire scope sys {ngpu.scratch = 0 : i32} : tensor<64x!tile.ptr<i32>, #line>, tensor<64xi32, #line>, mask tensor<64xi1, #line>
  %qs = tile.splat %q : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>, #line>
  %qp = tile.addptr %qs, %range : tensor<64x!tile.ptr<f32>, #line>, tensor<64xi32, #line>
  %f = arith.sitofp %a : tensor<64xi32, #line> to tensor<64xf32, #line>
  %b = tile.atomic_rmw fmax %qp, %f {ngpu.scratch = 256 : i32} : tensor<64x!tile.ptr<f32>, #line>, tensor<64xf32, #line>
  tile.store %qp, %b : tensor<64x!tile.ptr<f32>, #line>, tensor<64xf32, #line>
  %c = tile.atomic_cas %pp, %a, %range {ngpu.scratch = 512 : i32} : tensor<64x!tile.ptr<i32>, #line>, tensor<64xi32, #line>
  tile.store %pp, %c : tensor<64x!tile.ptr<i32>, #line>, tensor<64xi32, #line>
  return
}

// -----

// A lock: one thread tries, all learn the outcome.
// CHECK-LABEL: .entry lock(
// CHECK: fence.acq_rel.gpu
// CHECK: atom.relaxed.gpu.global.cas.b32
// CHECK: atom.relaxed.gpu.global.add.f32
// CHECK: atom.relaxed.gpu.global.exch.b32
func.func @lock(%lock: !tile.ptr<i32>, %sum: !tile.ptr<f32>) attributes {tile.kernel, ngpu.num_warps = 4 : i32, ngpu.sm = 90 : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %one = arith.constant 1.0 : f32
  scf.while : () -> () {
    %old = tile.atomic_cas %lock, %c0, %c1 {ngpu.scratch = 0 : i32} : !tile.ptr<i32>, i32
    %taken = arith.cmpi eq, %old, %c1 : i32
    scf.condition(%taken)
  } do {
    scf.yield
  }
  %s = tile.atomic_rmw fadd %sum, %one {ngpu.scratch = 8 : i32} : !tile.ptr<f32>, f32
  tile.store %sum, %s : !tile.ptr<f32>, f32
  tile.barrier
  %x = tile.atomic_rmw xchg %lock, %c0 : !tile.ptr<i32>, i32
  return
}

// -----

// What has no instruction becomes a loop of compare-and-swap.
// CHECK-LABEL: .entry narrow(
// CHECK: cas.b
func.func @narrow(%p: !tile.ptr<i8>, %q: !tile.ptr<bf16>, %r: !tile.ptr<i16>) attributes {tile.kernel, ngpu.num_warps = 4 : i32, ngpu.sm = 90 : i32} {
  %c1 = arith.constant 1 : i8
  %one = arith.constant 1.0 : bf16
  %c2 = arith.constant 2 : i16
  %a = tile.atomic_rmw add %p, %c1 : !tile.ptr<i8>, i8
  %b = tile.atomic_rmw fmax %q, %one {ngpu.scratch = 0 : i32} : !tile.ptr<bf16>, bf16
  tile.store %q, %b : !tile.ptr<bf16>, bf16
  %c = tile.atomic_cas %r, %c2, %c2 {ngpu.scratch = 8 : i32} : !tile.ptr<i16>, i16
  tile.store %r, %c : !tile.ptr<i16>, i16
  return
}

// -----

// A flag: one thread loads and stores it, ordered by the instructions themselves.
// CHECK-LABEL: .entry flag(
// CHECK-NOT: fence
// CHECK: ld.acquire.gpu.global.b32
// CHECK: st.shared
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: ld.shared
// CHECK: ld.relaxed.sys.global.b64
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: st.release.gpu.global.b32
// CHECK: st.relaxed.cta.global.b8
// CHECK-NOT: atom.
// CHECK-NOT: fence
// CHECK: ret;
func.func @flag(%p: !tile.ptr<i32>, %q: !tile.ptr<f64>, %r: !tile.ptr<i8>) attributes {tile.kernel, ngpu.num_warps = 4 : i32, ngpu.sm = 90 : i32} {
  %c1 = arith.constant 1 : i32
  %byte = arith.constant 3 : i8
  %seen = tile.atomic_load %p {ngpu.scratch = 0 : i32} : !tile.ptr<i32> -> i32
  %x = tile.atomic_load %q sem relaxed scope sys {ngpu.scratch = 8 : i32} : !tile.ptr<f64> -> f64
  tile.store %q, %x : !tile.ptr<f64>, f64
  %next = arith.addi %seen, %c1 : i32
  tile.atomic_store %p, %next : !tile.ptr<i32>, i32
  tile.atomic_store %r, %byte sem relaxed scope cta : !tile.ptr<i8>, i8
  return
}

// -----

#line = #ngpu.layout<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128]], shape = [256]>

// One instruction for a thread's elements, each of which stays a word of its own; masks are predicates.
// CHECK-LABEL: .entry blocks(
// CHECK: ld.acquire.gpu.global.v4.b32
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: ld.relaxed.gpu.global.v4.b16
// CHECK: @%p{{.*}} ld.relaxed.gpu.global.b32
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: st.release.gpu.global.v4.b32
// CHECK: st.relaxed.gpu.global.v4.b16
// CHECK: @%p{{.*}} st.relaxed.gpu.global.b32
// CHECK-NOT: fence
// CHECK: ret;
func.func @blocks(%p: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %h: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %n: i32)
    attributes {tile.kernel, ngpu.num_warps = 2 : i32, ngpu.sm = 90 : i32} {
  %range = tile.range 0 to 256 : tensor<256xi32, #line>
  %limit = tile.splat %n : i32 -> tensor<256xi32, #line>
  %mask = arith.cmpi slt, %range, %limit : tensor<256xi32, #line>
  %ps = tile.splat %p : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>, #line>
  %pp = tile.addptr %ps, %range : tensor<256x!tile.ptr<f32>, #line>, tensor<256xi32, #line>
  %hs = tile.splat %h : !tile.ptr<f16> -> tensor<256x!tile.ptr<f16>, #line>
  %hp = tile.addptr %hs, %range : tensor<256x!tile.ptr<f16>, #line>, tensor<256xi32, #line>
  %x = tile.atomic_load %pp : tensor<256x!tile.ptr<f32>, #line> -> tensor<256xf32, #line>
  %y = tile.atomic_load %hp sem relaxed : tensor<256x!tile.ptr<f16>, #line> -> tensor<256xf16, #line>
  %z = tile.atomic_load %pp mask %mask sem relaxed : tensor<256x!tile.ptr<f32>, #line>, mask tensor<256xi1, #line> -> tensor<256xf32, #line>
  tile.atomic_store %pp, %x : tensor<256x!tile.ptr<f32>, #line>, tensor<256xf32, #line>
  tile.atomic_store %hp, %y sem relaxed : tensor<256x!tile.ptr<f16>, #line>, tensor<256xf16, #line>
  tile.atomic_store %pp, %z mask %mask sem relaxed : tensor<256x!tile.ptr<f32>, #line>, tensor<256xf32, #line>, mask tensor<256xi1, #line>
  return
}

// -----

#line = #ngpu.layout<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0]], shape = [64]>

// Of several instructions a fence orders all; what two warps hold is loaded by one of them, for both must see one value.
// CHECK-LABEL: .entry pieces(
// CHECK: @%p{{.*}} ld.relaxed.gpu.global.b32
// CHECK: @%p{{.*}} ld.relaxed.gpu.global.b32
// CHECK: fence.acq_rel.gpu
// CHECK: st.shared
// CHECK: bar{{(rier)?}}.{{(cta.)?}}sync
// CHECK: ld.shared
// CHECK: fence.acq_rel.gpu
// CHECK: @%p{{.*}} st.relaxed.gpu.global.b32
// CHECK: @%p{{.*}} st.relaxed.gpu.global.b32
func.func @pieces(%p: !tile.ptr<i32>, %n: i32) attributes {tile.kernel, ngpu.num_warps = 2 : i32, ngpu.sm = 90 : i32} {
  %range = tile.range 0 to 64 : tensor<64xi32, #line>
  %step = tile.splat %n : i32 -> tensor<64xi32, #line>
  %at = arith.muli %range, %step : tensor<64xi32, #line>
  %ps = tile.splat %p : !tile.ptr<i32> -> tensor<64x!tile.ptr<i32>, #line>
  %pp = tile.addptr %ps, %at : tensor<64x!tile.ptr<i32>, #line>, tensor<64xi32, #line>
  %x = tile.atomic_load %pp {ngpu.scratch = 0 : i32} : tensor<64x!tile.ptr<i32>, #line> -> tensor<64xi32, #line>
  %y = arith.addi %x, %range : tensor<64xi32, #line>
  tile.atomic_store %pp, %y : tensor<64x!tile.ptr<i32>, #line>, tensor<64xi32, #line>
  return
}
