// RUN: nereid-opt --emit-nvidia="stage=ptx" %s --split-input-file -o /dev/null | FileCheck %s
// RUN: nereid-opt --emit-nvidia="stage=check" %s --split-input-file -o /dev/null | FileCheck %s --check-prefix=SASS
// SASS-COUNT-5: assembled: 0 bytes of spills

#rows = #ngpu.layout<register = [[0, 1], [0, 2], [0, 4], [4, 0]], lane = [[0, 8], [0, 16], [0, 32], [1, 0], [2, 0]], warp = [[8, 0]], shape = [16, 64]>
#r = #ngpu.layout<register = [[4]], lane = [[0], [0], [0], [1], [2]], warp = [[8]], shape = [16]>
#c = #ngpu.layout<register = [[1], [2], [4]], lane = [[8], [16], [32], [0], [0]], warp = [[0]], shape = [64]>

// Rows of 16-bit elements: 16 bytes an access, one address for each row.
// CHECK-LABEL: .entry rows(
// CHECK-COUNT-2: @%p{{.*}} ld.global.v4.b32
// CHECK-NOT: ld.global
// CHECK-COUNT-8: add{{(.rn)?}}.f16x2
// CHECK-COUNT-2: st.global.cs.v4.b32
// CHECK-NOT: st.global
func.func @rows(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %stride: i32 {tile.divisibility = 16 : i64}, %n: i32)
    attributes {tile.kernel, ngpu.num_warps = 2 : i32, ngpu.sm = 90 : i32} {
  %m = tile.range 0 to 16 : tensor<16xi32, #r>
  %m1 = tile.expand_dims %m 1 : tensor<16xi32, #r> -> tensor<16x1xi32, #ngpu.layout<register = [[4, 0]], lane = [[0, 0], [0, 0], [0, 0], [1, 0], [2, 0]], warp = [[8, 0]], shape = [16, 1]>>
  %m2 = tile.broadcast %m1 : tensor<16x1xi32, #ngpu.layout<register = [[4, 0]], lane = [[0, 0], [0, 0], [0, 0], [1, 0], [2, 0]], warp = [[8, 0]], shape = [16, 1]>> -> tensor<16x64xi32, #rows>
  %k = tile.range 0 to 64 : tensor<64xi32, #c>
  %k1 = tile.expand_dims %k 0 : tensor<64xi32, #c> -> tensor<1x64xi32, #ngpu.layout<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 16], [0, 32], [0, 0], [0, 0]], warp = [[0, 0]], shape = [1, 64]>>
  %k2 = tile.broadcast %k1 : tensor<1x64xi32, #ngpu.layout<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 16], [0, 32], [0, 0], [0, 0]], warp = [[0, 0]], shape = [1, 64]>> -> tensor<16x64xi32, #rows>
  %s = tile.splat %stride : i32 -> tensor<16x64xi32, #rows>
  %ms = arith.muli %m2, %s : tensor<16x64xi32, #rows>
  %at = arith.addi %ms, %k2 : tensor<16x64xi32, #rows>
  %limit = tile.splat %n : i32 -> tensor<16x64xi32, #rows>
  %mask = arith.cmpi slt, %m2, %limit : tensor<16x64xi32, #rows>
  %xs = tile.splat %x : !tile.ptr<f16> -> tensor<16x64x!tile.ptr<f16>, #rows>
  %p = tile.addptr %xs, %at : tensor<16x64x!tile.ptr<f16>, #rows>, tensor<16x64xi32, #rows>
  %other = arith.constant dense<1.0> : tensor<16x64xf16, #rows>
  %v = tile.load %p mask %mask other %other : tensor<16x64x!tile.ptr<f16>, #rows>, mask tensor<16x64xi1, #rows>, other tensor<16x64xf16, #rows> -> tensor<16x64xf16, #rows>
  %w = arith.addf %v, %v : tensor<16x64xf16, #rows>
  tile.store %p, %w cache cs : tensor<16x64x!tile.ptr<f16>, #rows>, tensor<16x64xf16, #rows>
  return
}

// -----

#line = #ngpu.layout<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[0]], shape = [128]>

