// A block computes the products of several programs, one after the other, its loops divided between warps.
// RUN: nereid-opt %s --split-input-file --gpu-plan-tensor-maps --gpu-assign-layouts --gpu-persistent-products="stages=3 persistent-products=always" | FileCheck %s
// RUN: nereid-opt %s --split-input-file --gpu-plan-tensor-maps --gpu-assign-layouts --gpu-persistent-products="stages=3 persistent-products=always" --gpu-partition-warps="stages=3" | FileCheck %s --check-prefix=DIVIDED
// RUN: nereid-opt %s --split-input-file --gpu-plan-tensor-maps --gpu-assign-layouts --gpu-persistent-products="stages=3 persistent-products=always specialise=never" | FileCheck %s --check-prefix=OFF
// RUN: nereid-opt %s --split-input-file --gpu-plan-tensor-maps --gpu-assign-layouts --gpu-persistent-products="stages=1 persistent-products=always" | FileCheck %s --check-prefix=OFF
// RUN: nereid-opt %s --split-input-file --gpu-plan-tensor-maps --gpu-assign-layouts --gpu-persistent-products="stages=3" | FileCheck %s --check-prefix=OFF

// OFF-NOT: ngpu.programs

// What is the same for all programs stays in front of the loop, tensors do not.
// CHECK-LABEL: func.func @matmul
// CHECK-SAME:  ngpu.persistent = 1 : i32
// CHECK:       %[[FIRST:.*]] = tile.program_id 0
// CHECK-NEXT:  %[[STEP:.*]] = tile.num_programs 0
// CHECK-NEXT:  %[[COUNT:.*]] = ngpu.programs
// CHECK:       tile.make_descriptor
// CHECK:       scf.for %[[PROGRAM:.*]] = %[[FIRST]] to %[[COUNT]] step %[[STEP]]
// CHECK-NOT:     tile.program_id
// CHECK:         arith.constant dense
// CHECK:         %[[ROW:[0-9]+]] = arith.muli %[[PROGRAM]]
// CHECK:         scf.for
// CHECK:           tile.desc_load
// CHECK:           ngpu.wgmma
// CHECK:         }
// CHECK:         tile.desc_store %{{.*}}[%[[ROW]],
// CHECK:       }
// CHECK-NEXT:  return

// Both parts have the loop over programs, and carry the slot through it.
// DIVIDED-LABEL: func.func @matmul
// DIVIDED:       ngpu.warp_specialize
// DIVIDED:         scf.for {{.*}} iter_args(%{{.*}}, %{{.*}}) -> (i32, i32)
// DIVIDED:           scf.for
// DIVIDED:             ngpu.channel_get
// DIVIDED:           tile.desc_store
// DIVIDED:       }, {
// DIVIDED:         ngpu.programs
// DIVIDED:         scf.for {{.*}} iter_args(%{{.*}}, %{{.*}}) -> (i32, i32)
// DIVIDED:           scf.for
// DIVIDED:             ngpu.channel_put
func.func @matmul(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                  %z: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32, %s: i64 {tile.divisibility = 8 : i64}, %j: i32)
    attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x128xf16>
  %c = tile.make_descriptor %z [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<64x128xf32>
  %zero = arith.constant dense<0.0> : tensor<64x128xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %program = tile.program_id 0
  %i = arith.muli %program, %c64 : i32
  %sum = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
    %0 = tile.desc_load %a [%i, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %1 = tile.desc_load %b [%k, %j] : !tile.desc<64x128xf16> -> tensor<64x128xf16>
    %2 = tile.dot %0, %1, %acc : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
    scf.yield %2 : tensor<64x128xf32>
  }
  tile.desc_store %c [%i, %j], %sum : !tile.desc<64x128xf32>, tensor<64x128xf32>
  return
}

// -----

// Programs of unequal length are handed out as blocks become free.
// CHECK-LABEL: func.func @unequal
// CHECK-NOT:   ngpu.programs
// CHECK:       return
// DIVIDED-LABEL: func.func @unequal
func.func @unequal(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                  %z: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32, %s: i64 {tile.divisibility = 8 : i64}, %j: i32)
    attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x128xf16>
  %c = tile.make_descriptor %z [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<64x128xf32>
  %zero = arith.constant dense<0.0> : tensor<64x128xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %program = tile.program_id 0
  %i = arith.muli %program, %c64 : i32
  %end = arith.addi %i, %c64 : i32
  %sum = scf.for %k = %c0 to %end step %c64 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
    %0 = tile.desc_load %a [%i, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %1 = tile.desc_load %b [%k, %j] : !tile.desc<64x128xf16> -> tensor<64x128xf16>
    %2 = tile.dot %0, %1, %acc : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
    scf.yield %2 : tensor<64x128xf32>
  }
  tile.desc_store %c [%i, %j], %sum : !tile.desc<64x128xf32>, tensor<64x128xf32>
  return
}

