// What the integer analysis knows, beside each operation: per dimension "LENGTH by STEP from DIVISIBILITYx".
// Regenerate after a change with scripts/update_remarks.py, and read the difference.
// RUN: nereid-opt %s --test-integer-analysis --verify-diagnostics -o %t

// The vector addition: contiguous although pid * 1024 may wrap, since the runs start at multiples of 1024.
func.func @vector_add(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %n: i32 {tile.divisibility = 16 : i64}) {
  // expected-remark @+1 {{= 1024}}
  %c1024 = arith.constant 1024 : i32
  // expected-remark @+1 {{1 by 0 from 1x, signed 0 to 2147483646}}
  %pid = tile.program_id 0
  // expected-remark @+1 {{1 by 0 from 1024x}}
  %start = arith.muli %pid, %c1024 : i32
  // expected-remark @+1 {{1024 by 1 from 0, signed 0 to 1023}}
  %range = tile.range 0 to 1024 : tensor<1024xi32>
  // expected-remark @+1 {{1024 by 0 from 1024x}}
  %starts = tile.splat %start : i32 -> tensor<1024xi32>
  // expected-remark @+1 {{1024 by 1 from 1024x}}
  %offsets = arith.addi %starts, %range : tensor<1024xi32>
  // expected-remark @+1 {{1024 by 0 from 16x}}
  %ns = tile.splat %n : i32 -> tensor<1024xi32>
  // expected-remark @+1 {{16 by 0 from 1x}}
  %mask = arith.cmpi slt, %offsets, %ns : tensor<1024xi32>
  // expected-remark @+1 {{1 by 0 from 1x}}
  %greater = arith.cmpi sgt, %offsets, %ns : tensor<1024xi32>
  // expected-remark @+1 {{16 by 0 from 1x}}
  %mirrored = arith.cmpi sgt, %ns, %offsets : tensor<1024xi32>
  // expected-remark @+1 {{1024 by 0 from 16x}}
  %ptr = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>>
  // expected-remark @+1 {{1024 by 4 from 16x}}
  %ptrs = tile.addptr %ptr, %offsets : tensor<1024x!tile.ptr<f32>>, tensor<1024xi32>
  return
}

// A block that is no power of two, at an unknown place: it may wrap, unless the grid is promised to be small.
func.func @odd_block() {
  // expected-remark @+1 {{= 1000}}
  %c1000 = arith.constant 1000 : i32
  // expected-remark @+1 {{1 by 0 from 1x, signed 0 to 2147483646}}
  %pid = tile.program_id 0
  // expected-remark @+1 {{1 by 0 from 8x}}
  %start = arith.muli %pid, %c1000 : i32
  // expected-remark @+1 {{1000 by 1 from 0, signed 0 to 999}}
  %range = tile.range 0 to 1000 : tensor<1000xi32>
  // expected-remark @+1 {{1000 by 0 from 8x}}
  %starts = tile.splat %start : i32 -> tensor<1000xi32>
  // expected-remark @+1 {{1000 by 1 from 8x, may wrap along 0}}
  %offsets = arith.addi %starts, %range : tensor<1000xi32>
  // expected-remark @+1 {{8 by 1 from 8x, signed -2147483648 to 2147483647}}
  %wide = arith.extsi %offsets : tensor<1000xi32> to tensor<1000xi64>
  return
}

