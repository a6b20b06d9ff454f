// RUN: nereid-opt --gpu-allocate-shared %s | FileCheck %s

#t = #ngpu.layout<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]], shape = [512]>
#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32], [64], [128], [256]], shape = [512]>
!t = tensor<512xf32, #t>
!b = !ngpu.buffer<512xf32, #m>

// Lives that do not overlap share bytes.
// CHECK-LABEL: func.func @reuse
// CHECK-SAME:    ngpu.shared_bytes = 2048
// CHECK:         local_alloc {{.*}}offset = 0 : i32
// CHECK:         local_alloc {{.*}}offset = 0 : i32
func.func @reuse(%x: !t) attributes {tile.kernel} {
  %a = ngpu.local_alloc %x : !t -> !b
  %0 = ngpu.local_load %a : !b -> !t
  %b = ngpu.local_alloc %0 : !t -> !b
  %1 = ngpu.local_load %b : !b -> !t
  return
}

// A view keeps its buffer alive.
// CHECK-LABEL: func.func @overlap
// CHECK-SAME:    ngpu.shared_bytes = 4096
func.func @overlap(%x: !t) attributes {tile.kernel} {
  %a = ngpu.local_alloc %x : !t -> !b
  %v = ngpu.trans_buffer %a [0] : !b -> !b
  %b = ngpu.local_alloc %x : !t -> !b
  %1 = ngpu.local_load %b : !b -> !t
  %2 = ngpu.local_load %v : !b -> !t
  return
}

// A buffer from before a loop lives to its end, however early in it the use is.
// CHECK-LABEL: func.func @loop
// CHECK-SAME:    ngpu.shared_bytes = 4096
func.func @loop(%x: !t, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %a = ngpu.local_alloc %x : !t -> !b
  scf.for %i = %c0 to %n step %c1 : i32 {
    %0 = ngpu.local_load %a : !b -> !t
    %b = ngpu.local_alloc %0 : !t -> !b
    %1 = ngpu.local_load %b : !b -> !t
  }
  return
}

// Carried buffers change places: each is alive in the whole loop.
// CHECK-LABEL: func.func @carried
// CHECK-SAME:    ngpu.shared_bytes = 6144
func.func @carried(%x: !t, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %a = ngpu.local_alloc %x : !t -> !b
  %b = ngpu.local_alloc %x : !t -> !b
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%p = %a, %q = %b) -> (!b, !b) : i32 {
    %0 = ngpu.local_load %p : !b -> !t
    %c = ngpu.local_alloc %0 : !t -> !b
    %1 = ngpu.local_load %c : !b -> !t
    scf.yield %q, %p : !b, !b
  }
  %2 = ngpu.local_load %r#0 : !b -> !t
  return
}

// The sides of a branch share bytes.
// CHECK-LABEL: func.func @branch
// CHECK-SAME:    ngpu.shared_bytes = 2048
func.func @branch(%x: !t, %c: i1) attributes {tile.kernel} {
  scf.if %c {
    %a = ngpu.local_alloc %x : !t -> !b
    %0 = ngpu.local_load %a : !b -> !t
  } else {
    %a = ngpu.local_alloc %x : !t -> !b
    %0 = ngpu.local_load %a : !b -> !t
  }
  return
}

// Asynchronous copies write until they are waited for.
// CHECK-LABEL: func.func @copies
// CHECK-SAME:    ngpu.shared_bytes = 4096
func.func @copies(%x: !t, %p: tensor<512x!tile.ptr<f32>, #t>) attributes {tile.kernel} {
  %a = ngpu.local_alloc !b
  ngpu.async_copy %p, %a contiguity 4 : tensor<512x!tile.ptr<f32>, #t>, !b
  ngpu.async_commit
  %b = ngpu.local_alloc %x : !t -> !b
  %1 = ngpu.local_load %b : !b -> !t
  ngpu.async_wait 0
  return
}

// Scratch of a reduction across warps: 4 partial results. Small buffers are not reused.
// CHECK-LABEL: func.func @scratch
// CHECK-SAME:    ngpu.shared_bytes = 32
// CHECK:         ngpu.scratch = 0 : i32
// CHECK:         ngpu.scratch = 16 : i32
func.func @scratch(%x: !t) -> (f32, f32) attributes {tile.kernel} {
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
  return %0, %1 : f32, f32
}

// Parts run at the same time: their buffers are apart.
// CHECK-LABEL: func.func @parts
// CHECK-SAME:    ngpu.shared_bytes = 4096
func.func @parts(%x: !t) attributes {tile.kernel} {
  ngpu.warp_specialize warps [4] registers [0, 0] {
    %a = ngpu.local_alloc !b
    %0 = ngpu.local_load %a : !b -> !t
    ngpu.part_yield
  }, {
    %a = ngpu.local_alloc !b
    %0 = ngpu.local_load %a : !b -> !t
    ngpu.part_yield
  }
  return
}

// A product in flight reads its operand until the wait, which here is after the loop.
// CHECK-LABEL: func.func @in_flight
// CHECK-SAME:    ngpu.shared_bytes = 26624
#acc = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]], shape = [64, 64]>
#square = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]], shape = [64, 64]>
func.func @in_flight(%x: !t, %c: tensor<64x64xf32, #acc>, %n: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %b = ngpu.local_alloc !ngpu.buffer<64x64xf16, #square>
  %d = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %c) -> (tensor<64x64xf32, #acc>) : i32 {
    %p = ngpu.local_alloc !ngpu.buffer<64x64xf16, #square>
    %1 = ngpu.wgmma %p, %b, %acc async : !ngpu.buffer<64x64xf16, #square>, !ngpu.buffer<64x64xf16, #square> -> tensor<64x64xf32, #acc>
    %q = ngpu.local_alloc !ngpu.buffer<64x64xf16, #square>
    %2 = ngpu.wgmma %q, %b, %1 async : !ngpu.buffer<64x64xf16, #square>, !ngpu.buffer<64x64xf16, #square> -> tensor<64x64xf32, #acc>
    scf.yield %2 : tensor<64x64xf32, #acc>
  }
  %s = ngpu.local_alloc %x : !t -> !b
  %y = ngpu.local_load %s : !b -> !t
  %e = ngpu.wgmma_wait 0 for %d : tensor<64x64xf32, #acc> -> tensor<64x64xf32, #acc>
  %t = ngpu.local_alloc %x : !t -> !b
  %z = ngpu.local_load %t : !b -> !t
  return
}
