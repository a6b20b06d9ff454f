#include "support/diagnostics.h"

#include <gtest/gtest.h>

using namespace nereid;

namespace {

/// One diagnostic at the first place of `what` in `text`.
struct Reported {
  Reported(std::string text, std::string_view what, SourceOrigin origin = {})
      : file(SourceFile::create("k.py", std::move(text), origin)) {
    auto begin = uint32_t(file->text().find(what));
    range = {begin, begin + uint32_t(what.size())};
    engine.report(diag::InternalError, {*file, range}, "bad");
  }
  const Diagnostic &diagnostic() const { return engine.diagnostics().front(); }

  SourceFilePtr file;
  SourceRange range;
  DiagnosticEngine engine;
};

} // namespace

TEST(Diagnostics, CarryNameKindPlaceAndText) {
  Reported r("x = foo + 1\n", "foo");
  const Diagnostic &d = r.diagnostic();
  EXPECT_EQ(d.name(), "InternalError");
  EXPECT_EQ(d.kind(), DiagKind::Bug);
  EXPECT_TRUE(d.isError());
  EXPECT_EQ(d.message(), "internal error: bad; please report it");
  EXPECT_EQ(d.range(), (SourceRange{4, 7}));
}

TEST(Diagnostics, OutliveTheirSource) {
  DiagnosticEngine engine;
  {
    auto file = SourceFile::create("k.py", "abc");
    engine.report(diag::CannotReadFile, {*file, {0, 1}}, "f.py", "no such file");
  }
  EXPECT_EQ(engine.renderAll(), "k.py:1:1: error: cannot read `f.py`: no such file\n"
                                "   1 | abc\n"
                                "     | ^\n");
}

TEST(Diagnostics, RenderWithUnderlineAndNotes) {
  auto file = SourceFile::create("k.py", "def f(x):\n    return x + y\n\nf(1)\n");
  DiagnosticEngine engine;
  engine.report(diag::InternalError, {*file, {21, 26}}, "bad")
      .note(diag::CalledFromHere, {*file, {28, 32}})
      .note(diag::DefinedHere, {*file, {4, 5}}, "f");
  EXPECT_EQ(engine.renderAll(), "k.py:2:12: internal error: internal error: bad; please report it\n"
                                "   2 |     return x + y\n"
                                "     |            ^~~~~\n"
                                "k.py:4:1: note: called from here\n"
                                "   4 | f(1)\n"
                                "     | ^~~~\n"
                                "k.py:1:5: note: `f` is defined here\n"
                                "   1 | def f(x):\n"
                                "     |     ^\n");
}

TEST(Diagnostics, RenderWithoutAPlace) {
  DiagnosticEngine engine;
  engine.report(diag::InternalError, {}, "bad");
  EXPECT_EQ(engine.renderAll(), "internal error: internal error: bad; please report it\n");
}

TEST(Diagnostics, AlignTheCaretUnderTabsAndWideCharacters) {
  Reported tabs("\tx = foo\n", "foo");
  EXPECT_EQ(render(tabs.diagnostic()).substr(render(tabs.diagnostic()).find('\n') + 1),
            "   1 |     x = foo\n"
            "     |         ^~~\n");
  Reported wide("s = '漢字' + foo\n", "foo");
  EXPECT_EQ(render(wide.diagnostic()).substr(render(wide.diagnostic()).find('\n') + 1),
            "   1 | s = '漢字' + foo\n"
            "     |              ^~~\n");
  Reported itself("s = '漢字' + foo\n", "漢字");
  EXPECT_NE(render(itself.diagnostic()).find("|      ^~~~\n"), std::string::npos);
}

TEST(Diagnostics, UnderlineOnlyTheFirstOfSeveralLines) {
  Reported r("x = f(a,\n      b)\n", "f(a,\n      b)");
  EXPECT_EQ(render(r.diagnostic()).substr(render(r.diagnostic()).find('\n') + 1),
            "   1 | x = f(a,\n"
            "     |     ^~~~\n");
}

TEST(Diagnostics, ClipLongLinesAroundTheCaret) {
  std::string line = "x = " + std::string(500000, 'a') + " + foo + " + std::string(500000, 'b');
  Reported r(line, "foo");
  std::string text = render(r.diagnostic());
  EXPECT_LT(text.size(), 500u);
  EXPECT_NE(text.find("1 | ...aaa"), std::string::npos);
  EXPECT_NE(text.find("bbb...\n"), std::string::npos);
  size_t sourceLine = text.find("   1 | "), caretLine = text.find("     | ");
  EXPECT_EQ(text.find("foo", sourceLine) - sourceLine, text.find('^') - caretLine);
  EXPECT_LT(renderTriton(r.diagnostic()).size(), 600u);
}