func.func @small_grid() attributes {tile.max_programs = array<i64: 65536, 1, 1>} {
  // expected-remark @+1 {{= 1000}}
  %c1000 = arith.constant 1000 : i32
  // expected-remark @+1 {{1 by 0 from 1x, signed 0 to 65535}}
  %pid = tile.program_id 0
  // expected-remark @+1 {{= 0}}
  %one = tile.program_id 2
  // expected-remark @+1 {{1 by 0 from 1x, signed 1 to 65536}}
  %count = tile.num_programs 0
  // expected-remark @+1 {{1 by 0 from 8x, signed 0 to 65535000}}
  %start = arith.muli %pid, %c1000 : i32
  // expected-remark @+1 {{1000 by 1 from 0, signed 0 to 999}}
  %range = tile.range 0 to 1000 : tensor<1000xi32>
  // expected-remark @+1 {{1000 by 0 from 8x, signed 0 to 65535000}}
  %starts = tile.splat %start : i32 -> tensor<1000xi32>
  // expected-remark @+1 {{1000 by 1 from 8x, signed 0 to 65535999}}
  %offsets = arith.addi %starts, %range : tensor<1000xi32>
  // expected-remark @+1 {{1000 by 1 from 8x, signed 0 to 65535999}}
  %wide = arith.extsi %offsets : tensor<1000xi32> to tensor<1000xi64>
  return
}

// Two dimensions with a stride that is known to be a multiple of 8.
func.func @matrix(%a: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %stride: i32 {tile.divisibility = 8 : i64}) {
  // expected-remark @+1 {{32 by 1 from 0, signed 0 to 31}}
  %rm = tile.range 0 to 32 : tensor<32xi32>
  // expected-remark @+1 {{64 by 1 from 0, signed 0 to 63}}
  %rk = tile.range 0 to 64 : tensor<64xi32>
  // expected-remark @+1 {{32 by 1 from 0, 1 by 0 from 1x, signed 0 to 31}}
  %rows = tile.expand_dims %rm 1 : tensor<32xi32> -> tensor<32x1xi32>
  // expected-remark @+1 {{1 by 0 from 1x, 64 by 1 from 0, signed 0 to 63}}
  %cols = tile.expand_dims %rk 0 : tensor<64xi32> -> tensor<1x64xi32>
  // expected-remark @+1 {{32 by 0 from 8x, 1 by 0 from 8x}}
  %s = tile.splat %stride : i32 -> tensor<32x1xi32>
  // expected-remark @+1 {{1 by 0 from 8x, 1 by 0 from 8x}}
  %row = arith.muli %rows, %s : tensor<32x1xi32>
  // expected-remark @+1 {{32 by 0 from 16x, 1 by 0 from 16x}}
  %base = tile.splat %a : !tile.ptr<f16> -> tensor<32x1x!tile.ptr<f16>>
  // expected-remark @+1 {{1 by 0 from 16x, 1 by 0 from 16x}}
  %rowptr = tile.addptr %base, %row : tensor<32x1x!tile.ptr<f16>>, tensor<32x1xi32>
  // expected-remark @+1 {{1 by 0 from 16x, 64 by 0 from 16x}}
  %wide = tile.broadcast %rowptr : tensor<32x1x!tile.ptr<f16>> -> tensor<32x64x!tile.ptr<f16>>
  // expected-remark @+1 {{32 by 0 from 1x, 64 by 1 from 0, signed 0 to 63}}
  %colb = tile.broadcast %cols : tensor<1x64xi32> -> tensor<32x64xi32>
  // expected-remark @+1 {{1 by 0 from 2x, 64 by 2 from 16x}}
  %ptrs = tile.addptr %wide, %colb : tensor<32x64x!tile.ptr<f16>>, tensor<32x64xi32>
  // expected-remark @+1 {{64 by 2 from 16x, 1 by 0 from 2x}}
  %turned = tile.trans %ptrs [1, 0] : tensor<32x64x!tile.ptr<f16>> -> tensor<64x32x!tile.ptr<f16>>
  return
}

