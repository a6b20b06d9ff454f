// Ops that put tensors together keep their parts in registers; loops that end by a condition carry one layout.
// RUN: nereid-opt %s --gpu-assign-layouts | FileCheck %s

// The parts of a join are a register bit: the other bits are those of the operands.
// CHECK-DAG: #[[PARTS:.*]] = #ngpu.layout<register = {{.*}}[0, 1]{{.*}}, lane = {{\[\[}}1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = {{\[\[}}32, 0], [64, 0]], shape = [128, 2]>
// CHECK-LABEL: func.func @join_and_split
// CHECK: %[[X:.*]] = tile.load {{.*}} -> tensor<128xf32, #[[L:.*]]>
// CHECK: tile.join %[[X]], %{{.*}} : tensor<128xf32, #[[L]]> -> tensor<128x2xf32, #[[PARTS]]>
// CHECK: tile.split
func.func @join_and_split(%p: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %r = tile.range 0 to 128 : tensor<128xi32>
  %s = tile.splat %p : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>>
  %ptr = tile.addptr %s, %r : tensor<128x!tile.ptr<f32>>, tensor<128xi32>
  %x = tile.load %ptr : tensor<128x!tile.ptr<f32>> -> tensor<128xf32>
  %y = math.exp %x : tensor<128xf32>
  %j = tile.join %x, %y : tensor<128xf32> -> tensor<128x2xf32>
  %e = math.sqrt %j : tensor<128x2xf32>
  %a, %b = tile.split %e : tensor<128x2xf32> -> tensor<128xf32>, tensor<128xf32>
  %z = arith.addf %a, %b : tensor<128xf32>
  tile.store %ptr, %z : tensor<128x!tile.ptr<f32>>, tensor<128xf32>
  return
}

// 96 = 3 * 32 elements from 64 and 32: what they share is a core of 32.
// CHECK-LABEL: func.func @cat
// CHECK: tile.cat %{{.*}}, %{{.*}} along 0 : tensor<64xf32, #{{.*}}>, tensor<32xf32, #[[CORE:.*]]> -> tensor<96xf32, #[[CORE]]>
func.func @cat(%p: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %r64 = tile.range 0 to 64 : tensor<64xi32>
  %r32 = tile.range 0 to 32 : tensor<32xi32>
  %r96 = tile.range 0 to 96 : tensor<96xi32>
  %s64 = tile.splat %p : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %s32 = tile.splat %p : !tile.ptr<f32> -> tensor<32x!tile.ptr<f32>>
  %s96 = tile.splat %p : !tile.ptr<f32> -> tensor<96x!tile.ptr<f32>>
  %p64 = tile.addptr %s64, %r64 : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
  %p32 = tile.addptr %s32, %r32 : tensor<32x!tile.ptr<f32>>, tensor<32xi32>
  %p96 = tile.addptr %s96, %r96 : tensor<96x!tile.ptr<f32>>, tensor<96xi32>
  %x = tile.load %p64 : tensor<64x!tile.ptr<f32>> -> tensor<64xf32>
  %y = tile.load %p32 : tensor<32x!tile.ptr<f32>> -> tensor<32xf32>
  %z = tile.cat %x, %y along 0 : tensor<64xf32>, tensor<32xf32> -> tensor<96xf32>
  tile.store %p96, %z : tensor<96x!tile.ptr<f32>>, tensor<96xf32>
  return
}

// CHECK-LABEL: func.func @while
// CHECK: scf.while (%[[A:.*]] = %{{.*}}) : (tensor<1024xf32, #[[W:.*]]>) -> tensor<1024xf32, #[[W]]>
// CHECK-NOT: convert_layout
// CHECK: tile.reduce
// CHECK-NOT: convert_layout
// CHECK: scf.condition(%{{.*}}) %{{.*}} : tensor<1024xf32, #[[W]]>
// CHECK-NOT: convert_layout
// CHECK: scf.yield %{{.*}} : tensor<1024xf32, #[[W]]>
// CHECK-NOT: convert_layout
func.func @while(%p: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %one = arith.constant 1.0 : f32
  %r = tile.range 0 to 1024 : tensor<1024xi32>
  %s = tile.splat %p : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %ptr = tile.addptr %s, %r : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  %x = tile.load %ptr : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  %z = scf.while (%v = %x) : (tensor<1024xf32>) -> tensor<1024xf32> {
    %m = tile.reduce (%v) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %n = arith.maxnumf %a, %b : f32
      tile.yield %n : f32
    } : (tensor<1024xf32>) -> f32
    %c = arith.cmpf ogt, %m, %one : f32
    scf.condition(%c) %v : tensor<1024xf32>
  } do {
  ^bb0(%w: tensor<1024xf32>):
    %h = math.sqrt %w : tensor<1024xf32>
    scf.yield %h : tensor<1024xf32>
  }
  tile.store %ptr, %z : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  return
}

// Groups of a row: the reduction takes the layout of the reshaped row, which no access proposes.
// CHECK-LABEL: func.func @groups
// CHECK: %[[A:.*]] = math.absf %{{.*}} : tensor<32x128xf32, #[[G:.*]]>
// CHECK-NEXT: tile.reduce(%[[A]]) axis 1
// CHECK: } : (tensor<32x128xf32, #[[G]]>) -> tensor<32xf32, #{{.*}}>
func.func @groups(%p: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %w: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %o: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %r = tile.range 0 to 4096 : tensor<4096xi32>
  %s = tile.splat %p : !tile.ptr<f16> -> tensor<4096x!tile.ptr<f16>>
  %t = tile.splat %w : !tile.ptr<f16> -> tensor<4096x!tile.ptr<f16>>
  %ptr = tile.addptr %s, %r : tensor<4096x!tile.ptr<f16>>, tensor<4096xi32>
  %weights = tile.addptr %t, %r : tensor<4096x!tile.ptr<f16>>, tensor<4096xi32>
  %x = tile.load %ptr : tensor<4096x!tile.ptr<f16>> -> tensor<4096xf16>
  %y = tile.load %weights : tensor<4096x!tile.ptr<f16>> -> tensor<4096xf16>
  %xy = arith.mulf %x, %y : tensor<4096xf16>
  %wide = arith.extf %xy : tensor<4096xf16> to tensor<4096xf32>
  %g = tile.reshape %wide : tensor<4096xf32> -> tensor<32x128xf32>
  %a = math.absf %g : tensor<32x128xf32>
  %m = tile.reduce (%a) axis 1 {
  ^bb0(%b: f32, %c: f32):
    %n = arith.maxnumf %b, %c : f32
    tile.yield %n : f32
  } : (tensor<32x128xf32>) -> tensor<32xf32>
  %q = tile.range 0 to 32 : tensor<32xi32>
  %v = tile.splat %o : !tile.ptr<f32> -> tensor<32x!tile.ptr<f32>>
  %out = tile.addptr %v, %q : tensor<32x!tile.ptr<f32>>, tensor<32xi32>
  tile.store %out, %m : tensor<32x!tile.ptr<f32>>, tensor<32xf32>
  return
}
