// Elementwise operations on one element: what Elementwise.cpp shares with Math.cpp and Casts.cpp.
#pragma once
#include "gpu/emit/Emitter.h"

namespace nereid::gpu {

/// Functions of the math dialect and their like, on f32 and f64 (f16 and bf16 go through f32).
/// Null when `op` is none. Accuracy is stated in docs/gpu-emitter.md.
llvm::Value *emitMath(Emitter &e, mlir::Operation *op, llvm::ArrayRef<llvm::Value *> operands);

/// C's fmod, exact.
llvm::Value *floatRemainder(Emitter &e, llvm::Value *lhs, llvm::Value *rhs);

/// One float type to another, any of the six. To an 8-bit float: overflow and infinities give the
/// largest finite value, NaN stays NaN.
llvm::Value *convertFloat(Emitter &e, llvm::Value *value, mlir::Type from, mlir::Type to,
                          bool towardsZero = false);
/// The same for all registers of a tensor, two at a time where there is an instruction for it.
Values convertFloats(Emitter &e, llvm::ArrayRef<llvm::Value *> values, mlir::Type from,
                     mlir::Type to, bool towardsZero = false);

} // namespace nereid::gpu
