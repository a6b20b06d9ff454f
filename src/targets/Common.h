// What the compile functions of all targets have in common.
#pragma once
#include "targets/StageClock.h"
#include "targets/generator.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace nereid::targets {

/// The one function of the module that carries `tile.kernel`; null when there is none.
mlir::func::FuncOp kernelOf(mlir::ModuleOp module);
/// The parameters of a kernel in tile IR, with their names.
std::vector<Param> paramsOf(mlir::func::FuncOp kernel);
/// An operation as text: the stage `stage` of a compilation, whose lines an explanation notes.
std::string printed(mlir::Operation *op, llvm::StringRef stage, const CompileOptions &options);
/// Prints LLVM IR "before" or "after" its optimisation when the setting NEREID_PRINT_LLVM asks for
/// it.
void printLlvm(const llvm::Module &module, llvm::StringRef kernel, llvm::StringRef when);
/// Puts the LLVM IR that `options.replacement` has for the stage "llir" in the module's place. An
/// error when it is none.
llvm::Error replaceLlvm(std::unique_ptr<llvm::Module> &module, const CompileOptions &options);
/// An error that is the compiler's fault.
llvm::Error defect(const llvm::Twine &what);

/// Collects what LLVM complains about while it generates code, which is about assembly and
/// constraints that the author wrote; its own handler would end the process. Must not outlive the
/// context.
class CodeProblems {
public:
  explicit CodeProblems(llvm::LLVMContext &context);
  /// The problems of the module since the last call, as one error: AssemblyRefused where
  /// the place of the assembly was noted (Places.h).
  llvm::Error take(const llvm::Module &module);

  struct Found {
    std::string text;
    uint64_t number = 0; ///< the `srcloc` of the first complaint
  };

private:
  std::shared_ptr<Found> found;
};

/// Links the functions that the module calls and does not have from files of bitcode (or LLVM IR as
/// text), for the module's own machine; they become part of it and may be inlined.
llvm::Error linkLibraries(llvm::Module &module, llvm::ArrayRef<std::string> paths);
/// The error for a function that no library has.
llvm::Error missingFunction(llvm::StringRef symbol);

} // namespace nereid::targets
