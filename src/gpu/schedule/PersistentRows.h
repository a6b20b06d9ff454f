// Blocks that run one program after the other and fetch the rows of the next one meanwhile.
#pragma once
#include "gpu/Options.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace nereid::gpu {

/// Makes the kernel, whose tensors have layouts, a loop over programs where that pays
/// (PersistentRows.cpp) and sets `ngpu.persistent`. Returns the bytes of shared memory that a block
/// fetches ahead; 0: the kernel is as it was.
unsigned runPersistently(mlir::func::FuncOp kernel, const GpuOptions &options);

} // namespace nereid::gpu
