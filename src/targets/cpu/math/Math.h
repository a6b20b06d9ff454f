// Vector math as inline code: arithmetic on scalars and vectors of f32 and f64, no calls except
// where said. The measured accuracy of every function stands in docs/cpu-math.md.
//
// f64 sin, cos, tan-like fallbacks: functions marked "libm" below call the C library once a lane;
// the JIT gets the symbols from `supportSymbols()`, an object file links with -lm.
#pragma once
#include "targets/cpu/Features.h"

#include "mlir/IR/Builders.h"
#include "mlir/Pass/Pass.h"

namespace nereid::cpu {

enum class MathKind {
  Exp,
  Exp2,
  Expm1,
  Log,
  Log2,
  Log1p,
  Sin, // f64: libm beyond |x| of 2^40 (without FMA 2^19)
  Cos, // f64: as Sin
  Sqrt,
  Rsqrt,
  Erf,
  Tanh,
  Sigmoid,
  Pow, // f32: through f64; f64: libm without FMA
  Fma,
  Abs,
  Floor,
  Ceil,
  Trunc,
  Round,     // halves away from zero
  RoundEven, // halves to even
};

// The value of the function for every lane of `operands` (two for Pow, three for Fma, else one),
// which are f32 or f64 scalars or vectors of one type. The insertion point must lie in a module:
// libm functions are declared there.
mlir::Value emitMath(mlir::OpBuilder &builder, mlir::Location loc, MathKind kind,
                     mlir::ValueRange operands, const Features &features);

// `--nereid-cpu-expand-math`: replaces the operations of the math dialect that have a MathKind, on
// f32 and f64 scalars and vectors; on f16 and bf16 it computes in f32 and rounds once at the end.
// Runs on the module, after loops were made and before --nereid-cpu-expand-conversions. Options
// `fma`, `rounding` as in Features.
std::unique_ptr<mlir::Pass> createExpandMathPass(const Features &features);
void registerExpandMathPass();

} // namespace nereid::cpu
