// What LLVM's instructions of arithmetic give: scalars of at most 64 bits, by their bits.
#pragma once
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Support/MathExtras.h"

#include <cstdint>
#include <optional>

namespace nereid::test {

inline uint64_t maskTo(uint64_t value, unsigned bits) {
  return bits >= 64 ? value : value & ((uint64_t(1) << bits) - 1);
}
inline int64_t signedOf(uint64_t value, unsigned bits) {
  return bits >= 64 ? int64_t(value) : llvm::SignExtend64(value, bits);
}
inline llvm::APFloat floatOf(uint64_t value, llvm::Type *type) {
  return llvm::APFloat(type->getFltSemantics(), llvm::APInt(type->getPrimitiveSizeInBits(), value));
}
inline uint64_t bitsOf(const llvm::APFloat &value) {
  return value.bitcastToAPInt().getZExtValue();
}
inline unsigned bitsIn(llvm::Type *scalar) {
  return scalar->isPointerTy() ? 64 : unsigned(scalar->getPrimitiveSizeInBits());
}

/// A value, by its elements: of at most 64 bits, zero-extended. Most values have one.
using Words = llvm::SmallVector<uint64_t, 2>;
/// How many words a value has.
unsigned count(llvm::Type *type);
/// An operation of two numbers; nothing for one that is not known.
std::optional<uint64_t> binary(unsigned opcode, llvm::Type *type, uint64_t a, uint64_t b);
bool compare(llvm::CmpInst::Predicate predicate, llvm::Type *type, uint64_t a, uint64_t b);
/// Between types of scalars; nothing for a conversion that is not known.
std::optional<uint64_t> convert(const llvm::CastInst &cast, uint64_t value);
Words bitcast(const Words &words, llvm::Type *from, llvm::Type *to);

} // namespace nereid::test
