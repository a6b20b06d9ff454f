#include "targets/cpu/support_library/DeviceLibrary.h"

#include <bit>
#include <cfenv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

// glibc gave these new versions in 2.35, which older systems lack; the results are the same.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(NEREID_EMBEDDED)
__asm__(".symver hypot,hypot@GLIBC_2.2.5");
__asm__(".symver hypotf,hypotf@GLIBC_2.2.5");
#endif

namespace nereid::cpu {
namespace {

constexpr double pi = std::numbers::pi, infinity = std::numeric_limits<double>::infinity();

//===--- rounding
//----------------------------------------------------------------------------------===//

/// `compute(values...)` in another rounding mode. The volatile copies keep the arithmetic between
/// the two changes of the mode.
template <typename Compute, typename... Values>
auto rounded(int mode, Compute compute, Values... values) {
  int before = std::fegetround();
  std::fesetround(mode);
  auto run = [&](const volatile Values &...kept) { return compute(Values(kept)...); };
  volatile auto result = run(values...);
  std::fesetround(before);
  return decltype(compute(values...))(result);
}

template <typename To, typename From> To fromInteger(int mode, From value) {
  // Some conversions are a difference of equal numbers, which is -0 when rounding down.
  return value == 0 ? To(0) : rounded(mode, [](From v) { return To(v); }, value);
}

/// A float as an integer: rounded, limited to what the type holds; NaN gives its lowest bit pattern
/// with the sign bit alone (0 from fp32 to 32 bits).
template <typename To, typename From> To toInteger(int mode, From value) {
  constexpr bool narrow = sizeof(From) == 4 && sizeof(To) == 4;
  if (std::isnan(value))
    return narrow ? To(0) : To(uint64_t(1) << (8 * sizeof(To) - 1));
  From whole = mode == FE_TONEAREST    ? std::nearbyint(value)
               : mode == FE_TOWARDZERO ? std::trunc(value)
               : mode == FE_DOWNWARD   ? std::floor(value)
                                       : std::ceil(value);
  using Limits = std::numeric_limits<To>;
  if (whole < From(Limits::min()))
    return Limits::min();
  // The largest number itself may not be a float, the power of two above it is.
  if (whole >= std::ldexp(From(1), Limits::digits))
    return Limits::max();
  return To(whole);
}

//===--- special functions
//-------------------------------------------------------------------------===//

/// The z > 0 with erfc(z) = y, for 0 < y <= 1, within a few units in the last place: Winitzki's
/// closed form (2008) to three digits, then Halley's method, which triples their number each time.
double tailOfErfc(double y) {
  if (y == 0)
    return infinity;
  constexpr double a = 0.147;
  double s = std::log(y) + std::log1p(1 - y); // log((1 - x)(1 + x)) with x = 1 - y
  double t = 2 / (pi * a) + s / 2;
  double z = std::sqrt(std::fmax(std::sqrt(t * t - s / a) - t, 0));
  for (int round = 0; round < 3; ++round) {
    double slope = -2 / std::sqrt(pi) * std::exp(-z * z);
    if (slope == 0)
      break;
    double step = (std::erfc(z) - y) / slope;
    z -= step / (1 + z * step);
  }
  return z;
}

double erfcinv(double y) {
  if (!(y >= 0 && y <= 2))
    return std::nan("");
  return y > 1 ? -tailOfErfc(2 - y) : tailOfErfc(y);
}

/// The normal distribution. The argument of erfc is taken in two parts: far out its relative error
/// would count x^2 times.
double normcdf(double x) {
  constexpr double scale = -std::numbers::sqrt2 / 2, scaleLow = 0x1.bdd3413b26456p-55;
  double high = scale * x, low = std::fma(scale, x, -high) + scaleLow * x;
  double y = std::erfc(high);
  return std::isfinite(x) ? 0.5 * (y - 2 / std::sqrt(pi) * std::exp(-high * high) * low) : 0.5 * y;
}

double erfinv(double x) {
  double a = std::fabs(x);
  if (!(a <= 1))
    return std::nan("");
  if (a > 0.5) // 1 - a is exact
    return std::copysign(tailOfErfc(1 - a), x);
  double z = x * std::sqrt(pi) / 2 * (1 + x * x * (pi / 12));
  for (int round = 0; round < 3; ++round) {
    double step = (std::erf(z) - x) / (2 / std::sqrt(pi) * std::exp(-z * z));
    z -= step / (1 + z * step);
  }
  return z;
}

/// exp(x^2) erfc(x).
double erfcx(double x) {
  if (x > 25) { // the asymptotic series
    double step = 0.5 / (x * x), sum = 1;
    for (int k = 8; k > 0; --k)
      sum = 1 - (2 * k - 1) * step * sum;
    return sum / (x * std::sqrt(pi));
  }
  double square = x * x, lost = std::fma(x, x, -square);
  return std::exp(square) * (1 + lost) * std::erfc(x);
}

/// Modified Bessel functions of the first kind. All terms of the power series are positive, so it
/// is accurate everywhere; beyond 30 the asymptotic series is shorter.
double besselI(int order, double x) {
  double a = std::fabs(x), sign = order && x < 0 ? -1 : 1;
  if (std::isnan(x) || std::isinf(x))
    return std::isnan(x) ? x : sign * infinity;
  if (a < 30) {
    double quarter = a * a / 4, term = order ? a / 2 : 1, sum = term;
    for (int k = 1; term > sum * 1e-18; ++k) {
      term *= quarter / (double(k) * (k + order));
      sum += term;
    }
    return sign * sum;
  }
  double term = 1, sum = 1, mu = 4.0 * order * order;
  for (int k = 1; k < 60; ++k) {
    double next = term * -(mu - (2.0 * k - 1) * (2.0 * k - 1)) / (k * 8.0 * a);
    if (std::fabs(next) < 1e-18 || std::fabs(next) > std::fabs(term))
      break;
    term = next;
    sum += term;
  }
  double half = std::exp(a / 2); // in two parts: e^a overflows earlier than the product
  return sign * (half / std::sqrt(2 * pi * a) * sum) * half;
}

/// sin(pi (x + quarters / 2)), the argument reduced exactly.
double sinPi(double x, int quarters) {
  if (!std::isfinite(x))
    return std::nan("");
  double r = std::remainder(x, 2.0); // in [-1, 1]
  int n = int(std::nearbyint(2 * r));
  double rest = (r - n * 0.5) * pi;
  switch ((n + quarters) & 3) {
  case 0:
    return rest == 0 && n == 0 && quarters == 0 ? std::copysign(0.0, x) : std::sin(rest);
  case 1:
    return std::cos(rest);
  case 2:
    return -std::sin(rest) + 0.0;
  default:
    return -std::cos(rest);
  }
}

double logGamma(double x) {
  int sign; // std::lgamma writes to a global variable
  return ::lgamma_r(x, &sign);
}

//===--- integers
//----------------------------------------------------------------------------------===//

template <typename T> T reversed(T value) {
  T result = 0;
  for (unsigned bit = 0; bit < 8 * sizeof(T); ++bit)
    result = T(result << 1) | (value >> bit & 1);
  return result;
}

uint32_t permuteBytes(uint32_t low, uint32_t high, uint32_t selector) {
  uint64_t bytes = uint64_t(high) << 32 | low;
  uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    unsigned choice = selector >> (4 * i) & 15;
    uint32_t byte = uint32_t(bytes >> (8 * (choice & 7)) & 255);
    if (choice & 8) // its sign everywhere
      byte = byte & 128 ? 255 : 0;
    result |= byte << (8 * i);
  }
  return result;
}

int32_t low24(int32_t value) {
  return int32_t(uint32_t(value) << 8) >> 8;
}

template <typename T> T average(T a, T b, int carry) {
  return T((static_cast<__int128>(a) + b + carry) >> 1);
}

//===--- the table
//---------------------------------------------------------------------------------===//

#define FUNCTION(symbol, lambda) {symbol, reinterpret_cast<void *>(+lambda)}
/// In fp32 and fp64; `T` is the type.
#define UNARY(name, expression)                                                                    \
  FUNCTION("__nv_" #name "f",                                                                      \
           [](float x) -> float {                                                                  \
             using T = float;                                                                      \
             return T(expression);                                                                 \
           }),                                                                                     \
      FUNCTION("__nv_" #name, [](double x) -> double {                                             \
        using T = double;                                                                          \
        return T(expression);                                                                      \
      })
