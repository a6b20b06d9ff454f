// Python's arithmetic on known values: integers of any size, floats, strings, tuples.
#include "frontend/known.h"

#include "frontend/class.h"
#include "frontend/limits.h"
#include "frontend/semantic.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

namespace nereid::frontend {

using llvm::APInt;
using llvm::APSInt;
using Folded = std::variant<Value, KnownError>;

/// Results of more bits than this are refused: nothing a kernel needs, and they could eat all
/// memory.
static constexpr unsigned maxBits = maxIntegerBits;

/// The narrowest width of at least 64 bits.
static Value normalized(const APSInt &value) {
  unsigned width = std::max(64u, value.getSignificantBits());
  return Value(APSInt(value.sextOrTrunc(width), /*isUnsigned=*/false));
}

static std::optional<APSInt> asInt(const Value &value) {
  if (auto *number = value.getIf<APSInt>())
    return *number;
  if (auto *flag = value.getIf<bool>())
    return APSInt(APInt(64, *flag ? 1 : 0), false);
  return std::nullopt;
}

double toDouble(const APSInt &value) {
  llvm::APFloat number(llvm::APFloat::IEEEdouble());
  number.convertFromAPInt(value, /*IsSigned=*/true, llvm::APFloat::rmNearestTiesToEven);
  return number.convertToDouble();
}

static std::optional<double> asDouble(const Value &value) {
  if (auto *number = value.getIf<double>())
    return *number;
  if (auto number = asInt(value))
    return toDouble(*number);
  return std::nullopt;
}

static APSInt widened(const APSInt &value, unsigned width) {
  return APSInt(value.sext(std::max(width, value.getBitWidth())), false);
}

static Folded divide(const APSInt &a, const APSInt &b) {
  if (b.isZero())
    return KnownError::DivisionByZero;
  if (a.getSignificantBits() <= 53 && b.getSignificantBits() <= 53)
    return Value(toDouble(a) / toDouble(b));
  // A quotient of 66 or 67 bits, the last one set where there is a remainder, and scaled: one
  // rounding in all.
  unsigned bitsA = a.abs().getActiveBits(), bitsB = b.abs().getActiveBits();
  int scale = 66 - int(bitsA) + int(bitsB);
  unsigned width = std::max(a.getBitWidth(), b.getBitWidth()) + unsigned(std::abs(scale)) + 1;
  APInt x = widened(a, width).abs(), y = widened(b, width).abs(), whole, rest;
  APInt::udivrem(scale > 0 ? x.shl(unsigned(scale)) : x, scale < 0 ? y.shl(unsigned(-scale)) : y,
                 whole, rest);
  if (!rest.isZero())
    whole |= 1;
  llvm::APFloat quotient(llvm::APFloat::IEEEquad());
  quotient.convertFromAPInt(whole, /*IsSigned=*/false, llvm::APFloat::rmNearestTiesToEven);
  quotient = llvm::scalbn(quotient, -scale, llvm::APFloat::rmNearestTiesToEven);
  if (a.isNegative() != b.isNegative())
    quotient.changeSign();
  bool lost;
  quotient.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
  double result = quotient.convertToDouble();
  if (std::isinf(result))
    return KnownError::TooLarge;
  return Value(result);
}

/// Floor division and its remainder, which has the divisor's sign.
static std::pair<APSInt, APSInt> floorDivide(const APSInt &a, const APSInt &b) {
  APInt quotient, remainder;
  APInt::sdivrem(a, b, quotient, remainder);
  if (!remainder.isZero() && remainder.isNegative() != b.isNegative()) {
    quotient -= 1;
    remainder += b;
  }
  return {APSInt(quotient, false), APSInt(remainder, false)};
}

static Folded power(const APSInt &base, const APSInt &exponent) {
  if (exponent.isNegative()) {
    if (base.isZero())
      return KnownError::DivisionByZero;
    return Value(std::pow(toDouble(base), toDouble(exponent)));
  }
  unsigned baseBits = base.getSignificantBits();
  bool trivial = base.isZero() || base.isOne() || base.isAllOnes();
  if (!trivial &&
      (exponent.getActiveBits() > 32 || exponent.getZExtValue() * uint64_t(baseBits) > maxBits))
    return KnownError::TooLarge;
  if (trivial) { // 0, 1 and -1 have short answers for any exponent
    if (exponent.isZero() || base.isOne())
      return Value::integer(1);
    if (base.isZero())
      return Value::integer(0);
    return Value::integer(exponent[0] ? -1 : 1);
  }
  uint64_t count = exponent.getZExtValue();
  APSInt result = widened(base, unsigned(count * baseBits) + 65);
  APSInt square = result;
  result = 1;
  for (; count; count >>= 1) {
    if (count & 1)
      result = APSInt(result * square, false);
    if (count > 1)
      square = APSInt(square * square, false);
  }
  return normalized(result);
}

static Folded foldInts(BinaryOp op, const APSInt &a, const APSInt &b) {
  unsigned wide = std::max(a.getBitWidth(), b.getBitWidth()) + 1;
  switch (op) {
  case BinaryOp::Add:
    return normalized(APSInt(widened(a, wide) + widened(b, wide), false));
  case BinaryOp::Sub:
    return normalized(APSInt(widened(a, wide) - widened(b, wide), false));
  case BinaryOp::Mult: {
    unsigned width = a.getBitWidth() + b.getBitWidth();
    if (width > 2 * maxBits)
      return KnownError::TooLarge;
    return normalized(APSInt(widened(a, width) * widened(b, width), false));
  }
  case BinaryOp::Div:
    return divide(a, b);
  case BinaryOp::FloorDiv:
  case BinaryOp::Mod: {
    if (b.isZero())
      return KnownError::DivisionByZero;
    auto [quotient, remainder] = floorDivide(widened(a, wide), widened(b, wide));
    return normalized(op == BinaryOp::Mod ? remainder : quotient);
  }
  case BinaryOp::Pow:
    return power(a, b);
  case BinaryOp::LShift: {
    if (b.isNegative())
      return KnownError::NegativeShift;
    if (a.isZero())
      return Value::integer(0);
    if (b.getActiveBits() > 32 || b.getZExtValue() > maxBits)
      return KnownError::TooLarge;
    unsigned count = unsigned(b.getZExtValue());
    return normalized(APSInt(widened(a, a.getBitWidth() + count).shl(count), false));
  }
  case BinaryOp::RShift: {
    if (b.isNegative())
      return KnownError::NegativeShift;
    uint64_t count = b.getActiveBits() > 32 ? a.getBitWidth() : b.getZExtValue();
    return normalized(APSInt(a.ashr(unsigned(std::min<uint64_t>(count, a.getBitWidth()))), false));
  }
  case BinaryOp::BitAnd:
    return normalized(APSInt(widened(a, wide) & widened(b, wide), false));
  case BinaryOp::BitOr:
    return normalized(APSInt(widened(a, wide) | widened(b, wide), false));
  case BinaryOp::BitXor:
    return normalized(APSInt(widened(a, wide) ^ widened(b, wide), false));
  case BinaryOp::MatMult:
    return KnownError::Unsupported;
  }
  llvm_unreachable("every operator is folded");
}

static Folded foldFloats(BinaryOp op, double a, double b) {
  switch (op) {
  case BinaryOp::Add:
    return Value(a + b);
  case BinaryOp::Sub:
    return Value(a - b);
  case BinaryOp::Mult:
    return Value(a * b);
  case BinaryOp::Div:
    if (b == 0)
      return KnownError::DivisionByZero;
    return Value(a / b);
  case BinaryOp::FloorDiv:
  case BinaryOp::Mod: {
    if (b == 0)
      return KnownError::DivisionByZero;
    double remainder = std::fmod(a, b);
    double quotient = (a - remainder) / b;
    if (remainder != 0 && (remainder < 0) != (b < 0)) {
      remainder += b;
      quotient -= 1;
    }
    if (remainder == 0)
      remainder = std::copysign(0.0, b);
    if (op == BinaryOp::Mod)
      return Value(remainder);
    double rounded = std::floor(quotient);
    if (quotient - rounded > 0.5)
      rounded += 1;
    return Value(quotient == 0 ? std::copysign(0.0, a / b) : rounded);
  }
  case BinaryOp::Pow: {
    if (a == 0 && b < 0)
      return KnownError::DivisionByZero;
    if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b))
      return KnownError::ComplexPower;
    double result = std::pow(a, b);
    if (std::isinf(result) && std::isfinite(a) && std::isfinite(b))
      return KnownError::TooLarge;
    return Value(result);
  }
  default:
    return KnownError::Unsupported;
  }
}

