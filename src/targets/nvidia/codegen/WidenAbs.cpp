#include "targets/nvidia/codegen/WidenAbs.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"

namespace nereid::nvidia {

void widenAbs(llvm::Module &module) {
  auto *type = llvm::Type::getInt16Ty(module.getContext());
  auto *wideType = llvm::Type::getInt32Ty(module.getContext());
  // Instruction selection would narrow the absolute value of a sign extension again.
  auto *widen = llvm::InlineAsm::get(llvm::FunctionType::get(wideType, {type}, false),
                                     "cvt.s32.s16 $0, $1;", "=r,h", /*hasSideEffects=*/false);
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction :
         llvm::make_early_inc_range(llvm::instructions(function))) {
      auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
      if (!call || call->getIntrinsicID() != llvm::Intrinsic::abs || call->getType() != type)
        continue;
      llvm::IRBuilder<> b(call);
      llvm::CallInst *wide = b.CreateCall(widen, {call->getArgOperand(0)});
      wide->setDoesNotThrow();
      wide->setDoesNotAccessMemory();
      llvm::Value *result = b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, wide, b.getFalse());
      call->replaceAllUsesWith(b.CreateTrunc(result, type));
      call->eraseFromParent();
    }
}

} // namespace nereid::nvidia
