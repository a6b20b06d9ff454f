// Which arguments of a kernel a pointer may come from.
//
// A forward fixpoint over the whole function. Every value carries the set of pointer arguments it
// was made from, through any arithmetic (also that of integers made from pointers), selections,
// loops and branches. A pointer loaded from memory, or made from an integer that came from no
// argument, is `unknown`: it may point anywhere.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"

namespace nereid::transforms {

struct Origins {
  llvm::BitVector
      arguments; ///< by number of the function's argument; may be shorter than their count
  bool unknown = false;

  bool empty() const { return arguments.none() && !unknown; }
  /// The one argument it comes from, or -1.
  int only() const { return !unknown && arguments.count() == 1 ? arguments.find_first() : -1; }
};

class Provenance {
public:
  explicit Provenance(mlir::func::FuncOp function);
  const Origins &of(mlir::Value value) const;

  /// Whether anything may be stored through each argument of the function.
  llvm::BitVector writtenArguments(mlir::func::FuncOp function) const;

private:
  bool join(mlir::Value to, const Origins &from);
  bool visit(mlir::Operation &op);

  llvm::DenseMap<mlir::Value, Origins> origins;
};

} // namespace nereid::transforms
