// What one compilation may take of time and memory before it is refused.
//
// The front end runs a program: loops are unrolled, functions inlined, tuples and strings built. A
// few lines can ask for more than any machine has, so all that grows is counted:
//
//   steps       expressions, statements and iterations evaluated, and the sizes of values walked
//   bytes       of the strings and tuples that were made, whether or not they live any more
//   operations  of tile IR, those of a called function for each of its calls (they are inlined)
//
// The sum of each is bounded for a compilation, by a default times the setting
// NEREID_COMPILE_BUDGET; one value, and how deep values and branches are nested, by constants. The
// numbers are far above what kernels need (the largest of the tests: 2 % of any) and are reached
// within seconds. They do not depend on the machine: what compiles here compiles everywhere.
#pragma once

#include <cstdint>

namespace nereid::frontend {

/// Of one known value, its items included: 16 MiB.
inline constexpr uint64_t maxValueBytes = uint64_t(1) << 24;
/// Bits of one known integer.
inline constexpr unsigned maxIntegerBits = 1u << 16;
/// Levels of tuples in tuples.
inline constexpr unsigned maxValueDepth = 400;
/// Levels of run-time branches around an operation: passes recurse over them.
inline constexpr unsigned maxBranchDepth = 256;

/// What may be counted in a compilation, and how much of it by default.
enum class Resource : uint8_t { Steps, Bytes, Operations };

struct BudgetLimits {
  uint64_t steps = uint64_t(1) << 24;
  uint64_t bytes = uint64_t(1) << 28;
  uint64_t operations = uint64_t(1) << 20;
  /// Items of a range that is unrolled or made a tuple.
  uint64_t iterations = uint64_t(1) << 16;
  /// Times the defaults, as messages say.
  uint64_t factor = 1;

  /// The defaults times `factor`; no limits for 0.
  static BudgetLimits times(uint64_t factor);
};

} // namespace nereid::frontend
