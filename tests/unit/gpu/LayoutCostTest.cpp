// The cost model of layout assignment, and the candidates for accesses, on layouts whose costs are
// known by counting.
#include "gpu/layouts/assignment/LayoutAssignment.h"
#include "layout/Constructors.h"

#include "gtest/gtest.h"

using namespace nereid;
using namespace nereid::gpu;
using namespace nereid::layout;

namespace {

/// f32, rows of `columns` adjacent elements, 16-byte aligned.
AccessFacts rows(int64_t rowCount, int64_t columns, unsigned bytes = 4) {
  AccessFacts facts;
  facts.elementBytes = bytes;
  facts.vector = {1, 16 / int64_t(bytes)};
  facts.contiguous = {1, columns};
  facts.constant = {1, 1};
  return facts;
}

TEST(LayoutCost, CountsRequestsSectorsAndLines) {
  AccessFacts facts = rows(64, 64);
  // 16 lanes along a row of 64 floats, two rows a warp.
  LinearLayout good = blocked({64, 64}, {1, 4}, {2, 16}, {4, 1}, {1, 0});
  AccessShape shape = accessShape(facts, good, 1);
  EXPECT_EQ(shape.vector, 4u);
  EXPECT_EQ(shape.requests, 8);
  EXPECT_EQ(shape.sectors, 16u);
  EXPECT_EQ(shape.lines, 4u);
  // Lanes along the column: every lane a sector and a line of its own.
  LinearLayout bad = blocked({64, 64}, {1, 1}, {32, 1}, {1, 4}, {0, 1});
  shape = accessShape(facts, bad, 1);
  EXPECT_EQ(shape.vector, 1u);
  EXPECT_EQ(shape.sectors, 32u);
  EXPECT_EQ(shape.lines, 32u);
  EXPECT_GT(accessCost(facts, bad, 1), 4 * accessCost(facts, good, 1));
}

TEST(LayoutCost, OddRepeatsMultiplyRequests) {
  LinearLayout layout = blocked({64, 64}, {1, 4}, {2, 16}, {4, 1}, {1, 0});
  EXPECT_EQ(accessShape(rows(64, 64), layout, 3).requests,
            3 * accessShape(rows(64, 64), layout, 1).requests);
}

TEST(LayoutCost, EqualAddressesShareSectors) {
  AccessFacts facts = rows(32, 1);
  facts.contiguous = {1, 1};
  facts.vector = {1, 1};
  facts.constant = {32, 1};
  LinearLayout layout = blocked({32, 1}, {1, 1}, {32, 1}, {1, 1}, {0, 1});
  EXPECT_EQ(accessShape(facts, layout, 1).sectors, 1u);
}

TEST(LayoutCost, MaskCutsVectors) {
  AccessFacts facts = rows(64, 64);
  facts.vector = {1, 2};
  LinearLayout layout = blocked({64, 64}, {1, 4}, {2, 16}, {4, 1}, {1, 0});
  EXPECT_EQ(accessShape(facts, layout, 1).vector, 2u);
}

TEST(LayoutCost, ConversionsByHowFarTheyGo) {
  LinearLayout rows = blocked({64, 64}, {1, 4}, {2, 16}, {4, 1}, {1, 0});
  std::array<llvm::SmallVector<Coords, 8>, kAxes> bases;
  for (unsigned axis = 0; axis < kAxes; ++axis)
    bases[axis] = rows.bases(Axis(axis));
  std::swap(bases[0].front(), bases[0].back());
  LinearLayout renamed({64, 64}, bases);
  LinearLayout lanes = blocked({64, 64}, {1, 2}, {2, 16}, {4, 1}, {1, 0});
  LinearLayout columns = blocked({64, 64}, {4, 1}, {16, 2}, {1, 4}, {0, 1});
  EXPECT_EQ(conversionCost(rows, rows, 32, 1), 0);
  EXPECT_LT(conversionCost(rows, renamed, 32, 1), 1);
  EXPECT_GT(conversionCost(rows, lanes, 32, 1), 1);
  EXPECT_GT(conversionCost(rows, columns, 32, 1), conversionCost(rows, lanes, 32, 1));
  // Half the bytes, half the traffic.
  EXPECT_LT(conversionCost(rows, columns, 16, 1), conversionCost(rows, columns, 32, 1));
}

TEST(LayoutCost, ReductionsPreferOneThreadThenOneWarp) {
  LinearLayout threads = blocked({128, 32}, {1, 32}, {32, 1}, {4, 1}, {1, 0});
  LinearLayout warp = blocked({128, 32}, {1, 1}, {1, 32}, {4, 1}, {1, 0});
  LinearLayout block = blocked({128, 32}, {1, 1}, {4, 8}, {1, 4}, {1, 0});
  double inThread = reduceCost(threads, 1, 32, 1, 1, 1);
  double inWarp = reduceCost(warp, 1, 32, 1, 1, 1);
  double inBlock = reduceCost(block, 1, 32, 1, 1, 1);
  EXPECT_LT(inThread, inWarp);
  EXPECT_LT(inThread, inBlock);
  // Few rows: what crosses warps pays for a barrier.
  EXPECT_LT(reduceCost(blocked({4, 256}, {1, 4}, {1, 32}, {4, 1}, {1, 0}), 1, 32, 1, 1, 1),
            reduceCost(blocked({4, 256}, {1, 4}, {1, 32}, {1, 4}, {1, 0}), 1, 32, 1, 1, 1));
}

TEST(LayoutCandidates, VectorsOnlyWhileEveryThreadHasWork) {
  AccessFacts facts;
  facts.elementBytes = 4;
  facts.vector = {4};
  facts.contiguous = {1024};
  facts.constant = {1};
  EXPECT_EQ(accessShape(facts, accessCandidates({1024}, facts, 4).front(), 1).vector, 4u);
  EXPECT_EQ(accessShape(facts, accessCandidates({128}, facts, 4).front(), 1).vector, 1u);
  EXPECT_EQ(accessShape(facts, accessCandidates({128}, facts, 1).front(), 1).vector, 4u);
}

TEST(LayoutCandidates, VectorsRunAlongTheContiguousDimension) {
  AccessFacts columns;
  columns.elementBytes = 2;
  columns.vector = {8, 1};
  columns.contiguous = {64, 1};
  columns.constant = {1, 1};
  for (const LinearLayout &layout : accessCandidates({64, 64}, columns, 4)) {
    EXPECT_TRUE(layout.isBijective());
    EXPECT_EQ(layout.basis(Axis::Register, 0), (Coords{1, 0}));
  }
}

TEST(LayoutCandidates, SmallTensorsAreCopied) {
  AccessFacts facts;
  facts.elementBytes = 4;
  facts.vector = {4};
  facts.contiguous = {16};
  facts.constant = {1};
  for (const LinearLayout &layout : accessCandidates({16}, facts, 4)) {
    EXPECT_TRUE(layout.isSurjective());
    EXPECT_EQ(layout.bits(Axis::Lane), 5u);
    EXPECT_EQ(layout.bits(Axis::Warp), 2u);
  }
}

} // namespace
