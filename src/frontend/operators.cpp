// Operators: promotion of their operands and the operations they stand for.
//
// The rules are Triton's: they follow C and PyTorch in parts and neither as a whole.
// docs/reference/language.md lists them; tests/unit/frontend/promotion_test.cpp holds the table.
#include "frontend/limits.h"
#include "frontend/semantic.h"
#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace nereid::frontend {

namespace arith = mlir::arith;
using llvm::APInt;
using llvm::APSInt;
using llvm::failure;

static llvm::StringRef spelled(BinaryOp op) {
  std::string_view text = syntax::spelling(op);
  return {text.data(), text.size()};
}

//===--- promotion
//--------------------------------------------------------------------------------===//

/// bool < integers < floats.
static int rankOfKind(DType type) {
  return isBool(type) ? 0 : isInt(type) ? 1 : 2;
}

/// C's usual conversions: the wider one; of equal width the unsigned one.
static DType promoteInts(DType a, DType b) {
  unsigned bitsA = info(a).bits, bitsB = info(b).bits;
  if (isSignedInt(a) == isSignedInt(b))
    return bitsA > bitsB ? a : b;
  if (!isSignedInt(a))
    return bitsA >= bitsB ? a : b;
  return bitsB >= bitsA ? b : a;
}

FailureOr<DType> Semantic::commonType(DType a, bool aIsNumber, DType b, bool bIsNumber,
                                      bool isDivOrMod, SourceSpan at) {
  auto is = [&](DType type) { return a == type || b == type; };
  auto half = [&](DType type) { return isDivOrMod ? DType::Float32 : type; };
  // Since 3.9 no float below fp32 is divided as such, whatever the other operand is.
  bool widens = isDivOrMod && since(309);
  // A number of the same or a lower kind takes the tensor's type.
  if (aIsNumber != bIsNumber) {
    DType number = aIsNumber ? a : b, tensor = aIsNumber ? b : a;
    if (rankOfKind(number) <= rankOfKind(tensor)) {
      bool halves = tensor == DType::Float16 || tensor == DType::BFloat16;
      return halves || (widens && isFloat8(tensor)) ? half(tensor) : tensor;
    }
  }
  if (is(DType::Float64))
    return DType::Float64;
  if (is(DType::Float32) || (widens && (isFloat(a) || isFloat(b))))
    return DType::Float32;
  if (is(DType::Float16))
    return half(DType::Float16);
  if (is(DType::BFloat16))
    return a == b ? half(DType::BFloat16) : DType::Float32;
  if (isFloat8(a) && isFloat8(b))
    return a == b ? a : DType::Float16;
  if (!isInt(a) || !isInt(b))
    return error(diag::UnexpectedTypes, at, info(a).shortName, info(b).shortName);
  if (isDivOrMod && isSignedInt(a) != isSignedInt(b))
    return error(diag::DifferentSignedness, at, info(a).shortName, info(b).shortName);
  return promoteInts(a, b);
}

static bool isNegative(const Value &number) {
  if (auto *integer = number.getIf<APSInt>())
    return integer->isNegative();
  auto *real = number.getIf<double>();
  return real && *real < 0;
}

/// Whether an integer type holds the number.
static bool fits(const Value &number, DType type) {
  auto *integer = number.getIf<APSInt>();
  if (!integer)
    return true;
  unsigned bits = info(type).bits;
  return isSignedInt(type) ? integer->isSignedIntN(bits)
                           : !integer->isNegative() && integer->isIntN(bits);
}

/// Reports a number that the integer type of the operation does not hold.
static llvm::LogicalResult checkNumber(Semantic &s, const Value &number, DType type,
                                       const char *operation, SourceSpan at) {
  if (!isInt(type))
    return llvm::success();
  if (!isSignedInt(type) && isNegative(number))
    return s.error(diag::NegativeWithUnsigned, at, operation, number.repr(), info(type).shortName);
  if (!isBool(type) && !fits(number, type))
    return s.error(diag::ScalarOutOfRange, at, operation, number.repr(), info(type).shortName);
  return llvm::success();
}

