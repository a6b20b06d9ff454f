// How many registers a thread of a kernel needs, for the assembler's aim.
//
// nvJitLink compiles what may be linked with more and gives a thread all registers that help it, up
// to twice what the program `ptxas` takes for the same code. A block that reads a row, reduces it
// and writes it then has its multiprocessor for itself, which waits for memory, for barriers and
// for arithmetic in turns instead of at once. So we pass the number of blocks per multiprocessor
// (`-minnctapersm`), which follows from an estimate of the registers that suffice.
//
// Between two exchanges among threads (shuffles, barriers) the assembler may reorder instructions,
// but values that live across an exchange need registers. The largest of these sets is the
// floor of the estimate; for the phases between, the estimate takes three fifths of the registers
// that the order of the code needs, because an assembler that is short of registers places loads
// next to their uses.
#pragma once

namespace llvm {
class Function;
} // namespace llvm

namespace nereid::nvidia {

/// Registers of 32 bits a thread that `kernel`, which has been optimised, can do with. 0: not
/// known, or not to be limited: code without exchanges, whose loads had better be in flight
/// together, and code of the matrix units, which gains more from its own instructions in flight
/// than from blocks.
int registerDemand(const llvm::Function &kernel);

/// Does `kernel` use matrix units, and do its threads exchange nothing by shuffles (as the rows of
/// a softmax between two products do)? Then its products follow one another without a gap, and a
/// further block on the multiprocessor has nothing to fill: 128x128x32 with 4 warps took 1.10 times
/// as long with three blocks as with two.
bool isBoundByProducts(const llvm::Function &kernel);

} // namespace nereid::nvidia
