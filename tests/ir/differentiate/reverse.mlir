// RUN: nereid-opt --differentiate --canonicalize --split-input-file %s | FileCheck %s

// The gradient is read where the output was stored, nothing else is stored, and each element of the
// input's gradient has one owner when the grid has one axis.
// CHECK-LABEL: func.func @multiply(%arg0: !tile.ptr<f32>, %arg1: !tile.ptr<f32>, %arg2: !tile.ptr<f32>,
// CHECK-SAME:    %arg3: !tile.ptr<f32> {tile.gradient_facts = 30 : i64}, %arg4: !tile.ptr<f32>) attributes {tile.gradients = ["the gradient of `argument 0` is stored by the program that owns it where the grid has one program along axis 1 and the grid has one program along axis 2, and summed by atomic additions elsewhere"], tile.kernel}
func.func @multiply(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt}, %w: !tile.ptr<f32>,
                    %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %dx: !tile.ptr<f32>,
                    %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  // CHECK-NOT: tile.store
  // CHECK: %[[DX:.*]] = tile.addptr %arg3
  // CHECK: %[[W:.*]] = tile.load %arg1
  // CHECK: %[[DY:.*]] = tile.load %{{.*}} : !tile.ptr<f32> -> f32
  // CHECK: %[[A:.*]] = arith.mulf %[[DY]], %[[W]]
  // CHECK: scf.if
  // CHECK-NEXT: tile.store %[[DX]], %[[A]]
  // CHECK-NEXT: } else {
  // CHECK-NEXT: tile.atomic_rmw fadd %[[DX]], %[[A]]
  // CHECK-NEXT: }
  // CHECK-NEXT: return
  %id = tile.program_id 0
  %p = tile.addptr %x, %id : !tile.ptr<f32>, i32
  %0 = tile.load %p : !tile.ptr<f32> -> f32
  %1 = tile.load %w : !tile.ptr<f32> -> f32
  %2 = arith.mulf %0, %1 : f32
  %q = tile.addptr %y, %id : !tile.ptr<f32>, i32
  tile.store %q, %2 : !tile.ptr<f32>, f32
  return
}

// -----

// An element that is loaded twice has one owner, who stores first and adds then; sums become
// broadcasts.
// CHECK-LABEL: func.func @sums
func.func @sums(%x: !tile.ptr<f32> {tile.tangent = 2 : i64, tile.wrt},
                %y: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.out}, %dx: !tile.ptr<f32>,
                %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  %p = tile.splat %x : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %i = tile.range 0 to 8 : tensor<8xi32>
  %q = tile.addptr %p, %i : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  %v = tile.load %q : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
  %first = tile.load %x : !tile.ptr<f32> -> f32
  // CHECK: %[[DY:.*]] = tile.load %arg3
  // CHECK: %[[A:.*]] = tile.splat %[[DY]] : f32 -> tensor<8xf32>
  // CHECK: scf.if
  // CHECK-NEXT: tile.store %arg2, %[[DY]]
  // CHECK-NEXT: } else {
  // CHECK-NEXT: tile.atomic_rmw fadd %arg2, %[[DY]]
  // CHECK: scf.if
  // CHECK-NEXT: tile.barrier
  // CHECK-NEXT: %[[OLD:.*]] = tile.load
  // CHECK-NEXT: %[[NEW:.*]] = arith.addf %[[OLD]], %[[A]]
  // CHECK-NEXT: tile.store %{{.*}}, %[[NEW]]
  // CHECK-NEXT: } else {
  // CHECK-NEXT: tile.atomic_rmw fadd %{{.*}}, %[[A]]
  %sum = tile.reduce(%v) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<8xf32>) -> f32
  %r = arith.addf %sum, %first : f32
  tile.store %y, %r : !tile.ptr<f32>, f32
  return
}

// -----

