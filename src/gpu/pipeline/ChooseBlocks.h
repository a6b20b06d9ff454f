// The number of blocks that run a program, where the author leaves it to the compiler.
//
// A kernel that reduces a row and uses the row again keeps it in registers meanwhile. Where it has
// more elements than one block has registers for, the assembler spills them to memory: the softmax
// of 131072 fp32 then takes 3.4 times as long as in a cluster of 8 blocks, whose registers hold it
// (docs/performance.md). So such a kernel is run by a cluster.
//
// The estimate is made of the tile IR, before layouts are chosen: what is kept across reductions
// and scans (schedule/KeptWords.h), divided among the threads.
#pragma once
#include "gpu/Options.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace nereid::gpu {

struct BlockChoice {
  int blocks = 1;
  int warps = 4;  ///< of a block
  int needed = 0; ///< registers a thread of the one block would need, estimated
  int there = 0;  ///< registers it could have
};

/// Blocks and warps that run the programs of `kernel` instead of one block of `options.numWarps`
/// warps; nothing where that block's registers suffice, where the kernel exchanges elements
/// otherwise than by reductions and scans, waits for other programs, has loops that fetch ahead, or
/// contains assembly or calls, and where the machine has no clusters.
std::optional<BlockChoice> chooseBlocks(mlir::func::FuncOp kernel, const GpuOptions &options);

} // namespace nereid::gpu
