// Counters of loops, narrowed to the type of the offsets that are computed from them.
//
// Loops over the lanes of a tensor count in 64 bits, offsets have 32. For each expression of 32
// bits, loop strength reduction tries the same one extended to 64 bits, and proves for each that it
// does not wrap: from the conditions of all loops and branches around it, of both widths, which are
// extended for it and need proofs themselves. In loops that are four deep and more, as gradients
// have them, that takes most of the pass's time. Behind a `freeze` the narrow counter is a value of
// which nothing is known, and an offset is computed from it in each iteration: an addition and an
// extension, which take as long as another counter. In loops less deep the pass finds shorter
// addresses in reasonable time.
#pragma once

namespace llvm {
class Module;
} // namespace llvm

namespace nereid::cpu {

/// Puts a `freeze` behind each truncation of a counter of a loop that is at least four deep. To be
/// called right before the code generator: other passes remove a `freeze` of what is no poison.
void hideNarrowCounters(llvm::Module &module);

} // namespace nereid::cpu
