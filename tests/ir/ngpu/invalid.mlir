// RUN: nereid-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{sizes of a layout are powers of two}}
func.func @size(%x: tensor<3xf32, #ngpu.layout<shape = [3]>>) { return }

// -----
// expected-error @below {{a basis lies outside the shape}}
func.func @basis(%x: tensor<4xf32, #ngpu.layout<lane = [[4]], shape = [4]>>) { return }

// -----
// expected-error @below {{every basis has an entry per dimension of the shape}}
func.func @rank(%x: tensor<4xf32, #ngpu.layout<lane = [[1, 0]], shape = [4]>>) { return }

// -----
// expected-error @below {{expected shape, register, lane, warp, block or offset}}
func.func @axis(%x: tensor<4xf32, #ngpu.layout<thread = [[1]], shape = [4]>>) { return }

// -----
// expected-error @below {{the layout is of another shape than the buffer}}
func.func @buffer(%x: !ngpu.buffer<8xf32, #ngpu.layout<offset = [[1], [2]], shape = [4]>>) { return }

// -----
// expected-error @below {{a buffer's layout has offset bits only}}
func.func @registers(%x: !ngpu.buffer<4xf32, #ngpu.layout<register = [[1], [2]], shape = [4]>>) { return }

// -----
// expected-error @below {{the ngpu dialect has no attribute `ngpu.warps`}}
func.func @unknown() attributes {ngpu.warps = 4 : i32} { return }

// -----
// expected-error @below {{`ngpu.num_warps` is 4 : i64: expected an i32 that is not negative}}
func.func @wide() attributes {ngpu.num_warps = 4 : i64} { return }

// -----
// expected-error @below {{`ngpu.sends` is a mark of a reduction}}
func.func @sends() attributes {ngpu.sends} { return }

// -----
// expected-error @below {{`ngpu.scratch` belongs to an op with scratch memory}}
func.func @scratch() attributes {ngpu.scratch = 0 : i32} { return }

// -----
func.func @misplaced() {
  // expected-error @below {{`ngpu.num_warps` belongs to a function}}
  tile.barrier {ngpu.num_warps = 4 : i32}
  return
}

// -----
func.func @nolayout(%x: tensor<4xf32>) {
  // expected-error @below {{the source needs a layout}}
  %0 = ngpu.convert_layout %x : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----
#line = #ngpu.layout<lane = [[1], [2]], shape = [4]>
#short = #ngpu.layout<lane = [[1]], shape = [2]>
func.func @convert(%x: tensor<4xf32, #line>) {
  // expected-error @below {{source and result differ: 4x'f32' against 2x'f32'}}
  %0 = ngpu.convert_layout %x : tensor<4xf32, #line> -> tensor<2xf32, #short>
  return
}

// -----
#line = #ngpu.layout<lane = [[1], [2]], shape = [4]>
#turned = #ngpu.layout<lane = [[2], [1]], shape = [4]>
func.func @two_ways(%x: tensor<4xf32, #line>) {
  // expected-error @below {{goes through shared memory in `pieces`, which `within_warps` excludes}}
  %0 = ngpu.convert_layout %x pieces 2 within_warps : tensor<4xf32, #line> -> tensor<4xf32, #turned>
  return
}

// -----
#m = #ngpu.layout<offset = [[1], [2]], shape = [4]>
func.func @slot(%b: !ngpu.buffer<4xf32, #m>, %i: i32) {
  // expected-error @below {{the buffer has one copy only}}
  %0 = ngpu.slot %b[%i] : !ngpu.buffer<4xf32, #m> -> !ngpu.buffer<4xf32, #m>
  return
}

// -----
#m = #ngpu.layout<offset = [[1], [2]], shape = [4]>
#h = #ngpu.layout<offset = [[1]], shape = [2]>
func.func @subview(%b: !ngpu.buffer<4xf32, #m>) {
  // expected-error @below {{a part of 2 at 1 does not lie on a grid within 4}}
  %0 = ngpu.subview %b [1] : !ngpu.buffer<4xf32, #m> -> !ngpu.buffer<2xf32, #h>
  return
}

// -----
#m = #ngpu.layout<offset = [[0, 1], [1, 0], [2, 0]], shape = [4, 2]>
#t = #ngpu.layout<offset = [[0, 1], [1, 0], [0, 2]], shape = [2, 4]>
func.func @trans(%b: !ngpu.buffer<4x2xf32, #m>) {
  // expected-error @below {{the result's layout is not the permuted one}}
  %0 = ngpu.trans_buffer %b [1, 0] : !ngpu.buffer<4x2xf32, #m> -> !ngpu.buffer<2x4xf32, #t>
  return
}

// -----
#m = #ngpu.layout<offset = [[1], [2]], shape = [4]>
#line = #ngpu.layout<lane = [[1], [2]], shape = [4]>
func.func @load(%b: !ngpu.buffer<4xf32, #m>) {
  // expected-error @below {{tensor and buffer differ: 4x'f16' against 4x'f32'}}
  %0 = ngpu.local_load %b : !ngpu.buffer<4xf32, #m> -> tensor<4xf16, #line>
  return
}

// -----
#m = #ngpu.layout<offset = [[1], [2]], shape = [4]>
#line = #ngpu.layout<register = [[1], [2]], shape = [4]>
func.func @copy(%b: !ngpu.buffer<4xf16, #m>, %p: tensor<4x!tile.ptr<f16>, #line>) {
  // expected-error @below {{one copy has 4, 8 or 16 bytes, found 2}}
  ngpu.async_copy %p, %b contiguity 1 : tensor<4x!tile.ptr<f16>, #line>, !ngpu.buffer<4xf16, #m>
  return
}

// -----
func.func @parts() {
  // expected-error @below {{needs one more region than partition_warps}}
  ngpu.warp_specialize warps [1] registers [0] {
    ngpu.part_yield
  }
  return
}

// -----
func.func @registers() {
  // expected-error @below {{registers are 0 or a multiple of 8 from 24 to 256, found 25}}
  ngpu.warp_specialize warps [1] registers [0, 25] {
    ngpu.part_yield
  }, {
    ngpu.part_yield
  }
  return
}

// -----
#one = #ngpu.layout<shape = [1]>
func.func @beside(%barrier: !ngpu.buffer<1xi64, #one>, %yes: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  // expected-error @below {{'ngpu.mbarrier_arrive' op is only for kernels with `ngpu.pairs`}}
  ngpu.mbarrier_arrive %barrier each_warp beside %yes : !ngpu.buffer<1xi64, #one>
  return
}

// -----
#line = #ngpu.layout<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [], shape = [64]>
#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32], [64]], shape = [128]>
func.func @small(%p: tensor<64x!tile.ptr<f32>, #line>, %b: !ngpu.buffer<128xi8, #m>) {
  // expected-error @below {{needs a buffer of 256 bytes, found 128}}
  ngpu.fetch %p, %b contiguity 2 : tensor<64x!tile.ptr<f32>, #line>, !ngpu.buffer<128xi8, #m>
  return
}

// -----
func.func @paired() attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  // expected-error @below {{'ngpu.channel' op is only for kernels with `ngpu.pairs`}}
  %c = ngpu.channel readers 4 paired : !ngpu.channel<2>
  return
}

// -----
#line = #ngpu.layout<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [], shape = [64]>
#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32], [64]], shape = [128]>
func.func @bytes(%p: tensor<64x!tile.ptr<f16>, #line>, %b: !ngpu.buffer<128xi8, #m>) {
  // expected-error @below {{one copy has 4, 8 or 16 bytes, found 2}}
  ngpu.fetch %p, %b contiguity 1 : tensor<64x!tile.ptr<f16>, #line>, !ngpu.buffer<128xi8, #m>
  return
}

// -----
#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>
func.func @shared(%map: !ngpu.tensormap, %c: i32, %to: !ngpu.buffer<64xf32, #m>, %barrier: !ngpu.buffer<1xi64, #one>, %yes: i1)
    attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  // expected-error @below {{'ngpu.tma_load' op is only for kernels with `ngpu.pairs`}}
  ngpu.tma_load %map[%c], %to, %barrier shared %yes by %c : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
  return
}

// -----
#line = #ngpu.layout<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [], shape = [64]>
#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32], [64]], shape = [128]>
func.func @content(%p: tensor<64x!tile.ptr<f16>, #line>, %b: !ngpu.buffer<128xi8, #m>) {
  // expected-error @below {{the result must have the pointers' shape, layout and element type}}
  %0 = ngpu.fetched %p, %b contiguity 2 : tensor<64x!tile.ptr<f16>, #line>, !ngpu.buffer<128xi8, #m> -> tensor<64xf32, #line>
  return
}

// -----
#line = #ngpu.layout<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [], shape = [64]>
#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32], [64]], shape = [128]>
func.func @other(%p: tensor<64x!tile.ptr<f16>, #line>, %b: !ngpu.buffer<128xi8, #m>, %x: tensor<64xf16, #line>) {
  // expected-error @below {{has `other` without a mask}}
  %0 = "ngpu.fetched"(%p, %b, %x) {contiguity = 2 : i32, operandSegmentSizes = array<i32: 1, 1, 0, 1>} : (tensor<64x!tile.ptr<f16>, #line>, !ngpu.buffer<128xi8, #m>, tensor<64xf16, #line>) -> tensor<64xf16, #line>
  return
}

// -----
func.func @programs() attributes {tile.kernel} {
  // expected-error @below {{is only for kernels with `ngpu.persistent`}}
  %0 = ngpu.programs
  return
}
