// Sums that loops of gradient kernels add up: taken behind the loops, as far as registers allow.
// RUN: nereid-opt %s --gpu-sum-loops --split-input-file | FileCheck %s

// Two sums; the second begins with an argument. What a sum is used for otherwise stays in the loop.
// CHECK-LABEL: func.func @sums
// CHECK:         %[[ALL:.*]]:3 = scf.for {{.*}} iter_args(%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}}, %[[C:.*]] = %arg2) -> (tensor<1024xf32>, tensor<1024xf32>, f32)
// CHECK:           %[[X:.*]] = tile.load
// CHECK:           %[[SQUARES:.*]] = arith.mulf %[[X]], %[[X]]
// CHECK:           %[[SUM:.*]] = tile.reduce
// CHECK:           tile.store %arg1, %[[SUM]]
// CHECK-DAG:       %[[C1:.*]] = arith.addf %[[C]], %[[SUM]] : f32
// CHECK-DAG:       %[[A1:.*]] = arith.addf %[[A]], %[[X]] : tensor<1024xf32>
// CHECK-DAG:       %[[B1:.*]] = arith.addf %[[B]], %[[SQUARES]] : tensor<1024xf32>
// CHECK:           scf.yield %[[A1]], %[[B1]], %[[C1]]
// CHECK:         %[[FIRST:.*]] = tile.reduce(%[[ALL]]#0) axis 0
// CHECK:         %[[BEHIND:.*]] = tile.reduce(%[[ALL]]#1) axis 0
// CHECK:         %[[SECOND:.*]] = arith.addf %arg2, %[[BEHIND]] : f32
// CHECK:         tile.store %arg1, %[[FIRST]]
// CHECK:         tile.store %arg1, %[[SECOND]]
// CHECK:         tile.store %arg1, %[[ALL]]#2
func.func @sums(%at: tensor<1024x!tile.ptr<f32>>, %out: !tile.ptr<f32>, %begin: f32, %n: i32) attributes {tile.kernel, tile.gradients = []} {
  %none = arith.constant 0 : i32
  %step = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %all:3 = scf.for %i = %none to %n step %step iter_args(%a = %zero, %b = %begin, %c = %begin) -> (f32, f32, f32) : i32 {
    %x = tile.load %at : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
    %first = tile.reduce(%x) axis 0 {
    ^bb0(%l: f32, %r: f32):
      %both = arith.addf %l, %r : f32
      tile.yield %both : f32
    } : (tensor<1024xf32>) -> f32
    %squares = arith.mulf %x, %x : tensor<1024xf32>
    %second = tile.reduce(%squares) axis 0 {
    ^bb0(%l: f32, %r: f32):
      %both = arith.addf %l, %r : f32
      tile.yield %both : f32
    } : (tensor<1024xf32>) -> f32
    %used = tile.reduce(%x) axis 0 {
    ^bb0(%l: f32, %r: f32):
      %both = arith.addf %l, %r : f32
      tile.yield %both : f32
    } : (tensor<1024xf32>) -> f32
    tile.store %out, %used : !tile.ptr<f32>, f32
    %a1 = arith.addf %a, %first : f32
    %b1 = arith.addf %second, %b : f32
    %c1 = arith.addf %c, %used : f32
    scf.yield %a1, %b1, %c1 : f32, f32, f32
  }
  tile.store %out, %all#0 : !tile.ptr<f32>, f32
  tile.store %out, %all#1 : !tile.ptr<f32>, f32
  tile.store %out, %all#2 : !tile.ptr<f32>, f32
  return
}

// -----

