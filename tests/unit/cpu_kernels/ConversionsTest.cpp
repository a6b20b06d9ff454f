// Float conversions on every level of instructions, against llvm::APFloat: all inputs of the 8- and
// 16-bit types, a dense sample of f32 and f64 with everything next to a rounding boundary.
// NEREID_EXHAUSTIVE=1 takes all 2^32 f32.
#include "targets/cpu/conversions/Conversions.h"
#include "Jit.h"

#include "llvm/ADT/APFloat.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace nereid::cpu;
using namespace nereid::cpu::test;
using llvm::APFloat;

namespace {

struct Format {
  const char *name;
  unsigned bits;
  const llvm::fltSemantics &semantics;
  mlir::Type (*type)(mlir::OpBuilder &);
  bool saturates;
};
const Format formats[] = {
    {"e4m3", 8, APFloat::Float8E4M3FN(),
     [](mlir::OpBuilder &b) -> mlir::Type { return b.getType<mlir::Float8E4M3FNType>(); }, true},
    {"e5m2", 8, APFloat::Float8E5M2(),
     [](mlir::OpBuilder &b) -> mlir::Type { return b.getType<mlir::Float8E5M2Type>(); }, true},
    {"f16", 16, APFloat::IEEEhalf(),
     [](mlir::OpBuilder &b) -> mlir::Type { return b.getF16Type(); }, false},
    {"bf16", 16, APFloat::BFloat(),
     [](mlir::OpBuilder &b) -> mlir::Type { return b.getBF16Type(); }, false},
    {"f32", 32, APFloat::IEEEsingle(),
     [](mlir::OpBuilder &b) -> mlir::Type { return b.getF32Type(); }, false},
    {"f64", 64, APFloat::IEEEdouble(),
     [](mlir::OpBuilder &b) -> mlir::Type { return b.getF64Type(); }, false},
};

uint64_t get(const std::vector<uint8_t> &data, size_t i, unsigned bits) {
  uint64_t value = 0;
  std::memcpy(&value, data.data() + i * bits / 8, bits / 8);
  return value;
}
void put(std::vector<uint8_t> &data, uint64_t value, unsigned bits) {
  data.insert(data.end(), reinterpret_cast<uint8_t *>(&value),
              reinterpret_cast<uint8_t *>(&value) + bits / 8);
}

// What the conversion must give; nullopt: any NaN.
std::optional<uint64_t> expected(uint64_t bits, const Format &from, const Format &to,
                                 bool towardsZero) {
  APFloat value(from.semantics, llvm::APInt(from.bits, bits));
  if (value.isNaN())
    return std::nullopt;
  APFloat largest = APFloat::getLargest(to.semantics, value.isNegative());
  if (to.saturates && value.isInfinity())
    return largest.bitcastToAPInt().getZExtValue();
  bool lost = false;
  auto status = value.convert(
      to.semantics, towardsZero ? APFloat::rmTowardZero : APFloat::rmNearestTiesToEven, &lost);
  if (to.saturates && (!value.isFinite() || (status & APFloat::opOverflow)))
    return largest.bitcastToAPInt().getZExtValue();
  return value.bitcastToAPInt().getZExtValue();
}

// All codes of a narrow type; for wide ones values around each code of each narrower type, halves
// between neighbours and one step to either side of them, and random bits.
std::vector<uint8_t> inputsOf(const Format &from) {
  std::vector<uint8_t> data;
  if (from.bits <= 16) {
    for (uint64_t i = 0; i < (uint64_t(1) << from.bits); ++i)
      put(data, i, from.bits);
    return data;
  }
  std::mt19937_64 random(4);
  for (const Format &narrow : formats) {
    if (narrow.bits > 16)
      continue;
    // Of the 16-bit types all codes next to zero, the subnormals' end and overflow, and one in five
    // of the others.
    uint64_t codes = uint64_t(1) << (narrow.bits - 1);
    for (uint64_t i = 0; i + 1 < codes; ++i) {
      if (narrow.bits == 16 && i > 0x800 && i + 0x800 < codes && random() % 5)
        continue;
      APFloat low(narrow.semantics, llvm::APInt(narrow.bits, i)),
          high(narrow.semantics, llvm::APInt(narrow.bits, i + 1));
      bool lost;
      low.convert(from.semantics, APFloat::rmNearestTiesToEven, &lost);
      high.convert(from.semantics, APFloat::rmNearestTiesToEven, &lost);
      uint64_t a = low.bitcastToAPInt().getZExtValue(), b = high.bitcastToAPInt().getZExtValue();
      uint64_t middle = a + (b - a) / 2;
      for (uint64_t value : {a, a + 1, middle - 1, middle, middle + 1, b - 1}) {
        put(data, value, from.bits);
        put(data, value | uint64_t(1) << (from.bits - 1), from.bits);
      }
    }
  }
  // And f64 that are nearly a narrow type's half after rounding to f32.
  for (int i = 0; i < 50000; ++i) {
    uint64_t bits = random();
    put(data, bits >> (64 - from.bits), from.bits);
    double near = std::ldexp(1 + double(random() % 4096) / 4096, int(random() % 60) - 40);
    near *= 1 + (int(random() % 3) - 1) * std::ldexp(1.0, -int(30 + random() % 23));
    float nearSingle = float(near);
    uint32_t single;
    std::memcpy(&single, &nearSingle, 4);
    std::memcpy(&bits, &near, 8);
    put(data, from.bits == 64 ? bits : single, from.bits);
  }
  while (data.size() % (from.bits / 8 * 32))
    put(data, 0, from.bits);
  return data;
}

struct Program {
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(context.get()));
  mlir::OpBuilder builder{context.get()};
};

