// What consumers must not do with slots, products in flight and turns.
// RUN: nereid-opt %s --gpu-lower-channels=warps=8 --split-input-file --verify-diagnostics

// All is right.
#b = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]], shape = [64, 64]>
#a = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0], [64, 0]], shape = [128, 64]>
#one = #ngpu.layout<shape = [1]>

func.func @right(%n: i32) attributes {tile.kernel, ngpu.num_warps = 8 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64x64xf16, #b>
  %c = ngpu.channel readers 8 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    ngpu.turn_start
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %x = arith.constant dense<0.0> : tensor<128x64xf16, #a>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32, #a>
    %none = ngpu.channel_none
    %sum, %slot, %phase, %last, %its = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %s = %c0, %p = %c0, %before = %none, %old = %c0)
        -> (tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32) : i32 {
      ngpu.turn_take
      %later = arith.cmpi ne, %i, %c0 : i32
      %flying = scf.if %later -> (tensor<128x64xf32, #a>) {
        %from = ngpu.slot %ring[%old] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        %r = ngpu.wgmma %x, %from, %acc async : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
        scf.yield %r : tensor<128x64xf32, #a>
      } else {
        scf.yield %acc : tensor<128x64xf32, #a>
      }
      ngpu.turn_pass
      %hold = ngpu.channel_get %c[%s, %p] : !ngpu.channel<2>
      %done = ngpu.wgmma_wait 0 for %flying : tensor<128x64xf32, #a> -> tensor<128x64xf32, #a>
      ngpu.channel_release %c, %before : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %done, %next, %turn, %hold, %s : tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32
    }
    %any = arith.cmpi slt, %c0, %n : i32
    scf.if %any {
      %from = ngpu.slot %ring[%its] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
      %r = ngpu.wgmma %x, %from, %sum : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
    }
    ngpu.channel_release %c, %last : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %slot, %phase = scf.for %i = %c0 to %n step %c1 iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
      ngpu.channel_put %c[%s, %p] {
      ^bb0(%full: !ngpu.buffer<1xi64, #one>):
        %to = ngpu.slot %ring[%s] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        ngpu.tma_load %map[%c0, %c0], %to, %full : !ngpu.buffer<64x64xf16, #b>, !ngpu.buffer<1xi64, #one>
      } : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %next, %turn : i32, i32
    }
    ngpu.part_yield
  }
  return
}

// -----

#b = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]], shape = [64, 64]>
#a = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0], [64, 0]], shape = [128, 64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a slot is given back while a product reads it}}
func.func @released_before_the_wait(%n: i32) attributes {tile.kernel, ngpu.num_warps = 8 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64x64xf16, #b>
  %c = ngpu.channel readers 8 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    ngpu.turn_start
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %x = arith.constant dense<0.0> : tensor<128x64xf16, #a>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32, #a>
    %none = ngpu.channel_none
    %sum, %slot, %phase, %last, %its = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %s = %c0, %p = %c0, %before = %none, %old = %c0)
        -> (tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32) : i32 {
      ngpu.turn_take
      %later = arith.cmpi ne, %i, %c0 : i32
      %flying = scf.if %later -> (tensor<128x64xf32, #a>) {
        %from = ngpu.slot %ring[%old] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        %r = ngpu.wgmma %x, %from, %acc async : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
        scf.yield %r : tensor<128x64xf32, #a>
      } else {
        scf.yield %acc : tensor<128x64xf32, #a>
      }
      ngpu.turn_pass
      %hold = ngpu.channel_get %c[%s, %p] : !ngpu.channel<2>
      ngpu.channel_release %c, %before : !ngpu.channel<2>
      %done = ngpu.wgmma_wait 0 for %flying : tensor<128x64xf32, #a> -> tensor<128x64xf32, #a>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %done, %next, %turn, %hold, %s : tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32
    }
    %any = arith.cmpi slt, %c0, %n : i32
    scf.if %any {
      %from = ngpu.slot %ring[%its] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
      %r = ngpu.wgmma %x, %from, %sum : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
    }
    ngpu.channel_release %c, %last : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %slot, %phase = scf.for %i = %c0 to %n step %c1 iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
      ngpu.channel_put %c[%s, %p] {
      ^bb0(%full: !ngpu.buffer<1xi64, #one>):
        %to = ngpu.slot %ring[%s] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        ngpu.tma_load %map[%c0, %c0], %to, %full : !ngpu.buffer<64x64xf16, #b>, !ngpu.buffer<1xi64, #one>
      } : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %next, %turn : i32, i32
    }
    ngpu.part_yield
  }
  return
}

