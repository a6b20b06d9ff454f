// The table of device-library functions with code for lanes. Most f32 functions are the f64 ones of
// WideMath.cpp, rounded: then the only error that counts is that rounding.
#include "targets/cpu/math/DeviceMath.h"
#include "support/Coefficients.h"
#include "targets/cpu/math/Emitters.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
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
Lane isNaN(const LaneBuilder &l, Lane x) {
  return l.compare(mlir::arith::CmpFPredicate::UNO, x, x);
}

//===--- f32 through f64 ---===//

template <Emitter f> Lane wide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  llvm::SmallVector<Lane> in;
  for (Lane operand : operands)
    in.push_back(widened(l, operand));
  return narrowed(l, f(l, in));
}

/// An odd function that is its argument, to f32, below 2^-13.
template <Emitter f> Lane wideOdd(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], tiny = l.abs(x) < 0x1p-13;
  Lane y = narrowed(l, f(l, {widened(l, l.select(tiny, 0x1p-13, x))}));
  return l.select(tiny, x, y);
}

/// A function whose results may be subnormal in f32; constant beyond +-`limit`.
template <Emitter f, int limit> Lane wideSmall(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = l.atLeast(l.atMost(operands[0], limit), -limit);
  return roundToF32(l, f(l, {widened(l, x)}));
}

Lane acoshWide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = l.select(operands[0] < 1.0, std::nan(""), operands[0]);
  return logF64(l, {x + squareRoot(l, (x - 1.0) * (x + 1.0))});
}
Lane asinhWide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane a = l.abs(operands[0]);
  return l.copysign(logF64(l, {a + squareRoot(l, l.fma(a, a, 1.0))}), operands[0]);
}
Lane atanhWide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0];
  return logF64(l, {(1.0 + x) / (1.0 - x)}) * 0.5;
}
Lane sinhWide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane half = expF64(l, {l.atMost(l.abs(operands[0]), 90.0)}) * 0.5;
  return l.copysign(half - 0.25 / half, operands[0]);
}
Lane coshWide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane half = expF64(l, {l.atMost(l.abs(operands[0]), 90.0)}) * 0.5;
  return half + 0.25 / half;
}
Lane log10Wide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return logF64(l, operands) * 0x1.bcb7b1526e50ep-2;
}
Lane rcbrtWide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return 1.0 / cbrtF64(l, operands);
}
Lane exp10F32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane exponent = widened(l, l.atLeast(l.atMost(operands[0], 40.0), -50.0)) * 0x1.a934f0979a371p1;
  return roundToF32(l, exp2F64(l, {l.atLeast(exponent, -151.0)}));
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
  Lane n = l.convert<mlir::arith::SIToFPOp>(operands[1], l.builder.getF64Type());
  return powOfF32(l, widened(l, operands[0]), n);
}

//===--- erfc ---===//

/// exp(a^2) erfc(a) for a >= 0.
Lane erfcxOfPositive(const LaneBuilder &l, Lane a) {
  Lane t = l.atMost(a, 0x1p60);
  return l.polynomial((t - 2.0) / (t + 2.0), coefficients::erfcShortF64) / l.fma(a, 2.0, 1.0);
}
Lane erfcWide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], a = l.abs(x);
  Lane y = expF64(l, {0.0 - a * a}) * erfcxOfPositive(l, a);
  return l.select(x < 0.0, 2.0 - y, y);
}
Lane normcdfWide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return erfcWide(l, {operands[0] * -0x1.6a09e667f3bcdp-1}) * 0.5;
}
Lane erfcxWide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], a = l.abs(x), y = erfcxOfPositive(l, a);
  Lane b = l.atMost(l.select(x < 0.0, a, l.constant(x, 0.0)), 12.0);
  return l.select(x < 0.0, expF64(l, {b * b}) * 2.0 - y, y);
}

//===--- inverses of erf ---===//

/// erfinv(x) / x of w = -log(1 - x^2), good for f32; w is below 16, or with `far` at most 105. From
/// 5 on, where x is above 0.9966, under a branch that is taken when any lane needs it.
Lane inverseOfErf(const LaneBuilder &l, Lane w, bool far) {
  Lane near = l.polynomial(w - 2.5, coefficients::erfinvNearF64);
  auto choice = mlir::scf::IfOp::create(
      l.builder, l.loc, anyLane(l, w >= 5.0),
      [&](mlir::OpBuilder &builder, mlir::Location loc) {
        LaneBuilder in(builder, loc, l.features);
        Lane inside = in(w.get()), root = squareRoot(in, inside);
        Lane y = in.polynomial(root - 3.0, coefficients::erfinvMiddleF64);
        if (far)
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
  Lane x = widened(l, operands[0]), zero = l.constant(x, 0.0);
  Lane w = zero - logF64(l, {(1.0 - x) * (1.0 + x)});
  Lane y = l.select(l.abs(x) == 1.0, l.copysign(l.constant(x, infinity), x),
                    x * inverseOfErf(l, w, false));
  return roundToF32(l, y);
}

/// The x with erfc(x) = y.
Lane inverseOfErfc(const LaneBuilder &l, Lane y) {
  Lane w = 0.0 - logF64(l, {y * (2.0 - y)});
  Lane x = (1.0 - y) * inverseOfErf(l, w, true);
  x = l.select(y == 0.0, infinity, x);
  return l.select(y == 2.0, -infinity, x);
}
Lane erfcinvWide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return inverseOfErfc(l, operands[0]);
}
Lane normcdfinvWide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return 0.0 - inverseOfErfc(l, operands[0] + operands[0]) * 0x1.6a09e667f3bcdp0; // +0 of 1/2
}

