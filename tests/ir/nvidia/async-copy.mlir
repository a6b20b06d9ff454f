// The hint to fetch whole lines into L2 came with PTX 7.4; sm_80 itself with 7.0.
// RUN: nereid-opt %S/../gpu/matmul-layouts.mlir --tile-pipeline --gpu-pipeline=sm=80 --emit-nvidia="sm=80 stage=ptx" -o %t | FileCheck %s --check-prefix=OLD
// RUN: nereid-opt %S/../gpu/matmul-layouts.mlir --tile-pipeline --gpu-pipeline=sm=80 --emit-nvidia="sm=80 ptx=80 stage=ptx" -o %t | FileCheck %s --check-prefix=NEW
// RUN: nereid-opt %S/../gpu/matmul-layouts.mlir --tile-pipeline --gpu-pipeline=sm=80 --emit-nvidia="sm=80 stage=check" -o %t | FileCheck %s --check-prefix=SASS
// OLD: cp.async.cg.shared.global [
// NEW: cp.async.cg.shared.global.L2::128B [
// SASS: assembled: 0 bytes of spills