// -----

#b = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]], shape = [64, 64]>
#a = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0], [64, 0]], shape = [128, 64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a slot is given back while a product reads it}}
func.func @waits_for_too_few(%n: i32) attributes {tile.kernel, ngpu.num_warps = 8 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64x64xf16, #b>
  %c = ngpu.channel readers 8 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    ngpu.turn_start
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %x = arith.constant dense<0.0> : tensor<128x64xf16, #a>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32, #a>
    %none = ngpu.channel_none
    %sum, %slot, %phase, %last, %its = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %s = %c0, %p = %c0, %before = %none, %old = %c0)
        -> (tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32) : i32 {
      ngpu.turn_take
      %later = arith.cmpi ne, %i, %c0 : i32
      %flying = scf.if %later -> (tensor<128x64xf32, #a>) {
        %from = ngpu.slot %ring[%old] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        %r = ngpu.wgmma %x, %from, %acc async : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
        scf.yield %r : tensor<128x64xf32, #a>
      } else {
        scf.yield %acc : tensor<128x64xf32, #a>
      }
      ngpu.turn_pass
      %hold = ngpu.channel_get %c[%s, %p] : !ngpu.channel<2>
      %done = ngpu.wgmma_wait 1 for %flying : tensor<128x64xf32, #a> -> tensor<128x64xf32, #a>
      ngpu.channel_release %c, %before : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %done, %next, %turn, %hold, %s : tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32
    }
    %any = arith.cmpi slt, %c0, %n : i32
    scf.if %any {
      %from = ngpu.slot %ring[%its] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
      %r = ngpu.wgmma %x, %from, %sum : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
    }
    ngpu.channel_release %c, %last : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %slot, %phase = scf.for %i = %c0 to %n step %c1 iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
      ngpu.channel_put %c[%s, %p] {
      ^bb0(%full: !ngpu.buffer<1xi64, #one>):
        %to = ngpu.slot %ring[%s] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        ngpu.tma_load %map[%c0, %c0], %to, %full : !ngpu.buffer<64x64xf16, #b>, !ngpu.buffer<1xi64, #one>
      } : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %next, %turn : i32, i32
    }
    ngpu.part_yield
  }
  return
}

// -----

