#include "targets/nvidia/emit/Dot.h"

namespace nereid::nvidia {

llvm::Value *packWord(Emitter &e, llvm::ArrayRef<llvm::Value *> elements) {
  if (elements.size() == 1)
    return e.b.CreateBitCast(elements[0], e.b.getInt32Ty());
  llvm::Value *word =
      llvm::PoisonValue::get(llvm::FixedVectorType::get(elements[0]->getType(), elements.size()));
  for (auto [i, element] : llvm::enumerate(elements))
    word = e.b.CreateInsertElement(word, element, uint64_t(i));
  return e.b.CreateBitCast(word, e.b.getInt32Ty());
}

llvm::StringRef matrixType(mlir::Type element, bool isUnsigned) {
  if (element.isF16())
    return "f16";
  if (element.isBF16())
    return "bf16";
  if (element.isF32())
    return "tf32";
  if (element.isF64())
    return "f64";
  if (llvm::isa<mlir::Float8E4M3FNType>(element))
    return "e4m3";
  if (llvm::isa<mlir::Float8E5M2Type>(element))
    return "e5m2";
  return isUnsigned ? "u8" : "s8";
}

bool emitDot(Emitter &e, mlir::Operation *op) {
  if (auto mma = llvm::dyn_cast<ngpu::MmaOp>(op))
    emitMma(e, mma);
  else if (auto wgmma = llvm::dyn_cast<ngpu::WgmmaOp>(op))
    emitWgmma(e, wgmma);
  else if (auto wait = llvm::dyn_cast<ngpu::WgmmaWaitOp>(op))
    emitWgmmaWait(e, wait);
  else
    return false;
  return true;
}

} // namespace nereid::nvidia
