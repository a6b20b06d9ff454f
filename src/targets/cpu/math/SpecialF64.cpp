// The gamma function, its logarithm, and the inverses of erf in f64.
#include "support/Coefficients.h"
#include "targets/cpu/math/RareLanes.h"

#include <cmath>
#include <limits>

namespace nereid::cpu {
namespace {

using llvm::ArrayRef;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// What a gamma function of arguments below 8 is made of: that of 2 + d, between 1.25 and 2.5, and
/// the factors between the two. They divide it where `isLess` holds.
struct Moved {
  Lane d, next; // next: 1 + d
  Lane factors, isLess;
};
Moved movedByInteger(const LaneBuilder &l, Lane x) {
  constexpr double magic = 0x1.8p52;
  Lane limited = l.atMost(x, 8.0), one = l.constant(x, 1.0);
  Lane m = (limited + magic) - magic;
  m = l.select((limited >= 1.25) & (limited < 2.0), 2.0, m);
  Lane d = limited - m, next = d + 1.0;
  Lane factors = l.select(m == 0.0, d * next, l.select(m == 1.0, next, one));
  for (int i = 2; i < 8; ++i)
    factors = factors * l.select(m > double(i), d + double(i), one);
  return {d, next, factors, m < 2.0};
}

/// What log(gamma(a)) is above (a - 1/2) (log(a) - 1), for a >= 8.
Lane stirling(const LaneBuilder &l, Lane a) {
  static constexpr double series[] = {1.0 / 12,   -1.0 / 360,      1.0 / 1260, -1.0 / 1680,
                                      1.0 / 1188, -691.0 / 360360, 1.0 / 156,  -3617.0 / 122400};
  constexpr double halfLog2PiLessHalf = 0x1.acfe390c97d69p-2;
  Lane inverse = 1.0 / l.atLeast(l.atMost(a, 0x1p100), 8.0);
  return l.fma(inverse, l.polynomial(inverse * inverse, series), halfLog2PiLessHalf);
}

/// log(gamma(a)) of a >= 0. From 8 on by Stirling's series; of smaller arguments the function of
/// 2 + d is d (1 + d) times a polynomial, and the factors have one logarithm.
Lane logGammaOfPositive(const LaneBuilder &l, Lane a) {
  Lane isLarge = a >= 8.0;
  auto [d, next, factors, isLess] = movedByInteger(l, a);
  Lane log = logF64(l, {l.select(isLarge, a, factors)});
  Lane small = l.select(isLess, 0.0 - log, log);
  small = l.fma(d * next, l.polynomial(d, coefficients::logGammaF64), small);
  return l.select(isLarge, l.fma(a - 0.5, log - 1.0, stirling(l, a)), small);
}

/// The base-2 logarithm of gamma(a), 8 <= a <= 190.
TwoParts log2Gamma(const LaneBuilder &l, Lane a) {
  constexpr double log2e = 0x1.71547652b82fep0, log2eLow = 0x1.777d0ffda0d24p-56;
  auto [log, logLow] = log2InParts(l, a);
  // (a - 1/2) log2(a) - (a - 1/2) log2(e) + the rest, whose error counts less.
  Lane b = a - 0.5, p = b * log, q = b * log2e, rest = stirling(l, a) * log2e;
  Lane difference = p - q, high = difference + rest;
  Lane low = ((p - difference) - q) + ((difference - high) + rest);
  low = low + (l.fma(b, log, 0.0 - p) - l.fma(b, log2e, 0.0 - q));
  return {high, low + b * (logLow - log2eLow)};
}

/// erfinv(x) / x of w = -log(1 - x^2), a polynomial on each of four ranges.
Lane inverseOfErfOverX(const LaneBuilder &l, Lane w) {
  Lane near = l.polynomial(w - 2.5, coefficients::erfinvNearLongF64);
  return unlessAny(l, w >= 5.0, near, [&](const LaneBuilder &in, Lane y) {
    Lane inside = in(w.get());
    Lane root = in(mlir::math::SqrtOp::create(in.builder, in.loc, inside.get()));
    Lane middle = in.polynomial(root - 3.0, coefficients::erfinvMiddleLongF64);
    y = in.select(inside >= 5.0, middle, y);
    return unlessAny(in, inside >= 16.0, y, [&](const LaneBuilder &far, Lane y) {
      Lane inside = far(w.get()), r = far(root.get());
      y = far.select(inside >= 16.0, far.polynomial(r - 7.0, coefficients::erfinvFarLongF64), y);
      Lane last = far.polynomial(r - 18.5, coefficients::erfinvFarthestLongF64);
      return far.select(inside >= 105.0, last, y);
    });
  });
}

} // namespace

Lane lgammaF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], a = l.abs(x);
  Lane y =
      unlessAny(l, x < 0.0, logGammaOfPositive(l, a), [&](const LaneBuilder &in, Lane positive) {
        // gamma(a) gamma(-a) = -pi / (a sin(pi a)). Of the tiny ones both have the same logarithm.
        Lane inside = in(x.get()), b = in(a.get());
        Lane product = b * in.abs(sinpiF64(in, {b}));
        Lane log = logF64(in, {0x1.921fb54442d18p1 / in.select(b < 0x1p-60, 1.0, product)});
        Lane y = in.select((inside < 0.0) & (b >= 0x1p-60), log - positive, positive);
        return in.select((inside < 0.0) & (b >= 0x1p52), infinity, y); // an integer
      });
  return l.select(a == infinity, infinity, y);
}

