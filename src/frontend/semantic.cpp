#include "frontend/semantic.h"

#include "frontend/known.h"
#include "ir/tile/Dialect.h"
#include "support/call_notes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinAttributes.h"

#include <cfloat>
#include <cmath>

namespace nereid::frontend {

using llvm::APFloat;
using llvm::APInt;
using llvm::APSInt;

/// Triton's limit on the elements of a block.
static constexpr int64_t maxTensorElements = 1048576;

//===--- where we are
//-----------------------------------------------------------------------------===//

void Semantic::setSpan(SourceSpan span) {
  currentSpan = span;
  currentLoc.reset();
}

static mlir::Location locationOf(SourceSpan span, mlir::MLIRContext *context) {
  if (!span)
    return mlir::UnknownLoc::get(context);
  LineColumn place = span.file->position(span.range.begin);
  std::string_view name = span.file->name();
  return mlir::FileLineColLoc::get(context, llvm::StringRef(name.data(), name.size()), place.line,
                                   place.column + 1);
}

/// Where `here` is, when it is walked as part of what the last inlined call stands in.
static mlir::Location calledFrom(mlir::Location here, llvm::ArrayRef<mlir::LocationAttr> callers) {
  if (callers.empty() || !callers.back())
    return here;
  return mlir::CallSiteLoc::get(here, mlir::Location(callers.back()));
}

mlir::Location Semantic::loc() {
  if (!currentLoc)
    currentLoc = calledFrom(locationOf(currentSpan, builder.getContext()), callers);
  return *currentLoc;
}

void Semantic::enterCall(SourceSpan call, bool inPlace) {
  calls.push_back(call);
  if (inPlace)
    callers.push_back(calledFrom(locationOf(call, builder.getContext()), callers));
  else
    callers.push_back({});
  currentLoc.reset();
}

void Semantic::leaveCall() {
  calls.pop_back();
  callers.pop_back();
  currentLoc.reset();
}

Diagnostic &Semantic::addCallNotes(Diagnostic &diagnostic) {
  return addCalls(diagnostic, llvm::to_vector(llvm::reverse(calls)));
}

//===--- known values and tensors
//-----------------------------------------------------------------===//

FailureOr<Type> Semantic::literalType(const Value &number, SourceSpan at) {
  if (number.is<bool>())
    return Type::of(DType::Int1);
  if (auto *real = number.getIf<double>()) {
    double magnitude = std::fabs(*real);
    bool needsDouble =
        std::isfinite(*real) && *real != 0 && (magnitude < FLT_MIN || magnitude > FLT_MAX);
    return Type::of(needsDouble ? DType::Float64 : DType::Float32);
  }
  if (auto *integer = number.getIf<APSInt>()) {
    if (integer->isSignedIntN(32))
      return Type::of(DType::Int32);
    if (!integer->isNegative() && integer->isIntN(32))
      return Type::of(DType::UInt32);
    if (integer->isSignedIntN(64))
      return Type::of(DType::Int64);
    if (!integer->isNegative() && integer->isIntN(64))
      return Type::of(DType::UInt64);
    return error(diag::NumberTooLarge, at, number.repr());
  }
  return error(diag::CannotConvertToTensor, at, number.kindName());
}

static double numberAsDouble(const Value &number) {
  if (auto *real = number.getIf<double>())
    return *real;
  if (auto *flag = number.getIf<bool>())
    return *flag ? 1.0 : 0.0;
  return toDouble(number.get<APSInt>());
}

static APInt numberAsInt(const Value &number, unsigned bits) {
  if (auto *flag = number.getIf<bool>())
    return APInt(bits, *flag ? 1 : 0);
  if (auto *real = number.getIf<double>()) {
    APSInt whole(std::max(bits, 65u), /*isUnsigned=*/false);
    bool exact;
    APFloat(*real).convertToInteger(whole, APFloat::rmTowardZero, &exact);
    return whole.trunc(bits);
  }
  return number.get<APSInt>().sextOrTrunc(bits);
}

/// Rounds to the type; an 8-bit float saturates.
static APFloat numberAsFloat(double number, mlir::FloatType type) {
  const llvm::fltSemantics &semantics = type.getFloatSemantics();
  APFloat value(number);
  bool lost;
  value.convert(semantics, APFloat::rmNearestTiesToEven, &lost);
  if (type.getWidth() == 8 && !std::isnan(number) && !value.isFinite())
    return APFloat::getLargest(semantics, std::signbit(number));
  return value;
}

Tensor Semantic::constant(const Value &number, const Type &type) {
  if (isSoftwareFloat8(type.scalar) && !type.isPointer)
    return *cast(constant(number, type.withScalar(DType::Float32)), type.element());
  mlir::Type ir = type.toIR(*builder.getContext());
  mlir::Type element = mlir::getElementTypeOrSelf(ir);
  mlir::TypedAttr attribute;
  if (auto real = llvm::dyn_cast<mlir::FloatType>(element)) {
    APFloat value = numberAsFloat(numberAsDouble(number), real);
    attribute =
        type.isBlock()
            ? mlir::TypedAttr(mlir::DenseElementsAttr::get(llvm::cast<mlir::ShapedType>(ir), value))
            : mlir::TypedAttr(mlir::FloatAttr::get(real, value));
  } else {
    APInt value = type.scalar == DType::Int1 ? APInt(1, truthOfKnown(number).value_or(true))
                                             : numberAsInt(number, element.getIntOrFloatBitWidth());
    attribute =
        type.isBlock()
            ? mlir::TypedAttr(mlir::DenseElementsAttr::get(llvm::cast<mlir::ShapedType>(ir), value))
            : mlir::TypedAttr(mlir::IntegerAttr::get(element, value));
  }
  return wrap(mlir::arith::ConstantOp::create(builder, loc(), attribute), type);
}

FailureOr<Tensor> Semantic::toTensor(const Value &value, SourceSpan at) {
  if (auto *tensor = value.getIf<Tensor>()) {
    if (tensor->type.isDescriptor)
      return error(diag::CannotConvertToTensor, at, value.kindName());
    return *tensor;
  }
  auto type = literalType(value, at);
  if (failed(type))
    return llvm::failure();
  return constant(value, *type);
}

FailureOr<Tensor> Semantic::toCarried(const Value &value) {
  auto *tensor = value.getIf<Tensor>();
  return tensor ? FailureOr<Tensor>(*tensor) : toTensor(value);
}

FailureOr<Value> Semantic::assigned(const Value &value, SourceSpan at) {
  if (value.isNumber()) {
    auto tensor = toTensor(value, at);
    if (failed(tensor))
      return llvm::failure();
    tensor->literal = std::make_shared<const Value>(value);
    return Value(*tensor);
  }
  if (auto *tuple = value.getIf<Tuple>()) {
    Tuple result = *tuple;
    for (Value &item : result.items.edit()) {
      auto converted = assigned(item, at);
      if (failed(converted))
        return llvm::failure();
      item = *converted;
    }
    return Value(std::move(result));
  }
  return value;
}

FailureOr<int64_t> Semantic::knownInt(const Value &value, llvm::StringRef what, SourceSpan at) {
  const Value *known = knownOrNull(value);
  if (!known)
    return error(diag::ExpectedKnownValue, at, what, value.kindName());
  if (auto *flag = known->getIf<bool>())
    return int64_t(*flag);
  auto *number = known->getIf<APSInt>();
  if (!number)
    return error(diag::ExpectedArgumentKind, at, what, "an integer", known->kindName());
  if (!number->isSignedIntN(64))
    return error(diag::NumberTooLarge, at, known->repr());
  return number->getSExtValue();
}

FailureOr<bool> Semantic::knownBool(const Value &value, llvm::StringRef what, SourceSpan at) {
  const Value *known = knownOrNull(value);
  if (!known)
    return error(diag::ExpectedKnownValue, at, what, value.kindName());
  auto truth = truthOfKnown(*known);
  if (!truth)
    return error(diag::ExpectedArgumentKind, at, what, "a bool", known->kindName());
  return *truth;
}

FailureOr<std::string> Semantic::knownString(const Value &value, llvm::StringRef what,
                                             SourceSpan at) {
  if (auto *text = value.getIf<std::string>())
    return *text;
  return error(diag::ExpectedArgumentKind, at, what, "a string", value.kindName());
}

FailureOr<Type> Semantic::knownType(const Value &value, llvm::StringRef what, SourceSpan at) {
  if (auto *type = value.getIf<TypeValue>())
    return type->type;
  return error(diag::ExpectedArgumentKind, at, what, "a dtype such as `tl.float32`",
               value.kindName());
}

FailureOr<bool> Semantic::checkShape(llvm::ArrayRef<int64_t> shape, SourceSpan at) {
  int64_t count = 1;
  for (auto [index, size] : llvm::enumerate(shape)) {
    if (size < 1)
      return error(diag::ShapeNotPositive, at, size);
    if (options.strict && !llvm::isPowerOf2_64(uint64_t(size)))
      return error(diag::ShapeNotPowerOfTwo, at, int64_t(index), size);
    if (size > maxTensorElements || count * size > maxTensorElements)
      return error(diag::TooManyElements, at, count * std::min(size, INT64_MAX / count),
                   maxTensorElements);
    count *= size;
  }
  return true;
}

FailureOr<llvm::SmallVector<int64_t, 4>> Semantic::knownShape(const Value &value, SourceSpan at) {
  llvm::SmallVector<int64_t, 4> shape;
  auto add = [&](const Value &item) -> llvm::LogicalResult {
    auto size = knownInt(item, "a shape", at);
    if (failed(size))
      return llvm::failure();
    shape.push_back(*size);
    return llvm::success();
  };
  if (auto *tuple = value.getIf<Tuple>()) {
    for (const Value &item : tuple->items)
      if (failed(add(item)))
        return llvm::failure();
  } else if (failed(add(value))) {
    return llvm::failure();
  }
  if (failed(checkShape(shape, at)))
    return llvm::failure();
  return shape;
}

//===--- truth
//------------------------------------------------------------------------------------===//

FailureOr<std::optional<bool>> Semantic::knownTruth(const Value &value, SourceSpan at) {
  if (value.isTensor())
    return std::optional<bool>();
  if (auto *object = value.getIf<HostObject>()) {
    auto result = host.truth(*object);
    if (!result.value)
      return error(diag::HostTruthFailed, at, object->typeName, result.error.message);
    return result.value;
  }
  return truthOfKnown(value);
}

FailureOr<Tensor> Semantic::truth(const Value &value, SourceSpan at) {
  auto *tensor = value.getIf<Tensor>();
  if (!tensor) {
    auto known = knownTruth(value, at);
    if (failed(known))
      return llvm::failure();
    return constant(Value(known->value_or(false)), Type::of(DType::Int1));
  }
  if (tensor->type.isDescriptor)
    return error(diag::CannotConvertToTensor, at, value.kindName());
  return cast(*tensor, DType::Int1, at); // of a pointer: whether it is not null
}

FailureOr<Tensor> Semantic::condition(const Value &value, SourceSpan at) {
  auto result = truth(value, at);
  if (failed(result) || !result->type.isBlock())
    return result;
  if (result->type.numElements() != 1)
    return error(diag::BlockAsCondition, at, value.kindName());
  warning(diag::SizeOneCondition, at, value.kindName());
  mlir::Type scalar = result->type.element().toIR(*builder.getContext());
  return wrap(tile::UnsplatOp::create(builder, loc(), scalar, result->ir), result->type.element());
}

} // namespace nereid::frontend
