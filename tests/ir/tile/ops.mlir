// Every operation and every optional part of its syntax survives printing and parsing.
// RUN: nereid-opt %s | nereid-opt | FileCheck %s
// RUN: nereid-opt %s --mlir-print-op-generic | nereid-opt | FileCheck %s

// CHECK-LABEL: func.func @programs
// CHECK-SAME: %{{.*}}: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "x"}, %{{.*}}: !tile.ptr<f16, 3>
func.func @programs(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "x"}, %s: !tile.ptr<f16, 3>) attributes {tile.kernel} {
  // CHECK: tile.program_id 2
  %0 = tile.program_id 2
  // CHECK: tile.num_programs 0
  %1 = tile.num_programs 0
  return
}

// CHECK-LABEL: func.func @shapes
func.func @shapes(%s: f32, %v: tensor<100xf32>) {
  // CHECK: tile.range 3 to 103 : tensor<100xi32>
  %r = tile.range 3 to 103 : tensor<100xi32>
  // CHECK: tile.splat %{{.*}} : f32 -> tensor<1x1xf32>
  %0 = tile.splat %s : f32 -> tensor<1x1xf32>
  // CHECK: tile.unsplat %{{.*}} : tensor<1x1xf32> -> f32
  %1 = tile.unsplat %0 : tensor<1x1xf32> -> f32
  // CHECK: tile.expand_dims %{{.*}} 1 : tensor<100xf32> -> tensor<100x1xf32>
  %2 = tile.expand_dims %v 1 : tensor<100xf32> -> tensor<100x1xf32>
  // CHECK: tile.broadcast %{{.*}} : tensor<100x1xf32> -> tensor<100x6xf32>
  %3 = tile.broadcast %2 : tensor<100x1xf32> -> tensor<100x6xf32>
  // CHECK: tile.reshape %{{.*}} any_order : tensor<100x6xf32> -> tensor<600xf32>
  %4 = tile.reshape %3 any_order : tensor<100x6xf32> -> tensor<600xf32>
  // CHECK: tile.reshape %{{.*}} : tensor<600xf32> -> tensor<50x12xf32>
  %5 = tile.reshape %4 : tensor<600xf32> -> tensor<50x12xf32>
  // CHECK: tile.trans %{{.*}} [1, 0] : tensor<50x12xf32> -> tensor<12x50xf32>
  %6 = tile.trans %5 [1, 0] : tensor<50x12xf32> -> tensor<12x50xf32>
  // CHECK: tile.join %{{.*}}, %{{.*}} : tensor<100xf32> -> tensor<100x2xf32>
  %7 = tile.join %v, %v : tensor<100xf32> -> tensor<100x2xf32>
  // CHECK: tile.join %{{.*}}, %{{.*}} : f32 -> tensor<2xf32>
  %8 = tile.join %s, %s : f32 -> tensor<2xf32>
  // CHECK: tile.split %{{.*}} : tensor<100x2xf32> -> tensor<100xf32>, tensor<100xf32>
  %9:2 = tile.split %7 : tensor<100x2xf32> -> tensor<100xf32>, tensor<100xf32>
  // CHECK: tile.split %{{.*}} : tensor<2xf32> -> f32, f32
  %10:2 = tile.split %8 : tensor<2xf32> -> f32, f32
  // CHECK: tile.cat %{{.*}}, %{{.*}} along 0 : tensor<100xf32>, tensor<2xf32> -> tensor<102xf32>
  %11 = tile.cat %v, %8 along 0 : tensor<100xf32>, tensor<2xf32> -> tensor<102xf32>
  return
}

