// Accuracy of the vector math on every level of instructions: the largest error in units in the
// last place (of the result's type, subnormals too) over all exponents with dense mantissas, random
// arguments and special values. The reference is the C library in long double. NEREID_EXHAUSTIVE=1
// takes all 2^32 arguments of the f32 functions of one operand.
#include "targets/cpu/math/Math.h"
#include "Jit.h"
#include "targets/cpu/conversions/Conversions.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace nereid::cpu;
using namespace nereid::cpu::test;

namespace {

struct Case {
  const char *name;
  MathKind kind;
  long double (*reference)(long double);
  double (*quickReference)(double); // for f32, exact enough
  double boundF32, boundF64;        // in ulp
};

using L = long double;
const Case cases[] = {
    {"exp", MathKind::Exp, [](L x) { return std::exp(x); }, [](double x) { return std::exp(x); }, 2,
     2},
    {"exp2", MathKind::Exp2, [](L x) { return std::exp2(x); },
     [](double x) { return std::exp2(x); }, 2, 2},
    {"expm1", MathKind::Expm1, [](L x) { return std::expm1(x); },
     [](double x) { return std::expm1(x); }, 4, 2},
    {"log", MathKind::Log, [](L x) { return std::log(x); }, [](double x) { return std::log(x); }, 2,
     2},
    {"log2", MathKind::Log2, [](L x) { return std::log2(x); },
     [](double x) { return std::log2(x); }, 2, 2},
    {"log1p", MathKind::Log1p, [](L x) { return std::log1p(x); },
     [](double x) { return std::log1p(x); }, 4, 2},
    {"sin", MathKind::Sin, [](L x) { return std::sin(x); }, [](double x) { return std::sin(x); }, 2,
     2},
    {"cos", MathKind::Cos, [](L x) { return std::cos(x); }, [](double x) { return std::cos(x); }, 2,
     2},
    {"sqrt", MathKind::Sqrt, [](L x) { return std::sqrt(x); },
     [](double x) { return std::sqrt(x); }, 0.5, 0.5},
    {"rsqrt", MathKind::Rsqrt, [](L x) { return 1 / std::sqrt(x); },
     [](double x) { return 1 / std::sqrt(x); }, 2, 2},
    {"erf", MathKind::Erf, [](L x) { return std::erf(x); }, [](double x) { return std::erf(x); }, 2,
     2},
    {"tanh", MathKind::Tanh, [](L x) { return std::tanh(x); },
     [](double x) { return std::tanh(x); }, 4, 4},
    {"sigmoid", MathKind::Sigmoid, [](L x) { return 1 / (1 + std::exp(-x)); },
     [](double x) { return 1 / (1 + std::exp(-x)); }, 4, 4},
    {"abs", MathKind::Abs, [](L x) { return std::fabs(x); }, [](double x) { return std::fabs(x); },
     0, 0},
    {"floor", MathKind::Floor, [](L x) { return std::floor(x); },
     [](double x) { return std::floor(x); }, 0, 0},
    {"ceil", MathKind::Ceil, [](L x) { return std::ceil(x); },
     [](double x) { return std::ceil(x); }, 0, 0},
    {"trunc", MathKind::Trunc, [](L x) { return std::trunc(x); },
     [](double x) { return std::trunc(x); }, 0, 0},
    {"round", MathKind::Round, [](L x) { return std::round(x); },
     [](double x) { return std::round(x); }, 0, 0},
    {"roundeven", MathKind::RoundEven, [](L x) { return std::nearbyint(x); },
     [](double x) { return std::nearbyint(x); }, 0, 0},
};

// Distance of `got` from `exact` in units in the last place of the type at `exact`; 0 when
// correctly rounded.
template <typename Float> double ulps(Float got, long double exact) {
  using Limits = std::numeric_limits<Float>;
  Float rounded = Float(exact);
  if (got == rounded && got != 0)
    return 0;
  if (std::isnan(exact) || std::isnan(got))
    return std::isnan(exact) && std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(rounded) || std::isinf(got)) {
    if (rounded == got)
      return 0;
    // Next to the overflow threshold the neighbour of infinity is the largest finite value.
    return std::fabs(got) == Limits::max() && std::signbit(got) == std::signbit(rounded) ? 1
                                                                                         : INFINITY;
  }
  if (rounded == 0 && got == 0)
    return std::signbit(got) == std::signbit(rounded) ? 0 : INFINITY;
  int exponent =
      std::max(exact == 0 ? Limits::min_exponent - 1 : std::ilogb(exact), Limits::min_exponent - 1);
  return double(std::fabs(std::ldexp((long double)got - exact, Limits::digits - 1 - exponent)));
}