// A branch computes anew what its transpose needs, and gives the adjoints of what it used.
// CHECK-LABEL: func.func @branch
func.func @branch(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt},
                  %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %c: i1, %dx: !tile.ptr<f32>,
                  %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  %v = tile.load %x : !tile.ptr<f32> -> f32
  // CHECK: %[[DY:.*]] = tile.load %arg4
  // CHECK: %[[A:.*]] = scf.if %arg2 -> (f32) {
  // CHECK:   %[[E:.*]] = math.exp
  // CHECK:   arith.mulf %[[DY]], %[[E]]
  // CHECK: } else {
  // CHECK:   scf.yield %[[DY]]
  // CHECK: }
  %r = scf.if %c -> f32 {
    %e = math.exp %v : f32
    scf.yield %e : f32
  } else {
    scf.yield %v : f32
  }
  tile.store %y, %r : !tile.ptr<f32>, f32
  return
}

// -----

// The adjoint of an accumulator is the same in all rounds: one loop backwards, without the states.
// CHECK-LABEL: func.func @accumulator
func.func @accumulator(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt},
                       %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %n: i32, %dx: !tile.ptr<f32>,
                       %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  // CHECK: %[[DY:.*]] = tile.load %arg4
  // CHECK: scf.for %[[J:.*]] = %c0_i32 to %[[T:.*]] step %c1_i32
  // CHECK-NOT: iter_args
  // CHECK:   %[[LAST:.*]] = arith.subi %[[T]], %c1_i32
  // CHECK:   %[[K:.*]] = arith.subi %[[LAST]], %[[J]]
  // CHECK:   %[[DP:.*]] = tile.addptr %arg3, %[[K]]
  // CHECK:   %[[V:.*]] = tile.load
  // CHECK:   %[[COS:.*]] = math.cos %[[V]]
  // CHECK:   %[[A:.*]] = arith.mulf %[[DY]], %[[COS]]
  // CHECK:   tile.store %[[DP]], %[[A]]
  // CHECK-NOT: scf.for
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %sum = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %zero) -> (f32) : i32 {
    %p = tile.addptr %x, %k : !tile.ptr<f32>, i32
    %v = tile.load %p : !tile.ptr<f32> -> f32
    %s = math.sin %v : f32
    %next = arith.addf %acc, %s : f32
    scf.yield %next : f32
  }
  tile.store %y, %sum : !tile.ptr<f32>, f32
  return
}

// -----

// A state that the transpose reads is computed again: to the beginning of a segment, and from there.
// CHECK-LABEL: func.func @recurrence
func.func @recurrence(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt},
                      %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %n: i32, %dx: !tile.ptr<f32>,
                      %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  // CHECK: %[[V:.*]] = tile.load %arg0
  // CHECK: %[[DY:.*]] = tile.load %arg4
  // CHECK: math.sqrt
  // CHECK: %[[SEGMENTS:.*]] = scf.for {{.*}} iter_args(%[[AFTER:.*]] = %[[DY]]) -> (f32)
  // CHECK:   %[[STATE:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[V]]) -> (f32)
  // CHECK:   scf.for {{.*}} iter_args(%[[A:.*]] = %[[AFTER]]) -> (f32)
  // CHECK:     %[[H:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[STATE]]) -> (f32)
  // CHECK:     %[[COS:.*]] = math.cos %[[H]]
  // CHECK:     %[[B:.*]] = arith.mulf %[[A]], %[[COS]]
  // CHECK:     scf.yield %[[B]]
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %v = tile.load %x : !tile.ptr<f32> -> f32
  %last = scf.for %k = %c0 to %n step %c1 iter_args(%h = %v) -> (f32) : i32 {
    %s = math.sin %h : f32
    scf.yield %s : f32
  }
  tile.store %y, %last : !tile.ptr<f32>, f32
  return
}

// -----

