// How ops on whole tensors that are not part of a loop step are emitted.
#pragma once
#include "targets/cpu/emit/Kernel.h"

namespace nereid::cpu {

/// Emits the op if it works on tensors in its own way (scan, dot, atomics, join, split, cat,
/// irregular reshape, print, assert, barrier, unsplat, calls); false for a scalar op.
bool emitTensorOp(Kernel &kernel, mlir::Operation *op);

/// One element, at i64 coordinates; coordinates of dimensions of size 1 are not used.
mlir::Value elementAt(Kernel &kernel, mlir::Value value, llvm::ArrayRef<mlir::Value> indices);
void writeElement(Kernel &kernel, const Buffer &buffer, llvm::ArrayRef<mlir::Value> indices,
                  mlir::Value value);

/// A combiner without control flow and effects, which works on lanes as on scalars.
bool isSimpleCombiner(mlir::Region &combiner);
/// Any combiner, on scalars.
llvm::SmallVector<mlir::Value> combineScalars(Kernel &kernel, mlir::Region &combiner,
                                              llvm::ArrayRef<mlir::Value> lhs,
                                              llvm::ArrayRef<mlir::Value> rhs);
/// Combines along `axis` element by element; `each` gets every partial result with its place.
void emitSequential(
    Kernel &kernel, mlir::ValueRange sources, int axis, mlir::Region &combiner, bool reverse,
    llvm::function_ref<void(llvm::ArrayRef<mlir::Value>, llvm::ArrayRef<mlir::Value>)> each);

/// One file each.
void emitScan(Kernel &kernel, tile::ScanOp op);
void emitDot(Kernel &kernel, tile::DotOp op);
/// `dot(a, b, argument)` that is the new value of `argument`, which a loop carries, with no other
/// use.
bool isAccumulation(mlir::Value argument, mlir::Value yielded);
/// Whether the product that a loop carries in `argument` starts from zeros (`init`) and adds to
/// them in each turn, without any other reader: the first turn is then told so
/// (`Kernel::freshSums`), and nobody writes the zeros. `yielded`: the carried value of the next
/// turn.
bool startsFromZero(Kernel &kernel, mlir::Value init, mlir::Value argument, mlir::Value yielded);
/// Before a kernel's emission: counts its products of each size.
void countDots(Kernel &kernel, mlir::Operation *root);
bool emitForeign(Kernel &kernel, mlir::Operation *op); // false: something else
void emitAtomic(Kernel &kernel, tile::Atomic op);

} // namespace nereid::cpu
