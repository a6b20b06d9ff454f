// The type of every operator on every pair of element types, against tables written out by hand.
#include "Fixture.h"

namespace nereid::frontend::test {
namespace {

constexpr DType types[] = {DType::Int1,     DType::Int8,     DType::Int16,      DType::Int32,
                           DType::Int64,    DType::UInt8,    DType::UInt16,     DType::UInt32,
                           DType::UInt64,   DType::Float8E5, DType::Float8E4NV, DType::Float16,
                           DType::BFloat16, DType::Float32,  DType::Float64};
constexpr size_t count = std::size(types);

std::string longName(llvm::StringRef cell) {
  return llvm::StringSwitch<std::string>(cell)
      .Case("i1", "int1")
      .Case("i8", "int8")
      .Case("i16", "int16")
      .Case("i32", "int32")
      .Case("i64", "int64")
      .Case("u8", "uint8")
      .Case("u16", "uint16")
      .Case("u32", "uint32")
      .Case("u64", "uint64")
      .Case("e5", "fp8e5")
      .Case("e4", "fp8e4nv")
      .Case("f16", "fp16")
      .Case("b16", "bf16")
      .Case("f32", "fp32")
      .Case("f64", "fp64")
      .Default("error");
}

using Grid = const char *[count];

// Rows: left operand, columns: right operand, both in the order of `types`. `--` is refused.
const Grid common = {
    //       i1    i8    i16   i32   i64   u8    u16   u32   u64   e5    e4    f16   b16   f32   f64
    /* i1*/ "i1   i8    i16   i32   i64   u8    u16   u32   u64   --    --    f16   f32   f32   "
            "f64",
    /* i8*/
    "i8   i8    i16   i32   i64   u8    u16   u32   u64   --    --    f16   f32   f32   f64",
    /*i16*/
    "i16  i16   i16   i32   i64   i16   u16   u32   u64   --    --    f16   f32   f32   f64",
    /*i32*/
    "i32  i32   i32   i32   i64   i32   i32   u32   u64   --    --    f16   f32   f32   f64",
    /*i64*/
    "i64  i64   i64   i64   i64   i64   i64   i64   u64   --    --    f16   f32   f32   f64",
    /* u8*/
    "u8   u8    i16   i32   i64   u8    u16   u32   u64   --    --    f16   f32   f32   f64",
    /*u16*/
    "u16  u16   u16   i32   i64   u16   u16   u32   u64   --    --    f16   f32   f32   f64",
    /*u32*/
    "u32  u32   u32   u32   i64   u32   u32   u32   u64   --    --    f16   f32   f32   f64",
    /*u64*/
    "u64  u64   u64   u64   u64   u64   u64   u64   u64   --    --    f16   f32   f32   f64",
    /* e5*/
    "--   --    --    --    --    --    --    --    --    e5    f16   f16   f32   f32   f64",
    /* e4*/
    "--   --    --    --    --    --    --    --    --    f16   e4    f16   f32   f32   f64",
    /*f16*/
    "f16  f16   f16   f16   f16   f16   f16   f16   f16   f16   f16   f16   f16   f32   f64",
    /*b16*/
    "f32  f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f16   b16   f32   f64",
    /*f32*/
    "f32  f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f64",
    /*f64*/
    "f64  f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64",
};

// `/`, where integers give fp32, 16-bit floats too, and mixed signs are refused.
const Grid quotient = {
    //       i1    i8    i16   i32   i64   u8    u16   u32   u64   e5    e4    f16   b16   f32   f64
    /* i1*/ "f32  --    --    --    --    f32   f32   f32   f32   --    --    f32   f32   f32   "
            "f64",
    /* i8*/
    "--   f32   f32   f32   f32   --    --    --    --    --    --    f32   f32   f32   f64",
    /*i16*/
    "--   f32   f32   f32   f32   --    --    --    --    --    --    f32   f32   f32   f64",
    /*i32*/
    "--   f32   f32   f32   f32   --    --    --    --    --    --    f32   f32   f32   f64",
    /*i64*/
    "--   f32   f32   f32   f32   --    --    --    --    --    --    f32   f32   f32   f64",
    /* u8*/
    "f32  --    --    --    --    f32   f32   f32   f32   --    --    f32   f32   f32   f64",
    /*u16*/
    "f32  --    --    --    --    f32   f32   f32   f32   --    --    f32   f32   f32   f64",
    /*u32*/
    "f32  --    --    --    --    f32   f32   f32   f32   --    --    f32   f32   f32   f64",
    /*u64*/
    "f32  --    --    --    --    f32   f32   f32   f32   --    --    f32   f32   f32   f64",
    /* e5*/
    "--   --    --    --    --    --    --    --    --    e5    f16   f32   f32   f32   f64",
    /* e4*/
    "--   --    --    --    --    --    --    --    --    f16   e4    f32   f32   f32   f64",
    /*f16*/
    "f32  f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f64",
    /*b16*/
    "f32  f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f64",
    /*f32*/
    "f32  f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f64",
    /*f64*/
    "f64  f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64",
};

std::string cell(const Grid &grid, size_t row, size_t column) {
  llvm::SmallVector<llvm::StringRef> cells;
  llvm::StringRef(grid[row]).split(cells, ' ', -1, /*KeepEmpty=*/false);
  EXPECT_EQ(cells.size(), count);
  return longName(cells[column]);
}

bool isFloatIndex(size_t index) {
  return index >= 9;
}
bool isUnsignedIndex(size_t index) {
  return index == 0 || (index >= 5 && index < 9);
}

std::string expected(BinaryOp op, size_t i, size_t j) {
  bool floats = isFloatIndex(i) || isFloatIndex(j);
  bool mixed = !floats && isUnsignedIndex(i) != isUnsignedIndex(j);
  switch (op) {
  case BinaryOp::Add:
  case BinaryOp::Sub:
  case BinaryOp::Mult:
    return cell(common, i, j);
  case BinaryOp::Div:
    return cell(quotient, i, j);
  case BinaryOp::Mod: // integers as in `common`, floats as in `quotient`
    return mixed ? "error" : floats ? cell(quotient, i, j) : cell(common, i, j);
  case BinaryOp::FloorDiv:
    return floats || mixed ? "error" : cell(common, i, j);
  default: // bitwise
    return floats ? "error" : cell(common, i, j);
  }
}

class Promotion : public Fixture {};

TEST_F(Promotion, EveryOperatorOnEveryPairOfTypes) {
  const BinaryOp ops[] = {BinaryOp::Add,      BinaryOp::Sub,    BinaryOp::Mult,   BinaryOp::Div,
                          BinaryOp::FloorDiv, BinaryOp::Mod,    BinaryOp::BitAnd, BinaryOp::BitOr,
                          BinaryOp::BitXor,   BinaryOp::LShift, BinaryOp::RShift};
  std::vector<Value> values;
  for (DType type : types)
    values.push_back(argument(type));
  for (BinaryOp op : ops)
    for (size_t i = 0; i < count; ++i)
      for (size_t j = 0; j < count; ++j) {
        auto result = semantic->binary(op, values[i], values[j]);
        EXPECT_EQ(typeOf(result), expected(op, i, j))
            << info(types[i]).name << " " << syntax::spelling(op) << " " << info(types[j]).name;
        diagnostics.clear();
      }
}

TEST_F(Promotion, ComparisonsGiveInt1) {
  std::vector<Value> values;
  for (DType type : types)
    values.push_back(argument(type));
  for (size_t i = 0; i < count; ++i)
    for (size_t j = 0; j < count; ++j) {
      auto result = semantic->compare(CompareOp::Lt, values[i], values[j]);
      EXPECT_EQ(typeOf(result), cell(common, i, j) == "error" ? "error" : "int1");
      diagnostics.clear();
    }
}

TEST_F(Promotion, NumbersTakeTheTypeOfTheTensor) {
  auto plus = [&](DType type, Value number) {
    return typeOf(semantic->binary(BinaryOp::Add, argument(type), number));
  };
  for (size_t i = 1; i < count; ++i)
    EXPECT_EQ(plus(types[i], integer(3)), info(types[i]).shortName) << info(types[i]).name;
  for (size_t i = 9; i < count; ++i)
    EXPECT_EQ(plus(types[i], Value(0.5)), info(types[i]).shortName) << info(types[i]).name;
  EXPECT_EQ(plus(DType::Int1, integer(3)), "int32");
  EXPECT_EQ(plus(DType::Int8, Value(true)), "int8");
  EXPECT_EQ(plus(DType::Int64, Value(0.5)), "fp32");
  EXPECT_EQ(typeOf(semantic->binary(BinaryOp::Div, argument(DType::Float16), integer(2))), "fp32");
  EXPECT_EQ(typeOf(semantic->binary(BinaryOp::Div, argument(DType::Int64), integer(2))), "fp32");
  // A run-time scalar is no number: it takes part.
  EXPECT_EQ(
      typeOf(semantic->binary(BinaryOp::Mult, argument(DType::Float16), argument(DType::Float32))),
      "fp32");
  // Nor is what a plain assignment made.
  auto assigned = semantic->assigned(Value(0.5));
  EXPECT_EQ(typeOf(semantic->binary(BinaryOp::Mult, argument(DType::Float16), *assigned)), "fp32");
}

TEST_F(Promotion, NumbersOutOfRangeAreRefused) {
  EXPECT_EQ(typeOf(semantic->binary(BinaryOp::Add, argument(DType::Int8), integer(300))), "error");
  EXPECT_EQ(message(), "ScalarOutOfRange: `+`: the number 300 does not fit into int8: cast the "
                       "other operand to a wider type");
  EXPECT_EQ(typeOf(semantic->binary(BinaryOp::Add, argument(DType::Int8), integer(127))), "int8");
  EXPECT_EQ(typeOf(semantic->binary(BinaryOp::Mult, integer(-1), argument(DType::UInt32))),
            "error");
  EXPECT_EQ(message(), "NegativeWithUnsigned: `*`: the number -1 is negative and the other operand "
                       "is uint32: cast one of them");
  EXPECT_EQ(typeOf(semantic->binary(BinaryOp::Mult, integer(1), argument(DType::UInt32))),
            "uint32");
  // Comparisons make the number a tensor first.
  EXPECT_EQ(typeOf(semantic->compare(CompareOp::Lt, argument(DType::Int8), integer(300))), "int1");
}

TEST_F(Promotion, LiteralTypes) {
  auto literal = [&](Value number) {
    return typeOf(FailureOr<Value>(Value(*semantic->toTensor(number))));
  };
  EXPECT_EQ(literal(integer(0)), "int32");
  EXPECT_EQ(literal(integer(INT32_MIN)), "int32");
  EXPECT_EQ(literal(integer(1ll << 31)), "uint32");
  EXPECT_EQ(literal(integer(1ll << 32)), "int64");
  EXPECT_EQ(literal(integer(INT64_MIN)), "int64");
  auto big = std::get<Value>(foldBinary(BinaryOp::LShift, integer(1), integer(63)));
  EXPECT_EQ(literal(big), "uint64");
  EXPECT_EQ(literal(Value(true)), "int1");
  EXPECT_EQ(literal(Value(1.5)), "fp32");
  EXPECT_EQ(literal(Value(1e50)), "fp64");
  EXPECT_EQ(literal(Value(1e-50)), "fp64");
  EXPECT_EQ(literal(Value(0.0)), "fp32");
  EXPECT_EQ(literal(Value(-std::numeric_limits<double>::infinity())), "fp32");
  auto bigger = std::get<Value>(foldBinary(BinaryOp::LShift, integer(1), integer(64)));
  EXPECT_TRUE(failed(semantic->toTensor(bigger)));
  EXPECT_EQ(message(), "NumberTooLarge: the number 18446744073709551616 does not fit into 64 bits");
  EXPECT_TRUE(failed(semantic->toTensor(Value(std::string("x")))));
  EXPECT_EQ(message(), "CannotConvertToTensor: cannot convert str to a tensor: expected a number "
                       "or a run-time value");
}

TEST_F(Promotion, ShiftsFollowTheLeftOperand) {
  (void)semantic->binary(BinaryOp::RShift, argument(DType::Int32), argument(DType::UInt32));
  EXPECT_NE(ir().find("arith.shrsi"), std::string::npos);
  (void)semantic->binary(BinaryOp::RShift, argument(DType::UInt32), argument(DType::Int32));
  EXPECT_NE(ir().find("arith.shrui"), std::string::npos);
  EXPECT_EQ(diagnostics.diagnostics().size(), 0u);
  (void)semantic->binary(BinaryOp::LShift, argument(DType::Int16), integer(15));
  EXPECT_EQ(diagnostics.diagnostics().size(), 0u);
  (void)semantic->binary(BinaryOp::LShift, argument(DType::Int16), integer(16));
  EXPECT_EQ(
      message(),
      "ShiftTooFar: value 16 exceeds the maximum bitwidth (16) for type 'int16': the result of "
      "the shift is undefined");
}

TEST_F(Promotion, Messages) {
  Value i32 = argument(DType::Int32), u32 = argument(DType::UInt32), f32 = argument(DType::Float32);
  Value p = pointer(DType::Float32);
  EXPECT_TRUE(failed(semantic->binary(BinaryOp::FloorDiv, i32, u32)));
  EXPECT_EQ(message(), "DifferentSignedness: the operands of a division must both be signed or "
                       "both be unsigned, found int32 and uint32: cast one of them");
  EXPECT_TRUE(succeeded(semantic->binary(BinaryOp::FloorDiv, i32, i32)));
  EXPECT_TRUE(failed(semantic->binary(BinaryOp::BitAnd, f32, i32)));
  EXPECT_EQ(message(), "InvalidOperandTypes: `&`: invalid operands of type fp32 and int32");
  EXPECT_TRUE(failed(semantic->binary(BinaryOp::Add, argument(DType::Float8E5), i32)));
  EXPECT_EQ(message(), "UnexpectedTypes: fp8e5 and int32 have no common type: cast one of them");
  EXPECT_TRUE(failed(semantic->binary(BinaryOp::Add, p, p)));
  EXPECT_EQ(message(), "PointersAdded: cannot add pointers together");
  EXPECT_TRUE(failed(semantic->binary(BinaryOp::Add, p, f32)));
  EXPECT_EQ(message(), "InvalidOperandTypes: `+`: invalid operands of type pointer<fp32> and fp32");
  EXPECT_TRUE(failed(semantic->compare(CompareOp::Eq, p, p)));
  EXPECT_EQ(message(),
            "InvalidOperandTypes: `==`: invalid operands of type pointer<fp32> and pointer<fp32>");
  EXPECT_TRUE(failed(semantic->binary(BinaryOp::Pow, i32, integer(2))));
  EXPECT_EQ(message(), "UnsupportedOperands: unsupported operands for `**`: int32 scalar and int");
  EXPECT_TRUE(failed(semantic->unary(UnaryOpKind::USub, p)));
  EXPECT_EQ(message(), "WrongUnaryOperand: unary minus does not take pointer<fp32>");
  EXPECT_TRUE(succeeded(semantic->unary(UnaryOpKind::USub, f32)));
  EXPECT_EQ(typeOf(semantic->unary(UnaryOpKind::Not, p)), "int1");
  EXPECT_EQ(typeOf(semantic->compare(CompareOp::Is, p, Value())), "bool");
}

TEST_F(Promotion, PointerArithmetic) {
  Value p = pointer(DType::Float32);
  EXPECT_EQ(typeOf(semantic->binary(BinaryOp::Add, p, argument(DType::Int32, {16}))),
            "<['16'], pointer<fp32>>");
  EXPECT_EQ(typeOf(semantic->binary(BinaryOp::Add, argument(DType::Int32, {16}), p)),
            "<['16'], pointer<fp32>>");
  EXPECT_EQ(ir().find("extui"), std::string::npos);
  (void)semantic->binary(BinaryOp::Add, p, argument(DType::UInt32)); // zero-extended
  EXPECT_NE(ir().find("arith.extui"), std::string::npos);
  EXPECT_EQ(typeOf(semantic->binary(BinaryOp::Sub, p, integer(4))), "pointer<fp32>");
}

TEST_F(Promotion, NegationKeepsTheSignOfZero) {
  (void)semantic->unary(UnaryOpKind::USub, argument(DType::Float32));
  EXPECT_NE(ir().find("arith.negf"), std::string::npos);
}

TEST_F(Promotion, OverflowIsAssertedWithDebug) {
  options.debug = true;
  (void)semantic->binary(BinaryOp::Add, argument(DType::Int32), argument(DType::Int32));
  EXPECT_NE(ir().find("int32 overflow detected for operation add"), std::string::npos);
  auto checks = [&] { return llvm::StringRef(ir()).count("overflow detected"); };
  size_t before = checks();
  callNamed("add", {argument(DType::Int32), argument(DType::Int32), Value(false)});
  EXPECT_EQ(checks(), before);
  callNamed("add", {argument(DType::Int32), argument(DType::Int32)});
  EXPECT_EQ(checks(), before + 1);
  // The prelude's own operators may wrap; it asks for checks by calling `add`.
  inPrelude = true;
  (void)semantic->binary(BinaryOp::Mult, argument(DType::Int32), argument(DType::Int32));
  (void)semantic->unary(UnaryOpKind::USub, argument(DType::Int32));
  EXPECT_EQ(checks(), before + 1);
  callNamed("mul", {argument(DType::Int32), argument(DType::Int32)});
  EXPECT_EQ(checks(), before + 2);
}

} // namespace
} // namespace nereid::frontend::test
