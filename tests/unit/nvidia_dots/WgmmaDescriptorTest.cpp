// Descriptors for wgmma, against values worked out by hand and against a model of how the unit
// reads shared memory: it takes a descriptor and an image of shared memory and must find every
// element where the buffer's layout has put it.
#include "targets/nvidia/emit/WgmmaDescriptor.h"
#include "layout/Constructors.h"

#include "gtest/gtest.h"

#include <vector>

using namespace nereid;
using namespace nereid::nvidia;

namespace {

BufferMap swizzled(int64_t rows, int64_t columns, bool rowMajor, unsigned bits, unsigned swizzle) {
  llvm::SmallVector<int64_t, 2> shape = {rows, columns};
  llvm::SmallVector<unsigned, 2> order = {1, 0};
  if (!rowMajor)
    std::swap(order[0], order[1]);
  return BufferMap(shape, layout::sharedSwizzled(layout::coreShape(shape), order, bits, swizzle),
                   bits);
}

uint64_t bitsOf(uint64_t leading, uint64_t stride, uint64_t code) {
  return leading / 16 << 16 | stride / 16 << 32 | code << 62;
}

/// The unit. Core matrices are 8 rows of 16 bytes; where the swizzle is wider, 2, 4 or 8 of them
/// lie side by side. Element (o, k): o counts rows of A or columns of B.
int64_t unitReads(const WgmmaDescriptor &d, int64_t bytes, int64_t o, int64_t k) {
  int64_t leading = (d.bits >> 16 & 0x3FFF) * 16, stride = (d.bits >> 32 & 0x3FFF) * 16;
  int64_t code = d.bits >> 62;
  int64_t width = code == 1 ? 128 : code == 2 ? 64 : code == 3 ? 32 : 16;
  // Coordinates as the tables of the ISA have them: the adjacent dimension first.
  int64_t adjacent = (d.kMajor ? k : o) * bytes, other = d.kMajor ? o : k;
  int64_t chunk = adjacent / 16, row = other % 8, group = other / 8;
  int64_t at = d.start + adjacent % 16;
  if (d.kMajor && code)
    at += chunk * 16 + row * width + group * stride;
  else if (d.kMajor)
    at += chunk * leading + row * 16 + group * stride;
  else if (code)
    at += chunk % (width / 16) * 16 + chunk / (width / 16) * leading + row * width + group * stride;
  else
    at += chunk * stride + row * 16 + group * leading;
  int64_t mask = code == 1 ? 7 : code == 2 ? 3 : code == 3 ? 1 : 0;
  return at ^ ((at >> 7 & mask) << 4);
}

/// Every block of a buffer, with N (or 64 rows) a block.
void expectReadable(const BufferMap &map, unsigned kDim, int64_t outerCount, bool kMajor) {
  int64_t bytes = map.elementBits() / 8, kCount = 32 / bytes;
  int64_t kSize = map.shape()[kDim], outerSize = map.shape()[1 - kDim];
  // An image of shared memory: which element every address holds.
  std::vector<std::pair<int64_t, int64_t>> image(kSize * outerSize * bytes, {-1, -1});
  for (int64_t o = 0; o < outerSize; ++o)
    for (int64_t k = 0; k < kSize; ++k)
      image[kDim == 1 ? map(o, k) : map(k, o)] = {o, k};
  for (int64_t outer = 0; outer < outerSize; outer += outerCount)
    for (int64_t k = 0; k < kSize; k += kCount) {
      auto descriptor = describeBlock(map, {kDim, outer, k, outerCount, kCount});
      ASSERT_TRUE(descriptor) << outer << ", " << k;
      EXPECT_EQ(descriptor->kMajor, kMajor);
      EXPECT_EQ(descriptor->start % 16, 0);
      for (int64_t o = 0; o < outerCount; ++o)
        for (int64_t i = 0; i < kCount; ++i) {
          int64_t at = unitReads(*descriptor, bytes, o, i);
          ASSERT_EQ(image[at], std::pair(outer + o, k + i))
              << "block at " << outer << ", " << k << ", element " << o << ", " << i;
        }
    }
}

TEST(WgmmaDescriptor, KMajorByHand) {
  // A of 128 x 64 halves: rows of 128 bytes, 8 rows in 1024 bytes; a step of K is 32 bytes.
  BufferMap a = swizzled(128, 64, true, 16, 128);
  auto first = describeBlock(a, {1, 0, 0, 64, 16});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->bits, bitsOf(16, 1024, 1));
  EXPECT_EQ(first->start, 0);
  auto second = describeBlock(a, {1, 64, 16, 64, 16});
  ASSERT_TRUE(second);
  EXPECT_EQ(second->bits, bitsOf(16, 1024, 1));
  EXPECT_EQ(second->start, 64 * 128 + 32);
  // Twice as wide: the second 64 columns follow all rows of the first.
  auto beyond = describeBlock(swizzled(128, 128, true, 16, 128), {1, 0, 64, 64, 16});
  ASSERT_TRUE(beyond);
  EXPECT_EQ(beyond->start, 128 * 128);

