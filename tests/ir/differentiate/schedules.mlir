// RUN: nereid-opt --differentiate --canonicalize --cse --split-input-file %s | FileCheck %s

// `x` is read by all programs along axis 1. The programs share out its blocks: each sums in a loop
// over axis 1 and stores once. Elsewhere each program adds its part.
// CHECK-LABEL: func.func @outer
// CHECK-SAME:  tile.gradients = ["the gradient of `argument 0` has a transposed schedule: programs share out its blocks, and for each sum in a loop over program_id(1); where
// CHECK:       scf.if
// CHECK:         scf.for %[[BLOCK:.*]] = %{{.*}} to %{{.*}} step
// CHECK:           %[[SUM:.*]] = scf.for %[[COLUMN:.*]] = %c0_i32 to %{{.*}} step %c1_i32 iter_args(%[[BEFORE:.*]] = %{{.*}}) -> (f32)
// CHECK-NOT:         tile.program_id
// CHECK:             tile.addptr %arg4
// CHECK:             arith.addf %[[BEFORE]]
// CHECK:           tile.store %{{.*}}, %[[SUM]]
// CHECK:       } else {
// CHECK-NOT:     scf.for
// CHECK:         tile.atomic_rmw fadd
func.func @outer(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt}, %w: !tile.ptr<f32>,
                 %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %dx: !tile.ptr<f32>,
                 %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  %i = tile.program_id 0
  %j = tile.program_id 1
  %n = tile.num_programs 1
  %p = tile.addptr %x, %i : !tile.ptr<f32>, i32
  %q = tile.addptr %w, %j : !tile.ptr<f32>, i32
  %a = tile.load %p : !tile.ptr<f32> -> f32
  %b = tile.load %q : !tile.ptr<f32> -> f32
  %c = arith.mulf %a, %b : f32
  %row = arith.muli %i, %n : i32
  %at = arith.addi %row, %j : i32
  %r = tile.addptr %y, %at : !tile.ptr<f32>, i32
  tile.store %r, %c : !tile.ptr<f32>, f32
  return
}

// -----

// `x` and `v` have schedules under one condition. Elsewhere what both add is computed once, from values that are loaded once.
// CHECK-LABEL: func.func @together
// CHECK:       } else {
// CHECK:         tile.atomic_rmw fadd
// CHECK-NOT:     tile.load
// CHECK:         tile.atomic_rmw fadd
// CHECK-NOT:     tile.atomic_rmw
// CHECK:         return
func.func @together(%x: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.wrt}, %v: !tile.ptr<f32> {tile.tangent = 5 : i64, tile.wrt}, %w: !tile.ptr<f32>,
                    %y: !tile.ptr<f32> {tile.tangent = 6 : i64, tile.out}, %dx: !tile.ptr<f32>, %dv: !tile.ptr<f32>,
                    %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  %i = tile.program_id 0
  %j = tile.program_id 1
  %n = tile.num_programs 1
  %p = tile.addptr %x, %i : !tile.ptr<f32>, i32
  %o = tile.addptr %v, %i : !tile.ptr<f32>, i32
  %q = tile.addptr %w, %j : !tile.ptr<f32>, i32
  %a = tile.load %p : !tile.ptr<f32> -> f32
  %d = tile.load %o : !tile.ptr<f32> -> f32
  %b = tile.load %q : !tile.ptr<f32> -> f32
  %e = arith.mulf %a, %d : f32
  %c = arith.mulf %e, %b : f32
  %row = arith.muli %i, %n : i32
  %at = arith.addi %row, %j : i32
  %r = tile.addptr %y, %at : !tile.ptr<f32>, i32
  tile.store %r, %c : !tile.ptr<f32>, f32
  return
}

// -----

