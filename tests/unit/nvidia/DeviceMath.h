// What single instructions give: functions of CUDA's device library, conversions of 8-bit floats,
// atomic operations, integers of 128 bits. By the host's arithmetic, which is at least as exact as
// the device's.
#pragma once
#include "ScalarMath.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/IR/Instructions.h"

#include <cstdint>
#include <optional>

namespace nereid::test {

/// `__nv_NAME` on doubles or `__nv_NAMEf` on floats, of one to three operands given by their bits;
/// nothing for a function that is not in the table.
std::optional<uint64_t> deviceFunction(llvm::StringRef name, llvm::Type *type,
                                       llvm::ArrayRef<uint64_t> operands);

/// Two f32, by their bits, as two codes of e5m2 or e4m3 in 16 bits: rounded to nearest, ties to
/// even; what is too large becomes the largest number.
uint64_t packFloat8(uint64_t high, uint64_t low, bool isE5M2);

/// A code of e4m3 as the bits of the f16 that it is.
uint64_t halfOfE4M3(uint8_t code);

/// What an atomic operation leaves in memory, or nothing for one that is not known.
std::optional<uint64_t> atomicResult(llvm::AtomicRMWInst::BinOp operation, llvm::Type *type,
                                     uint64_t old, uint64_t number);

/// Extensions to 128 bits (of a word `a`), multiplication and right shifts there, truncation: two
/// words, the lower first. Nothing for other operations.
std::optional<Words> wideNumber(unsigned opcode, Words a, Words b);

} // namespace nereid::test
