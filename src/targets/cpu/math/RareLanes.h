// Branches around what few lanes need.
#pragma once
#include "targets/cpu/math/Emitters.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace nereid::cpu {

/// `y`, or `rare` of it in a region of its own when any lane needs it.
template <typename Rare> Lane unlessAny(const LaneBuilder &l, Lane condition, Lane y, Rare rare) {
  auto choice = mlir::scf::IfOp::create(
      l.builder, l.loc, anyLane(l, condition),
      [&](mlir::OpBuilder &builder, mlir::Location loc) {
        LaneBuilder in(builder, loc, l.features);
        mlir::scf::YieldOp::create(builder, loc, rare(in, in(y.get())).get());
      },
      [&](mlir::OpBuilder &builder, mlir::Location loc) {
        mlir::scf::YieldOp::create(builder, loc, y.get());
      });
  return l(choice.getResult(0));
}

} // namespace nereid::cpu