// -----

// Programs that count what has ended may wait for one another.
// CHECK-LABEL: func.func @counted
// CHECK-NOT:   ngpu.programs
// CHECK:       return
// DIVIDED-LABEL: func.func @counted
func.func @counted(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                  %z: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32, %s: i64 {tile.divisibility = 8 : i64}, %j: i32)
    attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x128xf16>
  %c = tile.make_descriptor %z [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<64x128xf32>
  %zero = arith.constant dense<0.0> : tensor<64x128xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %program = tile.program_id 0
  %i = arith.muli %program, %c64 : i32
  %sum = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
    %0 = tile.desc_load %a [%i, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %1 = tile.desc_load %b [%k, %j] : !tile.desc<64x128xf16> -> tensor<64x128xf16>
    %2 = tile.dot %0, %1, %acc : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
    scf.yield %2 : tensor<64x128xf32>
  }
  tile.desc_store %c [%i, %j], %sum : !tile.desc<64x128xf32>, tensor<64x128xf32>
  %one = arith.constant 1.0 : f32
  %old = tile.atomic_rmw fadd %z, %one : !tile.ptr<f32>, f32
  return
}

// -----

// Only the first axis is walked along.
// CHECK-LABEL: func.func @other_axis
// CHECK-NOT:   ngpu.programs
// CHECK:       return
// DIVIDED-LABEL: func.func @other_axis
func.func @other_axis(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                  %z: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32, %s: i64 {tile.divisibility = 8 : i64}, %j: i32)
    attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x128xf16>
  %c = tile.make_descriptor %z [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<64x128xf32>
  %zero = arith.constant dense<0.0> : tensor<64x128xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %program = tile.program_id 1
  %first = tile.program_id 0
  %i = arith.muli %program, %c64 : i32
  %sum = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
    %0 = tile.desc_load %a [%i, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %1 = tile.desc_load %b [%k, %j] : !tile.desc<64x128xf16> -> tensor<64x128xf16>
    %2 = tile.dot %0, %1, %acc : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
    scf.yield %2 : tensor<64x128xf32>
  }
  tile.desc_store %c [%i, %j], %sum : !tile.desc<64x128xf32>, tensor<64x128xf32>
  return
}

// -----

// What overlaps is another order of products.
// CHECK-LABEL: func.func @two_products
// CHECK-NOT:   ngpu.programs
// CHECK:       return
// DIVIDED-LABEL: func.func @two_products
func.func @two_products(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                  %z: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32, %s: i64 {tile.divisibility = 8 : i64}, %j: i32)
    attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x128xf16>
  %c = tile.make_descriptor %z [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<64x128xf32>
  %zero = arith.constant dense<0.0> : tensor<64x128xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %program = tile.program_id 0
  %i = arith.muli %program, %c64 : i32
  %sum = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
    %0 = tile.desc_load %a [%i, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %1 = tile.desc_load %b [%k, %j] : !tile.desc<64x128xf16> -> tensor<64x128xf16>
    %2 = tile.dot %0, %1, %acc : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
    %3 = tile.dot %0, %1, %2 : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
    scf.yield %3 : tensor<64x128xf32>
  }
  tile.desc_store %c [%i, %j], %sum : !tile.desc<64x128xf32>, tensor<64x128xf32>
  return
}

// -----

// A load behind a store of the same program waits for it, so the loop cannot be divided.
// CHECK-LABEL: func.func @after_store
// CHECK-NOT:   ngpu.programs
// CHECK:       return
// DIVIDED-LABEL: func.func @after_store
func.func @after_store(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                  %z: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32, %s: i64 {tile.divisibility = 8 : i64}, %j: i32)
    attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x128xf16>
  %c = tile.make_descriptor %z [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<64x128xf32>
  %zero = arith.constant dense<0.0> : tensor<64x128xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %program = tile.program_id 0
  %i = arith.muli %program, %c64 : i32
  %old = arith.constant dense<0.0> : tensor<64x64xf16>
  tile.desc_store %a [%i, %j], %old : !tile.desc<64x64xf16>, tensor<64x64xf16>
  %sum = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x128xf32>) : i32 {
    %0 = tile.desc_load %a [%i, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %1 = tile.desc_load %b [%k, %j] : !tile.desc<64x128xf16> -> tensor<64x128xf16>
    %2 = tile.dot %0, %1, %acc : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
    scf.yield %2 : tensor<64x128xf32>
  }
  tile.desc_store %c [%i, %j], %sum : !tile.desc<64x128xf32>, tensor<64x128xf32>
  return
}
