// Block pointers: what their arguments may be. The arithmetic is the prelude's
// (src/prelude/block_pointer.py), so that a block pointer is as good as the pointers it stands for.
#include "frontend/builtins/block_pointer.h"

#include "frontend/builtins/families.h"
#include "frontend/prelude.h"

namespace nereid::frontend {

bool isBlockPointer(const Value &value) {
  auto *aggregate = value.getIf<Aggregate>();
  return aggregate && aggregate->cls->isSame(*findPreludeClass("block_pointer"));
}

/// The positions of the class's fields.
enum Field { Base, Shape_, Strides, Offsets, BlockShape };

static size_t rankOf(const Value &pointer) {
  return itemsOf(pointer.get<Aggregate>().items[BlockShape])->size();
}

/// A parameter that is a tuple, or one value for a tensor of one dimension.
static std::vector<Value> listOf(const Value &value) {
  auto *tuple = value.getIf<Tuple>();
  return tuple ? tuple->items.all() : std::vector<Value>{value};
}

/// Scalars as int64.
static FailureOr<std::vector<Value>> indices(Semantic &s, const BoundArgs &args,
                                             llvm::StringRef name) {
  std::vector<Value> result;
  for (const Value &item : listOf(args[name])) {
    if (auto *number = item.getIf<llvm::APSInt>(); number && number->isSignedIntN(64)) {
      result.push_back(Value(s.constant(item, Type::of(DType::Int64))));
      continue;
    }
    auto scalar = s.toTensor(item, args.span(name));
    if (failed(scalar))
      return failure();
    if (scalar->type.isBlock())
      return s.error(diag::BlockPointerScalar, args.span(name), "a scalar", item.kindName());
    if (!scalar->type.isArithmetic() || !isInt(scalar->type.scalar))
      return s.error(diag::BlockPointerScalar, args.span(name), "an integer scalar type",
                     item.kindName());
    auto wide = s.cast(*scalar, DType::Int64, args.span(name));
    if (failed(wide))
      return failure();
    result.push_back(Value(*wide));
  }
  return result;
}

static FailureOr<llvm::SmallVector<int64_t, 4>>
knownList(Semantic &s, const BoundArgs &args, llvm::StringRef name, llvm::StringRef what) {
  llvm::SmallVector<int64_t, 4> result;
  for (const Value &item : listOf(args[name])) {
    const Value *known = knownOrNull(item);
    auto *number = known ? known->getIf<llvm::APSInt>() : nullptr;
    if (!number || !number->isSignedIntN(32))
      return s.error(diag::BlockPointerConstants, args.span(name), what, item.kindName());
    result.push_back(number->getExtValue());
  }
  return result;
}

static FailureOr<Value> makeBlockPointer(Semantic &s, const BoundArgs &args) {
  auto *given = args["base"].getIf<Tensor>();
  if (!given || !given->type.isPointer || given->type.isBlock())
    return s.error(diag::BlockPointerBase, args.span("base"), args["base"].kindName());
  Tensor base = *given;
  if (base.type.scalar == DType::Int1) {
    Type type = base.type;
    type.scalar = DType::Int8;
    base = *s.cast(base, type);
  }
  auto blockShape = knownList(s, args, "block_shape", "block_shape");
  if (failed(blockShape))
    return failure();
  auto order = knownList(s, args, "order", "order");
  if (failed(order))
    return failure();
  llvm::SmallVector<int64_t, 4> sorted(order->begin(), order->end());
  llvm::sort(sorted);
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != int64_t(i))
      return s.error(diag::BlockPointerOrder, args.span("order"), shapeText(*order));
  auto shape = indices(s, args, "shape");
  auto strides = failed(shape) ? shape : indices(s, args, "strides");
  auto offsets = failed(strides) ? strides : indices(s, args, "offsets");
  if (failed(offsets))
    return failure();
  size_t rank = blockShape->size();
  if (rank == 0 || shape->size() != rank || strides->size() != rank || offsets->size() != rank ||
      order->size() != rank)
    return s.error(diag::BlockPointerLengths, args.call());
  if (failed(s.checkShape(*blockShape, args.span("block_shape"))))
    return failure();
  Tuple window;
  for (int64_t size : *blockShape)
    window.items.push_back(Value::integer(size));
  auto tuple = [](std::vector<Value> items) { return Value(Tuple{std::move(items), {}}); };
  return Value(Aggregate{findPreludeClass("block_pointer"),
                         {Value(base), tuple(std::move(*shape)), tuple(std::move(*strides)),
                          tuple(std::move(*offsets)), Value(std::move(window))}});
}

static FailureOr<Value> advance(Semantic &s, const BoundArgs &args) {
  const Value &base = args["base"];
  if (!isBlockPointer(base))
    return s.error(diag::AdvanceNotBlockPointer, args.span("base"), base.kindName());
  auto offsets = indices(s, args, "offsets");
  if (failed(offsets))
    return failure();
  Aggregate result = base.get<Aggregate>();
  std::vector<Value> &current = *editItemsOf(result.items.edit()[Offsets]);
  if (offsets->size() != current.size())
    return s.error(diag::AdvanceCount, args.span("offsets"), int64_t(current.size()),
                   int64_t(offsets->size()));
  for (size_t i = 0; i < current.size(); ++i)
    current[i] =
        Value(s.emitBinary(BinaryOp::Add, current[i].get<Tensor>(), (*offsets)[i].get<Tensor>()));
  return Value(std::move(result));
}

//===--- loads and stores
//---------------------------------------------------------------------------//