FailureOr<std::pair<Tensor, Tensor>> Semantic::promote(const Value &a, const Value &b,
                                                       PromoteOptions how, SourceSpan atA,
                                                       SourceSpan atB) {
  bool aIsNumber = how.numbersAdapt && a.isNumber(), bIsNumber = how.numbersAdapt && b.isNumber();
  Type typeA, typeB;
  Tensor x, y;
  auto prepare = [&](const Value &value, bool isNumber, Type &type, Tensor &tensor,
                     SourceSpan at) -> llvm::LogicalResult {
    if (isNumber) {
      auto literal = literalType(value, at);
      if (succeeded(literal))
        type = *literal;
      return llvm::success(succeeded(literal));
    }
    auto made = toTensor(value, at);
    if (succeeded(made)) {
      tensor = *made;
      type = made->type;
    }
    return llvm::success(succeeded(made));
  };
  if (failed(prepare(a, aIsNumber, typeA, x, atA)) || failed(prepare(b, bIsNumber, typeB, y, atB)))
    return failure();

  if (typeA.isPointer || typeB.isPointer) {
    if (!how.allowPointers || typeA.element() != typeB.element())
      return error(diag::InvalidOperandTypes, {}, how.operation, typeA.element().str(),
                   typeB.element().str());
    if (failed(broadcastPair(x, y)))
      return failure();
    return std::make_pair(x, y);
  }

  if (failed(checkConvertible(typeA.scalar, atA)) || failed(checkConvertible(typeB.scalar, atB)))
    return failure();
  auto common = commonType(typeA.scalar, aIsNumber, typeB.scalar, bIsNumber, how.isDivOrMod);
  if (failed(common))
    return failure();
  for (auto [value, isNumber, at] :
       {std::tuple(&a, aIsNumber, atA), std::tuple(&b, bIsNumber, atB)}) {
    if (isNumber && failed(checkNumber(*this, *value, *common, how.operation, at)))
      return failure();
  }
  // Numbers become constants of the final type and shape at once.
  auto convert = [&](const Value &value, bool isNumber, const Tensor &tensor, const Type &other,
                     SourceSpan at) -> FailureOr<Tensor> {
    if (isNumber)
      return constant(value, Type::of(*common, other.shape));
    return cast(tensor, *common, at);
  };
  auto left = convert(a, aIsNumber, x, typeB, atA);
  auto right = convert(b, bIsNumber, y, typeA, atB);
  if (failed(left) || failed(right) || failed(broadcastPair(*left, *right)))
    return failure();
  return std::make_pair(*left, *right);
}

FailureOr<llvm::SmallVector<Tensor, 3>> Semantic::promoteThree(llvm::ArrayRef<const Value *> values,
                                                               PromoteOptions how,
                                                               llvm::ArrayRef<SourceSpan> places) {
  llvm::SmallVector<Tensor, 3> operands(values.size());
  // Of the tensors and of the numbers by themselves, then of both.
  std::optional<DType> ofTensors, ofNumbers;
  for (auto [value, at, operand] : llvm::zip_equal(values, places, operands)) {
    bool isNumber = value->isNumber();
    Type type;
    if (isNumber) {
      auto literal = literalType(*value, at);
      if (failed(literal))
        return failure();
      type = *literal;
    } else {
      auto tensor = toTensor(*value, at);
      if (failed(tensor))
        return failure();
      operand = *tensor;
      type = tensor->type;
      if (type.isPointer)
        return error(diag::WrongUnaryOperand, at, how.operation, type.element().str());
      if (failed(checkConvertible(type.scalar, at)))
        return failure();
    }
    std::optional<DType> &known = isNumber ? ofNumbers : ofTensors;
    auto joined = known ? commonType(*known, false, type.scalar, false, how.isDivOrMod, at)
                        : FailureOr<DType>(type.scalar);
    if (failed(joined))
      return failure();
    known = *joined;
  }
  DType common = ofTensors ? *ofTensors : *ofNumbers;
  if (ofTensors && ofNumbers) {
    auto joined = commonType(*ofTensors, false, *ofNumbers, true, how.isDivOrMod);
    if (failed(joined))
      return failure();
    common = *joined;
  }
  for (auto [value, at, operand] : llvm::zip_equal(values, places, operands)) {
    if (value->isNumber()) {
      if (failed(checkNumber(*this, *value, common, how.operation, at)))
        return failure();
      operand = constant(*value, Type::of(common));
      continue;
    }
    auto converted = cast(operand, common, at);
    if (failed(converted))
      return failure();
    operand = *converted;
  }
  for (size_t i = 0; i < operands.size(); ++i)
    for (size_t j = i + 1; j < operands.size(); ++j)
      if (failed(broadcastPair(operands[i], operands[j])))
        return failure();
  return operands;
}

