#include "differentiate/Blocks.h"
#include "differentiate/Combiners.h"
#include "differentiate/Transposer.h"
#include "ir/tile/Combiner.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace nereid::differentiate {

/// Whether a factor is a number.
static bool isFinite(Value factor) {
  if (auto splat = factor.getDefiningOp<tile::SplatOp>())
    factor = splat.getSrc();
  APFloat value(0.0f);
  return matchPattern(factor, m_ConstantFloat(&value)) && value.isFinite();
}

bool Transposer::transposeArithmetic(Operation *op, Value a) {
  Location loc = op->getLoc();
  auto x = [&](unsigned i) { return op->getOperand(i); };
  if (isa<arith::AddFOp>(op)) {
    accumulate(x(0), a);
    accumulate(x(1), a);
  } else if (isa<arith::SubFOp>(op)) {
    accumulate(x(0), a);
    if (linear.contains(x(1)))
      accumulate(x(1), sameLanes(arith::NegFOp::create(builder, loc, a), a));
  } else if (isa<arith::NegFOp>(op)) {
    accumulate(x(0), sameLanes(arith::NegFOp::create(builder, loc, a), a));
  } else if (isa<arith::MulFOp>(op) && linear.contains(x(0)) != linear.contains(x(1))) {
    unsigned i = linear.contains(x(0)) ? 0 : 1;
    Value factor = here(x(1 - i));
    accumulate(x(i), sameLanes(arith::MulFOp::create(builder, loc, a, factor), a,
                               /*isScaled=*/!isFinite(factor)));
  } else if (isa<arith::DivFOp>(op) && !linear.contains(x(1))) {
    accumulate(x(0), sameLanes(arith::DivFOp::create(builder, loc, a, here(x(1))), a,
                               /*isScaled=*/true));
  } else if (auto select = dyn_cast<arith::SelectOp>(op)) {
    Value condition = here(select.getCondition());
    if (linear.contains(select.getTrueValue()))
      accumulate(select.getTrueValue(), selected(condition, a, true));
    if (linear.contains(select.getFalseValue()))
      accumulate(select.getFalseValue(), selected(condition, a, false));
  } else if (isa<arith::ExtFOp, arith::TruncFOp, tile::FpCastOp>(op)) {
    accumulate(x(0), sameLanes(convertTo(builder, a, tile::elementOf(x(0).getType())), a));
  } else {
    return false;
  }
  return true;
}

/// Functions of the library that are linear: scaling by powers of two, conversions.
void Transposer::transposeDevice(tile::ExternOp op, Value a) {
  StringRef symbol = op.getSymbol();
  Value x = op->getOperand(0);
  if (symbol.contains("double2float"))
    return accumulate(x, convertTo(builder, a, tile::elementOf(x.getType())));
  if (!symbol.contains("ldexp") && !symbol.contains("scalbn"))
    return refuseHere(op, "`" + symbol.str() + "`", "it is not transposed yet; use `nereid.jvp`");
  Operation *copy = builder.clone(*op);
  SmallVector<Value> operands{a};
  for (Value operand : op->getOperands().drop_front())
    operands.push_back(here(operand));
  copy->setOperands(operands);
  accumulate(x, copy->getResult(0));
}

