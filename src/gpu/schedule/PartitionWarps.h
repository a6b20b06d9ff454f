// Warp specialisation: further warps copy tiles, the kernel's own compute with them. See
// docs/warp-specialisation.md.
#pragma once
#include "explain/Hints.h"
#include "gpu/Options.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
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

/// Is this a loop that `partitionWarps` has given to consumers, copies and waits included?
bool isSpecialised(mlir::Operation *loop);

/// Verifies the channels of a kernel, then makes mbarriers of them: an error that begins with
/// "internal error" where a slot might never be filled, never be emptied, or be read after it is
/// given back.
llvm::Error lowerChannels(mlir::func::FuncOp kernel);

/// The part of that which looks for errors.
llvm::Error verifyChannels(mlir::func::FuncOp kernel);

} // namespace nereid::gpu