// Wrap-around: runs are cut where a multiple of M may lie. A dividend that may be negative gives nothing.
func.func @modulo(%m: i32 {tile.divisibility = 16 : i64}, %u: i32) {
  // expected-remark @+1 {{= 128}}
  %c128 = arith.constant 128 : i32
  // expected-remark @+1 {{1 by 0 from 1x, signed 0 to 2147483646}}
  %pid = tile.program_id 0
  // expected-remark @+1 {{128 by 1 from 0, signed 0 to 127}}
  %range = tile.range 0 to 128 : tensor<128xi32>
  // expected-remark @+1 {{128 by 0 from 16x}}
  %ms = tile.splat %m : i32 -> tensor<128xi32>
  // expected-remark @+1 {{16 by 1 from 16x}}
  %known = arith.remsi %range, %ms : tensor<128xi32>
  // expected-remark @+1 {{1 by 0 from 128x}}
  %start = arith.muli %pid, %c128 : i32
  // expected-remark @+1 {{128 by 0 from 128x}}
  %starts = tile.splat %start : i32 -> tensor<128xi32>
  // expected-remark @+1 {{128 by 1 from 128x}}
  %rows = arith.addi %starts, %range : tensor<128xi32>
  // expected-remark @+1 {{1 by 0 from 1x}}
  %signed = arith.remsi %rows, %ms : tensor<128xi32>
  // expected-remark @+1 {{16 by 1 from 16x, unsigned 0 to 4294967294}}
  %unsigned = arith.remui %rows, %ms : tensor<128xi32>
  // expected-remark @+1 {{128 by 0 from 1x}}
  %us = tile.splat %u : i32 -> tensor<128xi32>
  // expected-remark @+1 {{1 by 0 from 1x, unsigned 0 to 4294967294}}
  %odd = arith.remui %rows, %us : tensor<128xi32>
  // expected-remark @+1 {{16 by 0 from 1x}}
  %quotient = arith.divsi %range, %ms : tensor<128xi32>
  // expected-remark @+1 {{1 by 0 from 1x}}
  %signedq = arith.divsi %rows, %ms : tensor<128xi32>
  // expected-remark @+1 {{= 4}}
  %c4 = arith.constant dense<4> : tensor<128xi32>
  // expected-remark @+1 {{4 by 0 from 1x, signed 0 to 1073741823}}
  %quarter = arith.divui %rows, %c4 : tensor<128xi32>
  // expected-remark @+1 {{16 by 0 from 1x, signed -134217728 to 134217727}}
  %shifted = arith.shrsi %rows, %c4 : tensor<128xi32>
  // expected-remark @+1 {{= 1000}}
  %c1000 = arith.constant dense<1000> : tensor<128xi32>
  // expected-remark @+1 {{128 by 1 from 0, signed 0 to 127}}
  %same = arith.remsi %range, %c1000 : tensor<128xi32>
  // expected-remark @+1 {{= 15}}
  %c15 = arith.constant dense<15> : tensor<128xi32>
  // expected-remark @+1 {{16 by 1 from 16x, signed 0 to 15}}
  %low = arith.andi %rows, %c15 : tensor<128xi32>
  // expected-remark @+1 {{= -16}}
  %c_16 = arith.constant dense<-16> : tensor<128xi32>
  // expected-remark @+1 {{16 by 0 from 16x, unsigned 0 to 4294967280}}
  %high = arith.andi %rows, %c_16 : tensor<128xi32>
  return
}

// Strided and descending.
func.func @strided(%n: i32) {
  // expected-remark @+1 {{64 by 1 from 0, signed 0 to 63}}
  %range = tile.range 0 to 64 : tensor<64xi32>
  // expected-remark @+1 {{= 4}}
  %c4 = arith.constant dense<4> : tensor<64xi32>
  // expected-remark @+1 {{= 3}}
  %c3 = arith.constant dense<3> : tensor<64xi32>
  // expected-remark @+1 {{= 2}}
  %c2 = arith.constant dense<2> : tensor<64xi32>
  // expected-remark @+1 {{64 by 4 from 0, signed 0 to 252}}
  %four = arith.muli %range, %c4 : tensor<64xi32>
  // expected-remark @+1 {{64 by 4 from 2x, signed 2 to 254}}
  %third = arith.addi %four, %c2 : tensor<64xi32>
  // expected-remark @+1 {{64 by 4 from 2x, signed 2 to 255}}
  %or = arith.ori %four, %c2 : tensor<64xi32>
  // expected-remark @+1 {{64 by 1 from 1152921504606846976x, signed 0 to 63}}
  %back = arith.divsi %four, %c4 : tensor<64xi32>
  // expected-remark @+1 {{2 by 0 from 1x, signed 0 to 31}}
  %half = arith.shrui %four, %c3 : tensor<64xi32>
  // expected-remark @+1 {{64 by 3 from 0, signed 0 to 189}}
  %three = arith.muli %range, %c3 : tensor<64xi32>
  // expected-remark @+1 {{64 by 0 from 1x}}
  %ns = tile.splat %n : i32 -> tensor<64xi32>
  // expected-remark @+1 {{64 by -1 from 1x, may wrap along 0}}
  %down = arith.subi %ns, %range : tensor<64xi32>
  // expected-remark @+1 {{= -1}}
  %m1 = arith.constant dense<-1> : tensor<64xi32>
  // expected-remark @+1 {{64 by -1 from 1x, signed -64 to -1}}
  %not = arith.xori %range, %m1 : tensor<64xi32>
  return
}

