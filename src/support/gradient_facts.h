// What a launcher may know of a gradient kernel and its arguments. The compiler finds it, the
// metadata of a compiled kernel tells it.
#pragma once

#include <cstdint>
#include <string>

namespace nereid {

/// Bits of a set.
enum GradientFact : uint8_t {
  SharedAxes = 7,     ///< axes of the grid whose programs add to the same elements of the gradient,
                      ///< and may add to partial sums
  FixedPlaces = 8,    ///< the owner of the gradient, where it writes and whether it does, follow
                      ///< from the grid and from scalars alone
  OneStore = 16,      ///< the owner stores each element that it writes once
  DecidesPlaces = 32, ///< a scalar that the places of gradients may follow from
};

/// A condition on scalars and the grid that decides how gradients are summed.
struct GradientCondition {
  std::string id;    ///< 16 hexadecimal digits, the same for the same steps
  std::string steps; ///< how to evaluate it: differentiate/Conditions.h
};

} // namespace nereid
