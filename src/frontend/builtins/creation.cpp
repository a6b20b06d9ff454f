// Blocks from nothing, and conversions.
#include "frontend/builtins/families.h"
#include "ir/tile/Dialect.h"

namespace nereid::frontend {

static FailureOr<Value> arange(Semantic &s, const BoundArgs &args) {
  auto start = s.knownInt(args["start"], "`start` of `arange`", args.span("start"));
  if (failed(start))
    return failure();
  auto end = s.knownInt(args["end"], "`end` of `arange`", args.span("end"));
  if (failed(end))
    return failure();
  if (*end <= *start)
    return s.error(diag::EmptyRange, args.span("end"), *start, *end);
  if (*start < INT32_MIN || *end - 1 > INT32_MAX)
    return s.error(diag::RangeTooLarge, args.call(), *start, *end);
  int64_t length = *end - *start;
  if (s.options.strict && !llvm::isPowerOf2_64(uint64_t(length)))
    return s.error(diag::RangeNotPowerOfTwo, args.call(), length);
  if (failed(s.checkShape({length}, args.call())))
    return failure();
  Type type = Type::of(DType::Int32, {length});
  mlir::Type ir = type.toIR(*s.builder.getContext());
  return Value(
      Semantic::wrap(tile::RangeOp::create(s.builder, s.loc(), ir, uint32_t(int32_t(*start)),
                                           uint32_t(int32_t(*end))),
                     type));
}

static FailureOr<Value> filled(Semantic &s, const BoundArgs &args, const Value &value,
                               SourceSpan at) {
  auto shape = s.knownShape(args["shape"], args.span("shape"));
  if (failed(shape))
    return failure();
  auto *tensor = value.getIf<Tensor>();
  const Value &dtype = args["dtype"];
  if (!tensor) {
    if (dtype.isNone())
      return s.error(diag::FullNeedsDtype, args.call());
    auto type = s.knownType(dtype, "`dtype`", args.span("dtype"));
    if (failed(type) || failed(s.literalType(value, at)))
      return failure();
    if (type->isPointer || type->scalar == DType::Void)
      return s.error(diag::CannotCast, at, value.kindName(), type->str(),
                     "a number is not a pointer");
    if (failed(s.checkConvertible(type->scalar, args.span("dtype"))))
      return failure();
    return Value(s.constant(value, type->withShape(*shape)));
  }
  Tensor scalar = Semantic::wrap(tensor->ir, tensor->type);
  if (scalar.type.numElements() != 1)
    return s.error(diag::FullNeedsScalar, at, value.kindName());
  if (scalar.type.isBlock())
    scalar = *s.reshape(scalar, {}, false, at);
  if (!dtype.isNone()) {
    auto type = s.knownType(dtype, "`dtype`", args.span("dtype"));
    auto converted =
        failed(type) ? FailureOr<Tensor>(failure()) : s.cast(scalar, type->element(), {}, at);
    if (failed(converted))
      return failure();
    scalar = *converted;
  }
  return result(s.broadcastTo(scalar, *shape, args.span("shape")));
}

static FailureOr<Value> full(Semantic &s, const BoundArgs &args) {
  return filled(s, args, args["value"], args.span("value"));
}

static FailureOr<Value> zeros(Semantic &s, const BoundArgs &args) {
  return filled(s, args, Value::integer(0), args.call());
}

static FailureOr<Value> castTo(Semantic &s, const BoundArgs &args) {
  auto input = tensorArg(s, args, "input");
  if (failed(input))
    return failure();
  auto type = s.knownType(args["dtype"], "`dtype`", args.span("dtype"));
  auto rounding = choice(s, args, "fp_downcast_rounding", {"rtne", "rtz"}, -1);
  auto bitcast = s.knownBool(args["bitcast"], "`bitcast`", args.span("bitcast"));
  if (failed(type) || failed(rounding) || failed(bitcast))
    return failure();
  CastOptions how;
  how.bitcast = *bitcast;
  how.rounding = *rounding < 0    ? CastOptions::Rounding::Default
                 : *rounding == 0 ? CastOptions::Rounding::ToNearest
                                  : CastOptions::Rounding::TowardsZero;
  return result(s.cast(*input, type->element(), how, args.call()));
}

static FailureOr<Value> toTensor(Semantic &s, const BoundArgs &args) {
  return result(tensorArg(s, args, "x"));
}

std::vector<Builtin> creationBuiltins() {
  const char *castDoc = R"(Converts the elements to another type.

Integers are truncated or extended by their own sign; float to integer truncates; anything to `int1` is `!= 0`; float
to a narrower float rounds to nearest, ties to even; to an 8-bit float saturates at the largest finite value.
64-bit integers and pointers convert into one another.

:param dtype: the type of the result's elements.
:param fp_downcast_rounding: `"rtne"` or `"rtz"`, only for float to a narrower float.
:param bitcast: keep the bits instead of the value; both types have the same width.)";
  return {
      {.name = "arange",
       .signature = "(start, end)",
       .doc =
           R"(The integers `start`, `start + 1`, ... `end - 1` as an int32 block of shape `[end - start]`.

:param start: an integer known during compilation, of any sign.
:param end: an integer known during compilation, greater than `start`.)",
       .build = &arange,
       .category = "Creation"},
      {.name = "full",
       .signature = "(shape, value, dtype)",
       .doc = R"(A block whose every element is `value`; a scalar for the empty shape.

:param shape: a tuple of positive integers known during compilation.
:param value: a number, or a run-time scalar (or a block of one element).
:param dtype: the type of the elements; None keeps the type of a run-time value.)",
       .build = &full,
       .category = "Creation",
       .dtypes = "all"},
      {.name = "zeros",
       .signature = "(shape, dtype)",
       .doc = R"(A block of zeros.

:param shape: a tuple of positive integers known during compilation.
:param dtype: the type of the elements.)",
       .build = &zeros,
       .category = "Creation",
       .dtypes = "all"},
      {.name = "cast",
       .signature = "(input, dtype, fp_downcast_rounding=None, bitcast=False)",
       .doc = castDoc,
       .build = &castTo,
       .isMethod = true,
       .category = "Creation",
       .dtypes = "all"},
      {.name = "to",
       .signature = "(input, dtype, fp_downcast_rounding=None, bitcast=False)",
       .doc = castDoc,
       .build = &castTo,
       .isMethod = true,
       .category = "Member functions",
       .dtypes = "all"},
      {.name = "to_tensor",
       .signature = "(x)",
       .doc =
           R"(A number as a run-time scalar: integers become int32 (or uint32, int64, uint64 where they need it), floats
fp32 (or fp64 outside of its range), bools int1. A tensor is returned as it is.)",
       .build = &toTensor,
       .category = "Creation"},
  };
}

} // namespace nereid::frontend
