// Starts kernels of the CPU target: packs the arguments as its code expects them, runs the grid on
// the executor, and puts failures of the run into words.
#pragma once

#include "runtime/kernel.h"

#include "llvm/ADT/ArrayRef.h"

namespace nereid::runtime {

/// Launches with one argument per parameter of the function (constants are skipped), which must
/// match the kernel's specialisation as far as their kinds go.
ErrorPtr launchOnCpu(const nrd_kernel &kernel, llvm::ArrayRef<nrd_arg> args,
                     const nrd_launch &launch);

} // namespace nereid::runtime
