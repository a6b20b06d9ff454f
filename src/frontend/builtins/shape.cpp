// Functions that rearrange elements.
#include "frontend/builtins/families.h"
#include "ir/tile/Dialect.h"

namespace nereid::frontend {

static FailureOr<Value> broadcast(Semantic &s, const BoundArgs &args) {
  auto a = tensorArg(s, args, "input"), b = tensorArg(s, args, "other");
  if (failed(a) || failed(b) || failed(s.broadcastPair(*a, *b, args.call())))
    return failure();
  return Value(Tuple{{Value(*a), Value(*b)}, {}, 0});
}

static FailureOr<Value> broadcastTo(Semantic &s, const BoundArgs &args) {
  auto input = tensorArg(s, args, "input");
  auto shape = s.knownShape(spread(args["shape"]), args.span("shape"));
  if (failed(input) || failed(shape))
    return failure();
  if (input->type.isBlock() && input->type.shape.size() != shape->size())
    return s.error(diag::BroadcastRank, args.call(), shapeText(input->type.shape),
                   shapeText(*shape));
  return result(s.broadcastTo(*input, *shape, args.call()));
}

static FailureOr<Value> expandDims(Semantic &s, const BoundArgs &args) {
  auto input = tensorArg(s, args, "input");
  if (failed(input))
    return failure();
  std::vector<Value> axes{args["axis"]};
  if (auto *tuple = args["axis"].getIf<Tuple>())
    axes = tuple->items;
  // Axes count in the result.
  int64_t rank = int64_t(input->type.shape.size() + axes.size());
  llvm::SmallVector<int64_t, 4> sorted;
  for (const Value &value : axes) {
    auto axis = s.axisOf(value, rank, args.span("axis"));
    if (failed(axis))
      return failure();
    if (llvm::is_contained(sorted, *axis))
      return s.error(diag::DuplicateAxis, args.span("axis"), *axis);
    sorted.push_back(*axis);
  }
  llvm::sort(sorted);
  Tensor current = Semantic::wrap(input->ir, input->type);
  for (int64_t axis : sorted) {
    auto wider = s.expandDims(current, axis, args.call());
    if (failed(wider))
      return failure();
    current = *wider;
  }
  return Value(std::move(current));
}

static FailureOr<Value> reshapeAs(Semantic &s, const BoundArgs &args, bool canReorder) {
  auto input = tensorArg(s, args, "input");
  auto shape = s.knownShape(spread(args["shape"]), args.span("shape"));
  if (failed(input) || failed(shape))
    return failure();
  return result(s.reshape(*input, *shape, canReorder, args.call()));
}

static FailureOr<Value> reshape(Semantic &s, const BoundArgs &args) {
  auto canReorder = s.knownBool(args["can_reorder"], "`can_reorder`", args.span("can_reorder"));
  return failed(canReorder) ? FailureOr<Value>(failure()) : reshapeAs(s, args, *canReorder);
}

static FailureOr<Value> view(Semantic &s, const BoundArgs &args) {
  return reshapeAs(s, args, true);
}

static FailureOr<Value> permute(Semantic &s, const BoundArgs &args) {
  auto input = tensorArg(s, args, "input");
  if (failed(input))
    return failure();
  int64_t rank = int64_t(input->type.shape.size());
  Value dims = spread(args["dims"]);
  llvm::SmallVector<int64_t, 4> order;
  for (const Value &dim : dims.get<Tuple>().items) {
    auto axis = s.axisOf(dim, rank, args.span("dims"));
    if (failed(axis))
      return failure();
    order.push_back(*axis);
  }
  if (order.empty()) { // `trans(x)` swaps the last two
    if (rank < 2)
      return s.error(diag::TransRank, args.call(), rank);
    for (int64_t i = 0; i < rank; ++i)
      order.push_back(i);
    std::swap(order[size_t(rank) - 1], order[size_t(rank) - 2]);
  }
  return result(s.permute(*input, order, args.call()));
}

/// Integers of one width and different signs side by side are read as the first: no bit changes.
static Value readAs(const Value &first, const Value &second) {
  auto *a = first.getIf<Tensor>(), *b = second.getIf<Tensor>();
  if (!a || !b || !a->type.isArithmetic() || !b->type.isArithmetic() || !isInt(a->type.scalar) ||
      !isInt(b->type.scalar) || info(a->type.scalar).bits != info(b->type.scalar).bits)
    return second;
  return Value(Semantic::wrap(b->ir, b->type.withScalar(a->type.scalar)));
}

static FailureOr<Value> join(Semantic &s, const BoundArgs &args) {
  Semantic::PromoteOptions how;
  how.operation = "join";
  how.allowPointers = true;
  auto pair =
      s.promote(args["a"], readAs(args["a"], args["b"]), how, args.span("a"), args.span("b"));
  if (failed(pair))
    return failure();
  Shape shape = pair->first.type.shape;
  shape.push_back(2);
  if (failed(s.checkShape(shape, args.call())))
    return failure();
  Type type = pair->first.type.withShape(shape);
  mlir::Type ir = type.toIR(*s.builder.getContext());
  return Value(Semantic::wrap(
      tile::JoinOp::create(s.builder, s.loc(), ir, pair->first.ir, pair->second.ir), type));
}

static FailureOr<Value> split(Semantic &s, const BoundArgs &args) {
  auto input = tensorArg(s, args, "a");
  if (failed(input))
    return failure();
  if (!input->type.isBlock() || input->type.shape.back() != 2)
    return s.error(diag::SplitLastAxis, args.span("a"), shapeText(input->type.shape));
  Type type = input->type.withShape(llvm::ArrayRef(input->type.shape).drop_back());
  mlir::Type ir = type.toIR(*s.builder.getContext());
  auto op = tile::SplitOp::create(s.builder, s.loc(), ir, ir, input->ir);
  return Value(Tuple{
      {Value(Semantic::wrap(op.getLhs(), type)), Value(Semantic::wrap(op.getRhs(), type))}, {}, 0});
}

static FailureOr<Value> cat(Semantic &s, const BoundArgs &args) {
  auto a = tensorArg(s, args, "input"), b = tensorArg(s, args, "other");
  if (failed(a) || failed(b))
    return failure();
  auto dim = s.axisOf(args["dim"], int64_t(a->type.shape.size()), args.span("dim"));
  auto canReorder = s.knownBool(args["can_reorder"], "`can_reorder`", args.span("can_reorder"));
  if (failed(dim) || failed(canReorder))
    return failure();
  bool isOrdered = !*canReorder && s.since(307);
  if (s.options.strict && !*canReorder && !isOrdered)
    return s.error(diag::CatReorders, args.call());
  if (s.options.strict && a->type.shape.size() != 1 && !isOrdered)
    return s.error(diag::CatRank, args.span("input"), shapeText(a->type.shape));
  b->type.scalar = readAs(Value(*a), Value(*b)).get<Tensor>().type.scalar;
  Shape shape = a->type.shape, other = b->type.shape;
  bool same = a->type.element() == b->type.element() && shape.size() == other.size();
  for (size_t i = 0; same && i < shape.size(); ++i)
    same = i == size_t(*dim) || shape[i] == other[i];
  if (!same)
    return s.error(diag::CatMismatch, args.call(), args["input"].kindName(),
                   args["other"].kindName(), *dim);
  shape[size_t(*dim)] += other[size_t(*dim)];
  if (failed(s.checkShape(shape, args.call())))
    return failure();
  Type type = a->type.withShape(shape);
  mlir::Type ir = type.toIR(*s.builder.getContext());
  return Value(Semantic::wrap(
      tile::CatOp::create(s.builder, s.loc(), ir, a->ir, b->ir, uint32_t(*dim)), type));
}

static FailureOr<Value> item(Semantic &s, const BoundArgs &args) {
  auto input = tensorArg(s, args, "input");
  if (failed(input))
    return failure();
  if (input->type.numElements() != 1)
    return s.error(diag::ItemOfMany, args.call(), args["input"].kindName());
  return result(s.reshape(*input, {}, false, args.call()));
}

static FailureOr<Value> gather(Semantic &s, const BoundArgs &args) {
  auto source = tensorArg(s, args, "src"), index = tensorArg(s, args, "index");
  if (failed(source) || failed(index))
    return failure();
  if (!isInt(index->type.scalar) || index->type.isPointer)
    return s.error(diag::GatherIndexType, args.span("index"), index->type.str());
  const Shape &from = source->type.shape, &to = index->type.shape;
  if (from.size() != to.size() || from.empty())
    return s.error(diag::GatherRank, args.call(), shapeText(from), shapeText(to));
  auto axis = s.knownInt(args["axis"], "`axis`", args.span("axis"));
  if (failed(axis))
    return failure();
  int64_t rank = int64_t(from.size());
  if (*axis < -rank || *axis >= rank)
    return s.error(diag::GatherAxis, args.span("axis"), *axis, rank);
  if (*axis < 0)
    *axis += rank;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (dim != *axis && from[size_t(dim)] != to[size_t(dim)])
      return s.error(diag::GatherSize, args.span("index"), dim, shapeText(from), shapeText(to));
  auto number = s.cast(*index, DType::Int32, args.span("index"));
  if (failed(number))
    return failure();
  return Value(s.gather(*source, *number, *axis));
}

static FailureOr<Value> histogram(Semantic &s, const BoundArgs &args) {
  auto input = tensorArg(s, args, "input");
  auto bins = s.knownInt(args["num_bins"], "`num_bins`", args.span("num_bins"));
  if (failed(input) || failed(bins))
    return failure();
  if (input->type.shape.size() != 1)
    return s.error(diag::HistogramRank, args.span("input"), shapeText(input->type.shape));
  if (!isInt(input->type.scalar) || input->type.isPointer)
    return s.error(diag::HistogramType, args.span("input"), input->type.str());
  if (s.options.strict && s.since(309) && info(input->type.scalar).bits != 32)
    return s.error(diag::ExpectedArgumentKind, args.span("input"), "`histogram`",
                   "32-bit integers (strict mode)", input->type.str());
  if (failed(s.checkShape({*bins}, args.span("num_bins"))))
    return failure();
  mlir::Value mask;
  if (!args["mask"].isNone()) {
    auto given = tensorArg(s, args, "mask");
    if (failed(given))
      return failure();
    if (!isBool(given->type.scalar) ||
        (given->type.isBlock() && given->type.shape != input->type.shape))
      return s.error(diag::HistogramMask, args.span("mask"),
                     Type::of(DType::Int1, input->type.shape).str(), given->type.str());
    auto whole = s.broadcastTo(*given, input->type.shape, args.span("mask"));
    if (failed(whole))
      return failure();
    mask = whole->ir;
  }
  DType wide = info(input->type.scalar).bits == 64 ? input->type.scalar : DType::Int32;
  auto number = s.cast(*input, wide, args.span("input"));
  if (failed(number))
    return failure();
  Type type = Type::of(DType::Int32, {*bins});
  return Value(Semantic::wrap(tile::HistogramOp::create(s.builder, s.loc(),
                                                        type.toIR(*s.builder.getContext()),
                                                        number->ir, mask),
                              type));
}

/// Along a known axis: elements exchanged with those at `i ^ mask`.
static FailureOr<Value> exchange(Semantic &s, const BoundArgs &args) {
  auto input = tensorArg(s, args, "input");
  auto mask = s.knownInt(args["mask"], "`mask`", args.span("mask"));
  auto axis = s.knownInt(args["axis"], "`axis`", args.span("axis"));
  if (failed(input) || failed(mask) || failed(axis))
    return failure();
  return Value(Semantic::wrap(tile::ExchangeOp::create(s.builder, s.loc(), input->ir.getType(),
                                                       input->ir, uint32_t(*axis), uint32_t(*mask)),
                              input->type));
}

static FailureOr<Value> isStrict(Semantic &s, const BoundArgs &) {
  return Value(s.options.strict);
}

/// The release of Triton whose rules hold: 309 for 3.9.
static FailureOr<Value> tritonVersion(Semantic &s, const BoundArgs &) {
  return Value::integer(s.options.tritonVersion);
}

static FailureOr<Value> hasNarrowLanes(Semantic &s, const BoundArgs &) {
  return Value(s.options.targetName == "cpu");
}

static FailureOr<Value> flip(Semantic &s, const BoundArgs &args) {
  auto input = tensorArg(s, args, "x");
  if (failed(input))
    return failure();
  int64_t rank = int64_t(input->type.shape.size());
  auto axis = args["dim"].isNone() && rank ? FailureOr<int64_t>(rank - 1)
                                           : s.axisOf(args["dim"], rank, args.span("dim"));
  if (failed(axis))
    return failure();
  int64_t size = input->type.shape[size_t(*axis)];
  if (llvm::isPowerOf2_64(uint64_t(size)))
    return Value(
        Semantic::wrap(tile::ExchangeOp::create(s.builder, s.loc(), input->ir.getType(), input->ir,
                                                uint32_t(*axis), uint32_t(size - 1)),
                       input->type));
  llvm::SmallVector<int64_t, 4> offsets(size_t(rank), 0), steps(size_t(rank), 1);
  offsets[size_t(*axis)] = size - 1;
  steps[size_t(*axis)] = -1;
  return Value(s.slice(*input, input->type.shape, offsets, steps));
}

std::vector<Builtin> shapeBuiltins() {
  const char *transDoc =
      R"(Permutes the dimensions: dimension `i` of the result is dimension `dims[i]` of the input.

:param dims: a permutation of the dimensions, as one tuple or as separate arguments. Without it the last two are swapped.)";
  return {
      {.name = "broadcast",
       .signature = "(input, other)",
       .doc =
           R"(Both blocks with their common shape, as a pair. Leading dimensions of size 1 are added to the one of lower rank.)",
       .build = &broadcast,
       .category = "Shape",
       .dtypes = "all"},
      {.name = "broadcast_to",
       .signature = "(input, *shape)",
       .doc =
           R"(Repeats the input along its dimensions of size 1. The ranks are equal, or the input is a scalar.

:param shape: the new shape, as one tuple or as separate arguments.)",
       .build = &broadcastTo,
       .isMethod = true,
       .category = "Shape",
       .dtypes = "all"},
      {.name = "expand_dims",
       .signature = "(input, axis)",
       .doc = R"(Inserts dimensions of size 1.

:param axis: where they stand in the result, an integer or a tuple of different integers.)",
       .build = &expandDims,
       .isMethod = true,
       .category = "Shape",
       .dtypes = "all"},
      {.name = "reshape",
       .signature = "(input, *shape, can_reorder=False)",
       .doc = R"(The same elements in row-major order under another shape of as many elements.

:param shape: the new shape, as one tuple or as separate arguments; `()` makes a scalar of one element.
:param can_reorder: the compiler may choose another order of the elements.)",
       .build = &reshape,
       .isMethod = true,
       .category = "Shape",
       .dtypes = "all"},
      {.name = "view",
       .signature = "(input, *shape)",
       .doc = R"(`reshape` with `can_reorder=True`; kept for older kernels.)",
       .build = &view,
       .isMethod = true,
       .category = "Shape",
       .dtypes = "all"},
      {.name = "trans",
       .signature = "(input, *dims)",
       .doc = transDoc,
       .build = &permute,
       .isMethod = true,
       .category = "Shape",
       .dtypes = "all"},
      {.name = "permute",
       .signature = "(input, *dims)",
       .doc = transDoc,
       .build = &permute,
       .isMethod = true,
       .category = "Shape",
       .dtypes = "all"},
      {.name = "join",
       .signature = "(a, b)",
       .doc =
           R"(Two blocks side by side in a new last dimension of size 2. They are promoted and broadcast; two scalars give shape `[2]`.)",
       .build = &join,
       .category = "Shape",
       .dtypes = "all"},
      {.name = "split",
       .signature = "(a)",
       .doc =
           R"(The inverse of `join`: a pair of blocks from a block whose last dimension is 2; two scalars from shape `[2]`.)",
       .build = &split,
       .isMethod = true,
       .category = "Shape",
       .dtypes = "all"},
      {.name = "cat",
       .signature = "(input, other, can_reorder=False, dim=0)",
       .doc =
           R"(Concatenates two blocks of one element type along a dimension; their other dimensions are equal.

:param can_reorder: accepted, the order is always kept.)",
       .build = &cat,
       .category = "Shape",
       .dtypes = "all"},
      {.name = "gather",
       .signature = "(src, index, axis)",
       .doc = R"(Picks elements along one axis: `result[.., i, ..] = src[.., index[.., i, ..], ..]`.

:param src: a block of any type.
:param index: a block of integers of the same rank and, but for the axis, the same sizes. A number outside of the axis
 gives an undefined value.
:param axis: the axis, negative ones count from the end.
:returns: a block of the index's shape.)",
       .build = &gather,
       .isMethod = true,
       .category = "Shape",
       .dtypes = "all"},
      {.name = "histogram",
       .signature = "(input, num_bins, mask=None)",
       .doc =
           R"(Counts how often each of the numbers `0 .. num_bins - 1` occurs. Other numbers are not counted.

:param input: a block of integers of rank 1.
:param num_bins: the number of bins, known during compilation.
:param mask: bools of the input's shape; elements where it is false are not counted.
:returns: an int32 block of shape `[num_bins]`.)",
       .build = &histogram,
       .isMethod = true,
       .category = "Reductions and scans",
       .dtypes = "ints"},
      {.name = "flip",
       .signature = "(x, dim=None)",
       .doc = R"(The elements in reverse order along a dimension.

:param dim: the dimension, negative ones count from the end; None for the last.)",
       .build = &flip,
       .isMethod = true,
       .category = "Shape",
       .dtypes = "all"},
      // For the prelude alone.
      {.name = "prelude.exchange", .signature = "(input, mask, axis)", .build = &exchange},
      {.name = "prelude.strict", .signature = "()", .build = &isStrict},
      {.name = "prelude.triton_version", .signature = "()", .build = &tritonVersion},
      {.name = "prelude.narrow_lanes", .signature = "()", .build = &hasNarrowLanes},
      {.name = "item",
       .signature = "(input)",
       .doc = R"(The only element of a block of one element, as a scalar.)",
       .build = &item,
       .isMethod = true,
       .category = "Member functions",
       .dtypes = "all"},
  };
}

} // namespace nereid::frontend
