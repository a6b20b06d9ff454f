// What functions in f32 are made of: exp and log on reduced arguments, and powers of two put back.
#pragma once
#include "support/Coefficients.h"
#include "targets/cpu/math/Emitters.h"

#include <cmath>
#include <limits>

namespace nereid::cpu::single {

// Adding it to |x| < 2^22 leaves round(x) in the low bits of the sum.
inline constexpr double magic = 0x1.8p23;
inline constexpr int64_t magicBits = 0x4b400000;
inline constexpr double log2e = 0x1.715476p0;
// ln 2 in two parts; products of the first with integers below 2^9 are exact.
inline constexpr double ln2High = 0x1.62e4p-1, ln2Low = 0x1.7f7d1cp-20;
inline constexpr double infinity = std::numeric_limits<double>::infinity();
// Added to an argument of exp it changes the result by less than 2^-40, and leaves 0 or at
// least 2^-64, whose square is a normal number.
inline constexpr double nudge = 0x1p-40;

// 2^n for integer lanes n in [-126, 127].
inline Lane powerOfTwo(const LaneBuilder &l, Lane n) {
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
inline Reduced reduceExp(const LaneBuilder &l, Lane x) {
  Lane t = l.fma(x, log2e, magic);
  Lane n = t - magic;
  Lane r = l.fma(n, -ln2Low, l.fma(n, -ln2High, x));
  return {t, l.bits(t) - magicBits, r};
}

// exp(r) - 1 on the reduced range.
inline Lane expm1Reduced(const LaneBuilder &l, Lane r) {
  return l.fma(r * r, l.polynomial(r, coefficients::expF32), r);
}

// 2^r on the reduced range.
inline Lane exp2Reduced(const LaneBuilder &l, Lane r) {
  return l.fma(r, l.polynomial(r, coefficients::exp2F32), 1.0);
}

struct Logarithm {
  Lane exponent; // as a float
  Lane f;        // mantissa - 1, the mantissa in [sqrt(1/2), sqrt(2))
  Lane rest;     // log(1 + f) - f
};

// For positive finite lanes, subnormals too: m * 2^-149 becomes 1 + m * 2^-23 by its bits.
inline Logarithm splitLog(const LaneBuilder &l, Lane x) {
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
inline Lane logSpecials(const LaneBuilder &l, Lane x, Lane y) {
  y = l.select(x < infinity, y, x); // infinity, NaN
  y = l.select(x == 0.0, -infinity, y);
  return l.select(x < 0.0, std::nan(""), y);
}

} // namespace nereid::cpu::single
