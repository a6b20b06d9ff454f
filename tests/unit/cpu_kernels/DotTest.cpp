// The dot micro-kernel: any shape, every type, every way its operands may lie, against a plain
// loop; and its speed.
#include "targets/cpu/dot/Dot.h"
#include "Jit.h"

#include <chrono>
#include <cmath>
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
  DotOperands operands{entry->getArgument(0), entry->getArgument(1), entry->getArgument(2),
                       layout.aRowStride,     layout.aColStride,     layout.bRowStride,
                       layout.bPacked,        layout.cRowStride,     layout.zeroC};
  emitDot(builder, loc, plan, operands, level.features);
  mlir::func::ReturnOp::create(builder, loc);
  return compile(*module, level);
}

template <typename In, typename Out> void check(DotType type, int64_t m, int64_t n, int64_t k) {
  std::mt19937 random(unsigned(m * 10007 + n * 101 + k));
  auto draw = [&] {
    return In(int(random() % 255) - 127) / (std::is_integral_v<In> ? In(1) : In(16));
  };
  for (const Level &level : levels()) {
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

TEST(Dot, PlansCoverTheShapeAndFitTheRegisters) {
  for (const Features &features :
       {Features::baseline(), Features::avx2(), Features::avx512(), Features::aarch64()})
    for (int64_t m : {1, 7, 16, 100, 128, 176})
      for (int64_t n : {1, 7, 16, 48, 100, 128, 250})
        for (DotType type : {DotType::F32, DotType::F64, DotType::I8}) {
          DotBlocking plan = blockDot(type, m, n, 32, features);
          EXPECT_EQ(plan.rowBlocks * plan.rows + plan.longBlocks, m);
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