#b = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]], shape = [64, 64]>
#a = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0], [64, 0]], shape = [128, 64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a slot is read before the first one is held}}
func.func @in_the_first_iteration(%n: i32) attributes {tile.kernel, ngpu.num_warps = 8 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64x64xf16, #b>
  %c = ngpu.channel readers 8 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    ngpu.turn_start
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %x = arith.constant dense<0.0> : tensor<128x64xf16, #a>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32, #a>
    %none = ngpu.channel_none
    %sum, %slot, %phase, %last, %its = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %s = %c0, %p = %c0, %before = %none, %old = %c0)
        -> (tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32) : i32 {
      ngpu.turn_take
      %later = arith.cmpi ne, %i, %c1 : i32
      %flying = scf.if %later -> (tensor<128x64xf32, #a>) {
        %from = ngpu.slot %ring[%old] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        %r = ngpu.wgmma %x, %from, %acc async : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
        scf.yield %r : tensor<128x64xf32, #a>
      } else {
        scf.yield %acc : tensor<128x64xf32, #a>
      }
      ngpu.turn_pass
      %hold = ngpu.channel_get %c[%s, %p] : !ngpu.channel<2>
      %done = ngpu.wgmma_wait 0 for %flying : tensor<128x64xf32, #a> -> tensor<128x64xf32, #a>
      ngpu.channel_release %c, %before : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %done, %next, %turn, %hold, %s : tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32
    }
    %any = arith.cmpi slt, %c0, %n : i32
    scf.if %any {
      %from = ngpu.slot %ring[%its] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
      %r = ngpu.wgmma %x, %from, %sum : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
    }
    ngpu.channel_release %c, %last : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %slot, %phase = scf.for %i = %c0 to %n step %c1 iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
      ngpu.channel_put %c[%s, %p] {
      ^bb0(%full: !ngpu.buffer<1xi64, #one>):
        %to = ngpu.slot %ring[%s] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        ngpu.tma_load %map[%c0, %c0], %to, %full : !ngpu.buffer<64x64xf16, #b>, !ngpu.buffer<1xi64, #one>
      } : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %next, %turn : i32, i32
    }
    ngpu.part_yield
  }
  return
}

// -----

#b = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]], shape = [64, 64]>
#a = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0], [64, 0]], shape = [128, 64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a slot is read before the first one is held}}
func.func @behind_a_loop_without_iterations(%n: i32) attributes {tile.kernel, ngpu.num_warps = 8 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64x64xf16, #b>
  %c = ngpu.channel readers 8 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    ngpu.turn_start
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %x = arith.constant dense<0.0> : tensor<128x64xf16, #a>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32, #a>
    %none = ngpu.channel_none
    %sum, %slot, %phase, %last, %its = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %s = %c0, %p = %c0, %before = %none, %old = %c0)
        -> (tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32) : i32 {
      ngpu.turn_take
      %later = arith.cmpi ne, %i, %c0 : i32
      %flying = scf.if %later -> (tensor<128x64xf32, #a>) {
        %from = ngpu.slot %ring[%old] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        %r = ngpu.wgmma %x, %from, %acc async : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
        scf.yield %r : tensor<128x64xf32, #a>
      } else {
        scf.yield %acc : tensor<128x64xf32, #a>
      }
      ngpu.turn_pass
      %hold = ngpu.channel_get %c[%s, %p] : !ngpu.channel<2>
      %done = ngpu.wgmma_wait 0 for %flying : tensor<128x64xf32, #a> -> tensor<128x64xf32, #a>
      ngpu.channel_release %c, %before : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %done, %next, %turn, %hold, %s : tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32
    }
    %any = arith.cmpi sle, %c0, %n : i32
    scf.if %any {
      %from = ngpu.slot %ring[%its] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
      %r = ngpu.wgmma %x, %from, %sum : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
    }
    ngpu.channel_release %c, %last : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %slot, %phase = scf.for %i = %c0 to %n step %c1 iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
      ngpu.channel_put %c[%s, %p] {
      ^bb0(%full: !ngpu.buffer<1xi64, #one>):
        %to = ngpu.slot %ring[%s] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        ngpu.tma_load %map[%c0, %c0], %to, %full : !ngpu.buffer<64x64xf16, #b>, !ngpu.buffer<1xi64, #one>
      } : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %next, %turn : i32, i32
    }
    ngpu.part_yield
  }
  return
}

// -----

