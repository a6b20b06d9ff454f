// RUN: nereid-opt "--gpu-pipeline-loops=stages=3" %s | FileCheck %s
// RUN: nereid-opt "--gpu-pipeline-loops=stages=4" %s | FileCheck %s --check-prefix=FOUR
// RUN: nereid-opt "--gpu-pipeline-loops=stages=2" %s | FileCheck %s --check-prefix=TWO
// RUN: nereid-opt "--gpu-pipeline-loops=stages=1" %s | FileCheck %s --check-prefix=ONE

#row = #ngpu.layout<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], warp = [[16, 0], [32, 0]], shape = [64, 16]>
#column = #ngpu.layout<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 16], [0, 32], [1, 0], [2, 0]], warp = [[4, 0], [8, 0]], shape = [16, 64]>
#k = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]], shape = [64, 16]>
#n = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 0], [2, 0], [4, 0], [8, 0]], shape = [16, 64]>
#acc = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]], shape = [64, 64]>
#column4 = #ngpu.layout<register = [[0, 1], [0, 2], [0, 4], [0, 64], [0, 128]], lane = [[0, 8], [0, 16], [0, 32], [1, 0], [2, 0]], warp = [[4, 0], [8, 0]], shape = [16, 256]>
#n4 = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 0], [2, 0], [4, 0], [8, 0], [0, 64], [0, 128]], shape = [16, 256]>
#acc4 = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32], [0, 64], [0, 128]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]], shape = [64, 256]>

// Copies two iterations ahead, none without an iteration; the product is issued before them, and the one
// before it is waited for before its slot is overwritten.
// CHECK-LABEL: func.func @product
// CHECK:       %[[A:.*]] = ngpu.local_alloc <3x64x16xf16
// CHECK:       %[[B:.*]] = ngpu.local_alloc <3x16x64xf16
// CHECK-COUNT-2: ngpu.async_commit
// CHECK:       scf.for
// CHECK-NEXT:    ngpu.async_wait 1
// CHECK-NOT:     tile.load
// CHECK:         ngpu.wgmma {{.*}} async
// CHECK-NEXT:    ngpu.wgmma_wait 1
// CHECK-NEXT:    ngpu.barrier
// CHECK:         arith.cmpi ugt
// CHECK:         ngpu.async_copy {{.*}} mask {{.*}} contiguity 8
// CHECK:         ngpu.async_copy {{.*}} mask {{.*}} contiguity 8
// CHECK:         ngpu.async_commit
// CHECK-NEXT:    scf.yield
// CHECK:       ngpu.wgmma_wait 0 for
// CHECK:       ngpu.async_wait 0
// CHECK:       ngpu.local_dealloc %[[A]]

// With four stages the same, one iteration further ahead.
// FOUR-LABEL: func.func @product
// FOUR-COUNT-3: ngpu.async_commit
// FOUR:       scf.for
// FOUR-NEXT:    ngpu.async_wait 2
// FOUR:         ngpu.wgmma {{.*}} async
// FOUR-NEXT:    ngpu.wgmma_wait 1
// FOUR-NEXT:    ngpu.barrier
// FOUR:         ngpu.async_commit
// FOUR-NEXT:    scf.yield

