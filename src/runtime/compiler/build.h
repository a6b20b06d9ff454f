// One compilation: tree and specialisation -> front end -> tile passes -> code generator.
//
// Each has an MLIRContext of its own (under a millisecond; a shared one only grows), without MLIR's
// threads. Nothing here is global, so compilations of different kernels may run at once.
#pragma once

#include "runtime/compiler.h"

namespace nereid::runtime {

/// See Compiler::compile.
ErrorPtr build(const CompileRequest &request, targets::CompileOptions options, CHost *host,
               llvm::BitVector &written, nrd_kernel &kernel);

} // namespace nereid::runtime
