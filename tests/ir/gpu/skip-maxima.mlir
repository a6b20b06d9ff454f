// RUN: nereid-opt %s --gpu-skip-maxima="skip-maxima=always" | FileCheck %s
// RUN: nereid-opt %s --gpu-skip-maxima | FileCheck %s --check-prefix=OFF
// Of divided loops only.
// RUN: nereid-opt %s --gpu-skip-maxima="skip-maxima=divided" | FileCheck %s --check-prefix=OFF
// RUN: sed 's|// DIVIDED|{ngpu.specialised}|' %s | nereid-opt --gpu-skip-maxima="skip-maxima=divided" | FileCheck %s
// The multiplication of the accumulator is done in the same case.
// RUN: nereid-opt %s --gpu-skip-maxima="skip-maxima=always" --gpu-skip-scaling="skip-scaling=always" | FileCheck %s --check-prefix=SCALED

// With more warps scores and weights would not both fit the registers.
// RUN: sed 's/num_warps = 4/num_warps = 16/; s/warp = \[\(\[[0-9]*, [0-9]*\], \[[0-9]*, [0-9]*\]\)\]/warp = [\1, [0, 0], [0, 0]]/; s/warp = \[\(\[[0-9]*\], \[[0-9]*\]\)\]/warp = [\1, [0], [0]]/' %s | nereid-opt --gpu-skip-maxima="skip-maxima=always warps=16" | FileCheck %s --check-prefix=MANY

#acc = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]], shape = [64, 16]>
#row = #ngpu.layout<register = [[8]], lane = [[0], [0], [1], [2], [4]], warp = [[16], [32]], shape = [64]>
#col = #ngpu.layout<register = [[8, 0]], lane = [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]], shape = [64, 1]>
#wide = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [0, 16]], shape = [32, 32]>
#widerow = #ngpu.layout<register = [[8]], lane = [[0], [0], [1], [2], [4]], warp = [[16], [0]], shape = [32]>
#widecol = #ngpu.layout<register = [[8, 0]], lane = [[0, 0], [0, 0], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [0, 0]], shape = [32, 1]>
#a = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [4, 0], [0, 8], [8, 0], [16, 0], [32, 0]], shape = [64, 16]>
#b = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [1, 0], [2, 0], [4, 0], [0, 8], [8, 0]], shape = [16, 16]>

