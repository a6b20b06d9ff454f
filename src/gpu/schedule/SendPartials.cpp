// Reductions across the blocks of a cluster, without the cluster's barrier.
//
// A barrier of the cluster that orders what blocks write to one another waits, in every thread,
// until all its earlier accesses to global memory are done: the results of the row before, which
// are on their way to memory, and the next row, which is on its way here. So a reduction across
// blocks sends its partial results instead (`st.async`): each arrives at an mbarrier of the block
// that it is for, and that block waits until it has as many bytes as there are partial results.
//
// Reductions of a kernel are counted while it runs. Number k uses slot and mbarrier k mod 2, for
// the (k / 2)th time:
//
//     each warp of each block   its partial results of k → slot k mod 2 of every block
//     each block                waits for mbarrier k mod 2;  reads the slot
//
// Why that is safe:
// - Slots. Whoever sends those of k + 2 has received those of k + 1 from every warp of the cluster,
//   and each warp has read those of k before it sent these (its lanes meet in between, in shuffles
//   or at a barrier of the warp). So nobody overwrites what is still read, however far a block
//   runs ahead: it is at most at the wait of k + 1 while another one is at that of k.
// - Phases. For the same reason an mbarrier gets bytes of k + 2 only when its phase of k is over in
//   every block. Bytes that come before the first thread has announced them leave the phase open,
//   for that thread's arrival is missing.
// - Progress. Every warp has something to send in every reduction, and sends before it waits.
//   Control flow must not depend on the block, as for barriers of the cluster: the blocks of a
//   cluster run the same programs, whose numbers follow from the number of the cluster, so all run
//   as many rounds and reductions, or leave early together. Clusters do not wait for one another;
//   one that gets a program less ends a round earlier. Nothing is sent for a round to come.
// - Start. Blocks meet once before the first of them sends, behind the making of the mbarriers and
//   in front of the loop over programs.
// - End. A block has received all that is sent to it when the wait of its last reduction is over,
//   so nothing arrives at a block that has ended, and a block need not wait for the others.
#include "gpu/schedule/SendPartials.h"

#include "gpu/Passes.h"
#include "gpu/layouts/AxisPlan.h"
#include "gpu/layouts/Blocks.h"
#include "ir/tile/Combiner.h"
#include "ir/tile/Dialect.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {
namespace {

bool canSend(tile::ReduceOp reduce) {
  if (!crossesBlocks(reduce))
    return false;
  // Words of 32 bits are sent.
  for (Value source : reduce.getSrcs())
    if (unsigned bytes = tile::sizeInBytes(tile::elementOf(source.getType()));
        bytes != 4 && bytes != 8)
      return false;
  auto type = cast<RankedTensorType>(reduce.getSrcs()[0].getType());
  AxisPlan plan(ngpu::layoutOf(type).getLayout(), reduce.getAxis(),
                !tile::commutes(reduce.getCombine()));
  return !plan.stored.freeBits(Axis::Warp) &&
         plan.stored.size(Axis::Warp) == ngpu::warpCount(reduce);
}

} // namespace

bool meetsBlocks(Operation *op) {
  if (ngpu::blockCount(op) == 1)
    return false;
  if (isa<tile::BarrierOp>(op))
    return true;
  if (auto convert = dyn_cast<ngpu::ConvertLayoutOp>(op)) {
    auto layoutOf = [](Value value) {
      return ngpu::layoutOf(cast<RankedTensorType>(value.getType())).getLayout();
    };
    return !keepsBlocks(layoutOf(convert.getSrc()), layoutOf(convert.getResult()),
                        ngpu::warpCount(op), ngpu::blockCount(op));
  }
  auto reduce = dyn_cast<tile::ReduceOp>(op);
  return crossesBlocks(op) && !(reduce && canSend(reduce));
}

void sendPartials(func::FuncOp kernel, const GpuOptions &options) {
  if (!options.sendsPartials || options.numBlocks == 1)
    return;
  unsigned bytes = 0;
  kernel.walk([&](tile::ReduceOp reduce) {
    if (!canSend(reduce))
      return;
    bytes = std::max(bytes, scratchBytes(reduce));
    reduce->setAttr(ngpu::sendsName, UnitAttr::get(kernel.getContext()));
  });
  if (bytes)
    kernel->setAttr(ngpu::sendBytesName,
                    Builder(kernel.getContext()).getI32IntegerAttr(llvm::alignTo(bytes, 16)));
}

} // namespace nereid::gpu
