// sin, cos, tan, and sin and cos of pi times the argument in f32.
//
// x = k pi/2 + r + e with r rounded and e the rounding error, then a polynomial in r corrected by
// e. Up to 2^16 by subtracting k times pi/2 in three parts (Cody and Waite); beyond, under a branch
// that is taken when any lane needs it, by multiplying the mantissa with the bits of 2/pi that
// matter (Payne and Hanek).
#include "support/Coefficients.h"
#include "targets/cpu/math/Emitters.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cmath>
#include <limits>

namespace nereid::cpu {
namespace {

using llvm::ArrayRef;

constexpr double largest = 65536.0; // of the short reduction
constexpr double magic = 0x1.8p23;

struct Reduced {
  Lane r, e;
  Lane quadrant; // i32, modulo 4
};

Reduced splitF64(const LaneBuilder &l, Lane wide, Lane quadrant, mlir::Type narrow) {
  Lane r = l.convert<mlir::arith::TruncFOp>(wide, narrow);
  Lane back = l.convert<mlir::arith::ExtFOp>(r, wide.element());
  return {r, l.convert<mlir::arith::TruncFOp>(wide - back, narrow), quadrant};
}

// For |x| up to `largest`.
Reduced reduceShort(const LaneBuilder &l, Lane x) {
  Lane t = l.fma(x, 0x1.45f306p-1, magic);
  Lane k = t - magic, quadrant = l.bits(t);
  if (!l.features.fma) {
    // Products with the first part, of 33 bits, are exact in f64.
    mlir::Type wide = l.builder.getF64Type();
    Lane xWide = l.convert<mlir::arith::ExtFOp>(x, wide),
         kWide = l.convert<mlir::arith::ExtFOp>(k, wide);
    Lane r = (xWide - kWide * 0x1.921fb544p0) - kWide * 0x1.0b4611a626331p-34;
    return splitF64(l, r, quadrant, x.element());
  }
  Lane first = l.fma(k, -0x1.921fb6p0, x); // exact
  // The second product in two floats: near a multiple of pi/2 nearly all of it cancels.
  Lane second = k * 0x1.777a5cp-25, below = l.fma(k, 0x1.777a5cp-25, 0.0 - second);
  Lane r = first + second;
  Lane e = ((first - r) + second) + below;
  return {r, l.fma(k, 0x1.ee59dap-50, e), quadrant};
}

// For any |x| >= 2.
Reduced reduceLong(const LaneBuilder &l, Lane x) {
  Lane bits = l.bits(x);
  Lane mantissa = ((bits & 0x7fffff) | 0x800000) << 8; // x = +-mantissa * 2^(exponent - 31)
  Lane start = ((bits >> 23) & 255) - 128; // exponent - 1: where the window of 2/pi starts
  Lane word = start >> 5, shift = start & 31;
  // 2/pi after 32 zero bits. A window of 96 bits from `start` on times the mantissa gives x 2/pi
  // modulo 4.
  static const int64_t table[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                  0xf534ddc0, 0xdb629599, 0x3c439041};
  Lane is1 = word == 1, is2 = word == 2, is3 = word == 3;
  auto tableWord = [&](int i) {
    Lane w = l.constant(bits, table[i]);
    w = l.select(is1, table[i + 1], w);
    w = l.select(is2, table[i + 2], w);
    return l.select(is3, table[i + 3], w);
  };
  Lane words[4] = {tableWord(0), tableWord(1), tableWord(2), tableWord(3)};
  mlir::Type i64 = l.builder.getI64Type();
  Lane m = l.convert<mlir::arith::ExtUIOp>(mantissa, i64);
  auto product = [&](int i) {
    Lane window = (words[i] << shift) | ((words[i + 1] >> 1) >> (31 - shift));
    return m * l.convert<mlir::arith::ExtUIOp>(window, i64);
  };
  Lane turns = (product(0) << 32) + product(1) + (product(2) >> 32); // 2^62 is a quarter
  Lane quadrantWide = (turns + (int64_t(1) << 61)) >> 62;
  Lane fraction = turns - (quadrantWide << 62);
  mlir::Type f64 = l.builder.getF64Type();
  Lane r = l.convert<mlir::arith::SIToFPOp>(fraction, f64) * 0x1.921fb54442d18p-62;
  Lane quadrant = l.convert<mlir::arith::TruncIOp>(quadrantWide, bits.element());
  Lane negative = x < 0.0;
  r = l.select(negative, 0.0 - r, r);
  r = l.select(l.convert<mlir::arith::ExtFOp>(l.abs(x), f64) <
                   std::numeric_limits<double>::infinity(),
               r, l.constant(r, std::nan("")));
  return splitF64(l, r, l.select(negative, 0 - quadrant, quadrant), x.element());
}

Reduced reduce(const LaneBuilder &l, Lane x) {
  Reduced fast = reduceShort(l, x);
  Lane isLarge = l.abs(x) > largest;
  auto choice = mlir::scf::IfOp::create(
      l.builder, l.loc, anyLane(l, isLarge),
      [&](mlir::OpBuilder &inner, mlir::Location loc) {
        LaneBuilder in(inner, loc, l.features);
        Reduced slow = reduceLong(in, in(x.get()));
        mlir::scf::YieldOp::create(inner, loc,
                                   {in.select(isLarge, slow.r, fast.r).get(),
                                    in.select(isLarge, slow.e, fast.e).get(),
                                    in.select(isLarge, slow.quadrant, fast.quadrant).get()});
      },
      [&](mlir::OpBuilder &inner, mlir::Location loc) {
        mlir::scf::YieldOp::create(inner, loc, {fast.r.get(), fast.e.get(), fast.quadrant.get()});
      });
  return {l(choice.getResult(0)), l(choice.getResult(1)), l(choice.getResult(2))};
}

struct Both {
  Lane sine, cosine;
  Lane quadrant; // how many quarters the argument was turned back for these
};

// Of r + e, at most pi/4, e small.
Both sinCosReduced(const LaneBuilder &l, Reduced x) {
  auto [r, e, quadrant] = x;
  Lane z = r * r;
  Lane sine = r + l.fma(r * z, l.polynomial(z, coefficients::sinF32), e);
  // 1 - z/2 rounded, and what the rounding lost.
  Lane half = z * 0.5, high = 1.0 - half, low = (1.0 - high) - half;
  Lane cosine = high + l.fma(z * z, l.polynomial(z, coefficients::cosF32), low - r * e);
  return {sine, cosine, quadrant};
}

Both sinCos(const LaneBuilder &l, Lane x) {
  return sinCosReduced(l, reduce(l, x));
}

Lane chosen(const LaneBuilder &l, const Both &both) {
  Lane y = l.select((both.quadrant & 1) == 1, both.cosine, both.sine);
  return l.asFloat(l.bits(y) ^ ((both.quadrant & 2) << 30));
}

// sin(x + turns * pi/2).
Lane sinShifted(const LaneBuilder &l, Lane x, int turns) {
  Both both = sinCos(l, x);
  if (turns)
    both.quadrant = both.quadrant + turns;
  return chosen(l, both);
}

// sin(pi (x + turns / 2)); with FMA only.
Lane sinPi(const LaneBuilder &l, Lane x, int turns) {
  constexpr double pi = 0x1.921fb6p1, piLow = -0x1.777a5cp-24;
  Lane a = l.abs(x), zero = l.constant(x, 0.0), tiny = a < 0x1p-14;
  // Beyond 2^24 all are even integers.
  Lane inRange = l.select(tiny, 0.0, l.select(a < 0x1p24, x, zero));
  // x modulo 2: first to the nearest even number, which is exact.
  Lane rounded = l(mlir::math::RoundEvenOp::create(l.builder, l.loc, (inRange * 0.5).get()));
  Lane turn = inRange - (rounded + rounded);
  Lane t = (turn + turn) + magic, rest = turn - (t - magic) * 0.5;
  Lane r = rest * pi, e = l.fma(rest, piLow, l.fma(rest, pi, 0.0 - r));
  Lane y = chosen(l, sinCosReduced(l, {r, e, l.bits(t) + turns}));
  if (turns)
    y = l.select(y == 0.0, zero, y);
  else
    // The zeros at even integers have the argument's sign, all others are positive.
    y = l.select(y == 0.0, l.select(turn == 0.0, l.copysign(zero, x), zero), y);
  // The sine of tiny ones is pi times the argument.
  if (!turns)
    y = l.select(tiny, l.copysign(l.fma(x, pi, x * piLow), x), y);
  return l.select(a < std::numeric_limits<double>::infinity(), y, l.constant(x, std::nan("")));
}

} // namespace

Lane sinF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0];
  Lane tiny = l.abs(x) < 0x1p-12; // the result is the argument; keeps -0
  return l.select(tiny, x, sinShifted(l, l.select(tiny, 0.0, x), 0));
}

Lane cosF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  // The fourth power of a smaller argument would be subnormal.
  return sinShifted(l, l.abs(operands[0]) + 0x1p-30, 1);
}

Lane sinpiF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return sinPi(l, operands[0], 0);
}
Lane cospiF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  return sinPi(l, operands[0], 1);
}

Lane tanF32(const LaneBuilder &l, ArrayRef<Lane> operands) {
  Lane x = operands[0];
  Lane tiny = l.abs(x) < 0x1p-13; // the result is the argument
  auto [sine, cosine, quadrant] = sinCos(l, l.select(tiny, 0x1p-13, x));
  Lane turned = (quadrant & 1) == 1;
  Lane y = l.select(turned, 0.0 - cosine, sine) / l.select(turned, sine, cosine);
  return l.select(tiny, x, y);
}

} // namespace nereid::cpu
