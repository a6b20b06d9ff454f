#include "layout/Draw.h"
#include "layout/Constructors.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

using namespace nereid::layout;

namespace {

const LinearLayout kExample({4, 8}, {{{{0, 1}, {0, 2}}, {{0, 4}, {1, 0}, {2, 0}}, {}, {}, {}}});

std::string indented(llvm::StringRef text) {
  std::string result;
  for (llvm::StringRef line : llvm::split(text.trim('\n'), '\n'))
    result += ("    " + line + "\n").str();
  return result;
}

} // namespace

TEST(Draw, OwnersOfRegisters) {
  EXPECT_EQ(draw(kExample), "0.0 0.1 0.2 0.3 1.0 1.1 1.2 1.3\n"
                            "2.0 2.1 2.2 2.3 3.0 3.1 3.2 3.3\n"
                            "4.0 4.1 4.2 4.3 5.0 5.1 5.2 5.3\n"
                            "6.0 6.1 6.2 6.3 7.0 7.1 7.2 7.3\n");
  EXPECT_EQ(draw(kExample.sliced(1)), "0.0 2.0 4.0 6.0\n");
  EXPECT_EQ(draw(blocked({64}, {1}, {32}, {2}, {0}).sliced(0)), "0:0.0\n");
  LinearLayout warps({2, 2}, {{{}, {{0, 1}}, {{1, 0}}, {}, {}}});
  EXPECT_EQ(draw(warps), "0:0.0 0:1.0\n1:0.0 1:1.0\n");
}

TEST(Draw, OffsetsHolesAndLimits) {
  EXPECT_EQ(draw(sharedLinear({2, 4}, {0, 1})), "0 2 4 6\n1 3 5 7\n");
  EXPECT_EQ(draw(sharedLinear({4, 4}, {1, 0}), 2), "0 1 ...\n4 5 ...\n...\n");
  LinearLayout half({4}, {{{{2}}, {}, {}, {}, {}}});
  EXPECT_EQ(draw(half), "0.0   - 0.1   -\n");
}

TEST(Draw, PicturesOfThePage) {
  auto file = llvm::MemoryBuffer::getFile(LAYOUTS_PAGE);
  ASSERT_TRUE(file);
  llvm::StringRef page = (*file)->getBuffer();
  LinearLayout accumulator = mmaAccumulator({16, 8}, {1, 1}, 32);
  LinearLayout swizzled = sharedSwizzled({8, 16}, {1, 0}, 64, 128);
  for (const LinearLayout &layout : {kExample, accumulator, swizzled})
    EXPECT_TRUE(page.contains("    " + layout.str() + "\n")) << layout.str();
  EXPECT_TRUE(page.contains(indented(draw(kExample))));
  EXPECT_TRUE(page.contains(indented(draw(swizzled))));
  std::string picture = draw(accumulator);
  EXPECT_TRUE(page.contains(indented(llvm::StringRef(picture).take_front(picture.size() / 2))));
}