// With an activation after the sum, the adjoint of the sum is saved in a first step. Each step
// computes only its part.
// CHECK-LABEL: func.func @activated
// CHECK-SAME:  tile.saved_bytes = 16
// CHECK:       %[[SECOND:.*]] = arith.cmpi eq, %arg6, %c1_i32
// CHECK:       scf.if %[[SECOND]]
// CHECK:         scf.if
// CHECK:           scf.for
// CHECK:             tile.ptr_cast %arg5
// CHECK:             scf.for
// CHECK-NOT:           scf.for
// CHECK:             tile.store
// CHECK:         } else {
// CHECK:           tile.atomic_rmw fadd
// CHECK:       %[[FIRST:.*]] = arith.cmpi eq, %arg6, %c0_i32
// CHECK:       scf.if %[[FIRST]]
// CHECK:         scf.for
// CHECK-NOT:     scf.for
// CHECK:         scf.if
// CHECK:           tile.ptr_cast %arg5
// CHECK:           tile.store
func.func @activated(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt}, %w: !tile.ptr<f32>,
                     %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %dx: !tile.ptr<f32>,
                     %dy: !tile.ptr<f32>, %saved: !tile.ptr<i8> {tile.saved},
                     %step: i32 {tile.step}, %rounds: i32) attributes {tile.kernel, tile.reverse} {
  %i = tile.program_id 0
  %j = tile.program_id 1
  %n = tile.num_programs 1
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %none = arith.constant 0.0 : f32
  %sum = scf.for %k = %zero to %rounds step %one iter_args(%before = %none) -> f32 : i32 {
    %xrow = arith.muli %i, %rounds : i32
    %xat = arith.addi %xrow, %k : i32
    %p = tile.addptr %x, %xat : !tile.ptr<f32>, i32
    %wrow = arith.muli %j, %rounds : i32
    %wat = arith.addi %wrow, %k : i32
    %q = tile.addptr %w, %wat : !tile.ptr<f32>, i32
    %a = tile.load %p : !tile.ptr<f32> -> f32
    %b = tile.load %q : !tile.ptr<f32> -> f32
    %c = arith.mulf %a, %b : f32
    %after = arith.addf %before, %c : f32
    scf.yield %after : f32
  }
  %square = arith.mulf %sum, %sum : f32
  %row = arith.muli %i, %n : i32
  %at = arith.addi %row, %j : i32
  %r = tile.addptr %y, %at : !tile.ptr<f32>, i32
  tile.store %r, %square : !tile.ptr<f32>, f32
  return
}

// -----

// Program `i` reads blocks 0 to i - 1. Keys of a batch, along axis 1, are summed by their owner over
// the programs from the first whose loop reaches the block, found by bisection.
// CHECK-LABEL: func.func @triangle
// CHECK-SAME:  tile.gradients = ["the gradient of `argument 0` has a transposed schedule: programs share out its blocks, and for each sum in a loop over program_id(0);
// CHECK:       scf.for %[[BLOCK:.*]] = %{{.*}} to %{{.*}} step
// CHECK:         %[[RANGE:.*]]:2 = scf.for %{{.*}} = %c0_i32 to %c31_i32
// CHECK:           arith.cmpi sgt
// CHECK:         %[[SUM:.*]] = scf.for %{{.*}} = %[[RANGE]]#0 to %{{.*}} step %c1_i32
// CHECK-NOT:       scf.for
// CHECK:         tile.store %{{.*}}, %[[SUM]]
// CHECK:       } else {
// CHECK:         tile.atomic_rmw fadd
func.func @triangle(%x: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.wrt}, %w: !tile.ptr<f32>,
                    %y: !tile.ptr<f32> {tile.tangent = 5 : i64, tile.out}, %n: i32,
                    %dx: !tile.ptr<f32>, %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %none = arith.constant 0.0 : f32
  %i = tile.program_id 0
  %j = tile.program_id 1
  %rows = tile.num_programs 0
  %q = tile.addptr %w, %i : !tile.ptr<f32>, i32
  %b = tile.load %q : !tile.ptr<f32> -> f32
  %row = arith.muli %j, %rows : i32
  %sum = scf.for %k = %zero to %i step %one iter_args(%acc = %none) -> (f32) : i32 {
    %at = arith.addi %row, %k : i32
    %p = tile.addptr %x, %at : !tile.ptr<f32>, i32
    %a = tile.load %p : !tile.ptr<f32> -> f32
    %c = arith.mulf %a, %b : f32
    %next = arith.addf %acc, %c : f32
    scf.yield %next : f32
  }
  %to = arith.addi %row, %i : i32
  %r = tile.addptr %y, %to : !tile.ptr<f32>, i32
  tile.store %r, %sum : !tile.ptr<f32>, f32
  return
}
