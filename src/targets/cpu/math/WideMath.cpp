// Functions in f64 made of exp, log and polynomials. Some in f32 are these, rounded
// (DeviceMath.cpp).
//
// Special values follow C's functions. Arguments whose result is the argument itself (the tiny
// ones) are replaced by 0 before anything is computed from them.
#include "support/Coefficients.h"
#include "targets/cpu/math/Emitters.h"

#include <cmath>
#include <limits>

namespace nereid::cpu {
namespace {

using llvm::ArrayRef;

constexpr double infinity = std::numeric_limits<double>::infinity();
// pi/4 in two parts.
constexpr double quarterPi = 0x1.921fb54442d18p-1, quarterPiLow = 0x1.1a62633145c07p-55;

/// `f` of the argument, which is itself the result where its absolute value is below `tiny`; odd.
template <typename Function> Lane odd(const LaneBuilder &l, Lane x, double tiny, Function f) {
  Lane isTiny = l.abs(x) < tiny;
  Lane y = f(l.select(isTiny, 0.0, l.abs(x)));
  return l.select(isTiny, x, l.copysign(y, x));
}

/// x + x z p(z): the form of the small branch of most odd functions, z the square of x.
template <size_t count>
Lane oddSeries(const LaneBuilder &l, Lane x, Lane z, const double (&coefficients)[count]) {
  return l.fma(x * z, l.polynomial(z, coefficients), x);
}

/// The arc tangent of high/low for 0 <= high <= infinity, 0 <= low, plus `base` quarters of pi, the
/// arc tangent negated first where `negative` holds. Division happens once: beyond tan(pi/8) the
/// arc tangent of (high - low) / (high + low) is taken, which is pi/4 less.
Lane arcTangent(const LaneBuilder &l, Lane high, Lane low, Lane base, Lane negative) {
  Lane turned = high > low * 0x1.a827999fcef32p-2;
  Lane t = l.select(turned, high - low, high) / l.select(turned, high + low, low);
  Lane y = t, z = t * t, rest = t * z * l.polynomial(z, coefficients::atanF64);
  Lane sign = l.select(negative, -1.0, l.constant(t, 1.0));
  base = base + l.select(turned, sign, l.constant(t, 0.0));
  return l.fma(base, quarterPi, l.fma(sign, y, l.fma(base, quarterPiLow, sign * rest)));
}

} // namespace

Lane atanF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return odd(l, operands[0], 0x1p-28, [&](Lane a) {
    Lane inverse = a > 1.0, one = l.constant(a, 1.0), zero = l.constant(a, 0.0);
    a = l.atMost(a, 0x1p60); // the arc tangent of its inverse counts for nothing
    return arcTangent(l, l.select(inverse, one, a), l.select(inverse, a, one),
                      l.select(inverse, 2.0, zero), inverse);
  });
}

Lane atan2F64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane y = operands[0], x = operands[1], ay = l.abs(y), ax = l.abs(x);
  Lane steep = ay > ax, high = l.select(steep, ax, ay), low = l.select(steep, ay, ax);
  // Neither the sum of the two may overflow nor the quotient be that of subnormal numbers.
  Lane scale =
      l.select(low > 0x1p1000, 0x1p-100, l.select(low < 0x1p-900, 0x1p100, l.constant(low, 1.0)));
  high = l.select(low == infinity, l.select(high == infinity, 1.0, l.constant(high, 0.0)),
                  high * scale);
  low = l.select(low == infinity, 1.0, l.select(low == 0.0, 1.0, low * scale));
  Lane left = l.bits(x) < 0, zero = l.constant(x, 0.0);
  Lane base = l.select(steep, 2.0, l.select(left, 4.0, zero));
  Lane angle = arcTangent(l, high, low, base, steep ^ left);
  Lane undefined = l.compare(mlir::arith::CmpFPredicate::UNO, x, y);
  return l.select(undefined, x + y, l.copysign(angle, y));
}

