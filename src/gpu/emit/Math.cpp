// Elementary functions.
//
// fp32 is done here, without a library: the hardware's approximations (2^x, roots) where they are
// accurate enough, and otherwise the classical scheme: reduce the argument, a minimax polynomial on
// what remains (support/Coefficients.h), put the power back. fp64 functions without an instruction,
// and the rare fp32 ones, are calls of the target's math library.
#include "gpu/emit/Elements.h"
#include "gpu/emit/FloatBounds.h"

#include "support/Coefficients.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace nereid::gpu {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// An f32 or i32 (or f64, i64) with the operators of its arithmetic.
struct Number {
  Emitter *e;
  llvm::Value *value;

  bool isFloat() const { return value->getType()->isFloatingPointTy(); }
  Number operator()(llvm::Value *other) const { return {e, other}; }
  Number constant(double number) const {
    if (isFloat())
      return (*this)(llvm::ConstantFP::get(value->getType(), number));
    return (*this)(llvm::ConstantInt::get(value->getType(), int64_t(number), /*IsSigned=*/true,
                                          /*ImplicitTrunc=*/true));
  }
};

#define NEREID_OPERATOR(op, Float, Int)                                                            \
  Number operator op(Number a, Number b) {                                                         \
    return a(a.isFloat() ? a.e->b.Create##Float(a.value, b.value)                                  \
                         : a.e->b.Create##Int(a.value, b.value));                                  \
  }                                                                                                \
  Number operator op(Number a, double b) {                                                         \
    return a op a.constant(b);                                                                     \
  }
NEREID_OPERATOR(+, FAdd, Add)
NEREID_OPERATOR(-, FSub, Sub)
NEREID_OPERATOR(*, FMul, Mul)
NEREID_OPERATOR(<, FCmpOLT, ICmpSLT)
NEREID_OPERATOR(>, FCmpOGT, ICmpSGT)
NEREID_OPERATOR(==, FCmpOEQ, ICmpEQ)
#undef NEREID_OPERATOR
#define NEREID_OPERATOR(op, Int)                                                                   \
  Number operator op(Number a, Number b) {                                                         \
    return a(a.e->b.Create##Int(a.value, b.value));                                                \
  }                                                                                                \
  Number operator op(Number a, int64_t b) {                                                        \
    return a op a.constant(double(b));                                                             \
  }
NEREID_OPERATOR(&, And)
NEREID_OPERATOR(|, Or)
NEREID_OPERATOR(<<, Shl)
NEREID_OPERATOR(>>, LShr)
#undef NEREID_OPERATOR

Number operator^(Number a, Number b) {
  return a(a.e->b.CreateXor(a.value, b.value));
}
Number fma(Number a, Number b, Number c) {
  return a(a.e->b.CreateIntrinsic(llvm::Intrinsic::fma, {a.value->getType()},
                                  {a.value, b.value, c.value}));
}
Number fma(Number a, double b, Number c) {
  return fma(a, a.constant(b), c);
}
Number fma(Number a, double b, double c) {
  return fma(a, a.constant(b), a.constant(c));
}
Number fma(Number a, Number b, double c) {
  return fma(a, b, a.constant(c));
}
/// A product that is never contracted into a sum.
Number product(Number a, Number b) {
  return a(a.e->roundedProduct(a.value, b.value));
}
Number product(Number a, double b) {
  return product(a, a.constant(b));
}
Number select(Number condition, Number a, Number b) {
  return a(a.e->b.CreateSelect(condition.value, a.value, b.value));
}
Number select(Number condition, double a, Number b) {
  return select(condition, b.constant(a), b);
}
Number abs(Number a) {
  return a(a.e->b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a.value));
}
Number copysign(Number magnitude, Number sign) {
  return sign(
      sign.e->b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude.value, sign.value));
}
Number bits(Number a) {
  return a(a.e->b.CreateBitCast(a.value, a.e->b.getInt32Ty()));
}
Number asFloat(Number a) {
  return a(a.e->b.CreateBitCast(a.value, a.e->b.getFloatTy()));
}
Number arithmeticShift(Number a, int count) {
  return a(a.e->b.CreateAShr(a.value, count));
}
/// The smaller (larger) one; the number where the other is NaN.
Number least(Number a, double b) {
  return a(a.e->b.CreateBinaryIntrinsic(llvm::Intrinsic::minnum, a.value, a.constant(b).value));
}
/// c[0] + c[1] * x + ... by Horner's rule.
template <size_t count> Number polynomial(Number x, const double (&c)[count]) {
  Number sum = x.constant(c[count - 1]);
  for (size_t i = count - 1; i-- > 0;)
    sum = fma(sum, x, c[i]);
  return sum;
}

