// Blocks that compute the products of several programs, one after the other.
#pragma once
#include "gpu/Options.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace nereid::gpu {

/// Makes the kernel, whose tensors have layouts, a loop over programs whose products are divided
/// between warps (PersistentProducts.cpp), where `options.persistentProducts` or, of attention,
/// `options.persistentAttention` says so, and sets `ngpu.persistent`. False: the kernel is as it
/// was.
bool persistProducts(mlir::func::FuncOp kernel, const GpuOptions &options);

} // namespace nereid::gpu
