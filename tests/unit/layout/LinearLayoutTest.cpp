#include "Random.h"
#include "layout/Constructors.h"

#include <gtest/gtest.h>
#include <set>

using namespace nereid::layout;

namespace {

constexpr std::array<Axis, 4> kDistributed = {Axis::Register, Axis::Lane, Axis::Warp, Axis::Block};

/// The layout of the comment in LinearLayout.h.
LinearLayout example() {
  return LinearLayout({4, 8}, {{{{0, 1}, {0, 2}}, {{0, 4}, {1, 0}, {2, 0}}, {}, {}, {}}});
}

} // namespace

TEST(Sizes, CoreTimesRepeats) {
  EXPECT_EQ(coreSize(176), 16);
  EXPECT_EQ(repeatCount(176), 11);
  EXPECT_EQ(coreSize(64), 64);
  EXPECT_EQ(repeatCount(64), 1);
  EXPECT_EQ(coreSize(33), 1);
  EXPECT_EQ(coreShape({48, 7, 1}), (llvm::SmallVector<int64_t, 4>{16, 1, 1}));
}

TEST(LinearLayout, TheExampleOfTheHeader) {
  LinearLayout layout = example();
  EXPECT_EQ(layout.apply(3, 5), (Coords{2, 7}));
  EXPECT_EQ(layout.apply(Axis::Lane, 6), (Coords{3, 0}));
  EXPECT_TRUE(layout.isBijective());
  EXPECT_EQ(layout.size(Axis::Lane), 8);
  EXPECT_EQ(layout.size(Axis::Warp), 1);
  EXPECT_EQ(layout.str(),
            "register = [[0, 1], [0, 2]], lane = [[0, 4], [1, 0], [2, 0]], shape = [4, 8]");
  EXPECT_EQ(layout.flat({2, 7}), 23);
  EXPECT_EQ(layout.unflat(23), (Coords{2, 7}));
}

TEST(LinearLayout, OneElement) {
  LinearLayout layout;
  EXPECT_EQ(layout.rank(), 0u);
  EXPECT_EQ(layout.elements(), 1);
  EXPECT_TRUE(layout.isBijective());
  EXPECT_EQ(layout.str(), "shape = []");
  EXPECT_EQ(layout.apply(0, 0), Coords());
  EXPECT_EQ(layout * layout, layout);
}

TEST(LinearLayout, EqualityAndHash) {
  LinearLayout a = example(), b = example();
  EXPECT_EQ(a, b);
  EXPECT_EQ(hash_value(a), hash_value(b));
  LinearLayout moved({4, 8}, {{{{0, 1}, {0, 2}}, {{0, 4}, {1, 0}}, {{2, 0}}, {}, {}}});
  EXPECT_NE(a, moved);
  EXPECT_NE(hash_value(a), hash_value(moved));
}

TEST(LinearLayout, FreeBitsNameOneOwnerPerElement) {
  Random random;
  for (int round = 0; round < 100; ++round) {
    auto shape = random.shape(1 + random.below(3), 6);
    LinearLayout layout = random.layout(shape, kDistributed, true, random.below(4));
    std::array<uint32_t, 4> free;
    for (Axis axis : kDistributed)
      free[unsigned(axis)] = layout.freeBits(axis);
    std::multiset<int64_t> owned;
    for (int64_t r = 0; r < layout.size(Axis::Register); ++r)
      for (int64_t l = 0; l < layout.size(Axis::Lane); ++l)
        for (int64_t w = 0; w < layout.size(Axis::Warp); ++w)
          for (int64_t b = 0; b < layout.size(Axis::Block); ++b)
            if (!(r & free[0]) && !(l & free[1]) && !(w & free[2]) && !(b & free[3]))
              owned.insert(layout.flat(layout.apply(r, l, w, b)));
    EXPECT_EQ(int64_t(owned.size()), layout.elements());
    EXPECT_EQ(int64_t(std::set<int64_t>(owned.begin(), owned.end()).size()), layout.elements());
  }
}

