// RUN: nereid-opt %s --choose-tensor-copies | FileCheck %s

// CHECK-LABEL: func.func @chosen
func.func @chosen(%p: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %m: i32, %n: i32, %s: i64 {tile.divisibility = 8 : i64},
                  %t: i32 {tile.divisibility = 16 : i64}, %v: tensor<16x64xf16>) attributes {tile.kernel} {
  %pid = tile.program_id 0
  %c64 = arith.constant 64 : i32
  %j = arith.muli %pid, %c64 : i32
  %group = arith.divsi %pid, %n : i32
  %i = arith.muli %group, %c64 : i32
  // CHECK: tile.make_descriptor {{.*}} copy_engine
  %a = tile.make_descriptor %p [%m, %n] strides [%s] : !tile.ptr<f16> -> !tile.desc<16x64xf16>
  %0 = tile.desc_load %a [%m, %j] : !tile.desc<16x64xf16> -> tensor<16x64xf16>
  tile.desc_store %a [%i, %j], %v : !tile.desc<16x64xf16>, tensor<16x64xf16>
  tile.desc_reduce fadd %a [%i, %j], %v : !tile.desc<16x64xf16>, tensor<16x64xf16>
  // What a launcher can compute: the second half, stride 2 * t.
  %c2 = arith.constant 2 : i64
  %half = arith.constant 1024 : i32
  %wide = arith.extsi %t : i32 to i64
  %stride = arith.muli %wide, %c2 : i64
  %q = tile.addptr %p, %half : !tile.ptr<f16>, i32
  // CHECK: tile.make_descriptor {{.*}} copy_engine
  %b = tile.make_descriptor %q [%m, %n] strides [%stride] : !tile.ptr<f16> -> !tile.desc<16x64xf16, nan>
  %1 = tile.desc_load %b [%m, %j] : !tile.desc<16x64xf16, nan> -> tensor<16x64xf16>
  return
}

// What a launcher can repeat, shifts too.
// CHECK-LABEL: func.func @shifted
func.func @shifted(%p: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %m: i32, %j: i32 {tile.divisibility = 16 : i64}, %s: i64)
    attributes {tile.kernel} {
  %c3 = arith.constant 3 : i64
  %stride = arith.shli %s, %c3 : i64
  // CHECK: tile.make_descriptor {{.*}} copy_engine
  %a = tile.make_descriptor %p [%m, %m] strides [%stride] : !tile.ptr<f16> -> !tile.desc<16x64xf16>
  %0 = tile.desc_load %a [%m, %j] : !tile.desc<16x64xf16> -> tensor<16x64xf16>
  return
}

