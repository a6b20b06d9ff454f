// Lines of the kernel's source in machine code for the CPU, so that debuggers and profilers show
// them.
//
// Code of the language's own library gets the line of the user's call. No types
// and no variables are described, and the instructions are the same as without lines.
#pragma once

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace nereid::cpu {

/// Gives the functions of a module in the LLVM dialect the debug information that its translation
/// to LLVM IR turns into line tables. A function whose place is not in a file stays without.
void addLineInfo(mlir::ModuleOp module);

} // namespace nereid::cpu
