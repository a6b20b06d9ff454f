// The table of device-library functions with code for lanes. The f32 functions that are not in
// NarrowMath.cpp are f64 ones, rounded: then the only error that counts is that rounding.
#include "targets/cpu/math/DeviceMath.h"
#include "support/Coefficients.h"
#include "targets/cpu/math/RareLanes.h"

#include "llvm/ADT/StringMap.h"

#include <cmath>
#include <limits>

namespace nereid::cpu {
namespace {

using llvm::ArrayRef;
using Emitter = Lane (*)(const LaneBuilder &, ArrayRef<Lane>);

constexpr double infinity = std::numeric_limits<double>::infinity();

Lane widened(const LaneBuilder &l, Lane x) {
  return l.convert<mlir::arith::ExtFOp>(x, l.builder.getF64Type());
}
Lane narrowed(const LaneBuilder &l, Lane x) {
  return l.convert<mlir::arith::TruncFOp>(x, l.builder.getF32Type());
}
Lane squareRoot(const LaneBuilder &l, Lane x) {
  return l(mlir::math::SqrtOp::create(l.builder, l.loc, x.get()));
}
//===--- f32 through f64 ---===//

template <Emitter f> Lane wide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  llvm::SmallVector<Lane> in;
  for (Lane operand : operands)
    in.push_back(widened(l, operand));
  return narrowed(l, f(l, in));
}

/// `narrow` where the machine has fused multiply-add, else `f` in f64.
template <Emitter narrow, Emitter f>
Lane narrowOrWide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return l.features.fma ? narrow(l, operands) : wide<f>(l, operands);
}

/// An odd function that is its argument, to f32, below 2^-13.
template <Emitter f> Lane wideOdd(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], tiny = l.abs(x) < 0x1p-13;
  Lane y = narrowed(l, f(l, {widened(l, l.select(tiny, 0x1p-13, x))}));
  return l.select(tiny, x, y);
}

Lane acoshWide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = l.select(operands[0] < 1.0, std::nan(""), operands[0]);
  return logF64(l, {x + squareRoot(l, (x - 1.0) * (x + 1.0))});
}
Lane asinhWide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane a = l.abs(operands[0]);
  return l.copysign(logF64(l, {a + squareRoot(l, l.fma(a, a, 1.0))}), operands[0]);
}
/// For functions with subnormal results.
template <Emitter f> Lane wideRounded(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return roundToF32(l, f(l, {widened(l, operands[0])}));
}

/// The Euclidean norm of two to four numbers. None overflows in f64.
template <bool inverse> Lane norm(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane first = widened(l, operands[0]), sum = first * first;
  Lane isInfinite = l.abs(first) == infinity;
  for (Lane operand : operands.drop_front()) {
    Lane x = widened(l, operand);
    sum = l.fma(x, x, sum);
    isInfinite = isInfinite | (l.abs(x) == infinity);
  }
  Lane root = l.select(isInfinite, infinity, squareRoot(l, sum));
  return roundToF32(l, inverse ? 1.0 / root : root);
}

Lane scaledByPower(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane n = operands[1];
  n = l.select(n > 300, l.constant(n, 300), n);
  n = l.select(n < -300, l.constant(n, -300), n);
  Lane bits = l.convert<mlir::arith::ExtUIOp>(n + 1023, l.builder.getI64Type()) << 52;
  return roundToF32(l, widened(l, operands[0]) * l.asFloat(bits));
}

Lane powiF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], n = operands[1], odd = (n & 1) == 1;
  Lane wide = l.convert<mlir::arith::SIToFPOp>(n, l.builder.getF64Type());
  return powOfF32(l, x, {wide, n == n, odd, (x == 1.0) | (n == 0)});
}

//===--- erfc ---===//

/// exp(a^2) erfc(a) for a >= 0.
Lane erfcxOfPositive(const LaneBuilder &l, Lane a) {
  Lane t = l.atMost(a, 0x1p60);
  return l.polynomial((t - 2.0) / (t + 2.0), coefficients::erfcShortF64) / l.fma(a, 2.0, 1.0);
}
Lane erfcxWide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], a = l.abs(x), y = erfcxOfPositive(l, a);
  Lane b = l.atMost(l.select(x < 0.0, a, l.constant(x, 0.0)), 12.0);
  return l.select(x < 0.0, expF64(l, {b * b}) * 2.0 - y, y);
}

