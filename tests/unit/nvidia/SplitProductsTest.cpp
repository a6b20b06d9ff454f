// Products whose iterations the blocks of a cluster share: any number of blocks and of iterations,
// and faults in the exchange of the partial sums, which the simulator must find.
#include "DividedKernel.h"

#include "ir/ngpu/Dialect.h"

#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace nereid::test {
namespace {

constexpr int side = 64;

/// One program: rows 64 p .. 64 p + 63 of z = x y, where x has 64 columns of every program's row
/// and K of them in all; y is K x n.
struct Problem {
  int k = 192, n = 16, first = 0; ///< `first`: the lower bound of the loop, in iterations
  int stages = 3, warps = 4;
  bool pointers = true; ///< the loop carries pointers; without, it computes them
};

std::string textOf(const Problem &p) {
  std::string carried = R"(
  %sum:3 = scf.for %i = %first to %last step %c1 iter_args(%acc = %zero, %pa = %xp, %pb = %yp)
      -> (tensor<64xNxf32>, tensor<64x64x!tile.ptr<f16>>, tensor<64xNx!tile.ptr<f16>>) : i32 {
    BODY
    %na = tile.addptr %pa, %stepx : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
    %nb = tile.addptr %pb, %stepy : tensor<64xNx!tile.ptr<f16>>, tensor<64xNxi32>
    scf.yield %d, %na, %nb : tensor<64xNxf32>, tensor<64x64x!tile.ptr<f16>>, tensor<64xNx!tile.ptr<f16>>
  }
)";
  std::string computed = R"(
  %sum:1 = scf.for %i = %first to %last step %c1 iter_args(%acc = %zero) -> (tensor<64xNxf32>) : i32 {
    %turn = arith.subi %i, %first : i32
    %turnx = tile.splat %turn : i32 -> tensor<64x64xi32>
    %turny = tile.splat %turn : i32 -> tensor<64xNxi32>
    %ox = arith.muli %turnx, %stepx : tensor<64x64xi32>
    %oy = arith.muli %turny, %stepy : tensor<64xNxi32>
    %pa = tile.addptr %xp, %ox : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
    %pb = tile.addptr %yp, %oy : tensor<64xNx!tile.ptr<f16>>, tensor<64xNxi32>
    BODY
    scf.yield %d : tensor<64xNxf32>
  }
)";
  std::string body = R"(
    %a = tile.load %pa : tensor<64x64x!tile.ptr<f16>> -> tensor<64x64xf16>
    %b = tile.load %pb : tensor<64xNx!tile.ptr<f16>> -> tensor<64xNxf16>
    %d = tile.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64xNxf16> -> tensor<64xNxf32>
)";
  std::string text = R"(