/// 2^x by the hardware, within 2 ulp; subnormal results are flushed.
Number exp2Flushed(Number x) {
  return x(x.e->exp2(x.value, /*flush=*/true));
}

constexpr double log2e = 0x1.715476p0, log2eLow = 0x1.4ae0cp-26;
// ln 2 in two parts; products of the first with integers below 2^9 are exact.
constexpr double ln2High = 0x1.62e4p-1, ln2Low = 0x1.7f7d1cp-20;

/// e^x = 2^k * 2^r with k = round(x log2 e) limited to normal powers. The limit comes free with an
/// fma that saturates to [0, 1], which is mapped to the range of k. Where k is limited r is large,
/// and the product with 2^k rounds a subnormal result once, or overflows. `once`: the result has
/// one use. If that is a sum, it takes the factors; a result that is used again would be multiplied
/// again, and both factors would live until then.
Number exp(Number x, bool once) {
  constexpr double lowest = -126, range = 253;
  Number share = x(x.e->saturatedFma(x.value, x.constant(log2e / range).value,
                                     x.constant(-lowest / range).value));
  // The sum's last bits are round(range * share) + 1 = k + 127, the exponent's code.
  constexpr double magic = 0x1.8p23 + 1;
  Number sum = fma(share, range, magic);
  Number k = sum - (magic - lowest);
  Number power = asFloat(bits(sum) << 23);
  Number r = fma(x, log2eLow, fma(x, log2e, k * -1.0));
  return once ? exp2Flushed(r) * power : product(exp2Flushed(r), power);
}

/// e^x for x <= 0, without subnormal results: 2^t (1 + d) with t a little below x log2 e and the
/// rest d = x - t ln 2, so that d >= 0. The saturation of d turns NaN, where x is minus infinity,
/// into 0. For x > 0 d is lost, a relative error of 2^-23.8 x.
Number expOfNotPositive(Number x) {
  constexpr double log2eAbove = 0x1.715478p0, ln2 = 0x1.62e43p-1, ln2Rest = -0x1.05c61p-29;
  Number t = x(x.e->productDown(x.value, x.constant(log2eAbove).value));
  Number minus = t * -1.0, most = fma(minus, ln2, x);
  Number d = x(x.e->saturatedFma(minus.value, x.constant(ln2Rest).value, most.value));
  Number power = exp2Flushed(t);
  return fma(power, d, power);
}

Number exp2(Number x) {
  return x(x.e->exp2(x.value, x.e->options.reflectFtz));
}

Number expm1(Number x) {
  constexpr double magic = 0x1.8p23;
  constexpr int64_t magicBits = 0x4b400000;
  Number limited = x(x.e->b.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, least(x, 89.0).value,
                                                  x.constant(-20.0).value));
  Number t = fma(limited, log2e, magic);
  Number n = t - magic;
  Number r = fma(n, -ln2Low, fma(n, -ln2High, limited));
  Number reduced = fma(r * r, polynomial(r, coefficients::expF32), r);
  // 2 (h p + (h - 1/2)) with h = 2^(n-1), because 2^128 is no float.
  Number h = asFloat((bits(t) - double(magicBits - 126)) << 23);
  Number y = fma(h, reduced, h - 0.5) * 2.0;
  y = select(abs(x) < 0x1p-25, x, y);
  return select(x == x, y, x);
}

