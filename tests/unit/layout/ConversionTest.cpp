#include "layout/Conversion.h"
#include "Random.h"
#include "layout/Constructors.h"

#include <gtest/gtest.h>

using namespace nereid::layout;

namespace {

uint32_t times(llvm::ArrayRef<uint32_t> columns, uint32_t index) {
  uint32_t result = 0;
  for (unsigned bit = 0; bit < columns.size(); ++bit)
    if (index >> bit & 1)
      result ^= columns[bit];
  return result;
}

uint64_t elementAt(const LinearLayout &layout, int64_t reg, int64_t lane, int64_t warp) {
  return layout.applyFlat(Axis::Register, reg) ^ layout.applyFlat(Axis::Lane, lane) ^
         layout.applyFlat(Axis::Warp, warp);
}

constexpr uint64_t kNothing = ~uint64_t(0);
/// A value of a warp: what each lane holds, by the flat coordinates of the element.
using Value = std::vector<uint64_t>;

/// Step 1 and 3 of a plan as the header says an emitter does it: a stage of selects a bit.
void reorder(std::vector<Value> &registers, llvm::ArrayRef<uint32_t> byLane,
             llvm::ArrayRef<uint32_t> byWarp, uint32_t warp) {
  uint32_t lanes = 1u << byLane.size();
  auto stage = [&](uint32_t column, auto &&bitOf) {
    std::vector<Value> before = registers;
    for (uint32_t reg = 0; reg < registers.size(); ++reg)
      for (uint32_t lane = 0; lane < lanes; ++lane)
        if (bitOf(lane))
          registers[reg][lane] = before.at(reg ^ column)[lane];
  };
  for (unsigned bit = 0; bit < byLane.size(); ++bit)
    stage(byLane[bit], [&](uint32_t lane) { return lane >> bit & 1; });
  for (unsigned bit = 0; bit < byWarp.size(); ++bit)
    stage(byWarp[bit], [&](uint32_t) { return warp >> bit & 1; });
}

/// Runs the plan in every warp and checks that every register of the result holds its element.
void checkShuffles(const LinearLayout &from, const LinearLayout &to, const ConversionPlan &plan) {
  const ShufflePlan &shuffles = plan.shuffles;
  uint32_t lanes = from.size(Axis::Lane);
  ASSERT_EQ(plan.registers.size(), to.size(Axis::Register));
  for (uint32_t warp = 0; warp < from.size(Axis::Warp); ++warp) {
    std::vector<Value> held(from.size(Axis::Register), Value(lanes));
    for (uint32_t reg = 0; reg < held.size(); ++reg)
      for (uint32_t lane = 0; lane < lanes; ++lane)
        held[reg][lane] = elementAt(from, reg, lane, warp);
    reorder(held, shuffles.sendLane, shuffles.sendWarp, warp);
    std::vector<Value> result(to.size(Axis::Register), Value(lanes, kNothing));
    for (const ShufflePlan::Round &round : shuffles.rounds)
      for (uint32_t lane = 0; lane < lanes; ++lane) {
        uint32_t source =
            times(shuffles.sourceLane, lane) ^ times(shuffles.sourceWarp, warp) ^ round.source;
        ASSERT_LT(source, lanes);
        if (!round.needsShuffle)
          ASSERT_EQ(source, lane);
        result.at(round.receive)[lane] = held.at(round.send)[source];
      }
    reorder(result, shuffles.receiveLane, {}, warp);
    for (uint32_t reg = 0; reg < to.size(Axis::Register); ++reg)
      for (uint32_t lane = 0; lane < lanes; ++lane)
        ASSERT_EQ(result[plan.registers[reg]][lane], elementAt(to, reg, lane, warp))
            << "register " << reg << " lane " << lane << " warp " << warp << "\nfrom " << from.str()
            << "\nto " << to.str();
  }
}

void checkRegisters(const LinearLayout &from, const LinearLayout &to, const ConversionPlan &plan) {
  ASSERT_EQ(plan.registers.size(), to.size(Axis::Register));
  for (int64_t warp = 0; warp < to.size(Axis::Warp); ++warp)
    for (int64_t lane = 0; lane < to.size(Axis::Lane); ++lane)
      for (int64_t reg = 0; reg < to.size(Axis::Register); ++reg)
        ASSERT_EQ(elementAt(from, plan.registers[reg], lane, warp), elementAt(to, reg, lane, warp));
}

/// Plans and checks; returns how the data moves.
Move check(const LinearLayout &from, const LinearLayout &to, unsigned elementBits = 32) {
  ConversionPlan plan = planConversion(from, to, elementBits);
  switch (plan.move) {
  case Move::Nothing:
    EXPECT_EQ(from, to);
    [[fallthrough]];
  case Move::Registers:
    checkRegisters(from, to, plan);
    break;
  case Move::Shuffles:
    checkShuffles(from, to, plan);
    break;
  case Move::Shared:
    EXPECT_EQ(plan.buffer.shape(), to.shape());
    EXPECT_TRUE(plan.buffer.isBijective());
    break;
  }
  return plan.move;
}

} // namespace

