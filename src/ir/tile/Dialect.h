// The tile dialect: kernels as programs on blocks of data. Types.td and Ops.td describe it.
#pragma once
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace nereid::tile {
/// Whether a tensor of the dialect may have this shape: at least one dimension, all sizes known and
/// positive.
bool isTileShape(llvm::ArrayRef<int64_t> shape);

/// Traits, beside MLIR's own `Elementwise`: each element of the result is computed from the
/// elements at its place and from scalars.

/// The elements of the one operand under another shape: every element of the result is one of them,
/// and each of them is there.
template <typename Op> class View : public mlir::OpTrait::TraitBase<Op, View> {};

/// The result is the one operand; what differs is what is known of it, or where it is.
template <typename Op> class SameElements : public mlir::OpTrait::TraitBase<Op, SameElements> {};
} // namespace nereid::tile

#include "ir/tile/Dialect.h.inc"
#include "ir/tile/Enums.h.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/tile/OpInterfaces.h.inc"
#include "ir/tile/Types.h.inc"
#define GET_OP_CLASSES
#include "ir/tile/Ops.h.inc"

namespace nereid::tile {

/// Loads every dialect that tile IR is made of into `context`: tile, func, arith, math, scf, ub.
void loadDialects(mlir::MLIRContext &context);

/// The shape of a tensor type; empty for a scalar or pointer.
llvm::ArrayRef<int64_t> shapeOf(mlir::Type type);

/// The element type of a tensor type; the type itself for a scalar or pointer.
mlir::Type elementOf(mlir::Type type);

/// `element` with the shape of `like`: a tensor type, or the element type itself where `like` is
/// scalar.
mlir::Type withShapeOf(mlir::Type element, mlir::Type like);

/// Marks a loop that has another version, whose blocks come through descriptors; which one runs is
/// decided before it (transforms/PointersToDescriptors.cpp).
constexpr llvm::StringLiteral withoutCopiesName = "tile.without_copies";

inline bool isElementwise(mlir::Operation *op) {
  return op->hasTrait<mlir::OpTrait::Elementwise>();
}
inline bool isView(mlir::Operation *op) {
  return op->hasTrait<View>();
}
inline bool hasSameElements(mlir::Operation *op) {
  return op->hasTrait<SameElements>();
}

/// One of the language's floats of 8 bits, f8E4M3FN and f8E5M2; not a tensor of them.
bool isFloat8(mlir::Type type);

/// Size in memory of a scalar or pointer type, in bytes; i1 takes one.
unsigned sizeInBytes(mlir::Type scalar);

} // namespace nereid::tile
