#include "targets/nvidia/codegen/PinAccumulators.h"

#include "Kernels.h"

#include "llvm/IR/Instructions.h"
#include "llvm/IR/Verifier.h"

using namespace nereid::nvidia;

namespace {

/// A loop that keeps a product in flight across its back edge, with a way around it; the second
/// carried value has nothing to do with products.
const char *const loopKernel = R"(
define void @loop(i64 %a, i32 %n, ptr addrspace(1) %out) {
entry:
  %none = icmp slt i32 %n, 1
  br i1 %none, label %skip, label %body
body:
  %i = phi i32 [ 0, %entry ], [ %next, %body ]
  %other = phi float [ 0.0, %entry ], [ %sum, %body ]
  %acc = phi float [ 0.0, %entry ], [ %product, %body ]
  %ready = call float asm sideeffect "wgmma.wait_group.sync.aligned 0;", "=f,0,~{memory}"(float %acc)
  %product = call float asm sideeffect "wgmma.mma_async $0 $1;", "=f,l,0"(i64 %a, float %ready)
  %sum = fadd float %other, 1.0
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %body, label %exit
skip:
  br label %exit
exit:
  %last = phi float [ 0.0, %skip ], [ %product, %body ]
  %count = phi float [ 0.0, %skip ], [ %sum, %body ]
  %done = call float asm sideeffect "wgmma.wait_group.sync.aligned 0;", "=f,0,~{memory}"(float %last)
  %both = fadd float %done, %count
  store float %both, ptr addrspace(1) %out
  ret void
}
)";

llvm::PHINode *phi(llvm::Module &module, llvm::StringRef name) {
  for (llvm::BasicBlock &block : *module.getFunction("loop"))
    for (llvm::PHINode &phi : block.phis())
      if (phi.getName() == name)
        return &phi;
  ADD_FAILURE() << "no phi " << name.str();
  return nullptr;
}

TEST(PinAccumulators, OneDefinitionForAllWaysIn) {
  Compiled compiled;
  parse(compiled, loopKernel, hopper());
  pinAccumulators(*compiled.module);
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  ASSERT_FALSE(llvm::verifyModule(*compiled.module, &stream)) << problems;
  auto *start = llvm::dyn_cast<llvm::CallInst>(phi(*compiled.module, "acc")->getIncomingValue(0));
  ASSERT_TRUE(start);
  EXPECT_EQ(start->getParent()->getName(), "entry");
  EXPECT_EQ(phi(*compiled.module, "last")->getIncomingValue(0), start);
  // What is no accumulator stays a constant.
  EXPECT_TRUE(llvm::isa<llvm::Constant>(phi(*compiled.module, "other")->getIncomingValue(0)));
  EXPECT_TRUE(llvm::isa<llvm::Constant>(phi(*compiled.module, "count")->getIncomingValue(0)));
}

TEST(PinAccumulators, ValuesOfTheConstants) {
  std::string text = loopKernel;
  text.replace(text.find("[ 0.0, %entry ], [ %product"), strlen("[ 0.0"), "[ 1.5");
  Compiled compiled;
  parse(compiled, text, hopper());
  pinAccumulators(*compiled.module);
  auto *start = llvm::cast<llvm::CallInst>(phi(*compiled.module, "acc")->getIncomingValue(0));
  EXPECT_EQ(llvm::cast<llvm::InlineAsm>(start->getCalledOperand())->getAsmString(),
            "mov.b32 $0, 0x3FC00000;\n");
  // Another constant comes around the loop: it is none of this one's.
  EXPECT_TRUE(llvm::isa<llvm::Constant>(phi(*compiled.module, "last")->getIncomingValue(0)));
}

} // namespace