TEST(Conversion, OfALayoutToItself) {
  LinearLayout layout = mmaAccumulator({64, 64}, {2, 2}, 32);
  EXPECT_EQ(check(layout, layout), Move::Nothing);
}

TEST(Conversion, WithinRegisters) {
  LinearLayout rows = blocked({64, 64}, {2, 2}, {4, 8}, {2, 2}, {1, 0});
  LinearLayout columns = blocked({64, 64}, {2, 2}, {4, 8}, {2, 2}, {0, 1}); // lanes turn too
  EXPECT_NE(check(rows, columns), Move::Registers);
  std::array<llvm::SmallVector<Coords, 8>, kAxes> bases;
  for (unsigned axis = 0; axis < kAxes; ++axis)
    bases[axis] = rows.bases(Axis(axis));
  std::reverse(bases[0].begin(), bases[0].end());
  EXPECT_EQ(check(rows, LinearLayout(rows.shape(), bases)), Move::Registers);
  // Accumulator to A operand: pairs of n8 tiles are k16 tiles.
  EXPECT_EQ(
      check(mmaAccumulator({64, 32}, {4, 1}, 32), mmaOperand({64, 32}, Operand::A, {4, 1}, 16)),
      Move::Nothing);
}

TEST(Conversion, CopiesAreDroppedAndMade) {
  LinearLayout lean = blocked({32}, {1}, {32}, {1}, {0});
  LinearLayout twice = lean.expanded(0).broadcastInRegisters(0, 2).sliced(0);
  EXPECT_EQ(twice, lean);
  LinearLayout doubled({32}, {{{{0}, {1}}, {{1}, {2}, {4}, {8}, {16}}, {}, {}, {}}});
  LinearLayout half({32}, {{{{0}}, {{1}, {2}, {4}, {8}, {16}}, {}, {}, {}}});
  EXPECT_EQ(check(half, lean), Move::Registers);
  EXPECT_EQ(check(lean, half), Move::Registers);
  EXPECT_EQ(check(lean, doubled), Move::Shuffles);
  EXPECT_EQ(check(doubled, lean), Move::Registers);
}

TEST(Conversion, ExchangeOfARegisterAndALaneMovesHalf) {
  LinearLayout from({64}, {{{{32}}, {{1}, {2}, {4}, {8}, {16}}, {}, {}, {}}});
  LinearLayout to({64}, {{{{1}}, {{32}, {2}, {4}, {8}, {16}}, {}, {}, {}}});
  ConversionPlan plan = planConversion(from, to, 32);
  ASSERT_EQ(plan.move, Move::Shuffles);
  checkShuffles(from, to, plan);
  unsigned shuffles = 0;
  for (const ShufflePlan::Round &round : plan.shuffles.rounds)
    shuffles += round.needsShuffle;
  EXPECT_EQ(shuffles, 1u);
  EXPECT_EQ(plan.cost.turns, 1u);
  EXPECT_EQ(plan.cost.instructions, 2u + 1u + 2u) << "selects around a shuffle";
  EXPECT_EQ(planConversion(from, to, 64).cost.turns, 2u) << "a shuffle moves 32 bits";
}

