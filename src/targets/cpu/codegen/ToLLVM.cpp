#include "targets/cpu/codegen/ToLLVM.h"

#include "targets/Places.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/DialectConversion.h"
#include "llvm/IR/InstIterator.h"

using namespace mlir;

namespace nereid::cpu {

void registerTranslations(MLIRContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
}

LogicalResult lowerToLLVMDialect(ModuleOp module) {
  MLIRContext *context = module.getContext();
  LowerToLLVMOptions options(context);
  LLVMTypeConverter converter(context, options);
  RewritePatternSet patterns(context);
  populateSCFToControlFlowConversionPatterns(patterns);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  populateVectorToLLVMConversionPatterns(converter, patterns);
  ub::populateUBToLLVMConversionPatterns(converter, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  target.markUnknownOpDynamicallyLegal(
      [](Operation *op) { return isa<LLVM::LLVMDialect>(op->getDialect()); });
  target.addIllegalDialect<scf::SCFDialect, arith::ArithDialect, math::MathDialect,
                           vector::VectorDialect, cf::ControlFlowDialect, ub::UBDialect>();
  // Every pattern matches what it rewrites, so that nothing is ever taken back; and what could be
  // folded was, or is by LLVM.
  ConversionConfig config;
  config.allowPatternRollback = false;
  config.foldingMode = DialectConversionFoldingMode::Never;
  return applyFullConversion(module, target, std::move(patterns), config);
}

/// Notes where the author's assembly stands, which the translation leaves out. Its blocks are those
/// of the module, in their order.
static void noteAssembly(ModuleOp module, llvm::Module &translated) {
  for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
    SmallVector<LLVM::InlineAsmOp> ops;
    function.walk([&](LLVM::InlineAsmOp op) { ops.push_back(op); });
    llvm::Function *body = ops.empty() ? nullptr : translated.getFunction(function.getName());
    if (!body)
      continue;
    SmallVector<llvm::CallBase *> calls;
    for (llvm::Instruction &instruction : llvm::instructions(*body))
      if (auto *call = dyn_cast<llvm::CallBase>(&instruction); call && call->isInlineAsm())
        calls.push_back(call);
    if (calls.size() == ops.size())
      for (auto [op, call] : llvm::zip(ops, calls))
        targets::notePlaces(*call, op.getLoc());
  }
}

std::unique_ptr<llvm::Module> translate(ModuleOp module, llvm::LLVMContext &context) {
  auto translated = translateModuleToLLVMIR(module, context, "kernel");
  if (translated)
    noteAssembly(module, *translated);
  return translated;
}

} // namespace nereid::cpu
