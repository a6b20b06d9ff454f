// How each `tile.dot` is computed: which unit, how the warps share the work, and where its operands
// must be.
//
// A plan is made from facts about one dot before any layout is chosen; layout assignment takes it
// as given. `gatherDotFacts` reads the facts from the IR, `planDot` decides from the facts alone
// (so it can be tested without IR). The rules, in short:
//
//   - wgmma when a group of four warps gets whole tiles of 64 rows, the types are the
//     unit's, and the operands' major orders can be had: B in shared memory (16-bit elements in
//     either order, others K-major), A there too, or in registers when it is computed (dequantised,
//     the probabilities of attention) or is not 16 bits wide and not K-major: registers may be
//     filled from memory of any order. B that is neither 16 bits wide nor K-major is transposed on
//     its way into shared memory (legaliseDots swaps A and B before, where that avoids it).
//   - mma.sync for what is left, f64 included: operands in registers, read from shared
//     memory with ldmatrix where their order allows.
//   - multiply-adds in ordinary registers for f32 in full precision, and for types and shapes that
//     no unit takes; operands are in shared memory.
//
// Warps: a dot whose result is reduced along its rows or becomes the A operand of another dot
// (attention) puts all warps along M, so that rows stay within a warp and the result's registers
// are the next dot's operand. Otherwise the arrangement that reads the fewest operand bytes.
#pragma once
#include "gpu/Options.h"
#include "ir/tile/Dialect.h"
#include "layout/LinearLayout.h"
#include "transforms/IntegerAnalysis.h"

#include <array>
#include <optional>

namespace nereid::gpu {

/// Where an operand's elements come from.
enum class DotSource : uint8_t {
  Load,      ///< a load as it is (perhaps transposed): may be copied to shared memory directly
  Converted, ///< a load, with arithmetic on its elements
  Dot,       ///< arithmetic on the result of another dot
  Computed,  ///< anything else
};

struct DotOperandFacts {
  mlir::Type element;
  DotSource source = DotSource::Computed;
  /// In the memory it comes from, elements next to each other along K are adjacent (otherwise those
  /// along M or N are). Of what comes from no memory: what the row-major tensor would be.
  bool kMajor = true;
};

struct DotFacts {
  llvm::SmallVector<int64_t, 4> shape; ///< of the result: [batches.., M, N]
  int64_t k = 0;
  DotOperandFacts a, b;
  mlir::Type accumulator;
  tile::InputPrecision precision = tile::InputPrecision::TF32;
  /// Elements of K after which 8-bit floats' partial sums go to registers of full precision; 0:
  /// never.
  int64_t maxImprecise = 0;
  /// Rows of the result should stay within a warp.
  bool rowsTogether = false;
  /// The result is reduced along its rows, or becomes the A operand of a dot.
  bool rowsRead = false;
  /// The accumulator is the first operand: as registers they would need copies, between which and
  /// the products the assembler does not tell them apart.
  bool ontoOperand = false;
  /// The first operand is the transpose of arithmetic on the result of another dot.
  bool transposesDot = false;

  int64_t m() const { return shape[shape.size() - 2]; }
  int64_t n() const { return shape.back(); }
  bool batched() const { return shape.size() > 2; }
};

/// `analysis` knows the function around `dot`.
DotFacts gatherDotFacts(tile::DotOp dot, const transforms::IntegerAnalysis &analysis);

/// What a dot needs one operand to be.
struct DotOperandPlan {
  enum class Storage : uint8_t {
    Fragment, ///< a tensor with the layout `layout`
    Shared,   ///< a buffer with the layout `layout` (of offsets)
  };
  Storage storage = Storage::Fragment;
  /// Over the core of the operand as the dot sees it: [.., M, K] or [.., K, N].
  layout::LinearLayout layout;
  /// Fragment: the buffer that a load should be copied to on its way into the registers (`layout`
  /// is then read by `local_load`): in the order of the memory it comes from. Shared: `layout`.
  layout::LinearLayout buffer;
  /// Whether `buffer` has elements along K adjacent.
  bool kMajor = true;
  /// Shared: the buffer's order is not that of the memory the operand comes from. An asynchronous
  /// copy cannot fill it: what it copies goes through registers once more.
  bool reordered = false;
};

struct DotPlan {
  MatrixUnit unit = MatrixUnit::Fma;
  std::array<int64_t, 2> warps = {1, 1}; ///< along M and N
  layout::LinearLayout accumulator;      ///< over the core of [.., M, N]
  DotOperandPlan a, b;
  int promoteK = 0; ///< of ngpu.wgmma
};

DotPlan planDot(const DotFacts &facts, const GpuOptions &options);

/// Elements of K that one instruction of a matrix unit takes: 32 bytes' worth (f64: 4).
int64_t instructionK(mlir::Type element);

/// What keeps a unit from computing a dot.
enum class Obstacle : uint8_t {
  None,
  Device,    ///< the device has no such unit
  Depth,     ///< K is less than one instruction takes
  Rows,      ///< M is less than one instruction computes, or divides badly
  Columns,   ///< N
  Types,     ///< of the elements
  Precision, ///< full precision of f32 was asked for
  Warps,     ///< not a multiple of 4
  Batches,
};
Obstacle obstacle(MatrixUnit unit, const DotFacts &facts, const GpuOptions &options);

/// Can `unit` compute a dot of these facts with these options at all?
inline bool canUse(MatrixUnit unit, const DotFacts &facts, const GpuOptions &options) {
  return obstacle(unit, facts, options) == Obstacle::None;
}

} // namespace nereid::gpu