// Of a body with many operations there is one copy for both runs where less code is asked for: a loop
// of two turns, of which the second goes on from the beginning of the segment.
// CHECK-LABEL: func.func @compact
func.func @compact(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt},
                   %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %n: i32, %dx: !tile.ptr<f32>,
                   %dy: !tile.ptr<f32>) attributes {tile.compact, tile.kernel, tile.reverse} {
  // CHECK-NOT: tile.compact
  // CHECK: %[[V:.*]] = tile.load %arg0
  // CHECK: scf.for {{.*}} iter_args(%[[AFTER:.*]] = %{{.*}}) -> (f32)
  // CHECK:   scf.for %[[NUMBER:.*]] = {{.*}} iter_args(%[[THERE:.*]] = %[[V]], %[[A:.*]] = %[[AFTER]]) -> (f32, f32)
  // CHECK:     %[[NEW:.*]] = arith.cmpi eq, %[[NUMBER]], %c0_i32
  // CHECK:     %[[START:.*]] = arith.select %[[NEW]], %[[V]], %[[THERE]]
  // CHECK:     %[[KNOWN:.*]] = arith.cmpi ne, %[[NUMBER]], %c0_i32
  // CHECK:     %[[FROM:.*]] = arith.extui %[[KNOWN]]
  // CHECK:     %[[TURNS:.*]]:2 = scf.for %{{.*}} = %[[FROM]] to %c2_i32 step %c1_i32 iter_args(%[[H:.*]] = %[[START]], %[[KEPT:.*]] = %[[THERE]])
  // CHECK:       %[[REACHED:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[H]]) -> (f32)
  // CHECK:       %[[NEXT:.*]] = arith.select %{{.*}}, %[[REACHED]], %[[KEPT]]
  // CHECK:       scf.yield %[[REACHED]], %[[NEXT]]
  // CHECK:     math.cos %[[TURNS]]#0
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %v = tile.load %x : !tile.ptr<f32> -> f32
  %last = scf.for %k = %c0 to %n step %c1 iter_args(%h = %v) -> (f32) : i32 {
    %s0 = math.sin %h : f32
    %s1 = math.sin %s0 : f32
    %s2 = math.sin %s1 : f32
    %s3 = math.sin %s2 : f32
    %s4 = math.sin %s3 : f32
    %s5 = math.sin %s4 : f32
    %s6 = math.sin %s5 : f32
    %s7 = math.sin %s6 : f32
    %s8 = math.sin %s7 : f32
    %s9 = math.sin %s8 : f32
    %s10 = math.sin %s9 : f32
    %s11 = math.sin %s10 : f32
    %s12 = math.sin %s11 : f32
    %s13 = math.sin %s12 : f32
    %s14 = math.sin %s13 : f32
    %s15 = math.sin %s14 : f32
    %s16 = math.sin %s15 : f32
    %s17 = math.sin %s16 : f32
    %s18 = math.sin %s17 : f32
    %s19 = math.sin %s18 : f32
    %s20 = math.sin %s19 : f32
    %s21 = math.sin %s20 : f32
    %s22 = math.sin %s21 : f32
    %s23 = math.sin %s22 : f32
    %s24 = math.sin %s23 : f32
    %s25 = math.sin %s24 : f32
    %s26 = math.sin %s25 : f32
    %s27 = math.sin %s26 : f32
    %s28 = math.sin %s27 : f32
    %s29 = math.sin %s28 : f32
    %s30 = math.sin %s29 : f32
    %s31 = math.sin %s30 : f32
    %s32 = math.sin %s31 : f32
    %s33 = math.sin %s32 : f32
    %s34 = math.sin %s33 : f32
    %s35 = math.sin %s34 : f32
    %s36 = math.sin %s35 : f32
    %s37 = math.sin %s36 : f32
    %s38 = math.sin %s37 : f32
    %s39 = math.sin %s38 : f32
    %s40 = math.sin %s39 : f32
    %s41 = math.sin %s40 : f32
    %s42 = math.sin %s41 : f32
    %s43 = math.sin %s42 : f32
    %s44 = math.sin %s43 : f32
    %s45 = math.sin %s44 : f32
    %s46 = math.sin %s45 : f32
    %s47 = math.sin %s46 : f32
    scf.yield %s47 : f32
  }
  tile.store %y, %last : !tile.ptr<f32>, f32
  return
}

