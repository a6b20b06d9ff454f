// When the blocks of a cluster share the iterations of a product: plain data, without MLIR.
#pragma once
#include "kernel_abi/TensorMapPlan.h"

namespace nereid::gpu {

struct SplitRule {
  /// The product's loop has extent / divisor iterations, rounded towards zero; none if that is
  /// negative.
  HostNumber extent;
  int64_t divisor = 1; ///< more than 0
  /// Iterations from which on a cluster of 2, 4, 8, ... blocks is faster than a smaller one.
  std::vector<int32_t> least;

  /// `slots`: as for `HostNumber::evaluate`.
  int64_t iterations(const uint64_t *slots) const { return extent.evaluate(slots) / divisor; }
  /// The most blocks of a program: 1 where nothing is shared.
  unsigned mostBlocks() const { return 1u << least.size(); }
};

} // namespace nereid::gpu
