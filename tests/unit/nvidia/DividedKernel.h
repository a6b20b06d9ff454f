// Kernels in tile IR, through all GPU passes and the emitter, run on simulated threads and a
// simulated copy engine.
#pragma once
#include "WarpSimulator.h"

#include "gpu/Options.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace nereid::test {

/// `text` with every occurrence of the first string of a pair replaced by the second; one pair
/// after the other.
std::string replaced(std::string text,
                     std::initializer_list<std::pair<std::string, std::string>> pairs);

/// The bits of the nearest half.
uint16_t halfOf(float value);

struct DividedOutcome {
  std::string error;                 ///< of a pass or of the simulation; empty: none
  unsigned copies = 0, meetings = 0; ///< meetings of the cluster's blocks
  unsigned shared = 0;               ///< copies to several blocks at once
  bool divided = false, persistent = false;
};

/// One of the programs of a launch.
struct SimulatedLaunch {
  unsigned blocks = 1; ///< of the cluster that runs it, where the launcher chooses how many
  uint32_t program = 0, programs = 1;
  llvm::function_ref<void(llvm::Module &)> damage; ///< changes the emitted code
  std::optional<unsigned> late = std::nullopt;     ///< as in the simulator
  /// Programs of a persistent kernel, which `programs` blocks run; 0: the launcher passes none.
  uint32_t given = 0;
};

/// Compiles the kernel of the module `text` and runs it as one program. `words`: its arguments
/// before descriptors are planned, which are the values that tensor maps are made from. `change`:
/// what is done to the kernel before it is emitted.
DividedOutcome runDivided(const std::string &text, const gpu::GpuOptions &options,
                          WarpSimulator::Words words,
                          llvm::function_ref<void(mlir::func::FuncOp)> change = nullptr,
                          const SimulatedLaunch &launch = {});

} // namespace nereid::test
