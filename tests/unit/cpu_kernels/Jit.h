// Compiles MLIR made by a test and runs it, for each level of vector instructions this machine has.
#pragma once
#include "targets/cpu/Features.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace nereid::cpu::test {

struct Level {
  const char *name;
  const char *llvmFeatures;
  Features features;
};
// avx512bf16, avx512, avx2 and baseline, those that the machine runs.
const std::vector<Level> &levels();

// A context with every dialect the emitters use, and the translations to LLVM.
std::unique_ptr<mlir::MLIRContext> makeContext();

class Code {
public:
  template <typename Function> Function *get(const char *name) const {
    return reinterpret_cast<Function *>(address(name));
  }
  // Symbols the object file asks for: none is a libgcc routine when the emitters are right.
  std::vector<std::string> undefined;
  std::string assembly; // when asked for

private:
  friend std::unique_ptr<Code> compile(mlir::ModuleOp, const Level &,
                                       const std::vector<mlir::Pass *> &, bool);
  void *address(const char *name) const;
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

// Runs `passes` (which it takes over), lowers to LLVM, optimises and loads. Aborts with a message
// on failure.
std::unique_ptr<Code> compile(mlir::ModuleOp module, const Level &level,
                              const std::vector<mlir::Pass *> &passes = {},
                              bool keepAssembly = false);

// Adds `void name(const void *in0, const void *in1, const void *in2, void *out, int64_t n)` to the
// module: for vectors of `lanes` (1: scalars) of the element types in `inputs`, the last n % lanes
// elements left out, out = body(in...). 8-bit floats are read and written through i8.
using Body = std::function<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::ValueRange)>;
using MapFunction = void(const void *, const void *, const void *, void *, int64_t);
void addMap(mlir::ModuleOp module, const char *name, llvm::ArrayRef<mlir::Type> inputs,
            mlir::Type output, int64_t lanes, const Body &body);

} // namespace nereid::cpu::test
