// Products whose programs run in pairs and share copies: through all GPU passes and the emitter, on
// two simulated blocks with a simulated copy engine each; and that faults in the protocol are
// found.
#include "DividedKernel.h"

#include "ir/ngpu/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

#include "gtest/gtest.h"

using namespace mlir;

namespace nereid::test {
namespace {

/// out[tilesM * blockM, tilesN * 64] = x[.., k] y[k, ..]. Tile t is block t % tilesM of the rows
/// and t / tilesM of the columns. Programs compute tiles in a loop, or one each.
struct Problem {
  bool persistent = true;
  int tilesM = 2, tilesN = 2, k = 192, warps = 4, stages = 3, blockM = 64;
  unsigned programs = 2;
  bool conditional = false;     ///< programs of tile 1 do nothing
  std::optional<unsigned> late; ///< the block that is slower, as in the simulator

  int tiles() const { return tilesM * tilesN; }
};

std::string textOf(const Problem &p) {
  std::string tile = R"(
    %rowTile = arith.remsi %t, %tilesM : i32
    %colTile = arith.divsi %t, %tilesM : i32
    %row = arith.muli %rowTile, %blockM : i32
    %col = arith.muli %colTile, %c64 : i32
    %sum = scf.for %k = %c0 to %kk step %c64 iter_args(%acc = %zero) -> (tensor<Cxf32>) : i32 {
      %0 = tile.desc_load %a [%row, %k] : !tile.desc<A> -> tensor<A>
      %1 = tile.desc_load %b [%k, %col] : !tile.desc<64x64xf16> -> tensor<64x64xf16>
      %2 = tile.dot %0, %1, %acc : tensor<A>, tensor<64x64xf16> -> tensor<Cxf32>
      scf.yield %2 : tensor<Cxf32>
    }
    tile.desc_store %c [%row, %col], %sum : !tile.desc<Cxf32>, tensor<Cxf32>
)";
  if (p.conditional)
    tile = "%runs = arith.cmpi ne, %t, %c1 : i32\nscf.if %runs {" + tile + "}\n";
  std::string body = p.persistent ? "scf.for %t = %id to %tiles step %programs : i32 {" + tile + "}"
                                  : "%t = arith.addi %id, %c0 : i32" + tile;
  std::string text = R"(
func.func @k(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "x"},
             %y: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "y"},
             %z: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "z"},
             %rows: i32, %cols: i32 {tile.divisibility = 64 : i32}, %kk: i32,
             %strideX: i64 {tile.divisibility = 8 : i64}, %strideY: i64 {tile.divisibility = 8 : i64},
             %tiles: i32, %tilesM: i32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %blockM = arith.constant ROWS : i32
  %zero = arith.constant dense<0.0> : tensor<Cxf32>
  %a = tile.make_descriptor %x [%rows, %kk] strides [%strideX] copy_engine : !tile.ptr<f16> -> !tile.desc<A>
  %b = tile.make_descriptor %y [%kk, %cols] strides [%strideY] copy_engine : !tile.ptr<f16> -> !tile.desc<64x64xf16>
  %c = tile.make_descriptor %z [%rows, %cols] strides [%strideY] copy_engine : !tile.ptr<f32> -> !tile.desc<Cxf32>
  %id = tile.program_id 0
  %programs = tile.num_programs 0
)" + body + "  return\n}\n";
  std::string rows = std::to_string(p.blockM);
  return replaced(
      text,
      {{"<A>", "<" + rows + "x64xf16>"}, {"<Cxf32>", "<" + rows + "x64xf32>"}, {"ROWS", rows}});
}

struct Outcome {
  std::string error;
  unsigned wrong = 0, copies = 0, shared = 0;
  bool divided = false;
};

