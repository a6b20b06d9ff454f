#include "parse.h"

#include <cmath>

using namespace nereid;
using namespace nereid::syntax;

namespace {

struct Literal {
  ModulePtr module;
  const Constant *constant;
  const Constant *operator->() const { return constant; }
};

Literal literal(std::string text) {
  ModulePtr module = parseValid(std::move(text));
  return {module, cast<Constant>(cast<ExprStmt>(module->body()[0])->value)};
}

} // namespace

TEST(Integers, OfEveryBase) {
  EXPECT_EQ(literal("1_000")->asInt64(), 1000);
  EXPECT_EQ(literal("0xFF_ff")->asInt64(), 0xFFFF);
  EXPECT_EQ(literal("0o17")->asInt64(), 15);
  EXPECT_EQ(literal("0b_101")->asInt64(), 5);
  EXPECT_EQ(literal("00_0")->asInt64(), 0);
  EXPECT_TRUE(literal("0")->words.empty());
}

TEST(Integers, OfAnySize) {
  EXPECT_EQ(literal("9223372036854775807")->asInt64(), INT64_MAX);
  EXPECT_EQ(literal("9223372036854775808")->asInt64(), std::nullopt);
  EXPECT_EQ(literal("18446744073709551615")->asUint64(), UINT64_MAX);
  Literal big = literal("340282366920938463463374607431768211457"); // 2^128 + 1
  ASSERT_EQ(big->words.size(), 3u);
  EXPECT_EQ(big->words[0], 1u);
  EXPECT_EQ(big->words[1], 0u);
  EXPECT_EQ(big->words[2], 1u);
  EXPECT_EQ(big->asUint64(), std::nullopt);
  EXPECT_EQ(big->number, std::ldexp(1.0, 128));
  Literal hex = literal("0x1_0000_0000_0000_0000");
  ASSERT_EQ(hex->words.size(), 2u);
  EXPECT_EQ(hex->words[1], 1u);
  EXPECT_EQ(literal("0o" + std::string(43, '7'))->words.size(), 3u); // 129 bits
}

TEST(Integers, RoundToTheNearestDouble) {
  EXPECT_EQ(literal("9007199254740993")->number, 9007199254740992.0); // tie to even
  EXPECT_EQ(literal("0x20000000000001_0000000000000001")->number,
            std::ldexp(9007199254740994.0, 64)); // just above a tie
  EXPECT_TRUE(std::isinf(literal("1" + std::string(400, '0'))->number));
}

TEST(Integers, HaveALimitedNumberOfDecimalDigits) {
  EXPECT_EQ(literal(std::string(4300, '1'))->words.size(), 224u);
  DiagnosticEngine diagnostics;
  parseModule(SourceFile::create("k.py", "x = " + std::string(4301, '1')), diagnostics);
  ASSERT_EQ(diagnostics.errorCount(), 1u);
  EXPECT_EQ(diagnostics.diagnostics()[0].name(), "IntTooLong");
  EXPECT_EQ(diagnostics.diagnostics()[0].message(),
            "integer literal of 4301 digits: at most 4300 are accepted");
  parseValid("x = 0x" + std::string(100000, 'f'));
}

TEST(Floats, AreExact) {
  EXPECT_EQ(literal("1.414")->number, 1.414);
  EXPECT_EQ(literal(".5")->number, 0.5);
  EXPECT_EQ(literal("5.")->number, 5.0);
  EXPECT_EQ(literal("1_0.0_1e-0_2")->number, 10.01e-2);
  EXPECT_EQ(literal("1e5")->constantKind, ConstantKind::Float);
  EXPECT_EQ(literal("0777.5")->number, 777.5);
  EXPECT_EQ(literal("5e-324")->number, 5e-324);
}

TEST(Floats, OverflowToInfinityAndUnderflowToZero) {
  EXPECT_EQ(literal("1e400")->number, HUGE_VAL);
  EXPECT_EQ(literal("1e-400")->number, 0.0);
  EXPECT_EQ(literal("0." + std::string(400, '0') + "1")->number, 0.0);
  EXPECT_EQ(literal("0." + std::string(400, '0') + "1e999999")->number, HUGE_VAL);
  EXPECT_EQ(literal("1e99999999999999999999")->number, HUGE_VAL);
  EXPECT_EQ(literal(std::string(400, '9') + ".0")->number, HUGE_VAL);
  EXPECT_EQ(literal("0e400")->number, 0.0);
}

TEST(Imaginary, AreKept) {
  EXPECT_EQ(literal("2.5J")->constantKind, ConstantKind::Imaginary);
  EXPECT_EQ(literal("2.5J")->number, 2.5);
  EXPECT_EQ(literal("010j")->number, 10.0);
}

