// Combining elements along an axis with a function of the language. The named reductions (sum, max,
// cumsum...) are in the prelude, on top of these.
#include "frontend/builtins/families.h"
#include "ir/tile/Dialect.h"

namespace nereid::frontend {

/// One tensor or a tuple of them.
static FailureOr<std::vector<Tensor>> inputsOf(Semantic &s, const BoundArgs &args) {
  std::vector<Value> items{args["input"]};
  if (auto *tuple = args["input"].getIf<Tuple>())
    items = tuple->items;
  std::vector<Tensor> inputs;
  for (const Value &item : items) {
    auto tensor = s.toTensor(item, args.span("input"));
    if (failed(tensor))
      return failure();
    if (!tensor->type.isBlock())
      return s.error(diag::ReductionOfScalar, args.span("input"), args.row().name, item.kindName());
    inputs.push_back(*tensor);
  }
  if (inputs.empty())
    return s.error(diag::ReductionOfScalar, args.span("input"), args.row().name,
                   args["input"].kindName());
  return inputs;
}

static FailureOr<Value> packed(const BoundArgs &args, std::vector<Tensor> results) {
  if (!args["input"].is<Tuple>())
    return Value(std::move(results.front()));
  Tuple tuple;
  for (Tensor &each : results)
    tuple.items.push_back(Value(std::move(each)));
  return Value(std::move(tuple));
}

static FailureOr<Value> reduceInOrder(Semantic &s, const BoundArgs &args, bool anyOrder) {
  auto inputs = inputsOf(s, args);
  auto keepDims = s.knownBool(args["keep_dims"], "`keep_dims`", args.span("keep_dims"));
  if (failed(inputs) || failed(keepDims))
    return failure();
  int64_t rank = int64_t(inputs->front().type.shape.size()), axis = 0;
  bool isFlat = args["axis"].isNone();
  if (isFlat) { // all elements
    for (Tensor &input : *inputs) {
      auto flat = s.reshape(input, {input.type.numElements()}, false, args.call());
      if (failed(flat))
        return failure();
      input = *flat;
    }
  } else {
    auto given = s.axisOf(args["axis"], rank, args.span("axis"));
    if (failed(given))
      return failure();
    axis = *given;
  }
  auto results = s.reduce(*inputs, axis, args["combine_fn"], args.call());
  if (failed(results))
    return failure();
  if (anyOrder)
    results->front().ir.getDefiningOp<tile::ReduceOp>().setAnyOrder(true);
  if (*keepDims)
    for (Tensor &each : *results)
      for (int64_t i = 0; i < (isFlat ? rank : 1); ++i)
        each = *s.expandDims(each, isFlat ? 0 : axis, args.call());
  return packed(args, std::move(*results));
}

static FailureOr<Value> reduce(Semantic &s, const BoundArgs &args) {
  return reduceInOrder(s, args, false);
}

static FailureOr<Value> reduceAnyOrder(Semantic &s, const BoundArgs &args) {
  return reduceInOrder(s, args, true);
}

static FailureOr<Value> scan(Semantic &s, const BoundArgs &args) {
  auto inputs = inputsOf(s, args);
  auto reverse = s.knownBool(args["reverse"], "`reverse`", args.span("reverse"));
  if (failed(inputs) || failed(reverse))
    return failure();
  auto axis = s.axisOf(args["axis"], int64_t(inputs->front().type.shape.size()), args.span("axis"));
  if (failed(axis))
    return failure();
  auto results = s.scan(*inputs, *axis, args["combine_fn"], *reverse, args.call());
  if (failed(results))
    return failure();
  return packed(args, std::move(*results));
}

/// In strict mode, as in Triton, positions are along an axis.
static FailureOr<Value> checkFlatIndices(Semantic &s, const BoundArgs &args) {
  if (s.options.strict)
    return s.error(diag::IndicesNeedAxis, args.call());
  return Value();
}

std::vector<Builtin> reductionBuiltins() {
  return {
      {.name = "reduce",
       .signature = "(input, axis, combine_fn, keep_dims=False)",
       .doc = R"(Combines all elements along one axis.

:param input: a block, or a tuple of n blocks of one shape, which are reduced together.
:param axis: the axis, negative ones count from the end; None for all elements.
:param combine_fn: a jit function of 2n scalars (n of the left part, then n of the right part) that returns n scalars of
 the same types. It must be associative; it need not commute.
:param keep_dims: keep the axis with size 1.
:returns: a block without the axis (a scalar when it was the only one), or a tuple of n.)",
       .build = &reduce,
       .isMethod = true,
       .category = "Reductions and scans",
       .dtypes = "all"},
      // For the prelude alone: the combiner commutes as well.
      {.name = "prelude.reduce_any_order",
       .signature = "(input, axis, combine_fn, keep_dims=False)",
       .build = &reduceAnyOrder},
      {.name = "prelude._check_flat_indices", .signature = "()", .build = &checkFlatIndices},
      {.name = "associative_scan",
       .signature = "(input, axis, combine_fn, reverse=False)",
       .doc =
           R"(All partial combinations along one axis: element i of the result combines elements 0..i.

:param input: a block, or a tuple of n blocks of one shape.
:param axis: the axis, negative ones count from the end.
:param combine_fn: as for `reduce`.
:param reverse: scan from the end: element i combines the last element down to i.)",
       .build = &scan,
       .isMethod = true,
       .category = "Reductions and scans",
       .dtypes = "all"},
  };
}

} // namespace nereid::frontend
