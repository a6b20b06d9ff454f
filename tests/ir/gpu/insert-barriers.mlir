// RUN: nereid-opt --gpu-allocate-shared --gpu-insert-barriers %s | FileCheck %s

#row = #ngpu.layout<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], warp = [[16, 0], [32, 0]], shape = [64, 16]>
#column = #ngpu.layout<register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 16], [0, 32], [1, 0], [2, 0]], warp = [[4, 0], [8, 0]], shape = [16, 64]>
#k = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]], shape = [64, 16]>
#n = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 0], [2, 0], [4, 0], [8, 0]], shape = [16, 64]>
#acc = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]], shape = [64, 64]>
#t = #ngpu.layout<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]], shape = [512]>
#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32], [64], [128], [256]], shape = [512]>
!t = tensor<512xf32, #t>
!b = !ngpu.buffer<512xf32, #m>
!ring = !ngpu.buffer<3x512xf32, #m>
!p = tensor<512x!tile.ptr<f32>, #t>

// One barrier between writing and reading, and none between two reads.
// CHECK-LABEL: func.func @once
// CHECK:         local_alloc
// CHECK-NEXT:    ngpu.barrier
// CHECK-NEXT:    local_load
// CHECK-NEXT:    local_load
// CHECK-NEXT:    return
func.func @once(%x: !t) attributes {tile.kernel} {
  %a = ngpu.local_alloc %x : !t -> !b
  %0 = ngpu.local_load %a : !b -> !t
  %1 = ngpu.local_load %a : !b -> !t
  return
}

// Bytes that are used again: the second buffer waits for readers of the first.
// CHECK-LABEL: func.func @reuse
// CHECK-COUNT-3: ngpu.barrier
// CHECK-NOT:     ngpu.barrier
// CHECK:         return
func.func @reuse(%x: !t) attributes {tile.kernel} {
  %a = ngpu.local_alloc %x : !t -> !b
  %0 = ngpu.local_load %a : !b -> !t
  %b = ngpu.local_alloc %0 : !t -> !b
  %1 = ngpu.local_load %b : !b -> !t
  return
}

// Two writes of different buffers need one barrier together.
// CHECK-LABEL: func.func @together
// CHECK-COUNT-1: ngpu.barrier
// CHECK-NOT:     ngpu.barrier
// CHECK:         return
func.func @together(%x: !t) attributes {tile.kernel} {
  %a = ngpu.local_alloc %x : !t -> !b
  %b = ngpu.local_alloc %x : !t -> !b
  %0 = ngpu.local_load %a : !b -> !t
  %1 = ngpu.local_load %b : !b -> !t
  return
}

// Around a loop: the store of the next iteration waits for the loads of this one.
// CHECK-LABEL: func.func @loop
// CHECK:         scf.for
// CHECK-NEXT:      ngpu.barrier
// CHECK-NEXT:      local_store
// CHECK-NEXT:      ngpu.barrier
// CHECK-NEXT:      local_load
// CHECK-NEXT:    }
// CHECK-NEXT:    return
func.func @loop(%x: !t, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %a = ngpu.local_alloc !b
  scf.for %i = %c0 to %n step %c1 : i32 {
    ngpu.local_store %x, %a : !t, !b
    %0 = ngpu.local_load %a : !b -> !t
  }
  return
}

// A write on one side of a branch is enough.
// CHECK-LABEL: func.func @branch
// CHECK:         scf.if
// CHECK-NEXT:      local_store
// CHECK-NEXT:    }
// CHECK-NEXT:    ngpu.barrier
// CHECK-NEXT:    local_load
func.func @branch(%x: !t, %c: i1) attributes {tile.kernel} {
  %a = ngpu.local_alloc !b
  scf.if %c {
    ngpu.local_store %x, %a : !t, !b
  }
  %0 = ngpu.local_load %a : !b -> !t
  return
}