// -----

// Loops three deep: copies of inner loops must not refer to tangents of copies that are gone.
// CHECK-LABEL: func.func @deep
// CHECK: math.cos
func.func @deep(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt},
                %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %n: i32, %dx: !tile.ptr<f32>,
                %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %v = tile.load %x : !tile.ptr<f32> -> f32
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%a = %v) -> (f32) : i32 {
    %outer = scf.for %j = %c0 to %n step %c1 iter_args(%b = %a) -> (f32) : i32 {
      %inner = scf.for %k = %c0 to %j step %c1 iter_args(%c = %b) -> (f32) : i32 {
        %s = math.sin %c : f32
        scf.yield %s : f32
      }
      scf.yield %inner : f32
    }
    scf.yield %outer : f32
  }
  tile.store %y, %last : !tile.ptr<f32>, f32
  return
}

// -----

// Two loads of the same addresses are one, and one that is the same in all rounds leaves the loop: its
// contributions are summed in a register. A loop without rounds reads nothing.
// CHECK-LABEL: func.func @merged
func.func @merged(%x: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt},
                  %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out}, %n: i32, %dx: !tile.ptr<f32>,
                  %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  // CHECK: %[[RUNS:.*]] = arith.cmpi sgt, %arg2
  // CHECK: tile.load %{{.*}} mask %[[RUNS]]
  // CHECK: %[[SUM:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}) -> (f32)
  // CHECK-NOT: tile.store
  // CHECK: scf.if
  // CHECK-NEXT: tile.store %{{.*}}, %[[SUM]] mask %[[RUNS]]
  // CHECK-NOT: tile.store
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %k = %c0 to %n step %c1 : i32 {
    %p = tile.addptr %x, %c1 : !tile.ptr<f32>, i32
    %v = tile.load %p : !tile.ptr<f32> -> f32
    %w = tile.load %p : !tile.ptr<f32> -> f32
    %r = arith.mulf %v, %w : f32
    %q = tile.addptr %y, %k : !tile.ptr<f32>, i32
    tile.store %q, %r : !tile.ptr<f32>, f32
  }
  return
}

// -----

// Lanes that a mask leaves out hold zero times what may be infinite: they are zeroed before they
// meet the others.
// CHECK-LABEL: func.func @lanes
func.func @lanes(%x: !tile.ptr<f32>, %w: f32 {tile.tangent = 4 : i64, tile.wrt},
                 %y: !tile.ptr<f32> {tile.tangent = 5 : i64, tile.out}, %n: i32, %dw: !tile.ptr<f32>,
                 %dy: !tile.ptr<f32>) attributes {tile.kernel, tile.reverse} {
  // CHECK: %[[M:.*]] = arith.cmpi slt
  // CHECK: %[[V:.*]] = tile.load %{{.*}} mask %[[M]]
  // CHECK: %[[DY:.*]] = tile.load %{{.*}} mask %[[M]]
  // CHECK: %[[A:.*]] = arith.divf %[[DY]], %[[V]]
  // CHECK: %[[ZEROED:.*]] = arith.select %[[M]], %[[A]], %{{.*}}
  // CHECK: tile.reduce(%[[ZEROED]])
  %i = tile.range 0 to 8 : tensor<8xi32>
  %bound = tile.splat %n : i32 -> tensor<8xi32>
  %m = arith.cmpi slt, %i, %bound : tensor<8xi32>
  %px = tile.splat %x : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %qx = tile.addptr %px, %i : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  %v = tile.load %qx mask %m : tensor<8x!tile.ptr<f32>>, mask tensor<8xi1> -> tensor<8xf32>
  %s = tile.splat %w : f32 -> tensor<8xf32>
  %r = arith.divf %s, %v : tensor<8xf32>
  %py = tile.splat %y : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %qy = tile.addptr %py, %i : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  tile.store %qy, %r mask %m : tensor<8x!tile.ptr<f32>>, tensor<8xf32>, mask tensor<8xi1>
  return
}