// With one stage nothing moves.
// ONE-LABEL: func.func @product
// ONE-NOT:     ngpu.async_copy
// ONE:         tile.load
// ONE-LABEL: func.func @rescaled
func.func @product(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %n: i32, %pa: tensor<64x16xi32, #row>, %rows: tensor<64x1xi32, #ngpu.layout<lane = [[0, 0], [1, 0], [2, 0], [4, 0], [8, 0]], warp = [[16, 0], [32, 0]], shape = [64, 1]>>) -> tensor<64x64xf32, #acc> attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c16 = arith.constant 16 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %ra = tile.range 0 to 16 : tensor<16xi32, #ngpu.layout<register = [[1], [2], [4]], lane = [[8], [0], [0], [0], [0]], warp = [[0], [0]], shape = [16]>>
  %ea = tile.expand_dims %ra 0 : tensor<16xi32, #ngpu.layout<register = [[1], [2], [4]], lane = [[8], [0], [0], [0], [0]], warp = [[0], [0]], shape = [16]>> -> tensor<1x16xi32, #ngpu.layout<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 0], [0, 0], [0, 0], [0, 0]], warp = [[0, 0], [0, 0]], shape = [1, 16]>>
  %oa = tile.broadcast %ea : tensor<1x16xi32, #ngpu.layout<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 0], [0, 0], [0, 0], [0, 0]], warp = [[0, 0], [0, 0]], shape = [1, 16]>> -> tensor<64x16xi32, #row>
  %rb = tile.range 0 to 64 : tensor<64xi32, #ngpu.layout<register = [[1], [2], [4]], lane = [[8], [16], [32], [0], [0]], warp = [[0], [0]], shape = [64]>>
  %eb = tile.expand_dims %rb 0 : tensor<64xi32, #ngpu.layout<register = [[1], [2], [4]], lane = [[8], [16], [32], [0], [0]], warp = [[0], [0]], shape = [64]>> -> tensor<1x64xi32, #ngpu.layout<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 16], [0, 32], [0, 0], [0, 0]], warp = [[0, 0], [0, 0]], shape = [1, 64]>>
  %ob = tile.broadcast %eb : tensor<1x64xi32, #ngpu.layout<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 16], [0, 32], [0, 0], [0, 0]], warp = [[0, 0], [0, 0]], shape = [1, 64]>> -> tensor<16x64xi32, #column>
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%c = %zero) -> (tensor<64x64xf32, #acc>) : i32 {
    %at = arith.muli %i, %c16 : i32
    %qa = tile.addptr %a, %at : !tile.ptr<f16>, i32
    %sa = tile.splat %qa : !tile.ptr<f16> -> tensor<64x16x!tile.ptr<f16>, #row>
    %la = tile.addptr %sa, %oa : tensor<64x16x!tile.ptr<f16>, #row>, tensor<64x16xi32, #row>
    %x = tile.load %la : tensor<64x16x!tile.ptr<f16>, #row> -> tensor<64x16xf16, #row>
    %bx = ngpu.local_alloc %x : tensor<64x16xf16, #row> -> !ngpu.buffer<64x16xf16, #k>
    %qb = tile.addptr %b, %at : !tile.ptr<f16>, i32
    %sb = tile.splat %qb : !tile.ptr<f16> -> tensor<16x64x!tile.ptr<f16>, #column>
    %lb = tile.addptr %sb, %ob : tensor<16x64x!tile.ptr<f16>, #column>, tensor<16x64xi32, #column>
    %y = tile.load %lb : tensor<16x64x!tile.ptr<f16>, #column> -> tensor<16x64xf16, #column>
    %by = ngpu.local_alloc %y : tensor<16x64xf16, #column> -> !ngpu.buffer<16x64xf16, #n>
    %d = ngpu.wgmma %bx, %by, %c : !ngpu.buffer<64x16xf16, #k>, !ngpu.buffer<16x64xf16, #n> -> tensor<64x64xf32, #acc>
    scf.yield %d : tensor<64x64xf32, #acc>
  }
  return %sum : tensor<64x64xf32, #acc>
}

// An accumulator that the loop also rescales is complete before that; rows whose elements are no neighbours go through
// registers, one iteration ahead: two slots are enough.
// CHECK-LABEL: func.func @rescaled
// CHECK:       ngpu.local_alloc <2x16x64xf16
// CHECK:       tile.load {{.*}} mask
// CHECK:       scf.for
// CHECK-NEXT:    %[[C:.*]] = ngpu.wgmma_wait 0 for
// CHECK:         ngpu.local_store
// CHECK:         tile.load {{.*}} mask
// CHECK:         arith.mulf %[[C]]
// CHECK:         ngpu.wgmma {{.*}} async
func.func @rescaled(%a: !ngpu.buffer<64x16xf16, #k>, %p: tensor<16x64x!tile.ptr<f16>, #column>, %s: tensor<64x64xf32, #acc>, %n: i32) -> tensor<64x64xf32, #acc> attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%c = %zero) -> (tensor<64x64xf32, #acc>) : i32 {
    %offset = tile.splat %i : i32 -> tensor<16x64xi32, #column>
    %lb = tile.addptr %p, %offset : tensor<16x64x!tile.ptr<f16>, #column>, tensor<16x64xi32, #column>
    %y = tile.load %lb : tensor<16x64x!tile.ptr<f16>, #column> -> tensor<16x64xf16, #column>
    %by = ngpu.local_alloc %y : tensor<16x64xf16, #column> -> !ngpu.buffer<16x64xf16, #n>
    %e = arith.mulf %c, %s : tensor<64x64xf32, #acc>
    %d = ngpu.wgmma %a, %by, %e : !ngpu.buffer<64x16xf16, #k>, !ngpu.buffer<16x64xf16, #n> -> tensor<64x64xf32, #acc>
    scf.yield %d : tensor<64x64xf32, #acc>
  }
  return %sum : tensor<64x64xf32, #acc>
}

