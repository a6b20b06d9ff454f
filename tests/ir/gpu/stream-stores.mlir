// What gradient kernels read twice stays in the L2 cache: first loads leave it last, last loads and what is stored beside them first.
// RUN: nereid-opt %s --gpu-stream-stores --split-input-file | FileCheck %s

// A row of each program that is read twice, and its gradient. What all programs read is not marked, nor what is read once, nor numbers.
// CHECK-LABEL: func.func @again
// CHECK:         scf.for
// CHECK-NEXT:      tile.load %[[X:.*]] evict evict_last :
// CHECK-NEXT:      tile.load %[[ALL:[a-z0-9]+]] :
// CHECK-NEXT:      tile.store %[[OTHER:.*]], %{{[a-z0-9]+}} :
// CHECK:         scf.for
// CHECK-NEXT:      tile.load %[[X]] evict evict_first :
// CHECK-NEXT:      tile.load %[[ALL]] :
// CHECK-NEXT:      tile.store %{{.*}}, %{{.*}} evict evict_first :
// CHECK:         tile.store %arg4, %{{[a-z0-9]+}} : !tile.ptr<f32>
func.func @again(%x: !tile.ptr<f32>, %dx: !tile.ptr<f32>, %other: !tile.ptr<f32>, %all: !tile.ptr<f32>, %sum: !tile.ptr<f32>, %n: i32, %one: f32) attributes {tile.kernel, tile.gradients = []} {
  %none = arith.constant 0 : i32
  %step = arith.constant 8 : i32
  %pid = tile.program_id 0
  %row = tile.addptr %x, %pid : !tile.ptr<f32>, i32
  %xs = tile.splat %row : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %dxs = tile.splat %dx : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %others = tile.splat %other : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %alls = tile.splat %all : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  scf.for %i = %none to %n step %step : i32 {
    %a = tile.load %xs : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
    %b = tile.load %alls : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
    tile.store %others, %b : tensor<8x!tile.ptr<f32>>, tensor<8xf32>
  }
  scf.for %i = %none to %n step %step : i32 {
    %a = tile.load %xs : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
    %b = tile.load %alls : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
    tile.store %dxs, %b : tensor<8x!tile.ptr<f32>>, tensor<8xf32>
  }
  tile.store %sum, %one : !tile.ptr<f32>, f32
  return
}

// -----

// Not what the kernel stores and reads itself, not what has a policy, and nothing in loops within each other.
// CHECK-LABEL: func.func @others
// CHECK:         tile.load %[[X:.*]] cache cg :
// CHECK-NEXT:    tile.store %[[DX:.*]], %{{[a-z0-9]+}} :
// CHECK:         tile.load %[[X]] evict evict_first :
// CHECK-NEXT:    tile.load %[[DX]] :
// CHECK-NEXT:    tile.store %[[DX]], %{{[a-z0-9]+}} :
// CHECK-NEXT:    tile.store %{{.*}} evict evict_last :
// CHECK:         scf.for
// CHECK-NEXT:      tile.load %[[Y:[a-z0-9]+]] :
// CHECK-NEXT:      scf.for
// CHECK-NEXT:        tile.load %[[Y]] :
func.func @others(%x: !tile.ptr<f32>, %dx: !tile.ptr<f32>, %other: !tile.ptr<f32>, %y: !tile.ptr<f32>, %n: i32) attributes {tile.kernel, tile.gradients = []} {
  %none = arith.constant 0 : i32
  %step = arith.constant 8 : i32
  %pid = tile.program_id 0
  %row = tile.addptr %x, %pid : !tile.ptr<f32>, i32
  %xs = tile.splat %row : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %column = tile.addptr %y, %pid : !tile.ptr<f32>, i32
  %ys = tile.splat %column : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %dxs = tile.splat %dx : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %others = tile.splat %other : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  scf.for %i = %none to %n step %step : i32 {
    %a = tile.load %xs cache cg : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
    tile.store %dxs, %a : tensor<8x!tile.ptr<f32>>, tensor<8xf32>
  }
  scf.for %i = %none to %n step %step : i32 {
    %a = tile.load %xs : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
    %b = tile.load %dxs : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
    tile.store %dxs, %a : tensor<8x!tile.ptr<f32>>, tensor<8xf32>
    tile.store %others, %b evict evict_last : tensor<8x!tile.ptr<f32>>, tensor<8xf32>
  }
  scf.for %i = %none to %n step %step : i32 {
    %a = tile.load %ys : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
    scf.for %j = %none to %n step %step : i32 {
      %b = tile.load %ys : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
    }
  }
  return
}

// -----

// A kernel of an author, with a gradient's loops.
// CHECK-LABEL: func.func @written
// CHECK-NOT:     evict
func.func @written(%x: !tile.ptr<f32>, %dx: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %none = arith.constant 0 : i32
  %step = arith.constant 8 : i32
  %pid = tile.program_id 0
  %row = tile.addptr %x, %pid : !tile.ptr<f32>, i32
  %xs = tile.splat %row : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  %dxs = tile.splat %dx : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>>
  scf.for %i = %none to %n step %step : i32 {
    %a = tile.load %xs : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
    tile.store %dxs, %a : tensor<8x!tile.ptr<f32>>, tensor<8xf32>
  }
  scf.for %i = %none to %n step %step : i32 {
    %a = tile.load %xs : tensor<8x!tile.ptr<f32>> -> tensor<8xf32>
    tile.store %dxs, %a : tensor<8x!tile.ptr<f32>>, tensor<8xf32>
  }
  return
}
