#include "transforms/LaunchNumber.h"

#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace nereid::transforms {
namespace {

using gpu::HostNumber;
using Op = HostNumber::Op;

unsigned widthOf(Type type) {
  return type.isIntOrFloat() ? type.getIntOrFloatBitWidth() : 64;
}

/// Writes `value`, as the signed number that it is in its own width. False for what a launcher
/// cannot compute.
bool write(Value value, HostNumber &out, unsigned depth = 0) {
  if (depth > 16)
    return false;
  unsigned width = widthOf(value.getType());
  auto narrow = [&] {
    if (width < 64)
      out.steps.push_back({Op::SignExtend, width});
    return true;
  };
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    auto function = dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp());
    if (!function || !function->hasAttr("tile.kernel"))
      return false;
    out.steps.push_back({Op::Argument, arg.getArgNumber()});
    return narrow();
  }
  auto operand = [&](unsigned i) {
    return write(value.getDefiningOp()->getOperand(i), out, depth + 1);
  };
  auto binary = [&](Op op) {
    if (!operand(0) || !operand(1))
      return false;
    out.steps.push_back({op});
    return narrow();
  };
  return TypeSwitch<Operation *, bool>(value.getDefiningOp())
      .Case([&](arith::ConstantOp op) {
        auto integer = dyn_cast<IntegerAttr>(op.getValue());
        if (integer)
          out.steps.push_back({Op::Constant, integer.getValue().getSExtValue()});
        return bool(integer);
      })
      .Case<arith::ExtSIOp, tile::PtrCastOp, tile::HintOp>([&](auto) { return operand(0); })
      .Case([&](arith::ExtUIOp op) {
        if (!operand(0))
          return false;
        out.steps.push_back({Op::ZeroExtend, widthOf(op.getIn().getType())});
        return true;
      })
      .Case([&](arith::TruncIOp) { return operand(0) && narrow(); })
      .Case([&](arith::AddIOp) { return binary(Op::Add); })
      .Case([&](arith::SubIOp) { return binary(Op::Sub); })
      .Case([&](arith::MulIOp) { return binary(Op::Mul); })
      .Case([&](arith::ShLIOp) { return binary(Op::Shl); })
      .Case([&](tile::AddPtrOp op) {
        if (!operand(0) || !operand(1))
          return false;
        auto pointee = cast<tile::PtrType>(op.getPtr().getType()).getPointee();
        out.steps.push_back({Op::Constant, int64_t(tile::sizeInBytes(pointee))});
        out.steps.push_back({Op::Mul});
        out.steps.push_back({Op::Add});
        return true;
      })
      .Default([](Operation *) { return false; });
}

} // namespace

std::optional<gpu::HostNumber> launchNumber(Value value) {
  HostNumber number;
  if (!write(value, number) || number.depth() > HostNumber::maxDepth)
    return std::nullopt;
  return number;
}

} // namespace nereid::transforms