#define BINARY(name, expression)                                                                   \
  FUNCTION("__nv_" #name "f",                                                                      \
           [](float x, float y) -> float {                                                         \
             using T = float;                                                                      \
             return T(expression);                                                                 \
           }),                                                                                     \
      FUNCTION("__nv_" #name, [](double x, double y) -> double {                                   \
        using T = double;                                                                          \
        return T(expression);                                                                      \
      })
#define LIBM(name) UNARY(name, std::name(x))
/// An operation in one rounding mode: `__nv_fadd_rz`, `__nv_dadd_rz`.
#define ROUNDED_BINARY_TO(name, operation, suffix, mode)                                           \
  FUNCTION("__nv_f" #name "_" #suffix,                                                             \
           [](float x, float y) -> float {                                                         \
             return rounded(mode, [](float a, float b) { return a operation b; }, x, y);           \
           }),                                                                                     \
      FUNCTION("__nv_d" #name "_" #suffix, [](double x, double y) -> double {                      \
        return rounded(mode, [](double a, double b) { return a operation b; }, x, y);              \
      })
#define ROUNDED_UNARY_TO(name, expression, suffix, mode)                                           \
  FUNCTION("__nv_f" #name "_" #suffix,                                                             \
           [](float x) -> float {                                                                  \
             return rounded(mode, [](float a) -> float { return expression; }, x);                 \
           }),                                                                                     \
      FUNCTION("__nv_d" #name "_" #suffix, [](double x) -> double {                                \
        return rounded(mode, [](double a) -> double { return expression; }, x);                    \
      })