template <typename Float> std::vector<Float> arguments() {
  using Limits = std::numeric_limits<Float>;
  std::vector<Float> all = {0.0,
                            -0.0,
                            1,
                            -1,
                            0.5,
                            -0.5,
                            1.5,
                            -1.5,
                            2.5,
                            Limits::infinity(),
                            -Limits::infinity(),
                            Limits::quiet_NaN(),
                            Limits::max(),
                            -Limits::max(),
                            Limits::min(),
                            -Limits::min(),
                            Limits::denorm_min(),
                            -Limits::denorm_min()};
  std::mt19937_64 random(1);
  // Every exponent, subnormals among them.
  bool single = sizeof(Float) == 4;
  int exponents = single ? 255 : 2047, mantissaBits = Limits::digits - 1;
  for (int exponent = 0; exponent < exponents; ++exponent)
    for (int i = 0; i < (single ? 300 : 60); ++i) {
      uint64_t bits = uint64_t(exponent) << mantissaBits | random() >> (64 - mantissaBits);
      bits |= uint64_t(random() & 1) << (single ? 31 : 63);
      Float value;
      std::memcpy(&value, &bits, sizeof value);
      all.push_back(value);
    }
  // Where the functions bend.
  for (double range : {1.0, 4.0, 20.0, 110.0, 800.0, 1e5}) {
    std::uniform_real_distribution<double> uniform(-range, range);
    for (int i = 0; i < (single ? 50000 : 20000); ++i)
      all.push_back(Float(uniform(random)));
  }
  // Next to multiples of pi/2, where the reduced argument loses everything.
  for (int i = 1; i < 12000; ++i) {
    Float multiple = Float(i * (long double)(1.57079632679489661923L));
    all.insert(all.end(), {multiple, std::nextafter(multiple, Float(0)), -multiple});
  }
  while (all.size() % 16)
    all.push_back(1);
  return all;
}

struct Program {
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(context.get()));
  mlir::OpBuilder builder{context.get()};
};

template <typename Float> mlir::Type typeOf(mlir::OpBuilder &builder) {
  return sizeof(Float) == 4 ? mlir::Type(builder.getF32Type()) : builder.getF64Type();
}

template <typename Float> void checkAll(int64_t lanes) {
  auto inputs = arguments<Float>();
  std::vector<Float> outputs(inputs.size());
  std::vector<std::vector<long double>> references;
  for (const Case &c : cases) {
    auto &reference = references.emplace_back();
    for (Float x : inputs)
      reference.push_back(c.reference(x));
  }
  for (const Level &level : levels()) {
    Program run;
    mlir::Type type = typeOf<Float>(run.builder);
    for (const Case &c : cases)
      addMap(*run.module, (std::string("map_") + c.name).c_str(), {type}, type, lanes,
             [&](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange x) {
               return emitMath(b, loc, c.kind, x, level.features);
             });
    auto code = compile(*run.module, level);
    if (sizeof(Float) == 4) {
      EXPECT_TRUE(code->undefined.empty())
          << code->undefined.front() << " is called on " << level.name;
    }
    for (size_t i = 0; i < std::size(cases); ++i) {
      const Case &c = cases[i];
      auto *map = code->get<MapFunction>((std::string("map_") + c.name).c_str());
      map(inputs.data(), nullptr, nullptr, outputs.data(), inputs.size());
      double worst = 0;
      size_t where = 0;
      for (size_t k = 0; k < inputs.size(); ++k)
        if (double error = ulps(outputs[k], references[i][k]); error > worst)
          worst = error, where = k;
      double bound = sizeof(Float) == 4 ? c.boundF32 : c.boundF64;
      EXPECT_LE(worst, bound) << c.name << "(" << std::hexfloat << inputs[where]
                              << ") = " << outputs[where] << ", expected "
                              << Float(references[i][where]) << " on " << level.name;
      std::printf("%-9s f%zu x%-2d %-8s %.3f ulp\n", c.name, sizeof(Float) * 8, int(lanes),
                  level.name, worst);
    }
  }
}

