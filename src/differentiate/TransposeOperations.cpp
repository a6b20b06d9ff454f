#include "differentiate/Blocks.h"
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
