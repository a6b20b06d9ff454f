// Attention whose rows get a new reference only when a score exceeds the old one by more than a
// threshold: the weights are computed with the old reference first, and maxima only where these
// weights are too great.
#pragma once
#include "gpu/Options.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace nereid::gpu {

/// In loops with wgmma, of which `options.skipMaxima` selects none, those that are divided between
/// warps that copy and warps that compute, or all, where
///
///   top = max(scores)                              of each row, within a warp
///   new = top > old + threshold ? top : old        `old` is carried by the loop, `new` goes on
///   weights = exp2(scores - new)
///   sums = sum(weights)
///   factors = exp2(old - new)
///
/// become
///
///   if a row of the warp has no reference yet:     old is -inf
///     as before
///   else:
///     weights = exp2(scores - old)
///     parts = sum(weights)                         of each row, within a thread
///     if a thread of the warp has parts that are not at most 2^threshold:
///       as before
///     else:
///       new = old, factors = 1
///
/// Scores may be products with one scalar, by which `top` is multiplied, too. Weights are positive,
/// so where the sum is at most 2^threshold no score exceeds `old + threshold`. Products with the
/// factors are left out together with the maxima (`skipScaling`). The loop carries the parts of
/// sums that it carries, and threads add up those of a row behind the loop: another order of
/// additions. Kernels of more than 8 warps stay as they are. Runs on IR with layouts, in front of
/// `skipScaling`.
void skipMaxima(mlir::func::FuncOp kernel, const GpuOptions &options);

} // namespace nereid::gpu
