// Conversions among float types, as inline code on scalars and vectors on every instruction set:
// LLVM would call libgcc for several of them (__truncsfbf2, __truncdfhf2, __extendhfsf2, ...),
// which is slow and often not there.
//
// Narrowing rounds once, also f64 -> bf16. To f16 and bf16: overflow gives infinity (nearest) or
// the largest finite value (towards zero), NaN stays a quiet NaN. To f8E4M3FN and f8E5M2: overflow
// and infinities give the largest finite value of the sign, NaN stays NaN, subnormals are rounded
// correctly. Widening is exact.
// AVX512-BF16's own conversion is not used: it flushes subnormals.
#pragma once
#include "targets/cpu/Features.h"

#include "mlir/IR/Builders.h"
#include "mlir/Pass/Pass.h"

namespace nereid::cpu {

// `source`, a scalar or vector of f8E4M3FN, f8E5M2, f16, bf16, f32 or f64, in the element type
// `element`.
mlir::Value emitFloatCast(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value source,
                          mlir::Type element, bool towardsZero, const Features &features);

// `--nereid-cpu-expand-conversions`: no operation that LLVM would turn into a libgcc call remains.
// Replaces arith.extf and arith.truncf (default or toward_zero rounding) from and to the 8- and
// 16-bit floats; arith.sitofp, uitofp, fptosi, fptoui on 16-bit floats (through f32 or f64, rounded
// once); arithmetic, comparison-free minimum/maximum and fma on 16-bit floats (computed in f32,
// each result rounded) and comparisons of them. Runs last before the lowering to LLVM.
std::unique_ptr<mlir::Pass> createExpandConversionsPass(const Features &features);
void registerExpandConversionsPass();

} // namespace nereid::cpu