// Negative numbers: rounding towards zero puts -3..3 into one group.
func.func @negative() {
  // expected-remark @+1 {{16 by 1 from 8x, signed -8 to 7}}
  %range = tile.range -8 to 8 : tensor<16xi32>
  // expected-remark @+1 {{= 4}}
  %c4 = arith.constant dense<4> : tensor<16xi32>
  // expected-remark @+1 {{= 2}}
  %c2 = arith.constant dense<2> : tensor<16xi32>
  // expected-remark @+1 {{1 by 0 from 1x, signed -2 to 1}}
  %div = arith.divsi %range, %c4 : tensor<16xi32>
  // expected-remark @+1 {{1 by 0 from 1x, signed -3 to 3}}
  %rem = arith.remsi %range, %c4 : tensor<16xi32>
  // expected-remark @+1 {{4 by 0 from 1x, signed -2 to 1}}
  %floor = arith.shrsi %range, %c2 : tensor<16xi32>
  return
}

// Masks are constant along runs when no bound lies inside.
func.func @masks(%n: i32 {tile.divisibility = 16 : i64}, %u: i32) {
  // expected-remark @+1 {{128 by 1 from 0, signed 0 to 127}}
  %range = tile.range 0 to 128 : tensor<128xi32>
  // expected-remark @+1 {{128 by 0 from 16x}}
  %ns = tile.splat %n : i32 -> tensor<128xi32>
  // expected-remark @+1 {{128 by 0 from 1x}}
  %us = tile.splat %u : i32 -> tensor<128xi32>
  // expected-remark @+1 {{16 by 0 from 1x}}
  %lt = arith.cmpi slt, %range, %ns : tensor<128xi32>
  // expected-remark @+1 {{1 by 0 from 1x}}
  %le = arith.cmpi sle, %range, %ns : tensor<128xi32>
  // expected-remark @+1 {{16 by 0 from 1x}}
  %ge = arith.cmpi sge, %range, %ns : tensor<128xi32>
  // expected-remark @+1 {{1 by 0 from 1x}}
  %unknown = arith.cmpi slt, %range, %us : tensor<128xi32>
  // expected-remark @+1 {{= 31}}
  %c31 = arith.constant dense<31> : tensor<128xi32>
  // expected-remark @+1 {{32 by 0 from 1x}}
  %le31 = arith.cmpi sle, %range, %c31 : tensor<128xi32>
  // expected-remark @+1 {{= 128}}
  %c128 = arith.constant dense<128> : tensor<128xi32>
  // expected-remark @+1 {{= -1}}
  %always = arith.cmpi slt, %range, %c128 : tensor<128xi32>
  // expected-remark @+1 {{1 by 0 from 1x}}
  %eq = arith.cmpi eq, %range, %ns : tensor<128xi32>
  // expected-remark @+1 {{16 by 0 from 1x}}
  %both = arith.andi %lt, %ge : tensor<128xi1>
  // expected-remark @+1 {{= 0}}
  %zero = arith.constant dense<0> : tensor<128xi32>
  // expected-remark @+1 {{16 by 0 from 16x}}
  %either = arith.select %lt, %ns, %zero : tensor<128xi1>, tensor<128xi32>
  return
}

