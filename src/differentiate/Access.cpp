#include "differentiate/Access.h"

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
  if (auto atomic = dyn_cast<tile::AtomicRMWOp>(op))
    return Access{atomic.getPtr(), atomic.getValue(), used(atomic.getResult()), true,
                  atomic.getKind()};
  if (auto atomic = dyn_cast<tile::AtomicCASOp>(op))
    return Access{atomic.getPtr(), atomic.getValue(), atomic.getResult(), true};
  if (auto reduce = dyn_cast<tile::DescReduceOp>(op))
    return Access{reduce.getDesc(), reduce.getValue(), {}, true, reduce.getKind()};
  return std::nullopt;
}

Type pointeeOf(Type address) {
  if (auto desc = dyn_cast<tile::DescType>(address))
    return desc.getElementType();
  return cast<tile::PtrType>(tile::elementOf(address)).getPointee();
}

} // namespace nereid::differentiate