// CHECK-LABEL: func.func @pointers
func.func @pointers(%p: !tile.ptr<f32>, %ps: tensor<8x!tile.ptr<f32>>, %o: tensor<8xi32>, %a: i64, %f: tensor<8xf32>, %q: tensor<8xf8E5M2>) {
  // CHECK: tile.addptr %{{.*}}, %{{.*}} : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  %0 = tile.addptr %ps, %o : tensor<8x!tile.ptr<f32>>, tensor<8xi32>
  // CHECK: tile.addptr %{{.*}}, %{{.*}} : !tile.ptr<f32>, i64
  %1 = tile.addptr %p, %a : !tile.ptr<f32>, i64
  // CHECK: tile.int_to_ptr %{{.*}} : i64 -> !tile.ptr<f32>
  %2 = tile.int_to_ptr %a : i64 -> !tile.ptr<f32>
  // CHECK: tile.ptr_to_int %{{.*}} : tensor<8x!tile.ptr<f32>> -> tensor<8xi64>
  %3 = tile.ptr_to_int %ps : tensor<8x!tile.ptr<f32>> -> tensor<8xi64>
  // CHECK: tile.ptr_cast %{{.*}} : !tile.ptr<f32> -> !tile.ptr<i8>
  %4 = tile.ptr_cast %p : !tile.ptr<f32> -> !tile.ptr<i8>
  // CHECK: tile.fp_cast %{{.*}} : tensor<8xf32> -> tensor<8xf8E4M3FN>
  %5 = tile.fp_cast %f : tensor<8xf32> -> tensor<8xf8E4M3FN>
  // CHECK: tile.fp_cast %{{.*}} rounding rtz : tensor<8xf32> -> tensor<8xf16>
  %6 = tile.fp_cast %f rounding rtz : tensor<8xf32> -> tensor<8xf16>
  // CHECK: tile.fp_cast %{{.*}} : tensor<8xf8E5M2> -> tensor<8xf32>
  %7 = tile.fp_cast %q : tensor<8xf8E5M2> -> tensor<8xf32>
  return
}

// CHECK-LABEL: func.func @memory
func.func @memory(%p: !tile.ptr<f32>, %ps: tensor<8x!tile.ptr<f32>>, %pi: tensor<8x!tile.ptr<i32>>, %m: tensor<8xi1>, %v: tensor<8xf32>, %i: tensor<8xi32>, %b: i1) {
  // CHECK: tile.load %{{.*}} : !tile.ptr<f32> -> f32
  %0 = tile.load %p : !tile.ptr<f32> -> f32
  // CHECK: tile.load %{{.*}} mask %{{.*}} : !tile.ptr<f32>, mask i1 -> f32
  %1 = tile.load %p mask %b : !tile.ptr<f32>, mask i1 -> f32
  // CHECK: tile.load %{{.*}} mask %{{.*}} other %{{.*}} cache cg evict evict_last volatile : tensor<8x!tile.ptr<f32>>, mask tensor<8xi1>, other tensor<8xf32> -> tensor<8xf32>
  %2 = tile.load %ps mask %m other %v cache cg evict evict_last volatile : tensor<8x!tile.ptr<f32>>, mask tensor<8xi1>, other tensor<8xf32> -> tensor<8xf32>
  // CHECK: tile.store %{{.*}}, %{{.*}} : !tile.ptr<f32>, f32
  tile.store %p, %0 : !tile.ptr<f32>, f32
  // CHECK: tile.store %{{.*}}, %{{.*}} mask %{{.*}} cache wt evict evict_first : tensor<8x!tile.ptr<f32>>, tensor<8xf32>, mask tensor<8xi1>
  tile.store %ps, %v mask %m cache wt evict evict_first : tensor<8x!tile.ptr<f32>>, tensor<8xf32>, mask tensor<8xi1>
  // CHECK: tile.atomic_rmw fadd %{{.*}}, %{{.*}} : !tile.ptr<f32>, f32
  %3 = tile.atomic_rmw fadd %p, %0 : !tile.ptr<f32>, f32
  // CHECK: tile.atomic_rmw xchg %{{.*}}, %{{.*}} mask %{{.*}} sem relaxed scope sys : tensor<8x!tile.ptr<i32>>, tensor<8xi32>, mask tensor<8xi1>
  %4 = tile.atomic_rmw xchg %pi, %i mask %m sem relaxed scope sys : tensor<8x!tile.ptr<i32>>, tensor<8xi32>, mask tensor<8xi1>
  // CHECK: tile.atomic_cas %{{.*}}, %{{.*}}, %{{.*}} sem acquire scope cta : tensor<8x!tile.ptr<i32>>, tensor<8xi32>
  %5 = tile.atomic_cas %pi, %i, %4 sem acquire scope cta : tensor<8x!tile.ptr<i32>>, tensor<8xi32>
  // CHECK: tile.atomic_load %{{.*}} : !tile.ptr<f32> -> f32
  %6 = tile.atomic_load %p sem acquire : !tile.ptr<f32> -> f32
  // CHECK: tile.atomic_load %{{.*}} mask %{{.*}} sem relaxed scope sys : tensor<8x!tile.ptr<i32>>, mask tensor<8xi1> -> tensor<8xi32>
  %7 = tile.atomic_load %pi mask %m sem relaxed scope sys : tensor<8x!tile.ptr<i32>>, mask tensor<8xi1> -> tensor<8xi32>
  // CHECK: tile.atomic_store %{{.*}}, %{{.*}} : !tile.ptr<f32>, f32
  tile.atomic_store %p, %6 sem release : !tile.ptr<f32>, f32
  // CHECK: tile.atomic_store %{{.*}}, %{{.*}} mask %{{.*}} sem relaxed scope cta : tensor<8x!tile.ptr<i32>>, tensor<8xi32>, mask tensor<8xi1>
  tile.atomic_store %pi, %7 mask %m sem relaxed scope cta : tensor<8x!tile.ptr<i32>>, tensor<8xi32>, mask tensor<8xi1>
  // CHECK: tile.barrier
  tile.barrier
  return
}

