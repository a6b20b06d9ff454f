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

/// How the lanes of a warp exchange registers; three steps, all linear:
///
///   1. u[k] = from[k ^ sendLane·lane ^ sendWarp·warp]: every lane reorders its own registers, a
///      stage of selects for each bit that is not 0 (with lane bit i: u'[k] = bit ? u[k ^
///      sendLane[i]] : u[k]).
///   2. Each round: w[receive] = the value of u[send] in lane
///      sourceLane·lane ^ sourceWarp·warp ^ round.source (shfl.idx). Where `needsShuffle` is false
///      that is the lane itself.
///   3. result[d] = w[d ^ receiveLane·lane]: selects as in step 1.
///
/// M·x stands for the XOR of the M[i] for which bit i of x is 1. Results exist for the registers
/// that are no copies; ConversionPlan::registers names the result of every register. Rounds with
/// the same `source` read from the same lane: elements of less than 32 bits then share a word.
struct ShufflePlan {
  struct Round {
    uint32_t send, source, receive;
    bool needsShuffle;
  };
  using Bits = llvm::SmallVector<uint32_t, 5>;
  Bits sendLane, sendWarp;
  Bits sourceLane, sourceWarp;
  Bits receiveLane;
  llvm::SmallVector<Round> rounds;
};

/// What a move takes of each warp, for one core: instructions issued, and turns of the data path of
/// shared memory (128 bytes, or a shuffle).
struct MoveCost {
  unsigned instructions = 0, turns = 0;
  unsigned slots() const { return instructions + turns; }
};

struct ConversionPlan {
  Move move = Move::Nothing;
  /// Without the barriers of a buffer.
  MoveCost cost;
  /// Nothing, Registers: the register of `from` for each register (of the core) of the result.
  /// Shuffles: the result of the plan for each.
  llvm::SmallVector<uint32_t> registers;
  /// Shuffles.
  ShufflePlan shuffles;
  /// Shared: the layout of the buffer in between, free of bank conflicts where possible.
  LinearLayout buffer;
};

/// Which ways a conversion may go.
enum class Ways : uint8_t {
  All,         ///< the cheapest
  WithinWarps, ///< not through shared memory, if there is another way
};

/// Plans the move of elements of `elementBits`. Shuffles are chosen only when they cost less than
/// shared memory (both estimated in instruction slots), or where that is excluded. Repeats are
/// moved one by one, each as the core.
ConversionPlan planConversion(const LinearLayout &from, const LinearLayout &to,
                              unsigned elementBits, Ways ways = Ways::All);

/// The layout of a tensor's pairs of neighbours in the last dimension, where register bit 0 is the
/// step from one of a pair to the other; nothing for other layouts. If both layouts of a conversion
/// have one, it may move pairs.
std::optional<LinearLayout> pairsOf(const LinearLayout &layout);

/// How many elements one access of a thread may move at once between registers of `distributed` and
/// memory: registers that are consecutive offsets, aligned in every lane. `memory` is a layout of
/// offsets. At most 128 bits and `most` elements.
struct VectorAccess {
  unsigned elements = 1;
  /// Register bits that run through the vector, in order of offsets (bit i of the vector's element
  /// index is register bit `registerBits[i]`). They need not be the lowest bits.
  llvm::SmallVector<unsigned, 4> registerBits;
};
VectorAccess vectorAccess(const LinearLayout &distributed, const LinearLayout &memory,
                          unsigned elementBits, unsigned most = 16);

/// The bank-conflict degree of such an access: wavefronts per warp-wide access divided by the
/// fewest that its bytes need (1 = free of conflicts). 32 banks of 4 bytes; an access of more than
/// 4 bytes a lane is served in phases of 128 bytes: 16 lanes of 8 bytes or 8 lanes of 16. Lanes
/// that touch the same word do not conflict.
unsigned bankConflicts(const LinearLayout &distributed, const LinearLayout &memory,
                       unsigned elementBits, unsigned most = 16);

/// A shared-memory layout for data written from `from` and read to `to`, with wide accesses
/// (ldmatrix and stmatrix where the layouts fit them) and few conflicts on both sides; bijective.
/// The register bits `leading` of `from` (no copies; of more than 128 bits of data the first) are
/// the first bits of the offset: asynchronous copies bring these neighbours of global memory, in
/// this order and no more at once.
LinearLayout conflictFreeBuffer(const LinearLayout &from, const LinearLayout &to,
                                unsigned elementBits, llvm::ArrayRef<unsigned> leading = {});

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
/// Its bank-conflict degree: wavefronts for one matrix (8 rows of 16 bytes).
unsigned bankConflicts(const MatrixAccess &access, unsigned elementBits);

/// The instructions to be used between registers and shared memory: ldmatrix or stmatrix where they
/// are allowed, fit, and move more at once than plain accesses.
struct SharedAccess {
  VectorAccess vector;
  std::optional<MatrixAccess> matrix; ///< instead of `vector`
  unsigned conflicts = 1;             ///< the degree of what is used
  MoveCost cost;                      ///< of all registers that are no copies
};
SharedAccess sharedAccess(const LinearLayout &distributed, const LinearLayout &memory,
                          unsigned elementBits, bool matrices, unsigned most = 16);

} // namespace nereid::layout
