// Which exchanges between the blocks of a cluster can do without its barrier.
#pragma once
#include "mlir/IR/Operation.h"

namespace nereid::gpu {

/// Whether `op`, of a kernel with layouts, meets the other blocks of the cluster at a barrier even
/// where reductions send their partial results (SendPartials.cpp). False where one block runs a
/// program.
bool meetsBlocks(mlir::Operation *op);

} // namespace nereid::gpu
