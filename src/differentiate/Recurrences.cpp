#include "differentiate/Recurrences.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace nereid::differentiate {

/// `depth`: how many operations may still be looked through.
static bool isInvariantTo(Value value, scf::ForOp loop, unsigned depth) {
  if (!loop.getRegion().isAncestor(value.getParentRegion()))
    return true;
  Operation *op = value.getDefiningOp();
  return op && depth && op->getNumRegions() == 0 && isMemoryEffectFree(op) &&
         llvm::all_of(op->getOperands(),
                      [&](Value operand) { return isInvariantTo(operand, loop, depth - 1); });
}

bool isInvariant(Value value, scf::ForOp loop) {
  return isInvariantTo(value, loop, 8);
}

std::optional<SmallVector<RoundStep>> stepsOf(scf::ForOp loop, unsigned index) {
  Value carried = loop.getRegionIterArg(index), next = loop.getYieldedValues()[index];
  SmallVector<RoundStep> steps;
  while (next != carried) {
    Operation *op = next.getDefiningOp();
    if (!op || op->getBlock() != loop.getBody())
      return std::nullopt;
    if (isa<tile::HintOp>(op)) {
      next = op->getOperand(0);
      continue;
    }
    if (!isa<tile::AddPtrOp, arith::AddIOp, arith::SubIOp>(op))
      return std::nullopt;
    Value left = op->getOperand(0), right = op->getOperand(1);
    if (isa<arith::AddIOp>(op) && !isInvariant(right, loop))
      std::swap(left, right);
    if (!isInvariant(right, loop))
      return std::nullopt;
    steps.push_back({right, isa<arith::SubIOp>(op)});
    next = left;
  }
  return steps;
}

} // namespace nereid::differentiate
