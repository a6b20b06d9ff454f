// Elementwise mathematics. A function of one fp32 or fp64 argument is one row: its operation is
// found by name.
#include "frontend/builtins/families.h"
#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace nereid::frontend {

namespace arith = mlir::arith;

/// Checks the element type against the row's `dtypes`, a list separated by blanks.
static llvm::LogicalResult checkDtype(Semantic &s, const BoundArgs &args, const Type &type,
                                      SourceSpan at) {
  llvm::SmallVector<llvm::StringRef> names;
  llvm::StringRef(args.row().dtypes).split(names, ' ');
  std::string found = type.element().str();
  if (llvm::is_contained(names, found))
    return llvm::success();
  std::string wanted, listed; // "fp32 or fp64", and Triton's "['fp32', 'fp64']"
  for (llvm::StringRef name : names) {
    bool isLast = name == names.back();
    wanted += (wanted.empty() ? "" : isLast ? " or " : ", ") + name.str();
    listed += (listed.empty() ? "['" : ", '") + name.str() + "'";
  }
  return s.error(diag::ExpectedDtype, at, args.row().name, wanted, found, listed + "]");
}

/// An operation whose operands and result have one type, by its name.
static Tensor createNamed(Semantic &s, llvm::StringRef operation, llvm::ArrayRef<Tensor> operands) {
  llvm::SmallVector<mlir::Value, 3> values;
  for (const Tensor &operand : operands)
    values.push_back(operand.ir);
  mlir::OperationState state(s.loc(), operation, values, {operands[0].ir.getType()});
  return Semantic::wrap(s.builder.create(state)->getResult(0), operands[0].type);
}

static FailureOr<Value> unaryMath(Semantic &s, const BoundArgs &args) {
  auto x = tensorArg(s, args, "x");
  if (failed(x) || failed(checkDtype(s, args, x->type, args.span("x"))))
    return failure();
  return Value(createNamed(s, args.row().row, {*x}));
}

static FailureOr<Value> binaryMath(Semantic &s, const BoundArgs &args) {
  Semantic::PromoteOptions how;
  how.operation = args.row().name;
  auto pair = s.promote(args["x"], args["y"], how, args.span("x"), args.span("y"));
  if (failed(pair) || failed(checkDtype(s, args, pair->first.type, args.span("x"))))
    return failure();
  return Value(createNamed(s, args.row().row, {pair->first, pair->second}));
}

static FailureOr<Value> fdiv(Semantic &s, const BoundArgs &args) {
  Semantic::PromoteOptions how;
  how.operation = "fdiv";
  auto exact = s.knownBool(args["ieee_rounding"], "`ieee_rounding`", args.span("ieee_rounding"));
  auto pair = s.promote(args["x"], args["y"], how, args.span("x"), args.span("y"));
  if (failed(exact) || failed(pair))
    return failure();
  if (!isFloat(pair->first.type.scalar))
    return s.error(diag::FdivNotFloat, args.call(), pair->first.type.element().str());
  if (*exact && info(pair->first.type.scalar).bits >= 32)
    return Value(createNamed(s, "tile.div_rn", {pair->first, pair->second}));
  return Value(s.emitBinary(BinaryOp::Div, pair->first, pair->second));
}

static FailureOr<Value> fma(Semantic &s, const BoundArgs &args) {
  Semantic::PromoteOptions how;
  how.operation = "fma";
  how.numbersAdapt = false;
  auto xy = s.promote(args["x"], args["y"], how, args.span("x"), args.span("y"));
  if (failed(xy))
    return failure();
  auto xz = s.promote(Value(xy->first), args["z"], how, args.span("x"), args.span("z"));
  if (failed(xz))
    return failure();
  auto yz = s.promote(Value(xy->second), Value(xz->second), how);
  if (failed(yz))
    return failure();
  if (!isFloat(yz->first.type.scalar)) // exact on integers
    return Value(s.emitBinary(BinaryOp::Add, s.emitBinary(BinaryOp::Mult, xz->first, yz->first),
                              yz->second));
  if (isFloat8(yz->first.type.scalar))
    return s.error(diag::UnexpectedTypes, args.call(), yz->first.type.element().str(),
                   yz->second.type.element().str());
  return Value(createNamed(s, "math.fma", {xz->first, yz->first, yz->second}));
}

