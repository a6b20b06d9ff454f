// In a loop of wgmma, copies go from a pointer a row plus one offset a block, both in bytes: nothing is multiplied, and no row's pointer
// advances. What masks forbid is a predicate of the copy, which came with PTX 7.5.
// RUN: nereid-opt %S/../gpu/matmul-layouts.mlir --tile-pipeline --gpu-pipeline --emit-nvidia="ptx=80 stage=ptx" -o %t | FileCheck %s
// RUN: nereid-opt %S/../gpu/matmul-layouts.mlir --tile-pipeline --gpu-pipeline=sm=80 --emit-nvidia="sm=80 ptx=74 stage=ptx" -o %t | FileCheck %s --check-prefix=BYTES
// RUN: nereid-opt %S/../gpu/matmul-layouts.mlir --tile-pipeline --gpu-pipeline=sm=80 --emit-nvidia="sm=80 ptx=75 stage=ptx" -o %t | FileCheck %s --check-prefix=PREDICATE

// CHECK: .pragma "nounroll";
// CHECK-NOT: mul.wide
// CHECK: wgmma.mma_async
// CHECK-NOT: mul.wide
// CHECK: mov.b64 [[B:%rd[0-9]+]], [[MOVEDB:%rd[0-9]+]];
// CHECK-COUNT-8: add.s64 %rd{{[0-9]+}}, %rd{{[0-9]+}}, [[B]];
// CHECK: mov.b64 [[A:%rd[0-9]+]], [[MOVEDA:%rd[0-9]+]];
// CHECK-COUNT-8: add.s64 %rd{{[0-9]+}}, %rd{{[0-9]+}}, [[A]];
// CHECK-COUNT-16: cp.async.cg.shared.global.L2::128B [%r{{[0-9]+}}], [%rd{{[0-9]+}}], 16, %p
// CHECK-NOT: add.s64
// CHECK: add.s64 [[MOVEDA]], [[MOVEDA]], 128;
// CHECK-NEXT: add.s64 [[MOVEDB]], [[MOVEDB]], %rd
// CHECK-NOT: add.s64
// CHECK: bra

// BYTES: cp.async.cg.shared.global.L2::128B [%r{{[0-9]+}}], [%rd{{[0-9]+}}], 16, %r
// PREDICATE: cp.async.cg.shared.global.L2::128B [%r{{[0-9]+}}], [%rd{{[0-9]+}}], 16, %p