/// asin(a) is s + s z r(z) up to 1/2; beyond, with z = (1 - a)/2 and s its root, it is pi/2 less
/// twice that. `lost` is what the root's rounding lost, where the machine can tell.
struct Arc {
  Lane large, s, rest;
};
static Arc arcSine(const LaneBuilder &l, Lane a) {
  Lane large = a > 0.5;
  Lane z = l.select(large, (1.0 - a) * 0.5, a * a);
  Lane root = l(mlir::math::SqrtOp::create(l.builder, l.loc, z.get()));
  Lane s = l.select(large, root, a);
  Lane rest = s * z * l.polynomial(z, coefficients::asinF64);
  if (l.features.fma) {
    Lane lost = l.fma(0.0 - root, root, z) / (root + l.select(root == 0.0, 1.0, root));
    rest = rest + l.select(large, lost, l.constant(a, 0.0));
  }
  return {large, s, rest};
}

Lane asinF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return odd(l, operands[0], 0x1p-27, [&](Lane a) {
    auto [large, s, rest] = arcSine(l, a);
    Lane beyond = 2.0 * quarterPi - ((s + s) - l.fma(rest, -2.0, 2.0 * quarterPiLow));
    return l.select(large, beyond, s + rest);
  });
}

Lane acosF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0];
  Lane tiny = l.abs(x) < 0x1p-60; // the result is pi/2
  auto [large, s, rest] = arcSine(l, l.select(tiny, 0.0, l.abs(x)));
  Lane negative = x < 0.0;
  Lane sine = l.select(negative, s, 0.0 - s), tail = l.select(negative, rest, 0.0 - rest);
  Lane near = 2.0 * quarterPi + (sine + (tail + 2.0 * quarterPiLow));
  Lane far = l.select(negative, 4.0 * quarterPi - ((s + s) - l.fma(rest, -2.0, 4.0 * quarterPiLow)),
                      (s + rest) * 2.0);
  return l.select(large, far, near);
}

Lane tanhF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return odd(l, operands[0], 0x1p-28, [&](Lane a) {
    Lane quarter = quarterExpF64(l, l.atMost(a + a, 44.0), 0.25); // beyond, the result is 1
    return quarter / (quarter + 0.5);
  });
}

Lane expm1F64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane tiny = l.abs(operands[0]) < 0x1p-54;
  Lane x = l.atLeast(l.atMost(l.select(tiny, 0.0, operands[0]), 710.0), -40.0);
  return l.select(tiny, operands[0], quarterExpF64(l, x, 0.25) * 4.0);
}

/// Where exp(x) / 2 is infinite, and exp(x) / 4 can still be computed.
constexpr double greatestForExp = 710.5;

Lane sinhF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return odd(l, operands[0], 0x1p-28, [&](Lane a) {
    Lane half = quarterExpF64(l, l.atMost(a, greatestForExp), 0.25) * 2.0;
    return l.select(a > 40.0, half, half + half / l.fma(half, 2.0, 1.0));
  });
}

Lane coshF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane a = l.abs(operands[0]);
  Lane half = quarterExpF64(l, l.atLeast(l.atMost(a, greatestForExp), 0x1p-30), 0) * 2.0;
  return l.select(a > 40.0, half, half + 0.25 / half);
}

Lane atanhF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return odd(l, operands[0], 0x1p-28,
             [&](Lane a) { return 0.5 * log1pF64(l, {(a + a) / (1.0 - a)}); });
}

/// log(2), added where the argument of the logarithm was not doubled.
constexpr double ln2 = 0x1.62e42fefa39efp-1;

Lane asinhF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return odd(l, operands[0], 0x1p-28, [&](Lane a) {
    Lane large = a > 0x1p28, b = l.select(large, 1.0, a); // of large ones it is log(2a)
    Lane root = l(mlir::math::SqrtOp::create(l.builder, l.loc, l.fma(b, b, 1.0).get()));
    Lane grown = a + b * (b / (root + 1.0));
    Lane y = log1pF64(l, {l.select(large, a - 1.0, grown)});
    return y + l.select(large, ln2, l.constant(a, 0.0));
  });
}

