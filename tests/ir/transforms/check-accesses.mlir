// RUN: nereid-opt --check-accesses %s | FileCheck %s

// Each pointer gets its extent, [low, high), behind the arguments.
// CHECK-LABEL: func.func @copy
// CHECK-SAME: %[[N:arg2]]: i32, %[[XLOW:[a-z0-9]+]]: i64, %[[XHIGH:[a-z0-9]+]]: i64, %[[YLOW:[a-z0-9]+]]: i64, %[[YHIGH:[a-z0-9]+]]: i64)
func.func @copy(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %pid = tile.program_id 0
  %c1024 = arith.constant 1024 : i32
  %start = arith.muli %pid, %c1024 : i32
  %range = tile.range 0 to 1024 : tensor<1024xi32>
  %starts = tile.splat %start : i32 -> tensor<1024xi32>
  %offsets = arith.addi %starts, %range : tensor<1024xi32>
  %ns = tile.splat %n : i32 -> tensor<1024xi32>
  %mask = arith.cmpi slt, %offsets, %ns : tensor<1024xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %px = tile.addptr %xs, %offsets : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  // The offset is computed once more in 64 bits.
  // CHECK: tile.check overflow %{{.*}} mask %[[MASK:.*]] argument -1
  // CHECK: %[[ADDRESS:.*]] = tile.ptr_to_int
  // CHECK: %[[SIZE:.*]] = arith.constant 4 : i64
  // CHECK: arith.subi %[[XHIGH]], %[[SIZE]] : i64
  // CHECK: tile.splat %[[XLOW]]
  // CHECK: tile.check bounds %{{.*}} detail %{{.*}} mask %{{.*}} argument 0
  // What masked-off lanes hold is the front end's to say.
  // CHECK: tile.load %{{[0-9]+}} mask %{{[0-9]+}} : tensor<1024x!tile.ptr<f32>>
  %v = tile.load %px mask %mask : tensor<1024x!tile.ptr<f32>>, mask tensor<1024xi1> -> tensor<1024xf32>
  %ys = tile.splat %y : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %py = tile.addptr %ys, %offsets : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  // CHECK: tile.check bounds %{{.*}} detail %{{.*}} mask %{{.*}} argument 1
  // CHECK: tile.store
  tile.store %py, %v mask %mask : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>, mask tensor<1024xi1>
  return
}

// A choice between pointers is checked on each side.
// CHECK-LABEL: func.func @choice
func.func @choice(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %c: i1) attributes {tile.kernel} {
  %p = arith.select %c, %x, %y : !tile.ptr<f32>
  // CHECK: tile.check bounds %{{.*}} detail %{{.*}} mask %arg2 argument 0
  // CHECK: %[[NOT:.*]] = arith.xori %arg2
  // CHECK: tile.check bounds %{{.*}} detail %{{.*}} mask %[[NOT]] argument 1
  %v = tile.load %p : !tile.ptr<f32> -> f32
  // CHECK: tile.check bounds %{{.*}} detail %{{.*}} argument 1
  tile.store %y, %v : !tile.ptr<f32>, f32
  return
}

// So it is behind shape operations, which the condition takes, too.
// CHECK-LABEL: func.func @choice_in_another_shape
func.func @choice_in_another_shape(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %c: tensor<8xi1>) attributes {tile.kernel} {
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %ys = tile.splat %y : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %p = arith.select %c, %xs, %ys : tensor<8xi1>, tensor<8x!tile.ptr<f32>>
  %q = tile.expand_dims %p 1 : tensor<8x!tile.ptr<f32>> -> tensor<8x1x!tile.ptr<f32>>
  // CHECK: %[[MASK:.*]] = tile.expand_dims %arg2 1 : tensor<8xi1> -> tensor<8x1xi1>
  // CHECK: tile.check bounds %{{.*}} detail %{{.*}} mask %[[MASK]] argument 0
  // CHECK: %[[NOT:.*]] = arith.xori %[[MASK]]
  // CHECK: tile.check bounds %{{.*}} detail %{{.*}} mask %[[NOT]] argument 1
  %v = tile.load %q : tensor<8x1x!tile.ptr<f32>> -> tensor<8x1xf32>
  return
}

// A loop carries the origin; a pointer loaded from memory must fall into some argument.
// CHECK-LABEL: func.func @carried
func.func @carried(%x: !tile.ptr<f32>, %table: !tile.ptr<!tile.ptr<f32>>) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c8 = arith.constant 8 : i32
  // CHECK: scf.for
  %last = scf.for %i = %c0 to %c8 step %c1 iter_args(%p = %x) -> (!tile.ptr<f32>) : i32 {
    // CHECK: tile.check bounds %{{.*}} detail %{{.*}} argument 0
    %v = tile.load %p : !tile.ptr<f32> -> f32
    %next = tile.addptr %p, %c1 : !tile.ptr<f32>, i32
    scf.yield %next : !tile.ptr<f32>
  }
  // CHECK: tile.check bounds %{{.*}} detail %{{.*}} argument 1
  %q = tile.load %table : !tile.ptr<!tile.ptr<f32>> -> !tile.ptr<f32>
  // CHECK: arith.ori
  // CHECK: tile.check bounds %{{.*}} detail %{{.*}} argument -1
  %w = tile.load %q : !tile.ptr<f32> -> f32
  // CHECK: tile.check bounds %{{.*}} detail %{{.*}} argument 0
  tile.store %last, %w : !tile.ptr<f32>, f32
  return
}