/// All programs of the grid, `blocks` at a time.
Outcome run(const Problem &p, unsigned blocks,
            llvm::function_ref<void(func::FuncOp)> change = nullptr,
            llvm::function_ref<void(llvm::Module &)> damage = nullptr) {
  gpu::GpuOptions options;
  options.numWarps = p.warps;
  options.numStages = p.stages;
  options.specialise = gpu::Specialise::Always;
  options.multicast = true;
  options.verify = true;
  int rows = p.tilesM * p.blockM, cols = p.tilesN * 64, stride = (p.k + 7) / 8 * 8;
  std::vector<uint16_t> x(size_t(rows) * std::max(stride, 8)), y(size_t(std::max(1, p.k)) * cols);
  std::vector<float> z(size_t(rows) * cols, -1), expected = z;
  auto small = [](size_t i, int by) { return float(int(i * by % 7) - 3); };
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = halfOf(small(i, 5));
  for (size_t i = 0; i < y.size(); ++i)
    y[i] = halfOf(small(i, 3));
  for (int m = 0; m < rows; ++m)
    for (int n = 0; n < cols; ++n) {
      if (p.conditional && m / p.blockM + n / 64 * p.tilesM == 1)
        continue;
      float sum = 0;
      for (int k = 0; k < p.k; ++k)
        sum += small(size_t(m) * stride + k, 5) * small(size_t(k) * cols + n, 3);
      expected[size_t(m) * cols + n] = sum;
    }
  auto address = [](auto &memory) { return reinterpret_cast<uint64_t>(memory.data()); };
  WarpSimulator::Words words = {
      address(x),    address(y),       address(z),     uint64_t(rows),      uint64_t(cols),
      uint64_t(p.k), uint64_t(stride), uint64_t(cols), uint64_t(p.tiles()), uint64_t(p.tilesM)};
  Outcome outcome;
  for (unsigned cluster = 0; cluster < p.programs / blocks && outcome.error.empty(); ++cluster) {
    DividedOutcome one = runDivided(textOf(p), options, words, change,
                                    {blocks, cluster, p.programs / blocks, damage, p.late});
    outcome.error = one.error;
    outcome.copies += one.copies;
    outcome.shared += one.shared;
    outcome.divided = one.divided;
  }
  for (size_t i = 0; i < z.size(); ++i)
    outcome.wrong += !(z[i] == expected[i]);
  return outcome;
}

void expectRight(const Problem &p, unsigned blocks = 2) {
  SCOPED_TRACE("tiles " + std::to_string(p.tilesM) + "x" + std::to_string(p.tilesN) + " k " +
               std::to_string(p.k) + " warps " + std::to_string(p.warps) + " stages " +
               std::to_string(p.stages) + " blocks " + std::to_string(blocks));
  for (std::optional<unsigned> late : {std::optional<unsigned>(), {0u}, {1u}}) {
    if (late && *late >= blocks)
      continue;
    Problem its = p;
    its.late = late;
    Outcome outcome = run(its, blocks);
    EXPECT_EQ(outcome.error, "");
    EXPECT_TRUE(outcome.divided);
    EXPECT_EQ(outcome.wrong, 0u);
  }
}

Problem tiles(int tilesM, int tilesN) {
  Problem p;
  p.tilesM = tilesM;
  p.tilesN = tilesN;
  return p;
}

/// Two, one, and three tiles of a column: pairs share B, A, or sometimes nothing, and one of them
/// may have a tile more.
TEST(SharedCopies, WhateverPairsShare) {
  for (auto [m, n] : {std::pair(2, 2), {1, 4}, {3, 3}, {3, 1}, {1, 1}, {5, 2}})
    expectRight(tiles(m, n));
}

TEST(SharedCopies, AnyNumberOfTrips) {
  for (int k : {0, 8, 64, 128, 456}) {
    Problem p = tiles(3, 2);
    p.k = k;
    expectRight(p);
  }
}

TEST(SharedCopies, AnyNumberOfStagesAndWarps) {
  for (auto [stages, warps] :
       {std::pair(2, 4), std::pair(4, 8), std::pair(5, 4), std::pair(2, 8)}) {
    Problem p = tiles(3, 3);
    p.stages = stages;
    p.warps = warps;
    p.blockM = warps * 16;
    p.k = 64 * 5;
    expectRight(p);
  }
}

TEST(SharedCopies, OneTileAProgram) {
  Problem p = tiles(2, 2);
  p.persistent = false;
  p.programs = 4;
  expectRight(p);
  p.blockM = 128;
  p.warps = 8;
  p.k = 64 * 7;
  expectRight(p);
}

/// One program of the first pair takes the branch.
TEST(SharedCopies, ABranchThatOneOfThemTakes) {
  Problem p = tiles(2, 2);
  p.persistent = false;
  p.conditional = true;
  p.programs = 4;
  expectRight(p);
}

TEST(SharedCopies, AClusterOfOne) {
  expectRight(tiles(3, 3), 1);
  Problem p = tiles(2, 2);
  p.persistent = false;
  p.programs = 4;
  expectRight(p, 1);
}

/// Where the iterations that the two go through need not be the same, nothing is shared.
TEST(SharedCopies, ABranchInTheLoopOverTiles) {
  Problem p = tiles(2, 2);
  p.conditional = true;
  run(p, 1, [](func::FuncOp kernel) { EXPECT_FALSE(ngpu::isPaired(kernel)); });
  p.conditional = false;
  run(p, 1, [](func::FuncOp kernel) { EXPECT_TRUE(ngpu::isPaired(kernel)); });
}

