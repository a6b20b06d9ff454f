// Matrix products.
#include "frontend/builtins/families.h"
#include "frontend/prelude.h"
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
  } else if (auto *acc = args["acc"].getIf<Tensor>(); acc && (!s.options.strict || s.since(308))) {
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

/// a b + acc, of operands whose shapes and types go together.
static FailureOr<Value> product(Semantic &s, const Tensor &a, const Tensor &b, const Tensor &acc,
                                tile::InputPrecision precision, int64_t imprecise, SourceSpan at) {
  auto x = asBatch(s, a, at), y = asBatch(s, b, at), c = asBatch(s, acc, at);
  if (failed(x) || failed(y) || failed(c))
    return failure();
  auto op = tile::DotOp::create(s.builder, s.loc(), c->ir.getType(), x->ir, y->ir, c->ir, precision,
                                uint32_t(imprecise));
  return result(s.reshape(Semantic::wrap(op, c->type), acc.type.shape, false, at));
}

/// The argument `acc` as a tensor of the result's type: zeros for None.
static FailureOr<Tensor> accumulator(Semantic &s, const BoundArgs &args, const Type &full) {
  if (args["acc"].isNone())
    return s.constant(0, full);
  auto *given = args["acc"].getIf<Tensor>();
  if (!given || given->type != full)
    return s.error(diag::DotAccumulator, args.span("acc"), full.str(),
                   given ? given->type.str() : args["acc"].kindName());
  return *given;
}

/// What Triton asks of the operands' sizes and of `max_num_imprecise_acc`.
static llvm::LogicalResult checkStrictDot(Semantic &s, const BoundArgs &args, const Tensor &a,
                                          const Tensor &b, int64_t imprecise) {
  if (!s.options.strict)
    return llvm::success();
  size_t rank = a.type.shape.size();
  int64_t inner = a.type.shape[rank - 1];
  int64_t bits = info(a.type.scalar).bits;
  int64_t least = s.since(308) ? 256 / bits : bits == 8 ? 32 : 16;
  if (inner < least)
    return s.error(diag::DotSizes, args.call(), 1, 1, least, shapeText(a.type.shape),
                   shapeText(b.type.shape));
  if (isFloat8(a.type.scalar) && isFloat8(b.type.scalar) && imprecise > inner)
    return s.error(diag::DotImprecise, args.span("max_num_imprecise_acc"), imprecise, inner);
  return llvm::success();
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
  if (failed(s.checkShape(shape, args.call())) ||
      failed(checkStrictDot(s, args, *a, *b, imprecise)))
    return failure();
  if (isSoftwareFloat8(a->type.scalar) || isSoftwareFloat8(b->type.scalar)) { // exact in fp16
    a = s.cast(*a, DType::Float16, args.span("input"));
    b = s.cast(*b, DType::Float16, args.span("other"));
    if (failed(a) || failed(b))
      return failure();
  }
  auto acc = accumulator(s, args, Type::of(*type, shape));
  if (failed(acc))
    return failure();
  return product(s, *a, *b, *acc, *precision, imprecise, args.call());
}

//===--- scaled products
//-----------------------------------------------------------------------------===//

namespace {
/// One operand of `dot_scaled`.
struct ScaledOperand {
  const char *name; ///< "lhs"
  Tensor value;
  std::string format;
  std::optional<Tensor> scale;
  bool alongK = true; ///< pairs of numbers of 4 bits follow each other along K
  Shape shape;        ///< of the numbers
};
} // namespace

static FailureOr<ScaledOperand> scaledOperand(Semantic &s, const BoundArgs &args,
                                              const char *name) {
  ScaledOperand operand{name, {}, {}, {}, true, {}};
  std::string prefix = name, format = prefix + "_format", scale = prefix + "_scale",
              pack = prefix + "_k_pack";
  auto value = tensorArg(s, args, name);
  auto kind = s.knownString(args[format], "`" + format + "`", args.span(format));
  auto alongK = s.knownBool(args[pack], "`" + pack + "`", args.span(pack));
  if (failed(value) || failed(kind) || failed(alongK))
    return failure();
  operand.value = *value;
  operand.format = *kind;
  operand.alongK = *alongK;

  struct Format {
    const char *name;
    DType type;
    bool orBytes;
  };
  static constexpr Format formats[] = {{"e2m1", DType::UInt8, true},
                                       {"e4m3", DType::Float8E4NV, true},
                                       {"e5m2", DType::Float8E5, true},
                                       {"bf16", DType::BFloat16, false},
                                       {"fp16", DType::Float16, false}};
  auto *found = llvm::find_if(formats, [&](const Format &f) { return operand.format == f.name; });
  if (found == std::end(formats))
    return s.error(diag::ScaledFormat, args.span(format), operand.format);
  DType type = value->type.scalar;
  if (value->type.isPointer ||
      (type != found->type && !(found->orBytes && (type == DType::UInt8 || type == DType::Int8))))
    return s.error(diag::ScaledDtype, args.span(name), operand.format, value->type.element().str());
  bool pairs = operand.format == "e2m1";
  if (!pairs && !operand.alongK)
    return s.error(diag::ScaledPack, args.span(pack));
  operand.shape = value->type.shape;
  size_t rank = operand.shape.size();
  if (pairs && rank >= 2)
    operand.shape[(name[0] == 'l') == operand.alongK ? rank - 1 : rank - 2] *= 2;

  if (args[scale].isNone())
    return operand;
  auto factors = tensorArg(s, args, scale);
  if (failed(factors))
    return failure();
  DType factor = factors->type.scalar;
  if (factors->type.isPointer ||
      (factor != DType::UInt8 && factor != DType::Int8 && factor != DType::Float8E4NV))
    return s.error(diag::ScaledScaleDtype, args.span(scale), scale, factors->type.element().str());
  operand.scale = *factors;
  return operand;
}

/// Scales stand for 32 numbers along K, scales of type e4m3 for 16: [.., M or N, K / group].
static llvm::LogicalResult checkScale(Semantic &s, const BoundArgs &args,
                                      const ScaledOperand &operand) {
  if (!operand.scale)
    return llvm::success();
  bool isLhs = operand.name[0] == 'l';
  size_t rank = operand.shape.size();
  int64_t group = operand.scale->type.scalar == DType::Float8E4NV ? 16 : 32;
  Shape wanted = operand.shape;
  wanted[rank - 2] = operand.shape[isLhs ? rank - 2 : rank - 1];
  wanted[rank - 1] = operand.shape[isLhs ? rank - 1 : rank - 2] / group;
  if (operand.scale->type.shape == wanted && wanted[rank - 1] > 0 &&
      operand.shape[isLhs ? rank - 1 : rank - 2] % group == 0)
    return llvm::success();
  std::string name = std::string(operand.name) + "_scale";
  return s.error(diag::ScaledScaleShape, args.span(name), name, shapeText(wanted),
                 shapeText(operand.scale->type.shape));
}

static FailureOr<Value> dotScaled(Semantic &s, const BoundArgs &args) {
  auto lhs = scaledOperand(s, args, "lhs"), rhs = scaledOperand(s, args, "rhs");
  auto fast = s.knownBool(args["fast_math"], "`fast_math`", args.span("fast_math"));
  auto out = s.knownType(args["out_dtype"], "`out_dtype`", args.span("out_dtype"));
  if (failed(lhs) || failed(rhs) || failed(fast) || failed(out))
    return failure();
  size_t rank = lhs->shape.size();
  if (rank < 2 || rank != rhs->shape.size() || (s.options.strict && rank > 3))
    return s.error(diag::ScaledRank, args.call(), shapeText(lhs->value.type.shape),
                   shapeText(rhs->value.type.shape));
  if (lhs->shape[rank - 1] != rhs->shape[rank - 2])
    return s.error(diag::ScaledInner, args.call(), shapeText(lhs->value.type.shape),
                   shapeText(rhs->value.type.shape), lhs->shape[rank - 1], rhs->shape[rank - 2]);
  if (llvm::ArrayRef<int64_t>(lhs->shape).drop_back(2) !=
      llvm::ArrayRef<int64_t>(rhs->shape).drop_back(2))
    return s.error(diag::DotBatch, args.call(), shapeText(lhs->shape), shapeText(rhs->shape));
  if (failed(checkScale(s, args, *lhs)) || failed(checkScale(s, args, *rhs)))
    return failure();
  if (out->scalar != DType::Float32)
    return s.error(diag::ScaledOut, args.span("out_dtype"));
  Shape shape = lhs->shape;
  shape[rank - 1] = rhs->shape[rank - 1];
  if (failed(s.checkShape(shape, args.call())))
    return failure();
  auto acc = accumulator(s, args, Type::of(DType::Float32, shape));
  if (failed(acc))
    return failure();

  // Both as numbers of a type that has them all.
  bool halves = lhs->format == "fp16" || rhs->format == "fp16";
  auto numbers = [&](const ScaledOperand &operand) -> FailureOr<Tensor> {
    bool isLhs = operand.name[0] == 'l';
    std::vector<Value> arguments{
        Value(operand.value),
        operand.scale ? Value(*operand.scale) : Value(),
        Value(operand.format),
        Value(TypeValue{Type::of(halves ? DType::Float16 : DType::BFloat16)}),
        Value::integer(isLhs == operand.alongK ? -1 : -2),
        Value(isLhs),
        Value(*fast)};
    auto made = s.evaluator.call(*lookupInPrelude("_scaled"), arguments, {}, args.call());
    if (failed(made))
      return failure();
    return made->get<Tensor>();
  };
  auto a = numbers(*lhs), b = numbers(*rhs);
  if (failed(a) || failed(b))
    return failure();
  return product(s, *a, *b, *acc, tile::InputPrecision::TF32, 0, args.call());
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
      {.name = "dot_scaled",
       .signature = "(lhs, lhs_scale, lhs_format, rhs, rhs_scale, rhs_format, acc=None, "
                    "fast_math=False, lhs_k_pack=True, rhs_k_pack=True, out_dtype=float32)",
       .doc = R"(The matrix product of two blocks in microscaling formats, plus an accumulator.

Where no matrix unit takes the formats, they are converted exactly to bf16 (to fp16 where an operand is fp16), scaled, and
multiplied as these are.

:param lhs: a block of shape `[..., M, K]`. Numbers of 4 bits are packed in pairs, the lower bits first: `[..., M, K // 2]`.
:param lhs_scale: a block of shape `[..., M, K // 32]` of uint8, exponents of 2 with bias 127 (255: NaN); or of
 shape `[..., M, K // 16]` of float8e4nv; or None.
:param lhs_format: `"e2m1"`, `"e4m3"`, `"e5m2"`, `"bf16"` or `"fp16"`. Numbers of 8 bits may also be given as uint8.
:param rhs: a block of shape `[..., K, N]`.
:param rhs_scale: as `lhs_scale`, of shape `[..., N, K // 32]`.
:param rhs_format: as `lhs_format`.
:param acc: a block of shape `[..., M, N]` of fp32, which is added.
:param fast_math: scales of 255 may be treated as any other.
:param lhs_k_pack: pairs lie along K; False: along M. For e2m1 only.
:param rhs_k_pack: pairs lie along K; False: along N. For e2m1 only.
:param out_dtype: fp32.
:returns: fp32.)",
       .build = &dotScaled,
       .category = "Linear algebra",
       .dtypes = "uint8 fp8e5 fp8e4nv fp16 bf16"},
  };
}

} // namespace nereid::frontend
