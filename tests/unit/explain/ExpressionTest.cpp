#include "explain/Expression.h"

#include <gtest/gtest.h>

using namespace nereid::explain;
using Op = Expression::Op;

namespace {

Expression c(int64_t value) {
  return Expression::constant(value);
}
Expression trips() { // (K + 63) / 64
  return Expression::make(Op::Div,
                          {Expression::make(Op::Add, {Expression::argument("K"), c(63)}), c(64)});
}
Expression::Leaf k(int64_t value) {
  return [value](const Expression &leaf) -> std::optional<int64_t> {
    if (leaf.op == Op::Argument && leaf.name == "K")
      return value;
    return std::nullopt;
  };
}

TEST(Expression, Evaluates) {
  EXPECT_EQ(trips().evaluate(k(4096)), 64);
  EXPECT_EQ(trips().evaluate(k(1)), 1);
  EXPECT_EQ(trips().evaluate(k(0)), 0);
  EXPECT_EQ(Expression::make(Op::Div, {Expression::argument("M"), c(2)}).evaluate(k(1)),
            std::nullopt);
  EXPECT_EQ(
      Expression::make(Op::Select,
                       {Expression::make(Op::Less, {Expression::argument("K"), c(5)}), c(1), c(2)})
          .evaluate(k(7)),
      2);
}

TEST(Expression, DivisionByZeroHasNoValue) {
  Expression quotient = Expression::make(Op::Div, {c(1), Expression::argument("K")});
  EXPECT_EQ(quotient.evaluate(k(0)), std::nullopt);
  EXPECT_EQ(quotient.evaluate(k(-1)), -1);
  Expression least = Expression::make(Op::Div, {Expression::argument("K"), c(-1)});
  EXPECT_EQ(least.evaluate(k(INT64_MIN)), INT64_MIN); // wraps
}

TEST(Expression, Folds) {
  EXPECT_TRUE(Expression::make(Op::Mul, {c(6), c(7)}).isConstant(42));
  EXPECT_EQ(Expression::make(Op::Add, {Expression::argument("K"), c(0)}).text(), "K");
  EXPECT_EQ(Expression::make(Op::Add, {trips(), c(0)}).text(), "(K + 63) / 64");
  EXPECT_FALSE(Expression::make(Op::Add, {Expression(), c(1)}).known());
}

TEST(Expression, TakesAwayWhatIsOnBothSides) {
  Expression start = Expression::make(
      Op::Mul, {Expression::make(Op::Add, {Expression::argument("K"), c(1)}), c(64)});
  Expression end = Expression::make(Op::Add, {start, c(128)});
  EXPECT_TRUE(Expression::make(Op::Sub, {start, start}).isConstant(0));
  EXPECT_TRUE(Expression::make(Op::Sub, {end, start}).isConstant(128));
  EXPECT_EQ(Expression::make(Op::Sub, {end, Expression::argument("K")}).evaluate(k(1)), 255);
}

TEST(Expression, Text) {
  EXPECT_EQ(trips().text(), "(K + 63) / 64");
  EXPECT_EQ(
      Expression::make(Op::Sub, {Expression::argument("a"),
                                 Expression::make(Op::Sub, {Expression::argument("b"), c(1)})})
          .text(),
      "a - (b - 1)");
  EXPECT_EQ(Expression::make(Op::Min, {Expression::argument("a"), c(1)}).text(), "min(a, 1)");
  EXPECT_EQ(Expression().text(), "?");
}

TEST(Expression, SurvivesJson) {
  Expression all = Expression::make(
      Op::Select, {Expression::make(Op::LessEqual, {Expression{Op::Program, 1, {}, {}}, c(3)}),
                   trips(), Expression::make(Op::Max, {Expression{Op::Loop, 2, {}, {}}, c(1)})});
  EXPECT_EQ(Expression::fromJson(all.json()).text(), all.text());
  EXPECT_EQ(Expression::fromJson(all.json()).json(), all.json());
  EXPECT_FALSE(Expression::fromJson(Expression().json()).known());
  EXPECT_FALSE(Expression::fromJson(llvm::json::Array{"add", 1}).known());
  EXPECT_FALSE(Expression::fromJson(llvm::json::Array{"rob", 1, 2}).known());
}

} // namespace
