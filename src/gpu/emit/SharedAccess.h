// Moving a thread's registers to and from shared memory by layouts: what local_load and local_store
// do, and reductions and scans with their scratch memory.
#pragma once
#include "gpu/emit/Emitter.h"
#include "layout/Conversion.h"

namespace nereid::gpu {

/// Addresses of one distributed layout in one buffer. The part of lane and warp is computed once
/// for each constant that must be XORed to it; all else are immediate offsets.
class SharedAddresses {
public:
  /// Bytes from the buffer's start by lane bits and warp bits.
  SharedAddresses(Emitter &e, llvm::Value *base, llvm::ArrayRef<uint32_t> laneBytes,
                  llvm::ArrayRef<uint32_t> warpBytes);
  /// base + ((lane and warp part) XOR `bytes`) + `displacement`.
  llvm::Value *at(uint32_t bytes, uint32_t displacement = 0);

private:
  Emitter &e;
  llvm::Value *base, *linear;
  uint32_t reach = 0; ///< bits that the part of lane and warp may set
  llvm::SmallDenseMap<uint32_t, llvm::Value *> bases;
};

/// One move between the registers of `distributed` and `memory` (a layout of offsets over the same
/// core). `repeats` copies of both follow one another, `repeatBytes` apart in memory.
struct SharedMove {
  layout::LinearLayout distributed, memory;
  llvm::Type *element; ///< as registers hold it
  unsigned repeats = 1;
  uint32_t repeatBytes = 0;
  bool matrices = true; ///< ldmatrix and stmatrix may be used
};

/// Bytes of one element in shared memory, and its type there (i1 takes a byte, pointers are
/// integers).
llvm::Type *storedType(Emitter &e, llvm::Type *element);
llvm::Value *toStored(Emitter &e, llvm::Value *value);
llvm::Value *fromStored(Emitter &e, llvm::Value *value, llvm::Type *element);

/// Every element is written once, by the place that owns it, to the shared memory of `allBlocks` of
/// the program; otherwise each block writes the elements that its threads have to its own.
void storeShared(Emitter &e, llvm::Value *base, const SharedMove &move,
                 llvm::ArrayRef<llvm::Value *> registers, bool allBlocks = false);
/// Sends every element once, of 32 or 64 bits, by the place that owns it, to the shared memory of
/// all blocks of the program, `base` there, whose mbarriers at `barrier` count the bytes. The bytes
/// that each of them receives.
unsigned sendShared(Emitter &e, llvm::Value *base, llvm::Value *barrier, const SharedMove &move,
                    llvm::ArrayRef<llvm::Value *> registers);
Values loadShared(Emitter &e, llvm::Value *base, const SharedMove &move);

} // namespace nereid::gpu
