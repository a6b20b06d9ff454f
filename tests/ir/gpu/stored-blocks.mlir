// What is waited for around blocks that the copy engine stores, through all passes.
// RUN: nereid-opt %s --gpu-pipeline --split-input-file | FileCheck %s

// A block that a loop's loads may read in the next turn of the loop around them: the store is waited for until memory is written,
// though the loads are pipelined, and so lowered, before it.
// CHECK-LABEL: func.func @stored_for_loop
func.func @stored_for_loop(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "x"},
                           %y: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "y"},
                           %n: i32, %s: i64 {tile.divisibility = 8 : i64}, %i: i32) attributes {tile.kernel} {
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  // CHECK: ngpu.tma_load
  // CHECK: ngpu.tma_store
  // CHECK-NEXT: ngpu.tma_store_wait 0 complete
  scf.for %t = %c0 to %n step %c64 : i32 {
    %sum = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %0 = tile.desc_load %a [%i, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %1 = tile.desc_load %b [%k, %i] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %2 = tile.dot %0, %1, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
      scf.yield %2 : tensor<64x64xf32>
    }
    %half = arith.truncf %sum : tensor<64x64xf32> to tensor<64x64xf16>
    tile.desc_store %a [%i, %t], %half : !tile.desc<64x64xf16>, tensor<64x64xf16>
  }
  return
}

// -----

// Another tensor's block: it is enough that the engine has read the buffer, but for a place that every turn writes.
// CHECK-LABEL: func.func @stored_beside_loop
func.func @stored_beside_loop(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "x"},
                              %y: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "y"},
                              %n: i32, %s: i64 {tile.divisibility = 8 : i64}, %i: i32) attributes {tile.kernel} {
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  scf.for %t = %c0 to %n step %c64 : i32 {
    %sum = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %0 = tile.desc_load %a [%i, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %1 = tile.desc_load %a [%k, %i] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %2 = tile.dot %0, %1, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
      scf.yield %2 : tensor<64x64xf32>
    }
    %half = arith.truncf %sum : tensor<64x64xf32> to tensor<64x64xf16>
    // CHECK: ngpu.tma_store
    // CHECK-NEXT: ngpu.tma_store_wait 0{{ *$}}
    tile.desc_store %b [%i, %t], %half : !tile.desc<64x64xf16>, tensor<64x64xf16>
  }
  return
}

// -----

// CHECK-LABEL: func.func @stored_again
func.func @stored_again(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "x"}, %n: i32, %s: i64 {tile.divisibility = 8 : i64},
                        %i: i32) attributes {tile.kernel} {
  %v = arith.constant dense<1.0> : tensor<64x64xf16>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  scf.for %t = %c0 to %n step %c1 : i32 {
    // CHECK: ngpu.tma_store
    // CHECK-NEXT: ngpu.tma_store_wait 0 complete
    tile.desc_store %a [%i, %i], %v : !tile.desc<64x64xf16>, tensor<64x64xf16>
  }
  return
}

// -----

// What ordinary instructions have written is made visible to the engine.
// CHECK-LABEL: func.func @written_before
func.func @written_before(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "x"},
                          %y: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "y"}, %n: i32,
                          %s: i64 {tile.divisibility = 8 : i64}, %one: f16) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  tile.store %x, %one : !tile.ptr<f16>, f16
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  // CHECK: ngpu.fence_async global
  // CHECK: ngpu.tma_load
  %0 = tile.desc_load %a [%c0, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
  tile.desc_store %b [%c0, %c0], %0 : !tile.desc<64x64xf16>, tensor<64x64xf16>
  return
}

// -----

// CHECK-LABEL: func.func @written_before_loop
func.func @written_before_loop(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "x"},
                               %y: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "y"},
                               %n: i32, %s: i64 {tile.divisibility = 8 : i64}, %one: f16) attributes {tile.kernel} {
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  tile.store %x, %one : !tile.ptr<f16>, f16
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %c = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<64x64xf32>
  // CHECK: ngpu.fence_async global
  // CHECK-NEXT: ngpu.barrier
  // CHECK: ngpu.tma_load
  %sum = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
    %0 = tile.desc_load %a [%c0, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %1 = tile.desc_load %a [%k, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %2 = tile.dot %0, %1, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %2 : tensor<64x64xf32>
  }
  // CHECK: ngpu.fence_async{{ *$}}
  // CHECK: ngpu.tma_store
  tile.desc_store %c [%c0, %c0], %sum : !tile.desc<64x64xf32>, tensor<64x64xf32>
  return
}
