// exp, log and what is made of them, in f32. Each is the classical scheme: reduce the argument by
// powers of two, a minimax polynomial on what remains (Coefficients.h), put the power back; special
// values by selection.
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

// 2^n for integer lanes n in [-126, 127].
Lane powerOfTwo(const LaneBuilder &l, Lane n) {
  return l.asFloat((n + 127) << 23);
}

// p * 2^n for n in [-252, 254], rounded once: two exact-or-final multiplications.
Lane scale(Lane p, Lane n, const LaneBuilder &l) {
  Lane half = l.sra(n, 1);
  return p * powerOfTwo(l, half) * powerOfTwo(l, n - half);
}

// (p + 1) * 2^n, the sum and the first factor in one operation.
Lane scaleSuccessor(Lane p, Lane n, const LaneBuilder &l) {
  Lane half = l.sra(n, 1), first = powerOfTwo(l, half);
  return l.fma(p, first, first) * powerOfTwo(l, n - half);
}

struct Reduced {
  Lane n; // integer
  Lane r; // in [-ln2/2, ln2/2] or [-1/2, 1/2]
};

// x = n ln 2 + r.
Reduced reduceExp(const LaneBuilder &l, Lane x) {
  Lane t = l.fma(x, log2e, magic);
  Lane n = t - magic;
  Lane r = l.fma(n, -ln2Low, l.fma(n, -ln2High, x));
  return {l.bits(t) - magicBits, r};
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

// For positive finite lanes, subnormals too.
Logarithm splitLog(const LaneBuilder &l, Lane x) {
  Lane subnormal = x < 0x1p-126;
  Lane bits = l.bits(l.select(subnormal, x * 0x1p23, x));
  Lane exponent = l.sra(bits - 0x3f3504f3, 23);
  Lane f = l.asFloat(bits - (exponent << 23)) - 1.0;
  Lane offset = l.select(subnormal, -23.0, l.constant(x, 0.0));
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
  // Beyond these the two factors of `scale` overflow or underflow by themselves.
  Lane x = l.atLeast(l.atMost(operands[0], 89.0), -104.0);
  auto [n, r] = reduceExp(l, x);
  return scaleSuccessor(expm1Reduced(l, r), n, l);
}

Lane exp2F32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = l.atLeast(l.atMost(operands[0], 129.0), -151.0);
  Lane t = x + magic;
  return scale(exp2Reduced(l, x - (t - magic)), l.bits(t) - magicBits, l);
}

Lane expm1F32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = l.atLeast(l.atMost(operands[0], 89.0), -20.0);
  auto [n, r] = reduceExp(l, x);
  // 2 (h p + (h - 1/2)) with h = 2^(n-1), because 2^128 is no float.
  Lane h = powerOfTwo(l, n - 1);
  Lane y = l.fma(h, expm1Reduced(l, r), h - 0.5) * 2.0;
  return l.select(l.abs(operands[0]) < 0x1p-25, operands[0], y);
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
  Lane x = operands[0];
  // 1 + x = u + c exactly; log(u + c) = log(u) + c / u.
  Lane u = x + 1.0;
  Lane c = l.select(x < 1.0, x - (u - 1.0), 1.0 - (u - x));
  auto [exponent, f, rest] = splitLog(l, u);
  Lane low = l.fma(exponent, ln2Low, rest + c / u);
  Lane y = l.fma(exponent, ln2High, f + low);
  y = l.select(x < infinity, y, x);
  y = l.select(x == -1.0, -infinity, y);
  y = l.select(x < -1.0, std::nan(""), y);
  return l.select(l.abs(x) < 0x1p-25, x, y);
}

Lane erfF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], a = l.abs(x);
  Lane small = l.fma(x, l.polynomial(x * x, coefficients::erfSmallF32), x);
  // 1 - erfc, with log2(erfc) a polynomial: erfc is below 0.16 here, so its relative error counts
  // little.
  Lane t = l.polynomial(l.atMost(a, 4.0), coefficients::erfLargeF32);
  Lane shifted = t + magic;
  Lane erfc = exp2Reduced(l, t - (shifted - magic)) * powerOfTwo(l, l.bits(shifted) - magicBits);
  return l.select(a < 1.0, small, l.copysign(1.0 - erfc, x));
}

Lane tanhF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], a = l.abs(x), z = x * x;
  Lane small = l.fma(a * z, l.polynomial(z, coefficients::tanhF32), a);
  auto [n, r] = reduceExp(l, l.atMost(a + a, 20.0));
  Lane power = powerOfTwo(l, n), e = l.fma(expm1Reduced(l, r), power, power);
  Lane large = 1.0 - 2.0 / (e + 1.0);
  return l.copysign(l.select(a < 0.625, small, large), x);
}

// Through f64: 2^(y log2|x|), with the sign and the special values of C's pow.
Lane powF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  mlir::Type wide = l.builder.getF64Type(), narrow = operands[0].element();
  Lane x = l.convert<mlir::arith::ExtFOp>(operands[0], wide);
  Lane y = l.convert<mlir::arith::ExtFOp>(operands[1], wide);
  Lane a = l.abs(x);
  Lane exponent = y * log2F64(l, {a});
  // 1^y and x^0 are 1 for every other operand; -1 needs the parity test below as well.
  Lane one = l.select(a == 1.0, y == y, x == 1.0) | (x == 1.0) | (y == 0.0);
  exponent = l.select(one, 0.0, exponent);
  Lane result = exp2F64(l, {exponent});
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
  return l.convert<mlir::arith::TruncFOp>(result, narrow);
}

} // namespace nereid::cpu
