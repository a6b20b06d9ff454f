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
// An exponent: in f64, and as conditions (i1) whether it is an integer, an odd one, and whether the
// power is 1 whatever the rest says.
struct Exponent {
  Lane wide, isInteger, isOdd, givesOne;
};
// x^y rounded to f32, of f32 lanes.
Lane powOfF32(const LaneBuilder &l, Lane x, Exponent y);
// f64 lanes rounded to f32 without a subnormal operand or result on the way.
Lane roundToF32(const LaneBuilder &l, Lane x);
// NarrowMath.cpp
Lane atanF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane atan2F32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane asinF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane acosF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane sinhF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane coshF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane atanhF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane log10F32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane exp10F32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane erfcF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane normcdfF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
// With fused multiply-add only.
Lane cbrtF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane rcbrtF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
// SinCosF32.cpp
Lane sinF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane cosF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane tanF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
// With fused multiply-add only.
Lane sinpiF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane cospiF32(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
// DoublePrecision.cpp
Lane expF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane exp2F64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
// The logarithm of f64 lanes to an absolute error of 2^-27, with a polynomial in f32; NaN for
// negative ones, of 0 any number.
Lane shortLogF64(const LaneBuilder &l, Lane x);
Lane logF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane log2F64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane sinF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane cosF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane log10F64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane log1pF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane tanF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane exp10F64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
// With fused multiply-add only, as log2InParts.
Lane powF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
struct TwoParts {
  Lane high, low;
};
// log2 of positive finite lanes, to some 2^-64.
TwoParts log2InParts(const LaneBuilder &l, Lane x);
// sin(x - pi/4 + d + turns * pi/2) for x of 2 and more, as far as `orLibm` leaves it, and |d| <
// 1/4.
Lane sineOfPhase(const LaneBuilder &l, Lane x, Lane d, int turns);
// y, or the C library's function of x where any lane is too large for what reduces angles in f64.
Lane orLibm(const LaneBuilder &l, Lane x, llvm::StringRef name, Lane y);
// 2^(high + low), the second part small.
Lane exp2OfSum(const LaneBuilder &l, Lane high, Lane low);
// 2^x for x in [-1000, 0].
Lane smallPowerOfTwo(const LaneBuilder &l, Lane x);
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
Lane asinhF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane acoshF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane rcbrtF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane sinpiF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane cospiF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
// SpecialF64.cpp
Lane lgammaF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane tgammaF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x); // good for f32 only without FMA
Lane erfinvF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane erfcinvF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane normcdfinvF64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
// Bessel.cpp
Lane j0F64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane j1F64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane y0F64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane y1F64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane i0F64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);
Lane i1F64(const LaneBuilder &l, llvm::ArrayRef<Lane> x);

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
