#include "support/source.h"

#include <gtest/gtest.h>

#include <cstdio>

using namespace nereid;

static LineColumn at(const SourceFilePtr &file, uint32_t offset) {
  return file->position(offset);
}

TEST(SourceFile, CountsLinesOfEveryKindOfLineBreak) {
  auto file = SourceFile::create("a.py", "a\nb\r\nc\rd");
  ASSERT_EQ(file->lineCount(), 4u);
  EXPECT_EQ(file->text(file->lineRange(0)), "a");
  EXPECT_EQ(file->text(file->lineRange(1)), "b");
  EXPECT_EQ(file->text(file->lineRange(2)), "c");
  EXPECT_EQ(file->text(file->lineRange(3)), "d");
  EXPECT_EQ(at(file, 0), (LineColumn{1, 0}));
  EXPECT_EQ(at(file, 2), (LineColumn{2, 0}));
  EXPECT_EQ(at(file, 3), (LineColumn{2, 1})); // the line break belongs to its line
  EXPECT_EQ(at(file, 7), (LineColumn{4, 0}));
  EXPECT_EQ(at(file, 8), (LineColumn{4, 1})); // the end of the text
}

TEST(SourceFile, CountsColumnsInCodePoints) {
  auto file = SourceFile::create("a.py", "é = '𝄞' + x");
  EXPECT_EQ(at(file, 2).column, 1u);  // after the two bytes of é
  EXPECT_EQ(at(file, 11).column, 7u); // after the four bytes of the clef
}

TEST(SourceFile, LeavesTheByteOrderMarkOutOfColumns) {
  auto file = SourceFile::create("a.py", "\xEF\xBB\xBFx = 1\ny");
  EXPECT_EQ(at(file, 3), (LineColumn{1, 0}));
  EXPECT_EQ(at(file, 9), (LineColumn{2, 0}));
}

TEST(SourceFile, ShiftsPositionsOfADedentedFunction) {
  auto file =
      SourceFile::create("m.py", "def f():\n  return 1\n", {.firstLine = 40, .columnShift = 4});
  EXPECT_EQ(at(file, 0), (LineColumn{40, 4}));
  EXPECT_EQ(at(file, 11), (LineColumn{41, 6}));
  EXPECT_EQ(file->columnInText(11), 2u);
  EXPECT_EQ(file->indexOfLine(41), 1u);
  EXPECT_EQ(file->indexOfLine(39), std::nullopt);
  EXPECT_EQ(file->indexOfLine(43), std::nullopt);
}

TEST(SourceFile, FindsTheFirstByteThatIsNotUtf8) {
  EXPECT_EQ(SourceFile::create("a.py", "x = 'é'")->invalidUtf8(), std::nullopt);
  EXPECT_EQ(SourceFile::create("a.py", "x = '\xE9'")->invalidUtf8(), 5u);
  EXPECT_EQ(SourceFile::create("a.py", "aaaaaaaa\x80")->invalidUtf8(), 8u);
}

TEST(SourceFile, ReadsFiles) {
  std::string path = testing::TempDir() + "nereid_source_test.py";
  std::FILE *out = std::fopen(path.c_str(), "wb");
  ASSERT_TRUE(out);
  std::fputs("x = 1\n", out);
  std::fclose(out);
  auto file = SourceFile::read(path);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->text(), "x = 1\n");
  EXPECT_EQ(file->name(), path);
  std::remove(path.c_str());
  EXPECT_FALSE(SourceFile::read(path));
}

TEST(SourceRange, CoversAndContains) {
  EXPECT_EQ(cover({3, 5}, {1, 4}), (SourceRange{1, 5}));
  EXPECT_TRUE((SourceRange{1, 3}).contains(2));
  EXPECT_FALSE((SourceRange{1, 3}).contains(3));
}
