// exp, log, sin and cos in f64: the same schemes as in f32.
#include "support/Coefficients.h"
#include "targets/cpu/math/Emitters.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cmath>
#include <limits>

namespace nereid::cpu {
namespace {

using llvm::ArrayRef;

constexpr double magic = 0x1.8p52;
constexpr int64_t magicBits = 0x4338000000000000;
// ln 2 in two parts; products of the first with exponents are exact.
constexpr double ln2High = 0x1.62e42fefa2p-1, ln2Low = 0x1.9ef35793c7673p-41;
constexpr double infinity = std::numeric_limits<double>::infinity();
// See SinglePrecision.cpp.
constexpr double nudge = 0x1p-100;

Lane powerOfTwo(const LaneBuilder &l, Lane n) {
  return l.asFloat((n + 1023) << 52);
}

// p * 2^n, in the lanes of `low`, where that is below 2^-1022, without subnormal operands or
// results (see scaleOnce in SinglePrecision.cpp).
Lane scale(Lane p, Lane n, Lane low, const LaneBuilder &l) {
  // Halved by the logical shift: before AVX-512 there is no arithmetic one for 64 bits.
  Lane half = ((n + 4096) >> 1) - 2048;
  Lane bias = l.select(low, int64_t(1023 + 1022) << 52, l.constant(n, int64_t(1023) << 52));
  Lane one = l.select(low, 1.0, l.constant(p, 0.0));
  Lane sum = l.fma(p * powerOfTwo(l, half), l.asFloat(((n - half) << 52) + bias), one);
  return l.asFloat(l.bits(sum) - l.bits(one));
}

Lane expReduced(const LaneBuilder &l, Lane r) {
  return 1.0 + l.fma(r * r, l.polynomial(r, coefficients::expF64), r);
}

struct Logarithm {
  Lane exponent; // as a float
  Lane f;        // mantissa - 1
  Lane half;     // f^2 / 2
  Lane rest;     // log(1 + f) = f - half + rest
};

/// x = 2^exponent (1 + f), with 1 + f from sqrt(1/2) to sqrt(2). Of a positive number.
struct Parts {
  Lane exponent, f; // both as floats
};

Parts splitNumber(const LaneBuilder &l, Lane x) {
  // m * 2^-1074 becomes 1 + m * 2^-52 by its bits.
  Lane subnormal = x < 0x1p-1022;
  Lane scaled = l.asFloat(l.bits(x) | int64_t(0x3ff0000000000000)) - 1.0;
  Lane bits = l.bits(l.select(subnormal, scaled, x));
  // Biased by 1024 to stay positive; made a float by placing it in the low bits of the magic
  // number.
  Lane biased = (bits - 0x3fe6a09e667f3bcd + (int64_t(1024) << 52)) >> 52;
  Lane offset = l.select(subnormal, 1024.0 + 1022.0, l.constant(x, 1024.0));
  Lane exponent = l.asFloat(biased + magicBits) - magic - offset;
  return {exponent, l.asFloat(bits - ((biased - 1024) << 52)) - 1.0};
}

Logarithm splitLog(const LaneBuilder &l, Lane x) {
  auto [exponent, f] = splitNumber(l, x);
  Lane s = f / (f + 2.0), z = s * s, half = f * f * 0.5;
  Lane series = z * l.polynomial(z, coefficients::logF64);
  return {exponent, f, half, s * (half + series)};
}

Lane logSpecials(const LaneBuilder &l, Lane x, Lane y) {
  y = l.select(x < infinity, y, x);
  y = l.select(x == 0.0, -infinity, y);
  return l.select(x < 0.0, std::nan(""), y);
}

// x = k pi/2 + r + e, with r rounded and e what the rounding lost.
struct Reduced {
  Lane r, e;
  Lane quadrant; // k in the low bits
};

// How far `reduce` goes.
double greatestReduced(const LaneBuilder &l) {
  return l.features.fma ? 0x1p40 : 0x1p19;
}

// x = k pi/2 + r + e for a given k, an integer or half of one.
Reduced reduceBy(const LaneBuilder &l, Lane x, Lane k, Lane quadrant) {
  if (l.features.fma) {
    // pi/2 in three parts of 53 bits. The first step is exact, because nearly all of x cancels.
    Lane first = l.fma(k, -0x1.921fb54442d18p0, x);
    Lane second = k * 0x1.1a62633145c07p-54, below = l.fma(k, 0x1.1a62633145c07p-54, 0.0 - second);
    Lane r = first - second;
    return {r, ((first - r) - second) - l.fma(k, -0x1.f1976b7ed8fbcp-110, below), quadrant};
  }
  // pi/2 in three parts, of 33, 33 and 53 bits: products with k are exact but for the last.
  Lane first = x - k * 0x1.921fb544p0, second = k * 0x1.0b4611a6p-34;
  Lane r = first - second;
  return {r, ((first - r) - second) - k * 0x1.3198a2e037073p-69, quadrant};
}

Reduced reduce(const LaneBuilder &l, Lane x) {
  Lane t = l.fma(x, 0x1.45f306dc9c883p-1, magic);
  return reduceBy(l, x, t - magic, l.bits(t));
}

struct SineCosine {
  Lane sine, cosine, quadrant;
};

SineCosine sineCosine(const LaneBuilder &l, Reduced reduced) {
  auto [r, e, quadrant] = reduced;
  Lane z = r * r;
  Lane sine = r + l.fma(r * z, l.polynomial(z, coefficients::sinF64), e);
  Lane half = z * 0.5, high = 1.0 - half, low = (1.0 - high) - half;
  Lane cosine = high + l.fma(z * z, l.polynomial(z, coefficients::cosF64), low - r * e);
  return {sine, cosine, quadrant};
}

// The sine of the angle that was reduced, turned by so many quarters.
Lane sineOf(const LaneBuilder &l, SineCosine parts, int turns) {
  Lane quadrant = turns ? parts.quadrant + turns : parts.quadrant;
  Lane y = l.select((quadrant & 1) == 1, parts.cosine, parts.sine);
  return l.asFloat(l.bits(y) ^ ((quadrant & 2) << 62));
}

// sin(x + turns * pi/2).
Lane sinShifted(const LaneBuilder &l, Lane x, int turns, llvm::StringRef name) {
  return orLibm(l, x, name, sineOf(l, sineCosine(l, reduce(l, x)), turns));
}

} // namespace

Lane orLibm(const LaneBuilder &l, Lane x, llvm::StringRef name, Lane y) {
  declareLibm(l, name, x.element(), 1);
  auto choice = mlir::scf::IfOp::create(
      l.builder, l.loc, anyLane(l, l.abs(x) > greatestReduced(l)),
      [&](mlir::OpBuilder &inner, mlir::Location loc) {
        LaneBuilder in(inner, loc, l.features);
        mlir::scf::YieldOp::create(inner, loc, callLibm(in, name, {in(x.get())}).get());
      },
      [&](mlir::OpBuilder &inner, mlir::Location loc) {
        mlir::scf::YieldOp::create(inner, loc, y.get());
      });
  return l(choice.getResult(0));
}

Lane sineOfPhase(const LaneBuilder &l, Lane x, Lane d, int turns) {
  // Odd multiples of pi/4: k is half an odd number.
  Lane t = l.fma(x + d, 0x1.45f306dc9c883p-1, -0.5) + magic;
  auto [r, e, quadrant] = reduceBy(l, x, (t - magic) + 0.5, l.bits(t));
  Lane sum = r + d, part = sum - r;
  Lane lost = (r - (sum - part)) + (d - part);
  return sineOf(l, sineCosine(l, {sum, e + lost, quadrant}), turns);
}

Lane expF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = l.atLeast(l.atMost(operands[0], 710.0), -746.0) + nudge;
  Lane low = x < -0x1.6232bdd7abcd2p9; // ln(2^-1022), rounded up
  Lane t = l.fma(x, 0x1.71547652b82fep0, magic);
  Lane n = t - magic;
  Lane r = l.fma(n, -ln2Low, l.fma(n, -ln2High, x));
  return scale(expReduced(l, r), l.bits(t) - magicBits, low, l);
}

