#include "targets/nvidia/codegen/GuardShortSigns.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PatternMatch.h"

namespace nereid::nvidia {
namespace {

/// One instruction of PTX, which instruction selection does not look into.
llvm::Value *instruction(llvm::IRBuilder<> &b, llvm::Type *type, llvm::StringRef text,
                         llvm::StringRef constraints, llvm::Value *operand) {
  auto *code = llvm::InlineAsm::get(llvm::FunctionType::get(type, {operand->getType()}, false),
                                    text, constraints, /*hasSideEffects=*/false);
  llvm::CallInst *call = b.CreateCall(code, {operand});
  call->setDoesNotThrow();
  call->setDoesNotAccessMemory();
  return call;
}

} // namespace

void guardShortSigns(llvm::Module &module) {
  auto *type = llvm::Type::getInt16Ty(module.getContext());
  auto *wideType = llvm::Type::getInt32Ty(module.getContext());
  for (llvm::Function &function : module)
    for (llvm::Instruction &at : llvm::make_early_inc_range(llvm::instructions(function))) {
      if (at.getType() != type)
        continue;
      llvm::IRBuilder<> b(&at);
      llvm::Value *result = nullptr, *operand = nullptr;
      if (auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(&at);
          call && call->getIntrinsicID() == llvm::Intrinsic::abs) {
        // Selection would narrow the absolute value of a sign extension again.
        llvm::Value *wide =
            instruction(b, wideType, "cvt.s32.s16 $0, $1;", "=r,h", call->getArgOperand(0));
        result =
            b.CreateTrunc(b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, wide, b.getFalse()), type);
      } else if (llvm::PatternMatch::match(
                     &at, llvm::PatternMatch::m_Neg(llvm::PatternMatch::m_Value(operand)))) {
        result = instruction(b, type, "sub.u16 $0, 0, $1;", "=h,h", operand);
      }
      if (!result)
        continue;
      at.replaceAllUsesWith(result);
      at.eraseFromParent();
    }
}

} // namespace nereid::nvidia