struct Logarithm {
  Number exponent; // as a float
  Number f;        // mantissa - 1, the mantissa in [sqrt(1/2), sqrt(2))
  Number rest;     // log(1 + f) - f
};

/// For positive finite numbers, subnormals too.
Logarithm splitLog(Number x) {
  Number subnormal = x < 0x1p-126;
  Number code = bits(select(subnormal, x * 0x1p23, x));
  Number exponent = arithmeticShift(code - 0x3f3504f3, 23);
  Number f = asFloat(code - (exponent << 23)) - 1.0;
  Number offset = select(subnormal, -23.0, x.constant(0));
  Number wide = x(x.e->b.CreateSIToFP(exponent.value, x.value->getType())) + offset;
  return {wide, f, fma(f, polynomial(f, coefficients::logF32), -0.5) * (f * f)};
}

/// The logarithm's special values, whatever its base.
Number logSpecials(Number x, Number y) {
  y = select(x < infinity, y, x); // infinity, NaN
  y = select(x == 0.0, -infinity, y);
  return select(x < 0.0, std::nan(""), y);
}

Number log(Number x) {
  auto [exponent, f, rest] = splitLog(x);
  return logSpecials(x, fma(exponent, ln2High, f + fma(exponent, ln2Low, rest)));
}

Number log2(Number x) {
  auto [exponent, f, rest] = splitLog(x);
  Number m = f + rest;
  return logSpecials(x, fma(m, log2e, fma(m, log2eLow, exponent)));
}

Number log1p(Number x) {
  // 1 + x = u + c exactly; log(u + c) = log(u) + c / u.
  Number u = x + 1.0;
  Number c = select(x < 1.0, x - (u - 1.0), x.constant(1.0) - (u - x));
  auto [exponent, f, rest] = splitLog(u);
  Number quotient = x(x.e->divide(c.value, u.value));
  Number y = fma(exponent, ln2High, f + fma(exponent, ln2Low, rest + quotient));
  y = select(x < infinity, y, x);
  y = select(x == -1.0, -infinity, y);
  y = select(x < -1.0, std::nan(""), y);
  return select(abs(x) < 0x1p-25, x, y);
}

Number erf(Number x) {
  Number a = abs(x);
  Number small = fma(x, polynomial(x * x, coefficients::erfSmallF32), x);
  // 1 - erfc, with log2(erfc) a polynomial: erfc is below 0.16 here, so its error counts little.
  Number erfc = exp2Flushed(polynomial(least(a, 4.0), coefficients::erfLargeF32));
  Number large = copysign(x.constant(1.0) - erfc, x);
  return select(x == x, select(a < 1.0, small, large), x);
}

Number tanh(Number x) {
  Number a = abs(x), z = x * x;
  Number small = fma(a * z, polynomial(z, coefficients::tanhF32), a);
  Number e = exp2Flushed(least(a, 10.0) * (2 * log2e));
  Number quotient = x(x.e->divide(x.constant(2.0).value, (e + 1.0).value));
  Number y = select(a < 0.625, small, x.constant(1.0) - quotient);
  return select(x == x, copysign(y, x), x);
}

//===--- sine and cosine
//--------------------------------------------------------------------------===//

/// x = k pi/2 + r + e with r rounded and e its error; k modulo 4.
struct Reduced {
  Number r, e, quadrant;
};

/// For |x| up to 2^16: k times pi/2 taken away in three parts (Cody and Waite).
Reduced reduceShort(Number x) {
  constexpr double magic = 0x1.8p23;
  Number t = fma(x, 0x1.45f306p-1, magic);
  Number k = t - magic;
  Number first = fma(k, -0x1.921fb6p0, x); // exact
  // The second product in two floats: near a multiple of pi/2 nearly all of it cancels.
  Number second = product(k, 0x1.777a5cp-25), below = fma(k, 0x1.777a5cp-25, second * -1.0);
  Number r = first + second;
  Number e = ((first - r) + second) + below;
  return {r, fma(k, 0x1.ee59dap-50, e), bits(t)};
}

