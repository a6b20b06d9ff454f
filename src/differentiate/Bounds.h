// Bounds of loops that differ between tiles, as of causal attention: the rounds that reach the
// diagonal. A schedule that asks which tiles have a round in their loop inverts them, which is
// easy where they never fall along one coordinate.
#pragma once

#include "differentiate/Coordinates.h"

#include "mlir/IR/IRMapping.h"

namespace nereid::differentiate {

/// Along which coordinate a scalar differs between tiles.
struct Direction {
  bool isKnown = true;           ///< else it may fall, or depends on several coordinates
  std::optional<unsigned> place; ///< the coordinate along which it never falls; none: uniform
};

/// Of a scalar that is computed in the kernel's first block.
Direction directionOf(const Coordinates &coordinates, mlir::Value value);

/// What the scalar is in the tile whose coordinate `place` is `at`. Of a scalar with a known
/// direction along this coordinate or none.
mlir::Value valueAt(const Coordinates &coordinates, mlir::Value value, unsigned place,
                    mlir::Value at, mlir::OpBuilder &builder);

/// The least number from 0 to `count` for which a condition holds, by bisection: `count` where it
/// holds for none. A condition that holds for a number holds for the larger ones. All are i32.
mlir::Value firstWhere(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value count,
                       llvm::function_ref<mlir::Value(mlir::Value)> condition);

} // namespace nereid::differentiate
