#include "transforms/Pipeline.h"

#include "transforms/Passes.h"
#include "transforms/PointersToDescriptors.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

namespace nereid::transforms {
#define GEN_PASS_REGISTRATION
#include "transforms/Passes.h.inc"

void addInlining(mlir::OpPassManager &manager, TilePipelineOptions::Functions functions) {
  using Functions = TilePipelineOptions::Functions;
  if (functions != Functions::All)
    manager.addPass(createUnmarkNoinline({functions == Functions::None ? "none" : "scalars"}));
  manager.addPass(mlir::createInlinerPass({}, [](mlir::OpPassManager &) {}));
  // Removes callees that are not called any more.
  manager.addPass(mlir::createSymbolDCEPass());
}

void buildTilePipeline(mlir::OpPassManager &manager, const TilePipelineOptions &options) {
  // First, because a call hides its callee's loads, shapes and constants from everything that
  // follows.
  addInlining(manager, options.functions);
  // While offsets are still what the author wrote; the inliner shows where pointers come from.
  manager.addNestedPass<mlir::func::FuncOp>(createWidenOffsets());
  // Before descriptors-to-pointers, which rewrites what is not chosen.
  if (options.tensorCopies)
    manager.addPass(createChooseTensorCopies());
  // Early, so that every pass sees loads and stores; after the inliner, so that few descriptors
  // cross a call.
  manager.addPass(createDescriptorsToPointers());
  // Constants, splats and shapes in their simplest form: later passes match on it.
  manager.addPass(createCombine());
  // Equal addresses and equal steps become one value, so that loops see that they advance alike.
  manager.addPass(mlir::createCSEPass());
  // Needs uniform steps to be splats (combine); makes scalars of carried tensors.
  manager.addPass(createSimplifyLoops());
  // Moves those scalars into the base pointers, drops what loops need not carry, unrolls what runs
  // once.
  manager.addPass(createCombine());
  // After combine, so that it is scalar arithmetic that leaves the loops.
  if (options.licm)
    manager.addPass(createHoistInvariants());
  // Hoisting brings equal computations of several loops into one scope.
  manager.addPass(mlir::createCSEPass());
  // Last: what blocks of pointers advance by is a scalar now, and starts and bounds are one value
  // each.
  if (options.tensorCopies && options.copiesFromPointers)
    manager.addPass(createPointersToDescriptors(options.explanation,
                                                options.onlyFasterCopies ? options.warps : 0));
}

void registerPasses() {
  registerNereidPasses();
  mlir::PassPipelineRegistration<>(
      "tile-pipeline", "all target-independent passes, as the targets run them",
      [](mlir::OpPassManager &manager) { buildTilePipeline(manager); });
}

} // namespace nereid::transforms
