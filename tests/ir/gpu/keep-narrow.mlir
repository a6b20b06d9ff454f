// Values that follow from rows of 16 bits are computed again behind a reduction where a cluster runs the program and they would take many registers.
// RUN: nereid-opt %s --gpu-keep-narrow="warps=4 blocks=2" | FileCheck %s
// RUN: nereid-opt %s --gpu-keep-narrow="warps=8 blocks=2" | FileCheck %s --check-prefix=OFF
// RUN: nereid-opt %s --gpu-keep-narrow="warps=8" | FileCheck %s --check-prefix=OFF
// RUN: nereid-opt %s --gpu-keep-narrow="warps=8 narrow=false" | FileCheck %s --check-prefix=GRADIENT

// The softmax of 16384 bf16 with two blocks of 4 warps: 64 fp32 a thread. What is reduced is computed in front of the reduction as before, and
// exponentials are computed once.
// CHECK-LABEL: func.func @softmax
// CHECK:         %[[X:.*]] = tile.load
// CHECK:         %[[WIDE:.*]] = arith.extf %[[X]]
// CHECK:         %[[MOST:.*]] = tile.reduce(%[[WIDE]])
// CHECK:         %[[SPLAT:.*]] = tile.splat %[[MOST]]
// CHECK:         %[[X1:.*]] = ngpu.renew %[[X]] number 0
// CHECK-NEXT:    %[[WIDE1:.*]] = arith.extf %[[X1]]
// CHECK-NEXT:    arith.subf %[[WIDE1]], %[[SPLAT]]
// CHECK-NEXT:    %[[POWERS:.*]] = math.exp
// CHECK-NEXT:    %[[SUM:.*]] = tile.reduce(%[[POWERS]])
// CHECK:         %[[ALL:.*]] = tile.splat %[[SUM]]
// CHECK-NEXT:    arith.divf %[[POWERS]], %[[ALL]]
// CHECK:         return

// 32 registers a thread, or one block.
// OFF-NOT: ngpu.renew
func.func @softmax(%x0: !tile.ptr<bf16>, %to: !tile.ptr<f32>) attributes {tile.kernel} {
  %at = tile.range 0 to 16384 : tensor<16384xi32>
  %s = tile.splat %x0 : !tile.ptr<bf16> -> tensor<16384x!tile.ptr<bf16>>
  %p = tile.addptr %s, %at : tensor<16384x!tile.ptr<bf16>>, tensor<16384xi32>
  %o = tile.splat %to : !tile.ptr<f32> -> tensor<16384x!tile.ptr<f32>>
  %out = tile.addptr %o, %at : tensor<16384x!tile.ptr<f32>>, tensor<16384xi32>
  %x = tile.load %p : tensor<16384x!tile.ptr<bf16>> -> tensor<16384xbf16>
  %wide = arith.extf %x : tensor<16384xbf16> to tensor<16384xf32>
  %most = tile.reduce(%wide) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.maxnumf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<16384xf32>) -> f32
  %splat = tile.splat %most : f32 -> tensor<16384xf32>
  %less = arith.subf %wide, %splat : tensor<16384xf32>
  %powers = math.exp %less : tensor<16384xf32>
  %sum = tile.reduce(%powers) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<16384xf32>) -> f32
  %all = tile.splat %sum : f32 -> tensor<16384xf32>
  %result = arith.divf %powers, %all : tensor<16384xf32>
  tile.store %out, %result : tensor<16384x!tile.ptr<f32>>, tensor<16384xf32>
  return
}

