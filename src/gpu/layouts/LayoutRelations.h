// How the layouts of an op's operands and results go together.
//
// Of every op on tensors one layout is the base, from which the others follow:
//
//   elementwise, load, store, atomic, scan     every operand and result has the base
//   range, splat, constant                     the result; there are no tensor operands
//   expand_dims, broadcast, trans, reshape     the result's; the operand's is computed
//   join, cat                                  the result's, in which the parts are register bits
//   split                                      the operand's, likewise; reduce: the operand's
//   unsplat                                    the operand's
//   exchange                                   operand and result have the base
//   slice                                      the operand's, where it chooses bits; else the
//   result's gather                                     the result's and the indices'; the source
//   follows histogram                                  the operand's and the mask's
//
// Free of any choice: choosing is LayoutAssignment's.
#pragma once
#include "ir/tile/Dialect.h"
#include "layout/LinearLayout.h"

namespace nereid::gpu {

/// The layout that operand `operand` of `op` must have when the base is `base`.
layout::LinearLayout operandLayout(mlir::Operation *op, unsigned operand,
                                   const layout::LinearLayout &base);

/// The layout of result `result` of `op` when the base is `base`.
layout::LinearLayout resultLayout(mlir::Operation *op, unsigned result,
                                  const layout::LinearLayout &base);

/// Whether the base of `op` may be `base`: join, split and cat keep their parts in registers, scan
/// wants every step along its axis to be a step of one bit.
bool admitsBase(mlir::Operation *op, const layout::LinearLayout &base);

/// The type whose layout is the base: of the first tensor result, or of the operand.
mlir::RankedTensorType baseType(mlir::Operation *op);

/// A layout that keeps the same coordinates but holds all of dimension `dim` in registers, slowest:
/// what `admitsBase` asks of join, split and cat, made from any layout.
layout::LinearLayout withPartsInRegisters(mlir::Operation *op, const layout::LinearLayout &base);

/// The base of a join whose operands have `part`, or of a split whose results shall have it.
layout::LinearLayout baseOfHalves(const layout::LinearLayout &part);

/// Every thread holds every element, in row-major order of registers.
layout::LinearLayout everywhere(llvm::ArrayRef<int64_t> shape, unsigned lanes, unsigned warps);

/// Whether reshaping moves no element between a core and its repeats, so that it is a reshape of
/// the core alone. Otherwise all elements of both tensors must be in every thread.
bool reshapesCore(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

/// Whether a reshape only adds or drops dimensions of size 1, of a tensor whose sizes are powers of
/// two: a buffer can be seen so.
bool changesUnitDims(tile::ReshapeOp reshape);

/// The layout of a buffer of the operand of a transposition or of such a reshape, whose result is
/// seen in `seen`.
layout::LinearLayout bufferBehind(mlir::Operation *view, const layout::LinearLayout &seen);

} // namespace nereid::gpu
