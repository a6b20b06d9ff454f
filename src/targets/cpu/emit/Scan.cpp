// Inclusive scans.
#include "targets/cpu/emit/Control.h"
#include "targets/cpu/emit/Loops.h"

using namespace mlir;

namespace nereid::cpu {

void emitScan(Kernel &k, tile::ScanOp op) {
  SmallVector<Buffer> targets;
  for (Value result : op.getResults())
    targets.push_back(k.allocate(result));
  emitSequential(k, op.getSrcs(), op.getAxis(), op.getCombine(), op.getReverse(),
                 [&](ArrayRef<Value> indices, ArrayRef<Value> values) {
                   for (auto [target, value] : llvm::zip(targets, values))
                     writeElement(k, target, indices, value);
                 });
  for (auto [result, target] : llvm::zip(op.getResults(), targets))
    k.buffers[result] = target;
}

} // namespace nereid::cpu
