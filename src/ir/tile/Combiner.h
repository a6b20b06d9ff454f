// What the combiner of a reduction or scan computes: the one place that knows which operations
// combine, in which orders they may, and what they leave alone.
#pragma once
#include "ir/tile/Dialect.h"

namespace nereid::tile {

/// What one result of a combiner is of its two sides. Every kind but `Other` is associative
/// (floats: as far as the language cares) and commutes.
enum class CombinerKind : uint8_t {
  Other,
  AddI,
  MulI,
  And,
  Or,
  Xor,
  MaxS,
  MinS,
  MaxU,
  MinU,
  AddF,
  MulF,
  MaxNum, ///< of a number and NaN the number
  MinNum,
  Maximum, ///< of a number and NaN NaN
  Minimum,
};

/// What result `result` of a combiner is, whatever else the combiner computes or asserts.
CombinerKind resultKind(mlir::Region &combiner, unsigned result);

/// What a combiner of one operand is that consists of one operation; `Other` for any other.
CombinerKind combinerKind(mlir::Region &combiner);

/// Is the result always one of the two sides?
bool isSelection(CombinerKind kind);

/// Does the op around the combiner say that its elements may be combined in any order?
bool declaresAnyOrder(mlir::Region &combiner);

/// May the combiner's sides change places? The op says that its order does not matter, or each
/// result is a commutative operation of its two sides.
bool commutes(mlir::Region &combiner);

/// The element of type `element` that the combination leaves alone; null for `Other`.
mlir::TypedAttr neutralElement(CombinerKind kind, mlir::Type element);

} // namespace nereid::tile
