// How long each pass of a compilation takes (the setting NEREID_TIME_PASSES): those of MLIR, of
// LLVM's optimiser and of its code generator, in the order in which they first ran. A pass that
// runs several times has one entry with the sum.
#pragma once
#include "targets/target.h"

#include <memory>

namespace llvm {
class PassInstrumentationCallbacks;
} // namespace llvm
namespace mlir {
class PassInstrumentation;
} // namespace mlir

namespace nereid::targets {

/// Adds `ms` to the entry `name`, which is made when it is the first.
void addTime(std::vector<StageTime> &times, llvm::StringRef name, double ms);

/// For a pass manager of MLIR. `times` must outlive it.
std::unique_ptr<mlir::PassInstrumentation> timeMlirPasses(std::vector<StageTime> &times);
/// For a pass builder of LLVM. `times` must outlive the passes.
void timeLlvmPasses(llvm::PassInstrumentationCallbacks &callbacks, std::vector<StageTime> &times);

/// Passes of LLVM's code generator that run while it lives; null times nothing. LLVM keeps one set
/// of clocks for the process: what other threads compile meanwhile is mixed in.
class CodeGeneratorTimes {
public:
  explicit CodeGeneratorTimes(std::vector<StageTime> *times);
  ~CodeGeneratorTimes();

private:
  std::vector<StageTime> *times;
};

} // namespace nereid::targets