static FailureOr<Value> absolute(Semantic &s, const BoundArgs &args) {
  auto x = tensorArg(s, args, "x");
  if (failed(x))
    return failure();
  DType type = x->type.scalar;
  if (x->type.isPointer)
    return s.error(diag::WrongUnaryOperand, args.span("x"), "abs", x->type.element().str());
  if (isFloat8(type)) { // clear the sign
    Tensor bits = *s.cast(*x, Type::of(DType::UInt8), {.bitcast = true});
    bits = s.emitBinary(BinaryOp::BitAnd, bits, s.constant(0x7f, bits.type));
    return result(s.cast(bits, Type::of(type), {.bitcast = true}));
  }
  if (isFloat(type))
    return Value(createNamed(s, "math.absf", {*x}));
  if (isSignedInt(type)) {
    Tensor zero = s.constant(0, x->type);
    Tensor negative = s.emitBinary(BinaryOp::Sub, zero, *x);
    Tensor isNegative = s.emitCompare(CompareOp::Lt, *x, zero);
    return Value(Semantic::wrap(
        arith::SelectOp::create(s.builder, s.loc(), isNegative.ir, negative.ir, x->ir), x->type));
  }
  return Value(Semantic::wrap(x->ir, x->type));
}

std::vector<Builtin> mathBuiltins() {
  constexpr const char *floats = "fp32 fp64", *single = "fp32", *wide = "int32 int64 uint32 uint64";
#define UNARY(Name, Operation, Dtypes, Doc)                                                        \
  {                                                                                                \
    .name = Name, .signature = "(x)", .doc = Doc, .build = &unaryMath, .isMethod = true,           \
    .category = "Math", .aliases = {"math." Name}, .row = Operation, .dtypes = Dtypes              \
  }
  return {
      UNARY("exp", "math.exp", floats, "The exponential of x, element by element. fp32 or fp64."),
      UNARY("exp2", "math.exp2", floats,
            "Two to the power of x, element by element. fp32 or fp64."),
      UNARY("log", "math.log", floats,
            "The natural logarithm of x, element by element. fp32 or fp64."),
      UNARY("log2", "math.log2", floats,
            "The logarithm to base 2 of x, element by element. fp32 or fp64."),
      UNARY("cos", "math.cos", floats, "The cosine of x, element by element. fp32 or fp64."),
      UNARY("sin", "math.sin", floats, "The sine of x, element by element. fp32 or fp64."),
      UNARY("sqrt", "math.sqrt", floats,
            "The square root of x, element by element; a target may approximate it. fp32 or fp64."),
      UNARY("sqrt_rn", "tile.sqrt_rn", single,
            "The correctly rounded square root of x, element by element. fp32."),
      UNARY("rsqrt", "math.rsqrt", floats,
            "The reciprocal of the square root of x, element by element. fp32 or fp64."),
      UNARY("erf", "math.erf", floats,
            "The error function of x, element by element. fp32 or fp64."),
      UNARY("floor", "math.floor", floats,
            "The largest integer not above x, element by element. fp32 or fp64."),
      UNARY("ceil", "math.ceil", floats,
            "The smallest integer not below x, element by element. fp32 or fp64."),
#undef UNARY
      {.name = "abs",
       .signature = "(x)",
       .doc =
           R"(The absolute value, element by element, of any type; the smallest signed integer stays what it is.)",
       .build = &absolute,
       .isMethod = true,
       .category = "Math",
       .aliases = {"math.abs"},
       .dtypes = "all"},
      {.name = "fma",
       .signature = "(x, y, z)",
       .doc = R"(`x * y + z` rounded once, element by element, after promotion and broadcasting.)",
       .build = &fma,
       .category = "Math",
       .aliases = {"math.fma"},
       .dtypes = "fp16 bf16 fp32 fp64"},
      {.name = "fdiv",
       .signature = "(x, y, ieee_rounding=False)",
       .doc = R"(`x / y` of floats, element by element.

:param ieee_rounding: round correctly; otherwise a target may approximate within 2 ulp.)",
       .build = &fdiv,
       .category = "Math",
       .aliases = {"math.fdiv"},
       .dtypes = "fp16 bf16 fp32 fp64"},
      {.name = "div_rn",
       .signature = "(x, y)",
       .doc = R"(`x / y` of fp32, correctly rounded.)",
       .build = &binaryMath,
       .category = "Math",
       .aliases = {"math.div_rn"},
       .row = "tile.div_rn",
       .dtypes = single},
      {.name = "umulhi",
       .signature = "(x, y)",
       .doc = R"(The upper half of the double-width unsigned product of 32- or 64-bit integers.)",
       .build = &binaryMath,
       .category = "Math",
       .aliases = {"math.umulhi"},
       .row = "tile.mulhi_u",
       .dtypes = wide},
  };
}

} // namespace nereid::frontend
