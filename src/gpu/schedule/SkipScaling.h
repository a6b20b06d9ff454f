// Attention multiplies an accumulator by exp2(m - m'), where m' >= m is the new maximum of a row.
// Where no row of a warp has a new maximum these factors are all 1, and the warp can leave the
// multiplications out: the result is the same, bit for bit.
#pragma once
#include "gpu/Options.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace nereid::gpu {

/// In loops with wgmma, of which `options.skipScaling` selects all or those that are divided
/// between warps that copy and warps that compute: a product of a tensor and broadcast factors
/// exp(old - new) or exp2(old - new), where the loop carries `old` and `new` is its next value, is
/// done in a branch, which a warp takes if one of its factors is not 1. Runs on IR with layouts.
///
/// Factors that are all 1 unless a warp takes a branch (SkipMaxima.h) have its condition.
void skipScaling(mlir::func::FuncOp kernel, const GpuOptions &options);

/// What is broadcast to the columns of `value`; null: it is not.
mlir::Value factorsBehind(mlir::Value value);

/// The value behind waits and conversions, which hand it on.
mlir::Value behindMoves(mlir::Value value);

} // namespace nereid::gpu
