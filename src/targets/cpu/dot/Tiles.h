// The micro-kernel of units of tiles (Units.h), which emitDot calls.
#pragma once
#include "targets/cpu/dot/Dot.h"

namespace nereid::cpu {

void emitTileDot(mlir::OpBuilder &builder, mlir::Location loc, const DotBlocking &plan,
                 const DotOperands &operands);

} // namespace nereid::cpu
