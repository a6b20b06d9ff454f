#include "gpu/pipeline/ChooseBlocks.h"

#include "gpu/pipeline/OneBlock.h"
#include "gpu/schedule/KeptWords.h"
#include "ir/tile/Dialect.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

/// Registers of a thread besides those of the tensors: addresses, masks, temporaries.
constexpr int kBeside = 16;
/// Blocks of 4 warps: more of them fit on a multiprocessor than of larger ones with as many
/// registers, and while one waits at a barrier of the cluster another one computes.
constexpr int kWarps = 4;
/// Blocks of a cluster at most: as many as every machine with clusters can place.
constexpr int kMostBlocks = 8;
/// With this many registers a thread three blocks of 4 warps fit on a multiprocessor. Twice as many
/// blocks for a program, of which five fit, are slower (docs/notes/performance.md#wide-rows).
constexpr int kEnough = 168;

/// At barriers 16 blocks are often slower, so more are chosen only where reductions send.
int mostBlocks(func::FuncOp kernel, const GpuOptions &options) {
  bool meets = kernel->hasAttr("tile.gradients") || // not timed
               kernel
                   .walk([](Operation *op) {
                     return isa<tile::ScanOp>(op) ? WalkResult::interrupt() : WalkResult::advance();
                   })
                   .wasInterrupted();
  return options.sendsPartials && !meets ? int(options.machine.mostSending) : kMostBlocks;
}

/// What keeps programs on one block unless their author asks for more: exchanges of whole tensors,
/// which cost more than the spills, and all that may depend on how many programs run at the same
/// time or on the numbers of threads.
bool staysOnOneBlock(Operation *op) {
  if (isa<tile::ExchangeOp, tile::GatherOp, tile::TransOp, tile::JoinOp, tile::SplitOp, tile::CatOp,
          tile::SliceOp, tile::InlineAsmOp, tile::ExternOp, tile::BarrierOp, tile::PrintOp,
          tile::AtomicCASOp, tile::AtomicLoadOp, tile::AtomicStoreOp>(op))
    return true;
  if (isa<scf::WhileOp, func::CallOp>(op))
    return true;
  return isa<scf::ForOp>(op) &&
         (op->hasAttr("tile.num_stages") || op->hasAttr("tile.warp_specialize"));
}

} // namespace

std::optional<BlockChoice> chooseBlocks(func::FuncOp kernel, const GpuOptions &options) {
  const Machine &machine = options.machine;
  if (machine.maxBlocks < unsigned(kMostBlocks))
    return std::nullopt;
  int64_t words = wordsKept(kernel);
  auto needed = [&](int warps) {
    return int(llvm::divideCeil(words, int64_t(warps) * machine.lanes)) + kBeside;
  };
  auto there = [&](int warps) {
    return int(std::min(machine.threadRegisters,
                        machine.registers / (unsigned(warps) * machine.lanes) / 8 * 8));
  };
  BlockChoice choice{1, options.numWarps, needed(options.numWarps), there(options.numWarps)};
  if (words == 0 || choice.needed <= choice.there)
    return std::nullopt;

  const int most = mostBlocks(kernel, options);
  GpuOptions divided = options;
  divided.numBlocks = most;
  if (oneBlock(kernel, divided) || kernel->getParentOfType<ModuleOp>()
                                       .walk([](Operation *op) {
                                         return staysOnOneBlock(op) ? WalkResult::interrupt()
                                                                    : WalkResult::advance();
                                       })
                                       .wasInterrupted())
    return std::nullopt;

  // The fewest blocks with which several of them fit on a multiprocessor.
  choice.warps = kWarps;
  for (choice.blocks = 2; choice.blocks <= most; choice.blocks *= 2)
    if (needed(choice.blocks * kWarps) <= kEnough)
      return choice;
  choice.blocks = most;
  // Rows that fill several multiprocessors.
  int mostWarps =
      std::min(16, int(machine.registers / machine.threadRegisters / machine.lanes) * 2);
  for (choice.warps = 2 * kWarps; choice.warps < mostWarps; choice.warps *= 2)
    if (needed(most * choice.warps) <= there(choice.warps))
      break;
  return choice;
}

} // namespace nereid::gpu
