// The dot micro-kernel: any shape, every type, every way its operands may lie, against a plain
// loop; and its speed.
#include "targets/cpu/dot/Dot.h"
#include "Jit.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace nereid::cpu;
using namespace nereid::cpu::test;

namespace {

struct Layout {
  int64_t aRowStride, aColStride, bRowStride;
  bool bPacked;
  int64_t cRowStride;
  bool zeroC;
};

using DotFunction = void(const void *a, const void *b, void *c);

// The plan is of a level's features, which outlive the code.
std::unique_ptr<Code> compileDot(const DotBlocking &plan, const Layout &layout,
                                 const Level &level) {
  auto context = makeContext();
  mlir::OpBuilder builder(context.get());
  mlir::Location loc = builder.getUnknownLoc();
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(loc);
  builder.setInsertionPointToEnd(module->getBody());
  auto pointer = mlir::LLVM::LLVMPointerType::get(context.get());
  auto function = mlir::func::FuncOp::create(
      builder, loc, "dot", builder.getFunctionType({pointer, pointer, pointer}, {}));
  mlir::Block *entry = function.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  DotOperands operands;
  operands.a = entry->getArgument(0);
  operands.b = entry->getArgument(1);
  operands.c = entry->getArgument(2);
  operands.aRowStride = layout.aRowStride;
  operands.aColStride = layout.aColStride;
  operands.bRowStride = layout.bRowStride;
  operands.bPacked = layout.bPacked;
  operands.cRowStride = layout.cRowStride;
  operands.zeroC = layout.zeroC;
  if (plan.unit->biased) {
    auto array = mlir::LLVM::LLVMArrayType::get(builder.getI32Type(), plan.n);
    operands.bias = mlir::LLVM::AllocaOp::create(
        builder, loc, pointer, array,
        mlir::LLVM::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(1)));
    emitColumnSums(builder, loc, plan, operands, level.features);
  }
  emitDot(builder, loc, plan, operands, level.features);
  mlir::func::ReturnOp::create(builder, loc);
  return compile(*module, level);
}

template <typename In, typename Out> void check(DotType type, int64_t m, int64_t n, int64_t k) {
  std::mt19937 random(unsigned(m * 10007 + n * 101 + k));
  auto draw = [&] {
    return In(int(random() % 255) - 127) / (std::is_integral_v<In> ? In(1) : In(16));
  };
  for (Level level : levels()) {
    level.features.pairProducts = level.features.byteProducts = false; // Units: below
    DotBlocking plan = blockDot(type, m, n, k, level.features);
    for (int variant = 0; variant < 3; ++variant) {
      // Row-major; A transposed and wider rows; B packed and C overwritten.
      bool transposed = variant == 1, packed = variant == 2, zeroC = variant == 2;
      Layout layout{transposed ? 1 : k,         transposed ? m + 3 : 1,
                    n + (variant == 1 ? 5 : 0), packed,
                    n + (variant == 1 ? 2 : 0), zeroC};
      std::vector<In> a(transposed ? k * (m + 3) : m * k), b(k * (n + 5)), bPacked(k * n);
      std::vector<Out> c(m * layout.cRowStride), want;
      for (auto *data : {&a, &b})
        for (In &x : *data)
          x = draw();
      for (Out &x : c)
        x = Out(int(random() % 100) - 50);
      want = c;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          Out sum = zeroC ? Out(0) : c[i * layout.cRowStride + j];
          for (int64_t s = 0; s < k; ++s)
            sum += Out(a[i * layout.aRowStride + s * layout.aColStride]) *
                   Out(b[s * layout.bRowStride + j]);
          want[i * layout.cRowStride + j] = sum;
        }
      const In *bData = b.data();
      if (packed) {
        In *out = bPacked.data();
        for (int64_t first = 0; first < n;) {
          int64_t width = first < plan.panels * plan.panelWidth ? plan.panelWidth : plan.tailWidth;
          for (int64_t s = 0; s < k; ++s)
            for (int64_t j = 0; j < width; ++j)
              *out++ = b[s * layout.bRowStride + first + j];
          first += width;
        }
        bData = bPacked.data();
      }
      auto code = compileDot(plan, layout, level);
      EXPECT_TRUE(code->undefined.empty());
      code->get<DotFunction>("dot")(a.data(), bData, c.data());
      // The values are multiples of 1/16 and small: every sum is exact in every order.
      ASSERT_EQ(c, want) << m << "x" << n << "x" << k << ", variant " << variant << " on "
                         << level.name;
    }
  }
}

