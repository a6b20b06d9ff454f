// Absolute values of 16-bit integers, computed in 32 bits.
//
// ptxas takes the result of `abs.s16` for one that is never negative, which that of -32768 is:
// comparisons behind it came out wrong. (CUDA 13.0, sm_90.)
#pragma once

namespace llvm {
class Module;
} // namespace llvm

namespace nereid::nvidia {

/// In place; run after the passes over LLVM IR that make `llvm.abs` out of comparisons.
void widenAbs(llvm::Module &module);

} // namespace nereid::nvidia
