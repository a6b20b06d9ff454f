// Sizes that are no powers of two, padded: docs/odd-shapes.md.
//
// A layout covers a power-of-two core of a size and repeats it an odd number of times in every
// thread's registers (layout/LinearLayout.h). That is what a tile of 176 or 192 columns wants. A
// size of 100 or 33 would have a core of 4 or 1, so that all threads hold the same elements: it is
// padded to the next power of two, before all other passes.
//
// The elements in the padding are undefined and must have no effect. So only ops that combine
// elements or write them to memory are rewritten:
//
//   load, store, atomics, assert     masked off
//   print                            remembers the true `shapes`
//   reduce, scan                     the combiner's neutral element if it has one; else an operand
//   that
//                                    tells real elements from others goes through the combiner
//   dot                              zeros along K
//   reshape, cat, slice              gathered at computed indices where the padding is in the way
//   integer division                 by one
#pragma once
#include "gpu/Options.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/Error.h"

namespace nereid::gpu {

/// Gives every tensor of `kernel` sizes that layouts take well.
llvm::Error padShapes(mlir::func::FuncOp kernel, const GpuOptions &options);

/// Whether a size may stay as it is: a power of two, or an odd number of repeats of a core that
/// threads can share.
bool isLayoutSize(int64_t size);

} // namespace nereid::gpu
