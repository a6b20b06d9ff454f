// 16-bit floats that the machine cannot compute on travel as integers.
//
// LLVM moves a bfloat through f32 where a machine has no instructions for it, also in shuffles and
// inserts, and then calls libgcc to narrow it again. After the conversions have been expanded
// nothing computes on such values any more: they are loaded, moved and stored. So their type can as
// well be i16.
#pragma once
#include "targets/cpu/Features.h"

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace nereid::cpu {

/// Gives every bf16 value of a module in the LLVM dialect the type i16, and every f16 value where
/// the machine has no F16C. Runs after the lowering to that dialect; arithmetic on these types must
/// be gone.
void carryNarrowFloatsAsBits(mlir::ModuleOp module, const Features &features);

} // namespace nereid::cpu
