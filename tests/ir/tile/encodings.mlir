// Tensors may have an encoding (a layout): elementwise ops and memory accesses need one and the same,
// ops that arrange elements anew give their results one of their own. Any attribute does here.
// RUN: nereid-opt %s --split-input-file --verify-diagnostics --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @accepted
func.func @accepted(%p: tensor<4x8x!tile.ptr<f32>, "a">, %m: tensor<4x8xi1, "a">, %o: tensor<4xi32, "row">) {
  // CHECK: tile.load {{.*}} -> tensor<4x8xf32, "a">
  %x = tile.load %p mask %m : tensor<4x8x!tile.ptr<f32>, "a">, mask tensor<4x8xi1, "a"> -> tensor<4x8xf32, "a">
  // CHECK: tile.trans {{.*}} -> tensor<8x4xf32, "b">
  %t = tile.trans %x [1, 0] : tensor<4x8xf32, "a"> -> tensor<8x4xf32, "b">
  // CHECK: (tensor<8x4xf32, "b">) -> tensor<4xf32, "row">
  %r = tile.reduce (%t) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    tile.yield %s : f32
  } : (tensor<8x4xf32, "b">) -> tensor<4xf32, "row">
  // CHECK: tile.expand_dims {{.*}} -> tensor<4x1xf32, "column">
  %e = tile.expand_dims %r 1 : tensor<4xf32, "row"> -> tensor<4x1xf32, "column">
  // CHECK: tile.broadcast {{.*}} -> tensor<4x8xf32, "a">
  %b = tile.broadcast %e : tensor<4x1xf32, "column"> -> tensor<4x8xf32, "a">
  %y = arith.subf %x, %b : tensor<4x8xf32, "a">
  // CHECK: tile.join {{.*}} -> tensor<4x8x2xf32, "c">
  %j = tile.join %x, %y : tensor<4x8xf32, "a"> -> tensor<4x8x2xf32, "c">
  // CHECK: tile.split {{.*}} -> tensor<4x8xf32, "d">, tensor<4x8xf32, "d">
  %l, %h = tile.split %j : tensor<4x8x2xf32, "c"> -> tensor<4x8xf32, "d">, tensor<4x8xf32, "d">
  // CHECK: tile.cat {{.*}} -> tensor<8x8xf32, "e">
  %c = tile.cat %l, %h along 0 : tensor<4x8xf32, "d">, tensor<4x8xf32, "d"> -> tensor<8x8xf32, "e">
  tile.print "c" hex false signed [true] : %c : tensor<8x8xf32, "e">
  return
}

// Canonical forms are made before layouts: they would change the shapes that layouts are of.
// CHECK-LABEL: func.func @left_alone
// CHECK: tile.broadcast
// CHECK: tile.expand_dims
func.func @left_alone(%v: tensor<1x4xf32, "a">) -> tensor<8x4x1xf32, "c"> {
  %b = tile.broadcast %v : tensor<1x4xf32, "a"> -> tensor<8x4xf32, "b">
  %e = tile.expand_dims %b 2 : tensor<8x4xf32, "b"> -> tensor<8x4x1xf32, "c">
  return %e : tensor<8x4x1xf32, "c">
}

// -----

func.func @f(%p: tensor<4x!tile.ptr<f32>, "a">) {
  // expected-error @+1 {{result must be of type 'tensor<4xf32, "a">', found 'tensor<4xf32, "b">'}}
  %x = tile.load %p : tensor<4x!tile.ptr<f32>, "a"> -> tensor<4xf32, "b">
  return
}

// -----

func.func @f(%p: tensor<4x!tile.ptr<f32>, "a">, %x: tensor<4xf32, "a">, %m: tensor<4xi1, "b">) {
  // expected-error @+1 {{mask must have the shape of the pointer: expected 'tensor<4xi1, "a">', found 'tensor<4xi1, "b">'}}
  tile.store %p, %x mask %m : tensor<4x!tile.ptr<f32>, "a">, tensor<4xf32, "a">, mask tensor<4xi1, "b">
  return
}

// -----

func.func @f(%x: tensor<4xf32, "a">) {
  // expected-error @+1 {{result must be of type 'tensor<1x4xf32>', found 'tensor<4x1xf32, "b">'}}
  %e = tile.expand_dims %x 0 : tensor<4xf32, "a"> -> tensor<4x1xf32, "b">
  return
}

// -----

func.func @f(%x: tensor<4xf32, "a">) {
  // expected-error @+1 {{must be of type 'tensor<4xf32, "a">', found 'tensor<4xf32, "b">'}}
  %s = tile.scan (%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    tile.yield %a : f32
  } : (tensor<4xf32, "a">) -> tensor<4xf32, "b">
  return
}
