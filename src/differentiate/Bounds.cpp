#include "differentiate/Bounds.h"

#include "differentiate/Ownership.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace nereid::differentiate {

static bool isAtLeast(Value value, int64_t least) {
  APInt number;
  return matchPattern(value, m_ConstantInt(&number)) && number.sge(least);
}

static Direction directionWithin(const Coordinates &coordinates, Value value, unsigned depth) {
  const Direction unknown{false, std::nullopt};
  if (std::optional<unsigned> place = coordinates.indexOf(value))
    return {true, place};
  if (isUniform(value))
    return {};
  Operation *op = value.getDefiningOp();
  if (!op || !depth || coordinates.positionOf(value) ||
      !isa<FunctionOpInterface>(op->getParentOp()))
    return unknown;
  auto operand = [&](unsigned i) {
    return directionWithin(coordinates, op->getOperand(i), depth - 1);
  };
  if (isa<arith::ExtSIOp, tile::HintOp>(op))
    return operand(0);
  if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::DivSIOp, arith::MinSIOp,
           arith::MaxSIOp>(op))
    return unknown;
  Direction a = operand(0), b = operand(1);
  if (!a.isKnown || !b.isKnown || (a.place && b.place && a.place != b.place))
    return unknown;
  if (isa<arith::SubIOp>(op) && b.place)
    return unknown;
  if (isa<arith::MulIOp>(op) && !isAtLeast(op->getOperand(a.place ? 1 : 0), 0))
    return unknown;
  if (isa<arith::DivSIOp>(op) && !isAtLeast(op->getOperand(1), 1))
    return unknown;
  return {true, a.place ? a.place : b.place};
}

Direction directionOf(const Coordinates &coordinates, Value value) {
  return directionWithin(coordinates, value, 16);
}

Value valueAt(const Coordinates &coordinates, Value value, unsigned place, Value at,
              OpBuilder &builder) {
  if (std::optional<unsigned> found = coordinates.indexOf(value); found && *found == place)
    return at;
  Operation *op = value.getDefiningOp();
  if (isUniform(value) || !op)
    return value;
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(valueAt(coordinates, operand, place, at, builder));
  Operation *copy = builder.clone(*op);
  copy->setOperands(operands);
  return copy->getResult(0);
}

Value firstWhere(OpBuilder &builder, Location loc, Value count,
                 llvm::function_ref<Value(Value)> condition) {
  auto number = [&](int32_t value) -> Value {
    return arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value));
  };
  Value zero = number(0), one = number(1);
  // An interval of less than 2^31 numbers is empty after 31 halvings.
  auto loop = scf::ForOp::create(builder, loc, zero, number(31), one, ValueRange{zero, count});
  OpBuilder::InsertionGuard guard(builder);
  Block *body = loop.getBody();
  if (!body->empty())
    body->back().erase();
  builder.setInsertionPointToEnd(body);
  Value from = loop.getRegionIterArg(0), to = loop.getRegionIterArg(1);
  Value length = arith::SubIOp::create(builder, loc, to, from);
  Value middle =
      arith::AddIOp::create(builder, loc, from, arith::ShRSIOp::create(builder, loc, length, one));
  Value isLeft = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, from, to);
  Value holds = condition(middle);
  Value behind = arith::AddIOp::create(builder, loc, middle, one);
  Value left = arith::SelectOp::create(builder, loc, holds, from, behind);
  Value right = arith::SelectOp::create(builder, loc, holds, middle, to);
  scf::YieldOp::create(
      builder, loc,
      ValueRange{arith::SelectOp::create(builder, loc, isLeft, from, left).getResult(),
                 arith::SelectOp::create(builder, loc, isLeft, to, right).getResult()});
  return loop.getResult(0);
}

} // namespace nereid::differentiate
