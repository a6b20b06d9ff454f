// The derivatives. Each is the chain rule for one function; where the derivative does not exist,
// the comment says what is taken.
#include "differentiate/Rules.h"

#include "differentiate/Blocks.h"
#include "differentiate/Relative.h"
#include "ir/tile/FloatBounds.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringMap.h"

#include <numbers>

using namespace mlir;

namespace nereid::differentiate {

//===--- what rules are written with
//---------------------------------------------------------------===//

Value Dual::number(double value) const {
  return constantOf(builder, op->getLoc(), y().getType(), value);
}

Value Dual::call(StringRef name, ValueRange operands) const {
  OperationState state(op->getLoc(), name, operands, {operands[0].getType()});
  return builder.create(state)->getResult(0);
}

Value Dual::add(Value a, Value b) const {
  return !a ? b : !b ? a : call("arith.addf", {a, b});
}

Value Dual::subtract(Value a, Value b) const {
  return !b ? a : !a ? negate(b) : call("arith.subf", {a, b});
}

Value Dual::multiply(Value a, Value b) const {
  return a && b ? call("arith.mulf", {a, b}) : Value();
}

Value Dual::scale(Value a, double factor) const {
  return a ? multiply(a, constantOf(builder, op->getLoc(), a.getType(), factor)) : Value();
}

Value Dual::divide(Value a, Value b) const {
  return a ? call("arith.divf", {a, b}) : Value();
}

Value Dual::negate(Value a) const {
  return a ? call("arith.negf", {a}) : Value();
}

Value Dual::device(StringRef name, Value operand) const {
  bool isSingle = tile::elementOf(operand.getType()).isF32();
  return tile::ExternOp::create(builder, op->getLoc(), operand.getType(), ValueRange(operand),
                                ("__nv_" + name + (isSingle ? "f" : "")).str(), "libdevice",
                                /*pure=*/true, /*path=*/nullptr);
}

Value Dual::again(ValueRange operands) const {
  Operation *copy = builder.clone(*op);
  copy->setOperands(operands);
  return copy->getResult(0);
}

Value Dual::compare(StringRef predicate, Value a, Value b) const {
  return arith::CmpFOp::create(builder, op->getLoc(), *arith::symbolizeCmpFPredicate(predicate), a,
                               b);
}

Value Dual::select(Value condition, Value a, Value b) const {
  if (!a && !b)
    return {};
  auto orZero = [&](Value value, Value other) {
    return value ? value : zeroOf(builder, op->getLoc(), other.getType());
  };
  return arith::SelectOp::create(builder, op->getLoc(), condition, orZero(a, b), orZero(b, a));
}

//===--- rules
//-------------------------------------------------------------------------------------===//

namespace {

constexpr double twoOverSqrtPi = 2.0 * std::numbers::inv_sqrtpi;
constexpr double halfSqrtPi = 0.5 / std::numbers::inv_sqrtpi;
constexpr double sqrtTwoPi = std::numbers::sqrt2 / std::numbers::inv_sqrtpi;

Value convert(const Dual &d) {
  if (!d.t())
    return {};
  SmallVector<Value> operands(d.op->getOperands());
  operands[0] = d.t();
  return d.again(operands);
}

Value firstOperand(const Dual &d) {
  return d.t(0);
}

Value add(const Dual &d) {
  return d.add(d.t(0), d.t(1));
}

Value subtract(const Dual &d) {
  return d.subtract(d.t(0), d.t(1));
}

Value negate(const Dual &d) {
  return d.negate(d.t());
}

Value multiply(const Dual &d) {
  return d.add(d.multiply(d.t(0), d.x(1)), d.multiply(d.x(0), d.t(1)));
}

Value exponential(const Dual &d) {
  return d.multiply(settledTangent(d, d.x(), /*negativeOnly=*/true), d.y());
}

Value exponential2(const Dual &d) {
  return d.multiply(settledTangent(d, d.x(), /*negativeOnly=*/true),
                    d.scale(d.y(), std::numbers::ln2));
}

Value exponential10(const Dual &d) {
  return d.multiply(settledTangent(d, d.x(), /*negativeOnly=*/true),
                    d.scale(d.y(), std::numbers::ln10));
}

bool isOne(Value value) {
  if (auto splat = value.getDefiningOp<tile::SplatOp>())
    value = splat.getSrc();
  return matchPattern(value, m_OneFloat());
}

/// Is the reciprocal of a denominator finite, and exact to a few units in the last place? It is
/// subnormal above 2^126, where it keeps all but two bits.
bool hasReciprocal(Value denominator) {
  Type type = tile::elementOf(denominator.getType());
  return (type.isF32() && tile::leastOf(denominator) >= 0x1p-126) ||
         (type.isF64() && tile::leastOf(denominator) >= 0x1p-1022);
}

/// The factor of the denominator's tangent is a quotient, not the tangent: in neither mode is a
/// large number over a small denominator multiplied by a result of 0.
Value divide(const Dual &d) {
  if (!hasExponentials(d, d.x(1)) && d.t(1) && hasReciprocal(d.x(1))) {
    // One division in place of three.
    Value over = d.call("arith.divf", {d.number(1), d.x(1)});
    Value quotient = isOne(d.x(0)) ? over : d.multiply(d.x(0), over);
    return d.subtract(d.multiply(d.t(0), over), d.multiply(d.t(1), d.multiply(quotient, over)));
  }
  Value numerator = d.divide(d.t(0), d.x(1));
  if (hasExponentials(d, d.x(1))) {
    Value reciprocal = isOne(d.x(0)) ? d.y() : Value();
    Value relative = relativeTangent(d, d.x(1), /*isDenominator=*/true, reciprocal);
    return d.subtract(numerator, d.multiply(relative, d.y()));
  }
  if (!d.t(1))
    return numerator;
  return d.subtract(numerator, d.multiply(d.t(1), d.divide(d.y(), d.x(1))));
}

Value reciprocal(const Dual &d) {
  if (!hasExponentials(d, d.x()))
    return d.negate(d.multiply(d.multiply(d.t(), d.y()), d.y()));
  return d.negate(d.multiply(relativeTangent(d, d.x(), /*isDenominator=*/true, d.y()), d.y()));
}

Value multiplyAdd(const Dual &d) {
  Value product = d.add(d.multiply(d.t(0), d.x(1)), d.multiply(d.x(0), d.t(1)));
  return d.add(product, d.t(2));
}

/// x - n*y with the whole number n constant in pieces: fmod and IEEE's remainder differ in n alone.
/// Rounding hides that x - result is a multiple of y only to half a unit.
Value remainder(const Dual &d) {
  if (!d.t(1))
    return d.t(0);
  Value times = d.call("math.roundeven", {d.divide(d.subtract(d.x(0), d.y()), d.x(1))});
  return d.subtract(d.t(0), d.multiply(times, d.t(1)));
}

/// Of equal operands the first one's; NaN loses as in the operation on numbers.
Value larger(const Dual &d) {
  Value first =
      d.logical("arith.ori", d.compare("oge", d.x(0), d.x(1)), d.compare("uno", d.x(1), d.x(1)));
  return d.select(first, d.t(0), d.t(1));
}

Value smaller(const Dual &d) {
  Value first =
      d.logical("arith.ori", d.compare("ole", d.x(0), d.x(1)), d.compare("uno", d.x(1), d.x(1)));
  return d.select(first, d.t(0), d.t(1));
}

/// 0 at 0.
Value absolute(const Dual &d) {
  Value t = d.t(), zero = d.number(0);
  if (!t)
    return {};
  Value negative = d.select(d.compare("olt", d.x(), zero), d.negate(t), Value());
  return d.select(d.compare("ogt", d.x(), zero), t,
                  negative ? negative : zeroOf(d.builder, d.op->getLoc(), t.getType()));
}

Value copySign(const Dual &d) {
  Value one = d.number(1);
  Value sign =
      d.multiply(d.call("math.copysign", {one, d.x(0)}), d.call("math.copysign", {one, d.x(1)}));
  return d.multiply(d.t(0), sign);
}

/// 1 at both ends.
Value saturate(const Dual &d) {
  Value inside = d.logical("arith.andi", d.compare("oge", d.x(), d.number(0)),
                           d.compare("ole", d.x(), d.number(1)));
  return d.select(inside, d.t(), Value());
}

Value positiveDifference(const Dual &d) {
  return d.select(d.compare("ogt", d.x(0), d.x(1)), d.subtract(d.t(0), d.t(1)), Value());
}

Value exponentialMinus1(const Dual &d) {
  return d.multiply(settledTangent(d, d.x(), /*negativeOnly=*/true), d.add(d.y(), d.number(1)));
}

/// The tangent of the operand over the operand.
Value logarithm(const Dual &d) {
  return hasExponentials(d, d.x()) ? relativeTangent(d, d.x(), /*isDenominator=*/false)
                                   : d.divide(d.t(), d.x());
}

/// The tangent of a logarithm of another base, whose logarithm is given: one over a small `x` may
/// overflow where this does not.
Value logarithmOfBase(const Dual &d, double base) {
  return hasExponentials(d, d.x()) ? d.scale(logarithm(d), 1 / base)
                                   : d.divide(d.t(), d.scale(d.x(), base));
}

Value logarithm2(const Dual &d) {
  return logarithmOfBase(d, std::numbers::ln2);
}

Value logarithm10(const Dual &d) {
  return logarithmOfBase(d, std::numbers::ln10);
}

Value logarithm1p(const Dual &d) {
  return d.t() ? tangentOver(d, d.x(), d.add(d.x(), d.number(1))) : Value();
}

/// Infinite at 0, as the function's slope is.
Value squareRoot(const Dual &d) {
  return d.divide(d.scale(d.t(), 0.5), d.y());
}

/// A factor at a time: the cube of a large result overflows, its product with a small tangent need
/// not.
Value reciprocalSquareRoot(const Dual &d) {
  if (hasExponentials(d, d.x()))
    return d.scale(d.multiply(relativeTangent(d, d.x(), /*isDenominator=*/true), d.y()), -0.5);
  Value once = d.multiply(d.scale(d.t(), -0.5), d.y());
  return d.multiply(d.multiply(once, d.y()), d.y());
}

Value cubeRoot(const Dual &d) {
  return d.divide(d.scale(d.t(), 1.0 / 3.0), d.multiply(d.y(), d.y()));
}

Value reciprocalCubeRoot(const Dual &d) {
  return d.multiply(d.scale(d.t(), -1.0 / 3.0), d.divide(d.y(), d.x()));
}

/// The slope in the base is 0 where the exponent is 0, in the exponent where a base of 0 stays 0.
Value power(const Dual &d) {
  Value base, exponent, zero = d.number(0);
  if (Value t = d.t(0)) {
    Value slope;
    if (hasExponentials(d, d.x(0))) {
      t = relativeTangent(d, d.x(0), /*isDenominator=*/true);
      slope = d.multiply(d.x(1), d.y());
    } else {
      slope = d.multiply(d.x(1), d.again({d.x(0), d.subtract(d.x(1), d.number(1))}));
    }
    base = d.select(d.compare("oeq", d.x(1), zero), Value(), d.multiply(t, slope));
  }
  if (Value t = d.t(1)) {
    Value stays =
        d.logical("arith.andi", d.compare("oeq", d.x(0), zero), d.compare("oge", d.x(1), zero));
    Value slope = d.multiply(d.y(), d.call("math.log", {d.x(0)}));
    exponent = d.select(stays, Value(), d.multiply(t, slope));
  }
  return d.add(base, exponent);
}

/// Of an exponent that is an integer.
Value integerPower(const Dual &d) {
  if (!d.t())
    return {};
  Type integer = d.x(1).getType();
  Location loc = d.op->getLoc();
  auto constant = [&](int64_t value) -> Value {
    TypedAttr attribute = IntegerAttr::get(tile::elementOf(integer), value);
    if (auto tensor = dyn_cast<RankedTensorType>(integer))
      attribute = DenseElementsAttr::get(tensor, Attribute(attribute));
    return arith::ConstantOp::create(d.builder, loc, attribute);
  };
  Value less = d.call("arith.subi", {d.x(1), constant(1)});
  Value factor = arith::SIToFPOp::create(d.builder, loc, d.y().getType(), d.x(1));
  Value isZero =
      arith::CmpIOp::create(d.builder, loc, arith::CmpIPredicate::eq, d.x(1), constant(0));
  return d.select(isZero, Value(), d.multiply(d.t(), d.multiply(factor, d.again({d.x(0), less}))));
}

/// The operands over the norm, which are at most 1; one over the norm may overflow. NaN at 0.
Value norm(const Dual &d) {
  Value sum;
  for (unsigned i = 0; i < d.operands(); ++i)
    if (Value t = d.t(i))
      sum = d.add(sum, d.multiply(t, d.divide(d.x(i), d.y())));
  return sum;
}

/// The operands over the norm first: the cube of a large result may overflow.
Value reciprocalNorm(const Dual &d) {
  Value sum;
  for (unsigned i = 0; i < d.operands(); ++i)
    if (Value t = d.t(i))
      sum = d.add(sum, d.multiply(t, d.multiply(d.multiply(d.x(i), d.y()), d.y())));
  return d.negate(d.multiply(sum, d.y()));
}

Value sine(const Dual &d) {
  return d.multiply(d.t(), d.call("math.cos", {d.x()}));
}

Value cosine(const Dual &d) {
  return d.negate(d.multiply(d.t(), d.call("math.sin", {d.x()})));
}

Value sinePi(const Dual &d) {
  return d.multiply(d.t(), d.scale(d.device("cospi", d.x()), std::numbers::pi));
}

Value cosinePi(const Dual &d) {
  return d.multiply(d.t(), d.scale(d.device("sinpi", d.x()), -std::numbers::pi));
}

Value tangentFunction(const Dual &d) {
  return d.multiply(d.t(), d.add(d.multiply(d.y(), d.y()), d.number(1)));
}

Value hyperbolicSine(const Dual &d) {
  return d.multiply(d.t(), d.device("cosh", d.x()));
}

Value hyperbolicCosine(const Dual &d) {
  return d.multiply(d.t(), d.device("sinh", d.x()));
}

Value hyperbolicTangent(const Dual &d) {
  Value slope = d.subtract(d.number(1), d.multiply(d.y(), d.y()));
  return d.multiply(settledTangent(d, d.x()), slope);
}

/// (1 - x)(1 + x), exact where 1 - x*x cancels.
Value oneMinusSquare(const Dual &d) {
  Value one = d.number(1);
  return d.multiply(d.subtract(one, d.x()), d.add(one, d.x()));
}

Value onePlusSquare(const Dual &d) {
  return d.add(d.multiply(d.x(), d.x()), d.number(1));
}

Value arcSine(const Dual &d) {
  return d.divide(d.t(), d.call("math.sqrt", {oneMinusSquare(d)}));
}

Value arcCosine(const Dual &d) {
  return d.negate(arcSine(d));
}

/// x / (1 + x*x) is 1 / (x + 1/x), whose denominator does not overflow before x does.
Value arcTangent(const Dual &d) {
  Value slope = d.divide(d.t(), onePlusSquare(d));
  if (!hasExponentials(d, d.x()))
    return slope;
  Value one = d.number(1), isLarge = d.compare("ogt", d.call("math.absf", {d.x()}), one);
  Value below = d.add(d.x(), d.divide(one, d.x()));
  Value ofLarge = d.divide(relativeTangent(d, d.x(), /*isDenominator=*/true), below);
  return d.select(isLarge, ofLarge, slope);
}

/// With the smaller operand over the larger one, whose square is at most 1: x / (x*x + y*y) is
/// 1 / (x * (1 + (y/x)^2)). NaN where both are 0.
Value arcTangent2(const Dual &d) {
  Value isFirst = d.compare("ogt", d.call("math.absf", {d.x(0)}), d.call("math.absf", {d.x(1)}));
  Value large = d.select(isFirst, d.x(0), d.x(1)), small = d.select(isFirst, d.x(1), d.x(0));
  Value quotient = d.divide(small, large), one = d.number(1);
  Value factor = d.divide(one, d.add(one, d.multiply(quotient, quotient)));
  Value ofSmall = d.divide(factor, large);
  Value ofLarge = d.divide(d.multiply(quotient, factor), large);
  Value first = d.multiply(d.t(0), d.select(isFirst, ofLarge, ofSmall));
  return d.subtract(first, d.multiply(d.t(1), d.select(isFirst, ofSmall, ofLarge)));
}

/// The root of `square`, which is x*x + 1 or x*x - 1: |x| where the square may overflow and 1 is
/// lost to rounding.
Value rootOf(const Dual &d, Value square) {
  Value size = d.call("math.absf", {d.x()});
  return d.select(d.compare("ogt", size, d.number(0x1p60)), size, d.call("math.sqrt", {square}));
}

Value arcHyperbolicSine(const Dual &d) {
  return d.divide(d.t(), rootOf(d, onePlusSquare(d)));
}

Value arcHyperbolicCosine(const Dual &d) {
  Value one = d.number(1);
  Value square = d.multiply(d.subtract(d.x(), one), d.add(d.x(), one));
  return d.divide(d.t(), rootOf(d, square));
}

Value arcHyperbolicTangent(const Dual &d) {
  return d.divide(d.t(), oneMinusSquare(d));
}

/// exp(factor * x * x).
Value bell(const Dual &d, Value x, double factor) {
  return d.call("math.exp", {d.scale(d.multiply(x, x), factor)});
}

Value errorFunction(const Dual &d) {
  return d.multiply(settledTangent(d, d.x()), d.scale(bell(d, d.x(), -1), twoOverSqrtPi));
}

Value complementaryErrorFunction(const Dual &d) {
  return d.negate(errorFunction(d));
}

Value scaledComplementaryErrorFunction(const Dual &d) {
  Value slope = d.subtract(d.scale(d.multiply(d.x(), d.y()), 2), d.number(twoOverSqrtPi));
  return d.multiply(d.t(), slope);
}

Value inverseErrorFunction(const Dual &d) {
  return d.multiply(d.t(), d.scale(bell(d, d.y(), 1), halfSqrtPi));
}

Value inverseComplementaryErrorFunction(const Dual &d) {
  return d.negate(inverseErrorFunction(d));
}

Value normalDistribution(const Dual &d) {
  return d.multiply(settledTangent(d, d.x()), d.scale(bell(d, d.x(), -0.5), 1 / sqrtTwoPi));
}

Value inverseNormalDistribution(const Dual &d) {
  return d.multiply(d.t(), d.scale(bell(d, d.y(), 0.5), sqrtTwoPi));
}

} // namespace

//===--- the tables
//--------------------------------------------------------------------------------===//

const Row *findRow(StringRef operation) {
  static const auto *rows = new llvm::StringMap<Row>{
#define RULE(Name, Function) {Name, {Row::Kind::Rule, &Function}},
#define MOVES(Name) {Name, {Row::Kind::Moves}},
#define WALKED(Name) {Name, {Row::Kind::Walked}},
#define COMPARES(Name) {Name, {Row::Kind::Compares}},
#define INACTIVE(Name, Why) {Name, {Row::Kind::Inactive, nullptr, Why}},
#define REFUSED(Name, Why) {Name, {Row::Kind::Refused, nullptr, Why}},
#include "differentiate/Rules.def"
  };
  auto found = rows->find(operation);
  return found == rows->end() ? nullptr : &found->second;
}

const Row *findDeviceRow(StringRef symbol) {
  static const auto *rows = new llvm::StringMap<Row>{
#define DEVICE_RULE(Name, Function)                                                                \
  {"__nv_" Name, {Row::Kind::Rule, &Function}}, {"__nv_" Name "f", {Row::Kind::Rule, &Function}},
#define DEVICE_SYMBOL_RULE(Name, Function) {Name, {Row::Kind::Rule, &Function}},
#define DEVICE_INACTIVE(Name)                                                                      \
  {"__nv_" Name, {Row::Kind::Inactive}}, {"__nv_" Name "f", {Row::Kind::Inactive}},
#define DEVICE_REFUSED(Name, Why)                                                                  \
  {"__nv_" Name, {Row::Kind::Refused, nullptr, Why}},                                              \
      {"__nv_" Name "f", {Row::Kind::Refused, nullptr, Why}},
#include "differentiate/Rules.def"
  };
  auto found = rows->find(symbol);
  return found == rows->end() ? nullptr : &found->second;
}

const Row *findAssemblyRow(StringRef assembly) {
  static const Row hyperbolic{Row::Kind::Rule, &hyperbolicTangent};
  return assembly == "tanh.approx.f32 $0, $1;" ? &hyperbolic : nullptr; // libdevice.fast_tanhf
}

} // namespace nereid::differentiate