// CHECK-LABEL: func.func @arithmetic
func.func @arithmetic(%f: tensor<8xf32>, %s: f64, %i: tensor<8xi32>, %a: tensor<2x16x24xf16>, %b: tensor<2x24x8xf16>, %c: tensor<2x16x8xf32>) {
  // CHECK: tile.div_rn %{{.*}}, %{{.*}} : tensor<8xf32>
  %0 = tile.div_rn %f, %f : tensor<8xf32>
  // CHECK: tile.sqrt_rn %{{.*}} : f64
  %1 = tile.sqrt_rn %s : f64
  // CHECK: tile.mulhi_u %{{.*}}, %{{.*}} : tensor<8xi32>
  %2 = tile.mulhi_u %i, %i : tensor<8xi32>
  // CHECK: tile.extern_elementwise "pow" from "libm"(%{{.*}}, %{{.*}}) pure : (tensor<8xf32>, tensor<8xi32>) -> tensor<8xf32>
  %3 = tile.extern_elementwise "pow" from "libm" (%f, %i) pure : (tensor<8xf32>, tensor<8xi32>) -> tensor<8xf32>
  // CHECK: tile.dot %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x16x24xf16>, tensor<2x24x8xf16> -> tensor<2x16x8xf32>
  %4 = tile.dot %a, %b, %c : tensor<2x16x24xf16>, tensor<2x24x8xf16> -> tensor<2x16x8xf32>
  // CHECK: tile.dot %{{.*}}, %{{.*}}, %{{.*}} precision ieee max_imprecise_acc 32 : tensor<2x16x24xf16>, tensor<2x24x8xf16> -> tensor<2x16x8xf32>
  %5 = tile.dot %a, %b, %c precision ieee max_imprecise_acc 32 : tensor<2x16x24xf16>, tensor<2x24x8xf16> -> tensor<2x16x8xf32>
  return
}

// CHECK-LABEL: func.func @combinations
func.func @combinations(%f: tensor<4x8xf32>, %i: tensor<4x8xi32>) {
  // CHECK: tile.reduce(%{{.*}}) axis 0
  // CHECK: tile.yield %{{.*}} : f32
  // CHECK: : (tensor<4x8xf32>) -> tensor<8xf32>
  %0 = tile.reduce(%f) axis 0 {
  ^bb0(%a: f32, %b: f32):
    %sum = arith.addf %a, %b : f32
    tile.yield %sum : f32
  } : (tensor<4x8xf32>) -> tensor<8xf32>
  // CHECK: tile.reduce(%{{.*}}, %{{.*}}) axis 1 any_order {
  // CHECK: : (tensor<4x8xf32>, tensor<4x8xi32>) -> (tensor<4xf32>, tensor<4xi32>)
  %1:2 = tile.reduce(%f, %i) axis 1 any_order {
  ^bb0(%a: f32, %ai: i32, %b: f32, %bi: i32):
    %greater = arith.cmpf ogt, %a, %b : f32
    %value = arith.select %greater, %a, %b : f32
    %index = arith.select %greater, %ai, %bi : i32
    tile.yield %value, %index : f32, i32
  } : (tensor<4x8xf32>, tensor<4x8xi32>) -> (tensor<4xf32>, tensor<4xi32>)
  // CHECK: tile.scan(%{{.*}}) axis 1 reverse
  // CHECK: : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = tile.scan(%f) axis 1 reverse {
  ^bb0(%a: f32, %b: f32):
    %sum = arith.addf %a, %b : f32
    tile.yield %sum : f32
  } : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @debugging
