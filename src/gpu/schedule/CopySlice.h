// The part of a kernel that decides what is copied when: the coordinates of copies, and the loops
// and branches around them. One thread can run it by itself, ahead of those that compute.
#pragma once
#include "ir/ngpu/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace nereid::gpu {

class CopySlice {
public:
  /// `runsAhead`: may this scalar load be done before the stores in front of it?
  explicit CopySlice(std::function<bool(tile::LoadOp)> runsAhead)
      : runsAhead(std::move(runsAhead)) {}

  /// What `value` is computed from becomes part of the slice. False when it depends on a tensor, on
  /// a result of what threads do together, or on a `while` loop; the slice is then of no use.
  bool add(mlir::Value value);
  /// The same for the loops and branches around `op`.
  bool addControl(mlir::Operation *op);

  /// Writes the slice of `block` at `builder`. `before` is called for each op of the kernel's
  /// blocks that the slice goes through, in order, before the op itself.
  using Visitor =
      llvm::function_ref<void(mlir::Operation &, mlir::OpBuilder &, const mlir::IRMapping &)>;
  void clone(mlir::OpBuilder &builder, mlir::Block &block, mlir::IRMapping &map, Visitor before);

private:
  bool addResult(mlir::OpResult result);
  bool addOp(mlir::Operation *op);
  void cloneFor(mlir::OpBuilder &builder, mlir::Operation *op, mlir::IRMapping &map,
                Visitor before);
  void cloneIf(mlir::OpBuilder &builder, mlir::Operation *op, mlir::IRMapping &map, Visitor before);
  /// The carried values or results of a loop or branch that the slice needs, in order.
  llvm::SmallVector<unsigned> numbersOf(mlir::Operation *op) const;

  std::function<bool(tile::LoadOp)> runsAhead; ///< owned: who asks may be gone
  llvm::DenseSet<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, llvm::SmallSetVector<unsigned, 4>> carried;
};

} // namespace nereid::gpu