/// The dimensions of `boundary_check`, sorted.
static FailureOr<std::vector<int64_t>> checkedDims(Semantic &s, const BoundArgs &args) {
  std::vector<int64_t> dims;
  const Value &given = args["boundary_check"];
  if (given.isNone())
    return dims;
  int64_t rank = int64_t(rankOf(args["pointer"]));
  SourceSpan at = args.span("boundary_check");
  for (const Value &item : listOf(given)) {
    auto dim = s.knownInt(item, "a dimension of `boundary_check`", at);
    if (failed(dim))
      return failure();
    if (*dim < 0 || *dim >= rank)
      return s.error(diag::BoundaryCheckRange, at, *dim, rank);
    if (llvm::is_contained(dims, *dim))
      return s.error(diag::BoundaryCheckDuplicate, at);
    dims.push_back(*dim);
  }
  llvm::sort(dims);
  return dims;
}

static FailureOr<Value> callMember(Semantic &s, const Value &object, llvm::StringRef name,
                                   llvm::ArrayRef<Value> args, SourceSpan at) {
  auto method = s.evaluator.getAttribute(object, name, at);
  if (failed(method))
    return failure();
  return s.evaluator.call(*method, args, {}, at);
}

/// The addresses of the window and the mask of what lies inside (None when nothing is checked).
static llvm::LogicalResult expand(Semantic &s, const BoundArgs &args,
                                  std::vector<KeywordArgument> &forwarded) {
  SourceSpan at = args.call();
  auto dims = checkedDims(s, args);
  if (failed(dims))
    return failure();
  auto pointers = callMember(s, args["pointer"], "_pointers", {}, at);
  if (failed(pointers))
    return failure();
  forwarded.push_back({"pointer", std::move(*pointers), args.span("pointer")});
  if (dims->empty())
    return llvm::success();
  Tuple known;
  for (int64_t dim : *dims)
    known.items.push_back(Value::integer(dim));
  auto inside = callMember(s, args["pointer"], "_inside", {Value(std::move(known))}, at);
  if (failed(inside))
    return failure();
  forwarded.push_back({"mask", std::move(*inside), at});
  return llvm::success();
}

FailureOr<Value> loadThroughBlock(Semantic &s, const BoundArgs &args) {
  if (!args["mask"].isNone() || !args["other"].isNone())
    return s.error(diag::BlockPointerMask, args.span(args["mask"].isNone() ? "other" : "mask"));
  auto padding = choice(s, args, "padding_option", {"zero", "nan"}, -1);
  if (failed(padding))
    return failure();
  DType element = args["pointer"].get<Aggregate>().items[Base].get<Tensor>().type.scalar;
  if (*padding == 1 && !isFloat(element))
    return s.error(diag::BlockPointerNaN, args.span("padding_option"));
  std::vector<KeywordArgument> forwarded;
  if (failed(expand(s, args, forwarded)))
    return failure();
  bool hasMask = forwarded.size() > 1;
  if (hasMask && *padding >= 0) {
    Value other = *padding == 1      ? Value(std::numeric_limits<double>::quiet_NaN())
                  : isFloat(element) ? Value(0.0)
                                     : Value::integer(0);
    forwarded.push_back({"other", std::move(other), args.span("padding_option")});
  }
  for (const char *name : {"cache_modifier", "eviction_policy", "volatile"})
    forwarded.push_back({name, args[name], args.span(name)});
  return callBuiltin(s, args.row(), nullptr, {}, forwarded, args.call());
}

FailureOr<Value> storeThroughBlock(Semantic &s, const BoundArgs &args) {
  if (!args["mask"].isNone())
    return s.error(diag::BlockPointerMask, args.span("mask"));
  auto *value = args["value"].getIf<Tensor>();
  Shape window;
  for (const Value &size : *itemsOf(args["pointer"].get<Aggregate>().items[BlockShape]))
    window.push_back(size.get<llvm::APSInt>().getExtValue());
  if (value && value->type.isBlock() && llvm::ArrayRef(value->type.shape) != llvm::ArrayRef(window))
    return s.error(diag::BlockPointerShape, args.span("value"), shapeText(window),
                   shapeText(value->type.shape));
  std::vector<KeywordArgument> forwarded;
  if (failed(expand(s, args, forwarded)))
    return failure();
  for (const char *name : {"value", "cache_modifier", "eviction_policy"})
    forwarded.push_back({name, args[name], args.span(name)});
  return callBuiltin(s, args.row(), nullptr, {}, forwarded, args.call());
}

std::vector<Builtin> blockPointerBuiltins() {
  return {
      {.name = "make_block_ptr",
       .signature = "(base, shape, strides, offsets, block_shape, order)",
       .doc = R"(A block pointer: a window of `block_shape` elements over a tensor in memory.

`load` and `store` go through it, `advance` moves it; it may be carried by loops and passed to functions. All index arithmetic is done
in int64.

:param base: the pointer to the tensor's first element.
:param shape: the tensor's sizes; `boundary_check` of `load` and `store` compares with them.
:param strides: the distance in elements between neighbours, per dimension.
:param offsets: where the window begins.
:param block_shape: the window's sizes, known during compilation.
:param order: a permutation of the dimensions, the fastest first. It is checked and otherwise ignored: how memory is read follows from
 the strides.)",
       .build = &makeBlockPointer,
       .category = "Memory"},
      {.name = "advance",
       .signature = "(base, offsets)",
       .doc =
           R"(A block pointer moved by `offsets` elements, one per dimension. `base` itself stays where it is.

:param base: a block pointer.
:param offsets: integers, known during compilation or at run time.)",
       .build = &advance,
       .isMethod = true,
       .category = "Memory",
       .mustUseResult = "Note that tl.advance does not have any side effects. To move the block "
                        "pointer, you need to assign the result of tl.advance to a variable."},
  };
}

} // namespace nereid::frontend
