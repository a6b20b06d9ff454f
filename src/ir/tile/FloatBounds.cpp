#include "ir/tile/FloatBounds.h"

#include "ir/tile/Combiner.h"
#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace nereid::tile {
namespace {

/// A value without the dimension along which it is repeated.
struct Unrepeated {
  Value value; ///< null where there is no such dimension, or more than one
  unsigned axis = 0;
};

class Bounds {
public:
  explicit Bounds(Stripped stripped) : stripped(stripped) {}

  bool isNotPositive(Value value) const {
    value = stripped(value);
    if (auto wider = value.getDefiningOp<arith::ExtFOp>())
      return isNotPositive(wider.getIn());
    auto difference = value.getDefiningOp<arith::SubFOp>();
    return difference && isAtLeast(difference.getRhs(), difference.getLhs());
  }

  bool isSumOfShares(Value value) const {
    auto [result, axis] = unrepeated(value);
    auto sum = result ? result.getDefiningOp<ReduceOp>() : ReduceOp();
    if (!sum || sum.getAxis() != axis)
      return false;
    unsigned number = cast<OpResult>(result).getResultNumber();
    Operation *power = stripped(sum.getSrcs()[number]).getDefiningOp();
    if (resultKind(sum.getCombine(), number) != CombinerKind::AddF ||
        !isa_and_nonnull<math::ExpOp, math::Exp2Op>(power))
      return false;
    auto difference = stripped(power->getOperand(0)).getDefiningOp<arith::SubFOp>();
    auto [most, axisOfMost] = difference ? unrepeated(difference.getRhs()) : Unrepeated();
    return most && axisOfMost == axis && isMaximumOf(most, difference.getLhs(), axis);
  }

private:
  /// Do both have the same elements? A conversion that is made twice is the same one.
  bool isSame(Value a, Value b) const {
    a = stripped(a);
    b = stripped(b);
    auto wideA = a.getDefiningOp<arith::ExtFOp>(), wideB = b.getDefiningOp<arith::ExtFOp>();
    return a == b || (wideA && wideB && elementOf(a.getType()) == elementOf(b.getType()) &&
                      isSame(wideA.getIn(), wideB.getIn()));
  }

  Unrepeated unrepeated(Value value) const {
    value = stripped(value);
    Operation *op = value.getDefiningOp();
    if (auto splat = dyn_cast_or_null<SplatOp>(op))
      return splat.getType().getRank() == 1 ? Unrepeated{stripped(splat.getSrc()), 0}
                                            : Unrepeated();
    if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op))
      op = stripped(broadcast.getSrc()).getDefiningOp();
    auto expand = dyn_cast_or_null<ExpandDimsOp>(op);
    return expand ? Unrepeated{stripped(expand.getSrc()), unsigned(expand.getAxis())}
                  : Unrepeated();
  }

  /// Is `bound` the maximum of `value` along a dimension?
  bool isMaximumOf(Value bound, Value value, unsigned axis) const {
    auto reduce = bound.getDefiningOp<ReduceOp>();
    if (!reduce || reduce.getAxis() != axis || reduce.getSrcs().size() != 1)
      return false;
    CombinerKind kind = resultKind(reduce.getCombine(), 0);
    return (kind == CombinerKind::MaxNum || kind == CombinerKind::Maximum) &&
           isSame(reduce.getSrcs().front(), value);
  }

  /// Is every element of `bound` at least the element of `value` at the same place, or one of the
  /// two NaN? `axis`: the dimension that `bound` lacks and along which it is repeated.
  bool isAtLeast(Value bound, Value value, std::optional<unsigned> axis = std::nullopt) const {
    bound = stripped(bound);
    if (!axis && isSame(bound, value))
      return true;
    Operation *op = bound.getDefiningOp();
    if (!op)
      return false;
    if (isa<arith::MaximumFOp, arith::MaxNumFOp>(op))
      return isAtLeast(op->getOperand(0), value, axis) || isAtLeast(op->getOperand(1), value, axis);
    if (axis)
      return isMaximumOf(bound, value, *axis);
    if (auto broadcast = dyn_cast<BroadcastOp>(op))
      return isAtLeast(broadcast.getSrc(), value);
    auto [narrow, repeated] = unrepeated(bound);
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return narrow && type && isAtLeast(narrow, value, repeated);
  }

  Stripped stripped;
};

} // namespace

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

bool isNotPositive(Value value, Stripped stripped) {
  return Bounds(stripped).isNotPositive(value);
}

bool isSumOfShares(Value value, Stripped stripped) {
  return Bounds(stripped).isSumOfShares(value);
}

} // namespace nereid::tile