// CHECK-LABEL: func.func @attention
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[SUMS:.*]] = %{{.*}}, %[[OLD:.*]] = %{{.*}}, %[[PARTS:.*]] = %[[ZERO:.*]])
// CHECK: %[[SCORES:.*]] = ngpu.wgmma
// CHECK-NOT: maxnumf
// CHECK: %[[ABSENT:.*]] = arith.cmpf ule, %[[OLD]]
// CHECK: %[[NONE:.*]] = ngpu.any_in_warp %[[ABSENT]]
// CHECK: %[[RESULT:.*]]:5 = scf.if %[[NONE]]
// CHECK: tile.reduce(%[[SCORES]]) axis 1
// CHECK: maxnumf
// CHECK: } else {
// CHECK-NOT: maxnumf
// CHECK: %[[LESS:.*]] = arith.subf
// CHECK: %[[FIRST:.*]] = math.exp2 %[[LESS]] : tensor<64x16xf32
// Sums of a thread: two neighbours, then the others.
// CHECK: tile.reshape %[[FIRST]] {{.*}} -> tensor<64x2x4x2xf32
// CHECK: tile.reduce({{.*}}) axis 3
// CHECK: %[[OWN:.*]] = tile.reduce({{.*}}) axis 1
// CHECK: -> tensor<64x4xf32
// CHECK: %[[BOUND:.*]] = arith.constant dense<2.560000e+02>
// CHECK: %[[GREAT:.*]] = arith.cmpf ugt, %[[OWN]], %[[BOUND]]
// CHECK: %[[ANY:.*]] = ngpu.any_in_warp %[[GREAT]]
// CHECK: %[[INNER:.*]]:4 = scf.if %[[ANY]]
// CHECK: tile.reduce(%[[SCORES]]) axis 1
// CHECK: maxnumf
// CHECK: } else {
// CHECK-NEXT: scf.yield %[[FIRST]], %[[OWN]], %[[OLD]], %{{.*}}
// CHECK: scf.yield %[[INNER]]#0, %[[INNER]]#1, %[[INNER]]#2, %[[INNER]]#3, %[[ANY]]
// CHECK: %[[FACTORS:.*]] = tile.broadcast {{.*}} -> tensor<64x4xf32
// CHECK: %[[LESSER:.*]] = arith.mulf %[[PARTS]], %[[FACTORS]]
// CHECK: %[[NEXT:.*]] = arith.addf %[[LESSER]], %[[RESULT]]#1
// CHECK: arith.mulf %[[SUMS]], %[[RESULT]]#3
// CHECK: arith.truncf %[[RESULT]]#0
// CHECK: scf.yield {{.*}}%[[RESULT]]#2, %[[NEXT]]
// Behind the loop the parts of a row are added up.
// CHECK: tile.reduce({{.*}}) axis 1
// CHECK: tensor<64x4xf32{{.*}} -> tensor<64xf32
// OFF-LABEL: func.func @attention
// OFF-NOT: scf.if
// SCALED-LABEL: func.func @attention
// SCALED: %[[RESULT:.*]]:5 = scf.if
// SCALED: ngpu.any_in_warp
// SCALED-NOT: ngpu.any_in_warp
// SCALED: scf.if %[[RESULT]]#4 -> (tensor<64x16xf32
// SCALED-NEXT: arith.mulf
// MANY-LABEL: func.func @attention
// MANY-NOT: scf.if
// MANY-NOT: tile.reshape
func.func @attention(%n: i32, %factor: f32)
    attributes {tile.kernel, ngpu.num_warps = 4 : i32, ngpu.num_lanes = 32 : i32} {
  %a = ngpu.local_alloc <64x16xf16, #a>
  %b = ngpu.local_alloc <16x16xf16, #b>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x16xf32, #acc>
  %none = arith.constant dense<0.0> : tensor<64xf32, #row>
  %least = arith.constant dense<0xFF800000> : tensor<64xf32, #row>
  %eight = arith.constant dense<8.0> : tensor<64xf32, #row>
  %scale = tile.splat %factor : f32 -> tensor<64xf32, #row>
  %scales = tile.splat %factor : f32 -> tensor<64x16xf32, #acc>
  %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero, %sums = %none, %old = %least)
      -> (tensor<64x16xf32, #acc>, tensor<64xf32, #row>, tensor<64xf32, #row>) : i32 {
    %scores = ngpu.wgmma %a, %b, %zero : !ngpu.buffer<64x16xf16, #a>, <16x16xf16, #b> -> tensor<64x16xf32, #acc>
    %max = tile.reduce(%scores) axis 1 {
    ^bb0(%x: f32, %y: f32):
      %z = arith.maxnumf %x, %y : f32
      tile.yield %z : f32
    } : (tensor<64x16xf32, #acc>) -> tensor<64xf32, #row>
    %top = arith.mulf %max, %scale : tensor<64xf32, #row>
    %bound = arith.addf %old, %eight : tensor<64xf32, #row>
    %exceeds = arith.cmpf ogt, %top, %bound : tensor<64xf32, #row>
    %new = arith.select %exceeds, %top, %old : tensor<64xi1, #row>, tensor<64xf32, #row>
    %scaled = arith.mulf %scores, %scales : tensor<64x16xf32, #acc>
    %0 = tile.expand_dims %new 1 : tensor<64xf32, #row> -> tensor<64x1xf32, #col>
    %1 = tile.broadcast %0 : tensor<64x1xf32, #col> -> tensor<64x16xf32, #acc>
    %2 = arith.subf %scaled, %1 : tensor<64x16xf32, #acc>
    %weights = math.exp2 %2 : tensor<64x16xf32, #acc>
    %change = arith.subf %old, %new : tensor<64xf32, #row>
    %factors = math.exp2 %change : tensor<64xf32, #row>
    %less = arith.mulf %sums, %factors : tensor<64xf32, #row>
    %of = tile.reduce(%weights) axis 1 {
    ^bb0(%x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      tile.yield %z : f32
    } : (tensor<64x16xf32, #acc>) -> tensor<64xf32, #row>
    %more = arith.addf %less, %of : tensor<64xf32, #row>
    %3 = tile.expand_dims %factors 1 : tensor<64xf32, #row> -> tensor<64x1xf32, #col>
    %4 = tile.broadcast %3 : tensor<64x1xf32, #col> -> tensor<64x16xf32, #acc>
    %5 = arith.mulf %sum, %4 : tensor<64x16xf32, #acc>
    %p = arith.truncf %weights : tensor<64x16xf32, #acc> to tensor<64x16xf16, #acc>
    %next = ngpu.wgmma %p, %b, %5 : tensor<64x16xf16, #acc>, <16x16xf16, #b> -> tensor<64x16xf32, #acc>
    scf.yield %next, %more, %new : tensor<64x16xf32, #acc>, tensor<64xf32, #row>, tensor<64xf32, #row>
  } // DIVIDED
  return
}

// Rows that may see no key: a reference of -inf, in whose place is 0, is not tried.
// CHECK-LABEL: func.func @guarded
// CHECK: arith.cmpf ule
// CHECK: ngpu.any_in_warp
// CHECK: scf.if
// CHECK: arith.select
// CHECK: } else {
// CHECK: %[[FIRST:.*]] = math.exp2
// CHECK: arith.cmpf ugt
// CHECK: ngpu.any_in_warp
// CHECK: scf.if
// OFF-LABEL: func.func @guarded
// OFF-NOT: scf.if
func.func @guarded(%n: i32, %scores: tensor<64x16xf32, #acc>)
    attributes {tile.kernel, ngpu.num_warps = 4 : i32, ngpu.num_lanes = 32 : i32} {
  %a = ngpu.local_alloc <64x16xf16, #a>
  %b = ngpu.local_alloc <16x16xf16, #b>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x16xf32, #acc>
  %none = arith.constant dense<0.0> : tensor<64xf32, #row>
  %least = arith.constant dense<0xFF800000> : tensor<64xf32, #row>
  %eight = arith.constant dense<8.0> : tensor<64xf32, #row>
  %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero, %sums = %none, %old = %least)
      -> (tensor<64x16xf32, #acc>, tensor<64xf32, #row>, tensor<64xf32, #row>) : i32 {
    %top = tile.reduce(%scores) axis 1 {
    ^bb0(%x: f32, %y: f32):
      %z = arith.maxnumf %x, %y : f32
      tile.yield %z : f32
    } : (tensor<64x16xf32, #acc>) -> tensor<64xf32, #row>
    %bound = arith.addf %old, %eight : tensor<64xf32, #row>
    %exceeds = arith.cmpf ogt, %top, %bound : tensor<64xf32, #row>
    %new = arith.select %exceeds, %top, %old : tensor<64xi1, #row>, tensor<64xf32, #row>
    %absent = arith.cmpf oeq, %new, %least : tensor<64xf32, #row>
    %base = arith.select %absent, %none, %new : tensor<64xi1, #row>, tensor<64xf32, #row>
    %0 = tile.expand_dims %base 1 : tensor<64xf32, #row> -> tensor<64x1xf32, #col>
    %1 = tile.broadcast %0 : tensor<64x1xf32, #col> -> tensor<64x16xf32, #acc>
    %2 = arith.subf %scores, %1 : tensor<64x16xf32, #acc>
    %weights = math.exp2 %2 : tensor<64x16xf32, #acc>
    %of = tile.reduce(%weights) axis 1 {
    ^bb0(%x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      tile.yield %z : f32
    } : (tensor<64x16xf32, #acc>) -> tensor<64xf32, #row>
    %change = arith.subf %old, %base : tensor<64xf32, #row>
    %factors = math.exp2 %change : tensor<64xf32, #row>
    %less = arith.mulf %sums, %factors : tensor<64xf32, #row>
    %more = arith.addf %less, %of : tensor<64xf32, #row>
    %p = arith.truncf %weights : tensor<64x16xf32, #acc> to tensor<64x16xf16, #acc>
    %next = ngpu.wgmma %p, %b, %sum : tensor<64x16xf16, #acc>, <16x16xf16, #b> -> tensor<64x16xf32, #acc>
    scf.yield %next, %more, %new : tensor<64x16xf32, #acc>, tensor<64xf32, #row>, tensor<64xf32, #row>
  } // DIVIDED
  return
}

// An exact maximum, without a threshold, says nothing about sums. Maxima across warps need all of them.
// CHECK-LABEL: func.func @others
// CHECK-NOT: scf.if
func.func @others(%n: i32, %scores: tensor<64x16xf32, #acc>, %wide: tensor<32x32xf32, #wide>)
    attributes {tile.kernel, ngpu.num_warps = 4 : i32, ngpu.num_lanes = 32 : i32} {
  %a = ngpu.local_alloc <64x16xf16, #a>
  %b = ngpu.local_alloc <16x16xf16, #b>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<64x16xf32, #acc>
  %none = arith.constant dense<0.0> : tensor<64xf32, #row>
  %nowide = arith.constant dense<0.0> : tensor<32xf32, #widerow>
  %least = arith.constant dense<0xFF800000> : tensor<64xf32, #row>
  %leastwide = arith.constant dense<0xFF800000> : tensor<32xf32, #widerow>
  %eight = arith.constant dense<8.0> : tensor<32xf32, #widerow>
  %r:5 = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero, %sums = %none, %old = %least, %widesums = %nowide, %wideold = %leastwide)
      -> (tensor<64x16xf32, #acc>, tensor<64xf32, #row>, tensor<64xf32, #row>, tensor<32xf32, #widerow>, tensor<32xf32, #widerow>) : i32 {
    %top = tile.reduce(%scores) axis 1 {
    ^bb0(%x: f32, %y: f32):
      %z = arith.maxnumf %x, %y : f32
      tile.yield %z : f32
    } : (tensor<64x16xf32, #acc>) -> tensor<64xf32, #row>
    %new = arith.maxnumf %old, %top : tensor<64xf32, #row>
    %0 = tile.expand_dims %new 1 : tensor<64xf32, #row> -> tensor<64x1xf32, #col>
    %1 = tile.broadcast %0 : tensor<64x1xf32, #col> -> tensor<64x16xf32, #acc>
    %2 = arith.subf %scores, %1 : tensor<64x16xf32, #acc>
    %weights = math.exp2 %2 : tensor<64x16xf32, #acc>
    %of = tile.reduce(%weights) axis 1 {
    ^bb0(%x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      tile.yield %z : f32
    } : (tensor<64x16xf32, #acc>) -> tensor<64xf32, #row>
    %more = arith.addf %sums, %of : tensor<64xf32, #row>
    %widetop = tile.reduce(%wide) axis 1 {
    ^bb0(%x: f32, %y: f32):
      %z = arith.maxnumf %x, %y : f32
      tile.yield %z : f32
    } : (tensor<32x32xf32, #wide>) -> tensor<32xf32, #widerow>
    %bound = arith.addf %wideold, %eight : tensor<32xf32, #widerow>
    %exceeds = arith.cmpf ogt, %widetop, %bound : tensor<32xf32, #widerow>
    %widenew = arith.select %exceeds, %widetop, %wideold : tensor<32xi1, #widerow>, tensor<32xf32, #widerow>
    %3 = tile.expand_dims %widenew 1 : tensor<32xf32, #widerow> -> tensor<32x1xf32, #widecol>
    %4 = tile.broadcast %3 : tensor<32x1xf32, #widecol> -> tensor<32x32xf32, #wide>
    %5 = arith.subf %wide, %4 : tensor<32x32xf32, #wide>
    %wideweights = math.exp2 %5 : tensor<32x32xf32, #wide>
    %wideof = tile.reduce(%wideweights) axis 1 {
    ^bb0(%x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      tile.yield %z : f32
    } : (tensor<32x32xf32, #wide>) -> tensor<32xf32, #widerow>
    %widemore = arith.addf %widesums, %wideof : tensor<32xf32, #widerow>
    %p = arith.truncf %weights : tensor<64x16xf32, #acc> to tensor<64x16xf16, #acc>
    %next = ngpu.wgmma %p, %b, %sum : tensor<64x16xf16, #acc>, <16x16xf16, #b> -> tensor<64x16xf32, #acc>
    scf.yield %next, %more, %new, %widemore, %widenew : tensor<64x16xf32, #acc>, tensor<64xf32, #row>, tensor<64xf32, #row>, tensor<32xf32, #widerow>, tensor<32xf32, #widerow>
  } // DIVIDED
  return
}