// The sum of the iteration before is read while the product runs: it is waited for at the end of the iteration, since both sums are alive.
// CHECK-LABEL: func.func @overlapped
// CHECK:       scf.for
// CHECK-NOT:     ngpu.wgmma_wait
// CHECK:         %[[D:.*]] = ngpu.wgmma {{.*}} async
// CHECK:         arith.addf
// CHECK:         %[[DONE:.*]] = ngpu.wgmma_wait 0 for %[[D]]
// CHECK-NEXT:    scf.yield %[[DONE]]
// CHECK-NOT:   ngpu.wgmma_wait
func.func @overlapped(%a: !ngpu.buffer<64x16xf16, #k>, %p: tensor<16x64x!tile.ptr<f16>, #column>, %n: i32) -> tensor<64x64xf32, #acc> attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %last:2 = scf.for %i = %c0 to %n step %c1 iter_args(%before = %zero, %sum = %zero) -> (tensor<64x64xf32, #acc>, tensor<64x64xf32, #acc>) : i32 {
    %offset = tile.splat %i : i32 -> tensor<16x64xi32, #column>
    %lb = tile.addptr %p, %offset : tensor<16x64x!tile.ptr<f16>, #column>, tensor<16x64xi32, #column>
    %y = tile.load %lb : tensor<16x64x!tile.ptr<f16>, #column> -> tensor<16x64xf16, #column>
    %by = ngpu.local_alloc %y : tensor<16x64xf16, #column> -> !ngpu.buffer<16x64xf16, #n>
    %d = ngpu.wgmma %a, %by, %zero : !ngpu.buffer<64x16xf16, #k>, !ngpu.buffer<16x64xf16, #n> -> tensor<64x64xf32, #acc>
    %e = arith.addf %sum, %before : tensor<64x64xf32, #acc>
    scf.yield %d, %e : tensor<64x64xf32, #acc>, tensor<64x64xf32, #acc>
  }
  %f = arith.addf %last#0, %last#1 : tensor<64x64xf32, #acc>
  return %f : tensor<64x64xf32, #acc>
}

// Another product comes first: it is issued while that of the accumulator is in flight, then the copies, one iteration less
// ahead, since the slot of the iteration before is being read; both products are waited for together.
// CHECK-LABEL: func.func @twoProducts
// CHECK:       ngpu.local_alloc <3x16x64xf16
// CHECK-COUNT-1: ngpu.async_commit
// CHECK:       scf.for
// CHECK-NEXT:    ngpu.async_wait 0
// CHECK-NOT:     ngpu.async_copy
// CHECK:         %[[S:.*]] = ngpu.wgmma {{.*}} async
// CHECK:         ngpu.async_copy
// CHECK-NEXT:    ngpu.async_commit
// CHECK:         %[[BOTH:.*]]:2 = ngpu.wgmma_wait 0 for %{{.*}}, %[[S]] :
// CHECK-NEXT:    %[[E:.*]] = arith.mulf %[[BOTH]]#0, %[[BOTH]]#1
// CHECK-NEXT:    ngpu.wgmma {{.*}}, %[[E]] async
// CHECK-NEXT:    scf.yield
// CHECK:       ngpu.wgmma_wait 0 for

// FOUR-LABEL: func.func @twoProducts
// FOUR-COUNT-2: ngpu.async_commit
// FOUR:       scf.for
// FOUR-NEXT:    ngpu.async_wait 1

