// exp, log and what is made of them, in f32. Each is the classical scheme: reduce the argument by
// powers of two, a minimax polynomial on what remains (Coefficients.h), put the power back; special
// values by selection.
//
// No operation has a subnormal operand or result, whatever the argument, where it can be avoided:
// many processors take more than a hundred clocks for each. Tiny arguments are replaced before the
// polynomial, and subnormal results are assembled as integers.
#include "support/Coefficients.h"
#include "targets/cpu/math/Emitters.h"

#include <cmath>
#include <limits>

namespace nereid::cpu {
namespace {

using llvm::ArrayRef;

// Adding it to |x| < 2^22 leaves round(x) in the low bits of the sum.
constexpr double magic = 0x1.8p23;
constexpr int64_t magicBits = 0x4b400000;
constexpr double log2e = 0x1.715476p0;
// ln 2 in two parts; products of the first with integers below 2^9 are exact.
constexpr double ln2High = 0x1.62e4p-1, ln2Low = 0x1.7f7d1cp-20;
constexpr double infinity = std::numeric_limits<double>::infinity();
// Added to an argument of exp it changes the result by less than 2^-40, and leaves 0 or at
// least 2^-64, whose square is a normal number.
constexpr double nudge = 0x1p-40;

// 2^n for integer lanes n in [-126, 127].
Lane powerOfTwo(const LaneBuilder &l, Lane n) {
  return l.asFloat((n + 127) << 23);
}

// Multiplication by 2^n, n in [-150, 128], of numbers in [0.7, 1.43), rounded once, without a
// subnormal operand or result.
class Scale {
public:
  // t: n and magic.
  Scale(const LaneBuilder &l, Lane t) : l(l), low(t < magic - 125.0), factor(t) {
    // 2^(n-1), as 2^128 is no float; for the low lanes, 2^(n-1+149), which counts in quanta of the
    // subnormals.
    Lane bits = l.bits(t) << 23;
    Lane bias = l.select(low, int64_t(126 + 149) << 23, l.constant(bits, int64_t(126) << 23));
    factor = l.asFloat(bits + bias);
  }
  // Of half of `twice`. The smallest normal numbers have the quantum of the subnormals; so for all
  // low lanes the number of quanta is the bits of the result.
  Lane operator()(Lane twice) const {
    Lane scaled = twice * factor;
    return l.asFloat(l.select(low, nearestInteger(l, scaled), l.bits(scaled)));
  }
  // The same, where results below 2^-125 count for nothing.
  Lane coarse(Lane twice) const { return l.select(low, 0.0, twice * factor); }

private:
  const LaneBuilder &l;
  Lane low; // n <= -126
  Lane factor;
};

struct Reduced {
  Lane t; // magic + n
  Lane n; // integer
  Lane r; // in [-ln2/2, ln2/2] or [-1/2, 1/2]
};

// x = n ln 2 + r.
Reduced reduceExp(const LaneBuilder &l, Lane x) {
  Lane t = l.fma(x, log2e, magic);
  Lane n = t - magic;
  Lane r = l.fma(n, -ln2Low, l.fma(n, -ln2High, x));
  return {t, l.bits(t) - magicBits, r};
}

// exp(r) - 1 on the reduced range.
Lane expm1Reduced(const LaneBuilder &l, Lane r) {
  return l.fma(r * r, l.polynomial(r, coefficients::expF32), r);
}

// 2^r on the reduced range.
Lane exp2Reduced(const LaneBuilder &l, Lane r) {
  return l.fma(r, l.polynomial(r, coefficients::exp2F32), 1.0);
}

struct Logarithm {
  Lane exponent; // as a float
  Lane f;        // mantissa - 1, the mantissa in [sqrt(1/2), sqrt(2))
  Lane rest;     // log(1 + f) - f
};

// For positive finite lanes, subnormals too: m * 2^-149 becomes 1 + m * 2^-23 by its bits.
Logarithm splitLog(const LaneBuilder &l, Lane x) {
  Lane subnormal = x < 0x1p-126;
  Lane scaled = l.asFloat(l.bits(x) | 0x3f800000) - 1.0;
  Lane bits = l.bits(l.select(subnormal, scaled, x));
  Lane exponent = l.sra(bits - 0x3f3504f3, 23);
  Lane f = l.asFloat(bits - (exponent << 23)) - 1.0;
  Lane offset = l.select(subnormal, -126.0, l.constant(x, 0.0));
  Lane exponentFloat = l.convert<mlir::arith::SIToFPOp>(exponent, x.element()) + offset;
  Lane p = l.polynomial(f, coefficients::logF32);
  return {exponentFloat, f, l.fma(f, p, -0.5) * (f * f)};
}

// The logarithm's special values, whatever its base.
Lane logSpecials(const LaneBuilder &l, Lane x, Lane y) {
  y = l.select(x < infinity, y, x); // infinity, NaN
  y = l.select(x == 0.0, -infinity, y);
  return l.select(x < 0.0, std::nan(""), y);
}

} // namespace

Lane expF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  // Beyond these the result is 0 or infinite already.
  Reduced x = reduceExp(l, l.atLeast(l.atMost(operands[0], 89.0), -104.0) + nudge);
  return Scale(l, x.t)(l.fma(expm1Reduced(l, x.r), 2.0, 2.0));
}

