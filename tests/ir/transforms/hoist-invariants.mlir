// RUN: nereid-opt %s --hoist-invariants | FileCheck %s

// Pure operations leave any loop; the load leaves the one that is known to run and in which nothing writes.
// CHECK-LABEL: @loads
// CHECK: math.exp
// CHECK-NEXT: tile.load %{{.*}} : !tile.ptr<f32> -> f32
// CHECK-NEXT: scf.for
// CHECK-NOT: tile.load
// CHECK: }
// CHECK: scf.for
// CHECK-NEXT: tile.load
func.func @loads(%p: !tile.ptr<f32>, %x: f32, %n: i32) -> (f32, f32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c8 = arith.constant 8 : i32
  %0 = scf.for %i = %c0 to %c8 step %c1 iter_args(%s = %x) -> f32 : i32 {
    %e = math.exp %x : f32
    %v = tile.load %p : !tile.ptr<f32> -> f32
    %t = arith.addf %s, %v : f32
    %u = arith.addf %t, %e : f32
    scf.yield %u : f32
  }
  // This one may not run: its address may be no address.
  %1 = scf.for %i = %c0 to %n step %c1 iter_args(%s = %x) -> f32 : i32 {
    %v = tile.load %p : !tile.ptr<f32> -> f32
    %t = arith.addf %s, %v : f32
    scf.yield %t : f32
  }
  return %0, %1 : f32, f32
}

// Stores, atomics, barriers and other loads' volatility keep loads in the loop, also from inside a branch.
// CHECK-LABEL: @writes
// CHECK: scf.for
// CHECK-NEXT: tile.load
// CHECK: scf.for
// CHECK-NEXT: tile.load
// CHECK: scf.for
// CHECK-NEXT: tile.load
func.func @writes(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %c: i1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c8 = arith.constant 8 : i32
  scf.for %i = %c0 to %c8 step %c1 : i32 {
    %v = tile.load %p : !tile.ptr<f32> -> f32
    scf.if %c {
      tile.store %q, %v : !tile.ptr<f32>, f32
    }
  }
  scf.for %i = %c0 to %c8 step %c1 : i32 {
    %v = tile.load %p : !tile.ptr<f32> -> f32
    tile.barrier
  }
  scf.for %i = %c0 to %c8 step %c1 : i32 {
    %v = tile.load %p volatile : !tile.ptr<f32> -> f32
  }
  return
}

// CHECK-LABEL: @promised
// CHECK: tile.load
// CHECK: scf.for
func.func @promised(%p: !tile.ptr<f32>, %n: i32, %x: f32) -> f32 {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %some = arith.cmpi sgt, %n, %c0 : i32
  tile.assume %some
  %0 = scf.for %i = %c0 to %n step %c1 iter_args(%s = %x) -> f32 : i32 {
    %v = tile.load %p : !tile.ptr<f32> -> f32
    %t = arith.addf %s, %v : f32
    scf.yield %t : f32
  }
  return %0 : f32
}

// CHECK-LABEL: @disabled
// CHECK: scf.for
// CHECK-NEXT: math.exp
func.func @disabled(%x: f32, %n: i32) -> f32 {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %0 = scf.for %i = %c0 to %n step %c1 iter_args(%s = %x) -> f32 : i32 {
    %e = math.exp %x : f32
    %t = arith.addf %s, %e : f32
    scf.yield %t : f32
  } {tile.disable_licm}
  return %0 : f32
}
