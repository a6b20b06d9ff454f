// What must hold of channels, so that no warp waits for ever and nothing is overwritten while it is read.
// RUN: nereid-opt %s --gpu-lower-channels --split-input-file --verify-diagnostics

#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a hold is not given back exactly once on every path}}
func.func @kept(%n: i32, %m: i32, %some: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  %c = ngpu.channel readers 4 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %hold = ngpu.channel_get %c[%c0, %c0] : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    ngpu.channel_put %c[%c0, %c0] {
    ^bb0(%full: !ngpu.buffer<1xi64, #one>):
      %to = ngpu.slot %ring[%c0] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
      ngpu.tma_load %map[%c0], %to, %full : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
    } : !ngpu.channel<2>
    ngpu.part_yield
  }
  return
}

// -----

#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a hold is not given back exactly once on every path}}
func.func @twice(%n: i32, %m: i32, %some: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  %c = ngpu.channel readers 4 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %hold = ngpu.channel_get %c[%c0, %c0] : !ngpu.channel<2>
    ngpu.channel_release %c, %hold : !ngpu.channel<2>
    ngpu.channel_release %c, %hold : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    ngpu.channel_put %c[%c0, %c0] {
    ^bb0(%full: !ngpu.buffer<1xi64, #one>):
      %to = ngpu.slot %ring[%c0] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
      ngpu.tma_load %map[%c0], %to, %full : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
    } : !ngpu.channel<2>
    ngpu.part_yield
  }
  return
}

// -----

#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a hold is not given back exactly once on every path}}
func.func @sometimes(%n: i32, %m: i32, %some: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  %c = ngpu.channel readers 4 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %hold = ngpu.channel_get %c[%c0, %c0] : !ngpu.channel<2>
    scf.if %some {
    ngpu.channel_release %c, %hold : !ngpu.channel<2>
    }
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    ngpu.channel_put %c[%c0, %c0] {
    ^bb0(%full: !ngpu.buffer<1xi64, #one>):
      %to = ngpu.slot %ring[%c0] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
      ngpu.tma_load %map[%c0], %to, %full : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
    } : !ngpu.channel<2>
    ngpu.part_yield
  }
  return
}

// -----

#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a hold is not given back exactly once on every path}}
func.func @in_a_loop(%n: i32, %m: i32, %some: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  %c = ngpu.channel readers 4 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %hold = ngpu.channel_get %c[%c0, %c0] : !ngpu.channel<2>
    scf.for %i = %c0 to %n step %c1 : i32 {
    ngpu.channel_release %c, %hold : !ngpu.channel<2>
    }
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    ngpu.channel_put %c[%c0, %c0] {
    ^bb0(%full: !ngpu.buffer<1xi64, #one>):
      %to = ngpu.slot %ring[%c0] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
      ngpu.tma_load %map[%c0], %to, %full : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
    } : !ngpu.channel<2>
    ngpu.part_yield
  }
  return
}

// -----

#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a channel has no writer}}
func.func @nobody_fills(%n: i32, %m: i32, %some: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  %c = ngpu.channel readers 4 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %hold = ngpu.channel_get %c[%c0, %c0] : !ngpu.channel<2>
    ngpu.channel_release %c, %hold : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    ngpu.part_yield
  }
  return
}

// -----

#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a channel has no reader}}
func.func @nobody_reads(%n: i32, %m: i32, %some: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  %c = ngpu.channel readers 4 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    ngpu.channel_put %c[%c0, %c0] {
    ^bb0(%full: !ngpu.buffer<1xi64, #one>):
      %to = ngpu.slot %ring[%c0] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
      ngpu.tma_load %map[%c0], %to, %full : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
    } : !ngpu.channel<2>
    ngpu.part_yield
  }
  return
}

// -----

#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: writers and readers of a channel do not run equally often}}
func.func @other_bounds(%n: i32, %m: i32, %some: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  %c = ngpu.channel readers 4 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1 : i32 {
    %hold = ngpu.channel_get %c[%c0, %c0] : !ngpu.channel<2>
    ngpu.channel_release %c, %hold : !ngpu.channel<2>
    }
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %m step %c1 : i32 {
    ngpu.channel_put %c[%c0, %c0] {
    ^bb0(%full: !ngpu.buffer<1xi64, #one>):
      %to = ngpu.slot %ring[%c0] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
      ngpu.tma_load %map[%c0], %to, %full : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
    } : !ngpu.channel<2>
    }
    ngpu.part_yield
  }
  return
}

