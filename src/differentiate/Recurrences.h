// What loops carry that every round changes by the same: counters, and pointers that advance. Their
// value in a round has a closed form.
#pragma once

#include "ir/tile/Dialect.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace nereid::differentiate {

/// Whether a value is the same in all rounds of the loop: it comes from outside, or a few pure
/// operations without regions compute it from what does.
bool isInvariant(mlir::Value value, mlir::scf::ForOp loop);

/// One summand that every round adds, or subtracts. It is invariant.
struct RoundStep {
  mlir::Value value;
  bool isSubtracted = false;
};

/// What every round adds to the carried value `index`, an integer, a pointer, or a block of these:
/// none when it stays as it is. Nothing when the loop does anything else with it.
std::optional<llvm::SmallVector<RoundStep>> stepsOf(mlir::scf::ForOp loop, unsigned index);

} // namespace nereid::differentiate
