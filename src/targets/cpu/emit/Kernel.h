// The state of one kernel's emission: what has become of each value of the tile function so far,
// and the scratch memory of a program.
//
// A tensor value is either *virtual* (never exists as a whole: loops that need elements compute
// them where they need them) or *materialised* in a Buffer of scratch memory. Scalars are SSA
// values.
#pragma once
#include "targets/cpu/emit/Emit.h"
#include "targets/cpu/emit/Point.h"
#include "targets/cpu/support_library/SupportLibrary.h"
#include "targets/source_lines.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"

#include <string>
#include <utility>

namespace nereid::explain {
struct Report;
} // namespace nereid::explain

namespace nereid::cpu {

/// A tensor in scratch memory, row-major, an i1 as a byte.
struct Buffer {
  mlir::Value base; // !llvm.ptr
  mlir::RankedTensorType type;
  bool swapped = false; ///< column-major, within one step: a matrix, all other sizes are 1
  explicit operator bool() const { return bool(base); }
  /// The distance of neighbours along a dimension, in elements.
  int64_t stride(unsigned dim) const {
    llvm::ArrayRef<int64_t> shape = type.getShape();
    llvm::ArrayRef<int64_t> inside = swapped ? shape.take_front(dim) : shape.drop_front(dim + 1);
    int64_t result = 1;
    for (int64_t size : inside)
      result *= size;
    return result;
  }
};

class Kernel {
public:
  Kernel(mlir::OpBuilder &builder, mlir::Location location, const Features &features);

  Emit e;
  mlir::OpBuilder &b;

  //--- values ---
  llvm::DenseMap<mlir::Value, mlir::Value> scalars;
  llvm::DenseMap<mlir::Value, Buffer> buffers;
  /// Copies of tensors in `buffers` that lie the other way: for the loop step that is being emitted
  /// (Transposed.cpp), which may read a tensor both ways.
  llvm::DenseMap<mlir::Value, Buffer> transposed;
  /// Where the tensor is to be materialised when its turn comes (a loop's carried buffer).
  llvm::DenseMap<mlir::Value, Buffer> destinations;
  /// Addresses of tensors that a loop carries, each element computed from itself: what fits into
  /// registers stays there (LoopStep::staysInRegisters).
  llvm::DenseSet<mlir::Value> accumulators;
  /// The lowered scalar of a tile scalar.
  mlir::Value scalar(mlir::Value value);
  /// log2 of the largest power of two known to divide a lowered integer or address.
  unsigned knownZeros(mlir::Value lowered, unsigned depth = 0) const;
  llvm::DenseMap<mlir::Value, unsigned> argumentZeros;

  /// A tensor constant whose elements differ, in memory.
  Buffer constantBuffer(mlir::arith::ConstantOp op);

  /// How many products the kernel has of each size (DotStep.cpp).
  struct Dots {
    unsigned all = 0, fromZero = 0; ///< of the latter the accumulator is 0
    unsigned fromZeroAtFirst = 0;   ///< in the first turn of a loop (`freshSums`)
  };
  llvm::StringMap<Dots> dots;
  /// Sums that a loop carries, in memory that nobody has filled with their initial zeros: an i1,
  /// whether this is the first turn.
  llvm::DenseMap<mlir::Value, mlir::Value> freshSums;
  bool usesTiles = false;   ///< some are products of tiles
  bool missesTiles = false; ///< or would be, had Linux given the process their registers

  //--- scratch ---
  /// A fresh buffer, or the destination chosen for `value`.
  Buffer allocate(mlir::Value value);
  Buffer allocate(mlir::RankedTensorType type);
  struct Piece {
    uint64_t offset, bytes;
  };
  struct Space {
    struct Used {
      Piece piece;
      mlir::Value base;
    };
    uint64_t top = 0; // nothing behind it is in use
    llvm::SmallVector<Piece> free;
    llvm::SmallVector<Used> used; // in the order of allocation
  };
  /// Restores the state of the mark: frees later allocations, and reallocates what was freed since.
  Space scratchMark() const { return space; }
  void scratchRelease(const Space &mark) { space = mark; }
  uint64_t scratchBytes = 0;
  /// An address that is found out by the run is one of these two.
  llvm::DenseMap<mlir::Value, std::pair<mlir::Value, mlir::Value>> eitherOf;

  //--- the function being built ---
  mlir::Value info, scratch, program;
  mlir::Value programIds[3], gridSizes[3];
  mlir::Operation *entryAnchor = nullptr; // scratch addresses are computed before it
  SiteTable sites;
  bool needsOrder = false;         // programs may wait for lower-numbered ones, or print
  targets::SourceLines sourceLine; // for the places in `sites`; may be empty

  //--- structured walks (Control.cpp, Groups.cpp, ...) ---
  void emitBlock(mlir::Block &block);
  void emitScalarOp(mlir::Operation *op);
  void emitRegionOp(mlir::Operation *op);
  void fail(mlir::Operation *op, const llvm::Twine &message);
  /// One turn of a loop that may wait for another program.
  void callSpin();
  explain::Report *explanation = nullptr; // null when nobody asked
  std::string error; // the first construct that cannot be compiled; empty when all went well
  bool forcedScalar = false;

private:
  void emitSteps(mlir::Block &block);
  void giveBack(Piece piece);
  /// Gives back what was allocated for `block` from `first` on and is not needed any more.
  void releaseDead(mlir::Block &block, size_t first,
                   llvm::function_ref<bool(mlir::Operation *)> isEmitted);
  Space space;
  unsigned constants = 0;
};

} // namespace nereid::cpu