/// `sequence * count`; negative counts give nothing.
static std::optional<uint64_t> repeatCount(const Value &value, size_t length) {
  auto count = asInt(value);
  if (!count)
    return std::nullopt;
  if (count->isNegative() || length == 0)
    return 0;
  if (count->getActiveBits() > 32)
    return UINT64_MAX;
  return count->getZExtValue();
}

static Folded repeated(const Value &sequence, const Value &times) {
  auto *tuple = sequence.getIf<Tuple>();
  size_t length = tuple ? tuple->items.size() : sequence.get<std::string>().size();
  auto count = repeatCount(times, length);
  if (!count)
    return KnownError::Unsupported;
  uint64_t each = std::max<uint64_t>(1, tuple ? sequence.weight() : length);
  if (*count > maxValueBytes / each)
    return KnownError::TooLarge;
  if (tuple) {
    std::vector<Value> items;
    for (uint64_t i = 0; i < *count; ++i)
      items.insert(items.end(), tuple->items.begin(), tuple->items.end());
    return Value(Tuple{std::move(items)});
  }
  std::string text;
  for (uint64_t i = 0; i < *count; ++i)
    text += sequence.get<std::string>();
  return Value(std::move(text));
}

Folded foldBinary(BinaryOp op, const Value &a, const Value &b) {
  if (a.isNumber() && b.isNumber()) {
    if (a.is<double>() || b.is<double>())
      return foldFloats(op, *asDouble(a), *asDouble(b));
    bool isLogic = op == BinaryOp::BitAnd || op == BinaryOp::BitOr || op == BinaryOp::BitXor;
    if (isLogic && a.is<bool>() && b.is<bool>()) {
      bool x = a.get<bool>(), y = b.get<bool>();
      return Value(op == BinaryOp::BitAnd ? (x && y) : op == BinaryOp::BitOr ? (x || y) : x != y);
    }
    return foldInts(op, *asInt(a), *asInt(b));
  }
  auto isSequence = [](const Value &value) { return value.is<Tuple>() || value.is<std::string>(); };
  bool texts = a.is<std::string>() && b.is<std::string>();
  bool tuples = a.is<Tuple>() && b.is<Tuple>();
  if (op == BinaryOp::Add && (texts || tuples)) {
    if (llvm::SaturatingAdd(a.weight(), b.weight()) > maxValueBytes)
      return KnownError::TooLarge;
    if (texts)
      return Value(a.get<std::string>() + b.get<std::string>());
    std::vector<Value> items = a.get<Tuple>().items;
    const std::vector<Value> &more = b.get<Tuple>().items;
    items.insert(items.end(), more.begin(), more.end());
    return Value(Tuple{std::move(items)});
  }
  if (op == BinaryOp::Mult && isSequence(a))
    return repeated(a, b);
  if (op == BinaryOp::Mult && isSequence(b))
    return repeated(b, a);
  return KnownError::Unsupported;
}

