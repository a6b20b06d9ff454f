// Reshapes and concatenations of sizes that are no powers of two.
//
// A size is a core of 2^k times an odd repeat count, and the order of elements under another shape
// is then no linear map of bits. Often every thread still holds what it needs (a dimension that
// only changes its name); where it does not, the data goes through scratch memory in row-major
// order.
#pragma once
#include "mlir/IR/Operation.h"

namespace nereid::gpu {

/// Must the data of a `tile.reshape` or `tile.cat` with odd factors change threads? False for all
/// other ops and sizes: layouts have been chosen so that registers are renamed.
bool oddShapeCrossesThreads(mlir::Operation *op);

} // namespace nereid::gpu
