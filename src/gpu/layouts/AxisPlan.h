// How reductions and scans move along one axis of a distributed tensor.
//
// Write a(x) for the axis index of a place x (register, lane, warp) and n(x) for its other
// coordinates; both are linear over the bits of x. If every place already knows the combination of
// its neighbourhood of some axis indices E (a subspace; at first only {0}), then for any d with
// n(d) = 0 and a(d) outside E the places x and x ^ d know neighbouring parts of the same row, and
// after exchanging them both know that of E + a(d). So an axis of 2^k elements takes k exchanges,
// each within registers (d has register bits only), within the warp (a shuffle by d's lane bits) or
// across warps. Places that hold copies need no care: the partner is an exact place, and nothing is
// counted twice.
//
// In order (the combination is associative but need not commute), exchange b combines a(x) >> b
// differing in the lowest bit: neighbours always stand side by side. If the combination commutes,
// any basis does, and all exchanges in registers come first.
//
// The remaining exchanges across warps are done together, through shared memory: every thread
// writes its partial results, and after one barrier reads those of its row. `partial` numbers them,
// in order. If the combination commutes, lanes of one row read a part of them each and shuffle: a
// register for each of 16 or 32 partial results, beside all that lives across the reduction, would
// cost blocks.
#pragma once
#include "layout/LinearLayout.h"

#include "mlir/IR/Operation.h"

namespace nereid::gpu {

struct AxisStep {
  uint32_t reg = 0, lane = 0; ///< the partner is this place XOR these
  unsigned bit = 0;           ///< in order: the bit of the axis index that tells left from right
};

struct AxisPlan {
  AxisPlan(const layout::LinearLayout &layout, unsigned axis, bool ordered);

  /// Columns of a(x) by register, lane and warp bits.
  llvm::SmallVector<uint32_t, 8> axisOfRegister, axisOfLane, axisOfWarp;
  unsigned axisBits = 0;
  /// Packed n(x) of the register bits.
  llvm::SmallVector<uint64_t, 8> otherOfRegister;

  llvm::SmallVector<AxisStep> steps; ///< within threads and warps, in order of execution

  /// Bits of the number of a partial result; 0: no exchange across warps is needed.
  unsigned partialBits = 0;
  llvm::SmallVector<uint32_t, 8> partialOfRegister, partialOfLane, partialOfWarp;
  /// How many of these, the lowest, count in the registers of a thread that reads them; the others
  /// are told apart by lanes: by these, each a bit of the lane's number.
  unsigned heldBits = 0;
  llvm::SmallVector<uint32_t, 3> spread;
  /// Where the partial results are when they are written, over [partial, the other dimensions]; the
  /// shared memory that holds them; and where a thread reads them: registers are first the partial
  /// results that it holds of a row, then the rows (`rows` of them).
  layout::LinearLayout stored, memory, loaded;
  unsigned rows = 1;

  /// Axis index and row (as `loaded` counts rows) of a core register in lane 0 of warp 0.
  uint32_t axisIndex(unsigned reg) const;
  uint32_t partialIndex(unsigned reg) const;
  uint64_t otherIndex(unsigned reg) const;
  /// The number of a core register's row among the rows of `loaded`.
  unsigned rowOf(unsigned reg) const;
};

/// The parts of the scratch memory of a reduction or scan across warps.
struct AxisScratch {
  unsigned copies = 1;                      ///< repeats of odd sizes, each with a buffer of its own
  llvm::SmallVector<uint32_t, 2> offsets;   ///< of the first copy of each operand, in bytes
  llvm::SmallVector<uint32_t, 2> copyBytes; ///< from one copy to the next
  uint32_t bytes = 0;
};
AxisScratch axisScratch(const AxisPlan &plan, mlir::TypeRange tensors, unsigned copies);

/// Copies of the scratch buffers of a `tile.reduce` or `tile.scan`: repeats of the other
/// dimensions, and of the axis where it cannot be folded before.
unsigned axisCopies(mlir::RankedTensorType type, unsigned axis, bool foldsRepeats);

} // namespace nereid::gpu
