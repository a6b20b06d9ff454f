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
