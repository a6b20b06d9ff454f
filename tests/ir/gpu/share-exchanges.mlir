// Sums of gradient kernels: of terms that need fewer exchanges before them, and several in one exchange.
// RUN: nereid-opt %s --gpu-share-exchanges --split-input-file | FileCheck %s

// The gradient of a row divided by its sum: dy/s - sum(dy*p/s)/s. Both sums share the exchange behind the maximum; what is the same for the
// whole row is multiplied behind the sum, whose zero stays zero.
// CHECK-LABEL: func.func @softmax
// CHECK:         tile.reduce(%arg0)
// CHECK:         %[[P:.*]] = math.exp
// CHECK:         %[[PRODUCT:.*]] = arith.mulf %arg1, %[[P]] : tensor<1024xf32>
// CHECK:         %[[OWN:.*]] = arith.select %arg2, %[[PRODUCT]]
// CHECK:         %[[SUMS:.*]]:2 = tile.reduce(%[[P]], %[[OWN]]) axis 0
// CHECK:           %[[A:.*]] = arith.addf %[[L0:.*]], %[[R0:.*]] : f32
// CHECK:           %[[B:.*]] = arith.addf %{{.*}}, %{{.*}} : f32
// CHECK:           tile.yield %[[A]], %[[B]]
// CHECK-NOT:     tile.reduce
// CHECK:         %[[FIRST:.*]] = arith.divf %[[SUMS]]#1, %[[SUMS]]#0 : f32
// CHECK:         %[[MINUS:.*]] = arith.negf %[[FIRST]] : f32
// CHECK:         %[[SECOND:.*]] = arith.divf %[[MINUS]], %[[SUMS]]#0 : f32
// CHECK:         %[[COUNTS:.*]] = arith.cmpf une, %[[SUMS]]#1, %{{.*}} : f32
// CHECK:         %[[ALL:.*]] = arith.select %[[COUNTS]], %[[SECOND]], %{{.*}} : f32
// CHECK:         tile.store %arg3, %[[ALL]]
func.func @softmax(%x: tensor<1024xf32>, %dy: tensor<1024xf32>, %mask: tensor<1024xi1>, %out: !tile.ptr<f32>) attributes {tile.kernel, tile.gradients = []} {
  %zero = arith.constant dense<0.0> : tensor<1024xf32>
  %most = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maxnumf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<1024xf32>) -> f32
  %mosts = tile.splat %most : f32 -> tensor<1024xf32>
  %centred = arith.subf %x, %mosts : tensor<1024xf32>
  %p = math.exp %centred : tensor<1024xf32>
  %sum = tile.reduce(%p) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<1024xf32>) -> f32
  %sums = tile.splat %sum : f32 -> tensor<1024xf32>
  %y = arith.divf %p, %sums : tensor<1024xf32>
  %g = arith.divf %dy, %sums : tensor<1024xf32>
  %minus = arith.negf %g : tensor<1024xf32>
  %product = arith.mulf %minus, %y : tensor<1024xf32>
  %own = arith.select %mask, %product, %zero : tensor<1024xi1>, tensor<1024xf32>
  %total = tile.reduce(%own) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<1024xf32>) -> f32
  tile.store %out, %total : !tile.ptr<f32>, f32
  return
}

// -----

