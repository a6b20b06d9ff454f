// Bessel functions of orders 0 and 1 in f64. Those in f32 are these, rounded (DeviceMath.cpp).
//
// J and Y are the two parts of one wave: J = M cos(x - (2n + 1) pi/4 + D), Y = M sin(the same),
// where sqrt(x) M and x D are smooth in 1/x from 2 to infinity. So they are computed from 2 (Y) or
// 8 (J) on: the angle is reduced with what it loses, and the zeros come out right. Below, J is a
// polynomial with its zeros taken out, and Y a logarithm times J and a polynomial.
#include "support/Coefficients.h"
#include "targets/cpu/math/RareLanes.h"

#include <cmath>
#include <limits>

namespace nereid::cpu {
namespace {

using llvm::ArrayRef;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double twoOverPi = 0x1.45f306dc9c883p-1;

/// A zero of a function: the nearest number and the rest.
struct Zero {
  double high, low;
};

// The first four zeros. Of the last two, beyond 8, the polynomial knows the nearest numbers.
constexpr Zero zerosOfJ0[] = {{0x1.33d152e971b40p+1, -0x1.0f539d7da258ep-53},
                              {0x1.6148f5b2c2e45p+2, 0x1.75054cd60a517p-54},
                              {0x1.14eb56cccdecap+3, 0},
                              {0x1.79544008272b6p+3, 0}};
constexpr Zero zerosOfJ1[] = {{0x1.ea75575af6f09p+1, -0x1.60155a9d1b256p-53},
                              {0x1.c0ff5f3b47250p+2, -0x1.b226d9d243827p-54},
                              {0x1.458d0d0bdfc29p+3, 0},
                              {0x1.aa5baf310e5a2p+3, 0}};
constexpr Zero zeroOfY0 = {0x1.c982eb8d417eap-1, 0x1.ea9d270347f83p-56};

/// x^2 - zero^2, as exact as x near the zero.
Lane fromZero(const LaneBuilder &l, Lane x, Zero zero) {
  Lane distance = x - zero.high;
  if (zero.low != 0)
    distance = distance - zero.low;
  return distance * (x + zero.high);
}

/// The square of numbers of 0 and more that is not subnormal.
Lane squared(const LaneBuilder &l, Lane x) {
  Lane normal = l.atLeast(x, 0x1p-60);
  return normal * normal;
}

/// The wave from 2 on, its phase turned by so many quarters.
template <size_t m, size_t p>
Lane wave(const LaneBuilder &l, Lane x, const double (&modulus)[m], const double (&phase)[p],
          int turns) {
  Lane inverse = 1.0 / x, s = inverse - 0.25;
  Lane root = l(mlir::math::SqrtOp::create(l.builder, l.loc, inverse.get()));
  Lane sine = sineOfPhase(l, x, l.polynomial(s, phase) * inverse, turns);
  return l.polynomial(s, modulus) * root * sine;
}

template <int order> Lane waveOf(const LaneBuilder &l, Lane x, int turns) {
  if constexpr (order == 0)
    return wave(l, x, coefficients::besselModulus0F64, coefficients::besselPhase0F64, turns);
  else
    return wave(l, x, coefficients::besselModulus1F64, coefficients::besselPhase1F64, turns - 1);
}

/// `y`, or the C library's function where angles are too large, of x >= 0; 0 at infinity.
Lane orLibrary(const LaneBuilder &l, Lane x, const char *name, Lane y) {
  Lane isInfinite = x == infinity;
  return l.select(isInfinite, 0.0, orLibm(l, l.select(isInfinite, 1.0, x), name, y));
}

template <int order> Lane besselJ(const LaneBuilder &l, Lane x) {
  Lane a = l.abs(x), b = l.atMost(a, 8.0);
  const auto &zeros = order ? zerosOfJ1 : zerosOfJ0;
  Lane product = fromZero(l, b, zeros[0]) * fromZero(l, b, zeros[1]);
  product = product * (fromZero(l, b, zeros[2]) * fromZero(l, b, zeros[3]));
  Lane t = squared(l, b) - 32.0;
  Lane near = order ? l.polynomial(t, coefficients::besselJ1F64) * b
                    : l.polynomial(t, coefficients::besselJ0F64);
  Lane y = unlessAny(l, a > 8.0, near * product, [&](const LaneBuilder &in, Lane small) {
    Lane large = in(a.get());
    return in.select(large > 8.0, waveOf<order>(in, in.atLeast(large, 8.0), 1), small);
  });
  y = orLibrary(l, a, order ? "j1" : "j0", y);
  return order ? y * l.copysign(l.constant(x, 1.0), x) : y;
}

/// x - quotient times the zero of Y0 (its nearest number), exact where that is near 0.
Lane rest(const LaneBuilder &l, Lane x, Lane quotient) {
  if (l.features.fma)
    return l.fma(quotient, -zeroOfY0.high, x);
  // In halves of 26 and 27 bits, whose products are exact.
  constexpr double upper = 0x1.c982eb8p-1, lower = zeroOfY0.high - upper;
  Lane high = l.asFloat(l.bits(quotient) & int64_t(0xfffffffff8000000)), low = quotient - high;
  return ((x - high * upper) - high * lower - low * upper) - low * lower;
}

/// Y below 2.
template <int order> Lane smallY(const LaneBuilder &l, Lane x) {
  Lane z = squared(l, x);
  if constexpr (order == 0) {
    // The logarithm of x over the zero, with what the quotient's rounding lost.
    Lane quotient = x * 0x1.1e7d3131dd6bap+0;
    Lane lost = l.fma(quotient, -zeroOfY0.low, rest(l, x, quotient));
    Lane log = logF64(l, {quotient}) + lost / x;
    return l.fma(log * twoOverPi, l.polynomial(z, coefficients::besselJ0SmallF64),
                 fromZero(l, x, zeroOfY0) * l.polynomial(z, coefficients::besselY0SmallF64));
  } else {
    Lane j = l.polynomial(z, coefficients::besselJ1SmallF64) * x;
    return l.fma(logF64(l, {x}) * twoOverPi, j,
                 l.polynomial(z, coefficients::besselY1SmallF64) * x) -
           twoOverPi / x;
  }
}

template <int order> Lane besselY(const LaneBuilder &l, Lane x) {
  Lane inside = l.select(x > 0.0, x, l.constant(x, 1.0));
  Lane far = waveOf<order>(l, l.atLeast(inside, 2.0), 0);
  Lane y = unlessAny(l, inside < 2.0, far, [&](const LaneBuilder &in, Lane large) {
    Lane all = in(inside.get());
    return in.select(all < 2.0, smallY<order>(in, in.atMost(all, 2.0)), large);
  });
  y = orLibrary(l, inside, order ? "y1" : "y0", y);
  y = l.select(x > 0.0, y, l.constant(y, std::nan("")));
  return l.select(x == 0.0, -infinity, y);
}

template <int order> Lane besselI(const LaneBuilder &l, Lane x) {
  Lane a = l.abs(x), b = l.atMost(a, 8.0), z = squared(l, b);
  Lane near = order ? l.polynomial(z, coefficients::besselI1F64) * b
                    : l.polynomial(z, coefficients::besselI0F64);
  Lane y = unlessAny(l, a > 8.0, near, [&](const LaneBuilder &in, Lane small) {
    // Infinite from 714 on. The exponential of so much less is finite where the result is.
    Lane all = in(a.get()), large = in.atLeast(in.atMost(all, 718.0), 8.0);
    Lane inverse = 1.0 / large, s = inverse - 0x1p-4;
    Lane root = in(mlir::math::SqrtOp::create(in.builder, in.loc, inverse.get()));
    Lane factor = order ? in.polynomial(s, coefficients::besselI1LargeF64)
                        : in.polynomial(s, coefficients::besselI0LargeF64);
    return in.select(all > 8.0, quarterExpF64(in, large - 8.0, 0) * (factor * root), small);
  });
  return order ? y * l.copysign(l.constant(x, 1.0), x) : y;
}

} // namespace

Lane j0F64(const LaneBuilder &l, ArrayRef<Lane> x) {
  return besselJ<0>(l, x[0]);
}
Lane j1F64(const LaneBuilder &l, ArrayRef<Lane> x) {
  return besselJ<1>(l, x[0]);
}
Lane y0F64(const LaneBuilder &l, ArrayRef<Lane> x) {
  return besselY<0>(l, x[0]);
}
Lane y1F64(const LaneBuilder &l, ArrayRef<Lane> x) {
  return besselY<1>(l, x[0]);
}
Lane i0F64(const LaneBuilder &l, ArrayRef<Lane> x) {
  return besselI<0>(l, x[0]);
}
Lane i1F64(const LaneBuilder &l, ArrayRef<Lane> x) {
  return besselI<1>(l, x[0]);
}

} // namespace nereid::cpu