func.func @debugging(%i: tensor<4x8xi32>, %s: i32, %m: tensor<4x8xi1>, %c: i1) {
  // CHECK: tile.hint %{{.*}} divisibility [16, 1] contiguity [1, 8] constancy [4, 1] : tensor<4x8xi32>
  %0 = tile.hint %i divisibility [16, 1] contiguity [1, 8] constancy [4, 1] : tensor<4x8xi32>
  // CHECK: tile.hint %{{.*}} divisibility [8] : i32
  %1 = tile.hint %s divisibility [8] : i32
  // CHECK: tile.assume %{{.*}}
  tile.assume %c
  // CHECK: tile.assert %{{.*}}, "out of range" : i1
  tile.assert %c, "out of range" : i1
  // CHECK: tile.assert %{{.*}}, "bad" mask %{{.*}} : tensor<4x8xi1>, tensor<4x8xi1>
  tile.assert %m, "bad" mask %m : tensor<4x8xi1>, tensor<4x8xi1>
  // CHECK: tile.check bounds %{{.*}} detail %{{.*}} mask %{{.*}} argument 2 : tensor<4x8xi1>, detail tensor<4x8xi32>, mask tensor<4x8xi1>
  tile.check bounds %m detail %i mask %m argument 2 : tensor<4x8xi1>, detail tensor<4x8xi32>, mask tensor<4x8xi1>
  // CHECK: tile.check overflow %{{.*}} argument -1 : i1
  tile.check overflow %c argument -1 : i1
  // CHECK: tile.print "x = " hex true signed [true, false] : %{{.*}}, %{{.*}} : tensor<4x8xi32>, i32
  tile.print "x = " hex true signed [true, false] : %i, %s : tensor<4x8xi32>, i32
  // CHECK: tile.print "x = " hex false signed [true] : %{{.*}} : tensor<4x8xi32> shapes [array<i64: 3, 8>]
  tile.print "x = " hex false signed [true] : %i : tensor<4x8xi32> shapes [array<i64: 3, 8>]
  // CHECK: tile.print "here" hex false signed []
  tile.print "here" hex false signed []
  return
}

// CHECK-LABEL: func.func @descriptors
func.func @descriptors(%base: !tile.ptr<f16>, %n: i32, %s: i64, %v: tensor<16x64xf16>, %w: tensor<8x64xf16>, %rows: tensor<8xi32>,
                       %ints: !tile.desc<4xi32>, %iv: tensor<4xi32>) {
  // CHECK: %[[D:.*]] = tile.make_descriptor %{{.*}}[%{{.*}}, %{{.*}}] strides[%{{.*}}] : !tile.ptr<f16> -> !tile.desc<16x64xf16>
  %d = tile.make_descriptor %base [%n, %n] strides [%s] : !tile.ptr<f16> -> !tile.desc<16x64xf16>
  // CHECK: tile.make_descriptor {{.*}} copy_engine number 1 : !tile.ptr<f16> -> !tile.desc<16x64xf16>
  %numbered = tile.make_descriptor %base [%n, %n] strides [%s] copy_engine number 1 : !tile.ptr<f16> -> !tile.desc<16x64xf16>
  // CHECK: tile.make_descriptor %{{.*}}[%{{.*}}, %{{.*}}] strides[%{{.*}}] : !tile.ptr<f16> -> !tile.desc<1x64xf16, nan>
  %r = tile.make_descriptor %base [%n, %n] strides [%s] : !tile.ptr<f16> -> !tile.desc<1x64xf16, nan>
  // CHECK: %[[OPTIONAL:.*]] = tile.make_descriptor {{.*}} copy_engine optional number 2 : !tile.ptr<f16> -> !tile.desc<16x64xf16>
  // CHECK: tile.desc_mapped %[[OPTIONAL]] : !tile.desc<16x64xf16>
  %optional = tile.make_descriptor %base [%n, %n] strides [%s] copy_engine optional number 2 : !tile.ptr<f16> -> !tile.desc<16x64xf16>
  %mapped = tile.desc_mapped %optional : !tile.desc<16x64xf16>
  // CHECK: tile.make_descriptor %{{.*}}[%{{.*}}] strides[] copy_engine : !tile.ptr<f16> -> !tile.desc<64xf16>
  %one = tile.make_descriptor %base [%n] strides [] copy_engine : !tile.ptr<f16> -> !tile.desc<64xf16>
  // CHECK: tile.desc_shape %[[D]] 1 : !tile.desc<16x64xf16>
  %size = tile.desc_shape %d 1 : !tile.desc<16x64xf16>
  // CHECK: tile.desc_stride %[[D]] 0 : !tile.desc<16x64xf16>
  %stride = tile.desc_stride %d 0 : !tile.desc<16x64xf16>
  // CHECK: tile.desc_load %[[D]][%{{.*}}, %{{.*}}] : !tile.desc<16x64xf16> -> tensor<16x64xf16>
  %0 = tile.desc_load %d [%n, %n] : !tile.desc<16x64xf16> -> tensor<16x64xf16>
  // CHECK: tile.desc_load %{{.*}}[%{{.*}}, %{{.*}}] cache cg evict evict_first : !tile.desc<1x64xf16, nan> -> tensor<64xf16>
  %1 = tile.desc_load %r [%n, %n] cache cg evict evict_first : !tile.desc<1x64xf16, nan> -> tensor<64xf16>
  // CHECK: tile.desc_store %[[D]][%{{.*}}, %{{.*}}], %{{.*}} : !tile.desc<16x64xf16>, tensor<16x64xf16>
  tile.desc_store %d [%n, %n], %v : !tile.desc<16x64xf16>, tensor<16x64xf16>
  // CHECK: tile.desc_reduce fadd %[[D]][%{{.*}}, %{{.*}}], %{{.*}} : !tile.desc<16x64xf16>, tensor<16x64xf16>
  tile.desc_reduce fadd %d [%n, %n], %v : !tile.desc<16x64xf16>, tensor<16x64xf16>
  // CHECK: tile.desc_reduce umax %{{.*}}[%{{.*}}], %{{.*}} : !tile.desc<4xi32>, tensor<4xi32>
  tile.desc_reduce umax %ints [%n], %iv : !tile.desc<4xi32>, tensor<4xi32>
  // CHECK: tile.desc_gather %{{.*}}[%{{.*}}, %{{.*}}] : !tile.desc<1x64xf16, nan>, tensor<8xi32> -> tensor<8x64xf16>
  %2 = tile.desc_gather %r [%rows, %n] : !tile.desc<1x64xf16, nan>, tensor<8xi32> -> tensor<8x64xf16>
  // CHECK: tile.desc_scatter %{{.*}}[%{{.*}}, %{{.*}}], %{{.*}} : !tile.desc<1x64xf16, nan>, tensor<8xi32>, tensor<8x64xf16>
  tile.desc_scatter %r [%rows, %n], %w : !tile.desc<1x64xf16, nan>, tensor<8xi32>, tensor<8x64xf16>
  return
}

