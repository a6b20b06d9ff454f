// Lines of the kernel's source in the machine code, so that profilers and compute-sanitizer show
// them.
//
// Only line directives are made (`.loc`), nothing that would make an assembler optimise less. The
// LLVM IR has the whole chain of inlined calls; LLVM 22 writes the innermost place of it to
// assembly. Code of the language's own library therefore stands at the line of the user's that
// called it.
#pragma once
#include "mlir/IR/Location.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/DIBuilder.h"
#include "llvm/IR/DebugLoc.h"

namespace llvm {
class Function;
class Module;
} // namespace llvm

namespace nereid::gpu {

class DebugInfo {
public:
  /// Off, every location is empty and the module stays as it is.
  explicit DebugInfo(llvm::Module &module, bool enabled = true);
  ~DebugInfo();

  /// From here on locations belong to this function, which starts at `location`.
  void beginFunction(llvm::Function &function, mlir::Location location);
  /// The place of an operation. A location without a file gives an empty one (never an invalid
  /// one).
  llvm::DebugLoc at(mlir::Location location);
  /// Call once, when all code is there.
  void finish();

private:
  llvm::DIFile *fileOf(llvm::StringRef path);
  llvm::DISubprogram *inlinedFrom(llvm::StringRef path);
  llvm::DILocation *resolve(mlir::Location location, llvm::DILocalScope *scope,
                            llvm::DILocation *inlinedAt);

  llvm::Module &module;
  std::unique_ptr<llvm::DIBuilder> builder;
  llvm::DICompileUnit *unit = nullptr;
  llvm::DISubprogram *current = nullptr;
  llvm::StringMap<llvm::DIFile *> files;
  llvm::StringMap<llvm::DISubprogram *> inlined;
  llvm::DenseMap<mlir::Location, llvm::DILocation *> known;
};

} // namespace nereid::gpu
