// Conditions of schedules as texts: what a launcher computes from the scalars and the grid of a
// launch, to ask for a kernel with only the alternatives that this launch takes.
//
// A text is a list of steps, "; " between them. The last one's value is the condition, 0 or 1. A
// step is an operation, the type of its operands, for conversions that of its result, and what it
// takes: numbers of earlier steps, or a number by itself:
//
//   argument:i32 3; programs:i32 0; constant:i32 8; divsi:i32 1 2; cmpi.sge:i32 0 3
//
// Operations are those of MLIR's dialect `arith` by their names there; `index` has 64 bits.
#pragma once

#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"

#include <optional>
#include <string>

namespace nereid::differentiate {

/// Of a kernel: Differentiate.h.
inline constexpr llvm::StringLiteral conditionsAttribute = "tile.gradient_conditions";
inline constexpr llvm::StringLiteral knownConditionsAttribute = "tile.known_conditions";

struct ConditionText {
  std::string steps;
  llvm::SmallVector<unsigned> arguments; ///< of the kernel, that it depends on
};

/// Of its steps: 16 hexadecimal digits.
std::string idOfCondition(llvm::StringRef steps);

/// The value of the option `gradient_conditions`: ids and whether the conditions hold,
/// `id=1,id=0`. Nothing where it is malformed or names a condition twice.
std::optional<llvm::StringMap<bool>> parseConditions(llvm::StringRef text);

/// Of an i1 of a kernel; nothing where it depends on more than scalars and the grid, or is computed
/// by other operations than those a text may have.
std::optional<ConditionText> textOf(mlir::Value condition);

} // namespace nereid::differentiate
