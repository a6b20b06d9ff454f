// What leads to addresses of large tensors is computed in 64 bits, where 32 may not do.
// RUN: nereid-opt %s --widen-offsets | FileCheck %s

// The mask too: a wrapped offset would be below the bound. Who else uses the offset sees it wrap.
// CHECK-LABEL: func.func @elementwise
// CHECK: %[[PID:.*]] = tile.program_id 0
// CHECK-DAG: %[[WIDE:.*]] = arith.extsi %[[PID]] : i32 to i64
// CHECK: %[[START:.*]] = arith.muli %{{.*}}, %{{.*}} : i64
// CHECK: %[[OFFSETS:.*]] = arith.addi %{{.*}}, %{{.*}} : tensor<1024xi64>
// CHECK: %[[MASK:.*]] = arith.cmpi slt, %[[OFFSETS]], %{{.*}} : tensor<1024xi64>
// CHECK: tile.addptr %{{.*}}, %[[OFFSETS]]
// CHECK: tile.load %{{.*}} mask %[[MASK]]
// CHECK: tile.store %{{.*}}, %{{.*}} : tensor<1024x!tile.ptr<i32>>, tensor<1024xi32>
func.func @elementwise(%x: !tile.ptr<i8> {tile.large}, %y: tensor<1024x!tile.ptr<i32>>, %n: i32) attributes {tile.kernel} {
  %pid = tile.program_id 0
  %c = arith.constant 1024 : i32
  %start = arith.muli %pid, %c : i32
  %s = tile.splat %start : i32 -> tensor<1024xi32>
  %r = tile.range 0 to 1024 : tensor<1024xi32>
  %offsets = arith.addi %s, %r : tensor<1024xi32>
  %bound = tile.splat %n : i32 -> tensor<1024xi32>
  %mask = arith.cmpi slt, %offsets, %bound : tensor<1024xi32>
  %p = tile.splat %x : !tile.ptr<i8> -> tensor<1024x!tile.ptr<i8>>
  %q = tile.addptr %p, %offsets : tensor<1024x!tile.ptr<i8>>, tensor<1024xi32>
  %v = tile.load %q mask %mask : tensor<1024x!tile.ptr<i8>>, mask tensor<1024xi1> -> tensor<1024xi8>
  tile.store %q, %v mask %mask : tensor<1024x!tile.ptr<i8>>, tensor<1024xi8>, mask tensor<1024xi1>
  tile.store %y, %offsets : tensor<1024x!tile.ptr<i32>>, tensor<1024xi32>
  return
}

// Nothing is repeated for a small tensor, nor where nothing can wrap, nor of what may be meant to wrap.
// CHECK-LABEL: func.func @stays
// CHECK-NOT: i64
// CHECK: return
func.func @stays(%x: !tile.ptr<i8>, %y: !tile.ptr<i8> {tile.large}, %n: i32) attributes {tile.kernel} {
  %c7 = arith.constant 7 : i32
  %product = arith.muli %n, %n : i32
  %p = tile.addptr %x, %product : !tile.ptr<i8>, i32
  %hash = arith.andi %product, %c7 : i32
  %next = arith.addi %hash, %c7 : i32
  %q = tile.addptr %y, %next : !tile.ptr<i8>, i32
  %v = tile.load %q : !tile.ptr<i8> -> i8
  tile.store %p, %v : !tile.ptr<i8>, i8
  return
}

// A loop carries the number twice.
// CHECK-LABEL: func.func @carried
// CHECK: %[[LOOP:.*]]:2 = scf.for {{.*}} iter_args(%[[NARROW:.*]] = %{{.*}}, %[[AT:.*]] = %{{.*}}) -> (i32, i64)
// CHECK: tile.addptr %{{.*}}, %[[AT]] : !tile.ptr<i8>, i64
// CHECK: %[[NEXT:.*]] = arith.addi %[[AT]], %{{.*}} : i64
// CHECK: scf.yield %{{.*}}, %[[NEXT]] : i32, i64
// CHECK: tile.addptr %{{.*}}, %[[LOOP]]#1 : !tile.ptr<i8>, i64
func.func @carried(%x: !tile.ptr<i8> {tile.large}, %step: i32, %n: index) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i8
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%at = %step) -> (i32) {
    %p = tile.addptr %x, %at : !tile.ptr<i8>, i32
    tile.store %p, %zero : !tile.ptr<i8>, i8
    %next = arith.addi %at, %step : i32
    scf.yield %next : i32
  }
  %q = tile.addptr %x, %last : !tile.ptr<i8>, i32
  tile.store %q, %zero : !tile.ptr<i8>, i8
  return
}
