// Masks of the form `offsets < n`: whether all lanes of a chunk are on can be told from its first
// and last lane. A chunk that is on as a whole, which is nearly every chunk, takes a path without
// masks: below AVX-512 masked accesses are no instructions, and with it they are slower than plain
// ones on several processors.
#pragma once
#include "targets/cpu/emit/Elements.h"

namespace nereid::cpu {

class Masks {
public:
  /// Adds the mask of an access at `point`, emitting what does not run with the nest. After a mask
  /// that is not of the form, `usable` is false for good.
  void add(mlir::Value mask, llvm::ArrayRef<Index> point, Kernel &kernel, Forms &forms,
           Elements &outside);
  bool usable() const { return possible && (!limits.empty() || !uniform.empty()); }
  /// A scalar that is true only if every mask is true in all lanes of the current chunk.
  mlir::Value allHold(Kernel &kernel, Elements &lanes) const;

private:
  struct Limit { // `running` is compared with `fixed`, and grows from lane to lane by `stride`
    Form running;
    mlir::Value fixed;
    int64_t stride;
    mlir::arith::CmpIPredicate predicate;
  };
  llvm::SmallVector<Limit> limits;
  llvm::SmallVector<mlir::Value> uniform;
  bool possible = true;
};

} // namespace nereid::cpu
