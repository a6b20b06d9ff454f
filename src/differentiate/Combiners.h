// Derivatives of reductions and scans with any combiner, in a form that has a transpose.
//
// Let y_i = f(y_{i-1}, x_i) be the partial results of a scan. Since f is associative, they are
// those of a sequential loop, whatever order the target combines in. So their tangents are
//
//   dy_i = A_i dy_{i-1} + B_i dx_i,   A_i, B_i the derivatives of f in its left and right side
//
// where A_i is a k x k matrix for k operands with tangents. A_i and B_i dx_i are elementwise: the
// combiner's operations on blocks, y shifted by one element on the left. The recurrence is itself a
// scan, of pairs (A, t) with the combination (A, t)(B, s) = (B A, B t + s); that is a *linear
// scan*. Its transpose is the linear scan in the other direction with A_{i+1}^T in place of A_i. A
// reduction is the last element of a scan.
#pragma once

#include "ir/tile/Dialect.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>

namespace nereid::differentiate {

/// Tangents of the results `wanted` of a `tile.reduce` or `tile.scan`, written after it. `tangents`
/// are those of all its operands, null where there is none. Nothing when the combiner contains
/// control flow, or an operation without a rule.
std::optional<llvm::SmallVector<mlir::Value>>
tangentsOfCombination(mlir::OpBuilder &builder, mlir::Operation *op,
                      llvm::ArrayRef<unsigned> wanted, llvm::ArrayRef<mlir::Value> tangents);

/// Whether a scan is one of the linear scans that `tangentsOfCombination` writes.
bool isLinearScan(mlir::Operation *op);

/// Of a linear scan: the operands that are linear, and the results that depend on them.
mlir::ValueRange linearOperands(tile::ScanOp scan);
mlir::ValueRange linearResults(tile::ScanOp scan);

/// The adjoints of the linear operands from those of the linear results. `here` gives what an
/// operand that is not linear is at the insertion point.
llvm::SmallVector<mlir::Value>
transposedLinearScan(mlir::OpBuilder &builder, tile::ScanOp scan,
                     llvm::ArrayRef<mlir::Value> adjoints,
                     llvm::function_ref<mlir::Value(mlir::Value)> here);

} // namespace nereid::differentiate
