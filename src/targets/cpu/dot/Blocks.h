// The micro-kernel of units of blocks (Units.h), which emitDot calls.
#pragma once
#include "targets/cpu/dot/Dot.h"

namespace nereid::cpu {

void emitBlockDot(mlir::OpBuilder &builder, mlir::Location loc, const DotBlocking &plan,
                  const DotOperands &operands);

} // namespace nereid::cpu
