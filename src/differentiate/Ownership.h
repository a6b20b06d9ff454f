// Who reads an element, and how often: whether each element of a block of addresses belongs to one
// program, one lane and one round of the loops around it.
//
// An address is a sum of digits: positions of lanes, rounds and program ids, each times a stride.
// Sorted by their strides they are the digits of a number of mixed radix: when each stride is at
// least what all smaller ones reach together, no two combinations give one address. Strides and
// extents that are known at run time make conditions, which the kernel evaluates.
#pragma once

#include "differentiate/Addresses.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace nereid::differentiate {

/// Of an `if` whose condition is one of `Ownership::condition`: it has one value in all programs
/// and rounds, which a further derivative of the kernel needs to know.
inline constexpr llvm::StringLiteral uniformAttribute = "tile.uniform";

/// A number that is known at run time: a sum of products of numbers, grid sizes and scalars.
using Size = std::map<std::vector<Atom>, int64_t>;

/// `stride >= reach`, or `stride >= max(bound, 1)`: one of them, when there are both.
struct Requirement {
  Size stride;
  std::optional<Size> reach, bound;
};

struct Ownership {
  /// Empty when there is an owner where all requirements hold; else why not.
  std::string why;
  /// Axes of the grid that the addresses do not depend on: of one program each.
  llvm::SmallVector<unsigned> singleAxes;
  llvm::SmallVector<Requirement> requirements;

  /// The condition, an i1. `here` gives what a scalar of the kernel is at the insertion point.
  mlir::Value condition(mlir::OpBuilder &builder, mlir::Location loc,
                        llvm::function_ref<mlir::Value(mlir::Value)> here) const;
  /// The condition in words; empty when it always holds.
  std::string words(mlir::func::FuncOp kernel) const;
};

/// Of an access by all programs. Its conditions have one value in all of them. `mask` may be null.
Ownership ownershipOf(mlir::Operation *access, mlir::Value address, mlir::Value mask);

/// The same of one program: whether the rounds of the loops around the access reach elements of
/// their own. Of an access outside loops they do.
Ownership ownershipOfRounds(mlir::Operation *access, mlir::Value address, mlir::Value mask);

} // namespace nereid::differentiate
