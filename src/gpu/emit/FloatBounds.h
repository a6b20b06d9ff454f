// Bounds of floats that follow from how they are computed.
#pragma once
#include "mlir/IR/Value.h"

namespace nereid::gpu {

/// Is every element of `value` (a float or a tensor of floats) known to be at most 0, or NaN? True
/// of differences `x - m` where `m` is the maximum of elements of `x`, of `x` and something else,
/// or a running maximum that has just taken `x` in: the arguments of exponentials in softmax. A
/// product that is contracted into such a difference is not rounded before; the difference may then
/// be positive by a rounding error of `m`.
bool isNotPositive(mlir::Value value);

} // namespace nereid::gpu
