// The expected numbers are those of NVIDIA's own calculator (cuda_occupancy.h of CUDA 13.0), with
// all of the L1 cache that can be had given to shared memory.
#include "explain/Occupancy.h"

#include <gtest/gtest.h>

using namespace nereid::explain;

namespace {

struct Row {
  int sm, registers, threads, sharedBytes, blocks;
};

constexpr Row rows[] = {
    {80, 32, 128, 0, 16},      {80, 128, 256, 17000, 2}, {80, 255, 256, 0, 1},
    {80, 64, 1024, 0, 1},      {80, 16, 32, 0, 32},      {80, 40, 256, 49152, 3},
    {86, 16, 32, 0, 16},       {86, 32, 256, 17000, 5},  {86, 96, 512, 0, 1},
    {89, 16, 32, 0, 24},       {89, 64, 256, 49152, 2},  {90, 207, 128, 98304, 2},
    {90, 168, 128, 0, 3},      {90, 72, 96, 1024, 9},    {90, 32, 128, 0, 16},
    {90, 96, 128, 17000, 5},   {90, 16, 32, 98304, 2},   {90, 255, 512, 0, 0},
    {100, 128, 128, 49152, 4}, {120, 16, 32, 0, 24},     {120, 40, 1024, 0, 1},
};

TEST(Occupancy, IsThatOfTheCalculator) {
  for (const Row &row : rows) {
    auto multiprocessor = multiprocessorOf(row.sm);
    ASSERT_TRUE(multiprocessor);
    Occupancy got = occupancyOf(*multiprocessor, {row.threads, row.registers, row.sharedBytes});
    EXPECT_EQ(got.blocks, row.blocks) << "sm_" << row.sm << ", " << row.registers << " registers, "
                                      << row.threads << " threads, " << row.sharedBytes << " bytes";
  }
}

TEST(Occupancy, NamesWhatLimits) {
  Multiprocessor h100 = *multiprocessorOf(90);
  EXPECT_EQ(occupancyOf(h100, {128, 32, 0}).limit(), "warps");
  EXPECT_EQ(occupancyOf(h100, {128, 168, 0}).limit(), "registers");
  EXPECT_EQ(occupancyOf(h100, {128, 32, 100000}).limit(), "shared memory");
  EXPECT_EQ(occupancyOf(h100, {128, 207, 98304}).limit(), "registers and shared memory");
  EXPECT_EQ(occupancyOf(h100, {32, 16, 0}).limit(), "places for blocks");
  EXPECT_DOUBLE_EQ(occupancyOf(h100, {128, 168, 0}).share(), 12.0 / 64);
}

TEST(Occupancy, UnknownRegistersDoNotLimit) {
  Occupancy got = occupancyOf(*multiprocessorOf(90), {128, 0, 0});
  EXPECT_EQ(got.blocks, 16);
  EXPECT_EQ(got.limit(), "warps");
}

TEST(Occupancy, RegistersForOneBlockMore) {
  Multiprocessor h100 = *multiprocessorOf(90);
  EXPECT_EQ(registersFor(h100, 128, 3), 168);
  EXPECT_EQ(registersFor(h100, 128, 4), 128);
  EXPECT_EQ(registersFor(h100, 1024, 2), 32);
  EXPECT_EQ(registersFor(h100, 1024, 9), 0);
  for (int blocks = 1; blocks < 16; ++blocks) {
    int registers = registersFor(h100, 128, blocks);
    EXPECT_GE(occupancyOf(h100, {128, registers, 0}).blocksByRegisters, blocks);
    if (registers < 255)
      EXPECT_LT(occupancyOf(h100, {128, registers + 1, 0}).blocksByRegisters, blocks);
  }
}

TEST(Occupancy, UnknownArchitecture) {
  EXPECT_FALSE(multiprocessorOf(75));
}

} // namespace
