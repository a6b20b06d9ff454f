#include "ScalarMath.h"

using namespace llvm;

namespace nereid::test {

unsigned count(Type *type) {
  if (auto *vector = dyn_cast<FixedVectorType>(type))
    return vector->getNumElements();
  if (auto *structure = dyn_cast<StructType>(type))
    return structure->getNumElements();
  return 1;
}

std::optional<uint64_t> binary(unsigned opcode, Type *type, uint64_t a, uint64_t b) {
  unsigned bits = bitsIn(type);
  if (type->isFloatingPointTy()) {
    APFloat x = floatOf(a, type), y = floatOf(b, type);
    switch (opcode) {
    case Instruction::FAdd:
      x.add(y, APFloat::rmNearestTiesToEven);
      return bitsOf(x);
    case Instruction::FSub:
      x.subtract(y, APFloat::rmNearestTiesToEven);
      return bitsOf(x);
    case Instruction::FMul:
      x.multiply(y, APFloat::rmNearestTiesToEven);
      return bitsOf(x);
    case Instruction::FDiv:
      x.divide(y, APFloat::rmNearestTiesToEven);
      return bitsOf(x);
    default:
      return std::nullopt;
    }
  }
  switch (opcode) {
  case Instruction::Add:
    return maskTo(a + b, bits);
  case Instruction::Sub:
    return maskTo(a - b, bits);
  case Instruction::Mul:
    return maskTo(a * b, bits);
  case Instruction::And:
    return a & b;
  case Instruction::Or:
    return a | b;
  case Instruction::Xor:
    return a ^ b;
  case Instruction::Shl:
    return b >= bits ? 0 : maskTo(a << b, bits);
  case Instruction::LShr:
    return b >= bits ? 0 : a >> b;
  case Instruction::AShr:
    return maskTo(signedOf(a, bits) >> std::min<uint64_t>(b, 63), bits);
  case Instruction::UDiv:
    return b ? a / b : 0;
  case Instruction::URem:
    return b ? a % b : 0;
  case Instruction::SDiv:
    if (signedOf(b, bits) == -1) // the host stops where the quotient overflows
      return maskTo(-a, bits);
    return b ? maskTo(signedOf(a, bits) / signedOf(b, bits), bits) : 0;
  case Instruction::SRem:
    if (signedOf(b, bits) == -1)
      return 0;
    return b ? maskTo(signedOf(a, bits) % signedOf(b, bits), bits) : 0;
  default:
    return std::nullopt;
  }
}

bool compare(CmpInst::Predicate predicate, Type *type, uint64_t a, uint64_t b) {
  if (CmpInst::isFPPredicate(predicate))
    return FCmpInst::compare(floatOf(a, type), floatOf(b, type), predicate);
  unsigned bits = bitsIn(type);
  return ICmpInst::compare(APInt(bits, a), APInt(bits, b), predicate);
}

std::optional<uint64_t> convert(const CastInst &cast, uint64_t value) {
  Type *from = cast.getSrcTy()->getScalarType(), *to = cast.getDestTy()->getScalarType();
  switch (cast.getOpcode()) {
  case Instruction::Trunc:
  case Instruction::ZExt:
  case Instruction::PtrToInt:
  case Instruction::IntToPtr:
  case Instruction::AddrSpaceCast:
    return maskTo(value, bitsIn(to));
  case Instruction::SExt:
    return maskTo(signedOf(value, bitsIn(from)), bitsIn(to));
  case Instruction::FPExt:
  case Instruction::FPTrunc: {
    APFloat number = floatOf(value, from);
    bool lost;
    number.convert(to->getFltSemantics(), APFloat::rmNearestTiesToEven, &lost);
    return bitsOf(number);
  }
  case Instruction::SIToFP:
  case Instruction::UIToFP: {
    APFloat number(to->getFltSemantics());
    number.convertFromAPInt(APInt(bitsIn(from), value), cast.getOpcode() == Instruction::SIToFP,
                            APFloat::rmNearestTiesToEven);
    return bitsOf(number);
  }
  case Instruction::FPToSI:
  case Instruction::FPToUI: {
    APSInt number(bitsIn(to), cast.getOpcode() == Instruction::FPToUI);
    bool exact;
    floatOf(value, from).convertToInteger(number, APFloat::rmTowardZero, &exact);
    return number.getZExtValue();
  }
  default:
    return std::nullopt;
  }
}

Words bitcast(const Words &words, Type *from, Type *to) {
  unsigned fromBits = bitsIn(from->getScalarType()), toBits = bitsIn(to->getScalarType());
  Words result(count(to), 0);
  for (unsigned bit = 0, all = fromBits * words.size(); bit < all; ++bit)
    if (words[bit / fromBits] >> bit % fromBits & 1)
      result[bit / toBits] |= uint64_t(1) << bit % toBits;
  return result;
}

} // namespace nereid::test