void expectNoLibraryCalls(const Code &code, const Level &level) {
  EXPECT_TRUE(code.undefined.empty()) << code.undefined.front() << " is called on " << level.name;
}

// Inputs and what they must give, computed once for every level and width of vector.
struct Reference {
  std::vector<uint8_t> inputs;
  std::vector<std::optional<uint64_t>> results;
};
const Reference &reference(const Format &from, const Format &to, bool towardsZero,
                           const std::string &name) {
  static auto *references = new std::map<std::string, Reference>;
  Reference &found = (*references)[name];
  if (found.inputs.empty()) {
    found.inputs = inputsOf(from);
    for (size_t i = 0; i < found.inputs.size() / (from.bits / 8); ++i)
      found.results.push_back(expected(get(found.inputs, i, from.bits), from, to, towardsZero));
  }
  return found;
}

void checkPairs(int64_t lanes) {
  for (const Level &level : levels()) {
    Program program;
    auto forEach = [&](auto use) {
      for (const Format &from : formats)
        for (const Format &to : formats)
          for (bool towardsZero : {false, true})
            if (&from != &to)
              use(from, to, towardsZero,
                  std::string(from.name) + "_" + to.name + (towardsZero ? "_rtz" : ""));
    };
    forEach([&](const Format &from, const Format &to, bool towardsZero, const std::string &name) {
      addMap(*program.module, name.c_str(), {from.type(program.builder)}, to.type(program.builder),
             lanes, [&](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange x) {
               return emitFloatCast(b, loc, x[0], to.type(b), towardsZero, level.features);
             });
    });
    auto code = compile(*program.module, level);
    expectNoLibraryCalls(*code, level);
    forEach([&](const Format &from, const Format &to, bool towardsZero, const std::string &name) {
      const auto &[in, results] = reference(from, to, towardsZero, name);
      size_t count = results.size();
      std::vector<uint8_t> out(count * to.bits / 8);
      code->get<MapFunction>(name.c_str())(in.data(), nullptr, nullptr, out.data(), count);
      for (size_t i = 0; i < count; ++i) {
        uint64_t source = get(in, i, from.bits), got = get(out, i, to.bits);
        auto want = results[i];
        if (want ? got == *want : APFloat(to.semantics, llvm::APInt(to.bits, got)).isNaN())
          continue;
        ADD_FAILURE() << name << "(" << std::hex << source << ") = " << got << ", expected "
                      << want.value_or(-1) << " on " << level.name;
        break;
      }
    });
  }
}

TEST(Conversions, EveryPairInVectors) {
  checkPairs(32);
}
TEST(Conversions, EveryPairInScalars) {
  checkPairs(1);
}

TEST(Conversions, AllF32) {
  if (!std::getenv("NEREID_EXHAUSTIVE"))
    GTEST_SKIP() << "set NEREID_EXHAUSTIVE=1 to take all 2^32 inputs";
  constexpr size_t block = 1 << 20;
  std::vector<uint32_t> in(block);
  const Format &from = formats[4];
  for (const Level &level : levels())
    for (const Format &to : formats) {
      if (to.bits > 16)
        continue;
      Program program;
      addMap(*program.module, "map", {from.type(program.builder)}, to.type(program.builder), 16,
             [&](mlir::OpBuilder &b, mlir::Location loc, mlir::ValueRange x) {
               return emitFloatCast(b, loc, x[0], to.type(b), false, level.features);
             });
      auto code = compile(*program.module, level);
      std::vector<uint8_t> out(block * to.bits / 8);
      for (uint64_t base = 0; base < (uint64_t(1) << 32); base += block) {
        for (size_t i = 0; i < block; ++i)
          in[i] = uint32_t(base + i);
        code->get<MapFunction>("map")(in.data(), nullptr, nullptr, out.data(), block);
        for (size_t i = 0; i < block; ++i) {
          uint64_t got = get(out, i, to.bits);
          auto want = expected(in[i], from, to, false);
          ASSERT_TRUE(want ? got == *want
                           : APFloat(to.semantics, llvm::APInt(to.bits, got)).isNaN())
              << to.name << "(" << std::hex << in[i] << ") = " << got << " on " << level.name;
        }
      }
    }
}

