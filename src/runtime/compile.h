// From a request to a kernel that can be launched: taken from disk, or compiled
// (runtime/compiler.h).
#pragma once

#include "runtime/kernel.h"

#include "llvm/ADT/ArrayRef.h"

#include <string>

namespace nereid::runtime {

/// Compiles. On success `kernel` is set; else the error says why.
ErrorPtr compileKernel(CompileRequest request, std::unique_ptr<nrd_kernel> &kernel);

/// What the compiler knows of a kernel besides its code, as JSON (explain/Report.h): compiles it
/// again and watches. Empty where that failed; `why`, which may be null, gets the reason.
std::string explanationOf(const nrd_kernel &kernel, std::string *why);

/// Stages and their times, one a line, with the sum.
std::string timeTable(const nrd_kernel &kernel);

} // namespace nereid::runtime
