// Kernels of attention whose blocks compute several programs (persistent-products), with queries in
// a slot of their own and results written from registers, on simulated threads and a simulated copy
// engine.
#include "DividedKernel.h"

#include "ir/ngpu/Dialect.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include "gtest/gtest.h"

using namespace mlir;

namespace nereid::test {
namespace {

constexpr int kColumns = 64, kHead = 64;

/// For blocks of 64 rows of k and v: s = q k[j]^T;  out = -out + (s - the largest so far) v[j], in
/// small whole numbers. Where lengths differ, program i stops behind block i.
struct Problem {
  int programs = 5, blocks = 2, trips = 3, warps = 8, stages = 2;
  bool differ = false;
  int rows = 0;      ///< of the tensor; 0: as many as the programs have
  bool asked = true; ///< the source asks to divide the loop
  int blockM() const { return 16 * warps; }
  int count() const { return rows ? rows : blockM() * programs; }
};

std::string textOf(const Problem &p) {
  return replaced(R"(
func.func @k(%q: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "q"},
             %k: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "k"},
             %v: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "v"},
             %out: !tile.ptr<f16> {tile.divisibility = 16 : i64, tile.name = "out"},
             %count: i32, %length: i32)
    attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %rowsOfTile = arith.constant MM : i32
  %stride = arith.constant 64 : i64
  %zeroS = arith.constant dense<0.0> : tensor<S>
  %zeroO = arith.constant dense<0.0> : tensor<O>
  %minus = arith.constant dense<-1.0> : tensor<O>
  %least = arith.constant dense<-1000.0> : tensor<R>
  %qd = tile.make_descriptor %q [%count, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<Q>
  %kd = tile.make_descriptor %k [%length, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<B>
  %vd = tile.make_descriptor %v [%length, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<B>
  %od = tile.make_descriptor %out [%count, %c64] strides [%stride] copy_engine : !tile.ptr<f16> -> !tile.desc<Q>
  %program = tile.program_id 0
  %row = arith.muli %program, %rowsOfTile : i32
  %next = arith.addi %program, %one : i32
  %to = arith.muli %next, %c64 : i32
  %qb = tile.desc_load %qd [%row, %c0] : !tile.desc<Q> -> tensor<Q>
  %acc0, %top0 = scf.for %j = %c0 to HIGH step %c64 iter_args(%acc = %zeroO, %top = %least) -> (tensor<O>, tensor<R>) : i32 {
    %kb = tile.desc_load %kd [%j, %c0] : !tile.desc<B> -> tensor<B>
    %kt = tile.trans %kb [1, 0] : tensor<B> -> tensor<B>
    %s = tile.dot %qb, %kt, %zeroS : tensor<Q>, tensor<B> -> tensor<S>
    %most = tile.reduce(%s) axis 1 {
    ^bb0(%x: f32, %y: f32):
      %m = arith.maxnumf %x, %y : f32
      tile.yield %m : f32
    } : (tensor<S>) -> tensor<R>
    %now = arith.maxnumf %top, %most : tensor<R>
    %e = tile.expand_dims %now 1 : tensor<R> -> tensor<Mx1xf32>
    %w = tile.broadcast %e : tensor<Mx1xf32> -> tensor<S>
    %p = arith.subf %s, %w : tensor<S>
    %ph = arith.truncf %p : tensor<S> to tensor<Q>
    %scaled = arith.mulf %acc, %minus : tensor<O>
    %vb = tile.desc_load %vd [%j, %c0] : !tile.desc<B> -> tensor<B>
    %sum = tile.dot %ph, %vb, %scaled : tensor<Q>, tensor<B> -> tensor<O>
    scf.yield %sum, %now : tensor<O>, tensor<R>
  } ASKED
  %narrow = arith.truncf %acc0 : tensor<O> to tensor<Q>
  tile.desc_store %od [%row, %c0], %narrow : !tile.desc<Q>, tensor<Q>
  return
}
)",
                  {{"ASKED", p.asked ? "{tile.warp_specialize}" : ""},
                   {"HIGH", p.differ ? "%to" : "%length"},
                   {"<Q>", "<MMx64xf16>"},
                   {"<B>", "<64x64xf16>"},
                   {"<S>", "<MMx64xf32>"},
                   {"<O>", "<MMx64xf32>"},
                   {"<R>", "<MMxf32>"},
                   {"<Mx1", "<MMx1"},
                   {"MM", std::to_string(p.blockM())}});
}

