// RUN: nereid-opt %s --gpu-clean-up | FileCheck %s

#row = #ngpu.layout<register = [], lane = [[1], [2], [4], [8], [16]], warp = [[0], [0]], shape = [32]>
#other = #ngpu.layout<register = [[1]], lane = [[2], [4], [8], [16], [0]], warp = [[0], [0]], shape = [32]>

// What nothing uses goes with all that only it uses: a load, arithmetic, a change of layout. A volatile load and what is stored stay.
// CHECK-LABEL: func.func @unused
// CHECK-NOT:     ngpu.convert_layout
// CHECK:         scf.for
// CHECK-NOT:       arith
// CHECK:           tile.load %{{.*}} volatile
// CHECK-NEXT:      %[[V:.*]] = tile.load
// CHECK-NEXT:      tile.store %{{.*}}, %[[V]]
// CHECK-NEXT:    }
func.func @unused(%p: tensor<32x!tile.ptr<i32>, #row>, %n: i32) attributes {tile.kernel, ngpu.num_warps = 4 : i32, ngpu.num_lanes = 32 : i32, ngpu.sm = 90 : i32} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    %index = tile.load %p : tensor<32x!tile.ptr<i32>, #row> -> tensor<32xi32, #row>
    %twice = arith.addi %index, %index : tensor<32xi32, #row>
    %moved = ngpu.convert_layout %twice : tensor<32xi32, #row> -> tensor<32xi32, #other>
    %product = arith.muli %moved, %moved : tensor<32xi32, #other>
    %kept = tile.load %p volatile : tensor<32x!tile.ptr<i32>, #row> -> tensor<32xi32, #row>
    %value = tile.load %p : tensor<32x!tile.ptr<i32>, #row> -> tensor<32xi32, #row>
    tile.store %p, %value : tensor<32x!tile.ptr<i32>, #row>, tensor<32xi32, #row>
  }
  return
}
