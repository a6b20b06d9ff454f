#include "targets/nvidia/codegen/GuardTruthBits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/KnownBits.h"

namespace nereid::nvidia {
namespace {

/// ptxas does this to floats of 16 and 32 bits; those of 64 are two registers.
bool isAffected(llvm::Type *type) {
  return type->isFloatTy() || type->isHalfTy() || type->isBFloatTy();
}

bool isTruth(const llvm::Value *value) {
  auto *constant = llvm::dyn_cast<llvm::ConstantFP>(value);
  return constant && constant->getValueAPF().bitcastToAPInt().ule(1);
}

/// `bits`, an integer of 16 or 32 bits, as ptxas does not know it.
llvm::Value *hidden(llvm::IRBuilder<> &b, llvm::Value *bits) {
  llvm::Type *type = bits->getType();
  bool wide = type->isIntegerTy(32);
  auto *code = llvm::InlineAsm::get(llvm::FunctionType::get(type, {type}, false),
                                    wide ? "prmt.b32 $0, $1, 0, 0x3210;"
                                         : "{.reg .b32 %wide; cvt.u32.u16 %wide, $1; prmt.b32 "
                                           "%wide, %wide, 0, 0x3210; cvt.u16.u32 $0, %wide;}",
                                    wide ? "=r,r" : "=h,h", /*hasSideEffects=*/false);
  llvm::CallInst *call = b.CreateCall(code, {bits});
  call->setDoesNotThrow();
  call->setDoesNotAccessMemory();
  return call;
}

} // namespace

void guardTruthBits(llvm::Module &module) {
  const llvm::DataLayout &layout = module.getDataLayout();
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction :
         llvm::make_early_inc_range(llvm::instructions(function))) {
      if (!isAffected(instruction.getType()))
        continue;
      llvm::IRBuilder<> b(&instruction);
      if (auto *cast = llvm::dyn_cast<llvm::BitCastInst>(&instruction)) {
        llvm::Value *bits = cast->getOperand(0);
        if (bits->getType()->isIntegerTy() && !llvm::isa<llvm::Constant>(bits) &&
            llvm::computeKnownBits(bits, layout).getMaxValue().ule(1))
          cast->setOperand(0, hidden(b, bits));
      } else if (auto *select = llvm::dyn_cast<llvm::SelectInst>(&instruction)) {
        llvm::Value *yes = select->getTrueValue(), *no = select->getFalseValue();
        if (!isTruth(yes) || !isTruth(no))
          continue;
        auto *type = b.getIntNTy(select->getType()->getScalarSizeInBits());
        llvm::Value *bits = b.CreateSelect(select->getCondition(), b.CreateBitCast(yes, type),
                                           b.CreateBitCast(no, type));
        select->replaceAllUsesWith(b.CreateBitCast(hidden(b, bits), select->getType()));
        select->eraseFromParent();
      }
    }
}

} // namespace nereid::nvidia
