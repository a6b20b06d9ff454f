#include "transforms/Pipeline.h"

#include "transforms/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

namespace nereid::transforms {
#define GEN_PASS_REGISTRATION
#include "transforms/Passes.h.inc"

void buildTilePipeline(mlir::OpPassManager &manager, const TilePipelineOptions &options) {
  manager.addPass(createCombine());
  manager.addPass(mlir::createCSEPass());
}

void registerPasses() {
  registerNereidPasses();
  mlir::PassPipelineRegistration<>(
      "tile-pipeline", "all target-independent passes, as the targets run them",
      [](mlir::OpPassManager &manager) { buildTilePipeline(manager); });
}

} // namespace nereid::transforms