func.func @k(%x: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "x"},
             %y: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "y"},
             %z: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "z"},
             %first: i32, %last: i32, %stride: i32 {tile.divisibility = 16 : i64}) attributes {tile.kernel} {
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant dense<0.0> : tensor<64xNxf32>
  %stepx = arith.constant dense<64> : tensor<64x64xi32>
  %stepy = arith.constant dense<STEPY> : tensor<64xNxi32>
  %r = tile.range 0 to 64 : tensor<64xi32>
  %c = tile.range 0 to N : tensor<Nxi32>
  %p = tile.program_id 0
  %start = arith.muli %p, %c64 : i32
  %starts = tile.splat %start : i32 -> tensor<64xi32>
  %rows = arith.addi %r, %starts : tensor<64xi32>
  %strides = tile.splat %stride : i32 -> tensor<64xi32>
  %widths = arith.constant dense<N> : tensor<64xi32>
  %rx = arith.muli %rows, %strides : tensor<64xi32>
  %rxe = tile.expand_dims %rx 1 : tensor<64xi32> -> tensor<64x1xi32>
  %rxb = tile.broadcast %rxe : tensor<64x1xi32> -> tensor<64x64xi32>
  %ke = tile.expand_dims %r 0 : tensor<64xi32> -> tensor<1x64xi32>
  %kb = tile.broadcast %ke : tensor<1x64xi32> -> tensor<64x64xi32>
  %xo = arith.addi %rxb, %kb : tensor<64x64xi32>
  %xs = tile.splat %x : !tile.ptr<f16> -> tensor<64x64x!tile.ptr<f16>>
  %xp = tile.addptr %xs, %xo : tensor<64x64x!tile.ptr<f16>>, tensor<64x64xi32>
  %ry = arith.muli %r, %widths : tensor<64xi32>
  %rye = tile.expand_dims %ry 1 : tensor<64xi32> -> tensor<64x1xi32>
  %ryb = tile.broadcast %rye : tensor<64x1xi32> -> tensor<64xNxi32>
  %ce = tile.expand_dims %c 0 : tensor<Nxi32> -> tensor<1xNxi32>
  %cb = tile.broadcast %ce : tensor<1xNxi32> -> tensor<64xNxi32>
  %yo = arith.addi %ryb, %cb : tensor<64xNxi32>
  %ys = tile.splat %y : !tile.ptr<f16> -> tensor<64xNx!tile.ptr<f16>>
  %yp = tile.addptr %ys, %yo : tensor<64xNx!tile.ptr<f16>>, tensor<64xNxi32>
LOOP
  %rz = arith.muli %rows, %widths : tensor<64xi32>
  %rze = tile.expand_dims %rz 1 : tensor<64xi32> -> tensor<64x1xi32>
  %rzb = tile.broadcast %rze : tensor<64x1xi32> -> tensor<64xNxi32>
  %zo = arith.addi %rzb, %cb : tensor<64xNxi32>
  %zs = tile.splat %z : !tile.ptr<f32> -> tensor<64xNx!tile.ptr<f32>>
  %zp = tile.addptr %zs, %zo : tensor<64xNx!tile.ptr<f32>>, tensor<64xNxi32>
  tile.store %zp, %sum#0 : tensor<64xNx!tile.ptr<f32>>, tensor<64xNxf32>
  return
}
)";
  std::string n = std::to_string(p.n);
  return replaced(text, {{"LOOP", p.pointers ? carried : computed},
                         {"BODY", body},
                         {"STEPY", std::to_string(side * p.n)},
                         {"64xN", "64x" + n},
                         {"1xN", "1x" + n},
                         {"<Nxi32", "<" + n + "xi32"},
                         {"to N :", "to " + n + " :"},
                         {"dense<N>", "dense<" + n + ">"}});
}

struct Outcome : DividedOutcome {
  unsigned wrong = 0;
};

/// Program 1 of two.
Outcome run(const Problem &p, unsigned blocks,
            llvm::function_ref<void(llvm::Module &)> damage = nullptr) {
  gpu::GpuOptions options;
  options.numWarps = p.warps;
  options.numStages = p.stages;
  options.splitProducts = true;
  options.verify = true;
  int iterations = p.k / side, stride = std::max(p.k, side);
  std::vector<uint16_t> x(size_t(2 * side) * stride), y(size_t(std::max(p.k, side)) * p.n);
  std::vector<float> z(size_t(2 * side) * p.n, -1), expected = z;
  auto small = [](size_t i, int by) { return float(int(i * by % 7) - 3); };
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = halfOf(small(i, 5));
  for (size_t i = 0; i < y.size(); ++i)
    y[i] = halfOf(small(i, 3));
  for (int m = side; m < 2 * side; ++m)
    for (int n = 0; n < p.n; ++n) {
      float sum = 0;
      for (int k = 0; k < p.k; ++k)
        sum += small(size_t(m) * stride + k, 5) * small(size_t(k) * p.n + n, 3);
      expected[size_t(m) * p.n + n] = sum;
    }
  auto address = [](auto &memory) { return reinterpret_cast<uint64_t>(memory.data()); };
  auto word = [](int number) { return uint64_t(uint32_t(number)); };
  Outcome outcome;
  static_cast<DividedOutcome &>(outcome) = runDivided(
      textOf(p), options,
      {address(x), address(y), address(z), word(p.first), word(p.first + iterations), word(stride)},
      nullptr, {blocks, 1, 2, damage});
  for (size_t i = 0; i < z.size(); ++i)
    outcome.wrong += z[i] != expected[i];
  return outcome;
}