//===--- inverses of erf ---===//

/// erfinv(x) / x of w = -log(1 - x^2) up to 105, good for f32. From 5 on, where x is above 0.9966,
/// under a branch that is taken when any lane needs it.
Lane inverseOfErf(const LaneBuilder &l, Lane w) {
  Lane near = l.polynomial(w - 2.5, coefficients::erfinvNearF64);
  auto choice = mlir::scf::IfOp::create(
      l.builder, l.loc, anyLane(l, w >= 5.0),
      [&](mlir::OpBuilder &builder, mlir::Location loc) {
        LaneBuilder in(builder, loc, l.features);
        Lane inside = in(w.get()), root = squareRoot(in, inside);
        Lane y = in.polynomial(root - 3.0, coefficients::erfinvMiddleF64);
        y = in.select(inside < 16.0, y, in.polynomial(root - 7.0, coefficients::erfinvFarF64));
        y = in.select(inside >= 5.0, y, in(near.get()));
        mlir::scf::YieldOp::create(builder, loc, y.get());
      },
      [&](mlir::OpBuilder &builder, mlir::Location loc) {
        mlir::scf::YieldOp::create(builder, loc, near.get());
      });
  return l(choice.getResult(0));
}

Lane erfinvF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  // In f32 the rounding of the logarithm alone would take the error beyond 2 units.
  Lane x = widened(l, operands[0]), w = 0.0 - shortLogF64(l, (1.0 - x) * (1.0 + x));
  Lane ends = l.copysign(l.constant(x, infinity), x);
  return roundToF32(l, l.select(l.abs(x) == 1.0, ends, x * inverseOfErf(l, w)));
}

/// The x with erfc(x) = y.
Lane inverseOfErfc(const LaneBuilder &l, Lane y) {
  Lane w = 0.0 - shortLogF64(l, y * (2.0 - y));
  Lane x = (1.0 - y) * inverseOfErf(l, w);
  x = l.select(y == 0.0, infinity, x);
  return l.select(y == 2.0, -infinity, x);
}
Lane erfcinvWide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return inverseOfErfc(l, operands[0]);
}
Lane normcdfinvWide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return 0.0 - inverseOfErfc(l, operands[0] + operands[0]) * 0x1.6a09e667f3bcdp0; // +0 of 1/2
}

//===--- remainders ---===//

/// What is left of a >= 0 after multiples of b > 0 for fmod or, with `nearest`, remainder: exact
/// where the quotient, rounded to an integer, times b is, plus or minus a, and `magic` rounds it.
Lane reducedByMultiples(const LaneBuilder &l, Lane a, Lane b, Lane quotient, bool nearest,
                        double magic) {
  Lane whole = (quotient + magic) - magic, zero = l.constant(a, 0.0);
  if (!nearest)
    whole = whole - l.select(whole > quotient, 1.0, zero);
  Lane r = l.fma(zero - whole, b, a);
  // The quotient's own rounding may have moved it over an integer, or to half of one.
  r = nearest ? l.select(l.abs(r) > b - l.abs(r), r - l.copysign(b, r), r)
              : l.select(r < 0.0, r + b, r);
  return l.select((b == infinity) & (a < infinity), a, r);
}

Lane withSignFlipped(const LaneBuilder &l, Lane r, Lane x) {
  int64_t sign = x.element().isF64() ? std::numeric_limits<int64_t>::min() : -0x80000000ll;
  return l.asFloat(l.bits(r) ^ (l.bits(x) & sign));
}

const char *remainderName(bool nearest) {
  return nearest ? "remainder" : "fmod";
}