Lane sigmoidF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  // With e, the exponential of -|x|, so that neither end overflows: e / (1 + e) or 1 / (1 + e). Its
  // scale is put back after the division, which then has no subnormal operand.
  Lane negative = operands[0] < 0.0;
  Reduced x = reduceExp(l, l.atLeast(nudge - l.abs(operands[0]), -104.0));
  Lane twice = l.fma(expm1Reduced(l, x.r), 2.0, 2.0);
  Scale scale(l, x.t);
  Lane quotient = l.select(negative, twice, l.constant(twice, 1.0)) / (scale.coarse(twice) + 1.0);
  return l.select(negative, scale(quotient), quotient);
}

Lane exp2F32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = l.atLeast(l.atMost(operands[0], 129.0), -151.0) + nudge;
  Lane t = x + magic;
  return Scale(l, t)(exp2Reduced(l, x - (t - magic)) * 2.0);
}

Lane expm1F32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane tiny = l.abs(operands[0]) < 0x1p-25; // the result is the argument
  Lane x = l.atLeast(l.atMost(l.select(tiny, 0.0, operands[0]), 89.0), -20.0);
  auto [t, n, r] = reduceExp(l, x);
  // 2 (h p + (h - 1/2)) with h = 2^(n-1), because 2^128 is no float.
  Lane h = powerOfTwo(l, n - 1);
  Lane y = l.fma(h, expm1Reduced(l, r), h - 0.5) * 2.0;
  return l.select(tiny, operands[0], y);
}

Lane logF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0];
  auto [exponent, f, rest] = splitLog(l, x);
  Lane y = l.fma(exponent, ln2High, f + l.fma(exponent, ln2Low, rest));
  return logSpecials(l, x, y);
}

Lane log2F32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0];
  auto [exponent, f, rest] = splitLog(l, x);
  Lane m = f + rest;
  // log2(e) in two parts.
  Lane y = l.fma(m, log2e, l.fma(m, 0x1.4ae0cp-26, exponent));
  return logSpecials(l, x, y);
}

Lane log1pF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane tiny = l.abs(operands[0]) < 0x1p-25; // the result is the argument
  Lane x = l.select(tiny, 0.0, operands[0]);
  // 1 + x = u + c exactly; log(u + c) = log(u) + c / u, which counts for nothing from 2^60 on.
  Lane u = x + 1.0;
  Lane c = l.select(x < 1.0, x - (u - 1.0), 1.0 - (u - x));
  auto [exponent, f, rest] = splitLog(l, u);
  Lane low = l.fma(exponent, ln2Low, rest + c / l.atMost(u, 0x1p60));
  Lane y = l.fma(exponent, ln2High, f + low);
  y = l.select(x < infinity, y, x);
  y = l.select(x == -1.0, -infinity, y);
  y = l.select(x < -1.0, std::nan(""), y);
  return l.select(tiny, operands[0], y);
}

