// The cost of a move through shared memory, known while its buffer is being planned.
#pragma once
#include "layout/Conversion.h"

namespace nereid::layout {

/// For each warp: instructions issued, and turns of the memory's 128 bytes a clock.
struct BufferCost {
  unsigned instructions = 0, wavefronts = 0;
  unsigned slots() const { return instructions + wavefronts; }
};

/// conflictFreeBuffer with the estimate that it chose by.
LinearLayout conflictFreeBuffer(const LinearLayout &from, const LinearLayout &to,
                                unsigned elementBits, llvm::ArrayRef<unsigned> leading,
                                BufferCost &cost);

} // namespace nereid::layout
