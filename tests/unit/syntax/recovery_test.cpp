// Several independent errors of one file are found, and none that only follows from another.
#include "parse.h"

using namespace nereid;
using namespace nereid::syntax;

TEST(Recovery, FindsIndependentErrors) {
  EXPECT_EQ(errorsOf("x = 1 +\n"
                     "y = 2\n"
                     "def f(a, a):\n"
                     "    z = (1, 2]\n"
                     "    w = foo bar\n"
                     "    return w\n"
                     "1 = y\n"
                     "s = 'abc\n"
                     "t = 3\n"),
            "ExpectedExpression@1 DuplicateParameter@3 MismatchedBracket@4 ExpectedNewline@5 "
            "InvalidTarget@7 UnterminatedString@8");
}

TEST(Recovery, KeepsTheStatementsAroundAnError) {
  DiagnosticEngine diagnostics;
  auto result = parseModule(
      SourceFile::create("k.py", "a = 1\nb = = 2\nc = 3\ndef f():\n    d = )\n    e = 4\n"),
      diagnostics);
  EXPECT_FALSE(result.ok);
  ASSERT_EQ(result.module->body().size(), 3u);
  EXPECT_EQ(dumpText(*result.module->body()[1]),
            "Assign(targets=[Name(id='c')], value=Constant(value=3))");
  EXPECT_EQ(cast<FunctionDef>(result.module->body()[2])->body.size(), 1u);
}

TEST(Recovery, ReportsAForgottenBracketOnce) {
  EXPECT_EQ(errorsOf("def f():\n"
                     "    x = foo(1, bar(2)\n"
                     "    return x\n"
                     "\n"
                     "def g():\n"
                     "    y = [1, 2\n"
                     "    for i in y:\n"
                     "        pass\n"
                     "    return y)\n"),
            "UnclosedBracket@2 UnclosedBracket@6 UnmatchedBracket@9");
}

TEST(Recovery, PassesOverTheBlockAndClausesOfALostHeader) {
  EXPECT_EQ(errorsOf("if x y:\n    a = 1\nelif z:\n    b = 2\nelse:\n    c = 3\nd = 4\n"),
            "ExpectedColon@1");
  EXPECT_EQ(errorsOf("for 1 + in x:\n    a = = 2\n"), "ExpectedExpression@1 ExpectedExpression@2");
  EXPECT_EQ(errorsOf("while x\n    a = 1\n    break\nelse\n    b = 2\n"),
            "ExpectedColon@1 ExpectedColon@4");
}

TEST(Recovery, UnderstandsWrongIndentation) {
  EXPECT_EQ(errorsOf("a = 1\n    b = 2\n    c = 3\nd = 4\n"), "UnexpectedIndent@2");
  EXPECT_EQ(errorsOf("def f():\n        a = 1\n    b = 2\n    c = 3\nd = 4\n"),
            "InconsistentDedent@3");
  EXPECT_EQ(errorsOf("def f():\nx = 1\ndef g():\ny = 2\n"), "ExpectedBlock@2 ExpectedBlock@4");
}

TEST(Recovery, StaysSilentInALineThatIsAlreadyReported) {
  EXPECT_EQ(errorsOf("x = 0xZZ + + )\ny = 1\n"), "InvalidNumber@1 UnmatchedBracket@1");
  EXPECT_EQ(errorsOf("x = $ = = 3\ny = 1\n"), "InvalidCharacter@1");
  EXPECT_EQ(errorsOf("f('a, b)\ng(c d)\n"), "UnterminatedString@1 MissingComma@2");
}

TEST(Recovery, StopsAfterTheLimit) {
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += "x = = 1\n";
  DiagnosticEngine diagnostics(20);
  parseModule(SourceFile::create("k.py", text), diagnostics);
  EXPECT_TRUE(diagnostics.full());
  EXPECT_LE(diagnostics.diagnostics().size(), 21u);
}
