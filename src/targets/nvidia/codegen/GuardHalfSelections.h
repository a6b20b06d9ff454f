// Selections between 16-bit floats that arithmetic goes on with.
//
// ptxas puts two operations on 16-bit floats into one on a pair. Where an operand of such an
// operation is also what a selection falls back on, it took the register of the selection for that
// of the operand, in which the other side of the selection stood by then (`min.f16` behind
// `selp.b16`; CUDA 12.8 and 13.0, sm_90). Selections of 32 bits are not affected: they are made
// there.
#pragma once

namespace llvm {
class Module;
} // namespace llvm

namespace nereid::nvidia {

/// In place; run after the passes over LLVM IR, which would make the selections narrow again.
void guardHalfSelections(llvm::Module &module);

} // namespace nereid::nvidia