TEST(Strings, AreDecoded) {
  EXPECT_EQ(literal(R"('a\n\t\\\'\x41\101\u00e9\U0001F600')")->text, "a\n\t\\'AA\u00e9\U0001F600");
  EXPECT_EQ(literal(R"('\d\
x')")
                ->text,
            "\\dx");
  EXPECT_EQ(literal(R"(r'\n\'')")->text, "\\n\\'");
  EXPECT_EQ(literal("'''a\r\nb\rc'''")->text, "a\nb\nc");
  EXPECT_EQ(literal("b'\\xff\\u0041'")->text, "\xff\\u0041");
  EXPECT_EQ(literal("b'a'")->constantKind, ConstantKind::Bytes);
  EXPECT_EQ(literal(R"('\ud800')")->text, "\xED\xA0\x80"); // a lone surrogate
  EXPECT_EQ(literal("'a' \"b\" '''c'''")->text, "abc");
  EXPECT_EQ(literal("u'x'")->text, "x");
  EXPECT_EQ(literal("''")->text, "");
}

TEST(Strings, WithoutEscapesPointIntoTheSource) {
  Literal plain = literal("'plain'");
  std::string_view source = plain.module->source().text();
  EXPECT_TRUE(plain->text.data() > source.data() &&
              plain->text.data() < source.data() + source.size());
}

TEST(Strings, SayWhenACharacterIsOnlyNamed) {
  Literal named = literal(R"('\N{BULLET}')");
  EXPECT_TRUE(named->hasNamedCharacter);
  EXPECT_EQ(named->text, "\\N{BULLET}");
  EXPECT_FALSE(literal(R"(r'\N{BULLET}')")->hasNamedCharacter);
}

TEST(FStrings, HoldTextAndValues) {
  EXPECT_EQ(dumpExpr("f'a{x}b'"), "JoinedStr(values=[Constant(value='a'), "
                                  "FormattedValue(value=Name(id='x')), Constant(value='b')])");
  EXPECT_EQ(dumpExpr("f'{{{x!r}}}'"),
            "JoinedStr(values=[Constant(value='{'), FormattedValue(value=Name(id='x'), "
            "conversion='r'), Constant(value='}')])");
  EXPECT_EQ(dumpExpr("f'{x:>{w}.2f}'"),
            "JoinedStr(values=[FormattedValue(value=Name(id='x'), "
            "format_spec=JoinedStr(values=[Constant(value='>'), FormattedValue(value=Name("
            "id='w')), Constant(value='.2f')]))])");
  EXPECT_EQ(dumpExpr("f'{x = }'"), "JoinedStr(values=[Constant(value='x = '), "
                                   "FormattedValue(value=Name(id='x'), conversion='r')])");
  EXPECT_EQ(dumpExpr("f'{x=:>3}'"),
            "JoinedStr(values=[Constant(value='x='), FormattedValue(value=Name(id='x'), "
            "format_spec=JoinedStr(values=[Constant(value='>3')]))])");
  EXPECT_EQ(dumpExpr("'a' f'b{x}' 'c'"),
            "JoinedStr(values=[Constant(value='ab'), FormattedValue(value=Name(id='x')), "
            "Constant(value='c')])");
  EXPECT_EQ(dumpExpr("f''"), "JoinedStr()");
}

TEST(FStrings, NestAsInPython312) {
  EXPECT_EQ(dumpExpr("f'{f'{x}'}'"), dumpExpr("f'{f\"{x}\"}'"));
  EXPECT_EQ(dumpExpr("f'{a['b']}'"), dumpExpr("f'{a[\"b\"]}'"));
  EXPECT_EQ(dumpExpr("f'{x  # comment\n}'"), dumpExpr("f'{x}'"));
  EXPECT_EQ(dumpExpr("f'{a != b}'"), "JoinedStr(values=[FormattedValue(value=Compare(left=Name("
                                     "id='a'), ops=[NotEq], comparators=[Name(id='b')]))])");
  EXPECT_EQ(dumpExpr("f'{ {1: 2}[1] }'"),
            "JoinedStr(values=[FormattedValue(value=Subscript(value=Dict(keys=[Constant("
            "value=1)], values=[Constant(value=2)]), slice=Constant(value=1)))])");
  EXPECT_EQ(dumpExpr("f'{x:=5}'"), "JoinedStr(values=[FormattedValue(value=Name(id='x'), "
                                   "format_spec=JoinedStr(values=[Constant(value='=5')]))])");
  EXPECT_EQ(dumpExpr("f'{(lambda x: 1)}'").substr(0, 40),
            "JoinedStr(values=[FormattedValue(value=L");
  EXPECT_EQ(dumpExpr("rf'\\d{x}'"), "JoinedStr(values=[Constant(value='\\\\d'), "
                                    "FormattedValue(value=Name(id='x'))])");
  EXPECT_EQ(dumpExpr("f'\\N{BULLET}{x}'"), "JoinedStr(values=[Constant(value='\\\\N{BULLET}'), "
                                           "FormattedValue(value=Name(id='x'))])");
}
