// How the copy engine (TMA) cuts a tile into boxes, for the code that makes the tensor map and the
// code that issues the copies.
#pragma once
#include "ir/ngpu/Dialect.h"

namespace nereid::gpu {

struct TmaBox {
  unsigned swizzleBytes = 0;         ///< 0, 32, 64 or 128
  llvm::SmallVector<int32_t, 5> box; ///< sizes in elements, outermost first, each at most 256
  struct Part {
    llvm::SmallVector<int32_t, 5> start; ///< of the box within the tile, in elements
    uint32_t byteOffset = 0;             ///< in the buffer
  };
  llvm::SmallVector<Part, 4> parts;
};

/// The layout of a buffer that TMA fills with a row-major tile: swizzled as widely as its rows
/// admit.
layout::LinearLayout tmaLayout(llvm::ArrayRef<int64_t> shape, unsigned elementBits);

/// The layout of a buffer that groups of warps store by themselves: chunks of `chunk` rows, each
/// like a buffer of `tmaLayout`. Group g of `groups` has the chunks g, g + groups, g + 2 groups ...
/// of the rows, one after the other, at 1 / groups of the bytes. Two dimensions, powers of two.
layout::LinearLayout chunkedLayout(llvm::ArrayRef<int64_t> shape, unsigned elementBits,
                                   int64_t chunk, int64_t groups);

/// The boxes of a buffer with that layout (without leading slots): rows are cut at the swizzle's
/// span, everything at 256 elements.
TmaBox tmaBox(ngpu::BufferType buffer);
TmaBox tmaBox(llvm::ArrayRef<int64_t> shape, unsigned elementBits);

} // namespace nereid::gpu
