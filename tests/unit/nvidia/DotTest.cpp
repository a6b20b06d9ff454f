// Products on the simulator: operands from registers through shared memory to each unit, by the
// plans that kernels get. Small integers make every sum exact.
#include "Simulated.h"

#include "gpu/dots/DotPlan.h"
#include "layout/Constructors.h"
#include "targets/nvidia/Machine.h"

#include "mlir/AsmParser/AsmParser.h"

#include "llvm/ADT/APFloat.h"

using namespace nereid;
using namespace nereid::test;
using gpu::DotFacts;
using gpu::DotOperandPlan;
using gpu::DotPlan;
using gpu::MatrixUnit;

namespace {

struct Kind {
  const char *element, *accumulator;
  unsigned bits;
};

double valueAt(uint64_t index, unsigned stream) {
  return double(noise(index, 2, stream)) + 1 -
         2 * double(noise(index, 3, stream + 7) & 1) * (double(noise(index, 2, stream)) + 1);
}

uint64_t encoded(double value, llvm::StringRef element) {
  if (element.starts_with("i"))
    return uint64_t(int64_t(value)) & (element == "i8" ? 0xFF : 0xFFFFFFFFu);
  const llvm::fltSemantics &semantics = element == "f16"        ? llvm::APFloat::IEEEhalf()
                                        : element == "bf16"     ? llvm::APFloat::BFloat()
                                        : element == "f32"      ? llvm::APFloat::IEEEsingle()
                                        : element == "f64"      ? llvm::APFloat::IEEEdouble()
                                        : element == "f8E4M3FN" ? llvm::APFloat::Float8E4M3FN()
                                                                : llvm::APFloat::Float8E5M2();
  llvm::APFloat number(value);
  bool lost;
  number.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &lost);
  return number.bitcastToAPInt().getZExtValue();
}

class Dots : public ::testing::Test {
protected:
  Dots() { ngpu::loadDialects(context); }