/// fmod or remainder: exact. Beyond a quotient of `limit`, under a branch that is taken when any
/// lane needs it, the C library's function, which is declared already.
Lane remainderOf(const LaneBuilder &l, Lane x, Lane y, bool nearest, double limit) {
  Lane a = l.abs(x), b = l.abs(y), quotient = a / b;
  Lane fast = withSignFlipped(l, reducedByMultiples(l, a, b, quotient, nearest, 0x1p52), x);
  Lane isLarge = (quotient >= limit) & (b > 0.0) & (a < infinity);
  return unlessAny(l, isLarge, fast, [&](const LaneBuilder &in, Lane) {
    return callLibm(in, remainderName(nearest), {in(x.get()), in(y.get())});
  });
}

template <bool nearest> Lane remainderF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], y = operands[1];
  declareLibm(l, remainderName(nearest), l.builder.getF64Type(), 2);
  // Products of 24 and 29 bits are exact in f64.
  auto inF64 = [&](const LaneBuilder &in, Lane) {
    return roundToF32(
        in, remainderOf(in, widened(in, in(x.get())), widened(in, in(y.get())), nearest, 0x1p29));
  };
  if (!l.features.fma)
    return inF64(l, x);
  // Quotients are right to a quarter up to 2^22: what is left is less than b, a multiple of its
  // last bit, and normal if b is no less than 2^-100.
  Lane a = l.abs(x), b = l.abs(y), quotient = a / b;
  using mlir::arith::CmpFPredicate;
  Lane isRare = l.compare(CmpFPredicate::UGE, quotient, l.constant(a, 0x1p22)) |
                l.compare(CmpFPredicate::ULT, b, l.constant(b, 0x1p-100));
  Lane fast = withSignFlipped(l, reducedByMultiples(l, a, b, quotient, nearest, 0x1p23), x);
  return unlessAny(l, isRare, fast, inF64);
}
template <bool nearest> Lane remainderF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  declareLibm(l, remainderName(nearest), operands[0].element(), 2);
  return remainderOf(l, operands[0], operands[1], nearest, 0x1p51);
}

//===--- bits and choices ---===//

Lane nextAfter(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], y = operands[1], bits = l.bits(x);
  Lane grows = (y > x) ^ (x < 0.0);
  Lane next = l.asFloat(l.select(grows, bits + 1, bits - 1));
  Lane least = l.asFloat(l.constant(bits, 1));
  next = l.select(x == 0.0, l.copysign(least, y), next);
  next = l.select(x == y, y, next);
  return l.select(l.compare(mlir::arith::CmpFPredicate::UNO, x, y), x + y, next);
}
Lane positiveDifference(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return l.select(operands[0] <= operands[1], 0.0, operands[0] - operands[1]);
}
Lane saturate(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0];
  return l.select(x > 0.0, l.atMost(x, 1.0), l.constant(x, 0.0));
}
Lane quotient(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return operands[0] / operands[1];
}

//===--- the table ---===//

