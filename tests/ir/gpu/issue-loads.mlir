// Loads of gradient kernels in front of the first reduction behind the last write, with what computes their addresses.
// RUN: nereid-opt %s --gpu-issue-loads | FileCheck %s

// The address is behind the reduction, too. The second load does not pass the store in front of it, but the
// reduction behind that.
// CHECK-LABEL: func.func @row
// CHECK:         %[[X:.*]] = tile.load %arg0
// CHECK-NOT:     tile.reduce
// CHECK:         %[[FURTHER:.*]] = tile.addptr %arg0
// CHECK-NEXT:    %[[DY:.*]] = tile.load %[[FURTHER]]
// CHECK-NEXT:    tile.reduce(%[[X]])
// CHECK:         tile.store
// CHECK-NEXT:    tile.load %arg1
// CHECK-NEXT:    tile.load %arg0
// CHECK-NEXT:    tile.reduce
// CHECK-NOT:     tile.load
// CHECK:         return
func.func @row(%p: tensor<1024x!tile.ptr<f32>>, %q: !tile.ptr<f32>, %out: !tile.ptr<f32>) attributes {tile.kernel, tile.gradients = []} {
  %x = tile.load %p : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  %sum = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<1024xf32>) -> f32
  %one = arith.constant dense<1024> : tensor<1024xi32>
  %further = tile.addptr %p, %one : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  %dy = tile.load %further : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  tile.store %out, %sum : !tile.ptr<f32>, f32
  %number = tile.load %q : !tile.ptr<f32> -> f32
  %most = tile.reduce(%dy) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<1024xf32>) -> f32
  %again = tile.load %p : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  tile.store %p, %again : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  %z = arith.addf %most, %number : f32
  tile.store %out, %z : !tile.ptr<f32>, f32
  return
}

// Not: a volatile load and what is behind it, a load whose mask the reduction decides, a load behind an atomic
// addition, one for which no registers are left, and any load of a kernel of somebody's own.
// CHECK-LABEL: func.func @volatile
// CHECK:         tile.reduce
// CHECK:         tile.load %arg1 volatile
// CHECK-NEXT:    tile.load %arg0
func.func @volatile(%p: tensor<1024x!tile.ptr<f32>>, %q: !tile.ptr<f32>) attributes {tile.kernel, tile.gradients = []} {
  %x = tile.load %p : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  %sum = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<1024xf32>) -> f32
  %v = tile.load %q volatile : !tile.ptr<f32> -> f32
  %y = tile.load %p : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  tile.store %p, %y : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  %z = arith.addf %sum, %v : f32
  tile.store %q, %z : !tile.ptr<f32>, f32
  return
}

// CHECK-LABEL: func.func @depends
// CHECK:         tile.reduce
// CHECK:         tile.load {{.*}} mask
func.func @depends(%p: tensor<1024x!tile.ptr<f32>>) attributes {tile.kernel, tile.gradients = []} {
  %zero = arith.constant 0.0 : f32
  %x = tile.load %p : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  %sum = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<1024xf32>) -> f32
  %some = arith.cmpf une, %sum, %zero : f32
  %mask = tile.splat %some : i1 -> tensor<1024xi1>
  %y = tile.load %p mask %mask : tensor<1024x!tile.ptr<f32>>, mask tensor<1024xi1> -> tensor<1024xf32>
  tile.store %p, %y : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  return
}

// CHECK-LABEL: func.func @atomic
// CHECK:         tile.reduce
// CHECK:         tile.atomic_rmw
// CHECK-NEXT:    tile.load %arg0
func.func @atomic(%p: tensor<1024x!tile.ptr<f32>>, %q: !tile.ptr<f32>) attributes {tile.kernel, tile.gradients = []} {
  %x = tile.load %p : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  %sum = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<1024xf32>) -> f32
  %old = tile.atomic_rmw fadd %q, %sum sem relaxed : !tile.ptr<f32>, f32
  %y = tile.load %p : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  tile.store %p, %y : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  return
}

// 4 warps: the block takes 64 registers of each thread.
// CHECK-LABEL: func.func @large
// CHECK:         tile.reduce
// CHECK:         tile.load %arg1
func.func @large(%p: tensor<1024x!tile.ptr<f32>>, %q: tensor<8192x!tile.ptr<f32>>, %out: !tile.ptr<f32>) attributes {tile.kernel, tile.gradients = []} {
  %x = tile.load %p : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  %sum = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<1024xf32>) -> f32
  %y = tile.load %q : tensor<8192x!tile.ptr<f32>> -> tensor<8192xf32>
  tile.store %q, %y : tensor<8192x!tile.ptr<f32>>, tensor<8192xf32>
  tile.store %out, %sum : !tile.ptr<f32>, f32
  return
}

