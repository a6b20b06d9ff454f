// Matrix descriptors: how wgmma is told where an operand lies in shared memory.
//
// One instruction reads a block of `outer` x K elements: 64 rows of A or N columns of B, and 32
// bytes' worth of K. The unit knows a few arrangements of such a block, built of core matrices, 8
// rows of 16 bytes. With T = elements in 16 bytes and W = 16 bytes (no swizzle), 32, 64 or 128
// bytes (the swizzle), the address of element (o, k) of the block is, before the swizzle:
//
//     K adjacent ("K-major"), swizzled    start + (o % 8) W + (o / 8) SBO + k bytes
//                             none        start + (o % 8) 16 + (o / 8) SBO + (k % T) + (k / T) LBO
//     outer adjacent,         swizzled    start + (o in W) + (o / W) LBO + (k % 8) W + (k / 8) SBO
//                             none        start + (o % T) + (o / T) SBO + (k % 8) 16 + (k / 8) LBO
//
// and the swizzle XORs bits 7.. of that address into bits 4.. (1, 2 or 3 bits for 32, 64, 128).
// Note how LBO and SBO ("leading" and "stride byte offset") change roles. From PTX ISA 9.0, section
// "Shared Memory Matrix Layout". Types that are not 16 bits wide must be K-major.
//
// The descriptor of a block is read off the buffer's layout: the distances of a few elements say
// which arrangement it is, and the others are checked against it.
#pragma once
#include "gpu/emit/DotOperands.h"

#include <optional>

namespace nereid::nvidia {

using gpu::BufferMap;

struct WgmmaBlock {
  /// The operand's dimension of K: 1 for A, 0 for B.
  unsigned kDim;
  int64_t outer, k;           ///< position of the block's first element
  int64_t outerCount, kCount; ///< its size
};

struct WgmmaDescriptor {
  /// All of the descriptor but the start address.
  uint64_t bits = 0;
  bool kMajor = true;
  /// Bytes from the start of the buffer.
  int64_t start = 0;
};

/// The descriptor of one block, or nothing when the unit cannot read it from this buffer, which
/// starts at a multiple of its swizzle's span.
std::optional<WgmmaDescriptor> describeBlock(const BufferMap &map, const WgmmaBlock &block);

} // namespace nereid::nvidia