struct Row {
  const char *symbol;
  Emitter emit;
  bool needsFma = false;
};
constexpr Row rows[] = {
    {"__nv_acosf", acosF32},
    {"__nv_acos", acosF64},
    {"__nv_acoshf", wide<acoshWide>},
    {"__nv_acosh", acoshF64},
    {"__nv_asinf", asinF32},
    {"__nv_asin", asinF64},
    {"__nv_asinhf", wideOdd<asinhWide>},
    {"__nv_asinh", asinhF64},
    {"__nv_atanf", atanF32},
    {"__nv_atan", atanF64},
    {"__nv_atan2f", atan2F32},
    {"__nv_atan2", atan2F64},
    {"__nv_atanhf", atanhF32},
    {"__nv_atanh", atanhF64},
    {"__nv_cbrtf", narrowOrWide<cbrtF32, cbrtF64>},
    {"__nv_cbrt", cbrtF64},
    {"__nv_coshf", coshF32},
    {"__nv_cosh", coshF64},
    {"__nv_cospif", narrowOrWide<cospiF32, cospiF64>},
    {"__nv_cospi", cospiF64},
    {"__nv_cyl_bessel_i0f", wide<i0F64>},
    {"__nv_cyl_bessel_i0", i0F64},
    {"__nv_cyl_bessel_i1f", wideRounded<i1F64>},
    {"__nv_cyl_bessel_i1", i1F64},
    {"__nv_erfcf", erfcF32},
    {"__nv_erfc", erfcF64},
    {"__nv_erfcinvf", wide<erfcinvWide>},
    {"__nv_erfcinv", erfcinvF64},
    {"__nv_erfcxf", wide<erfcxWide>},
    {"__nv_erfcx", erfcxF64},
    {"__nv_erfinvf", erfinvF32},
    {"__nv_erfinv", erfinvF64},
    {"__nv_exp10f", exp10F32},
    {"__nv_exp10", exp10F64},
    {"__nv_fdimf", positiveDifference},
    {"__nv_fdim", positiveDifference},
    {"__nv_fmodf", remainderF32<false>},
    {"__nv_fmod", remainderF64<false>, true},
    {"__nv_hypotf", norm<false>},
    {"__nv_hypot", hypotF64},
    {"__nv_j0f", wide<j0F64>},
    {"__nv_j0", j0F64},
    {"__nv_j1f", wideRounded<j1F64>},
    {"__nv_j1", j1F64},
    {"__nv_ldexpf", scaledByPower},
    {"__nv_lgammaf", wide<lgammaF64>},
    {"__nv_lgamma", lgammaF64},
    {"__nv_log10f", log10F32},
    {"__nv_log10", log10F64},
    {"__nv_nextafterf", nextAfter},
    {"__nv_nextafter", nextAfter},
    {"__nv_norm3df", norm<false>},
    {"__nv_norm4df", norm<false>},
    {"__nv_normcdff", normcdfF32},
    {"__nv_normcdf", normcdfF64},
    {"__nv_normcdfinvf", wide<normcdfinvWide>},
    {"__nv_normcdfinv", normcdfinvF64},
    {"__nv_powif", powiF32},
    {"__nv_rcbrtf", narrowOrWide<rcbrtF32, rcbrtF64>},
    {"__nv_rcbrt", rcbrtF64},
    {"__nv_remainderf", remainderF32<true>},
    {"__nv_remainder", remainderF64<true>, true},
    {"__nv_rhypotf", norm<true>},
    {"__nv_rnorm3df", norm<true>},
    {"__nv_rnorm4df", norm<true>},
    {"__nv_saturatef", saturate},
    {"__nv_scalbnf", scaledByPower},
    {"__nv_sinhf", sinhF32},
    {"__nv_sinh", sinhF64},
    {"__nv_sinpif", narrowOrWide<sinpiF32, sinpiF64>},
    {"__nv_sinpi", sinpiF64},
    {"__nv_tanf", tanF32},
    {"__nv_tan", tanF64, true},
    {"__nv_tgammaf", wideRounded<tgammaF64>},
    {"__nv_tgamma", tgammaF64, true},
    {"__nv_y0f", wide<y0F64>},
    {"__nv_y0", y0F64},
    {"__nv_y1f", wide<y1F64>},
    {"__nv_y1", y1F64},
    {"__nv_fast_cosf", cosF32},
    {"__nv_fast_exp10f", exp10F32},
    {"__nv_fast_expf", expF32},
    {"__nv_fast_fdividef", quotient},
    {"__nv_fast_log10f", log10F32},
    {"__nv_fast_log2f", log2F32},
    {"__nv_fast_logf", logF32},
    {"__nv_fast_powf", powF32},
    {"__nv_fast_sinf", sinF32},
    {"__nv_fast_tanf", tanF32},
    {"__nv_fast_tanhf", tanhF32},
};

} // namespace

mlir::Value emitDeviceMath(mlir::OpBuilder &builder, mlir::Location loc, llvm::StringRef symbol,
                           mlir::ValueRange operands, const Features &features) {
  static const auto *known = [] {
    auto *map = new llvm::StringMap<const Row *>;
    for (const Row &row : rows)
      (*map)[row.symbol] = &row;
    return map;
  }();
  const Row *row = known->lookup(symbol);
  if (!row || (row->needsFma && !features.fma))
    return {};
  LaneBuilder l(builder, loc, features);
  llvm::SmallVector<Lane> lanes;
  for (mlir::Value operand : operands)
    lanes.push_back(l(operand));
  return row->emit(l, lanes).get();
}

} // namespace nereid::cpu
