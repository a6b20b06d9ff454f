// Loads of a kernel that the compiler wrote, before what its threads wait for together.
//
// A gradient kernel computes the forward values first and reads the gradients of the outputs where
// it needs them: behind the first reductions, at whose barriers all warps of a program meet. Then
// no warp has a load in flight, and a row waits for memory twice. Such loads move in front of the
// first reduction behind them, together with what computes their addresses, as far as registers
// allow. No write is passed, so a load reads what it read; it was executed in any case, since it
// stays in its block.
//
// Other kernels keep the order of their authors.
#include "gpu/Passes.h"
#include "ir/tile/Dialect.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

/// Registers of a thread that hold what loads read ahead of their use.
constexpr int64_t kMostRegisters = 32;
/// No address of a kernel that anybody writes takes more operations.
constexpr size_t kMostOperations = 64;

bool onlyReads(Operation *op) {
  auto effects = dyn_cast<MemoryEffectOpInterface>(op);
  return isMemoryEffectFree(op) ||
         (effects && effects.onlyHasEffect<MemoryEffects::Read>() && !op->getNumRegions());
}

/// Adds to `ops`, in the order of the program, what computes a value behind `wait`; false where
/// that cannot be done before it.
bool collect(Value value, Operation *wait, llvm::SetVector<Operation *> &ops) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != wait->getBlock() || op->isBeforeInBlock(wait) || ops.contains(op))
    return true;
  if (op->getNumRegions() || !isPure(op) ||
      !llvm::all_of(op->getOperands(), [&](Value each) { return collect(each, wait, ops); }))
    return false;
  ops.insert(op);
  return ops.size() <= kMostOperations;
}

void issueLoads(Block &block, int64_t threads) {
  Operation *wait = nullptr; // the first reduction behind the last write
  int64_t registers = 0;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (isa<tile::ReduceOp, tile::ScanOp>(op) && isMemoryEffectFree(&op)) {
      if (!wait)
        registers = 0;
      wait = wait ? wait : &op;
      continue;
    }
    auto load = dyn_cast<tile::LoadOp>(op);
    if (op.getNumRegions() || !onlyReads(&op) || (load && load.getIsVolatile())) {
      wait = nullptr;
      continue;
    }
    if (!load || !wait)
      continue;
    int64_t elements = 1;
    for (int64_t size : tile::shapeOf(load.getType()))
      elements *= size;
    int64_t bytes = elements * tile::sizeInBytes(tile::elementOf(load.getType()));
    int64_t needed = llvm::divideCeil(llvm::divideCeil(bytes, threads), 4);
    llvm::SetVector<Operation *> ops;
    if (registers + needed > kMostRegisters ||
        !llvm::all_of(load->getOperands(), [&](Value each) { return collect(each, wait, ops); }))
      continue;
    registers += needed;
    for (Operation *each : ops)
      each->moveBefore(wait);
    load->moveBefore(wait);
  }
}

} // namespace

void issueLoads(func::FuncOp kernel, const GpuOptions &options) {
  if (!kernel->hasAttr("tile.gradients"))
    return;
  SmallVector<Block *> blocks; // operations move while they are visited
  kernel->walk([&](Block *block) {
    if (!isa<tile::ReduceOp, tile::ScanOp, tile::MapElementwiseOp>(block->getParentOp()))
      blocks.push_back(block);
  });
  for (Block *block : blocks)
    issueLoads(*block, int64_t(options.numWarps) * options.machine.lanes);
}

} // namespace nereid::gpu
