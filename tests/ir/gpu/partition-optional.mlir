// Arguments of loads through pointers may overlap with what the kernel stores: unlike loads through an author's descriptors they go
// ahead of no store in a loop around.
// RUN: nereid-opt %s --gpu-plan-tensor-maps --gpu-assign-layouts --gpu-partition-warps="stages=3 specialise=always" | FileCheck %s

// CHECK-LABEL: func.func @promised
// CHECK: ngpu.warp_specialize
// CHECK-LABEL: func.func @optional
// CHECK-NOT: ngpu.warp_specialize
func.func @promised(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                    %z: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32, %s: i64 {tile.divisibility = 8 : i64}, %i: i32)
    attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %c = tile.make_descriptor %z [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<64x64xf32>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  scf.for %t = %c0 to %n step %c64 : i32 {
    %r = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %0 = tile.desc_load %a [%t, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %1 = tile.desc_load %b [%k, %i] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %2 = tile.dot %0, %1, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
      scf.yield %2 : tensor<64x64xf32>
    }
    tile.desc_store %c [%t, %i], %r : !tile.desc<64x64xf32>, tensor<64x64xf32>
  }
  return
}

func.func @optional(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                    %z: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32, %s: i64 {tile.divisibility = 8 : i64}, %i: i32)
    attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine optional : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine optional : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %c = tile.make_descriptor %z [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<64x64xf32>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  scf.for %t = %c0 to %n step %c64 : i32 {
    %r = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %0 = tile.desc_load %a [%t, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %1 = tile.desc_load %b [%k, %i] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %2 = tile.dot %0, %1, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
      scf.yield %2 : tensor<64x64xf32>
    }
    tile.desc_store %c [%t, %i], %r : !tile.desc<64x64xf32>, tensor<64x64xf32>
  }
  return
}
