// A loop that runs once at most is a branch where its accumulator and the result of its other product take most of a thread's registers: 64 and 128
// with four warps, and not with eight (32 and 64), where it copies ahead.
// RUN: nereid-opt %s --tile-pipeline --gpu-assign-layouts "--gpu-pipeline-loops=stages=3" | FileCheck %s
// RUN: nereid-opt %s --tile-pipeline --gpu-assign-layouts=warps=8 "--gpu-pipeline-loops=stages=3 warps=8" | FileCheck %s --check-prefix=EIGHT

// CHECK-LABEL: func.func @diagonal
// CHECK-NOT: scf.for
// CHECK: %[[END:.*]] = arith.addi %[[START:.*]], %c128_i32
// CHECK: %[[RUNS:.*]] = arith.cmpi slt, %[[START]], %[[END]]
// CHECK: %[[SUM:.*]] = scf.if %[[RUNS]]
// CHECK: ngpu.wgmma
// CHECK: ngpu.wgmma
// CHECK: } else {
// CHECK-NEXT: scf.yield %cst
// CHECK-NOT: scf.for
// CHECK: return

// A loop of which more is known to run: pipelined.
// CHECK-LABEL: func.func @rounds
// CHECK: scf.for
// CHECK: ngpu.async_wait

// EIGHT-LABEL: func.func @diagonal
// EIGHT: scf.for
// EIGHT: ngpu.async_wait
module {
  func.func @diagonal(%q: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %k: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %o: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c128 = arith.constant 128 : i32
    %c64 = arith.constant dense<64> : tensor<128x1xi32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %zeros = arith.constant dense<0.0> : tensor<128x128xf32>
    %program = tile.program_id 0
    %start = arith.muli %program, %c128 : i32
    %distance = arith.constant 128 : i32
    %end = arith.addi %start, %distance : i32
    %rows = tile.range 0 to 128 : tensor<128xi32>
    %columns = tile.range 0 to 64 : tensor<64xi32>
    %r0 = tile.expand_dims %rows 1 : tensor<128xi32> -> tensor<128x1xi32>
    %r = arith.muli %r0, %c64 : tensor<128x1xi32>
    %c = tile.expand_dims %columns 0 : tensor<64xi32> -> tensor<1x64xi32>
    %rb = tile.broadcast %r : tensor<128x1xi32> -> tensor<128x64xi32>
    %cb = tile.broadcast %c : tensor<1x64xi32> -> tensor<128x64xi32>
    %at = arith.addi %rb, %cb : tensor<128x64xi32>
    %qp = tile.splat %q : !tile.ptr<f16> -> tensor<128x64x!tile.ptr<f16>>
    %qa = tile.addptr %qp, %at : tensor<128x64x!tile.ptr<f16>>, tensor<128x64xi32>
    %qb = tile.load %qa : tensor<128x64x!tile.ptr<f16>> -> tensor<128x64xf16>
    %kp = tile.splat %k : !tile.ptr<f16> -> tensor<128x64x!tile.ptr<f16>>
    %ka = tile.addptr %kp, %at : tensor<128x64x!tile.ptr<f16>>, tensor<128x64xi32>
    %acc = scf.for %i = %start to %end step %c128 iter_args(%a = %zero) -> (tensor<128x64xf32>) : i32 {
      %is = tile.splat %i : i32 -> tensor<128x64xi32>
      %kc = arith.constant dense<64> : tensor<128x64xi32>
      %io = arith.muli %is, %kc : tensor<128x64xi32>
      %here = tile.addptr %ka, %io : tensor<128x64x!tile.ptr<f16>>, tensor<128x64xi32>
      %kb = tile.load %here : tensor<128x64x!tile.ptr<f16>> -> tensor<128x64xf16>
      %kt = tile.trans %kb [1, 0] : tensor<128x64xf16> -> tensor<64x128xf16>
      %s = tile.dot %qb, %kt, %zeros : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      %p = arith.truncf %s : tensor<128x128xf32> to tensor<128x128xf16>
      %n = tile.dot %p, %kb, %a : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      scf.yield %n : tensor<128x64xf32>
    }
    %op = tile.splat %o : !tile.ptr<f32> -> tensor<128x64x!tile.ptr<f32>>
    %oa = tile.addptr %op, %at : tensor<128x64x!tile.ptr<f32>>, tensor<128x64xi32>
    tile.store %oa, %acc : tensor<128x64x!tile.ptr<f32>>, tensor<128x64xf32>
    return
  }
  func.func @rounds(%q: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %k: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %o: !tile.ptr<f32> {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
    %c128 = arith.constant 128 : i32
    %c64 = arith.constant dense<64> : tensor<128x1xi32>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32>
    %zeros = arith.constant dense<0.0> : tensor<128x128xf32>
    %program = tile.program_id 0
    %start = arith.muli %program, %c128 : i32
    %distance = arith.constant 256 : i32
    %end = arith.addi %start, %distance : i32
    %rows = tile.range 0 to 128 : tensor<128xi32>
    %columns = tile.range 0 to 64 : tensor<64xi32>
    %r0 = tile.expand_dims %rows 1 : tensor<128xi32> -> tensor<128x1xi32>
    %r = arith.muli %r0, %c64 : tensor<128x1xi32>
    %c = tile.expand_dims %columns 0 : tensor<64xi32> -> tensor<1x64xi32>
    %rb = tile.broadcast %r : tensor<128x1xi32> -> tensor<128x64xi32>
    %cb = tile.broadcast %c : tensor<1x64xi32> -> tensor<128x64xi32>
    %at = arith.addi %rb, %cb : tensor<128x64xi32>
    %qp = tile.splat %q : !tile.ptr<f16> -> tensor<128x64x!tile.ptr<f16>>
    %qa = tile.addptr %qp, %at : tensor<128x64x!tile.ptr<f16>>, tensor<128x64xi32>
    %qb = tile.load %qa : tensor<128x64x!tile.ptr<f16>> -> tensor<128x64xf16>
    %kp = tile.splat %k : !tile.ptr<f16> -> tensor<128x64x!tile.ptr<f16>>
    %ka = tile.addptr %kp, %at : tensor<128x64x!tile.ptr<f16>>, tensor<128x64xi32>
    %acc = scf.for %i = %start to %end step %c128 iter_args(%a = %zero) -> (tensor<128x64xf32>) : i32 {
      %is = tile.splat %i : i32 -> tensor<128x64xi32>
      %kc = arith.constant dense<64> : tensor<128x64xi32>
      %io = arith.muli %is, %kc : tensor<128x64xi32>
      %here = tile.addptr %ka, %io : tensor<128x64x!tile.ptr<f16>>, tensor<128x64xi32>
      %kb = tile.load %here : tensor<128x64x!tile.ptr<f16>> -> tensor<128x64xf16>
      %kt = tile.trans %kb [1, 0] : tensor<128x64xf16> -> tensor<64x128xf16>
      %s = tile.dot %qb, %kt, %zeros : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
      %p = arith.truncf %s : tensor<128x128xf32> to tensor<128x128xf16>
      %n = tile.dot %p, %kb, %a : tensor<128x128xf16>, tensor<128x64xf16> -> tensor<128x64xf32>
      scf.yield %n : tensor<128x64xf32>
    }
    %op = tile.splat %o : !tile.ptr<f32> -> tensor<128x64x!tile.ptr<f32>>
    %oa = tile.addptr %op, %at : tensor<128x64x!tile.ptr<f32>>, tensor<128x64xi32>
    tile.store %oa, %acc : tensor<128x64x!tile.ptr<f32>>, tensor<128x64xf32>
    return
  }
}
