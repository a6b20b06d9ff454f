// Accesses to global memory through a tensor of pointers: which registers go together, and where
// they point.
#pragma once
#include "gpu/emit/Emitter.h"

namespace nereid::gpu {

/// An address with the constant part that an instruction takes along.
struct Address {
  llvm::Value *base; ///< ptr addrspace(1)
  int64_t offset = 0;

  llvm::Value *pointer(Emitter &e) const;
};

/// For every register of an integer or pointer tensor another one (or itself) and the constant by
/// which it differs from that one, as runs tell: all registers in a run share one. Pointers differ
/// by bytes.
llvm::SmallVector<std::pair<unsigned, int64_t>> runOrigins(Emitter &e, mlir::Operation *op,
                                                           mlir::Value tensor);

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

/// a and b, where null is true.
llvm::Value *both(Emitter &e, llvm::Value *a, llvm::Value *b);

} // namespace nereid::gpu
