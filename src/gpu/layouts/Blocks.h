// Programs that the blocks of a cluster run together.
//
// The warps of such a program are those of all its blocks, one block after the other: with w warps
// a block, warp i of a layout is warp i % w of block i / w. The highest bits of a layout's warp
// axis are thereby its block axis, and whatever knows the warp axis (candidates of layouts, their
// costs, owners of copies) knows blocks too. Each block has shared memory of its own, laid out as
// in all others. An op that moves elements between threads of different blocks writes them to the
// shared memory of every block that reads them, meets the other blocks at a barrier of the cluster
// and then reads its own shared memory; no block reads another one's.
#pragma once
#include "ir/ngpu/Dialect.h"
#include "layout/LinearLayout.h"

#include "mlir/IR/Operation.h"

namespace nereid::gpu {

/// Whether every place of `to`, layouts of a program of `warps` warps in `blocks` blocks, finds its
/// element in `from` in its own block.
bool keepsBlocks(const layout::LinearLayout &from, const layout::LinearLayout &to, unsigned warps,
                 unsigned blocks);

/// Whether `op`, which exchanges elements through shared memory, does so between blocks. False
/// where one block runs a program.
bool crossesBlocks(mlir::Operation *op);

/// How an `ngpu.sum_blocks` goes through shared memory: each thread's registers in words of four,
/// `atOnce` of `words` at a time, those of all `threads` one after the other.
struct BlockSum {
  static constexpr unsigned wordBytes = 16;
  unsigned registers, words, atOnce, threads;
  unsigned bytes() const { return atOnce * threads * wordBytes; }
};
BlockSum blockSumOf(ngpu::SumBlocksOp op);

} // namespace nereid::gpu
