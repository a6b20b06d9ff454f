// Reshapes that stay within the core, and tensors that every thread holds whole.
#include "gpu/layouts/LayoutRelations.h"
#include "layout/Constructors.h"

#include "gtest/gtest.h"

using namespace nereid::gpu;
using namespace nereid::layout;

namespace {

TEST(LayoutRelations, ReshapesOfTheCore) {
  EXPECT_TRUE(reshapesCore({16, 32}, {512}));
  EXPECT_TRUE(reshapesCore({512}, {2, 16, 16}));
  EXPECT_TRUE(reshapesCore({48, 32}, {48, 4, 8}));
  EXPECT_TRUE(reshapesCore({176, 2}, {352}));
  EXPECT_TRUE(reshapesCore({1, 48}, {48}));
  EXPECT_TRUE(reshapesCore({4, 48}, {4, 1, 48}));
  EXPECT_FALSE(reshapesCore({2, 176}, {352}));
  EXPECT_FALSE(reshapesCore({4, 48}, {192}));
  EXPECT_FALSE(reshapesCore({96}, {2, 48}));
}

TEST(LayoutRelations, RepeatsStandOutsideInReshapesOfTheCore) {
  // Element (r, c) of 176 x 2 is element 2 r + c of 352: core places and repeats must agree.
  LinearLayout layout = blocked({16, 2}, {1, 2}, {16, 1}, {1, 1}, {1, 0});
  LinearLayout reshaped = layout.reshaped({32});
  for (int64_t repeat = 0; repeat < 11; ++repeat)
    for (int64_t lane = 0; lane < 16; ++lane)
      for (int64_t reg = 0; reg < 2; ++reg) {
        Coords from = layout.apply(reg, lane), to = reshaped.apply(reg, lane);
        EXPECT_EQ((from[0] + 16 * repeat) * 2 + from[1], to[0] + 32 * repeat);
      }
}

TEST(LayoutRelations, EverywhereHasNoCopiesInRegisters) {
  LinearLayout layout = everywhere({4, 12}, 32, 8);
  EXPECT_EQ(layout.size(Axis::Register), 16);
  EXPECT_EQ(layout.bits(Axis::Lane), 5u);
  EXPECT_EQ(layout.bits(Axis::Warp), 3u);
  EXPECT_TRUE(layout.isSurjective());
  EXPECT_EQ(layout.apply(5, 17, 3), (Coords{1, 1}));
}

} // namespace
