// RUN: nereid-opt --emit-nvidia %s -o /dev/null | FileCheck %s --check-prefix=LLVM
// RUN: nereid-opt --emit-nvidia="stage=ptx" %s -o /dev/null | FileCheck %s --check-prefix=PTX
// RUN: nereid-opt --emit-nvidia="stage=check" %s -o /dev/null | FileCheck %s --check-prefix=SASS

// 1024 elements, 8 a thread: two vectors of 4.
#line = #ngpu.layout<register = [[1], [2], [512]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]], shape = [1024]>

// LLVM-LABEL: define ptx_kernel void @add(
// LLVM-SAME: ptr addrspace(1) align 16 %x, ptr addrspace(1) align 16 %y, ptr addrspace(1) align 16 %z, i32 %n, ptr addrspace(1) %{{.*}}, ptr addrspace(1) %{{[^,]*}})
// PTX-LABEL: .entry add(
// PTX: .reqntid 128
// PTX-COUNT-4: ld.global.v4.b32
// PTX-NOT: ld.global
// PTX-COUNT-8: add{{(.rn)?}}.f32
// PTX-COUNT-2: st.global.v4.b32
// PTX-NOT: st.global
// SASS: assembled: 0 bytes of spills
func.func @add(%x: !tile.ptr<f32> {tile.name = "x", tile.divisibility = 16 : i64},
               %y: !tile.ptr<f32> {tile.name = "y", tile.divisibility = 16 : i64},
               %z: !tile.ptr<f32> {tile.name = "z", tile.divisibility = 16 : i64},
               %n: i32 {tile.name = "n", tile.divisibility = 16 : i64})
    attributes {tile.kernel, ngpu.num_warps = 4 : i32, ngpu.sm = 90 : i32} {
  %c1024 = arith.constant 1024 : i32
  %pid = tile.program_id 0
  %start = arith.muli %pid, %c1024 : i32
  %range = tile.range 0 to 1024 : tensor<1024xi32, #line>
  %base = tile.splat %start : i32 -> tensor<1024xi32, #line>
  %offset = arith.addi %base, %range : tensor<1024xi32, #line>
  %limit = tile.splat %n : i32 -> tensor<1024xi32, #line>
  %mask = arith.cmpi slt, %offset, %limit : tensor<1024xi32, #line>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>, #line>
  %xp = tile.addptr %xs, %offset : tensor<1024x!tile.ptr<f32>, #line>, tensor<1024xi32, #line>
  %a = tile.load %xp mask %mask : tensor<1024x!tile.ptr<f32>, #line>, mask tensor<1024xi1, #line> -> tensor<1024xf32, #line>
  %ys = tile.splat %y : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>, #line>
  %yp = tile.addptr %ys, %offset : tensor<1024x!tile.ptr<f32>, #line>, tensor<1024xi32, #line>
  %b = tile.load %yp mask %mask : tensor<1024x!tile.ptr<f32>, #line>, mask tensor<1024xi1, #line> -> tensor<1024xf32, #line>
  %sum = arith.addf %a, %b : tensor<1024xf32, #line>
  %zs = tile.splat %z : !tile.ptr<f32> -> tensor<1024x!tile.ptr<f32>, #line>
  %zp = tile.addptr %zs, %offset : tensor<1024x!tile.ptr<f32>, #line>, tensor<1024xi32, #line>
  tile.store %zp, %sum mask %mask : tensor<1024x!tile.ptr<f32>, #line>, tensor<1024xf32, #line>, mask tensor<1024xi1, #line>
  return
}