#b = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]], shape = [64, 64]>
#a = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0], [64, 0]], shape = [128, 64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a slot is read that is not held}}
func.func @another_slot(%n: i32) attributes {tile.kernel, ngpu.num_warps = 8 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64x64xf16, #b>
  %c = ngpu.channel readers 8 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    ngpu.turn_start
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %x = arith.constant dense<0.0> : tensor<128x64xf16, #a>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32, #a>
    %none = ngpu.channel_none
    %sum, %slot, %phase, %last, %its = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %s = %c0, %p = %c0, %before = %none, %old = %c0)
        -> (tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32) : i32 {
      ngpu.turn_take
      %later = arith.cmpi ne, %i, %c0 : i32
      %flying = scf.if %later -> (tensor<128x64xf32, #a>) {
        %from = ngpu.slot %ring[%s] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        %r = ngpu.wgmma %x, %from, %acc async : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
        scf.yield %r : tensor<128x64xf32, #a>
      } else {
        scf.yield %acc : tensor<128x64xf32, #a>
      }
      ngpu.turn_pass
      %hold = ngpu.channel_get %c[%s, %p] : !ngpu.channel<2>
      %done = ngpu.wgmma_wait 0 for %flying : tensor<128x64xf32, #a> -> tensor<128x64xf32, #a>
      ngpu.channel_release %c, %before : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %done, %next, %turn, %hold, %s : tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32
    }
    %any = arith.cmpi slt, %c0, %n : i32
    scf.if %any {
      %from = ngpu.slot %ring[%its] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
      %r = ngpu.wgmma %x, %from, %sum : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
    }
    ngpu.channel_release %c, %last : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %slot, %phase = scf.for %i = %c0 to %n step %c1 iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
      ngpu.channel_put %c[%s, %p] {
      ^bb0(%full: !ngpu.buffer<1xi64, #one>):
        %to = ngpu.slot %ring[%s] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        ngpu.tma_load %map[%c0, %c0], %to, %full : !ngpu.buffer<64x64xf16, #b>, !ngpu.buffer<1xi64, #one>
      } : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %next, %turn : i32, i32
    }
    ngpu.part_yield
  }
  return
}

// -----

#b = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]], shape = [64, 64]>
#a = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0], [64, 0]], shape = [128, 64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a slot is read that is not held}}
func.func @given_back_before(%n: i32) attributes {tile.kernel, ngpu.num_warps = 8 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64x64xf16, #b>
  %c = ngpu.channel readers 8 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    ngpu.turn_start
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %x = arith.constant dense<0.0> : tensor<128x64xf16, #a>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32, #a>
    %none = ngpu.channel_none
    %sum, %slot, %phase, %last, %its = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %s = %c0, %p = %c0, %before = %none, %old = %c0)
        -> (tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32) : i32 {
      ngpu.turn_take
      %later = arith.cmpi ne, %i, %c0 : i32
      %flying = scf.if %later -> (tensor<128x64xf32, #a>) {
        %from = ngpu.slot %ring[%old] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        %r = ngpu.wgmma %x, %from, %acc async : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
        scf.yield %r : tensor<128x64xf32, #a>
      } else {
        scf.yield %acc : tensor<128x64xf32, #a>
      }
      ngpu.turn_pass
      %hold = ngpu.channel_get %c[%s, %p] : !ngpu.channel<2>
      %done = ngpu.wgmma_wait 0 for %flying : tensor<128x64xf32, #a> -> tensor<128x64xf32, #a>
      ngpu.channel_release %c, %before : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %done, %next, %turn, %hold, %s : tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32
    }
    ngpu.channel_release %c, %last : !ngpu.channel<2>
    %any = arith.cmpi slt, %c0, %n : i32
    scf.if %any {
      %from = ngpu.slot %ring[%its] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
      %r = ngpu.wgmma %x, %from, %sum : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
    }
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %slot, %phase = scf.for %i = %c0 to %n step %c1 iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
      ngpu.channel_put %c[%s, %p] {
      ^bb0(%full: !ngpu.buffer<1xi64, #one>):
        %to = ngpu.slot %ring[%s] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        ngpu.tma_load %map[%c0, %c0], %to, %full : !ngpu.buffer<64x64xf16, #b>, !ngpu.buffer<1xi64, #one>
      } : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %next, %turn : i32, i32
    }
    ngpu.part_yield
  }
  return
}