Lane erfF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], a = l.abs(x);
  // The square of a tiny argument counts for nothing.
  Lane z = l.atLeast(a, 0x1p-30);
  Lane factor = l.polynomial(z * z, coefficients::erfSmallF32);
  // Without a fused operation the product with a tiny argument would be subnormal, the sum not.
  Lane small = l.features.fma ? l.fma(x, factor, x)
                              : l.select(a < 0x1p-30, x * (factor + 1.0),
                                         l.select(a < 0x1p-30, 0.0, x) * factor + x);
  // 1 - erfc, with log2(erfc) a polynomial: erfc is below 0.16 here, so its relative error counts
  // little.
  Lane t = l.polynomial(l.atMost(z, 4.0), coefficients::erfLargeF32);
  Lane shifted = t + magic;
  Lane erfc = exp2Reduced(l, t - (shifted - magic)) * powerOfTwo(l, l.bits(shifted) - magicBits);
  return l.select(a < 1.0, small, l.copysign(1.0 - erfc, x));
}

Lane tanhF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0];
  Lane tiny = l.abs(x) < 0x1p-13; // the result is the argument
  Lane a = l.select(tiny, 0.0, l.abs(x)), z = a * a;
  Lane small = l.fma(a * z, l.polynomial(z, coefficients::tanhF32), a);
  auto [t, n, r] = reduceExp(l, l.atMost(a + a, 20.0));
  Lane power = powerOfTwo(l, n), e = l.fma(expm1Reduced(l, r), power, power);
  Lane large = 1.0 - 2.0 / (e + 1.0);
  return l.select(tiny, x, l.copysign(l.select(a < 0.625, small, large), x));
}

Lane powF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  mlir::Type wide = l.builder.getF64Type();
  return powOfF32(l, l.convert<mlir::arith::ExtFOp>(operands[0], wide),
                  l.convert<mlir::arith::ExtFOp>(operands[1], wide));
}

// 2^(y log2|x|), with the sign and the special values of C's pow.
Lane powOfF32(const LaneBuilder &l, Lane x, Lane y) {
  Lane a = l.abs(x);
  Lane exponent = y * log2F64(l, {a});
  // 1^y and x^0 are 1 for every other operand; -1 needs the parity test below as well.
  Lane one = l.select(a == 1.0, y == y, x == 1.0) | (x == 1.0) | (y == 0.0);
  exponent = l.select(one, 0.0, exponent);
  // 2^-151 rounds to 0, as everything below.
  Lane result = exp2F64(l, {l.atLeast(exponent, -151.0)});
  // Floats of 2^24 and more are even integers. Adding and taking away 1.5 * 2^52 rounds to an
  // integer.
  Lane clamped = l.atLeast(l.atMost(y, 0x1p30), -0x1p30);
  constexpr double wideMagic = 0x1.8p52;
  Lane integer = (clamped + wideMagic) - wideMagic == clamped;
  Lane half = clamped * 0.5;
  Lane even = (half + wideMagic) - wideMagic == half;
  Lane negated = l.copysign(result, x);
  Lane isOdd = integer & l.select(even, 0, l.constant(even, 1));
  result = l.select(isOdd, negated, result);
  Lane undefined =
      (x < 0.0) & (a < infinity) & l.select(integer | (y == 0.0), 0, l.constant(even, 1));
  result = l.select(undefined, std::nan(""), result);
  return roundToF32(l, result);
}

Lane roundToF32(const LaneBuilder &l, Lane result) {
  mlir::Type narrow = l.builder.getF32Type();
  // Below 2^-126: adding 2^-97 puts the quantum of f32's subnormals into the last bit of the sum.
  Lane magnitude = l.abs(result), low = magnitude < 0x1p-126;
  mlir::Type i32 = l.builder.getI32Type();
  Lane quanta = l.convert<mlir::arith::TruncIOp>(l.bits(magnitude + 0x1p-97), i32);
  Lane normal = l.convert<mlir::arith::TruncFOp>(l.select(low, 1.0, result), narrow);
  Lane sign = l.convert<mlir::arith::TruncIOp>(l.bits(result) >> 32, i32) & 0x80000000;
  return l.select(low, l.asFloat(quanta | sign), normal);
}

} // namespace nereid::cpu