TEST(LinearLayout, ProductTilesCopies) {
  Random random;
  for (int round = 0; round < 100; ++round) {
    unsigned rank = 1 + random.below(3);
    LinearLayout inner = random.layout(random.shape(rank, 5), kDistributed, true);
    LinearLayout outer = random.layout(random.shape(rank, 5), kDistributed, true);
    LinearLayout product = inner * outer;
    EXPECT_TRUE(product.isBijective());
    for (Axis axis : kDistributed)
      for (int64_t i = 0; i < inner.size(axis); ++i)
        for (int64_t o = 0; o < outer.size(axis); ++o) {
          Coords expected = inner.apply(axis, i), outside = outer.apply(axis, o);
          for (unsigned dim = 0; dim < rank; ++dim)
            expected[dim] += inner.shape()[dim] * outside[dim];
          EXPECT_EQ(product.apply(axis, i + o * inner.size(axis)), expected);
        }
    EXPECT_EQ(product.divideLeft(inner), outer);
    EXPECT_EQ(product.divideRight(outer), inner);
    LinearLayout third = random.layout(random.shape(rank, 3), kDistributed, true);
    EXPECT_EQ(inner * outer * third, inner * (outer * third));
  }
}

TEST(LinearLayout, DivisionFindsOnlyFactors) {
  LinearLayout row({1, 4}, {{{{0, 1}, {0, 2}}, {}, {}, {}, {}}});
  std::optional<LinearLayout> lanes = example().divideLeft(row);
  ASSERT_TRUE(lanes);
  EXPECT_EQ(lanes->str(), "lane = [[0, 1], [1, 0], [2, 0]], shape = [4, 2]");
  LinearLayout column({4, 1}, {{{{1, 0}, {2, 0}}, {}, {}, {}, {}}});
  EXPECT_FALSE(example().divideLeft(column));
  EXPECT_FALSE(row.divideLeft(example()));
  // A swizzle mixes the rows into the chunks: its rows are no copies of the plain row.
  LinearLayout swizzled = sharedSwizzled({8, 64}, {1, 0}, 16, 128);
  EXPECT_FALSE(swizzled.divideLeft(sharedLinear({1, 64}, {1, 0})));
  EXPECT_TRUE(swizzled.divideLeft(sharedLinear({1, 8}, {1, 0})));
  EXPECT_TRUE(sharedSwizzled({64, 64}, {1, 0}, 16, 128).divideLeft(swizzled));
}

TEST(LinearLayout, TransposeSliceExpandReshape) {
  Random random;
  for (int round = 0; round < 100; ++round) {
    auto shape = random.shape(3, 9);
    LinearLayout layout = random.layout(shape, kDistributed, true, random.below(3));
    EXPECT_EQ(layout.transposed({2, 0, 1}).transposed({1, 2, 0}), layout);
    LinearLayout turned = layout.transposed({2, 0, 1});
    LinearLayout slice = layout.sliced(1);
    LinearLayout line = layout.reshaped({layout.elements()});
    EXPECT_TRUE(slice.isSurjective());
    EXPECT_EQ(line.reshaped(shape), layout);
    for (Axis axis : kDistributed)
      for (int64_t i = 0; i < layout.size(axis); ++i) {
        Coords c = layout.apply(axis, i);
        EXPECT_EQ(turned.apply(axis, i), (Coords{c[2], c[0], c[1]}));
        EXPECT_EQ(line.apply(axis, i)[0], layout.flat(c));
        if (axis != Axis::Register) // whose bits may go
          EXPECT_EQ(slice.apply(axis, i), (Coords{c[0], c[2]}));
      }
    for (uint64_t column : slice.flatBases(Axis::Register))
      EXPECT_NE(column, 0u);
    EXPECT_EQ(slice.expanded(0).sliced(0), slice);
    EXPECT_EQ(slice.expanded(2).shape().back(), 1);
  }
}

