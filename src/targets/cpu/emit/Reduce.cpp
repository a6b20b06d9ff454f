// Combiners: which may be reordered, and how lanes are combined among themselves.
#include "targets/cpu/emit/Loops.h"

using namespace mlir;

namespace nereid::cpu {

bool isCommutative(Region &combiner, TypedAttr &identity) {
  identity = {};
  if (combiner.getParentOp()->hasAttr("tile.any_order"))
    return true;
  Block &block = combiner.front();
  if (block.getNumArguments() != 2 || !llvm::hasNItems(block, 2))
    return false;
  Operation *op = &block.front();
  if (op->getNumResults() != 1 || op->getNumOperands() != 2 ||
      block.getTerminator()->getOperand(0) != op->getResult(0))
    return false;
  auto first = block.getArgument(0), second = block.getArgument(1);
  if (!(op->getOperand(0) == first && op->getOperand(1) == second) &&
      !(op->getOperand(0) == second && op->getOperand(1) == first))
    return false;
  Type type = first.getType();
  OpBuilder b(op->getContext());
  if (isa<arith::AddIOp, arith::MulIOp, arith::AndIOp, arith::OrIOp, arith::XOrIOp, arith::MaxSIOp,
          arith::MinSIOp, arith::MaxUIOp, arith::MinUIOp>(op)) {
    unsigned bits = type.getIntOrFloatBitWidth();
    APInt value = APInt::getZero(bits);
    if (isa<arith::MulIOp>(op))
      value = APInt(bits, 1);
    else if (isa<arith::AndIOp, arith::MinUIOp>(op))
      value = APInt::getAllOnes(bits);
    else if (isa<arith::MaxSIOp>(op))
      value = APInt::getSignedMinValue(bits);
    else if (isa<arith::MinSIOp>(op))
      value = APInt::getSignedMaxValue(bits);
    identity = b.getIntegerAttr(type, value);
    return true;
  }
  if (auto floating = dyn_cast<FloatType>(type);
      floating && isa<arith::AddFOp, arith::MulFOp, arith::MaxNumFOp, arith::MinNumFOp,
                      arith::MaximumFOp, arith::MinimumFOp>(op)) {
    const auto &semantics = floating.getFloatSemantics();
    APFloat value = APFloat::getZero(semantics, true); // -0 + x is x, also for x = -0
    if (isa<arith::MulFOp>(op))
      value = APFloat(semantics, 1);
    else if (isa<arith::MaxNumFOp, arith::MinNumFOp>(op)) // the number, if there is one
      value = APFloat::getQNaN(semantics);
    else if (isa<arith::MaximumFOp>(op))
      value = APFloat::getInf(semantics, true);
    else if (isa<arith::MinimumFOp>(op))
      value = APFloat::getInf(semantics, false);
    identity = b.getFloatAttr(floating, value);
    return true;
  }
  return false;
}

SmallVector<Value> combineLanes(Kernel &k, Region &combiner, ArrayRef<Value> lanes,
                                bool commutative) {
  SmallVector<Value> values(lanes);
  for (int64_t width = Emit::widthOf(values[0]); width > 1; width /= 2) {
    // In order: neighbours. Free: the lower half with the upper half, which is cheaper.
    SmallVector<int64_t> left, right;
    for (int64_t i = 0; i < width / 2; ++i) {
      left.push_back(commutative ? i : 2 * i);
      right.push_back(commutative ? i + width / 2 : 2 * i + 1);
    }
    SmallVector<Value> lhs, rhs;
    for (Value value : values) {
      lhs.push_back(width == 2 ? k.e.extract(value, 0) : k.e.shuffle(value, left));
      rhs.push_back(width == 2 ? k.e.extract(value, 1) : k.e.shuffle(value, right));
    }
    values = k.e.combine(combiner, lhs, rhs, width / 2);
  }
  return values;
}

} // namespace nereid::cpu
