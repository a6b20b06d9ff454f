#include "differentiate/Relative.h"

#include "differentiate/Blocks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/StringSwitch.h"

#include <limits>
#include <numbers>
#include <optional>

using namespace mlir;

namespace nereid::differentiate {
namespace {

enum class Function : uint8_t { Other, Exp, Exp2, Exp10, Cosh, Sinh, Sqrt, Reciprocal };

/// Of the dialect `math`, or of the device library.
Function functionOf(Operation *op) {
  StringRef name = op->getName().getStringRef();
  if (auto device = dyn_cast<tile::ExternOp>(op)) {
    name = device.getSymbol();
    if (!name.consume_front("__nv_"))
      return Function::Other;
    if (name.starts_with("frcp_") || name.starts_with("drcp_"))
      return Function::Reciprocal;
    name.consume_front("fast_");
    name.consume_back("f");
  } else if (!name.consume_front("math.")) {
    return Function::Other;
  }
  return llvm::StringSwitch<Function>(name)
      .Case("exp", Function::Exp)
      .Case("exp2", Function::Exp2)
      .Case("exp10", Function::Exp10)
      .Case("cosh", Function::Cosh)
      .Case("sinh", Function::Sinh)
      .Case("sqrt", Function::Sqrt)
      .Default(Function::Other);
}

/// `factor` of e^(factor * exponent).
std::optional<double> factorOf(Function function) {
  switch (function) {
  case Function::Exp:
    return 1;
  case Function::Exp2:
    return std::numbers::ln2;
  case Function::Exp10:
    return std::numbers::ln10;
  default:
    return std::nullopt;
  }
}

bool isCopy(Operation *op) {
  return isa<tile::SplatOp, tile::BroadcastOp, tile::ExpandDimsOp>(op);
}

bool isConversion(Operation *op) {
  return isa<arith::ExtFOp, arith::TruncFOp, tile::FpCastOp>(op);
}

/// How many operations an exponential may lie behind.
constexpr unsigned reach = 6;

class Relative {
public:
  Relative(const Dual &d, bool isDenominator) : d(d), isDenominator(isDenominator) {}

  /// Whether a value has exponentials in it. `isWhole`: what is asked for is its tangent over
  /// itself, where a denominator that is infinite counts, too.
  bool has(Value value, bool isWhole, unsigned depth = reach) const {
    Operation *by = value.getDefiningOp();
    if (!by || !depth || !d.tangent(value))
      return false;
    Function function = functionOf(by);
    if (factorOf(function) || function == Function::Cosh || function == Function::Sinh)
      return true;
    auto in = [&](unsigned i, bool whole) { return has(by->getOperand(i), whole, depth - 1); };
    if (isa<arith::MulFOp>(by))
      return in(0, isWhole) || in(1, isWhole);
    if (isa<arith::AddFOp, arith::SubFOp>(by))
      return in(0, false) || in(1, false);
    if (isa<arith::DivFOp>(by))
      return in(0, isWhole) || (isWhole && in(1, true));
    if (function == Function::Reciprocal)
      return isWhole && in(0, true);
    if (isa<arith::SelectOp>(by))
      return in(1, isWhole) || in(2, isWhole);
    bool isPassed =
        isa<arith::NegFOp>(by) || isCopy(by) || isConversion(by) || function == Function::Sqrt;
    return isPassed && in(0, isWhole);
  }

  /// The tangent of a value over the value.
  Value whole(Value value, Value reciprocal = {}) const {
    Value tangent = d.tangent(value);
    if (!tangent)
      return {};
    Operation *by = value.getDefiningOp();
    if (!by || !has(value, /*isWhole=*/true))
      return d.divide(tangent, value);
    Function function = functionOf(by);
    if (std::optional<double> factor = factorOf(function)) {
      Value exponent = settledTangent(d, by->getOperand(0), !isDenominator);
      return *factor == 1 ? exponent : d.scale(exponent, *factor);
    }
    Value first = by->getOperand(0);
    if (function == Function::Cosh)
      return d.multiply(d.tangent(first), d.call("math.tanh", {first}));
    if (function == Function::Sinh)
      return d.divide(d.tangent(first), d.call("math.tanh", {first}));
    if (function == Function::Sqrt)
      return d.scale(whole(first), 0.5);
    if (function == Function::Reciprocal)
      return d.negate(whole(first));
    if (isa<arith::AddFOp, arith::SubFOp, arith::SelectOp>(by))
      return over(value, value, reciprocal);
    if (isa<arith::MulFOp>(by))
      return d.add(whole(first), whole(by->getOperand(1)));
    if (isa<arith::DivFOp>(by))
      return d.subtract(whole(first), whole(by->getOperand(1)));
    Value inner = whole(first);
    if (isConversion(by))
      return convertTo(d.builder, inner, tile::elementOf(value.getType()));
    if (!isCopy(by))
      return inner; // of the negative
    Operation *copy = d.builder.clone(*by);
    copy->setOperand(0, inner);
    return copy->getResult(0);
  }

