#include "transforms/UnusedRows.h"

#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace nereid::transforms {
namespace {
using namespace nereid::tile;

class Search {
public:
  Search(const Polynomial &limit, AffineForms &forms, scf::ForOp loop)
      : limit(limit), forms(forms), loop(loop) {}

  bool unused(Value value, unsigned dim) {
    if (!seen.insert({value, dim}).second)
      return true; // is being looked at
    return llvm::all_of(value.getUses(), [&](OpOperand &use) { return unused(use, dim); });
  }

private:
  bool unused(OpOperand &use, unsigned dim);
  bool excluded(StoreOp store, unsigned dim);

  const Polynomial &limit;
  AffineForms &forms;
  scf::ForOp loop;
  llvm::DenseSet<std::pair<Value, unsigned>> seen;
};

/// Does the store's mask imply `index[dim] < limit`?
bool Search::excluded(StoreOp store, unsigned dim) {
  if (!store.getMask())
    return false;
  std::optional<SmallVector<MaskLimit>> limits = forms.mask(store.getMask());
  return limits && llvm::any_of(*limits, [&](const MaskLimit &each) {
           return each.dim == dim && each.limit == limit;
         });
}

bool Search::unused(OpOperand &use, unsigned dim) {
  Operation *op = use.getOwner();
  unsigned number = use.getOperandNumber();
  if (auto store = dyn_cast<StoreOp>(op))
    return use.get() == store.getValue() && excluded(store, dim);
  if (auto dot = dyn_cast<DotOp>(op)) {
    unsigned rank = unsigned(dot.getType().getRank());
    // Operand A has K last, operand B second to last, and the result has neither.
    unsigned k = number == 0 ? rank - 1 : number == 1 ? rank - 2 : rank;
    return number < 3 && dim != k && unused(dot.getResult(), dim);
  }
  if (auto yield = dyn_cast<scf::YieldOp>(op)) {
    Operation *parent = yield->getParentOp();
    // In the next turn of a loop around, the values of `limit` are others.
    if (parent->isProperAncestor(loop) && isa<LoopLikeOpInterface>(parent))
      return false;
    if (auto carrying = dyn_cast<scf::ForOp>(parent))
      return unused(carrying.getRegionIterArg(number), dim) &&
             unused(carrying.getResult(number), dim);
    return isa<scf::IfOp>(parent) && unused(parent->getResult(number), dim);
  }
  if (auto carrying = dyn_cast<scf::ForOp>(op)) {
    unsigned first = carrying.getNumControlOperands();
    return number >= first && unused(carrying.getRegionIterArg(number - first), dim) &&
           unused(carrying.getResult(number - first), dim);
  }
  if (auto expand = dyn_cast<ExpandDimsOp>(op))
    return unused(expand.getResult(), dim + (dim >= expand.getAxis()));
  if (auto trans = dyn_cast<TransOp>(op)) {
    unsigned to = unsigned(llvm::find(trans.getOrder(), int32_t(dim)) - trans.getOrder().begin());
    return unused(trans.getResult(), to);
  }
  bool elementwise = isElementwise(op) || isa<HintOp>(op);
  return elementwise && isPure(op) && llvm::all_of(op->getResults(), [&](Value result) {
           return isa<RankedTensorType>(result.getType()) && unused(result, dim);
         });
}

} // namespace

bool areUnused(Value value, unsigned dim, const Polynomial &limit, AffineForms &forms,
               scf::ForOp loop) {
  return !limit.contains(loop.getInductionVar()) && Search(limit, forms, loop).unused(value, dim);
}

} // namespace nereid::transforms
