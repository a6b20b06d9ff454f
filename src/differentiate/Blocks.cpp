#include "differentiate/Blocks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace nereid::differentiate {

Value constantOf(OpBuilder &builder, Location loc, Type type, double value) {
  TypedAttr attribute = FloatAttr::get(tile::elementOf(type), value);
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    attribute = DenseElementsAttr::get(tensor, Attribute(attribute));
  return arith::ConstantOp::create(builder, loc, attribute);
}

Value zeroOf(OpBuilder &builder, Location loc, Type type) {
  return constantOf(builder, loc, type, 0.0);
}

Value convertTo(OpBuilder &builder, Value value, Type element) {
  Type from = tile::elementOf(value.getType());
  if (from == element)
    return value;
  Type to = tile::withShapeOf(element, value.getType());
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = element.getIntOrFloatBitWidth();
  Location loc = value.getLoc();
  if (fromBits == toBits) // fp16 and bf16
    return convertTo(builder, convertTo(builder, value, builder.getF32Type()), element);
  if (fromBits < toBits)
    return arith::ExtFOp::create(builder, loc, to, value);
  return arith::TruncFOp::create(builder, loc, to, value);
}

/// `type` without an axis.
static Type without(RankedTensorType type, unsigned axis) {
  if (type.getRank() == 1)
    return type.getElementType();
  SmallVector<int64_t> shape(type.getShape());
  shape.erase(shape.begin() + axis);
  return type.clone(shape);
}

Value sumAlong(OpBuilder &builder, Location loc, Value block, unsigned axis) {
  Type element = tile::elementOf(block.getType());
  if (element.getIntOrFloatBitWidth() < 32) {
    Value wide = sumAlong(builder, loc, convertTo(builder, block, builder.getF32Type()), axis);
    return convertTo(builder, wide, element);
  }
  auto type = cast<RankedTensorType>(block.getType());
  auto sum =
      tile::ReduceOp::create(builder, loc, TypeRange(without(type, axis)), ValueRange(block), axis);
  OpBuilder::InsertionGuard guard(builder);
  Block *body = builder.createBlock(&sum.getCombine(), {}, {element, element}, {loc, loc});
  Value both = arith::AddFOp::create(builder, loc, body->getArgument(0), body->getArgument(1));
  tile::YieldOp::create(builder, loc, both);
  return sum.getResult()[0];
}

Value sumOfAll(OpBuilder &builder, Location loc, Value block) {
  auto type = cast<RankedTensorType>(block.getType());
  if (type.getRank() > 1)
    block = tile::ReshapeOp::create(builder, loc, type.clone({type.getNumElements()}), block,
                                    /*any_order=*/true);
  return sumAlong(builder, loc, block, 0);
}

Value repeatAlong(OpBuilder &builder, Location loc, Value value, unsigned axis,
                  RankedTensorType type) {
  if (!isa<RankedTensorType>(value.getType()))
    return tile::SplatOp::create(builder, loc, type, value);
  SmallVector<int64_t> shape(type.getShape());
  shape[axis] = 1;
  value = tile::ExpandDimsOp::create(builder, loc, type.clone(shape), value, axis);
  return type == value.getType() ? value : tile::BroadcastOp::create(builder, loc, type, value);
}

Value positionsAlong(OpBuilder &builder, Location loc, unsigned axis, ArrayRef<int64_t> shape) {
  auto type = RankedTensorType::get({shape[axis]}, builder.getI32Type());
  Value positions = tile::RangeOp::create(builder, loc, type, 0, uint32_t(shape[axis]));
  for (unsigned i = 0; i < shape.size(); ++i) {
    if (i == axis)
      continue;
    SmallVector<int64_t> sizes(cast<RankedTensorType>(positions.getType()).getShape());
    sizes.insert(sizes.begin() + i, 1);
    positions = tile::ExpandDimsOp::create(builder, loc, type.clone(sizes), positions, i);
  }
  auto whole = type.clone(shape);
  return whole == positions.getType() ? positions
                                      : tile::BroadcastOp::create(builder, loc, whole, positions);
}

Value firstExtremum(OpBuilder &builder, Location loc, Value block, unsigned axis, bool isLargest) {
  auto type = cast<RankedTensorType>(block.getType());
  Value positions = positionsAlong(builder, loc, axis, type.getShape());
  Type element = type.getElementType(), integer = builder.getI32Type();
  auto reduce = tile::ReduceOp::create(
      builder, loc,
      TypeRange({without(type, axis), without(cast<RankedTensorType>(positions.getType()), axis)}),
      ValueRange({block, positions}), axis, /*any_order=*/true);
  OpBuilder::InsertionGuard guard(builder);
  Block *body = builder.createBlock(&reduce.getCombine(), {}, {element, integer, element, integer},
                                    {loc, loc, loc, loc});
  Value a = body->getArgument(0), i = body->getArgument(1), b = body->getArgument(2),
        j = body->getArgument(3);
  using Predicate = arith::CmpFPredicate;
  auto compare = [&](Predicate predicate, Value x, Value y) -> Value {
    return arith::CmpFOp::create(builder, loc, predicate, x, y);
  };
  auto both = [&](Value x, Value y) -> Value { return arith::AndIOp::create(builder, loc, x, y); };
  auto either = [&](Value x, Value y) -> Value { return arith::OrIOp::create(builder, loc, x, y); };
  // Of equal ones, and of two NaN, the first; a number before NaN.
  Value before = compare(isLargest ? Predicate::OGT : Predicate::OLT, a, b);
  Value aIsNaN = compare(Predicate::UNO, a, a), bIsNaN = compare(Predicate::UNO, b, b);
  Value earlier = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, i, j);
  Value same = either(compare(Predicate::OEQ, a, b), both(aIsNaN, bIsNaN));
  Value aIsNumber = compare(Predicate::ORD, a, a);
  Value keep = either(either(before, both(aIsNumber, bIsNaN)), both(same, earlier));
  Value value = arith::SelectOp::create(builder, loc, keep, a, b);
  Value place = arith::SelectOp::create(builder, loc, keep, i, j);
  tile::YieldOp::create(builder, loc, ValueRange({value, place}));
  return reduce.getResult()[1];
}

Value alongDim(OpBuilder &builder, Location loc, Value line, unsigned dim, RankedTensorType like) {
  auto type = cast<RankedTensorType>(line.getType());
  SmallVector<int64_t> shape{type.getDimSize(0)};
  for (unsigned i = 0; i < like.getRank(); ++i)
    if (i != dim) {
      shape.insert(shape.begin() + i, 1);
      line = tile::ExpandDimsOp::create(builder, loc, type.clone(shape), line, i);
    }
  auto whole = like.clone(type.getElementType());
  return line.getType() == whole ? line : tile::BroadcastOp::create(builder, loc, whole, line);
}

} // namespace nereid::differentiate