bool Transposer::transposeShape(Operation *op, Value a) {
  Location loc = op->getLoc();
  Value x = op->getOperand(0);
  auto type = dyn_cast<RankedTensorType>(x.getType());
  if (isa<tile::HintOp>(op)) {
    accumulate(x, a);
  } else if (isa<tile::SplatOp>(op)) {
    accumulate(x, sumOfAll(builder, loc, a));
  } else if (isa<tile::UnsplatOp>(op)) {
    accumulate(x, tile::SplatOp::create(builder, loc, type, a));
  } else if (isa<tile::BroadcastOp>(op)) {
    auto wide = cast<RankedTensorType>(a.getType());
    for (int64_t i = 0; i < type.getRank(); ++i)
      if (type.getDimSize(i) != wide.getDimSize(i)) {
        SmallVector<int64_t> shape(cast<RankedTensorType>(a.getType()).getShape());
        shape[i] = 1;
        Value sum = sumAlong(builder, loc, a, i);
        a = isa<RankedTensorType>(sum.getType())
                ? tile::ExpandDimsOp::create(builder, loc, type.clone(shape), sum, i).getResult()
                : tile::SplatOp::create(builder, loc, type.clone(shape), sum).getResult();
      }
    accumulate(x, a);
  } else if (isa<tile::ExpandDimsOp, tile::ReshapeOp>(op)) {
    accumulate(x, tile::ReshapeOp::create(builder, loc, type, a));
  } else if (auto trans = dyn_cast<tile::TransOp>(op)) {
    SmallVector<int32_t> inverse(trans.getOrder().size());
    for (auto [i, dim] : llvm::enumerate(trans.getOrder()))
      inverse[dim] = i;
    accumulate(x, tile::TransOp::create(builder, loc, type, a, inverse));
  } else if (auto exchange = dyn_cast<tile::ExchangeOp>(op)) {
    Operation *copy = builder.clone(*op);
    copy->setOperands({a});
    accumulate(x, copy->getResult(0));
  } else if (auto join = dyn_cast<tile::JoinOp>(op)) {
    auto parts = tile::SplitOp::create(builder, loc, x.getType(), x.getType(), a);
    accumulate(join.getLhs(), parts.getLhs());
    accumulate(join.getRhs(), parts.getRhs());
  } else if (auto gather = dyn_cast<tile::GatherOp>(op)) {
    transposeGather(gather, a);
  } else if (auto slice = dyn_cast<tile::SliceOp>(op)) {
    transposeSlice(slice, a);
  } else if (auto cat = dyn_cast<tile::CatOp>(op)) {
    SmallVector<int64_t> offsets(type.getRank(), 0), steps(type.getRank(), 1);
    for (Value part : {cat.getLhs(), cat.getRhs()}) {
      accumulate(part, tile::SliceOp::create(builder, loc, part.getType(), a, offsets, steps));
      offsets[cat.getDim()] += cast<RankedTensorType>(part.getType()).getDimSize(cat.getDim());
    }
  } else {
    return false;
  }
  return true;
}

void Transposer::transposeSplit(tile::SplitOp split) {
  Value left = zeroed(adjoints.lookup(split.getLhs()));
  Value right = zeroed(adjoints.lookup(split.getRhs()));
  if (!left && !right)
    return;
  accumulate(split.getSrc(),
             tile::JoinOp::create(builder, split.getLoc(), split.getSrc().getType(),
                                  orZero(left, split.getLhs()), orZero(right, split.getRhs())));
}

bool Transposer::isOneSum(Operation *op) {
  return op->getNumOperands() == 1 &&
         tile::resultKind(op->getRegion(0), 0) == tile::CombinerKind::AddF;
}

void Transposer::transposeSum(tile::ReduceOp op, unsigned axis, Value a) {
  Value x = op->getOperand(0);
  accumulate(x, repeatAlong(builder, op->getLoc(), a, axis, cast<RankedTensorType>(x.getType())));
}

/// Element i is in the sums from i on.
void Transposer::transposeScan(tile::ScanOp op, Value a) {
  auto copy = cast<tile::ScanOp>(builder.clone(*op));
  copy->setOperands({a});
  copy.setReverse(!op.getReverse());
  accumulate(op->getOperand(0), copy.getResult()[0]);
}

void Transposer::transposeLinearScan(tile::ScanOp scan) {
  ValueRange results = linearResults(scan);
  if (llvm::none_of(results, [&](Value result) { return bool(adjoints.lookup(result)); }))
    return;
  SmallVector<Value> given = llvm::map_to_vector(
      results, [&](Value result) { return orZero(adjoints.lookup(result), result); });
  SmallVector<Value> found =
      transposedLinearScan(builder, scan, given, [&](Value value) { return here(value); });
  for (auto [operand, adjoint] : llvm::zip(linearOperands(scan), found))
    accumulate(operand, adjoint);
}

void Transposer::transposeGather(tile::GatherOp gather, Value a) {
  Location loc = gather.getLoc();
  unsigned axis = gather.getAxis();
  auto type = cast<RankedTensorType>(gather.getSrc().getType());
  Value indices = here(gather.getIndices()), zero = zeroOf(builder, loc, a.getType());
  Value places = positionsAlong(builder, loc, axis, type.getShape());
  Type integer = tile::elementOf(indices.getType());
  // One element of the axis after the other, which takes no more memory than the block.
  Value low = arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(0));
  int64_t size = type.getDimSize(axis);
  if (integer.getIntOrFloatBitWidth() < 32) // no index counts further
    size = std::min(size, int64_t(1) << integer.getIntOrFloatBitWidth());
  Value high = arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(int32_t(size)));
  Value one = arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(1));
  auto loop =
      scf::ForOp::create(builder, loc, low, high, one, ValueRange(zeroOf(builder, loc, type)));
  Block *body = loop.getBody();
  if (!body->empty())
    body->back().erase();
  builder.setInsertionPointToEnd(body);
  auto equals = [&](Value block, Value number) -> Value {
    Value all = tile::SplatOp::create(builder, loc, block.getType(), number);
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, block, all);
  };
  Value number = loop.getInductionVar(), wanted = number;
  if (integer.getIntOrFloatBitWidth() > 32)
    wanted = arith::ExtSIOp::create(builder, loc, integer, number);
  else if (integer.getIntOrFloatBitWidth() < 32)
    wanted = arith::TruncIOp::create(builder, loc, integer, number);
  Value picked = arith::SelectOp::create(builder, loc, equals(indices, wanted), a, zero);
  Value sum = repeatAlong(builder, loc, sumAlong(builder, loc, picked, axis), axis, type);
  Value next =
      arith::SelectOp::create(builder, loc, equals(places, number), sum, loop.getRegionIterArg(0));
  scf::YieldOp::create(builder, loc, next);
  builder.setInsertionPointAfter(loop);
  accumulate(gather.getSrc(), loop.getResult(0));
}

