#include "targets/cpu/emit/Extremes.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace nereid::cpu {

static Type integerOf(Type element) {
  return IntegerType::get(element.getContext(), element.getIntOrFloatBitWidth());
}

int64_t Extremes::lanesOfNan() const {
  return std::min<int64_t>(width, e.features.vectorBytes / (element.getIntOrFloatBitWidth() / 8));
}

// Masks have registers of their own where a register has 64 bytes; elsewhere a comparison gives
// integers.
Type Extremes::typeOfNan() const {
  Type lane = e.features.vectorBytes == 64 ? e.b.getI1Type() : integerOf(element);
  return VectorType::get({lanesOfNan()}, lane);
}

Value Extremes::bitsOf(Value lanes) {
  return arith::BitcastOp::create(e.b, e.loc, VectorType::get({width}, integerOf(element)), lanes);
}

// One comparison tells of two registers whether one of both elements is NaN.
Value Extremes::hasNan(Value lanes) {
  int64_t part = lanesOfNan();
  SmallVector<Value> parts;
  for (int64_t first = 0; first < width; first += part)
    parts.push_back(
        width == part ? lanes : e.shuffle(lanes, llvm::to_vector(llvm::seq(first, first + part))));
  Value result;
  for (size_t i = 0; i < parts.size(); i += 2) {
    Value other = i + 1 < parts.size() ? parts[i + 1] : parts[i];
    Value found = arith::CmpFOp::create(e.b, e.loc, arith::CmpFPredicate::UNO, parts[i], other);
    if (found.getType() != typeOfNan())
      found = arith::ExtSIOp::create(e.b, e.loc, typeOfNan(), found);
    result = result ? arith::OrIOp::create(e.b, e.loc, result, found).getResult() : found;
  }
  return result;
}

/// From the bits of 16-bit numbers to integers in their order, and back.
Value Extremes::ordered(Value bits) {
  Type type = bits.getType();
  Value sign = arith::ShRSIOp::create(e.b, e.loc, bits, e.integer(type, 15));
  Value turned = arith::AndIOp::create(e.b, e.loc, sign, e.integer(type, 0x7fff));
  return arith::XOrIOp::create(e.b, e.loc, bits, turned);
}

Value Extremes::orderOfInfinity(Type type, bool isNegative) {
  auto infinity = llvm::APFloat::getInf(cast<FloatType>(narrow).getFloatSemantics());
  auto order = int64_t(infinity.bitcastToAPInt().getZExtValue());
  return e.integer(type, isNegative ? -order - 1 : order);
}

SmallVector<Value> Extremes::none() {
  if (narrow) {
    Type type = VectorType::get({width}, integerOf(narrow));
    Value least = orderOfInfinity(type, true), greatest = orderOfInfinity(type, false);
    return kind == tile::CombinerKind::Maximum ? SmallVector<Value>{least, greatest}
                                               : SmallVector<Value>{greatest, least};
  }
  TypedAttr least = tile::neutralElement(kind, element);
  int64_t bits = kind == tile::CombinerKind::Maximum ? -1 : 0;
  return {e.splat(e.constantOf(least, element), width),
          e.integer(VectorType::get({width}, integerOf(element)), bits), e.integer(typeOfNan(), 0)};
}

SmallVector<Value> Extremes::of(Value lanes) {
  if (narrow) {
    Type type = VectorType::get({width}, integerOf(narrow));
    Value order = ordered(arith::BitcastOp::create(e.b, e.loc, type, lanes));
    return {order, order};
  }
  return {lanes, bitsOf(lanes), hasNan(lanes)};
}

void Extremes::add(MutableArrayRef<Value> current, Value lanes) {
  bool isMaximum = kind == tile::CombinerKind::Maximum;
  if (narrow) { // the extreme that is asked for, and the other one
    Value order = of(lanes).front();
    Value greatest = arith::MaxSIOp::create(e.b, e.loc, current[isMaximum ? 0 : 1], order);
    Value least = arith::MinSIOp::create(e.b, e.loc, current[isMaximum ? 1 : 0], order);
    current[0] = isMaximum ? greatest : least;
    current[1] = isMaximum ? least : greatest;
    return;
  }
  // A comparison with NaN is false, so the elements before stay.
  Value isBeyond = arith::CmpFOp::create(
      e.b, e.loc, isMaximum ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT, lanes,
      current[0]);
  current[0] = arith::SelectOp::create(e.b, e.loc, isBeyond, lanes, current[0]);
  Value bits = bitsOf(lanes);
  current[1] = isMaximum ? arith::AndIOp::create(e.b, e.loc, current[1], bits).getResult()
                         : arith::OrIOp::create(e.b, e.loc, current[1], bits).getResult();
  current[2] = arith::OrIOp::create(e.b, e.loc, current[2], hasNan(lanes));
}

SmallVector<Value> Extremes::folded(ArrayRef<Value> current, int64_t count) {
  if (!narrow)
    return {};
  bool isMaximum = kind == tile::CombinerKind::Maximum;
  SmallVector<Value> states(current);
  for (int64_t lanes = width; lanes > count; lanes /= 2)
    for (auto [i, state] : llvm::enumerate(states)) {
      Value lower = e.shuffle(state, llvm::to_vector(llvm::seq<int64_t>(0, lanes / 2)));
      Value upper = e.shuffle(state, llvm::to_vector(llvm::seq<int64_t>(lanes / 2, lanes)));
      state = (i == 0) == isMaximum ? arith::MaxSIOp::create(e.b, e.loc, lower, upper).getResult()
                                    : arith::MinSIOp::create(e.b, e.loc, lower, upper).getResult();
    }
  return states;
}

