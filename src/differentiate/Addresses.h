// Addresses as sums: an argument of the kernel, and integers times program ids, positions of ranges
// and other integers. What such sums say about where accesses meet.
//
// A block of pointers is one sum for all of its elements: every dimension that a range runs along
// is an atom. Arithmetic is taken not to wrap, as it must not for addresses of a tensor.
#pragma once

#include "ir/tile/Dialect.h"

#include "llvm/ADT/SmallVector.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nereid::differentiate {

/// One factor of a summand.
struct Atom {
  enum Kind : uint8_t {
    Lane,      ///< the position along dimension `number` of the block, from 0 to `extent` - 1
    ProgramId, ///< along axis `number` of the grid
    Symbol     ///< a scalar, by value
  } kind;
  unsigned number = 0;
  int64_t extent = 0;
  const void *value = nullptr;

  auto operator<=>(const Atom &) const = default;
};

/// Summands by their factors, sorted; the empty product is the constant.
struct Address {
  mlir::Value base; ///< the argument; null for an integer
  std::map<std::vector<Atom>, int64_t> terms;
};

/// Of an integer, a pointer, or a block of these; nothing where it is no such sum.
std::optional<Address> addressOf(mlir::Value value);

/// Whether two accesses of one program never touch the same element. False when that is not known.
bool neverMeet(mlir::Value first, mlir::Value second);

/// When each element of a block of addresses belongs to one program and one lane.
///
/// Sorted by their strides, positions and program ids are digits of a number of mixed radix: when
/// each stride exceeds what all smaller ones reach together, no two combinations give one address.
struct Ownership {
  /// Empty when there is one; else why not.
  std::string why;
  /// Axes of the grid that the addresses do not depend on: of one program each.
  llvm::SmallVector<unsigned> singleAxes;
  /// With a stride that is known at run time: `factor * stride` is at least `reach`, or at least
  /// `bound`, when that is not null, since a mask keeps positions below it.
  mlir::Value stride, bound;
  int64_t factor = 1, reach = 0;
};

/// `mask` may be null.
Ownership ownershipOf(mlir::Value address, mlir::Value mask);

} // namespace nereid::differentiate