// Loops: the run survives, the divisibility is what every round keeps, the range is that of the bounds.
func.func @loops(%x: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %k: i32) {
  // expected-remark @+1 {{= 0}}
  %c0 = arith.constant 0 : i32
  // expected-remark @+1 {{= 32}}
  %c32 = arith.constant 32 : i32
  // expected-remark @+1 {{= 100}}
  %c100 = arith.constant 100 : i32
  // expected-remark @+1 {{32 by 1 from 0, signed 0 to 31}}
  %range = tile.range 0 to 32 : tensor<32xi32>
  // expected-remark @+1 {{32 by 0 from 16x}}
  %base = tile.splat %x : !tile.ptr<f32> -> tensor<32x!tile.ptr<f32>>
  // expected-remark @+1 {{32 by 4 from 16x}}
  %init = tile.addptr %base, %range : tensor<32x!tile.ptr<f32>>, tensor<32xi32>
  // expected-remark @+1 {{= 32}}
  %step = arith.constant dense<32> : tensor<32xi32>
  // expected-remark @+1 {{1 by 0 from 32x, signed 0 to 2147483646 | 32 by 4 from 16x | 32 by 1 from 32x | 32 by 4 from 16x | 32 by 1 from 32x}}
  %end:2 = scf.for %i = %c0 to %k step %c32 iter_args(%p = %init, %o = %range) -> (tensor<32x!tile.ptr<f32>>, tensor<32xi32>) : i32 {
    // expected-remark @+1 {{32 by 4 from 16x}}
    %next = tile.addptr %p, %step : tensor<32x!tile.ptr<f32>>, tensor<32xi32>
    // expected-remark @+1 {{32 by 1 from 32x}}
    %nexto = arith.addi %o, %step : tensor<32xi32>
    scf.yield %next, %nexto : tensor<32x!tile.ptr<f32>>, tensor<32xi32>
  }
  // expected-remark @+1 {{1 by 0 from 32x, signed 0 to 96}}
  scf.for %i = %c0 to %c100 step %c32 : i32 {
    // expected-remark @+1 {{1 by 0 from 32x, signed 32 to 128}}
    %j = arith.addi %i, %c32 : i32
  }
  // expected-remark @+1 {{1 by 0 from 32x | 1 by 0 from 32x | 1 by 0 from 32x}}
  %w = scf.while (%v = %c0) : (i32) -> i32 {
    // expected-remark @+1 {{1 by 0 from 1x}}
    %less = arith.cmpi slt, %v, %k : i32
    scf.condition(%less) %v : i32
  } do {
  ^bb0(%v: i32):
    // expected-remark @+1 {{1 by 0 from 32x}}
    %v2 = arith.addi %v, %c32 : i32
    scf.yield %v2 : i32
  }
  return
}

func.func @branches(%c: i1) {
  // expected-remark @+1 {{= 16}}
  %c16 = arith.constant 16 : i32
  // expected-remark @+1 {{= 24}}
  %c24 = arith.constant 24 : i32
  // expected-remark @+1 {{1 by 0 from 8x, signed 16 to 24}}
  %r = scf.if %c -> i32 {
    scf.yield %c16 : i32
  } else {
    scf.yield %c24 : i32
  }
  return
}

