// Keeps the registers of wgmma accumulators free of copies.
//
// A product in flight owns its accumulator registers. When a loop that keeps one in flight across
// its back edge starts from constants (zeros, usually), LLVM sets the registers to the constant in
// every block that enters the loop or skips it, and ptxas, finding several definitions of an
// accumulator between the start of a product and its wait, gives up and runs one product after the
// other (advisory C7515). So such constants become one opaque definition in a block that dominates
// all of those.
#pragma once

namespace llvm {
class Module;
} // namespace llvm

namespace nereid::nvidia {

/// In place; run after the other passes over LLVM IR, which would look for constants in vain.
void pinAccumulators(llvm::Module &module);

} // namespace nereid::nvidia
