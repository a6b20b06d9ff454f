// RUN: nereid-opt %s --gpu-plan-tensor-maps --gpu-assign-layouts --gpu-partition-warps="stages=3 specialise=always multicast" --cse | FileCheck %s

// The other program's tile is computed next to this one's, and the coordinates of both are compared. Consumers need only know whether it is there.
// CHECK-LABEL: func.func @tiles
// CHECK-SAME: ngpu.pairs = 1 : i32
// CHECK: %[[C:.*]] = ngpu.channel readers 4 paired : <3>
// CHECK: ngpu.warp_specialize
// CHECK: %[[SIZE:.*]] = ngpu.cluster_size
// CHECK: %[[PAIR:.*]] = arith.cmpi eq, %[[SIZE]], %c2_i32
// CHECK: %[[ID:.*]] = tile.program_id 0
// CHECK: %[[FLIP:.*]] = arith.extui %[[PAIR]]
// CHECK: %[[OTHER:.*]] = arith.xori %[[ID]], %[[FLIP]]
// CHECK: scf.for %[[T:.*]] = %[[ID]] to %[[END:[^ ]*]]
// CHECK: %[[DONE:.*]] = arith.subi %[[T]], %[[ID]]
// CHECK: %[[REST:.*]] = arith.subi %[[END]], %[[OTHER]]
// CHECK: %[[RUNS:.*]] = arith.cmpi slt, %[[OTHER]], %[[END]]
// CHECK: %[[IN:.*]] = arith.cmpi ult, %[[DONE]], %[[REST]]
// CHECK: %[[BOTH:.*]] = arith.andi %[[RUNS]], %[[IN]]
// CHECK: %[[BESIDE:.*]] = arith.andi %[[PAIR]], %[[BOTH]]
// CHECK: ngpu.channel_release %[[C]], %{{.*}} beside %[[BESIDE]]
// CHECK: ngpu.channel_release %[[C]], %{{.*}} beside %[[BESIDE]]
// CHECK: ngpu.cluster_barrier
// CHECK-NEXT: ngpu.part_yield
// CHECK-NEXT: }, {
// CHECK: scf.for %[[T:.*]] = %[[ID:.*]] to
// CHECK: arith.andi
// CHECK: %[[BESIDE:.*]] = arith.andi
// CHECK: %[[ITS:.*]] = arith.addi
// CHECK-NEXT: %[[U:.*]] = arith.select %[[BESIDE]], %[[ITS]], %[[T]]
// CHECK: arith.remsi %[[T]]
// CHECK: arith.remsi %[[U]]
// CHECK: arith.divsi %[[T]]
// CHECK: arith.divsi %[[U]]
// CHECK: %[[COL:.*]] = arith.muli
// CHECK: %[[ITSCOL:.*]] = arith.muli
// CHECK: scf.for %{{.*}} iter_args(%[[SLOT:.*]] = %{{[^,]*}}, %{{.*}} = %{{.*}})
// CHECK: arith.cmpi eq
// CHECK: %[[A:.*]] = arith.andi %[[BESIDE]]
// CHECK: arith.cmpi eq
// CHECK: %[[B:.*]] = arith.andi %[[BESIDE]]
// CHECK: ngpu.channel_put %[[C]][%[[SLOT]], %{{.*}}] beside %[[BESIDE]] {
// CHECK: ngpu.tma_load {{.*}} shared %[[A]] by %[[SLOT]]
// CHECK: ngpu.tma_load {{.*}} shared %[[B]] by %[[SLOT]]
func.func @tiles(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                 %z: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32, %s: i64 {tile.divisibility = 8 : i64}, %m: i32, %tiles: i32)
    attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %c = tile.make_descriptor %z [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %id = tile.program_id 0
  %programs = tile.num_programs 0
  scf.for %t = %id to %tiles step %programs : i32 {
    %i = arith.remsi %t, %m : i32
    %j = arith.divsi %t, %m : i32
    %row = arith.muli %i, %c64 : i32
    %col = arith.muli %j, %c64 : i32
    %r = scf.for %k = %c0 to %n step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %0 = tile.desc_load %a [%row, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %1 = tile.desc_load %b [%k, %col] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %2 = tile.dot %0, %1, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
      scf.yield %2 : tensor<64x64xf32>
    }
    tile.desc_store %c [%row, %col], %r : !tile.desc<64x64xf32>, tensor<64x64xf32>
  }
  return
}

// The number of iterations depends on the program within a loop: the two may be at different slots.
// CHECK-LABEL: func.func @triangle
// CHECK-NOT: ngpu.pairs
// CHECK-NOT: paired
// CHECK-NOT: shared
func.func @triangle(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %y: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                    %z: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32, %s: i64 {tile.divisibility = 8 : i64}, %tiles: i32)
    attributes {tile.kernel} {
  %a = tile.make_descriptor %x [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %b = tile.make_descriptor %y [%n, %n] strides [%s] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %c = tile.make_descriptor %z [%n, %n] strides [%s] copy_engine : !tile.ptr<f32> -> !tile.desc<64x64xf32>
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %id = tile.program_id 0
  %programs = tile.num_programs 0
  scf.for %t = %id to %tiles step %programs : i32 {
    %row = arith.muli %t, %c64 : i32
    %r = scf.for %k = %c0 to %row step %c64 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
      %0 = tile.desc_load %a [%row, %k] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %1 = tile.desc_load %b [%k, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %2 = tile.dot %0, %1, %acc : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
      scf.yield %2 : tensor<64x64xf32>
    }
    tile.desc_store %c [%row, %c0], %r : !tile.desc<64x64xf32>, tensor<64x64xf32>
  }
  return
}