// -----

#b = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]], shape = [64, 64]>
#a = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0], [64, 0]], shape = [128, 64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a slot is waited for within a turn}}
func.func @turn_over_a_wait(%n: i32) attributes {tile.kernel, ngpu.num_warps = 8 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64x64xf16, #b>
  %c = ngpu.channel readers 8 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    ngpu.turn_start
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %x = arith.constant dense<0.0> : tensor<128x64xf16, #a>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32, #a>
    %none = ngpu.channel_none
    %sum, %slot, %phase, %last, %its = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %s = %c0, %p = %c0, %before = %none, %old = %c0)
        -> (tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32) : i32 {
      ngpu.turn_take
      %later = arith.cmpi ne, %i, %c0 : i32
      %flying = scf.if %later -> (tensor<128x64xf32, #a>) {
        %from = ngpu.slot %ring[%old] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        %r = ngpu.wgmma %x, %from, %acc async : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
        scf.yield %r : tensor<128x64xf32, #a>
      } else {
        scf.yield %acc : tensor<128x64xf32, #a>
      }
      %hold = ngpu.channel_get %c[%s, %p] : !ngpu.channel<2>
      ngpu.turn_pass
      %done = ngpu.wgmma_wait 0 for %flying : tensor<128x64xf32, #a> -> tensor<128x64xf32, #a>
      ngpu.channel_release %c, %before : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %done, %next, %turn, %hold, %s : tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32
    }
    %any = arith.cmpi slt, %c0, %n : i32
    scf.if %any {
      %from = ngpu.slot %ring[%its] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
      %r = ngpu.wgmma %x, %from, %sum : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
    }
    ngpu.channel_release %c, %last : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %slot, %phase = scf.for %i = %c0 to %n step %c1 iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
      ngpu.channel_put %c[%s, %p] {
      ^bb0(%full: !ngpu.buffer<1xi64, #one>):
        %to = ngpu.slot %ring[%s] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        ngpu.tma_load %map[%c0, %c0], %to, %full : !ngpu.buffer<64x64xf16, #b>, !ngpu.buffer<1xi64, #one>
      } : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %next, %turn : i32, i32
    }
    ngpu.part_yield
  }
  return
}

// -----

#b = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]], shape = [64, 64]>
#a = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0], [64, 0]], shape = [128, 64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: warps wait for one another within a turn}}
func.func @turn_over_a_barrier(%n: i32) attributes {tile.kernel, ngpu.num_warps = 8 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64x64xf16, #b>
  %c = ngpu.channel readers 8 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    ngpu.turn_start
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %x = arith.constant dense<0.0> : tensor<128x64xf16, #a>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32, #a>
    %none = ngpu.channel_none
    %sum, %slot, %phase, %last, %its = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %s = %c0, %p = %c0, %before = %none, %old = %c0)
        -> (tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32) : i32 {
      ngpu.turn_take
      %later = arith.cmpi ne, %i, %c0 : i32
      %flying = scf.if %later -> (tensor<128x64xf32, #a>) {
        %from = ngpu.slot %ring[%old] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        %r = ngpu.wgmma %x, %from, %acc async : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
        scf.yield %r : tensor<128x64xf32, #a>
      } else {
        scf.yield %acc : tensor<128x64xf32, #a>
      }
      ngpu.barrier
      ngpu.turn_pass
      %hold = ngpu.channel_get %c[%s, %p] : !ngpu.channel<2>
      %done = ngpu.wgmma_wait 0 for %flying : tensor<128x64xf32, #a> -> tensor<128x64xf32, #a>
      ngpu.channel_release %c, %before : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %done, %next, %turn, %hold, %s : tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32
    }
    %any = arith.cmpi slt, %c0, %n : i32
    scf.if %any {
      %from = ngpu.slot %ring[%its] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
      %r = ngpu.wgmma %x, %from, %sum : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
    }
    ngpu.channel_release %c, %last : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %slot, %phase = scf.for %i = %c0 to %n step %c1 iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
      ngpu.channel_put %c[%s, %p] {
      ^bb0(%full: !ngpu.buffer<1xi64, #one>):
        %to = ngpu.slot %ring[%s] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        ngpu.tma_load %map[%c0, %c0], %to, %full : !ngpu.buffer<64x64xf16, #b>, !ngpu.buffer<1xi64, #one>
      } : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %next, %turn : i32, i32
    }
    ngpu.part_yield
  }
  return
}

