// From a kernel in tile IR to a module of scalar and vector code.
#pragma once
#include "targets/cpu/Features.h"
#include "targets/cpu/support_library/SupportLibrary.h"
#include "targets/source_lines.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

namespace nereid::explain {
struct Report;
} // namespace nereid::explain

namespace nereid::cpu {

struct LoopKernel {
  /// One `llvm.func` with the kernel's name and the signature of KernelFn (kernel_abi/cpu.h), in
  /// the dialects arith, math, scf, vector, ub and llvm, with `!llvm.ptr` as only pointer type.
  mlir::OwningOpRef<mlir::ModuleOp> module;
  SiteTable sites;
  uint64_t scratchBytes = 0;
  /// No program waits for another or prints: they may start in any order.
  bool independent = false;
  bool usesTiles = false;   // and their setup and release
  bool missesTiles = false; // Features::tileRefusal keeps it from having products of tiles
};

/// `kernel` may be changed. An error names a construct that the CPU target cannot run. How memory
/// is accessed is noted in `explanation`, when it is not null. `sourceLine` gives the lines that
/// failing programs name.
llvm::Expected<LoopKernel> emitKernel(mlir::func::FuncOp kernel, const Features &features,
                                      explain::Report *explanation = nullptr,
                                      const targets::SourceLines &sourceLine = {});

} // namespace nereid::cpu
