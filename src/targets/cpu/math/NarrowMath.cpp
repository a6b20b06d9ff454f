// Functions of the device library computed in f32. Where the last step adds a small term to an
// exact one the result is within one unit in the last place; docs/cpu-math.md has the measured
// errors.
#include "targets/cpu/math/SinglePieces.h"

namespace nereid::cpu {
namespace {

using llvm::ArrayRef;
using namespace single;

// pi/2 in two parts.
constexpr double halfPi = 0x1.921fb6p0, halfPiLow = -0x1.777a5cp-25;

Lane negatedWhere(const LaneBuilder &l, Lane condition, Lane x) {
  return l.select(condition, 0.0 - x, x);
}

/// `f` of the absolute value of the argument, which is itself the result below 2^-13; odd. `f` gets
/// 0 in place of such arguments, so that none of its products is subnormal.
template <typename Function> Lane oddF32(const LaneBuilder &l, Lane x, Function f) {
  Lane a = l.abs(x), isTiny = a < 0x1p-13;
  return l.select(isTiny, x, l.copysign(f(l.select(isTiny, 0.0, a)), x));
}

/// For t in [0, 1].
Lane arcTangent(const LaneBuilder &l, Lane t) {
  Lane z = t * t;
  return l.fma(t * z, l.polynomial(z, coefficients::atanF32), t);
}

/// Of 0 <= a: up to 1/2 the arc sine is s + rest, beyond pi/2 less twice that.
struct Arc {
  Lane large, s, rest;
};
Arc arcSine(const LaneBuilder &l, Lane a) {
  Lane large = a > 0.5;
  Lane z = l.select(large, (1.0 - a) * 0.5, a * a);
  Lane root = l(mlir::math::SqrtOp::create(l.builder, l.loc, z.get()));
  Lane s = l.select(large, root, a);
  return {large, s, s * z * l.polynomial(z, coefficients::asinF32)};
}

/// exp(a) / 4 of 0 <= a, infinite only where exp(a) / 2 is.
Lane quarterExp(const LaneBuilder &l, Lane a) {
  Reduced x = reduceExp(l, l.atMost(a, 89.5) + nudge);
  Lane power = powerOfTwo(l, x.n - 2);
  return l.fma(power, expm1Reduced(l, x.r), power);
}

/// exp(-scale * a^2) exp(b^2) erfc(b) / divisor of a, b >= 0; scale is 1 or 1/2, divisor 1 or 2.
Lane gaussianTail(const LaneBuilder &l, Lane a, double scale, Lane b, double divisor) {
  // The square in two parts: far out the relative error of the exponential is the absolute one of
  // the square.
  Lane high = a * a, low = high;
  if (l.features.fma) {
    low = l.fma(a, a, 0.0 - high);
  } else {
    Lane head = l.asFloat(l.bits(a) & 0xfffff000); // 12 bits
    low = (head * head - high) + (a - head) * (a + head);
  }
  Reduced x = reduceExp(l, high * -scale);
  Lane growth = expm1Reduced(l, x.r - low * scale);
  Lane factor = l.polynomial((b - 2.0) / (b + 2.0), coefficients::erfcF32);
  // Twice the result without its power of two. What the denominator's rounding lost, over the
  // denominator, is some 4/5 to 1 of that times `twice`: enough of it.
  Lane sum = l.fma(b, divisor, divisor * 0.5), lost = l.fma(b, divisor, divisor * 0.5 - sum);
  Lane twice = factor / sum;
  growth = growth - lost * twice;
  return Scale(l, x.t)(l.fma(twice, growth, twice));
}

} // namespace

Lane atanF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return oddF32(l, operands[0], [&](Lane a) {
    Lane isSteep = a > 1.0;
    // Beyond 2^60 the inverse counts for nothing.
    Lane inverse = 1.0 / l.select(isSteep, l.atMost(a, 0x1p60), l.constant(a, 1.0));
    Lane y = arcTangent(l, l.select(isSteep, inverse, a));
    return l.select(isSteep, halfPi - (y - halfPiLow), y);
  });
}

