// Functions of the language that run on single elements.
//
// They work on the registers of a thread, `pack` at a time. Where a thread holds fewer, or a number
// that `pack` does not divide, the last one is repeated.
#include "gpu/emit/Emitter.h"

using namespace mlir;

namespace nereid::gpu {

bool emitMap(Emitter &e, Operation *operation) {
  auto op = dyn_cast<tile::MapElementwiseOp>(operation);
  if (!op)
    return false;
  auto type = cast<RankedTensorType>(op.getResult().front().getType());
  unsigned pack = op.getPack(), count = e.registerCount(type);
  llvm::SmallVector<unsigned> own;
  for (unsigned reg = 0; reg < count; ++reg)
    if (!e.isRedundantRegister(type, reg))
      own.push_back(reg);
  std::optional<llvm::Value *> before = std::exchange(e.elementOwner, e.owner(type));
  llvm::SmallVector<Values> results(op.getNumResults(), Values(count, nullptr));
  for (unsigned first = 0; first < own.size(); first += pack) {
    Values args;
    for (mlir::Value source : op.getSrcs())
      for (unsigned i = 0; i < pack; ++i)
        args.push_back(e.get(source)[own[std::min<size_t>(first + i, own.size() - 1)]]);
    Values yielded = e.inlineBody(op.getBody().front(), args);
    for (auto [number, registers] : llvm::enumerate(results))
      for (unsigned i = 0; i < pack && first + i < own.size(); ++i)
        registers[own[first + i]] = yielded[number * pack + i];
  }
  e.elementOwner = before;
  uint32_t copies = ngpu::layoutOf(type).getLayout().freeBits(layout::Axis::Register);
  for (auto [result, registers] : llvm::zip(op.getResult(), results)) {
    for (unsigned reg = 0; reg < count; ++reg)
      registers[reg] = registers[reg & ~copies];
    e.set(result, registers);
  }
  return true;
}

} // namespace nereid::gpu
