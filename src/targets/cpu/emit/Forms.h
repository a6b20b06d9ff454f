// Affine forms: integers and pointers of a tensor as  base + sum of stride[d] * loop variable d.
//
// Pointer arithmetic is the heart of a kernel, and nearly all of it is affine in the position
// inside the block: `x_ptr + pid*BLOCK + arange` is one address per block and a step. Forms finds
// this by walking back from the pointer, computing base and strides in scalar code *before* the
// loops, so that a loop body sees one address and a constant step, and contiguous accesses become
// plain vector loads.
//
// Wrap-around. Offsets are mostly 32-bit and are sign-extended before they reach a pointer. An
// affine 32-bit value is affine after the extension only if it does not wrap inside the loop nest.
// That is either proven (a base aligned to the extent of the block cannot wrap inside it) or
// becomes an *assumption*: a scalar condition, computed before the loops, under which the form
// holds. The caller emits the loops twice: for the case that all assumptions hold, and a plain
// scalar loop for the other. `% M` is treated alike: it is the identity, less a constant, where
// first and last element have the same quotient.
#pragma once
#include "targets/cpu/emit/Kernel.h"

namespace nereid::cpu {

struct Form {
  /// Integer of the value's type, or !llvm.ptr. Value where all loop variables are zero.
  mlir::Value base;
  /// Per loop variable; null where the value does not depend on it. Integer of the value's type;
  /// for pointers i64 bytes.
  llvm::SmallVector<mlir::Value, 4> strides;
};

class Forms {
public:
  /// Loop variable d runs over [0, extents[d]). Code is emitted at the builder's insertion point at
  /// the time of each query. With `assume` off only forms that need no assumption are found.
  /// `scalarAt` evaluates a value at a point where nothing runs.
  Forms(Kernel &kernel, llvm::ArrayRef<int64_t> extents, bool assume,
        std::function<mlir::Value(mlir::Value, llvm::ArrayRef<Index>)> scalarAt)
      : k(kernel), extents(extents), assume(assume), scalarAt(std::move(scalarAt)) {}

  std::optional<Form> of(mlir::Value value, llvm::ArrayRef<Index> point);
  /// A form found earlier; emits nothing.
  std::optional<Form> known(mlir::Value value, llvm::ArrayRef<Index> point) const {
    auto found = memo.find(TensorPoint{value, Point(point)});
    return found == memo.end() ? std::nullopt : found->second;
  }
  /// Narrows what is known about a form found earlier (a stride assumed to have a certain value).
  void replace(mlir::Value value, llvm::ArrayRef<Index> point, Form form) {
    memo[TensorPoint{value, Point(point)}] = std::move(form);
  }
  /// Least and greatest value over the nest, as i64 (of an address for pointers). `counts`: where
  /// given, loop variable d runs over [0, counts[d]) instead (i64, at least 1; null: its extent).
  std::pair<mlir::Value, mlir::Value> bounds(const Form &form, bool isUnsigned = false,
                                             llvm::ArrayRef<mlir::Value> counts = {});
  /// Adds a condition to the assumptions; false when it is known not to hold.
  bool require(mlir::Value condition);

  llvm::SmallVector<mlir::Value> assumptions;

private:
  std::optional<Form> compute(mlir::Value value, llvm::ArrayRef<Index> point);
  std::optional<Form> extended(const Form &form, mlir::Type to, bool isUnsigned);
  std::optional<Form> remainder(const Form &form, mlir::Value divisor);
  std::pair<mlir::Value, mlir::Value> span(const Form &form,
                                           llvm::ArrayRef<mlir::Value> counts = {});
  bool cannotWrap(const Form &form);
  Form plus(const Form &lhs, const Form &rhs, bool negate);

  Kernel &k;
  llvm::SmallVector<int64_t> extents;
  bool assume;
  std::function<mlir::Value(mlir::Value, llvm::ArrayRef<Index>)> scalarAt;
  llvm::DenseMap<TensorPoint, std::optional<Form>> memo;
  std::vector<TensorPoint> found; ///< the keys of `memo` in the order in which they came
};

} // namespace nereid::cpu
