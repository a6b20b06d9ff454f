// How exchanges, slices and gathers move elements between the threads that hold them.
//
// A layout is linear over the bits of a place (register, lane, warp), and so is what these ops do
// with coordinates:
//
//   exchange   result[i] = src[i ^ m]: the partner of place x is x ^ d, where the layout takes d to
//              m. One d serves the whole tensor: registers of d are renamed, its lanes are one
//              `shfl.bfly`, and only its warps need shared memory.
//   slice      of sizes, steps and offsets that are powers of two: a bit of the result's coordinate
//              is a bit of the source's, the others are fixed. The place of the source is a linear
//              function of the result's place, plus a constant.
//   gather     likewise, plus a linear function of the bits of the index.
//
// For slices and gathers a place in the same warp is looked for; the register of a shuffle has to
// be known, so that only the lane may depend on the thread. Where that fails the source is written
// to shared memory, row by row, and read from there.
#pragma once
#include "ir/tile/Dialect.h"
#include "layout/LinearLayout.h"

#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace nereid::gpu {

/// A step from one place to another of the same block, by XOR.
struct PlaceStep {
  uint32_t reg = 0, lane = 0, warp = 0;
};

/// From every place to the one that holds its partner.
PlaceStep exchangeStep(const layout::LinearLayout &layout, unsigned axis, int64_t mask);

/// How many registers of a thread an exchange across warps moves through shared memory at once.
unsigned exchangeRegisters(tile::ExchangeOp op);

/// Is every dimension's slice an aligned choice of bits, in power-of-two sizes? Then the result's
/// layout follows from the source's (`slicedBits`), else any does.
bool slicesBits(tile::SliceOp op);
/// The same places with the bits that the slice keeps; registers that become copies are dropped.
layout::LinearLayout slicedBits(tile::SliceOp op, const layout::LinearLayout &source);

/// Where the elements of a result are in the source, place by place of the result.
struct WarpMove {
  llvm::SmallVector<PlaceStep, 8> ofRegister, ofLane, ofWarp; ///< by bits of the result's place
  llvm::SmallVector<PlaceStep, 8> ofIndex;                    ///< gathers: by bits of the index
  PlaceStep origin;                                           ///< slices: of all zeros
  bool shuffles = true; ///< false: the lane is always the thread's own
  /// The step of a register of the result in lane 0 of warp 0.
  PlaceStep at(unsigned reg) const;
  /// Gathers: registers that may be meant by a register of the result.
  unsigned candidates() const;
};

/// Null when it must go through shared memory, because elements cross warps or their registers
/// depend on the thread, or because that is cheaper.
std::optional<WarpMove> sliceMove(tile::SliceOp op, const layout::LinearLayout &source,
                                  const layout::LinearLayout &result);
std::optional<WarpMove> gatherMove(tile::GatherOp op, const layout::LinearLayout &source,
                                   const layout::LinearLayout &result);

/// The layout of a gather's source that lets warps keep to themselves, if the result has `base`:
/// the same, but for the axis, whose further elements are copies, or in registers.
layout::LinearLayout gatherSource(tile::GatherOp op, const layout::LinearLayout &base);
/// Whether the source is asked for in that layout: not if it is the larger one, since all of it
/// would be in every warp.
bool gathersFromBase(tile::GatherOp op);

/// The layout of a histogram's result.
layout::LinearLayout histogramLayout(tile::HistogramOp op, unsigned warps);
/// Each of so many warps (a power of two) counts in bins of its own.
unsigned histogramCopies(tile::HistogramOp op, unsigned warps);

/// Bytes of shared memory that such an op needs with the layouts it has; 0 for other ops.
unsigned rearrangeScratch(mlir::Operation *op);

/// Cycles of one execution with the base layout `base` (LayoutRelations.h).
double rearrangeCost(mlir::Operation *op, const layout::LinearLayout &base, unsigned elementBits,
                     int64_t repeats);

} // namespace nereid::gpu