// -----

#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: writers and readers of a channel do not run equally often}}
func.func @only_sometimes(%n: i32, %m: i32, %some: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  %c = ngpu.channel readers 4 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1 : i32 {
    %hold = ngpu.channel_get %c[%c0, %c0] : !ngpu.channel<2>
    ngpu.channel_release %c, %hold : !ngpu.channel<2>
    }
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1 : i32 {
    scf.if %some {
    ngpu.channel_put %c[%c0, %c0] {
    ^bb0(%full: !ngpu.buffer<1xi64, #one>):
      %to = ngpu.slot %ring[%c0] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
      ngpu.tma_load %map[%c0], %to, %full : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
    } : !ngpu.channel<2>
    }
    }
    ngpu.part_yield
  }
  return
}

// -----

#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: the two sides of a channel count its slots differently}}
func.func @other_slots(%n: i32, %m: i32, %some: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  %c = ngpu.channel readers 4 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %hold = ngpu.channel_get %c[%c0, %c0] : !ngpu.channel<2>
    ngpu.channel_release %c, %hold : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    ngpu.channel_put %c[%c1, %c0] {
    ^bb0(%full: !ngpu.buffer<1xi64, #one>):
      %to = ngpu.slot %ring[%c1] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
      ngpu.tma_load %map[%c1], %to, %full : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
    } : !ngpu.channel<2>
    ngpu.part_yield
  }
  return
}

// -----

#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: the two sides of a channel count its slots differently}}
func.func @other_phases(%n: i32, %m: i32, %some: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  %c = ngpu.channel readers 4 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %hold = ngpu.channel_get %c[%c0, %c0] : !ngpu.channel<2>
    ngpu.channel_release %c, %hold : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    ngpu.channel_put %c[%c0, %c1] {
    ^bb0(%full: !ngpu.buffer<1xi64, #one>):
      %to = ngpu.slot %ring[%c0] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
      ngpu.tma_load %map[%c0], %to, %full : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
    } : !ngpu.channel<2>
    ngpu.part_yield
  }
  return
}

// -----

#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: the warps that read a channel are not those that it expects}}
func.func @other_warps(%n: i32, %m: i32, %some: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  %c = ngpu.channel readers 8 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %hold = ngpu.channel_get %c[%c0, %c0] : !ngpu.channel<2>
    ngpu.channel_release %c, %hold : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    ngpu.channel_put %c[%c0, %c0] {
    ^bb0(%full: !ngpu.buffer<1xi64, #one>):
      %to = ngpu.slot %ring[%c0] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
      ngpu.tma_load %map[%c0], %to, %full : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
    } : !ngpu.channel<2>
    ngpu.part_yield
  }
  return
}

// -----

