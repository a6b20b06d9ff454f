// Addresses as sums: an argument of the kernel, and integers times program ids, positions of
// ranges, rounds of loops and other integers. What such sums say about where accesses meet.
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

struct Coordinates;

/// One factor of a summand. How atoms compare decides in which order factors are multiplied and
/// summands added, and must follow from the kernel alone: texts of conditions (Conditions.h) are
/// compared between compilations. So `value`, a place in memory, comes last.
struct Atom {
  enum Kind : uint8_t {
    Lane,      ///< the position along dimension `number` of the block, from 0 to `extent` - 1
    Round,     ///< of the loop `value`, counted from 0
    ProgramId, ///< along axis `number` of the grid
    Programs,  ///< how many there are along axis `number`
    Symbol,    ///< a scalar, by value
    Place      ///< the coordinate `number` of the program's tile, where these are asked for
  } kind;
  unsigned number = 0;
  int64_t extent = 0;
  unsigned order = 0;          ///< of a Symbol or a Round: a number from what the kernel computes
  const void *value = nullptr; ///< Symbol: a value; Round: an operation

  bool isMoving() const {
    return kind == Lane || kind == Round || kind == ProgramId || kind == Place;
  }
  mlir::Value symbol() const { return mlir::Value::getFromOpaquePointer(value); }
  mlir::Operation *loop() const {
    return static_cast<mlir::Operation *>(const_cast<void *>(value));
  }

  auto operator<=>(const Atom &) const = default;
};

/// Summands by their factors, sorted; the empty product is the constant.
struct Address {
  mlir::Value base; ///< the argument; null for an integer
  std::map<std::vector<Atom>, int64_t> terms;
};

/// A remainder of a block of positions, which repeats the first positions behind the last:
/// `position % bound`.
struct Wrap {
  mlir::Operation *op;
  mlir::Value position;
  Address sum, bound;               ///< of the position, along the dimensions of the whole block
  llvm::SmallVector<unsigned> dims; ///< which of these the position has
};

/// Of an integer, a pointer, or a block of these; nothing where it is no such sum.
std::optional<Address> addressOf(mlir::Value value);

/// The same of a block whose dimensions are these of another block.
std::optional<Address> addressOf(mlir::Value value, llvm::ArrayRef<unsigned> dims);

/// The same in coordinates of the program's tile, and without what wraps around, which is added to
/// `wraps`.
std::optional<Address> addressIn(const Coordinates &coordinates, mlir::Value value,
                                 llvm::SmallVectorImpl<Wrap> &wraps);
std::optional<Address> addressIn(const Coordinates &coordinates, mlir::Value value,
                                 llvm::ArrayRef<unsigned> dims, llvm::SmallVectorImpl<Wrap> &wraps);

/// The dimensions of a block, in order; none of a scalar.
llvm::SmallVector<unsigned> dimsOf(mlir::Value value);

/// Whether two accesses of one program never touch the same element in one round of the loops
/// around both. False when that is not known.
bool neverMeet(mlir::Value first, mlir::Value second);

} // namespace nereid::differentiate