/// For any |x| >= 2: the mantissa times the bits of 2/pi that matter (Payne and Hanek).
Reduced reduceLong(Number x) {
  Emitter &e = *x.e;
  llvm::Type *i64 = e.b.getInt64Ty(), *f64 = e.b.getDoubleTy();
  Number code = bits(x);
  Number mantissa = ((code & 0x7fffff) | 0x800000) << 8; // x = +-mantissa * 2^(exponent - 31)
  Number start = ((code >> 23) & 255) - 128.0;           // where the window of 2/pi starts
  Number word = start >> 5, shift = start & 31;
  // 2/pi after 32 zero bits. A window of 96 bits from `start` on times the mantissa gives x 2/pi
  // modulo 4.
  constexpr int64_t table[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                               0xf534ddc0, 0xdb629599, 0x3c439041};
  Number words[4] = {code, code, code, code};
  for (int i = 0; i < 4; ++i) {
    Number w = code.constant(double(table[i]));
    for (int step = 1; step < 4; ++step)
      w = select(word == double(step), double(table[i + step]), w);
    words[i] = w;
  }
  auto wide = [&](Number a) { return a(e.b.CreateZExt(a.value, i64)); };
  auto part = [&](int i) {
    llvm::Value *window = e.b.CreateIntrinsic(llvm::Intrinsic::fshl, {e.b.getInt32Ty()},
                                              {words[i].value, words[i + 1].value, shift.value});
    return wide(mantissa) * wide(x(window));
  };
  Number turns = (part(0) << 32) + part(1) + (part(2) >> 32); // 2^62 is a quarter
  Number quadrant = x(e.b.CreateLShr(
      e.b.CreateAdd(turns.value, llvm::ConstantInt::get(i64, int64_t(1) << 61)), 62));
  Number fraction = turns - (quadrant << 62);
  Number r = x(e.b.CreateSIToFP(fraction.value, f64)) * 0x1.921fb54442d18p-62;
  Number narrow = x(e.b.CreateTrunc(quadrant.value, e.b.getInt32Ty()));
  Number negative = x < 0.0;
  r = select(negative, r * -1.0, r);
  r = select(abs(x) < infinity, r, r.constant(std::nan("")));
  Number high = x(e.b.CreateFPTrunc(r.value, x.value->getType()));
  Number low = r - x(e.b.CreateFPExt(high.value, f64));
  return {high, x(e.b.CreateFPTrunc(low.value, x.value->getType())),
          select(negative, narrow.constant(0) - narrow, narrow)};
}

/// sin(x + turns * pi/2).
Number sinShifted(Number x, int turns) {
  Reduced near = reduceShort(x);
  Values reduced =
      x.e->when((abs(x) > 65536.0).value, {near.r.value, near.e.value, near.quadrant.value}, [&] {
        Reduced far = reduceLong(x);
        return Values{far.r.value, far.e.value, far.quadrant.value};
      });
  Number r = x(reduced[0]), e = x(reduced[1]), quadrant = x(reduced[2]) + double(turns);
  Number z = r * r;
  Number sine = r + fma(r * z, polynomial(z, coefficients::sinF32), e);
  // 1 - z/2 rounded, and what the rounding lost.
  Number half = product(z, 0.5), high = z.constant(1.0) - half,
         low = (z.constant(1.0) - high) - half;
  Number cosine = high + fma(z * z, polynomial(z, coefficients::cosF32), fma(r * -1.0, e, low));
  Number y = select((quadrant & 1) == 1.0, cosine, sine);
  return asFloat(bits(y) ^ ((quadrant & 2) << 30));
}

Number sin(Number x) {
  return select(abs(x) < 0x1p-12, x, sinShifted(x, 0)); // keeps -0
}
Number cos(Number x) {
  return sinShifted(x, 1);
}

//===--- the table
//--------------------------------------------------------------------------------===//