// -----

#b = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]], shape = [64, 64]>
#a = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0], [64, 0]], shape = [128, 64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a turn does not end within the iteration}}
func.func @turn_kept(%n: i32) attributes {tile.kernel, ngpu.num_warps = 8 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64x64xf16, #b>
  %c = ngpu.channel readers 8 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    ngpu.turn_start
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %x = arith.constant dense<0.0> : tensor<128x64xf16, #a>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32, #a>
    %none = ngpu.channel_none
    %sum, %slot, %phase, %last, %its = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %s = %c0, %p = %c0, %before = %none, %old = %c0)
        -> (tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32) : i32 {
      %later = arith.cmpi ne, %i, %c0 : i32
      %flying = scf.if %later -> (tensor<128x64xf32, #a>) {
        %from = ngpu.slot %ring[%old] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        %r = ngpu.wgmma %x, %from, %acc async : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
        scf.yield %r : tensor<128x64xf32, #a>
      } else {
        scf.yield %acc : tensor<128x64xf32, #a>
      }
      %hold = ngpu.channel_get %c[%s, %p] : !ngpu.channel<2>
      %done = ngpu.wgmma_wait 0 for %flying : tensor<128x64xf32, #a> -> tensor<128x64xf32, #a>
      ngpu.channel_release %c, %before : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      ngpu.turn_take
      scf.yield %done, %next, %turn, %hold, %s : tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32
    }
    %any = arith.cmpi slt, %c0, %n : i32
    scf.if %any {
      %from = ngpu.slot %ring[%its] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
      %r = ngpu.wgmma %x, %from, %sum : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
    }
    ngpu.channel_release %c, %last : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %slot, %phase = scf.for %i = %c0 to %n step %c1 iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
      ngpu.channel_put %c[%s, %p] {
      ^bb0(%full: !ngpu.buffer<1xi64, #one>):
        %to = ngpu.slot %ring[%s] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        ngpu.tma_load %map[%c0, %c0], %to, %full : !ngpu.buffer<64x64xf16, #b>, !ngpu.buffer<1xi64, #one>
      } : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %next, %turn : i32, i32
    }
    ngpu.part_yield
  }
  return
}

// -----

#b = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]], shape = [64, 64]>
#a = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0], [64, 0]], shape = [128, 64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a turn is passed on that was not taken}}
func.func @turn_not_taken(%n: i32) attributes {tile.kernel, ngpu.num_warps = 8 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64x64xf16, #b>
  %c = ngpu.channel readers 8 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    ngpu.turn_start
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %x = arith.constant dense<0.0> : tensor<128x64xf16, #a>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32, #a>
    %none = ngpu.channel_none
    %sum, %slot, %phase, %last, %its = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %s = %c0, %p = %c0, %before = %none, %old = %c0)
        -> (tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32) : i32 {
      %later = arith.cmpi ne, %i, %c0 : i32
      %flying = scf.if %later -> (tensor<128x64xf32, #a>) {
        %from = ngpu.slot %ring[%old] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        %r = ngpu.wgmma %x, %from, %acc async : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
        scf.yield %r : tensor<128x64xf32, #a>
      } else {
        scf.yield %acc : tensor<128x64xf32, #a>
      }
      ngpu.turn_pass
      %hold = ngpu.channel_get %c[%s, %p] : !ngpu.channel<2>
      %done = ngpu.wgmma_wait 0 for %flying : tensor<128x64xf32, #a> -> tensor<128x64xf32, #a>
      ngpu.channel_release %c, %before : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %done, %next, %turn, %hold, %s : tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32
    }
    %any = arith.cmpi slt, %c0, %n : i32
    scf.if %any {
      %from = ngpu.slot %ring[%its] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
      %r = ngpu.wgmma %x, %from, %sum : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
    }
    ngpu.channel_release %c, %last : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %slot, %phase = scf.for %i = %c0 to %n step %c1 iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
      ngpu.channel_put %c[%s, %p] {
      ^bb0(%full: !ngpu.buffer<1xi64, #one>):
        %to = ngpu.slot %ring[%s] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        ngpu.tma_load %map[%c0, %c0], %to, %full : !ngpu.buffer<64x64xf16, #b>, !ngpu.buffer<1xi64, #one>
      } : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %next, %turn : i32, i32
    }
    ngpu.part_yield
  }
  return
}

