// From tile IR to GPU IR that an emitter can walk: what all GPUs share.
#pragma once
#include "explain/Hints.h"
#include "gpu/Options.h"
#include "kernel_abi/SplitRule.h"
#include "kernel_abi/TensorMapPlan.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace nereid::gpu {

/// What the passes found out besides the IR.
struct GpuReport {
  std::vector<TensorMapPlan> tensorMaps; ///< parameters of the kernel, after all others
  unsigned sharedBytes = 0;              ///< dynamic shared memory of a block
  bool pairs = false;                    ///< the launcher may start programs in pairs
  std::optional<SplitRule> splitRule;    ///< when the launcher may let several blocks run a program
  unsigned fetchedAhead = 0;             ///< bytes of the rows of the next program, of a block
  bool persistentProducts = false;       ///< blocks compute several programs
  unsigned blocks = 1;                   ///< that run a program: those of a cluster
  unsigned stages = 0;                   ///< slots of the deepest pipelined loop; 0: none is
  Concessions without = {};              ///< optimisations that were switched off so that it fits
  unsigned firstBytes = 0;               ///< what it would have taken otherwise, if anything
  std::vector<explain::Hint> advice;     ///< what the author should know
  std::string layouts;                   ///< the cost report of layout assignment, when asked for
  std::vector<std::pair<std::string, double>> times; ///< passes in order, milliseconds
};

/// Runs all passes on the one kernel of `module`, in the order that Pipeline.cpp lists with
/// reasons. Errors are the user's (out of shared memory, a dot that the device cannot do) or start
/// with "internal error".
llvm::Expected<GpuReport> runGpuPipeline(mlir::ModuleOp module, const GpuOptions &options,
                                         bool wantReport = false);

/// Makes the single passes known by name to command-line tools. Their option `sm` is the number of
/// a machine that `machine` describes.
void registerPasses(Machine (*machine)(int number));

} // namespace nereid::gpu