// Not so where there is no slot to spare, where the accumulator is touched before, where a buffer of one copy is filled in
// each iteration, or where the two would take most of the registers.
// TWO-LABEL:   func.func @twoProducts
// TWO:         scf.for
// TWO-NEXT:      ngpu.wgmma_wait 0 for
// TWO-NEXT:      ngpu.async_wait 0
// TWO:           ngpu.async_copy
// TWO:           ngpu.wgmma %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} :
// CHECK-LABEL: func.func @touchedBefore
// CHECK:       scf.for
// CHECK-NEXT:    ngpu.wgmma_wait 0 for
// CHECK-NEXT:    ngpu.async_wait 1
// CHECK:         ngpu.async_copy
// CHECK:         ngpu.wgmma %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} :
// CHECK-LABEL: func.func @ownBuffer
// CHECK:       scf.for
// CHECK-NEXT:    ngpu.wgmma_wait 0 for
// CHECK-LABEL: func.func @wide
// CHECK:       scf.for
// CHECK-NEXT:    ngpu.wgmma_wait 0 for
func.func @twoProducts(%a: !ngpu.buffer<64x16xf16, #k>, %p: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %n: i32) -> tensor<64x64xf32, #acc> attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c16 = arith.constant 16 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %rb = tile.range 0 to 64 : tensor<64xi32, #ngpu.layout<register = [[1], [2], [4]], lane = [[8], [16], [32], [0], [0]], warp = [[0], [0]], shape = [64]>>
  %eb = tile.expand_dims %rb 0 : tensor<64xi32, #ngpu.layout<register = [[1], [2], [4]], lane = [[8], [16], [32], [0], [0]], warp = [[0], [0]], shape = [64]>> -> tensor<1x64xi32, #ngpu.layout<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 16], [0, 32], [0, 0], [0, 0]], warp = [[0, 0], [0, 0]], shape = [1, 64]>>
  %ob = tile.broadcast %eb : tensor<1x64xi32, #ngpu.layout<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 16], [0, 32], [0, 0], [0, 0]], warp = [[0, 0], [0, 0]], shape = [1, 64]>> -> tensor<16x64xi32, #column>
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%c = %zero) -> (tensor<64x64xf32, #acc>) : i32 {
    %at = arith.muli %i, %c16 : i32
    %qb = tile.addptr %p, %at : !tile.ptr<f16>, i32
    %sb = tile.splat %qb : !tile.ptr<f16> -> tensor<16x64x!tile.ptr<f16>, #column>
    %lb = tile.addptr %sb, %ob : tensor<16x64x!tile.ptr<f16>, #column>, tensor<16x64xi32, #column>
    %y = tile.load %lb : tensor<16x64x!tile.ptr<f16>, #column> -> tensor<16x64xf16, #column>
    %by = ngpu.local_alloc %y : tensor<16x64xf16, #column> -> !ngpu.buffer<16x64xf16, #n>
    %s = ngpu.wgmma %a, %by, %zero : !ngpu.buffer<64x16xf16, #k>, !ngpu.buffer<16x64xf16, #n> -> tensor<64x64xf32, #acc>
    %e = arith.mulf %c, %s : tensor<64x64xf32, #acc>
    %d = ngpu.wgmma %a, %by, %e : !ngpu.buffer<64x16xf16, #k>, !ngpu.buffer<16x64xf16, #n> -> tensor<64x64xf32, #acc>
    scf.yield %d : tensor<64x64xf32, #acc>
  }
  return %sum : tensor<64x64xf32, #acc>
}

