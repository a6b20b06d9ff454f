// Boxes of the copy engine against the layout of the buffer that they fill: where the engine puts
// an element is computed from what is published of its swizzle.
#include "gpu/copies/TmaBox.h"
#include "layout/Constructors.h"

#include "gtest/gtest.h"

using namespace nereid;
using namespace nereid::gpu;

namespace {

/// The engine XORs the number of a 16-byte piece within a row with that of the row of 128 bytes.
uint32_t swizzled(uint32_t byte, unsigned swizzleBytes) {
  if (!swizzleBytes)
    return byte;
  return byte ^ (((byte >> 7) & (swizzleBytes / 16 - 1)) << 4);
}

void check(llvm::ArrayRef<int64_t> shape, unsigned bits) {
  layout::LinearLayout memory = tmaLayout(shape, bits);
  layout::BitMatrix toOffset = *memory.matrix().inverse();
  TmaBox box = tmaBox(shape, bits);
  uint32_t bytes = bits / 8;
  int64_t boxSize = 1, elements = 1, seen = 0;
  for (int32_t size : box.box) {
    EXPECT_LE(size, 256);
    boxSize *= size;
  }
  for (int64_t size : shape)
    elements *= size;
  if (box.swizzleBytes)
    EXPECT_LE(box.box.back() * bytes, box.swizzleBytes);
  for (const TmaBox::Part &part : box.parts) {
    EXPECT_EQ(part.byteOffset % 128, 0u);
    for (int64_t i = 0; i < boxSize; ++i, ++seen) {
      llvm::SmallVector<int32_t, 5> at(shape.size());
      int64_t rest = i;
      for (size_t d = shape.size(); d-- > 0; rest /= box.box[d])
        at[d] = part.start[d] + int32_t(rest % box.box[d]);
      uint32_t engine = swizzled(part.byteOffset + uint32_t(i) * bytes, box.swizzleBytes);
      uint32_t ours = uint32_t(toOffset.apply(memory.flat(at))) * bytes;
      ASSERT_EQ(engine, ours) << "element " << i << " of the box at " << part.start[0];
    }
  }
  EXPECT_EQ(seen, elements);
}

TEST(TmaBox, FillsTheLayout) {
  check({64, 64}, 16);
  check({128, 64}, 16);
  check({64, 128}, 16);
  check({128, 256}, 16);
  check({512, 128}, 16); // more rows than a box has
  check({64, 32}, 32);
  check({64, 64}, 32);
  check({32, 64}, 64);
  check({16, 256}, 8);
  check({64, 32}, 16); // 64 bytes a row
  check({64, 16}, 16); // 32 bytes
}

TEST(TmaBox, FewerRowsThanTheSwizzleHas) {
  check({4, 128}, 16);
  check({1, 512}, 16);
  check({2, 512}, 32);
  check({512}, 32);
  check({1024}, 8);
}

TEST(TmaBox, MoreDimensions) {
  check({2, 4, 64}, 16);
  check({2, 4, 128}, 16);
  check({4, 2, 8, 32}, 16);
  check({2, 1, 2, 4, 64}, 32);
}

} // namespace
