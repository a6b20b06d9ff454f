// What moving a tensor from one layout to another takes, and what an access to shared memory costs.
#pragma once
#include "layout/LinearLayout.h"

namespace nereid::layout {

/// How the data gets from one distributed layout to another.
enum class Move : uint8_t {
  Nothing,   ///< same registers
  Registers, ///< within each thread: registers are renamed (dropped, repeated)
  Shuffles,  ///< within each warp
  Shared,    ///< through shared memory
};

/// One exchange of a shuffle plan; see planShuffles.
struct ShuffleRound {
  /// For the register read by every lane in this round: reg = sendBase ^ (sum over lane bits i that
  /// are 1 of sendBits[i]).
  uint32_t sendBase = 0;
  llvm::SmallVector<uint32_t, 5> sendBits;
  /// The lane read from: lane' = linear in the reader's lane bits (and constant).
  uint32_t sourceBase = 0;
  llvm::SmallVector<uint32_t, 5> sourceBits;
  /// The register of the result that is filled: base and bits as for sending.
  uint32_t receiveBase = 0;
  llvm::SmallVector<uint32_t, 5> receiveBits;
};

struct ConversionPlan {
  Move move = Move::Nothing;
  /// Nothing, Registers: source register of each register of the result (of the core).
  llvm::SmallVector<uint32_t> registers;
  /// Shuffles.
  llvm::SmallVector<ShuffleRound> rounds;
  /// Shared: the layout of the buffer in between, free of bank conflicts where possible.
  LinearLayout buffer;
};

/// Plans the move of elements of `elementBits`. Shuffles are chosen only when they cost less than
/// shared memory (both estimated in instruction slots).
ConversionPlan planConversion(const LinearLayout &from, const LinearLayout &to,
                              unsigned elementBits);

/// How many elements one access of a thread may move at once between registers of `distributed` and
/// memory: consecutive registers (in `registerOrder`'s first bits) that are consecutive offsets,
/// aligned. `memory` is a layout of offsets. At most 128 bits.
struct VectorAccess {
  unsigned elements = 1;
  /// Register bits that run through the vector, in order of offsets (bit i of the vector's element
  /// index is register bit `registerBits[i]`). They need not be the lowest bits.
  llvm::SmallVector<unsigned, 4> registerBits;
};
VectorAccess vectorAccess(const LinearLayout &distributed, const LinearLayout &memory,
                          unsigned elementBits);

/// The bank-conflict degree of such an access: wavefronts per warp-wide access divided by the
/// fewest that its bytes need (1 = free of conflicts). 32 banks of 4 bytes; an access of more than
/// 4 bytes a lane is served in phases of 128 bytes.
unsigned bankConflicts(const LinearLayout &distributed, const LinearLayout &memory,
                       unsigned elementBits);

/// A shared-memory layout for data written from `from` and read to `to` (either may be the layout
/// of registers), with the widest accesses and fewest conflicts on both sides; always bijective.
LinearLayout conflictFreeBuffer(const LinearLayout &from, const LinearLayout &to,
                                unsigned elementBits);

/// Can ldmatrix (stmatrix) move between `distributed` and `memory`, and how: `transposed` for the
/// .trans form. Elements of 8 to 32 bits without transposition, of 16 with.
struct MatrixAccess {
  bool transposed = false;
  /// Matrices per instruction: 1, 2 or 4.
  unsigned matrices = 4;
  /// Register bits of `distributed` that one instruction covers: first those inside a 32-bit word,
  /// then those that count matrices.
  llvm::SmallVector<unsigned, 4> wordBits, matrixBits;
  /// Which address lane l (0..31, l = 8 * matrix + row) supplies: the lane bits' contributions to
  /// the offset in elements; XORed with the offset of the registers outside and of the warp.
  llvm::SmallVector<uint32_t, 5> laneOffsets;
};
std::optional<MatrixAccess> matrixAccess(const LinearLayout &distributed,
                                         const LinearLayout &memory, unsigned elementBits);

} // namespace nereid::layout