func.func @touchedBefore(%a: !ngpu.buffer<64x16xf16, #k>, %p: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %n: i32) -> tensor<64x64xf32, #acc> attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c16 = arith.constant 16 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %rb = tile.range 0 to 64 : tensor<64xi32, #ngpu.layout<register = [[1], [2], [4]], lane = [[8], [16], [32], [0], [0]], warp = [[0], [0]], shape = [64]>>
  %eb = tile.expand_dims %rb 0 : tensor<64xi32, #ngpu.layout<register = [[1], [2], [4]], lane = [[8], [16], [32], [0], [0]], warp = [[0], [0]], shape = [64]>> -> tensor<1x64xi32, #ngpu.layout<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 16], [0, 32], [0, 0], [0, 0]], warp = [[0, 0], [0, 0]], shape = [1, 64]>>
  %ob = tile.broadcast %eb : tensor<1x64xi32, #ngpu.layout<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 16], [0, 32], [0, 0], [0, 0]], warp = [[0, 0], [0, 0]], shape = [1, 64]>> -> tensor<16x64xi32, #column>
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%c = %zero) -> (tensor<64x64xf32, #acc>) : i32 {
    %c2 = arith.mulf %c, %c : tensor<64x64xf32, #acc>
    %at = arith.muli %i, %c16 : i32
    %qb = tile.addptr %p, %at : !tile.ptr<f16>, i32
    %sb = tile.splat %qb : !tile.ptr<f16> -> tensor<16x64x!tile.ptr<f16>, #column>
    %lb = tile.addptr %sb, %ob : tensor<16x64x!tile.ptr<f16>, #column>, tensor<16x64xi32, #column>
    %y = tile.load %lb : tensor<16x64x!tile.ptr<f16>, #column> -> tensor<16x64xf16, #column>
    %by = ngpu.local_alloc %y : tensor<16x64xf16, #column> -> !ngpu.buffer<16x64xf16, #n>
    %s = ngpu.wgmma %a, %by, %zero : !ngpu.buffer<64x16xf16, #k>, !ngpu.buffer<16x64xf16, #n> -> tensor<64x64xf32, #acc>
    %e = arith.mulf %c2, %s : tensor<64x64xf32, #acc>
    %d = ngpu.wgmma %a, %by, %e : !ngpu.buffer<64x16xf16, #k>, !ngpu.buffer<16x64xf16, #n> -> tensor<64x64xf32, #acc>
    scf.yield %d : tensor<64x64xf32, #acc>
  }
  return %sum : tensor<64x64xf32, #acc>
}

func.func @ownBuffer(%h: tensor<64x16xf16, #row>, %p: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %n: i32) -> tensor<64x64xf32, #acc> attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c16 = arith.constant 16 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  %rb = tile.range 0 to 64 : tensor<64xi32, #ngpu.layout<register = [[1], [2], [4]], lane = [[8], [16], [32], [0], [0]], warp = [[0], [0]], shape = [64]>>
  %eb = tile.expand_dims %rb 0 : tensor<64xi32, #ngpu.layout<register = [[1], [2], [4]], lane = [[8], [16], [32], [0], [0]], warp = [[0], [0]], shape = [64]>> -> tensor<1x64xi32, #ngpu.layout<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 16], [0, 32], [0, 0], [0, 0]], warp = [[0, 0], [0, 0]], shape = [1, 64]>>
  %ob = tile.broadcast %eb : tensor<1x64xi32, #ngpu.layout<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 16], [0, 32], [0, 0], [0, 0]], warp = [[0, 0], [0, 0]], shape = [1, 64]>> -> tensor<16x64xi32, #column>
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%c = %zero) -> (tensor<64x64xf32, #acc>) : i32 {
    %a = ngpu.local_alloc %h : tensor<64x16xf16, #row> -> !ngpu.buffer<64x16xf16, #k>
    %at = arith.muli %i, %c16 : i32
    %qb = tile.addptr %p, %at : !tile.ptr<f16>, i32
    %sb = tile.splat %qb : !tile.ptr<f16> -> tensor<16x64x!tile.ptr<f16>, #column>
    %lb = tile.addptr %sb, %ob : tensor<16x64x!tile.ptr<f16>, #column>, tensor<16x64xi32, #column>
    %y = tile.load %lb : tensor<16x64x!tile.ptr<f16>, #column> -> tensor<16x64xf16, #column>
    %by = ngpu.local_alloc %y : tensor<16x64xf16, #column> -> !ngpu.buffer<16x64xf16, #n>
    %s = ngpu.wgmma %a, %by, %zero : !ngpu.buffer<64x16xf16, #k>, !ngpu.buffer<16x64xf16, #n> -> tensor<64x64xf32, #acc>
    %e = arith.mulf %c, %s : tensor<64x64xf32, #acc>
    %d = ngpu.wgmma %a, %by, %e : !ngpu.buffer<64x16xf16, #k>, !ngpu.buffer<16x64xf16, #n> -> tensor<64x64xf32, #acc>
    scf.yield %d : tensor<64x64xf32, #acc>
  }
  return %sum : tensor<64x64xf32, #acc>
}

