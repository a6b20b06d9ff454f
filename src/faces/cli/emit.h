// What `compile` and `grad` write: one stage of a compiled kernel.
#pragma once

#include "faces/cli/selection.h"

namespace nereid::cli {

/// Writes the stage that `--emit` names, by default the target's code as text, to the file of `-o`,
/// by default to standard output (binary code: to a file named after the kernel). Gives the exit
/// status; what is wrong has been said then.
int emitStage(const Arguments &parsed, nrd_kernel *kernel);

} // namespace nereid::cli
