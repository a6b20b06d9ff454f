// Selection, minima and maxima, and operators under their function names.
#include "frontend/builtins/families.h"
#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace nereid::frontend {

namespace arith = mlir::arith;

template <BinaryOp op> static FailureOr<Value> operatorCall(Semantic &s, const BoundArgs &args) {
  auto sanitize =
      s.knownBool(args["sanitize_overflow"], "`sanitize_overflow`", args.span("sanitize_overflow"));
  if (failed(sanitize))
    return failure();
  return s.binary(op, args["x"], args["y"], args.span("x"), args.span("y"), *sanitize);
}

template <bool isAnd> static FailureOr<Value> logicalCall(Semantic &s, const BoundArgs &args) {
  return s.logical(isAnd, args["x"], args["y"], args.span("x"), args.span("y"));
}

static FailureOr<Value> where(Semantic &s, const BoundArgs &args) {
  return result(s.where(args["condition"], args["x"], args["y"], args.span("condition"),
                        args.span("x"), args.span("y")));
}

/// bf16 is compared as fp32, and stays fp32, before 3.9.
static FailureOr<Tensor> comparable(Semantic &s, const BoundArgs &args, llvm::StringRef name) {
  auto tensor = tensorArg(s, args, name);
  if (failed(tensor) || tensor->type.scalar != DType::BFloat16 || tensor->type.isPointer)
    return tensor;
  return s.cast(*tensor, DType::Float32);
}

static FailureOr<bool> propagatesNan(Semantic &s, const BoundArgs &args) {
  return s.knownBool(args["propagate_nan"], "`propagate_nan`", args.span("propagate_nan"));
}

template <typename Op> static Tensor apply(Semantic &s, const Tensor &a, const Tensor &b) {
  return Semantic::wrap(Op::create(s.builder, s.loc(), a.ir, b.ir), a.type);
}

static Tensor extremum(Semantic &s, bool isMax, bool nan, const Tensor &a, const Tensor &b) {
  DType type = a.type.scalar;
  if (isFloat8(type) || type == DType::BFloat16)
    return *s.cast(extremum(s, isMax, nan, *s.cast(a, DType::Float32), *s.cast(b, DType::Float32)),
                   type);
  if (isFloat(type)) {
    if (nan)
      return isMax ? apply<arith::MaximumFOp>(s, a, b) : apply<arith::MinimumFOp>(s, a, b);
    return isMax ? apply<arith::MaxNumFOp>(s, a, b) : apply<arith::MinNumFOp>(s, a, b);
  }
  if (isSignedInt(type))
    return isMax ? apply<arith::MaxSIOp>(s, a, b) : apply<arith::MinSIOp>(s, a, b);
  return isMax ? apply<arith::MaxUIOp>(s, a, b) : apply<arith::MinUIOp>(s, a, b);
}

template <bool isMax> static FailureOr<Value> extremumCall(Semantic &s, const BoundArgs &args) {
  auto nan = propagatesNan(s, args);
  Semantic::PromoteOptions how;
  how.operation = args.row().name;
  if (s.since(309)) {
    auto pair = s.promote(args["x"], args["y"], how, args.span("x"), args.span("y"));
    if (failed(nan) || failed(pair))
      return failure();
    return Value(extremum(s, isMax, *nan, pair->first, pair->second));
  }
  auto x = comparable(s, args, "x"), y = comparable(s, args, "y");
  if (failed(nan) || failed(x) || failed(y))
    return failure();
  auto pair = s.promote(Value(*x), Value(*y), how, args.span("x"), args.span("y"));
  if (failed(pair))
    return failure();
  return Value(extremum(s, isMax, *nan, pair->first, pair->second));
}