Lane exp2F64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = l.atLeast(l.atMost(operands[0], 1025.0), -1076.0) + nudge;
  Lane t = x + magic;
  return scale(expReduced(l, (x - (t - magic)) * 0x1.62e42fefa39efp-1), l.bits(t) - magicBits,
               x < -1022.0, l);
}

Lane quarterExpF64(const LaneBuilder &l, Lane x, double less) {
  Lane t = l.fma(x, 0x1.71547652b82fep0, magic);
  Lane n = t - magic, r = l.fma(n, -ln2Low, l.fma(n, -ln2High, x));
  Lane power = powerOfTwo(l, l.bits(t) - (magicBits + 2));
  Lane rest = l.fma(r * r, l.polynomial(r, coefficients::expF64), r);
  return l.fma(power, rest, power - less);
}

Lane shortLogF64(const LaneBuilder &l, Lane x) {
  auto [exponent, f] = splitNumber(l, x);
  Lane narrow = l.convert<mlir::arith::TruncFOp>(f, l.builder.getF32Type());
  Lane p = l.polynomial(narrow, coefficients::logF32);
  Lane factor = l.fma(f, l.convert<mlir::arith::ExtFOp>(p, f.element()), -0.5);
  Lane y = l.fma(exponent, ln2High + ln2Low, l.fma(f * f, factor, f));
  return l.select(x >= 0.0, y, l.constant(y, std::nan("")));
}

