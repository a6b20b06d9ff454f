// What registers have in common is computed once.
// RUN: nereid-opt --emit-nvidia="stage=ptx" %s --split-input-file -o /dev/null | FileCheck %s

#line = #ngpu.layout<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128]], shape = [256]>

// One divisor: one reciprocal. One mask for four neighbours, since the limit is a multiple of 16.
// CHECK-LABEL: .entry divisor(
// CHECK-COUNT-1: setp.lt.s32
// CHECK-NOT: setp.lt.s32
// CHECK: rcp.approx.ftz.f32
// CHECK-NOT: div.full
// CHECK-NOT: rcp.approx
// CHECK: ret;
func.func @divisor(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %d: f32, %n: i32 {tile.divisibility = 16 : i64})
    attributes {tile.kernel, ngpu.num_warps = 2 : i32, ngpu.sm = 90 : i32} {
  %range = tile.range 0 to 256 : tensor<256xi32, #line>
  %limit = tile.splat %n : i32 -> tensor<256xi32, #line>
  %mask = arith.cmpi slt, %range, %limit : tensor<256xi32, #line>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>, #line>
  %p = tile.addptr %xs, %range : tensor<256x!tile.ptr<f32>, #line>, tensor<256xi32, #line>
  %v = tile.load %p : tensor<256x!tile.ptr<f32>, #line> -> tensor<256xf32, #line>
  %one = arith.constant dense<1.0> : tensor<256xf32, #line>
  %w = arith.select %mask, %v, %one : tensor<256xi1, #line>, tensor<256xf32, #line>
  %ds = tile.splat %d : f32 -> tensor<256xf32, #line>
  %q = arith.divf %w, %ds : tensor<256xf32, #line>
  tile.store %p, %q : tensor<256x!tile.ptr<f32>, #line>, tensor<256xf32, #line>
  return
}

// -----

#pair = #ngpu.layout<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[64]], shape = [128]>

// The four numbers of a record, loaded one by one: one access for each record.
// CHECK-LABEL: .entry records(
// CHECK-COUNT-2: ld.global.v4.b32
// CHECK-NOT: ld.global
// CHECK: ret;
func.func @records(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.divisibility = 16 : i64})
    attributes {tile.kernel, ngpu.num_warps = 2 : i32, ngpu.sm = 90 : i32} {
  %range = tile.range 0 to 128 : tensor<128xi32, #pair>
  %c1 = arith.constant dense<1> : tensor<128xi32, #pair>
  %c4 = arith.constant dense<4> : tensor<128xi32, #pair>
  %record = arith.muli %range, %c4 : tensor<128xi32, #pair>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #pair>
  %p0 = tile.addptr %xs, %record : tensor<128x!tile.ptr<f32>, #pair>, tensor<128xi32, #pair>
  %p1 = tile.addptr %p0, %c1 : tensor<128x!tile.ptr<f32>, #pair>, tensor<128xi32, #pair>
  %p2 = tile.addptr %p1, %c1 : tensor<128x!tile.ptr<f32>, #pair>, tensor<128xi32, #pair>
  %p3 = tile.addptr %p2, %c1 : tensor<128x!tile.ptr<f32>, #pair>, tensor<128xi32, #pair>
  %a = tile.load %p0 : tensor<128x!tile.ptr<f32>, #pair> -> tensor<128xf32, #pair>
  %b = tile.load %p1 : tensor<128x!tile.ptr<f32>, #pair> -> tensor<128xf32, #pair>
  %c = tile.load %p2 : tensor<128x!tile.ptr<f32>, #pair> -> tensor<128xf32, #pair>
  %d = tile.load %p3 : tensor<128x!tile.ptr<f32>, #pair> -> tensor<128xf32, #pair>
  %ab = arith.addf %a, %b : tensor<128xf32, #pair>
  %cd = arith.addf %c, %d : tensor<128xf32, #pair>
  %sum = arith.addf %ab, %cd : tensor<128xf32, #pair>
  %ys = tile.splat %y : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #pair>
  %q = tile.addptr %ys, %range : tensor<128x!tile.ptr<f32>, #pair>, tensor<128xi32, #pair>
  tile.store %q, %sum : tensor<128x!tile.ptr<f32>, #pair>, tensor<128xf32, #pair>
  return
}
