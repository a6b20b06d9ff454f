// Where in a tensor an element is taken from, in terms of the loops around, and how that place
// travels backwards through the ops that only move elements.
#pragma once
#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"

namespace nereid::cpu {

class Emit;

/// One coordinate: `base` (an i64, null for zero) plus, when `dim` is not negative, the loop
/// variable number `dim` of the loop nest being emitted.
struct Index {
  mlir::Value base;
  int dim = -1;
  bool operator==(const Index &) const = default;
};

/// One Index per dimension of a tensor.
using Point = llvm::SmallVector<Index, 4>;

/// A point together with the tensor, as key of a memo.
struct TensorPoint {
  mlir::Value value;
  Point point;
  bool operator==(const TensorPoint &) const = default;
};

/// True when some coordinate runs with loop variable `dim`; with any when `dim` is -1.
bool runsWith(llvm::ArrayRef<Index> point, int dim = -1);

/// True for ops whose result element is an element of their one tensor operand, found by
/// `sourcePoint`: broadcast, expand_dims, trans, reshape, slice, hint.
bool movesElements(mlir::Operation *op);

/// True for an operand that is read at other places than those computed: what an exchange, a gather
/// or a slice with steps takes its elements from. Such a tensor must be in memory.
bool readsElsewhere(mlir::OpOperand &operand);

/// The place in the operand of a `movesElements` op that holds the element of the result at
/// `point`. Null when a reshape mixes coordinates in a way that a running coordinate cannot follow
/// (`isRegularReshape` tells in advance that this never happens), and for the running coordinates
/// of slices with steps.
std::optional<Point> sourcePoint(mlir::Operation *op, llvm::ArrayRef<Index> point, Emit &emit);

/// A reshape that only adds and drops dimensions of size 1.
bool isRegularReshape(mlir::Operation *op);

} // namespace nereid::cpu

template <> struct llvm::DenseMapInfo<nereid::cpu::TensorPoint> {
  static nereid::cpu::TensorPoint getEmptyKey() {
    return {DenseMapInfo<mlir::Value>::getEmptyKey(), {}};
  }
  static nereid::cpu::TensorPoint getTombstoneKey() {
    return {DenseMapInfo<mlir::Value>::getTombstoneKey(), {}};
  }
  static unsigned getHashValue(const nereid::cpu::TensorPoint &place) {
    llvm::hash_code hash = mlir::hash_value(place.value);
    for (const nereid::cpu::Index &index : place.point)
      hash = llvm::hash_combine(hash, mlir::hash_value(index.base), index.dim);
    return hash;
  }
  static bool isEqual(const nereid::cpu::TensorPoint &lhs, const nereid::cpu::TensorPoint &rhs) {
    return lhs == rhs;
  }
};
