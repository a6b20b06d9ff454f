// Loads of one element that become one load, so that what they contribute to a gradient is summed
// in registers.
#pragma once

#include "differentiate/Activity.h"

namespace nereid::differentiate {

/// Of tensors that the kernel reads and never writes, those of its inputs: a load of the addresses
/// of an earlier one gives that one's value, and a load of the same addresses in every round of a
/// loop moves in front of it. The transpose of a value from outside a loop is a sum over the loop's
/// rounds in registers, and it is stored once after the loop.
void mergeLoads(mlir::func::FuncOp kernel, llvm::ArrayRef<Argument> arguments);

} // namespace nereid::differentiate
