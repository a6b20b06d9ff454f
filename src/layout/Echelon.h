// Gaussian elimination of bit vectors, one at a time: the workhorse of this folder.
#pragma once
#include "llvm/ADT/bit.h"

#include <array>
#include <cstdint>
#include <utility>

namespace nereid::layout {

/// Columns brought to echelon form one after another: `value[p]` has p as its highest bit and is
/// the sum of the columns in `combination[p]`.
class Echelon {
public:
  /// `vector` minus what the columns so far span, with the columns that were subtracted. Linear in
  /// `vector`: what remains has zeros at all pivots.
  std::pair<uint64_t, uint64_t> reduce(uint64_t vector) const {
    uint64_t used = 0;
    while (uint64_t hit = vector & pivots) {
      unsigned pivot = 63 - llvm::countl_zero(hit);
      vector ^= value[pivot];
      used ^= combination[pivot];
    }
    return {vector, used};
  }

  /// Takes in column number `index`; true if it is independent of those before.
  bool insert(uint64_t column, unsigned index) {
    auto [rest, used] = reduce(column);
    if (rest == 0) {
      dependency = used | uint64_t(1) << index;
      return false;
    }
    unsigned pivot = 63 - llvm::countl_zero(rest);
    pivots |= uint64_t(1) << pivot;
    value[pivot] = rest;
    combination[pivot] = used ^ uint64_t(1) << index;
    return true;
  }

  bool spans(uint64_t vector) const { return reduce(vector).first == 0; }

  /// The columns that add up to zero, after `insert` returned false.
  uint64_t lastDependency() const { return dependency; }

private:
  uint64_t pivots = 0, dependency = 0;
  std::array<uint64_t, 64> value, combination; // entries without a pivot are never read
};

} // namespace nereid::layout
