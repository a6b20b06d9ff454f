// `tl.with_tangent(input, source)` in tile IR: a call of a function that no library has,
//
//   tile.extern_elementwise "with_tangent" from "nereid" (%input, %source) pure
//
// Its value is the first operand; its tangent, where one is asked for, that of the second. It
// exists between the front end and the end of differentiation only.
#pragma once

#include "ir/tile/Dialect.h"

namespace nereid::tile {

inline constexpr llvm::StringLiteral tangentSymbol = "with_tangent", tangentLibrary = "nereid";

inline bool isWithTangent(mlir::Operation *op) {
  auto call = llvm::dyn_cast<ExternOp>(op);
  return call && call.getLibrary() == tangentLibrary && call.getSymbol() == tangentSymbol;
}

} // namespace nereid::tile