const int64_t shapes[][3] = {{1, 1, 1},   {1, 16, 4},   {2, 3, 5},  {16, 16, 16}, {17, 33, 9},
                             {13, 50, 7}, {32, 100, 8}, {5, 1, 31}, {64, 64, 32}, {31, 47, 12}};

TEST(Dot, F32) {
  for (auto [m, n, k] : shapes)
    check<float, float>(DotType::F32, m, n, k);
}
TEST(Dot, F64) {
  for (auto [m, n, k] : shapes)
    check<double, double>(DotType::F64, m, n, k);
}
TEST(Dot, I8) {
  for (auto [m, n, k] : shapes)
    check<int8_t, int32_t>(DotType::I8, m, n, k);
}

// Units of groups: bf16 and i8 where the machine multiplies them in groups, A row-major and in the
// order of B's units, every K.
template <typename In, typename Out>
void checkUnits(DotType type, int64_t m, int64_t n, int64_t k, In (*draw)(std::mt19937 &),
                double (*valueOf)(In)) {
  std::mt19937 random(unsigned(m * 10007 + n * 101 + k));
  for (const Level &level : levels()) {
    DotBlocking plan = blockDot(type, m, n, k, level.features);
    const DotUnit &unit = *plan.unit;
    if (unit.group == 1 || unit.storage == DotStorage::I16)
      continue; // the first as f32 or i8 above, the second below
    for (bool transposed : {false, true}) {
      int64_t group = unit.group, steps = plan.k;
      std::vector<In> a(m * steps * group), b(steps * n * group);
      std::vector<Out> c(m * n), want;
      for (Out &x : c)
        x = Out(int(random() % 100) - 50);
      want = c;
      std::vector<double> aValues(m * k), bValues(k * n);
      for (int64_t i = 0; i < m; ++i)
        for (int64_t s = 0; s < k; ++s) {
          In x = draw(random);
          aValues[i * k + s] = valueOf(x);
          int64_t place = (transposed ? s / group * m + i : i * steps + s / group) * group;
          a[place + s % group] = unit.biased ? In(x ^ 128) : x;
        }
      for (int64_t s = 0; s < k; ++s)
        for (int64_t j = 0; j < n; ++j) {
          In x = draw(random);
          bValues[s * n + j] = valueOf(x);
          b[(s / group * n + j) * group + s % group] = x;
        }
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j)
          for (int64_t s = 0; s < k; ++s)
            want[i * n + j] += Out(aValues[i * k + s] * bValues[s * n + j]);
      Layout layout{transposed ? 1 : steps, transposed ? m : 1, n, false, n, false};
      auto code = compileDot(plan, layout, level);
      code->get<DotFunction>("dot")(a.data(), b.data(), c.data());
      ASSERT_EQ(c, want) << unit.name << " " << m << "x" << n << "x" << k << " on " << level.name;
    }
  }
}

