// Absolute values and negations of 16-bit integers.
//
// Both give -32768 for -32768, and ptxas has forgotten that (CUDA 12.8 and 13.0, sm_80 to sm_100):
// it takes the result of `abs.s16` for one that is never negative, so that comparisons behind it
// came out wrong, and extends what `neg.s16` reads in place of what it gives, so that a conversion
// behind it made 32768 of it. Absolute values are computed in 32 bits, negations as differences of
// unsigned integers.
#pragma once

namespace llvm {
class Module;
} // namespace llvm

namespace nereid::nvidia {

/// In place; run after the passes over LLVM IR that make such operations out of others.
void guardShortSigns(llvm::Module &module);

} // namespace nereid::nvidia
