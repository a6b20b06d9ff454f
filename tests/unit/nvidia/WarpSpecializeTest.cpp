// Kernels whose warps copy or compute, through all GPU passes and the emitter, on simulated threads
// and a simulated copy engine; and that faults in the protocol are found.
#include "DividedKernel.h"

#include "ir/ngpu/Dialect.h"

#include "gtest/gtest.h"

using namespace mlir;

namespace nereid::test {
namespace {

enum class Shape { Plain, Tiles, Branch };

/// out[rows, cols] = x[rows, k] y[k, cols], in blocks of `blockM` rows and all columns by one
/// program.
struct Problem {
  Shape shape = Shape::Plain;
  int blockM = 64, cols = 64, tiles = 1, k = 192, warps = 4, stages = 3;
  gpu::OverlapStores stores = gpu::OverlapStores::Groups;
  int rows() const { return blockM * tiles; }
};

std::string textOf(const Problem &p) {
  auto n = [](int64_t value) { return std::to_string(value); };
  std::string a = n(p.blockM) + "x64xf16", b = "64x" + n(p.cols) + "xf16",
              c = n(p.blockM) + "x" + n(p.cols) + "xf32";
  std::string product = R"(
    %sum = scf.for %k = %c0 to %kk step %c64 iter_args(%acc = %zero) -> (tensor<C>) : i32 {
      %0 = tile.desc_load %a [%row, %k] : !tile.desc<A> -> tensor<A>
      %1 = tile.desc_load %b [%k, %c0] : !tile.desc<B> -> tensor<B>
      %2 = tile.dot %0, %1, %acc : tensor<A>, tensor<B> -> tensor<C>
      scf.yield %2 : tensor<C>
    }
    tile.desc_store %c [%row, %c0], %sum : !tile.desc<C>, tensor<C>
)";
  std::string body = "%row = arith.constant 0 : i32\n" + product;
  if (p.shape != Shape::Plain) {
    if (p.shape == Shape::Branch) // every other tile only
      product = "%odd = arith.andi %t, %c1 : i32\n%even = arith.cmpi eq, %odd, %c0 : i32\n"
                "scf.if %even {" +
                product + "}\n";
    body = "scf.for %t = %c0 to %tiles step %c1 : i32 {\n"
           "%row = arith.muli %t, %rowsOfTile : i32\n" +
           product + "}\n";
  }
  std::string text = R"(
func.func @k(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "x"},
             %y: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "y"},
             %z: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "z"},
             %rows: i32, %kk: i32, %stride: i64 {tile.divisibility = 8 : i64}, %tiles: i32)
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %rowsOfTile = arith.constant ROWS : i32
  %cols = arith.constant COLS : i32
  %colStride = arith.constant COLS : i64
  %zero = arith.constant dense<0.0> : tensor<C>
  %a = tile.make_descriptor %x [%rows, %kk] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<A>
  %b = tile.make_descriptor %y [%kk, %cols] strides [%colStride] copy_engine : !tile.ptr<f16> -> !tile.desc<B>
  %c = tile.make_descriptor %z [%rows, %cols] strides [%colStride] copy_engine : !tile.ptr<f32> -> !tile.desc<C>
)" + body + "  return\n}\n";
  auto replace = [&](const std::string &from, const std::string &to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  };
  replace("<A>", "<" + a + ">");
  replace("<B>", "<" + b + ">");
  replace("<C>", "<" + c + ">");
  replace("ROWS", n(p.blockM));
  replace("COLS", n(p.cols));
  return text;
}

struct Outcome : DividedOutcome {
  unsigned wrong = 0;
};

/// `change`: what is done to the kernel before it is emitted.
Outcome run(const Problem &p, llvm::function_ref<void(func::FuncOp)> change = nullptr,
            gpu::Specialise specialise = gpu::Specialise::Always) {
  gpu::GpuOptions options;
  options.numWarps = p.warps;
  options.numStages = p.stages;
  options.specialise = specialise;
  options.overlapStores = p.stores;
  options.verify = true;
  // A stride of whole 16 bytes; K may be anything.
  int64_t stride = (p.k + 7) / 8 * 8;
  std::vector<uint16_t> x(p.rows() * stride), y(std::max(1, p.k) * p.cols);
  std::vector<float> z(p.rows() * p.cols, -1), expected = z;
  auto small = [](size_t i, int by) { return float(int(i * by % 7) - 3); };
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = halfOf(small(i, 5));
  for (size_t i = 0; i < y.size(); ++i)
    y[i] = halfOf(small(i, 3));
  for (int m = 0; m < p.rows(); ++m)
    for (int n = 0; n < p.cols; ++n) {
      if (p.shape == Shape::Branch && m / p.blockM % 2)
        continue;
      float sum = 0;
      for (int k = 0; k < p.k; ++k)
        sum += small(m * stride + k, 5) * small(k * p.cols + n, 3);
      expected[m * p.cols + n] = sum;
    }
  WarpSimulator::Words words = {reinterpret_cast<uint64_t>(x.data()),
                                reinterpret_cast<uint64_t>(y.data()),
                                reinterpret_cast<uint64_t>(z.data()),
                                uint64_t(p.rows()),
                                uint64_t(p.k),
                                uint64_t(stride),
                                uint64_t(p.tiles)};
  Outcome outcome{runDivided(textOf(p), options, words, change)};
  for (size_t i = 0; i < z.size(); ++i)
    outcome.wrong += !(z[i] == expected[i]);
  return outcome;
}