#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a channel is filled and read at different numbers of places}}
func.func @two_puts(%n: i32, %m: i32, %some: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  %c = ngpu.channel readers 4 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %hold = ngpu.channel_get %c[%c0, %c0] : !ngpu.channel<2>
    ngpu.channel_release %c, %hold : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    ngpu.channel_put %c[%c0, %c0] {
    ^bb0(%full: !ngpu.buffer<1xi64, #one>):
      %to = ngpu.slot %ring[%c0] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
      ngpu.tma_load %map[%c0], %to, %full : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
    } : !ngpu.channel<2>
    ngpu.channel_put %c[%c0, %c0] {
    ^bb0(%full: !ngpu.buffer<1xi64, #one>):
      %to = ngpu.slot %ring[%c0] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
      ngpu.tma_load %map[%c0], %to, %full : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
    } : !ngpu.channel<2>
    ngpu.part_yield
  }
  return
}

// -----

// The nearest that is right.
#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>

func.func @on_both_paths(%n: i32, %m: i32, %some: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  %c = ngpu.channel readers 4 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %hold = ngpu.channel_get %c[%c0, %c0] : !ngpu.channel<2>
    scf.if %some {
    ngpu.channel_release %c, %hold : !ngpu.channel<2>
    } else {
    ngpu.channel_release %c, %hold : !ngpu.channel<2>
    }
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    ngpu.channel_put %c[%c0, %c0] {
    ^bb0(%full: !ngpu.buffer<1xi64, #one>):
      %to = ngpu.slot %ring[%c0] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
      ngpu.tma_load %map[%c0], %to, %full : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
    } : !ngpu.channel<2>
    ngpu.part_yield
  }
  return
}

// -----

#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: the sides of a paired channel differ in whether the other block is there}}
func.func @beside_differs(%some: i1, %other: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32, ngpu.pairs = 1 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  %c = ngpu.channel readers 4 paired : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %hold = ngpu.channel_get %c[%c0, %c0] : !ngpu.channel<2>
    ngpu.channel_release %c, %hold beside %other : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    ngpu.channel_put %c[%c0, %c0] beside %some {
    ^bb0(%full: !ngpu.buffer<1xi64, #one>):
      %to = ngpu.slot %ring[%c0] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
      ngpu.tma_load %map[%c0], %to, %full : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
    } : !ngpu.channel<2>
    ngpu.part_yield
  }
  return
}

// -----

#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a paired channel has one place where it is filled, and says there and at every release whether the other block is there, too}}
func.func @beside_missing(%some: i1, %other: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32, ngpu.pairs = 1 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  %c = ngpu.channel readers 4 paired : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %hold = ngpu.channel_get %c[%c0, %c0] : !ngpu.channel<2>
    ngpu.channel_release %c, %hold : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    ngpu.channel_put %c[%c0, %c0] beside %some {
    ^bb0(%full: !ngpu.buffer<1xi64, #one>):
      %to = ngpu.slot %ring[%c0] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
      ngpu.tma_load %map[%c0], %to, %full : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
    } : !ngpu.channel<2>
    ngpu.part_yield
  }
  return
}

// -----

#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a paired channel has one place where it is filled, and says there and at every release whether the other block is there, too}}
func.func @beside_missing_at_put(%some: i1, %other: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32, ngpu.pairs = 1 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  %c = ngpu.channel readers 4 paired : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %hold = ngpu.channel_get %c[%c0, %c0] : !ngpu.channel<2>
    ngpu.channel_release %c, %hold beside %some : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    ngpu.channel_put %c[%c0, %c0] {
    ^bb0(%full: !ngpu.buffer<1xi64, #one>):
      %to = ngpu.slot %ring[%c0] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
      ngpu.tma_load %map[%c0], %to, %full : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
    } : !ngpu.channel<2>
    ngpu.part_yield
  }
  return
}

// -----

#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>

// expected-error @below {{internal error: channels: a channel of one block waits for another block}}
func.func @beside_alone(%some: i1, %other: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32, ngpu.pairs = 1 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  %c = ngpu.channel readers 4 : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %hold = ngpu.channel_get %c[%c0, %c0] : !ngpu.channel<2>
    ngpu.channel_release %c, %hold beside %some : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    ngpu.channel_put %c[%c0, %c0] {
    ^bb0(%full: !ngpu.buffer<1xi64, #one>):
      %to = ngpu.slot %ring[%c0] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
      ngpu.tma_load %map[%c0], %to, %full : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
    } : !ngpu.channel<2>
    ngpu.part_yield
  }
  return
}

// -----

#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32]], shape = [64]>
#one = #ngpu.layout<shape = [1]>

// The nearest that is right.
func.func @paired(%some: i1, %other: i1) attributes {tile.kernel, ngpu.num_warps = 4 : i32, ngpu.pairs = 1 : i32} {
  %ring = ngpu.local_alloc !ngpu.buffer<2x64xf32, #m>
  %c = ngpu.channel readers 4 paired : !ngpu.channel<2>
  ngpu.warp_specialize warps [1] registers [0, 0] {
    %c0 = arith.constant 0 : i32
    %hold = ngpu.channel_get %c[%c0, %c0] : !ngpu.channel<2>
    ngpu.channel_release %c, %hold beside %some : !ngpu.channel<2>
    ngpu.part_yield
  }, {
    %map = ngpu.tensor_map 0
    %c0 = arith.constant 0 : i32
    ngpu.channel_put %c[%c0, %c0] beside %some {
    ^bb0(%full: !ngpu.buffer<1xi64, #one>):
      %to = ngpu.slot %ring[%c0] : !ngpu.buffer<2x64xf32, #m> -> !ngpu.buffer<64xf32, #m>
      ngpu.tma_load %map[%c0], %to, %full : !ngpu.buffer<64xf32, #m>, !ngpu.buffer<1xi64, #one>
    } : !ngpu.channel<2>
    ngpu.part_yield
  }
  return
}