// A ring of copies: one barrier an iteration, after the wait. What is still being copied is not
// read, and is no reason for one.
// CHECK-LABEL: func.func @pipeline
// CHECK:         scf.for
// CHECK:           ngpu.async_wait 1
// CHECK-NEXT:      ngpu.barrier
// CHECK-NEXT:      ngpu.async_copy
// CHECK-NEXT:      ngpu.async_commit
// CHECK-NEXT:      ngpu.local_load
// CHECK-NOT:       ngpu.barrier
// CHECK:         return
func.func @pipeline(%p: !p, %n: i32, %write: i32, %read: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = ngpu.local_alloc !ring
  %first = ngpu.slot %ring[%c0] : !ring -> !b
  ngpu.async_copy %p, %first contiguity 4 : !p, !b
  ngpu.async_commit
  %second = ngpu.slot %ring[%c1] : !ring -> !b
  ngpu.async_copy %p, %second contiguity 4 : !p, !b
  ngpu.async_commit
  scf.for %i = %c0 to %n step %c1 : i32 {
    %to = ngpu.slot %ring[%write] : !ring -> !b
    %from = ngpu.slot %ring[%read] : !ring -> !b
    ngpu.async_wait 1
    ngpu.async_copy %p, %to contiguity 4 : !p, !b
    ngpu.async_commit
    %0 = ngpu.local_load %from : !b -> !t
  }
  ngpu.async_wait 0
  return
}

// Slots with constant numbers are different bytes.
// CHECK-LABEL: func.func @slots
// CHECK-NOT:     ngpu.barrier
// CHECK:         return
func.func @slots(%x: !t) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = ngpu.local_alloc !ring
  %a = ngpu.slot %ring[%c0] : !ring -> !b
  %b = ngpu.slot %ring[%c1] : !ring -> !b
  ngpu.local_store %x, %a : !t, !b
  %0 = ngpu.local_load %b : !b -> !t
  return
}

// A reduction has a barrier inside; in a loop with a second one it needs no other.
// CHECK-LABEL: func.func @reductions
// CHECK-NOT:     ngpu.barrier
// CHECK:         return
func.func @reductions(%x: !t, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    %0 = "tile.reduce"(%x) <{axis = 0 : i32}> ({
    ^bb0(%l: f32, %r: f32):
      %s = arith.addf %l, %r : f32
      tile.yield %s : f32
    }) : (!t) -> f32
    %1 = "tile.reduce"(%x) <{axis = 0 : i32}> ({
    ^bb0(%l: f32, %r: f32):
      %s = arith.maxnumf %l, %r : f32
      tile.yield %s : f32
    }) : (!t) -> f32
  }
  return
}

// Alone in a loop it waits for the readers of the iteration before.
// CHECK-LABEL: func.func @reduction
// CHECK:         scf.for
// CHECK-COUNT-1:   ngpu.barrier
// CHECK-NOT:       ngpu.barrier
// CHECK:         return
func.func @reduction(%x: !t, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    %0 = "tile.reduce"(%x) <{axis = 0 : i32}> ({
    ^bb0(%l: f32, %r: f32):
      %s = arith.addf %l, %r : f32
      tile.yield %s : f32
    }) : (!t) -> f32
  }
  return
}

// Written by ordinary stores, read by the copy engine: a fence before the barrier.
// CHECK-LABEL: func.func @other_proxy
// CHECK:         local_alloc
// CHECK:         ngpu.fence_async
// CHECK-NEXT:    ngpu.barrier
// CHECK-NEXT:    ngpu.tma_store
// CHECK-NEXT:    ngpu.tma_store_wait 0
// CHECK-NEXT:    ngpu.barrier
// CHECK-NEXT:    ngpu.local_store
func.func @other_proxy(%x: !t) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %map = ngpu.tensor_map 0
  %a = ngpu.local_alloc %x : !t -> !b
  ngpu.tma_store %a to %map[%c0] : !b
  ngpu.tma_store_wait 0
  ngpu.local_store %x, %a : !t, !b
  return
}

// What only threads access afterwards, as an epilogue does, needs no fence.
// CHECK-LABEL: func.func @epilogue
// CHECK:         ngpu.tma_store_wait 0
// CHECK-NEXT:    ngpu.barrier
// CHECK-NEXT:    ngpu.local_store
// CHECK-NEXT:    ngpu.barrier
// CHECK-NEXT:    ngpu.local_load
func.func @epilogue(%x: !t) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %map = ngpu.tensor_map 0
  %a = ngpu.local_alloc %x : !t -> !b
  ngpu.tma_store %a to %map[%c0] : !b
  ngpu.tma_store_wait 0
  ngpu.local_store %x, %a : !t, !b
  %0 = ngpu.local_load %a : !b -> !t
  return
}

