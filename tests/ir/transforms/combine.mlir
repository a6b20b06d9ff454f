// RUN: nereid-opt %s --combine | FileCheck %s

// CHECK-LABEL: @splats_are_computed_as_scalars
// CHECK-SAME: (%[[A:.*]]: i32, %[[B:.*]]: i32, %[[C:.*]]: i1)
// CHECK-DAG: %[[FIVE:.*]] = arith.constant 5 : i32
// CHECK: %[[SUM:.*]] = arith.addi %[[A]], %[[B]] : i32
// CHECK-NEXT: %[[LESS:.*]] = arith.cmpi slt, %[[SUM]], %[[FIVE]] : i32
// CHECK-NEXT: %[[PICK:.*]] = arith.select %[[LESS]], %[[A]], %[[B]] : i32
// CHECK-NEXT: %[[R:.*]] = tile.splat %[[PICK]] : i32 -> tensor<8xi32>
// CHECK-NEXT: return %[[R]]
func.func @splats_are_computed_as_scalars(%a: i32, %b: i32, %c: i1) -> tensor<8xi32> {
  %as = tile.splat %a : i32 -> tensor<8xi32>
  %bs = tile.splat %b : i32 -> tensor<8xi32>
  %five = arith.constant dense<5> : tensor<8xi32>
  %sum = arith.addi %as, %bs : tensor<8xi32>
  %less = arith.cmpi slt, %sum, %five : tensor<8xi32>
  %pick = arith.select %less, %as, %bs : tensor<8xi1>, tensor<8xi32>
  return %pick : tensor<8xi32>
}

// A comparison of a column with a number is made on the column, not on the matrix.
// CHECK-LABEL: @before_repeating
// CHECK-SAME: (%[[V:.*]]: tensor<4xi32>, %[[N:.*]]: i32)
// CHECK-NEXT: %[[S:.*]] = tile.splat %[[N]] : i32 -> tensor<4xi32>
// CHECK-NEXT: %[[LESS:.*]] = arith.cmpi slt, %[[V]], %[[S]] : tensor<4xi32>
// CHECK-NEXT: %[[E:.*]] = tile.expand_dims %[[LESS]] 1 : tensor<4xi1> -> tensor<4x1xi1>
// CHECK-NEXT: %[[B:.*]] = tile.broadcast %[[E]] : tensor<4x1xi1> -> tensor<4x8xi1>
// CHECK-NEXT: return %[[B]]
func.func @before_repeating(%v: tensor<4xi32>, %n: i32) -> tensor<4x8xi1> {
  %e = tile.expand_dims %v 1 : tensor<4xi32> -> tensor<4x1xi32>
  %b = tile.broadcast %e : tensor<4x1xi32> -> tensor<4x8xi32>
  %s = tile.splat %n : i32 -> tensor<4x8xi32>
  %less = arith.cmpi slt, %b, %s : tensor<4x8xi32>
  return %less : tensor<4x8xi1>
}

// A row and a column meet in the matrix.
// CHECK-LABEL: @different_shapes_stay
// CHECK: arith.addi %{{.*}}, %{{.*}} : tensor<4x8xi32>
func.func @different_shapes_stay(%row: tensor<1x8xi32>, %col: tensor<4x1xi32>) -> tensor<4x8xi32> {
  %r = tile.broadcast %row : tensor<1x8xi32> -> tensor<4x8xi32>
  %c = tile.broadcast %col : tensor<4x1xi32> -> tensor<4x8xi32>
  %sum = arith.addi %r, %c : tensor<4x8xi32>
  return %sum : tensor<4x8xi32>
}

// CHECK-LABEL: @uniform_offset_first
// CHECK-SAME: (%[[P:.*]]: !tile.ptr<f32>, %[[S:.*]]: i64)
// CHECK-DAG: %[[R:.*]] = tile.range
// CHECK-DAG: %[[Q:.*]] = tile.addptr %[[P]], %[[S]] : !tile.ptr<f32>, i64
// CHECK: %[[QS:.*]] = tile.splat %[[Q]]
// CHECK: %[[RESULT:.*]] = tile.addptr %[[QS]], %[[R]] : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
// CHECK-NEXT: return %[[RESULT]]
func.func @uniform_offset_first(%p: !tile.ptr<f32>, %s: i64) -> tensor<8x!tile.ptr<f32>> {
  %ps = tile.splat %p : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %r = tile.range 0 to 8 : tensor<8xi32>
  %0 = tile.addptr %ps, %r : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  %ss = tile.splat %s : i64 -> tensor<8xi64>
  %1 = tile.addptr %0, %ss : tensor<8x!tile.ptr<f32>>, tensor<8xi64>
  return %1 : tensor<8x!tile.ptr<f32>>
}

