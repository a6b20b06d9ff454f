// Conversions whose buffer would be too large go through shared memory in pieces.
//
// A piece is the part of a tensor where some bits of the coordinates are fixed, bits that in both
// layouts belong to one register bit alone: then all threads have a part of every piece, in
// registers that are known.
#pragma once
#include "ir/ngpu/Dialect.h"
#include "layout/LinearLayout.h"

#include <optional>

namespace nereid::gpu {

struct SplitConversion {
  layout::LinearLayout from, to, buffer; ///< of one piece
  /// Register bits of the whole layouts that count the pieces (bit i of a piece's number).
  llvm::SmallVector<unsigned, 4> fromBits, toBits;

  unsigned pieces() const { return 1u << fromBits.size(); }
  /// The whole layout's register of a piece's register.
  static unsigned whole(unsigned reg, unsigned piece, llvm::ArrayRef<unsigned> bits);
};

/// Pieces of at most `maxBytes` (of the cores; repeats are moved one by one), or nothing if there
/// are no such bits.
std::optional<SplitConversion> splitConversion(const layout::LinearLayout &from,
                                               const layout::LinearLayout &to, unsigned elementBits,
                                               uint64_t maxBytes);
/// The split of a conversion that says how many `pieces` it has.
SplitConversion splitConversion(ngpu::ConvertLayoutOp convert);

} // namespace nereid::gpu