TEST(LinearLayout, BroadcastAddsRegisters) {
  LinearLayout rows = example().sliced(1).expanded(1);
  EXPECT_EQ(rows.str(), "lane = [[0, 0], [1, 0], [2, 0]], shape = [4, 1]");
  LinearLayout wide = rows.broadcastInRegisters(1, 4);
  EXPECT_EQ(wide.str(), "register = [[0, 1], [0, 2]], lane = [[0, 0], [1, 0], [2, 0]], "
                        "shape = [4, 4]");
  EXPECT_EQ(wide.sliced(1).expanded(1), rows);
}

TEST(LinearLayout, RedundantRegistersGo) {
  Random random;
  for (int round = 0; round < 100; ++round) {
    LinearLayout layout = random.layout(random.shape(2, 6), kDistributed, true, 3);
    LinearLayout lean = layout.withoutRedundantRegisters();
    EXPECT_EQ(lean.freeBits(Axis::Register), 0u);
    EXPECT_TRUE(lean.isSurjective());
    EXPECT_EQ(lean.flatBases(Axis::Lane), layout.flatBases(Axis::Lane));
  }
}

TEST(Locate, FindsTheSameElement) {
  Random random;
  for (int round = 0; round < 100; ++round) {
    auto shape = random.shape(2, 8);
    LinearLayout of = random.layout(shape, kDistributed, true, random.below(3));
    LinearLayout at = random.layout(shape, kDistributed, true, random.below(3));
    PlaceMap map = locate(of, at);
    for (Axis from : kDistributed)
      for (int64_t i = 0; i < at.size(from); ++i) {
        uint64_t found = 0;
        for (Axis axis : kDistributed) {
          int64_t part = map.apply(from, i, axis);
          EXPECT_EQ(part & of.freeBits(axis), 0);
          found ^= of.applyFlat(axis, part);
        }
        EXPECT_EQ(found, at.applyFlat(from, i));
      }
  }
}

TEST(Locate, IdentityAndDependence) {
  LinearLayout layout = blocked({32, 32}, {1, 4}, {4, 8}, {4, 1}, {1, 0});
  PlaceMap same = locate(layout, layout);
  for (Axis axis : kDistributed)
    EXPECT_TRUE(same.isIdentityOn(axis));
  LinearLayout other = blocked({32, 32}, {2, 2}, {2, 16}, {4, 1}, {1, 0});
  PlaceMap map = locate(layout, other);
  EXPECT_TRUE(map.isIdentityOn(Axis::Warp));
  EXPECT_FALSE(map.isIdentityOn(Axis::Lane));
  EXPECT_TRUE(map.dependsOn(Axis::Lane, Axis::Register));
  EXPECT_FALSE(map.dependsOn(Axis::Warp, Axis::Lane));
}

TEST(Locate, KeepingChoosesTheNearestCopy) {
  // Both warps hold everything: each finds all it wants at home, though `locate` asks warp 0.
  LinearLayout copies = blocked({32}, {1}, {32}, {2}, {0});
  EXPECT_FALSE(locate(copies, copies).isIdentityOn(Axis::Warp));
  std::optional<PlaceMap> kept = locateKeeping(copies, copies, {Axis::Warp, Axis::Lane});
  ASSERT_TRUE(kept);
  EXPECT_TRUE(kept->isIdentityOn(Axis::Warp));
  EXPECT_TRUE(kept->isIdentityOn(Axis::Lane));
  LinearLayout rows = blocked({64}, {1}, {32}, {2}, {0});
  LinearLayout mixed = blocked({64}, {2}, {32}, {1}, {0});
  EXPECT_FALSE(locateKeeping(rows, mixed, {Axis::Warp})) << "other counts of warps";
  LinearLayout swapped({64}, {{{}, {{2}, {4}, {8}, {16}, {32}}, {{1}}, {}, {}}});
  EXPECT_FALSE(locateKeeping(rows, swapped, {Axis::Warp}));
}