//===--- arithmetic on equal types
//----------------------------------------------------------------===//

template <typename Op> static mlir::Value emit(Semantic &s, const Tensor &a, const Tensor &b) {
  return Op::create(s.builder, s.loc(), a.ir, b.ir);
}

static mlir::Value emitFloat(Semantic &s, BinaryOp op, const Tensor &a, const Tensor &b) {
  switch (op) {
  case BinaryOp::Add:
    return emit<arith::AddFOp>(s, a, b);
  case BinaryOp::Sub:
    return emit<arith::SubFOp>(s, a, b);
  case BinaryOp::Mult:
    return emit<arith::MulFOp>(s, a, b);
  case BinaryOp::Div:
    return emit<arith::DivFOp>(s, a, b);
  case BinaryOp::Mod:
    return emit<arith::RemFOp>(s, a, b);
  default:
    llvm_unreachable("not an operator of floats");
  }
}

static mlir::Value emitInt(Semantic &s, BinaryOp op, const Tensor &a, const Tensor &b) {
  bool isSigned = isSignedInt(a.type.scalar);
  switch (op) {
  case BinaryOp::Add:
    return emit<arith::AddIOp>(s, a, b);
  case BinaryOp::Sub:
    return emit<arith::SubIOp>(s, a, b);
  case BinaryOp::Mult:
    return emit<arith::MulIOp>(s, a, b);
  case BinaryOp::FloorDiv:
    return isSigned ? emit<arith::DivSIOp>(s, a, b) : emit<arith::DivUIOp>(s, a, b);
  case BinaryOp::Mod:
    return isSigned ? emit<arith::RemSIOp>(s, a, b) : emit<arith::RemUIOp>(s, a, b);
  case BinaryOp::BitAnd:
    return emit<arith::AndIOp>(s, a, b);
  case BinaryOp::BitOr:
    return emit<arith::OrIOp>(s, a, b);
  case BinaryOp::BitXor:
    return emit<arith::XOrIOp>(s, a, b);
  case BinaryOp::LShift:
    return emit<arith::ShLIOp>(s, a, b);
  default: // `>>` goes by the kind of its left operand: Semantic::binary
    llvm_unreachable("not an operator of integers");
  }
}

/// An 8-bit float, which no target computes with, widened to fp32.
static Tensor widenFloat8(Semantic &s, const Tensor &value) {
  return *s.cast(value, DType::Float32);
}

Tensor Semantic::emitBinary(BinaryOp op, const Tensor &a, const Tensor &b) {
  if (isFloat8(a.type.scalar))
    return *cast(emitBinary(op, widenFloat8(*this, a), widenFloat8(*this, b)), a.type.scalar);
  mlir::Value result =
      isFloat(a.type.scalar) ? emitFloat(*this, op, a, b) : emitInt(*this, op, a, b);
  return wrap(result, a.type);
}

static arith::CmpFPredicate floatPredicate(CompareOp op) {
  switch (op) {
  case CompareOp::Eq:
    return arith::CmpFPredicate::OEQ;
  case CompareOp::NotEq:
    return arith::CmpFPredicate::UNE; // NaN != NaN
  case CompareOp::Lt:
    return arith::CmpFPredicate::OLT;
  case CompareOp::LtE:
    return arith::CmpFPredicate::OLE;
  case CompareOp::Gt:
    return arith::CmpFPredicate::OGT;
  case CompareOp::GtE:
    return arith::CmpFPredicate::OGE;
  default:
    llvm_unreachable("not a comparison of numbers");
  }
}

