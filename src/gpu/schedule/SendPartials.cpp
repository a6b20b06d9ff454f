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
// Whoever sends those of k + 2 has received those of k + 1 from every warp of the cluster, and each
// warp has read those of k before it sent these. So nobody overwrites what is still read, and no
// mbarrier is one phase behind. Therefore every warp must have something to send in every
// reduction, and control flow must not depend on the block; what meets at a barrier of the cluster
// requires the latter, too. A block may end as soon as it has received what it waits for: by then
// all that is sent to it has arrived.
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
    kernel->setAttr(ngpu::sendBytesName, Builder(kernel.getContext())
                                             .getI32IntegerAttr(llvm::alignTo(bytes, 16)));
}

} // namespace nereid::gpu