void expectRight(const Problem &p) {
  SCOPED_TRACE("k " + std::to_string(p.k) + " warps " + std::to_string(p.warps) + " stages " +
               std::to_string(p.stages) + " tiles " + std::to_string(p.tiles));
  Outcome outcome = run(p);
  EXPECT_EQ(outcome.error, "");
  EXPECT_TRUE(outcome.divided);
  EXPECT_EQ(outcome.wrong, 0u);
}

TEST(WarpSpecialize, WithoutAsBefore) {
  Outcome outcome = run({}, nullptr, gpu::Specialise::AsAsked);
  EXPECT_EQ(outcome.error, "");
  EXPECT_FALSE(outcome.divided);
  EXPECT_EQ(outcome.wrong, 0u);
  EXPECT_EQ(outcome.copies, 6u);
}

TEST(WarpSpecialize, AnyNumberOfTrips) {
  for (int k : {0, 8, 64, 128, 192, 456})
    expectRight({Shape::Plain, 64, 64, 1, k, 4, 3});
}

TEST(WarpSpecialize, AnyNumberOfStages) {
  for (int stages : {2, 4, 5})
    expectRight({Shape::Plain, 64, 64, 1, 64 * 7, 4, stages});
}

TEST(WarpSpecialize, ConsumersShareATile) {
  expectRight({Shape::Plain, 128, 64, 1, 320, 8, 3});
}

TEST(WarpSpecialize, TheTurnIsCarriedFromTileToTile) {
  for (int k : {0, 64, 192, 256})
    expectRight({Shape::Tiles, 64, 64, 4, k, 4, 3});
  expectRight({Shape::Branch, 64, 64, 5, 128, 4, 3});
}

//===--- stores ------------------------------------------------------------------------------===//

template <typename Op> SmallVector<Op> opsIn(func::FuncOp kernel, unsigned part) {
  SmallVector<Op> found;
  ngpu::warpSpecializeOf(kernel).getParts()[part].walk([&](Op op) { found.push_back(op); });
  return found;
}

constexpr auto kWaits = gpu::OverlapStores::Waits, kGroups = gpu::OverlapStores::Groups,
               kNever = gpu::OverlapStores::Never;

TEST(WarpSpecialize, StoresOverlapWithTheNextTile) {
  for (auto stores : {kNever, kWaits, kGroups})
    for (int k : {0, 64, 320}) {
      expectRight({Shape::Tiles, 128, 64, 4, k, 8, 3, stores});
      expectRight({Shape::Branch, 128, 64, 5, k, 8, 2, stores});
    }
}

TEST(WarpSpecialize, GroupsHaveSeveralChunksOfRows) {
  expectRight({Shape::Tiles, 256, 32, 3, 128, 8, 3, kGroups});
  expectRight({Shape::Plain, 256, 32, 1, 128, 16, 2, kNever});
  expectRight({Shape::Plain, 256, 32, 1, 128, 16, 2, kGroups});
}

TEST(WarpSpecialize, GroupsDoNotMeetInALoopOverTiles) {
  run({Shape::Tiles, 128, 64, 3, 128, 8, 3, kGroups}, [](func::FuncOp kernel) {
    EXPECT_EQ(opsIn<ngpu::BarrierOp>(kernel, 0).size(), 0u);
    EXPECT_EQ(opsIn<ngpu::GroupBarrierOp>(kernel, 0).size(), 2u);
  });
}

/// A group that is late reads blocks that the other one has read long ago.
TEST(WarpSpecialize, AGroupMayBeATileAhead) {
  expectRight({Shape::Tiles, 128, 64, 6, 64, 8, 4, kGroups});
}

//===--- faults ------------------------------------------------------------------------------===//

const Problem kSeven = {Shape::Plain, 64, 64, 1, 64 * 7, 4, 3};

