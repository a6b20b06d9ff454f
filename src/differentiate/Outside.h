// Where blocks are zero because masks leave positions out, and products that need not read there.
#pragma once

#include "differentiate/Addresses.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace nereid::differentiate {

/// The one value of all elements of a block, or null.
mlir::Value splatOf(mlir::Value block);

/// Where a block is zero: at positions along one dimension that are not below a bound.
struct Outside {
  Address position; ///< along dimension 0
  mlir::Value bound;

  /// Whether a block is zero outside, along this dimension.
  bool isZero(mlir::Value block, unsigned dim, unsigned depth = 16) const;

private:
  /// Whether a mask is false outside.
  bool isFalse(mlir::Value mask, unsigned dim, unsigned depth) const;
};

/// In the loop over the blocks of a gradient: where a product adds over positions that wrap around,
/// `position % bound`, and one operand is zero at positions from the bound on, the other one is not
/// read there. Its addresses then need no remainder in every iteration.
void unwrapProducts(mlir::scf::ForOp blocks);

} // namespace nereid::differentiate
