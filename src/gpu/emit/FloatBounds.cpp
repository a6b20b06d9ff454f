#include "gpu/emit/FloatBounds.h"

#include "ir/ngpu/Dialect.h"
#include "ir/tile/FloatBounds.h"

using namespace mlir;

namespace nereid::gpu {

/// The value without conversions of its layout, and without what makes its users compute again.
static Value stripped(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ngpu::ConvertLayoutOp, ngpu::RenewOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

bool hasNoPositiveOperand(Operation *power) {
  return power->hasAttr(tile::notPositiveAttribute) ||
         tile::isNotPositive(power->getOperand(0), stripped);
}

bool isModerate(Value value) {
  return tile::isSumOfShares(value, stripped);
}

} // namespace nereid::gpu
