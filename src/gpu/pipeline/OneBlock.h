// Kernels whose programs one block runs, however many were asked for.
#pragma once
#include "explain/Hints.h"
#include "gpu/Options.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace nereid::gpu {

/// Why `options.numBlocks` blocks cannot run the programs of `kernel`, which is in tile IR, in
/// words for its author; nothing if they can.
std::optional<explain::Hint> oneBlock(mlir::func::FuncOp kernel, const GpuOptions &options);

} // namespace nereid::gpu
