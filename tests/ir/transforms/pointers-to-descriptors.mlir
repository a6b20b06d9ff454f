// RUN: nereid-opt %s --pointers-to-descriptors --split-input-file | FileCheck %s

// The tutorial's product: remainders whose rows are never stored, pointers that a loop advances, masks along K.
// CHECK-LABEL: func.func @tutorial
// CHECK-DAG: %[[A:.*]] = tile.make_descriptor %arg0[%arg3, %arg5] strides[%{{.*}}] copy_engine optional : !tile.ptr<f16> -> !tile.desc<64x64xf16>
// CHECK-DAG: %[[B:.*]] = tile.make_descriptor %arg1[%arg5, %arg4] strides[%{{.*}}] copy_engine optional : !tile.ptr<f16> -> !tile.desc<64x64xf16>
// CHECK-DAG: tile.desc_mapped %[[A]]
// CHECK-DAG: tile.desc_mapped %[[B]]
// CHECK: scf.if
// CHECK: scf.for %[[K:[^ ]*]] = {{.*}} iter_args(%{{[^,]*}}) -> (tensor<64x64xf32>)
// CHECK-NOT: tile.load
// CHECK: %[[AT:.*]] = arith.muli %[[K]], %c64
// CHECK: tile.desc_load %[[A]][%{{[0-9]+}}, %[[AT]]]
// CHECK: tile.desc_load %[[B]][%[[AT]], %{{[0-9]+}}]
// CHECK: tile.dot
// CHECK: } else {
// CHECK: scf.for
// CHECK-NOT: tile.desc_load
// CHECK-COUNT-2: tile.load
// CHECK: tile.without_copies
func.func @tutorial(%x: !tile.ptr<f16>, %y: !tile.ptr<f16>, %z: !tile.ptr<f32>, %m: i32, %n: i32, %k: i32,
                    %sa: i32, %sb: i32, %sc: i32, %i: i32, %j: i32) attributes {tile.kernel} {
  %c0_i64 = arith.constant 0 : i64
  %c64_i64 = arith.constant 64 : i64
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %none = arith.constant dense<0.0> : tensor<64x64xf16>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %range = tile.range 0 to 64 : tensor<64xi32>
  %si = arith.muli %i, %c64 : i32
  %0 = tile.splat %si : i32 -> tensor<64xi32>
  %rows = arith.addi %0, %range : tensor<64xi32>
  %ms = tile.splat %m : i32 -> tensor<64xi32>
  %rowsIn = arith.remsi %rows, %ms : tensor<64xi32>
  %sj = arith.muli %j, %c64 : i32
  %1 = tile.splat %sj : i32 -> tensor<64xi32>
  %columns = arith.addi %1, %range : tensor<64xi32>
  %ns = tile.splat %n : i32 -> tensor<64xi32>
  %columnsIn = arith.remsi %columns, %ns : tensor<64xi32>
  %2 = tile.splat %sa : i32 -> tensor<64xi32>
  %3 = arith.muli %rowsIn, %2 : tensor<64xi32>
  %4 = tile.expand_dims %3 1 : tensor<64xi32> -> tensor<64x1xi32>
  %5 = tile.expand_dims %range 0 : tensor<64xi32> -> tensor<1x64xi32>
  %6 = tile.broadcast %4 : tensor<64x1xi32> -> tensor<64x64xi32>
  %7 = tile.broadcast %5 : tensor<1x64xi32> -> tensor<64x64xi32>
  %aOffsets = arith.addi %6, %7 : tensor<64x64xi32>
  %8 = tile.splat %sb : i32 -> tensor<64xi32>
  %9 = arith.muli %range, %8 : tensor<64xi32>
  %10 = tile.expand_dims %9 1 : tensor<64xi32> -> tensor<64x1xi32>
  %11 = tile.expand_dims %columnsIn 0 : tensor<64xi32> -> tensor<1x64xi32>
  %12 = tile.broadcast %10 : tensor<64x1xi32> -> tensor<64x64xi32>
  %13 = tile.broadcast %11 : tensor<1x64xi32> -> tensor<64x64xi32>
  %bOffsets = arith.addi %12, %13 : tensor<64x64xi32>
  %stepB = arith.muli %sb, %c64 : i32
  %stepWide = arith.extsi %stepB : i32 to i64
  %sum:3 = scf.for %t = %c0 to %k step %c1 iter_args(%acc = %zero, %ma = %c0_i64, %mb = %c0_i64) -> (tensor<64x64xf32>, i64, i64) : i32 {
    %pa = tile.addptr %x, %ma : !tile.ptr<f16>, i64
    %pas = tile.splat %pa : !tile.ptr<f16> -> tensor<64x64x!tile.ptr<f16>>
    %aPtrs = tile.addptr %pas, %aOffsets : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
    %pb = tile.addptr %y, %mb : !tile.ptr<f16>, i64
    %pbs = tile.splat %pb : !tile.ptr<f16> -> tensor<64x64x!tile.ptr<f16>>
    %bPtrs = tile.addptr %pbs, %bOffsets : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
    %done = arith.muli %t, %c64 : i32
    %rest = arith.subi %k, %done : i32
    %rests = tile.splat %rest : i32 -> tensor<64xi32>
    %in = arith.cmpi slt, %range, %rests : tensor<64xi32>
    %aIn = tile.expand_dims %in 0 : tensor<64xi1> -> tensor<1x64xi1>
    %aMask = tile.broadcast %aIn : tensor<1x64xi1> -> tensor<64x64xi1>
    %bIn = tile.expand_dims %in 1 : tensor<64xi1> -> tensor<64x1xi1>
    %bMask = tile.broadcast %bIn : tensor<64x1xi1> -> tensor<64x64xi1>
    %a = tile.load %aPtrs mask %aMask other %none : tensor<64x64x!tile.ptr<f16>>, mask tensor<64x64xi1>, other tensor<64x64xf16> -> tensor<64x64xf16>
    %b = tile.load %bPtrs mask %bMask other %none : tensor<64x64x!tile.ptr<f16>>, mask tensor<64x64xi1>, other tensor<64x64xf16> -> tensor<64x64xf16>
    %d = tile.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    %na = arith.addi %ma, %c64_i64 : i64
    %nb = arith.addi %mb, %stepWide : i64
    scf.yield %d, %na, %nb : tensor<64x64xf32>, i64, i64
  }
  %inRows = arith.cmpi slt, %rows, %ms : tensor<64xi32>
  %inColumns = arith.cmpi slt, %columns, %ns : tensor<64xi32>
  %14 = tile.expand_dims %inRows 1 : tensor<64xi1> -> tensor<64x1xi1>
  %15 = tile.expand_dims %inColumns 0 : tensor<64xi1> -> tensor<1x64xi1>
  %16 = tile.broadcast %14 : tensor<64x1xi1> -> tensor<64x64xi1>
  %17 = tile.broadcast %15 : tensor<1x64xi1> -> tensor<64x64xi1>
  %inBoth = arith.andi %16, %17 : tensor<64x64xi1>
  %18 = tile.splat %sc : i32 -> tensor<64xi32>
  %19 = arith.muli %rows, %18 : tensor<64xi32>
  %20 = tile.expand_dims %19 1 : tensor<64xi32> -> tensor<64x1xi32>
  %21 = tile.expand_dims %columns 0 : tensor<64xi32> -> tensor<1x64xi32>
  %22 = tile.broadcast %20 : tensor<64x1xi32> -> tensor<64x64xi32>
  %23 = tile.broadcast %21 : tensor<1x64xi32> -> tensor<64x64xi32>
  %24 = arith.addi %22, %23 : tensor<64x64xi32>
  %zs = tile.splat %z : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  %zPtrs = tile.addptr %zs, %24 : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xi32>
  tile.store %zPtrs, %sum#0 mask %inBoth : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>, mask tensor<64x64xi1>
  return
}

