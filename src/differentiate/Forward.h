// Forward mode, the second half of it: Activity.h and Checks.h have the first.
#pragma once

#include "differentiate/Activity.h"

namespace nereid::differentiate {

/// Writes tangents beside the kernel's values, which it may be asked for since Checks.h found
/// nothing. With `forTranspose` for reverse mode: everything that depends on tangents is linear in
/// them and an operation that Transpose.cpp knows, if there is one; tangents of numbers are read
/// from memory.
void addTangents(mlir::func::FuncOp kernel, llvm::ArrayRef<Argument> arguments, Activity &activity,
                 bool forTranspose);

} // namespace nereid::differentiate
