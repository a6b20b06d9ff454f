#include "targets/nvidia/codegen/WidenHalves.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PatternMatch.h"

namespace nereid::nvidia {

void widenHalves(llvm::Module &module) {
  using namespace llvm::PatternMatch;
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction :
         llvm::make_early_inc_range(llvm::instructions(function))) {
      llvm::Value *word = nullptr;
      uint64_t half = 0;
      if (!instruction.getType()->isFloatTy() ||
          !match(&instruction,
                 m_FPExt(m_ExtractElt(m_BitCast(m_Value(word)), m_ConstantInt(half)))) ||
          !word->getType()->isIntegerTy(32) || !instruction.getOperand(0)->getType()->isBFloatTy())
        continue;
      llvm::IRBuilder<> b(&instruction);
      llvm::Value *bits = half ? b.CreateAnd(word, 0xffff0000u) : b.CreateShl(word, 16);
      auto *narrow = llvm::cast<llvm::Instruction>(instruction.getOperand(0));
      instruction.replaceAllUsesWith(b.CreateBitCast(bits, instruction.getType()));
      instruction.eraseFromParent();
      if (narrow->use_empty())
        narrow->eraseFromParent();
    }
}

} // namespace nereid::nvidia