struct Outcome : DividedOutcome {
  unsigned wrong = 0;
};

Outcome run(const Problem &p, llvm::function_ref<void(func::FuncOp)> change = nullptr) {
  gpu::GpuOptions options;
  options.numWarps = p.warps;
  options.numStages = p.stages;
  options.persistentAttention = gpu::PersistentProducts::Always;
  options.verify = true;
  int rows = p.blockM() * p.programs;
  int length = kColumns * (p.differ ? p.programs : p.trips);
  auto ofQ = [](size_t i) { return float(int(i * 7 % 5) - 2) * (i % 3 == 0); };
  auto ofK = [](size_t i) { return float(int((i + i / 977) * 3 % 5) - 2) * (i % 4 == 0); };
  auto ofV = [](size_t i) { return float(int((i + i / 311) * 11 % 3) - 1) * (i % 5 == 0); };
  auto filled = [](size_t count, auto of) {
    std::vector<uint16_t> values(count);
    for (size_t i = 0; i < count; ++i)
      values[i] = halfOf(of(i));
    return values;
  };
  std::vector<uint16_t> q = filled(rows * kHead, ofQ), k = filled(length * kHead, ofK),
                        v = filled(length * kHead, ofV), out(rows * kHead, 0xffff), expected = out;
  for (int row = 0; row < p.count(); ++row) {
    std::vector<float> sum(kHead, 0);
    float top = -1000;
    int high = p.differ ? (row / p.blockM() + 1) * kColumns : length;
    for (int j = 0; j < high; j += kColumns) {
      std::vector<float> s(kColumns, 0);
      for (int c = 0; c < kColumns; ++c) {
        for (int d = 0; d < kHead; ++d)
          s[c] += ofQ(row * kHead + d) * ofK((j + c) * kHead + d);
        top = std::max(top, s[c]);
      }
      for (int d = 0; d < kHead; ++d) {
        sum[d] = -sum[d];
        for (int c = 0; c < kColumns; ++c)
          sum[d] += (s[c] - top) * ofV((j + c) * kHead + d);
      }
    }
    for (int d = 0; d < kHead; ++d)
      expected[row * kHead + d] = halfOf(sum[d]);
  }
  auto word = [](auto &values) { return reinterpret_cast<uint64_t>(values.data()); };
  WarpSimulator::Words words = {word(q),         word(k), word(v), word(out), uint64_t(p.count()),
                                uint64_t(length)};
  Outcome outcome;
  SimulatedLaunch launch;
  launch.programs = p.blocks;
  launch.given = p.programs;
  for (launch.program = 0; launch.program < launch.programs && outcome.error.empty();
       ++launch.program)
    static_cast<DividedOutcome &>(outcome) = runDivided(textOf(p), options, words, change, launch);
  for (size_t i = 0; i < out.size(); ++i)
    outcome.wrong += out[i] != expected[i];
  return outcome;
}

/// Barriers of the block or of a group of warps in the consumers' part.
unsigned barriersOf(func::FuncOp kernel) {
  unsigned found = 0;
  if (auto parts = ngpu::warpSpecializeOf(kernel))
    parts.getParts()[0].walk(
        [&](Operation *op) { found += isa<ngpu::BarrierOp, ngpu::GroupBarrierOp>(op); });
  return found;
}

void expectRight(const Problem &p) {
  SCOPED_TRACE("programs " + std::to_string(p.programs) + " blocks " + std::to_string(p.blocks) +
               " trips " + std::to_string(p.trips) + " warps " + std::to_string(p.warps));
  unsigned barriers = 0;
  Outcome outcome = run(p, [&](func::FuncOp kernel) { barriers = barriersOf(kernel); });
  EXPECT_EQ(outcome.error, "");
  EXPECT_TRUE(outcome.divided && outcome.persistent);
  EXPECT_EQ(outcome.wrong, 0u);
  EXPECT_EQ(barriers, 0u); // groups do not meet between programs
}

