// RUN: nereid-opt --emit-nvidia %s -o /dev/null | FileCheck %s
// RUN: nereid-opt --emit-nvidia="stage=check" %s -o /dev/null | FileCheck %s --check-prefix=SASS
// SASS: assembled: 0 bytes of spills

#line = #ngpu.layout<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[0]], shape = [64]>

// CHECK-DAG: c"pid (%u, %u, %u) idx (%2u) x: (operand 0) %d\0A\00"
// CHECK-DAG: c"pid (%u, %u, %u) idx () x: (operand 1) 0x%04x\0A\00"
// CHECK-DAG: c"pid (%u, %u, %u) 100%% done\0A\00"
// CHECK-DAG: c"below the limit\00"
// CHECK-DAG: c"this access is outside the memory of `x`\00"
// CHECK-LABEL: define ptx_kernel void @debug(
// CHECK: call void @llvm.assume
// CHECK: call i32 @vprintf(
// CHECK: call void @__assertfail(
// CHECK: call void @__assertfail(
func.func @debug(%x: !tile.ptr<i32> {tile.name = "x"}, %h: f16, %n: i32) attributes {tile.kernel, ngpu.num_warps = 2 : i32, ngpu.sm = 90 : i32} {
  %c0 = arith.constant 0 : i32
  %positive = arith.cmpi sgt, %n, %c0 : i32
  tile.assume %positive
  %range = tile.range 0 to 64 : tensor<64xi32, #line>
  tile.print " x: " hex false signed [true, false] : %range, %h : tensor<64xi32, #line>, f16
  tile.print " x: " hex true signed [true, false] : %range, %h : tensor<64xi32, #line>, f16
  tile.print " 100% done" hex false signed []
  %limit = tile.splat %n : i32 -> tensor<64xi32, #line>
  %below = arith.cmpi slt, %range, %limit : tensor<64xi32, #line>
  tile.assert %below, "below the limit" : tensor<64xi1, #line>
  tile.check bounds %below detail %range mask %below argument 0 : tensor<64xi1, #line>, detail tensor<64xi32, #line>, mask tensor<64xi1, #line>
  return
}
