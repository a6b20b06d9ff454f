// What the author promises to the compiler.
#include "frontend/builtins/families.h"
#include "ir/tile/WithTangent.h"

namespace nereid::frontend {

enum class Hint { Divisibility, Contiguity, Constancy };

template <Hint hint> static FailureOr<Value> addHint(Semantic &s, const BoundArgs &args) {
  auto input = tensorArg(s, args, "input");
  if (failed(input))
    return failure();
  std::vector<Value> items{args["values"]};
  if (auto *tuple = args["values"].getIf<Tuple>())
    items = tuple->items;
  llvm::SmallVector<int64_t, 4> numbers;
  for (const Value &item : items) {
    auto number = s.knownInt(item, "`values`", args.span("values"));
    if (failed(number))
      return failure();
    if (*number < 1)
      return s.error(diag::HintNotPositive, args.span("values"), args.row().name, *number);
    numbers.push_back(*number);
  }
  size_t expected = std::max<size_t>(1, input->type.shape.size());
  if (numbers.size() != expected)
    return s.error(diag::HintCount, args.span("values"), args.row().name, int64_t(expected),
                   int64_t(numbers.size()));
  if (!input->type.isPointer && !isInt(input->type.scalar))
    return Value(*input); // nothing is derived from floats
  mlir::DenseI64ArrayAttr values = s.builder.getDenseI64ArrayAttr(numbers), none;
  mlir::Value hinted = tile::HintOp::create(s.builder, s.loc(), input->ir.getType(), input->ir,
                                            hint == Hint::Divisibility ? values : none,
                                            hint == Hint::Contiguity ? values : none,
                                            hint == Hint::Constancy ? values : none);
  return Value(Semantic::wrap(hinted, input->type));
}

static FailureOr<Value> assume(Semantic &s, const BoundArgs &args) {
  if (!args["cond"].isTensor()) {
    auto known = s.knownTruth(args["cond"], args.span("cond"));
    if (failed(known))
      return failure();
    if (known->value_or(true))
      return Value();
  }
  auto condition = s.condition(args["cond"], args.span("cond"));
  if (failed(condition))
    return failure();
  tile::AssumeOp::create(s.builder, s.loc(), condition->ir);
  return Value();
}

/// The input, with the tangent of the source; of tuples, item by item.
static FailureOr<Value> withTangentOf(Semantic &s, const BoundArgs &args, const Value &input,
                                      const Value &source, SourceSpan sourceSpan) {
  auto *inputs = input.getIf<Tuple>(), *sources = source.getIf<Tuple>();
  if (inputs && sources && inputs->items.size() == sources->items.size()) {
    std::vector<Value> items;
    for (size_t i = 0; i < inputs->items.size(); ++i) {
      auto item = withTangentOf(s, args, inputs->items[i], sources->items[i], sourceSpan);
      if (failed(item))
        return failure();
      items.push_back(*item);
    }
    return Value(Tuple{std::move(items), inputs->fields, inputs->hostClass});
  }
  auto value = s.toTensor(input, args.span("input"));
  if (failed(value))
    return failure();
  auto from = s.toTensor(source, sourceSpan);
  if (failed(from))
    return failure();
  for (auto [tensor, at] : {std::pair(&*value, args.span("input")), std::pair(&*from, sourceSpan)})
    if (tensor->type.isPointer || !isFloat(tensor->type.scalar))
      return s.error(diag::ExpectedDtype, at, args.row().name, "floats",
                     tensor->type.element().str(), "floats");
  from = s.cast(*from, value->type.scalar, sourceSpan);
  if (failed(from))
    return failure();
  from = s.broadcastTo(*from, value->type.shape, sourceSpan);
  if (failed(from))
    return failure();
  auto op = tile::ExternOp::create(s.builder, s.loc(), value->ir.getType(),
                                   mlir::ValueRange{value->ir, from->ir}, tile::tangentSymbol,
                                   tile::tangentLibrary, /*pure=*/true, /*path=*/nullptr);
  return Value(Semantic::wrap(op.getResult(), value->type));
}

static FailureOr<Value> withTangent(Semantic &s, const BoundArgs &args) {
  return withTangentOf(s, args, args["input"], args["source"], args.span("source"));
}

static FailureOr<Value> detach(Semantic &s, const BoundArgs &args) {
  auto *tensor = args["input"].getIf<Tensor>();
  if (!tensor || tensor->type.isPointer || !isFloat(tensor->type.scalar))
    return args["input"]; // which has no tangent
  return withTangentOf(s, args, args["input"],
                       Value(s.constant(int64_t(0), tensor->type.element())), args.span("input"));
}

/// A call of one of the functions of WithTangent.h.
static Value marked(Semantic &s, const Tensor &input, mlir::ValueRange operands,
                    llvm::StringRef symbol) {
  auto op = tile::ExternOp::create(s.builder, s.loc(), input.ir.getType(), operands, symbol,
                                   tile::tangentLibrary, /*pure=*/true, /*path=*/nullptr);
  return Value(Semantic::wrap(op.getResult(), input.type));
}

static FailureOr<Value> recompute(Semantic &s, const BoundArgs &args) {
  auto *tensor = args["input"].getIf<Tensor>();
  return tensor ? marked(s, *tensor, tensor->ir, tile::recomputedSymbol) : args["input"];
}

static FailureOr<Value> atMost(Semantic &s, const BoundArgs &args) {
  if (!args["condition"].isTensor())
    return args["condition"]; // known, so there is no loop, or it is endless
  auto condition = s.condition(args["condition"], args.span("condition"));
  if (failed(condition))
    return failure();
  auto count = s.toTensor(args["count"], args.span("count"));
  if (failed(count))
    return failure();
  if (count->type.isPointer || count->type.isBlock() || !isInt(count->type.scalar))
    return s.error(diag::ExpectedDtype, args.span("count"), args.row().name, "an integer",
                   count->type.str(), "integers");
  count = s.cast(*count, DType::Int32, args.span("count"));
  if (failed(count))
    return failure();
  return marked(s, *condition, {condition->ir, count->ir}, tile::boundSymbol);
}

static FailureOr<Value> identity(Semantic &, const BoundArgs &args) {
  return args[0];
}

std::vector<Builtin> hintsBuiltins() {
  return {
      {.name = "multiple_of",
       .signature = "(input, values)",
       .doc = R"(The input, every element of which is promised to be a multiple.

:param values: one known positive integer per dimension (one for a scalar).)",
       .build = &addHint<Hint::Divisibility>,
       .category = "Hints",
       .dtypes = "ints"},
      {.name = "max_contiguous",
       .signature = "(input, values)",
       .doc =
           R"(The input, whose elements are promised to be consecutive in groups of this many along each dimension.

:param values: one known positive integer per dimension (one for a scalar).)",
       .build = &addHint<Hint::Contiguity>,
       .category = "Hints",
       .dtypes = "ints"},
      {.name = "max_constancy",
       .signature = "(input, values)",
       .doc =
           R"(The input, whose elements are promised to be equal in groups of this many along each dimension.

:param values: one known positive integer per dimension (one for a scalar).)",
       .build = &addHint<Hint::Constancy>,
       .category = "Hints",
       .dtypes = "ints"},
      {.name = "assume",
       .signature = "(cond)",
       .doc =
           R"(Promises that a scalar condition holds; the program is undefined where it does not.)",
       .build = &assume,
       .category = "Hints"},
      {.name = "condition",
       .signature = "(arg1, disable_licm=False)",
       .doc = R"(The condition of a `while`, with hints for its loop.)",
       .build = &identity,
       .category = "Hints"},
      {.name = "detach",
       .signature = "(input)",
       .doc = R"(The input, which derivatives take as constant (`nereid.jvp`, `nereid.grad`).)",
       .build = &detach,
       .category = "Hints",
       .dtypes = "all"},
      {.name = "recompute",
       .signature = "(input)",
       .doc =
           R"(The input. Gradient kernels (`nereid.grad`) compute the values that the loop around the call carries again for each iteration, and do not keep those of all iterations, as they do for loops of few iterations.)",
       .build = &recompute,
       .category = "Hints",
       .dtypes = "all"},
      {.name = "at_most",
       .signature = "(condition, count)",
       .doc =
           R"(The condition, for `while tl.at_most(condition, count):`. It promises that the loop's body runs at most `count` times. A gradient (`nereid.grad`) then need not count the iterations first, and is NaN where the body runs more often.

:param count: an integer.)",
       .build = &atMost,
       .category = "Hints"},
      {.name = "with_tangent",
       .signature = "(input, source)",
       .doc =
           R"(The input, whose derivative (`nereid.jvp`, `nereid.grad`) is that of `source`: `tl.with_tangent(tl.floor(x), x)` rounds, and passes gradients through.

:param source: a block or number, converted to the input's type and broadcast to its shape; tuples of as many items are taken item by item.)",
       .build = &withTangent,
       .category = "Hints",
       .dtypes = "floats"},
  };
}

} // namespace nereid::frontend