// In a loop the next iteration comes afterwards; the other branch of an `if` does not.
// CHECK-LABEL: func.func @afterwards
// CHECK:         scf.for
// CHECK:           ngpu.tma_store_wait 0
// CHECK-NEXT:      ngpu.barrier
// CHECK-NEXT:      ngpu.local_store
// CHECK-NEXT:      ngpu.fence_async
// CHECK-NEXT:      ngpu.barrier
// CHECK-NEXT:      ngpu.local_load
// CHECK:         scf.if
// CHECK-NEXT:      ngpu.barrier
// CHECK-NEXT:      ngpu.local_store
// CHECK-NEXT:      ngpu.barrier
// CHECK-NEXT:      ngpu.local_load
// CHECK:         } else {
// CHECK:           ngpu.tma_store
func.func @afterwards(%x: !t, %n: i32, %c: i1) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %map = ngpu.tensor_map 0
  %a = ngpu.local_alloc %x : !t -> !b
  scf.for %i = %c0 to %n step %c1 : i32 {
    ngpu.tma_store %a to %map[%c0] : !b
    ngpu.tma_store_wait 0
    ngpu.local_store %x, %a : !t, !b
    %0 = ngpu.local_load %a : !b -> !t
  }
  scf.if %c {
    ngpu.local_store %x, %a : !t, !b
    %0 = ngpu.local_load %a : !b -> !t
  } else {
    ngpu.tma_store %a to %map[%c0] : !b
    ngpu.tma_store_wait 0
  }
  return
}

// Written by ordinary stores, read by products, which all threads issue: a fence behind the barrier, once for both operands.
// CHECK-LABEL: func.func @products
// CHECK:         local_alloc
// CHECK-NEXT:    local_alloc
// CHECK-NEXT:    ngpu.barrier
// CHECK-NEXT:    ngpu.fence_async
// CHECK-NEXT:    ngpu.wgmma
// CHECK-NOT:     ngpu.fence_async
// CHECK:         return
func.func @products(%x: tensor<64x16xf16, #row>, %y: tensor<16x64xf16, #column>, %c: tensor<64x64xf32, #acc>) -> tensor<64x64xf32, #acc> attributes {tile.kernel} {
  %a = ngpu.local_alloc %x : tensor<64x16xf16, #row> -> <64x16xf16, #k>
  %b = ngpu.local_alloc %y : tensor<16x64xf16, #column> -> <16x64xf16, #n>
  %d = ngpu.wgmma %a, %b, %c : !ngpu.buffer<64x16xf16, #k>, <16x64xf16, #n> -> tensor<64x64xf32, #acc>
  return %d : tensor<64x64xf32, #acc>
}

// Behind the last access of the other proxy barriers have no fence, although its bytes are written again.
// CHECK-LABEL: func.func @last_results
// CHECK:         ngpu.wgmma
// CHECK-NEXT:    ngpu.barrier
// CHECK-NEXT:    ngpu.local_store
// CHECK-NEXT:    ngpu.barrier
// CHECK-NEXT:    ngpu.local_load
// CHECK-NEXT:    return
func.func @last_results(%x: tensor<64x16xf16, #row>, %y: tensor<16x64xf16, #column>, %c: tensor<64x64xf32, #acc>) -> tensor<64x16xf16, #row> attributes {tile.kernel} {
  %a = ngpu.local_alloc %x : tensor<64x16xf16, #row> -> <64x16xf16, #k>
  %b = ngpu.local_alloc %y : tensor<16x64xf16, #column> -> <16x64xf16, #n>
  %d = ngpu.wgmma %a, %b, %c : !ngpu.buffer<64x16xf16, #k>, <16x64xf16, #n> -> tensor<64x64xf32, #acc>
  ngpu.local_store %x, %a : tensor<64x16xf16, #row>, <64x16xf16, #k>
  %e = ngpu.local_load %a : <64x16xf16, #k> -> tensor<64x16xf16, #row>
  return %e : tensor<64x16xf16, #row>
}

