// The pipeline on a matrix product as the front end writes it, and on calls.
// RUN: nereid-opt %s --tile-pipeline | FileCheck %s

// Nothing is carried but the accumulator and two scalar offsets; the addresses begin with scalar pointers; the product
// adds to the accumulator.
// CHECK-LABEL: func.func @matmul
// CHECK: scf.for {{.*}} iter_args(%[[ACC:.*]] = %{{.*}}, %[[OA:.*]] = %{{.*}}, %[[OB:.*]] = %{{.*}}) -> (tensor<64x64xf32>, i64, i64)
// CHECK-DAG: tile.addptr %arg0, %[[OA]] : !tile.ptr<f32>, i64
// CHECK-DAG: tile.addptr %arg1, %[[OB]] : !tile.ptr<f32>, i64
// CHECK-DAG: arith.cmpi slt, %{{.*}}, %{{.*}} : tensor<32xi32>
// CHECK: %[[D:.*]] = tile.dot %{{.*}}, %{{.*}}, %[[ACC]] :
// CHECK-NOT: arith.addf
// CHECK: scf.yield %[[D]]
func.func @matmul(%a: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %b: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %c: !tile.ptr<f32>, %K: i32 {tile.divisibility=16:i64}, %sam: i32 {tile.divisibility=16:i64}, %sbk: i32 {tile.divisibility=16:i64}) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c32 = arith.constant 32 : i32
  %pid = tile.program_id 0
  %pidn = tile.program_id 1
  %t0 = arith.muli %pid, %c64 : i32
  %r = tile.range 0 to 64 : tensor<64xi32>
  %t1 = tile.splat %t0 : i32 -> tensor<64xi32>
  %rm = arith.addi %t1, %r : tensor<64xi32>
  %t2 = arith.muli %pidn, %c64 : i32
  %t3 = tile.splat %t2 : i32 -> tensor<64xi32>
  %rn = arith.addi %t3, %r : tensor<64xi32>
  %rk = tile.range 0 to 32 : tensor<32xi32>
  %rm2 = tile.expand_dims %rm 1 : tensor<64xi32> -> tensor<64x1xi32>
  %sams = tile.splat %sam : i32 -> tensor<64x1xi32>
  %rowoff = arith.muli %rm2, %sams : tensor<64x1xi32>
  %rk2 = tile.expand_dims %rk 0 : tensor<32xi32> -> tensor<1x32xi32>
  %ro = tile.broadcast %rowoff : tensor<64x1xi32> -> tensor<64x32xi32>
  %co = tile.broadcast %rk2 : tensor<1x32xi32> -> tensor<64x32xi32>
  %off = arith.addi %ro, %co : tensor<64x32xi32>
  %as = tile.splat %a : !tile.ptr<f32> -> tensor<64x32x!tile.ptr<f32>>
  %aptr = tile.addptr %as, %off : tensor<64x32x!tile.ptr<f32>>, tensor<64x32xi32>
  %rk3 = tile.expand_dims %rk 1 : tensor<32xi32> -> tensor<32x1xi32>
  %sbks = tile.splat %sbk : i32 -> tensor<32x1xi32>
  %browoff = arith.muli %rk3, %sbks : tensor<32x1xi32>
  %bs0 = tile.splat %b : !tile.ptr<f32> -> tensor<32x1x!tile.ptr<f32>>
  %bp0 = tile.addptr %bs0, %browoff : tensor<32x1x!tile.ptr<f32>>, tensor<32x1xi32>
  %bp1 = tile.broadcast %bp0 : tensor<32x1x!tile.ptr<f32>> -> tensor<32x64x!tile.ptr<f32>>
  %rn2 = tile.expand_dims %rn 0 : tensor<64xi32> -> tensor<1x64xi32>
  %rn3 = tile.broadcast %rn2 : tensor<1x64xi32> -> tensor<32x64xi32>
  %bptr = tile.addptr %bp1, %rn3 : tensor<32x64x!tile.ptr<f32>>, tensor<32x64xi32>
  %zero = arith.constant 0.0 : f32
  %acc0 = tile.splat %zero : f32 -> tensor<64x64xf32>
  %step = arith.muli %sbk, %c32 : i32
  %res:3 = scf.for %k = %c0 to %K step %c32 iter_args(%acc = %acc0, %ap = %aptr, %bp = %bptr) -> (tensor<64x64xf32>, tensor<64x32x!tile.ptr<f32>>, tensor<32x64x!tile.ptr<f32>>) : i32 {
    %left = arith.subi %K, %k : i32
    %lefts = tile.splat %left : i32 -> tensor<1x32xi32>
    %m = arith.cmpi slt, %rk2, %lefts : tensor<1x32xi32>
    %mm = tile.broadcast %m : tensor<1x32xi1> -> tensor<64x32xi1>
    %av = tile.load %ap mask %mm : tensor<64x32x!tile.ptr<f32>>, mask tensor<64x32xi1> -> tensor<64x32xf32>
    %bv = tile.load %bp : tensor<32x64x!tile.ptr<f32>> -> tensor<32x64xf32>
    %z = tile.splat %zero : f32 -> tensor<64x64xf32>
    %d = tile.dot %av, %bv, %z : tensor<64x32xf32>, tensor<32x64xf32> -> tensor<64x64xf32>
    %acc2 = arith.addf %acc, %d : tensor<64x64xf32>
    %s1 = tile.splat %c32 : i32 -> tensor<64x32xi32>
    %an = tile.addptr %ap, %s1 : tensor<64x32x!tile.ptr<f32>>, tensor<64x32xi32>
    %s2 = tile.splat %step : i32 -> tensor<32x64xi32>
    %bn = tile.addptr %bp, %s2 : tensor<32x64x!tile.ptr<f32>>, tensor<32x64xi32>
    scf.yield %acc2, %an, %bn : tensor<64x64xf32>, tensor<64x32x!tile.ptr<f32>>, tensor<32x64x!tile.ptr<f32>>
  }
  %cs = tile.splat %c : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  tile.store %cs, %res#0 : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  return
}

// CHECK-NOT: @helper
// CHECK-LABEL: func.func @caller
// CHECK-SAME: (%[[X:.*]]: f32)
// CHECK-NEXT: %[[R:.*]] = call @kept(%[[X]])
// CHECK-NEXT: return %[[X]], %[[R]]
// CHECK: func.func private @kept
func.func @caller(%x: f32) -> (f32, f32) attributes {tile.kernel} {
  %s = tile.splat %x : f32 -> tensor<1xf32>
  %0 = func.call @helper(%s) : (tensor<1xf32>) -> f32
  %1 = func.call @kept(%x) : (f32) -> f32
  return %0, %1 : f32, f32
}
func.func private @helper(%x: tensor<1xf32>) -> f32 {
  %0 = tile.unsplat %x : tensor<1xf32> -> f32
  return %0 : f32
}
func.func private @kept(%x: f32) -> f32 attributes {no_inline} {
  %0 = math.exp %x : f32
  return %0 : f32
}
