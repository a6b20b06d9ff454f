#include "targets/nvidia/codegen/GuardHalfSelections.h"

#include "Kernels.h"

#include "llvm/IR/Instructions.h"
#include "llvm/IR/Verifier.h"

using namespace nereid::nvidia;

namespace {

/// A scan's end: the least of what comes before, by how much does; and selections that are left.
const char *const selections = R"(
declare half @llvm.minnum.f16(half, half)

define ptx_kernel void @select(i1 %p, i1 %q, half %a, half %b, half %c, half %d, ptr addrspace(1) %out) {
  %ab = call half @llvm.minnum.f16(half %a, half %b)
  %abc = call half @llvm.minnum.f16(half %ab, half %c)
  %some = select i1 %p, half %ab, half %a
  %all = select i1 %q, half %abc, half %some
  %given = select i1 %p, half %d, half 1.0
  %last = fadd half %abc, %given
  %result = select i1 %q, half %last, half %given
  store volatile half %all, ptr addrspace(1) %out
  store volatile half %given, ptr addrspace(1) %out
  store volatile half %result, ptr addrspace(1) %out
  ret void
}
)";

TEST(GuardHalfSelections, WhereArithmeticGoesOn) {
  Compiled compiled;
  parse(compiled, selections, hopper());
  guardHalfSelections(*compiled.module);
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  ASSERT_FALSE(llvm::verifyModule(*compiled.module, &stream)) << problems;
  std::vector<bool> isWide;
  for (llvm::Instruction &instruction : compiled.module->getFunction("select")->front())
    if (llvm::isa<llvm::SelectInst>(instruction))
      isWide.push_back(instruction.getType()->isIntegerTy(32));
  // some, all, given, result: `given` chooses between what no arithmetic uses.
  EXPECT_EQ(isWide, (std::vector<bool>{true, true, false, true}));
}

TEST(GuardHalfSelections, InPtx) {
  std::string ptx = ptxOf(selections, hopper());
  auto count = [&](llvm::StringRef what) { return llvm::StringRef(ptx).count(what); };
  EXPECT_EQ(count("selp.b32"), 3u) << ptx;
  EXPECT_EQ(count("selp.b16"), 1u) << ptx;
}

} // namespace
