// What a gradient kernel reads twice stays in the cache that all multiprocessors share.
//
// A gradient of a long row reads the row in one loop for its sums, and in a second one for the
// gradient, which it stores. The rows of all programs that run fit into the L2 cache, but not
// together with their gradients, so what is stored takes the place of what will be read. In kernels
// that the compiler wrote, loads in the first loop are marked as the last to leave the cache; loads
// in the last loop, and what the kernel stores there and does not read, as the first.
//
// Only tensors whose blocks depend on the program are marked, since others are read by all of them;
// and no kernel with products, whose programs share blocks. Policies of an author stay.
#include "gpu/Passes.h"
#include "ir/tile/Dialect.h"
#include "transforms/Provenance.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

/// Does a value follow from the program's number?
bool dependsOnProgram(Value value, llvm::DenseSet<Value> &visited) {
  if (!visited.insert(value).second)
    return false;
  auto any = [&](ValueRange values) {
    return llvm::any_of(values, [&](Value each) { return dependsOnProgram(each, visited); });
  };
  Operation *op = value.getDefiningOp();
  if (!op) {
    auto argument = cast<BlockArgument>(value);
    Operation *parent = argument.getOwner()->getParentOp();
    return !isa<func::FuncOp>(parent) && any(parent->getOperands());
  }
  return isa<tile::ProgramIdOp>(op) || any(op->getOperands());
}

/// Loads of one tensor in loops, in the order of the program.
using Loads = SmallVector<tile::LoadOp>;

Operation *loopOf(Operation *op) {
  return op->getParentOfType<scf::ForOp>();
}

/// Are they in several loops of which none contains another?
bool isReadAgain(ArrayRef<tile::LoadOp> loads) {
  return llvm::any_of(loads, [&](tile::LoadOp load) { return loopOf(load) != loopOf(loads[0]); }) &&
         llvm::all_of(loads, [&](tile::LoadOp load) {
           return llvm::none_of(loads, [&](tile::LoadOp other) {
             return loopOf(load)->isProperAncestor(loopOf(other));
           });
         });
}

} // namespace

void streamStores(func::FuncOp kernel) {
  if (!kernel->hasAttr("tile.gradients"))
    return;
  transforms::Provenance provenance(kernel);
  llvm::MapVector<int, Loads> loadsOf;
  llvm::BitVector loaded(kernel.getNumArguments());
  bool knowsAll = true;
  kernel->walk([&](Operation *op) {
    knowsAll &= !isa<tile::DotOp>(op);
    auto load = dyn_cast<tile::LoadOp>(op);
    if (!load)
      return;
    int argument = provenance.of(load.getPtr()).only();
    knowsAll &= argument >= 0;
    if (argument < 0)
      return;
    loaded.set(argument);
    llvm::DenseSet<Value> visited;
    if (loopOf(load) && isa<RankedTensorType>(load.getType()) &&
        dependsOnProgram(load.getPtr(), visited))
      loadsOf[argument].push_back(load);
  });
  if (!knowsAll)
    return;
  for (auto &[argument, loads] : loadsOf) {
    if (!isReadAgain(loads))
      continue;
    Operation *last = loopOf(loads.back());
    for (tile::LoadOp load : loads)
      if (load.getEvict() == tile::EvictionPolicy::Normal &&
          load.getCache() == tile::CacheModifier::None)
        load.setEvict(loopOf(load) == last ? tile::EvictionPolicy::EvictFirst
                                           : tile::EvictionPolicy::EvictLast);
    last->walk([&](tile::StoreOp store) {
      int stored = provenance.of(store.getPtr()).only();
      if (stored >= 0 && !loaded.test(stored) &&
          isa<RankedTensorType>(store.getValue().getType()) &&
          store.getEvict() == tile::EvictionPolicy::Normal &&
          store.getCache() == tile::CacheModifier::None)
        store.setEvict(tile::EvictionPolicy::EvictFirst);
    });
  }
}

} // namespace nereid::gpu
