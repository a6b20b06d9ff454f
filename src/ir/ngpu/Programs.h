// Loops over the programs of a launch.
#pragma once
#include "ir/ngpu/Dialect.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace nereid::ngpu {

/// Is this a loop over the programs of a launch? Its iterations have no order.
inline bool isOverPrograms(mlir::Operation *op) {
  auto loop = mlir::dyn_cast<mlir::scf::ForOp>(op);
  return loop && loop.getUpperBound().getDefiningOp<ProgramsOp>();
}

} // namespace nereid::ngpu
