// How many elements one access to global memory may move.
#pragma once
#include "ir/ngpu/Dialect.h"
#include "transforms/IntegerAnalysis.h"

namespace nereid::gpu {

/// The analysis that layouts, copies and the emitter of memory accesses share. It supposes that
/// dividends are not negative: `(pid_n * 128 + range) % N` could not be read in vectors otherwise,
/// and a kernel for which this is wrong addresses memory before its tensor.
inline transforms::IntegerAnalysis addressAnalysis(mlir::Operation *kernel) {
  return transforms::IntegerAnalysis(kernel, transforms::Mode::NonNegativeDividends);
}

struct AccessWidth {
  unsigned elements = 1;
  /// Register bits of the layout that run through the access, in order of addresses. They need not
  /// be the lowest bits.
  llvm::SmallVector<unsigned, 4> registerBits;
};

/// The widest access, up to `maxBytes` (a power of two), through the tensor of pointers `ptr`,
/// whose type has a layout: consecutive registers that hold consecutive, aligned addresses, and one
/// value of `mask` (null: none). Neither is changed by which lanes the launch masks off.
AccessWidth accessWidth(const transforms::IntegerAnalysis &analysis, mlir::Value ptr,
                        mlir::Value mask, unsigned maxBytes = 16);

} // namespace nereid::gpu