// In a loop the access of the next iteration follows: the write at the end of one is fenced.
// CHECK-LABEL: func.func @next_iteration
// CHECK:         scf.for
// CHECK-NEXT:      ngpu.fence_async
// CHECK-NEXT:      ngpu.barrier
// CHECK-NEXT:      ngpu.tma_store
// CHECK-NEXT:      ngpu.tma_store_wait
// CHECK-NEXT:      ngpu.barrier
// CHECK-NEXT:      ngpu.local_store
// CHECK-NEXT:      ngpu.fence_async
// CHECK-NEXT:      ngpu.barrier
// CHECK-NEXT:      ngpu.local_load
// CHECK-NEXT:    }
// CHECK-NEXT:    return
func.func @next_iteration(%x: !t, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %map = ngpu.tensor_map 0
  %a = ngpu.local_alloc %x : !t -> !b
  scf.for %i = %c0 to %n step %c1 : i32 {
    ngpu.tma_store %a to %map[%i] : !b
    ngpu.tma_store_wait 0
    ngpu.local_store %x, %a : !t, !b
    %0 = ngpu.local_load %a : !b -> !t
  }
  return
}

// A fence that is there already serves what is written before it: no other one at the barrier in between.
// CHECK-LABEL: func.func @fenced_later
// CHECK:         local_alloc
// CHECK-NEXT:    ngpu.barrier
// CHECK-NEXT:    ngpu.local_load
// CHECK-NEXT:    ngpu.fence_async
// CHECK-NEXT:    ngpu.barrier
// CHECK-NEXT:    ngpu.tma_store
func.func @fenced_later(%x: !t) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %map = ngpu.tensor_map 0
  %a = ngpu.local_alloc %x : !t -> !b
  %0 = ngpu.local_load %a : !b -> !t
  ngpu.fence_async
  ngpu.barrier
  ngpu.tma_store %a to %map[%c0] : !b
  ngpu.tma_store_wait 0
  return
}

// One on one side of a branch does not; nor is an access on one side alone left without.
// CHECK-LABEL: func.func @fenced_on_one_side
// CHECK:         local_alloc
// CHECK-NEXT:    ngpu.fence_async
// CHECK-NEXT:    ngpu.barrier
// CHECK-NEXT:    ngpu.local_load
// CHECK:         scf.if
// CHECK-NEXT:      ngpu.fence_async
// CHECK-NEXT:      ngpu.barrier
// CHECK-NEXT:    }
// CHECK-NEXT:    scf.if
// CHECK-NEXT:      ngpu.tma_store
// CHECK:         return
func.func @fenced_on_one_side(%x: !t, %yes: i1) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %map = ngpu.tensor_map 0
  %a = ngpu.local_alloc %x : !t -> !b
  %0 = ngpu.local_load %a : !b -> !t
  scf.if %yes {
    ngpu.fence_async
    ngpu.barrier
  }
  scf.if %yes {
    ngpu.tma_store %a to %map[%c0] : !b
    ngpu.tma_store_wait 0
  }
  return
}

// A buffer whose parts belong to groups of warps takes over its bytes behind a barrier; its accesses are the groups' own affair.
// CHECK-LABEL: func.func @by_group
// CHECK:         ngpu.local_load
// CHECK-NEXT:    ngpu.barrier
// CHECK-NEXT:    ngpu.local_alloc {{.*}}ngpu.by_group
// CHECK-NOT:     ngpu.barrier
// CHECK:         ngpu.group_barrier
// CHECK-NOT:     ngpu.barrier
// CHECK:         return
func.func @by_group(%x: !t) -> !t attributes {tile.kernel} {
  %a = ngpu.local_alloc %x : !t -> !b
  %y = ngpu.local_load %a : !b -> !t
  %b = ngpu.local_alloc <512xf32, #m> {ngpu.by_group}
  ngpu.local_store %x, %b : !t, !b
  ngpu.group_barrier
  ngpu.local_store %y, %b : !t, !b
  return %y : !t
}

// An mbarrier is seen by other threads after a barrier, and its bytes are free after one.
// CHECK-LABEL: func.func @mbarrier
// CHECK:         ngpu.mbarrier_init
// CHECK-NEXT:    ngpu.barrier
// CHECK-NEXT:    ngpu.mbarrier_arrive
// CHECK-NEXT:    ngpu.mbarrier_wait
// CHECK-NEXT:    ngpu.barrier
// CHECK-NEXT:    ngpu.mbarrier_inval
func.func @mbarrier() attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %m = ngpu.local_alloc !ngpu.buffer<1xi64, #ngpu.layout<shape = [1]>>
  ngpu.mbarrier_init %m, 1 : !ngpu.buffer<1xi64, #ngpu.layout<shape = [1]>>
  ngpu.mbarrier_arrive %m : !ngpu.buffer<1xi64, #ngpu.layout<shape = [1]>>
  ngpu.mbarrier_wait %m, %c0 : !ngpu.buffer<1xi64, #ngpu.layout<shape = [1]>>
  ngpu.mbarrier_inval %m : !ngpu.buffer<1xi64, #ngpu.layout<shape = [1]>>
  return
}

