// nereid-opt and `nereid opt`: what can be run by name.
#include "opt/Opt.h"

#include "differentiate/Differentiate.h"
#include "gpu/pipeline/Pipeline.h"
#include "ir/ngpu/Dialect.h"
#include "ir/tile/Dialect.h"
#include "targets/cpu/conversions/Conversions.h"
#include "targets/cpu/math/Math.h"
#include "targets/nvidia/Machine.h"
#include "transforms/Pipeline.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

/// In TestIntegerAnalysis.cpp.
void registerTestIntegerAnalysis();
/// In TestSharedAccesses.cpp.
void registerTestSharedAccesses();
/// In EmitNvidia.cpp.
void registerEmitNvidia();

int nereid::runOpt(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<nereid::tile::TileDialect, nereid::ngpu::NGPUDialect, mlir::func::FuncDialect,
                  mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::scf::SCFDialect,
                  mlir::ub::UBDialect, mlir::vector::VectorDialect, mlir::memref::MemRefDialect,
                  mlir::cf::ControlFlowDialect, mlir::LLVM::LLVMDialect>();
  mlir::func::registerInlinerExtension(registry);
  mlir::registerTransformsPasses();
  nereid::transforms::registerPasses();
  nereid::differentiate::registerPasses();
  nereid::gpu::registerPasses(
      [](int sm) { return nereid::nvidia::machineOf(nereid::nvidia::Architecture{sm, sm >= 90}); });
  nereid::cpu::registerExpandConversionsPass();
  nereid::cpu::registerExpandMathPass();
  registerTestIntegerAnalysis();
  registerTestSharedAccesses();
  registerEmitNvidia();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "passes over Nereid's tile IR\n", registry));
}