TEST(WarpSpecialize, MissingReleaseIsADeadlock) {
  Outcome outcome =
      run(kSeven, [](func::FuncOp kernel) { opsIn<ngpu::MBarrierArriveOp>(kernel, 0)[0].erase(); });
  EXPECT_NE(outcome.error.find("deadlock"), std::string::npos) << outcome.error;
}

TEST(WarpSpecialize, MissingAnnouncementIsADeadlock) {
  Outcome outcome =
      run(kSeven, [](func::FuncOp kernel) { opsIn<ngpu::MBarrierExpectOp>(kernel, 1)[0].erase(); });
  EXPECT_NE(outcome.error.find("deadlock"), std::string::npos) << outcome.error;
}

TEST(WarpSpecialize, WrongBytesAreADeadlock) {
  Outcome outcome = run(kSeven, [](func::FuncOp kernel) {
    auto expect = opsIn<ngpu::MBarrierExpectOp>(kernel, 1)[0];
    expect.setBytes(expect.getBytes() + 16);
  });
  EXPECT_NE(outcome.error.find("deadlock"), std::string::npos) << outcome.error;
}

TEST(WarpSpecialize, ReadingBeforeTheCopiesArriveIsWrong) {
  Outcome outcome =
      run(kSeven, [](func::FuncOp kernel) { opsIn<ngpu::MBarrierWaitOp>(kernel, 0)[0].erase(); });
  EXPECT_TRUE(!outcome.error.empty() || outcome.wrong);
}

TEST(WarpSpecialize, FillingBeforeTheSlotIsEmptyIsFound) {
  Outcome outcome =
      run(kSeven, [](func::FuncOp kernel) { opsIn<ngpu::MBarrierWaitOp>(kernel, 1)[0].erase(); });
  EXPECT_TRUE(!outcome.error.empty() || outcome.wrong);
}

TEST(WarpSpecialize, ReleaseBeforeTheProductHasEndedIsFound) {
  Problem two = kSeven;
  two.stages = 2;
  Outcome outcome = run(two, [](func::FuncOp kernel) {
    for (auto wait : opsIn<ngpu::WgmmaWaitOp>(kernel, 0))
      if (wait.getPending() == 1)
        wait.setPending(2);
  });
  EXPECT_NE(outcome.error.find("which a product in flight reads"), std::string::npos)
      << outcome.error;
}

void expectChangedBytes(const Problem &p, llvm::function_ref<void(func::FuncOp)> change) {
  Outcome outcome = run(p, change);
  EXPECT_TRUE(StringRef(outcome.error).contains("change while the copy engine reads them") ||
              StringRef(outcome.error).contains("no order"))
      << outcome.error;
}

/// In a loop over tiles, per store: a wait, a barrier, the writes, a barrier, the store.
TEST(WarpSpecialize, MissingWaitForAStoreIsFound) {
  for (auto stores : {kWaits, kGroups})
    expectChangedBytes({Shape::Tiles, 128, 64, 3, 128, 8, 3, stores}, [](func::FuncOp kernel) {
      opsIn<ngpu::TmaStoreWaitOp>(kernel, 0)[0].erase();
    });
}

TEST(WarpSpecialize, WritingBeforeTheStoreIsWaitedForIsFound) {
  expectChangedBytes({Shape::Tiles, 128, 64, 3, 128, 8, 3, kWaits},
                     [](func::FuncOp kernel) { opsIn<ngpu::BarrierOp>(kernel, 0)[0].erase(); });
  expectChangedBytes({Shape::Tiles, 128, 64, 3, 128, 8, 3, kGroups}, [](func::FuncOp kernel) {
    opsIn<ngpu::GroupBarrierOp>(kernel, 0)[0].erase();
  });
}

TEST(WarpSpecialize, StoringBeforeTheGroupHasWrittenIsFound) {
  expectChangedBytes({Shape::Tiles, 128, 64, 3, 128, 8, 3, kGroups}, [](func::FuncOp kernel) {
    opsIn<ngpu::GroupBarrierOp>(kernel, 0)[1].erase();
  });
}

TEST(WarpSpecialize, EndingBeforeAStoreIsWaitedForIsFound) {
  for (auto stores : {kWaits, kGroups}) {
    Outcome outcome = run({Shape::Tiles, 128, 64, 3, 128, 8, 3, stores}, [](func::FuncOp kernel) {
      opsIn<ngpu::TmaStoreWaitOp>(kernel, 0)[1].erase();
    });
    EXPECT_NE(outcome.error.find("the block ends before"), std::string::npos) << outcome.error;
  }
}

} // namespace
} // namespace nereid::test
