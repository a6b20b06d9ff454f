// The code generator of a target: one kernel in tile IR to machine code. Everything that needs MLIR
// and LLVM's code generators is behind this; the finished kernel (targets/target.h) is not.
#pragma once
#include "explain/SourcePlace.h"
#include "targets/source_lines.h"
#include "targets/target.h"

#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace nereid::targets {

/// The error of a compilation that needs more of something than the device has; the run time gives
/// it to the user with the configuration that caused it.
class OutOfResources : public llvm::ErrorInfo<OutOfResources> {
public:
  static inline char ID = 0;
  OutOfResources(std::string what, int64_t required, int64_t limit, std::string biggest = "")
      : what(std::move(what)), required(required), limit(limit), biggest(std::move(biggest)) {}
  void log(llvm::raw_ostream &out) const override {
    out << "out of resource: " << what << ", required: " << required << ", limit: " << limit;
  }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

  std::string what; ///< "shared memory" (bytes), "tensor memory", "threads"
  int64_t required, limit;
  std::string biggest; ///< what takes most of it, with the kernel's lines; may be empty
};

/// The error of a compilation whose assembly, written by the author, is refused.
class AssemblyRefused : public llvm::ErrorInfo<AssemblyRefused> {
public:
  static inline char ID = 0;
  AssemblyRefused(std::string text, std::vector<explain::SourcePlace> places)
      : text(std::move(text)), places(std::move(places)) {}
  void log(llvm::raw_ostream &out) const override {
    for (const explain::SourcePlace &place : llvm::ArrayRef(places).take_front(1))
      out << place.file << ':' << place.line << ':' << place.column << ": ";
    out << "the assembler refuses this assembly: " << text;
  }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

  std::string text;                         ///< what the assembler says
  std::vector<explain::SourcePlace> places; ///< the assembly's, and of the calls that led there
};

/// Objects are immutable and may be used from several threads at once.
class Generator {
public:
  virtual ~Generator() = default;
  /// Compiles the one function of `tileModule` that carries `tile.kernel`. The module must have
  /// been through the target-independent tile pipeline (calls inlined); it is consumed: its content
  /// afterwards is unspecified. Errors are the user's (unknown features, a construct the target
  /// cannot run) and say so in words for the kernel's author; a defect of the compiler starts with
  /// "internal error". The kernel is not callable yet: `Target::load`. `sourceLine` gives the lines
  /// that failing programs name (CPU; a GPU's driver has no place for them).
  virtual llvm::Expected<std::unique_ptr<CompiledKernel>>
  compile(mlir::ModuleOp tileModule, const CompileOptions &options,
          const SourceLines &sourceLine = {}) const = 0;
};

/// The generators. One object each for the process.
const Generator &cpuGenerator();
const Generator &nvidiaGenerator();

/// The generator of a backend ("cpu", "cuda"); null for one that this build lacks.
const Generator *findGenerator(llvm::StringRef backend);

} // namespace nereid::targets