func.func @wide(%a: !ngpu.buffer<64x16xf16, #k>, %p: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %n: i32) -> tensor<64x256xf32, #acc4> attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c16 = arith.constant 16 : i32
  %zero = arith.constant dense<0.0> : tensor<64x256xf32, #acc4>
  %rb = tile.range 0 to 256 : tensor<256xi32, #ngpu.layout<register = [[1], [2], [4], [64], [128]], lane = [[8], [16], [32], [0], [0]], warp = [[0], [0]], shape = [256]>>
  %eb = tile.expand_dims %rb 0 : tensor<256xi32, #ngpu.layout<register = [[1], [2], [4], [64], [128]], lane = [[8], [16], [32], [0], [0]], warp = [[0], [0]], shape = [256]>> -> tensor<1x256xi32, #ngpu.layout<register = [[0, 1], [0, 2], [0, 4], [0, 64], [0, 128]], lane = [[0, 8], [0, 16], [0, 32], [0, 0], [0, 0]], warp = [[0, 0], [0, 0]], shape = [1, 256]>>
  %ob = tile.broadcast %eb : tensor<1x256xi32, #ngpu.layout<register = [[0, 1], [0, 2], [0, 4], [0, 64], [0, 128]], lane = [[0, 8], [0, 16], [0, 32], [0, 0], [0, 0]], warp = [[0, 0], [0, 0]], shape = [1, 256]>> -> tensor<16x256xi32, #column4>
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%c = %zero) -> (tensor<64x256xf32, #acc4>) : i32 {
    %at = arith.muli %i, %c16 : i32
    %qb = tile.addptr %p, %at : !tile.ptr<f16>, i32
    %sb = tile.splat %qb : !tile.ptr<f16> -> tensor<16x256x!tile.ptr<f16>, #column4>
    %lb = tile.addptr %sb, %ob : tensor<16x256x!tile.ptr<f16>, #column4>, tensor<16x256xi32, #column4>
    %y = tile.load %lb : tensor<16x256x!tile.ptr<f16>, #column4> -> tensor<16x256xf16, #column4>
    %by = ngpu.local_alloc %y : tensor<16x256xf16, #column4> -> !ngpu.buffer<16x256xf16, #n4>
    %s = ngpu.wgmma %a, %by, %zero : !ngpu.buffer<64x16xf16, #k>, !ngpu.buffer<16x256xf16, #n4> -> tensor<64x256xf32, #acc4>
    %e = arith.mulf %c, %s : tensor<64x256xf32, #acc4>
    %d = ngpu.wgmma %a, %by, %e : !ngpu.buffer<64x16xf16, #k>, !ngpu.buffer<16x256xf16, #n4> -> tensor<64x256xf32, #acc4>
    scf.yield %d : tensor<64x256xf32, #acc4>
  }
  return %sum : tensor<64x256xf32, #acc4>
}

// A loop that stores is left alone.
// CHECK-LABEL: func.func @storing
// CHECK-NOT:   ngpu.local_alloc <3x
// CHECK:       return
func.func @storing(%a: !ngpu.buffer<64x16xf16, #k>, %p: tensor<16x64x!tile.ptr<f16>, #column>, %o: tensor<64x64x!tile.ptr<f32>, #acc>, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #acc>
  scf.for %i = %c0 to %n step %c1 : i32 {
    %offset = tile.splat %i : i32 -> tensor<16x64xi32, #column>
    %lb = tile.addptr %p, %offset : tensor<16x64x!tile.ptr<f16>, #column>, tensor<16x64xi32, #column>
    %y = tile.load %lb : tensor<16x64x!tile.ptr<f16>, #column> -> tensor<16x64xf16, #column>
    %by = ngpu.local_alloc %y : tensor<16x64xf16, #column> -> !ngpu.buffer<16x64xf16, #n>
    %d = ngpu.wgmma %a, %by, %zero : !ngpu.buffer<64x16xf16, #k>, !ngpu.buffer<16x64xf16, #n> -> tensor<64x64xf32, #acc>
    tile.store %o, %d : tensor<64x64x!tile.ptr<f32>, #acc>, tensor<64x64xf32, #acc>
  }
  return
}
