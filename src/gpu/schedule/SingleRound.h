// Loops that run once at most, and have no next round to fetch ahead for.
#pragma once
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace nereid::gpu {

/// Do the bounds differ by a constant that is no more than the step, so that the loop runs once at
/// most? If the sum overflows, it does not run at all.
bool runsOnceAtMost(mlir::scf::ForOp loop);

/// Puts what the round does into a branch, on the condition that there is one. Erases the loop.
void makeBranch(mlir::scf::ForOp loop);

} // namespace nereid::gpu