// CHECK-LABEL: func.func @of_an_author
// CHECK:         tile.reduce
// CHECK:         tile.load %arg0
func.func @of_an_author(%p: tensor<1024x!tile.ptr<f32>>, %out: !tile.ptr<f32>) attributes {tile.kernel} {
  %x = tile.load %p : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  %sum = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<1024xf32>) -> f32
  %y = tile.load %p : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  tile.store %p, %y : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  tile.store %out, %sum : !tile.ptr<f32>, f32
  return
}

// Old sums that are added to and stored: with one barrier, in front of a loop and a store that write something else. What the loop writes itself is
// read behind it, in front of the stores; a value that is stored elsewhere where it was.
// CHECK-LABEL: func.func @old_sums
// CHECK:         %[[AT:.*]] = tile.addptr %arg1
// CHECK-NEXT:    tile.barrier
// CHECK-DAG:     %[[A:.*]] = tile.load %arg0
// CHECK-DAG:     %[[B:.*]] = tile.load %[[AT]]
// CHECK:         tile.store %arg3
// CHECK-NEXT:    scf.for
// CHECK-NOT:     tile.barrier
// CHECK:           tile.store %arg2
// CHECK:         }
// CHECK:         tile.barrier
// CHECK-NEXT:    %[[C:.*]] = tile.load %arg2
// CHECK-NEXT:    tile.store %arg0
// CHECK:         tile.store %[[AT]]
// CHECK-NEXT:    arith.addf %[[C]]
// CHECK-NEXT:    tile.store %arg2
// CHECK-NEXT:    tile.barrier
// CHECK-NEXT:    tile.load %arg0
// CHECK-NEXT:    arith.addf
// CHECK-NEXT:    tile.store %arg1
func.func @old_sums(%a: !tile.ptr<f32>, %b: !tile.ptr<f32>, %written: !tile.ptr<f32>, %other: !tile.ptr<f32>, %n: i32, %x: f32) attributes {tile.kernel, tile.gradients = []} {
  %none = arith.constant 0 : i32
  %step = arith.constant 1 : i32
  tile.store %other, %x : !tile.ptr<f32>, f32
  %total = scf.for %i = %none to %n step %step iter_args(%t = %x) -> (f32) : i32 {
    tile.store %written, %t : !tile.ptr<f32>, f32
    %next = arith.mulf %t, %x : f32
    scf.yield %next : f32
  }
  tile.barrier
  %old_a = tile.load %a : !tile.ptr<f32> -> f32
  %new_a = arith.addf %old_a, %total : f32
  tile.store %a, %new_a : !tile.ptr<f32>, f32
  %at = tile.addptr %b, %step : !tile.ptr<f32>, i32
  tile.barrier
  %old_b = tile.load %at : !tile.ptr<f32> -> f32
  %new_b = arith.addf %old_b, %total : f32
  tile.store %at, %new_b : !tile.ptr<f32>, f32
  tile.barrier
  %old_c = tile.load %written : !tile.ptr<f32> -> f32
  %new_c = arith.addf %old_c, %total : f32
  tile.store %written, %new_c : !tile.ptr<f32>, f32
  tile.barrier
  %old_d = tile.load %a : !tile.ptr<f32> -> f32
  %new_d = arith.addf %old_d, %total : f32
  tile.store %b, %new_d : !tile.ptr<f32>, f32
  return
}

