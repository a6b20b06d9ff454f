// Bounds of floats that follow from how they are computed.
#pragma once
#include "mlir/IR/Value.h"

namespace nereid::tile {

/// A number that no element of `value`, floats of 32 or 64 bits, is below unless it is NaN; minus
/// infinity where none is known. It follows from constants, absolute values, squares, exponentials
/// and roots, and their sums and products.
double leastOf(mlir::Value value);

} // namespace nereid::tile
