#include "gpu/schedule/KeptWords.h"

#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

class Kept {
public:
  int64_t at(Operation *exchange) {
    int64_t words = 0;
    // From the block of the exchange outwards.
    for (Operation *op = exchange; op && !isa<func::FuncOp>(op); op = op->getParentOp()) {
      bool isLoop = isa<LoopLikeOpInterface>(op);
      auto count = [&](Value value) {
        if (isAlive(value, op, isLoop))
          words += ownWords(value);
      };
      for (Value argument : op->getBlock()->getArguments())
        count(argument);
      for (Operation &before : *op->getBlock()) {
        if (&before == op)
          break;
        for (Value result : before.getResults())
          count(result);
      }
    }
    return words;
  }

private:
  /// Is `value`, which is defined in front of `op` in its block, used behind it? What an op around
  /// the exchange uses is alive in all of it, in a loop for the next iteration.
  static bool isAlive(Value value, Operation *op, bool isLoop) {
    bool isAround = op->getNumRegions() > 0 && !isa<tile::ReduceOp, tile::ScanOp>(op);
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      Operation *ancestor = op->getBlock()->findAncestorOpInBlock(*user);
      if (!ancestor)
        return false;
      if (ancestor == op)
        // What a loop starts from is that loop's own.
        return isAround && (user != op || !isLoop);
      return op->isBeforeInBlock(ancestor);
    });
  }

  /// Does `value` follow from indices and numbers alone, element by element?
  bool isComputedAgain(Value value) {
    if (!isa<RankedTensorType>(value.getType()))
      return true;
    auto [known, isNew] = again.try_emplace(value, false);
    if (!isNew)
      return known->second;
    Operation *op = value.getDefiningOp();
    bool result =
        op &&
        (isa<tile::RangeOp, tile::SplatOp, arith::ConstantOp>(op) ||
         ((tile::isElementwise(op) || tile::isView(op)) && isMemoryEffectFree(op) &&
          llvm::all_of(op->getOperands(), [&](Value from) { return isComputedAgain(from); })));
    again[value] = result;
    return result;
  }

  int64_t ownWords(Value value) {
    if (isComputedAgain(value))
      return 0;
    // A row that is repeated takes the registers of the row.
    while (auto view = value.getDefiningOp<tile::BroadcastOp>())
      value = view.getSrc();
    return wordsOf(value.getType());
  }

  DenseMap<Value, bool> again;
};

} // namespace

int64_t wordsOf(Type tensor) {
  auto type = dyn_cast<RankedTensorType>(tensor);
  return type
             ? llvm::divideCeil(type.getNumElements() * tile::sizeInBytes(type.getElementType()), 4)
             : 0;
}

int64_t wordsKept(func::FuncOp kernel) {
  Kept kept;
  int64_t most = 0;
  kernel.walk([&](Operation *op) {
    if (isa<tile::ReduceOp, tile::ScanOp>(op))
      most = std::max(most, kept.at(op));
  });
  return most;
}

} // namespace nereid::gpu
