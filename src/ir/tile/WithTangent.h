// What authors say about derivatives, in tile IR: calls of functions that no library has. The value
// of each is its first operand. They exist between the front end and the end of differentiation
// only.
//
//   tile.extern_elementwise "with_tangent" from "nereid" (%input, %source) pure
//     `tl.with_tangent`: the tangent, where one is asked for, is that of the source
//   "saved" (%input, %pointers, [%mask, [%other]])
//     `tl.save`: gradient kernels load the value, which the kernel has stored there
//   "recomputed" (%input)
//     `tl.recompute`: the states of the loop around it are computed again
//   "at_most" (%condition, %count)
//     `tl.at_most`: the condition of a `while` whose body runs at most `count` times
#pragma once

#include "ir/tile/Dialect.h"

namespace nereid::tile {

inline constexpr llvm::StringLiteral tangentSymbol = "with_tangent", savedSymbol = "saved",
                                     recomputedSymbol = "recomputed", boundSymbol = "at_most",
                                     tangentLibrary = "nereid";

inline bool isDerivativeMark(mlir::Operation *op) {
  auto call = llvm::dyn_cast_or_null<ExternOp>(op);
  return call && call.getLibrary() == tangentLibrary;
}

inline bool isDerivativeMark(mlir::Operation *op, llvm::StringRef symbol) {
  return isDerivativeMark(op) && llvm::cast<ExternOp>(op).getSymbol() == symbol;
}

inline bool isWithTangent(mlir::Operation *op) {
  return isDerivativeMark(op, tangentSymbol);
}

} // namespace nereid::tile
