// Every diagnostic of the syntax: its text and place, and the nearest valid neighbour of the
// program.
#include "syntax/parser.h"

#include <gtest/gtest.h>

using namespace nereid;

namespace {

struct Case {
  const char *name; ///< of the first diagnostic
  const char *program;
  const char *expected;  ///< "line:column: kind: message", one line each, notes included
                         ///< (OpenedHere, BlockOfThis)
  const char *neighbour; ///< the nearest program without an error
};

// clang-format off
const Case cases[] = {
    {"UnterminatedString", "x = \"abc\ny = 1", "1:5: error: unterminated string: expected a closing `\"` on this line", "x = \"abc\"\ny = 1"},
    {"UnterminatedString", "x = f\"abc", "1:5: error: unterminated string: expected a closing `\"` on this line", "x = f\"abc\""},
    {"UnterminatedTripleString", "x = \"\"\"abc\ny = 1", "1:5: error: unterminated triple-quoted string: expected a closing `\"\"\"`", "x = \"\"\"abc\"\"\"\ny = 1"},
    {"BadEscape", "x = \"a\\x4\"", "1:7: error: invalid escape `\\x4` in a string: expected 2 hexadecimal digits", "x = \"a\\x41\""},
    {"BadEscape", "x = \"\\u12\"", "1:6: error: invalid escape `\\u12` in a string: expected 4 hexadecimal digits", "x = \"\\u1234\""},
    {"BadEscape", "x = \"\\U00110000\"", "1:6: error: invalid escape `\\U00110000` in a string: expected a code point up to `\\U0010ffff`", "x = \"\\U0010ffff\""},
    {"BadEscape", "x = \"\\N\"", "1:6: error: invalid escape `\\N` in a string: expected a character's name in braces after it", "x = \"\\N{DIGIT ONE}\""},
    {"NonAsciiBytes", "x = b\"é\"", "1:7: error: bytes can only contain ASCII characters, found `é`", "x = b\"e\""},
    {"MixedBytes", "x = \"a\" b\"b\"", "1:9: error: cannot join bytes and text literals", "x = b\"a\" b\"b\""},
    {"EmptyReplacement", "x = f\"a{}\"", "1:8: error: expected an expression inside `{` and `}` of an f-string", "x = f\"a{b}\""},
    {"EmptyReplacement", "x = f\"a{!r}\"", "1:8: error: expected an expression inside `{` and `}` of an f-string", "x = f\"a{b!r}\""},
    {"StrayBrace", "x = f\"a}\"", "1:8: error: single `}` in an f-string, write `}}` for a brace", "x = f\"a}}\""},
    {"UnclosedReplacement", "x = f\"{a\"", "1:9: error: f-string: expected `}`, found `\"`", "x = f\"{a}\""},
    {"UnclosedReplacement", "x = f\"{a b}\"", "1:10: error: f-string: expected `}`, found `b`", "x = f\"{a}\""},
    {"UnclosedReplacement", "x = f\"{a:>3\"", "1:12: error: f-string: expected `}`, found `\"`", "x = f\"{a:>3}\""},
    {"BadConversion", "x = f\"{a!x}\"", "1:10: error: f-string: expected `r`, `s` or `a` after `!`, found `x`", "x = f\"{a!r}\""},
    {"InvalidCharacter", "x = “a”", "1:5: error: invalid character `“` (U+201C)", "x = \"a\""},
    {"InvalidCharacter", "x = 3 $ 4", "1:7: error: invalid character `$` (U+0024)", "x = 3 + 4"},
    {"InvalidCharacter", "x = 1 + 2", "1:6: error: invalid character U+00A0", "x = 1 + 2"},
    {"UnknownOperator", "if a && b: pass", "1:6: error: `&&` is not an operator, write `and`", "if a and b: pass"},
    {"UnknownOperator", "x = a || b", "1:7: error: `||` is not an operator, write `or`", "x = a or b"},
    {"UnknownOperator", "x = !a", "1:5: error: `!` is not an operator, write `not`", "x = not a"},
    {"UnknownOperator", "x = a <> b", "1:7: error: `<>` is not an operator, write `!=`", "x = a != b"},
    {"StrayBackslash", "x = 1 + \\ 2", "1:10: error: unexpected character after the line continuation `\\`", "x = 1 + \\\n 2"},
    {"BackslashAtEnd", "x = 1 \\", "1:7: error: unexpected end of file after the line continuation `\\`", "x = 1 \\\n+ 2"},
    {"InvalidNumber", "x = 1__0", "1:6: error: invalid decimal literal: unexpected `_`", "x = 1_0"},
    {"InvalidNumber", "x = 12abc", "1:7: error: invalid decimal literal: unexpected `a`", "x = 12"},
    {"InvalidNumber", "x = 0o18", "1:8: error: invalid octal literal: unexpected `8`", "x = 0o17"},
    {"InvalidNumber", "x = 0b12", "1:8: error: invalid binary literal: unexpected `2`", "x = 0b11"},
    {"InvalidNumber", "x = 1.5x", "1:8: error: invalid decimal literal: unexpected `x`", "x = 1.5j"},
    {"EmptyNumber", "x = 0x", "1:5: error: invalid hexadecimal literal: expected a digit after `0x`", "x = 0x0"},
    {"EmptyNumber", "x = 1e+", "1:5: error: invalid decimal literal: expected a digit after `1e+`", "x = 1e+1"},
    {"LeadingZeros", "x = 0123", "1:5: error: leading zeros are not allowed in a decimal integer, write `0o123` for octal", "x = 0o123"},
    {"UnclosedBracket", "x = foo(1,\ny = 2", "1:8: error: `(` was never closed", "x = foo(1)\ny = 2"},
    {"UnclosedBracket", "x = foo(1,\nreturn_ = 3\nz = [4\nimport a\nb = )", "1:8: error: `(` was never closed\n3:5: error: `[` was never closed\n5:5: error: unmatched `)`", "x = foo(1)\nreturn_ = 3\nz = [4]\nimport a\nb = ()"},
    {"UnclosedBracket", "def f(a, b:\n    return a\ny = 3", "1:6: error: `(` was never closed", "def f(a, b):\n    return a\ny = 3"},
    {"UnmatchedBracket", "x = 1)", "1:6: error: unmatched `)`", "x = (1)"},
    {"MismatchedBracket", "x = (1, 2]", "1:10: error: closing `]` does not match opening `(`\n1:5: note: `(` was opened here", "x = (1, 2)"},
    {"InconsistentTabs", "if a:\n        b\n\tc", "3:1: error: indentation mixes tabs and spaces in a way that depends on the tab width", "if a:\n        b\n        c"},
    {"InconsistentDedent", "if a:\n    if b:\n        c\n      d\n", "4:1: error: this indentation does not match any outer block", "if a:\n    if b:\n        c\n    d\n"},
    {"UnexpectedIndent", "a = 1\n    b = 2", "2:1: error: unexpected indentation", "a = 1\nb = 2"},
    {"ExpectedBlock", "if a:\nb = 1", "2:1: error: expected an indented block after `if`\n1:1: note: the block belongs to this `if`", "if a:\n    b = 1"},
    {"ExpectedBlock", "def f():\n", "2:1: error: expected an indented block after `def`\n1:1: note: the block belongs to this `def`", "def f():\n    pass\n"},
    {"ExpectedColon", "if a\n    b = 1", "1:5: error: expected `:` after the `if` condition, found the end of the line", "if a:\n    b = 1"},
    {"ExpectedColon", "for i in range(3)\n    b = 1", "1:18: error: expected `:` after the `for` header, found the end of the line", "for i in range(3):\n    b = 1"},
    {"ExpectedColon", "def f()\n    return 1", "1:8: error: expected `:` after the function's header, found the end of the line", "def f():\n    return 1"},
    {"ExpectedColon", "while a b: pass", "1:9: error: expected `:` after the `while` condition, found `b`", "while a: pass"},
    {"ExpectedExpression", "x = ", "1:5: error: expected an expression, found the end of the line", "x = 1"},
    {"ExpectedExpression", "x = 1 +\ny = 2", "1:8: error: expected an expression, found the end of the line", "x = 1 + \\\ny\n"},
    {"ExpectedExpression", "x = (1, *)", "1:10: error: expected an expression, found `)`", "x = (1, *y)"},
    {"ExpectedExpression", "if a: for b in c: pass", "1:7: error: expected an expression, found `for`", "for b in c: pass"},
    {"ExpectedToken", "for i range(3): pass", "1:7: error: expected `in` after the target of `for`, found `range`", "for i in range(3): pass"},
    {"ExpectedToken", "x = 1 if a", "1:11: error: expected `else` after the `if` condition of an expression, found the end of the line", "x = 1 if a else 2"},
    {"ExpectedToken", "def 3(): pass", "1:5: error: expected a function name after `def`, found `3`", "def f(): pass"},
    {"ExpectedToken", "x = {1: 2, 3}", "1:13: error: expected `:` after the key, found `}`", "x = {1: 2, 3: 4}"},
    {"ExpectedToken", "from a imprt b", "1:8: error: expected `import`, found `imprt`", "from a import b"},
    {"ExpectedToken", "async x = 1", "1:7: error: expected `def`, `for` or `with` after `async`, found `x`", "async def f(): pass"},
    {"ExpectedToken", "def f(*): pass", "1:8: error: expected a parameter name, found `)`", "def f(*, a): pass"},
    {"ExpectedNewline", "x = 1 y = 2", "1:7: error: expected a new line or `;` after the statement, found `y`", "x = 1; y = 2"},
    {"ExpectedNewline", "x := 1", "1:3: error: expected a new line or `;` after the statement, found `:=`", "(x := 1)"},
    {"MissingComma", "f(a b)", "1:5: error: expected `,` or `)`, found `b`", "f(a, b)"},
    {"MissingComma", "x = [1 2]", "1:8: error: expected `,` or `]`, found `2`", "x = [1, 2]"},
    {"MissingComma", "def f(a b): pass", "1:9: error: expected `,` or `)`, found `b`", "def f(a, b): pass"},
    {"AssignInCondition", "if a = 1:\n    b = 2\nelse:\n    b = 3", "1:6: error: `=` assigns and cannot be used in a condition, write `==` to compare", "if a == 1:\n    b = 2\nelse:\n    b = 3"},
    {"AssignInCondition", "while a = b: pass", "1:9: error: `=` assigns and cannot be used in a condition, write `==` to compare", "while a == b: pass"},
    {"AssignInCondition", "assert a = b", "1:10: error: `=` assigns and cannot be used in a condition, write `==` to compare", "assert a == b"},
    {"AssignInExpression", "x = [a = 1]", "1:8: error: `=` cannot be used inside an expression, write `==` to compare or `:=` to name a value", "x = [a == 1]"},
    {"PrintStatement", "print \"a\"", "1:1: error: `print` is a function here: write `print(...)`", "print(\"a\")"},
    {"InvalidTarget", "f() = 1", "1:1: error: cannot assign to a call", "f().a = 1"},
    {"InvalidTarget", "1 = x", "1:1: error: cannot assign to a literal", "x = 1"},
    {"InvalidTarget", "a + b = c", "1:1: error: cannot assign to the result of an operator", "a = b + c"},
    {"InvalidTarget", "None = 1", "1:1: error: cannot assign to `None`", "none = 1"},
    {"InvalidTarget", "(a, 1) = b", "1:5: error: cannot assign to a literal", "(a, c) = b"},
    {"InvalidTarget", "for f() in x: pass", "1:5: error: cannot assign to a call", "for f in x: pass"},
    {"InvalidTarget", "(a.b := 1)", "1:2: error: cannot assign to an attribute with `:=`", "(ab := 1)"},
    {"InvalidTarget", "with a as 1: pass", "1:11: error: cannot assign to a literal", "with a as b: pass"},
    {"InvalidAugTarget", "(a, b) += 1", "1:1: error: a tuple cannot be the target of `+=`", "a += 1"},
    {"InvalidAnnTarget", "a, b: int = 1", "1:1: error: only a single name, attribute or subscript can be annotated, found a tuple", "a: int = 1"},
    {"InvalidDelete", "del f()", "1:5: error: cannot delete a call", "del f"},
    {"NotAnArgumentName", "f(a.b=1)", "1:3: error: expected a name before `=` in the arguments, found an attribute", "f(ab=1)"},
    {"NotAnArgumentName", "f(True=1)", "1:3: error: expected a name before `=` in the arguments, found `True`", "f(true=1)"},
    {"DuplicateKeyword", "f(a=1, b=2, a=3)", "1:13: error: keyword argument `a` is given twice", "f(a=1, b=2, c=3)"},
    {"DuplicateParameter", "def f(a, b, a): pass", "1:13: error: parameter `a` is declared twice", "def f(a, b, c): pass"},
    {"PositionalAfterKeyword", "f(a=1, b)", "1:8: error: positional argument after a keyword argument", "f(b, a=1)"},
    {"PositionalAfterUnpacking", "f(**a, b)", "1:8: error: positional argument after `**` unpacking", "f(b, **a)"},
    {"UnpackingAfterKeywordUnpacking", "f(**a, *b)", "1:8: error: `*` unpacking after `**` unpacking", "f(*b, **a)"},
    {"NonDefaultAfterDefault", "def f(a=1, b): pass", "1:12: error: parameter `b` without a default follows one with a default", "def f(a=1, *, b): pass"},
    {"BadParameterOrder", "def f(**a, b): pass", "1:12: error: a parameter after `**` is not allowed at this place of the parameter list", "def f(b, **a): pass"},
    {"BadParameterOrder", "def f(/, a): pass", "1:7: error: `/` is not allowed at this place of the parameter list", "def f(a, /): pass"},
    {"BadParameterOrder", "def f(*a, *b): pass", "1:11: error: a second `*` is not allowed at this place of the parameter list", "def f(*a, **b): pass"},
    {"BareGenerator", "f(x for x in y, 1)", "1:3: error: a generator expression must be parenthesised when other arguments are given", "f((x for x in y), 1)"},
    {"StarredNotAllowed", "x = *a", "1:5: error: a starred expression is not allowed here", "x = *a,"},
    {"StarredNotAllowed", "*a = b", "1:1: error: a starred expression is not allowed here", "*a, = b"},
    {"StarredNotAllowed", "x = (*a)", "1:6: error: a starred expression is not allowed here", "x = (*a,)"},
    {"ElseIf", "if a: pass\nelse if b: pass\nelse: pass", "2:1: error: `else if` is written `elif`", "if a: pass\nelif b: pass\nelse: pass"},
    {"OrphanClause", "else:\n    pass", "1:1: error: `else` without a matching `if`, `for`, `while` or `try`", "if a: pass\nelse:\n    pass"},
    {"OrphanClause", "except:\n    pass", "1:1: error: `except` without a matching `try`", "try: pass\nexcept:\n    pass"},
    {"OrphanClause", "if a: pass\nelse: pass\nelif b: pass", "3:1: error: `elif` without a matching `if`", "if a: pass\nelif b: pass\nelse: pass"},
    {"TryWithoutHandler", "try:\n    pass\nx = 1", "3:1: error: expected `except` or `finally` after the `try` block, found `x`", "try:\n    pass\nfinally:\n    x = 1"},
    {"OutsideFunction", "return 1", "1:1: error: `return` outside of a function", "def f(): return 1"},
    {"OutsideFunction", "class A:\n    yield 1", "2:5: error: `yield` outside of a function", "class A:\n    def f(): yield 1"},
    {"OutsideLoop", "break", "1:1: error: `break` outside of a loop", "while 1: break"},
    {"OutsideLoop", "for i in x:\n    def f(): continue", "2:14: error: `continue` outside of a loop", "for i in x:\n    continue"},
    {"DecoratorTarget", "@jit\nx = 1", "2:1: error: expected `def` or `class` after a decorator, found `x`", "@jit\ndef x(): pass"},
    {"StarImportNested", "def f():\n    from a import *", "2:19: error: `import *` is only allowed at the top of a module", "from a import *"},
    {"ReservedWord", "def class(): pass", "1:5: error: `class` is a reserved word and cannot be used as a name", "def klass(): pass"},
    {"ReservedWord", "x = a.if", "1:7: error: `if` is a reserved word and cannot be used as a name", "x = a.if_"},
    {"InvalidPattern", "match a:\n    case +1: pass", "2:10: error: expected a pattern, found `+`", "match a:\n    case -1: pass"},
};
// clang-format on

/// The first lines of the rendered diagnostics, without the file's name.
std::string shortText(const DiagnosticEngine &diagnostics) {
  std::string out, all = diagnostics.renderAll();
  for (size_t at = 0; at < all.size();) {
    size_t end = all.find('\n', at);
    if (all.compare(at, 2, "k:") == 0)
      out += (out.empty() ? "" : "\n") + all.substr(at + 2, end - at - 2);
    at = end + 1;
  }
  return out;
}

class SyntaxError : public testing::TestWithParam<Case> {};

} // namespace

TEST_P(SyntaxError, HasTextAndPlace) {
  const Case &c = GetParam();
  DiagnosticEngine diagnostics;
  auto result = syntax::parseModule(SourceFile::create("k", c.program), diagnostics);
  EXPECT_FALSE(result.ok) << c.program;
  ASSERT_FALSE(diagnostics.diagnostics().empty()) << c.program;
  EXPECT_EQ(diagnostics.diagnostics().front().name(), c.name) << c.program;
  EXPECT_EQ(diagnostics.diagnostics().front().kind(), DiagKind::Error);
  EXPECT_EQ(shortText(diagnostics), c.expected) << c.program;
}

TEST_P(SyntaxError, HasAValidNeighbour) {
  const Case &c = GetParam();
  DiagnosticEngine diagnostics;
  auto result = syntax::parseModule(SourceFile::create("k", c.neighbour), diagnostics);
  EXPECT_TRUE(result.ok) << diagnostics.renderAll();
}

INSTANTIATE_TEST_SUITE_P(All, SyntaxError, testing::ValuesIn(cases),
                         [](const testing::TestParamInfo<Case> &info) {
                           return std::to_string(info.index) + info.param.name;
                         });
