// Shapes: broadcasting, reshaping, subscripts, and what goes along an axis.
#include "frontend/semantic.h"
#include "ir/tile/Dialect.h"
#include "support/text.h"

#include <numeric>

namespace nereid::frontend {

using llvm::APSInt;
using llvm::ArrayRef;
using llvm::failure;
using Shape = llvm::SmallVector<int64_t, 4>;

static std::string text(ArrayRef<int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

//===--- broadcasting
//-----------------------------------------------------------------------------===//

FailureOr<Shape> Semantic::commonShape(ArrayRef<int64_t> a, ArrayRef<int64_t> b, SourceSpan at) {
  size_t rank = std::max(a.size(), b.size());
  Shape result(rank);
  for (size_t i = 0; i < rank; ++i) {
    int64_t x = i + a.size() < rank ? 1 : a[i + a.size() - rank];
    int64_t y = i + b.size() < rank ? 1 : b[i + b.size() - rank];
    if (x != y && x != 1 && y != 1)
      return error(diag::IncompatibleShapes, at, text(a), text(b), int64_t(i), x, y);
    result[i] = x == 1 ? y : x;
  }
  return result;
}

FailureOr<Tensor> Semantic::broadcastTo(const Tensor &value, ArrayRef<int64_t> shape,
                                        SourceSpan at) {
  const Shape &from = value.type.shape;
  if (ArrayRef<int64_t>(from) == shape)
    return value;
  Type type = value.type.withShape(shape);
  mlir::Type ir = type.toIR(*builder.getContext());
  if (from.empty())
    return wrap(tile::SplatOp::create(builder, loc(), ir, value.ir), type);
  if (from.size() > shape.size())
    return error(diag::BroadcastRank, at, text(from), text(shape));
  Tensor current = value;
  while (current.type.shape.size() < shape.size()) {
    auto wider = expandDims(current, 0, at);
    if (failed(wider))
      return failure();
    current = *wider;
  }
  for (size_t i = 0; i < shape.size(); ++i)
    if (current.type.shape[i] != shape[i] && current.type.shape[i] != 1)
      return error(diag::BroadcastSize, at, shape[i], current.type.shape[i], int64_t(i), text(from),
                   text(shape));
  if (ArrayRef<int64_t>(current.type.shape) == shape)
    return current;
  return wrap(tile::BroadcastOp::create(builder, loc(), ir, current.ir), type);
}

llvm::LogicalResult Semantic::broadcastPair(Tensor &a, Tensor &b, SourceSpan at) {
  if (a.type.shape == b.type.shape)
    return llvm::success();
  auto shape = commonShape(a.type.shape, b.type.shape, at);
  if (failed(shape) || failed(checkShape(*shape, at)))
    return failure();
  auto x = broadcastTo(a, *shape, at), y = broadcastTo(b, *shape, at);
  if (failed(x) || failed(y))
    return failure();
  a = *x;
  b = *y;
  return llvm::success();
}

//===--- reshaping
//--------------------------------------------------------------------------------===//

FailureOr<int64_t> Semantic::axisOf(const Value &value, int64_t rank, SourceSpan at) {
  auto axis = knownInt(value, "`axis`", at);
  if (failed(axis))
    return failure();
  if (*axis < -rank || *axis >= rank)
    return error(diag::InvalidAxis, at, *axis, rank);
  return *axis < 0 ? *axis + rank : *axis;
}

FailureOr<Tensor> Semantic::expandDims(const Tensor &value, int64_t axis, SourceSpan at) {
  Shape shape = value.type.shape;
  shape.insert(shape.begin() + axis, 1);
  Type type = value.type.withShape(shape);
  mlir::Type ir = type.toIR(*builder.getContext());
  if (!value.type.isBlock())
    return wrap(tile::SplatOp::create(builder, loc(), ir, value.ir), type);
  return wrap(tile::ExpandDimsOp::create(builder, loc(), ir, value.ir, int32_t(axis)), type);
}

FailureOr<Tensor> Semantic::reshape(const Tensor &value, ArrayRef<int64_t> shape, bool canReorder,
                                    SourceSpan at) {
  Type type = value.type.withShape(shape);
  if (type.numElements() != value.type.numElements())
    return error(diag::ReshapeElements, at, text(value.type.shape), value.type.numElements(),
                 text(shape), type.numElements());
  if (type.shape == value.type.shape)
    return wrap(value.ir, type);
  mlir::Type ir = type.toIR(*builder.getContext());
  if (shape.empty())
    return wrap(tile::UnsplatOp::create(builder, loc(), ir, value.ir), type);
  if (!value.type.isBlock())
    return wrap(tile::SplatOp::create(builder, loc(), ir, value.ir), type);
  return wrap(tile::ReshapeOp::create(builder, loc(), ir, value.ir, canReorder), type);
}

FailureOr<Tensor> Semantic::permute(const Tensor &value, ArrayRef<int64_t> order, SourceSpan at) {
  Shape shape;
  llvm::SmallVector<int32_t, 4> dims;
  llvm::SmallVector<bool, 4> seen(order.size());
  bool valid = order.size() == value.type.shape.size();
  for (int64_t dim : order) {
    valid = valid && dim >= 0 && dim < int64_t(order.size()) && !seen[size_t(dim)];
    if (!valid)
      break;
    seen[size_t(dim)] = true;
    dims.push_back(int32_t(dim));
    shape.push_back(value.type.shape[size_t(dim)]);
  }
  if (!valid)
    return error(diag::NotPermutation, at, text(order), int64_t(value.type.shape.size()));
  Type type = value.type.withShape(shape);
  if (llvm::is_sorted(dims))
    return wrap(value.ir, type);
  mlir::Type ir = type.toIR(*builder.getContext());
  return wrap(tile::TransOp::create(builder, loc(), ir, value.ir, dims), type);
}

//===--- subscripts
//-------------------------------------------------------------------------------===//

static bool isFullSlice(const Value &value) {
  auto *slice = value.getIf<SliceValue>();
  return slice && slice->start->isNone() && slice->stop->isNone() && slice->step->isNone();
}

/// Python's rules for `sequence[start:stop:step]`.
struct Bounds {
  int64_t start, stop, step;
};

static FailureOr<Bounds> boundsOf(Semantic &s, const SliceValue &slice, int64_t length,
                                  SourceSpan at) {
  auto part = [&](const Value &value, int64_t absent) -> FailureOr<int64_t> {
    return value.isNone() ? FailureOr<int64_t>(absent)
                          : s.knownInt(value, "a bound of a slice", at);
  };
  auto step = part(*slice.step, 1);
  if (failed(step))
    return failure();
  if (*step == 0)
    return s.error(diag::SliceStepZero, at);
  bool forwards = *step > 0;
  auto start = part(*slice.start, forwards ? 0 : INT64_MAX);
  auto stop = part(*slice.stop, forwards ? INT64_MAX : INT64_MIN);
  if (failed(start) || failed(stop))
    return failure();
  auto clamp = [&](int64_t bound, bool isAbsentEnd) {
    if (isAbsentEnd)
      return int64_t(-1);
    if (bound < 0)
      bound += length;
    return forwards ? std::clamp<int64_t>(bound, 0, length)
                    : std::clamp<int64_t>(bound, -1, length - 1);
  };
  return Bounds{clamp(*start, false), clamp(*stop, *stop == INT64_MIN), *step};
}

Tensor Semantic::slice(const Tensor &value, ArrayRef<int64_t> sizes, ArrayRef<int64_t> offsets,
                       ArrayRef<int64_t> steps) {
  Type type = value.type.withShape(sizes);
  return wrap(tile::SliceOp::create(builder, loc(), type.toIR(*builder.getContext()), value.ir,
                                    offsets, steps),
              type);
}

FailureOr<Tensor> Semantic::elementsAlong(const Tensor &value, int64_t axis, const Tensor &number) {
  int64_t size = value.type.shape[size_t(axis)];
  auto index = cast(number, DType::Int32);
  if (failed(index))
    return failure();
  if (isSignedInt(number.type.scalar)) { // negative numbers count from the end
    Tensor wrapped = emitBinary(BinaryOp::Add, *index, constant(size, index->type));
    auto chosen = where(Value(emitCompare(CompareOp::Lt, *index, constant(0, index->type))),
                        Value(wrapped), Value(*index));
    if (failed(chosen))
      return failure();
    index = chosen;
  }
  Shape shape = value.type.shape;
  shape[size_t(axis)] = 1;
  auto indices = broadcastTo(*index, shape);
  return failed(indices) ? FailureOr<Tensor>(failure()) : gather(value, *indices, axis);
}

Tensor Semantic::gather(const Tensor &source, const Tensor &indices, int64_t axis) {
  Type type = source.type.withShape(indices.type.shape);
  return wrap(tile::GatherOp::create(builder, loc(), type.toIR(*builder.getContext()), source.ir,
                                     indices.ir, uint32_t(axis)),
              type);
}

static FailureOr<Value> subscriptTensor(Semantic &s, const Tensor &tensor, const Value &index,
                                        SourceSpan at) {
  if (tensor.type.isDescriptor)
    return s.error(diag::NotSubscriptable, at, Value(tensor).kindName());
  std::vector<Value> parts{index};
  if (auto *tuple = index.getIf<Tuple>())
    parts = tuple->items;
  int64_t rank = int64_t(tensor.type.shape.size());
  int64_t taken = llvm::count_if(parts, [](const Value &part) { return !part.isNone(); });
  for (const Value &part : parts) {
    if (part.isNone() || isFullSlice(part))
      continue;
    std::string text = part.isTensor() ? part.kindName() : part.repr();
    if (s.options.strict)
      return s.error(diag::UnsupportedIndex, at, text);
    const Value *known = knownOrNull(part);
    bool isNumber = known && (known->is<bool>() || known->is<APSInt>());
    auto *runTime = part.getIf<Tensor>();
    bool isScalar = runTime && !runTime->type.isBlock() && isInt(runTime->type.scalar) &&
                    !runTime->type.isPointer && !isBool(runTime->type.scalar);
    if (!isNumber && !isScalar && !part.is<SliceValue>())
      return s.error(diag::UnsupportedIndexKind, at, text);
  }
  // A `:` behind the last dimension takes nothing, as in Triton before 3.9.
  bool isCounted = s.options.strict && s.since(309);
  for (size_t i = parts.size(); taken > rank && !isCounted && i-- > 0;) {
    if (parts[i].isNone())
      continue;
    if (!isFullSlice(parts[i]))
      break;
    parts.erase(parts.begin() + i);
    --taken;
  }
  if (taken > rank)
    return s.error(diag::TooManyIndices, at, taken, rank);

  // The box of all known bounds first, then the elements that the run names, then the shape.
  llvm::SmallVector<int64_t> offsets, steps;
  Shape box, shape;
  std::vector<std::pair<int64_t, Tensor>> named;
  int64_t dim = 0;
  for (const Value &part : parts) {
    if (part.isNone()) {
      shape.push_back(1);
      continue;
    }
    int64_t size = tensor.type.shape[size_t(dim)];
    if (auto *slice = part.getIf<SliceValue>()) {
      auto bounds = boundsOf(s, *slice, size, at);
      if (failed(bounds))
        return failure();
      int64_t span = bounds->step > 0 ? bounds->stop - bounds->start : bounds->start - bounds->stop;
      if (span <= 0)
        return s.error(diag::EmptySlice, at, dim, size);
      offsets.push_back(bounds->start);
      steps.push_back(bounds->step);
      box.push_back(1 + (span - 1) / std::abs(bounds->step));
      shape.push_back(box.back());
    } else if (knownOrNull(part)) {
      auto position = s.knownInt(part, "an index", at);
      if (failed(position))
        return failure();
      if (*position < -size || *position >= size)
        return s.error(diag::TensorIndexRange, at, *position, dim, size);
      offsets.push_back(*position < 0 ? *position + size : *position);
      steps.push_back(1);
      box.push_back(1);
    } else {
      named.push_back({dim, part.get<Tensor>()});
      offsets.push_back(0);
      steps.push_back(1);
      box.push_back(size);
    }
    ++dim;
  }
  for (; dim < rank; ++dim) {
    offsets.push_back(0);
    steps.push_back(1);
    box.push_back(tensor.type.shape[size_t(dim)]);
    shape.push_back(box.back());
  }
  if (failed(s.checkShape(shape, at)))
    return failure();
  Tensor result = Semantic::wrap(tensor.ir, tensor.type);
  bool whole =
      box == tensor.type.shape && llvm::all_of(steps, [](int64_t step) { return step == 1; });
  if (!whole)
    result = s.slice(result, box, offsets, steps);
  for (auto &[axis, number] : named) {
    auto one = s.elementsAlong(result, axis, number);
    if (failed(one))
      return failure();
    result = *one;
  }
  if (!result.type.isBlock() || result.type.shape == shape)
    return result.type.isBlock() ? FailureOr<Value>(Value(std::move(result)))
                                 : FailureOr<Value>(Value(*s.broadcastTo(result, shape, at)));
  if (!whole || !named.empty())
    return Value(*s.reshape(result, shape, false, at));
  for (size_t i = 0; i < parts.size(); ++i)
    if (parts[i].isNone())
      result = *s.expandDims(result, int64_t(i), at);
  return Value(std::move(result));
}

FailureOr<Value> Semantic::subscript(const Value &value, const Value &index, SourceSpan at) {
  if (auto *tensor = value.getIf<Tensor>())
    return subscriptTensor(*this, *tensor, index, at);
  if (auto *object = value.getIf<HostObject>()) {
    auto result = host.getItem(*object, index);
    if (!result.value)
      return error(diag::HostSubscriptFailed, at, object->typeName, result.error.message);
    return *result.value;
  }
  // A string is a sequence of strings of one character.
  auto *string = value.getIf<std::string>();
  auto *tuple = value.getIf<Tuple>();
  if (!string && !tuple)
    return error(diag::NotSubscriptable, at, value.kindName());
  std::vector<size_t> starts; // of the characters, and the end
  for (size_t i = 0; string && i < string->size();) {
    starts.push_back(i);
    i += std::max<size_t>(1, decodeUtf8(*string, i).length);
  }
  int64_t length = int64_t(string ? starts.size() : tuple->items.size());
  if (string)
    starts.push_back(string->size());
  auto character = [&](size_t i) { return string->substr(starts[i], starts[i + 1] - starts[i]); };
  if (auto *slice = index.getIf<SliceValue>()) {
    auto bounds = boundsOf(*this, *slice, length, at);
    if (failed(bounds))
      return failure();
    std::vector<Value> items;
    std::string text;
    for (int64_t i = bounds->start; bounds->step > 0 ? i < bounds->stop : i > bounds->stop;
         i += bounds->step) {
      if (string)
        text += character(size_t(i));
      else
        items.push_back(tuple->items[size_t(i)]);
    }
    return string ? Value(std::move(text)) : Value(Tuple{std::move(items)});
  }
  auto position = knownInt(index, "the index into " + value.kindName(), at);
  if (failed(position))
    return failure();
  int64_t i = *position < 0 ? *position + length : *position;
  if (i < 0 || i >= length)
    return error(diag::IndexOutOfRange, at, *position, value.kindName(), length);
  return string ? Value(character(size_t(i))) : tuple->items[size_t(i)];
}

//===--- reductions and scans
//---------------------------------------------------------------------===//

llvm::LogicalResult Semantic::combineRegion(mlir::Region &region, ArrayRef<Tensor> inputs,
                                            const Value &combine, SourceSpan at) {
  mlir::OpBuilder::InsertionGuard guard(builder);
  mlir::Block *block = builder.createBlock(&region);
  std::vector<Value> args;
  for (int side = 0; side < 2; ++side)
    for (const Tensor &input : inputs) {
      Type element = input.type.element();
      args.push_back(wrap(block->addArgument(element.toIR(*builder.getContext()), loc()), element));
    }
  auto result = evaluator.call(combine, args, {}, at ? at : currentSpan);
  if (failed(result))
    return failure();
  std::vector<Value> parts{*result};
  if (auto *tuple = result->getIf<Tuple>())
    parts = tuple->items;
  if (parts.size() != inputs.size())
    return error(diag::CombinerCount, at, int64_t(inputs.size()), int64_t(parts.size()));
  llvm::SmallVector<mlir::Value> yielded;
  for (size_t i = 0; i < parts.size(); ++i) {
    Type element = inputs[i].type.element();
    if (parts[i].isNumber() && element.isArithmetic()) {
      yielded.push_back(constant(parts[i], element).ir);
      continue;
    }
    auto *tensor = parts[i].getIf<Tensor>();
    if (!tensor || tensor->type != element)
      return error(diag::CombinerType, at, element.str(),
                   tensor ? tensor->type.str() : parts[i].kindName());
    yielded.push_back(tensor->ir);
  }
  tile::YieldOp::create(builder, loc(), yielded);
  return llvm::success();
}

/// Checks that the inputs have one shape, and collects their values.
static FailureOr<llvm::SmallVector<mlir::Value>> valuesOf(Semantic &s, ArrayRef<Tensor> inputs,
                                                          SourceSpan at) {
  llvm::SmallVector<mlir::Value> values;
  for (const Tensor &input : inputs) {
    if (input.type.shape != inputs.front().type.shape)
      return s.error(diag::DifferentShapes, at, text(inputs.front().type.shape),
                     text(input.type.shape));
    values.push_back(input.ir);
  }
  return values;
}

FailureOr<std::vector<Tensor>> Semantic::reduce(ArrayRef<Tensor> inputs, int64_t axis,
                                                const Value &combine, SourceSpan at) {
  auto values = valuesOf(*this, inputs, at);
  if (failed(values))
    return failure();
  Shape shape = inputs.front().type.shape;
  shape.erase(shape.begin() + axis);
  llvm::SmallVector<mlir::Type> types;
  for (const Tensor &input : inputs)
    types.push_back(input.type.withShape(shape).toIR(*builder.getContext()));
  auto op = tile::ReduceOp::create(builder, loc(), types, *values, int32_t(axis));
  if (failed(combineRegion(op.getCombine(), inputs, combine, at))) {
    op.erase();
    return failure();
  }
  std::vector<Tensor> results;
  for (size_t i = 0; i < inputs.size(); ++i)
    results.push_back(wrap(op.getResult()[i], inputs[i].type.withShape(shape)));
  return results;
}

FailureOr<std::vector<Tensor>> Semantic::scan(ArrayRef<Tensor> inputs, int64_t axis,
                                              const Value &combine, bool reverse, SourceSpan at) {
  auto values = valuesOf(*this, inputs, at);
  if (failed(values))
    return failure();
  llvm::SmallVector<mlir::Type> types;
  for (const Tensor &input : inputs)
    types.push_back(input.ir.getType());
  auto op = tile::ScanOp::create(builder, loc(), types, *values, int32_t(axis), reverse);
  if (failed(combineRegion(op.getCombine(), inputs, combine, at))) {
    op.erase();
    return failure();
  }
  std::vector<Tensor> results;
  for (size_t i = 0; i < inputs.size(); ++i)
    results.push_back(wrap(op.getResult()[i], inputs[i].type));
  return results;
}

} // namespace nereid::frontend