TEST(Conversion, NarrowElementsShareShuffles) {
  // Lanes turn; all registers of a lane go to one lane.
  LinearLayout from({128}, {{{{1}, {2}}, {{4}, {8}, {16}, {32}, {64}}, {}, {}, {}}});
  LinearLayout to({128}, {{{{1}, {2}}, {{64}, {32}, {16}, {8}, {4}}, {}, {}, {}}});
  EXPECT_EQ(planConversion(from, to, 8).cost.turns, 1u);
  EXPECT_EQ(planConversion(from, to, 16).cost.turns, 2u);
  EXPECT_EQ(planConversion(from, to, 32).cost.turns, 4u);
}

/// An accumulator's layout with four neighbours of a row in a thread in place of two.
LinearLayout withFourNeighbours(const LinearLayout &accumulator) {
  std::array<llvm::SmallVector<Coords, 8>, kAxes> bases;
  for (unsigned axis = 0; axis < kAxes; ++axis)
    bases[axis] = accumulator.bases(Axis(axis));
  auto find = [](auto &bits, Coords step) { return llvm::find(bits, step); };
  std::swap(*find(bases[unsigned(Axis::Register)], {0, 8}),
            *find(bases[unsigned(Axis::Lane)], {0, 2}));
  return LinearLayout(accumulator.shape(), bases);
}

TEST(Conversion, SharedMemoryCanBeExcluded) {
  LinearLayout from = mmaAccumulator({64, 128}, {4, 1}, 32), to = withFourNeighbours(from);
  EXPECT_EQ(planConversion(from, to, 16).move, Move::Shared) << "it is cheaper";
  ConversionPlan plan = planConversion(from, to, 16, Ways::WithinWarps);
  ASSERT_EQ(plan.move, Move::Shuffles);
  checkShuffles(from, to, plan);
  // Elements that change warps have no other way.
  LinearLayout across = mmaAccumulator({64, 128}, {1, 4}, 32);
  EXPECT_EQ(planConversion(from, across, 16, Ways::WithinWarps).move, Move::Shared);
}

TEST(Conversion, PairsMoveAsWords) {
  LinearLayout from = mmaAccumulator({64, 128}, {4, 1}, 32), to = withFourNeighbours(from);
  std::optional<LinearLayout> pairs = pairsOf(from), moved = pairsOf(to);
  ASSERT_TRUE(pairs && moved);
  EXPECT_TRUE(llvm::equal(pairs->shape(), llvm::ArrayRef<int64_t>({64, 64})));
  for (uint32_t reg = 0; reg < uint32_t(from.size(Axis::Register)); ++reg)
    for (uint32_t lane : {0u, 5u, 30u}) {
      Coords element = from.apply(reg, lane, 3), pair = pairs->apply(reg / 2, lane, 3);
      EXPECT_EQ(element, (Coords{pair[0], 2 * pair[1] + int32_t(reg % 2)}));
    }
  ConversionPlan plan = planConversion(*pairs, *moved, 32, Ways::WithinWarps);
  ASSERT_EQ(plan.move, Move::Shuffles);
  checkShuffles(*pairs, *moved, plan);
  EXPECT_EQ(plan.cost.turns, 16u) << "half of 32 words";
  // A thread whose first two registers are in different rows, or columns that are no neighbours.
  EXPECT_FALSE(pairsOf(LinearLayout({2, 2}, {{{{1, 0}, {0, 1}}, {}, {}, {}, {}}})));
  EXPECT_FALSE(pairsOf(LinearLayout({4}, {{{{2}, {1}}, {}, {}, {}, {}}})));
  EXPECT_FALSE(pairsOf(LinearLayout({4}, {{{{1}}, {{3}}, {}, {}, {}}})));
  EXPECT_FALSE(pairsOf(LinearLayout({1}, {{{{0}}, {}, {}, {}, {}}})));
}

TEST(Conversion, PermutationOfLanesNeedsNoSelects) {
  LinearLayout from({64}, {{{{1}}, {{2}, {4}, {8}, {16}, {32}}, {}, {}, {}}});
  LinearLayout to({64}, {{{{1}}, {{32}, {16}, {8}, {4}, {2}}, {}, {}, {}}});
  ConversionPlan plan = planConversion(from, to, 32);
  ASSERT_EQ(plan.move, Move::Shuffles);
  checkShuffles(from, to, plan);
  for (unsigned lane = 0; lane < 5; ++lane) {
    EXPECT_EQ(plan.shuffles.sendLane[lane], 0u);
    EXPECT_EQ(plan.shuffles.receiveLane[lane], 0u);
  }
}

