// Sums over lanes that loops of gradient kernels add up, behind the loops.
// RUN: nereid-opt %s --gpu-defer-sums | FileCheck %s

// Of two nested loops the inner one goes on with the block of the outer one.
// CHECK-LABEL: func.func @nested
// CHECK-SAME:    %arg3: f32
// CHECK:         %[[ALL:.*]] = scf.for {{.*}} iter_args(%[[OUTER:.*]] = %cst{{.*}}) -> (tensor<1024xf32>)
// CHECK:           %[[PART:.*]] = scf.for {{.*}} iter_args(%[[INNER:.*]] = %[[OUTER]]) -> (tensor<1024xf32>)
// CHECK-NOT:         tile.reduce
// CHECK:             %[[SUM:.*]] = arith.addf %[[INNER]], %{{.*}} : tensor<1024xf32>
// CHECK:             scf.yield %[[SUM]]
// CHECK-NOT:       tile.reduce
// CHECK:           scf.yield %[[PART]]
// CHECK:         %[[WHOLE:.*]] = tile.reduce(%[[ALL]])
// CHECK:         %[[RESULT:.*]] = arith.addf %arg3, %[[WHOLE]] : f32
// CHECK:         tile.store %arg1, %[[RESULT]]
func.func @nested(%p: tensor<1024x!tile.ptr<f32>>, %out: !tile.ptr<f32>, %n: i32, %begin: f32) attributes {tile.kernel, tile.gradients = []} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %nothing = arith.constant 0.0 : f32
  %all = scf.for %i = %zero to %n step %one iter_args(%s = %begin) -> (f32) : i32 {
    %part = scf.for %k = %zero to %n step %one iter_args(%t = %nothing) -> (f32) : i32 {
      %x = tile.load %p : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
      %sum = tile.reduce(%x) axis 0 {
      ^bb0(%a: f32, %b: f32):
        %c = arith.addf %a, %b : f32
        tile.yield %c : f32
      } : (tensor<1024xf32>) -> f32
      %u = arith.addf %t, %sum : f32
      scf.yield %u : f32
    }
    %v = arith.addf %s, %part : f32
    scf.yield %v : f32
  }
  tile.store %out, %all : !tile.ptr<f32>, f32
  return
}

// A sum that the loop uses, a maximum, and a block of more than 32 registers of a thread stay.
// CHECK-LABEL: func.func @others
// CHECK:         scf.for {{.*}} -> (f32, f32, f32)
// CHECK-COUNT-3:   tile.reduce
// CHECK:           scf.yield
// CHECK-NOT:     tile.reduce
// CHECK:         return
func.func @others(%p: tensor<1024x!tile.ptr<f32>>, %q: tensor<16384x!tile.ptr<f32>>, %out: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, tile.gradients = []} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %nothing = arith.constant 0.0 : f32
  %r:3 = scf.for %i = %zero to %n step %one iter_args(%s = %nothing, %m = %nothing, %w = %nothing) -> (f32, f32, f32) : i32 {
    %x = tile.load %p : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
    %sum = tile.reduce(%x) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<1024xf32>) -> f32
    %u = arith.addf %s, %sum : f32
    tile.store %out, %u : !tile.ptr<f32>, f32
    %most = tile.reduce(%x) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.maxnumf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<1024xf32>) -> f32
    %v = arith.addf %m, %most : f32
    %y = tile.load %q : tensor<16384x!tile.ptr<f32>> -> tensor<16384xf32>
    %long = tile.reduce(%y) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<16384xf32>) -> f32
    %z = arith.addf %w, %long : f32
    scf.yield %u, %v, %z : f32, f32, f32
  }
  tile.store %out, %r#0 : !tile.ptr<f32>, f32
  tile.store %out, %r#1 : !tile.ptr<f32>, f32
  tile.store %out, %r#2 : !tile.ptr<f32>, f32
  return
}

// The kernel of an author keeps its order.
// CHECK-LABEL: func.func @author
// CHECK:         scf.for {{.*}} -> (f32)
// CHECK:           tile.reduce
func.func @author(%p: tensor<1024x!tile.ptr<f32>>, %out: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %nothing = arith.constant 0.0 : f32
  %all = scf.for %i = %zero to %n step %one iter_args(%s = %nothing) -> (f32) : i32 {
    %x = tile.load %p : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
    %sum = tile.reduce(%x) axis 0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    } : (tensor<1024xf32>) -> f32
    %u = arith.addf %s, %sum : f32
    scf.yield %u : f32
  }
  tile.store %out, %all : !tile.ptr<f32>, f32
  return
}
