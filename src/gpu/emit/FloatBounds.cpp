#include "gpu/emit/FloatBounds.h"

#include "ir/ngpu/Dialect.h"
#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

/// The value without conversions of its layout.
Value unconverted(Value value) {
  while (auto convert = value.getDefiningOp<ngpu::ConvertLayoutOp>())
    value = convert.getSrc();
  return value;
}

/// Is `op` a reduction of one tensor by the maximum?
bool isMaximum(tile::ReduceOp op) {
  if (op.getSrcs().size() != 1)
    return false;
  Block &body = op.getCombine().front();
  Value result = body.getTerminator()->getOperand(0);
  Operation *combination = result.getDefiningOp();
  return combination && isa<arith::MaximumFOp, arith::MaxNumFOp>(combination) &&
         llvm::equal(combination->getOperands(), body.getArguments());
}

/// Is every element of `bound` at least the element of `value` at the same place, or one of the two
/// NaN? `axis`: the dimension that `bound` lacks and along which it is repeated.
bool isAtLeast(Value bound, Value value, std::optional<unsigned> axis = std::nullopt) {
  bound = unconverted(bound);
  value = unconverted(value);
  if (!axis && bound == value)
    return true;
  Operation *op = bound.getDefiningOp();
  if (!op)
    return false;
  if (isa<arith::MaximumFOp, arith::MaxNumFOp>(op))
    return isAtLeast(op->getOperand(0), value, axis) || isAtLeast(op->getOperand(1), value, axis);
  if (auto broadcast = dyn_cast<tile::BroadcastOp>(op))
    return !axis && isAtLeast(broadcast.getSrc(), value);
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op))
    return !axis && isAtLeast(expand.getSrc(), value, expand.getAxis());
  if (auto splat = dyn_cast<tile::SplatOp>(op)) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return !axis && type && type.getRank() == 1 && isAtLeast(splat.getSrc(), value, 0);
  }
  auto reduce = dyn_cast<tile::ReduceOp>(op);
  return reduce && axis && reduce.getAxis() == *axis && isMaximum(reduce) &&
         unconverted(reduce.getSrcs().front()) == value;
}

} // namespace

bool isNotPositive(Value value) {
  value = unconverted(value);
  if (auto wider = value.getDefiningOp<arith::ExtFOp>())
    return isNotPositive(wider.getIn());
  auto difference = value.getDefiningOp<arith::SubFOp>();
  return difference && isAtLeast(difference.getRhs(), difference.getLhs());
}

} // namespace nereid::gpu
