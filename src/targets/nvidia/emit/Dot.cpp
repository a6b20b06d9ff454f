#include "targets/nvidia/emit/Dot.h"

namespace nereid::nvidia {

RegisterMap::RegisterMap(mlir::RankedTensorType type)
    : rowCount(type.getDimSize(type.getRank() - 2)), count(ngpu::registerCount(type)) {
  unsigned rank = type.getRank();
  for (int64_t size : type.getShape().drop_back(2))
    batchCount *= size;
  for (unsigned reg = 0; reg < count; ++reg) {
    ngpu::RegisterPlace place = ngpu::registerPlace(type, reg);
    int64_t batch = 0;
    auto at = [&](unsigned dim) { return int64_t(place.core[dim]) + place.repeatOffset[dim]; };
    for (unsigned dim = 0; dim + 2 < rank; ++dim)
      batch = batch * type.getDimSize(dim) + at(dim);
    int64_t row = at(rank - 2), column = at(rank - 1);
    // Copies of an element in later registers are not looked at.
    if (registers.try_emplace({batch * rowCount + row, column}, reg).second) {
      allRows.push_back(row);
      allColumns.push_back(column);
    }
  }
  for (llvm::SmallVector<int64_t> *list : {&allRows, &allColumns}) {
    llvm::sort(*list);
    list->erase(llvm::unique(*list), list->end());
  }
}

unsigned RegisterMap::at(int64_t batch, int64_t row, int64_t column) const {
  auto found = registers.find({batch * rowCount + row, column});
  assert(found != registers.end() && "the verifier has checked the layout");
  return found->second;
}

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
  else if (auto fma = llvm::dyn_cast<ngpu::FmaDotOp>(op))
    emitFmaDot(e, fma);
  else
    return false;
  return true;
}

} // namespace nereid::nvidia