/// -1, 0, 1, or nothing when unordered (NaN).
static std::optional<int> orderOf(const Value &a, const Value &b) {
  auto intA = asInt(a), intB = asInt(b);
  if (intA && intB)
    return APSInt::compareValues(*intA, *intB);
  if (intB) {
    auto order = orderOf(b, a);
    return order ? std::optional<int>(-*order) : std::nullopt;
  }
  double y = b.get<double>();
  if (intA && std::isfinite(y)) { // exactly, however large
    APSInt floor(1100, /*isUnsigned=*/false);
    bool exact;
    llvm::APFloat(y).convertToInteger(floor, llvm::APFloat::rmTowardNegative, &exact);
    int order = APSInt::compareValues(*intA, floor);
    return order == 0 && !exact ? -1 : order;
  }
  double x = intA ? 0 : *asDouble(a); // against what is not finite any number will do
  if (std::isnan(x) || std::isnan(y))
    return std::nullopt;
  return x < y ? -1 : x > y ? 1 : 0;
}

static bool matches(CompareOp op, int order) {
  switch (op) {
  case CompareOp::Eq:
    return order == 0;
  case CompareOp::NotEq:
    return order != 0;
  case CompareOp::Lt:
    return order < 0;
  case CompareOp::LtE:
    return order <= 0;
  case CompareOp::Gt:
    return order > 0;
  case CompareOp::GtE:
    return order >= 0;
  default:
    return false;
  }
}