// The pass: conversions, arithmetic and comparisons on 16-bit floats, with no call left and each
// result rounded.
TEST(Conversions, ThePassLeavesNoLibraryCalls) {
  using namespace mlir;
  for (const Level &level : levels())
    for (int64_t lanes : {1, 8})
      for (const char *name : {"f16", "bf16"}) {
        const Format &format = name[0] == 'f' ? formats[2] : formats[3];
        Program program;
        Type type = format.type(program.builder), i64 = program.builder.getI64Type(),
             i32 = program.builder.getI32Type();
        addMap(*program.module, "arithmetic", {type, type, type}, type, lanes,
               [&](OpBuilder &b, Location loc, ValueRange x) -> Value {
                 Value sum = arith::AddFOp::create(b, loc, x[0], x[1]);
                 Value product = arith::MulFOp::create(b, loc, sum, x[2]);
                 Value isLess =
                     arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, product, x[1]);
                 Value negated = arith::NegFOp::create(b, loc, product);
                 return arith::SelectOp::create(b, loc, isLess, negated, product);
               });
        addMap(*program.module, "from_i64", {i64}, type, lanes,
               [&](OpBuilder &b, Location loc, ValueRange x) -> Value {
                 return arith::SIToFPOp::create(
                     b, loc, lanes == 1 ? type : VectorType::get({lanes}, type), x[0]);
               });
        addMap(*program.module, "from_u64", {i64}, type, lanes,
               [&](OpBuilder &b, Location loc, ValueRange x) -> Value {
                 return arith::UIToFPOp::create(
                     b, loc, lanes == 1 ? type : VectorType::get({lanes}, type), x[0]);
               });
        addMap(*program.module, "to_i32", {type}, i32, lanes,
               [&](OpBuilder &b, Location loc, ValueRange x) -> Value {
                 return arith::FPToSIOp::create(
                     b, loc, lanes == 1 ? i32 : VectorType::get({lanes}, i32), x[0]);
               });
        addMap(*program.module, "from_f64", {program.builder.getF64Type()}, type, lanes,
               [&](OpBuilder &b, Location loc, ValueRange x) -> Value {
                 return arith::TruncFOp::create(
                     b, loc, lanes == 1 ? type : VectorType::get({lanes}, type), x[0]);
               });
        auto code = compile(*program.module, level,
                            {createExpandConversionsPass(level.features).release()});
        expectNoLibraryCalls(*code, level);

        constexpr size_t count = 4096;
        std::mt19937_64 random(5);
        std::vector<uint8_t> a, b, c;
        for (size_t i = 0; i < count; ++i) {
          put(a, random() & 0xffff, 16);
          put(b, random() & 0xffff, 16);
          put(c, random() & 0xffff, 16);
        }
        std::vector<uint8_t> out(count * 2);
        code->get<MapFunction>("arithmetic")(a.data(), b.data(), c.data(), out.data(), count);
        for (size_t i = 0; i < count; ++i) {
          auto value = [&](const std::vector<uint8_t> &data) {
            return APFloat(format.semantics, llvm::APInt(16, get(data, i, 16)));
          };
          APFloat want = value(a);
          want.add(value(b), APFloat::rmNearestTiesToEven);
          want.multiply(value(c), APFloat::rmNearestTiesToEven);
          if (want.compare(value(b)) == APFloat::cmpLessThan)
            want.changeSign();
          APFloat got = value(out);
          ASSERT_TRUE(want.isNaN() ? got.isNaN() : got.bitwiseIsEqual(want))
              << name << " " << i << " on " << level.name;
        }

        std::vector<int64_t> integers = {0,     1,         -1,        2047,  2049,         65519,
                                         65520, INT64_MAX, INT64_MIN, 0x101, 0x10100000001};
        // Halfway between two bf16 but for the last bit: rounding to f64 first would lose it.
        integers.push_back(int64_t(0x4080000000000001));
        integers.push_back(-int64_t(0x4080000000000001));
        while (integers.size() < 512)
          integers.push_back(int64_t(random()) >> (random() % 64));
        std::vector<uint8_t> converted(integers.size() * 2);
        for (bool isSigned : {true, false}) {
          code->get<MapFunction>(isSigned ? "from_i64" : "from_u64")(
              integers.data(), nullptr, nullptr, converted.data(), integers.size());
          for (size_t i = 0; i < integers.size(); ++i) {
            APFloat want(format.semantics);
            want.convertFromAPInt(llvm::APInt(64, uint64_t(integers[i])), isSigned,
                                  APFloat::rmNearestTiesToEven);
            ASSERT_EQ(get(converted, i, 16), want.bitcastToAPInt().getZExtValue())
                << name << " from " << integers[i] << " on " << level.name;
          }
        }

        std::vector<uint16_t> halves(8, name[0] == 'f' ? 0xc500 : 0xc0a0); // -5
        std::vector<int32_t> ints(8);
        code->get<MapFunction>("to_i32")(halves.data(), nullptr, nullptr, ints.data(), 8);
        EXPECT_EQ(ints[7], -5);
        std::vector<double> doubles(8, 1.5);
        code->get<MapFunction>("from_f64")(doubles.data(), nullptr, nullptr, halves.data(), 8);
        EXPECT_EQ(halves[7], name[0] == 'f' ? 0x3e00 : 0x3fc0);
      }
}

} // namespace
