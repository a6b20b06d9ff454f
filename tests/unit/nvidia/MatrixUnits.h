// The matrix instructions as the PTX ISA describes them ("Matrix Fragments for mma...", "Register
// Fragments and Shared Memory Matrix Layouts" of wgmma), for the simulator. Written from the ISA's
// formulas alone: what layouts and descriptors Nereid makes is what they are to check.
#pragma once
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <functional>
#include <string>

namespace nereid::test {

/// The threads that run one instruction together: 32 (mma.sync) or 128 (wgmma).
struct MatrixThreads {
  /// Operand `$number` of a thread; of an accumulator: what it is now.
  std::function<uint64_t(unsigned thread, unsigned number)> read;
  std::function<void(unsigned thread, unsigned number, uint64_t word)> write;
  /// A sum that the text names.
  std::function<uint64_t(unsigned thread, llvm::StringRef name)> named;
  /// Bytes of shared memory at an address (its low 18 bits); false: not to be had.
  std::function<bool(uint64_t at, unsigned bytes, uint64_t &word)> shared;
  /// A predicate by its name in the text.
  std::function<bool(llvm::StringRef name)> predicate;
};

/// Runs `mma.sync...` or `wgmma.mma_async...` with its operands as text. Sums are made in double
/// precision. Empty, or what is wrong.
std::string multiply(llvm::StringRef instruction, const MatrixThreads &threads);

} // namespace nereid::test