// CHECK-LABEL: func.func @pieces
func.func @pieces(%x: tensor<8x16xf32>, %i: tensor<8x4xi32>, %n: tensor<64xi32>, %m: tensor<64xi1>) {
  // CHECK: tile.slice %{{.*}} [0, 15] step [2, -1] : tensor<8x16xf32> -> tensor<4x16xf32>
  %0 = tile.slice %x [0, 15] step [2, -1] : tensor<8x16xf32> -> tensor<4x16xf32>
  // CHECK: tile.exchange %{{.*}} axis 1 mask 15 : tensor<8x16xf32>
  %1 = tile.exchange %x axis 1 mask 15 : tensor<8x16xf32>
  // CHECK: tile.gather %{{.*}}[%{{.*}}] axis 1 : tensor<8x16xf32>, tensor<8x4xi32> -> tensor<8x4xf32>
  %2 = tile.gather %x [%i] axis 1 : tensor<8x16xf32>, tensor<8x4xi32> -> tensor<8x4xf32>
  // CHECK: tile.histogram %{{.*}} : tensor<64xi32> -> tensor<16xi32>
  %3 = tile.histogram %n : tensor<64xi32> -> tensor<16xi32>
  // CHECK: tile.histogram %{{.*}} mask %{{.*}} : tensor<64xi32>, tensor<64xi1> -> tensor<16xi32>
  %4 = tile.histogram %n mask %m : tensor<64xi32>, tensor<64xi1> -> tensor<16xi32>
  return
}

// CHECK-LABEL: func.func @foreign
func.func @foreign(%x: tensor<64xf32>, %s: i32) {
  // CHECK: tile.inline_asm "mov.b32 $0, $1;" constraints "=r,r" target "nvptx" pack 1 pure(%{{.*}}) : (i32) -> i32
  %0 = tile.inline_asm "mov.b32 $0, $1;" constraints "=r,r" target "nvptx" pack 1 pure (%s) : (i32) -> i32
  // CHECK: tile.map_elementwise(%{{.*}}) pack 2 {
  %1 = tile.map_elementwise (%x) pack 2 {
  ^bb0(%a: f32, %b: f32):
    // CHECK: tile.yield %{{.*}}, %{{.*}} : f32, f32
    tile.yield %b, %a : f32, f32
  } : (tensor<64xf32>) -> tensor<64xf32>
  // CHECK: tile.extern_elementwise "f" from "mine"(%{{.*}}) pure path "mine.bc" : (i32) -> i32
  %2 = tile.extern_elementwise "f" from "mine" (%s) pure path "mine.bc" : (i32) -> i32
  return
}
