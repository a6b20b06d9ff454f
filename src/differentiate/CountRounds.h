// How often the body of a `while` loop runs that has no bound.
//
// Reverse mode needs the number of rounds before the loop, since it runs the rounds backwards. A
// loop of its own, before the original one, counts them. It computes only what the condition
// depends on, without tangents.
#pragma once

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace nereid::differentiate {

/// An upper bound of the number of rounds, an i32 before the loop: the number itself, and one more
/// where the condition depends on floats, which the two loops may round differently. Null where the
/// condition cannot be computed twice: it depends on atomic operations, volatile loads, calls with
/// effects, or on memory in a loop that writes memory.
mlir::Value countedRounds(mlir::scf::WhileOp loop);

} // namespace nereid::differentiate
