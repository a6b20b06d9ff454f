// Warp specialisation: further warps copy tiles, the kernel's own compute with them. See
// docs/warp-specialisation.md.
#pragma once
#include "explain/Hints.h"
#include "gpu/Options.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/Error.h"

namespace nereid::gpu {

/// Gives the loops whose loads of blocks feed products to a producer warp and the kernel's own
/// warps, where the loop asks for it (`tl.range(..., warp_specialize=True)`, also of a loop around)
/// or `options.specialise` says so: the kernel's body becomes part 0 of an `ngpu.warp_specialize`,
/// and what issues the copies becomes part 1. Runs on IR with layouts, before other loops are
/// pipelined. The slots of the deepest ring; 0: nothing changed. `advice`: loops that asked in
/// vain, with the reason.
unsigned partitionWarps(mlir::func::FuncOp kernel, const GpuOptions &options,
                        std::vector<explain::Hint> &advice);

/// Does the source ask to divide the loop, or one around it?
bool isAskedByAuthor(mlir::Operation *loop);

/// The slots that `partitionWarps` would give the loop.
unsigned slotsOf(mlir::scf::ForOp loop, const GpuOptions &options);

/// Could `partitionWarps` divide all loops with products (but versions of loops without copies), of
/// which there is one at least, if they asked for it? Changes nothing.
bool canDivideProducts(mlir::func::FuncOp kernel, const GpuOptions &options);

/// Does `partitionWarps` divide all loops with products, because they ask for it or are known to be
/// faster? Changes nothing.
bool dividesProducts(mlir::func::FuncOp kernel, const GpuOptions &options);

/// Is this a loop that `partitionWarps` has given to consumers, copies and waits included?
bool isSpecialised(mlir::Operation *loop);

/// Verifies the channels of a kernel, then makes mbarriers of them: an error that begins with
/// "internal error" where a slot might never be filled, never be emptied, or be read after it is
/// given back.
llvm::Error lowerChannels(mlir::func::FuncOp kernel);

/// The part of that which looks for errors.
llvm::Error verifyChannels(mlir::func::FuncOp kernel);

} // namespace nereid::gpu