// -----

// Partial sums: a launched program computes several of the kernel's, sums in a register what has the
// same address in all of them, and adds it to its row.
// CHECK-LABEL: func.func @partial
// CHECK-SAME: tile.gradients = ["the gradient of `argument 1` is summed in partial sums, one of each launched program, which a second launch adds"]
func.func @partial(%x: !tile.ptr<f32>, %w: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.wrt},
                   %y: !tile.ptr<f32> {tile.tangent = 4 : i64, tile.out},
                   %dw: !tile.ptr<f32> {tile.row = 5 : i64}, %dy: !tile.ptr<f32>, %row: i64, %p0: i32,
                   %p1: i32, %p2: i32)
    attributes {tile.kernel, tile.reverse, tile.programs = array<i64: 6, 7, 8>} {
  // CHECK-DAG: %[[OWN:.*]] = tile.program_id 0
  // CHECK-DAG: %[[LAUNCHED:.*]] = tile.num_programs 0
  // CHECK: %[[BEGIN:.*]] = arith.muli %{{.*}}, %arg5
  // CHECK: %[[ROW:.*]] = tile.addptr %arg3, %[[BEGIN]]
  // CHECK: %[[SUM:.*]] = scf.for %[[P:.*]] = %[[OWN]] to %{{.*}} step %[[LAUNCHED]] iter_args(%[[S:.*]] = %{{.*}}) -> (f32)
  // CHECK-NOT: tile.store
  // CHECK:   %[[NEXT:.*]] = arith.addf %[[S]]
  // CHECK:   scf.yield %[[NEXT]]
  // CHECK: tile.barrier
  // CHECK: %[[OLD:.*]] = tile.load %[[ROW]]
  // CHECK: %[[NEW:.*]] = arith.addf %[[OLD]], %[[SUM]]
  // CHECK: tile.store %[[ROW]], %[[NEW]]
  // CHECK-NOT: atomic
  %id = tile.program_id 0
  %p = tile.addptr %x, %id : !tile.ptr<f32>, i32
  %v = tile.load %p : !tile.ptr<f32> -> f32
  %u = tile.load %w : !tile.ptr<f32> -> f32
  %r = arith.mulf %v, %u : f32
  %q = tile.addptr %y, %id : !tile.ptr<f32>, i32
  tile.store %q, %r : !tile.ptr<f32>, f32
  return
}

// -----

// With outputs the kernel stores what it stored, once, but no tangents.
// CHECK-LABEL: func.func @outputs
// CHECK-NOT:     tile.output
// CHECK-NOT:     tile.store
// CHECK:         %[[Y:.*]] = arith.mulf
// CHECK:         tile.store %arg1, %[[Y]]
// CHECK:         tile.store %arg4, %c7_i32
// CHECK-NOT:     tile.store %arg1
// CHECK:         tile.store %arg2
// CHECK-NOT:     tile.store
// CHECK:         return
func.func @outputs(%x: !tile.ptr<f32> {tile.tangent = 2 : i64, tile.wrt},
                   %y: !tile.ptr<f32> {tile.tangent = 3 : i64, tile.out}, %dx: !tile.ptr<f32>,
                   %dy: !tile.ptr<f32>, %count: !tile.ptr<i32>) attributes {tile.kernel, tile.reverse, tile.outputs} {
  %v = tile.load %x : !tile.ptr<f32> -> f32
  %w = arith.mulf %v, %v : f32
  tile.store %y, %w : !tile.ptr<f32>, f32
  %seven = arith.constant 7 : i32
  tile.store %count, %seven : !tile.ptr<i32>, i32
  return
}
