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

SmallVector<Value> Extremes::none() {
  TypedAttr least = tile::neutralElement(kind, element);
  int64_t bits = kind == tile::CombinerKind::Maximum ? -1 : 0;
  return {e.splat(e.constantOf(least, element), width),
          e.integer(VectorType::get({width}, integerOf(element)), bits), e.integer(typeOfNan(), 0)};
}

SmallVector<Value> Extremes::of(Value lanes) {
  return {lanes, bitsOf(lanes), hasNan(lanes)};
}

void Extremes::add(MutableArrayRef<Value> current, Value lanes) {
  bool isMaximum = kind == tile::CombinerKind::Maximum;
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

Value Extremes::lanes(ArrayRef<Value> current) {
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

} // namespace nereid::cpu
