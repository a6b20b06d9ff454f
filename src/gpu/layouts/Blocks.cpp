#include "gpu/layouts/Blocks.h"

#include "gpu/layouts/AxisPlan.h"
#include "gpu/layouts/Rearrange.h"
#include "ir/tile/Combiner.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {

/// The same layout with its highest warp bits as bits of the block axis.
static LinearLayout withBlockAxis(const LinearLayout &layout, unsigned warps, unsigned blocks) {
  std::array<LinearLayout::Columns, kAxes> columns;
  for (Axis axis : {Axis::Register, Axis::Lane, Axis::Warp})
    columns[unsigned(axis)].assign(layout.flatBases(axis).begin(), layout.flatBases(axis).end());
  LinearLayout::Columns &ofWarp = columns[unsigned(Axis::Warp)];
  ofWarp.resize(llvm::Log2_32(warps), 0); // bits that a layout lacks hold copies
  unsigned ownBits = llvm::Log2_32(warps / blocks);
  columns[unsigned(Axis::Block)].assign(ofWarp.begin() + ownBits, ofWarp.end());
  ofWarp.truncate(ownBits);
  return LinearLayout::fromFlat(layout.shape(), std::move(columns));
}

bool keepsBlocks(const LinearLayout &from, const LinearLayout &to, unsigned warps,
                 unsigned blocks) {
  return blocks == 1 || locateKeeping(withBlockAxis(from, warps, blocks),
                                      withBlockAxis(to, warps, blocks), {Axis::Block});
}

/// Shared memory that a sum of the blocks' tensors takes at most, where that is a word of every
/// thread or more: rings of loops are larger, and have ended.
static constexpr unsigned kMostSumBytes = 32768;

BlockSum blockSumOf(ngpu::SumBlocksOp op) {
  BlockSum sum;
  sum.registers = ngpu::registerCount(cast<RankedTensorType>(op.getType()));
  sum.words = llvm::divideCeil(sum.registers, 4);
  sum.threads = ngpu::laneCount(op) * ngpu::warpCount(op);
  sum.atOnce = std::clamp(kMostSumBytes / (sum.threads * BlockSum::wordBytes), 1u, sum.words);
  return sum;
}

bool crossesBlocks(Operation *op) {
  unsigned blocks = ngpu::blockCount(op), warps = ngpu::warpCount(op);
  if (blocks == 1)
    return false;
  auto alongAxis = [&](RankedTensorType type, unsigned axis, bool ordered) {
    AxisPlan plan(ngpu::layoutOf(type).getLayout(), axis, ordered);
    return plan.partialBits && !keepsBlocks(plan.stored, plan.loaded, warps, blocks);
  };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](tile::ReduceOp reduce) {
        return alongAxis(cast<RankedTensorType>(reduce.getSrcs()[0].getType()), reduce.getAxis(),
                         !tile::commutes(reduce.getCombine()));
      })
      .Case([&](tile::ScanOp scan) {
        return alongAxis(cast<RankedTensorType>(scan.getSrcs()[0].getType()), scan.getAxis(), true);
      })
      .Case([&](ngpu::ConvertLayoutOp convert) {
        auto layoutOf = [](Value value) {
          return ngpu::layoutOf(cast<RankedTensorType>(value.getType())).getLayout();
        };
        return convert.getPieces() && !keepsBlocks(layoutOf(convert.getSrc()),
                                                   layoutOf(convert.getResult()), warps, blocks);
      })
      .Case([&](ngpu::LocalAllocOp alloc) { return alloc.getAllBlocks(); })
      .Case([&](tile::ExchangeOp exchange) {
        const LinearLayout &layout = ngpu::layoutOf(exchange.getType()).getLayout();
        return exchangeStep(layout, exchange.getAxis(), exchange.getMask()).warp >= warps / blocks;
      })
      // Of these whole tensors are in scratch memory.
      .Case<tile::AtomicRMWOp, tile::AtomicCASOp, tile::SliceOp, tile::GatherOp>(
          [](Operation *each) { return ngpu::scratchOffset(each).has_value(); })
      .Default(false);
}

} // namespace nereid::gpu
