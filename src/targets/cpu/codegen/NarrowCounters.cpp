#include "targets/cpu/codegen/NarrowCounters.h"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace nereid::cpu {

/// Run times and compile times of others: docs/notes/compile-time.md, "Gradients".
static constexpr unsigned leastDepth = 4;

static void hideCountersOf(const Loop &loop) {
  for (PHINode &counter : loop.getHeader()->phis())
    for (User *user : make_early_inc_range(counter.users())) {
      auto *narrow = dyn_cast<TruncInst>(user);
      if (!narrow || !loop.contains(narrow))
        continue;
      auto *hidden = new FreezeInst(narrow, "", std::next(narrow->getIterator()));
      narrow->replaceUsesWithIf(hidden, [&](Use &use) { return use.getUser() != hidden; });
    }
}

void hideNarrowCounters(Module &module) {
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    DominatorTree tree(function);
    LoopInfo loops(tree);
    for (const Loop *loop : loops.getLoopsInPreorder())
      if (loop->getLoopDepth() >= leastDepth)
        hideCountersOf(*loop);
  }
}

} // namespace nereid::cpu