Number sqrt(Number x) {
  return x(x.e->squareRoot(x.value));
}
Number rsqrt(Number x) {
  return x(x.e->reciprocalSquareRoot(x.value));
}

/// A function of floats: how fp32 is done (null: by the library), LLVM's intrinsic that serves
/// every type, and the function of the math library for fp64.
struct Row {
  StringRef name;
  Number (*f32)(Number);
  llvm::Intrinsic::ID everyType;
  StringRef library;
};
constexpr llvm::Intrinsic::ID none = llvm::Intrinsic::not_intrinsic;
const Row table[] = {
    {"math.absf", nullptr, llvm::Intrinsic::fabs, ""},
    {"math.acos", nullptr, none, "acos"},
    {"math.acosh", nullptr, none, "acosh"},
    {"math.asin", nullptr, none, "asin"},
    {"math.asinh", nullptr, none, "asinh"},
    {"math.atan", nullptr, none, "atan"},
    {"math.atan2", nullptr, none, "atan2"},
    {"math.atanh", nullptr, none, "atanh"},
    {"math.cbrt", nullptr, none, "cbrt"},
    {"math.ceil", nullptr, llvm::Intrinsic::ceil, ""},
    {"math.copysign", nullptr, llvm::Intrinsic::copysign, ""},
    {"math.cos", cos, none, "cos"},
    {"math.cosh", nullptr, none, "cosh"},
    {"math.erf", erf, none, "erf"},
    {"math.erfc", nullptr, none, "erfc"},
    {"math.exp", nullptr, none, "exp"},
    {"math.exp2", exp2, none, "exp2"},
    {"math.expm1", expm1, none, "expm1"},
    {"math.floor", nullptr, llvm::Intrinsic::floor, ""},
    {"math.fma", nullptr, llvm::Intrinsic::fma, ""},
    {"math.log", log, none, "log"},
    {"math.log10", nullptr, none, "log10"},
    {"math.log1p", log1p, none, "log1p"},
    {"math.log2", log2, none, "log2"},
    {"math.powf", nullptr, none, "pow"},
    {"math.round", nullptr, llvm::Intrinsic::round, ""},
    {"math.roundeven", nullptr, llvm::Intrinsic::rint, ""},
    {"math.rsqrt", rsqrt, none, "rsqrt"},
    {"math.sin", sin, none, "sin"},
    {"math.sinh", nullptr, none, "sinh"},
    {"math.sqrt", sqrt, llvm::Intrinsic::sqrt, ""},
    {"math.tan", nullptr, none, "tan"},
    {"math.tanh", tanh, none, "tanh"},
    {"math.trunc", nullptr, llvm::Intrinsic::trunc, ""},
};

/// Functions of integers.
llvm::Value *integerElement(Emitter &e, Operation *op, llvm::ArrayRef<llvm::Value *> in) {
  if (isa<math::AbsIOp>(op))
    return e.b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, in[0], e.b.getFalse());
  if (isa<math::CtPopOp>(op))
    return e.b.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, in[0]);
  if (isa<math::CountLeadingZerosOp>(op))
    return e.b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, in[0], e.b.getFalse());
  if (isa<math::CountTrailingZerosOp>(op))
    return e.b.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, in[0], e.b.getFalse());
  return nullptr;
}

} // namespace

