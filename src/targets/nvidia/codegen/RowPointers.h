// Addresses in loops of asynchronous products: a pointer a row and one offset that advances.
//
// A loop that walks blocks of pointers over K has for every access of a thread
//
//   (base + moved) + row          row: the same in all iterations; moved: the same for all rows
//
// (row may be several steps, as down and across) which is cheapest to compute in general: the inner
// sum is uniform, the outer one a multiply-add of the row's 32-bit number. While `wgmma` runs it is
// not: the unit reads and writes its accumulators in the register file all the time, and 64-bit
// multiply-adds (three reads of 64 bits, a result of 64) and copies of register pairs take its
// turns. ptxas keeps the rows' numbers narrow and multiplies in every iteration, whatever is
// computed outside; LLVM's strength reduction makes a running pointer a row where the step is a
// constant, which ptxas advances in other registers than those it reads, with two copies each. So
// there the sum becomes
//
//   (base + row) + moved
//
// with the inner one in front of the loop and `moved` in bytes behind an empty instruction that
// neither of the two looks through: two additions of 32 bits an access, of which ptxas takes
// `moved` from a uniform register where it can. The same is done where (base + row) is computed in
// front of the loop already and several rows share `moved`. It costs a 32-bit register a row: a
// loop that computes with what its products give (attention) needs its registers for that, and
// stays as it is.
#pragma once

namespace llvm {
class Module;
} // namespace llvm

namespace nereid::nvidia {

/// In place, in the loops that accumulate by `wgmma` instructions; run after the passes over LLVM
/// IR, which bring addresses into the first form.
void hoistRowPointers(llvm::Module &module);

} // namespace nereid::nvidia
