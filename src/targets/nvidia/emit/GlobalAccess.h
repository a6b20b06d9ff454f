// Accesses to global memory through a tensor of pointers: which registers go together, where they
// point, and their values as the words of an instruction.
#pragma once
#include "targets/nvidia/emit/Emitter.h"

namespace nereid::nvidia {

/// An address with the constant part that an instruction takes along.
struct Address {
  llvm::Value *base; ///< ptr addrspace(1)
  int64_t offset = 0;

  llvm::Value *pointer(Emitter &e) const;
  /// "[$2+16]" for an operand of inline PTX.
  std::string text(unsigned operand) const;
};

/// For every register of an integer or pointer tensor another one (or itself) and the constant by
/// which it differs from that one, as runs tell: all registers in a run share one. Pointers differ
/// by bytes.
llvm::SmallVector<std::pair<unsigned, int64_t>> runOrigins(Emitter &e, mlir::Operation *op,
                                                           mlir::Value tensor);

/// The policy of the second-level cache that a cache hint of an instruction (`.L2::cache_hint`)
/// names; null where the access has none.
llvm::Value *policyOf(Emitter &e, tile::CacheModifier cache, tile::EvictionPolicy evict);

/// The accesses of one thread through `ptr`, a tensor of pointers with a layout or a scalar.
class GlobalAccess {
public:
  /// `mask` (null: none) has one value in each access of at most `maxBytes`.
  GlobalAccess(Emitter &e, mlir::Operation *op, mlir::Value ptr, mlir::Value mask,
               unsigned maxBytes = 16);

  unsigned elements() const { return width; } ///< of one access
  /// Registers of the accesses, those of each in order of addresses. Registers that hold copies of
  /// others take no part.
  llvm::ArrayRef<llvm::SmallVector<unsigned, 4>> groups() const { return accesses; }
  /// Where the access that starts with register `reg` goes. Addresses that differ by constants
  /// share their base.
  Address address(unsigned reg) const;
  /// The first register that holds the same element as `reg`.
  unsigned original(unsigned reg) const { return originals[reg]; }

private:
  Emitter &e;
  mlir::Value ptr;
  unsigned width = 1;
  llvm::SmallVector<llvm::SmallVector<unsigned, 4>> accesses;
  llvm::SmallVector<unsigned> originals;
  llvm::SmallVector<std::pair<unsigned, int64_t>> bases; ///< register and bytes from its address
};

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

/// a and b, where null is true.
llvm::Value *both(Emitter &e, llvm::Value *a, llvm::Value *b);

} // namespace nereid::nvidia