static arith::CmpIPredicate intPredicate(CompareOp op, bool isSigned) {
  using P = arith::CmpIPredicate;
  switch (op) {
  case CompareOp::Eq:
    return P::eq;
  case CompareOp::NotEq:
    return P::ne;
  case CompareOp::Lt:
    return isSigned ? P::slt : P::ult;
  case CompareOp::LtE:
    return isSigned ? P::sle : P::ule;
  case CompareOp::Gt:
    return isSigned ? P::sgt : P::ugt;
  case CompareOp::GtE:
    return isSigned ? P::sge : P::uge;
  default:
    llvm_unreachable("not a comparison of numbers");
  }
}

Tensor Semantic::emitCompare(CompareOp op, const Tensor &a, const Tensor &b) {
  Type result = a.type.withScalar(DType::Int1);
  if (isFloat8(a.type.scalar))
    return emitCompare(op, widenFloat8(*this, a), widenFloat8(*this, b));
  if (isFloat(a.type.scalar))
    return wrap(arith::CmpFOp::create(builder, loc(), floatPredicate(op), a.ir, b.ir), result);
  auto predicate = intPredicate(op, isSignedInt(a.type.scalar));
  return wrap(arith::CmpIOp::create(builder, loc(), predicate, a.ir, b.ir), result);
}

/// With `debug`, + - * on integers narrower than 64 bits are repeated in 64 bits and asserted to
/// fit. The prelude's own arithmetic may wrap, in lanes that it discards or on purpose: there only
/// calls of `add`, `sub` and `mul` are checked.
void Semantic::checkOverflow(BinaryOp op, const Tensor &a, const Tensor &b,
                             std::optional<bool> asked) {
  DType type = a.type.scalar;
  if (!options.debug || !options.sanitizeOverflow || !isInt(type) || info(type).bits >= 64 ||
      isBool(type) || !asked.value_or(!evaluator.insidePrelude()))
    return;
  const char *name = op == BinaryOp::Add ? "add" : op == BinaryOp::Sub ? "sub" : "mul";
  Tensor wideA = *cast(a, DType::Int64), wideB = *cast(b, DType::Int64);
  Tensor exact = emitBinary(op, wideA, wideB);
  unsigned bits = info(type).bits;
  int64_t high = isSignedInt(type) ? APInt::getSignedMaxValue(bits).getSExtValue()
                                   : int64_t(APInt::getMaxValue(bits).getZExtValue());
  int64_t low = isSignedInt(type) ? APInt::getSignedMinValue(bits).getSExtValue() : 0;
  Tensor below = emitCompare(CompareOp::LtE, exact, constant(high, exact.type));
  Tensor above = emitCompare(CompareOp::GtE, exact, constant(low, exact.type));
  std::string message =
      std::string(info(type).shortName) + " overflow detected for operation " + name;
  tile::AssertOp::create(builder, loc(), emit<arith::AndIOp>(*this, below, above), message,
                         mlir::Value());
}

//===--- pointers
//---------------------------------------------------------------------------------===//

FailureOr<Tensor> Semantic::addPointer(const Tensor &pointer, Tensor offset, SourceSpan at) {
  if (!isInt(offset.type.scalar) || offset.type.isPointer)
    return error(diag::InvalidOperandTypes, at, "+", pointer.type.element().str(),
                 offset.type.element().str());
  // `tile.addptr` extends by the sign, so unsigned offsets are widened here.
  if (!isSignedInt(offset.type.scalar) && info(offset.type.scalar).bits < 64) {
    auto wide = cast(offset, DType::Int64, at);
    if (failed(wide))
      return failure();
    offset = *wide;
  }
  Tensor base = pointer;
  if (failed(broadcastPair(base, offset, at)))
    return failure();
  return wrap(tile::AddPtrOp::create(builder, loc(), base.ir.getType(), base.ir, offset.ir),
              base.type);
}