Lane logF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  auto [exponent, f, half, rest] = splitLog(l, operands[0]);
  Lane y = exponent * ln2High - ((half - l.fma(exponent, ln2Low, rest)) - f);
  return logSpecials(l, operands[0], y);
}

Lane log2F64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  auto [exponent, f, half, rest] = splitLog(l, operands[0]);
  // log(1 + f) = high + low, high of at most 21 significant bits, times log2(e) in two parts, the
  // first of 20.
  Lane sum = f - half;
  Lane tail = (f - sum) - half + rest;
  Lane full = sum + tail;
  Lane high = l.asFloat(l.bits(full) & int64_t(0xffffffff00000000));
  Lane low = (sum - high) + tail;
  Lane product = high * 0x1.71546p0; // exact
  Lane correction = l.fma(low, 0x1.71547652b82fep0, high * 0x1.652b82fe1777dp-20);
  Lane whole = exponent + product;
  Lane lost = product - (whole - exponent);
  return logSpecials(l, operands[0], whole + (lost + correction));
}

Lane log10F64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  auto [exponent, f, half, rest] = splitLog(l, operands[0]);
  // As log2F64, with log10(e) and log10(2) in two parts; those of the latter have 41 and 53 bits.
  Lane sum = f - half;
  Lane tail = (f - sum) - half + rest;
  Lane full = sum + tail;
  Lane high = l.asFloat(l.bits(full) & int64_t(0xffffffff00000000));
  Lane low = (sum - high) + tail;
  Lane product = high * 0x1.bcb7bp-2; // exact
  Lane correction = l.fma(low, 0x1.bcb7b1526e50ep-2, high * 0x1.526e50e32a6abp-26);
  Lane first = exponent * 0x1.34413509f8p-2; // exact
  Lane whole = first + product;
  Lane lost = product - (whole - first);
  correction = l.fma(exponent, -0x1.80433b83b532ap-44, correction);
  return logSpecials(l, operands[0], whole + (lost + correction));
}

Lane log1pF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane tiny = l.abs(operands[0]) < 0x1p-54; // the result is the argument
  Lane x = l.select(tiny, 0.0, operands[0]);
  // See log1pF32.
  Lane u = x + 1.0;
  Lane c = l.select(x < 1.0, x - (u - 1.0), 1.0 - (u - x));
  auto [exponent, f, half, rest] = splitLog(l, u);
  Lane low = rest + c / l.atMost(u, 0x1p100);
  Lane y = exponent * ln2High - ((half - l.fma(exponent, ln2Low, low)) - f);
  y = l.select(x < infinity, y, x);
  y = l.select(x == -1.0, -infinity, y);
  y = l.select(x < -1.0, std::nan(""), y);
  return l.select(tiny, operands[0], y);
}

Lane sinF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0];
  Lane tiny = l.abs(x) < 0x1p-27; // the result is the argument; keeps -0
  return l.select(tiny, x, sinShifted(l, l.select(tiny, 0.0, x), 0, "sin"));
}

Lane cosF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return sinShifted(l, operands[0] + nudge, 1, "cos");
}

Lane tanF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0];
  Lane tiny = l.abs(x) < 0x1p-27; // the result is the argument; keeps -0
  Lane inside = l.select(tiny, 0.0, x);
  auto [sine, cosine, quadrant] = sineCosine(l, reduce(l, inside));
  Lane turned = (quadrant & 1) == 1;
  Lane y = l.select(turned, 0.0 - cosine, sine) / l.select(turned, sine, cosine);
  return l.select(tiny, x, orLibm(l, inside, "tan", y));
}