// A tangent is computed once: it costs more than the registers. So is what follows from a row of fp32.
// CHECK-LABEL: func.func @kept
// CHECK-NOT:     ngpu.renew
// CHECK:         return
func.func @kept(%p: tensor<16384x!tile.ptr<bf16>>, %q: tensor<16384x!tile.ptr<f32>>, %out: tensor<16384x!tile.ptr<f32>>) attributes {tile.kernel} {
  %x = tile.load %p : tensor<16384x!tile.ptr<bf16>> -> tensor<16384xbf16>
  %y = tile.load %q : tensor<16384x!tile.ptr<f32>> -> tensor<16384xf32>
  %wide = arith.extf %x : tensor<16384xbf16> to tensor<16384xf32>
  %tangent = math.tan %wide : tensor<16384xf32>
  %double = arith.addf %y, %y : tensor<16384xf32>
  %sum = tile.reduce(%tangent) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<16384xf32>) -> f32
  %all = tile.splat %sum : f32 -> tensor<16384xf32>
  %one = arith.mulf %tangent, %all : tensor<16384xf32>
  %result = arith.addf %one, %double : tensor<16384xf32>
  tile.store %out, %result : tensor<16384x!tile.ptr<f32>>, tensor<16384xf32>
  return
}

// Without being asked for, a gradient kernel repeats conversions alone, and only where one block would fit beside what is kept; other kernels nothing.
// OFF-LABEL:      func.func @wide_gradient
// GRADIENT-NOT:   ngpu.renew
// GRADIENT-LABEL: func.func @wide_gradient
// GRADIENT:         %[[DY:.*]] = tile.load %arg1
// GRADIENT:         %[[G:.*]] = arith.extf %[[DY]]
// GRADIENT:         %[[SUM:.*]] = tile.reduce
// GRADIENT:         %[[AGAIN:.*]] = ngpu.renew %[[DY]]
// GRADIENT-NEXT:    %[[G2:.*]] = arith.extf %[[AGAIN]]
// GRADIENT-NOT:     math.exp
// GRADIENT:         arith.mulf %[[G2]]
// GRADIENT-LABEL: func.func @small_gradient
// GRADIENT-NOT:     ngpu.renew
func.func @wide_gradient(%p: tensor<16384x!tile.ptr<bf16>>, %q: tensor<16384x!tile.ptr<bf16>>, %out: tensor<16384x!tile.ptr<f32>>) attributes {tile.kernel, tile.gradients = []} {
  %x = tile.load %p : tensor<16384x!tile.ptr<bf16>> -> tensor<16384xbf16>
  %dy = tile.load %q : tensor<16384x!tile.ptr<bf16>> -> tensor<16384xbf16>
  %wide = arith.extf %x : tensor<16384xbf16> to tensor<16384xf32>
  %y = math.exp %wide : tensor<16384xf32>
  %g = arith.extf %dy : tensor<16384xbf16> to tensor<16384xf32>
  %product = arith.mulf %g, %y : tensor<16384xf32>
  %sum = tile.reduce(%product) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<16384xf32>) -> f32
  %all = tile.splat %sum : f32 -> tensor<16384xf32>
  %one = arith.mulf %g, %all : tensor<16384xf32>
  %result = arith.addf %one, %y : tensor<16384xf32>
  tile.store %out, %result : tensor<16384x!tile.ptr<f32>>, tensor<16384xf32>
  return
}

func.func @small_gradient(%p: tensor<4096x!tile.ptr<bf16>>, %q: tensor<4096x!tile.ptr<bf16>>, %out: tensor<4096x!tile.ptr<f32>>) attributes {tile.kernel, tile.gradients = []} {
  %x = tile.load %p : tensor<4096x!tile.ptr<bf16>> -> tensor<4096xbf16>
  %dy = tile.load %q : tensor<4096x!tile.ptr<bf16>> -> tensor<4096xbf16>
  %wide = arith.extf %x : tensor<4096xbf16> to tensor<4096xf32>
  %y = math.exp %wide : tensor<4096xf32>
  %g = arith.extf %dy : tensor<4096xbf16> to tensor<4096xf32>
  %product = arith.mulf %g, %y : tensor<4096xf32>
  %sum = tile.reduce(%product) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : (tensor<4096xf32>) -> f32
  %all = tile.splat %sum : f32 -> tensor<4096xf32>
  %one = arith.mulf %g, %all : tensor<4096xf32>
  %result = arith.addf %one, %y : tensor<4096xf32>
  tile.store %out, %result : tensor<4096x!tile.ptr<f32>>, tensor<4096xf32>
  return
}