static bool isPointer(const Value &value) {
  auto *tensor = value.getIf<Tensor>();
  return tensor && tensor->type.isPointer;
}

/// `ptr + n`, `n + ptr`, `ptr - n`.
static FailureOr<Value> pointerArithmetic(Semantic &s, BinaryOp op, const Value &a, const Value &b,
                                          SourceSpan atA, SourceSpan atB) {
  auto typeOf = [&](const Value &value) {
    auto *tensor = value.getIf<Tensor>();
    return tensor ? tensor->type.element().str() : value.kindName();
  };
  if (isPointer(a) && isPointer(b) && op == BinaryOp::Add)
    return s.error(diag::PointersAdded, {});
  bool allowed = op == BinaryOp::Add || (op == BinaryOp::Sub && isPointer(a));
  if (!allowed || (isPointer(a) && isPointer(b)))
    return s.error(diag::InvalidOperandTypes, {}, spelled(op), typeOf(a), typeOf(b));
  const Value &pointer = isPointer(a) ? a : b, &number = isPointer(a) ? b : a;
  SourceSpan at = isPointer(a) ? atB : atA;
  auto offset = s.toTensor(number, at);
  if (failed(offset))
    return failure();
  if (!isInt(offset->type.scalar))
    return s.error(diag::InvalidOperandTypes, {}, spelled(op), typeOf(a), typeOf(b));
  if (op == BinaryOp::Sub) {
    if (!isSignedInt(offset->type.scalar)) // so that the negative is one
      *offset = *s.cast(*offset, DType::Int64);
    *offset = s.emitBinary(BinaryOp::Sub, s.constant(0, offset->type), *offset);
  }
  auto moved = s.addPointer(pointer.get<Tensor>(), *offset, at);
  if (failed(moved))
    return failure();
  return Value(*moved);
}

//===--- operators
//--------------------------------------------------------------------------------===//

/// Reports why known operands cannot be combined.
static llvm::LogicalResult reportKnown(Semantic &s, KnownError why, llvm::StringRef op,
                                       const Value &a, const Value *b) {
  switch (why) {
  case KnownError::Unsupported:
    if (b)
      return s.error(diag::UnsupportedOperands, {}, op, a.kindName(), b->kindName());
    return s.error(diag::UnsupportedOperand, {}, op, a.kindName());
  case KnownError::DivisionByZero:
    return s.error(diag::KnownDivisionByZero, {}, op);
  case KnownError::NegativeShift:
    return s.error(diag::KnownNegativeShift, {}, op);
  case KnownError::TooLarge:
    return s.error(diag::KnownTooLarge, {}, op, int64_t(maxIntegerBits), int64_t(maxValueBytes));
  case KnownError::ComplexPower:
    return s.error(diag::KnownComplexPower, {});
  }
  llvm_unreachable("every reason has its diagnostic");
}

static FailureOr<Value> foldedOr(Semantic &s, std::variant<Value, KnownError> folded,
                                 llvm::StringRef op, const Value &a, const Value *b) {
  if (auto *value = std::get_if<Value>(&folded))
    return *value;
  return reportKnown(s, std::get<KnownError>(folded), op, a, b);
}

static bool isOperand(const Value &value) {
  return value.isTensor() || value.isNumber();
}

/// Whether the left operand of `>>` is signed by itself, before any promotion.
static bool shiftsArithmetically(Semantic &s, const Value &a) {
  if (auto *tensor = a.getIf<Tensor>())
    return isSignedInt(tensor->type.scalar);
  auto type = s.literalType(a);
  return succeeded(type) && isSignedInt(type->scalar);
}

static FailureOr<Value> divide(Semantic &s, Tensor a, Tensor b) {
  if (isInt(a.type.scalar)) { // int / int is fp32, whatever their width
    a = *s.cast(a, DType::Float32);
    b = *s.cast(b, DType::Float32);
  }
  return Value(s.emitBinary(BinaryOp::Div, a, b));
}

