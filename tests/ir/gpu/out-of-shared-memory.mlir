// RUN: nereid-opt --gpu-allocate-shared --verify-diagnostics %s

#t = #ngpu.layout<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]], shape = [512]>
#m = #ngpu.layout<offset = [[1], [2], [4], [8], [16], [32], [64], [128], [256]], shape = [512]>

// expected-error @+1 {{out of shared memory: the kernel needs 264192 bytes a block, the device has 232448; most of it: 262144 bytes for a buffer of 128x512 f32 (line 11), 2048 bytes for a buffer of 512 f32 (line 10); smaller block sizes or fewer `num_stages` need less}}
func.func @big(%x: tensor<512xf32, #t>) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  // The ring is alive with the other.
  %one = ngpu.local_alloc %x : tensor<512xf32, #t> -> !ngpu.buffer<512xf32, #m>
  %ring = ngpu.local_alloc !ngpu.buffer<128x512xf32, #m>
  %slot = ngpu.slot %ring[%c0] : !ngpu.buffer<128x512xf32, #m> -> !ngpu.buffer<512xf32, #m>
  %0 = ngpu.local_load %one : !ngpu.buffer<512xf32, #m> -> tensor<512xf32, #t>
  ngpu.local_store %0, %slot : tensor<512xf32, #t>, !ngpu.buffer<512xf32, #m>
  return
}