// -----

// Without masks the tensor is as long as coordinates reach; the contiguous dimension of A is its first one: the block comes transposed.
// CHECK-LABEL: func.func @transposed
// CHECK-DAG: %[[LONG:.*]] = arith.constant 2147483647 : i32
// CHECK: tile.make_descriptor %arg0[%[[LONG]], %[[LONG]]] strides[%{{.*}}] copy_engine optional : !tile.ptr<f16> -> !tile.desc<64x128xf16>
// CHECK: %[[BLOCK:.*]] = tile.desc_load {{.*}} -> tensor<64x128xf16>
// CHECK: tile.trans %[[BLOCK]] [1, 0]
func.func @transposed(%x: !tile.ptr<f16>, %z: !tile.ptr<f32>, %s: i64, %k: i32, %b: tensor<64x64xf16>) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<128x64xf32>
  %rows = tile.range 0 to 128 : tensor<128xi32>
  %range = tile.range 0 to 64 : tensor<64xi32>
  %out = tile.splat %z : !tile.ptr<f32> -> tensor<128x64x!tile.ptr<f32>>
  %re = tile.expand_dims %rows 1 : tensor<128xi32> -> tensor<128x1xi32>
  %rb = tile.broadcast %re : tensor<128x1xi32> -> tensor<128x64xi32>
  %xs = tile.splat %x : !tile.ptr<f16> -> tensor<128x64x!tile.ptr<f16>>
  %p = tile.addptr %xs, %rb : tensor<128x64x!tile.ptr<f16>>, tensor<128x64xi32>
  %sum = scf.for %t = %c0 to %k step %c64 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
    %ts = tile.splat %t : i32 -> tensor<64xi32>
    %ks = arith.addi %ts, %range : tensor<64xi32>
    %wide = arith.extsi %ks : tensor<64xi32> to tensor<64xi64>
    %ss = tile.splat %s : i64 -> tensor<64xi64>
    %far = arith.muli %wide, %ss : tensor<64xi64>
    %ke = tile.expand_dims %far 0 : tensor<64xi64> -> tensor<1x64xi64>
    %kb = tile.broadcast %ke : tensor<1x64xi64> -> tensor<128x64xi64>
    %q = tile.addptr %p, %kb : tensor<128x64x!tile.ptr<f16>>, tensor<128x64xi64>
    %a = tile.load %q : tensor<128x64x!tile.ptr<f16>> -> tensor<128x64xf16>
    %d = tile.dot %a, %b, %acc : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
    scf.yield %d : tensor<128x64xf32>
  }
  tile.store %out, %sum : tensor<128x64x!tile.ptr<f32>>, tensor<128x64xf32>
  return
}