TEST(Conversion, CopiesInLanesSaveTheShuffles) {
  // Every lane holds all 8 values; afterwards each needs its own.
  LinearLayout all({8}, {{{{1}, {2}, {4}}, {{0}, {0}, {0}, {0}, {0}}, {{0}}, {}, {}}});
  LinearLayout spread = blocked({8}, {1}, {32}, {2}, {0});
  ConversionPlan plan = planConversion(all, spread, 32);
  ASSERT_EQ(plan.move, Move::Shuffles);
  checkShuffles(all, spread, plan);
  for (const ShufflePlan::Round &round : plan.shuffles.rounds)
    EXPECT_FALSE(round.needsShuffle);
  // Warps choose too.
  LinearLayout warps({8}, {{{{1}, {2}}, {{0}, {0}, {0}, {0}, {0}}, {{4}}, {}, {}}});
  EXPECT_EQ(check(all, warps), Move::Shuffles);
  EXPECT_EQ(check(warps, all), Move::Shared);
}

TEST(Conversion, AcrossWarpsGoesThroughSharedMemory) {
  LinearLayout rows = blocked({64, 64}, {1, 4}, {2, 16}, {4, 1}, {1, 0});
  LinearLayout columns = blocked({64, 64}, {4, 1}, {16, 2}, {1, 4}, {0, 1});
  EXPECT_EQ(check(rows, columns), Move::Shared);
  LinearLayout oneWarp = blocked({64, 64}, {1, 4}, {2, 16}, {1, 1}, {1, 0});
  EXPECT_EQ(check(rows, oneWarp), Move::Shared) << "another number of warps";
}

TEST(Conversion, ManySelectsLoseAgainstSharedMemory) {
  LinearLayout rows = blocked({64, 64}, {1, 64}, {32, 1}, {1, 1}, {1, 0});
  LinearLayout columns = blocked({64, 64}, {64, 1}, {1, 32}, {1, 1}, {0, 1});
  EXPECT_EQ(check(rows, columns), Move::Shared);
}

TEST(Conversion, RandomPairsWithinAWarp) {
  Random random;
  unsigned moves[4] = {0, 0, 0, 0};
  for (int round = 0; round < 2000; ++round) {
    auto shape = random.shape(1 + random.below(3), 8);
    bool mixed = random.below(2);
    unsigned lanes = 1 + random.below(5);
    LinearLayout from = random.distributed(shape, lanes, 0, mixed, random.below(3));
    LinearLayout to = random.distributed(shape, lanes, 0, mixed, random.below(3));
    ++moves[unsigned(check(from, to, 8u << random.below(4)))];
    if (HasFatalFailure())
      return;
  }
  EXPECT_GT(moves[unsigned(Move::Shuffles)], 1000u);
}

TEST(Conversion, RandomPairsThatKeepTheWarps) {
  Random random;
  unsigned shuffled = 0;
  for (int round = 0; round < 500; ++round) {
    // The same warps around different warps' tiles.
    unsigned rank = 1 + random.below(2);
    auto shape = random.shape(rank, 7);
    bool mixed = random.below(2);
    LinearLayout from = random.distributed(shape, 5, 0, mixed, random.below(3));
    LinearLayout to = random.distributed(shape, 5, 0, mixed, random.below(3));
    LinearLayout warps = random.layout(random.shape(rank, 2), {Axis::Warp}, mixed, random.below(2));
    shuffled += check(from * warps, to * warps) == Move::Shuffles;
    if (HasFatalFailure())
      return;
  }
  EXPECT_GT(shuffled, 200u);
}

TEST(Conversion, RandomPairsOfAnyKind) {
  Random random;
  for (int round = 0; round < 1000; ++round) {
    auto shape = random.shape(1 + random.below(3), 9);
    unsigned warps = random.below(3);
    check(random.distributed(shape, 5, warps, random.below(2), random.below(4)),
          random.distributed(shape, 5, warps, random.below(2), random.below(4)));
    if (HasFatalFailure())
      return;
  }
}
