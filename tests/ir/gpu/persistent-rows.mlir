// A block runs several programs, and fetches the rows of the next one while it computes.
// RUN: nereid-opt %s --split-input-file --gpu-assign-layouts="warps=4" --gpu-persistent-rows="warps=4 persistent-rows=always" | FileCheck %s
// RUN: nereid-opt %s --split-input-file --gpu-assign-layouts="warps=16" --gpu-persistent-rows="warps=16 persistent-rows=wide" | FileCheck %s --check-prefix=WIDE
// RUN: nereid-opt %s --split-input-file --gpu-assign-layouts --gpu-persistent-rows | FileCheck %s --check-prefix=OFF

// OFF-NOT: ngpu.fetch

// Of 1024 elements many blocks fit on a multiprocessor.
// CHECK-LABEL: func.func @centred
// CHECK-SAME:  ngpu.persistent = 1 : i32
// CHECK:       %[[FIRST:.*]] = tile.program_id 0
// CHECK-NEXT:  %[[STEP:.*]] = tile.num_programs 0
// CHECK-NEXT:  %[[COUNT:.*]] = ngpu.programs
// CHECK-NEXT:  %[[ROW:.*]] = ngpu.local_alloc <4096xi8
// CHECK:       arith.muli %[[FIRST]], %arg2
// CHECK:       ngpu.fetch %{{.*}}, %[[ROW]] contiguity 4
// CHECK-NEXT:  ngpu.async_commit
// CHECK:       scf.for %[[PROGRAM:.*]] = %[[FIRST]] to %[[COUNT]] step %[[STEP]]
// CHECK-NEXT:    ngpu.async_wait 0
// CHECK:         arith.muli %[[PROGRAM]], %arg2
// CHECK:         %[[X:.*]] = ngpu.fetched %{{.*}}, %[[ROW]] contiguity 4
// CHECK-NEXT:    %[[REST:.*]] = arith.subi %[[COUNT]], %[[PROGRAM]]
// CHECK-NEXT:    %[[EXISTS:.*]] = arith.cmpi sgt, %[[REST]], %[[STEP]]
// CHECK-NEXT:    %[[NEXT:.*]] = arith.addi %[[PROGRAM]], %[[STEP]]
// CHECK:         arith.muli %[[NEXT]], %arg2
// CHECK:         %[[MASK:.*]] = tile.splat %[[EXISTS]]
// CHECK-NEXT:    ngpu.fetch %{{.*}}, %[[ROW]] mask %[[MASK]] contiguity 4
// CHECK-NEXT:    ngpu.async_commit
// CHECK-NOT:     ngpu.fetch
// CHECK:         tile.reduce(%[[X]])
// CHECK:         tile.store
// CHECK-NEXT:  }
// CHECK-NEXT:  ngpu.async_wait 0
// CHECK-NEXT:  ngpu.local_dealloc %[[ROW]]
// WIDE-LABEL: func.func @centred
// WIDE-NOT:   ngpu.fetch
func.func @centred(%out: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %program = tile.program_id 0
  %start = arith.muli %program, %n : i32
  %columns = tile.range 0 to 1024 : tensor<1024xi32>
  %from = tile.addptr %x, %start : !tile.ptr<f32>, i32
  %froms = tile.splat %from : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %places = tile.addptr %froms, %columns : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  %row = tile.load %places : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  %sum = tile.reduce(%row) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %a, %b : f32
    tile.yield %0 : f32
  } : (tensor<1024xf32>) -> f32
  %sums = tile.splat %sum : f32 -> tensor<1024xf32>
  %result = arith.subf %row, %sums : tensor<1024xf32>
  %to = tile.addptr %out, %start : !tile.ptr<f32>, i32
  %tos = tile.splat %to : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %targets = tile.addptr %tos, %columns : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  tile.store %targets, %result : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  return
}

// -----

// 32768 bf16, kept as fp32 in 16 warps: one block fits.
// WIDE-LABEL: func.func @wide
// WIDE-SAME:  ngpu.persistent = 1 : i32
// WIDE:       ngpu.fetched
func.func @wide(%out: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %x: !tile.ptr<bf16> {tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %program = tile.program_id 0
  %start = arith.muli %program, %n : i32
  %columns = tile.range 0 to 32768 : tensor<32768xi32>
  %from = tile.addptr %x, %start : !tile.ptr<bf16>, i32
  %froms = tile.splat %from : !tile.ptr<bf16> -> tensor<32768x!tile.ptr<bf16>>
  %places = tile.addptr %froms, %columns : tensor<32768x!tile.ptr<bf16>>, tensor<32768xi32>
  %narrow = tile.load %places : tensor<32768x!tile.ptr<bf16>> -> tensor<32768xbf16>
  %row = arith.extf %narrow : tensor<32768xbf16> to tensor<32768xf32>
  %sum = tile.reduce(%row) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %a, %b : f32
    tile.yield %0 : f32
  } : (tensor<32768xf32>) -> f32
  %sums = tile.splat %sum : f32 -> tensor<32768xf32>
  %result = arith.subf %row, %sums : tensor<32768xf32>
  %to = tile.addptr %out, %start : !tile.ptr<f32>, i32
  %tos = tile.splat %to : !tile.ptr<f32> -> tensor<32768x!tile.ptr<f32>>
  %targets = tile.addptr %tos, %columns : tensor<32768x!tile.ptr<f32>>, tensor<32768xi32>
  tile.store %targets, %result : tensor<32768x!tile.ptr<f32>>, tensor<32768xf32>
  return
}

// -----

// Rows that the program writes before it reads them, and loops, stay as they are.
// CHECK-LABEL: func.func @written
// CHECK-NOT:   ngpu.fetch
func.func @written(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}, %value: f32) attributes {tile.kernel} {
  %program = tile.program_id 0
  %start = arith.muli %program, %n : i32
  %columns = tile.range 0 to 1024 : tensor<1024xi32>
  %from = tile.addptr %x, %start : !tile.ptr<f32>, i32
  %froms = tile.splat %from : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  %places = tile.addptr %froms, %columns : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  %values = tile.splat %value : f32 -> tensor<1024xf32>
  tile.store %places, %values : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  %row = tile.load %places : tensor<1024x!tile.ptr<f32>> -> tensor<1024xf32>
  %sum = tile.reduce(%row) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %a, %b : f32
    tile.yield %0 : f32
  } : (tensor<1024xf32>) -> f32
  %sums = tile.splat %sum : f32 -> tensor<1024xf32>
  tile.store %places, %sums : tensor<1024x!tile.ptr<f32>>, tensor<1024xf32>
  return
}
