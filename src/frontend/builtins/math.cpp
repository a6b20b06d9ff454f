// Elementwise mathematics. A function of one fp32 or fp64 argument is one row: its operation is
// found by name.
#include "frontend/builtins/families.h"
#include "frontend/frontend.h"
#include "ir/tile/Dialect.h"
#include "ir/tile/InlineAsm.h"

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

/// The quotient of the hardware's approximation, which does not serve the whole range. Targets
/// without one divide.
static Tensor divideRoughly(Semantic &s, const Tensor &x, const Tensor &y) {
  if (!s.options.targetName.starts_with("cuda"))
    return s.emitBinary(BinaryOp::Div, x, y);
  auto op = tile::InlineAsmOp::create(s.builder, s.loc(), mlir::TypeRange(x.ir.getType()),
                                      "div.approx.f32 $0, $1, $2;", "=f,f,f", tile::ptxAssembly,
                                      mlir::ValueRange({x.ir, y.ir}), /*pack=*/1, /*pure=*/true);
  return Semantic::wrap(op.getResult().front(), x.type);
}

static FailureOr<Value> fdiv(Semantic &s, const BoundArgs &args) {
  Semantic::PromoteOptions how;
  how.operation = "fdiv";
  how.isDivOrMod = s.since(309);
  auto exact = s.knownBool(args["ieee_rounding"], "`ieee_rounding`", args.span("ieee_rounding"));
  auto rough = s.knownBool(args["approx"], "`approx`", args.span("approx"));
  auto isIntegral = [](const Value &value) {
    auto *tensor = value.getIf<Tensor>();
    return tensor ? isInt(tensor->type.scalar) : value.is<llvm::APSInt>() || value.is<bool>();
  };
  if (s.options.strict && !s.since(309))
    for (const char *name : {"x", "y"})
      if (isIntegral(args[name]))
        return s.error(diag::FdivNotFloat, args.span(name), args[name].kindName());
  auto pair = s.promote(args["x"], args["y"], how, args.span("x"), args.span("y"));
  if (failed(exact) || failed(rough) || failed(pair))
    return failure();
  if (*exact && *rough)
    return s.error(diag::ExpectedArgumentKind, args.span("approx"), "`approx`",
                   "False beside `ieee_rounding=True`", "True");
  if (!isFloat(pair->first.type.scalar))
    return s.error(diag::FdivNotFloat, args.call(), pair->first.type.element().str());
  if (*rough && pair->first.type.scalar != DType::Float32)
    return s.error(diag::ExpectedArgumentKind, args.call(), "`fdiv` with `approx=True`",
                   "fp32 operands", pair->first.type.element().str());
  if (*rough)
    return Value(divideRoughly(s, pair->first, pair->second));
  if (*exact && info(pair->first.type.scalar).bits >= 32)
    return Value(createNamed(s, "tile.div_rn", {pair->first, pair->second}));
  return Value(s.emitBinary(BinaryOp::Div, pair->first, pair->second));
}

/// Of three operands of one type and shape.
static FailureOr<Value> multiplyAdd(Semantic &s, const BoundArgs &args, const Tensor &x,
                                    const Tensor &y, const Tensor &z) {
  if (!isFloat(x.type.scalar)) // exact on integers
    return Value(s.emitBinary(BinaryOp::Add, s.emitBinary(BinaryOp::Mult, x, y), z));
  if (isFloat8(x.type.scalar))
    return s.error(diag::UnexpectedTypes, args.call(), x.type.element().str(),
                   z.type.element().str());
  return Value(createNamed(s, "math.fma", {x, y, z}));
}

static FailureOr<Value> fma(Semantic &s, const BoundArgs &args) {
  Semantic::PromoteOptions how;
  how.operation = "fma";
  if (s.since(309)) {
    auto all = s.promoteThree({&args["x"], &args["y"], &args["z"]}, how,
                              {args.span("x"), args.span("y"), args.span("z")});
    if (failed(all))
      return failure();
    return multiplyAdd(s, args, (*all)[0], (*all)[1], (*all)[2]);
  }
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
  return multiplyAdd(s, args, xz->first, yz->first, yz->second);
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
       .signature = "(x, y, ieee_rounding=False, approx=False)",
       .doc = R"(`x / y` of floats, element by element. Since Triton 3.9 16-bit floats give fp32.

:param ieee_rounding: round correctly; otherwise a target may approximate within 2 ulp.
:param approx: of fp32: take the hardware's fastest division, within 2 ulp for denominators of a magnitude between 2^-126 and 2^126 and
 without a bound for others. CPUs divide as without it.)",
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
