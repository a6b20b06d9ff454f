// The tile of the output that a program computes, as coordinates.
//
// Kernels number tiles by the axes of the grid, or take one axis apart: rows and columns by
// division, or in groups of rows, as products of matrices do to reuse what is in the cache. A
// schedule that runs over tiles in another order needs coordinates that it can choose: every
// combination belongs to one program, and the kernel uses program ids for nothing else but what can
// be computed from coordinates.
#pragma once

#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <string>
#include <vector>

namespace nereid::differentiate {

struct Coordinate {
  llvm::SmallVector<mlir::Value> values; ///< all of them are this coordinate
  mlir::Value extent;                    ///< i32: how many there are, from 0
  std::string name;                      ///< for people
};

/// A number that is made of coordinates: one of them, or `quotient * width + remainder`.
struct Position {
  llvm::SmallVector<mlir::Value> values; ///< all of them are this number
  unsigned place = 0;                    ///< without a width: the coordinate
  mlir::Value width;                     ///< i32, positive
  unsigned quotient = 0, remainder = 0;  ///< with a width: positions before this one
};

struct Coordinates {
  llvm::SmallVector<Coordinate> all;
  std::vector<Position> positions;
  /// Loops in which a coordinate times a number is the loop's variable.
  llvm::SmallDenseMap<mlir::Operation *, std::pair<unsigned, int64_t>> rounds;
  /// i1: every combination belongs to one program, and every program to one combination.
  mlir::Value holds;
  std::string words; ///< the condition; empty when it always holds
  std::string why;   ///< why there are no coordinates; empty when there are

  std::optional<unsigned> indexOf(mlir::Value value) const {
    for (unsigned i = 0; i < all.size(); ++i)
      if (llvm::is_contained(all[i].values, value))
        return i;
    return std::nullopt;
  }

  /// The position that a value is; null where it is none.
  const Position *positionOf(mlir::Value value) const {
    for (const Position &position : positions)
      if (llvm::is_contained(position.values, value))
        return &position;
    return nullptr;
  }
};

/// Of a kernel. Extents and condition are computed at the builder's insertion point, which values
/// of the kernel's first block reach.
Coordinates coordinatesOf(mlir::func::FuncOp kernel, mlir::OpBuilder &builder);

/// Whether two scalars are the same by how they are computed.
bool isSame(mlir::Value a, mlir::Value b, unsigned depth = 8);

} // namespace nereid::differentiate
