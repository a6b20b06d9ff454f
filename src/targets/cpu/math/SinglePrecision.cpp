// exp, log and what is made of them, in f32. Each is the classical scheme: reduce the argument by
// powers of two, a minimax polynomial on what remains (Coefficients.h), put the power back; special
// values by selection.
//
// No operation has a subnormal operand or result, whatever the argument, where it can be avoided:
// many processors take more than a hundred clocks for each. Tiny arguments are replaced before the
// polynomial, and subnormal results are assembled as integers.
#include "targets/cpu/math/SinglePieces.h"

namespace nereid::cpu {

using llvm::ArrayRef;
using namespace single;

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
  Lane x = operands[0], y = operands[1];
  // Floats of 2^24 and more are even integers.
  Lane clamped = l.atLeast(l.atMost(y, 0x1p30), -0x1p30), n = nearestInteger(l, clamped);
  Lane isInteger = l.convert<mlir::arith::SIToFPOp>(n, x.element()) == clamped;
  // 1^y and x^0 are 1 for every other operand; so is (-1)^y of infinite y.
  Lane givesOne = (x == 1.0) | (y == 0.0) | ((l.abs(x) == 1.0) & (l.abs(y) == infinity));
  Lane wide = l.convert<mlir::arith::ExtFOp>(y, l.builder.getF64Type());
  return powOfF32(l, x, {wide, isInteger, isInteger & ((n & 1) == 1), givesOne});
}

// log2 of positive f64 lanes, no subnormal ones, to some 2^-40.
static Lane shortLog2(const LaneBuilder &l, Lane x) {
  Lane bits = l.bits(x);
  constexpr int64_t bias = 1024; // keeps exponents positive
  Lane biased = (bits - 0x3fe6a09e667f3bcd + (bias << 52)) >> 52;
  Lane exponent = l.asFloat(biased + 0x4338000000000000) - (0x1.8p52 + double(bias));
  Lane f = l.asFloat(bits - ((biased - bias) << 52)) - 1.0;
  Lane s = f / (f + 2.0);
  return l.fma(s, l.polynomial(s * s, coefficients::log2ShortF64), exponent);
}

// 2^x of f64 lanes in [-1000, 1000], to some 2^-38.
static Lane shortExp2(const LaneBuilder &l, Lane x) {
  Lane t = x + 0x1.8p52, r = x - (t - 0x1.8p52);
  return l.asFloat(l.bits(l.polynomial(r, coefficients::exp2ShortF64)) + (l.bits(t) << 52));
}

// Positive f64 lanes, or NaN, rounded to f32 without a subnormal operand or result on the way.
static Lane roundPositiveToF32(const LaneBuilder &l, Lane x) {
  // Below 2^-126: adding 2^-97 puts the quantum of f32's subnormals into the last bit of the sum.
  Lane low = x < 0x1p-126;
  Lane quanta = l.convert<mlir::arith::TruncIOp>(l.bits(x + 0x1p-97), l.builder.getI32Type());
  Lane normal = l.convert<mlir::arith::TruncFOp>(l.select(low, 1.0, x), l.builder.getF32Type());
  return l.select(low, l.asFloat(quanta), normal);
}

// 2^(y log2|x|), with the sign and the special values of C's pow.
Lane powOfF32(const LaneBuilder &l, Lane x, Exponent y) {
  Lane a = l.convert<mlir::arith::ExtFOp>(l.abs(x), l.builder.getF64Type());
  Lane log = l.select(a < infinity, shortLog2(l, a), a);
  log = l.select(a == 0.0, -infinity, log);
  // 2^-151 rounds to 0, as everything below; 2^129 to infinity.
  Lane exponent = l.atLeast(l.atMost(y.wide * log, 129.0), -151.0);
  Lane result = roundPositiveToF32(l, shortExp2(l, exponent));
  result = l.select(y.isOdd, l.copysign(result, x), result);
  Lane undefined = (x < 0.0) & (l.abs(x) < infinity) & (y.isInteger ^ l.constant(y.isInteger, 1));
  return l.select(y.givesOne, 1.0, l.select(undefined, std::nan(""), result));
}

Lane roundToF32(const LaneBuilder &l, Lane x) {
  mlir::Type i32 = l.builder.getI32Type();
  Lane sign = l.convert<mlir::arith::TruncIOp>(l.bits(x) >> 32, i32) & 0x80000000;
  return l.asFloat(l.bits(roundPositiveToF32(l, l.abs(x))) | sign);
}

} // namespace nereid::cpu
