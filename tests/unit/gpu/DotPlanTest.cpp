// Which unit computes a dot, and where its operands go.
#include "gpu/dots/DotPlan.h"
#include "ir/ngpu/Dialect.h"
#include "layout/Constructors.h"

#include "mlir/IR/Builders.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace nereid;
using namespace nereid::gpu;
using Storage = DotOperandPlan::Storage;

namespace {

class DotPlanTest : public ::testing::Test {
protected:
  DotPlanTest() : builder(&context) { ngpu::loadDialects(context); }

  DotFacts facts(int64_t m, int64_t n, int64_t k, Type element, Type accumulator,
                 bool kMajorA = true, bool kMajorB = false) {
    DotFacts facts;
    facts.shape = {m, n};
    facts.k = k;
    facts.a = {element, DotSource::Load, kMajorA};
    facts.b = {element, DotSource::Load, kMajorB};
    facts.accumulator = accumulator;
    return facts;
  }

  static GpuOptions hopper(int warps) {
    GpuOptions options;
    options.numWarps = warps;
    return options;
  }

  static GpuOptions ampere(int warps) {
    GpuOptions options;
    options.machine.generation = 80;
    options.machine.matrixStores = false;
    options.machine.best = MatrixUnit::Mma;
    options.machine.fp8Mma = false;
    options.numWarps = warps;
    return options;
  }

  /// The facts of the one dot in a kernel.
  DotFacts parse(const char *text) {
    module = parseSourceString<ModuleOp>(text, &context);
    DotFacts result;
    EXPECT_TRUE(module);
    if (!module)
      return result;
    transforms::IntegerAnalysis analysis(*module);
    module->walk([&](tile::DotOp dot) { result = gatherDotFacts(dot, analysis); });
    return result;
  }