TEST(Math, F32Vectors) {
  checkAll<float>(16);
}
TEST(Math, F32Scalars) {
  checkAll<float>(1);
}
TEST(Math, F64Vectors) {
  checkAll<double>(8);
}
TEST(Math, F64Scalars) {
  checkAll<double>(1);
}

TEST(Math, F32Exhaustive) {
  const char *wish = std::getenv("NEREID_EXHAUSTIVE"), *only = std::getenv("NEREID_FUNCTION");
  if (!wish)
    GTEST_SKIP() << "set NEREID_EXHAUSTIVE=1 to take all 2^32 arguments";
  uint64_t step = std::max(1, std::atoi(wish));
  constexpr size_t block = 1 << 16;
  std::vector<float> inputs(block), outputs(block);
  for (const Level &level : levels())
    for (const Case &c : cases) {
      if (only && std::strcmp(only, c.name) != 0)
        continue;
      Program run;
      mlir::Type type = run.builder.getF32Type();
      addMap(*run.module, "map", {type}, type, 16,
             [&](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange x) {
               return emitMath(b, loc, c.kind, x, level.features);
             });
      auto code = compile(*run.module, level);
      auto *map = code->get<MapFunction>("map");
      double worst = 0;
      float where = 0;
      for (uint64_t base = 0; base < (uint64_t(1) << 32); base += block * step) {
        for (size_t i = 0; i < block; ++i) {
          // A different remainder in each block, so that no mantissa is left out for good.
          uint32_t bits = uint32_t(base + i * step + (base / block / step) % step);
          std::memcpy(&inputs[i], &bits, 4);
        }
        map(inputs.data(), nullptr, nullptr, outputs.data(), block);
        for (size_t i = 0; i < block; ++i)
          if (double error = ulps(outputs[i], c.quickReference(double(inputs[i]))); error > worst)
            worst = error, where = inputs[i];
      }
      std::printf("%-9s 2^32/%d %-8s %.3f ulp at %a\n", c.name, int(step), level.name, worst,
                  where);
      std::fflush(stdout);
      EXPECT_LE(worst, c.boundF32) << c.name << " on " << level.name;
    }
}

