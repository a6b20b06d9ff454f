// The exponential of a number that cannot be positive (a difference to a maximum) takes fewer instructions: a product rounded down
// in place of the split into an integer and a rest.
// RUN: nereid-opt --emit-nvidia="stage=ptx" %s --split-input-file -o /dev/null | FileCheck %s

#line = #ngpu.layout<register = [], lane = [[1], [2], [4], [8], [16]], warp = [], shape = [32]>
// CHECK-LABEL: .entry row(
// CHECK-NOT: fma.rn.sat.f32 {{.*}}, 0f3EFEFCF7
// CHECK: mov.b32 [[L:%r[0-9]+]], 0f3FB8AA3C;
// CHECK: mul.rm.f32 [[T:%r[0-9]+]], %{{r[0-9]+}}, [[L]];
// CHECK: fma.rn.sat.f32 [[D:%r[0-9]+]]
// CHECK: ex2.approx.ftz.f32 [[P:%r[0-9]+]], [[T]];
// CHECK: fma.rn.f32 %{{r[0-9]+}}, [[P]], [[D]], [[P]];
func.func @row(%p: !tile.ptr<f32>) attributes {tile.kernel, ngpu.num_warps = 1 : i32, ngpu.sm = 90 : i32} {
  %range = tile.range 0 to 32 : tensor<32xi32, #line>
  %base = tile.splat %p : !tile.ptr<f32> -> tensor<32x!tile.ptr<f32>, #line>
  %ptrs = tile.addptr %base, %range : tensor<32x!tile.ptr<f32>, #line>, tensor<32xi32, #line>
  %x = tile.load %ptrs : tensor<32x!tile.ptr<f32>, #line> -> tensor<32xf32, #line>
  %max = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maxnumf %a, %b : f32
    tile.yield %m : f32
  } : (tensor<32xf32, #line>) -> f32
  %all = tile.splat %max : f32 -> tensor<32xf32, #line>
  %d = arith.subf %x, %all : tensor<32xf32, #line>
  %e = math.exp %d : tensor<32xf32, #line>
  tile.store %ptrs, %e : tensor<32x!tile.ptr<f32>, #line>, tensor<32xf32, #line>
  return
}

// -----

// A minimum is no bound from above.
#line = #ngpu.layout<register = [], lane = [[1], [2], [4], [8], [16]], warp = [], shape = [32]>
// CHECK-LABEL: .entry from_minimum(
// CHECK-NOT: mul.rm.f32
// CHECK: ret;
func.func @from_minimum(%p: !tile.ptr<f32>) attributes {tile.kernel, ngpu.num_warps = 1 : i32, ngpu.sm = 90 : i32} {
  %range = tile.range 0 to 32 : tensor<32xi32, #line>
  %base = tile.splat %p : !tile.ptr<f32> -> tensor<32x!tile.ptr<f32>, #line>
  %ptrs = tile.addptr %base, %range : tensor<32x!tile.ptr<f32>, #line>, tensor<32xi32, #line>
  %x = tile.load %ptrs : tensor<32x!tile.ptr<f32>, #line> -> tensor<32xf32, #line>
  %min = tile.reduce(%x) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %m = arith.minnumf %a, %b : f32
    tile.yield %m : f32
  } : (tensor<32xf32, #line>) -> f32
  %all = tile.splat %min : f32 -> tensor<32xf32, #line>
  %d = arith.subf %x, %all : tensor<32xf32, #line>
  %e = math.exp %d : tensor<32xf32, #line>
  tile.store %ptrs, %e : tensor<32x!tile.ptr<f32>, #line>, tensor<32xf32, #line>
  return
}

// -----

