// Loops of mma.sync take one slot less than stages from five stages on; loops of wgmma, and of fewer stages, do not. With one product they are then there twice: in launches of few programs an
// iteration refills the slot that it has read, which reaches one iteration further.
// RUN: nereid-opt %S/matmul-layouts.mlir --tile-pipeline --gpu-assign-layouts=sm=80 "--gpu-pipeline-loops=stages=5" | FileCheck %s --check-prefix=TWICE
// RUN: nereid-opt %S/matmul-layouts.mlir --tile-pipeline --gpu-assign-layouts=sm=80 "--gpu-pipeline-loops=stages=4" | FileCheck %s --check-prefixes=ONCE,FOUR
// RUN: nereid-opt %S/matmul-layouts.mlir --tile-pipeline --gpu-assign-layouts "--gpu-pipeline-loops=stages=5" | FileCheck %s --check-prefixes=ONCE,FIVE
// TWICE: %[[MOST:.*]] = arith.constant 264 : i64
// TWICE: %[[FEW:.*]] = arith.cmpi sle, %{{.*}}, %[[MOST]] : i64
// TWICE: scf.if %[[FEW]]
// TWICE: ngpu.local_alloc <4x128x64xf16
// TWICE-COUNT-4: ngpu.async_commit
// TWICE: scf.for
// TWICE: ngpu.async_wait 3
// TWICE: ngpu.mma
// TWICE: ngpu.async_copy
// TWICE: scf.yield
// TWICE: } else {
// TWICE: ngpu.local_alloc <4x128x64xf16
// TWICE-COUNT-3: ngpu.async_commit
// TWICE: scf.for
// TWICE: ngpu.async_wait 2
// TWICE: ngpu.async_copy
// TWICE: ngpu.mma
// TWICE: scf.yield
// ONCE-NOT: scf.if
// FOUR: ngpu.local_alloc <4x128x64xf16
// FIVE: ngpu.local_alloc <5x128x64xf16
// ONCE: scf.for
// ONCE-NOT: scf.if