// CHECK-LABEL: func.func @not_chosen
// CHECK-NOT: copy_engine
func.func @not_chosen(%p: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %m: i32, %s: i64 {tile.divisibility = 8 : i64}, %u: i64,
                      %q: !tile.ptr<f16>, %c: i1, %rows: tensor<8xi32>, %z: !tile.ptr<f8E5M2> {tile.divisibility = 16 : i64})
    attributes {tile.kernel} {
  %zero = arith.constant 0 : i32
  // A last coordinate of any value, a store at a coordinate that may be negative.
  %o = tile.make_descriptor %p [%m, %m] strides [%s] : !tile.ptr<f16> -> !tile.desc<16x64xf16>
  %11 = tile.desc_load %o [%zero, %m] : !tile.desc<16x64xf16> -> tensor<16x64xf16>
  %r = tile.make_descriptor %p [%m, %m] strides [%s] : !tile.ptr<f16> -> !tile.desc<16x64xf16>
  tile.desc_store %r [%m, %zero], %11 : !tile.desc<16x64xf16>, tensor<16x64xf16>
  // Not known to be aligned.
  %a = tile.make_descriptor %q [%m, %m] strides [%s] : !tile.ptr<f16> -> !tile.desc<16x64xf16>
  %0 = tile.desc_load %a [%m, %zero] : !tile.desc<16x64xf16> -> tensor<16x64xf16>
  %b = tile.make_descriptor %p [%m, %m] strides [%u] : !tile.ptr<f16> -> !tile.desc<16x64xf16>
  %1 = tile.desc_load %b [%m, %zero] : !tile.desc<16x64xf16> -> tensor<16x64xf16>
  // Rows of 8 bytes, sizes that are no powers of two, NaN in bytes.
  %d = tile.make_descriptor %p [%m, %m] strides [%s] : !tile.ptr<f16> -> !tile.desc<16x4xf16>
  %2 = tile.desc_load %d [%m, %zero] : !tile.desc<16x4xf16> -> tensor<16x4xf16>
  %e = tile.make_descriptor %p [%m, %m] strides [%s] : !tile.ptr<f16> -> !tile.desc<12x64xf16>
  %3 = tile.desc_load %e [%m, %zero] : !tile.desc<12x64xf16> -> tensor<12x64xf16>
  %f = tile.make_descriptor %z [%m] strides [] : !tile.ptr<f8E5M2> -> !tile.desc<64xf8E5M2, nan>
  %4 = tile.desc_load %f [%zero] : !tile.desc<64xf8E5M2, nan> -> tensor<64xf8E5M2>
  // Small blocks, and a middle size that is too large.
  %k = tile.make_descriptor %p [%m, %m] strides [%s] : !tile.ptr<f16> -> !tile.desc<4x64xf16>
  %8 = tile.desc_load %k [%m, %zero] : !tile.desc<4x64xf16> -> tensor<4x64xf16>
  %l = tile.make_descriptor %p [%m, %m] strides [%s] : !tile.ptr<f16> -> !tile.desc<128x8xf16>
  %9 = tile.desc_load %l [%m, %zero] : !tile.desc<128x8xf16> -> tensor<128x8xf16>
  %n = tile.make_descriptor %p [%m, %m, %m] strides [%s, %s] : !tile.ptr<f16> -> !tile.desc<2x512x16xf16>
  %10 = tile.desc_load %n [%m, %m, %zero] : !tile.desc<2x512x16xf16> -> tensor<2x512x16xf16>
  // A base that depends on the program.
  %pid = tile.program_id 0
  %sixteen = arith.constant 16 : i32
  %far = arith.muli %pid, %sixteen : i32
  %mine = tile.addptr %p, %far : !tile.ptr<f16>, i32
  %g = tile.make_descriptor %mine [%m, %m] strides [%s] : !tile.ptr<f16> -> !tile.desc<16x64xf16>
  %5 = tile.desc_load %g [%m, %zero] : !tile.desc<16x64xf16> -> tensor<16x64xf16>
  // Out of a branch, and rows.
  %h = tile.make_descriptor %p [%m, %m] strides [%s] : !tile.ptr<f16> -> !tile.desc<16x64xf16>
  %i = scf.if %c -> !tile.desc<16x64xf16> {
    scf.yield %h : !tile.desc<16x64xf16>
  } else {
    scf.yield %h : !tile.desc<16x64xf16>
  }
  %6 = tile.desc_load %i [%m, %zero] : !tile.desc<16x64xf16> -> tensor<16x64xf16>
  %j = tile.make_descriptor %p [%m, %m] strides [%s] : !tile.ptr<f16> -> !tile.desc<1x64xf16>
  %7 = tile.desc_gather %j [%rows, %m] : !tile.desc<1x64xf16>, tensor<8xi32> -> tensor<8x64xf16>
  return
}

// Blocks of less than 1024 bytes, where a loop copies them ahead.
// CHECK-LABEL: func.func @small
func.func @small(%p: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  // CHECK: tile.make_descriptor {{.*}} copy_engine : !tile.ptr<f32> -> !tile.desc<64xf32>
  %ahead = tile.make_descriptor %p [%n] strides [] : !tile.ptr<f32> -> !tile.desc<64xf32>
  // CHECK-NEXT: tile.make_descriptor
  // CHECK-NOT: copy_engine
  // CHECK: !tile.desc<16xf32>
  %tiny = tile.make_descriptor %p [%n] strides [] : !tile.ptr<f32> -> !tile.desc<16xf32>
  // CHECK-NEXT: tile.make_descriptor
  // CHECK-NOT: copy_engine
  // CHECK: !tile.desc<64xf32>
  %other = tile.make_descriptor %p [%n] strides [] : !tile.ptr<f32> -> !tile.desc<64xf32>
  scf.for %i = %c0 to %n step %c64 : i32 {
    %0 = tile.desc_load %ahead [%i] : !tile.desc<64xf32> -> tensor<64xf32>
    %1 = tile.desc_load %tiny [%i] : !tile.desc<16xf32> -> tensor<16xf32>
  } {tile.warp_specialize}
  scf.for %i = %c0 to %n step %c64 : i32 {
    %0 = tile.desc_load %other [%i] : !tile.desc<64xf32> -> tensor<64xf32>
  }
  return
}
