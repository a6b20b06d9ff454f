// Loops that carry a maximum and sums rescaled to it, as attention's online softmax does:
//
//   m' = max(m, max(s))        alpha = exp(m - m')
//   x' = x * alpha + (what has the factor exp(-m'): exp(s - m'), or products with it)
//
// The maximum only keeps numbers small. Where all that the kernel makes of the results has no
// factor exp(m) left (x / l, m + log(l)), any other number could take its place, also a constant.
// So the derivative is that of plain sums:
//
//   X' = X + (the same, with M in place of m')
//
// for a constant M, for which we take what the loop ends with: m + log(l), so that the terms are
// the probabilities. In reverse such a sum needs no states of the rounds before, each round can be
// taken alone, and the maximum has no gradient. This is how backward passes of attention are
// written by hand (Dao et al., FlashAttention, 2022); here it follows from degrees: of each value,
// the power of exp(m) that it has as a factor, or the multiple of m that it has as a summand.
#pragma once

#include "differentiate/Activity.h"

namespace nereid::differentiate {

/// Of a loop or a maximum that is the same for all tangents: nothing in it, and nothing that it
/// gives, has one.
inline constexpr llvm::StringLiteral constantAttribute = "tile.constant";

/// Before tangents are added: gives such loops the attribute and writes the plain sums behind them,
/// whose tangents are those of the results. Maxima outside of such loops that no result depends on,
/// as that of a row's softmax, get the attribute as well.
void separateOnlineSums(mlir::func::FuncOp kernel, llvm::ArrayRef<Argument> arguments);

} // namespace nereid::differentiate
