#include "targets/nvidia/codegen/GuardHalfSelections.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"

namespace nereid::nvidia {
namespace {

bool isHalf(llvm::Type *type) {
  return type->isHalfTy() || type->isBFloatTy();
}

/// Does ptxas make one instruction of two such operations?
bool isPaired(const llvm::Value *value) {
  return isHalf(value->getType()) &&
         llvm::isa<llvm::BinaryOperator, llvm::UnaryOperator, llvm::IntrinsicInst>(value);
}

/// Is it in a register that such an operation reads?
bool isOperandOfPairs(const llvm::Value *value) {
  return !llvm::isa<llvm::Constant>(value) && llvm::any_of(value->users(), isPaired);
}

} // namespace

void guardHalfSelections(llvm::Module &module) {
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction :
         llvm::make_early_inc_range(llvm::instructions(function))) {
      auto *select = llvm::dyn_cast<llvm::SelectInst>(&instruction);
      if (!select || !isHalf(select->getType()) ||
          (!isOperandOfPairs(select->getTrueValue()) && !isOperandOfPairs(select->getFalseValue())))
        continue;
      llvm::IRBuilder<> b(select);
      auto wide = [&](llvm::Value *value) {
        return b.CreateZExt(b.CreateBitCast(value, b.getInt16Ty()), b.getInt32Ty());
      };
      llvm::Value *yes = wide(select->getTrueValue()), *no = wide(select->getFalseValue());
      llvm::Value *bits = b.CreateSelect(select->getCondition(), yes, no);
      select->replaceAllUsesWith(
          b.CreateBitCast(b.CreateTrunc(bits, b.getInt16Ty()), select->getType()));
      select->eraseFromParent();
    }
}

} // namespace nereid::nvidia
