#include "targets/cpu/emit/Point.h"

#include "targets/cpu/emit/Emit.h"

using namespace mlir;

namespace nereid::cpu {

bool runsWith(ArrayRef<Index> point, int dim) {
  return llvm::any_of(
      point, [&](const Index &index) { return dim == -1 ? index.dim >= 0 : index.dim == dim; });
}

bool movesElements(Operation *op) {
  return tile::isView(op) || isa<tile::SliceOp, tile::HintOp>(op);
}

bool readsElsewhere(OpOperand &operand) {
  Operation *op = operand.getOwner();
  if (auto slice = dyn_cast<tile::SliceOp>(op))
    return llvm::any_of(llvm::zip(slice.getSteps(), tile::shapeOf(slice.getType())),
                        [](auto dim) { return std::get<0>(dim) != 1 && std::get<1>(dim) != 1; });
  if (auto gather = dyn_cast<tile::GatherOp>(op))
    return operand.getOperandNumber() == 0;
  return isa<tile::ExchangeOp>(op);
}

static SmallVector<int64_t> withoutOnes(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> result;
  llvm::copy_if(shape, std::back_inserter(result), [](int64_t size) { return size != 1; });
  return result;
}

bool isRegularReshape(Operation *op) {
  return withoutOnes(tile::shapeOf(op->getOperand(0).getType())) ==
         withoutOnes(tile::shapeOf(op->getResult(0).getType()));
}

std::optional<Point> sourcePoint(Operation *op, ArrayRef<Index> point, Emit &emit) {
  auto source = tile::shapeOf(op->getOperand(0).getType());
  auto target = tile::shapeOf(op->getResult(0).getType());
  Point result(source.size());
  if (isa<tile::HintOp>(op)) {
    result.assign(point.begin(), point.end());
  } else if (isa<tile::BroadcastOp>(op)) {
    for (size_t d = 0; d < source.size(); ++d)
      if (source[d] != 1)
        result[d] = point[d];
  } else if (auto expand = dyn_cast<tile::ExpandDimsOp>(op)) {
    result.assign(point.begin(), point.end());
    result.erase(result.begin() + expand.getAxis());
  } else if (auto trans = dyn_cast<tile::TransOp>(op)) {
    for (auto [d, from] : llvm::enumerate(trans.getOrder()))
      result[from] = point[d];
  } else if (auto slice = dyn_cast<tile::SliceOp>(op)) {
    for (size_t d = 0; d < source.size(); ++d) {
      int64_t step = target[d] == 1 ? 1 : slice.getSteps()[d];
      if (step != 1 && point[d].dim >= 0)
        return std::nullopt;
      result[d] = {emit.displaced(point[d].base, step, slice.getOffsets()[d]), point[d].dim};
    }
  } else if (isRegularReshape(op)) {
    size_t d = 0;
    for (size_t s = 0; s < source.size(); ++s) {
      if (source[s] == 1)
        continue;
      while (target[d] == 1)
        ++d;
      result[s] = point[d++];
    }
  } else {
    // Through the row-major number of the element; only coordinates that stand still can follow.
    if (runsWith(point))
      return std::nullopt;
    Value number = emit.i64(0);
    for (auto [size, index] : llvm::zip(target, point)) {
      number = emit.mul(number, emit.i64(size));
      if (index.base)
        number = emit.add(number, index.base);
    }
    for (size_t s = source.size(); s-- > 0;) {
      Value size = emit.i64(source[s]);
      if (s == 0) {
        result[s].base = number;
      } else {
        result[s].base = emit.b.createOrFold<arith::RemUIOp>(emit.loc, number, size);
        number = emit.b.createOrFold<arith::DivUIOp>(emit.loc, number, size);
      }
    }
  }
  return result;
}

} // namespace nereid::cpu
