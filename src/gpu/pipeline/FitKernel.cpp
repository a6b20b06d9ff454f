#include "gpu/pipeline/FitKernel.h"

#include "explain/Report.h"
#include "gpu/Passes.h"
#include "ir/tile/Dialect.h"

#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

/// Could the tensors of the kernel fill shared memory, if each had a buffer?
bool couldFillShared(ModuleOp module, const GpuOptions &options) {
  uint64_t bytes = 0;
  WalkResult walked = module.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (auto tensor = dyn_cast<RankedTensorType>(type)) {
        uint64_t copies = isa_and_present<LoopLikeOpInterface>(op->getParentOp())
                              ? std::max(options.numStages, 1)
                              : 1;
        bytes +=
            copies * uint64_t(tensor.getNumElements()) * tile::sizeInBytes(tensor.getElementType());
      }
    return bytes > options.machine.maxSharedBytes ? WalkResult::interrupt() : WalkResult::advance();
  });
  return walked.wasInterrupted();
}

/// Products on mma.sync, with their operands in registers too, instead of wgmma: not where the
/// accumulators alone are more than a thread's registers, which would be in memory all the time.
bool couldUseMma(ModuleOp module, const GpuOptions &options) {
  constexpr int64_t most = 256;
  int64_t threads = int64_t(options.machine.lanes) * options.numWarps;
  bool any = false, fits = options.machine.best == MatrixUnit::Wgmma;
  module.walk([&](tile::DotOp dot) {
    any = true;
    fits &= dot.getType().getNumElements() <= most * threads;
  });
  return any && fits;
}

} // namespace

std::optional<Concessions> nextConcession(Concessions tried, unsigned stages, bool mmaHelps,
                                          bool storesOverlap, bool persistent) {
  // With fewer slots, or stores that are waited for, one tile a program is as fast or faster.
  if (persistent && !tried.persistentProducts) {
    tried.persistentProducts = true;
    return tried;
  }
  if (storesOverlap && !tried.overlappedStores) {
    tried.overlappedStores = true;
    return tried;
  }
  if (!tried.largeConversions) {
    tried.largeConversions = true;
    return tried;
  }
  if (stages > 1) {
    tried.stages = stages - 1;
    return tried;
  }
  if (!tried.wgmma && mmaHelps) {
    tried.wgmma = true;
    tried.stages = 0;
    return tried;
  }
  return std::nullopt;
}

llvm::Expected<GpuReport>
fitKernel(ModuleOp module, const GpuOptions &options,
          llvm::function_ref<llvm::Expected<GpuReport>(const GpuOptions &)> compile) {
  if (!couldFillShared(module, options))
    return compile(options);
  OwningOpRef<ModuleOp> again = module.clone();
  bool mmaHelps = couldUseMma(module, options);
  std::optional<explain::Report> explained;
  if (options.explanation)
    explained = *options.explanation;

  GpuOptions now = options;
  std::optional<OutOfSharedMemory> first;
  while (true) {
    llvm::Expected<GpuReport> report = compile(now);
    if (report) {
      report->without = now.without;
      report->firstBytes = first ? unsigned(first->required) : 0;
      if (std::optional<explain::Hint> hint = adviceOnFit(*report, options))
        report->advice.push_back(std::move(*hint));
      return report;
    }
    unsigned stages = 0;
    bool storesOverlap = false, persistent = false;
    llvm::Error other = llvm::handleErrors(report.takeError(), [&](const OutOfSharedMemory &out) {
      if (!first)
        first.emplace(out.required, out.limit, out.biggest);
      stages = out.stages;
      storesOverlap = out.overlappedStores;
      persistent = out.persistentProducts;
    });
    if (other)
      return std::move(other);
    std::optional<Concessions> next =
        nextConcession(now.without, stages, mmaHelps, storesOverlap, persistent);
    if (!next)
      return llvm::make_error<OutOfSharedMemory>(first->required, first->limit, first->biggest);
    now.without = *next;
    if (now.without.wgmma)
      now.machine.best = MatrixUnit::Mma;
    module->setAttrs(again.get()->getAttrDictionary());
    OwningOpRef<ModuleOp> copy = again->clone();
    module.getBodyRegion().takeBody(copy->getBodyRegion());
    if (explained)
      *options.explanation = *explained;
  }
}

std::optional<explain::Hint> adviceOnFit(const GpuReport &report, const GpuOptions &options) {
  // Layouts that change piece by piece and stores that wait cost less than a stage (grouped
  // products are faster with these than with a stage less), so they are no reason for a
  // warning.
  if (!report.firstBytes || (!report.without.stages && !report.without.wgmma))
    return std::nullopt;
  std::string what = report.stages > 1 ? "loops have " + std::to_string(report.stages) + " stages"
                                       : "loops do not fetch ahead";
  if (report.without.wgmma)
    what = "products use mma.sync instead of wgmma" +
           (report.without.stages ? " and " + what : std::string());
  return explain::makeHint(
      explain::HintKind::GivenUp, {},
      {std::to_string(report.firstBytes), std::to_string(options.machine.maxSharedBytes), what});
}

} // namespace nereid::gpu