Value Extremes::narrowResult(ArrayRef<Value> current) {
  bool isMaximum = kind == tile::CombinerKind::Maximum;
  auto greatest = [&](Value lanes) -> Value {
    return vector::ReductionOp::create(e.b, e.loc, vector::CombiningKind::MAXSI, lanes);
  };
  auto least = [&](Value lanes) -> Value {
    return vector::ReductionOp::create(e.b, e.loc, vector::CombiningKind::MINSI, lanes);
  };
  Value top = greatest(current[isMaximum ? 0 : 1]), bottom = least(current[isMaximum ? 1 : 0]);
  Type type = top.getType();
  Value beyond = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::sgt, top,
                                       orderOfInfinity(type, false));
  Value below = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::slt, bottom,
                                      orderOfInfinity(type, true));
  Value isNan = arith::OrIOp::create(e.b, e.loc, beyond, below);
  Value number = arith::BitcastOp::create(e.b, e.loc, narrow, ordered(isMaximum ? top : bottom));
  auto floating = cast<FloatType>(element);
  TypedAttr nan = e.b.getFloatAttr(element, llvm::APFloat::getQNaN(floating.getFloatSemantics()));
  return arith::SelectOp::create(e.b, e.loc, isNan, e.constantOf(nan, element),
                                 e.convertFloat(number, narrow, element));
}

Value Extremes::lanes(ArrayRef<Value> current) {
  if (narrow)
    return narrowResult(current);
  Type type = current[0].getType(), bits = current[1].getType();
  unsigned size = element.getIntOrFloatBitWidth();
  Value zero = e.zero(element, width);
  Value isZero = arith::CmpFOp::create(e.b, e.loc, arith::CmpFPredicate::OEQ, current[0], zero);
  Value sign = arith::AndIOp::create(e.b, e.loc, current[1],
                                     e.integer(bits, int64_t(uint64_t(1) << (size - 1))));
  Value signedZero = arith::BitcastOp::create(e.b, e.loc, type, sign);
  Value result = arith::SelectOp::create(e.b, e.loc, isZero, signedZero, current[0]);
  Value found = current[2];
  if (!getElementTypeOrSelf(found).isInteger(1))
    found = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ne, found,
                                  e.integer(found.getType(), 0));
  SmallVector<int64_t> order;
  for (int64_t lane = 0; lane < width; ++lane)
    order.push_back(lane % lanesOfNan());
  found = e.shuffle(found, order);
  auto floating = cast<FloatType>(element);
  TypedAttr nan = e.b.getFloatAttr(element, llvm::APFloat::getQNaN(floating.getFloatSemantics()));
  return arith::SelectOp::create(e.b, e.loc, found, e.splat(e.constantOf(nan, element), width),
                                 result);
}

/// The type of 16 bits that elements of `value` were widened from; null: none, or several.
static Type narrowType(Value value, function_ref<bool(Value)> isInMemory, unsigned depth = 0) {
  constexpr unsigned deepest = 3;
  Operation *op = value.getDefiningOp();
  if (!op || depth > deepest || isInMemory(value))
    return {};
  if (auto extension = dyn_cast<arith::ExtFOp>(op)) {
    Type type = getElementTypeOrSelf(extension.getIn().getType());
    return type.isBF16() || type.isF16() ? type : Type();
  }
  auto choice = dyn_cast<arith::SelectOp>(op);
  if (!choice)
    return {};
  Type found;
  for (Value side : {choice.getTrueValue(), choice.getFalseValue()}) {
    if (matchPattern(side, m_Constant()))
      continue;
    Type type = narrowType(side, isInMemory, depth + 1);
    if (!type || (found && found != type))
      return {};
    found = type;
  }
  return found;
}

/// `value`, of which `narrowType` is `type`; null where a constant is no number of that type.
static Value narrowed(OpBuilder &b, Value value, Type type) {
  Operation *op = value.getDefiningOp();
  if (auto extension = dyn_cast<arith::ExtFOp>(op))
    return extension.getIn();
  auto shaped = dyn_cast<RankedTensorType>(value.getType());
  if (DenseElementsAttr constant; matchPattern(value, m_Constant(&constant))) {
    if (!constant.isSplat() || !shaped)
      return {};
    bool loses = false;
    auto number = constant.getSplatValue<llvm::APFloat>();
    number.convert(cast<FloatType>(type).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                   &loses);
    if (loses)
      return {};
    return arith::ConstantOp::create(b, value.getLoc(),
                                     DenseElementsAttr::get(shaped.clone(type), number));
  }
  auto choice = dyn_cast<arith::SelectOp>(op);
  if (!choice)
    return {};
  Value yes = narrowed(b, choice.getTrueValue(), type);
  Value no = yes ? narrowed(b, choice.getFalseValue(), type) : Value();
  return no ? Value(arith::SelectOp::create(b, value.getLoc(), choice.getCondition(), yes, no))
            : Value();
}

Value narrowSource(Value value, Operation *before, function_ref<bool(Value)> isInMemory) {
  Type type = narrowType(value, isInMemory);
  OpBuilder b(before);
  return type && isa<RankedTensorType>(value.getType()) ? narrowed(b, value, type) : Value();
}

} // namespace nereid::cpu