template <typename Float> void checkBinaryAndTernary() {
  std::vector<Float> x, y, z;
  std::mt19937_64 random(2);
  const Float infinity = INFINITY, nan = NAN;
  const Float specials[] = {0.0,      -0.0,      1,     -1,     2,       -2,
                            3,        -3,        0.5,   -0.5,   1.5,     -1.5,
                            infinity, -infinity, nan,   1e-38f, -1e-38f, 16777216,
                            16777215, -16777215, 1e30f, -1e30f};
  for (Float a : specials)
    for (Float b : specials)
      x.push_back(a), y.push_back(b), z.push_back(a);
  std::uniform_real_distribution<double> log(-40, 40), exponent(-6, 6), integer(-20, 20);
  for (int i = 0; i < 200000; ++i) {
    x.push_back(Float(std::exp2(log(random))));
    y.push_back(Float(exponent(random)));
    z.push_back(Float(-std::ldexp(double(x.back()) * double(y.back()), int(log(random)))));
    x.push_back(Float(log(random)));
    y.push_back(Float(std::round(integer(random))));
    z.push_back(Float(-(double(x.back()) * double(y.back()))));
  }
  while (x.size() % 8)
    x.push_back(1), y.push_back(1), z.push_back(1);
  std::vector<Float> powers(x.size()), sums(x.size());
  for (const Level &level : levels()) {
    Program run;
    mlir::Type type = typeOf<Float>(run.builder);
    addMap(*run.module, "map_pow", {type, type}, type, 8,
           [&](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange v) {
             return emitMath(b, loc, MathKind::Pow, v, level.features);
           });
    addMap(*run.module, "map_fma", {type, type, type}, type, 8,
           [&](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange v) {
             return emitMath(b, loc, MathKind::Fma, v, level.features);
           });
    auto code = compile(*run.module, level);
    code->get<MapFunction>("map_pow")(x.data(), y.data(), nullptr, powers.data(), x.size());
    code->get<MapFunction>("map_fma")(x.data(), y.data(), z.data(), sums.data(), x.size());
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      double error = ulps(powers[i], std::pow((long double)x[i], (long double)y[i]));
      ASSERT_LE(error, 4) << "pow(" << x[i] << ", " << y[i] << ") = " << powers[i] << " on "
                          << level.name;
      worst = std::max(worst, error);
      Float exact = std::fma(x[i], y[i], z[i]);
      ASSERT_TRUE(exact == sums[i] || (std::isnan(exact) && std::isnan(sums[i])))
          << "fma(" << std::hexfloat << x[i] << ", " << y[i] << ", " << z[i] << ") = " << sums[i]
          << ", expected " << exact << " on " << level.name;
    }
    std::printf("pow       f%zu %-8s %.3f ulp\n", sizeof(Float) * 8, level.name, worst);
  }
}
TEST(Math, PowAndFmaF32) {
  checkBinaryAndTernary<float>();
}
TEST(Math, PowAndFmaF64) {
  checkBinaryAndTernary<double>();
}

TEST(Math, ThePassReplacesMathOperations) {
  for (const Level &level : levels()) {
    Program run;
    mlir::Type f32 = run.builder.getF32Type(), f16 = run.builder.getF16Type();
    auto body = [&](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange x) -> mlir::Value {
      return mlir::math::ExpOp::create(b, loc, mlir::math::TanhOp::create(b, loc, x[0]));
    };
    addMap(*run.module, "single", {f32}, f32, 16, body);
    addMap(*run.module, "half", {f16}, f16, 16, body);
    auto code = compile(*run.module, level,
                        {createExpandMathPass(level.features).release(),
                         createExpandConversionsPass(level.features).release()});
    EXPECT_TRUE(code->undefined.empty())
        << code->undefined.front() << " is called on " << level.name;
    std::vector<float> in(16, 0.25f), out(16);
    code->get<MapFunction>("single")(in.data(), nullptr, nullptr, out.data(), 16);
    EXPECT_NEAR(out[15], std::exp(std::tanh(0.25)), 1e-6);
    std::vector<uint16_t> halfIn(16, 0x3400), halfOut(16); // 0.25
    code->get<MapFunction>("half")(halfIn.data(), nullptr, nullptr, halfOut.data(), 16);
    EXPECT_EQ(halfOut[7], 0x3d1c); // exp(round(tanh(0.25))) = 1.27735
  }
}

struct Range {
  const char *name;
  double low, high; // f32
  double lowF64, highF64;
};
constexpr double infinite = std::numeric_limits<double>::infinity();
// Where functions underflow, overflow and leave their polynomials. The first is the quick one.
const Range ranges[] = {
    {"0.1 to 10", 0.1, 10, 0.1, 10},
    {"zero", 0, 0, 0, 0},
    {"subnormal", 0x1p-149, 0x1.8p-127, 0x1p-1074, 0x1.8p-1023},
    {"2^-126 to 2^-100", 0x1p-126, 0x1p-100, 0x1p-1022, 0x1p-900},
    {"2^-70 to 2^-50", 0x1p-70, 0x1p-50, 0x1p-540, 0x1p-500},
    {"2^-28 to 2^-12", 0x1p-28, 0x1p-12, 0x1p-60, 0x1p-24},
    {"-10 to -0.1", -10, -0.1, -10, -0.1},
    {"-80 to -10", -80, -10, -700, -10},
    {"-104 to -86", -104, -86, -746, -708},
    {"-151 to -125", -151, -125, -1076, -1021},
    {"-1e30 to -1e4", -1e30, -1e4, -1e300, -1e4},
    {"-infinity", -infinite, -infinite, -infinite, -infinite},
    {"10 to 88", 10, 88, 10, 700},
    {"1e4 to 1e30", 1e4, 1e30, 1e4, 1e300},
    {"2^100 to 2^127", 0x1p100, 0x1p127, 0x1p1000, 0x1p1023},
    {"infinity", infinite, infinite, infinite, infinite},
    {"NaN", NAN, NAN, NAN, NAN},
};