FailureOr<Value> Semantic::binary(BinaryOp op, const Value &a, const Value &b, SourceSpan atA,
                                  SourceSpan atB, std::optional<bool> checksOverflow) {
  if (!a.isTensor() && !b.isTensor())
    return foldedOr(*this, foldBinary(op, a, b), spelled(op), a, &b);
  if (!isOperand(a) || !isOperand(b) || op == BinaryOp::Pow || op == BinaryOp::MatMult)
    return error(diag::UnsupportedOperands, {}, spelled(op), a.kindName(), b.kindName());
  if (isPointer(a) || isPointer(b))
    return pointerArithmetic(*this, op, a, b, atA, atB);

  PromoteOptions how;
  std::string name = spelled(op).str();
  how.operation = name.c_str();
  how.isDivOrMod = op == BinaryOp::Div || op == BinaryOp::FloorDiv || op == BinaryOp::Mod;
  auto operands = promote(a, b, how, atA, atB);
  if (failed(operands))
    return failure();
  auto &[x, y] = *operands;
  DType type = x.type.scalar;
  switch (op) {
  case BinaryOp::Add:
  case BinaryOp::Sub:
  case BinaryOp::Mult:
    checkOverflow(op, x, y, checksOverflow);
    return Value(emitBinary(op, x, y));
  case BinaryOp::Div:
    return divide(*this, x, y);
  case BinaryOp::Mod:
    return Value(emitBinary(op, x, y));
  default: // the rest is for integers only
    if (!isInt(type)) {
      auto typeOf = [&](const Value &value) {
        auto *tensor = value.getIf<Tensor>();
        return tensor ? tensor->type.element().str() : value.kindName();
      };
      return error(diag::InvalidOperandTypes, {}, name, typeOf(a), typeOf(b));
    }
    if (op == BinaryOp::LShift || op == BinaryOp::RShift) {
      auto *count = b.getIf<APSInt>();
      if (count && APSInt::compareValues(*count, APSInt::get(info(type).bits)) >= 0)
        warning(diag::ShiftTooFar, atB, b.repr(), info(type).bits, info(type).shortName);
    }
    if (op == BinaryOp::RShift) {
      bool isSigned = shiftsArithmetically(*this, a);
      mlir::Value result =
          isSigned ? emit<arith::ShRSIOp>(*this, x, y) : emit<arith::ShRUIOp>(*this, x, y);
      return Value(wrap(result, x.type));
    }
    return Value(emitBinary(op, x, y));
  }
}

FailureOr<Value> Semantic::compare(CompareOp op, const Value &a, const Value &b, SourceSpan atA,
                                   SourceSpan atB) {
  std::string_view spelling = syntax::spelling(op);
  llvm::StringRef name(spelling.data(), spelling.size());
  bool isIdentity = op == CompareOp::Is || op == CompareOp::IsNot;
  if (isIdentity && a.is<HostObject>() && b.is<HostObject>())
    return Value(host.identical(a.get<HostObject>(), b.get<HostObject>()) == (op == CompareOp::Is));
  bool isMembership = op == CompareOp::In || op == CompareOp::NotIn;
  if (isIdentity || isMembership || (!a.isTensor() && !b.isTensor()))
    return foldedOr(*this, foldCompare(op, a, b), name, a, &b);
  if (!isOperand(a) || !isOperand(b))
    return error(diag::UnsupportedOperands, {}, name, a.kindName(), b.kindName());
  PromoteOptions how;
  how.numbersAdapt = since(309); // before, a number was compared with its own type
  std::string text = name.str();
  how.operation = text.c_str();
  auto operands = promote(a, b, how, atA, atB);
  if (failed(operands))
    return failure();
  return Value(emitCompare(op, operands->first, operands->second));
}

