// Counters that loop strength reduction is not to follow: in deep loops, and nothing else.
#include "targets/cpu/codegen/NarrowCounters.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/SourceMgr.h"

#include <gtest/gtest.h>

namespace {

/// Loops in one another; each stores its counter, narrowed to 32 bits, twice.
std::string nest(unsigned depth) {
  std::string text = "define void @f(ptr %p, i64 %n) {\nentry:\n  br label %h0\n";
  for (unsigned i = 0; i < depth; ++i) {
    std::string d = std::to_string(i), in = i + 1 < depth ? "h" + std::to_string(i + 1) : "l" + d;
    std::string before = i ? "b" + std::to_string(i - 1) : "entry";
    std::string after = i ? "l" + std::to_string(i - 1) : "done";
    text += "h" + d + ":\n  %i" + d + " = phi i64 [ 0, %" + before + " ], [ %j" + d + ", %l" + d +
            " ]\n  %c" + d + " = icmp slt i64 %i" + d + ", %n\n  br i1 %c" + d + ", label %b" + d +
            ", label %" + after + "\nb" + d + ":\n  %t" + d + " = trunc i64 %i" + d +
            " to i32\n  store i32 %t" + d + ", ptr %p\n  %w" + d + " = trunc i64 %n to i32\n  %s" +
            d + " = add i32 %t" + d + ", %w" + d + "\n  store i32 %s" + d +
            ", ptr %p\n  br label %" + in + "\nl" + d + ":\n  %j" + d + " = add i64 %i" + d +
            ", 1\n  br label %h" + d + "\n";
  }
  return text + "done:\n  ret void\n}\n";
}

TEST(NarrowCounters, AreHiddenInLoopsThatAreFourDeep) {
  for (unsigned depth = 1; depth <= 6; ++depth) {
    llvm::LLVMContext context;
    llvm::SMDiagnostic diagnostic;
    auto module = llvm::parseAssemblyString(nest(depth), diagnostic, context);
    ASSERT_TRUE(module) << diagnostic.getMessage().str();
    nereid::cpu::hideNarrowCounters(*module);
    ASSERT_FALSE(llvm::verifyModule(*module, &llvm::errs()));
    unsigned hidden = 0;
    for (llvm::Instruction &instruction : llvm::instructions(*module->begin())) {
      auto *freeze = llvm::dyn_cast<llvm::FreezeInst>(&instruction);
      if (!freeze)
        continue;
      ++hidden;
      EXPECT_TRUE(freeze->getOperand(0)->hasOneUse());
      EXPECT_EQ(freeze->getNumUses(), 2u);
    }
    EXPECT_EQ(hidden, depth < 4 ? 0 : depth - 3) << depth;
  }
}

} // namespace