// -----

#b = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]], shape = [64, 64]>
#a = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0], [64, 0]], shape = [128, 64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a turn is passed on in one branch only}}
func.func @turn_in_a_branch(%n: i32) attributes {tile.kernel, ngpu.num_warps = 8 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64x64xf16, #b>
  %c = ngpu.channel readers 8 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    ngpu.turn_start
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %x = arith.constant dense<0.0> : tensor<128x64xf16, #a>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32, #a>
    %none = ngpu.channel_none
    %sum, %slot, %phase, %last, %its = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %s = %c0, %p = %c0, %before = %none, %old = %c0)
        -> (tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32) : i32 {
      ngpu.turn_take
      %later = arith.cmpi ne, %i, %c0 : i32
      %flying = scf.if %later -> (tensor<128x64xf32, #a>) {
        ngpu.turn_pass
        %from = ngpu.slot %ring[%old] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        %r = ngpu.wgmma %x, %from, %acc async : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
        scf.yield %r : tensor<128x64xf32, #a>
      } else {
        scf.yield %acc : tensor<128x64xf32, #a>
      }
      %hold = ngpu.channel_get %c[%s, %p] : !ngpu.channel<2>
      %done = ngpu.wgmma_wait 0 for %flying : tensor<128x64xf32, #a> -> tensor<128x64xf32, #a>
      ngpu.channel_release %c, %before : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %done, %next, %turn, %hold, %s : tensor<128x64xf32, #a>, i32, i32, !ngpu.hold, i32
    }
    %any = arith.cmpi slt, %c0, %n : i32
    scf.if %any {
      %from = ngpu.slot %ring[%its] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
      %r = ngpu.wgmma %x, %from, %sum : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
    }
    ngpu.channel_release %c, %last : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %slot, %phase = scf.for %i = %c0 to %n step %c1 iter_args(%s = %c0, %p = %c0) -> (i32, i32) : i32 {
      ngpu.channel_put %c[%s, %p] {
      ^bb0(%full: !ngpu.buffer<1xi64, #one>):
        %to = ngpu.slot %ring[%s] : !ngpu.buffer<2x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        ngpu.tma_load %map[%c0, %c0], %to, %full : !ngpu.buffer<64x64xf16, #b>, !ngpu.buffer<1xi64, #one>
      } : !ngpu.channel<2>
      %next = arith.xori %s, %c1 : i32
      %turn = arith.xori %p, %s : i32
      scf.yield %next, %turn : i32, i32
    }
    ngpu.part_yield
  }
  return
}

// -----

#b = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]], shape = [64, 64]>
#a = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0], [64, 0]], shape = [128, 64]>
#one = #ngpu.layout<shape = [1]>

