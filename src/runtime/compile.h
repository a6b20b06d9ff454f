// One compilation: tree and specialisation -> front end -> tile passes -> target.
//
// Each has an MLIRContext of its own (under a millisecond; a shared one only grows), without MLIR's
// threads. Nothing here is global, so compilations of different kernels may run at once.
#pragma once

#include "runtime/kernel.h"

#include "llvm/ADT/ArrayRef.h"

#include <string>

namespace nereid::runtime {

/// Compiles. On success `kernel` is set; else the error says why.
ErrorPtr compileKernel(CompileRequest request, std::unique_ptr<nrd_kernel> &kernel);

/// "num_warps=8, num_stages=3, BLOCK=128": what the kernel's author chose.
std::string configurationText(const CompileRequest &request);

/// What the compiler knows of a kernel besides its code, as JSON (explain/Report.h): compiles it
/// again and watches.
std::string explanationOf(const nrd_kernel &kernel);

/// Stages and their times, one a line, with the sum.
std::string timeTable(const nrd_kernel &kernel);

} // namespace nereid::runtime