Lane acoshF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], t = x - 1.0, large = x > 0x1p28, b = l.select(large, 1.0, t);
  Lane root = l(mlir::math::SqrtOp::create(l.builder, l.loc, l.fma(b, b, b + b).get()));
  Lane y = log1pF64(l, {l.select(large, t, t + root)});
  y = y + l.select(large, ln2, l.constant(x, 0.0));
  return l.select(x < 1.0, std::nan(""), y);
}

Lane rcbrtF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return 1.0 / cbrtF64(l, operands);
}

Lane cbrtF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], a = l.abs(x);
  Lane special =
      (a == 0.0) | l.compare(mlir::arith::CmpFPredicate::UEQ, a, l.constant(a, infinity));
  // Neither cubes nor their sums may overflow or lose bits.
  Lane one = l.constant(a, 1.0), small = a < 0x1p-900, large = a > 0x1p900;
  a = l.select(special, one, a * l.select(small, 0x1p300, l.select(large, 0x1p-300, one)));
  // The upper half of the bits over 3 is a root to 5 % (Kahan); Halley's method has three times as
  // many digits after each step.
  mlir::Type i32 = l.builder.getI32Type(), i64 = l.builder.getI64Type();
  Lane upper = l.convert<mlir::arith::TruncIOp>(l.bits(a) >> 32, i32);
  Lane root = l.asFloat(l.convert<mlir::arith::ExtUIOp>(upper / 3 + 715094163, i64) << 32);
  for (int step = 0; step < 2; ++step) {
    Lane cube = root * root * root;
    root = root - root * ((cube - a) / (cube + cube + a));
  }
  Lane square = root * root;
  Lane residual = l.fma(square, root, 0.0 - a);
  if (l.features.fma) // what the square's rounding lost
    residual = l.fma(l.fma(root, root, 0.0 - square), root, residual);
  root = root - residual / (square * 3.0);
  root = root * l.select(small, 0x1p-100, l.select(large, 0x1p100, one));
  return l.select(special, x, l.copysign(root, x));
}

Lane hypotF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane a = l.abs(operands[0]), b = l.abs(operands[1]);
  Lane large = l.select(b > a, b, a), one = l.constant(a, 1.0);
  Lane isLarge = large > 0x1p500, isSmall = large < 0x1p-400;
  Lane scale = l.select(isLarge, 0x1p-600, l.select(isSmall, 0x1p600, one));
  Lane back = l.select(isLarge, 0x1p600, l.select(isSmall, 0x1p-600, one));
  Lane x = a * scale, y = b * scale;
  Lane root = l(mlir::math::SqrtOp::create(l.builder, l.loc, l.fma(x, x, y * y).get()));
  return l.select((a == infinity) | (b == infinity), infinity, root * back);
}

/// (1 + 2a) exp(a^2) erfc(a) for a >= 0.
static Lane scaledErfc(const LaneBuilder &l, Lane a) {
  a = l.atMost(a, 0x1p60);
  return l.polynomial((a - 2.0) / (a + 2.0), coefficients::erfcF64);
}

/// exp(sign * (a^2 + extra)): the square in two parts, the first exact, the second small.
static Lane expOfSquare(const LaneBuilder &l, Lane a, double sign, Lane extra) {
  Lane high = l.asFloat(l.bits(a) & int64_t(0xfffffffff8000000)); // 26 bits
  Lane low = ((a - high) * (a + high) + extra) * sign;
  Lane correction = 1.0 + low * l.fma(low, l.fma(low, 1.0 / 6, 0.5), 1.0);
  return expF64(l, {high * high * sign}) * correction;
}

/// erfc(a + extra) for a >= 0.
static Lane erfcOfPositive(const LaneBuilder &l, Lane a, Lane extra) {
  a = l.atMost(a, 28.0);
  return expOfSquare(l, a, -1, extra * (a + a)) * (scaledErfc(l, a) / l.fma(a, 2.0, 1.0));
}

