// Kernels in tile IR, through all GPU passes and the emitter, run on simulated threads and a
// simulated copy engine.
#pragma once
#include "WarpSimulator.h"

#include "gpu/Options.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace nereid::test {

/// The bits of the nearest half.
uint16_t halfOf(float value);

struct DividedOutcome {
  std::string error; ///< of a pass or of the simulation; empty: none
  unsigned copies = 0;
  bool divided = false;
};

/// Compiles the kernel of the module `text` and runs it as one program. `words`: its arguments
/// before descriptors are planned, which are the values that tensor maps are made from. `change`:
/// what is done to the kernel before it is emitted.
DividedOutcome runDivided(const std::string &text, const gpu::GpuOptions &options,
                          WarpSimulator::Words words,
                          llvm::function_ref<void(mlir::func::FuncOp)> change = nullptr);

} // namespace nereid::test