  MLIRContext context;
  Builder builder;
  OwningOpRef<ModuleOp> module;
};

TEST_F(DotPlanTest, HalfPrecisionGoesToWgmma) {
  DotPlan plan =
      planDot(facts(128, 256, 64, builder.getF16Type(), builder.getF32Type()), hopper(8));
  EXPECT_EQ(plan.unit, MatrixUnit::Wgmma);
  EXPECT_EQ(plan.warps, (std::array<int64_t, 2>{8, 1}));
  EXPECT_EQ(plan.accumulator, layout::wgmmaAccumulator({128, 256}, {8, 1}, 256));
  EXPECT_EQ(plan.a.storage, Storage::Shared);
  EXPECT_EQ(plan.a.layout, layout::sharedSwizzled({128, 64}, {1, 0}, 16, 128));
  // Row-major B stays as it is: the unit reads 16-bit elements in both orders.
  EXPECT_EQ(plan.b.layout, layout::sharedSwizzled({64, 256}, {1, 0}, 16, 128));
  EXPECT_FALSE(plan.b.kMajor);
  EXPECT_FALSE(plan.b.reordered);
}

TEST_F(DotPlanTest, WarpGroupsGoAlongMFirst) {
  Type f16 = builder.getF16Type(), f32 = builder.getF32Type();
  EXPECT_EQ(planDot(facts(64, 128, 64, f16, f32), hopper(8)).warps, (std::array<int64_t, 2>{4, 2}));
  EXPECT_EQ(planDot(facts(256, 64, 64, f16, f32), hopper(8)).warps, (std::array<int64_t, 2>{8, 1}));
  // 192 = 3 * 64: one group per tile of 64 rows, and the others along N.
  EXPECT_EQ(planDot(facts(192, 128, 64, f16, f32), hopper(8)).warps,
            (std::array<int64_t, 2>{4, 2}));
}

TEST_F(DotPlanTest, SwizzleStaysWithinAGroupsColumns) {
  // Four groups along N have 32 columns of 64 bytes each.
  DotPlan plan =
      planDot(facts(64, 128, 64, builder.getF16Type(), builder.getF32Type()), hopper(16));
  EXPECT_EQ(plan.warps, (std::array<int64_t, 2>{4, 4}));
  EXPECT_EQ(plan.b.layout, layout::sharedSwizzled({64, 128}, {1, 0}, 16, 64));
}

TEST_F(DotPlanTest, NarrowAndWideTypesNeedKMajorB) {
  Type f32 = builder.getF32Type();
  DotPlan tf32 = planDot(facts(128, 128, 32, f32, f32), hopper(4));
  EXPECT_EQ(tf32.unit, MatrixUnit::Wgmma);
  EXPECT_TRUE(tf32.b.kMajor);
  EXPECT_TRUE(tf32.b.reordered);
  // A in the wrong order goes through registers, which are filled from a buffer in memory's order.
  DotPlan transposed = planDot(facts(128, 128, 32, f32, f32, false, true), hopper(4));
  EXPECT_EQ(transposed.a.storage, Storage::Fragment);
  EXPECT_EQ(transposed.a.layout, layout::wgmmaOperandA({128, 32}, {4, 1}, 32));
  EXPECT_FALSE(transposed.a.kMajor);
  EXPECT_FALSE(transposed.b.reordered);
}

TEST_F(DotPlanTest, FullPrecisionIsMultiplyAdd) {
  Type f32 = builder.getF32Type();
  DotFacts ieee = facts(128, 128, 32, f32, f32);
  ieee.precision = tile::InputPrecision::IEEE;
  DotPlan plan = planDot(ieee, hopper(4));
  EXPECT_EQ(plan.unit, MatrixUnit::Fma);
  EXPECT_EQ(plan.accumulator.size(layout::Axis::Register), 128);
  EXPECT_EQ(plan.accumulator.size(layout::Axis::Warp), 4);
  EXPECT_TRUE(plan.accumulator.isBijective());
  EXPECT_EQ(plan.a.storage, Storage::Shared);

  GpuOptions wide = hopper(4);
  wide.machine.lanes = 64;
  plan = planDot(ieee, wide);
  EXPECT_EQ(plan.accumulator.size(layout::Axis::Register), 64);
  EXPECT_EQ(plan.accumulator.size(layout::Axis::Lane), 64);
  EXPECT_TRUE(plan.accumulator.isBijective());
}

TEST_F(DotPlanTest, FallsBackToMmaSync) {
  Type f16 = builder.getF16Type(), f32 = builder.getF32Type(), f64 = builder.getF64Type();
  EXPECT_EQ(planDot(facts(128, 128, 64, f16, f32), ampere(4)).unit, MatrixUnit::Mma);
  EXPECT_EQ(planDot(facts(32, 32, 16, f16, f32), hopper(4)).unit, MatrixUnit::Mma);
  EXPECT_EQ(planDot(facts(128, 128, 64, f16, f32), hopper(2)).unit, MatrixUnit::Mma);
  EXPECT_EQ(planDot(facts(64, 64, 16, f64, f64), hopper(4)).unit, MatrixUnit::Mma);
  Type f8 = Float8E4M3FNType::get(&context);
  EXPECT_EQ(planDot(facts(128, 128, 64, f8, f32), hopper(4)).unit, MatrixUnit::Wgmma);
  EXPECT_EQ(planDot(facts(128, 128, 64, f8, f32), ampere(4)).unit, MatrixUnit::Fma);
  // K = 24 is three blocks of 8: no whole instruction of 16.
  EXPECT_EQ(planDot(facts(64, 64, 24, f16, f32), hopper(4)).unit, MatrixUnit::Fma);
}

TEST_F(DotPlanTest, MmaWarpsReadFewOperands) {
  Type f16 = builder.getF16Type(), f32 = builder.getF32Type();
  EXPECT_EQ(planDot(facts(128, 128, 64, f16, f32), ampere(4)).warps,
            (std::array<int64_t, 2>{2, 2}));
  EXPECT_EQ(planDot(facts(16, 128, 64, f16, f32), ampere(4)).warps, (std::array<int64_t, 2>{1, 4}));
  DotFacts attention = facts(128, 64, 64, f16, f32);
  attention.rowsTogether = true;
  EXPECT_EQ(planDot(attention, ampere(4)).warps, (std::array<int64_t, 2>{4, 1}));
  attention.shape = {32, 64};
  EXPECT_EQ(planDot(attention, ampere(4)).warps, (std::array<int64_t, 2>{2, 2}));
}

TEST_F(DotPlanTest, RowsThatAreReadStayWithinAWarp) {
  // The second group of four warps finds no rows: of few columns it computes copies.
  Type f16 = builder.getF16Type(), f32 = builder.getF32Type();
  DotFacts scores = facts(64, 32, 64, f16, f32);
  EXPECT_EQ(planDot(scores, hopper(8)).warps, (std::array<int64_t, 2>{4, 2}));
  scores.rowsRead = true;
  DotPlan plan = planDot(scores, hopper(8));
  EXPECT_EQ(plan.warps, (std::array<int64_t, 2>{8, 1}));
  EXPECT_EQ(plan.accumulator.freeBits(layout::Axis::Warp), 4u);
  EXPECT_EQ(plan.accumulator.size(layout::Axis::Register), 16);
  scores.shape = {64, 64};
  EXPECT_EQ(planDot(scores, hopper(8)).warps, (std::array<int64_t, 2>{4, 2}));
  scores.shape = {128, 32};
  EXPECT_EQ(planDot(scores, hopper(8)).warps, (std::array<int64_t, 2>{8, 1}));
}

TEST_F(DotPlanTest, EveryElementOfTheResultHasAPlace) {
  // Whatever the shape, an accumulator covers its tensor.
  Type f16 = builder.getF16Type(), f32 = builder.getF32Type();
  for (int64_t m : {1, 2, 8, 16, 48, 64, 128, 192})
    for (int64_t n : {1, 4, 8, 16, 96, 128, 256})
      for (int warps : {1, 2, 4, 8})
        for (Type type : {f16, f32}) {
          DotFacts dot = facts(m, n, 32, type, f32);
          if (type == f32)
            dot.precision = tile::InputPrecision::IEEE;
          DotPlan plan = planDot(dot, hopper(warps));
          EXPECT_TRUE(plan.accumulator.isSurjective()) << m << "x" << n << " " << warps;
          EXPECT_EQ(plan.accumulator.size(layout::Axis::Lane), 32) << m << "x" << n;
          EXPECT_EQ(plan.accumulator.size(layout::Axis::Warp), warps) << m << "x" << n;
        }
}

TEST_F(DotPlanTest, FactsOfLoads) {
  DotFacts facts = parse(R"(
    func.func @k(%a: !tile.ptr<f16>, %b: !tile.ptr<i8>, %c: tensor<16x16xf32>, %s: i32)
        -> tensor<16x16xf32> attributes {tile.kernel} {
      %r = tile.range 0 to 16 : tensor<16xi32>
      %rows = tile.expand_dims %r 1 : tensor<16xi32> -> tensor<16x1xi32>
      %cols = tile.expand_dims %r 0 : tensor<16xi32> -> tensor<1x16xi32>
      %stride = tile.splat %s : i32 -> tensor<16x1xi32>
      %scaled = arith.muli %rows, %stride : tensor<16x1xi32>
      %x = tile.broadcast %scaled : tensor<16x1xi32> -> tensor<16x16xi32>
      %y = tile.broadcast %cols : tensor<1x16xi32> -> tensor<16x16xi32>
      %offsets = arith.addi %x, %y : tensor<16x16xi32>
      %pa = tile.splat %a : !tile.ptr<f16> -> tensor<16x16x!tile.ptr<f16>>
      %pas = tile.addptr %pa, %offsets : tensor<16x16x!tile.ptr<f16>>, tensor<16x16xi32>
      %pb = tile.splat %b : !tile.ptr<i8> -> tensor<16x16x!tile.ptr<i8>>
      %pbs = tile.addptr %pb, %offsets : tensor<16x16x!tile.ptr<i8>>, tensor<16x16xi32>
      %va = tile.load %pas : tensor<16x16x!tile.ptr<f16>> -> tensor<16x16xf16>
      %at = tile.trans %va [1, 0] : tensor<16x16xf16> -> tensor<16x16xf16>
      %vb = tile.load %pbs : tensor<16x16x!tile.ptr<i8>> -> tensor<16x16xi8>
      %fb = arith.sitofp %vb : tensor<16x16xi8> to tensor<16x16xf16>
      %d = tile.dot %at, %fb, %c : tensor<16x16xf16>, tensor<16x16xf16> -> tensor<16x16xf32>
      return %d : tensor<16x16xf32>
    })");
  EXPECT_EQ(facts.a.source, DotSource::Load);
  EXPECT_FALSE(facts.a.kMajor); // a transposed view
  EXPECT_EQ(facts.b.source, DotSource::Converted);
  EXPECT_FALSE(facts.b.kMajor);
  EXPECT_EQ(facts.k, 16);
  EXPECT_FALSE(facts.rowsTogether);
}

} // namespace