TEST(Dot, GroupsOfBF16) {
  for (auto [m, n, k] : shapes)
    checkUnits<uint16_t, float>(
        DotType::BF16, m, n, k,
        [](std::mt19937 &random) {
          float value = float(int(random() % 255) - 127) / 16;
          uint32_t bits;
          std::memcpy(&bits, &value, 4);
          return uint16_t(bits >> 16);
        },
        [](uint16_t bits) {
          uint32_t wide = uint32_t(bits) << 16;
          float value;
          std::memcpy(&value, &wide, 4);
          return double(value);
        });
}
TEST(Dot, GroupsOfI8) {
  for (auto [m, n, k] : shapes)
    checkUnits<uint8_t, int32_t>(
        DotType::I8, m, n, k, [](std::mt19937 &random) { return uint8_t(random()); },
        [](uint8_t bits) { return double(int8_t(bits)); });
}
// Pairs of i16, which i8 fits: the operands of a machine without products of bytes.
TEST(Dot, PairsOfI16) {
  const Level &level = levels().back();
  DotBlocking plan = blockDot(DotType::I8, 3, 21, 6, level.features);
  ASSERT_STREQ(plan.unit->name, "i16x2");
  std::vector<int16_t> a(3 * 6), b(6 * 21);
  std::vector<int32_t> c(3 * 21, 5), want(3 * 21, 5);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = int16_t(i * 37 % 256) - 128;
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = int16_t(i * 91 % 256) - 128;
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 21; ++j)
      for (int64_t s = 0; s < 6; ++s)
        want[i * 21 + j] += a[i * 6 + s] * b[(s / 2 * 21 + j) * 2 + s % 2];
  auto code = compileDot(plan, {3, 1, 21, false, 21, false}, level);
  code->get<DotFunction>("dot")(a.data(), b.data(), c.data());
  EXPECT_EQ(c, want);
}

TEST(Dot, PlansCoverTheShapeAndFitTheRegisters) {
  for (const Features &features :
       {Features::baseline(), Features::avx2(), Features::avx512(), Features::avx512bf16(),
        Features::aarch64(), Features::neoverseN1(), Features::neoverseV1()})
    for (int64_t m : {1, 7, 16, 100, 128, 176})
      for (int64_t n : {1, 7, 16, 48, 100, 128, 250})
        for (DotType type : {DotType::F32, DotType::F64, DotType::I8, DotType::BF16}) {
          DotBlocking plan = blockDot(type, m, n, 32, features);
          // Rows come in pairs where an accumulator is a block of 2 x 2.
          bool blocks = plan.unit->blocks;
          EXPECT_EQ(plan.rowBlocks * plan.rows + plan.longBlocks, blocks ? (m + 1) / 2 : m);
          EXPECT_EQ(plan.panels * plan.panelWidth + plan.tailWidth, n);
          int64_t vectors = plan.panelWidth / plan.lanes;
          if (plan.panels) {
            EXPECT_LE((plan.rows + (plan.longBlocks > 0)) * vectors + vectors + 1,
                      features.vectorRegisters);
          }
        }
}

// Prints the rate on operands in the caches; the machine is not quiet, so nothing is judged.
TEST(Dot, SpeedIsReported) {
  const int64_t sizes[][3] = {{128, 128, 32}, {64, 64, 32}, {128, 256, 64}, {64, 48, 64},
                              {32, 32, 32},   {16, 16, 16}, {100, 100, 100}};
  for (const Level &level : levels())
    for (auto [m, n, k] : sizes) {
      DotBlocking plan = blockDot(DotType::F32, m, n, k, level.features);
      auto start = std::chrono::steady_clock::now();
      auto code = compileDot(plan, {k, 1, n, false, n, false}, level);
      std::chrono::duration<double, std::milli> compileTime =
          std::chrono::steady_clock::now() - start;
      std::vector<float> a(m * k, 0.5f), b(k * n, 0.25f), c(m * n);
      auto *dot = code->get<DotFunction>("dot");
      double flops = 2.0 * double(m * n * k), best = INFINITY;
      int rounds = int(2e7 / flops) + 1;
      for (int round = 0; round < 20; ++round) {
        auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < rounds; ++i)
          dot(a.data(), b.data(), c.data());
        std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
        best = std::min(best, time.count() / rounds);
      }
      std::printf(
          "%-8s %3dx%3dx%3d  blocks %dx%d+%d of %dx%d+%d  %6.1f GFLOP/s  compiled in %.0f ms\n",
          level.name, int(m), int(n), int(k), int(plan.rowBlocks), int(plan.rows),
          int(plan.longBlocks), int(plan.panels), int(plan.panelWidth), int(plan.tailWidth),
          flops / best, compileTime.count());
    }
}

} // namespace