TEST(Diagnostics, KeepLinesThatFit) {
  std::string line(120, 'a');
  Reported r(line, "a");
  EXPECT_NE(render(r.diagnostic()).find("| " + line + "\n"), std::string::npos);
}

TEST(Diagnostics, PointBehindTheEndOfALine) {
  auto file = SourceFile::create("k.py", "x = \ny");
  DiagnosticEngine engine;
  engine.report(diag::ExpectedExpression, {*file, {4, 5}}, "the end of the line");
  EXPECT_EQ(engine.renderAll(),
            "k.py:1:5: error: expected an expression, found the end of the line\n"
            "   1 | x = \n"
            "     |     ^\n");
}

TEST(Diagnostics, CountLinesFromTheOrigin) {
  Reported r("def f():\n  foo\n", "foo", {.firstLine = 10, .columnShift = 4});
  EXPECT_TRUE(render(r.diagnostic()).starts_with("k.py:11:7: ")) << render(r.diagnostic());
}

TEST(Diagnostics, UseColoursOnRequest) {
  Reported r("foo", "foo");
  EXPECT_EQ(render(r.diagnostic()).find('\x1b'), std::string::npos);
  EXPECT_NE(render(r.diagnostic(), {.color = true}).find("\x1b[1;31m"), std::string::npos);
}

TEST(Diagnostics, RenderAsTritonDoes) {
  Reported r("import triton\n\ndef kernel(x):\n    y = x + 1\n    z = y\n", "x + 1");
  EXPECT_EQ(renderTriton(r.diagnostic(), SourceRange{15, 52}),
            "at 2:8:\n"
            "def kernel(x):\n"
            "    y = x + 1\n"
            "        ^\n"
            "internal error: bad; please report it");
  EXPECT_TRUE(renderTriton(r.diagnostic()).starts_with("at 4:8:\nimport triton\n"));
}

TEST(Diagnostics, QuoteTritonInANote) { // InTritonsWords
  auto file = SourceFile::create("k.py", "f(x)\n");
  DiagnosticEngine engine;
  Diagnostic &report = engine.report(diag::BlockPointerScalar, {*file, {2, 3}}, "a scalar", "fp32")
                           .note(diag::CalledFromHere, {*file, {0, 4}});
  EXPECT_EQ(report.tritonsWords(), "Expected a scalar in shape/strides/offsets");
  EXPECT_EQ(engine.renderAll(),
            "k.py:1:3: error: the shape, strides and offsets of a block pointer must be scalar "
            "integers, found fp32\n"
            "   1 | f(x)\n"
            "     |   ^\n"
            "note: in Triton's words: Expected a scalar in shape/strides/offsets\n"
            "k.py:1:1: note: called from here\n"
            "   1 | f(x)\n"
            "     | ^~~~\n");
  EXPECT_EQ(renderTriton(report), "at 1:2:\nf(x)\n  ^\nExpected a scalar in shape/strides/offsets");
  Diagnostic &own = engine.report(diag::UnknownName, {}, "y");
  EXPECT_EQ(own.tritonsWords(), "");
  EXPECT_TRUE(own.notes().empty());
}

TEST(Diagnostics, ShowTwelveLinesAsTritonDoes) {
  std::string text = "def f():\n";
  for (int i = 0; i < 30; ++i)
    text += "    a" + std::to_string(i) + " = 1\n";
  Reported r(text, "a20");
  std::string shown = renderTriton(r.diagnostic());
  EXPECT_TRUE(shown.starts_with("at 22:4:\n    a9 = 1\n")) << shown;
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 14);
}

TEST(Diagnostics, StopAtTheLimit) {
  auto file = SourceFile::create("k.py", "abc");
  DiagnosticEngine engine(2);
  for (int i = 0; i < 5; ++i) {
    engine.report(diag::InternalError, {*file, {0, 1}}, std::to_string(i))
        .note(diag::CalledFromHere, {*file, {0, 1}});
    EXPECT_EQ(engine.full(), i >= 1);
  }
  ASSERT_EQ(engine.diagnostics().size(), 3u);
  EXPECT_EQ(engine.diagnostics()[2].name(), "TooManyErrors");
  EXPECT_EQ(engine.diagnostics()[2].message(), "too many errors, stopping after 2");
  engine.report(diag::UnknownSetting, {}, "x"); // warnings still pass
  EXPECT_EQ(engine.diagnostics().size(), 4u);
  engine.clear();
  EXPECT_FALSE(engine.hasErrors());
}
