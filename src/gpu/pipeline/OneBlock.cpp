#include "gpu/pipeline/OneBlock.h"

#include "ir/tile/Dialect.h"
#include "transforms/Explain.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

/// What in an op keeps a program on one block; null: nothing.
const char *obstacleIn(Operation *op) {
  if (isa<tile::DotOp>(op))
    return "a product reads its operands from the shared memory of one block";
  if (isa<tile::HistogramOp>(op))
    return "a histogram counts in the shared memory of one block";
  if (isa<tile::MakeDescriptorOp, tile::DescLoadOp, tile::DescStoreOp, tile::DescReduceOp,
          tile::DescGatherOp, tile::DescScatterOp>(op))
    return "descriptors' blocks are copied to the shared memory of one block";
  auto ofBlock = [](tile::MemScope scope) { return scope == tile::MemScope::CTA; };
  if (auto atomic = dyn_cast<tile::AtomicRMWOp>(op); atomic && ofBlock(atomic.getScope()))
    return "an atomic operation of scope `cta` is atomic within one block";
  if (auto atomic = dyn_cast<tile::AtomicCASOp>(op); atomic && ofBlock(atomic.getScope()))
    return "an atomic operation of scope `cta` is atomic within one block";
  return nullptr;
}

} // namespace

std::optional<explain::Hint> oneBlock(func::FuncOp kernel, const GpuOptions &options) {
  auto because = [&](explain::SourcePlace place, std::string why) {
    return explain::makeHint(explain::HintKind::NoClusters, std::move(place),
                             {std::to_string(options.numBlocks), std::move(why)});
  };
  if (unsigned(options.numBlocks) > options.machine.maxBlocks)
    return because({}, options.machine.maxBlocks == 1
                           ? std::string("the device has no clusters")
                           : "a cluster has at most " + std::to_string(options.machine.maxBlocks) +
                                 " blocks");
  std::optional<explain::Hint> found;
  // With the functions that it calls, which are in the same module.
  kernel->getParentOfType<ModuleOp>().walk([&](Operation *op) {
    const char *why = obstacleIn(op);
    if (why)
      found = because(transforms::placeOf(op->getLoc()), why);
    return why ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found;
}

} // namespace nereid::gpu
