// Loops of two products, the second of which needs the first: products overlap with what is
// between them. See docs/warp-specialisation.md.
#pragma once
#include "ir/ngpu/Dialect.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"

#include <optional>

namespace nereid::gpu {

/// The products of a loop like attention's,
///
///     for j:   s = q k[j];  p = f(s, carried);  acc = g(acc, carried);  acc += p v[j]
///
/// where nothing else touches the accumulator and p stays in registers.
struct ProductPair {
  ngpu::WgmmaOp first, second;
  unsigned accumulator; ///< the number of the carried value that `second` adds to
  /// What is done to the accumulator in front of `second`, in order.
  llvm::SmallVector<mlir::Operation *> updates;
};

/// The pair of a loop's only two products, when the loop can be reordered by `overlapProducts`.
std::optional<ProductPair> findProductPair(mlir::scf::ForOp loop);

/// Does a load's block reach B of `pair.second`, and nothing else?
bool feedsSecond(mlir::Value load, const ProductPair &pair);

/// What a consumer reads the two products' blocks from: a channel each, of the same turn.
struct PairChannels {
  mlir::Value first, second;
  mlir::Value slot, phase;
};

/// Reorders the loop so that an iteration issues its first product, then the second product of the
/// iteration before, and computes f while that one runs. The last iteration's second product
/// comes behind the loop. With `inTurns`, groups of four warps issue their products in turn, so
/// that one group computes f under the products of the others. Returns the last op that reads a
/// slot.
mlir::Operation *overlapProducts(mlir::RewriterBase &rewriter, mlir::scf::ForOp &loop,
                                 const PairChannels &channels, bool inTurns);

} // namespace nereid::gpu