template <typename Float> std::vector<Float> inRange(const Range &range, size_t count) {
  double low = sizeof(Float) == 4 ? range.low : range.lowF64;
  double high = sizeof(Float) == 4 ? range.high : range.highF64;
  std::vector<Float> all(count, Float(low));
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(0, 1);
  bool spread = low * high > 0 && std::isfinite(low) && std::max(high / low, low / high) > 1000;
  for (Float &x : all)
    if (low != high && spread) // by exponent
      x = Float(low * std::exp2(uniform(random) * std::log2(high / low)));
    else if (low != high && !std::isnan(low))
      x = Float(low + uniform(random) * (high - low));
  return all;
}

// Whether `kind` computes by the machine's own instructions on a subnormal argument, or calls the
// C library, so that its time is theirs.
bool isNotOurs(MathKind kind, bool isF64, llvm::StringRef range) {
  bool libm = kind == MathKind::Expm1 || kind == MathKind::Log1p || kind == MathKind::Erf ||
              kind == MathKind::Tanh;
  bool large = (kind == MathKind::Sin || kind == MathKind::Cos) &&
               (range.contains("1e30") || range.contains("2^127") || range.contains("infinity"));
  if (isF64 && (libm || large))
    return true;
  return range == "subnormal" &&
         (kind == MathKind::Sqrt || kind == MathKind::Rsqrt || kind == MathKind::Erf);
}

#if defined(__x86_64__)
// A subnormal operand or result takes more than a hundred clocks on many processors. The machine
// keeps flags of both. Comparisons with subnormal numbers, which are quick, set the first flag,
// too: so it is not looked at where the arguments are subnormal.
template <typename Float> void checkFlags() {
  constexpr unsigned denormalOperand = 2, underflow = 16;
  constexpr size_t count = 4096;
  std::vector<Float> outputs(count);
  for (const Level &level : levels()) {
    Program run;
    mlir::Type type = typeOf<Float>(run.builder);
    for (const Case &c : cases)
      addMap(*run.module, (std::string("map_") + c.name).c_str(), {type}, type, 16,
             [&](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange x) {
               return emitMath(b, loc, c.kind, x, level.features);
             });
    auto code = compile(*run.module, level);
    for (const Case &c : cases)
      for (const Range &range : ranges) {
        if (isNotOurs(c.kind, sizeof(Float) == 8, range.name))
          continue;
        auto *map = code->get<MapFunction>((std::string("map_") + c.name).c_str());
        auto inputs = inRange<Float>(range, count);
        unsigned before = _mm_getcsr();
        _mm_setcsr(before & ~63u);
        map(inputs.data(), nullptr, nullptr, outputs.data(), count);
        unsigned flags = _mm_getcsr() & 63;
        _mm_setcsr(before);
        unsigned seen = llvm::StringRef(range.name) == "subnormal"
                            ? flags & underflow
                            : flags & (underflow | denormalOperand);
        EXPECT_EQ(seen, 0u) << c.name << " of f" << sizeof(Float) * 8 << " from " << range.name
                            << " computes with subnormal numbers on " << level.name;
      }
  }
}
TEST(Math, NoSubnormalNumbersInsideF32) {
  checkFlags<float>();
}
TEST(Math, NoSubnormalNumbersInsideF64) {
  checkFlags<double>();
}
#endif

