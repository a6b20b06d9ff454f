// Vector add: every access in vectors of 16 bytes, nothing is converted.
// RUN: nereid-opt %s --gpu-assign-layouts | FileCheck %s

// CHECK: #[[L:.*]] = #ngpu.layout<register = {{\[\[}}1], [2], [512]], lane = {{\[\[}}4], [8], [16], [32], [64]], warp = {{\[\[}}128], [256]], shape = [1024]>
// CHECK-LABEL: func.func @add
// CHECK-NOT: convert_layout
// CHECK: tile.range 0 to 1024 : tensor<1024xi32, #[[L]]>
// CHECK: tile.load {{.*}} -> tensor<1024xf32, #[[L]]>
// CHECK: tile.load {{.*}} -> tensor<1024xf32, #[[L]]>
// CHECK: arith.addf {{.*}} : tensor<1024xf32, #[[L]]>
// CHECK: tile.store
// CHECK-NOT: convert_layout
// CHECK: return
func.func @add(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %o: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %c1024 = arith.constant 1024 : i32
  %pid = tile.program_id 0
  %start = arith.muli %pid, %c1024 : i32
  %r = tile.range 0 to 1024 : tensor<1024xi32>
  %s = tile.splat %start : i32 -> tensor<1024xi32>
  %offs = arith.addi %s, %r : tensor<1024xi32>
  %nn = tile.splat %n : i32 -> tensor<1024xi32>
  %m = arith.cmpi slt, %offs, %nn : tensor<1024xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %xp = tile.addptr %xs, %offs : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  %xv = tile.load %xp mask %m : tensor<1024x!tile.ptr<f32>>, mask tensor<1024xi1> -> tensor<1024xf32>
  %ys = tile.splat %y : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %yp = tile.addptr %ys, %offs : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  %yv = tile.load %yp mask %m : tensor<1024x!tile.ptr<f32>>, mask tensor<1024xi1> -> tensor<1024xf32>
  %z = arith.addf %xv, %yv : tensor<1024xf32>
  %os = tile.splat %o : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %op = tile.addptr %os, %offs : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  tile.store %op, %z mask %m : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>, mask tensor<1024xi1>
  return
}
