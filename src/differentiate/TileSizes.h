// Sizes of the tiles in which a transposed schedule multiplies (Schedules.cpp).
//
// A program of C = A B computes M x N elements in steps of K. Written as it comes, the schedule of
// dA = dC B^T computes M x K elements in steps of N: with the usual sizes a narrow block in long
// steps, which reads more for every multiplication, and whose steps take more shared memory. With
// the sizes exchanged it computes M x N elements in steps of K, as the author has chosen:
//
//   for t ...                                     for t ...
//     (row, round) = t                              (row, number) = t, round = number * (N / K)
//     for column in columns                         for step in columns * (N / K)
//       sum[M, K] += dC[M, N] B[K, N]^T   ->          sum[M, N] += dC[M, K] B[N, K]^T
//     store sum, K columns                          store sum, N columns
//
// Blocks of rounds that the loop does not have are neither read nor stored.
#pragma once

#include "ir/tile/Dialect.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace nereid::differentiate {

/// The loop over the blocks of a gradient, of which each is stored once.
struct BlockLoop {
  mlir::scf::ForOp loop; ///< its variable numbers the blocks
  /// Of the number of a block: the round of the forward kernel's loop, an i32, and what is left.
  /// The second operand of both is how many rounds there are.
  mlir::Operation *round, *rest;
  mlir::Value rounds, others; ///< i32 before the loop: how many rounds, and blocks of one round
};

/// Exchanges the sizes, where the block is a sum of products in a loop, the step of the product is
/// a multiple of the block's size along the rounds, and consecutive rounds read consecutive
/// positions. Returns whether it did; else nothing is changed.
bool exchangeTileSizes(const BlockLoop &blocks);

} // namespace nereid::differentiate
