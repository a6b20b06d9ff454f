// Bounds of floats in GPU IR (ir/tile/FloatBounds.h has the rules).
#pragma once
#include "mlir/IR/Operation.h"

namespace nereid::gpu {

/// Is every operand of `power`, an exponential, known to be at most 0, or NaN?
bool hasNoPositiveOperand(mlir::Operation *power);

/// Is every element of `value`, a tensor, known to lie between 1 and its number of elements, or to
/// be NaN? True of the denominator of a softmax.
bool isModerate(mlir::Value value);

} // namespace nereid::gpu
