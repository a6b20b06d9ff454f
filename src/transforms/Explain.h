// What the report on a kernel (explain/Report.h) takes from tile IR: places, types, and how much a
// program reads, writes and computes.
#pragma once
#include "explain/Report.h"
#include "transforms/Provenance.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace nereid::transforms {

/// The line of the user's source that an op stands for: within an inlined function its own, within
/// the language's library the line that called it.
explain::SourcePlace placeOf(mlir::Location location);

/// The type of a tensor or scalar; of pointers that of what they point to.
explain::Shape shapeOf(mlir::Type type);

/// Fills in the loops of the kernel, with their trip counts as far as they follow from arguments,
/// and its work: bytes of every access, operations of all arithmetic on floats. What a mask leaves
/// out is counted; of a branch both sides are.
void countWork(mlir::func::FuncOp kernel, explain::Report &report);

/// Names of the kernel's arguments that `value` (a scalar or tensor of integers or pointers) is
/// computed from and of which no divisibility by `multiple` is known.
std::vector<std::string> unalignedArguments(mlir::Value value, int64_t multiple);

/// The text of an op as `print` gives it, with the place of every line.
std::string printWithPlaces(mlir::Operation *op, std::vector<explain::SourcePlace> &places);

} // namespace nereid::transforms