// Promises hold from the definition on when they are certain to be reached.
func.func @promises(%n: i32, %m: i32, %p: !tile.ptr<i32>, %c: i1) {
  // expected-remark @+1 {{= 0}}
  %c0 = arith.constant 0 : i32
  // expected-remark @+1 {{= 16}}
  %c16 = arith.constant 16 : i32
  // expected-remark @+1 {{= 100}}
  %c100 = arith.constant 100 : i32
  // expected-remark @+1 {{= -1}}
  %pos = arith.cmpi sge, %n, %c0 : i32
  tile.assume %pos
  // expected-remark @+1 {{= 0}}
  %rem = arith.remsi %n, %c16 : i32
  // expected-remark @+1 {{= -1}}
  %mult = arith.cmpi eq, %rem, %c0 : i32
  tile.assume %mult
  // expected-remark @+1 {{= -1}}
  %small = arith.cmpi sgt, %c100, %n : i32
  tile.assume %small
  // expected-remark @+1 {{1 by 0 from 16x, signed 16 to 115}}
  %used = arith.addi %n, %c16 : i32
  scf.if %c {
    // expected-remark @+1 {{1 by 0 from 1x}}
    %bound = arith.cmpi slt, %m, %c100 : i32
    tile.assume %bound
  }
  // expected-remark @+1 {{1 by 0 from 1x}}
  %notused = arith.addi %m, %c16 : i32
  // expected-remark @+1 {{= 16}}
  %loaded = tile.load %p : !tile.ptr<i32> -> i32
  // expected-remark @+1 {{= -1}}
  %isone = arith.cmpi eq, %loaded, %c16 : i32
  tile.assume %isone
  // expected-remark @+1 {{= 32}}
  %sum = arith.addi %loaded, %c16 : i32
  return
}

func.func @hints(%p: tensor<128x!tile.ptr<f32>>, %i: tensor<128xi32>) {
  // expected-remark @+1 {{1 by 0 from 128x}}
  %0 = tile.hint %i divisibility [128] : tensor<128xi32>
  // expected-remark @+1 {{64 by 1 from 128x}}
  %1 = tile.hint %0 contiguity [64] : tensor<128xi32>
  // expected-remark @+1 {{4 by 0 from 1x}}
  %2 = tile.hint %i constancy [4] : tensor<128xi32>
  // expected-remark @+1 {{8 by 4 from 32x}}
  %3 = tile.hint %p divisibility [32] contiguity [8] : tensor<128x!tile.ptr<f32>>
  return
}

func.func @shapes(%n: i32 {tile.divisibility = 8 : i64}) {
  // expected-remark @+1 {{96 by 1 from 0, signed 0 to 95}}
  %range = tile.range 0 to 96 : tensor<96xi32>
  // expected-remark @+1 {{6 by 16 from 1x, 16 by 1 from 16x, signed 0 to 95}}
  %two = tile.reshape %range : tensor<96xi32> -> tensor<6x16xi32>
  // expected-remark @+1 {{2 by 48 from 1x, 3 by 16 from 1x, 16 by 1 from 16x, signed 0 to 95}}
  %cube = tile.reshape %range : tensor<96xi32> -> tensor<2x3x16xi32>
  // expected-remark @+1 {{96 by 1 from 16x, signed 0 to 95}}
  %flat = tile.reshape %cube : tensor<2x3x16xi32> -> tensor<96xi32>
  // expected-remark @+1 {{1 by 0 from 1x, 1 by 0 from 1x, signed 0 to 95}}
  %any = tile.reshape %range any_order : tensor<96xi32> -> tensor<6x16xi32>
  // expected-remark @+1 {{96 by 1 from 0, 2 by 0 from 1x, signed 0 to 95}}
  %join = tile.join %range, %range : tensor<96xi32> -> tensor<96x2xi32>
  // expected-remark @+1 {{96 by 1 from 0, signed 0 to 95 | 96 by 1 from 0, signed 0 to 95}}
  %l, %r = tile.split %join : tensor<96x2xi32> -> tensor<96xi32>, tensor<96xi32>
  // expected-remark @+1 {{96 by 1 from 0, signed 0 to 95}}
  %cat = tile.cat %range, %range along 0 : tensor<96xi32>, tensor<96xi32> -> tensor<192xi32>
  // expected-remark @+1 {{96 by 1 from 0, 1 by 0 from 1x, signed 0 to 95}}
  %e = tile.expand_dims %range 1 : tensor<96xi32> -> tensor<96x1xi32>
  // expected-remark @+1 {{96 by 1 from 0, 4 by 0 from 1x, signed 0 to 95}}
  %b = tile.broadcast %e : tensor<96x1xi32> -> tensor<96x4xi32>
  // expected-remark @+1 {{4 by 0 from 1x, signed 0 to 95}}
  %inter = tile.reshape %b : tensor<96x4xi32> -> tensor<384xi32>
  return
}

