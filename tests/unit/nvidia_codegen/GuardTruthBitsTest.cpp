#include "targets/nvidia/codegen/GuardTruthBits.h"

#include "Kernels.h"

#include "llvm/IR/Instructions.h"
#include "llvm/IR/Verifier.h"

using namespace nereid::nvidia;

namespace {

/// Floats of the bits 0 and 1, and floats that may have others.
const char *const floatsOfBits = R"(
define void @floats(i1 %p, i32 %x, i16 %y, ptr addrspace(1) %out) {
  %bit = zext i1 %p to i32
  %small = bitcast i32 %bit to float
  %low = and i16 %y, 1
  %half = bitcast i16 %low to half
  %chosen = select i1 %p, bfloat 0xR0001, bfloat 0xR0000
  %two = and i32 %x, 2
  %other = bitcast i32 %two to float
  %one = select i1 %p, float 1.0, float 0.0
  store volatile float %small, ptr addrspace(1) %out
  store volatile half %half, ptr addrspace(1) %out
  store volatile bfloat %chosen, ptr addrspace(1) %out
  store volatile float %other, ptr addrspace(1) %out
  store volatile float %one, ptr addrspace(1) %out
  ret void
}
)";

/// Whether the value is a float of what an inline instruction gives.
bool isHidden(const llvm::Value *value) {
  auto *cast = llvm::dyn_cast<llvm::BitCastInst>(value);
  auto *call = cast ? llvm::dyn_cast<llvm::CallInst>(cast->getOperand(0)) : nullptr;
  return call && call->isInlineAsm();
}

TEST(GuardTruthBits, FloatsOfTruthValuesAlone) {
  Compiled compiled;
  parse(compiled, floatsOfBits, hopper());
  guardTruthBits(*compiled.module);
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  ASSERT_FALSE(llvm::verifyModule(*compiled.module, &stream)) << problems;
  std::vector<bool> stored;
  for (llvm::Instruction &instruction : compiled.module->getFunction("floats")->front())
    if (auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction))
      stored.push_back(isHidden(store->getValueOperand()));
  EXPECT_EQ(stored, (std::vector<bool>{true, true, true, false, false}));
}

TEST(GuardTruthBits, InPtx) {
  std::string ptx = ptxOf(floatsOfBits, hopper());
  size_t found = 0, at = 0;
  while ((at = ptx.find("0x3210;", at)) != std::string::npos)
    ++found, ++at;
  EXPECT_EQ(found, 3u) << ptx;
}

} // namespace
