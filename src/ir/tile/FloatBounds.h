// Bounds of floats that follow from how they are computed.
#pragma once
#include "mlir/IR/Value.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

namespace nereid::tile {

/// Of an exponential whose operand is known to be at most 0 (but for rounding errors), or NaN, from
/// what the operations no longer show.
inline constexpr llvm::StringLiteral notPositiveAttribute = "tile.not_positive";

/// A value with the same elements as the one given, from which a target's operations that change
/// none are removed.
using Stripped = llvm::function_ref<mlir::Value(mlir::Value)>;

/// Is every element of `value` (a float or a tensor of floats) known to be at most 0, or NaN? True
/// of differences `x - m` where `m` is the maximum of elements of `x`, of `x` and something else,
/// or a running maximum that has just taken `x` in: the arguments of exponentials in softmax. A
/// product that is contracted into such a difference is not rounded before; the difference may then
/// be positive by a rounding error of `m`.
bool isNotPositive(mlir::Value value, Stripped stripped);

/// Is `value` known to be the sum of exp(x - max(x)) along a dimension, and repeated along it: the
/// denominator of a softmax? Each element lies between 1 and the number of elements, or is NaN.
bool isSumOfShares(mlir::Value value, Stripped stripped);

/// A number that no element of `value`, floats of 32 or 64 bits, is below unless it is NaN; minus
/// infinity where none is known. It follows from constants, absolute values, squares, exponentials
/// and roots, and their sums and products.
double leastOf(mlir::Value value);

} // namespace nereid::tile