// No range takes more than three times as long as the quick one, but for sin and cos of large
// arguments, five times: the smallest of many short times each, taken in turns, and taken again
// when the machine was busy.
TEST(Math, EveryRangeIsQuick) {
  constexpr size_t count = 1024;
  // All ranges from and to the same addresses, half a page apart: loads whose last 12 bits are
  // those of a store just before wait for it, and then a quick function takes three times as long.
  alignas(4096) static float memory[3 * count];
  for (const Level &level : levels())
    for (const Case &c : cases) {
      if (c.boundF32 == 0)
        continue;
      Program run;
      mlir::Type type = run.builder.getF32Type();
      addMap(*run.module, "map", {type}, type, level.features.vectorBytes / 4,
             [&](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange x) {
               return emitMath(b, loc, c.kind, x, level.features);
             });
      auto code = compile(*run.module, level);
      auto *map = code->get<MapFunction>("map");
      std::vector<std::vector<float>> inputs;
      for (const Range &range : ranges)
        inputs.push_back(inRange<float>(range, count));
      double best[std::size(ranges)];
      auto limit = [&](const Range &range) {
        bool isLong = c.kind == MathKind::Sin || c.kind == MathKind::Cos;
        return isLong && std::max(std::fabs(range.low), std::fabs(range.high)) > 65536 ? 5 : 3;
      };
      // On a busy machine the shares of a core change while this runs: one of the attempts, which
      // take a few milliseconds each, has to find all ranges quick.
      bool isQuick = false;
      for (int attempt = 0; attempt < 20 && !isQuick; ++attempt) {
        std::fill(std::begin(best), std::end(best), INFINITY);
        for (int round = 0; round < 200 && !(isQuick && round >= 20); ++round) {
          isQuick = true;
          for (size_t i = 0; i < std::size(ranges); ++i) {
            std::copy(inputs[i].begin(), inputs[i].end(), memory);
            auto start = std::chrono::steady_clock::now();
            map(memory, nullptr, nullptr, memory + count + count / 2, count);
            std::chrono::duration<double, std::nano> time =
                std::chrono::steady_clock::now() - start;
            best[i] = std::min(best[i], time.count() / count);
            isQuick &=
                isNotOurs(c.kind, false, ranges[i].name) || best[i] <= limit(ranges[i]) * best[0];
          }
        }
      }
      for (size_t i = 0; i < std::size(ranges); ++i) {
        if (std::getenv("TEST_PRINT_RANGES"))
          std::printf("%-8s %-8s %-17s %.3f ns, %.2fx\n", c.name, level.name, ranges[i].name,
                      best[i], best[i] / best[0]);
        if (!isNotOurs(c.kind, false, ranges[i].name))
          EXPECT_LE(best[i], limit(ranges[i]) * best[0])
              << c.name << " from " << ranges[i].name << " on " << level.name;
      }
    }
}

// Prints clocks an element, from data in the first-level cache; the machine is not quiet, so
// nothing is judged.
TEST(Math, SpeedIsReported) {
  std::vector<float> in(2048), out(2048);
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(0.1f, 10);
  for (float &x : in)
    x = uniform(random);
  for (const Level &level : levels())
    for (const Case &c : cases) {
      if (c.boundF32 == 0)
        continue;
      Program run;
      mlir::Type type = run.builder.getF32Type();
      int64_t lanes = level.features.vectorBytes / 4;
      addMap(*run.module, "map", {type}, type, lanes,
             [&](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange x) {
               return emitMath(b, loc, c.kind, x, level.features);
             });
      auto code = compile(*run.module, level);
      auto *map = code->get<MapFunction>("map");
      double best = INFINITY;
      for (int round = 0; round < 30; ++round) {
        auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < 20; ++i)
          map(in.data(), nullptr, nullptr, out.data(), in.size());
        std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
        best = std::min(best, time.count() / (20.0 * in.size()));
      }
      RecordProperty(std::string(c.name) + "_" + level.name + "_ps", int(best * 1000));
      std::printf("%-9s %-8s %.3f ns an element\n", c.name, level.name, best);
    }
}

} // namespace
