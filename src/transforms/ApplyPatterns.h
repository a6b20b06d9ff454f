// Patterns and folds, applied until nothing changes.
//
// MLIR's greedy driver visits every operation around a changed one again, out to the kernel. Each
// visit of a loop that has no results asks whether everything in it is dead, so that time grows
// with the number of changes times the size of the loop: 15 times as much for a gradient that has
// four times as many operations as its kernel. Here a change brings back what it changed, what used
// that and what it used. What is around it gets its turn in the next round over everything, which
// comes in any case.
#pragma once
#include "mlir/Support/LLVM.h"

namespace mlir {
class FrozenRewritePatternSet;
} // namespace mlir

namespace nereid::transforms {

/// Applies patterns to everything in the regions of an operation, and folds, the first operations
/// first. Equal constants of a region without operations around it become one, dead operations go
/// and regions are simplified. Failure: ten rounds were not enough.
mlir::LogicalResult applyPatterns(mlir::Operation *root,
                                  const mlir::FrozenRewritePatternSet &patterns);

} // namespace nereid::transforms