//===--- gamma function ---===//

/// log(abs(gamma(x))) with an absolute error of some 2^-47: by Stirling's series of 8 and more, to
/// which smaller arguments are moved; by the reflection below 1/2.
Lane logGamma(const LaneBuilder &l, Lane x) {
  Lane reflected = x < 0.5, z = l.select(reflected, 1.0 - x, x);
  Lane small = z < 8.0, one = l.constant(x, 1.0);
  Lane moved = l.select(small, z, one), product = moved;
  for (int i = 1; i < 8; ++i)
    product = product * (moved + double(i));
  Lane big = l.select(small, z + 8.0, z), inverse = 1.0 / big;
  static constexpr double stirling[] = {1.0 / 12,    -1.0 / 360, 1.0 / 1260,
                                        -1.0 / 1680, 1.0 / 1188, -691.0 / 360360};
  constexpr double halfLog2Pi = 0x1.d67f1c864beb5p-1, logPi = 0x1.250d048e7a1bdp0;
  Lane series = inverse * l.polynomial(inverse * inverse, stirling);
  Lane y = l.fma(big - 0.5, logF64(l, {big}), (series + halfLog2Pi) - big);
  y = l.select(big < infinity, y, big);
  y = y - l.select(small, logF64(l, {product}), l.constant(x, 0.0));
  // Near its zeros, 1 and 2, by the power series there.
  static constexpr double atOne[] = {-0x1.2788cfc6fb619p-1, 0x1.a51a6625307d3p-1,
                                     -0x1.9a4d55beab2d7p-2, 0x1.151322ac7d848p-2,
                                     -0x1.a8b9c17aa6149p-3};
  static constexpr double atTwo[] = {0x1.b0ee6072093cep-2, 0x1.4a34cc4a60fa6p-2,
                                     -0x1.13e001a557607p-4, 0x1.51322ac7d8483p-6,
                                     -0x1.e404fc218f5f2p-8};
  Lane second = z > 1.5, d = z - l.select(second, 2.0, one);
  Lane near = l.constant(x, 0.0);
  for (size_t i = std::size(atOne); i-- > 0;)
    near = l.fma(near, d, l.select(second, atTwo[i], l.constant(x, atOne[i])));
  y = l.select(l.abs(d) < 0x1p-6, l.fma(near, d, l.constant(x, 0.0)), y);
  Lane sine = l.abs(sinpiF64(l, {x}));
  Lane mirrored = (logPi - logF64(l, {sine})) - y;
  y = l.select(reflected, mirrored, y);
  return l.select(l.abs(x) == infinity, infinity, y);
}
Lane lgammaWide(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return logGamma(l, operands[0]);
}

Lane tgammaF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = widened(l, operands[0]);
  Lane y = expF64(l, {l.atLeast(l.atMost(logGamma(l, x), 100.0), -105.0)});
  Lane floor = l(mlir::math::FloorOp::create(l.builder, l.loc, x.get()));
  Lane half = floor * 0.5;
  Lane even = l(mlir::math::FloorOp::create(l.builder, l.loc, half.get())) == half;
  y = l.select(x < 0.0, l.select(even, y, 0.0 - y), y);
  y = l.select((x < 0.0) & (floor == x), std::nan(""), y);
  y = l.select(x == 0.0, l.copysign(l.constant(x, infinity), x), y);
  return roundToF32(l, y);
}

//===--- remainders ---===//

