// Matrix products.
#include "frontend/builtins/families.h"
#include "ir/tile/Dialect.h"

namespace nereid::frontend {

/// A block as a batch of matrices: rank 2 as it is, more dimensions than 3 flattened into one
/// batch.
static FailureOr<Tensor> asBatch(Semantic &s, const Tensor &value, SourceSpan at) {
  const Shape &shape = value.type.shape;
  if (shape.size() <= 3)
    return value;
  int64_t batch = value.type.numElements() / (shape[shape.size() - 1] * shape[shape.size() - 2]);
  return s.reshape(value, {batch, shape[shape.size() - 2], shape[shape.size() - 1]}, false, at);
}

static FailureOr<tile::InputPrecision> precisionOf(Semantic &s, const BoundArgs &args) {
  const Value &given = args["input_precision"], &allow = args["allow_tf32"];
  if (!given.isNone() && !allow.isNone())
    return s.error(diag::DotPrecisionTwice, args.span("allow_tf32"));
  if (!allow.isNone()) {
    auto on = s.knownBool(allow, "`allow_tf32`", args.span("allow_tf32"));
    if (failed(on))
      return failure();
    return *on ? tile::InputPrecision::TF32 : tile::InputPrecision::IEEE;
  }
  static constexpr const char *names[] = {"tf32", "tf32x3", "ieee", "bf16x3", "bf16x6"};
  int fallback = 0;
  for (int i = 0; i < int(std::size(names)); ++i)
    if (s.options.defaultDotPrecision == names[i])
      fallback = i;
  auto index = choice(s, args, "input_precision", names, fallback);
  if (failed(index))
    return failure();
  return tile::InputPrecision(*index);
}

/// The type of the result; what it means for the operands is checked on the way.
static FailureOr<DType> resultType(Semantic &s, const BoundArgs &args, DType a, DType b) {
  bool bothFloat8 = isFloat8(a) && isFloat8(b);
  if (!bothFloat8 && a != b)
    return s.error(diag::DotDtypes, args.span("other"), info(a).shortName, info(b).shortName);
  if (isInt(a) && a != DType::Int8)
    return s.error(diag::DotOnlyInt8, args.span("input"), info(a).shortName);
  DType wanted = DType::Float32;
  bool isGiven = !args["out_dtype"].isNone();
  if (isGiven) {
    auto type = s.knownType(args["out_dtype"], "`out_dtype`", args.span("out_dtype"));
    if (failed(type))
      return failure();
    wanted = type->scalar;
    if (wanted == DType::BFloat16)
      return s.error(diag::DotOutBFloat16, args.span("out_dtype"));
  } else if (auto *acc = args["acc"].getIf<Tensor>()) {
    wanted = acc->type.scalar;
  }
  if (isInt(a))
    return DType::Int32;
  if (a == DType::Float64)
    return DType::Float64;
  if (a == DType::Float32 || a == DType::BFloat16)
    return DType::Float32;
  return wanted == DType::Float16 ? DType::Float16 : DType::Float32;
}

static FailureOr<Value> dot(Semantic &s, const BoundArgs &args) {
  auto a = tensorArg(s, args, "input"), b = tensorArg(s, args, "other");
  if (failed(a) || failed(b))
    return failure();
  size_t rank = a->type.shape.size();
  if (rank < 2 || rank != b->type.shape.size() || a->type.isPointer || b->type.isPointer)
    return s.error(diag::DotRank, args.call(), args["input"].kindName(), args["other"].kindName());
  Shape shapeA = a->type.shape, shapeB = b->type.shape;
  if (shapeA[rank - 1] != shapeB[rank - 2])
    return s.error(diag::DotInner, args.call(), shapeText(shapeA), shapeText(shapeB),
                   shapeA[rank - 1], shapeB[rank - 2]);
  if (llvm::ArrayRef<int64_t>(shapeA).drop_back(2) != llvm::ArrayRef<int64_t>(shapeB).drop_back(2))
    return s.error(diag::DotBatch, args.call(), shapeText(shapeA), shapeText(shapeB));
  auto type = resultType(s, args, a->type.scalar, b->type.scalar);
  auto precision = precisionOf(s, args);
  if (failed(type) || failed(precision))
    return failure();
  int64_t imprecise = 0;
  if (!args["max_num_imprecise_acc"].isNone()) {
    auto number = s.knownInt(args["max_num_imprecise_acc"], "`max_num_imprecise_acc`",
                             args.span("max_num_imprecise_acc"));
    if (failed(number))
      return failure();
    imprecise = *number;
  }

  Shape shape = shapeA;
  shape[rank - 1] = shapeB[rank - 1];
  if (failed(s.checkShape(shape, args.call())))
    return failure();
  Type full = Type::of(*type, shape);
  Tensor acc;
  if (auto *given = args["acc"].getIf<Tensor>()) {
    if (given->type != full)
      return s.error(diag::DotAccumulator, args.span("acc"), full.str(), given->type.str());
    acc = *given;
  } else if (args["acc"].isNone()) {
    acc = s.constant(0, full);
  } else {
    return s.error(diag::DotAccumulator, args.span("acc"), full.str(), args["acc"].kindName());
  }
  auto x = asBatch(s, *a, args.call()), y = asBatch(s, *b, args.call()),
       c = asBatch(s, acc, args.call());
  if (failed(x) || failed(y) || failed(c))
    return failure();
  auto op = tile::DotOp::create(s.builder, s.loc(), c->ir.getType(), x->ir, y->ir, c->ir,
                                *precision, uint32_t(imprecise));
  return result(s.reshape(Semantic::wrap(op, c->type), shape, false, args.call()));
}

std::vector<Builtin> dotBuiltins() {
  return {
      {.name = "dot",
       .signature = "(input, other, acc=None, input_precision=None, allow_tf32=None, "
                    "max_num_imprecise_acc=None, out_dtype=None)",
       .doc = R"(The matrix product of two blocks, plus an accumulator.

:param input: a block of shape `[..., M, K]`: fp16, bf16, fp32, fp64, an 8-bit float, or int8. Leading dimensions are batches.
:param other: a block of shape `[..., K, N]` of the same element type (any two 8-bit floats go together).
:param acc: a block of shape `[..., M, N]` and of the result's type, which is added.
:param input_precision: how fp32 operands are multiplied: `"tf32"` (the default), `"tf32x3"`, `"ieee"`, `"bf16x3"`
 or `"bf16x6"`.
:param allow_tf32: False means `"ieee"`; older form of `input_precision`.
:param max_num_imprecise_acc: for 8-bit floats, how many products may be summed imprecisely.
:param out_dtype: fp32 (the default) or fp16 for 8- and 16-bit floats; without it the type of `acc`.
:returns: fp32 or fp16 for floats, fp64 for fp64, int32 for int8.)",
       .build = &dot,
       .category = "Linear algebra",
       .dtypes = "fp8e5 fp8e4nv fp16 bf16 fp32 fp64 int8"},
  };
}

} // namespace nereid::frontend