  /// a x b + c of `shape` (batches, M, N) and `k`, as planned; `options` says for whom. The
  /// elements of c are small numbers on top of `base`.
  void expectProduct(llvm::SmallVector<int64_t, 4> shape, int64_t k, const Kind &kind,
                     const gpu::GpuOptions &options, MatrixUnit unit, bool kMajorA = true,
                     bool kMajorB = false, bool ieee = false,
                     gpu::DotSource sourceA = gpu::DotSource::Load, int promote = 0,
                     double base = 0, bool rowsRead = false) {
    SCOPED_TRACE(llvm::formatv("{0}x{1}x{2} {3} {4}{5}", shape[shape.size() - 2], shape.back(), k,
                               kind.element, kMajorA ? "k" : "m", kMajorB ? "k" : "n")
                     .str());
    DotFacts facts;
    facts.shape = shape;
    facts.k = k;
    facts.a = {mlir::parseType(kind.element, &context), sourceA, kMajorA};
    facts.b = {mlir::parseType(kind.element, &context), gpu::DotSource::Load, kMajorB};
    facts.accumulator = mlir::parseType(kind.accumulator, &context);
    facts.rowsRead = facts.rowsTogether = rowsRead;
    if (ieee)
      facts.precision = tile::InputPrecision::IEEE;
    DotPlan plan = gpu::planDot(facts, options);
    ASSERT_EQ(plan.unit, unit);

    llvm::SmallVector<int64_t, 4> shapeA = shape, shapeB = shape;
    shapeA.back() = k;
    shapeB[shapeB.size() - 2] = k;
    std::string body, names[2];
    auto operand = [&](unsigned i, llvm::ArrayRef<int64_t> of, const DotOperandPlan &wanted) {
      std::string name = i ? "b" : "a", index = "i" + name;
      llvm::SmallVector<unsigned> order;
      for (unsigned dim = of.size(); dim-- > 0;)
        order.push_back(dim);
      LinearLayout rows =
          layout::striped(layout::coreShape(of), 128 / kind.bits, 32, options.numWarps, order);
      body +=
          indices(index, of, rows) + input(name, index, of, kind.element, rows, "input_" + name);
      std::string buffer =
          "!ngpu.buffer<" + shapeText(of) + kind.element + ", " + attribute(wanted.buffer) + ">";
      std::string type = tensor(of, kind.element, rows);
      body +=
          "  %s" + name + " = ngpu.local_alloc %" + name + " : " + type + " -> " + buffer + "\n";
      if (wanted.storage == DotOperandPlan::Storage::Shared) {
        names[i] = buffer;
        return "%s" + name;
      }
      names[i] = tensor(of, kind.element, wanted.layout);
      body += "  %f" + name + " = ngpu.local_load %s" + name + " : " + buffer + " -> " + names[i] +
              "\n";
      return "%f" + name;
    };
    std::string a = operand(0, shapeA, plan.a), b = operand(1, shapeB, plan.b);
    std::string type = tensor(shape, kind.accumulator, plan.accumulator);
    body += indices("ic", shape, plan.accumulator) +
            input("c", "ic", shape, kind.accumulator, plan.accumulator, "input_c");
    const char *op = unit == MatrixUnit::Fma   ? "fma_dot"
                     : unit == MatrixUnit::Mma ? "mma"
                                               : "wgmma";
    std::string more = promote ? " promote_k " + std::to_string(promote) : "";
    body += std::string("  %d = ngpu.") + op + " " + a + ", " + b + ", %c" + more + " : " +
            names[0] + ", " + names[1] + " -> " + type + "\n" +
            record("ic", "d", shape, kind.accumulator, plan.accumulator);

    unsigned records = 0;
    std::string wrong;
    auto external = [&](unsigned thread, llvm::StringRef name,
                        const WarpSimulator::Words &arguments) -> uint64_t {
      uint64_t index = arguments[0];
      if (name == "input_a")
        return encoded(valueAt(index, 1), kind.element);
      if (name == "input_b")
        return encoded(valueAt(index, 2), kind.element);
      if (name == "input_c")
        return encoded(base + valueAt(index, 3), kind.accumulator);
      ++records;
      int64_t m = shape[shape.size() - 2], n = shape.back();
      int64_t batch = index / (m * n), row = index / n % m, column = index % n;
      double sum = base + valueAt(index, 3);
      for (int64_t i = 0; i < k; ++i)
        sum += valueAt((batch * m + row) * k + i, 1) * valueAt((batch * k + i) * n + column, 2);
      if (arguments[1] != encoded(sum, kind.accumulator) && wrong.empty())
        wrong = llvm::formatv("thread {0}, element {1}: {2:x} instead of {3:x}", thread, index,
                              arguments[1], encoded(sum, kind.accumulator))
                    .str();
      return 0;
    };
    SimulatedRun run = simulate(body, options.numWarps, external, options.machine.generation);
    EXPECT_EQ(run.error.substr(0, 2000), "");
    EXPECT_EQ(wrong, "");
    EXPECT_GT(records, 0u);
  }

  static gpu::GpuOptions device(int sm, int warps) {
    gpu::GpuOptions options;
    options.machine = nvidia::machineOf({sm, sm >= 90});
    options.numWarps = warps;
    return options;
  }

  mlir::MLIRContext context;
};

constexpr Kind kHalves{"f16", "f32", 16}, kBrains{"bf16", "f32", 16}, kSingles{"f32", "f32", 32},
    kBytes{"i8", "i32", 8}, kE4M3{"f8E4M3FN", "f32", 8}, kE5M2{"f8E5M2", "f32", 8},
    kDoubles{"f64", "f64", 64}, kHalfSums{"f16", "f16", 16};

TEST_F(Dots, Mma) {
  for (const Kind &kind : {kHalves, kBrains, kSingles, kBytes, kE4M3, kE5M2, kDoubles, kHalfSums})
    for (bool kMajorA : {true, false})
      expectProduct({32, 32}, 32, kind, device(89, 4), MatrixUnit::Mma, kMajorA, kMajorA);
}