/// Two programs with two tiles of three iterations each, 12 boxes of A and 12 of B altogether:
/// those of one operand are brought to both. With 3 tiles of a column, two of the three pairs share
/// B. They are brought by one of the two.
TEST(SharedCopies, BlocksAreBroughtOnce) {
  for (auto [p, shared] : {std::pair(tiles(2, 2), 6u), {tiles(1, 4), 6u}, {tiles(3, 2), 6u}}) {
    Outcome outcome = run(p, 2);
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.shared, shared);
    EXPECT_EQ(outcome.copies, unsigned(p.tiles()) * 2 * 3);
    EXPECT_EQ(run(p, 1).shared, 0u);
  }
}

//===--- faults ------------------------------------------------------------------------------===//

template <typename Op> SmallVector<Op> opsIn(func::FuncOp kernel, unsigned part) {
  SmallVector<Op> found;
  ngpu::warpSpecializeOf(kernel).getParts()[part].walk([&](Op op) { found.push_back(op); });
  return found;
}

Problem faulty() {
  Problem p = tiles(2, 2);
  p.k = 64 * 8;
  p.late = 1;
  return p;
}

TEST(SharedCopies, ReleasingInOneBlockOnlyIsADeadlock) {
  Outcome outcome = run(faulty(), 2, [](func::FuncOp kernel) {
    for (auto arrival : opsIn<ngpu::MBarrierArriveOp>(kernel, 0))
      arrival.getBesideMutable().clear();
  });
  EXPECT_NE(outcome.error.find("deadlock"), std::string::npos) << outcome.error;
}

TEST(SharedCopies, FillingWhatTheOtherBlockReadsIsFound) {
  Outcome outcome = run(
      faulty(), 2, [](func::FuncOp kernel) { opsIn<ngpu::MBarrierWaitOp>(kernel, 1)[0].erase(); });
  EXPECT_TRUE(!outcome.error.empty() || outcome.wrong);
}

/// The other block's readers do not count: each fills a slot when its own have released it.
TEST(SharedCopies, NotWaitingForTheOtherReadersIsFound) {
  Outcome outcome = run(faulty(), 2, [](func::FuncOp kernel) {
    for (auto arrival : opsIn<ngpu::MBarrierArriveOp>(kernel, 0)) {
      OpBuilder b(arrival);
      Value no = arith::ConstantOp::create(b, arrival.getLoc(), b.getBoolAttr(false));
      arrival.getBesideMutable().assign(no);
    }
  });
  EXPECT_TRUE(!outcome.error.empty() || outcome.wrong);
}

TEST(SharedCopies, SharingDifferentBlocksIsWrong) {
  Outcome outcome = run(faulty(), 2, [](func::FuncOp kernel) {
    for (auto load : opsIn<ngpu::TmaLoadOp>(kernel, 1)) {
      OpBuilder b(load);
      Value yes = arith::ConstantOp::create(b, load.getLoc(), b.getBoolAttr(true));
      load.getSharedMutable().assign(yes);
    }
  });
  EXPECT_TRUE(!outcome.error.empty() || outcome.wrong);
}

/// The halves of the cluster's barriers: at the beginning (0) and the end (1) of the kernel's own
/// warps, and of the further ones (2, 3).
SmallVector<llvm::CallInst *> halvesOf(llvm::Module &module, llvm::Intrinsic::ID id) {
  SmallVector<llvm::CallInst *> halves;
  for (llvm::Function &function : module)
    for (llvm::BasicBlock &block : function)
      for (llvm::Instruction &op : block)
        if (auto *call = llvm::dyn_cast<llvm::CallInst>(&op); call && call->getIntrinsicID() == id)
          halves.push_back(call);
  return halves;
}

Outcome runWithoutMeetings(ArrayRef<unsigned> numbers) {
  return run(faulty(), 2, nullptr, [&](llvm::Module &module) {
    for (auto id : {llvm::Intrinsic::nvvm_barrier_cluster_arrive_aligned,
                    llvm::Intrinsic::nvvm_barrier_cluster_wait_aligned}) {
      auto halves = halvesOf(module, id);
      ASSERT_EQ(halves.size(), 4u);
      for (unsigned number : numbers)
        halves[number]->eraseFromParent();
    }
  });
}

TEST(SharedCopies, EndingBeforeTheOtherBlockIsFound) {
  Outcome outcome = runWithoutMeetings({1, 3});
  EXPECT_NE(outcome.error.find("may have ended when others reach"), std::string::npos)
      << outcome.error;
}

/// The warps of a block meet, those of the cluster do not.
TEST(SharedCopies, BeginningBeforeTheOtherBlockIsFound) {
  Outcome outcome = runWithoutMeetings({0, 2});
  EXPECT_NE(outcome.error.find("which may not have started"), std::string::npos) << outcome.error;
}

} // namespace
} // namespace nereid::test
