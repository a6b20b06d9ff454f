// From LLVM IR to PTX: LLVM's code generator for an architecture, the passes that pay for their
// time, and the text.
#pragma once
#include "targets/nvidia/codegen/Architecture.h"
#include "targets/target.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace llvm {
class Function;
class Module;
class TargetMachine;
} // namespace llvm

namespace nereid::nvidia {

struct CodegenOptions {
  Architecture arch;
  /// Times ten: 8.7 is 87.
  int ptxVersion = 80;
  /// a*b+c may be rounded once, by LLVM and by the assembler. Off, every product and sum is marked
  /// `.rn`.
  bool fpFusion = true;
};

/// Known properties of a kernel's launches, for the assembler's register allocation.
struct KernelShape {
  int threads = 128;    ///< of a block, exactly
  int maxRegisters = 0; ///< of a thread; 0 leaves it to the assembler
  int minBlocks = 0;    ///< resident on one multiprocessor; 0 for no wish
  int clusterBlocks = 1;
};

/// LLVM's code generator for the architecture.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>> makeTargetMachine(const CodegenOptions &);

/// Gives the module the target's triple and data layout. Call before code is put into it.
void prepareModule(llvm::Module &module, llvm::TargetMachine &machine);
/// Makes `function` an entry with this shape.
void markKernel(llvm::Function &function, const KernelShape &shape);

/// The passes over LLVM IR. In place. `times`: where the time of each pass goes, if anywhere.
void optimize(llvm::Module &module, llvm::TargetMachine &machine,
              std::vector<targets::StageTime> *times = nullptr);
/// Passes of LLVM's code generator that are left out, by their names.
inline constexpr llvm::StringLiteral droppedPasses[] = {"Straight line strength reduction",
                                                        "Nary reassociation",
                                                        "Global Value Numbering", "Early CSE"};
/// The text for the assembler. The same module gives the same text on every machine. The module is
/// consumed.
llvm::Expected<std::string> emitPtx(llvm::Module &module, llvm::TargetMachine &machine,
                                    std::vector<targets::StageTime> *times = nullptr);

} // namespace nereid::nvidia