// Conversions: narrowing keeps steps, widening only where nothing wraps.
func.func @conversions(%u: i32, %p: !tile.ptr<f32> {tile.divisibility = 64 : i64}) {
  // expected-remark @+1 {{512 by 1 from 0, signed 0 to 511}}
  %range = tile.range 0 to 512 : tensor<512xi32>
  // expected-remark @+1 {{512 by 1 from 0, may wrap along 0}}
  %narrow = arith.trunci %range : tensor<512xi32> to tensor<512xi8>
  // expected-remark @+1 {{128 by 1 from 128x, signed 0 to 255}}
  %zext = arith.extui %narrow : tensor<512xi8> to tensor<512xi32>
  // expected-remark @+1 {{128 by 1 from 128x, signed -128 to 127}}
  %sext = arith.extsi %narrow : tensor<512xi8> to tensor<512xi32>
  // expected-remark @+1 {{512 by 0 from 1x}}
  %us = tile.splat %u : i32 -> tensor<512xi32>
  // expected-remark @+1 {{512 by 1 from 1x, may wrap along 0}}
  %sum = arith.addi %us, %range : tensor<512xi32>
  // expected-remark @+1 {{1 by 0 from 1x, signed -2147483648 to 2147483647}}
  %wide = arith.extsi %sum : tensor<512xi32> to tensor<512xi64>
  // expected-remark @+1 {{1 by 0 from 64x}}
  %number = tile.ptr_to_int %p : !tile.ptr<f32> -> i64
  // expected-remark @+1 {{1 by 0 from 64x}}
  %other = tile.int_to_ptr %number : i64 -> !tile.ptr<i8>
  return
}

// One address gives one value.
func.func @loads(%p: !tile.ptr<i32>, %c: tensor<8x4xi1>) {
  // expected-remark @+1 {{8 by 1 from 0, signed 0 to 7}}
  %range = tile.range 0 to 8 : tensor<8xi32>
  // expected-remark @+1 {{8 by 0 from 1x}}
  %base = tile.splat %p : !tile.ptr<i32> -> tensor<8x!tile.ptr<i32>>
  // expected-remark @+1 {{8 by 4 from 1x}}
  %ptrs = tile.addptr %base, %range : tensor<8x!tile.ptr<i32>>, tensor<8xi32>
  // expected-remark @+1 {{8 by 4 from 1x, 1 by 0 from 1x}}
  %e = tile.expand_dims %ptrs 1 : tensor<8x!tile.ptr<i32>> -> tensor<8x1x!tile.ptr<i32>>
  // expected-remark @+1 {{8 by 4 from 1x, 4 by 0 from 1x}}
  %b = tile.broadcast %e : tensor<8x1x!tile.ptr<i32>> -> tensor<8x4x!tile.ptr<i32>>
  // expected-remark @+1 {{1 by 0 from 1x, 4 by 0 from 1x}}
  %v = tile.load %b : tensor<8x4x!tile.ptr<i32>> -> tensor<8x4xi32>
  // expected-remark @+1 {{1 by 0 from 1x, 1 by 0 from 1x}}
  %masked = tile.load %b mask %c : tensor<8x4x!tile.ptr<i32>>, mask tensor<8x4xi1> -> tensor<8x4xi32>
  // expected-remark @+1 {{1 by 0 from 1x, 1 by 0 from 1x}}
  %volatile = tile.load %b volatile : tensor<8x4x!tile.ptr<i32>> -> tensor<8x4xi32>
  return
}
