// RUN: nereid-opt --gpu-expand-conversions %s | FileCheck %s

#rows = #ngpu.layout<register = [[0, 1], [0, 2]], lane = [[0, 4], [0, 8], [0, 16], [0, 32], [1, 0]], warp = [[2, 0], [4, 0]], shape = [8, 64]>
#cols = #ngpu.layout<register = [[1, 0], [2, 0]], lane = [[4, 0], [0, 1], [0, 2], [0, 4], [0, 8]], warp = [[0, 16], [0, 32]], shape = [8, 64]>
#swapped = #ngpu.layout<register = [[0, 2], [0, 1]], lane = [[0, 4], [0, 8], [0, 16], [0, 32], [1, 0]], warp = [[2, 0], [4, 0]], shape = [8, 64]>

// What crosses warps goes through a buffer; what stays in a thread does not.
// CHECK-LABEL: func.func @cross
// CHECK:         %[[BUFFER:.*]] = ngpu.local_alloc %arg0
// CHECK:         ngpu.local_load %[[BUFFER]]
// CHECK-NOT:     ngpu.local_alloc
// CHECK:         ngpu.convert_layout
func.func @cross(%x: tensor<8x64xf32, #rows>, %p: tensor<8x64x!tile.ptr<f32>, #cols>,
                 %q: tensor<8x64x!tile.ptr<f32>, #swapped>) attributes {tile.kernel} {
  %0 = ngpu.convert_layout %x : tensor<8x64xf32, #rows> -> tensor<8x64xf32, #cols>
  tile.store %p, %0 : tensor<8x64x!tile.ptr<f32>, #cols>, tensor<8x64xf32, #cols>
  %1 = ngpu.convert_layout %x : tensor<8x64xf32, #rows> -> tensor<8x64xf32, #swapped>
  tile.store %q, %1 : tensor<8x64x!tile.ptr<f32>, #swapped>, tensor<8x64xf32, #swapped>
  return
}

#memory = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 0], [2, 0], [4, 0]], shape = [8, 64]>

// What was in shared memory is read in the other layout; what goes there is written from this one.
// CHECK-LABEL: func.func @neighbours
// CHECK:         %[[A:.*]] = ngpu.local_alloc %arg0
// CHECK:         %[[X:.*]] = ngpu.local_load %[[A]]
// CHECK-NOT:     ngpu.convert_layout
// CHECK:         ngpu.local_alloc %[[X]]
// CHECK-NOT:     ngpu.convert_layout
func.func @neighbours(%x: tensor<8x64xf32, #cols>) attributes {tile.kernel} {
  %a = ngpu.local_alloc %x : tensor<8x64xf32, #cols> -> !ngpu.buffer<8x64xf32, #memory>
  %0 = ngpu.local_load %a : !ngpu.buffer<8x64xf32, #memory> -> tensor<8x64xf32, #rows>
  %1 = ngpu.convert_layout %0 : tensor<8x64xf32, #rows> -> tensor<8x64xf32, #cols>
  %2 = ngpu.convert_layout %1 : tensor<8x64xf32, #cols> -> tensor<8x64xf32, #rows>
  %b = ngpu.local_alloc %2 : tensor<8x64xf32, #rows> -> !ngpu.buffer<8x64xf32, #memory>
  ngpu.local_dealloc %b : !ngpu.buffer<8x64xf32, #memory>
  return
}

#pairs = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32], [0, 64]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]], shape = [64, 128]>
#fours = #ngpu.layout<register = [[0, 1], [8, 0], [0, 2], [0, 16], [0, 32], [0, 64]], lane = [[0, 8], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]], shape = [64, 128]>

// Shared memory would be cheaper than shuffles, but not where it is excluded.
// CHECK-LABEL: func.func @within_warps
// CHECK:         ngpu.local_alloc %arg0
// CHECK-NEXT:    ngpu.local_load
// CHECK-NEXT:    tile.store
// CHECK-NEXT:    ngpu.convert_layout %arg0 within_warps
func.func @within_warps(%x: tensor<64x128xf16, #pairs>, %p: tensor<64x128x!tile.ptr<f16>, #fours>) attributes {tile.kernel} {
  %0 = ngpu.convert_layout %x : tensor<64x128xf16, #pairs> -> tensor<64x128xf16, #fours>
  tile.store %p, %0 : tensor<64x128x!tile.ptr<f16>, #fours>, tensor<64x128xf16, #fours>
  %1 = ngpu.convert_layout %x within_warps : tensor<64x128xf16, #pairs> -> tensor<64x128xf16, #fours>
  tile.store %p, %1 : tensor<64x128x!tile.ptr<f16>, #fours>, tensor<64x128xf16, #fours>
  return
}
