// RUN: nereid-opt %s | FileCheck %s
// RUN: nereid-opt %s | nereid-opt | FileCheck %s

#row = #ngpu.layout<register = [[0, 1], [0, 2]], lane = [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], warp = [[8, 0], [16, 0]], shape = [32, 16]>
#column = #ngpu.layout<register = [[1, 0], [2, 0]], lane = [[4, 0], [8, 0], [16, 0], [0, 1], [0, 2]], warp = [[0, 4], [0, 8]], shape = [32, 16]>
#memory = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], shape = [32, 16]>
#turned = #ngpu.layout<offset = [[1, 0], [2, 0], [4, 0], [8, 0], [0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], shape = [16, 32]>
#left = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], shape = [32, 8]>
#one = #ngpu.layout<shape = [1]>
#acc = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]], shape = [64, 64]>
#k = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]], shape = [64, 16]>
#n = #ngpu.layout<offset = [[1, 0], [2, 0], [4, 0], [8, 0], [0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], shape = [16, 64]>

// CHECK-LABEL: func.func @shared
func.func @shared(%x: tensor<32x16xf16, #row>, %i: i32) -> tensor<32x16xf16, #column> attributes {tile.kernel, ngpu.num_warps = 4 : i32, ngpu.sm = 90 : i32} {
  // CHECK: ngpu.convert_layout %{{.*}} pieces 4 :
  %pieces = ngpu.convert_layout %x pieces 4 : tensor<32x16xf16, #row> -> tensor<32x16xf16, #column>
  // CHECK: ngpu.convert_layout %{{.*}} within_warps :
  %within = ngpu.convert_layout %x within_warps : tensor<32x16xf16, #row> -> tensor<32x16xf16, #column>
  // CHECK: ngpu.convert_layout
  %0 = ngpu.convert_layout %x : tensor<32x16xf16, #row> -> tensor<32x16xf16, #column>
  // CHECK: ngpu.local_alloc %{{.*}} : tensor<32x16xf16, #{{.*}}> -> <32x16xf16
  %1 = ngpu.local_alloc %0 : tensor<32x16xf16, #column> -> !ngpu.buffer<32x16xf16, #memory>
  // CHECK: ngpu.local_alloc <3x32x16xf16, #[[ring:.*]]>
  %ring = ngpu.local_alloc !ngpu.buffer<3x32x16xf16, #memory>
  // CHECK: ngpu.slot %{{.*}}[%{{.*}}]
  %slot = ngpu.slot %ring[%i] : !ngpu.buffer<3x32x16xf16, #memory> -> !ngpu.buffer<32x16xf16, #memory>
  // CHECK: ngpu.local_store
  ngpu.local_store %x, %slot : tensor<32x16xf16, #row>, !ngpu.buffer<32x16xf16, #memory>
  // CHECK: ngpu.subview %{{.*}} [0, 8]
  %part = ngpu.subview %slot [0, 8] : !ngpu.buffer<32x16xf16, #memory> -> !ngpu.buffer<32x8xf16, #left>
  // CHECK: ngpu.trans_buffer %{{.*}} [1, 0]
  %turned = ngpu.trans_buffer %1 [1, 0] : !ngpu.buffer<32x16xf16, #memory> -> !ngpu.buffer<16x32xf16, #turned>
  // CHECK: ngpu.barrier
  ngpu.barrier
  // CHECK: ngpu.barrier id 3 warps 4
  ngpu.barrier id 3 warps 4
  // CHECK: ngpu.local_load
  %2 = ngpu.local_load %slot : !ngpu.buffer<32x16xf16, #memory> -> tensor<32x16xf16, #column>
  // CHECK: ngpu.local_dealloc
  ngpu.local_dealloc %ring : !ngpu.buffer<3x32x16xf16, #memory>
  return %2 : tensor<32x16xf16, #column>
}

// CHECK-LABEL: func.func @copies
func.func @copies(%p: tensor<32x16x!tile.ptr<f16>, #row>, %mask: tensor<32x16xi1, #row>, %map: !ngpu.tensormap, %c: i32, %yes: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32, ngpu.pairs = 1 : i32} {
  %buffer = ngpu.local_alloc !ngpu.buffer<32x16xf16, #memory>
  %barrier = ngpu.local_alloc !ngpu.buffer<1xi64, #one>
  // CHECK: ngpu.async_copy %{{.*}}, %{{.*}} mask %{{.*}} contiguity 4
  ngpu.async_copy %p, %buffer mask %mask contiguity 4 : tensor<32x16x!tile.ptr<f16>, #row>, !ngpu.buffer<32x16xf16, #memory>, tensor<32x16xi1, #row>
  // CHECK: ngpu.async_commit
  ngpu.async_commit
  // CHECK: ngpu.async_wait 1
  ngpu.async_wait 1
  // CHECK: ngpu.mbarrier_init %{{.*}}, 1
  ngpu.mbarrier_init %barrier, 1 : !ngpu.buffer<1xi64, #one>
  // CHECK: ngpu.fence_async
  ngpu.fence_async
  // CHECK-NEXT: ngpu.fence_async global
  ngpu.fence_async global
  // CHECK-NEXT: ngpu.fence_async cluster
  ngpu.fence_async cluster
  // CHECK: %[[OPTIONAL:.*]] = ngpu.tensor_map 3
  // CHECK: ngpu.tensor_map_made %[[OPTIONAL]]
  %optional = ngpu.tensor_map 3
  %made = ngpu.tensor_map_made %optional
  // CHECK: ngpu.mbarrier_expect %{{.*}}, 1024 if %{{.*}}
  ngpu.mbarrier_expect %barrier, 1024 if %yes : !ngpu.buffer<1xi64, #one>
  // CHECK: ngpu.tma_load %{{.*}}[%{{.*}}, %{{.*}}], %{{.*}}, %{{.*}} if %{{.*}} shared %{{.*}} by %{{.*}} :
  ngpu.tma_load %map[%c, %c], %buffer, %barrier if %yes shared %yes by %c : !ngpu.buffer<32x16xf16, #memory>, !ngpu.buffer<1xi64, #one>
  // CHECK: ngpu.mbarrier_wait
  ngpu.mbarrier_wait %barrier, %c : !ngpu.buffer<1xi64, #one>
  // CHECK: ngpu.mbarrier_arrive %{{.*}} each_warp
  ngpu.mbarrier_arrive %barrier each_warp : !ngpu.buffer<1xi64, #one>
  // CHECK: ngpu.mbarrier_arrive %{{.*}} each_warp if %{{.*}} beside %{{.*}} :
  ngpu.mbarrier_arrive %barrier each_warp if %yes beside %yes : !ngpu.buffer<1xi64, #one>
  // CHECK: ngpu.tma_store %{{.*}} to %{{.*}}[%{{.*}}, %{{.*}}] reduce
  ngpu.tma_store %buffer to %map[%c, %c] reduce fadd : !ngpu.buffer<32x16xf16, #memory>
  // CHECK: ngpu.tma_store_wait 0 complete
  ngpu.tma_store_wait 0 complete
  // CHECK: ngpu.mbarrier_inval
  ngpu.mbarrier_inval %barrier : !ngpu.buffer<1xi64, #one>
  // CHECK: ngpu.cluster_rank
  %rank = ngpu.cluster_rank
  // CHECK: ngpu.cluster_barrier
  ngpu.cluster_barrier
  return
}

