// What the verifiers of the products refuse, each beside its nearest valid neighbour.
// RUN: nereid-opt %s --split-input-file --verify-diagnostics

#acc = #ngpu.layout<register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], shape = [16, 8]>
#a = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], shape = [16, 16]>
#b = #ngpu.layout<register = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], shape = [16, 8]>
#turned = #ngpu.layout<register = [[1, 0], [8, 0]], lane = [[0, 1], [0, 2], [2, 0], [4, 0], [0, 4]], shape = [16, 8]>
func.func @fragments(%a: tensor<16x16xf16, #a>, %b: tensor<16x8xf16, #b>, %other: tensor<16x8xf16, #turned>, %c: tensor<16x8xf32, #acc>) attributes {tile.kernel, ngpu.num_warps = 1 : i32} {
  %0 = ngpu.mma %a, %b, %c : tensor<16x16xf16, #a>, tensor<16x8xf16, #b> -> tensor<16x8xf32, #acc>
  // expected-error @+1 {{layouts are not the fragments of mma.sync}}
  %1 = ngpu.mma %a, %other, %c : tensor<16x16xf16, #a>, tensor<16x8xf16, #turned> -> tensor<16x8xf32, #acc>
  return
}

// -----

#acc = #ngpu.layout<register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], shape = [16, 8]>
#a = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], shape = [16, 16]>
#b = #ngpu.layout<register = [[1, 0], [8, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], shape = [16, 8]>
func.func @types(%a: tensor<16x16xf16, #a>, %b: tensor<16x8xbf16, #b>, %c: tensor<16x8xf32, #acc>) attributes {tile.kernel, ngpu.num_warps = 1 : i32} {
  // expected-error @+1 {{no unit multiplies 'f16' by 'bf16' into 'f32'}}
  %0 = ngpu.mma %a, %b, %c : tensor<16x16xf16, #a>, tensor<16x8xbf16, #b> -> tensor<16x8xf32, #acc>
  return
}

// -----

#acc = #ngpu.layout<register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], shape = [16, 8]>
#a = #ngpu.layout<register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], shape = [16, 8]>
#b = #ngpu.layout<register = [[1, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], shape = [8, 8]>
func.func @steps(%a: tensor<16x8xf16, #a>, %b: tensor<8x8xf16, #b>, %c: tensor<16x8xf32, #acc>) attributes {tile.kernel, ngpu.num_warps = 1 : i32} {
  // expected-error @+1 {{K is not made of whole steps of 16, found 8}}
  %0 = ngpu.mma %a, %b, %c : tensor<16x8xf16, #a>, tensor<8x8xf16, #b> -> tensor<16x8xf32, #acc>
  return
}

// -----

#acc = #ngpu.layout<register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]], shape = [64, 8]>
#rows = #ngpu.layout<register = [[0, 1], [32, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[8, 0], [16, 0]], shape = [64, 8]>
#k = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0], [0, 8]], shape = [64, 16]>
#n = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [4, 0], [8, 0]], shape = [16, 8]>
func.func @groups(%c: tensor<64x8xf32, #acc>, %other: tensor<64x8xf32, #rows>) attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  %a = ngpu.local_alloc !ngpu.buffer<64x16xf16, #k>
  %b = ngpu.local_alloc !ngpu.buffer<16x8xf16, #n>
  %0 = ngpu.wgmma %a, %b, %c : !ngpu.buffer<64x16xf16, #k>, !ngpu.buffer<16x8xf16, #n> -> tensor<64x8xf32, #acc>
  // expected-error @+1 {{layouts are not those of wgmma}}
  %1 = ngpu.wgmma %a, %b, %other : !ngpu.buffer<64x16xf16, #k>, !ngpu.buffer<16x8xf16, #n> -> tensor<64x8xf32, #rows>
  return
}

// -----

#acc = #ngpu.layout<register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]], shape = [64, 8]>
#k = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0], [0, 8]], shape = [64, 16]>
#n = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [4, 0], [8, 0]], shape = [16, 8]>
func.func @promoted(%c: tensor<64x8xf32, #acc>) attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  %a = ngpu.local_alloc !ngpu.buffer<64x16xf16, #k>
  %b = ngpu.local_alloc !ngpu.buffer<16x8xf16, #n>
  // expected-error @+1 {{`promote_k` is for 8-bit floats, and not negative}}
  %0 = ngpu.wgmma %a, %b, %c promote_k 16 : !ngpu.buffer<64x16xf16, #k>, !ngpu.buffer<16x8xf16, #n> -> tensor<64x8xf32, #acc>
  return
}

// -----

#acc = #ngpu.layout<register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]], shape = [64, 8]>
func.func @left(%c: tensor<64x8xf32, #acc>) attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  // expected-error @+1 {{at most 7 groups can be left in flight, found 8}}
  %0 = ngpu.wgmma_wait 8 for %c : tensor<64x8xf32, #acc> -> tensor<64x8xf32, #acc>
  return
}

// -----

#mixed = #ngpu.layout<register = [[1, 1]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], shape = [8, 8]>
#k = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], shape = [8, 8]>
func.func @product(%c: tensor<8x8xf32, #mixed>) attributes {tile.kernel, ngpu.num_warps = 1 : i32} {
  %a = ngpu.local_alloc !ngpu.buffer<8x8xf32, #k>
  // expected-error @+1 {{registers of the accumulator must differ in one dimension each}}
  %0 = ngpu.fma_dot %a, %a, %c : !ngpu.buffer<8x8xf32, #k>, !ngpu.buffer<8x8xf32, #k> -> tensor<8x8xf32, #mixed>
  return
}
