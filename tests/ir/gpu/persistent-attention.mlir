// Blocks compute several programs of attention, one after the other: queries in a slot of their own, results from registers.
// RUN: nereid-opt %s --split-input-file --gpu-plan-tensor-maps=warps=8 --gpu-assign-layouts=warps=8 --gpu-persistent-products="warps=8 stages=2 persistent-attention=always" | FileCheck %s
// RUN: nereid-opt %s --split-input-file --gpu-plan-tensor-maps=warps=8 --gpu-assign-layouts=warps=8 --gpu-persistent-products="warps=8 stages=2 persistent-attention=always" --gpu-partition-warps="warps=8 stages=2" | FileCheck %s --check-prefix=DIVIDED
// RUN: nereid-opt %s --split-input-file --gpu-plan-tensor-maps=warps=8 --gpu-assign-layouts=warps=8 --gpu-persistent-products="warps=8 stages=2 persistent-products=always" | FileCheck %s --check-prefix=OFF
// RUN: nereid-opt %s --split-input-file --gpu-plan-tensor-maps=warps=8 --gpu-assign-layouts=warps=8 --gpu-persistent-products="warps=8 stages=2 persistent-attention=measured" | FileCheck %s --check-prefix=OFF
// RUN: nereid-opt %s --split-input-file --gpu-plan-tensor-maps=warps=8 --gpu-assign-layouts=warps=8 --gpu-persistent-products="warps=8 stages=2 specialise=never persistent-attention=always" | FileCheck %s --check-prefix=OFF

// OFF-NOT: ngpu.programs

// Results go through pointers, in pieces of four neighbours a thread.
// CHECK-LABEL: func.func @attention
// CHECK-SAME:  ngpu.persistent = 1 : i32
// CHECK:       %[[FIRST:.*]] = tile.program_id 0
// CHECK-NEXT:  %[[STEP:.*]] = tile.num_programs 0
// CHECK-NEXT:  %[[COUNT:.*]] = ngpu.programs
// CHECK:       scf.for %[[PROGRAM:.*]] = %[[FIRST]] to %[[COUNT]] step %[[STEP]]
// CHECK:         arith.muli %[[PROGRAM]]
// CHECK:         tile.desc_load
// CHECK:         scf.for
// CHECK:           scf.yield
// CHECK:         %[[NARROW:.*]] = arith.truncf
// CHECK-NEXT:    %[[WIDE:.*]] = ngpu.convert_layout %[[NARROW]] within_warps
// CHECK-NOT:     tile.desc_store
// CHECK:         tile.store %{{.*}}, %[[WIDE]] mask
// CHECK:       }
// CHECK-NEXT:  return