llvm::Value *floatRemainder(Emitter &e, llvm::Value *lhs, llvm::Value *rhs) {
  llvm::IRBuilder<> &b = e.b;
  llvm::Type *type = lhs->getType(), *f32 = b.getFloatTy(), *f64 = b.getDoubleTy();
  if (type->isHalfTy() || type->isBFloatTy())
    return b.CreateFPTrunc(floatRemainder(e, b.CreateFPExt(lhs, f32), b.CreateFPExt(rhs, f32)),
                           type);
  if (type->isDoubleTy()) {
    llvm::CallInst *call = e.external(e.librarySymbol("fmod", /*fp32=*/false), type, {lhs, rhs});
    call->setDoesNotAccessMemory();
    return call;
  }
  Number x{&e, lhs}, y{&e, rhs};
  Number a = abs(x), m = abs(y);
  // A whole quotient n that is exact or one too large leaves a difference that fits into a float.
  auto step = [&](Number r, Number s) {
    Number n = r(b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, b.CreateFDiv(r.value, s.value)));
    Number rest = fma(n * -1.0, s, r);
    return select(rest < 0.0, rest + s, rest);
  };
  Number direct = select(a < m, a, step(a, m));
  // Large quotients: 50 bits at a time, in f64, which has every multiple of the divisor that
  // occurs.
  Number isLarge = (m * 0x1p22 < a) & (a < infinity) & (m > 0.0);
  Values result = e.when(isLarge.value, {direct.value}, [&]() -> Values {
    auto wide = [&](Number value) { return value(b.CreateFPExt(value.value, f64)); };
    auto code = [&](Number value) { return value(b.CreateBitCast(value.value, b.getInt64Ty())); };
    Number dividend = wide(a), divisor = wide(m);
    llvm::BasicBlock *before = b.GetInsertBlock(), *loop = e.block("remainder"),
                     *after = e.block("remainder.end");
    b.CreateBr(loop);
    e.enter(loop);
    auto *phi = b.CreatePHI(f64, 2);
    phi->addIncoming(dividend.value, before);
    Number r = x(phi);
    Number distance = (code(r) >> 52) - (code(divisor) >> 52) - 50.0;
    Number shift = select(distance < 0.0, 0.0, distance);
    Number scaled = x(b.CreateBitCast((code(divisor) + (shift << 52)).value, f64));
    Number rest = step(r, scaled);
    phi->addIncoming(rest.value, b.GetInsertBlock());
    b.CreateCondBr((shift > 0.0).value, loop, after);
    e.enter(after);
    return {b.CreateFPTrunc(rest.value, f32)};
  });
  Number magnitude = x(result[0]);
  Number undefined = (a == infinity) | (m == 0.0);
  magnitude = select(undefined, std::nan(""), magnitude);
  magnitude = select(y == y, magnitude, y);
  return copysign(magnitude, x).value;
}

llvm::Value *emitMath(Emitter &e, Operation *op, llvm::ArrayRef<llvm::Value *> in) {
  StringRef name = op->getName().getStringRef();
  const Row *row = llvm::lower_bound(
      table, name, [](const Row &row, StringRef name) { return row.name < name; });
  if (row == std::end(table) || row->name != name)
    return integerElement(e, op, in);
  llvm::Type *type = in[0]->getType();
  bool keepsNarrow = isa<math::AbsFOp, math::CopySignOp, math::FmaOp>(op);
  if ((type->isHalfTy() || type->isBFloatTy()) && !keepsNarrow) {
    Values wide;
    for (llvm::Value *value : in)
      wide.push_back(e.b.CreateFPExt(value, e.b.getFloatTy()));
    return e.b.CreateFPTrunc(emitMath(e, op, wide), type);
  }
  if (type->isFloatTy() && isa<math::ExpOp>(op) && e.options.reflectFtz && hasNoPositiveOperand(op))
    return expOfNotPositive({&e, in[0]}).value;
  if (type->isFloatTy() && isa<math::ExpOp>(op))
    return exp({&e, in[0]}, op->hasOneUse()).value;
  if (type->isFloatTy() && row->f32)
    return row->f32({&e, in[0]}).value;
  if (row->everyType != none)
    return e.b.CreateIntrinsic(row->everyType, {type}, in);
  if (isa<math::RsqrtOp>(op)) // within 1 ulp
    return e.b.CreateFDiv(llvm::ConstantFP::get(type, 1.0),
                          e.b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, in[0]));
  llvm::CallInst *call = e.external(e.librarySymbol(row->library, type->isFloatTy()), type, in);
  call->setDoesNotAccessMemory();
  call->setDoesNotThrow();
  return call;
}

} // namespace nereid::gpu