/// fmod or, with `nearest`, remainder: exact. The quotient is rounded to an integer, and what is
/// left computed without rounding, which is possible up to a quotient of `limit`. Beyond, under a
/// branch that is taken when any lane needs it, the C library's function.
Lane remainderOf(const LaneBuilder &l, Lane x, Lane y, bool nearest, double limit) {
  constexpr double magic = 0x1p52;
  Lane a = l.abs(x), b = l.abs(y), quotient = a / b, zero = l.constant(x, 0.0);
  Lane whole = (quotient + magic) - magic;
  if (!nearest)
    whole = whole - l.select(whole > quotient, 1.0, zero);
  Lane r = l.fma(zero - whole, b, a);
  // The quotient's own rounding may have moved it over an integer, or to half of one.
  r = nearest ? l.select(l.abs(r) > b - l.abs(r), r - l.copysign(b, r), r)
              : l.select(r < 0.0, r + b, r);
  r = l.select((b == infinity) & (a < infinity), a, r);
  Lane fast = l.asFloat(l.bits(r) ^ (l.bits(x) & std::numeric_limits<int64_t>::min()));
  Lane isLarge = (quotient >= limit) & (b > 0.0) & (a < infinity);
  llvm::StringRef name = nearest ? "remainder" : "fmod";
  declareLibm(l, name, x.element(), 2);
  auto choice = mlir::scf::IfOp::create(
      l.builder, l.loc, anyLane(l, isLarge),
      [&](mlir::OpBuilder &inner, mlir::Location loc) {
        LaneBuilder in(inner, loc, l.features);
        mlir::scf::YieldOp::create(inner, loc,
                                   callLibm(in, name, {in(x.get()), in(y.get())}).get());
      },
      [&](mlir::OpBuilder &inner, mlir::Location loc) {
        mlir::scf::YieldOp::create(inner, loc, fast.get());
      });
  return l(choice.getResult(0));
}

template <bool nearest> Lane remainderF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  // Products of 24 and 29 bits are exact in f64.
  return roundToF32(
      l, remainderOf(l, widened(l, operands[0]), widened(l, operands[1]), nearest, 0x1p29));
}
template <bool nearest> Lane remainderF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
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
    {"__nv_acosf", wide<acosF64>},
    {"__nv_acos", acosF64},
    {"__nv_acoshf", wide<acoshWide>},
    {"__nv_asinf", wideOdd<asinF64>},
    {"__nv_asin", asinF64},
    {"__nv_asinhf", wideOdd<asinhWide>},
    {"__nv_atanf", wideOdd<atanF64>},
    {"__nv_atan", atanF64},
    {"__nv_atan2f", wide<atan2F64>},
    {"__nv_atan2", atan2F64},
    {"__nv_atanhf", wideOdd<atanhWide>},
    {"__nv_atanh", atanhF64},
    {"__nv_cbrtf", wide<cbrtF64>},
    {"__nv_cbrt", cbrtF64},
    {"__nv_coshf", wide<coshWide>},
    {"__nv_cosh", coshF64},
    {"__nv_cospif", wide<cospiF64>},
    {"__nv_cospi", cospiF64},
    {"__nv_erfcf", wideSmall<erfcWide, 12>},
    {"__nv_erfc", erfcF64},
    {"__nv_erfcinvf", wide<erfcinvWide>},
    {"__nv_erfcxf", wide<erfcxWide>},
    {"__nv_erfcx", erfcxF64},
    {"__nv_erfinvf", erfinvF32},
    {"__nv_exp10f", exp10F32},
    {"__nv_fdimf", positiveDifference},
    {"__nv_fdim", positiveDifference},
    {"__nv_fmodf", remainderF32<false>},
    {"__nv_fmod", remainderF64<false>, true},
    {"__nv_hypotf", norm<false>},
    {"__nv_hypot", hypotF64},
    {"__nv_ldexpf", scaledByPower},
    {"__nv_lgammaf", wide<lgammaWide>},
    {"__nv_log10f", wide<log10Wide>},
    {"__nv_log10", log10F64},
    {"__nv_nextafterf", nextAfter},
    {"__nv_nextafter", nextAfter},
    {"__nv_norm3df", norm<false>},
    {"__nv_norm4df", norm<false>},
    {"__nv_normcdff", wideSmall<normcdfWide, 17>},
    {"__nv_normcdf", normcdfF64},
    {"__nv_normcdfinvf", wide<normcdfinvWide>},
    {"__nv_powif", powiF32},
    {"__nv_rcbrtf", wide<rcbrtWide>},
    {"__nv_remainderf", remainderF32<true>},
    {"__nv_remainder", remainderF64<true>, true},
    {"__nv_rhypotf", norm<true>},
    {"__nv_rnorm3df", norm<true>},
    {"__nv_rnorm4df", norm<true>},
    {"__nv_saturatef", saturate},
    {"__nv_scalbnf", scaledByPower},
    {"__nv_sinhf", wideOdd<sinhWide>},
    {"__nv_sinh", sinhF64},
    {"__nv_sinpif", wide<sinpiF64>},
    {"__nv_sinpi", sinpiF64},
    {"__nv_tanf", tanF32},
    {"__nv_tgammaf", tgammaF32},
    {"__nv_fast_cosf", cosF32},
    {"__nv_fast_exp10f", exp10F32},
    {"__nv_fast_expf", expF32},
    {"__nv_fast_fdividef", quotient},
    {"__nv_fast_log10f", wide<log10Wide>},
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
