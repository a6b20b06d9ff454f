// The planning of a buffer, with what its use will cost.
#pragma once
#include "layout/Conversion.h"

namespace nereid::layout {

/// conflictFreeBuffer with the estimate that it chose by.
LinearLayout conflictFreeBuffer(const LinearLayout &from, const LinearLayout &to,
                                unsigned elementBits, llvm::ArrayRef<unsigned> leading,
                                MoveCost &cost);

} // namespace nereid::layout
