#include "targets/nvidia/codegen/WidenHalves.h"

#include "Kernels.h"

#include "llvm/IR/Verifier.h"

using namespace nereid::nvidia;

namespace {

/// Both halves of a word; one that is used as it is, too; a half of another type, and one that does
/// not come from a word.
const char *const halves = R"(
define ptx_kernel void @widen(i32 %word, i32 %second, bfloat %alone, ptr addrspace(1) %out) {
  %pair = bitcast i32 %word to <2 x bfloat>
  %low = extractelement <2 x bfloat> %pair, i64 0
  %high = extractelement <2 x bfloat> %pair, i64 1
  %wideLow = fpext bfloat %low to float
  %wideHigh = fpext bfloat %high to float
  store volatile float %wideLow, ptr addrspace(1) %out
  store volatile float %wideHigh, ptr addrspace(1) %out
  store volatile bfloat %high, ptr addrspace(1) %out
  %halves = bitcast i32 %second to <2 x half>
  %half = extractelement <2 x half> %halves, i64 1
  %wideHalf = fpext half %half to float
  store volatile float %wideHalf, ptr addrspace(1) %out
  %wideAlone = fpext bfloat %alone to float
  store volatile float %wideAlone, ptr addrspace(1) %out
  ret void
}
)";

TEST(WidenHalves, OfOneWord) {
  Compiled compiled;
  parse(compiled, halves, hopper());
  widenHalves(*compiled.module);
  std::string problems, text;
  llvm::raw_string_ostream stream(problems), code(text);
  ASSERT_FALSE(llvm::verifyModule(*compiled.module, &stream)) << problems;
  compiled.module->getFunction("widen")->print(code);
  EXPECT_EQ(llvm::StringRef(text).count("fpext"), 2u) << text;
  // The lower half becomes the upper one; of the upper half the lower one is cleared.
  size_t low = text.find("shl i32 %word, 16"), high = text.find("and i32 %word, -65536");
  EXPECT_LT(low, high) << text;
  EXPECT_NE(high, std::string::npos) << text;
}

TEST(WidenHalves, InPtx) {
  std::string ptx = ptxOf(halves, hopper());
  EXPECT_EQ(llvm::StringRef(ptx).count("cvt.f32.bf16"), 1u) << ptx;
  EXPECT_EQ(llvm::StringRef(ptx).count("cvt.f32.f16"), 1u) << ptx;
}

} // namespace