Lane atan2F32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane y = operands[0], x = operands[1], ay = l.abs(y), ax = l.abs(x);
  Lane steep = ay > ax, small = l.select(steep, ax, ay), large = l.select(steep, ay, ax);
  // Two infinities, or two zeros.
  Lane one = l.constant(x, 1.0), zero = l.constant(x, 0.0);
  Lane infinite = small == infinity;
  large = l.select(infinite | (large == 0.0), one, large);
  Lane t = l.select(infinite, one, small) / large, isTiny = t < 0x1p-13;
  Lane angle = l.select(isTiny, t, arcTangent(l, l.select(isTiny, 0.0, t)));
  Lane left = l.bits(x) < 0;
  Lane quarters = l.select(steep, one, l.select(left, 2.0, zero));
  angle = negatedWhere(l, steep ^ left, angle);
  angle = l.fma(quarters, halfPi, l.fma(quarters, halfPiLow, angle));
  Lane undefined = l.compare(mlir::arith::CmpFPredicate::UNO, x, y);
  return l.select(undefined, x + y, l.copysign(angle, y));
}

Lane asinF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return oddF32(l, operands[0], [&](Lane a) {
    auto [large, s, rest] = arcSine(l, a);
    // pi/2 - 2s in two parts.
    Lane twice = s + s, high = halfPi - twice, low = (halfPi - high) - twice;
    return l.select(large, high + (low - l.fma(rest, 2.0, -halfPiLow)), s + rest);
  });
}

Lane acosF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], a = l.abs(x), negative = x < 0.0;
  auto [large, s, rest] = arcSine(l, l.select(a < 0x1p-30, 0.0, a)); // of these it is pi/2
  // Of the absolute value, then of the negative one: pi less that.
  Lane signedS = negatedWhere(l, negative, s), signedRest = negatedWhere(l, negative, rest);
  Lane near = halfPi - (signedS + (signedRest - halfPiLow));
  Lane far = l.select(negative, 2 * halfPi - l.fma(s, 2.0, l.fma(rest, 2.0, -2 * halfPiLow)),
                      (s + rest) * 2.0);
  return l.select(large, far, near);
}

Lane sinhF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return oddF32(l, operands[0], [&](Lane a) {
    Lane z = l.atMost(a, 1.0);
    z = z * z;
    Lane small = l.fma(a * z, l.polynomial(z, coefficients::sinhF32), a);
    Lane quarter = quarterExp(l, a);
    return l.select(a < 1.0, small, quarter * 2.0 - 0.125 / l.atMost(quarter, 0x1p60));
  });
}

Lane coshF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane quarter = quarterExp(l, l.abs(operands[0]));
  return l.fma(quarter, 2.0, 0.125 / l.atMost(quarter, 0x1p60));
}

Lane atanhF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return oddF32(l, operands[0], [&](Lane a) { return log1pF32(l, {(a + a) / (1.0 - a)}) * 0.5; });
}

Lane log10F32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  auto [exponent, f, rest] = splitLog(l, operands[0]);
  // log10(e) and log10(2) in two parts; products of the latter's first with exponents are exact.
  constexpr double log10e = 0x1.bcb7b2p-2, log10eLow = -0x1.5b235ep-27;
  constexpr double log102 = 0x1.344p-2, log102Low = 0x1.3509f8p-18;
  Lane low = l.fma(exponent, log102Low, l.fma(rest, log10e, f * log10eLow));
  Lane y = l.fma(exponent, log102, l.fma(f, log10e, low));
  return logSpecials(l, operands[0], y);
}

Lane exp10F32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  constexpr double log210 = 0x1.a934fp1, ln10 = 0x1.26bb1cp1;
  constexpr double log102 = 0x1.344p-2, log102Low = 0x1.3509f8p-18;
  // Beyond these the result is 0 or infinite already.
  Lane x = l.atLeast(l.atMost(operands[0], 38.55), -45.2) + nudge;
  Lane t = l.fma(x, log210, magic), n = t - magic;
  Lane r = l.fma(n, -log102Low, l.fma(n, -log102, x)) * ln10;
  return Scale(l, t)(l.fma(expm1Reduced(l, r), 2.0, 2.0));
}

