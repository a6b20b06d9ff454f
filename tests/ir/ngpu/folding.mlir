// RUN: nereid-opt --canonicalize %s | FileCheck %s

#a = #ngpu.layout<lane = [[1], [2]], shape = [4]>
#b = #ngpu.layout<register = [[1], [2]], shape = [4]>

// A conversion to the layout that is there already, and one after another.
// CHECK-LABEL: func.func @conversions
// CHECK-SAME: (%[[x:.*]]: tensor
func.func @conversions(%x: tensor<4xf32, #a>) -> (tensor<4xf32, #a>, tensor<4xf32, #a>) {
  // CHECK-NEXT: return %[[x]], %[[x]]
  %0 = ngpu.convert_layout %x : tensor<4xf32, #a> -> tensor<4xf32, #a>
  %1 = ngpu.convert_layout %x : tensor<4xf32, #a> -> tensor<4xf32, #b>
  %2 = ngpu.convert_layout %1 : tensor<4xf32, #b> -> tensor<4xf32, #a>
  return %0, %2 : tensor<4xf32, #a>, tensor<4xf32, #a>
}

#c = #ngpu.layout<register = [[2], [1]], shape = [4]>

// From the source of the first one, elements might change warps.
// CHECK-LABEL: func.func @within_warps
// CHECK: ngpu.convert_layout %{{.*}} : tensor<4xf32, #[[A:.*]]> -> tensor<4xf32, #[[B:.*]]>
// CHECK-NEXT: ngpu.convert_layout %{{.*}} within_warps : tensor<4xf32, #[[B]]>
func.func @within_warps(%x: tensor<4xf32, #a>) -> tensor<4xf32, #c> {
  %0 = ngpu.convert_layout %x : tensor<4xf32, #a> -> tensor<4xf32, #b>
  %1 = ngpu.convert_layout %0 within_warps : tensor<4xf32, #b> -> tensor<4xf32, #c>
  return %1 : tensor<4xf32, #c>
}