void Transposer::transposeSlice(tile::SliceOp slice, Value a) {
  Location loc = slice.getLoc();
  auto type = cast<RankedTensorType>(slice.getSrc().getType());
  for (int64_t axis = 0; axis < type.getRank(); ++axis) {
    auto narrow = cast<RankedTensorType>(a.getType());
    int64_t size = narrow.getDimSize(axis), offset = slice.getOffsets()[axis],
            step = slice.getSteps()[axis];
    if (size == type.getDimSize(axis) && offset == 0 && step == 1)
      continue;
    SmallVector<int64_t> shape(narrow.getShape());
    shape[axis] = type.getDimSize(axis);
    auto wide = narrow.clone(shape);
    auto integers = wide.clone(builder.getI32Type());
    auto number = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(
          builder, loc,
          DenseElementsAttr::get(integers, builder.getI32IntegerAttr(int32_t(value))));
    };
    auto compare = [&](arith::CmpIPredicate predicate, Value x, Value y) -> Value {
      return arith::CmpIOp::create(builder, loc, predicate, x, y);
    };
    using Predicate = arith::CmpIPredicate;
    // Steps from the slice's first element; a step backwards counts down.
    Value position = positionsAlong(builder, loc, axis, shape);
    Value distance = step > 0 ? arith::SubIOp::create(builder, loc, position, number(offset))
                              : arith::SubIOp::create(builder, loc, number(offset), position);
    Value width = number(std::abs(step));
    Value place = arith::DivSIOp::create(builder, loc, distance, width);
    Value isPicked = arith::AndIOp::create(
        builder, loc,
        arith::AndIOp::create(builder, loc, compare(Predicate::sge, distance, number(0)),
                              compare(Predicate::slt, place, number(size))),
        compare(Predicate::eq, arith::RemSIOp::create(builder, loc, distance, width), number(0)));
    place = arith::MinSIOp::create(
        builder, loc, arith::MaxSIOp::create(builder, loc, place, number(0)), number(size - 1));
    Value spread = tile::GatherOp::create(builder, loc, wide, a, place, unsigned(axis));
    a = arith::SelectOp::create(builder, loc, isPicked, spread, zeroOf(builder, loc, wide));
  }
  accumulate(slice.getSrc(), a);
}

Value Transposer::swapped(Value matrix) {
  auto type = cast<RankedTensorType>(matrix.getType());
  SmallVector<int32_t> order = llvm::to_vector(llvm::seq<int32_t>(0, type.getRank()));
  SmallVector<int64_t> shape(type.getShape());
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  return tile::TransOp::create(builder, matrix.getLoc(), type.clone(shape), matrix, order);
}

/// da = a b^T and db = a^T da, the adjoint rounded to the operands' type as the product's
/// operands are.
void Transposer::transposeDot(tile::DotOp dot, Value a) {
  accumulate(dot.getC(), a);
  auto product = [&](Value left, Value right, Value of) {
    Type element = tile::elementOf(of.getType());
    Type wide = tile::withShapeOf(tile::elementOf(dot.getC().getType()), of.getType());
    OperationState state(dot.getLoc(), dot->getName());
    state.addOperands({left, right, zeroOf(builder, dot.getLoc(), wide)});
    state.addTypes({wide});
    state.addAttributes(dot->getAttrs());
    accumulate(of, convertTo(builder, builder.create(state)->getResult(0), element));
  };
  if (linear.contains(dot.getA())) {
    Value b = here(dot.getB());
    product(convertTo(builder, a, tile::elementOf(b.getType())), swapped(b), dot.getA());
  }
  if (linear.contains(dot.getB())) {
    Value left = here(dot.getA());
    product(swapped(left), convertTo(builder, a, tile::elementOf(left.getType())), dot.getB());
  }
}

} // namespace nereid::differentiate
