// RUN: nereid-opt --differentiate --canonicalize --split-input-file %s | FileCheck %s

// A saved value is loaded, and its derivative is that of what it was computed from.
// CHECK-LABEL: func.func @saved
// CHECK-SAME:    %{{.*}}: !tile.ptr<f32>, %[[KEPT:arg1]]: !tile.ptr<f32>
// CHECK-NOT:     math.exp
// CHECK:         %[[SAVED:.*]] = tile.load %[[KEPT]]
// CHECK:         arith.mulf %{{.*}}, %[[SAVED]]
// CHECK-NOT:     tile.store %[[KEPT]]
func.func @saved(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt}, %kept: !tile.ptr<f32>,
                 %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %dx: !tile.ptr<f32>,
                 %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  %0 = tile.load %x : !tile.ptr<f32> -> f32
  %1 = arith.mulf %0, %0 : f32
  tile.store %kept, %1 : !tile.ptr<f32>, f32
  %2 = tile.extern_elementwise "saved" from "nereid"(%1, %kept) pure : (f32, !tile.ptr<f32>) -> f32
  %3 = arith.mulf %2, %2 : f32
  tile.store %y, %3 : !tile.ptr<f32>, f32
  return
}

// -----

// A `while` loop with a bound becomes a `for` loop.
// CHECK-LABEL: func.func @bounded
// CHECK-NOT:     scf.while
// CHECK:         scf.for
// CHECK-NOT:     scf.while
func.func @bounded(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt}, %n: i32,
                   %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %dx: !tile.ptr<f32>,
                   %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  %0 = tile.load %x : !tile.ptr<f32> -> f32
  %limit = arith.constant 1.0 : f32
  %1 = scf.while (%a = %0) : (f32) -> f32 {
    %c = arith.cmpf ogt, %a, %limit : f32
    %d = tile.extern_elementwise "at_most" from "nereid"(%c, %n) pure : (i1, i32) -> i1
    scf.condition(%d) %a : f32
  } do {
  ^bb0(%b: f32):
    %half = arith.constant 0.5 : f32
    %2 = arith.mulf %b, %half : f32
    scf.yield %2 : f32
  }
  tile.store %y, %1 : !tile.ptr<f32>, f32
  return
}

// -----

// One without: a loop before it, of what the condition depends on alone, counts its rounds.
// CHECK-LABEL: func.func @counted
// CHECK-SAME:    %{{.*}}: !tile.ptr<f32>, %[[N:arg1]]: i32
// CHECK:         %[[ROUNDS:.*]]:2 = scf.while (%[[COUNT:.*]] = %{{.*}}, %[[K:.*]] = %[[N]]) : (i32, i32) -> (i32, i32) {
// CHECK-NEXT:      %[[C:.*]] = arith.cmpi sgt, %[[K]]
// CHECK-NEXT:      scf.condition(%[[C]]) %[[COUNT]], %[[K]] : i32, i32
// CHECK-NEXT:    } do {
// CHECK-NOT:       math.sin
// CHECK:           arith.addi
// CHECK-NEXT:      scf.yield
// CHECK-NEXT:    }
// CHECK:         arith.addi %[[ROUNDS]]#0
// CHECK:         scf.for
// CHECK-NOT:     scf.while
func.func @counted(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt}, %n: i32,
                   %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %dx: !tile.ptr<f32>,
                   %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  %0 = tile.load %x : !tile.ptr<f32> -> f32
  %zero = arith.constant 0 : i32
  %1:2 = scf.while (%a = %0, %k = %n) : (f32, i32) -> (f32, i32) {
    %c = arith.cmpi sgt, %k, %zero : i32
    scf.condition(%c) %a, %k : f32, i32
  } do {
  ^bb0(%b: f32, %k: i32):
    %2 = math.sin %b : f32
    %half = arith.constant 1 : i32
    %3 = arith.shrsi %k, %half : i32
    scf.yield %2, %3 : f32, i32
  }
  tile.store %y, %1#0 : !tile.ptr<f32>, f32
  return
}

// -----

// Without gradients nothing is left of hints.
// CHECK-LABEL: func.func @plain
// CHECK-NOT:     extern_elementwise
// CHECK:         tile.store
// CHECK:         return
func.func @plain(%x: !tile.ptr<f32>, %kept: !tile.ptr<f32>) attributes {tile.kernel} {
  %0 = tile.load %x : !tile.ptr<f32> -> f32
  tile.store %kept, %0 : !tile.ptr<f32>, f32
  %1 = tile.extern_elementwise "saved" from "nereid"(%0, %kept) pure : (f32, !tile.ptr<f32>) -> f32
  %2 = tile.extern_elementwise "recomputed" from "nereid"(%1) pure : (f32) -> f32
  tile.store %x, %2 : !tile.ptr<f32>, f32
  return
}
