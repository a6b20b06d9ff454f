// Loops of mma.sync take one slot less than stages from five stages on; loops of wgmma, and of fewer stages, do not.
// RUN: nereid-opt %S/matmul-layouts.mlir --tile-pipeline --gpu-assign-layouts=sm=80 "--gpu-pipeline-loops=stages=5" | FileCheck %s --check-prefix=FOUR
// RUN: nereid-opt %S/matmul-layouts.mlir --tile-pipeline --gpu-assign-layouts=sm=80 "--gpu-pipeline-loops=stages=4" | FileCheck %s --check-prefix=FOUR
// RUN: nereid-opt %S/matmul-layouts.mlir --tile-pipeline --gpu-assign-layouts "--gpu-pipeline-loops=stages=5" | FileCheck %s --check-prefix=FIVE
// FOUR: ngpu.local_alloc <4x128x64xf16
// FOUR: scf.for
// FIVE: ngpu.local_alloc <5x128x64xf16
// FIVE: scf.for
