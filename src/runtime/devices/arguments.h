// Arguments of a launch as the slots that compiled code takes, whatever the device.
#pragma once

#include "runtime/kernel.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace nereid::runtime {

/// Packs one argument per parameter of the function. An error for a wrong number of arguments, for
/// one whose kind cannot be passed for the parameter's, and for a read-only one that is written.
ErrorPtr packArguments(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args, Slots &slots);

/// Whether `p` and `memory` of the argument mean a place in memory.
inline bool pointsToMemory(const nrd_arg &arg) {
  return arg.kind == NRD_ARG_POINTER || arg.kind == NRD_ARG_DESCRIPTOR;
}

/// Whether some axis of the grid is 0; an error when one is negative (as a 32-bit number).
ErrorPtr checkGrid(const nrd_launch &launch, bool &empty);

} // namespace nereid::runtime
