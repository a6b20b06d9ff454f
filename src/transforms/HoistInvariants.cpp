// HoistInvariants: what a loop computes anew in each round with the same result is computed once,
// before it.
//
// Beyond pure operations, a `tile.load` leaves the loop when nothing in the loop may write (stores,
// atomics, barriers, volatile loads, asserts, prints: there are no alias facts), it is not
// volatile, and the loop is known to run at least once, so that no address is touched that would
// not have been. Loops with `tile.disable_licm` keep everything. Runs after addresses have become
// scalar arithmetic (combine): then what is hoisted is cheap to keep.
#include "transforms/Passes.h"

#include "transforms/IntegerAnalysis.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"

using namespace mlir;

namespace nereid::transforms {
#define GEN_PASS_DEF_HOISTINVARIANTS
#include "transforms/Passes.h.inc"

namespace {
using namespace nereid::tile;

/// Promises aside, every effect but reading.
bool mayWrite(Operation *loop) {
  return loop
      ->walk([](Operation *op) {
        if (isa<AssumeOp>(op) || op->hasTrait<OpTrait::HasRecursiveMemoryEffects>())
          return WalkResult::advance(); // The operations inside are visited themselves.
        auto effects = dyn_cast<MemoryEffectOpInterface>(op);
        if (!effects)
          return isMemoryEffectFree(op) ? WalkResult::advance() : WalkResult::interrupt();
        return effects.onlyHasEffect<MemoryEffects::Read>() || effects.hasNoEffect()
                   ? WalkResult::advance()
                   : WalkResult::interrupt();
      })
      .wasInterrupted();
}

bool runsAtLeastOnce(scf::ForOp loop, const IntegerAnalysis &analysis) {
  auto *lower = analysis.lookup(loop.getLowerBound());
  auto *upper = analysis.lookup(loop.getUpperBound());
  if (!lower || !upper)
    return false;
  return loop.getUnsignedCmp() ? lower->range().umax().ult(upper->range().umin())
                               : lower->range().smax().slt(upper->range().smin());
}

struct HoistInvariantsPass : public impl::HoistInvariantsBase<HoistInvariantsPass> {
  void runOnOperation() override {
    // Loads that may leave are found first: hoisting makes the analysis stale.
    llvm::SmallVector<LoopLikeOpInterface> loops;
    getOperation()->walk([&](LoopLikeOpInterface loop) {
      if (!loop->hasAttr("tile.disable_licm"))
        loops.push_back(loop);
    });
    if (loops.empty())
      return;
    llvm::DenseSet<Operation *> loadsMayLeave;
    std::optional<IntegerAnalysis> analysis;
    for (LoopLikeOpInterface loop : loops) {
      auto counted = dyn_cast<scf::ForOp>(loop.getOperation());
      bool hasLoad = false;
      loop->walk([&](LoadOp) { hasLoad = true; });
      if (!counted || !hasLoad || mayWrite(loop))
        continue;
      if (!analysis)
        analysis.emplace(getOperation());
      if (runsAtLeastOnce(counted, *analysis))
        loadsMayLeave.insert(loop);
    }
    for (LoopLikeOpInterface loop : loops) // Inner loops come first.
      moveLoopInvariantCode(
          loop.getLoopRegions(),
          [&](Value value, Region *) { return loop.isDefinedOutsideOfLoop(value); },
          [&](Operation *op, Region *) {
            if (auto load = dyn_cast<LoadOp>(op))
              return !load.getIsVolatile() && loadsMayLeave.contains(loop);
            return isMemoryEffectFree(op) && isSpeculatable(op);
          },
          [&](Operation *op, Region *) { loop.moveOutOfLoop(op); });
  }
};

} // namespace
} // namespace nereid::transforms
