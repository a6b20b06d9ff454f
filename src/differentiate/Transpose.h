// Reverse mode: the transpose of forward mode.
//
// What forward mode adds to a kernel is linear in the tangents: it maps those of the inputs, which
// it loads, to those of the outputs, which it stores. The transpose maps the gradients of the
// outputs, which it loads at the same addresses, to those of the inputs, to which it adds. So every
// rule of forward mode is one of reverse mode, and one file knows how the few linear operations
// transpose.
#pragma once

#include "differentiate/Activity.h"

namespace nereid::differentiate {

/// Why the kernel has no gradient although it has tangents: tensors that are read and written,
/// outputs that may be stored twice. Of the kernel before forward mode.
std::optional<Refusal> findGradientRefusal(mlir::func::FuncOp kernel,
                                           llvm::ArrayRef<Argument> arguments);

/// Replaces the tangents that forward mode has added by gradients, and drops what the kernel
/// stored. A refusal leaves the kernel in pieces. `mayHaveSchedules`: whether gradients may be
/// summed over tiles in an order of their own (Schedules.cpp).
std::optional<Refusal> transpose(mlir::func::FuncOp kernel, llvm::ArrayRef<Argument> arguments,
                                 bool mayHaveSchedules);

} // namespace nereid::differentiate