// -----

// What stays: each time one thing is in the way.
// CHECK-LABEL: func.func @refused
// CHECK-NOT: tile.make_descriptor
// CHECK: return
func.func @refused(%x: !tile.ptr<f16>, %q: !tile.ptr<f16>, %z: !tile.ptr<f32>, %s: i32, %k: i32, %one: f16, %w: !tile.ptr<i32>)
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %ones = arith.constant dense<1.0> : tensor<64x64xf16>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %range = tile.range 0 to 64 : tensor<64xi32>
  %b = tile.splat %one : f16 -> tensor<64x64xf16>
  %ss = tile.splat %s : i32 -> tensor<64xi32>
  %far = arith.muli %range, %ss : tensor<64xi32>
  %fe = tile.expand_dims %far 1 : tensor<64xi32> -> tensor<64x1xi32>
  %fb = tile.broadcast %fe : tensor<64x1xi32> -> tensor<64x64xi32>
  %re = tile.expand_dims %range 0 : tensor<64xi32> -> tensor<1x64xi32>
  %rb = tile.broadcast %re : tensor<1x64xi32> -> tensor<64x64xi32>
  %offsets = arith.addi %fb, %rb : tensor<64x64xi32>
  %xs = tile.splat %x : !tile.ptr<f16> -> tensor<64x64x!tile.ptr<f16>>
  %rows = tile.addptr %xs, %offsets : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
  %ks = tile.splat %k : i32 -> tensor<64xi32>
  %in = arith.cmpi slt, %range, %ks : tensor<64xi32>
  %ine = tile.expand_dims %in 0 : tensor<64xi1> -> tensor<1x64xi1>
  %mask = tile.broadcast %ine : tensor<1x64xi1> -> tensor<64x64xi1>
  // `other` is not zero.
  %0 = scf.for %t = %c0 to %k step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %a = tile.load %rows mask %mask other %ones : tensor<64x64x!tile.ptr<f16>>, mask tensor<64x64xi1>, other tensor<64x64xf16> -> tensor<64x64xf16>
    %d = tile.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  // Both dimensions have strides that are known at run time alone.
  %ge = tile.expand_dims %far 0 : tensor<64xi32> -> tensor<1x64xi32>
  %gb = tile.broadcast %ge : tensor<1x64xi32> -> tensor<64x64xi32>
  %both = arith.addi %fb, %gb : tensor<64x64xi32>
  %strided = tile.addptr %xs, %both : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
  %1 = scf.for %t = %c0 to %k step %c1 iter_args(%acc = %0) -> (tensor<64x64xf32>) : i32 {
    %a = tile.load %strided : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
    %d = tile.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  // A store that may be to the same place.
  %2 = scf.for %t = %c0 to %k step %c1 iter_args(%acc = %1) -> (tensor<64x64xf32>) : i32 {
    %a = tile.load %rows : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
    %d = tile.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    tile.store %q, %one : !tile.ptr<f16>, f16
    scf.yield %d : tensor<64x64xf32>
  }
  // Rows from memory.
  %3 = scf.for %t = %c0 to %k step %c1 iter_args(%acc = %2) -> (tensor<64x64xf32>) : i32 {
    %at = tile.addptr %w, %t : !tile.ptr<i32>, i32
    %row = tile.load %at : !tile.ptr<i32> -> i32
    %from = tile.splat %row : i32 -> tensor<64x64xi32>
    %p = tile.addptr %rows, %from : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
    %a = tile.load %p : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
    %d = tile.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  // Columns that begin at any number.
  %ts = tile.splat %s : i32 -> tensor<64x64xi32>
  %odd = tile.addptr %rows, %ts : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
  %oddMask = arith.constant dense<true> : tensor<64x64xi1>
  %4 = scf.for %t = %c0 to %k step %c1 iter_args(%acc = %3) -> (tensor<64x64xf32>) : i32 {
    %moved = tile.splat %t : i32 -> tensor<64x64xi32>
    %p = tile.addptr %rows, %moved : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
    %a = tile.load %p : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
    %d = tile.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  // Volatile; a mask that is no bound.
  %5 = scf.for %t = %c0 to %k step %c1 iter_args(%acc = %4) -> (tensor<64x64xf32>) : i32 {
    %a = tile.load %rows volatile : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
    %d = tile.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  %equal = arith.cmpi eq, %range, %ks : tensor<64xi32>
  %eqe = tile.expand_dims %equal 0 : tensor<64xi1> -> tensor<1x64xi1>
  %eqMask = tile.broadcast %eqe : tensor<1x64xi1> -> tensor<64x64xi1>
  %6 = scf.for %t = %c0 to %k step %c1 iter_args(%acc = %5) -> (tensor<64x64xf32>) : i32 {
    %a = tile.load %rows mask %eqMask : tensor<64x64x!tile.ptr<f16>>, mask tensor<64x64xi1> -> tensor<64x64xf16>
    %d = tile.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  %zs = tile.splat %z : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>>
  tile.store %zs, %6 : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  return
}
