// The machine that a kernel is compiled for, as far as the passes ask. A target describes its
// machines in these terms (its Machine.h); no pass asks which one it is.
#pragma once
#include <cstdint>

namespace nereid::gpu {

/// How dots may be computed. Each also computes what those before it compute.
enum class MatrixUnit : uint8_t { Fma, Mma, Wgmma };

/// The defaults are for tests and tools.
struct Machine {
  unsigned lanes = 32;                 ///< of a warp: threads that execute an instruction together
  unsigned sectorBytes = 32;           ///< the pieces in which global memory is read and written
  unsigned lineBytes = 128;            ///< of a cache
  MatrixUnit best = MatrixUnit::Wgmma; ///< the best unit there is
  bool asyncCopy = true;    ///< threads copy from global to shared memory without registers
  bool tma = true;          ///< a copy engine for blocks, with barriers that count its bytes
  bool fp8Mma = true;       ///< fp8 operands in matrix units
  bool matrixStores = true; ///< a warp writes 8x8 matrices to shared memory at once
  unsigned maxBlocks = 16;  ///< blocks that can run a program together; 1: there are no clusters
  /// The most that the compiler chooses by itself for reductions that send their partial results.
  unsigned mostSending = 16;
  unsigned multiprocessors = 132;   ///< of a large GPU of the generation
  unsigned registers = 65536;       ///< of a multiprocessor, 32 bits each, which its threads share
  unsigned threadRegisters = 255;   ///< of a thread at most
  unsigned maxSharedBytes = 232448; ///< dynamic shared memory of a block at most
  int generation = 90;              ///< its number among the target's machines, for reports alone
};

} // namespace nereid::gpu