// An owner adds to other elements in each turn of a loop: one barrier in front of it, and the old values are read with what the loop reads, in
// front of the condition, whose other branch accesses the same elements. The count goes down; the second loop moves by two blocks of 512.
// CHECK-LABEL: func.func @loop_of_owner
// CHECK:         tile.barrier
// CHECK-NEXT:    scf.for
// CHECK:           %[[X:.*]] = tile.load %{{.*}} mask
// CHECK-NEXT:      %[[OLD:.*]] = tile.load %[[AT:[0-9]+]] mask
// CHECK-NEXT:      arith.mulf %[[X]]
// CHECK:           scf.if
// CHECK-NEXT:        arith.addf %[[OLD]]
// CHECK-NEXT:        tile.store %[[AT]]
// CHECK:             tile.atomic_rmw
// CHECK:         tile.barrier
// CHECK-NEXT:    scf.for
// CHECK-NOT:     tile.barrier
// CHECK:         return
func.func @loop_of_owner(%x: !tile.ptr<f32>, %dx: !tile.ptr<f32>, %n: i32, %is_owner: i1, %other: !tile.ptr<f32>, %value: f32) attributes {tile.kernel, tile.gradients = []} {
  %none = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %block = arith.constant 1024 : i32
  %half = arith.constant 512 : i32
  %lanes = tile.range 0 to 1024 : tensor<1024xi32>
  %from = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %to = tile.splat %dx : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %end = tile.splat %n : i32 -> tensor<1024xi32>
  scf.for %i = %none to %n step %one : i32 {
    %left = arith.subi %n, %i : i32
    %begin = arith.muli %left, %block : i32
    %wide = tile.splat %begin : i32 -> tensor<1024xi32>
    %at = arith.addi %wide, %lanes : tensor<1024xi32>
    %mask = arith.cmpi slt, %at, %end : tensor<1024xi32>
    %p = tile.addptr %from, %at : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
    %q = tile.addptr %to, %at : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
    %a = tile.load %p mask %mask : tensor<1024x!tile.ptr<f32>>, mask tensor<1024xi1> -> tensor<1024xf32>
    %b = arith.mulf %a, %a : tensor<1024xf32>
    scf.if %is_owner {
      tile.barrier
      %old = tile.load %q mask %mask : tensor<1024x!tile.ptr<f32>>, mask tensor<1024xi1> -> tensor<1024xf32>
      %new = arith.addf %old, %b : tensor<1024xf32>
      tile.store %q, %new mask %mask : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>, mask tensor<1024xi1>
    } else {
      %o = tile.atomic_rmw fadd %q, %b mask %mask sem relaxed : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>, mask tensor<1024xi1>
    }
  }
  scf.for %i = %none to %n step %two : i32 {
    %begin = arith.muli %i, %half : i32
    %wide = tile.splat %begin : i32 -> tensor<1024xi32>
    %at = arith.addi %lanes, %wide : tensor<1024xi32>
    %p = tile.addptr %from, %at : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
    %q = tile.addptr %to, %at : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
    %a = tile.load %p : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
    tile.barrier
    %old = tile.load %q : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
    %new = arith.addf %old, %a : tensor<1024xf32>
    tile.store %q, %new : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
    tile.store %other, %value : !tile.ptr<f32>, f32
  }
  return
}

// Barriers stay: where the turns of a loop meet, where their distance is not known, and where the loop writes the gradient at another address, too.
// CHECK-LABEL: func.func @turns_that_meet
// CHECK:         scf.for
// CHECK:           tile.addptr
// CHECK-NEXT:      tile.barrier
// CHECK:         scf.for
// CHECK:           tile.addptr
// CHECK-NEXT:      tile.barrier
// CHECK:         scf.for
// CHECK:           tile.store %arg1
// CHECK-NEXT:      tile.barrier
func.func @turns_that_meet(%x: !tile.ptr<f32>, %dx: !tile.ptr<f32>, %n: i32, %stride: i32, %value: f32) attributes {tile.kernel, tile.gradients = []} {
  %none = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %block = arith.constant 1024 : i32
  %half = arith.constant 512 : i32
  %lanes = tile.range 0 to 1024 : tensor<1024xi32>
  %to = tile.splat %dx : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %a = tile.splat %value : f32 -> tensor<1024xf32>
  scf.for %i = %none to %n step %one : i32 {
    %begin = arith.muli %i, %half : i32
    %wide = tile.splat %begin : i32 -> tensor<1024xi32>
    %at = arith.addi %wide, %lanes : tensor<1024xi32>
    %q = tile.addptr %to, %at : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
    tile.barrier
    %old = tile.load %q : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
    %new = arith.addf %old, %a : tensor<1024xf32>
    tile.store %q, %new : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  }
  scf.for %i = %none to %n step %one : i32 {
    %begin = arith.muli %i, %stride : i32
    %wide = tile.splat %begin : i32 -> tensor<1024xi32>
    %at = arith.addi %wide, %lanes : tensor<1024xi32>
    %q = tile.addptr %to, %at : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
    tile.barrier
    %old = tile.load %q : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
    %new = arith.addf %old, %a : tensor<1024xf32>
    tile.store %q, %new : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  }
  scf.for %i = %none to %n step %one : i32 {
    %begin = arith.muli %i, %block : i32
    %wide = tile.splat %begin : i32 -> tensor<1024xi32>
    %at = arith.addi %wide, %lanes : tensor<1024xi32>
    %q = tile.addptr %to, %at : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
    tile.store %dx, %value : !tile.ptr<f32>, f32
    tile.barrier
    %old = tile.load %q : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
    %new = arith.addf %old, %a : tensor<1024xf32>
    tile.store %q, %new : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  }
  return
}
