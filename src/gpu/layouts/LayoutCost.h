// What layouts cost: the one model that layout assignment minimises.
//
// The unit is a cycle of one multiprocessor (SM) that executes one program, as if nothing else ran
// and throughput alone counted; where a latency cannot be hidden within a program (a barrier) it
// counts a part of it. Sources of the figures: the public instruction throughput tables of compute
// capability 8.0 to 9.0. Per SM and cycle:
//
//   4 warp instructions of simple arithmetic, 1 of conversions, 1/2 of exp2, log2, rsqrt ...
//   1 shuffle; 128 bytes of shared memory; 64 bytes (2 sectors) to or from L2
//
// Only what depends on layouts matters, so a cost that all choices share may be left out.
#pragma once
#include "gpu/Machine.h"
#include "ir/tile/Dialect.h"
#include "layout/LinearLayout.h"
#include "transforms/IntegerAnalysis.h"

namespace nereid::gpu {

/// What is known of the addresses of one access to global memory, per dimension of the core.
struct AccessFacts {
  unsigned elementBytes = 4;
  /// Elements that are adjacent, aligned and under one mask: the widest access along the dimension.
  llvm::SmallVector<int64_t, 4> vector;
  /// Elements in aligned groups of adjacent ones, where offsets do not wrap: sectors are counted by
  /// them. No width of an access rests on them.
  llvm::SmallVector<int64_t, 4> contiguous;
  /// Elements in aligned groups that all have one address.
  llvm::SmallVector<int64_t, 4> constant;
  /// The copy engine does it: threads access shared memory, in rows.
  bool copied = false;
  Machine machine = {}; ///< that accesses
};

/// The facts of the access of `op` (load, store or atomic) through a tensor of pointers, or of a
/// descriptor's block. `supposed`: returns the analysis in its speculative mode; asked where no
/// dimension is proven to be contiguous.
AccessFacts accessFacts(mlir::Operation *op, const transforms::IntegerAnalysis &analysis,
                        llvm::function_ref<const transforms::IntegerAnalysis &()> supposed,
                        const Machine &machine);

/// How a layout meets an access.
struct AccessShape {
  unsigned vector = 1;    ///< elements of one instruction of a thread
  unsigned sectors = 1;   ///< sectors that one instruction of a warp touches
  unsigned lines = 1;     ///< lines of a cache
  int64_t allSectors = 1; ///< sectors that all instructions of a warp touch, each counted once
  int64_t requests = 1;   ///< instructions of a warp, for the whole tensor
};
AccessShape accessShape(const AccessFacts &facts, const layout::LinearLayout &layout,
                        int64_t repeats);

/// Atomics have no vectors, and their sectors are worked on one by one. What a load brought into L1
/// serves the next ones of the same warp.
enum class AccessKind : uint8_t { Load, Store, Atomic };

/// Cycles of an access to global memory.
double accessCost(const AccessFacts &facts, const layout::LinearLayout &layout, int64_t repeats,
                  AccessKind kind = AccessKind::Load);

/// Cycles to bring a tensor from one layout to another (0: they are equal or equivalent).
/// `within`: only within warps, in pairs of elements where these stay together.
double conversionCost(const layout::LinearLayout &from, const layout::LinearLayout &to,
                      unsigned elementBits, int64_t repeats, bool within = false);

/// Cycles to write a tensor to shared memory in a layout without conflicts.
double sharedStoreCost(const layout::LinearLayout &from, unsigned elementBits, int64_t repeats,
                       unsigned lanes);

/// Cycles of reducing `operands` tensors along `axis` with a combiner of `slots` issue slots.
double reduceCost(const layout::LinearLayout &layout, unsigned axis, unsigned elementBits,
                  double slots, int64_t repeats, int64_t axisRepeats);
/// The same for a scan.
double scanCost(const layout::LinearLayout &layout, unsigned axis, unsigned elementBits,
                double slots, int64_t repeats);

/// Issue slots of one elementwise op on one register of every lane of a warp.
double slotsOf(mlir::Operation *op);
/// Of all ops of a combiner.
double slotsOf(mlir::Region &combiner);

/// Issue slots on registers of all warps → cycles: four schedulers, as far as there are warps.
double issueCycles(double slots, const layout::LinearLayout &layout);

/// A charge for tensors that take more registers of a thread than there are to spare.
double registerCharge(const layout::LinearLayout &layout, unsigned elementBits, int64_t repeats);

} // namespace nereid::gpu
