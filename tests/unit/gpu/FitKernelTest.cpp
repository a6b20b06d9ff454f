// What a kernel that does not fit gives up, in which order, and that every attempt begins anew.
#include "gpu/pipeline/FitKernel.h"
#include "gpu/Passes.h"
#include "ir/ngpu/Dialect.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace nereid;
using namespace nereid::gpu;

namespace {

constexpr const char *product = R"(
func.func @kernel(%a: tensor<256x256xf16>, %b: tensor<256x256xf16>) attributes {tile.kernel} {
  %zero = arith.constant dense<0.0> : tensor<256x256xf32>
  %0 = tile.dot %a, %b, %zero : tensor<256x256xf16>, tensor<256x256xf16> -> tensor<256x256xf32>
  return
}
)";

class FitKernelTest : public ::testing::Test {
protected:
  FitKernelTest() { ngpu::loadDialects(context); }

  static llvm::Error tooLarge(unsigned stages) {
    auto error = std::make_unique<OutOfSharedMemory>(300000 + stages, 232448, "all of it");
    error->stages = stages;
    return llvm::Error(std::move(error));
  }

  MLIRContext context;
};

TEST_F(FitKernelTest, GivesUpItsOwnChoicesInOrder) {
  Concessions now;
  auto next = nextConcession(now, 3, true);
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->largeConversions);
  EXPECT_EQ(next->stages, 0u);
  next = nextConcession(*next, 3, true);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->stages, 2u);
  next = nextConcession(*next, 2, true);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->stages, 1u);
  EXPECT_FALSE(next->wgmma);
  next = nextConcession(*next, 0, true);
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->wgmma);
  EXPECT_EQ(next->stages, 0u); // as many as there is room for again
  next = nextConcession(*next, 0, true);
  EXPECT_FALSE(next);
  EXPECT_FALSE(nextConcession({true, 1, false}, 0, false));
}

TEST_F(FitKernelTest, StoresGiveUpTheirBufferFirst) {
  auto next = nextConcession({}, 3, true, /*storesOverlap=*/true);
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->overlappedStores);
  EXPECT_FALSE(next->largeConversions);
  next = nextConcession(*next, 3, true, /*storesOverlap=*/false);
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->overlappedStores && next->largeConversions);
}

TEST_F(FitKernelTest, AProgramABlockComesFirst) {
  auto next = nextConcession({}, 3, true, /*storesOverlap=*/true, /*persistent=*/true);
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->persistentProducts);
  EXPECT_FALSE(next->overlappedStores || next->largeConversions || next->stages);
  next = nextConcession(*next, 3, true, /*storesOverlap=*/true);
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->persistentProducts && next->overlappedStores);
}

TEST_F(FitKernelTest, EveryAttemptSeesTheTileIR) {
  auto module = parseSourceString<ModuleOp>(product, &context);
  ASSERT_TRUE(module);
  GpuOptions options;
  options.numWarps = 8;
  unsigned attempts = 0;
  auto report =
      fitKernel(*module, options, [&](const GpuOptions &now) -> llvm::Expected<GpuReport> {
        SmallVector<tile::DotOp> found;
        module->walk([&](tile::DotOp dot) { found.push_back(dot); });
        EXPECT_EQ(found.size(), 1u);
        EXPECT_TRUE(succeeded(mlir::verify(*module)));
        for (tile::DotOp dot : found) // as the passes do: nothing of it is left
          dot.erase();
        if (++attempts < 3)
          return tooLarge(4 - attempts);
        GpuReport report;
        report.stages = 1;
        EXPECT_EQ(now.machine.best, MatrixUnit::Wgmma);
        return report;
      });
  ASSERT_TRUE(bool(report)) << llvm::toString(report.takeError());
  EXPECT_EQ(attempts, 3u);
  EXPECT_EQ(report->firstBytes, 300003u); // of the first attempt
  ASSERT_EQ(report->advice.size(), 1u);
  EXPECT_EQ(report->advice[0].what,
            "it would take 300003 bytes of shared memory and a block has 232448, so loops do not "
            "fetch ahead");
}

TEST_F(FitKernelTest, SaysWhatTheFirstAttemptNeeded) {
  auto module = parseSourceString<ModuleOp>(product, &context);
  GpuOptions options;
  options.numWarps = 8;
  unsigned attempts = 0;
  auto report =
      fitKernel(*module, options, [&](const GpuOptions &now) -> llvm::Expected<GpuReport> {
        ++attempts;
        return tooLarge(attempts < 3 ? 2 : 0);
      });
  ASSERT_FALSE(bool(report));
  // At first, with small conversions, with one stage, with mma.sync.
  EXPECT_EQ(attempts, 4u);
  llvm::handleAllErrors(report.takeError(), [](const OutOfSharedMemory &out) {
    EXPECT_EQ(out.required, 300002);
    EXPECT_EQ(out.biggest, "all of it");
  });
}

TEST_F(FitKernelTest, WhatIsTooLargeForRegistersIsNotTriedOnMma) {
  auto module = parseSourceString<ModuleOp>(product, &context);
  GpuOptions options;
  options.numWarps = 4; // 512 registers of a thread
  auto report =
      fitKernel(*module, options, [&](const GpuOptions &now) -> llvm::Expected<GpuReport> {
        EXPECT_FALSE(now.without.wgmma);
        return tooLarge(0);
      });
  EXPECT_FALSE(bool(report));
  llvm::consumeError(report.takeError());
}

TEST_F(FitKernelTest, OtherErrorsAreNotTriedAgain) {
  auto module = parseSourceString<ModuleOp>(product, &context);
  unsigned attempts = 0;
  auto report = fitKernel(*module, {}, [&](const GpuOptions &) -> llvm::Expected<GpuReport> {
    ++attempts;
    return llvm::createStringError("something else");
  });
  EXPECT_EQ(llvm::toString(report.takeError()), "something else");
  EXPECT_EQ(attempts, 1u);
}

} // namespace
