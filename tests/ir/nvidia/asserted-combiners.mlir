// Assertions in combiners, as debug mode puts them into sums: tested in every thread whose result is used.
// RUN: nereid-opt --split-input-file --emit-nvidia %s -o /dev/null | FileCheck %s

#row = #ngpu.layout<lane = [[1], [2], [4], [8], [16]], warp = [[0]], shape = [32]>

// Not only in the first thread, and not by the instruction that reduces a warp, which asserts nothing.
// CHECK-LABEL: define ptx_kernel void @sum(
// CHECK-NOT: redux
// CHECK: %[[FITS:[0-9]+]] = icmp sge i32
// CHECK-NEXT: %[[FAILS:[0-9]+]] = xor i1 %[[FITS]], true
// CHECK-NEXT: br i1 %[[FAILS]]
// CHECK: call void @__assertfail(
// CHECK-NOT: redux
func.func @sum(%out: !tile.ptr<i32>, %n: i32) attributes {tile.kernel, ngpu.num_warps = 2 : i32, ngpu.sm = 90 : i32} {
  %x = tile.range 0 to 32 : tensor<32xi32, #row>
  %sum = tile.reduce(%x) axis 0 {
  ^bb0(%a: i32, %b: i32):
    %both = arith.addi %a, %b : i32
    %fits = arith.cmpi sge, %both, %a : i32
    tile.assert %fits, "it does not fit" : i1
    tile.yield %both : i32
  } : (tensor<32xi32, #row>) -> i32
  tile.store %out, %sum : !tile.ptr<i32>, i32
  return
}

// -----

#row = #ngpu.layout<lane = [[1], [2], [4], [8], [16]], warp = [[0]], shape = [32]>

// In front of a block comes what the block before sums up to: only threads on the right take it, and only from the second round on
// is it combined with what they have, where they have any.
// CHECK-LABEL: define ptx_kernel void @scan(
// CHECK: call void @__assertfail(
// CHECK: %[[COUNTS:[0-9]+]] = and i1 %
// CHECK: %[[FITS:[0-9]+]] = icmp sge i32
// CHECK-NEXT: %[[FAILS:[0-9]+]] = xor i1 %[[FITS]], true
// CHECK-NEXT: %[[STOPS:[0-9]+]] = and i1 %[[FAILS]], %[[COUNTS]]
// CHECK-NEXT: br i1 %[[STOPS]]
func.func @scan(%out: !tile.ptr<i32>) attributes {tile.kernel, ngpu.num_warps = 2 : i32, ngpu.sm = 90 : i32} {
  %x = tile.range 0 to 32 : tensor<32xi32, #row>
  %scan = tile.scan(%x) axis 0 {
  ^bb0(%a: i32, %b: i32):
    %both = arith.addi %a, %b : i32
    %fits = arith.cmpi sge, %both, %a : i32
    tile.assert %fits, "it does not fit" : i1
    tile.yield %both : i32
  } : (tensor<32xi32, #row>) -> tensor<32xi32, #row>
  %base = tile.splat %out : !tile.ptr<i32> -> tensor<32x!tile.ptr<i32>, #row>
  %to = tile.addptr %base, %x : tensor<32x!tile.ptr<i32>, #row>, tensor<32xi32, #row>
  tile.store %to, %scan : tensor<32x!tile.ptr<i32>, #row>, tensor<32xi32, #row>
  return
}
