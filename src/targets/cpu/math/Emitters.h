// The functions behind the table of Math.cpp. Each takes lanes of one float type.
#pragma once
#include "targets/cpu/LaneBuilder.h"

#include "llvm/ADT/ArrayRef.h"

namespace nereid::cpu {

// SinglePrecision.cpp
Lane expF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane exp2F32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane expm1F32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane logF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane log2F32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane log1pF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane erfF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane tanhF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane sigmoidF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane powF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
// x^y rounded to f32, of f64 lanes; x is an f32 number, y one or an i32.
Lane powOfF32(const LaneBuilder &l, Lane x, Lane y);
// f64 lanes rounded to f32 without a subnormal operand or result on the way.
Lane roundToF32(const LaneBuilder &l, Lane x);
// SinCosF32.cpp
Lane sinF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane cosF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane tanF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
// DoublePrecision.cpp
Lane expF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane exp2F64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane logF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane log2F64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane sinF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane cosF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane log10F64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane log1pF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
// exp(x)/4 - less for x in [-700, 711], infinite only where exp(x)/4 is; `less` is 0 or 1/4.
Lane quarterExpF64(const LaneBuilder &l, Lane x, double less);
// WideMath.cpp
Lane atanF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane atan2F64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane asinF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane acosF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane tanhF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane expm1F64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane sinhF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane coshF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane atanhF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane cbrtF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane hypotF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane erfF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane erfcF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane erfcxF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane normcdfF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane sinpiF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane cospiF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);

// Whether any lane of `condition` (i1) holds, as one i1.
mlir::Value anyLane(const LaneBuilder &l, Lane condition);
// f32 lanes as the nearest i32; beyond its range any number.
Lane nearestInteger(const LaneBuilder &l, Lane x);
// Declares the C library's `name` in the module around the insertion point, unless it is there.
// Separate from the call, which may stand in a region not yet attached to the module.
void declareLibm(const LaneBuilder &l, llvm::StringRef name, mlir::Type element, unsigned operands);
// Calls it once a lane.
Lane callLibm(const LaneBuilder &l, llvm::StringRef name, llvm::ArrayRef<Lane> operands);

} // namespace nereid::cpu
