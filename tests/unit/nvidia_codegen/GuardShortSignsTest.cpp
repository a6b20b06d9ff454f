#include "targets/nvidia/codegen/GuardShortSigns.h"

#include "Kernels.h"

using namespace nereid::nvidia;

namespace {

TEST(GuardShortSigns, InPtx) {
  std::string ptx = ptxOf(R"(
declare i16 @llvm.abs.i16(i16, i1)

define ptx_kernel void @signs(i16 %x, i32 %y, ptr addrspace(1) %out) {
  %minus = sub i16 0, %x
  %wide = sext i16 %minus to i32
  %least = call i16 @llvm.abs.i16(i16 %x, i1 false)
  %other = sub i16 7, %x
  %long = sub i32 0, %y
  store volatile i32 %wide, ptr addrspace(1) %out
  store volatile i16 %least, ptr addrspace(1) %out
  store volatile i16 %other, ptr addrspace(1) %out
  store volatile i32 %long, ptr addrspace(1) %out
  ret void
}
)",
                          hopper());
  auto count = [&](llvm::StringRef what) { return llvm::StringRef(ptx).count(what); };
  EXPECT_EQ(count("neg.s16"), 0u) << ptx;
  EXPECT_EQ(count("sub.u16"), 1u) << ptx;
  EXPECT_EQ(count("abs.s16"), 0u) << ptx;
  EXPECT_EQ(count("abs.s32"), 1u) << ptx;
  EXPECT_EQ(count("sub.s16"), 1u) << ptx;
  EXPECT_EQ(count("neg.s32"), 1u) << ptx;
}

} // namespace
