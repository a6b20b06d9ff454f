// From scalar and vector code in MLIR to LLVM IR.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"

namespace nereid::cpu {

/// Structured control flow becomes branches; arith, math, vector and ub become the LLVM dialect. In
/// place.
mlir::LogicalResult lowerToLLVMDialect(mlir::ModuleOp module);
/// Null when the module cannot be translated (a defect).
std::unique_ptr<llvm::Module> translate(mlir::ModuleOp module, llvm::LLVMContext &context);
/// Registers what `translate` needs with the context. Call before the module is made.
void registerTranslations(mlir::MLIRContext &context);

} // namespace nereid::cpu
