// Masked loads and stores in forms that LLVM's code generator for x86 compiles rightly and well.
#pragma once

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace nereid::cpu {

/// Rewrites the masked accesses of LLVM IR, right before code is made of it.
///
/// - Those of vectors wider than a register become several, one a register, each with its part of
///   the mask; parts that are off as a whole vanish. LLVM 22 splits them too, but where it then
///   finds one half of a mask to be false it loads that half without a mask: reads of what must not
///   be touched, and no `other`.
/// - A store whose mask is a constant with one true lane becomes a store of that lane. For a
///   truncated vector LLVM 22 stores an element of the vector before it was truncated.
void simplifyMaskedAccesses(llvm::Module &module, llvm::TargetMachine &target);

} // namespace nereid::cpu