static FailureOr<Value> clamp(Semantic &s, const BoundArgs &args) {
  auto nan = propagatesNan(s, args);
  if (s.since(309)) {
    Semantic::PromoteOptions how;
    how.operation = "clamp";
    auto all = s.promoteThree({&args["x"], &args["min"], &args["max"]}, how,
                              {args.span("x"), args.span("min"), args.span("max")});
    if (failed(nan) || failed(all))
      return failure();
    Tensor raised = extremum(s, true, *nan, (*all)[0], (*all)[1]);
    return Value(extremum(s, false, *nan, raised, (*all)[2]));
  }
  auto x = comparable(s, args, "x"), low = comparable(s, args, "min"),
       high = comparable(s, args, "max");
  if (failed(nan) || failed(x) || failed(low) || failed(high))
    return failure();
  Semantic::PromoteOptions how;
  how.operation = "clamp";
  auto lower = s.promote(Value(*x), Value(*low), how, args.span("x"), args.span("min"));
  if (failed(lower))
    return failure();
  auto upper = s.promote(Value(lower->first), Value(*high), how, args.span("x"), args.span("max"));
  if (failed(upper))
    return failure();
  auto bound = s.promote(Value(lower->second), Value(upper->first), how);
  if (failed(bound))
    return failure();
  if (!isFloat(upper->first.type.scalar))
    return s.error(diag::ClampNotFloat, args.span("x"), upper->first.type.element().str());
  Tensor raised = extremum(s, true, *nan, upper->first, bound->first);
  return Value(extremum(s, false, *nan, raised, upper->second));
}

std::vector<Builtin> arithmeticBuiltins() {
  const char *propagate = R"(
:param propagate_nan: `tl.PropagateNan.NONE` (the operand that is not NaN) or `ALL` (NaN wins). bf16 gives fp32, since Triton 3.9 bf16.)";
  static const std::string maximumDoc =
      std::string(
          "The larger of two values, element by element, after promotion and broadcasting.\n") +
      propagate;
  static const std::string minimumDoc =
      std::string(
          "The smaller of two values, element by element, after promotion and broadcasting.\n") +
      propagate;
  static const std::string clampDoc =
      std::string(
          "`x` limited to `[min, max]`; undefined where `min > max`. Floats, since Triton 3.9 "
          "integers, too.\n") +
      propagate;
  return {
      {.name = "add",
       .signature = "(x, y, sanitize_overflow=True)",
       .doc = R"(`x + y`, with the operator's rules of promotion.

:param sanitize_overflow: with `debug`, assert that integers narrower than 64 bits do not overflow.)",
       .build = &operatorCall<BinaryOp::Add>,
       .category = "Arithmetic",
       .dtypes = "all"},
      {.name = "sub",
       .signature = "(x, y, sanitize_overflow=True)",
       .doc = R"(`x - y`, with the operator's rules of promotion.

:param sanitize_overflow: with `debug`, assert that integers narrower than 64 bits do not overflow.)",
       .build = &operatorCall<BinaryOp::Sub>,
       .category = "Arithmetic",
       .dtypes = "all"},
      {.name = "mul",
       .signature = "(x, y, sanitize_overflow=True)",
       .doc = R"(`x * y`, with the operator's rules of promotion.

:param sanitize_overflow: with `debug`, assert that integers narrower than 64 bits do not overflow.)",
       .build = &operatorCall<BinaryOp::Mult>,
       .category = "Arithmetic",
       .dtypes = "all"},
      {.name = "logical_and",
       .signature = "(x, y)",
       .doc = R"(Whether both are true (`!= 0`), element by element.)",
       .build = &logicalCall<true>,
       .isMethod = true,
       .category = "Member functions",
       .dtypes = "int1"},
      {.name = "logical_or",
       .signature = "(x, y)",
       .doc = R"(Whether either is true (`!= 0`), element by element.)",
       .build = &logicalCall<false>,
       .isMethod = true,
       .category = "Member functions",
       .dtypes = "int1"},
      {.name = "where",
       .signature = "(condition, x, y)",
       .doc =
           R"(Elements of `x` where the condition is true, of `y` elsewhere. All three are broadcast to one shape; `x` and `y`
are promoted as operands of `+`, and may be pointers of one type. Both are evaluated: to keep memory
from being touched, use the mask of `load` or `store`.

:param condition: int1; other types warn and mean `!= 0`.)",
       .build = &where,
       .category = "Selection",
       .dtypes = "all"},
      {.name = "maximum",
       .signature = "(x, y, propagate_nan=PropagateNan.NONE)",
       .doc = maximumDoc.c_str(),
       .build = &extremumCall<true>,
       .category = "Math",
       .dtypes = "all"},
      {.name = "minimum",
       .signature = "(x, y, propagate_nan=PropagateNan.NONE)",
       .doc = minimumDoc.c_str(),
       .build = &extremumCall<false>,
       .category = "Math",
       .dtypes = "all"},
      {.name = "clamp",
       .signature = "(x, min, max, propagate_nan=PropagateNan.NONE)",
       .doc = clampDoc.c_str(),
       .build = &clamp,
       .category = "Math",
       .dtypes = "floats"},
  };
}

} // namespace nereid::frontend