// A sum of two terms: one moves to the first exchange, one to the second; rows of a block have factors of their own. What is added twice is one sum.
// CHECK-LABEL: func.func @terms
// CHECK:         %[[FIRST:.*]]:2 = tile.reduce(%arg0, %arg1) axis 1
// CHECK:         %[[C:.*]] = arith.subf %arg0
// CHECK:         %[[SQUARES:.*]] = arith.mulf %[[C]], %[[C]]
// CHECK:         %[[SECOND:.*]]:2 = tile.reduce(%[[SQUARES]], %[[C]]) axis 1
// CHECK-NOT:     tile.reduce
// CHECK:         arith.mulf %[[FIRST]]#1, %[[SECOND]]#0 : tensor<8xf32>
// CHECK:         arith.mulf %[[SECOND]]#1, %[[SECOND]]#0 : tensor<8xf32>
// CHECK:         arith.mulf %[[SECOND]]#1, %[[SECOND]]#0 : tensor<8xf32>
// CHECK:         return
func.func @terms(%x: tensor<8x128xf32>, %g: tensor<8x128xf32>, %out: tensor<8x!tile.ptr<f32>>) attributes {tile.kernel, tile.gradients = []} {
  %sum = tile.reduce(%x) axis 1 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<8x128xf32>) -> tensor<8xf32>
  %column = tile.expand_dims %sum 1 : tensor<8xf32> -> tensor<8x1xf32>
  %mean = tile.broadcast %column : tensor<8x1xf32> -> tensor<8x128xf32>
  %centred = arith.subf %x, %mean : tensor<8x128xf32>
  %squares = arith.mulf %centred, %centred : tensor<8x128xf32>
  %variance = tile.reduce(%squares) axis 1 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<8x128xf32>) -> tensor<8xf32>
  %column2 = tile.expand_dims %variance 1 : tensor<8xf32> -> tensor<8x1xf32>
  %scale = tile.broadcast %column2 : tensor<8x1xf32> -> tensor<8x128xf32>
  %left = arith.mulf %g, %scale : tensor<8x128xf32>
  %right = arith.mulf %scale, %centred : tensor<8x128xf32>
  %once = arith.addf %left, %right : tensor<8x128xf32>
  %twice = arith.addf %once, %right : tensor<8x128xf32>
  %total = tile.reduce(%twice) axis 1 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<8x128xf32>) -> tensor<8xf32>
  tile.store %out, %total : tensor<8x!tile.ptr<f32>>, tensor<8xf32>
  return
}

// -----

// Not across writes, nor in front of a load that stands behind the first sum; a sum of 16 bits would round otherwise.
// CHECK-LABEL: func.func @apart
// CHECK:         tile.reduce(%arg0) axis 0
// CHECK:         tile.store
// CHECK:         tile.reduce(%arg1) axis 0
// CHECK:         %[[LOADED:.*]] = tile.load
// CHECK:         tile.reduce(%[[LOADED]]) axis 0
// CHECK:         tile.reduce(%arg4) axis 0
// CHECK:         tile.reduce(%arg4) axis 0
func.func @apart(%x: tensor<1024xf32>, %y: tensor<1024xf32>, %p: tensor<1024x!tile.ptr<f32>>, %out: !tile.ptr<f32>, %half: tensor<1024xbf16>, %narrow: !tile.ptr<bf16>) attributes {tile.kernel, tile.gradients = []} {
  %first = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<1024xf32>) -> f32
  tile.store %out, %first : !tile.ptr<f32>, f32
  %second = tile.reduce(%y) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<1024xf32>) -> f32
  %z = tile.load %p : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  %third = tile.reduce(%z) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<1024xf32>) -> f32
  %fourth = tile.reduce(%half) axis 0 {
  ^bb0(%a: bf16, %b: bf16):
    %c = arith.addf %a, %b : bf16
    tile.yield %c : bf16
  } : (tensor<1024xbf16>) -> bf16
  %fifth = tile.reduce(%half) axis 0 {
  ^bb0(%a: bf16, %b: bf16):
    %c = arith.addf %a, %b : bf16
    tile.yield %c : bf16
  } : (tensor<1024xbf16>) -> bf16
  %all = arith.addf %second, %third : f32
  %both = arith.addf %fourth, %fifth : bf16
  tile.store %out, %all : !tile.ptr<f32>, f32
  tile.store %narrow, %both : !tile.ptr<bf16>, bf16
  return
}

// -----

// A kernel of an author keeps its sums.
// CHECK-LABEL: func.func @own
// CHECK:         tile.reduce(%arg0) axis 0
// CHECK:         tile.reduce(%arg1) axis 0
func.func @own(%x: tensor<1024xf32>, %y: tensor<1024xf32>, %out: !tile.ptr<f32>) attributes {tile.kernel} {
  %first = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<1024xf32>) -> f32
  %second = tile.reduce(%y) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<1024xf32>) -> f32
  %all = arith.addf %first, %second : f32
  tile.store %out, %all : !tile.ptr<f32>, f32
  return
}
