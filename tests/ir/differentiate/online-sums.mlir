// RUN: nereid-opt --differentiate --canonicalize --cse --split-input-file %s | FileCheck %s

// y = sum(exp2(x - m) * x) / sum(exp2(x - m)) with the running maximum m. The first loop gives the
// maximum and the sums. The second one goes backwards through plain sums: it carries nothing, has
// no maximum, and takes exp2 of the distance to the logarithm of the sum.
// CHECK-LABEL: func.func @online
// CHECK:       %[[ALL:.*]]:3 = scf.for
// CHECK:         arith.maxnumf
// CHECK:         math.exp2
// CHECK:         math.exp2
// CHECK:         scf.yield
// CHECK:       %[[LOG:.*]] = math.log2 %[[ALL]]#1 : f32
// CHECK:       %[[MOVED:.*]] = arith.addf %[[ALL]]#0, %[[LOG]] : f32
// CHECK:       %[[BASE:.*]] = arith.select %{{.*}}, %[[MOVED]], %[[ALL]]#0 : f32
// CHECK:       scf.for %{{.*}} = %c0_i32 to %{{.*}} step %c1_i32  : i32 {
// CHECK-NOT:     arith.maxnumf
// CHECK:         %[[DISTANCE:.*]] = arith.subf %{{.*}}, %[[BASE]] : f32
// CHECK-NEXT:    math.exp2 %[[DISTANCE]] : f32
// CHECK-NOT:     math.exp2
// CHECK:       }
// CHECK-NOT:   scf.for
func.func @online(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt},
                  %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %n: i32,
                  %dx: !tile.ptr<f32>, %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %lowest = arith.constant 0xFF800000 : f32
  %none = arith.constant 0.0 : f32
  %all:3 = scf.for %k = %zero to %n step %one iter_args(%m = %lowest, %l = %none, %acc = %none) -> (f32, f32, f32) : i32 {
    %p = tile.addptr %x, %k : !tile.ptr<f32>, i32
    %s = tile.load %p : !tile.ptr<f32> -> f32
    %new = arith.maxnumf %m, %s : f32
    %moved = arith.subf %m, %new : f32
    %alpha = math.exp2 %moved : f32
    %distance = arith.subf %s, %new : f32
    %e = math.exp2 %distance : f32
    %scaled = arith.mulf %l, %alpha : f32
    %sum = arith.addf %scaled, %e : f32
    %weighted = arith.mulf %e, %s : f32
    %before = arith.mulf %acc, %alpha : f32
    %after = arith.addf %before, %weighted : f32
    scf.yield %new, %sum, %after : f32, f32, f32
  }
  %r = arith.divf %all#2, %all#1 : f32
  tile.store %y, %r : !tile.ptr<f32>, f32
  return
}

// -----

// The sum itself is an output: it depends on which number takes the maximum's place, so the
// maximum has a gradient, and the transpose finds the states of the rounds again.
// CHECK-LABEL: func.func @unscaled
// CHECK:       scf.for
// CHECK:         scf.for
func.func @unscaled(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt},
                    %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %n: i32,
                    %dx: !tile.ptr<f32>, %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %lowest = arith.constant 0xFF800000 : f32
  %none = arith.constant 0.0 : f32
  %all:2 = scf.for %k = %zero to %n step %one iter_args(%m = %lowest, %l = %none) -> (f32, f32) : i32 {
    %p = tile.addptr %x, %k : !tile.ptr<f32>, i32
    %s = tile.load %p : !tile.ptr<f32> -> f32
    %new = arith.maxnumf %m, %s : f32
    %moved = arith.subf %m, %new : f32
    %alpha = math.exp2 %moved : f32
    %distance = arith.subf %s, %new : f32
    %e = math.exp2 %distance : f32
    %scaled = arith.mulf %l, %alpha : f32
    %sum = arith.addf %scaled, %e : f32
    scf.yield %new, %sum : f32, f32
  }
  tile.store %y, %all#1 : !tile.ptr<f32>, f32
  return
}