  /// The tangent of a part of `sum` over `sum`.
  Value over(Value part, Value sum, Value reciprocal = {}, bool isSubtracted = false) const {
    Value tangent = d.tangent(part);
    if (!tangent)
      return {};
    Operation *by = part.getDefiningOp();
    if (!has(part, /*isWhole=*/false))
      return d.divide(tangent, sum);
    if (isa<arith::AddFOp, arith::SubFOp>(by)) {
      Value first = over(by->getOperand(0), sum, reciprocal, isSubtracted);
      bool isMinus = isa<arith::SubFOp>(by);
      Value second = over(by->getOperand(1), sum, reciprocal, isSubtracted != isMinus);
      return isMinus ? d.subtract(first, second) : d.add(first, second);
    }
    if (isa<arith::NegFOp>(by))
      return d.negate(over(by->getOperand(0), sum, reciprocal, !isSubtracted));
    if (isa<arith::SelectOp>(by)) {
      Value first = over(by->getOperand(1), sum, reciprocal, isSubtracted);
      Value second = over(by->getOperand(2), sum, reciprocal, isSubtracted);
      return d.select(by->getOperand(0), first, second);
    }
    auto share = [&] {
      Value quotient = reciprocal ? d.multiply(part, reciprocal) : d.divide(part, sum);
      return d.select(isInfinite(part), number(part, isSubtracted ? -1 : 1), quotient);
    };
    if (isProduct(part))
      return d.multiply(whole(part), share());
    if (isa<arith::MulFOp>(by))
      for (unsigned i : {0, 1}) {
        Value growing = by->getOperand(i), other = by->getOperand(1 - i);
        if (!has(growing, false) || !isProduct(growing) || has(other, false))
          continue;
        Value limit = d.divide(number(part, isSubtracted ? -1 : 1), other);
        Value factor = d.select(isInfinite(part), limit, d.divide(growing, sum));
        return d.add(d.multiply(whole(growing), share()), d.multiply(d.tangent(other), factor));
      }
    Value itself = isSubtracted ? d.negate(whole(part)) : whole(part);
    return d.select(isInfinite(part), itself, d.divide(tangent, sum));
  }

private:
  /// Whether the tangent over the value needs no division by a value that may be 0.
  bool isProduct(Value value, unsigned depth = reach) const {
    if (!d.tangent(value))
      return true;
    Operation *by = value.getDefiningOp();
    if (!by || !depth)
      return false;
    Function function = functionOf(by);
    if (factorOf(function) || function == Function::Cosh)
      return true;
    if (isa<arith::MulFOp, arith::DivFOp>(by))
      return isProduct(by->getOperand(0), depth - 1) && isProduct(by->getOperand(1), depth - 1);
    return (isa<arith::NegFOp>(by) || isCopy(by) || isConversion(by) ||
            function == Function::Sqrt) &&
           isProduct(by->getOperand(0), depth - 1);
  }

  Value number(Value like, double value) const {
    return constantOf(d.builder, d.op->getLoc(), like.getType(), value);
  }

  Value isInfinite(Value value) const {
    Operation *by = value.getDefiningOp();
    if (!by || !factorOf(functionOf(by)))
      value = d.call("math.absf", {value});
    return d.compare("oeq", value, number(value, std::numeric_limits<double>::infinity()));
  }

  const Dual &d;
  bool isDenominator;
};

} // namespace

bool hasExponentials(const Dual &d, Value value) {
  return Relative(d, false).has(value, /*isWhole=*/true);
}

Value relativeTangent(const Dual &d, Value value, bool isDenominator, Value reciprocal) {
  return Relative(d, isDenominator).whole(value, reciprocal);
}

Value tangentOver(const Dual &d, Value part, Value whole) {
  return Relative(d, false).over(part, whole);
}

Value settledTangent(const Dual &d, Value operand, bool negativeOnly) {
  Value tangent = d.tangent(operand);
  if (!tangent || !Relative(d, false).has(operand, /*isWhole=*/false))
    return tangent;
  double infinity = std::numeric_limits<double>::infinity();
  Value limit =
      constantOf(d.builder, d.op->getLoc(), operand.getType(), negativeOnly ? -infinity : infinity);
  Value infinite = d.compare("oeq", negativeOnly ? operand : d.call("math.absf", {operand}), limit);
  return d.select(infinite, Value(), tangent);
}

} // namespace nereid::differentiate
