// What the author promises to the compiler.
#include "frontend/builtins/families.h"
#include "ir/tile/Dialect.h"

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
  };
}

} // namespace nereid::frontend
