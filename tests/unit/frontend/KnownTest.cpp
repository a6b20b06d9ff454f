// Python's arithmetic on known values.
#include "Fixture.h"

namespace nereid::frontend::test {
namespace {

std::string fold(BinaryOp op, const Value &a, const Value &b) {
  auto result = foldBinary(op, a, b);
  if (auto *value = std::get_if<Value>(&result))
    return value->repr();
  switch (std::get<KnownError>(result)) {
  case KnownError::Unsupported:
    return "unsupported";
  case KnownError::DivisionByZero:
    return "division by zero";
  case KnownError::NegativeShift:
    return "negative shift";
  case KnownError::TooLarge:
    return "too large";
  case KnownError::ComplexPower:
    return "complex";
  }
  return "";
}

std::string compared(CompareOp op, const Value &a, const Value &b) {
  auto result = foldCompare(op, a, b);
  auto *value = std::get_if<Value>(&result);
  return value ? value->repr() : "unsupported";
}

Value text(const char *value) {
  return Value(std::string(value));
}

TEST(Known, IntegersOfAnySize) {
  Value big = std::get<Value>(foldBinary(BinaryOp::Pow, integer(10), integer(30)));
  EXPECT_EQ(big.repr(), "1000000000000000000000000000000");
  EXPECT_EQ(fold(BinaryOp::Mult, big, integer(-7)), "-7000000000000000000000000000000");
  EXPECT_EQ(fold(BinaryOp::FloorDiv, big, integer(-7)), "-142857142857142857142857142858");
  EXPECT_EQ(fold(BinaryOp::Sub, integer(INT64_MIN), integer(1)), "-9223372036854775809");
  EXPECT_EQ(fold(BinaryOp::LShift, integer(-3), integer(70)), "-3541774862152233910272");
  EXPECT_EQ(fold(BinaryOp::RShift, integer(-3), integer(200)), "-1");
  EXPECT_EQ(fold(BinaryOp::Pow, integer(2), integer(1000000)), "too large");
  EXPECT_EQ(fold(BinaryOp::Pow, integer(-1), integer(1000001)), "-1");
  EXPECT_EQ(fold(BinaryOp::Pow, integer(2), integer(-2)), "0.25");
  EXPECT_EQ(fold(BinaryOp::Pow, integer(-3), integer(3)), "-27");
}

TEST(Known, DivisionFloors) {
  EXPECT_EQ(fold(BinaryOp::FloorDiv, integer(-7), integer(2)), "-4");
  EXPECT_EQ(fold(BinaryOp::Mod, integer(-7), integer(2)), "1");
  EXPECT_EQ(fold(BinaryOp::Mod, integer(7), integer(-2)), "-1");
  EXPECT_EQ(fold(BinaryOp::Div, integer(7), integer(2)), "3.5");
  EXPECT_EQ(fold(BinaryOp::FloorDiv, Value(-7.5), integer(2)), "-4.0");
  EXPECT_EQ(fold(BinaryOp::Mod, Value(-7.5), integer(2)), "0.5");
  EXPECT_EQ(fold(BinaryOp::Mod, Value(7.5), integer(-2)), "-0.5");
  EXPECT_EQ(fold(BinaryOp::FloorDiv, integer(1), integer(0)), "division by zero");
  EXPECT_EQ(fold(BinaryOp::Div, Value(1.0), Value(0.0)), "division by zero");
}

TEST(Known, IntegersAsFloats) {
  auto power = [](int64_t exponent) {
    return std::get<Value>(foldBinary(BinaryOp::Pow, integer(2), integer(exponent)));
  };
  auto minusOne = [](const Value &value) {
    return std::get<Value>(foldBinary(BinaryOp::Sub, value, integer(1)));
  };
  EXPECT_EQ(fold(BinaryOp::Mult, power(63), Value(1.0)), "9.223372036854776e+18");
  EXPECT_EQ(fold(BinaryOp::Mult, integer(INT64_MIN), Value(1.0)), "-9.223372036854776e+18");
  EXPECT_EQ(fold(BinaryOp::Mult, minusOne(power(70)), Value(1.0)), "1.1805916207174113e+21");
  EXPECT_EQ(fold(BinaryOp::Div, power(63), integer(-2)), "-4.611686018427388e+18");
  EXPECT_EQ(fold(BinaryOp::Div, minusOne(power(64)), Value(1.5)), "1.2297829382473034e+19");
  // Rounded once, also where neither side fits a double.
  EXPECT_EQ(fold(BinaryOp::Div, power(20000), power(19999)), "2.0");
  EXPECT_EQ(fold(BinaryOp::Div, minusOne(power(54)), integer(3)), "6004799503160661.0");
  EXPECT_EQ(fold(BinaryOp::Div, integer(3), power(1076)), "5e-324");
  EXPECT_EQ(fold(BinaryOp::Div, integer(1), power(1075)), "0.0");
  EXPECT_EQ(fold(BinaryOp::Div, power(2000), integer(1)), "too large");
  const Value infinity(std::numeric_limits<double>::infinity());
  EXPECT_EQ(compared(CompareOp::Lt, power(2000), infinity), "True");
  EXPECT_EQ(compared(CompareOp::Gt, power(2000), Value(-infinity.get<double>())), "True");
  EXPECT_EQ(compared(CompareOp::Lt, power(2000), Value(std::nan(""))), "False");
}

TEST(Known, Refusals) {
  EXPECT_EQ(fold(BinaryOp::LShift, integer(1), integer(-1)), "negative shift");
  EXPECT_EQ(fold(BinaryOp::Pow, integer(-8), Value(0.5)), "complex");
  EXPECT_EQ(fold(BinaryOp::Add, integer(1), text("a")), "unsupported");
  EXPECT_EQ(fold(BinaryOp::BitAnd, Value(1.0), integer(1)), "unsupported");
  EXPECT_EQ(fold(BinaryOp::Mult, text("abc"), integer(1 << 30)), "too large");
}

TEST(Known, BoolsStringsTuples) {
  EXPECT_EQ(fold(BinaryOp::Add, Value(true), Value(true)), "2");
  EXPECT_EQ(fold(BinaryOp::BitAnd, Value(true), Value(false)), "False");
  EXPECT_EQ(fold(BinaryOp::BitXor, Value(true), integer(2)), "3");
  EXPECT_EQ(fold(BinaryOp::Add, text("a"), text("b")), "'ab'");
  EXPECT_EQ(fold(BinaryOp::Mult, shape({1, 2}), integer(2)), "(1, 2, 1, 2)");
  EXPECT_EQ(fold(BinaryOp::Add, shape({1}), shape({2})), "(1, 2)");
}

TEST(Known, Comparisons) {
  EXPECT_EQ(compared(CompareOp::Eq, integer(1), Value(1.0)), "True");
  EXPECT_EQ(compared(CompareOp::Eq, Value(true), integer(1)), "True");
  EXPECT_EQ(compared(CompareOp::Is, Value(true), integer(1)), "False");
  EXPECT_EQ(compared(CompareOp::Lt, integer(INT64_MAX), Value(9223372036854775807.0)), "True");
  EXPECT_EQ(compared(CompareOp::Gt, integer(3), Value(2.5)), "True");
  EXPECT_EQ(compared(CompareOp::NotEq, Value(std::nan("")), Value(std::nan(""))), "True");
  EXPECT_EQ(compared(CompareOp::Lt, text("a"), text("b")), "True");
  EXPECT_EQ(compared(CompareOp::Lt, shape({1, 2}), shape({1, 3})), "True");
  EXPECT_EQ(compared(CompareOp::In, integer(2), shape({1, 2})), "True");
  EXPECT_EQ(compared(CompareOp::NotIn, text("x"), text("abc")), "True");
  EXPECT_EQ(compared(CompareOp::Eq, Value(), integer(0)), "False");
  EXPECT_EQ(compared(CompareOp::Lt, Value(), integer(0)), "unsupported");
}

TEST(Known, ReprIsPythons) {
  EXPECT_EQ(Value(1e16).repr(), "1e+16");
  EXPECT_EQ(Value(123456.0).repr(), "123456.0");
  EXPECT_EQ(Value(1e-5).repr(), "1e-05");
  EXPECT_EQ(Value(0.1).repr(), "0.1");
  EXPECT_EQ(Value(-std::numeric_limits<double>::infinity()).repr(), "-inf");
  EXPECT_EQ(text("it's").repr(), "\"it's\"");
  EXPECT_EQ(shape({1}).repr(), "(1,)");
}

class KnownErrors : public Fixture {};

TEST_F(KnownErrors, AreReported) {
  auto refused = [&](BinaryOp op, Value a, Value b) {
    EXPECT_TRUE(failed(semantic->binary(op, a, b)));
    return message();
  };
  EXPECT_EQ(refused(BinaryOp::Add, integer(1), text("a")),
            "UnsupportedOperands: unsupported operands for `+`: int and str");
  EXPECT_EQ(refused(BinaryOp::Mod, integer(1), integer(0)),
            "KnownDivisionByZero: `%`: division by zero");
  EXPECT_EQ(refused(BinaryOp::RShift, integer(1), integer(-1)),
            "KnownNegativeShift: `>>`: the shift count is negative");
  EXPECT_EQ(
      refused(BinaryOp::LShift, integer(1), integer(1 << 20)),
      "KnownTooLarge: `<<`: the result is too large: an integer may have 65536 bits, a string or "
      "tuple 16777216 bytes, a float must be finite");
  EXPECT_EQ(
      refused(BinaryOp::Pow, integer(-8), Value(0.5)),
      "KnownComplexPower: `**`: a negative number has no real power with a fractional exponent");
  EXPECT_TRUE(failed(semantic->unary(UnaryOpKind::USub, text("a"))));
  EXPECT_EQ(message(), "UnsupportedOperand: unsupported operand for unary `-`: str");
  EXPECT_EQ(semantic->binary(BinaryOp::RShift, integer(8), integer(1))->repr(), "4");
  EXPECT_EQ(semantic->unary(UnaryOpKind::Invert, Value(true))->repr(), "-2");
}

TEST_F(KnownErrors, Subscripts) {
  Value three = shape({10, 20, 30});
  EXPECT_EQ(semantic->subscript(three, integer(-1))->repr(), "30");
  EXPECT_TRUE(failed(semantic->subscript(three, integer(3))));
  EXPECT_EQ(message(), "IndexOutOfRange: index 3 is out of range for a tuple of length 3");
  auto slice = [](Value start, Value stop, Value step) {
    auto part = [](Value value) { return std::make_shared<const Value>(value); };
    return Value(SliceValue{part(start), part(stop), part(step)});
  };
  EXPECT_EQ(semantic->subscript(three, slice(Value(), integer(-1), Value()))->repr(), "(10, 20)");
  EXPECT_EQ(semantic->subscript(three, slice(Value(), Value(), integer(-1)))->repr(),
            "(30, 20, 10)");
  EXPECT_EQ(semantic->subscript(three, slice(integer(5), Value(), Value()))->repr(), "()");
  EXPECT_EQ(semantic->subscript(text("abc"), slice(integer(1), Value(), Value()))->repr(), "'bc'");
  EXPECT_TRUE(failed(semantic->subscript(three, slice(Value(), Value(), integer(0)))));
  EXPECT_EQ(message(), "SliceStepZero: the step of a slice cannot be zero");
  EXPECT_EQ(semantic->subscript(text("aµb"), integer(1))->repr(), "'µ'");
  EXPECT_TRUE(failed(semantic->subscript(integer(1), integer(0))));
  EXPECT_EQ(message(), "NotSubscriptable: int cannot be subscripted");
  Value block = argument(DType::Float32, {16});
  EXPECT_EQ(typeOf(semantic->subscript(block, tuple({slice(Value(), Value(), Value()), Value()}))),
            "<['16', '1'], fp32>");
  EXPECT_EQ(typeOf(semantic->subscript(argument(DType::Int32), tuple({Value()}))),
            "<['1'], int32>");
  EXPECT_EQ(typeOf(semantic->subscript(block, integer(0))), "fp32");
  EXPECT_EQ(typeOf(semantic->subscript(block, slice(integer(2), integer(12), integer(3)))),
            "<['4'], fp32>");
  EXPECT_EQ(typeOf(semantic->subscript(block, argument(DType::Int32))), "fp32");
  EXPECT_TRUE(failed(semantic->subscript(block, text("a"))));
  EXPECT_EQ(message(),
            "UnsupportedIndexKind: unsupported tensor index: 'a'; expected integers, slices with "
            "known bounds, `None` and `...`; `tl.gather` takes the elements that a block names");
  EXPECT_TRUE(failed(semantic->subscript(block, integer(16))));
  EXPECT_EQ(message(), "TensorIndexRange: index 16 is out of bounds for dimension 0 with size 16");
  EXPECT_TRUE(failed(semantic->subscript(block, slice(integer(4), integer(4), Value()))));
  EXPECT_EQ(message(), "EmptySlice: the slice of dimension 0 with size 16 is empty: blocks have at "
                       "least one element");
  Value all = slice(Value(), Value(), Value());
  EXPECT_EQ(typeOf(semantic->subscript(block, tuple({all, all}))), typeOf(FailureOr<Value>(block)));
  EXPECT_TRUE(failed(semantic->subscript(block, tuple({all, integer(0)}))));
  EXPECT_EQ(message(), "TooManyIndices: too many indices: found 2 for a tensor of rank 1");
  Value object(HostObject{1, "Config"});
  EXPECT_TRUE(failed(semantic->subscript(object, integer(0))));
  EXPECT_EQ(message(), "HostSubscriptFailed: cannot subscript `Config`: no items");
}

TEST_F(KnownErrors, Truth) {
  EXPECT_EQ(**semantic->knownTruth(text("")), false);
  EXPECT_EQ(**semantic->knownTruth(Value(0.5)), true);
  EXPECT_FALSE(semantic->knownTruth(argument(DType::Int32))->has_value());
  EXPECT_TRUE(failed(semantic->knownTruth(Value(HostObject{1, "Config"}))));
  EXPECT_EQ(message(), "HostTruthFailed: cannot take the truth of `Config`: no truth");
  EXPECT_EQ(typeOf(FailureOr<Value>(Value(*semantic->condition(argument(DType::Int32))))), "int1");
  EXPECT_EQ(typeOf(FailureOr<Value>(Value(*semantic->condition(argument(DType::Int1, {1}))))),
            "int1");
  EXPECT_EQ(message(),
            "SizeOneCondition: a condition should be a scalar, found int1 block of shape [1]");
  EXPECT_TRUE(failed(semantic->condition(argument(DType::Int1, {16}))));
  EXPECT_EQ(
      message(),
      "BlockAsCondition: a condition must be a scalar, found int1 block of shape [16]: reduce it, "
      "or select with `tl.where`");
  EXPECT_EQ(typeOf(semantic->logical(true, argument(DType::Int1), argument(DType::Int32))), "int1");
  EXPECT_TRUE(diagnostics.diagnostics().empty());
  EXPECT_EQ(typeOf(semantic->logical(false, argument(DType::Int1), argument(DType::Int1, {8}))),
            "<['8'], int1>");
  EXPECT_TRUE(diagnostics.diagnostics().empty());
}

} // namespace
} // namespace nereid::frontend::test