FailureOr<Value> Semantic::unary(UnaryOpKind op, const Value &a, SourceSpan at) {
  std::string_view spelling = syntax::spelling(op);
  llvm::StringRef name(spelling.data(), spelling.size());
  auto *tensor = a.getIf<Tensor>();
  if (!tensor) {
    if (op == UnaryOpKind::Not && a.is<HostObject>()) {
      auto known = knownTruth(a, at);
      if (failed(known))
        return failure();
      return Value(!**known);
    }
    return foldedOr(*this, foldUnary(op, a), name, a, nullptr);
  }
  const Type &type = tensor->type;
  if (type.isDescriptor)
    return error(diag::CannotConvertToTensor, at, a.kindName());
  switch (op) {
  case UnaryOpKind::UAdd:
    return Value(wrap(tensor->ir, type));
  case UnaryOpKind::USub: {
    if (type.isPointer)
      return error(diag::WrongUnaryOperand, at, "unary minus", type.element().str());
    if (failed(checkConvertible(type.scalar, at)))
      return failure();
    if (isFloat8(type.scalar))
      return Value(emitBinary(BinaryOp::Mult, *tensor, constant(Value(-1.0), type)));
    if (isFloat(type.scalar)) // the sign is flipped: -0.0 is kept, unlike by 0 - x
      return Value(wrap(arith::NegFOp::create(builder, loc(), tensor->ir), type));
    Tensor zero = constant(0, type);
    checkOverflow(BinaryOp::Sub, zero, *tensor, {});
    return Value(emitBinary(BinaryOp::Sub, zero, *tensor));
  }
  case UnaryOpKind::Invert:
    if (type.isPointer || isFloat(type.scalar))
      return error(diag::WrongUnaryOperand, at, "unary invert", type.element().str());
    return Value(emitBinary(BinaryOp::BitXor, *tensor, constant(-1, type)));
  case UnaryOpKind::Not: {
    if (options.strict && !isBool(type.scalar))
      return error(diag::BitcastWidth, at, info(type.scalar).bits, 1);
    auto flag = truth(a, at);
    if (failed(flag))
      return failure();
    return Value(emitBinary(BinaryOp::BitXor, *flag, constant(Value(true), flag->type)));
  }
  }
  llvm_unreachable("every unary operator is handled");
}

FailureOr<Value> Semantic::logical(bool isAnd, const Value &a, const Value &b, SourceSpan atA,
                                   SourceSpan atB) {
  for (auto [value, at] : {std::pair(&a, atA), std::pair(&b, atB)}) {
    auto *tensor = value->getIf<Tensor>();
    if (tensor && options.strict && !isBool(tensor->type.scalar))
      return error(diag::BitcastWidth, at, info(tensor->type.scalar).bits, 1);
  }
  auto x = truth(a, atA), y = truth(b, atB);
  if (failed(x) || failed(y) || failed(broadcastPair(*x, *y)))
    return failure();
  return Value(emitBinary(isAnd ? BinaryOp::BitAnd : BinaryOp::BitOr, *x, *y));
}

FailureOr<Tensor> Semantic::where(const Value &condition, const Value &a, const Value &b,
                                  SourceSpan atC, SourceSpan atA, SourceSpan atB) {
  auto flag = toTensor(condition, atC);
  if (failed(flag))
    return failure();
  if (!isBool(flag->type.scalar) || flag->type.isPointer) {
    warning(diag::ConditionNotBool, atC, flag->type.element().str());
    auto converted = truth(Value(*flag), atC);
    if (failed(converted))
      return failure();
    *flag = *converted;
  }
  PromoteOptions how;
  how.operation = "where";
  how.allowPointers = true;
  auto operands = promote(a, b, how, atA, atB);
  if (failed(operands))
    return failure();
  auto &[x, y] = *operands;
  // A scalar condition selects whole blocks; otherwise all three take one shape.
  if (flag->type.isBlock()) {
    if (failed(broadcastPair(*flag, x)) || failed(broadcastPair(*flag, y)) ||
        failed(broadcastPair(x, y)))
      return failure();
  }
  return wrap(arith::SelectOp::create(builder, loc(), flag->ir, x.ir, y.ir), x.type);
}

} // namespace nereid::frontend