Lane tgammaF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0], isNegative = x < -0.5, z = l.select(isNegative, 0.0 - x, x);
  auto [d, next, factors, isLess] = movedByInteger(l, z);
  Lane one = l.constant(x, 1.0), polynomial = l.polynomial(d, coefficients::gammaF64);
  Lane small = (polynomial * l.select(isLess, one, factors)) / l.select(isLess, factors, one);
  Lane isLarge = z >= 8.0;
  auto [log, logLow] = log2Gamma(l, l.atLeast(l.atMost(z, 190.0), 8.0));
  Lane y = l.select(isLarge, exp2OfSum(l, log, logLow), small);
  y = unlessAny(l, isNegative, y, [&](const LaneBuilder &in, Lane positive) {
    // gamma(z) gamma(-z) = -pi / (z sin(pi z)). Of large ones gamma(z) may overflow where the
    // quotient does not, so the inverse of its root is multiplied twice.
    Lane b = in(z.get()), sine = sinpiF64(in, {b});
    Lane quotient = -0x1.921fb54442d18p1 / (b * sine);
    Lane root = exp2OfSum(in, in(log.get()) * -0.5, in(logLow.get()) * -0.5);
    Lane mirrored = in.select(in(isLarge.get()), (quotient * root) * root, quotient / positive);
    mirrored = in.select(sine == 0.0, std::nan(""), mirrored);
    return in.select(in(isNegative.get()), mirrored, positive);
  });
  return l.select(x == 0.0, l.copysign(l.constant(x, infinity), x), y);
}

Lane erfinvF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0];
  Lane y = x * inverseOfErfOverX(l, 0.0 - logF64(l, {(1.0 - x) * (1.0 + x)}));
  return l.select(l.abs(x) == 1.0, l.copysign(l.constant(x, infinity), x), y);
}

Lane erfcinvF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane y = operands[0];
  Lane x = (1.0 - y) * inverseOfErfOverX(l, 0.0 - logF64(l, {y * (2.0 - y)}));
  x = l.select(y == 0.0, infinity, x);
  return l.select(y == 2.0, -infinity, x);
}

Lane normcdfinvF64(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane y = erfcinvF64(l, {operands[0] + operands[0]});
  return 0.0 - y * 0x1.6a09e667f3bcdp0; // +0 of 1/2
}

} // namespace nereid::cpu
