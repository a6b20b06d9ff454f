// How kernels use shared memory, seen after all passes: every access without bank conflicts, 16 bytes at once where
// the layouts allow, by matrices where lanes hold pairs (stmatrix from sm_90).
// RUN: nereid-opt %S/matmul-layouts.mlir --tile-pipeline --gpu-pipeline --test-shared-accesses -o %t 2>&1 | FileCheck %s --check-prefixes=MATMUL,MATMUL90 --implicit-check-not="conflicts: "
// RUN: nereid-opt %S/matmul-layouts.mlir --tile-pipeline --gpu-pipeline=sm=80 --test-shared-accesses=matrix-stores=0 -o %t 2>&1 | FileCheck %s --check-prefixes=MATMUL,MATMUL80 --implicit-check-not="conflicts: "
// RUN: nereid-opt %S/attention-layouts.mlir --tile-pipeline --gpu-pipeline --test-shared-accesses -o %t 2>&1 | FileCheck %s --check-prefixes=ATTENTION --implicit-check-not="conflicts: "
// RUN: nereid-opt %S/attention-layouts.mlir --tile-pipeline --gpu-pipeline=sm=80 --test-shared-accesses=matrix-stores=0 -o %t 2>&1 | FileCheck %s --check-prefixes=ATTENTION80 --implicit-check-not="conflicts: "

// Copies of A and B, before the loop and in it.
// MATMUL: 16 bytes a lane, no bank conflicts
// MATMUL: ngpu.async_copy
// MATMUL: 16 bytes a lane, no bank conflicts
// MATMUL: ngpu.async_copy
// Fragments of A along K, of B across K.
// MATMUL80: remark: 4 matrices, no bank conflicts
// MATMUL80: ngpu.local_load
// MATMUL80: remark: 4 matrices, transposed, no bank conflicts
// MATMUL80: ngpu.local_load
// The result on its way to stores of 16 bytes.
// MATMUL90: remark: 4 matrices, no bank conflicts
// MATMUL80: remark: 4 bytes a lane, no bank conflicts
// MATMUL: ngpu.local_alloc
// MATMUL: remark: 16 bytes a lane, no bank conflicts
// MATMUL: ngpu.local_load

// ATTENTION: 16 bytes a lane, no bank conflicts
// ATTENTION: 16 bytes a lane, no bank conflicts
// ATTENTION: 4 matrices, no bank conflicts
// ATTENTION: 16 bytes a lane, no bank conflicts

// Q and K along the head, V across the keys.
// ATTENTION80: 16 bytes a lane, no bank conflicts
// ATTENTION80: 4 matrices, no bank conflicts
// ATTENTION80: 4 matrices, no bank conflicts
// ATTENTION80: 4 matrices, transposed, no bank conflicts
// ATTENTION80: 16 bytes a lane, no bank conflicts

// Rows of unknown alignment are loaded one element at a time, but by threads that hold pairs: those go to shared
// memory as words.
// RUN: sed -e "s/i32 {tile.divisibility = 16 : i64, /i32 {/g" %S/matmul-layouts.mlir | nereid-opt --tile-pipeline --gpu-pipeline --test-shared-accesses -o %t 2>&1 | FileCheck %s --check-prefix=UNALIGNED --implicit-check-not="conflicts: "
// UNALIGNED: remark: 4 matrices, no bank conflicts
// UNALIGNED: ngpu.local_store
// UNALIGNED: remark: 4 matrices, no bank conflicts
// UNALIGNED: ngpu.local_store

// A column of a plain row-major buffer: rows are 128 bytes apart.
// RUN: nereid-opt %s --test-shared-accesses -o %t 2>&1 | FileCheck %s --check-prefix=PLAIN
#row = #ngpu.layout<register = [[8, 0], [16, 0]], lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[1, 0], [2, 0], [4, 0]], shape = [32, 32]>
#column = #ngpu.layout<register = [[0, 8], [0, 16]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[0, 1], [0, 2], [0, 4]], shape = [32, 32]>
#plain = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], shape = [32, 32]>
func.func @plain(%x: tensor<32x32xf32, #row>) -> tensor<32x32xf32, #column> attributes {tile.kernel, ngpu.num_warps = 8 : i32, ngpu.sm = 90 : i32} {
  // PLAIN: remark: 4 matrices, no bank conflicts
  %buffer = ngpu.local_alloc %x : tensor<32x32xf32, #row> -> !ngpu.buffer<32x32xf32, #plain>
  // PLAIN: remark: 4 bytes a lane, bank conflicts: 32
  %result = ngpu.local_load %buffer : !ngpu.buffer<32x32xf32, #plain> -> tensor<32x32xf32, #column>
  return %result : tensor<32x32xf32, #column>
}