Lane erfcF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], a = l.atLeast(l.atMost(l.abs(x), 10.2), 0x1p-30);
  Lane y = gaussianTail(l, a, 1, a, 1);
  return l.select(x < 0.0, 2.0 - y, y);
}

Lane normcdfF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  // erfc(-x / sqrt(2)) / 2.
  Lane x = operands[0], a = l.atLeast(l.atMost(l.abs(x), 14.4), 0x1p-30);
  Lane y = gaussianTail(l, a, 0.5, a * 0x1.6a09e6p-1, 2);
  return l.select(x > 0.0, 1.0 - y, y);
}

/// The absolute value of an argument of a root, and whether it has been multiplied with 2^126:
/// below 2^-60, where terms would be subnormal.
struct RootArgument {
  Lane a, special, isSmall;
};
static RootArgument rootArgument(const LaneBuilder &l, Lane x) {
  Lane a = l.abs(x), one = l.constant(x, 1.0), isSmall = a < 0x1p-60;
  Lane special =
      (a == 0.0) | l.compare(mlir::arith::CmpFPredicate::UEQ, a, l.constant(a, infinity));
  // m * 2^-149 becomes 1 + m * 2^-23 by its bits.
  Lane fromSubnormal = l.asFloat(l.bits(a) | 0x3f800000) - 1.0;
  Lane scaled = l.select(a < 0x1p-126, fromSubnormal, l.asFloat(l.bits(a) + (int64_t(126) << 23)));
  return {l.select(special, one, l.select(isSmall, scaled, a)), special, isSmall};
}

/// The inverse cube root of positive normal lanes, to some 2^-22: a third of the bits, subtracted
/// from those of a power of two, is one to 3.5 %, and with e = 1 - a y^3 the series of
/// (1 - e)^(-1/3) makes it better.
static Lane roughInverseCubeRoot(const LaneBuilder &l, Lane a) {
  mlir::Type f32 = a.element(), i32 = l.builder.getI32Type();
  Lane bits = l.convert<mlir::arith::SIToFPOp>(l.bits(a), f32);
  Lane first = l.fma(bits, -1.0 / 3, double(0x54a20000));
  Lane y = l.asFloat(l.convert<mlir::arith::FPToSIOp>(first, i32));
  Lane e = l.fma(0.0 - a * y, y * y, 1.0);
  Lane series = l.fma(e, l.fma(e, 14.0 / 81, 2.0 / 9), 1.0 / 3);
  y = l.fma(y * e, series, y);
  e = l.fma(0.0 - a * y, y * y, 1.0);
  return l.fma(y * e, 1.0 / 3, y);
}

Lane cbrtF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  auto [a, special, isSmall] = rootArgument(l, operands[0]);
  Lane y = roughInverseCubeRoot(l, a), inverseSquare = y * y, root = a * inverseSquare;
  // A step of Newton's method with a cube that is not rounded.
  Lane square = root * root, lost = l.fma(root, root, 0.0 - square);
  Lane excess = l.fma(lost, root, l.fma(square, root, 0.0 - a));
  root = l.fma(excess * inverseSquare, -1.0 / 3, root);
  root = root * l.select(isSmall, 0x1p-42, l.constant(root, 1.0));
  return l.select(special, operands[0], l.copysign(root, operands[0]));
}

Lane rcbrtF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  auto [a, special, isSmall] = rootArgument(l, operands[0]);
  Lane y = roughInverseCubeRoot(l, a);
  // e = 1 - a y^3 of products in two parts.
  Lane left = a * y, leftLow = l.fma(a, y, 0.0 - left);
  Lane right = y * y, rightLow = l.fma(y, y, 0.0 - right);
  Lane e = l.fma(0.0 - left, right, 1.0) - l.fma(left, rightLow, leftLow * right);
  y = l.fma(y * e, 1.0 / 3, y);
  y = y * l.select(isSmall, 0x1p42, l.constant(y, 1.0));
  // Of 0 infinity, of infinity 0, each with the argument's sign.
  return l.select(special, 1.0 / operands[0], l.copysign(y, operands[0]));
}

} // namespace nereid::cpu