#define ROUNDED_FMA_TO(suffix, mode)                                                               \
  FUNCTION("__nv_fmaf_" #suffix,                                                                   \
           [](float x, float y, float z) -> float {                                                \
             return rounded(                                                                       \
                 mode, [](float a, float b, float c) { return std::fma(a, b, c); }, x, y, z);      \
           }),                                                                                     \
      FUNCTION("__nv_fma_" #suffix, [](double x, double y, double z) -> double {                   \
        return rounded(                                                                            \
            mode, [](double a, double b, double c) { return std::fma(a, b, c); }, x, y, z);        \
      })
#define TO_INTEGER_TO(name, From, To, suffix, mode)                                                \
  FUNCTION("__nv_" #name "_" #suffix, [](From x) -> To { return toInteger<To>(mode, x); })
#define FROM_INTEGER_TO(name, From, To, suffix, mode)                                              \
  FUNCTION("__nv_" #name "_" #suffix, [](From x) -> To { return fromInteger<To>(mode, x); })
#define IN_EACH_MODE(macro, ...)                                                                   \
  macro(__VA_ARGS__, rn, FE_TONEAREST), macro(__VA_ARGS__, rz, FE_TOWARDZERO),                     \
      macro(__VA_ARGS__, rd, FE_DOWNWARD), macro(__VA_ARGS__, ru, FE_UPWARD)

} // namespace

// By number in objects that are linked (src/embedded/device_symbols.cpp).
extern "C" const Symbol nereid_device_table[];
const Symbol nereid_device_table[] = {
    FUNCTION("nereid_cpu_clock",
             []() -> int64_t {
               return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch())
                   .count();
             }),

    // Integers.
    FUNCTION("__nv_clz", [](int32_t x) -> int32_t { return std::countl_zero(uint32_t(x)); }),
    FUNCTION("__nv_clzll", [](int64_t x) -> int32_t { return std::countl_zero(uint64_t(x)); }),
    FUNCTION("__nv_popc", [](int32_t x) -> int32_t { return std::popcount(uint32_t(x)); }),
    FUNCTION("__nv_popcll", [](int64_t x) -> int32_t { return std::popcount(uint64_t(x)); }),
    FUNCTION("__nv_ffs",
             [](int32_t x) -> int32_t { return x ? std::countr_zero(uint32_t(x)) + 1 : 0; }),
    FUNCTION("__nv_ffsll",
             [](int64_t x) -> int32_t { return x ? std::countr_zero(uint64_t(x)) + 1 : 0; }),
    FUNCTION("__nv_brev", [](uint32_t x) -> uint32_t { return reversed(x); }),
    FUNCTION("__nv_brevll", [](uint64_t x) -> uint64_t { return reversed(x); }),
    FUNCTION("__nv_byte_perm",
             [](uint32_t x, uint32_t y, uint32_t s) -> uint32_t { return permuteBytes(x, y, s); }),
    FUNCTION("__nv_mulhi", [](int32_t x, int32_t y) -> int32_t { return int64_t(x) * y >> 32; }),
    FUNCTION("__nv_umulhi",
             [](uint32_t x, uint32_t y) -> uint32_t { return uint64_t(x) * y >> 32; }),
    FUNCTION("__nv_mul64hi",
             [](int64_t x, int64_t y) -> int64_t {
               return int64_t(static_cast<__int128>(x) * y >> 64);
             }),
    FUNCTION("__nv_umul64hi",
             [](uint64_t x, uint64_t y) -> uint64_t {
               return uint64_t(static_cast<unsigned __int128>(x) * y >> 64);
             }),
    FUNCTION("__nv_mul24",
             [](int32_t x, int32_t y) -> int32_t { return int32_t(int64_t(low24(x)) * low24(y)); }),
    FUNCTION("__nv_umul24",
             [](uint32_t x, uint32_t y) -> uint32_t { return (x & 0xffffff) * (y & 0xffffff); }),
    FUNCTION("__nv_sad",
             [](int32_t x, int32_t y, uint32_t z) -> uint32_t {
               return uint32_t(x < y ? int64_t(y) - x : int64_t(x) - y) + z;
             }),
    FUNCTION(
        "__nv_usad",
        [](uint32_t x, uint32_t y, uint32_t z) -> uint32_t { return (x < y ? y - x : x - y) + z; }),
    FUNCTION("__nv_hadd", [](int32_t x, int32_t y) -> int32_t { return average(x, y, 0); }),
    FUNCTION("__nv_uhadd", [](uint32_t x, uint32_t y) -> uint32_t { return average(x, y, 0); }),
    FUNCTION("__nv_rhadd", [](int32_t x, int32_t y) -> int32_t { return average(x, y, 1); }),
    FUNCTION("__nv_urhadd", [](uint32_t x, uint32_t y) -> uint32_t { return average(x, y, 1); }),

    // Arithmetic in a given rounding mode, and conversions.
    IN_EACH_MODE(ROUNDED_BINARY_TO, add, +),
    IN_EACH_MODE(ROUNDED_BINARY_TO, sub, -),
    IN_EACH_MODE(ROUNDED_BINARY_TO, mul, *),
    IN_EACH_MODE(ROUNDED_BINARY_TO, div, /),
    IN_EACH_MODE(ROUNDED_UNARY_TO, rcp, 1 / a),
    IN_EACH_MODE(ROUNDED_UNARY_TO, sqrt, std::sqrt(a)),
    ROUNDED_FMA_TO(rn, FE_TONEAREST),
    ROUNDED_FMA_TO(rz, FE_TOWARDZERO),
    ROUNDED_FMA_TO(rd, FE_DOWNWARD),
    ROUNDED_FMA_TO(ru, FE_UPWARD),
    FUNCTION("__nv_frsqrt_rn", [](float x) -> float { return float(1 / std::sqrt(double(x))); }),
    FUNCTION("__nv_fast_fdividef", [](float x, float y) -> float { return x / y; }),
    FUNCTION("__nv_rcp64h",
             [](double x) -> double {
               return std::bit_cast<double>(std::bit_cast<uint64_t>(1 / x) & 0xffffffff00000000);
             }),
    FUNCTION("__nv_saturatef", [](float x) -> float { return x > 0 ? std::fmin(x, 1.0f) : 0.0f; }),
    IN_EACH_MODE(TO_INTEGER_TO, double2int, double, int32_t),
    IN_EACH_MODE(TO_INTEGER_TO, double2uint, double, uint32_t),
    IN_EACH_MODE(TO_INTEGER_TO, double2ll, double, int64_t),
    IN_EACH_MODE(TO_INTEGER_TO, double2ull, double, uint64_t),
    IN_EACH_MODE(TO_INTEGER_TO, float2int, float, int32_t),
    IN_EACH_MODE(TO_INTEGER_TO, float2uint, float, uint32_t),
    IN_EACH_MODE(TO_INTEGER_TO, float2ll, float, int64_t),
    IN_EACH_MODE(TO_INTEGER_TO, float2ull, float, uint64_t),
    IN_EACH_MODE(FROM_INTEGER_TO, double2float, double, float),
    IN_EACH_MODE(FROM_INTEGER_TO, int2float, int32_t, float),
    IN_EACH_MODE(FROM_INTEGER_TO, uint2float, uint32_t, float),
    IN_EACH_MODE(FROM_INTEGER_TO, ll2float, int64_t, float),
    IN_EACH_MODE(FROM_INTEGER_TO, ull2float, uint64_t, float),
    IN_EACH_MODE(FROM_INTEGER_TO, ll2double, int64_t, double),
    IN_EACH_MODE(FROM_INTEGER_TO, ull2double, uint64_t, double),
    FUNCTION("__nv_int2double_rn", [](int32_t x) -> double { return x; }),
    FUNCTION("__nv_uint2double_rn", [](uint32_t x) -> double { return x; }),
    FUNCTION("__nv_hiloint2double",
             [](uint32_t high, uint32_t low) -> double {
               return std::bit_cast<double>(uint64_t(high) << 32 | low);
             }),
    FUNCTION("__nv_double2loint",
             [](double x) -> int32_t { return int32_t(std::bit_cast<uint64_t>(x)); }),
    FUNCTION("__nv_double2hiint",
             [](double x) -> int32_t { return int32_t(std::bit_cast<uint64_t>(x) >> 32); }),

    // Elementary functions.
    LIBM(acos),
    LIBM(acosh),
    LIBM(asin),
    LIBM(asinh),
    LIBM(atan),
    LIBM(atanh),
    LIBM(cbrt),
    LIBM(cosh),
    LIBM(erfc),
    LIBM(log10),
    LIBM(logb),
    LIBM(sinh),
    LIBM(tan),
    LIBM(tgamma),
    UNARY(exp10, sizeof(T) == 4 ? ::exp10f(x) : ::exp10(x)),
    UNARY(cospi, sinPi(x, 1)),
    UNARY(sinpi, sinPi(x, 0)),
    UNARY(rcbrt, 1 / std::cbrt(double(x))),
    UNARY(j0, ::j0(x)),
    UNARY(j1, ::j1(x)),
    UNARY(y0, ::y0(x)),
    UNARY(y1, ::y1(x)),
    UNARY(cyl_bessel_i0, besselI(0, x)),
    UNARY(cyl_bessel_i1, besselI(1, x)),
    UNARY(erfinv, erfinv(x)),
    UNARY(erfcinv, erfcinv(x)),
    UNARY(erfcx, erfcx(x)),
    UNARY(normcdf, normcdf(x)),
    UNARY(normcdfinv, -std::numbers::sqrt2 *erfcinv(2.0 * x)),
    UNARY(lgamma, logGamma(x)),
    BINARY(atan2, std::atan2(x, y)),
    BINARY(fdim, std::fdim(x, y)),
    BINARY(fmod, std::fmod(x, y)),
    BINARY(hypot, std::hypot(x, y)),
    BINARY(nextafter, std::nextafter(x, y)),
    BINARY(remainder, std::remainder(x, y)),
    BINARY(rhypot, 1 / std::hypot(double(x), double(y))),
    FUNCTION("__nv_fast_sinf", [](float x) -> float { return std::sin(x); }),
    FUNCTION("__nv_fast_cosf", [](float x) -> float { return std::cos(x); }),
    FUNCTION("__nv_fast_tanf", [](float x) -> float { return std::tan(x); }),
    FUNCTION("__nv_fast_tanhf", [](float x) -> float { return std::tanh(x); }),
    FUNCTION("__nv_fast_expf", [](float x) -> float { return std::exp(x); }),
    FUNCTION("__nv_fast_exp10f", [](float x) -> float { return ::exp10f(x); }),
    FUNCTION("__nv_fast_logf", [](float x) -> float { return std::log(x); }),
    FUNCTION("__nv_fast_log2f", [](float x) -> float { return std::log2(x); }),
    FUNCTION("__nv_fast_log10f", [](float x) -> float { return std::log10(x); }),
    FUNCTION("__nv_fast_powf", [](float x, float y) -> float { return std::pow(x, y); }),
    FUNCTION("__nv_powif",
             [](float x, int32_t n) -> float { return float(std::pow(double(x), double(n))); }),
    FUNCTION("__nv_powi", [](double x, int32_t n) -> double { return std::pow(x, double(n)); }),
    FUNCTION("__nv_norm3df",
             [](float x, float y, float z) -> float {
               return float(std::hypot(double(x), double(y), double(z)));
             }),
    FUNCTION("__nv_norm3d",
             [](double x, double y, double z) -> double { return std::hypot(x, y, z); }),
    FUNCTION("__nv_rnorm3df",
             [](float x, float y, float z) -> float {
               return float(1 / std::hypot(double(x), double(y), double(z)));
             }),
    FUNCTION("__nv_rnorm3d",
             [](double x, double y, double z) -> double { return 1 / std::hypot(x, y, z); }),
    FUNCTION("__nv_norm4df",
             [](float x, float y, float z, float w) -> float {
               return float(
                   std::hypot(std::hypot(double(x), double(y)), std::hypot(double(z), double(w))));
             }),
    FUNCTION("__nv_norm4d",
             [](double x, double y, double z, double w) -> double {
               return std::hypot(std::hypot(x, y), std::hypot(z, w));
             }),
    FUNCTION("__nv_rnorm4df",
             [](float x, float y, float z, float w) -> float {
               return float(1 / std::hypot(std::hypot(double(x), double(y)),
                                           std::hypot(double(z), double(w))));
             }),
    FUNCTION("__nv_rnorm4d",
             [](double x, double y, double z, double w) -> double {
               return 1 / std::hypot(std::hypot(x, y), std::hypot(z, w));
             }),
    FUNCTION("__nv_jnf", [](int32_t n, float x) -> float { return float(::jn(n, x)); }),
    FUNCTION("__nv_jn", [](int32_t n, double x) -> double { return ::jn(n, x); }),
    FUNCTION("__nv_ynf", [](int32_t n, float x) -> float { return float(::yn(n, x)); }),
    FUNCTION("__nv_yn", [](int32_t n, double x) -> double { return ::yn(n, x); }),
    FUNCTION("__nv_ldexpf", [](float x, int32_t n) -> float { return std::ldexp(x, n); }),
    FUNCTION("__nv_ldexp", [](double x, int32_t n) -> double { return std::ldexp(x, n); }),
    FUNCTION("__nv_scalbnf", [](float x, int32_t n) -> float { return std::scalbn(x, n); }),
    FUNCTION("__nv_scalbn", [](double x, int32_t n) -> double { return std::scalbn(x, n); }),
    FUNCTION("__nv_ilogbf", [](float x) -> int32_t { return std::ilogb(x); }),
    FUNCTION("__nv_ilogb", [](double x) -> int32_t { return std::ilogb(x); }),
    FUNCTION("__nv_llrintf",
             [](float x) -> int64_t { return toInteger<int64_t>(FE_TONEAREST, x); }),
    FUNCTION("__nv_llrint",
             [](double x) -> int64_t { return toInteger<int64_t>(FE_TONEAREST, x); }),
    FUNCTION("__nv_llroundf",
             [](float x) -> int64_t { return toInteger<int64_t>(FE_TOWARDZERO, std::round(x)); }),
    FUNCTION("__nv_llround",
             [](double x) -> int64_t { return toInteger<int64_t>(FE_TOWARDZERO, std::round(x)); }),
};

std::span<const Symbol> deviceLibrary() {
  return nereid_device_table;
}

} // namespace nereid::cpu
