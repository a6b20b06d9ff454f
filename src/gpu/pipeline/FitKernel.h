// A kernel that needs more shared memory than a block can have is compiled again with fewer of the
// compiler's own optimisations, until it fits: its author gets a slower kernel and a line of
// advice, not an error. The steps, in this order, each in addition to those before it:
//
//   1. a buffer that stores keep in divided kernels: they wait where they are issued
//   2. conversions between layouts through one large buffer: they are moved in pieces
//   3. the slots of pipelined loops, one after the other, down to loads that wait in every turn
//   4. wgmma, which reads what is computed from shared memory: mma.sync reads registers, and with
//      it the slots come back as far as there is room; not where accumulators exceed the registers
//
// A kernel that fits at once is compiled once. To begin again takes a copy of the tile IR, which is
// made only of kernels whose tensors could fill shared memory at all.
#pragma once
#include "explain/Hints.h"
#include "gpu/pipeline/Pipeline.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>

namespace nereid::gpu {

/// Calls `compile`, which runs the passes on the kernel of `module`, until it does not fail with
/// OutOfSharedMemory or no step is left: then the error of the first attempt is
/// returned. The module is that of the tile IR at every call.
llvm::Expected<GpuReport>
fitKernel(mlir::ModuleOp module, const GpuOptions &options,
          llvm::function_ref<llvm::Expected<GpuReport>(const GpuOptions &)> compile);

/// The next step; nullopt when all have been tried. `stages`: the slots that the attempt
/// without `tried` had; `mmaHelps`: products may change from wgmma to mma.sync; `storesOverlap`:
/// stores of that attempt kept their buffer; `persistent`: blocks computed several programs.
std::optional<Concessions> nextConcession(Concessions tried, unsigned stages, bool mmaHelps,
                                          bool storesOverlap = false, bool persistent = false);

/// Advice that names the steps taken; nullopt when there were none.
std::optional<explain::Hint> adviceOnFit(const GpuReport &report, const GpuOptions &options);

} // namespace nereid::gpu