TEST_F(Dots, MmaOfSmallAndOddShapes) {
  for (auto [m, n] : {std::pair(1, 1), {1, 16}, {8, 4}, {16, 8}, {48, 24}, {24, 40}})
    expectProduct({m, n}, 48, kHalves, device(80, 2), MatrixUnit::Mma);
  expectProduct({3, 16, 16}, 16, kHalves, device(80, 2), MatrixUnit::Mma);
  expectProduct({1, 4}, 16, kDoubles, device(80, 2), MatrixUnit::Mma);
}

TEST_F(Dots, Wgmma) {
  for (const Kind &kind : {kHalves, kBrains, kSingles, kBytes, kE4M3, kE5M2, kHalfSums})
    for (bool kMajorA : {true, false})
      for (bool kMajorB : {true, false})
        if (kind.bits == 16 || kMajorA != kMajorB)
          expectProduct({64, 16}, 32, kind, device(90, 4), MatrixUnit::Wgmma, kMajorA, kMajorB);
}

TEST_F(Dots, WgmmaOfManyShapes) {
  struct {
    int64_t m, n, k;
    int warps;
  } shapes[] = {{64, 8, 16, 4},   {64, 128, 16, 8}, {128, 32, 32, 8}, {64, 16, 128, 4},
                {192, 16, 16, 4}, {64, 48, 48, 4},  {64, 96, 16, 16}};
  for (auto &shape : shapes)
    for (bool kMajorB : {true, false})
      expectProduct({shape.m, shape.n}, shape.k, kHalves, device(90, shape.warps),
                    MatrixUnit::Wgmma, true, kMajorB);
}

TEST_F(Dots, WgmmaFromRegisters) {
  for (const Kind &kind : {kHalves, kSingles, kBytes})
    expectProduct({128, 16}, 32, kind, device(90, 8), MatrixUnit::Wgmma, true, true, false,
                  gpu::DotSource::Converted);
}

TEST_F(Dots, WgmmaInCopies) {
  for (int warps : {8, 16})
    expectProduct({64, 32}, 32, kHalves, device(90, warps), MatrixUnit::Wgmma, true, true, false,
                  gpu::DotSource::Load, 0, 0, /*rowsRead=*/true);
}

TEST_F(Dots, WgmmaInParts) {
  expectProduct({64, 16}, 128, kE4M3, device(90, 4), MatrixUnit::Wgmma, true, true, false,
                gpu::DotSource::Load, 64);
}

TEST_F(Dots, IntegersWrap) {
  for (double base : {double(INT32_MAX), double(INT32_MIN)}) {
    auto expectWraps = [&](llvm::SmallVector<int64_t, 4> shape, int sm, MatrixUnit unit) {
      expectProduct(shape, 32, kBytes, device(sm, 4), unit, true, true, false, gpu::DotSource::Load,
                    0, base);
    };
    expectWraps({32, 32}, 89, MatrixUnit::Mma);
    expectWraps({64, 16}, 90, MatrixUnit::Wgmma);
  }
}

TEST_F(Dots, MultiplyAdd) {
  for (bool kMajorA : {true, false})
    for (bool kMajorB : {true, false})
      expectProduct({32, 64}, 32, kSingles, device(90, 4), MatrixUnit::Fma, kMajorA, kMajorB, true);
  expectProduct({32, 64}, 64, kSingles, device(90, 1), MatrixUnit::Fma, true, false, true);
  for (const Kind &kind : {kHalves, kHalfSums, kBytes})
    for (auto [m, n, k] : {std::tuple(1, 1, 8), {16, 16, 8}, {3, 20, 5}, {12, 7, 24}})
      expectProduct({m, n}, k, kind, device(90, 2), MatrixUnit::Fma);
  expectProduct({2, 8, 16}, 8, kHalves, device(90, 2), MatrixUnit::Fma);
  expectProduct({16, 16}, 2, kDoubles, device(90, 2), MatrixUnit::Fma);
}

} // namespace
