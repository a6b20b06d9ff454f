// Floats whose bits are a truth value: 0 or 1.
//
// ptxas takes a selection between the bits 1 and 0 for the integer of a truth value wherever it
// goes: behind it `cvt` and `neg` of floats became those of integers (the smallest denormal became
// 1 or 1.0; CUDA 12.8 to 13.0, sm_80 to sm_100). The selection is hidden behind an instruction that
// it does not look through.
#pragma once

namespace llvm {
class Module;
} // namespace llvm

namespace nereid::nvidia {

/// In place; run after the passes over LLVM IR that fold selections and conversions.
void guardTruthBits(llvm::Module &module);

} // namespace nereid::nvidia