static bool equal(const Value &a, const Value &b) {
  if (a.isNumber() && b.isNumber())
    return orderOf(a, b) == 0;
  if (a.variant().index() != b.variant().index())
    return false;
  if (auto *text = a.getIf<std::string>())
    return *text == b.get<std::string>();
  if (auto *type = a.getIf<TypeValue>())
    return type->type == b.get<TypeValue>().type;
  if (auto *function = a.getIf<FunctionValue>())
    return function->function == b.get<FunctionValue>().function;
  if (auto *builtin = a.getIf<BuiltinValue>())
    return builtin->builtin == b.get<BuiltinValue>().builtin;
  if (auto *module = a.getIf<ModuleValue>())
    return module->name == b.get<ModuleValue>().name;
  if (auto *object = a.getIf<HostObject>())
    return object->handle == b.get<HostObject>().handle;
  if (auto *cls = a.getIf<ClassValue>())
    return cls->cls->isSame(*b.get<ClassValue>().cls);
  if (auto *aggregate = a.getIf<Aggregate>();
      aggregate && !aggregate->cls->isSame(*b.get<Aggregate>().cls))
    return false;
  if (itemsOf(a)) {
    const std::vector<Value> &x = *itemsOf(a), &y = *itemsOf(b);
    return x.size() == y.size() &&
           std::equal(x.begin(), x.end(), y.begin(),
                      [](const Value &p, const Value &q) { return equal(p, q); });
  }
  if (auto *tensor = a.getIf<Tensor>())
    return tensor->ir == b.get<Tensor>().ir;
  return a.isNone();
}

/// `a is b`: for values of ours, equality of the same kind.
static bool same(const Value &a, const Value &b) {
  return a.variant().index() == b.variant().index() && equal(a, b);
}

Folded foldCompare(CompareOp op, const Value &a, const Value &b) {
  switch (op) {
  case CompareOp::Is:
    return Value(same(a, b));
  case CompareOp::IsNot:
    return Value(!same(a, b));
  case CompareOp::In:
  case CompareOp::NotIn: {
    bool found;
    if (auto *tuple = b.getIf<Tuple>())
      found = llvm::any_of(tuple->items, [&](const Value &item) { return equal(a, item); });
    else if (b.is<std::string>() && a.is<std::string>())
      found = b.get<std::string>().find(a.get<std::string>()) != std::string::npos;
    else
      return KnownError::Unsupported;
    return Value(found == (op == CompareOp::In));
  }
  case CompareOp::Eq:
    return Value(equal(a, b));
  case CompareOp::NotEq:
    return Value(!equal(a, b));
  default:
    break;
  }
  if (a.isNumber() && b.isNumber()) {
    auto order = orderOf(a, b);
    return Value(order && matches(op, *order));
  }
  if (a.is<std::string>() && b.is<std::string>()) {
    int order = a.get<std::string>().compare(b.get<std::string>());
    return Value(matches(op, order));
  }
  if (a.is<Tuple>() && b.is<Tuple>()) {
    const std::vector<Value> &x = a.get<Tuple>().items, &y = b.get<Tuple>().items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!equal(x[i], y[i]))
        return foldCompare(op, x[i], y[i]);
    return Value(matches(op, int(x.size() > y.size()) - int(x.size() < y.size())));
  }
  return KnownError::Unsupported;
}

Folded foldUnary(UnaryOpKind op, const Value &a) {
  if (op == UnaryOpKind::Not) {
    auto truth = truthOfKnown(a);
    if (!truth)
      return KnownError::Unsupported;
    return Value(!*truth);
  }
  if (auto *number = a.getIf<double>()) {
    if (op == UnaryOpKind::USub)
      return Value(-*number);
    if (op == UnaryOpKind::UAdd)
      return a;
    return KnownError::Unsupported;
  }
  auto number = asInt(a);
  if (!number)
    return KnownError::Unsupported;
  APSInt wide = widened(*number, number->getBitWidth() + 1);
  switch (op) {
  case UnaryOpKind::USub:
    return normalized(APSInt(-static_cast<const APInt &>(wide), false));
  case UnaryOpKind::Invert:
    return normalized(APSInt(~static_cast<const APInt &>(wide), false));
  default:
    return normalized(wide);
  }
}

std::optional<bool> truthOfKnown(const Value &value) {
  if (value.isNone())
    return false;
  if (auto *flag = value.getIf<bool>())
    return *flag;
  if (auto *number = value.getIf<APSInt>())
    return !number->isZero();
  if (auto *number = value.getIf<double>())
    return *number != 0;
  if (auto *text = value.getIf<std::string>())
    return !text->empty();
  if (auto *tuple = value.getIf<Tuple>())
    return !tuple->items.empty();
  if (value.is<HostObject>() || value.isTensor())
    return std::nullopt;
  return true;
}

std::string strOfKnown(const Value &value) {
  if (auto *text = value.getIf<std::string>())
    return *text;
  return value.repr();
}

} // namespace nereid::frontend
