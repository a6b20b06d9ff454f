// How a target runs its choice of LLVM's passes over LLVM IR.
#pragma once
#include "targets/target.h"

#include "llvm/IR/PassManager.h"

#include <vector>

namespace llvm {
class TargetMachine;
} // namespace llvm

namespace nereid::targets {

/// With all of LLVM's analyses, those of the machine's costs included. `times`: where the time of
/// each pass goes, if anywhere.
void runLlvmPasses(llvm::Module &module, llvm::TargetMachine &machine,
                   llvm::ModulePassManager passes, std::vector<StageTime> *times);

} // namespace nereid::targets
