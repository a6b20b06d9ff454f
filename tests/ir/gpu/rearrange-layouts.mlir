// Exchanges, slices and gathers: what their elements cross decides about the layouts.
// RUN: nereid-opt %s --gpu-assign-layouts --gpu-allocate-shared | FileCheck %s

// The axis of a network of exchanges stays within warps, where there are rows enough for all of them.
// CHECK: #[[ROWS:.*]] = #ngpu.layout<register = {{.*}}, lane = {{.*}}, warp = {{\[\[}}1, 0], [2, 0]], shape = [4, 256]>
// CHECK-LABEL: func.func @exchanges
// CHECK: tile.exchange %{{.*}} axis 1 mask 255 : tensor<4x256xi32, #[[ROWS]]>
// CHECK: tile.exchange %{{.*}} axis 1 mask 128 : tensor<4x256xi32, #[[ROWS]]>
func.func @exchanges(%p: !tile.ptr<i32> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %c256 = arith.constant dense<256> : tensor<4x1xi32>
  %i = tile.range 0 to 4 : tensor<4xi32>
  %i1 = tile.expand_dims %i 1 : tensor<4xi32> -> tensor<4x1xi32>
  %row = arith.muli %i1, %c256 : tensor<4x1xi32>
  %j = tile.range 0 to 256 : tensor<256xi32>
  %j0 = tile.expand_dims %j 0 : tensor<256xi32> -> tensor<1x256xi32>
  %rows = tile.broadcast %row : tensor<4x1xi32> -> tensor<4x256xi32>
  %columns = tile.broadcast %j0 : tensor<1x256xi32> -> tensor<4x256xi32>
  %o = arith.addi %rows, %columns : tensor<4x256xi32>
  %s = tile.splat %p : !tile.ptr<i32> -> tensor<4x256x!tile.ptr<i32>>
  %ptr = tile.addptr %s, %o : tensor<4x256x!tile.ptr<i32>>, tensor<4x256xi32>
  %x = tile.load %ptr : tensor<4x256x!tile.ptr<i32>> -> tensor<4x256xi32>
  %a = tile.exchange %x axis 1 mask 255 : tensor<4x256xi32>
  %b = arith.minsi %x, %a : tensor<4x256xi32>
  %c = tile.exchange %b axis 1 mask 128 : tensor<4x256xi32>
  %d = arith.maxsi %b, %c : tensor<4x256xi32>
  tile.store %ptr, %d : tensor<4x256x!tile.ptr<i32>>, tensor<4x256xi32>
  return
}

// A row of a block: its layout is that of the block, and what was one warp's goes to all through shared memory.
// CHECK-LABEL: func.func @slice
// CHECK: tile.slice %{{.*}} [3, 0] step [1, 1]{{.*}} : tensor<8x32xf32, #{{.*}}> -> tensor<1x32xf32, #{{.*}}>
func.func @slice(%p: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %q: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.range 0 to 256 : tensor<256xi32>
  %s = tile.splat %p : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
  %ptr = tile.addptr %s, %r : tensor<256x!tile.ptr<f32>>, tensor<256xi32>
  %x = tile.load %ptr : tensor<256x!tile.ptr<f32>> -> tensor<256xf32>
  %m = tile.reshape %x : tensor<256xf32> -> tensor<8x32xf32>
  %y = tile.slice %m [3, 0] step [1, 1] : tensor<8x32xf32> -> tensor<1x32xf32>
  %z = tile.reshape %y : tensor<1x32xf32> -> tensor<32xf32>
  %k = tile.range 0 to 32 : tensor<32xi32>
  %t = tile.splat %q : !tile.ptr<f32> -> tensor<32x!tile.ptr<f32>>
  %out = tile.addptr %t, %k : tensor<32x!tile.ptr<f32>>, tensor<32xi32>
  tile.store %out, %z : tensor<32x!tile.ptr<f32>>, tensor<32xf32>
  return
}

// A table of 32 is held by every warp: no shared memory.
// CHECK-LABEL: func.func @table
// CHECK-NOT: ngpu.scratch
// CHECK: tile.gather %{{.*}}[%{{.*}}] axis 0 : tensor<32xf32, #{{.*}}>, tensor<1024xi32, #[[L:.*]]> -> tensor<1024xf32, #[[L]]>
func.func @table(%p: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %q: !tile.ptr<i32> {tile.divisibility = 16 : i64}, %o: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %r = tile.range 0 to 32 : tensor<32xi32>
  %s = tile.splat %p : !tile.ptr<f32> -> tensor<32x!tile.ptr<f32>>
  %ptr = tile.addptr %s, %r : tensor<32x!tile.ptr<f32>>, tensor<32xi32>
  %x = tile.load %ptr : tensor<32x!tile.ptr<f32>> -> tensor<32xf32>
  %k = tile.range 0 to 1024 : tensor<1024xi32>
  %t = tile.splat %q : !tile.ptr<i32> -> tensor<1024x!tile.ptr<i32>>
  %qtr = tile.addptr %t, %k : tensor<1024x!tile.ptr<i32>>, tensor<1024xi32>
  %i = tile.load %qtr : tensor<1024x!tile.ptr<i32>> -> tensor<1024xi32>
  %y = tile.gather %x[%i] axis 0 : tensor<32xf32>, tensor<1024xi32> -> tensor<1024xf32>
  %u = tile.splat %o : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %out = tile.addptr %u, %k : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  tile.store %out, %y : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  return
}