void expectRight(const Problem &p, unsigned blocks) {
  Outcome outcome = run(p, blocks);
  EXPECT_EQ(outcome.error, "") << "k " << p.k << ", blocks " << blocks;
  EXPECT_EQ(outcome.wrong, 0u) << "k " << p.k << ", blocks " << blocks;
  // Blocks meet twice for every piece, where more than one of them has something to do.
  int iterations = p.k / side;
  bool several = p.n > 16 || (blocks == 2 && iterations >= 14) ||
                 (blocks == 4 && iterations >= 12) || (blocks == 8 && iterations >= 15);
  EXPECT_EQ(outcome.meetings > 0, several) << "k " << p.k << ", blocks " << blocks;
}

TEST(SplitProducts, AnyNumberOfBlocksAndIterations) {
  for (unsigned blocks : {1, 2, 4, 8})
    for (int iterations : {0, 1, 11, 12, 14, 15, 33})
      expectRight({iterations * side}, blocks);
}

TEST(SplitProducts, ComputedAddressesAndBoundsBelowZero) {
  for (unsigned blocks : {1, 2, 4})
    for (int first : {-7, 3}) {
      Problem p{15 * side};
      p.first = first;
      p.pointers = false;
      expectRight(p, blocks);
    }
}

/// The iterations end at the greatest number.
TEST(SplitProducts, BoundsAtTheEndOfTheType) {
  for (int iterations : {12, 13, 17}) {
    Problem p{iterations * side};
    p.first = INT32_MAX - iterations;
    p.pointers = false;
    p.stages = 1;
    expectRight(p, 4);
  }
}

TEST(SplitProducts, LargeBlocksGoInPieces) {
  expectRight({42 * side, 256}, 2);
}

/// Calls `each` for the calls of an intrinsic.
void forCalls(llvm::Module &module, llvm::Intrinsic::ID id,
              llvm::function_ref<void(llvm::CallInst &)> each) {
  for (llvm::Function &function : module)
    for (llvm::BasicBlock &block : function)
      for (llvm::Instruction &op : llvm::make_early_inc_range(block))
        if (auto *call = llvm::dyn_cast<llvm::CallInst>(&op); call && call->getIntrinsicID() == id)
          each(*call);
}

/// Leaves out the `number`th of the barriers at which the blocks meet.
void dropMeeting(llvm::Module &module, unsigned number) {
  for (auto id : {llvm::Intrinsic::nvvm_barrier_cluster_arrive_aligned,
                  llvm::Intrinsic::nvvm_barrier_cluster_wait_aligned}) {
    unsigned at = 0;
    forCalls(module, id, [&](llvm::CallInst &call) {
      if (at++ == number)
        call.eraseFromParent();
    });
  }
}

TEST(SplitProducts, ReadingBeforeOthersHaveWrittenIsFound) {
  Outcome outcome = run({14 * side}, 2, [](llvm::Module &module) { dropMeeting(module, 0); });
  EXPECT_NE(outcome.error.find("which may not have started"), std::string::npos) << outcome.error;
}

TEST(SplitProducts, EndingBeforeTheFirstBlockHasReadIsFound) {
  Outcome outcome = run({14 * side}, 2, [](llvm::Module &module) { dropMeeting(module, 1); });
  EXPECT_NE(outcome.error.find("may have ended when others reach"), std::string::npos)
      << outcome.error;
}

TEST(SplitProducts, OverwritingAPieceThatIsReadIsFound) {
  Outcome outcome = run({42 * side, 256}, 2, [](llvm::Module &module) { dropMeeting(module, 1); });
  EXPECT_NE(outcome.error.find("race at byte"), std::string::npos) << outcome.error;
}

TEST(SplitProducts, ABarrierThatOrdersNothingIsFound) {
  Outcome outcome = run({14 * side}, 2, [](llvm::Module &module) {
    llvm::Function *relaxed = llvm::Intrinsic::getOrInsertDeclaration(
        &module, llvm::Intrinsic::nvvm_barrier_cluster_arrive_relaxed_aligned);
    forCalls(module, llvm::Intrinsic::nvvm_barrier_cluster_arrive_aligned,
             [&](llvm::CallInst &call) { call.setCalledFunction(relaxed); });
  });
  EXPECT_NE(outcome.error.find("race at byte"), std::string::npos) << outcome.error;
}

} // namespace
} // namespace nereid::test
