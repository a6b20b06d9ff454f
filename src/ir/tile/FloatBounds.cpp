#include "ir/tile/FloatBounds.h"

#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace nereid::tile {

static double leastOf(Value value, unsigned depth) {
  constexpr double unknown = -std::numeric_limits<double>::infinity();
  Attribute attribute;
  if (matchPattern(value, m_Constant(&attribute))) {
    if (auto dense = dyn_cast<DenseElementsAttr>(attribute); dense && dense.isSplat())
      attribute = dense.getSplatValue<Attribute>();
    auto number = dyn_cast<FloatAttr>(attribute);
    return number ? number.getValueAsDouble() : unknown;
  }
  Operation *op = value.getDefiningOp();
  if (!op || !depth)
    return unknown;
  auto least = [&](unsigned i) { return leastOf(op->getOperand(i), depth - 1); };
  return llvm::TypeSwitch<Operation *, double>(op)
      .Case<math::AbsFOp, math::ExpOp, math::Exp2Op>([](auto) { return 0.0; })
      // Rounding keeps the order of numbers, so these bounds are not below what is computed.
      .Case<arith::AddFOp>([&](auto) { return least(0) + least(1); })
      .Case<arith::MulFOp>([&](auto) {
        if (op->getOperand(0) == op->getOperand(1))
          return 0.0;
        double a = least(0), b = least(1);
        return a >= 0 && b >= 0 ? a * b : unknown;
      })
      .Case<arith::MaximumFOp, arith::MaxNumFOp>([&](auto) { return std::max(least(0), least(1)); })
      // A root within a few units in the last place.
      .Case<math::SqrtOp, SqrtRNOp>([&](auto) {
        double of = least(0);
        return of >= 0 ? std::sqrt(of) * (1 - 0x1p-20) : unknown;
      })
      .Case<arith::ExtFOp, SplatOp, BroadcastOp, ExpandDimsOp>([&](auto) { return least(0); })
      .Default(unknown);
}

double leastOf(Value value) {
  constexpr unsigned depth = 6;
  return leastOf(value, depth);
}

} // namespace nereid::tile