// The running maximum of rows: both exponentials of an online softmax.
#block = #ngpu.layout<register = [[0, 1], [4, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [0, 0]], warp = [], shape = [8, 8]>
#row = #ngpu.layout<register = [[0], [4]], lane = [[0], [0], [1], [2], [0]], warp = [], shape = [8]>
#column = #ngpu.layout<register = [[0, 0], [4, 0]], lane = [[0, 0], [0, 0], [1, 0], [2, 0], [0, 0]], warp = [], shape = [8, 1]>
// CHECK-LABEL: .entry running(
// CHECK-NOT: fma.rn.sat.f32 {{.*}}, 0f3EFEFCF7
// CHECK-COUNT-4: mul.rm.f32
// CHECK: ret;
func.func @running(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>) attributes {tile.kernel, ngpu.num_warps = 1 : i32, ngpu.sm = 90 : i32} {
  %base = tile.splat %p : !tile.ptr<f32> -> tensor<8x8x!tile.ptr<f32>, #block>
  %rows = tile.splat %q : !tile.ptr<f32> -> tensor<8x!tile.ptr<f32>, #row>
  %x = tile.load %base : tensor<8x8x!tile.ptr<f32>, #block> -> tensor<8x8xf32, #block>
  %old = tile.load %rows : tensor<8x!tile.ptr<f32>, #row> -> tensor<8xf32, #row>
  %max = tile.reduce(%x) axis 1 {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maximumf %a, %b : f32
    tile.yield %m : f32
  } : (tensor<8x8xf32, #block>) -> tensor<8xf32, #row>
  %new = arith.maxnumf %old, %max : tensor<8xf32, #row>
  %column = tile.expand_dims %new 1 : tensor<8xf32, #row> -> tensor<8x1xf32, #column>
  %wide = tile.broadcast %column : tensor<8x1xf32, #column> -> tensor<8x8xf32, #block>
  %d = arith.subf %x, %wide : tensor<8x8xf32, #block>
  %e = math.exp %d : tensor<8x8xf32, #block>
  %drop = arith.subf %old, %new : tensor<8xf32, #row>
  %factor = math.exp %drop : tensor<8xf32, #row>
  tile.store %base, %e : tensor<8x8x!tile.ptr<f32>, #block>, tensor<8x8xf32, #block>
  tile.store %rows, %factor : tensor<8x!tile.ptr<f32>, #row>, tensor<8xf32, #row>
  return
}

// -----

// The maximum of rows, broadcast along columns: no bound.
#block = #ngpu.layout<register = [[0, 1], [4, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [0, 0]], warp = [], shape = [8, 8]>
#row = #ngpu.layout<register = [[0], [4]], lane = [[0], [0], [1], [2], [0]], warp = [], shape = [8]>
#column = #ngpu.layout<register = [[1], [0]], lane = [[2], [4], [0], [0], [0]], warp = [], shape = [8]>
#line = #ngpu.layout<register = [[0, 1], [0, 0]], lane = [[0, 2], [0, 4], [0, 0], [0, 0], [0, 0]], warp = [], shape = [1, 8]>
// CHECK-LABEL: .entry other_axis(
// CHECK-NOT: mul.rm.f32
// CHECK: ret;
func.func @other_axis(%p: !tile.ptr<f32>) attributes {tile.kernel, ngpu.num_warps = 1 : i32, ngpu.sm = 90 : i32} {
  %base = tile.splat %p : !tile.ptr<f32> -> tensor<8x8x!tile.ptr<f32>, #block>
  %x = tile.load %base : tensor<8x8x!tile.ptr<f32>, #block> -> tensor<8x8xf32, #block>
  %max = tile.reduce(%x) axis 1 {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maxnumf %a, %b : f32
    tile.yield %m : f32
  } : (tensor<8x8xf32, #block>) -> tensor<8xf32, #row>
  %moved = ngpu.convert_layout %max : tensor<8xf32, #row> -> tensor<8xf32, #column>
  %line = tile.expand_dims %moved 0 : tensor<8xf32, #column> -> tensor<1x8xf32, #line>
  %wide = tile.broadcast %line : tensor<1x8xf32, #line> -> tensor<8x8xf32, #block>
  %d = arith.subf %x, %wide : tensor<8x8xf32, #block>
  %e = math.exp %d : tensor<8x8xf32, #block>
  tile.store %base, %e : tensor<8x8x!tile.ptr<f32>, #block>, tensor<8x8xf32, #block>
  return
}

// -----

// A row of bf16 that is converted again behind the maximum; quotients by the sum are single products.
#line = #ngpu.layout<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [], shape = [128]>
// CHECK-LABEL: .entry again(
// CHECK-NOT: 0f3EFEFCF7
// CHECK-COUNT-4: mul.rm.f32
// CHECK: rcp.approx.ftz.f32 [[R:%r[0-9]+]]
// CHECK-COUNT-4: mul.f32 %{{r[0-9]+}}, %{{r[0-9]+}}, [[R]];
// CHECK-NOT: mul.f32
// CHECK: ret;
func.func @again(%p: !tile.ptr<bf16>, %q: !tile.ptr<f32>) attributes {tile.kernel, ngpu.num_warps = 1 : i32, ngpu.sm = 90 : i32} {
  %range = tile.range 0 to 128 : tensor<128xi32, #line>
  %base = tile.splat %p : !tile.ptr<bf16> -> tensor<128x!tile.ptr<bf16>, #line>
  %ptrs = tile.addptr %base, %range : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xi32, #line>
  %to = tile.splat %q : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #line>
  %out = tile.addptr %to, %range : tensor<128x!tile.ptr<f32>, #line>, tensor<128xi32, #line>
  %x = tile.load %ptrs : tensor<128x!tile.ptr<bf16>, #line> -> tensor<128xbf16, #line>
  %wide = arith.extf %x : tensor<128xbf16, #line> to tensor<128xf32, #line>
  %max = tile.reduce(%wide) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maxnumf %a, %b : f32
    tile.yield %m : f32
  } : (tensor<128xf32, #line>) -> f32
  %all = tile.splat %max : f32 -> tensor<128xf32, #line>
  %x1 = ngpu.renew %x number 0 : tensor<128xbf16, #line>
  %wide1 = arith.extf %x1 : tensor<128xbf16, #line> to tensor<128xf32, #line>
  %d = arith.subf %wide1, %all : tensor<128xf32, #line>
  %e = math.exp %d : tensor<128xf32, #line>
  %sum = tile.reduce(%e) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %m = arith.addf %a, %b : f32
    tile.yield %m : f32
  } : (tensor<128xf32, #line>) -> f32
  %sums = tile.splat %sum : f32 -> tensor<128xf32, #line>
  %y = arith.divf %e, %sums : tensor<128xf32, #line>
  tile.store %out, %y : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>
  return
}

// -----

// The sum of other powers may be anything: the divisor is brought to where its reciprocal is a normal number.
#line = #ngpu.layout<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [], shape = [128]>
// CHECK-LABEL: .entry other_sum(
// CHECK-NOT: mul.rm.f32
// CHECK: setp.gt.f32
// CHECK: rcp.approx.ftz.f32
// CHECK-COUNT-8: mul.f32
// CHECK: ret;
func.func @other_sum(%q: !tile.ptr<f32>) attributes {tile.kernel, ngpu.num_warps = 1 : i32, ngpu.sm = 90 : i32} {
  %range = tile.range 0 to 128 : tensor<128xi32, #line>
  %to = tile.splat %q : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #line>
  %out = tile.addptr %to, %range : tensor<128x!tile.ptr<f32>, #line>, tensor<128xi32, #line>
  %x = tile.load %out : tensor<128x!tile.ptr<f32>, #line> -> tensor<128xf32, #line>
  %e = math.exp %x : tensor<128xf32, #line>
  %sum = tile.reduce(%e) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %m = arith.addf %a, %b : f32
    tile.yield %m : f32
  } : (tensor<128xf32, #line>) -> f32
  %sums = tile.splat %sum : f32 -> tensor<128xf32, #line>
  %y = arith.divf %x, %sums : tensor<128xf32, #line>
  tile.store %out, %y : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>
  return
}

// -----

// An exponential that is marked: the operations no longer show that its operand is not positive.
#line = #ngpu.layout<register = [], lane = [[1], [2], [4], [8], [16]], warp = [], shape = [32]>
// CHECK-LABEL: .entry marked(
// CHECK: mul.rm.f32
// CHECK: ret;
func.func @marked(%p: !tile.ptr<f32>) attributes {tile.kernel, ngpu.num_warps = 1 : i32, ngpu.sm = 90 : i32} {
  %range = tile.range 0 to 32 : tensor<32xi32, #line>
  %base = tile.splat %p : !tile.ptr<f32> -> tensor<32x!tile.ptr<f32>, #line>
  %ptrs = tile.addptr %base, %range : tensor<32x!tile.ptr<f32>, #line>, tensor<32xi32, #line>
  %x = tile.load %ptrs : tensor<32x!tile.ptr<f32>, #line> -> tensor<32xf32, #line>
  %e = math.exp %x {tile.not_positive} : tensor<32xf32, #line>
  tile.store %ptrs, %e : tensor<32x!tile.ptr<f32>, #line>, tensor<32xf32, #line>
  return
}