  EXPECT_EQ(describeBlock(swizzled(64, 32, true, 16, 64), {1, 0, 0, 64, 16})->bits,
            bitsOf(16, 512, 2));
  EXPECT_EQ(describeBlock(swizzled(64, 16, true, 16, 32), {1, 0, 0, 64, 16})->bits,
            bitsOf(16, 256, 3));
  // No swizzle: columns of 16 bytes, all 64 rows before the next.
  EXPECT_EQ(describeBlock(swizzled(64, 16, true, 16, 0), {1, 0, 0, 64, 16})->bits,
            bitsOf(1024, 128, 0));
}

TEST(WgmmaDescriptor, OuterMajorByHand) {
  // B of 64 x 256 halves, rows of N: 64 columns are 128 bytes; 64 K rows of those are 8192 bytes.
  BufferMap b = swizzled(64, 256, true, 16, 128);
  auto first = describeBlock(b, {0, 0, 0, 256, 16});
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->kMajor);
  EXPECT_EQ(first->bits, bitsOf(8192, 1024, 1));
  auto second = describeBlock(b, {0, 128, 16, 128, 16});
  ASSERT_TRUE(second);
  EXPECT_EQ(second->start, 2 * 8192 + 16 * 128);
}

TEST(WgmmaDescriptor, TheUnitFindsEveryElement) {
  // K-major, all types.
  for (unsigned bits : {8, 16, 32})
    for (unsigned swizzle : {0, 32, 64, 128})
      for (int64_t k : {int64_t(32), int64_t(64), int64_t(128), int64_t(256)}) {
        int64_t columns = k * 8 / bits;
        if (k < swizzle)
          continue;
        SCOPED_TRACE(testing::Message()
                     << bits << " bits, swizzle " << swizzle << ", K " << columns);
        expectReadable(swizzled(128, columns, true, bits, swizzle), 1, 64, true);
        // B seen as [K, N].
        expectReadable(swizzled(columns, 256, false, bits, swizzle), 0, 256, true);
        expectReadable(swizzled(columns, 64, false, bits, swizzle), 0, 8, true);
      }
  // The other order.
  for (unsigned swizzle : {0, 32, 64, 128})
    for (int64_t outer : {64, 128, 256})
      for (int64_t k : {16, 64}) {
        SCOPED_TRACE(testing::Message() << "swizzle " << swizzle << ", " << k << " x " << outer);
        expectReadable(swizzled(k, outer, true, 16, swizzle), 0, outer, false);
        expectReadable(swizzled(k, outer, true, 16, swizzle), 0, 64, false);
        expectReadable(swizzled(outer, k, false, 16, swizzle), 1, 64, false);
      }
  expectReadable(swizzled(64, 32, true, 16, 32), 0, 16, false);
  expectReadable(swizzled(64, 8, true, 16, 0), 0, 8, false);
}

TEST(WgmmaDescriptor, OddRepeats) {
  // 192 = 3 * 64 columns: the repeats continue the rows where K fits into one width of the swizzle.
  expectReadable(swizzled(64, 192, false, 16, 128), 0, 192, true);
  expectReadable(swizzled(64, 192, true, 16, 128), 0, 192, false);
  expectReadable(swizzled(192, 64, true, 16, 128), 1, 64, true);
  expectReadable(swizzled(192, 96, true, 16, 64), 1, 64, true);
  // Where they do not, single repeats can be read, wider blocks cannot.
  expectReadable(swizzled(128, 192, false, 16, 128), 0, 64, true);
  EXPECT_FALSE(describeBlock(swizzled(128, 192, false, 16, 128), {0, 0, 0, 192, 16}));
}

TEST(WgmmaDescriptor, WhatTheUnitCannotRead) {
  // Elements that are not 16 bits wide must be adjacent along K.
  EXPECT_FALSE(describeBlock(swizzled(32, 64, true, 32, 128), {0, 0, 0, 64, 8}));
  EXPECT_FALSE(describeBlock(swizzled(32, 64, true, 8, 32), {0, 0, 0, 64, 32}));
  // Rows without a swizzle that are not 16 bytes wide.
  BufferMap rows({64, 64}, layout::sharedLinear({64, 64}, {1, 0}), 16);
  EXPECT_FALSE(describeBlock(rows, {1, 0, 0, 64, 16}));
}

} // namespace