// A slot that is held over a loop: its number comes from outside.
func.func @held_over_a_loop(%n: i32) attributes {tile.kernel, ngpu.num_warps = 8 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<1x64x64xf16, #b>
  %c = ngpu.channel readers 8 : !ngpu.channel<1>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %x = arith.constant dense<0.0> : tensor<128x64xf16, #a>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32, #a>
    %turns = scf.for %program = %c0 to %n step %c1 iter_args(%p = %c0) -> (i32) : i32 {
      %hold = ngpu.channel_get %c[%c0, %p] : !ngpu.channel<1>
      %sum, %k = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %k = %c0) -> (tensor<128x64xf32, #a>, i32) : i32 {
        %from = ngpu.slot %ring[%c0] : !ngpu.buffer<1x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        %r = ngpu.wgmma %x, %from, %acc : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
        %next = arith.addi %k, %c1 : i32
        scf.yield %r, %next : tensor<128x64xf32, #a>, i32
      }
      ngpu.channel_release %c, %hold : !ngpu.channel<1>
      %turn = arith.xori %p, %c1 : i32
      scf.yield %turn : i32
    }
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %turns = scf.for %program = %c0 to %n step %c1 iter_args(%p = %c0) -> (i32) : i32 {
      ngpu.channel_put %c[%c0, %p] {
      ^bb0(%full: !ngpu.buffer<1xi64, #one>):
        %to = ngpu.slot %ring[%c0] : !ngpu.buffer<1x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        ngpu.tma_load %map[%c0, %c0], %to, %full : !ngpu.buffer<64x64xf16, #b>, !ngpu.buffer<1xi64, #one>
      } : !ngpu.channel<1>
      %turn = arith.xori %p, %c1 : i32
      scf.yield %turn : i32
    }
    ngpu.part_yield
  }
  return
}

// -----

#b = #ngpu.layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]], shape = [64, 64]>
#a = #ngpu.layout<register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0], [64, 0]], shape = [128, 64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a slot is read that is not held}}
func.func @given_back_in_front_of_the_loop(%n: i32) attributes {tile.kernel, ngpu.num_warps = 8 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<1x64x64xf16, #b>
  %c = ngpu.channel readers 8 : !ngpu.channel<1>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %x = arith.constant dense<0.0> : tensor<128x64xf16, #a>
    %zero = arith.constant dense<0.0> : tensor<128x64xf32, #a>
    %turns = scf.for %program = %c0 to %n step %c1 iter_args(%p = %c0) -> (i32) : i32 {
      %hold = ngpu.channel_get %c[%c0, %p] : !ngpu.channel<1>
      ngpu.channel_release %c, %hold : !ngpu.channel<1>
      %sum, %k = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %k = %c0) -> (tensor<128x64xf32, #a>, i32) : i32 {
        %from = ngpu.slot %ring[%c0] : !ngpu.buffer<1x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        %r = ngpu.wgmma %x, %from, %acc : tensor<128x64xf16, #a>, !ngpu.buffer<64x64xf16, #b> -> tensor<128x64xf32, #a>
        %next = arith.addi %k, %c1 : i32
        scf.yield %r, %next : tensor<128x64xf32, #a>, i32
      }
      %turn = arith.xori %p, %c1 : i32
      scf.yield %turn : i32
    }
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %turns = scf.for %program = %c0 to %n step %c1 iter_args(%p = %c0) -> (i32) : i32 {
      ngpu.channel_put %c[%c0, %p] {
      ^bb0(%full: !ngpu.buffer<1xi64, #one>):
        %to = ngpu.slot %ring[%c0] : !ngpu.buffer<1x64x64xf16, #b> -> !ngpu.buffer<64x64xf16, #b>
        ngpu.tma_load %map[%c0, %c0], %to, %full : !ngpu.buffer<64x64xf16, #b>, !ngpu.buffer<1xi64, #one>
      } : !ngpu.channel<1>
      %turn = arith.xori %p, %c1 : i32
      scf.yield %turn : i32
    }
    ngpu.part_yield
  }
  return
}
