// A kernel that needs more shared memory than a block can have is compiled again with less of what
// the compiler chose by itself, until it fits: its author gets a slower kernel and a line of
// advice, not an error. What is given up, in this order, each step on top of those before it:
//
//   1. conversions between layouts through one large buffer: they are moved in pieces
//   2. the slots of pipelined loops, one after the other, down to loads that wait in every turn
//   3. wgmma, which reads what is computed from shared memory: mma.sync reads registers, and with
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

/// Calls `compile`, which runs the passes on the kernel of `module`, until it does not say
/// OutOfSharedMemory or nothing is left to give up: then the error of the first attempt is
/// returned. The module is that of the tile IR at every call.
llvm::Expected<GpuReport>
fitKernel(mlir::ModuleOp module, const GpuOptions &options,
          llvm::function_ref<llvm::Expected<GpuReport>(const GpuOptions &)> compile);

/// What to do without next; nothing when all has been tried. `stages`: the slots that the attempt
/// without `tried` had; `mmaHelps`: products may change from wgmma to mma.sync.
std::optional<Concessions> nextConcession(Concessions tried, unsigned stages, bool mmaHelps);

/// What a kernel gave up, for its author; nothing when it gave up nothing.
std::optional<explain::Hint> adviceOnFit(const GpuReport &report, const GpuOptions &options);

} // namespace nereid::gpu
