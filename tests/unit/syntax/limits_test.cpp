// Sources made to break a parser: each gives a tree or a diagnostic, in reasonable time, without
// deep recursion.
#include "parse.h"

using namespace nereid;
using namespace nereid::syntax;

namespace {

std::string repeat(std::string_view what, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i)
    out += what;
  return out;
}

/// The first message, or "" when the text is valid.
std::string firstError(std::string text) {
  DiagnosticEngine diagnostics;
  auto result = parseModule(SourceFile::create("k.py", std::move(text)), diagnostics);
  EXPECT_EQ(result.ok, !diagnostics.hasErrors());
  if (result.ok)
    return "";
  return std::string(diagnostics.diagnostics()[0].name()) + ": " +
         diagnostics.diagnostics()[0].message();
}

const std::string tooNested =
    "NestingTooDeep: expression too deeply nested: at most 200 levels are accepted";
const std::string tooTall =
    "NestingTooDeep: expression too deeply nested: at most 1000 levels are accepted";

} // namespace

TEST(Limits, OfNestedBrackets) {
  EXPECT_EQ(firstError("x = " + repeat("(", 10000) + "1" + repeat(")", 10000)), tooNested);
  EXPECT_EQ(firstError("x = " + repeat("[", 10000)), tooNested);
  EXPECT_EQ(firstError("x = " + repeat("{", 10000)), tooNested);
  EXPECT_EQ(firstError("x = " + repeat("f(", 10000)), tooNested);
  EXPECT_EQ(firstError("x = " + repeat("a[", 10000)), tooNested);
  EXPECT_EQ(firstError("x = f" + repeat("'{f", 10000)), tooNested);
  EXPECT_EQ(firstError("x = f'" + repeat("{x:", 10000)), tooNested);
  EXPECT_EQ(firstError("x = " + repeat("(", 200) + "1" + repeat(")", 200)), "");
}

TEST(Limits, OfNestedOperators) {
  EXPECT_EQ(firstError("x = " + repeat("2**", 100000) + "2"), tooNested);
  EXPECT_EQ(firstError("x = " + repeat("lambda: ", 100000) + "2"), tooNested);
  EXPECT_EQ(firstError("x = " + repeat("not ", 250000) + "a"), tooTall);
  EXPECT_EQ(firstError("x = " + repeat("-", 1000000) + "a"), tooTall);
  EXPECT_EQ(firstError("x = " + repeat("a if b else ", 80000) + "a"), tooTall);
  EXPECT_EQ(firstError("x = " + repeat("not ", 900) + "a"), "");
  EXPECT_EQ(firstError("x = " + repeat("a if b else ", 900) + "a"), "");
}

TEST(Limits, OfOneMegabyteInALine) {
  EXPECT_EQ(firstError("x = " + repeat("1+", 500000) + "1"), tooTall);
  EXPECT_EQ(firstError("x = a" + repeat(".b", 500000)), tooTall);
  EXPECT_EQ(firstError("x = a" + repeat("()", 500000)), tooTall);
  EXPECT_EQ(firstError("x = a" + repeat("[0]", 300000)), tooTall);
  EXPECT_EQ(firstError("x = " + repeat("1+", 900) + "1"), "");
  // Long, but not deep.
  EXPECT_EQ(firstError("f(" + repeat("1,", 500000) + "1)"), "");
  EXPECT_EQ(firstError("x = " + repeat("a<", 500000) + "a"), "");
  EXPECT_EQ(firstError("x = " + repeat("a and ", 200000) + "a"), "");
  EXPECT_EQ(firstError("x = '" + repeat("a", 1000000) + "'"), "");
  EXPECT_EQ(firstError("x = " + repeat("'a' ", 200000)), "");
  EXPECT_EQ(firstError(repeat("a;", 500000)), "");
  EXPECT_EQ(firstError(repeat("a=", 500000) + "1"), "");
}

TEST(Limits, OfBlocks) {
  std::string ifs;
  for (int i = 0; i < 300; ++i)
    ifs += repeat(" ", i) + "if a:\n";
  EXPECT_EQ(firstError(ifs + repeat(" ", 300) + "pass"),
            "TooManyIndents: blocks nested too deeply: at most 100 levels are accepted");
  EXPECT_EQ(firstError("if a: pass\n" + repeat("elif b: pass\n", 5000)), tooTall);
  EXPECT_EQ(firstError("if a: pass\n" + repeat("elif b: pass\n", 500)), "");
}

TEST(Limits, OfPatterns) {
  EXPECT_EQ(
      firstError("match x:\n case " + repeat("(", 5000) + "a" + repeat(")", 5000) + ":\n  pass"),
      tooNested);
  EXPECT_EQ(firstError("match x:\n case " + repeat("a|", 50000) + "a:\n  pass"), "");
}

TEST(Limits, OfJunk) {
  EXPECT_EQ(firstError(repeat("$", 1000000)), "InvalidCharacter: invalid character `$` (U+0024)");
  EXPECT_EQ(firstError(repeat("\"", 999999)).substr(0, 24), "UnterminatedTripleString");
  EXPECT_EQ(firstError(repeat(")", 1000000)), "UnmatchedBracket: unmatched `)`");
  EXPECT_EQ(firstError(std::string("x = \0 1", 7)), "InvalidCharacter: invalid character U+0000");
  EXPECT_EQ(firstError(repeat("(\n", 150)), "UnclosedBracket: `(` was never closed");
  EXPECT_EQ(firstError(repeat("x = (\n", 150)).substr(0, 15), "UnclosedBracket");
}

TEST(Limits, OfReadableSources) {
  EXPECT_EQ(firstError("x = '\xE9'"),
            "NotUtf8: the source is not valid UTF-8: unexpected byte 0xe9 at offset 5");
  EXPECT_EQ(firstError("x = 'é'"), "");
  EXPECT_EQ(firstError(std::string(SourceFile::maxSize + 1, '\n')),
            "SourceTooLarge: the source is too large: at most 67108864 bytes are accepted");
}

TEST(Limits, MatchTheHeightsOfTrees) {
  ModulePtr module = parseValid("x = a + b * c\n");
  EXPECT_EQ(module->body()[0]->height, 4); // Assign, Add, Mult, Name
}
