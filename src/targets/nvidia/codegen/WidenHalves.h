// bf16 to fp32 where two of them lie in one word.
//
// The bits of a bf16 are the upper half of the fp32, so a conversion from half a word is one shift,
// or one mask. LLVM takes the halves out of the word first and converts each by `cvt`; ptxas then
// needs two instructions for each upper half.
#pragma once

namespace llvm {
class Module;
} // namespace llvm

namespace nereid::nvidia {

/// In place; run after the passes over LLVM IR that fold conversions.
void widenHalves(llvm::Module &module);

} // namespace nereid::nvidia