// Of nested loops both, and the inner one goes on with the block of the outer one; rows of a block stay rows.
// CHECK-LABEL: func.func @nested
// CHECK:         %[[OUTER:.*]] = scf.for {{.*}} iter_args(%[[A:.*]] = %{{.*}}) -> (tensor<64x32xf32>)
// CHECK:           %[[INNER:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %[[A]]) -> (tensor<64x32xf32>)
// CHECK-NOT:         tile.reduce
// CHECK:           }
// CHECK-NOT:       tile.reduce
// CHECK:           scf.yield %[[INNER]] : tensor<64x32xf32>
// CHECK:         tile.reduce(%[[OUTER]]) axis 1
// CHECK-NOT:     tile.reduce
func.func @nested(%at: tensor<64x32x!tile.ptr<f32>>, %out: tensor<64x!tile.ptr<f32>>, %n: i32) attributes {tile.kernel, tile.gradients = []} {
  %none = arith.constant 0 : i32
  %step = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64xf32>
  %all = scf.for %i = %none to %n step %step iter_args(%a = %zero) -> (tensor<64xf32>) : i32 {
    %some = scf.for %j = %none to %n step %step iter_args(%b = %zero) -> (tensor<64xf32>) : i32 {
      %x = tile.load %at : tensor<64x32x!tile.ptr<f32>> -> tensor<64x32xf32>
      %sum = tile.reduce(%x) axis 1 {
      ^bb0(%l: f32, %r: f32):
        %both = arith.addf %l, %r : f32
        tile.yield %both : f32
      } : (tensor<64x32xf32>) -> tensor<64xf32>
      %b1 = arith.addf %b, %sum : tensor<64xf32>
      scf.yield %b1 : tensor<64xf32>
    }
    %a1 = arith.addf %a, %some : tensor<64xf32>
    scf.yield %a1 : tensor<64xf32>
  }
  tile.store %out, %all : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  return
}

// -----

// Not a maximum, not what takes more than 32 registers of a thread, and not a sum that an iteration reads.
// CHECK-LABEL: func.func @others
// CHECK:         scf.for {{.*}} -> (f32, f32, f32)
func.func @others(%at: tensor<8192x!tile.ptr<f32>>, %small: tensor<1024x!tile.ptr<f32>>, %out: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, tile.gradients = []} {
  %none = arith.constant 0 : i32
  %step = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %all:3 = scf.for %i = %none to %n step %step iter_args(%a = %zero, %b = %zero, %c = %zero) -> (f32, f32, f32) : i32 {
    %x = tile.load %at : tensor<8192x!tile.ptr<f32>> -> tensor<8192xf32>
    %y = tile.load %small : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
    %first = tile.reduce(%y) axis 0 {
    ^bb0(%l: f32, %r: f32):
      %both = arith.maxnumf %l, %r : f32
      tile.yield %both : f32
    } : (tensor<1024xf32>) -> f32
    %second = tile.reduce(%x) axis 0 {
    ^bb0(%l: f32, %r: f32):
      %both = arith.addf %l, %r : f32
      tile.yield %both : f32
    } : (tensor<8192xf32>) -> f32
    %third = tile.reduce(%y) axis 0 {
    ^bb0(%l: f32, %r: f32):
      %both = arith.addf %l, %r : f32
      tile.yield %both : f32
    } : (tensor<1024xf32>) -> f32
    %a1 = arith.addf %a, %first : f32
    %b1 = arith.addf %b, %second : f32
    tile.store %out, %c : !tile.ptr<f32>, f32
    %c1 = arith.addf %c, %third : f32
    scf.yield %a1, %b1, %c1 : f32, f32, f32
  }
  tile.store %out, %all#0 : !tile.ptr<f32>, f32
  tile.store %out, %all#1 : !tile.ptr<f32>, f32
  tile.store %out, %all#2 : !tile.ptr<f32>, f32
  return
}

// -----

// A kernel of an author keeps its order.
// CHECK-LABEL: func.func @written
// CHECK:         scf.for {{.*}} -> (f32)
func.func @written(%at: tensor<1024x!tile.ptr<f32>>, %out: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %none = arith.constant 0 : i32
  %step = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %all = scf.for %i = %none to %n step %step iter_args(%a = %zero) -> (f32) : i32 {
    %x = tile.load %at : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
    %sum = tile.reduce(%x) axis 0 {
    ^bb0(%l: f32, %r: f32):
      %both = arith.addf %l, %r : f32
      tile.yield %both : f32
    } : (tensor<1024xf32>) -> f32
    %a1 = arith.addf %a, %sum : f32
    scf.yield %a1 : f32
  }
  tile.store %out, %all : !tile.ptr<f32>, f32
  return
}
