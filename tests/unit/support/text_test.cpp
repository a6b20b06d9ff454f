#include "support/text.h"

#include <gtest/gtest.h>

using namespace nereid;

TEST(Utf8, DecodesAndEncodes) {
  for (char32_t c : {U'a', U'é', U'€', U'𝄞', char32_t(0x10FFFF)}) {
    std::string text;
    appendUtf8(text, c);
    CodePoint decoded = decodeUtf8(text, 0);
    EXPECT_EQ(decoded.value, c);
    EXPECT_EQ(decoded.length, text.size());
    EXPECT_EQ(findInvalidUtf8(text), std::nullopt);
  }
}

TEST(Utf8, RefusesWhatTheStandardRefuses) {
  EXPECT_EQ(findInvalidUtf8("ab\x80"), 2u);           // a continuation alone
  EXPECT_EQ(findInvalidUtf8("\xC0\xAF"), 0u);         // overlong
  EXPECT_EQ(findInvalidUtf8("\xE0\x80\xAF"), 0u);     // overlong
  EXPECT_EQ(findInvalidUtf8("\xED\xA0\x80"), 0u);     // a surrogate
  EXPECT_EQ(findInvalidUtf8("\xF4\x90\x80\x80"), 0u); // beyond U+10FFFF
  EXPECT_EQ(findInvalidUtf8("a\xE2\x82"), 1u);        // cut off
  EXPECT_EQ(findInvalidUtf8("abcdefgh12345678\xFFx"), 16u);
  EXPECT_EQ(decodeUtf8("\xFF", 0).value, char32_t(0xFFFD));
}

TEST(Utf8, KnowsTheWidthOfCharacters) {
  EXPECT_EQ(displayWidth(U'a'), 1u);
  EXPECT_EQ(displayWidth(U'漢'), 2u);
  EXPECT_EQ(displayWidth(U'😀'), 2u);
  EXPECT_EQ(displayWidth(0x301), 0u); // a combining accent
}

TEST(EditDistance, CountsInsertionsDeletionsChangesAndSwaps) {
  EXPECT_EQ(editDistance("", "", 5), 0u);
  EXPECT_EQ(editDistance("kitten", "sitting", 5), 3u);
  EXPECT_EQ(editDistance("mask", "maks", 5), 1u);
  EXPECT_EQ(editDistance("abc", "", 5), 3u);
  EXPECT_EQ(editDistance("abcdefgh", "x", 3), 4u); // gives up beyond the limit
}

TEST(NearestName, SuggestsLikelyMisspellingsOnly) {
  std::string_view names[] = {"program_id", "num_programs", "load", "store", "BLOCK_SIZE"};
  EXPECT_EQ(nearestName("progam_id", names), "program_id");
  EXPECT_EQ(nearestName("laod", names), "load");
  EXPECT_EQ(nearestName("block_size", names), "BLOCK_SIZE");
  EXPECT_EQ(nearestName("zzz", names), "");
  EXPECT_EQ(nearestName("x", names), "");
}