// Both parts have the loop over programs, which counts the turns of the queries' slot.
// DIVIDED-LABEL: func.func @attention
// DIVIDED:       %[[Q:.*]] = ngpu.local_alloc <1x128x64xf16
// DIVIDED-NEXT:  %[[QC:.*]] = ngpu.channel readers 8 : <1>
// DIVIDED-NEXT:  ngpu.warp_specialize
// DIVIDED:         %{{.*}}:3 = scf.for {{.*}} iter_args(%{{.*}} = {{.*}}, %{{.*}} = {{.*}}, %[[TURN:.*]] = {{.*}})
// DIVIDED:           %[[HOLD:.*]] = ngpu.channel_get %[[QC]][%{{.*}}, %[[TURN]]]
// DIVIDED:           %[[QUERIES:.*]] = ngpu.slot %[[Q]]
// DIVIDED:           scf.for
// DIVIDED:             ngpu.wgmma %[[QUERIES]]
// DIVIDED:           } {ngpu.specialised
// DIVIDED-NEXT:      ngpu.channel_release %[[QC]], %[[HOLD]]
// DIVIDED:           scf.if
// DIVIDED:             ngpu.wgmma
// DIVIDED:           tile.store
// DIVIDED:           %[[NEXT:.*]] = arith.xori %[[TURN]]
// DIVIDED-NEXT:      scf.yield %{{.*}}, %{{.*}}, %[[NEXT]]
// DIVIDED:       }, {
// DIVIDED:         %{{.*}}:3 = scf.for {{.*}} iter_args(%{{.*}} = {{.*}}, %{{.*}} = {{.*}}, %[[TURN:.*]] = {{.*}})
// DIVIDED:           ngpu.channel_put %[[QC]][%{{.*}}, %[[TURN]]]
// DIVIDED:           scf.for
// DIVIDED-COUNT-2:     ngpu.channel_put
func.func @attention(%q: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %k: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                     %v: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %out: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %count: i32, %length: i32)
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %stride = arith.constant 64 : i64
  %zero = arith.constant dense<0.0> : tensor<128x64xf32>
  %half = arith.constant dense<0.5> : tensor<128x64xf32>
  %qd = tile.make_descriptor %q [%count, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<128x64xf16>
  %kd = tile.make_descriptor %k [%length, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %vd = tile.make_descriptor %v [%length, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %od = tile.make_descriptor %out [%count, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<128x64xf16>
  %program = tile.program_id 0
  %row = arith.muli %program, %c128 : i32
  %qb = tile.desc_load %qd [%row, %c0] : !tile.desc<128x64xf16> -> tensor<128x64xf16>
  %sum = scf.for %j = %c0 to %length step %c64 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
    %kb = tile.desc_load %kd [%j, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %kt = tile.trans %kb [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %s = tile.dot %qb, %kt, %zero : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
    %e = math.exp2 %s : tensor<128x64xf32>
    %p = arith.truncf %e : tensor<128x64xf32> to tensor<128x64xf16>
    %scaled = arith.mulf %acc, %half : tensor<128x64xf32>
    %vb = tile.desc_load %vd [%j, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %next = tile.dot %p, %vb, %scaled : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
    scf.yield %next : tensor<128x64xf32>
  } {tile.warp_specialize}
  %narrow = arith.truncf %sum : tensor<128x64xf32> to tensor<128x64xf16>
  tile.desc_store %od [%row, %c0], %narrow : !tile.desc<128x64xf16>, tensor<128x64xf16>
  return
}

// -----

// Programs of different lengths are taken forwards and backwards in turn.
// CHECK-LABEL: func.func @causal
// CHECK:       scf.for %[[AT:.*]] = %[[FIRST:.*]] to %[[COUNT:.*]] step %[[STEP:.*]] : i32 {
// CHECK:         %[[BEGIN:.*]] = arith.subi %[[AT]], %[[FIRST]]
// CHECK:         %[[ROUND:.*]] = arith.divui %[[BEGIN]], %[[STEP]]
// CHECK:         %[[ODD:.*]] = arith.trunci %[[ROUND]] : i32 to i1
// CHECK:         %[[PROGRAM:.*]] = arith.select %[[ODD]], %{{.*}}, %[[AT]]
// CHECK:         arith.muli %[[PROGRAM]]
func.func @causal(%q: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %k: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                     %v: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %out: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %count: i32, %length: i32)
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %stride = arith.constant 64 : i64
  %zero = arith.constant dense<0.0> : tensor<128x64xf32>
  %half = arith.constant dense<0.5> : tensor<128x64xf32>
  %qd = tile.make_descriptor %q [%count, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<128x64xf16>
  %kd = tile.make_descriptor %k [%length, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %vd = tile.make_descriptor %v [%length, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %od = tile.make_descriptor %out [%count, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<128x64xf16>
  %program = tile.program_id 0
  %row = arith.muli %program, %c128 : i32
  %qb = tile.desc_load %qd [%row, %c0] : !tile.desc<128x64xf16> -> tensor<128x64xf16>
  %sum = scf.for %j = %c0 to %row step %c64 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
    %kb = tile.desc_load %kd [%j, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %kt = tile.trans %kb [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %s = tile.dot %qb, %kt, %zero : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
    %e = math.exp2 %s : tensor<128x64xf32>
    %p = arith.truncf %e : tensor<128x64xf32> to tensor<128x64xf16>
    %scaled = arith.mulf %acc, %half : tensor<128x64xf32>
    %vb = tile.desc_load %vd [%j, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %next = tile.dot %p, %vb, %scaled : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
    scf.yield %next : tensor<128x64xf32>
  } {tile.warp_specialize}
  %narrow = arith.truncf %sum : tensor<128x64xf32> to tensor<128x64xf16>
  tile.desc_store %od [%row, %c0], %narrow : !tile.desc<128x64xf16>, tensor<128x64xf16>
  return
}

// -----

// The launcher counts programs of one axis.
// CHECK-LABEL: func.func @two_axes
// CHECK-NOT:   ngpu.programs
func.func @two_axes(%q: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %k: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                     %v: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %out: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %count: i32, %length: i32)
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %stride = arith.constant 64 : i64
  %zero = arith.constant dense<0.0> : tensor<128x64xf32>
  %half = arith.constant dense<0.5> : tensor<128x64xf32>
  %qd = tile.make_descriptor %q [%count, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<128x64xf16>
  %kd = tile.make_descriptor %k [%length, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %vd = tile.make_descriptor %v [%length, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %od = tile.make_descriptor %out [%count, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<128x64xf16>
  %block = tile.program_id 0
  %other = tile.program_id 1
  %program = arith.addi %block, %other : i32
  %row = arith.muli %program, %c128 : i32
  %qb = tile.desc_load %qd [%row, %c0] : !tile.desc<128x64xf16> -> tensor<128x64xf16>
  %sum = scf.for %j = %c0 to %length step %c64 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
    %kb = tile.desc_load %kd [%j, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %kt = tile.trans %kb [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %s = tile.dot %qb, %kt, %zero : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
    %e = math.exp2 %s : tensor<128x64xf32>
    %p = arith.truncf %e : tensor<128x64xf32> to tensor<128x64xf16>
    %scaled = arith.mulf %acc, %half : tensor<128x64xf32>
    %vb = tile.desc_load %vd [%j, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %next = tile.dot %p, %vb, %scaled : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
    scf.yield %next : tensor<128x64xf32>
  } {tile.warp_specialize}
  %narrow = arith.truncf %sum : tensor<128x64xf32> to tensor<128x64xf16>
  tile.desc_store %od [%row, %c0], %narrow : !tile.desc<128x64xf16>, tensor<128x64xf16>
  return
}

// -----

// Products that are not divided anyhow stay as they are.
// CHECK-LABEL: func.func @not_asked
// CHECK-NOT:   ngpu.programs
func.func @not_asked(%q: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %k: !tile.ptr<f16> {tile.divisibility = 16 : i64},
                     %v: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %out: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %count: i32, %length: i32)
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %stride = arith.constant 64 : i64
  %zero = arith.constant dense<0.0> : tensor<128x64xf32>
  %half = arith.constant dense<0.5> : tensor<128x64xf32>
  %qd = tile.make_descriptor %q [%count, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<128x64xf16>
  %kd = tile.make_descriptor %k [%length, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %vd = tile.make_descriptor %v [%length, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %od = tile.make_descriptor %out [%count, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<128x64xf16>
  %program = tile.program_id 0
  %row = arith.muli %program, %c128 : i32
  %qb = tile.desc_load %qd [%row, %c0] : !tile.desc<128x64xf16> -> tensor<128x64xf16>
  %sum = scf.for %j = %c0 to %length step %c64 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i32 {
    %kb = tile.desc_load %kd [%j, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %kt = tile.trans %kb [1, 0] : tensor<64x64xf16> -> tensor<64x64xf16>
    %s = tile.dot %qb, %kt, %zero : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
    %e = math.exp2 %s : tensor<128x64xf32>
    %p = arith.truncf %e : tensor<128x64xf32> to tensor<128x64xf16>
    %scaled = arith.mulf %acc, %half : tensor<128x64xf32>
    %vb = tile.desc_load %vd [%j, %c0] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
    %next = tile.dot %p, %vb, %scaled : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
    scf.yield %next : tensor<128x64xf32>
  }
  %narrow = arith.truncf %sum : tensor<128x64xf32> to tensor<128x64xf16>
  tile.desc_store %od [%row, %c0], %narrow : !tile.desc<128x64xf16>, tensor<128x64xf16>
  return
}
