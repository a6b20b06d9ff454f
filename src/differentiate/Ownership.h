// Who reads an element, and how often: whether each element of a block of addresses belongs to one
// program, one lane and one round of the loops around it.
//
// An address is a sum of digits: positions of lanes, rounds and program ids, each times a stride.
// Sorted by their strides they are the digits of a number of mixed radix: when each stride is at
// least what all smaller ones reach together, no two combinations give one address. Strides and
// extents that are known at run time make conditions, which the kernel evaluates.
#pragma once

#include "differentiate/Addresses.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace nereid::differentiate {

/// A number that is known at run time: a sum of products of numbers, grid sizes and scalars.
using Size = std::map<std::vector<Atom>, int64_t>;

/// `stride >= reach`, or `stride >= max(bound, 1)`: one of them, when there are both.
struct Requirement {
  Size stride;
  std::optional<Size> reach, bound;

  bool operator==(const Requirement &) const = default;
};

/// Positions that one product of numbers multiplies. Groups may stand inside each other in any
/// order, which is found at run time: each stride is at least one more than what the groups with
/// smaller strides reach together. There are as many positions as the lesser of the two numbers.
struct Group {
  Size stride;
  std::optional<Size> reach, bound;
};

/// A size as an i64. `here` gives what a scalar of the kernel is at the insertion point.
mlir::Value valueOf(const Size &size, mlir::OpBuilder &builder, mlir::Location loc,
                    llvm::function_ref<mlir::Value(mlir::Value)> here);

struct Ownership {
  /// Empty when there is an owner where all requirements hold; else why not.
  std::string why;
  /// Axes of the grid that the addresses do not depend on: of one program each.
  llvm::SmallVector<unsigned> singleAxes;
  llvm::SmallVector<Requirement> requirements;
  /// Other lists, each of which does in place of `requirements`: for other orders of the strides of
  /// program ids, whose order is found at run time.
  llvm::SmallVector<llvm::SmallVector<Requirement>, 0> alternatives;
  llvm::SmallVector<Group> groups;
  /// That the program's tile has these coordinates, an i1, and the same in words. Of
  /// `ownershipIn`; null and empty otherwise.
  mlir::Value holds;
  std::string holdsInWords;
  /// Coordinates of the program's tile that the addresses do not depend on, and what is left out of
  /// the addresses because it wraps around. Of `ownershipIn`.
  llvm::SmallVector<unsigned> shared;
  llvm::SmallVector<Wrap> wraps;

  bool isUnconditional() const { return requirements.empty() && groups.empty() && !holds; }
  /// The condition, an i1. `here` gives what a scalar of the kernel is at the insertion point.
  mlir::Value condition(mlir::OpBuilder &builder, mlir::Location loc,
                        llvm::function_ref<mlir::Value(mlir::Value)> here) const;
  /// The condition in words; empty when it always holds.
  std::string words(mlir::func::FuncOp kernel) const;
};

/// What the loads of one tensor add to its gradient, together.
struct SharedOwnership {
  /// As of one access: that each element belongs to one program, whichever loads reach it.
  Ownership owner;
  /// Of each load: whether no other one, and no other round of a loop, has added to its elements
  /// before when the program runs backwards, and none does between the reading and the writing.
  llvm::SmallVector<bool> isFirst;

  bool isOneStoreEach() const {
    return llvm::all_of(isFirst, [](bool first) { return first; });
  }
};

/// Of loads by all programs, in the order of the program. Two loads of one program may reach the
/// same element; two lanes of one load may not. The addresses of the loads are the digits of all of
/// them together and the distances between loads, which are digits as well.
SharedOwnership ownershipOf(llvm::ArrayRef<tile::LoadOp> loads);

/// Of loads that add to a row that only their program has: whether the lanes of each reach elements
/// of their own.
Ownership ownershipOfLanes(llvm::ArrayRef<tile::LoadOp> loads);

/// Of a load by all tiles with different coordinates that the addresses depend on. Positions that
/// wrap around belong to none of them.
Ownership ownershipIn(const Coordinates &coordinates, tile::LoadOp load);

/// Whether the addresses and the mask of a load, and whether it is made at all, follow from the
/// grid and from arguments that are scalars, not from memory. Adds these arguments to `deciding`.
bool isPlacedByScalars(tile::LoadOp load, llvm::BitVector &deciding);

/// Whether a scalar has one value in all programs.
bool isUniform(mlir::Value value, unsigned depth = 8);

/// Of one program: whether the rounds of the loops around an access reach elements of their own. Of
/// an access outside loops they do. `mask` may be null.
Ownership ownershipOfRounds(mlir::Operation *access, mlir::Value address, mlir::Value mask);

} // namespace nereid::differentiate
