// Stores by the copy engine in kernels whose warps are divided: what follows a store does not wait
// for it. See docs/warp-specialisation.md.
#pragma once
#include "gpu/Options.h"
#include "ir/ngpu/Dialect.h"
#include "kernel_abi/TensorMapPlan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace nereid::gpu {

/// Rewrites stores of the consumers' part of a divided kernel, all of which share one buffer:
///
///     for tiles:   ...products...                      (shown for a loop around the store)
///                  wait until the engine has read the buffer; barrier
///                  write the tile to the buffer; fence; barrier
///                  one thread starts the store
///     wait until the engine has read the buffer
///
/// So the engine reads the buffer under the next tile's products. With OverlapStores::Groups, where
/// groups of four warps have rows of their own, each group does all of this by itself, with
/// barriers of the group: groups may be at different tiles. The boxes of the map in `plans` then
/// are those of a group. Blocks may have leading dimensions of 1 there, and products whose rows are
/// not stored are left out (SkipProducts.h). Groups that have columns of their own store these, if
/// they are whole boxes.
///
/// Taken are the stores and reductions in loops that need not be complete, as far as `mayMeetAgain`
/// says, if their blocks have one type, and those of this type behind the loops: the buffer lives
/// as long as the slots of the products' blocks. `plans` may be empty: then groups do not store
/// rows by themselves. True: some stores have been rewritten.
bool overlapStores(mlir::func::FuncOp kernel, const GpuOptions &options,
                   llvm::MutableArrayRef<TensorMapPlan> plans,
                   llvm::function_ref<bool(mlir::Operation *)> mayMeetAgain);

} // namespace nereid::gpu