TEST(PersistentAttention, AnyNumberOfBlocks) {
  for (int blocks : {1, 2, 4})
    expectRight({4, blocks, 2, blocks == 2 ? 8 : 4});
}

TEST(PersistentAttention, AnyNumberOfTrips) {
  for (int trips : {0, 1, 5})
    expectRight({3, 1, trips, 4});
}

TEST(PersistentAttention, ProgramsOfDifferentLengthsForwardsAndBackwards) {
  for (int blocks : {1, 2, 3})
    expectRight({5, blocks, 0, 4, 3, true});
}

TEST(PersistentAttention, ResultsEndWithTheTensor) {
  expectRight({3, 2, 2, 8, 2, false, 300});
}

TEST(PersistentAttention, LoopsThatAreNotDividedAnyhowStay) {
  Outcome outcome = run({.programs = 2, .blocks = 2, .trips = 2, .warps = 4, .asked = false});
  EXPECT_EQ(outcome.error, "");
  EXPECT_FALSE(outcome.divided || outcome.persistent);
  EXPECT_EQ(outcome.wrong, 0u);
}

/// The mbarriers of all slots that a slot's is one of.
Value ringOf(Value barrier) {
  auto slot = barrier.getDefiningOp<ngpu::SlotOp>();
  return slot ? slot.getBuffer() : barrier;
}

/// The loop over programs of a part.
scf::ForOp loopOf(Region &part) {
  return *part.front().getOps<scf::ForOp>().begin();
}

/// The consumers' arrival that gives back the queries' slot: the producer waits for its mbarrier in
/// the loop over programs, and for those of keys and values in the loop within it.
ngpu::MBarrierArriveOp releaseOfQueries(func::FuncOp kernel) {
  auto parts = ngpu::warpSpecializeOf(kernel).getParts();
  Value empty;
  for (auto wait : loopOf(parts[1]).getBody()->getOps<ngpu::MBarrierWaitOp>())
    empty = ringOf(wait.getBarrier());
  for (auto arrive : loopOf(parts[0]).getBody()->getOps<ngpu::MBarrierArriveOp>())
    if (ringOf(arrive.getBarrier()) == empty)
      return arrive;
  return {};
}

TEST(PersistentAttention, QueriesReleasedTooEarlyAreFound) {
  // In front of the loop whose products read them.
  Outcome outcome = run({3, 1, 3, 4}, [](func::FuncOp kernel) {
    ngpu::MBarrierArriveOp release = releaseOfQueries(kernel);
    ASSERT_TRUE(release);
    auto loops = release->getBlock()->getOps<scf::ForOp>();
    ASSERT_FALSE(loops.empty());
    Operation *barrier = release.getBarrier().getDefiningOp();
    release->moveBefore(*loops.begin());
    if (barrier && barrier->getBlock() == release->getBlock())
      barrier->moveBefore(release);
  });
  EXPECT_TRUE(outcome.persistent);
  EXPECT_NE(outcome.error, "");
}

TEST(PersistentAttention, QueriesThatAreNeverReleasedAreFound) {
  Outcome outcome = run({3, 1, 3, 4}, [](func::FuncOp kernel) {
    ngpu::MBarrierArriveOp release = releaseOfQueries(kernel);
    ASSERT_TRUE(release);
    release->erase();
  });
  EXPECT_TRUE(llvm::StringRef(outcome.error).contains("deadlock")) << outcome.error;
}

TEST(PersistentAttention, QueriesThatAreNotWaitedForAreFound) {
  Outcome outcome = run({3, 1, 3, 4}, [](func::FuncOp kernel) {
    Region &consumers = ngpu::warpSpecializeOf(kernel).getParts()[0];
    auto waits = loopOf(consumers).getBody()->getOps<ngpu::MBarrierWaitOp>();
    ASSERT_FALSE(waits.empty());
    (*waits.begin())->erase();
  });
  EXPECT_NE(outcome.error, "");
}

} // namespace
} // namespace nereid::test