// Two warps hold the same elements: one of them stores.
// CHECK-LABEL: .entry owners(
// CHECK: createpolicy.fractional.L2::evict_last.b64
// CHECK: ld.global.L1::evict_last.L2::cache_hint.v4.b32
// CHECK: @%p{{.*}} st.global.v4.b32
func.func @owners(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.divisibility = 16 : i64})
    attributes {tile.kernel, ngpu.num_warps = 2 : i32, ngpu.sm = 90 : i32} {
  %range = tile.range 0 to 128 : tensor<128xi32, #line>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #line>
  %p = tile.addptr %xs, %range : tensor<128x!tile.ptr<f32>, #line>, tensor<128xi32, #line>
  %v = tile.load %p evict evict_last : tensor<128x!tile.ptr<f32>, #line> -> tensor<128xf32, #line>
  %ys = tile.splat %y : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #line>
  %q = tile.addptr %ys, %range : tensor<128x!tile.ptr<f32>, #line>, tensor<128xi32, #line>
  tile.store %q, %v : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>
  return
}

// -----

// Scalars: all threads load, one stores.
// CHECK-LABEL: .entry scalars(
// CHECK: ld.volatile.global.b32
// CHECK: @%p{{.*}} ld.global.b64
// CHECK: @%p{{.*}} st.global.b32
func.func @scalars(%x: !tile.ptr<i32>, %y: !tile.ptr<i64>, %flag: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32, ngpu.sm = 90 : i32} {
  %a = tile.load %x volatile : !tile.ptr<i32> -> i32
  %b = tile.load %y mask %flag : !tile.ptr<i64>, mask i1 -> i64
  %c = arith.trunci %b : i64 to i32
  %d = arith.addi %a, %c : i32
  tile.store %x, %d : !tile.ptr<i32>, i32
  return
}

// -----

// A size of 3 * 32: three repeats of a core; an unaligned pointer of bytes.
#odd = #ngpu.layout<lane = [[1], [2], [4], [8], [16]], warp = [[0]], shape = [32]>
// CHECK-LABEL: .entry odd(
// CHECK: ld.global.b8
// CHECK: ld.global.b8 {{.*}}+32]
// CHECK: ld.global.b8 {{.*}}+64]
// CHECK-COUNT-3: st.global.b8
func.func @odd(%x: !tile.ptr<i8>) attributes {tile.kernel, ngpu.num_warps = 2 : i32, ngpu.sm = 90 : i32} {
  %range = tile.range 0 to 96 : tensor<96xi32, #odd>
  %xs = tile.splat %x : !tile.ptr<i8> -> tensor<96x!tile.ptr<i8>, #odd>
  %p = tile.addptr %xs, %range : tensor<96x!tile.ptr<i8>, #odd>, tensor<96xi32, #odd>
  %v = tile.load %p : tensor<96x!tile.ptr<i8>, #odd> -> tensor<96xi8, #odd>
  %w = arith.addi %v, %v : tensor<96xi8, #odd>
  tile.store %p, %w : tensor<96x!tile.ptr<i8>, #odd>, tensor<96xi8, #odd>
  return
}

// -----

// A table of constants, and elements that are pointers.
#four = #ngpu.layout<register = [[1]], lane = [[2], [0], [0], [0], [0]], warp = [[0], [0]], shape = [4]>
// CHECK-LABEL: .entry table(
// CHECK: ld.global{{(.nc)?}}{{.*}}.b64
func.func @table(%x: !tile.ptr<!tile.ptr<i32>> {tile.divisibility = 16 : i64}) attributes {tile.kernel, ngpu.num_warps = 4 : i32, ngpu.sm = 90 : i32} {
  %c = arith.constant dense<[3, 1, 4, 1]> : tensor<4xi32, #four>
  %range = tile.range 0 to 4 : tensor<4xi32, #four>
  %xs = tile.splat %x : !tile.ptr<!tile.ptr<i32>> -> tensor<4x!tile.ptr<!tile.ptr<i32>>, #four>
  %p = tile.addptr %xs, %range : tensor<4x!tile.ptr<!tile.ptr<i32>>, #four>, tensor<4xi32, #four>
  %q = tile.load %p : tensor<4x!tile.ptr<!tile.ptr<i32>>, #four> -> tensor<4x!tile.ptr<i32>, #four>
  tile.store %q, %c : tensor<4x!tile.ptr<i32>, #four>, tensor<4xi32, #four>
  return
}
