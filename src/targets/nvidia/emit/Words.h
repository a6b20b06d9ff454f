// Accesses to global memory as instructions of PTX: their addresses, cache hints, and the words
// that they move.
#pragma once
#include "gpu/emit/GlobalAccess.h"
#include "targets/nvidia/emit/Emitter.h"

namespace nereid::nvidia {

using gpu::Address;
using gpu::GlobalAccess;

/// "[$2+16]": an address whose base is operand 2 of inline PTX.
std::string addressText(const Address &address, unsigned operand);

/// The policy of the second-level cache that a cache hint of an instruction (`.L2::cache_hint`)
/// names; null where the access has none.
llvm::Value *policyOf(Emitter &e, tile::CacheModifier cache, tile::EvictionPolicy evict);

/// How an access of some bytes is made of words: their number and bits (8, 16, 32 or 64).
struct Words {
  unsigned count, bits;
  Words(unsigned elementBits, unsigned elements);
  /// "v4.b32", "b16".
  std::string suffix() const;
  /// The constraint of one word in inline PTX; a byte travels in a 16-bit register.
  const char *constraint() const { return bits == 64 ? "l" : bits == 32 ? "r" : "h"; }
  unsigned registerBits() const { return bits == 8 ? 16 : bits; }
  /// "{$0, $1}" or "$0": operands from `first` on.
  std::string operands(unsigned first) const;
};

/// Elements of one type as words, as they lie in memory, and back. Words have `registerBits()`
/// bits.
Values joinWords(Emitter &e, llvm::ArrayRef<llvm::Value *> elements, const Words &words);
Values splitWords(Emitter &e, llvm::ArrayRef<llvm::Value *> values, const Words &words,
                  llvm::Type *element, unsigned count);

} // namespace nereid::nvidia
