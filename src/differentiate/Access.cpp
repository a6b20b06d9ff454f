#include "differentiate/Access.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;

namespace nereid::differentiate {

std::optional<Access> accessOf(Operation *op) {
  auto used = [](Value result) { return result.use_empty() ? Value() : result; };
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return Access{load.getPtr(), {}, load.getResult()};
  if (auto load = dyn_cast<tile::DescLoadOp>(op))
    return Access{load.getDesc(), {}, load.getResult()};
  if (auto load = dyn_cast<tile::DescGatherOp>(op))
    return Access{load.getDesc(), {}, load.getResult()};
  if (auto store = dyn_cast<tile::StoreOp>(op))
    return Access{store.getPtr(), store.getValue(), {}};
  if (auto store = dyn_cast<tile::DescStoreOp>(op))
    return Access{store.getDesc(), store.getValue(), {}};
  if (auto store = dyn_cast<tile::DescScatterOp>(op))
    return Access{store.getDesc(), store.getValue(), {}};
  if (auto load = dyn_cast<tile::AtomicLoadOp>(op))
    return Access{load.getPtr(), {}, load.getResult(), true};
  if (auto store = dyn_cast<tile::AtomicStoreOp>(op))
    return Access{store.getPtr(), store.getValue(), {}, true};
  if (auto atomic = dyn_cast<tile::AtomicRMWOp>(op))
    return Access{atomic.getPtr(), atomic.getValue(), used(atomic.getResult()), true,
                  atomic.getKind()};
  if (auto atomic = dyn_cast<tile::AtomicCASOp>(op))
    return Access{atomic.getPtr(), atomic.getValue(), atomic.getResult(), true};
  if (auto reduce = dyn_cast<tile::DescReduceOp>(op))
    return Access{reduce.getDesc(), reduce.getValue(), {}, true, reduce.getKind()};
  return std::nullopt;
}

bool isInLoop(Operation *op) {
  for (Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp())
    if (isa<LoopLikeOpInterface>(parent))
      return true;
  return false;
}

bool exclude(Operation *a, Operation *b) {
  for (Operation *parent = a->getParentOp(); parent; parent = parent->getParentOp())
    if (auto branch = dyn_cast<scf::IfOp>(parent)) {
      Region *ofA = nullptr, *ofB = nullptr;
      for (Region &region : branch->getRegions()) {
        if (region.isAncestor(a->getParentRegion()))
          ofA = &region;
        if (region.isAncestor(b->getParentRegion()))
          ofB = &region;
      }
      if (ofA && ofB && ofA != ofB)
        return branch->hasAttr(uniformAttribute) || !isInLoop(branch);
    }
  return false;
}

Type pointeeOf(Type address) {
  if (auto desc = dyn_cast<tile::DescType>(address))
    return desc.getElementType();
  return cast<tile::PtrType>(tile::elementOf(address)).getPointee();
}

} // namespace nereid::differentiate