// CHECK-LABEL: @uniform_terms_together
// CHECK-SAME: (%[[X:.*]]: tensor<8xi32>, %[[A:.*]]: i32, %[[B:.*]]: i32)
// CHECK-NEXT: %[[SUM:.*]] = arith.addi %[[A]], %[[B]] : i32
// CHECK-NEXT: %[[S:.*]] = tile.splat %[[SUM]]
// CHECK-NEXT: %[[R:.*]] = arith.addi %[[X]], %[[S]]
// CHECK-NEXT: return %[[R]]
func.func @uniform_terms_together(%x: tensor<8xi32>, %a: i32, %b: i32) -> tensor<8xi32> {
  %as = tile.splat %a : i32 -> tensor<8xi32>
  %bs = tile.splat %b : i32 -> tensor<8xi32>
  %0 = arith.addi %as, %x : tensor<8xi32>
  %1 = arith.addi %0, %bs : tensor<8xi32>
  return %1 : tensor<8xi32>
}

// CHECK-LABEL: @load_of_one_address
// CHECK-SAME: (%[[P:.*]]: !tile.ptr<f32>, %[[M:.*]]: i1)
// CHECK: %[[V:.*]] = tile.load %[[P]] mask %[[M]] : !tile.ptr<f32>, mask i1 -> f32
// CHECK: tile.load %{{.*}} volatile : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
func.func @load_of_one_address(%p: !tile.ptr<f32>, %m: i1) -> (tensor<8xf32>, tensor<8xf32>) {
  %ps = tile.splat %p : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %ms = tile.splat %m : i1 -> tensor<8xi1>
  %0 = tile.load %ps mask %ms : tensor<8x!tile.ptr<f32>>, mask tensor<8xi1> -> tensor<8xf32>
  %1 = tile.load %ps volatile : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: @select_is_other
// CHECK: %[[V:.*]] = tile.load %{{.*}} mask %{{.*}} other %{{.*}} : tensor<8x!tile.ptr<f32>>
// CHECK-NEXT: return %[[V]]
func.func @select_is_other(%p: tensor<8x!tile.ptr<f32>>, %m: tensor<8xi1>, %x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tile.load %p mask %m : tensor<8x!tile.ptr<f32>>, mask tensor<8xi1> -> tensor<8xf32>
  %1 = arith.select %m, %0, %x : tensor<8xi1>, tensor<8xf32>
  return %1 : tensor<8xf32>
}

// Not when `x` comes after the load, nor under another mask.
// CHECK-LABEL: @select_stays
// CHECK-COUNT-2: arith.select
func.func @select_stays(%p: tensor<8x!tile.ptr<f32>>, %m: tensor<8xi1>, %n: tensor<8xi1>, %x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = tile.load %p mask %m : tensor<8x!tile.ptr<f32>>, mask tensor<8xi1> -> tensor<8xf32>
  %late = arith.negf %x : tensor<8xf32>
  %1 = arith.select %m, %0, %late : tensor<8xi1>, tensor<8xf32>
  %2 = tile.load %p mask %n : tensor<8x!tile.ptr<f32>>, mask tensor<8xi1> -> tensor<8xf32>
  %3 = arith.select %m, %2, %x : tensor<8xi1>, tensor<8xf32>
  return %1, %3 : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: @sum_into_dot
// CHECK-SAME: (%[[A:.*]]: tensor<4x8xf32>, %[[B:.*]]: tensor<8x4xf32>, %[[C:.*]]: tensor<4x4xf32>)
// CHECK-NEXT: %[[D:.*]] = tile.dot %[[A]], %[[B]], %[[C]] precision ieee : tensor<4x8xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
// CHECK-NEXT: return %[[D]]
func.func @sum_into_dot(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>, %c: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x4xf32>
  %d = tile.dot %a, %b, %zero precision ieee : tensor<4x8xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
  %s = arith.addf %c, %d : tensor<4x4xf32>
  return %s : tensor<4x4xf32>
}

// Not a product that is used elsewhere, nor one that has an accumulator already.
// CHECK-LABEL: @sum_stays
// CHECK-COUNT-2: arith.addf
func.func @sum_stays(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>, %c: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %zero = arith.constant dense<0.0> : tensor<4x4xf32>
  %d = tile.dot %a, %b, %zero : tensor<4x8xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
  %s = arith.addf %c, %d : tensor<4x4xf32>
  %e = tile.dot %a, %b, %c : tensor<4x8xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
  %t = arith.addf %c, %e : tensor<4x4xf32>
  return %s, %d, %t : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// Loops of no round and of one; what no round changes.
// CHECK-LABEL: @trivial_loops
// CHECK-SAME: (%[[X:.*]]: f32, %[[N:.*]]: i32)
// CHECK-NOT: scf.for
// CHECK: %[[Y:.*]] = arith.negf %[[X]]
// CHECK-NEXT: return %[[X]], %[[Y]]
func.func @trivial_loops(%x: f32, %n: i32) -> (f32, f32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %none = scf.for %i = %c1 to %c0 step %c1 iter_args(%v = %x) -> f32 : i32 {
    %w = arith.addf %v, %v : f32
    scf.yield %w : f32
  }
  %once = scf.for %i = %c0 to %c1 step %c1 iter_args(%v = %x) -> f32 : i32 {
    %w = arith.negf %v : f32
    scf.yield %w : f32
  }
  %same = scf.for %i = %c0 to %n step %c1 iter_args(%v = %none) -> f32 : i32 {
    scf.yield %v : f32
  }
  return %same, %once : f32, f32
}

// -----

// Quotient and remainder of one number make the number, if their factors fit.
// CHECK-LABEL: func.func @quotient_and_remainder(
// CHECK-SAME:    %[[X:.*]]: i32,
func.func @quotient_and_remainder(%x: i32, %y: i32) -> (i32, i32, i32, i32) {
  %c2 = arith.constant 2 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %quotient = arith.divsi %x, %c2 : i32
  %remainder = arith.remsi %x, %c2 : i32
  %tile = arith.muli %quotient, %c128 : i32
  %part = arith.muli %remainder, %c64 : i32
  // CHECK: %[[ALL:.*]] = arith.muli %[[X]], %c64_i32
  %0 = arith.addi %tile, %part : i32
  %whole = arith.muli %quotient, %c2 : i32
  %1 = arith.addi %remainder, %whole : i32
  // CHECK: %[[FACTORS:.*]] = arith.addi
  %2 = arith.addi %tile, %remainder : i32
  %other = arith.remsi %y, %c2 : i32
  %of_other = arith.muli %other, %c64 : i32
  // CHECK: %[[NUMBERS:.*]] = arith.addi
  %3 = arith.addi %tile, %of_other : i32
  // CHECK: return %[[ALL]], %[[X]], %[[FACTORS]], %[[NUMBERS]]
  return %0, %1, %2, %3 : i32, i32, i32, i32
}

// Columns that are compared with a number of 64 bits stay 32 bits wide.
// CHECK-LABEL: func.func @equal
// CHECK-SAME:  (%[[X:.*]]: tensor<8xi32>, %[[Y:.*]]: i64)
// CHECK:       %[[CUT:.*]] = arith.trunci %[[Y]] : i64 to i32
// CHECK-NEXT:  %[[AGAIN:.*]] = arith.extsi %[[CUT]]
// CHECK-NEXT:  %[[FITS:.*]] = arith.cmpi eq, %[[AGAIN]], %[[Y]] : i64
// CHECK-NEXT:  %[[SPLAT:.*]] = tile.splat %[[CUT]] : i32
// CHECK-NEXT:  %[[SAME:.*]] = arith.cmpi eq, %[[X]], %[[SPLAT]] : tensor<8xi32>
// CHECK-NEXT:  %[[ALL:.*]] = tile.splat %[[FITS]]
// CHECK-NEXT:  %[[RESULT:.*]] = arith.andi %[[SAME]], %[[ALL]]
// CHECK-NEXT:  return %[[RESULT]]
func.func @equal(%x: tensor<8xi32>, %y: i64) -> tensor<8xi1> {
  %wide = arith.extsi %x : tensor<8xi32> to tensor<8xi64>
  %all = tile.splat %y : i64 -> tensor<8xi64>
  %same = arith.cmpi eq, %wide, %all : tensor<8xi64>
  return %same : tensor<8xi1>
}

// Unsigned numbers, the other way round.
// CHECK-LABEL: func.func @different
// CHECK:       %[[AGAIN:.*]] = arith.extui %{{.*}} : i32 to i64
// CHECK-NEXT:  arith.cmpi ne, %[[AGAIN]]
// CHECK:       arith.cmpi ne, %{{.*}} : tensor<8xi32>
// CHECK:       arith.ori
func.func @different(%x: tensor<8xi32>, %y: i64) -> tensor<8xi1> {
  %wide = arith.extui %x : tensor<8xi32> to tensor<8xi64>
  %all = tile.splat %y : i64 -> tensor<8xi64>
  %same = arith.cmpi ne, %all, %wide : tensor<8xi64>
  return %same : tensor<8xi1>
}

// Orders are compared as they are.
// CHECK-LABEL: func.func @less
// CHECK:       arith.cmpi slt, %{{.*}} : tensor<8xi64>
func.func @less(%x: tensor<8xi32>, %y: i64) -> tensor<8xi1> {
  %wide = arith.extsi %x : tensor<8xi32> to tensor<8xi64>
  %all = tile.splat %y : i64 -> tensor<8xi64>
  %less = arith.cmpi slt, %wide, %all : tensor<8xi64>
  return %less : tensor<8xi1>
}

// A choice that a mask makes again where the block is written, behind arithmetic and in branches.
// CHECK-LABEL: func.func @written_where
// CHECK-SAME:  (%[[P:[^:]*]]: {{.*}}, %[[M:[^:]*]]: tensor<8xi1>, %[[N:[^:]*]]: tensor<8xi1>, %[[X:[^:]*]]: tensor<8xf32>
// CHECK-NOT:   arith.select
// CHECK:       %[[SUM:.*]] = arith.addf %[[X]], %[[X]]
// CHECK:       %[[CUT:.*]] = arith.truncf %[[SUM]]
// CHECK:       tile.store %[[P]], %[[CUT]] mask %[[M]]
// CHECK:       %[[BOTH:.*]] = arith.andi
// CHECK:       tile.atomic_rmw fadd %[[P]], %[[CUT]] mask %[[BOTH]]
func.func @written_where(%p: tensor<8x!tile.ptr<bf16>>, %m: tensor<8xi1>, %n: tensor<8xi1>, %x: tensor<8xf32>, %which: i1) {
  %zero = arith.constant dense<0.0> : tensor<8xf32>
  %none = arith.constant dense<0.0> : tensor<8xbf16>
  %own = arith.select %m, %x, %zero : tensor<8xi1>, tensor<8xf32>
  %sum = arith.addf %own, %x : tensor<8xf32>
  %cut = arith.truncf %sum : tensor<8xf32> to tensor<8xbf16>
  %either = arith.ori %n, %m : tensor<8xi1>
  %chosen = arith.select %either, %cut, %none : tensor<8xi1>, tensor<8xbf16>
  scf.if %which {
    tile.store %p, %chosen mask %m : tensor<8x!tile.ptr<bf16>>, tensor<8xbf16>, mask tensor<8xi1>
  } else {
    %both = arith.andi %n, %m : tensor<8xi1>
    %old = tile.atomic_rmw fadd %p, %chosen mask %both : tensor<8x!tile.ptr<bf16>>, tensor<8xbf16>, mask tensor<8xi1>
  }
  return
}

// Not where other lanes are written, or all of them, or where a sum or a comparison reads the block, or integers.
// CHECK-LABEL: func.func @written_elsewhere
// CHECK-COUNT-5: arith.select
func.func @written_elsewhere(%p: tensor<8x!tile.ptr<f32>>, %q: tensor<8x!tile.ptr<i32>>, %one: !tile.ptr<f32>, %m: tensor<8xi1>, %n: tensor<8xi1>, %x: tensor<8xf32>, %i: tensor<8xi32>) {
  %zero = arith.constant dense<0.0> : tensor<8xf32>
  %ones = arith.constant dense<1> : tensor<8xi32>
  %a = arith.select %m, %x, %zero : tensor<8xi1>, tensor<8xf32>
  %either = arith.ori %n, %m : tensor<8xi1>
  tile.store %p, %a mask %either : tensor<8x!tile.ptr<f32>>, tensor<8xf32>, mask tensor<8xi1>
  %b = arith.select %n, %x, %zero : tensor<8xi1>, tensor<8xf32>
  tile.store %p, %b : tensor<8x!tile.ptr<f32>>, tensor<8xf32>
  %y = math.exp %x : tensor<8xf32>
  %c = arith.select %m, %y, %zero : tensor<8xi1>, tensor<8xf32>
  tile.store %p, %c mask %m : tensor<8x!tile.ptr<f32>>, tensor<8xf32>, mask tensor<8xi1>
  %sum = tile.reduce(%c) axis 0 {
  ^bb0(%l: f32, %r: f32):
    %both = arith.addf %l, %r : f32
    tile.yield %both : f32
  } : (tensor<8xf32>) -> f32
  tile.store %one, %sum : !tile.ptr<f32>, f32
  %z = math.sqrt %x : tensor<8xf32>
  %d = arith.select %m, %z, %zero : tensor<8xi1>, tensor<8xf32>
  %less = arith.cmpf olt, %d, %zero : tensor<8xf32>
  %only = arith.andi %less, %m : tensor<8xi1>
  tile.store %p, %d mask %only : tensor<8x!tile.ptr<f32>>, tensor<8xf32>, mask tensor<8xi1>
  %by = arith.select %m, %i, %ones : tensor<8xi1>, tensor<8xi32>
  %quotient = arith.divsi %i, %by : tensor<8xi32>
  tile.store %q, %quotient mask %m : tensor<8x!tile.ptr<i32>>, tensor<8xi32>, mask tensor<8xi1>
  return
}