Lane exp10F64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = l.atLeast(l.atMost(operands[0], 308.5), -324.0) + nudge;
  Lane t = l.fma(x, 0x1.a934f0979a371p1, magic), n = t - magic;
  // log10(2) in two parts; products of the first with exponents are exact.
  Lane r = l.fma(n, 0x1.80433b83b532ap-44, l.fma(n, -0x1.34413509f8p-2, x));
  Lane low = x < -0x1.33a7146f72a42p8; // log10(2^-1022), rounded up
  return scale(expReduced(l, r * 0x1.26bb1bbb55516p1), l.bits(t) - magicBits, low, l);
}

Lane exp2OfSum(const LaneBuilder &l, Lane high, Lane low) {
  Lane x = l.atLeast(l.atMost(high, 1030.0), -1080.0) + nudge;
  Lane t = x + magic, r = (x - (t - magic)) + low;
  return scale(expReduced(l, r * 0x1.62e42fefa39efp-1), l.bits(t) - magicBits, x + low < -1022.0,
               l);
}

Lane smallPowerOfTwo(const LaneBuilder &l, Lane x) {
  Lane t = x + magic, r = x - (t - magic);
  return expReduced(l, r * 0x1.62e42fefa39efp-1) * powerOfTwo(l, l.bits(t) - magicBits);
}

TwoParts log2InParts(const LaneBuilder &l, Lane x) {
  auto [exponent, f] = splitNumber(l, x);
  // log2(1 + f) = 2 log2(e) s (1 + z/3 + z^2 tail), s = f / (f + 2), z its square, all but the tail
  // in two parts.
  Lane sum = f + 2.0, inverse = 1.0 / sum, s = f * inverse;
  Lane sLow = l.fma(s, (sum - 2.0) - f, l.fma(0.0 - s, sum, f)) * inverse;
  Lane z = s * s, zLow = l.fma(s + s, sLow, l.fma(s, s, 0.0 - z));
  constexpr double third = 0x1.5555555555555p-2, thirdLow = 0x1.5555555555555p-56;
  Lane u = z * third;
  Lane uLow = l.fma(z, third, 0.0 - u) + l.fma(z, thirdLow, zLow * third);
  uLow = l.fma(z * z, l.polynomial(z, coefficients::log2TailF64), uLow);
  Lane w = u + 1.0, wLow = ((1.0 - w) + u) + uLow;
  Lane p = s * w, pLow = l.fma(s, w, 0.0 - p) + l.fma(s, wLow, sLow * w);
  constexpr double twice = 0x1.71547652b82fep+1, twiceLow = 0x1.777d0ffda0d24p-55; // 2 log2(e)
  Lane g = p * twice;
  Lane gLow = l.fma(p, twice, 0.0 - g) + l.fma(p, twiceLow, pLow * twice);
  Lane high = exponent + g;
  return {high, ((exponent - high) + g) + gLow};
}

Lane powF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], y = operands[1], a = l.abs(x), b = l.abs(y);
  auto [log, logLow] = log2InParts(l, a);
  log = l.select(a < infinity, log, a);
  log = l.select(a == 0.0, -infinity, log);
  Lane high = y * log, low = l.fma(y, logLow, l.fma(y, log, 0.0 - high));
  // Beyond, the result is 0 or infinite, and the rest may be no number.
  low = l.select(l.abs(high) > 1100.0, 0.0, low);
  Lane result = exp2OfSum(l, high, low);
  // Parity: numbers of 2^53 and more are even integers, those of 2^52 and more integers.
  Lane clamped = l.atMost(b, 0x1p53), half = clamped * 0.5;
  Lane isInteger = (clamped >= 0x1p52) | ((clamped + 0x1p52) - 0x1p52 == clamped);
  Lane isEven = (half + 0x1p52) - 0x1p52 == half;
  Lane truth = l.constant(isEven, 1);
  result = l.select(isInteger & (isEven ^ truth), l.copysign(result, x), result);
  Lane undefined = (x < 0.0) & (a < infinity) & (isInteger ^ truth);
  result = l.select(undefined, std::nan(""), result);
  // 1^y and x^0 are 1 for every other operand; so is (-1)^y of infinite y.
  return l.select((x == 1.0) | (b == 0.0) | ((a == 1.0) & (b == infinity)), 1.0, result);
}

} // namespace nereid::cpu
