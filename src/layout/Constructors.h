// The layouts that hardware and code generators name, built as linear maps.
//
// Shapes given to these functions are cores (powers of two) unless they say otherwise. Where a
// shape is smaller than what the threads could hold, the surplus lanes and warps hold copies; where
// it is larger, registers repeat, dimension `order[0]` first.
#pragma once
#include "layout/LinearLayout.h"

namespace nereid::layout {

/// A block of `threadSizes` elements a thread, `lanes` threads a warp and `warps` warps arranged as
/// given, everything counted fastest along order[0]; tiled over `shape`. Sizes are powers of two.
LinearLayout blocked(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> threadSizes,
                     llvm::ArrayRef<int64_t> lanes, llvm::ArrayRef<int64_t> warps,
                     llvm::ArrayRef<unsigned> order);

/// The simplest blocked layout: `vector` elements a thread along order[0] (at most the size), then
/// `lanes` lanes, then `warpCount` warps along order[0], order[1], ...
LinearLayout striped(llvm::ArrayRef<int64_t> shape, unsigned vector, unsigned lanes,
                     unsigned warpCount, llvm::ArrayRef<unsigned> order);

/// Accumulator of mma.sync (m16n8 tiles; fp64: m8n8), over a shape [.., M, N]; warps tile M and N
/// as `warps` = {along M, along N} (M fastest) with one instruction's tile each, further tiles are
/// in registers along N first, then M, then the leading dimensions (batches). Where the shape is
/// smaller than an instruction, its registers beyond are missing here: they stand for the same
/// elements as those at the coordinates modulo the shape.
LinearLayout mmaAccumulator(llvm::ArrayRef<int64_t> shape, std::array<int64_t, 2> warps,
                            unsigned elementBits);

enum class Operand : uint8_t { A, B };
/// Operand fragment of mma.sync for elements of 8, 16, 32 (tf32) or 64 bits: A over [.., M, K], B
/// over [.., K, N]. One instruction covers k = 256 / bits elements of K (m16n8k16 for 16 bits, k32
/// for 8, k8 for 32; fp64 m8n8k4). `warps` as in the accumulator: a warp holds the whole K of its
/// rows or columns. Further instructions are in registers along K first.
LinearLayout mmaOperand(llvm::ArrayRef<int64_t> shape, Operand operand,
                        std::array<int64_t, 2> warps, unsigned elementBits);

/// Accumulator of wgmma m64nNk*: `warps` = {along M, along N} with a multiple of 4 along M (one
/// group of 4 warps covers 64 rows); N of one instruction is `instructionN`, of which the core
/// counts (176 has a core of 16, and its 11 repeats follow in registers as the instruction wants
/// them if the registers hold no further rows). Further tiles as in mmaAccumulator.
LinearLayout wgmmaAccumulator(llvm::ArrayRef<int64_t> shape, std::array<int64_t, 2> warps,
                              unsigned instructionN);
/// A operand of wgmma in registers, for 8, 16 or 32 bits.
LinearLayout wgmmaOperandA(llvm::ArrayRef<int64_t> shape, std::array<int64_t, 2> warps,
                           unsigned elementBits);

/// Shared memory, row-major with dimension order[0] fastest; no swizzle.
LinearLayout sharedLinear(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order);

/// Shared memory as TMA and wgmma swizzle it: rows along order[0] of `swizzleBytes` (32, 64 or 128)
/// cut into chunks of 16 bytes that are XORed with the row (Swizzle<1|2|3,4,3> on byte addresses,
/// the buffer on a multiple of 1024). Wider rows are split into column blocks of swizzleBytes, each
/// block whole before the next (order[0] outermost): the order of wgmma's atoms and of several TMA
/// boxes. swizzleBytes = 0: blocks of 16 bytes without an XOR, wgmma's form "no swizzle". With odd
/// repeats the core should be whole patterns of 8 swizzleBytes, else hardware sees another pattern.
LinearLayout sharedSwizzled(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order,
                            unsigned elementBits, unsigned swizzleBytes);

/// The greatest swizzle (128, 64, 32 or 0) that rows of `bytes` admit.
unsigned swizzleFor(int64_t bytes);

} // namespace nereid::layout