// One thread unlocks for all: their stores come first.
// CHECK-LABEL: func.func @unlock
// CHECK:         tile.store
// CHECK-NEXT:    ngpu.barrier
// CHECK-NEXT:    tile.atomic_rmw
func.func @unlock(%x: !t, %p: !p, %lock: !tile.ptr<i32>) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  tile.store %p, %x : !p, !t
  %0 = tile.atomic_rmw xchg %lock, %c0 : !tile.ptr<i32>, i32
  return
}

// A barrier of the author's counts.
// CHECK-LABEL: func.func @mine
// CHECK-NOT:     ngpu.barrier
// CHECK:         return
func.func @mine(%x: !t) attributes {tile.kernel} {
  %a = ngpu.local_alloc %x : !t -> !b
  tile.barrier
  %0 = ngpu.local_load %a : !b -> !t
  return
}

// Around a `while`: the condition's part reads what the body's writes.
// CHECK-LABEL: func.func @while
// CHECK:         scf.while
// CHECK-NEXT:      ngpu.barrier
// CHECK-NEXT:      ngpu.local_load
// CHECK:         } do {
// CHECK-NEXT:      ngpu.barrier
// CHECK-NEXT:      ngpu.local_store
func.func @while(%x: !t, %c: i1) attributes {tile.kernel} {
  %a = ngpu.local_alloc %x : !t -> !b
  scf.while : () -> () {
    %0 = ngpu.local_load %a : !b -> !t
    scf.condition(%c)
  } do {
    ngpu.local_store %x, %a : !t, !b
    scf.yield
  }
  return
}

// A function with shared memory of its own, called twice: readers of the first call come before
// the writers of the second.
// CHECK-LABEL: func.func @calls
// CHECK:         call @callee
// CHECK-NEXT:    ngpu.barrier
// CHECK-NEXT:    call @callee
// CHECK-NEXT:    return
func.func @calls(%x: !t) attributes {tile.kernel} {
  func.call @callee(%x) : (!t) -> ()
  func.call @callee(%x) : (!t) -> ()
  return
}
// CHECK-LABEL: func.func private @callee
// CHECK:         local_alloc
// CHECK-NEXT:    ngpu.barrier
// CHECK-NEXT:    ngpu.local_load
func.func private @callee(%x: !t) {
  %a = ngpu.local_alloc %x : !t -> !b
  %0 = ngpu.local_load %a : !b -> !t
  return
}

// What was written before is there for all warps of all parts, which meet where they part; each part has its own barriers.
// CHECK-LABEL: func.func @parts
// CHECK:         ngpu.local_alloc %arg0
// CHECK-NEXT:    ngpu.warp_specialize
// CHECK-NEXT:      ngpu.local_load
// CHECK:         }, {
// CHECK-NEXT:      ngpu.local_load
func.func @parts(%x: !t) attributes {tile.kernel} {
  %a = ngpu.local_alloc %x : !t -> !b
  ngpu.warp_specialize warps [4] registers [0, 0] {
    %0 = ngpu.local_load %a : !b -> !t
    ngpu.part_yield
  }, {
    %0 = ngpu.local_load %a : !b -> !t
    ngpu.part_yield
  }
  return
}

// What a function that is called uses counts as its caller's, however deep it is.
// CHECK-LABEL: func.func @nested
// CHECK:         call @between
// CHECK-NEXT:    ngpu.barrier
// CHECK-NEXT:    call @between
// CHECK-NEXT:    return
func.func @nested(%x: !t) attributes {tile.kernel} {
  func.call @between(%x) : (!t) -> ()
  func.call @between(%x) : (!t) -> ()
  return
}
func.func private @between(%x: !t) {
  func.call @innermost(%x) : (!t) -> ()
  return
}
func.func private @innermost(%x: !t) {
  %a = ngpu.local_alloc %x : !t -> !b
  %0 = ngpu.local_load %a : !b -> !t
  return
}
