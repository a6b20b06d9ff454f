#include "DeviceMath.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace llvm;

namespace nereid::test {
namespace {

template <typename T> std::optional<T> compute(StringRef name, ArrayRef<T> x) {
  using One = T (*)(T);
  using Two = T (*)(T, T);
  if (name == "fma" && x.size() == 3)
    return std::fma(x[0], x[1], x[2]);
  if (x.size() == 1) {
    One function =
        StringSwitch<One>(name)
            .Case("exp", [](T a) { return std::exp(a); })
            .Case("exp2", [](T a) { return std::exp2(a); })
            .Case("exp10", [](T a) { return std::pow(T(10), a); })
            .Case("expm1", [](T a) { return std::expm1(a); })
            .Case("log", [](T a) { return std::log(a); })
            .Case("log2", [](T a) { return std::log2(a); })
            // The instruction takes subnormal numbers for 0.
            .Case("fast_log2",
                  [](T a) { return std::log2(std::isnormal(a) || !std::isfinite(a) ? a : T(0)); })
            .Case("log10", [](T a) { return std::log10(a); })
            .Case("log1p", [](T a) { return std::log1p(a); })
            .Case("sin", [](T a) { return std::sin(a); })
            .Case("cos", [](T a) { return std::cos(a); })
            .Case("tan", [](T a) { return std::tan(a); })
            .Case("asin", [](T a) { return std::asin(a); })
            .Case("acos", [](T a) { return std::acos(a); })
            .Case("atan", [](T a) { return std::atan(a); })
            .Case("sinh", [](T a) { return std::sinh(a); })
            .Case("cosh", [](T a) { return std::cosh(a); })
            .Case("tanh", [](T a) { return std::tanh(a); })
            .Case("asinh", [](T a) { return std::asinh(a); })
            .Case("acosh", [](T a) { return std::acosh(a); })
            .Case("atanh", [](T a) { return std::atanh(a); })
            .Case("erf", [](T a) { return std::erf(a); })
            .Case("erfc", [](T a) { return std::erfc(a); })
            .Case("sqrt", [](T a) { return std::sqrt(a); })
            .Case("rsqrt", [](T a) { return 1 / std::sqrt(a); })
            .Case("cbrt", [](T a) { return std::cbrt(a); })
            .Case("round", [](T a) { return std::round(a); })
            .Default(nullptr);
    return function ? std::optional<T>(function(x[0])) : std::nullopt;
  }
  if (x.size() != 2)
    return std::nullopt;
  Two function = StringSwitch<Two>(name)
                     .Case("fmod", [](T a, T b) { return std::fmod(a, b); })
                     .Case("pow", [](T a, T b) { return std::pow(a, b); })
                     .Case("atan2", [](T a, T b) { return std::atan2(a, b); })
                     .Case("hypot", [](T a, T b) { return std::hypot(a, b); })
                     .Default(nullptr);
  return function ? std::optional<T>(function(x[0], x[1])) : std::nullopt;
}

template <typename T>
std::optional<uint64_t> computeBits(StringRef name, const fltSemantics &semantics,
                                    ArrayRef<uint64_t> operands) {
  SmallVector<T, 3> numbers;
  for (uint64_t bits : operands) {
    APFloat value(semantics, APInt(8 * sizeof(T), bits));
    if constexpr (sizeof(T) == 8)
      numbers.push_back(value.convertToDouble());
    else
      numbers.push_back(value.convertToFloat());
  }
  auto result = compute<T>(name, numbers);
  return result ? std::optional<uint64_t>(APFloat(*result).bitcastToAPInt().getZExtValue())
                : std::nullopt;
}

} // namespace

std::optional<uint64_t> deviceFunction(StringRef name, Type *type, ArrayRef<uint64_t> operands) {
  if (!name.consume_front("__nv_"))
    return std::nullopt;
  if (type->isDoubleTy())
    return computeBits<double>(name, APFloat::IEEEdouble(), operands);
  if (type->isFloatTy() && name.consume_back("f"))
    return computeBits<float>(name, APFloat::IEEEsingle(), operands);
  return std::nullopt;
}

std::optional<uint64_t> atomicResult(AtomicRMWInst::BinOp operation, Type *type, uint64_t old,
                                     uint64_t number) {
  unsigned bits = type->getPrimitiveSizeInBits();
  if (operation == AtomicRMWInst::Xchg)
    return number;
  if (type->isFloatingPointTy()) {
    APFloat x(type->getFltSemantics(), APInt(bits, old));
    APFloat y(type->getFltSemantics(), APInt(bits, number));
    if (operation == AtomicRMWInst::FAdd)
      x.add(y, APFloat::rmNearestTiesToEven);
    else if (operation == AtomicRMWInst::FMaximum)
      x = maximum(x, y);
    else if (operation == AtomicRMWInst::FMinimum)
      x = minimum(x, y);
    else
      return std::nullopt;
    return x.bitcastToAPInt().getZExtValue();
  }
  APInt x(bits, old), y(bits, number);
  switch (operation) {
  case AtomicRMWInst::Add:
    return (x + y).getZExtValue();
  case AtomicRMWInst::And:
    return old & number;
  case AtomicRMWInst::Or:
    return old | number;
  case AtomicRMWInst::Xor:
    return old ^ number;
  case AtomicRMWInst::Max:
    return x.sgt(y) ? old : number;
  case AtomicRMWInst::Min:
    return x.slt(y) ? old : number;
  case AtomicRMWInst::UMax:
    return std::max(old, number);
  case AtomicRMWInst::UMin:
    return std::min(old, number);
  default:
    return std::nullopt;
  }
}

std::optional<Words> wideNumber(unsigned opcode, Words a, Words b) {
  auto number = [](Words &words) {
    words.resize(2, 0);
    return APInt(128, ArrayRef<uint64_t>(words));
  };
  auto words = [](const APInt &value) {
    return Words{value.extractBitsAsZExtValue(64, 0), value.extractBitsAsZExtValue(64, 64)};
  };
  switch (opcode) {
  case Instruction::ZExt:
  case Instruction::Trunc:
    return words(number(a));
  case Instruction::SExt:
    return words(APInt(64, a[0]).sext(128));
  case Instruction::Mul:
    return words(number(a) * number(b));
  case Instruction::LShr:
    return words(number(a).lshr(number(b)));
  case Instruction::AShr:
    return words(number(a).ashr(number(b)));
  default:
    return std::nullopt;
  }
}

uint64_t packFloat8(uint64_t high, uint64_t low, bool isE5M2) {
  const fltSemantics &semantics = isE5M2 ? APFloat::Float8E5M2() : APFloat::Float8E4M3FN();
  auto code = [&](uint64_t bits) -> uint64_t {
    APFloat value(APFloat::IEEEsingle(), APInt(32, bits));
    bool lost;
    APFloat largest = APFloat::getLargest(semantics, value.isNegative());
    largest.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lost);
    if (!value.isNaN() && abs(value) > abs(largest))
      value = largest;
    value.convert(semantics, APFloat::rmNearestTiesToEven, &lost);
    return value.bitcastToAPInt().getZExtValue();
  };
  return code(high) << 8 | code(low);
}

uint64_t halfOfE4M3(uint8_t code) {
  APFloat value(APFloat::Float8E4M3FN(), APInt(8, code));
  bool lost;
  value.convert(APFloat::IEEEhalf(), APFloat::rmNearestTiesToEven, &lost);
  return value.bitcastToAPInt().getZExtValue();
}

} // namespace nereid::test
