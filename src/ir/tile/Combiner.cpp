#include "ir/tile/Combiner.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using llvm::APFloat;
using llvm::APInt;

namespace nereid::tile {

CombinerKind resultKind(Region &combiner, unsigned result) {
  Block &block = combiner.front();
  unsigned count = block.getNumArguments() / 2;
  Operation *op = block.getTerminator()->getOperand(result).getDefiningOp();
  if (!op || op->getNumOperands() != 2)
    return CombinerKind::Other;
  Value left = block.getArgument(result), right = block.getArgument(count + result);
  Value x = op->getOperand(0), y = op->getOperand(1);
  if (!(x == left && y == right) && !(x == right && y == left))
    return CombinerKind::Other;
  return llvm::TypeSwitch<Operation *, CombinerKind>(op)
      .Case([](arith::AddIOp) { return CombinerKind::AddI; })
      .Case([](arith::MulIOp) { return CombinerKind::MulI; })
      .Case([](arith::AndIOp) { return CombinerKind::And; })
      .Case([](arith::OrIOp) { return CombinerKind::Or; })
      .Case([](arith::XOrIOp) { return CombinerKind::Xor; })
      .Case([](arith::MaxSIOp) { return CombinerKind::MaxS; })
      .Case([](arith::MinSIOp) { return CombinerKind::MinS; })
      .Case([](arith::MaxUIOp) { return CombinerKind::MaxU; })
      .Case([](arith::MinUIOp) { return CombinerKind::MinU; })
      .Case([](arith::AddFOp) { return CombinerKind::AddF; })
      .Case([](arith::MulFOp) { return CombinerKind::MulF; })
      .Case([](arith::MaxNumFOp) { return CombinerKind::MaxNum; })
      .Case([](arith::MinNumFOp) { return CombinerKind::MinNum; })
      .Case([](arith::MaximumFOp) { return CombinerKind::Maximum; })
      .Case([](arith::MinimumFOp) { return CombinerKind::Minimum; })
      .Default(CombinerKind::Other);
}

CombinerKind combinerKind(Region &combiner) {
  Block &block = combiner.front();
  bool isOneOp = block.getNumArguments() == 2 && llvm::hasNItems(block, 2);
  return isOneOp ? resultKind(combiner, 0) : CombinerKind::Other;
}

bool isSelection(CombinerKind kind) {
  switch (kind) {
  case CombinerKind::MaxS:
  case CombinerKind::MinS:
  case CombinerKind::MaxU:
  case CombinerKind::MinU:
  case CombinerKind::MaxNum:
  case CombinerKind::MinNum:
  case CombinerKind::Maximum:
  case CombinerKind::Minimum:
    return true;
  default:
    return false;
  }
}

bool declaresAnyOrder(Region &combiner) {
  auto reduce = dyn_cast<ReduceOp>(combiner.getParentOp());
  return reduce && reduce.getAnyOrder();
}

bool commutes(Region &combiner) {
  if (declaresAnyOrder(combiner))
    return true;
  unsigned count = combiner.front().getNumArguments() / 2;
  return llvm::all_of(llvm::seq(count), [&](unsigned result) {
    return resultKind(combiner, result) != CombinerKind::Other;
  });
}

TypedAttr neutralElement(CombinerKind kind, Type element) {
  Builder b(element.getContext());
  auto integer = [&](const APInt &value) { return b.getIntegerAttr(element, value); };
  auto floating = [&](const APFloat &value) { return b.getFloatAttr(element, value); };
  unsigned bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 0;
  auto semantics = [&]() -> const llvm::fltSemantics & {
    return cast<FloatType>(element).getFloatSemantics();
  };
  switch (kind) {
  case CombinerKind::Other:
    return {};
  case CombinerKind::AddI:
  case CombinerKind::Or:
  case CombinerKind::Xor:
  case CombinerKind::MaxU:
    return integer(APInt::getZero(bits));
  case CombinerKind::MulI:
    return integer(APInt(bits, 1));
  case CombinerKind::And:
  case CombinerKind::MinU:
    return integer(APInt::getAllOnes(bits));
  case CombinerKind::MaxS:
    return integer(APInt::getSignedMinValue(bits));
  case CombinerKind::MinS:
    return integer(APInt::getSignedMaxValue(bits));
  case CombinerKind::AddF: // -0 + x is x, also for x = -0
    return floating(APFloat::getZero(semantics(), /*Negative=*/true));
  case CombinerKind::MulF:
    return floating(APFloat(semantics(), 1));
  case CombinerKind::MaxNum: // maxnum(x, NaN) is x, and NaN where all are
  case CombinerKind::MinNum:
    return floating(APFloat::getQNaN(semantics()));
  case CombinerKind::Maximum:
    return floating(APFloat::getInf(semantics(), /*Negative=*/true));
  case CombinerKind::Minimum:
    return floating(APFloat::getInf(semantics(), /*Negative=*/false));
  }
  llvm_unreachable("all kinds are listed");
}

} // namespace nereid::tile