// CHECK-LABEL: func.func @products
func.func @products(%a: !ngpu.buffer<64x16xf16, #k>, %b: !ngpu.buffer<16x64xf16, #n>, %c: tensor<64x64xf32, #acc>, %use: i1) -> tensor<64x64xf32, #acc> attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  // CHECK: ngpu.wgmma %{{.*}}, %{{.*}}, %{{.*}} use_acc %{{.*}} async
  %0 = ngpu.wgmma %a, %b, %c use_acc %use async : !ngpu.buffer<64x16xf16, #k>, !ngpu.buffer<16x64xf16, #n> -> tensor<64x64xf32, #acc>
  // CHECK: ngpu.wgmma_wait 0 for %{{.*}}, %{{.*}} :
  %1:2 = ngpu.wgmma_wait 0 for %0, %b : tensor<64x64xf32, #acc>, !ngpu.buffer<16x64xf16, #n> -> tensor<64x64xf32, #acc>, !ngpu.buffer<16x64xf16, #n>
  // CHECK: ngpu.wgmma_wait 1
  ngpu.wgmma_wait 1
  // CHECK: ngpu.fma_dot
  %2 = ngpu.fma_dot %a, %b, %1#0 : !ngpu.buffer<64x16xf16, #k>, !ngpu.buffer<16x64xf16, #n> -> tensor<64x64xf32, #acc>
  return %2 : tensor<64x64xf32, #acc>
}

// CHECK-LABEL: func.func @parts
func.func @parts(%x: tensor<64x64xf32, #acc>) -> tensor<64x64xf32, #acc> attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  %barrier = ngpu.local_alloc !ngpu.buffer<1xi64, #one>
  // CHECK: ngpu.warp_specialize warps [1] registers [240, 24] -> tensor<64x64xf32
  %0 = ngpu.warp_specialize warps [1] registers [240, 24] -> tensor<64x64xf32, #acc> {
    ngpu.part_yield %x : tensor<64x64xf32, #acc>
  }, {
    ngpu.mbarrier_arrive %barrier : !ngpu.buffer<1xi64, #one>
    ngpu.part_yield
  }
  return %0 : tensor<64x64xf32, #acc>
}

#lines = #ngpu.layout<register = [[1], [2], [512]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]], shape = [1024]>
#bytes = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32], [64], [128], [256], [512], [1024], [2048]], shape = [4096]>

// CHECK-LABEL: func.func @persistent
func.func @persistent(%p: tensor<1024x!tile.ptr<f32>, #lines>, %mask: tensor<1024xi1, #lines>, %other: tensor<1024xf32, #lines>) -> (i32, tensor<1024xf32, #lines>) attributes {tile.kernel, ngpu.persistent = 1 : i32, ngpu.num_warps = 4 : i32, ngpu.sm = 90 : i32} {
  // CHECK: ngpu.programs
  %programs = ngpu.programs
  %own = ngpu.local_alloc !ngpu.buffer<4096xi8, #bytes>
  // CHECK: ngpu.fetch %{{.*}}, %{{.*}} mask %{{.*}} contiguity 4
  ngpu.fetch %p, %own mask %mask contiguity 4 : tensor<1024x!tile.ptr<f32>, #lines>, !ngpu.buffer<4096xi8, #bytes>, tensor<1024xi1, #lines>
  ngpu.async_commit
  ngpu.async_wait 0
  // CHECK: ngpu.fetched %{{.*}}, %{{.*}} mask %{{.*}} other %{{.*}} contiguity 4
  %row = ngpu.fetched %p, %own mask %mask other %other contiguity 4 : tensor<1024x!tile.ptr<f32>, #lines>, !ngpu.buffer<4096xi8, #bytes>, tensor<1024xi1, #lines>, tensor<1024xf32, #lines> -> tensor<1024xf32, #lines>
  return %programs, %row : i32, tensor<1024xf32, #lines>
}
