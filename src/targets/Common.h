// What the compile functions of all targets have in common.
#pragma once
#include "targets/target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <chrono>

namespace llvm {
class Module;
}

namespace nereid::targets {

/// The one function of the module that carries `tile.kernel`; null when there is none.
mlir::func::FuncOp kernelOf(mlir::ModuleOp module);
/// The parameters of a kernel in tile IR, with their names.
std::vector<Param> paramsOf(mlir::func::FuncOp kernel);
/// An operation as text.
std::string printed(mlir::Operation *op);
/// Prints LLVM IR "before" or "after" its optimisation when the setting NEREID_PRINT_LLVM asks for
/// it.
void printLlvm(const llvm::Module &module, llvm::StringRef kernel, llvm::StringRef when);
/// Puts the LLVM IR that `options.replacement` has for the stage "llir" in the module's place. An
/// error when it is none.
llvm::Error replaceLlvm(std::unique_ptr<llvm::Module> &module, const CompileOptions &options);
/// An error that is the compiler's fault.
llvm::Error defect(const llvm::Twine &what);

/// Measures the stages of a compilation, from one call to the next.
class StageClock {
public:
  explicit StageClock(std::vector<StageTime> &times) : times(times) {}
  void done(const char *name) {
    auto now = std::chrono::steady_clock::now();
    times.push_back({name, std::chrono::duration<double, std::milli>(now - last).count()});
    last = now;
  }

private:
  std::vector<StageTime> &times;
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
};

} // namespace nereid::targets