Lane erfF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], a = l.abs(x);
  Lane z = l.atLeast(a, 0x1p-60);
  Lane small = l.fma(x, l.polynomial(z * z, coefficients::erfSmallF64), x);
  // Beyond 1 erfc is below 0.16: the error of its logarithm counts little.
  Lane log = l.polynomial(l.atLeast(l.atMost(a, 6.0), 1.0), coefficients::erfLargeF64);
  return l.select(a < 1.0, small, l.copysign(1.0 - smallPowerOfTwo(l, log), x));
}

Lane erfcF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], a = l.abs(x), zero = l.constant(x, 0.0);
  Lane y = erfcOfPositive(l, a, zero);
  // Near 0 from erf, whose rounding errors are smaller.
  Lane z = l.atLeast(a, 0x1p-60);
  Lane erf = l.fma(x, l.polynomial(z * z, coefficients::erfSmallF64), x);
  return l.select(a < 0.25, 1.0 - erf, l.select(x < 0.0, 2.0 - y, y));
}

Lane erfcxF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], a = l.abs(x);
  Lane y = scaledErfc(l, a) * 0.5 / (a + 0.5); // 1 + 2a may overflow
  // exp(x^2) of negative arguments, infinite from 27 on.
  Lane b = l.atMost(l.select(x < 0.0, a, l.constant(x, 0.0)), 27.0);
  Lane twice = expOfSquare(l, b, 1, l.constant(x, 0.0)) * 2.0;
  return l.select(x < 0.0, twice - y, y);
}

Lane normcdfF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  // erfc(-x / sqrt(2)) / 2, the argument in two parts.
  constexpr double scale = 0x1.6a09e667f3bcdp-1, scaleLow = -0x1.bdd3413b26456p-55;
  Lane x = operands[0], limited = l.atLeast(l.atMost(l.abs(x), 40.0), 0x1p-60);
  Lane high = limited * scale;
  Lane extra = limited * scaleLow;
  if (l.features.fma)
    extra = extra + l.fma(limited, scale, 0.0 - high);
  Lane y = erfcOfPositive(l, high, extra) * 0.5;
  return l.select(x > 0.0, 1.0 - y, y);
}

/// sin and cos of pi times the argument, plus `turns` quarters.
static Lane sinPi(const LaneBuilder &l, Lane x, int turns) {
  constexpr double magic = 0x1.8p52;
  Lane inRange = l.select(l.abs(x) < 0x1p53, x, l.constant(x, 0.0));
  Lane half = inRange * 0.5;
  // x modulo 2: first to the nearest even number, which is exact for all of these.
  Lane rounded = l(mlir::math::RoundEvenOp::create(l.builder, l.loc, half.get()));
  Lane r = inRange - (rounded + rounded);
  Lane t = (r + r) + magic, n = t - magic, quadrant = l.bits(t) + turns;
  Lane rest = (r - n * 0.5) * (4.0 * quarterPi), z = rest * rest;
  Lane sine = oddSeries(l, rest, z, coefficients::sinF64);
  Lane halfSquare = z * 0.5, high = 1.0 - halfSquare, low = (1.0 - high) - halfSquare;
  Lane cosine = high + l.fma(z * z, l.polynomial(z, coefficients::cosF64), low);
  Lane y = l.select((quadrant & 1) == 1, cosine, sine);
  y = l.asFloat(l.bits(y) ^ ((quadrant & 2) << 62));
  // The zeros of the sine at even integers have the argument's sign, all others are positive.
  Lane zero = l.constant(x, 0.0);
  y = l.select(y == 0.0, turns ? zero : l.select(r == 0.0, l.copysign(zero, x), zero), y);
  return l.select(l.abs(x) < infinity, y, l.constant(x, std::nan("")));
}

Lane sinpiF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return sinPi(l, operands[0], 0);
}
Lane cospiF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return sinPi(l, operands[0], 1);
}

} // namespace nereid::cpu
